//! Tests loaders over tables of a toy format. The table's list of files may leave out facts, such as the
//! number of rows in a file. These are then read from the files.

mod toy;

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use forebay_arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringViewArray};
use forebay_arrow::datatypes::{DataType, Field, Int64Type, Schema};
use forebay_base::ErrorKind;
use forebay_store::catalog::{Refusals, Unified};
use forebay_store::source::register_table_format;
use object_store::ObjectStoreExt;
use object_store::memory::InMemory;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use serde_json::{Value, json};

use super::*;
use crate::cache::DiskCache;
use crate::reader::Filter;
use crate::reader::filter::{Op, Term};
use crate::shard::Shuffle;
use crate::{Loader, LoaderBuilder, Step, Stop, Wait};

/// The number of rows in a row group of the files.
const GROUP: usize = 4;

/// Writes a file with a column `id`. Negative ids become nulls.
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

/// A table of 10 rows in `a.parquet` and 6 in `b.parquet`. The folder also has `dead.parquet`, which is not
/// in the table's list.
fn table(folder: &Path, a: Value, b: Value) {
    register_table_format(&toy::Toy);
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

/// The ids and splits of the rows that a loader delivers in stored order.
fn rows(loader: LoaderBuilder) -> Vec<(i64, String)> {
    let loader = loader.shuffle(Shuffle::stored()).batch_size(3).build().unwrap();
    let mut rows = Vec::new();
    for batch in loader.epoch(0) {
        let batch = batch.unwrap();
        let ids = batch.column_by_name("id").unwrap().as_primitive::<Int64Type>().clone();
        let splits = batch.column_by_name("split").unwrap();
        let splits = splits.as_string::<i64>();
        rows.extend((0..ids.len()).map(|at| (ids.value(at), splits.value(at).to_string())));
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
    let read = || {
        rows(
            Dataset::open(folder.path()).unwrap().loader().cache(cache.clone()).cache_tier(crate::Tier::Rows),
        )
    };
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
    let (whole, declared) = (json!({"deleted": []}), json!({"deleted": [], "rows": 10}));
    assert_eq!(open(declared, whole.clone()).unwrap().catalog.rows(), 16);
    let wrong = open(json!({"deleted": [], "rows": 11}), whole.clone()).unwrap_err();
    assert_eq!(wrong.kind(), ErrorKind::Corrupt, "{wrong}");
    let beyond = open(json!({"deleted": [10]}), whole.clone()).unwrap_err();
    assert!(beyond.to_string().contains("a.parquet: the table deletes rows beyond the 10"), "{beyond}");

    let columns = |of_id: &str| json!({"deleted": [], "columns": [["split", "string"], ["id", of_id]]});
    let dataset = open(columns("long"), columns("long")).unwrap();
    let names: Vec<&String> = dataset.catalog.schema.fields().iter().map(|field| field.name()).collect();
    assert_eq!(names, ["split", "id"]);
    assert_eq!(rows(dataset.loader()).len(), 16);
    let mistyped = open(columns("string"), columns("string")).unwrap_err();
    assert!(mistyped.to_string().contains("column \"id\": the table declares string"), "{mistyped}");
}

/// A file's entry in the table's list that has all facts that a plan needs. The file is checked against them
/// when it is read.
fn declared(rows: u64) -> Value {
    json!({"deleted": [], "rows": rows, "columns": [["id", "long"], ["split", "string"]]})
}

/// A table whose list has all facts that a plan needs.
fn declared_table(folder: &Path) -> Dataset {
    table(folder, declared(10), declared(6));
    Dataset::open(folder).unwrap()
}

/// The number of requests for opening such a table: one, for its list.
const OPENED: u64 = 1;

#[test]
fn a_declared_file_is_read_when_its_rows_are() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = declared_table(folder.path());
    assert_eq!(dataset.traffic().requests, OPENED);
    assert_eq!((dataset.rows(), dataset.catalog.groups.len()), (16, 2));
    let fingerprint = dataset.catalog.fingerprint;
    // With a single epoch, the loader keeps no rows in memory.
    let loader = || dataset.loader().shuffle(Shuffle::stored()).epochs(1).batch_size(16).build().unwrap();
    assert_eq!(loader().plan(0).unwrap().rows, 16);
    assert_eq!(
        dataset.traffic().requests,
        OPENED + 1,
        "a plan takes the list's word, and the costs of one file"
    );
    let ids = || {
        let batch = loader().epoch(0).next().unwrap().unwrap();
        batch["id"].as_primitive::<Int64Type>().values().to_vec()
    };
    assert_eq!(ids(), (0..16).collect::<Vec<_>>());
    assert_eq!(ids(), (0..16).collect::<Vec<_>>());
    let read = OPENED + 2 + 2 * 2;
    assert_eq!(dataset.traffic().requests, read, "two footers, and each file for each loader");
    assert_eq!(Dataset::open(folder.path()).unwrap().catalog.fingerprint, fingerprint);
    let undeclared = tempfile::tempdir().unwrap();
    table(undeclared.path(), json!({"deleted": []}), json!({"deleted": []}));
    let undeclared = Dataset::open(undeclared.path()).unwrap();
    assert_eq!(undeclared.traffic().requests, OPENED + 2);
    assert_ne!(undeclared.catalog.fingerprint, fingerprint);
}

#[test]
fn what_an_unread_footer_would_say_is_estimated_by_rows() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = declared_table(folder.path());
    let catalog = &dataset.catalog;
    let projection = catalog.project(&["id"]).unwrap();
    dataset.loader().build().unwrap();
    let [of_ten, of_six] = [&catalog.groups[0], &catalog.groups[1]];
    let held = |group: &forebay_store::catalog::Group| catalog.held_bytes(group, &projection);
    assert_eq!(held(of_six), (held(of_ten) * 6).div_ceil(10));
    assert_eq!(catalog.byte_ranges(of_six, &projection).unwrap_err().kind(), ErrorKind::Internal);
    assert_eq!(rows(dataset.loader()).len(), 16);
    let ranges = catalog.byte_ranges(of_six, &projection).unwrap();
    assert_eq!(ranges.len(), 2, "one for each of its row groups");
    let stored: u64 = ranges.iter().map(|range| range.end - range.start).sum();
    assert_eq!(catalog.stored_bytes(of_six, &projection), stored, "known now");
}

