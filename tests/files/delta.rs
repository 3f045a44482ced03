//! Tables of Delta Lake, as a loader reads them: deleted rows, columns of other names and types, and logs
//! that lie.
#![allow(clippy::unwrap_used, reason = "a helper of a test stops it")]

mod commits;
mod row_ids;

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use forebay::arrow::array::*;
use forebay::arrow::datatypes::{
    DataType, Field, Float64Type, Int64Type, Schema, TimeUnit, TimestampMicrosecondType,
};
use forebay::filter::{Expr, Value as FilterValue, col};
use forebay::object_store::ObjectStoreExt;
use forebay::object_store::memory::InMemory;
use forebay::{Dataset, ErrorKind, OpenOptions, Shuffle};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};
use proptest::prelude::*;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::laws;
use crate::vectors::{inline, vector, z85};

/// The number of rows in a row group of the files.
const GROUP: usize = 4;

/// The UUID in the name of a file with deletion vectors.
const UUID: [u8; 16] =
    [0xd2, 0xc6, 0x39, 0xaa, 0x88, 0x16, 0x43, 0x1a, 0xaa, 0xf6, 0xd3, 0xfe, 0x25, 0x12, 0xff, 0x61];

/// A table whose log is written by hand.
pub(crate) struct DeltaTable(TempDir);

