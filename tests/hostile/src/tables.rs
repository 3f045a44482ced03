//! Logs and metadata of tables.

use std::sync::Arc;

use bytes::Bytes;
use forebay::arrow::array::{
    Array, ArrayRef, Int32Array, Int64Array, ListBuilder, MapBuilder, RecordBatch, StringArray,
    StringBuilder, StructArray,
};
use forebay::arrow::buffer::NullBuffer;
use forebay::arrow::datatypes::Field;
use forebay_delta::{Replay, VectorPlace};
use forebay_iceberg::{Manifest, Metadata, Scan, Wanted, manifests};
use parquet::arrow::ArrowWriter;
use serde_json::{Value, json};

#[path = "../../files/iceberg/avro.rs"]
mod avro;

/// The folder of the table that the logs describe.
const ROOT: &str = "file:///t";

/// The separator between the files of a log, which are listed from the newest to the oldest.
const NEXT: &[u8] = b"\n---\n";

/// A log is refused, or gives a version whose files are in the table.
pub(crate) fn delta_log(data: &[u8]) -> bool {
    let mut replay = Replay::new(ROOT);
    for file in split(data) {
        let taken = match file.starts_with(b"PAR1") {
            true => replay.checkpoint("00.checkpoint.parquet", Bytes::copy_from_slice(file)).map(drop),
            false => replay.commit(file),
        };
        if taken.is_err() || replay.check().is_err() {
            return false;
        }
    }
    let Ok(table) = replay.finish(1) else { return false };
    let _ = table.rows();
    for file in &table.files {
        assert!(!file.path.split('/').any(|part| part == ".."), "{:?} leads out of the table", file.path);
        if let Some(deletion) = &file.deletion
            && let Ok(VectorPlace::Inline(bytes)) = deletion.place(ROOT)
        {
            let _ = deletion.rows(&bytes);
        }
    }
    true
}

fn split(mut data: &[u8]) -> Vec<&[u8]> {
    let mut files = Vec::new();
    while let Some(at) = data.windows(NEXT.len()).position(|bytes| bytes == NEXT) {
        files.push(&data[..at]);
        data = &data[at + NEXT.len()..];
    }
    files.push(data);
    files
}

/// A deletion vector is refused, or its rows ascend and have the number that the log states. The first byte
/// is that number.
pub(crate) fn deletion_vector(data: &[u8]) -> bool {
    let Some((&count, bytes)) = data.split_first() else { return false };
    let size = bytes.len().saturating_sub(8);
    let add = json!({"add": {"path": "a.parquet", "partitionValues": {}, "size": 1, "deletionVector":
        {"storageType": "p", "pathOrInlineDv": format!("{ROOT}/v.bin"), "offset": 0, "sizeInBytes": size,
            "cardinality": count}}});
    let mut replay = Replay::new(ROOT);
    replay.commit([head(), add.to_string()].join("\n").as_bytes()).expect("the commit is sound");
    let table = replay.finish(0).expect("the commit is sound");
    let deletion = table.files[0].deletion.as_ref().expect("the file has a vector");
    let Ok(rows) = deletion.rows(bytes) else { return false };
    assert!(rows.iter().all(|range| range.start < range.end));
    assert!(rows.windows(2).all(|pair| pair[0].end <= pair[1].start), "{rows:?} does not ascend");
    assert_eq!(rows.iter().map(|range| range.end - range.start).sum::<u64>(), u64::from(count));
    true
}

/// Returns the actions at the beginning of a commit.
fn head() -> String {
    let field = json!({"name": "a", "type": "long", "nullable": true, "metadata": {}});
    let schema = json!({"type": "struct", "fields": [field]}).to_string();
    let features = json!(["deletionVectors"]);
    [
        json!({"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features,
            "writerFeatures": features}}),
        json!({"metaData": {"id": "t", "format": {"provider": "parquet", "options": {}}, "schemaString": schema,
            "partitionColumns": [], "configuration": {}, "createdTime": 0}}),
    ]
    .map(|action| action.to_string())
    .join("\n")
}

