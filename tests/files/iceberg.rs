//! Tables of Apache Iceberg, as a loader reads them: rows that several kinds of files delete, columns that
//! are found by number, and wrong metadata.
#![allow(clippy::unwrap_used, reason = "a helper of a test stops it")]

mod avro;
mod commits;
mod lineage;
mod many;
mod puffin;

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use forebay::arrow::array::*;
use forebay::arrow::datatypes::{DataType, Field, Int64Type, Schema};
use forebay::filter::{Expr, col};
use forebay::object_store::ObjectStoreExt;
use forebay::object_store::memory::InMemory;
use forebay::{Dataset, ErrorKind, OpenOptions, Shuffle};
use forebay_iceberg::{Metadata, Scan, manifests};
use parquet::arrow::{ArrowWriter, PARQUET_FIELD_ID_META_KEY};
use proptest::prelude::*;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::laws;

/// The location that the tables have in their metadata, although they were moved since.
const WRITTEN: &str = "s3://acme/lake/t";

const MUTANTS: u64 = 10_000;

/// A table whose metadata is written by hand.
struct IcebergTable {
    folder: TempDir,
    /// The manifests, each with its sequence number, its content and its entries.
    manifests: Vec<(i64, i64, Vec<Value>)>,
    /// The id of the first row of each manifest, for a table that tracks row ids.
    first_row_ids: Vec<i64>,
    /// The fields of the schema.
    fields: Value,
    /// The fields by which files are partitioned, and the Avro fields for their values in manifests.
    partition: (Value, Value),
    properties: Value,
}

impl IcebergTable {
    fn new(fields: Value) -> Self {
        let folder = TempDir::new().unwrap();
        fs::create_dir(folder.path().join("metadata")).unwrap();
        IcebergTable {
            folder,
            manifests: vec![],
            first_row_ids: vec![],
            fields,
            partition: (json!([]), json!([])),
            properties: json!({}),
        }
    }