/// The order of rows depends on the default window, so the window must not depend on the footers.
#[test]
fn the_default_window_is_the_same_whichever_footers_were_read() {
    let folder = tempfile::tempdir().unwrap();
    table(folder.path(), declared(1), declared(6));
    write(&folder.path().join("a.parquet"), 0..1);
    let dataset = Dataset::open(folder.path()).unwrap();
    let projection = dataset.catalog.project(&["id"]).unwrap();
    let group = &dataset.catalog.groups[1];
    let window = || dataset.catalog.window_bytes(group, &projection);
    let held = || dataset.catalog.held_bytes(group, &projection);
    dataset.loader().build().unwrap();
    let before = (window(), held());
    assert_eq!(rows(dataset.loader()).len(), 7);
    assert_ne!(held(), before.1, "its validity is known");
    assert_eq!(window(), before.0);
}

#[test]
fn a_file_that_is_not_as_declared_is_refused_when_it_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let refusal = |b: Value| {
        list(folder.path(), declared(10), b);
        let loader = Dataset::open(folder.path()).unwrap().loader().build().unwrap();
        let error = loader.epoch(0).find_map(Result::err).unwrap();
        (error.kind(), error.to_string())
    };
    declared_table(folder.path());
    for lie in [5, 7, 100] {
        let (kind, text) = refusal(declared(lie));
        let cause = format!("b.parquet: the table declares {lie} rows, the file has 6");
        assert!(kind == ErrorKind::Corrupt && text.contains(&cause), "{lie:?}: {text}");
    }
    let texts: ArrayRef = Arc::new(StringViewArray::from_iter_values(["x"; 4]));
    let file = File::create(folder.path().join("b.parquet")).unwrap();
    let texts = RecordBatch::try_from_iter([("id", texts)]).unwrap();
    let mut writer = ArrowWriter::try_new(file, texts.schema(), None).unwrap();
    writer.write(&texts).unwrap();
    writer.close().unwrap();
    let (kind, text) = refusal(declared(4));
    let cause = "b.parquet, column \"id\": the table declares int64, the file has string";
    assert!(kind == ErrorKind::Unsupported && text.contains(cause), "{text}");

    fs::write(folder.path().join("b.parquet"), "no Parquet at all").unwrap();
    let (kind, text) = refusal(declared(6));
    assert!(kind == ErrorKind::Corrupt && text.contains("b.parquet: not a Parquet file"), "{text}");
    let dataset = Dataset::open(folder.path()).unwrap();
    let lenient = dataset.loader().on_bad_row(crate::OnBadRow::skip(6)).build().unwrap();
    let delivered: usize = lenient.epoch(0).map(|batch| batch.unwrap().num_rows()).sum();
    assert_eq!(delivered, 10, "its rows are lost and counted");

    list(folder.path(), declared(10), json!({"deleted": [6], "rows": 6, "columns": [["id", "long"]]}));
    let beyond = Dataset::open(folder.path()).unwrap_err();
    assert!(beyond.to_string().contains("b.parquet"), "{beyond}");
}

