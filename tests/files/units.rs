//! Files of tables are planned as one row group each, by the log alone, however many row groups they have.
#![allow(clippy::unwrap_used, reason = "a helper of a test stops it")]

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay::arrow::array::*;
use forebay::arrow::datatypes::{Field, Int32Type, Int64Type};
use forebay::filter::{Expr, col};
use forebay::object_store::ObjectStoreExt;
use forebay::object_store::memory::InMemory;
use forebay::samples::{Across, Pack, Window};
use forebay::{Dataset, DiskCache, ErrorKind, Loader, LoaderBuilder, OnBadRow, Shard, Shuffle};
use parquet::basic::{Compression, Encoding};
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::delta::{DeltaTable, field, metadata, protocol, without};
use crate::laws;
use crate::vectors::inline;

/// The columns `id`, `text` and `list` of rows with these ids.
fn rows(ids: std::ops::Range<i64>) -> RecordBatch {
    let texts = ids.clone().map(|id| (id % 5 != 3).then(|| format!("text {}", id % 7)));
    let lists = ids.clone().map(|id| Some((0..id as i32 % 4).map(Some)));
    let columns: [(&str, ArrayRef, bool); 3] = [
        ("id", Arc::new(Int64Array::from_iter_values(ids.clone())), false),
        ("text", Arc::new(StringArray::from_iter(texts)), true),
        ("list", Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists)), true),
    ];
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

/// The actions with which the log of a table of such rows begins.
fn begun() -> Vec<Value> {
    let list = json!({"type": "array", "elementType": "integer", "containsNull": true});
    let fields = [("id", json!("long")), ("text", json!("string")), ("list", list)];
    let fields: Vec<Value> = fields.iter().map(|(name, of)| field(name, of)).collect();
    vec![protocol(&["deletionVectors"]), metadata(&json!(fields), "none")]
}

/// A table of files with these rows, some of them deleted, in row groups of `group` rows.
fn table(files: &[(u16, BTreeSet<u16>)], group: usize) -> DeltaTable {
    let table = DeltaTable::new();
    let (mut actions, mut next) = (begun(), 0);
    for (at, (count, deleted)) in files.iter().enumerate() {
        let written = WriterProperties::builder().set_max_row_group_row_count(Some(group));
        let add = table.rows(&format!("{at}.parquet"), &rows(next..next + i64::from(*count)), written);
        next += i64::from(*count);
        actions.push(if deleted.is_empty() { add } else { without(add, inline(deleted)) });
    }
    table.commit(0, &actions);
    table
}

/// The options that a loader is tried with.
const VARIANTS: usize = 9;

fn with(builder: LoaderBuilder, variant: usize, seed: u64, folder: &std::path::Path) -> LoaderBuilder {
    let windowed = builder.clone().shuffle(Shuffle::seeded(seed).window_rows(9));
    let half = col("id").lt(13) | col("text").eq("text 2");
    match variant {
        0 => builder.shuffle(Shuffle::stored()),
        1 => windowed,
        2 => builder.shuffle(Shuffle::seeded(seed).window_rows(9).piece_rows(3)).columns(["text", "id"]),
        3 => windowed.filter(half),
        4 => windowed.samples(Window::rows(3)),
        5 => windowed.samples(Window::rows(4).across(Across::Dataset)).filter(half),
        6 => windowed
            .cache(DiskCache::open(folder, 1 << 30).unwrap())
            .cache_tier(forebay::Tier::Rows)
            .row_id(true),
        7 => windowed.samples(Pack::split(["list"], 5).across(Across::File)).columns(["list"]),
        _ => builder.shuffle(Shuffle::exact(seed)).columns(["id"]),
    }
}

