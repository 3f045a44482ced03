//! A loader's options as one value: the options that a loader returns, and the plan that they make without a
//! loader.
#![allow(clippy::unwrap_used, reason = "a helper of a test stops it")]

use std::path::Path;
use std::sync::Arc;

use forebay::arrow::array::{Int64Array, RecordBatch};
use forebay::filter::{Op, Term, col, row_fraction};
use forebay::{CacheSpec, Dataset, DiskCache, Filter, LoaderSpec, Shard, Shuffle, Tier};
use tempfile::TempDir;

use super::kit::write_batch;

const ROWS: i64 = 1_000;
const GROUP: usize = 100;

fn dataset(folder: &Path) -> Dataset {
    let column = Arc::new(Int64Array::from_iter_values(0..ROWS));
    let batch = RecordBatch::try_from_iter([("x", column.clone() as _), ("y", column as _)]).unwrap();
    write_batch(&folder.join("a.parquet"), &batch, GROUP);
    Dataset::open(folder).unwrap()
}

#[test]
fn a_loader_shows_its_options_with_the_defaults_filled_in() {
    let dir = TempDir::new().unwrap();
    let loader = dataset(dir.path()).loader().shuffle(Shuffle::seeded(17)).build().unwrap();
    let spec = loader.spec();
    assert_eq!(spec.columns.as_deref(), Some(&["x".to_owned(), "y".to_owned()][..]));
    assert_eq!((spec.batch_size, spec.shard, spec.epochs), (32, Shard::default(), None));
    assert!(spec.memory.unwrap() > 0 && spec.threads.unwrap() > 0);
    let shuffle = serde_json::to_value(spec.shuffle).unwrap();
    assert_eq!((&shuffle["seed"], &shuffle["lanes"]), (&17.into(), &1.into()));
    assert!(shuffle["window_rows"].as_u64().unwrap() > ROWS as u64, "{shuffle}");
}

#[test]
fn the_options_of_a_loader_make_the_same_loader_again() {
    let dir = TempDir::new().unwrap();
    let dataset = dataset(dir.path());
    let first = dataset
        .loader()
        .columns(["y"])
        .shuffle(Shuffle::seeded(3).window_rows(250))
        .shard(Shard::new(1, 2).unwrap())
        .filter(Filter::all_of([Term::new("x", Op::Less, 900)]))
        .batch_size(10)
        .drop_last(true)
        .build()
        .unwrap();
    let text = serde_json::to_string(first.spec()).unwrap();
    let again = dataset.loader().spec(serde_json::from_str(&text).unwrap()).build().unwrap();
    assert_eq!(again.spec(), first.spec());
    assert_eq!(again.position(), first.position());
    let rows = |loader: &forebay::Loader| loader.epoch(0).collect::<Result<Vec<_>, _>>().unwrap();
    assert_eq!(rows(&again), rows(&first));
}

#[test]
fn an_expression_is_written_and_read_as_it_is() {
    let dir = TempDir::new().unwrap();
    let dataset = dataset(dir.path());
    let filter = (col("x") % 3).eq(1) | !col("x").in_list([4, 5]) & row_fraction(0.5, 7);
    let loader = dataset.loader().filter(filter).build().unwrap();
    let text = serde_json::to_string(loader.spec()).unwrap();
    assert!(
        text.contains(r#"{"expr":{"or":[{"compare":[{"arithmetic":[{"column":"x"},"%",{"literal":3}]},"=","#)
    );
    let again = dataset.loader().spec(serde_json::from_str(&text).unwrap()).build().unwrap();
    assert_eq!((again.spec(), again.plan(0).unwrap()), (loader.spec(), loader.plan(0).unwrap()));
}

#[test]
fn the_plan_of_a_description_is_the_plan_of_its_loader() {
    let dir = TempDir::new().unwrap();
    let builder = dataset(dir.path()).loader().shuffle(Shuffle::seeded(3)).batch_size(30);
    let loader = builder.clone().build().unwrap();
    for epoch in [0, 7] {
        assert_eq!(builder.plan(epoch).unwrap(), loader.plan(epoch).unwrap());
    }
    let filtered = builder.filter((col("x") + 50).lt(200) & !col("x").is_null());
    assert_eq!(filtered.plan(0).unwrap().rows, 150);
    assert!(filtered.batch_size(0).plan(0).is_err());
}

/// The environment variable that says that this process runs only one test, so that its threads can be
/// counted.
#[cfg(target_os = "linux")]
const ALONE: &str = "FOREBAY_TEST_ALONE";

#[cfg(target_os = "linux")]
#[test]
fn a_plan_starts_no_thread() {
    if std::env::var_os(ALONE).is_none() {
        let this = std::env::current_exe().unwrap();
        let arguments = ["--exact", "a_plan_starts_no_thread", "--nocapture"];
        let output = std::process::Command::new(this).args(arguments).env(ALONE, "1").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    let dir = TempDir::new().unwrap();
    let dataset = dataset(dir.path());
    let before = threads();
    dataset.loader().plan(0).unwrap();
    assert_eq!(threads(), before, "after a plan");
    let _loader = dataset.loader().build().unwrap();
    assert!(threads() > before, "a loader has threads of its own");
}

#[test]
fn a_cache_that_is_open_is_shown_by_its_folder() {
    let dir = TempDir::new().unwrap();
    let folder = dir.path().join("cache");
    let dataset = dataset(dir.path());
    let cache = DiskCache::open(&folder, 1 << 20).unwrap();
    let loader = dataset.loader().cache_tier(Tier::Rows).cache(cache).build().unwrap();
    let shown = loader.spec().cache.clone().unwrap();
    assert_eq!((shown.path.as_path(), shown.max_bytes), (folder.as_path(), 1 << 20));
    assert_eq!(shown.tier, Tier::Rows);
    let mut spec = LoaderSpec::default();
    spec.cache = Some(CacheSpec::new(&folder, 1 << 20));
    let opened = dataset.loader().spec(spec).build().unwrap();
    assert!(opened.stats().cache.is_some());
}
