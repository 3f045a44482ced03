//! Entries of the row cache.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use forebay::arrow::array::{AsArray, RecordBatch};
use forebay::arrow::datatypes::Int64Type;
use forebay::{Dataset, DiskCache, Shuffle};
use tempfile::TempDir;

use crate::parquet_files;

/// A data set of one file, and the files of a cache that holds its rows.
struct Cached {
    folder: TempDir,
    numbers: Vec<i64>,
    entries: Vec<(PathBuf, Vec<u8>)>,
}

static CACHED: LazyLock<Cached> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("data")).unwrap();
    fs::write(folder.path().join("data/a.parquet"), &parquet_files::files()[0]).unwrap();
    let numbers = read(folder.path());
    let mut entries = Vec::new();
    collect(&folder.path().join("cache"), &mut entries);
    assert!(entries.len() > 1, "the cache kept nothing");
    Cached { folder, numbers, entries }
});

fn collect(folder: &Path, entries: &mut Vec<(PathBuf, Vec<u8>)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => collect(&path, entries),
            false => entries.push((path.clone(), fs::read(path).unwrap())),
        }
    }
}

/// Returns the numbers of one epoch that is read through the cache.
fn read(folder: &Path) -> Vec<i64> {
    let cache = DiskCache::open(folder.join("cache"), 64 << 20).unwrap();
    let loader = Dataset::open(folder.join("data"))
        .unwrap()
        .loader()
        .cache(cache)
        .cache_tier(forebay::Tier::Rows)
        .threads(1);
    let loader = loader.columns(["number"]).shuffle(Shuffle::seeded(7)).build().unwrap();
    let numbers = |batch: forebay::Result<RecordBatch>| {
        batch.unwrap().column(0).as_primitive::<Int64Type>().values().to_vec()
    };
    loader.epoch(0).flat_map(numbers).collect()
}

/// Whatever one of the files of a cache contains, the delivered rows are right. The first byte chooses the
/// file.
pub(crate) fn entry(data: &[u8]) -> bool {
    let cached = &*CACHED;
    let Some((&which, content)) = data.split_first() else { return false };
    let changed = usize::from(which) % cached.entries.len();
    for (number, (path, bytes)) in cached.entries.iter().enumerate() {
        fs::write(path, if number == changed { content } else { bytes }).unwrap();
    }
    assert_eq!(
        read(cached.folder.path()),
        cached.numbers,
        "{:?} changed the rows",
        cached.entries[changed].0
    );
    true
}

pub(crate) fn entries() -> Vec<Vec<u8>> {
    let entries = CACHED.entries.iter().enumerate();
    entries.map(|(number, (_, bytes))| [&[number as u8], bytes.as_slice()].concat()).collect()
}