/// The batches of a rank in two epochs, and the places of the rows of the second epoch.
fn delivered(loader: &Loader, rank: u32) -> (Vec<RecordBatch>, Vec<(usize, u64, i64)>) {
    let batches: Vec<RecordBatch> =
        (0..2).flat_map(|epoch| loader.epoch(epoch)).map(Result::unwrap).collect();
    let steps = loader.plan(1).unwrap().steps;
    let places = (0..steps).flat_map(|step| loader.which(1, step, rank).unwrap());
    (batches, places.map(|place| (place.row_group, place.row, place.id.get())).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Batches, places of rows and resumed runs are the same with one row group in a file as with several.
    #[test]
    fn the_row_groups_of_a_file_change_nothing(
        files in laws::files(),
        (group, variant, worlds, seed) in (1usize..9, 0..VARIANTS, (1u32..3, 1u32..4), any::<u64>()),
    ) {
        let tables = [table(&files, usize::MAX), table(&files, group)];
        let live: u64 = files.iter().map(|(rows, deleted)| u64::from(*rows) - deleted.len() as u64).sum();
        prop_assume!(live > 0);
        let mut read = Vec::new();
        for table in &tables {
            let (dataset, cached) = (table.open().unwrap(), tempfile::tempdir().unwrap());
            prop_assert_eq!(dataset.rows(), live);
            let built = |rank: u32, world: u32| {
                let builder = dataset.loader().shard(Shard::new(rank, world).unwrap()).batch_size(2);
                with(builder, variant, seed, cached.path()).build().map_err(|error| error.kind())
            };
            let all: Vec<_> = (0..worlds.0).map(|rank| built(rank, worlds.0)).collect();
            let mut of_table = Vec::new();
            for (rank, loader) in all.iter().enumerate() {
                of_table.push(loader.as_ref().map(|loader| delivered(loader, rank as u32)).map_err(|kind| *kind));
            }
            // After some steps, another number of ranks delivers the rest of the epoch.
            if let Ok(loaders) = all.into_iter().collect::<Result<Vec<_>, _>>() {
                for loader in &loaders {
                    loader.epoch(3).take(2).for_each(|batch| drop(batch.unwrap()));
                }
                let position = loaders[0].position();
                for rank in 0..worlds.1 {
                    let rest = built(rank, worlds.1).and_then(|loader| {
                        loader.restore(&position).map_err(|error| error.kind())?;
                        let rest = loader.epoch(3).map(Result::unwrap).collect();
                        Ok((rest, Vec::new()))
                    });
                    of_table.push(rest);
                }
            }
            // A filter, windows or packed lists may leave too few samples for the ranks, which is an error.
            let is_ok = of_table.iter().all(Result::is_ok);
            prop_assert!(is_ok || live < 8 || matches!(variant, 3..=5 | 7), "{:?}", of_table);
            read.push(of_table);
        }
        let several = read.pop();
        prop_assert_eq!(several, read.pop());
    }
}

/// The test deletes all files first, so opening one of them would fail.
#[test]
fn opening_reads_no_footer() {
    let requests = |files: usize| {
        let table = table(&vec![(10, BTreeSet::new()); files], 4);
        (0..files).for_each(|at| fs::remove_file(table.path().join(format!("{at}.parquet"))).unwrap());
        let dataset = table.open().unwrap();
        assert_eq!((dataset.rows(), dataset.catalog().groups.len()), (10 * files as u64, files));
        assert_eq!(laws::failure(&dataset).kind(), ErrorKind::NotFound);
        let store = Arc::new(InMemory::new());
        let log = fs::read(table.path().join("_delta_log/00000000000000000000.json")).unwrap();
        futures::executor::block_on(store.put(&"t/_delta_log/00000000000000000000.json".into(), log.into()))
            .unwrap();
        Dataset::from_store(store, "t").unwrap().traffic().requests
    };
    assert_eq!(requests(1), requests(50));
}

/// Opens a table within limits. Tests that call this are slow, and each must run alone because the memory of
/// the whole process is measured.
#[allow(clippy::print_stdout, reason = "a test that runs alone prints what it measured")]
fn opens_within(table: &DeltaTable, files: usize, most: Duration, most_kib: u64) {
    let start = Instant::now();
    let dataset = table.open().unwrap();
    let elapsed = start.elapsed();
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    println!("{elapsed:?}, {peak} KiB at most");
    assert_eq!((dataset.rows(), dataset.catalog().files.len()), (files as u64 * 1000, files));
    assert!(elapsed < most && peak < most_kib, "{elapsed:?} {peak} KiB");
}

/// The statistics in the log of a file of 1,000 rows.
fn stats_of(at: usize) -> String {
    let (least, greatest) = (at * 1000, at * 1000 + 999);
    json!({"numRecords": 1000, "minValues": {"id": least}, "maxValues": {"id": greatest},
        "nullCount": {"id": 0, "text": 0}})
    .to_string()
}

fn path_of(at: usize) -> String {
    format!(
        "part-{at:05}-{:08x}-7a1e-4c52-9d0b-{:012x}-c000.snappy.parquet",
        at * 2_654_435_761 % (1 << 32),
        at
    )
}

#[test]
#[ignore = "a checkpoint of a hundred thousand files; run it alone"]
fn a_checkpoint_of_a_hundred_thousand_files_opens_in_time_and_memory() {
    const FILES: usize = 100_000;
    let begun = begun();
    let (of_protocol, of_schema) = (&begun[0]["protocol"], &begun[1]["metaData"]);
    let rows = FILES + 2;
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let only = |at: usize, value: String| {
        StringArray::from_iter((0..rows).map(|row| (row == at).then(|| value.clone())))
    };
    let of_file = |of: &dyn Fn(usize) -> String| {
        Arc::new(StringArray::from_iter((0..rows).map(|row| Some(of(row.checked_sub(2)?))))) as ArrayRef
    };
    let structure = |members: Vec<(&str, ArrayRef)>, is_there: &dyn Fn(usize) -> bool| {
        let fields = members.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true));
        let (fields, arrays) =
            (fields.collect::<Vec<_>>(), members.iter().map(|(_, array)| array.clone()).collect());
        let nulls = (0..rows).map(is_there).collect::<Vec<_>>().into();
        Arc::new(StructArray::new(fields.into(), arrays, Some(nulls))) as ArrayRef
    };
    let number = |value: i32| Arc::new(Int32Array::from(vec![value; rows])) as ArrayRef;
    let mut no_values = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
    (0..rows).for_each(|_| no_values.append(true).unwrap());
    let no_values = Arc::new(no_values.finish()) as ArrayRef;
    let mut of_none = ListBuilder::new(StringBuilder::new());
    (0..rows).for_each(|_| of_none.append(true));
    let of_none = Arc::new(of_none.finish()) as ArrayRef;
    let add = structure(
        vec![
            ("path", of_file(&path_of)),
            ("partitionValues", no_values.clone()),
            ("size", Arc::new(Int64Array::from(vec![4_000_000; rows]))),
            ("modificationTime", Arc::new(Int64Array::from(vec![1; rows]))),
            ("dataChange", Arc::new(BooleanArray::from(vec![true; rows]))),
            ("stats", of_file(&stats_of)),
        ],
        &|row| row >= 2,
    );
    let about = structure(
        vec![
            ("id", Arc::new(only(1, text(&of_schema["id"])))),
            ("schemaString", Arc::new(only(1, text(&of_schema["schemaString"])))),
            ("partitionColumns", of_none),
            ("configuration", no_values),
        ],
        &|row| row == 1,
    );
    assert_eq!(of_protocol["minReaderVersion"], 3);
    let read_by =
        structure(vec![("minReaderVersion", number(1)), ("minWriterVersion", number(2))], &|row| row == 0);
    let columns = [("add", add), ("metaData", about), ("protocol", read_by)];
    let checkpoint =
        RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true)));
    let table = DeltaTable::new();
    let written = WriterProperties::builder().set_compression(Compression::SNAPPY);
    table.rows("_delta_log/00000000000000000000.checkpoint.parquet", &checkpoint.unwrap(), written);
    opens_within(&table, FILES, Duration::from_secs(5), 300 << 10);
}