    fn of_ids() -> Self {
        IcebergTable::new(json!([{"id": 1, "name": "id", "type": "long", "required": false}]))
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file, and returns its entry for a manifest.
    fn file(&self, name: &str, columns: Vec<(Field, ArrayRef)>) -> Value {
        let (fields, arrays): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
        let rows = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap();
        let file = File::create(self.path().join(name)).unwrap();
        let mut writer = ArrowWriter::try_new(file, rows.schema(), None).unwrap();
        writer.write(&rows).unwrap();
        writer.close().unwrap();
        let size = fs::metadata(self.path().join(name)).unwrap().len();
        json!({"content": 0, "file_path": format!("{WRITTEN}/{name}"), "file_format": "PARQUET", "partition": {},
            "record_count": rows.num_rows(), "file_size_in_bytes": size, "split_offsets": [4]})
    }

    fn ids(&self, name: &str, ids: impl IntoIterator<Item = i64>) -> Value {
        self.file(name, vec![(numbered("id", DataType::Int64, 1), Arc::new(Int64Array::from_iter(ids)))])
    }

    /// Returns a file that deletes rows by their positions.
    fn positions(&self, name: &str, rows: &[(&str, i64)]) -> Value {
        let paths = StringArray::from_iter_values(rows.iter().map(|(file, _)| format!("{WRITTEN}/{file}")));
        let places = Int64Array::from_iter_values(rows.iter().map(|(_, row)| *row));
        let file = self.file(
            name,
            vec![
                (numbered("file_path", DataType::Utf8, 2_147_483_546), Arc::new(paths)),
                (numbered("pos", DataType::Int64, 2_147_483_545), Arc::new(places)),
            ],
        );
        with(file, json!({"content": 1}))
    }

    /// Returns a file that deletes the rows with these ids.
    fn equal(&self, name: &str, ids: impl IntoIterator<Item = Option<i64>>) -> Value {
        let ids = Int64Array::from_iter(ids);
        let file = self.file(name, vec![(numbered("id", DataType::Int64, 1), Arc::new(ids))]);
        with(file, json!({"content": 2, "equality_ids": [1]}))
    }

    /// Returns a deletion vector for the rows of a file.
    fn puffin(&self, name: &str, file: &str, rows: &[u16]) -> Value {
        let bytes = [b"PFA1", &*vector(rows), b"PFA1"].concat();
        fs::write(self.path().join(name), &bytes).unwrap();
        json!({"content": 1, "file_path": format!("{WRITTEN}/{name}"), "file_format": "PUFFIN", "partition": {},
            "record_count": rows.len(), "file_size_in_bytes": bytes.len(),
            "referenced_data_file": format!("{WRITTEN}/{file}"), "content_offset": 4,
            "content_size_in_bytes": bytes.len() - 8})
    }

    fn add(&mut self, sequence: i64, files: Vec<Value>) -> &mut Self {
        let content = i64::from(files.iter().any(|file| file["content"] != 0));
        let entry = |file| json!({"status": 1, "sequence_number": null, "data_file": file});
        self.manifests.push((sequence, content, files.into_iter().map(entry).collect()));
        self
    }

    fn metadata(&self) -> Value {
        json!({"format-version": 3, "table-uuid": "u", "location": WRITTEN, "current-schema-id": 0,
            "schemas": [{"schema-id": 0, "type": "struct", "fields": self.fields}], "default-spec-id": 0,
            "partition-specs": [{"spec-id": 0, "fields": self.partition.0}], "properties": self.properties,
            "current-snapshot-id": 77, "refs": {"main": {"snapshot-id": 77, "type": "branch"}},
            "snapshots": [{"snapshot-id": 77, "timestamp-ms": 1_000, "schema-id": 0,
                "manifest-list": format!("{WRITTEN}/metadata/list.avro")}]})
    }

    /// Writes the metadata, the list of manifests, and the manifests.
    fn write(&self) -> &Self {
        let folder = self.path().join("metadata");
        let codecs = ["null", "deflate", "snappy", "zstandard"].into_iter().cycle();
        let mut listed = Vec::new();
        for (at, ((sequence, content, entries), codec)) in self.manifests.iter().zip(codecs).enumerate() {
            let bytes = avro::file(&avro::of_manifest(&self.partition.1), codec, entries);
            fs::write(folder.join(format!("m{at}.avro")), &bytes).unwrap();
            listed.push(
                json!({"manifest_path": format!("{WRITTEN}/metadata/m{at}.avro"), "partition_spec_id": 0,
                "manifest_length": bytes.len(), "content": content, "sequence_number": sequence,
                "first_row_id": self.first_row_ids.get(at)}),
            );
        }
        fs::write(folder.join("list.avro"), avro::file(&avro::of_list(), "deflate", &listed)).unwrap();
        fs::write(folder.join("v1.metadata.json"), self.metadata().to_string()).unwrap();
        self
    }

    fn open(&self) -> forebay::Result<Dataset> {
        Dataset::open(self.path())
    }

    /// The error of opening the table, or of reading its rows.
    fn refusal(&self) -> forebay::Error {
        self.write().open().map_or_else(|error| error, |dataset| laws::failure(&dataset))
    }
}

fn numbered(name: &str, data_type: DataType, id: i32) -> Field {
    Field::new(name, data_type, true)
        .with_metadata(HashMap::from([(PARQUET_FIELD_ID_META_KEY.to_owned(), id.to_string())]))
}

fn with(mut value: Value, more: Value) -> Value {
    value.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    value
}

fn batches(dataset: &Dataset) -> Vec<RecordBatch> {
    let loader = dataset.loader().shuffle(Shuffle::stored()).batch_size(4).build().unwrap();
    let batches: Vec<RecordBatch> = loader.epoch(0).map(Result::unwrap).collect();
    assert_eq!(batches.iter().map(|batch| batch.num_rows() as u64).sum::<u64>(), dataset.rows());
    batches
}

fn numbers(dataset: &Dataset, name: &str) -> Vec<Option<i64>> {
    let each = batches(dataset);
    let column =
        |batch: &RecordBatch| batch.column_by_name(name).unwrap().as_primitive::<Int64Type>().clone();
    each.iter().flat_map(|batch| column(batch).iter().collect::<Vec<_>>()).collect()
}

fn ids(dataset: &Dataset) -> BTreeSet<i64> {
    numbers(dataset, "id").into_iter().flatten().collect()
}

/// Returns a deletion vector between its length and its checksum.
fn vector(rows: &[u16]) -> Vec<u8> {
    let mut data = 1_681_511_377u32.to_le_bytes().to_vec();
    data.extend(1u64.to_le_bytes());
    data.extend([0u32, 12_346, 1].map(u32::to_le_bytes).concat());
    data.extend([0, rows.len() as u16 - 1].map(u16::to_le_bytes).concat());
    data.extend(16u32.to_le_bytes());
    data.extend(rows.iter().flat_map(|row| row.to_le_bytes()));
    [&(data.len() as u32).to_be_bytes()[..], &data, &crc32fast::hash(&data).to_be_bytes()].concat()
}

#[test]
fn rows_are_deleted_by_position_by_value_and_by_vector_in_the_order_of_commits() {
    let mut table = IcebergTable::of_ids();
    let (a, b, c) = (table.ids("a", 0..10), table.ids("b", 10..20), table.ids("c", 0..10));
    let positions = table.positions("p", &[("a", 0), ("a", 1), ("b", 9), ("gone", 3), ("c", 5)]);
    let equal = table.equal("e", [Some(3), Some(12), None]);
    let of_b = table.puffin("d.puffin", "b", &[2, 4]);
    table.add(1, vec![a, b]).add(2, vec![positions, equal, of_b]).add(2, vec![c]).write();
    let dataset = table.open().unwrap();
    // File `a` loses two rows by position and one by value. File `b` loses two rows by its vector, which
    // replaces the delete by position. The delete by value names one of these two rows as well. File `c` was
    // committed with the deletes, so it loses one row by position and none by value.
    let all = numbers(&dataset, "id");
    let mut expected: Vec<i64> = [2, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 16, 17, 18, 19].to_vec();
    expected.extend([0, 1, 2, 3, 4, 6, 7, 8, 9]);
    let mut found: Vec<i64> = all.into_iter().flatten().collect();
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
    assert_eq!(dataset.tables()[0].deleted, 6);
}

#[test]
fn columns_are_found_by_number_and_by_names_where_files_have_none() {
    let fields = json!([{"id": 2, "name": "b", "type": "long", "required": false},
        {"id": 1, "name": "id", "type": "long", "required": false}]);
    let mut table = IcebergTable::new(fields);
    let narrow = |values: [i32; 2]| Arc::new(Int32Array::from(values.to_vec())) as ArrayRef;
    let renamed = table.file(
        "a",
        vec![
            (numbered("b", DataType::Int32, 1), narrow([1, 2])),
            (numbered("x", DataType::Int32, 9), narrow([7, 7])),
        ],
    );
    let plain = table.file("b", vec![(Field::new("key", DataType::Int32, true), narrow([3, 4]))]);
    table.add(1, vec![renamed, plain]);
    let refused = table.refusal();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    assert!(refused.to_string().contains("/b: ") && refused.to_string().contains("no numbers"), "{refused}");
    let mapping = json!([{"field-id": 1, "names": ["id", "key"]}, {"field-id": 2, "names": ["b"]}]);
    table.properties = json!({"schema.name-mapping.default": mapping.to_string()});
    let dataset = table.write().open().unwrap();
    assert_eq!(ids(&dataset), [1, 2, 3, 4].into());
    assert_eq!(numbers(&dataset, "b"), [None; 4]);
    let names: Vec<_> = dataset.schema().fields().iter().map(|field| field.name().clone()).collect();
    assert_eq!(names, ["b", "id"]);
}

#[test]
fn columns_that_files_lack_have_the_values_of_partitions_and_defaults() {
    let fields = json!([{"id": 1, "name": "id", "type": "long"}, {"id": 2, "name": "part", "type": "long"},
        {"id": 3, "name": "more", "type": "long", "initial-default": 5}]);
    let mut table = IcebergTable::new(fields);
    table.partition = (
        json!([{"source-id": 2, "field-id": 1000, "name": "part", "transform": "identity"},
            {"source-id": 1, "field-id": 1001, "name": "id_bucket", "transform": "bucket[4]"}]),
        json!([{"name": "part", "field-id": 1000, "type": ["null", "int"]},
            {"name": "id_bucket", "field-id": 1001, "type": ["null", "int"]}]),
    );
    let stored = table.file(
        "b",
        vec![
            (numbered("id", DataType::Int64, 1), Arc::new(Int64Array::from(vec![2])) as ArrayRef),
            (numbered("more", DataType::Int64, 3), Arc::new(Int64Array::from(vec![None]))),
        ],
    );
    let partition = |of: Value| json!({"partition": {"part": of, "id_bucket": 3}});
    let files = vec![with(table.ids("a", [1]), partition(json!(7))), with(stored, partition(json!(null)))];
    table.add(1, files).write();
    let dataset = table.open().unwrap();
    assert_eq!(numbers(&dataset, "part"), [Some(7), None]);
    assert_eq!(numbers(&dataset, "more"), [Some(5), None]);
    assert_eq!(dataset.tables()[0].partition_columns, ["part", "bucket[4](id)"]);
}

#[test]
fn a_snapshot_is_opened_by_number_by_name_and_by_its_file_of_metadata() {
    let mut table = IcebergTable::of_ids();
    let first = table.ids("a", 0..3);
    table.add(1, vec![first]).write();
    let metadata = table.path().join("metadata/v1.metadata.json");
    for dataset in [
        OpenOptions::new().version(77).open(table.path()),
        OpenOptions::new().reference("main").open(table.path()),
        OpenOptions::new().version(77).open(&metadata),
        Dataset::open(&metadata),
    ] {
        let dataset = dataset.unwrap();
        assert_eq!((ids(&dataset).len(), dataset.tables()[0].version), (3, 77));
    }
    let error = OpenOptions::new().version(5).open(table.path()).err().unwrap();
    assert!(error.to_string().contains("no snapshot 5: it has expired"), "{error}");
    let error = OpenOptions::new().reference("x").open(table.path()).err().unwrap();
    assert!(error.to_string().contains("no branch or tag \"x\" (it has main)"), "{error}");
    // The file with the version hint may be out of date.
    fs::write(table.path().join("metadata/version-hint.text"), "1").unwrap();
    let mut empty = table.metadata();
    empty["current-snapshot-id"] = json!(-1);
    fs::write(table.path().join("metadata/v2.metadata.json"), empty.to_string()).unwrap();
    assert_eq!(table.open().unwrap().rows(), 0);
}

#[test]
fn a_table_in_a_store_is_read_without_a_look_at_its_files() {
    let mut table = IcebergTable::of_ids();
    let files = vec![table.ids("a", 0..3), table.ids("b", 3..5)];
    table.add(1, files).write();
    let store = Arc::new(InMemory::new());
    for name in ["a", "b", "metadata/list.avro", "metadata/m0.avro", "metadata/v1.metadata.json"] {
        let bytes = fs::read(table.path().join(name)).unwrap();
        futures::executor::block_on(store.put(&format!("lake/{name}").as_str().into(), bytes.into()))
            .unwrap();
    }
    assert_eq!(ids(&Dataset::from_store(store.clone(), "lake").unwrap()).len(), 5);
    let by_file = Dataset::from_store(store, "lake/metadata/v1.metadata.json").unwrap();
    assert_eq!(ids(&by_file).len(), 5);
}

#[test]
fn footers_are_not_read_before_their_rows_are() {
    let mut table = IcebergTable::of_ids();
    // The size of the file is enough, whatever a manifest says of its row groups.
    let files = vec![table.ids("a", 0..3), with(table.ids("b", 3..5), json!({"split_offsets": null}))];
    table.add(1, files).write();
    fs::remove_file(table.path().join("b")).unwrap();
    let dataset = table.open().unwrap();
    assert_eq!(dataset.rows(), 5);
    let mut epoch = dataset.loader().batch_size(2).build().unwrap().epoch(0);
    let error = epoch.find_map(Result::err).unwrap().to_string();
    assert!(error.contains("snapshot 77 of the table has this file, and it is gone"), "{error}");
}

#[test]
fn the_error_of_a_file_that_is_gone_names_the_snapshot() {
    let mut table = IcebergTable::of_ids();
    let rows = vec![table.ids("a", 0..10)];
    let deleted = vec![table.positions("d", &[("a", 3)])];
    table.add(1, rows).add(2, deleted).write();
    let metadata = table.path().join("metadata");
    let lists = fs::read_dir(metadata).unwrap().map(|entry| entry.unwrap().path());
    let avro: Vec<_> = lists.filter(|path| path.extension().is_some_and(|ending| ending == "avro")).collect();
    assert!(avro.len() > 2, "a list of manifests and two manifests");
    for path in avro.into_iter().chain([table.path().join("a"), table.path().join("d")]) {
        let away = path.with_extension("gone");
        fs::rename(&path, &away).unwrap();
        let error = table.open().map_or_else(|error| error, |dataset| laws::failure(&dataset));
        let said = error.to_string();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{said}");
        assert!(said.contains("snapshot 77 of the table has this file, and it is gone"), "{said}");
        assert!(
            said.contains("open the newest one; otherwise restore the file") && !said.contains("FSCK"),
            "{said}"
        );
        fs::rename(away, path).unwrap();
    }
}

/// Returns a file whose manifest has the bounds of its ids.
fn bounded(file: Value, least: i64, greatest: i64) -> Value {
    let bound = |number: i64| json!([{"key": 1, "value": number.to_le_bytes()}]);
    let nulls = json!([{"key": 1, "value": 0}]);
    with(
        file,
        json!({"lower_bounds": bound(least), "upper_bounds": bound(greatest), "null_value_counts": nulls}),
    )
}

/// The test deletes the files that bounds rule out, so opening one of them would fail.
#[test]
fn files_that_the_bounds_of_manifests_rule_out_are_never_opened() {
    let mut table = IcebergTable::of_ids();
    let file = |table: &IcebergTable, name: &str, ids: std::ops::Range<i64>| {
        bounded(table.ids(name, ids.clone()), ids.start, ids.end - 1)
    };
    let later = vec![file(&table, "b", 10..20), table.ids("c", 20..30)];
    let first = vec![file(&table, "a", 0..10)];
    let deleted = vec![table.positions("d", &[("a", 3), ("b", 4)])];
    // Files are read in the order of their names, not of the manifests.
    table.add(2, later).add(1, first).add(3, deleted).write();
    let whole = table.open().unwrap();
    let open = |filter: Expr| OpenOptions::new().folders(filter).open(table.path());
    for (gone, filter) in [
        ("a", col("id").gt_eq(15)),
        ("a", col("id").gt(9)),
        ("b", col("id").lt(10) | col("id").gt(25)),
        ("b", col("id").is_null() | col("id").lt(3)),
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
    assert_eq!(open(col("id").lt(0)).unwrap().rows(), 10, "a file without bounds may have such rows");
}

#[test]
fn metadata_that_leads_elsewhere_or_lies_is_refused_with_its_place() {
    let change = |more: Value| {
        let mut table = IcebergTable::of_ids();
        let file = with(table.ids("a", 0..3), more);
        table.add(1, vec![file]);
        table.refusal().to_string()
    };
    for (more, why) in [
        (json!({"file_path": "https://example.org/a"}), "leads out of the table in /"),
        (json!({"file_path": "s3://other/lake/t/a"}), "leads out of the table in /"),
        (json!({"file_path": format!("{WRITTEN}/../a")}), "leads out of the table in /"),
        (json!({"file_path": format!("{WRITTEN}//a")}), "a location that no file has"),
        (json!({"file_path": "/dev/zero"}), "leads out of the table in /"),
        (json!({"file_format": "ORC"}), "rows in a file of format ORC"),
        (json!({"content": 7}), "of a kind that is not known, 7"),
        (json!({"record_count": -1}), "lacks a count of rows"),
        (json!({"file_size_in_bytes": 12}), "/a: "),
    ] {
        let error = change(more.clone());
        assert!(error.contains(why), "{more}: {error}");
    }
    let mut table = IcebergTable::of_ids();
    let (file, beyond) = (table.ids("a", 0..3), table.positions("p", &[("a", 99)]));
    table.add(1, vec![file]).add(2, vec![beyond]);
    let error = table.refusal().to_string();
    assert!(error.contains("deletes rows beyond the 3 of the file"), "{error}");
}

/// Moves a file of the table into another folder. Returns its entry for a manifest there.
fn moved(table: &IcebergTable, file: &Value, to: &Path) -> Value {
    let name = file["file_path"].as_str().unwrap().rsplit('/').next().unwrap();
    fs::rename(table.path().join(name), to.join(name)).unwrap();
    with(file.clone(), json!({"file_path": to.join(name).to_str().unwrap()}))
}

#[test]
fn files_elsewhere_are_read_where_a_property_of_the_table_names_their_folder() {
    let mut table = IcebergTable::of_ids();
    let elsewhere = TempDir::new().unwrap();
    let files = vec![table.ids("a", 0..3), moved(&table, &table.ids("b", 3..5), elsewhere.path())];
    table.add(1, files);
    let error = table.refusal();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let said = error.to_string();
    for part in [
        elsewhere.path().join("b").to_str().unwrap(),
        &format!("leads out of the table in {}", table.path().to_str().unwrap()),
        "name it in the storage option allowed_locations",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    for folder in ["/", "relative", elsewhere.path().join("other").to_str().unwrap()] {
        table.properties = json!({"write.data.path": folder});
        assert_eq!(table.refusal().kind(), ErrorKind::Unsupported, "{folder}");
    }
    table.properties = json!({"write.data.path": elsewhere.path().to_str().unwrap()});
    assert_eq!(ids(&table.write().open().unwrap()), (0..5).collect());
}

/// Returns options that allow these locations and set more storage options.
fn allowing(locations: &str, more: &[(&str, &str)]) -> OpenOptions {
    let all = [("allowed_locations", locations)].into_iter().chain(more.iter().copied());
    let all = all.map(|(name, value)| (name.to_owned(), value.to_owned()));
    OpenOptions::new().storage_options(all.collect())
}

#[test]
fn files_elsewhere_are_read_below_locations_that_the_user_allows() {
    let mut table = IcebergTable::of_ids();
    let (one, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let files = vec![
        moved(&table, &table.ids("a", 0..3), one.path()),
        moved(&table, &table.ids("b", 3..5), other.path()),
        table.ids("c", 5..7),
    ];
    let deleted = moved(&table, &table.puffin("d.puffin", "c", &[1]), other.path());
    table.add(1, files).add(2, vec![deleted]).write();
    let [one, other] = [&one, &other].map(|folder| folder.path().to_str().unwrap());
    let open = |allowed: &str| allowing(allowed, &[]).open(table.path());
    assert_eq!(ids(&open(&format!("{one}, {other}/,")).unwrap()), (0..6).collect());
    for allowed in [one, "", &format!("{one},{other}x"), &format!("{one},{one}/../{}", &other[1..])] {
        let error = open(allowed).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{allowed}: {error}");
        assert!(error.to_string().contains("storage option allowed_locations"), "{error}");
    }
    let error = open("ftp://acme/x").err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    // A path with `..` is refused wherever it ends.
    let mut up = IcebergTable::of_ids();
    let file = with(up.ids("a", 0..3), json!({"file_path": format!("{one}/../{}", &other[1..])}));
    up.add(1, vec![file]).write();
    let options = allowing(&format!("{one},{other},/tmp"), &[]);
    assert!(options.open(up.path()).err().unwrap().to_string().contains("leads out of the table"));
}

/// The table is in one bucket, and the files that were added to it are in another one and on this disk.
#[test]
fn files_in_other_stores_are_read_below_locations_that_the_user_allows() {
    let mut table = IcebergTable::of_ids();
    let (bucket, disk) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    fs::create_dir(bucket.path().join("raw")).unwrap();
    let there = moved(&table, &table.ids("a", 0..3), &bucket.path().join("raw"));
    let there = with(there, json!({"file_path": "s3a://other/raw/a"}));
    let here = moved(&table, &table.ids("b", 3..5), disk.path());
    table.add(1, vec![there, here]).write();
    let server = fault_server::FaultServer::builder();
    let server = server.folder("lake", table.path()).folder("other", bucket.path()).start().unwrap();
    let url = server.url();
    let of_store = [
        ("aws_endpoint_url", &*url),
        ("aws_access_key_id", "AKIATEST"),
        ("aws_secret_access_key", "secret"),
        ("aws_region", "us-east-1"),
        ("allow_http", "true"),
        ("metadata_cache", "off"),
    ];
    let disk = disk.path().to_str().unwrap();
    let open = |allowed: &str| allowing(allowed, &of_store).open("s3://lake/metadata/v1.metadata.json");
    assert_eq!(ids(&open(&format!("s3://other/raw/,{disk}")).unwrap()), (0..5).collect());
    for allowed in ["s3://other/raw/", disk, "s3://other/rows/"] {
        let error = open(allowed).err().unwrap();
        assert!(error.to_string().contains("leads out of the table in s3://lake"), "{allowed}: {error}");
    }
}

#[test]
fn metadata_elsewhere_is_read_where_a_property_of_the_table_names_its_folder() {
    let mut table = IcebergTable::of_ids();
    let files = vec![table.ids("a", 0..3)];
    table.add(1, files).write();
    let elsewhere = TempDir::new().unwrap();
    let (from, to) = (table.path().join("metadata"), elsewhere.path().join("metadata"));
    fs::create_dir(&to).unwrap();
    // The metadata names the real place of the data, and only the metadata itself is in another folder.
    let written = |at: &str| at.replace(WRITTEN, table.path().to_str().unwrap());
    let mut entry = table.manifests[0].2[0].clone();
    entry["data_file"]["file_path"] = json!(table.path().join("a").to_str().unwrap());
    let manifest = avro::file(&avro::of_manifest(&table.partition.1), "null", &[entry]);
    fs::write(to.join("m0.avro"), &manifest).unwrap();
    let list = from.join("list.avro");
    let listed = json!({"manifest_path": to.join("m0.avro").to_str().unwrap(), "partition_spec_id": 0,
        "manifest_length": manifest.len(), "content": 0, "sequence_number": 1});
    fs::write(&list, avro::file(&avro::of_list(), "null", &[listed])).unwrap();
    let mut metadata: Value = serde_json::from_str(&written(&table.metadata().to_string())).unwrap();
    let opened = to.join("v1.metadata.json");
    fs::write(&opened, metadata.to_string()).unwrap();
    let error = Dataset::open(&opened).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::NotFound, "it is taken for a table that was moved: {error}");
    metadata["properties"] = json!({"write.metadata.path": to.to_str().unwrap()});
    fs::write(&opened, metadata.to_string()).unwrap();
    assert_eq!(ids(&Dataset::open(&opened).unwrap()).len(), 3);
    fs::remove_file(&list).unwrap();
    let error = Dataset::open(&opened).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains(list.to_str().unwrap()), "{error}");
}

#[test]
fn an_old_snapshot_has_the_partitions_of_its_time() {
    let mut table = IcebergTable::of_ids();
    let (first, second) = (table.ids("a", 0..3), table.ids("b", 3..5));
    table.add(1, vec![first]).write();
    let folder = table.path().join("metadata");
    let list = |name: &str, of: &[(i64, i64)]| {
        let manifest = avro::of_manifest(&json!([]));
        let listed = of.iter().map(|(spec, sequence)| {
            let file = if *sequence == 1 { &table.manifests[0].2[0]["data_file"] } else { &second };
            let entry = json!({"status": 1, "sequence_number": null, "data_file": file});
            let bytes = avro::file(&manifest, "null", &[entry]);
            let path = format!("{name}-{sequence}.avro");
            fs::write(folder.join(&path), &bytes).unwrap();
            json!({"manifest_path": format!("{WRITTEN}/metadata/{path}"), "partition_spec_id": spec,
                "manifest_length": bytes.len(), "content": 0, "sequence_number": sequence})
        });
        let listed: Vec<Value> = listed.collect();
        fs::write(folder.join(name), avro::file(&avro::of_list(), "null", &listed)).unwrap();
    };
    list("one", &[(1, 1)]);
    list("two", &[(1, 1), (0, 2)]);
    let snapshot = |id: i64, list: &str| {
        json!({"snapshot-id": id, "timestamp-ms": id, "schema-id": 0,
        "manifest-list": format!("{WRITTEN}/metadata/{list}")})
    };
    let field =
        |transform: &str| json!([{"source-id": 1, "field-id": 1000, "name": "p", "transform": transform}]);
    let mut metadata = table.metadata();
    metadata["partition-specs"] = json!([{"spec-id": 0, "fields": field("bucket[2]")},
        {"spec-id": 1, "fields": field("truncate[3]")}, {"spec-id": 2, "fields": field("identity")}]);
    metadata["default-spec-id"] = json!(2);
    metadata["snapshots"] = json!([snapshot(10, "one"), snapshot(77, "two")]);
    fs::write(folder.join("v1.metadata.json"), metadata.to_string()).unwrap();
    let of = |open: OpenOptions| open.open(table.path()).unwrap().tables()[0].partition_columns.clone();
    assert_eq!(of(OpenOptions::new()), ["id"]);
    assert_eq!(of(OpenOptions::new().reference("main")), ["id"]);
    assert_eq!(of(OpenOptions::new().version(10)), ["truncate[3](id)"]);
    // A field number of an earlier partition spec is used again.
    assert_eq!(of(OpenOptions::new().version(77)), ["bucket[2](id)"]);
}

/// Returns the next pseudo-random number.
pub(crate) fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

#[test]
fn files_of_avro_with_changed_bytes_are_read_or_refused() {
    let mut table = IcebergTable::of_ids();
    let files = vec![table.ids("a", 0..3), table.ids("b", 3..5)];
    table.add(1, files).write();
    let metadata = Metadata::parse(table.metadata().to_string().as_bytes()).unwrap();
    let folder = table.path().join("metadata");
    let list = fs::read(folder.join("list.avro")).unwrap();
    let known = manifests(&list).unwrap();
    let manifest = fs::read(folder.join("m0.avro")).unwrap();
    let (mut state, mut refused) = (1, 0);
    for mutant in 0..MUTANTS {
        let of_list = mutant % 2 == 0;
        let mut bytes = if of_list { list.clone() } else { manifest.clone() };
        for _ in 0..=next(&mut state) % 4 {
            let at = next(&mut state) as usize % bytes.len();
            match next(&mut state) % 3 {
                0 => bytes[at] = next(&mut state) as u8,
                1 => bytes.truncate(at.max(1)),
                _ => bytes.insert(at, 0xff),
            }
        }
        let read = match of_list {
            true => manifests(&bytes).map(drop),
            false => Scan::new(&metadata, 0).unwrap().manifest(&known[0], &bytes),
        };
        if let Err(error) = read {
            assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported), "{error}");
            refused += 1;
        }
    }
    assert!(refused > MUTANTS / 2, "{refused}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Rows of a file are deleted by position, by value or by a vector.
    #[test]
    fn the_laws_hold_on_tables_with_deleted_rows(
        files in laws::files(),
        ways in prop::collection::vec(0..3, 5),
        shared in laws::shared(),
    ) {
        let mut table = IcebergTable::of_ids();
        let (mut live, mut next) = (Vec::new(), 0i64);
        let (mut stored, mut deletes) = (Vec::new(), Vec::new());
        for (at, ((rows, deleted), way)) in files.iter().zip(ways).enumerate() {
            let (name, first) = (format!("{at}"), next);
            next += i64::from(*rows);
            stored.push(table.ids(&name, first..next));
            let is_live = |row: &u16| !deleted.contains(row);
            live.extend((0..*rows).filter(is_live).map(|row| first + i64::from(row)));
            let rows: Vec<u16> = deleted.iter().copied().collect();
            deletes.extend((!rows.is_empty()).then(|| match way {
                0 => {
                    let places: Vec<_> = rows.iter().map(|row| (&*name, i64::from(*row))).collect();
                    table.positions(&format!("of-{at}"), &places)
                }
                1 => table.equal(&format!("of-{at}"), rows.iter().map(|row| Some(first + i64::from(*row)))),
                _ => table.puffin(&format!("of-{at}"), &name, &rows),
            }));
        }
        table.add(1, stored);
        if !deletes.is_empty() {
            table.add(2, deletes);
        }
        laws::hold(&table.write().open().unwrap(), &live, shared)?;
    }
}
