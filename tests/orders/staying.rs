//! Rows that stay in memory from one epoch to the next are delivered like rows that are read again.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and is its own loader"
)]

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use forebay::arrow::array::{
    ArrayRef, AsArray, BinaryArray, Int64Array, LargeStringArray, RecordBatch, StringArray,
};
use forebay::arrow::datatypes::Int64Type;
use forebay::filter::col;
use forebay::samples::{Sample, Samples, Window};
use forebay::{
    Dataset, Deny, DiskCache, Loader, LoaderBuilder, OnBadRow, Position, RowId, Shard, Shuffle, Tier,
};
use serde_json::json;
use tempfile::TempDir;

use super::kit::{Draw, write_batch};

const CASES: u64 = 160;
const EPOCHS: u64 = 4;

/// Where the columns `part` and `half` are stored. Both have the same value in all rows of a file.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Keys {
    /// In the files.
    Stored,
    /// In the names of the folders.
    Folders,
    /// In the log of a Delta table.
    Delta,
}

/// The values of `part` and `half` in a file.
fn keys_of(file: i64) -> (i64, String) {
    (file % 3, format!("the {} half of the files", if file < 3 { "first" } else { "second" }))
}

/// Writes files of up to 300 rows in row groups of `group`: `n` counts all rows, `file` the files, and `c` is
/// one of ten classes.
fn write(draw: &mut Draw, folder: &Path, (files, group): (i64, usize), keys: Keys) {
    let (mut n, mut log) = (0, Vec::new());
    for file in 0..files {
        let rows: Vec<i64> = (0..40 + draw.below(260) as i64).map(|row| n + row).collect();
        n += rows.len() as i64;
        let (part, half) = keys_of(file);
        let texts = rows.iter().map(|n| "x".repeat(*n as usize % 40));
        let all = |value: i64| Arc::new(Int64Array::from_iter_values(rows.iter().map(|_| value)));
        let halves = Arc::new(StringArray::from_iter_values(rows.iter().map(|_| &half)));
        let mut columns = vec![
            ("n", Arc::new(Int64Array::from(rows.clone())) as ArrayRef),
            ("c", Arc::new(Int64Array::from_iter_values(rows.iter().map(|n| n * 7 % 10)))),
            ("text", Arc::new(StringArray::from_iter_values(texts))),
            ("bytes", Arc::new(BinaryArray::from_iter_values(rows.iter().map(|n| n.to_le_bytes())))),
            ("file", all(file)),
        ];
        let name = match keys {
            Keys::Folders => format!("half={half}/part={part}/file-{file}.parquet"),
            Keys::Stored | Keys::Delta => format!("file-{file}.parquet"),
        };
        if keys == Keys::Stored {
            columns.extend([("part", all(part) as ArrayRef), ("half", halves)]);
        }
        let path = folder.join(&name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        write_batch(&path, &RecordBatch::try_from_iter(columns).unwrap(), group);
        let size = fs::metadata(path).unwrap().len();
        log.push(json!({"add": {"path": name, "size": size, "modificationTime": 1, "dataChange": true,
            "partitionValues": {"part": part.to_string(), "half": half}}}));
    }
    if keys == Keys::Delta {
        write_log(folder, log);
    }
}

fn write_log(folder: &Path, mut actions: Vec<serde_json::Value>) {
    let field =
        |(name, data_type)| json!({"name": name, "type": data_type, "nullable": true, "metadata": {}});
    let numbers = ["n", "c", "file", "part"].map(|name| (name, "long"));
    let fields = numbers.into_iter().chain([("text", "string"), ("bytes", "binary"), ("half", "string")]);
    let schema = json!({"type": "struct", "fields": fields.map(field).collect::<Vec<_>>()}).to_string();
    actions.push(json!({"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}));
    actions.push(json!({"metaData": {"id": "t", "schemaString": schema, "configuration": {},
        "partitionColumns": ["part", "half"]}}));
    let lines: String = actions.iter().map(|action| format!("{action}\n")).collect();
    fs::create_dir(folder.join("_delta_log")).unwrap();
    fs::write(folder.join(format!("_delta_log/{:020}.json", 0)), lines).unwrap();
}

/// Where a row is: its file, its row group and its ordinal there.
type Spot = (String, usize, u64);

/// The options of one case, whatever its rank.
struct StayingCase {
    folder: TempDir,
    cache: TempDir,
    tier: Tier,
    samples: Samples,
    shuffle: Shuffle,
    is_filtered: bool,
    deny: Deny,
    /// Rows that are denied from a step on.
    deny_from: Option<(u64, Deny)>,
    batch: u64,
    world: u32,
    /// The number of the row at each place, which is its value in column `n`.
    placed: HashMap<Spot, i64>,
}

impl StayingCase {
    fn drawn(draw: &mut Draw) -> StayingCase {
        let [folder, cache] = [(); 2].map(|()| TempDir::new().unwrap());
        let group = [7, 30, 1_000][draw.below(3) as usize];
        let keys = [Keys::Stored, Keys::Folders, Keys::Delta][draw.below(3) as usize];
        let files = 1 + draw.below(6) as i64;
        write(draw, folder.path(), (files, group), keys);
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
        let tier = [Tier::Auto, Tier::Rows][draw.below(2) as usize];
        let dataset = Dataset::open(folder.path()).unwrap();
        let (placed, ids) = places(&dataset);
        let mut some = || Deny::rows((0..9).map(|_| ids[draw.below(ids.len() as u64) as usize]));
        let denied = [some(), some()];
        let [deny, later] = denied.map(|deny| (draw.below(2) == 0).then_some(deny));
        StayingCase {
            folder,
            cache,
            tier,
            samples,
            shuffle,
            is_filtered: draw.below(2) == 0,
            deny: deny.unwrap_or_default(),
            deny_from: later.map(|deny| (draw.below(12), deny)),
            batch: 1 + draw.below(40),
            world: 1 + draw.below(3) as u32,
            placed,
        }
    }

    fn builder(&self, rank: u32) -> LoaderBuilder {
        let builder = Dataset::open(self.folder.path()).unwrap().loader();
        let builder = builder.samples(self.samples.clone()).shuffle(self.shuffle).threads(2);
        let builder = builder.batch_size(self.batch).shard(Shard::new(rank, self.world).unwrap());
        let builder = builder.deny(self.deny.clone());
        let builder = match &self.deny_from {
            Some((step, deny)) => builder.deny_from(*step, deny.clone()),
            None => builder,
        };
        // The second condition is on a column that may be a key.
        if self.is_filtered {
            builder.filter(col("c").in_list([1, 2, 3]) | col("part").eq(2))
        } else {
            builder
        }
    }

    /// Builds a loader whose rows come from a cache on disk, which it fills from the files.
    fn cached(&self, rank: u32) -> Loader {
        let cache = DiskCache::open(self.cache.path(), 1 << 30).unwrap();
        self.builder(rank).cache(cache).cache_tier(self.tier).build().unwrap()
    }

    /// Checks that a batch has the rows that the plan names, with the right values in all columns. Batches of
    /// windows are not checked.
    fn is_right(&self, loader: &Loader, (epoch, step, rank): (u64, u64, u32), batch: &RecordBatch) {
        if matches!(self.samples, Samples::Windows(_)) {
            return;
        }
        let numbers = |name: &str| batch[name].as_primitive::<Int64Type>().values().to_vec();
        let texts = |name: &str| batch[name].as_string::<i64>().clone();
        let (rows, files) = (numbers("n"), numbers("file"));
        let (parts, halves): (Vec<i64>, Vec<String>) = files.iter().map(|file| keys_of(*file)).unzip();
        let place = format!("epoch {epoch}, step {step}, rank {rank}");
        assert_eq!(numbers("c"), rows.iter().map(|n| n * 7 % 10).collect::<Vec<_>>(), "{place}");
        assert_eq!(numbers("part"), parts, "{place}");
        assert_eq!(texts("half"), LargeStringArray::from(halves), "{place}");
        let long = rows.iter().map(|n| "x".repeat(*n as usize % 40));
        assert_eq!(texts("text"), LargeStringArray::from_iter_values(long), "{place}");
        // The plan still names rows that are denied from some step on, so it differs from the batch.
        if self.deny_from.is_none() {
            let planned = loader.rewind().unwrap().step(epoch, step, rank).unwrap();
            let spots = planned.iter().map(|row| (row.file.to_string(), row.row_group, row.row));
            assert_eq!(rows, spots.map(|spot| self.placed[&spot]).collect::<Vec<_>>(), "{place}");
        }
    }
}

/// Returns the value of column `n` at each place of a data set, and the ids of all rows.
fn places(dataset: &Dataset) -> (HashMap<Spot, i64>, Vec<RowId>) {
    let loader = dataset.loader().columns(["n"]).row_id(true).epochs(1).build().unwrap();
    let numbers = |batch: &RecordBatch, name: &str| batch[name].as_primitive::<Int64Type>().values().to_vec();
    let batches: Vec<RecordBatch> = loader.epoch(0).map(Result::unwrap).collect();
    let rows = batches.iter().flat_map(|batch| numbers(batch, "n").into_iter().zip(numbers(batch, "row_id")));
    let rows: Vec<_> = rows.map(|(n, id)| (n, RowId::new(id))).collect();
    let spot = |id| {
        let row = dataset.row(id).unwrap().unwrap();
        (row.file.to_string(), row.row_group, row.row)
    };
    (rows.iter().map(|(n, id)| (spot(*id), *n)).collect(), rows.iter().map(|(_, id)| *id).collect())
}

fn epoch(loader: &Loader, number: u64) -> Vec<RecordBatch> {
    loader.epoch(number).map(Result::unwrap).collect()
}

#[test]
fn rows_from_memory_come_in_the_order_and_with_the_values_of_rows_that_are_read() {
    let mut draw = Draw(17);
    let (mut ran, mut stayed) = (0, 0);
    for number in 0..CASES {
        let case = StayingCase::drawn(&mut draw);
        for rank in 0..case.world {
            let Ok(loader) = case.builder(rank).build() else { continue };
            ran += 1;
            let stays = loader.plan(0).unwrap().reads.unwrap().staying_bytes > 0;
            let cached = case.cached(rank);
            for at in 0..EPOCHS {
                let found = epoch(&loader, at);
                assert_eq!(found, epoch(&cached, at), "case {number}, rank {rank}, epoch {at}");
                found
                    .iter()
                    .zip(0..)
                    .for_each(|(batch, step)| case.is_right(&loader, (at, step, rank), batch));
            }
            let memory = loader.stats().memory;
            assert_eq!(memory.staying > 0, stays, "case {number}");
            // A cache keeps a few megabytes of local rows without asking whether they could stay in memory.
            let stats = cached.stats();
            assert_eq!(stats.memory.staying, 0, "case {number}");
            assert_eq!(stats.cache.unwrap().read_again, None, "case {number}");
            stayed += u64::from(memory.staying_rows > 0);

            // A position saved while rows come from memory also resumes where they are read from files.
            let after = draw.below(loader.len().max(1));
            let mut run = loader.epoch(EPOCHS);
            (0..after).for_each(|_| drop(run.next().unwrap().unwrap()));
            let state = serde_json::to_string(&loader.position()).unwrap();
            let rest: Vec<RecordBatch> = run.map(Result::unwrap).collect();
            let position: Position = serde_json::from_str(&state).unwrap();
            for resumed in [case.builder(rank).build().unwrap(), case.cached(rank), loader] {
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
    write(&mut Draw(5), folder.path(), (3, 30), Keys::Stored);
    let loader = |epochs: Option<u64>| {
        let builder = Dataset::open(folder.path()).unwrap().loader().batch_size(16).threads(2);
        let builder = builder.shuffle(Shuffle::seeded(1)).filter(col("c").in_list([3]));
        epochs.map_or(builder.clone(), |epochs| builder.epochs(epochs)).build().unwrap()
    };
    let kept = loader(None);
    // The first two epochs are not counted, because the second was prepared while the first was read. Some of
    // those reads may end late, in the first tries, but rows that do not stay are read in each try.
    const TRIES: u64 = 20;
    (0..2).for_each(|at| drop(epoch(&kept, at)));
    let read_nothing = (0..TRIES).any(|turn| {
        let read = kept.stats().traffic.bytes_read;
        (0..6).for_each(|at| drop(epoch(&kept, 2 + turn * 6 + at)));
        kept.stats().traffic.bytes_read == read
    });
    let stats = kept.stats();
    assert!(read_nothing, "later epochs read: {}", stats.traffic);
    let rows: u64 = epoch(&kept, 2 + TRIES * 6).iter().map(|batch| batch.num_rows() as u64).sum();
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
    write(&mut Draw(9), folder.path(), (3, 20), Keys::Stored);
    let whole = Dataset::open(folder.path()).unwrap();
    let rows = whole.loader().build().unwrap().plan(0).unwrap().rows;
    fs::remove_file(folder.path().join("file-1.parquet")).unwrap();
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