pub(crate) fn delta_logs() -> Vec<Vec<u8>> {
    let add = |name: &str| {
        json!({"add": {"path": name, "partitionValues": {}, "size": 700, "modificationTime": 1, "dataChange": true,
            "stats": "{\"numRecords\":3,\"minValues\":{\"a\":1},\"maxValues\":{\"a\":9},\"nullCount\":{\"a\":0}}"}})
    };
    let first = [head(), add("part-0.parquet").to_string(), add("b%20c.parquet").to_string()].join("\n");
    let remove = json!({"remove": {"path": "part-0.parquet", "deletionTimestamp": 2, "dataChange": true}});
    let inline = json!({"add": {"path": "d.parquet", "partitionValues": {}, "size": 7, "deletionVector":
        {"storageType": "i", "pathOrInlineDv": "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
            "sizeInBytes": 40, "cardinality": 6}}});
    let second = format!("{remove}\n{inline}");
    vec![
        first.clone().into_bytes(),
        [second.as_bytes(), NEXT, first.as_bytes()].concat(),
        [second.as_bytes(), NEXT, &checkpoint()].concat(),
    ]
}

/// Returns a checkpoint of a table with partitions and nested columns, as a Parquet file. Its rows are the
/// protocol, the metadata and two files.
fn checkpoint() -> Vec<u8> {
    let fields: Vec<Value> = [
        ("a", json!("long")),
        ("price", json!("decimal(10,2)")),
        ("words", json!({"type": "array", "elementType": "string", "containsNull": true})),
        (
            "counts",
            json!({"type": "map", "keyType": "string", "valueType": "integer", "valueContainsNull": true}),
        ),
        ("day", json!("date")),
    ]
    .map(|(name, kind)| json!({"name": name, "type": kind, "nullable": true, "metadata": {}}))
    .into();
    let schema = json!({"type": "struct", "fields": fields}).to_string();
    let text = |values: [&str; 4]| Arc::new(StringArray::from(values.to_vec())) as ArrayRef;
    let stats =
        r#"{"numRecords":3,"minValues":{"a":1,"price":1.25},"maxValues":{"a":9},"nullCount":{"a":0}}"#;
    let (mut days, mut names) = (
        MapBuilder::new(None, StringBuilder::new(), StringBuilder::new()),
        ListBuilder::new(StringBuilder::new()),
    );
    for row in 0..4 {
        days.keys().append_value("day");
        days.values().append_option((row < 3).then_some("2024-02-29"));
        days.append(true).unwrap();
        names.values().append_value(if row == 0 { "deletionVectors" } else { "day" });
        names.append(true);
    }
    let names: ArrayRef = Arc::new(names.finish());
    let versions = |version: i32| Arc::new(Int32Array::from(vec![version; 4])) as ArrayRef;
    let columns = [
        (
            "add",
            [false, false, true, true],
            vec![
                ("path", text(["", "", "part-0.parquet", "day=2024-02-29/b%20c.parquet"])),
                ("partitionValues", Arc::new(days.finish()) as ArrayRef),
                ("size", Arc::new(Int64Array::from(vec![0, 0, 700, 7]))),
                ("stats", text(["", "", stats, "{}"])),
            ],
        ),
        (
            "metaData",
            [false, true, false, false],
            vec![
                ("id", text(["", "t", "", ""])),
                ("schemaString", text(["", &schema, "", ""])),
                ("partitionColumns", names.clone()),
            ],
        ),
        (
            "protocol",
            [true, false, false, false],
            vec![
                ("minReaderVersion", versions(3)),
                ("minWriterVersion", versions(7)),
                ("readerFeatures", names.clone()),
                ("writerFeatures", names),
            ],
        ),
    ];
    let columns = columns.map(|(name, present, members)| {
        let field = |name: &str, array: &ArrayRef| Field::new(name, array.data_type().clone(), true);
        let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) =
            members.into_iter().map(|(name, array)| (field(name, &array), array)).unzip();
        let present = Some(NullBuffer::from(present.to_vec()));
        (name, Arc::new(StructArray::new(fields.into(), arrays, present)) as ArrayRef, true)
    });
    let rows = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    let mut writer = ArrowWriter::try_new(Vec::new(), rows.schema(), None).unwrap();
    writer.write(&rows).unwrap();
    writer.into_inner().unwrap()
}

