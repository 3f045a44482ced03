//! Rows that stay in memory from one epoch to the next: they come as those do that are read.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and is its own loader"
)]

use std::path::Path;
use std::sync::Arc;

use forebay::arrow::array::{ArrayRef, BinaryArray, Int64Array, RecordBatch, StringArray};
use forebay::filter::col;
use forebay::samples::{Sample, Samples, Window};
use forebay::{Dataset, Loader, LoaderBuilder, OnBadRow, Position, Shard, Shuffle};
use tempfile::TempDir;

use super::kit::{Draw, write_batch};

const CASES: u64 = 120;
const FILES: u64 = 3;
const EPOCHS: u64 = 4;

/// Writes files of up to 300 rows in row groups of `group`: `n` counts all rows, `c` is one of ten classes.
fn write(draw: &mut Draw, folder: &Path, group: usize) {
    let mut n = 0;
    for file in 0..FILES {
        let rows: Vec<i64> = (0..40 + draw.below(260) as i64).map(|row| n + row).collect();
        n += rows.len() as i64;
        let texts = rows.iter().map(|n| "x".repeat(*n as usize % 40));
        let columns = [
            ("n", Arc::new(Int64Array::from(rows.clone())) as ArrayRef),
            ("c", Arc::new(Int64Array::from_iter_values(rows.iter().map(|n| n * 7 % 10)))),
            ("text", Arc::new(StringArray::from_iter_values(texts))),
            ("bytes", Arc::new(BinaryArray::from_iter_values(rows.iter().map(|n| n.to_le_bytes())))),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        write_batch(&folder.join(format!("part-{file}.parquet")), &batch, group);
    }
}

/// The options of one case, whatever its rank.
struct Case {
    folder: TempDir,
    samples: Samples,
    shuffle: Shuffle,
    is_filtered: bool,
    batch: u64,
    world: u32,
}

impl Case {
    fn drawn(draw: &mut Draw) -> Case {
        let folder = TempDir::new().unwrap();
        let group = [7, 30, 1_000][draw.below(3) as usize];
        write(draw, folder.path(), group);
        let samples = match draw.below(6) {
            0 => Window::rows(3).into(),
            1 => Sample::weights("n").rows(150).into(),
            _ => Samples::Rows,
        };
        let shuffle = match draw.below(4) {
            0 => Shuffle::stored(),
            1 => Shuffle::exact(draw.below(9)),
            2 => Shuffle::seeded(draw.below(9)).window_rows(60),
            _ => Shuffle::seeded(draw.below(9)),
        };
        let (is_filtered, batch) = (draw.below(2) == 0, 1 + draw.below(40));
        Case { folder, samples, shuffle, is_filtered, batch, world: 1 + draw.below(3) as u32 }
    }

    fn builder(&self, rank: u32) -> LoaderBuilder {
        let builder = Dataset::open(self.folder.path()).unwrap().loader();
        let builder = builder.samples(self.samples.clone()).shuffle(self.shuffle).threads(2);
        let builder = builder.batch_size(self.batch).shard(Shard::new(rank, self.world).unwrap());
        if self.is_filtered { builder.filter(col("c").in_list([1, 2, 3])) } else { builder }
    }
}

fn epoch(loader: &Loader, number: u64) -> Vec<RecordBatch> {
    loader.epoch(number).map(Result::unwrap).collect()
}

#[test]
fn rows_from_memory_come_in_the_order_and_with_the_values_of_rows_that_are_read() {
    let mut draw = Draw(17);
    let (mut ran, mut stayed) = (0, 0);
    for number in 0..CASES {
        let case = Case::drawn(&mut draw);
        for rank in 0..case.world {
            let Ok(loader) = case.builder(rank).build() else { continue };
            ran += 1;
            let stays = loader.plan(0).unwrap().reads.unwrap().staying_bytes > 0;
            for at in 0..EPOCHS {
                let fresh = case.builder(rank).build().unwrap();
                assert_eq!(epoch(&loader, at), epoch(&fresh, at), "case {number}, rank {rank}, epoch {at}");
            }
            let memory = loader.stats().memory;
            assert_eq!(memory.staying > 0, stays, "case {number}");
            stayed += u64::from(memory.staying_rows > 0);

            // A position in the midst of an epoch whose rows stay is one in an epoch that reads them.
            let after = draw.below(loader.len().max(1));
            let mut run = loader.epoch(EPOCHS);
            (0..after).for_each(|_| drop(run.next().unwrap().unwrap()));
            let state = serde_json::to_string(&loader.position()).unwrap();
            let rest: Vec<RecordBatch> = run.map(Result::unwrap).collect();
            let position: Position = serde_json::from_str(&state).unwrap();
            for resumed in [case.builder(rank).build().unwrap(), loader] {
                resumed.restore(&position).unwrap();
                let found: Vec<RecordBatch> = resumed.next_epoch().map(Result::unwrap).collect();
                assert_eq!(found, rest, "case {number}, rank {rank}, after {after} steps");
            }
        }
    }
    assert!(ran > CASES && stayed * 10 > ran * 6, "{stayed} of {ran}");
}

#[test]
fn rows_that_stay_are_read_once_and_others_in_every_epoch() {
    let folder = TempDir::new().unwrap();
    write(&mut Draw(5), folder.path(), 30);
    let loader = |epochs: Option<u64>| {
        let builder = Dataset::open(folder.path()).unwrap().loader().batch_size(16).threads(2);
        let builder = builder.shuffle(Shuffle::seeded(1)).filter(col("c").in_list([3]));
        epochs.map_or(builder.clone(), |epochs| builder.epochs(epochs)).build().unwrap()
    };
    let kept = loader(None);
    // The second epoch was being prepared while the first one was read.
    (0..2).for_each(|at| drop(epoch(&kept, at)));
    let read = kept.stats().traffic.bytes_read;
    (2..8).for_each(|at| drop(epoch(&kept, at)));
    let stats = kept.stats();
    assert_eq!(stats.traffic.bytes_read, read, "later epochs read nothing");
    let rows: u64 = epoch(&kept, 8).iter().map(|batch| batch.num_rows() as u64).sum();
    assert!(stats.memory.staying_rows >= 6 * rows, "{:?}", stats.memory);
    let plan = kept.plan(0).unwrap();
    assert!(plan.to_string().contains("rows stay in memory"), "{plan}");
    assert!(stats.to_string().contains("of rows in memory, from which epochs had"), "{stats}");
    kept.close();
    assert_eq!(kept.stats().memory.staying, 0, "a closed loader keeps nothing");

    let once = loader(Some(1));
    assert_eq!(once.plan(0).unwrap().reads.unwrap().staying_bytes, 0, "one epoch needs them once");
}

#[test]
fn rows_that_take_more_than_their_share_of_the_memory_do_not_stay() {
    let folder = TempDir::new().unwrap();
    let blobs = BinaryArray::from_iter_values((0..400u32).map(|row| vec![row as u8; 40_000]));
    let batch = RecordBatch::try_from_iter([("blob", Arc::new(blobs) as ArrayRef)]).unwrap();
    write_batch(&folder.path().join("blobs.parquet"), &batch, 20);
    let loader = |memory| Dataset::open(folder.path()).unwrap().loader().batch_size(4).memory(memory);
    let staying = |memory| {
        let loader = loader(memory).threads(2).build().unwrap();
        (0..3).for_each(|at| assert_eq!(epoch(&loader, at).len(), 100));
        loader.stats().memory.staying
    };
    assert_eq!(staying(64 << 20), 0, "16 MB are more than an eighth of 64 MiB");
    assert!(staying(256 << 20) >= 16_000_000);
}

#[test]
fn a_row_group_that_cannot_be_read_is_skipped_in_every_epoch() {
    let folder = TempDir::new().unwrap();
    write(&mut Draw(9), folder.path(), 20);
    let whole = Dataset::open(folder.path()).unwrap();
    let rows = whole.loader().build().unwrap().plan(0).unwrap().rows;
    std::fs::remove_file(folder.path().join("part-1.parquet")).unwrap();
    let loader = whole.loader().batch_size(8).threads(2).shuffle(Shuffle::seeded(2));
    let loader = loader.on_bad_row(OnBadRow::skip(rows)).build().unwrap();
    let mut before = 0;
    let mut lost = None;
    for at in 0..EPOCHS {
        let came: u64 = epoch(&loader, at).iter().map(|batch| batch.num_rows() as u64).sum();
        let skipped = loader.stats().skipped_rows - before;
        before += skipped;
        assert_eq!(came + skipped, rows, "epoch {at}");
        assert_eq!(*lost.get_or_insert(skipped), skipped, "epoch {at}");
    }
    assert!(lost > Some(0) && loader.stats().memory.staying_rows > 0);
}