impl DeltaTable {
    pub(crate) fn new() -> Self {
        let folder = TempDir::new().unwrap();
        fs::create_dir(folder.path().join("_delta_log")).unwrap();
        DeltaTable(folder)
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn commit(&self, version: u64, actions: &[Value]) {
        let lines: String = actions.iter().map(|action| format!("{action}\n")).collect();
        fs::write(self.path().join(format!("_delta_log/{version:020}.json")), lines).unwrap();
    }

    /// Writes a file, and returns the action that adds it.
    fn file(&self, name: &str, columns: Vec<(Field, ArrayRef)>) -> Value {
        let (fields, arrays): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
        let rows = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap();
        self.rows(name, &rows, WriterProperties::builder().set_max_row_group_row_count(Some(GROUP)))
    }

    /// Writes a file of `rows`, and returns what adds it.
    pub(crate) fn rows(&self, name: &str, rows: &RecordBatch, written: WriterPropertiesBuilder) -> Value {
        let file = File::create(self.path().join(name)).unwrap();
        let mut writer = ArrowWriter::try_new(file, rows.schema(), Some(written.build())).unwrap();
        writer.write(rows).unwrap();
        writer.close().unwrap();
        let size = fs::metadata(self.path().join(name)).unwrap().len();
        let stats = json!({"numRecords": rows.num_rows()}).to_string();
        json!({"add": {"path": name, "partitionValues": {}, "size": size, "modificationTime": 1,
            "dataChange": true, "stats": stats}})
    }

    fn ids(&self, name: &str, ids: std::ops::Range<i64>) -> Value {
        self.values(name, &ids.collect::<Vec<_>>())
    }

    /// Writes a file of these ids, and returns the action that adds it.
    fn values(&self, name: &str, ids: &[i64]) -> Value {
        let ids = Int64Array::from_iter(ids.iter().copied());
        self.file(name, vec![(Field::new("id", DataType::Int64, true), Arc::new(ids))])
    }

    pub(crate) fn open(&self) -> forebay::Result<Dataset> {
        Dataset::open(self.path())
    }
}

pub(crate) fn protocol(features: &[&str]) -> Value {
    json!({"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features}})
}

pub(crate) fn metadata(fields: &Value, mapping: &str) -> Value {
    let schema = json!({"type": "struct", "fields": fields}).to_string();
    json!({"metaData": {"id": "t", "schemaString": schema, "partitionColumns": [],
        "configuration": {"delta.columnMapping.mode": mapping}}})
}

pub(crate) fn field(name: &str, of: &Value) -> Value {
    json!({"name": name, "type": of, "nullable": true, "metadata": {}})
}

fn mapped(name: &str, of: &Value, (stored, id): (&str, i32)) -> Value {
    json!({"name": name, "type": of, "nullable": true, "metadata":
        {"delta.columnMapping.id": id, "delta.columnMapping.physicalName": stored}})
}

fn only_ids() -> [Value; 2] {
    [protocol(&["deletionVectors"]), metadata(&json!([field("id", &json!("long"))]), "none")]
}

/// The action that adds a file, with deleted rows.
pub(crate) fn without(mut add: Value, deleted: Value) -> Value {
    add["add"]["deletionVector"] = deleted;
    add
}

/// The action that adds a file, with other statistics.
fn with(mut add: Value, stats: &Value) -> Value {
    add["add"]["stats"] = stats.to_string().into();
    add
}

/// Returns the ids that a loader delivers, in stored order.
fn ids(dataset: &Dataset) -> Vec<i64> {
    let loader = dataset.loader().shuffle(Shuffle::stored()).batch_size(3).build().unwrap();
    let batches =
        loader.epoch(0).map(|batch| batch.unwrap()["id"].as_primitive::<Int64Type>().values().to_vec());
    batches.flatten().collect()
}

#[test]
fn deleted_rows_are_not_rows_wherever_their_vectors_are() {
    let table = DeltaTable::new();
    let rows = BTreeSet::from([0, 5, 9]);
    let bytes = vector(&rows);
    let stored =
        [&[1u8][..], &(bytes.len() as u32).to_be_bytes(), &bytes, &crc32fast::hash(&bytes).to_be_bytes()];
    fs::write(table.path().join("deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"), stored.concat())
        .unwrap();
    let in_file = json!({"storageType": "u", "pathOrInlineDv": z85(&UUID), "offset": 1,
        "sizeInBytes": bytes.len(), "cardinality": 3});
    let [of_protocol, of_schema] = only_ids();
    let (a, b) = (table.ids("a.parquet", 0..10), table.ids("b.parquet", 10..16));
    table.commit(0, &[of_protocol, of_schema, a.clone(), b.clone()]);
    table.commit(1, &[json!({"remove": {"path": "a.parquet"}}), without(a, in_file)]);
    let inlined = without(b, inline(&BTreeSet::from([1, 2])));
    table.commit(2, &[json!({"remove": {"path": "b.parquet"}}), inlined]);
    let dataset = table.open().unwrap();
    assert_eq!((dataset.rows(), dataset.tables()[0].version, dataset.tables()[0].deleted), (11, 2, 5));
    assert_eq!(ids(&dataset), [1, 2, 3, 4, 6, 7, 8, 10, 13, 14, 15]);
    let first = OpenOptions::new().version(0).open(table.path()).unwrap();
    assert_eq!(ids(&first), (0..16).collect::<Vec<_>>());

    let store = Arc::new(InMemory::new());
    futures::executor::block_on(async {
        for folder in ["", "_delta_log/"] {
            for item in fs::read_dir(table.path().join(folder)).unwrap().map(Result::unwrap) {
                if item.path().is_file() {
                    let key = format!("data/t/{folder}{}", item.file_name().to_str().unwrap());
                    store.put(&key.into(), fs::read(item.path()).unwrap().into()).await.unwrap();
                }
            }
        }
    });
    let remote = Dataset::from_store(store, "data/t").unwrap();
    assert_eq!(remote.catalog().fingerprint, dataset.catalog().fingerprint);
    assert_eq!(ids(&remote), ids(&dataset));
}

/// The test deletes the files that statistics rule out, so opening one of them would fail.
#[test]
fn files_that_the_statistics_of_the_log_rule_out_are_never_opened() {
    let table = DeltaTable::new();
    let fields = json!([field("id", &json!("long")), field("part", &json!("string"))]);
    let mut of_schema = metadata(&fields, "none");
    of_schema["metaData"]["partitionColumns"] = json!(["part"]);
    let file = |name: &str, ids: std::ops::Range<i64>, part: &str| {
        let (least, greatest) = (ids.start, ids.end - 1);
        let mut add = with(
            table.ids(name, ids.clone()),
            &json!({"numRecords": ids.end - ids.start,
            "minValues": {"id": least}, "maxValues": {"id": greatest}, "nullCount": {"id": 0}}),
        );
        add["add"]["partitionValues"] = json!({"part": part});
        add
    };
    let unknown = with(table.ids("c.parquet", 20..30), &json!({"numRecords": 10}));
    let files = [file("a.parquet", 0..10, "x"), file("b.parquet", 10..20, "y"), unknown];
    table.commit(0, &[&[protocol(&[]), of_schema], &files[..]].concat());
    let whole = table.open().unwrap();
    let open = |filter: Expr| OpenOptions::new().folders(filter).open(table.path());
    for (gone, filter) in [
        ("a.parquet", col("id").gt_eq(15)),
        ("a.parquet", col("id").lt(0) | col("id").gt(9)),
        ("b.parquet", col("id").is_null() | col("part").eq("x") | col("id").gt(25)),
        ("a.parquet", !col("part").eq("x")),
    ] {
        let of = |dataset: &Dataset| {
            let loader = dataset.loader().filter(filter.clone()).shuffle(Shuffle::seeded(3)).build().unwrap();
            let places = loader.which(0, 0, 0).unwrap();
            (loader.position(), places.iter().map(|place| place.id).collect::<Vec<_>>())
        };
        let expected = of(&whole);
        let path = table.path().join(gone);
        fs::rename(&path, path.with_extension("gone")).unwrap();
        assert_eq!(laws::failure(&table.open().unwrap()).kind(), ErrorKind::NotFound);
        assert_eq!(of(&open(filter.clone()).unwrap()), expected, "{filter:?}");
        fs::rename(path.with_extension("gone"), path).unwrap();
    }
    assert!(open(col("id").lt(0)).is_ok(), "a file without statistics may have such rows");
    table.commit(1, &[json!({"remove": {"path": "c.parquet"}})]);
    let refused = open(col("id").lt(0)).unwrap_err().to_string();
    assert!(refused.contains("no row is selected"), "{refused}");
}

/// Covers a file from before the table's columns were renamed, dropped, added and widened, and one from
/// after. Pages with only deleted rows are not read, as if a filter had left the rows out.
#[test]
fn pages_of_which_all_rows_are_deleted_are_not_read() {
    const ROWS: i64 = 6000;
    const DELETED: u16 = 4096;
    const PAGE: usize = 500;
    let table = DeltaTable::new();
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS));
    let cells: ArrayRef = Arc::new(BinaryArray::from_iter_values((0..ROWS).map(|row| [row as u8; 300])));
    let rows = RecordBatch::try_from_iter([("id", ids), ("cell", cells)]).unwrap();
    let properties = WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_write_batch_size(PAGE)
        .set_data_page_row_count_limit(PAGE);
    let add = table.rows("a.parquet", &rows, properties);
    let fields = json!([field("id", &json!("long")), field("cell", &json!("binary"))]);
    table.commit(0, &[protocol(&["deletionVectors"]), metadata(&fields, "none"), add.clone()]);
    let read = || {
        let dataset = table.open().unwrap();
        let opened = dataset.traffic().bytes_needed;
        (self::ids(&dataset), dataset.traffic().bytes_needed - opened)
    };
    let (all, of_all) = read();
    assert_eq!(all.len(), ROWS as usize);
    let deleted = without(add, inline(&(0..DELETED).collect()));
    table.commit(1, &[json!({"remove": {"path": "a.parquet"}}), deleted]);
    let (left, of_left) = read();
    assert_eq!(left, (i64::from(DELETED)..ROWS).collect::<Vec<_>>());
    assert!(of_left < of_all / 2, "{of_left} of {of_all} bytes for less than a third of the rows");
}

#[test]
fn columns_have_the_names_and_types_that_the_table_gives_them_now() {
    let numbered = |name: &str, of: DataType, id: i32| {
        let number = HashMap::from([("PARQUET:field_id".to_owned(), id.to_string())]);
        Field::new(name, of, true).with_metadata(number)
    };
    let fields = json!([
        mapped("old", &json!("double"), ("c2", 2)),
        mapped("id", &json!("long"), ("c1", 1)),
        mapped("added", &json!("string"), ("c3", 3)),
    ]);
    for (mapping, stored) in [("name", ["c1", "c2", "old"]), ("id", ["x", "y", "old"])] {
        let table = DeltaTable::new();
        let one = table.file(
            "a.parquet",
            vec![
                (numbered(stored[0], DataType::Int32, 1), Arc::new(Int32Array::from(vec![1, 2]))),
                (numbered(stored[1], DataType::Float32, 2), Arc::new(Float32Array::from(vec![0.5, 1.5]))),
                (
                    numbered(stored[2], DataType::Utf8, 9),
                    Arc::new(StringArray::from(vec!["of a", "dropped one"])),
                ),
            ],
        );
        let two = table.file(
            "b.parquet",
            vec![
                (numbered("c3", DataType::Utf8, 3), Arc::new(StringArray::from(vec!["new"]))),
                (numbered("c1", DataType::Int64, 1), Arc::new(Int64Array::from(vec![3]))),
                (numbered("c2", DataType::Float64, 2), Arc::new(Float64Array::from(vec![2.5]))),
            ],
        );
        table
            .commit(0, &[protocol(&["columnMapping", "typeWidening"]), metadata(&fields, mapping), one, two]);
        let dataset = table.open().unwrap();
        let names: Vec<String> = dataset.schema().fields().iter().map(|field| field.name().clone()).collect();
        assert_eq!(names, ["old", "id", "added"]);
        assert_eq!(ids(&dataset), [1, 2, 3], "{mapping}");
        let loader = dataset.loader().columns(["old", "added"]).shuffle(Shuffle::stored()).batch_size(3);
        let batch = loader.build().unwrap().epoch(0).next().unwrap().unwrap();
        assert_eq!(batch["old"].as_primitive::<Float64Type>().values(), &[0.5, 1.5, 2.5]);
        assert_eq!(batch["added"].null_count(), 2, "{mapping}");
    }
}

/// Older versions of delta-rs write instants without the mark that they are in UTC.
#[test]
fn times_that_a_file_stores_without_a_zone_are_instants_if_the_table_says_so() {
    let table = DeltaTable::new();
    let time =
        |unit, zone: Option<&str>| Field::new("t", DataType::Timestamp(unit, zone.map(Into::into)), true);
    let adds = [
        table.file(
            "a.parquet",
            vec![(
                time(TimeUnit::Microsecond, Some("UTC")),
                Arc::new(TimestampMicrosecondArray::from(vec![1, 2]).with_timezone("UTC")),
            )],
        ),
        table.file(
            "b.parquet",
            vec![(
                time(TimeUnit::Microsecond, None),
                Arc::new(TimestampMicrosecondArray::from(vec![Some(-3), None])),
            )],
        ),
        table.file(
            "c.parquet",
            vec![(time(TimeUnit::Nanosecond, None), Arc::new(TimestampNanosecondArray::from(vec![4_000])))],
        ),
        table.file(
            "d.parquet",
            vec![(time(TimeUnit::Millisecond, None), Arc::new(TimestampMillisecondArray::from(vec![-5])))],
        ),
    ];
    let fields = json!([field("t", &json!("timestamp"))]);
    let first = [protocol(&[]), metadata(&fields, "none")];
    table.commit(0, &first.into_iter().chain(adds).collect::<Vec<_>>());
    let loader = table.open().unwrap().loader().shuffle(Shuffle::stored()).batch_size(6).build().unwrap();
    let batch = loader.epoch(0).next().unwrap().unwrap();
    let want = TimestampMicrosecondArray::from(vec![Some(1), Some(2), Some(-3), None, Some(4), Some(-5_000)]);
    assert_eq!(batch["t"].as_primitive::<TimestampMicrosecondType>(), &want.with_timezone("UTC"));
}

#[test]
fn what_a_log_cannot_say_is_an_error_with_its_place() {
    let refused = |add: &dyn Fn(&DeltaTable) -> Value| {
        let table = DeltaTable::new();
        let [of_protocol, of_schema] = only_ids();
        let add = add(&table);
        table.commit(0, &[of_protocol, of_schema, add]);
        let error = table.open().map_or_else(|error| error, |dataset| laws::failure(&dataset));
        (error.kind(), error.to_string())
    };
    let file = |table: &DeltaTable| table.ids("a.parquet", 0..10);
    let beyond = |table: &DeltaTable| without(file(table), inline(&BTreeSet::from([10])));
    let (kind, said) = refused(&beyond);
    assert!(
        kind == ErrorKind::Corrupt && said.contains("a.parquet: the table deletes rows beyond the 10"),
        "{said}"
    );
    let miscounted = |table: &DeltaTable| {
        let mut add = file(table);
        add["add"]["stats"] = json!({"numRecords": 11}).to_string().into();
        add
    };
    let (kind, said) = refused(&miscounted);
    assert!(kind == ErrorKind::Corrupt && said.contains("declares 11 rows, the file has 10"), "{said}");
    let of_another_size = |table: &DeltaTable| {
        let mut add = file(table);
        add["add"]["size"] = (add["add"]["size"].as_u64().unwrap() + 1).into();
        add
    };
    let (kind, said) = refused(&of_another_size);
    let is_told =
        said.contains("version 0 of the table says that this file has") && said.contains("restore the file");
    assert!(kind == ErrorKind::Corrupt && is_told, "{said}");
    let gone = |table: &DeltaTable| {
        let add = file(table);
        fs::remove_file(table.path().join("a.parquet")).unwrap();
        add
    };
    let (kind, said) = refused(&gone);
    let is_told =
        said.contains("version 0 of the table has this file, and it is gone") && said.contains("FSCK REPAIR");
    assert!(kind == ErrorKind::NotFound && is_told, "{said}");
    let elsewhere = |table: &DeltaTable| {
        let mut add = file(table);
        add["add"]["path"] = "../a.parquet".into();
        add
    };
    let (kind, said) = refused(&elsewhere);
    assert!(kind == ErrorKind::Unsupported && said.contains("leads out of the table"), "{said}");
    let damaged = |table: &DeltaTable| {
        let mut vector = inline(&BTreeSet::from([1]));
        vector["cardinality"] = 7.into();
        without(file(table), vector)
    };
    let (kind, said) = refused(&damaged);
    assert!(kind == ErrorKind::Corrupt && said.contains("it has 1 rows, the log says 7"), "{said}");
    let table = DeltaTable::new();
    table.commit(0, &[protocol(&["variantType"])]);
    let error = table.open().unwrap_err();
    assert!(error.kind() == ErrorKind::Unsupported && error.to_string().contains("variantType"), "{error}");
}

/// A row of a table on which filters are tried.
#[derive(Clone, Debug)]
struct Tried {
    whole: Option<i64>,
    real: Option<f64>,
    text: Option<String>,
    at: Option<i64>,
}

/// Draws values that are difficult for statistics: NaN, long texts, and times between milliseconds.
fn some_row() -> impl Strategy<Value = Tried> {
    let real = prop_oneof![4 => (-3i8..3).prop_map(|half| f64::from(half) / 2.0), 1 => Just(f64::NAN)];
    let text = prop_oneof!["[a-c]{0,2}", "a{30}[ab\u{10ffff}]{0,4}"];
    let at = prop_oneof![Just(1_000i64), 998i64..1_003, -1_001i64..-998];
    (prop::option::of(-3i64..3), prop::option::of(real), prop::option::of(text), prop::option::of(at))
        .prop_map(|(whole, real, text, at)| Tried { whole, real, text, at })
}

/// Returns the statistics of rows as Spark writes them: texts are cut after 32 characters, and the greatest
/// one gets a character behind all others; times are cut to milliseconds.
fn statistics(rows: &[Tried], is_tight: bool) -> Value {
    let moment = |at: i64| {
        let at = chrono::DateTime::from_timestamp_millis(at.div_euclid(1_000)).unwrap();
        at.to_rfc3339_opts(chrono::SecondsFormat::Millis, true)
    };
    let cut = |text: &str| text.chars().take(32).collect::<String>();
    let behind = |text: &String| match text.chars().count() > 32 {
        true => format!("{}\u{10ffff}", cut(text)),
        false => text.clone(),
    };
    let (mut least, mut greatest, mut nulls) = (json!({}), json!({}), json!({}));
    macro_rules! column {
        ($name:ident, $order:expr, $first:expr, $last:expr) => {
            let values = || rows.iter().filter_map(|row| row.$name.as_ref());
            nulls[stringify!($name)] = (rows.len() - values().count()).into();
            if let Some((one, other)) = values().min_by($order).zip(values().max_by($order)) {
                let (first, last) = ($first, $last);
                (least[stringify!($name)], greatest[stringify!($name)]) =
                    (json!(first(one)), json!(last(other)));
            }
        };
    }
    column!(whole, Ord::cmp, |value: &i64| *value, |value: &i64| *value);
    column!(text, Ord::cmp, |value: &String| cut(value), behind);
    column!(at, Ord::cmp, |value: &i64| moment(*value), |value: &i64| moment(*value));
    // NaN is greater than all other numbers, and JSON cannot express it.
    let real = |value: &f64| if value.is_nan() { json!("NaN") } else { json!(value) };
    column!(real, |a: &&f64, b: &&f64| a.total_cmp(b), real, real);
    json!({"numRecords": rows.len(), "minValues": least, "maxValues": greatest, "nullCount": nulls, "tightBounds": is_tight})
}

fn some_filter() -> impl Strategy<Value = Expr> {
    let compare = |name: &'static str, value: BoxedStrategy<FilterValue>| {
        (0..6u8, value).prop_map(move |(op, value)| match op {
            0 => col(name).eq(value),
            1 => col(name).not_eq(value),
            2 => col(name).lt(value),
            3 => col(name).lt_eq(value),
            4 => col(name).gt(value),
            _ => col(name).gt_eq(value),
        })
    };
    let whole = (-3i64..3).prop_map(FilterValue::from).boxed();
    let real = (-3i8..3).prop_map(|half| FilterValue::from(f64::from(half) / 2.0)).boxed();
    let text = || prop_oneof!["[a-c]{0,2}", "a{30}[ab\u{10ffff}]{0,4}"];
    let at = prop_oneof![Just(1i64), Just(2), Just(-1), Just(-2)];
    let at = (at, 0..3u32).prop_map(|(millisecond, more)| {
        let at = chrono::DateTime::from_timestamp_micros(millisecond * 1_000 + i64::from(more)).unwrap();
        FilterValue::from(at.to_rfc3339_opts(chrono::SecondsFormat::Micros, true))
    });
    let names = prop::sample::select(vec!["whole", "real", "text", "at"]);
    let leaf = prop_oneof![
        compare("whole", whole),
        compare("real", real),
        compare("text", text().prop_map(FilterValue::from).boxed()),
        compare("at", at.boxed()),
        text().prop_map(|prefix| col("text").starts_with(prefix)),
        names.prop_map(|name| col(name).is_null()),
    ];
    leaf.prop_recursive(2, 6, 2, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| a & b),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| a | b),
            inner.prop_map(|a| !a),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// A filter selects the same rows with the statistics of the log as without them.
    #[test]
    fn statistics_of_the_log_change_no_result(
        files in prop::collection::vec(
            (prop::collection::vec(some_row(), 1..6), prop::collection::btree_set(0u16..6, 0..4)), 1..5),
        filter in some_filter(),
    ) {
        let table = DeltaTable::new();
        let of_type = |name: &str, data_type: &str| field(name, &json!(data_type));
        let fields = json!([of_type("id", "long"), of_type("whole", "long"), of_type("real", "double"),
            of_type("text", "string"), of_type("at", "timestamp")]);
        let (mut plain, mut told, mut next) = (Vec::new(), Vec::new(), 0i64);
        for (at, (rows, deleted)) in files.iter().enumerate() {
            let ids = next..next + rows.len() as i64;
            next = ids.end;
            let zone: Arc<str> = "UTC".into();
            let times = rows.iter().map(|row| row.at).collect::<TimestampMicrosecondArray>();
            let times: ArrayRef = Arc::new(times.with_timezone(zone));
            let texts = rows.iter().map(|row| row.text.as_deref());
            let columns: Vec<(&str, ArrayRef)> = vec![
                ("id", Arc::new(Int64Array::from_iter(ids))),
                ("whole", Arc::new(Int64Array::from_iter(rows.iter().map(|row| row.whole)))),
                ("real", Arc::new(Float64Array::from_iter(rows.iter().map(|row| row.real)))),
                ("text", Arc::new(StringArray::from_iter(texts))),
                ("at", times),
            ];
            let columns = columns.into_iter().map(|(name, array)| {
                (Field::new(name, array.data_type().clone(), true), array)
            });
            let add = table.file(&format!("{at}.parquet"), columns.collect());
            let deleted: BTreeSet<u16> = deleted.iter().copied().filter(|row| usize::from(*row) < rows.len()).collect();
            let with_deleted = |add: Value| match deleted.is_empty() {
                true => add,
                false => without(add, inline(&deleted)),
            };
            plain.push(with_deleted(add.clone()));
            told.push(with_deleted(with(add, &statistics(rows, deleted.is_empty()))));
        }
        let first = [protocol(&["deletionVectors"]), metadata(&fields, "none")];
        let selected = |files: &[Value]| {
            table.commit(0, &[&first, files].concat());
            let dataset = OpenOptions::new().folders(filter.clone()).open(table.path())?;
            let loader = dataset.loader().filter(filter.clone()).shuffle(Shuffle::stored()).build()?;
            let batches = loader.epoch(0).collect::<forebay::Result<Vec<_>>>()?;
            let ids = batches.iter().flat_map(|batch| batch["id"].as_primitive::<Int64Type>().values().to_vec());
            Ok::<_, forebay::Error>(ids.collect::<Vec<i64>>())
        };
        match (selected(&plain), selected(&told)) {
            (Ok(plain), Ok(told)) => prop_assert_eq!(plain, told),
            (Err(one), Err(other)) => prop_assert_eq!(one.cause(), other.cause()),
            other => prop_assert!(false, "{:?}", other),
        }
    }
}

