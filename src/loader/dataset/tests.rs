//! Tables of a toy format through a loader: what their list says beyond their files.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use object_store::ObjectStoreExt;
use object_store::memory::InMemory;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use serde_json::{Value, json};

use super::*;
use crate::LoaderBuilder;
use crate::cache::DiskCache;
use crate::error::ErrorKind;
use crate::reader::Filter;
use crate::reader::filter::{Op, Term};
use crate::shard::Shuffle;

/// Rows of a row group of the files.
const GROUP: usize = 4;

/// A file of `ids`, null where negative.
fn write(path: &Path, ids: impl IntoIterator<Item = i64>) {
    let ids: Vec<Option<i64>> = ids.into_iter().map(|id| (id >= 0).then_some(id)).collect();
    let ids: ArrayRef = Arc::new(Int64Array::from(ids));
    let schema = Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, true)]));
    let rows = RecordBatch::try_new(schema.clone(), vec![ids]).unwrap();
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(GROUP)).build();
    let mut writer = ArrowWriter::try_new(File::create(path).unwrap(), schema, Some(properties)).unwrap();
    writer.write(&rows).unwrap();
    writer.close().unwrap();
}

/// A table of 10 rows in `a.parquet` and 6 in `b.parquet`; `dead.parquet` is not in its list.
fn table(folder: &Path, a: Value, b: Value) {
    fs::create_dir_all(folder.join("_toy")).unwrap();
    write(&folder.join("a.parquet"), 0..10);
    write(&folder.join("b.parquet"), 10..16);
    write(&folder.join("dead.parquet"), 16..20);
    list(folder, a, b);
}

fn list(folder: &Path, mut a: Value, mut b: Value) {
    (a["path"], a["split"]) = ("a.parquet".into(), "train".into());
    (b["path"], b["split"]) = ("b.parquet".into(), "test".into());
    let list = json!({"version": 1, "files": [a, b]});
    fs::write(folder.join("_toy/table.json"), list.to_string()).unwrap();
}

/// The rows that a loader delivers, as stored.
fn rows(loader: LoaderBuilder) -> Vec<(i64, String)> {
    let loader = loader.shuffle(Shuffle::stored()).batch_size(3).build().unwrap();
    let mut rows = Vec::new();
    for batch in loader.epoch(0) {
        let batch = batch.unwrap();
        let ids = batch.column_by_name("id").unwrap().as_primitive::<Int64Type>().clone();
        let splits = batch.column_by_name("split").unwrap();
        let splits = arrow::compute::cast(splits, &DataType::Utf8View).unwrap();
        rows.extend((0..ids.len()).map(|at| (ids.value(at), splits.as_string_view().value(at).to_string())));
    }
    assert_eq!(rows.len() as u64, loader.plan(0).unwrap().rows);
    rows
}

fn ids(rows: &[(i64, String)]) -> Vec<i64> {
    rows.iter().map(|(id, _)| *id).collect()
}

#[test]
fn rows_that_a_table_deleted_are_not_delivered_and_its_constants_are() {
    let folder = tempfile::tempdir().unwrap();
    table(folder.path(), json!({"deleted": [0, 5, 6, 7, 9]}), json!({"deleted": []}));
    let dataset = Dataset::open(folder.path()).unwrap();
    let expected: Vec<(i64, String)> = [1, 2, 3, 4, 8]
        .map(|id| (id, "train".to_string()))
        .into_iter()
        .chain((10..16).map(|id| (id, "test".to_string())))
        .collect();
    assert_eq!(rows(dataset.loader()), expected);
    let shuffled = dataset.loader().shuffle(Shuffle::seeded(3)).batch_size(4).build().unwrap();
    let mut delivered: Vec<i64> = Vec::new();
    for batch in shuffled.epoch(1) {
        delivered.extend(batch.unwrap()["id"].as_primitive::<Int64Type>().values());
    }
    delivered.sort_unstable();
    assert_eq!(delivered, ids(&expected));
}

#[test]
fn a_filter_selects_among_the_rows_that_are_left() {
    let folder = tempfile::tempdir().unwrap();
    table(folder.path(), json!({"deleted": [0, 5, 6, 7, 9]}), json!({"deleted": [1]}));
    let dataset = Dataset::open(folder.path()).unwrap();
    let filtered = |term| ids(&rows(dataset.loader().filter(Filter::all_of([term]))));
    assert_eq!(filtered(Term::new("id", Op::In, vec![0i64, 2, 3, 5, 8, 9, 11, 12])), [2, 3, 8, 12]);
    assert_eq!(filtered(Term::new("split", Op::Eq, "test")), [10, 12, 13, 14, 15]);
    assert_eq!(filtered(Term::new("split", Op::NotEq, "test")), [1, 2, 3, 4, 8]);
}

#[test]
fn only_a_constant_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    table(folder.path(), json!({"deleted": [0]}), json!({"deleted": []}));
    let loader = Dataset::open(folder.path()).unwrap().loader().columns(["split"]).batch_size(100);
    let batch = loader.build().unwrap().epoch(0).next().unwrap().unwrap();
    assert_eq!((batch.num_rows(), batch.num_columns()), (15, 1));
}