#[test]
fn a_filter_reads_footers_where_constants_do_not_decide() {
    let folder = tempfile::tempdir().unwrap();
    let selected = |terms: Vec<Term>| {
        let dataset = declared_table(folder.path());
        let loader = dataset.loader().filter(Filter::all_of(terms)).build();
        (loader.map_or(0, |loader| loader.plan(0).unwrap().rows), dataset.traffic().requests - OPENED)
    };
    let (of_test, late) = (Term::new("split", Op::Eq, "test"), Term::new("id", Op::GreaterEq, 14i64));
    assert_eq!(selected(vec![of_test.clone()]), (6, 1), "a constant decides, and a plan asks for costs");
    assert_eq!(selected(vec![of_test, late.clone()]), (2, 2), "one of the files, and its statistics decide");
    assert_eq!(selected(vec![late]), (2, 3), "both, and no rows");
    assert_eq!(selected(vec![Term::new("id", Op::Eq, 12i64)]), (1, 4), "both, and the rows of one row group");
}

#[test]
fn a_file_that_is_replaced_before_a_filter_asks_for_its_statistics_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    let filter = || Filter::all_of([Term::new("id", Op::Less, 3i64)]);
    let modified = |path: &Path| fs::metadata(path).unwrap().modified().unwrap();
    for keeps_time in [false, true] {
        write(&path, 0..8);
        let (dataset, before) = (Dataset::open(path.as_path()).unwrap(), modified(&path));
        assert_eq!(dataset.loader().filter(filter()).build().unwrap().plan(0).unwrap().rows, 3);
        write(&path, 1..9);
        let time = if keeps_time { before } else { before + Duration::from_secs(1) };
        File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
        let error = dataset.loader().filter(filter()).build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DatasetChanged, "{error}");
        assert!(error.to_string().contains("a.parquet: the file has changed since"), "{error}");
    }
}

/// A catalogue counts against the budget only beyond its first few MiB. That of 1,000 files is smaller, that
/// of 40,000 files is larger than the budget.
#[test]
fn what_many_files_take_is_part_of_the_budget() {
    const MEMORY: u64 = 8 << 20;
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("a.parquet"), 0..8);
    let build = |files: usize| {
        let mut dataset = Dataset::open(folder.path()).unwrap();
        let Catalog { files: one, schema, known, .. } = &*dataset.catalog;
        let many = vec![one[0].clone(); files];
        let unified = Unified { schema: schema.clone(), refused: Refusals::default() };
        dataset.catalog = Arc::new(Catalog::new(many, unified, known.clone(), Arc::new([])).unwrap());
        (
            dataset.catalog.bytes(),
            dataset.loader().memory(MEMORY).shuffle(Shuffle::seeded(1).window_rows(100)).build(),
        )
    };
    let (few, built) = build(1_000);
    assert!(few < 1 << 20 && built.is_ok(), "{few}: {:?}", built.err());
    let (many, built) = build(40_000);
    assert!(many > MEMORY + (4 << 20), "{many}");
    assert_eq!(built.unwrap_err().kind(), ErrorKind::TooLarge);
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
    let differs = Dataset::open(both).unwrap().loader().build().unwrap_err();
    assert!(differs.to_string().contains("split"), "a column that only some files have: {differs}");
}

/// Numbers count stored rows, deleted ones too, so the rows of the next source come after all of them.
#[test]
fn a_row_of_a_mix_is_found_by_its_number_although_an_earlier_source_has_deleted_rows() {
    let folder = tempfile::tempdir().unwrap();
    let (own, plain) = (folder.path().join("table"), folder.path().join("plain.parquet"));
    table(&own, json!({"deleted": [0, 5, 6, 7, 9]}), json!({"deleted": []}));
    write(&plain, 100..106);
    let source = |path: &Path| (Dataset::open(path).unwrap().loader().columns(["id"]), 1.0);
    let mix = Loader::mix([source(&own), source(&plain)]).unwrap().numbered(true).batch_size(4);
    let mix = mix.stop(Stop::Last).repeat(false).build().unwrap();
    let (mut epoch, mut rows) = (mix.epoch(0), 0);
    while let Wait::Step(step) = epoch.next_step(Duration::from_secs(600)) {
        let Step { batch, after } = step.unwrap();
        for (id, number) in batch["id"].as_primitive::<Int64Type>().values().iter().zip(after.numbers()) {
            let place = mix.row_place(*number).unwrap();
            let file = place.file.unwrap();
            let first = match &*file {
                file if file.ends_with("a.parquet") => 0,
                file if file.ends_with("b.parquet") => 10,
                _ => 100,
            };
            let row = (place.row_group.unwrap() * GROUP) as i64 + place.row.unwrap() as i64;
            assert_eq!(first + row, *id, "number {number}");
            rows += 1;
        }
    }
    assert_eq!(rows, 11 + 6);
    assert!(mix.row_place(16 + 6).is_none());
}
