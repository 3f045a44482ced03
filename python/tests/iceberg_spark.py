"""Writes Iceberg tables with Spark, and saves what Spark reads from each of their snapshots.

python iceberg_spark.py WAREHOUSE EXPECTED JAR
"""

import sys

from pyspark.sql import SparkSession

warehouse, out, jar = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.jars", jar)
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.sql.session.timeZone", "UTC")
    .config("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    .config("spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
    .config("spark.sql.catalog.c", "org.apache.iceberg.spark.SparkCatalog")
    .config("spark.sql.catalog.c.type", "hadoop")
    .config("spark.sql.catalog.c.warehouse", warehouse)
    .getOrCreate()
)
sql = spark.sql
mor = ", ".join(f"'write.{verb}.mode'='merge-on-read'" for verb in ("delete", "update", "merge"))
columns = (
    "id bigint, name string, price decimal(10,2), day date, at timestamp, place string, "
    "tags array<string>, inner struct<x: int, y: string>, pairs map<string, int>"
)
ROWS = """select id, if(id % 7 = 0, null, concat('n', id)) name, cast(id / 4 as decimal(10,2)) price,
    if(id % 5 = 0, null, date_add(date'2024-05-01', cast(id % 3 as int))) day,
    timestamp_micros(1715000000000000 + id * 1000001) at,
    element_at(array('a b', 'c/d=e%', 'ü'), cast(id % 3 as int) + 1) place,
    array_repeat(concat('t', id), cast(id % 3 as int)) tags, named_struct('x', cast(id as int), 'y', concat('y', id)) inner,
    map(concat('k', id), cast(id as int)) pairs from range({begin}, {end}) """


def rows(table, begin, end):
    sql(f"insert into {table} {ROWS.format(begin=begin, end=end)}")


for version in (1, 2, 3):
    t = f"c.db.t{version}"
    more = mor if version > 1 else "'x'='y'"
    sql(
        f"create table {t} ({columns}) using iceberg partitioned by (day, place, bucket(4, id)) "
        f"tblproperties ('format-version'='{version}', {more})"
    )
    rows(t, 0, 60)
    rows(t, 60, 90)
    sql(f"delete from {t} where id % 4 = 1")
    sql(f"update {t} set name = 'changed' where id > 80")
    sql(f"alter table {t} create tag early")
    sql(f"alter table {t} rename column name to title")
    sql(f"alter table {t} drop column price")
    sql(f"alter table {t} add column extra int")
    sql(f"alter table {t} alter column inner.x type bigint")
    sql(f"alter table {t} rename column inner.y to z")
    sql(f"alter table {t} alter column extra first")
    nulls = "null, null, null, null, null"
    sql(f"insert into {t} values (7, 1000, 'late', null, {nulls}), (null, 1001, null, null, {nulls})")
    sql(f"alter table {t} replace partition field day with months(day)")
    sql(f"alter table {t} drop partition field place")
    sql(f"insert into {t} values (8, 1002, 'later', date'2024-07-01', {nulls})")
    sql(f"delete from {t} where id % 4 = 2")
    sql(
        f"merge into {t} t using (select 4L id, 'merged' title union all select 2000L, 'new') s on t.id = s.id "
        f"when matched then update set title = s.title when not matched then insert (extra, id, title, day, at, place, tags, inner, pairs) "
        f"values (null, s.id, s.title, null, {nulls})"
    )
    sql(f"alter table {t} create branch side")
    sql(f"insert into {t}.branch_side values (null, 3000, 'side', null, {nulls})")
    sql(f"call c.system.rewrite_data_files('db.t{version}')")
    sql(f"delete from {t} where id = 1000")
t = "c.db.t4"
jvm, gateway = spark._jvm, spark.sparkContext._gateway
sql(f"create table {t} (id bigint, name string, w double) using iceberg tblproperties ('format-version'='2')")
# These numbers have more than 32 bits, because the gateway passes only such numbers to Java as long.
high = 1 << 40
sql(f"insert into {t} select {high} + id, if(id % 3 = 0, null, concat('n', id % 10)), id / 2 from range(0, 50)")


def equality(names, values):
    table = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, t)
    schema = table.schema()
    array = gateway.new_array(jvm.java.lang.String, len(names))
    ids = gateway.new_array(jvm.int, len(names))
    for at, name in enumerate(names):
        array[at], ids[at] = name, schema.findField(name).fieldId()
    part = schema.select(array)
    factory = jvm.org.apache.iceberg.data.GenericAppenderFactory(schema, table.spec(), ids, part, None)
    file = table.io().newOutputFile(f"{table.location()}/data/{'-'.join(names)}-{len(values)}.parquet")
    file = jvm.org.apache.iceberg.encryption.EncryptedFiles.plainAsEncryptedOutput(file)
    writer = factory.newEqDeleteWriter(file, jvm.org.apache.iceberg.FileFormat.PARQUET, None)
    for row in values:
        record = jvm.org.apache.iceberg.data.GenericRecord.create(part)
        for name, value in zip(names, row):
            record.setField(name, high + value if isinstance(value, int) else value)
        writer.write(record)
    writer.close()
    table.newRowDelta().addDeletes(writer.toDeleteFile()).commit()
    sql(f"refresh table {t}")


equality(["id"], [[3], [4], [5]])
sql(f"insert into {t} select {high} + id, 'back', 0.5D from range(3, 6)")
equality(["name"], [[None], ["n7"]])
equality(["id", "name"], [[1, "n1"], [2, "other"], [4, "back"]])
sql(f"alter table {t} rename column name to title")
sql(f"alter table {t} drop column w")
for version in (1, 2, 3, 4):
    t = f"c.db.t{version}"
    for row in sql(f"select snapshot_id from {t}.snapshots").collect():
        frame = sql(f"select * from {t} version as of {row[0]}")
        frame.coalesce(1).write.parquet(f"{out}/t{version}/{row[0]}")
    spark.read.table(t).coalesce(1).write.parquet(f"{out}/t{version}/newest")
    if version < 4:
        for name in ("early", "side"):
            sql(f"select * from {t} version as of '{name}'").coalesce(1).write.parquet(f"{out}/t{version}/{name}")