pub(crate) fn vectors() -> Vec<Vec<u8>> {
    // The bitmap has the rows 3, 4 and 9: magic, number of bitmaps, key, then a bitmap with one array.
    let mut bitmap = 1_681_511_377_u32.to_le_bytes().to_vec();
    bitmap.extend(1_u64.to_le_bytes());
    bitmap.extend(0_u32.to_le_bytes());
    bitmap.extend(12_346_u32.to_le_bytes());
    bitmap.extend(1_u32.to_le_bytes());
    bitmap.extend([0, 0, 2, 0]);
    bitmap.extend(16_u32.to_le_bytes());
    bitmap.extend([3, 0, 4, 0, 9, 0]);
    let mut framed = vec![3];
    framed.extend((bitmap.len() as u32).to_be_bytes());
    framed.extend(&bitmap);
    framed.extend(crc32fast::hash(&bitmap).to_be_bytes());
    vec![framed]
}

fn about_table() -> Value {
    json!({"format-version": 2, "table-uuid": "u", "location": ROOT, "current-schema-id": 0,
        "schemas": [{"schema-id": 0, "type": "struct", "fields": [
            {"id": 1, "name": "id", "required": false, "type": "long"},
            {"id": 2, "name": "day", "required": false, "type": "date"},
            {"id": 3, "name": "price", "required": false, "type": "decimal(10, 2)"},
            {"id": 4, "name": "words", "required": false, "type":
                {"type": "list", "element-id": 5, "element": "string", "element-required": false}},
            {"id": 6, "name": "counts", "required": false, "type":
                {"type": "map", "key-id": 7, "key": "string", "value-id": 8, "value": "int",
                    "value-required": false}}]}],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields":
            [{"source-id": 1, "field-id": 1000, "name": "id", "transform": "bucket[4]"}]}],
        "properties": {}, "current-snapshot-id": 77,
        "refs": {"main": {"snapshot-id": 77, "type": "branch"}},
        "snapshot-log": [{"snapshot-id": 77, "timestamp-ms": 1000}],
        "snapshots": [{"snapshot-id": 77, "timestamp-ms": 1000, "schema-id": 0,
            "manifest-list": format!("{ROOT}/metadata/list.avro")}]})
}

/// The metadata of a table is refused, or has a newest snapshot with columns, or says why it has none.
pub(crate) fn metadata(data: &[u8]) -> bool {
    let Ok(metadata) = Metadata::parse(data) else { return false };
    for wanted in [Wanted::Newest, Wanted::Named("main"), Wanted::Time(1_000)] {
        if let Ok(chosen) = metadata.choose(wanted)
            && let Ok(scan) = Scan::new(&metadata, chosen.schema)
        {
            assert!(scan.finish().files.is_empty());
        }
    }
    true
}

pub(crate) fn metadata_files() -> Vec<Vec<u8>> {
    vec![about_table().to_string().into_bytes()]
}

/// A manifest, or a list of them, is refused or read.
pub(crate) fn manifest(data: &[u8]) -> bool {
    let is_list = manifests(data).is_ok();
    let metadata = Metadata::parse(about_table().to_string().as_bytes()).expect("the metadata is sound");
    let mut scan = Scan::new(&metadata, 0).expect("the schema is sound");
    let is_manifest = scan.manifest(&Manifest::alone("file:///t/metadata/m0.avro"), data).is_ok();
    let _ = scan.finish();
    is_list || is_manifest
}

pub(crate) fn manifest_files() -> Vec<Vec<u8>> {
    let file = json!({"content": 0, "file_path": format!("{ROOT}/a.parquet"), "file_format": "PARQUET",
        "partition": {"id": 2}, "record_count": 3, "file_size_in_bytes": 700, "split_offsets": [4]});
    let entry = json!({"status": 1, "sequence_number": null, "data_file": file});
    let listed = json!({"manifest_path": format!("{ROOT}/metadata/m0.avro"), "partition_spec_id": 0,
        "manifest_length": 700, "content": 0, "sequence_number": 1});
    let partition = json!([{"name": "id", "type": ["null", "int"], "default": null, "field-id": 1000}]);
    let of_files = avro::of_manifest(&partition);
    let entries = [entry.clone(), entry];
    vec![
        avro::file(&of_files, "null", &entries),
        avro::file(&of_files, "deflate", &entries),
        avro::file(&avro::of_list(), "null", &[listed]),
    ]
}