#[test]
fn a_row_keeps_its_place_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    table(folder.path(), json!({"deleted": [0, 4, 5]}), json!({"deleted": []}));
    write(&folder.path().join("a.parquet"), (0..10).map(|id| if id == 6 { -1 } else { id }));
    let loader = Dataset::open(folder.path()).unwrap().loader().shuffle(Shuffle::stored()).batch_size(2);
    let loader = loader.fill_null("id", -1.0).build().unwrap();
    let delivered: Vec<RecordBatch> = loader.epoch(0).map(Result::unwrap).collect();
    assert_eq!(delivered[1]["id"].as_primitive::<Int64Type>().value(1), -1, "row 6 follows row 3");

    let dataset = Dataset::open(folder.path()).unwrap();
    let samples = crate::reader::select::live_rows(&dataset.catalog).unwrap();
    assert_eq!(samples[1].select(0), 2, "the second row group begins at row 4, of which two are deleted");
}

#[test]
fn rows_in_a_cache_are_those_of_one_version_of_the_table() {
    let (folder, kept) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    table(folder.path(), json!({"deleted": [1]}), json!({"deleted": []}));
    let cache = DiskCache::open(kept.path(), 1 << 30).unwrap();
    let read = || rows(Dataset::open(folder.path()).unwrap().loader().cache(cache.clone()));
    let before = (Dataset::open(folder.path()).unwrap().catalog.fingerprint, read());
    assert_eq!(read(), before.1);
    list(folder.path(), json!({"deleted": [2]}), json!({"deleted": []}));
    let after = (Dataset::open(folder.path()).unwrap().catalog.fingerprint, read());
    assert!(after.0 != before.0, "other rows are another data set");
    assert_eq!(ids(&after.1)[..3], [0, 1, 3]);
    assert_eq!(ids(&before.1)[..3], [0, 2, 3]);
}

#[test]
fn a_table_in_an_object_store_is_the_same_table() {
    let folder = tempfile::tempdir().unwrap();
    table(folder.path(), json!({"deleted": [0, 5]}), json!({"deleted": [2]}));
    let store = Arc::new(InMemory::new());
    let put = async |name: &str| {
        let bytes = fs::read(folder.path().join(name)).unwrap();
        store.put(&format!("data/t/{name}").into(), bytes.into()).await.unwrap();
    };
    futures::executor::block_on(async {
        for name in ["_toy/table.json", "a.parquet", "b.parquet", "dead.parquet"] {
            put(name).await;
        }
    });
    let local = Dataset::open(folder.path()).unwrap();
    let remote = Dataset::from_store(store, "data/t").unwrap();
    assert_eq!(remote.catalog.fingerprint, local.catalog.fingerprint);
    assert_eq!(rows(remote.loader()), rows(local.loader()));
}

#[test]
fn what_a_list_declares_is_held_against_the_files() {
    let folder = tempfile::tempdir().unwrap();
    let open = |a: Value, b: Value| {
        table(folder.path(), a, b);
        Dataset::open(folder.path())
    };
    let (whole, declared) = (json!({"deleted": []}), json!({"deleted": [], "row_counts": [4, 4, 2]}));
    assert_eq!(open(declared, whole.clone()).unwrap().catalog.rows(), 16);
    let wrong = open(json!({"deleted": [], "row_counts": [4, 6]}), whole.clone()).unwrap_err();
    assert_eq!(wrong.kind(), ErrorKind::Corrupt, "{wrong}");
    let beyond = open(json!({"deleted": [10]}), whole.clone()).unwrap_err();
    assert!(beyond.to_string().contains("a.parquet: the table deletes rows beyond the 10"), "{beyond}");

    let columns = |of_id: &str| json!({"deleted": [], "columns": [["split", "string"], ["id", of_id]]});
    let dataset = open(columns("long"), columns("long")).unwrap();
    let names: Vec<&String> = dataset.catalog.schema.fields().iter().map(|field| field.name()).collect();
    assert_eq!(names, ["split", "id"]);
    assert_eq!(rows(dataset.loader()).len(), 16);
    let mistyped = open(columns("string"), columns("string")).unwrap_err();
    assert!(mistyped.to_string().contains("column \"id\": the table declares Utf8View"), "{mistyped}");
}

#[test]
fn a_table_is_read_where_its_own_folder_is_opened() {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("table");
    table(&own, json!({"deleted": [0]}), json!({"deleted": []}));
    fs::create_dir(own.join("inner")).unwrap();
    write(&own.join("inner/c.parquet"), 0..3);
    for other in [folder.path(), &own.join("inner")] {
        let refused = Dataset::open(other).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unsupported);
        assert!(refused.to_string().contains("this is the folder of a toy table"), "{refused}");
    }
    let file = Dataset::open(own.join("dead.parquet").as_path()).unwrap();
    assert_eq!(file.catalog.rows(), 4, "a file that is named is read as it is");
    let both =
        [own.to_string_lossy().into_owned(), folder.path().join("plain").to_string_lossy().into_owned()];
    fs::create_dir(&both[1]).unwrap();
    write(&folder.path().join("plain/d.parquet"), 20..22);
    let differs = Dataset::open(both).unwrap_err();
    assert!(differs.to_string().contains("split"), "the union needs the same columns: {differs}");
}