#[test]
#[ignore = "commits of three hundred thousand files; run it alone"]
fn commits_of_three_hundred_thousand_files_open_in_time() {
    const COMMITS: usize = 300;
    const IN_EACH: usize = 1000;
    let table = DeltaTable::new();
    table.commit(0, &begun());
    for commit in 0..COMMITS {
        let adds = (0..IN_EACH).map(|at| {
            let at = commit * IN_EACH + at;
            json!({"add": {"path": path_of(at), "partitionValues": {}, "size": 4_000_000, "modificationTime": 1,
                "dataChange": true, "stats": stats_of(at)}})
        });
        table.commit(1 + commit as u64, &adds.collect::<Vec<_>>());
    }
    opens_within(&table, COMMITS * IN_EACH, Duration::from_secs(20), 2 << 20);
}

/// A table of one file of 6,000 rows: its ids, texts that ascend, and cells.
fn of_large_rows(written: WriterPropertiesBuilder) -> DeltaTable {
    const PAGE: usize = 500;
    let ids = 0..6000i64;
    let keys = ids.clone().map(|id| format!("{id:06}{}", "x".repeat(60)));
    let cells = ids.clone().map(|id| [id as u8; 300]);
    let columns: [(&str, ArrayRef); 3] = [
        ("id", Arc::new(Int64Array::from_iter_values(ids))),
        ("key", Arc::new(StringArray::from_iter_values(keys))),
        ("cell", Arc::new(BinaryArray::from_iter_values(cells))),
    ];
    let table = DeltaTable::new();
    let rows = RecordBatch::try_from_iter(columns).unwrap();
    let written =
        written.set_dictionary_enabled(false).set_write_batch_size(PAGE).set_data_page_row_count_limit(PAGE);
    let add = table.rows("a.parquet", &rows, written);
    let fields =
        [field("id", &json!("long")), field("key", &json!("string")), field("cell", &json!("binary"))];
    table.commit(0, &[protocol(&[]), metadata(&json!(fields), "none"), add]);
    table
}