#[test]
fn the_newest_versions_of_several_tables_are_opened_between_epochs() {
    let (one, other) = (DeltaTable::new(), DeltaTable::new());
    for (table, first) in [(&one, 0), (&other, 100)] {
        let add = table.ids("a.parquet", first..first + 10);
        table.commit(0, &[&only_ids()[..], &[add]].concat());
    }
    let dataset = Dataset::open([one.path(), other.path()]).unwrap();
    assert!(dataset.newest().unwrap().is_none());
    other.commit(1, &[other.ids("b.parquet", 110..115)]);
    let newer = dataset.newest().unwrap().unwrap();
    let versions = |dataset: &Dataset| dataset.tables().iter().map(|table| table.version).collect::<Vec<_>>();
    assert_eq!((versions(&dataset), versions(&newer)), (vec![0, 0], vec![0, 1]));
    assert_eq!((newer.rows(), dataset.rows()), (25, 20));
    let state = dataset.loader().build().unwrap().position();
    let refused = newer.loader().build().unwrap().restore(&state).unwrap_err().to_string();
    assert!(refused.contains("saved with version 0 of") && refused.contains("has version 1"), "{refused}");
    let by_location =
        newer.tables().iter().zip([0, 0]).map(|(table, version)| (table.location.to_string(), version));
    let again = OpenOptions::new().versions(by_location.collect()).open([one.path(), other.path()]).unwrap();
    again.loader().build().unwrap().restore(&state).unwrap();
    fs::rename(other.path().join("_delta_log"), other.path().join("_gone")).unwrap();
    assert_eq!(dataset.newest().unwrap_err().kind(), ErrorKind::DatasetChanged);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Deletion vectors in the log list the deleted rows.
    #[test]
    fn the_laws_hold_on_tables_with_deleted_rows(files in laws::files(), shared in laws::shared()) {
        let table = DeltaTable::new();
        let mut actions = only_ids().to_vec();
        let (mut live, mut next) = (Vec::new(), 0i64);
        for (at, (rows, deleted)) in files.iter().enumerate() {
            let add = table.ids(&format!("{at}.parquet"), next..next + i64::from(*rows));
            live.extend((0..*rows).filter(|row| !deleted.contains(row)).map(|row| next + i64::from(row)));
            next += i64::from(*rows);
            actions.push(if deleted.is_empty() { add } else { without(add, inline(deleted)) });
        }
        table.commit(0, &actions);
        laws::hold(&table.open().unwrap(), &live, shared)?;
    }
}