#[test]
fn a_filter_reads_the_pages_of_the_row_groups_that_may_match() {
    let key = |id: i64| format!("{id:06}{}", "x".repeat(60));
    for group in [usize::MAX, 1700] {
        let table = of_large_rows(WriterProperties::builder().set_max_row_group_row_count(Some(group)));
        let read = |filter: Option<Expr>| {
            let dataset = table.open().unwrap();
            let builder = dataset.loader().shuffle(Shuffle::stored()).batch_size(7);
            let builder = match filter {
                Some(filter) => builder.filter(filter),
                None => builder,
            };
            let batches: Vec<RecordBatch> = builder.build().unwrap().epoch(0).map(Result::unwrap).collect();
            for batch in &batches {
                let (ids, cells) =
                    (batch["id"].as_primitive::<Int64Type>(), batch["cell"].as_binary::<i64>());
                assert!(ids.values().iter().zip(cells).all(|(id, cell)| cell == Some(&[*id as u8; 300][..])));
            }
            let ids =
                batches.iter().flat_map(|batch| batch["id"].as_primitive::<Int64Type>().values().to_vec());
            (ids.collect::<Vec<_>>(), dataset.traffic().bytes_needed)
        };
        let (all, of_all) = read(None);
        assert_eq!(all, (0..6000).collect::<Vec<_>>());
        for (expected, filter) in [
            (vec![1699, 1700, 5999], col("key").in_list(vec![key(1699), key(1700), key(5999)])),
            ((3300..3500).collect(), col("key").gt_eq(key(3300)) & col("key").lt(key(3500))),
            (vec![4000], col("id").eq(4000)),
        ] {
            let (found, bytes) = read(Some(filter));
            assert_eq!(found, expected, "row groups of {group}");
            assert!(bytes < of_all / 2, "{bytes} of {of_all} bytes");
        }
    }
}

#[test]
fn a_file_larger_than_memory_is_read_in_pieces() {
    const ROWS: i64 = 8 << 20;
    let rows =
        RecordBatch::try_from_iter([("id", Arc::new(Int64Array::from_iter_values(0..ROWS)) as ArrayRef)]);
    let written = WriterProperties::builder().set_dictionary_enabled(false);
    let written = written.set_encoding(Encoding::DELTA_BINARY_PACKED);
    let table = DeltaTable::new();
    let add = table.rows("a.parquet", &rows.unwrap(), written.set_max_row_group_row_count(Some(3 << 20)));
    table.commit(0, &[protocol(&[]), metadata(&json!([field("id", &json!("long"))]), "none"), add]);
    let builder = table.open().unwrap().loader().memory(48 << 20).threads(2);
    let shuffled = builder.clone().shuffle(Shuffle::seeded(1).window_rows(1 << 20)).build().unwrap_err();
    assert_eq!(shuffled.kind(), ErrorKind::TooLarge, "{shuffled}");
    let loader = builder.shuffle(Shuffle::stored()).batch_size(1 << 16).build().unwrap();
    let mut next = 0;
    for batch in loader.epoch(0) {
        for id in batch.unwrap()["id"].as_primitive::<Int64Type>().values() {
            assert_eq!(*id, next);
            next += 1;
        }
    }
    assert_eq!(next, ROWS);
}

#[test]
fn damage_is_in_the_row_group_that_has_it() {
    let table = table(&[(10, BTreeSet::new()), (4, BTreeSet::new())], 4);
    let path = table.path().join("0.parquet");
    let dataset = table.open().unwrap();
    let whole = dataset.loader().shuffle(Shuffle::stored()).batch_size(20).build().unwrap();
    assert_eq!(whole.epoch(0).map(|batch| batch.unwrap().num_rows()).sum::<usize>(), 14);
    let catalog = dataset.catalog();
    let ids = catalog.project(&["id"]).unwrap();
    let range = &catalog.byte_ranges(&catalog.groups[0], &ids).unwrap()[1];
    let mut bytes = fs::read(&path).unwrap();
    bytes[range.start as usize..range.end as usize].fill(0xff);
    fs::write(&path, bytes).unwrap();
    let error = laws::failure(&table.open().unwrap());
    assert_eq!((error.kind(), error.place().row_group), (ErrorKind::Corrupt, Some(1)), "{error}");
    let lenient = table.open().unwrap().loader().shuffle(Shuffle::stored()).on_bad_row(OnBadRow::skip(10));
    let lenient = lenient.batch_size(20).build().unwrap();
    let kept: usize = lenient.epoch(0).map(|batch| batch.unwrap().num_rows()).sum();
    assert_eq!(kept, 4, "the rows of the file are lost");
}
