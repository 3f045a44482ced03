//! The life of an epoch: it runs to its end on any data set, and leaves the next epoch complete.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a helper of a test stops it, and sleeps")]

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay::arrow::array::*;
use forebay::arrow::datatypes::{DataType, Field, Int64Type, Schema};
use forebay::{
    Dataset, DiskCache, Epoch, ErrorKind, Loader, LoaderBuilder, Position, Shard, Shuffle, Stats, Wait,
};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use tempfile::TempDir;

const KB: usize = 1_000;
const MB: usize = 1_000 * KB;

/// Longer than any epoch of these tests takes on any machine.
const EPOCH_TIMEOUT: Duration = Duration::from_secs(600);

/// Writes one file with a row group for each of `groups`, which are pairs of a number of rows and the size of
/// each row's blob. Blobs differ and do not compress. Row `i` has `id = i`.
fn written(groups: impl IntoIterator<Item = (usize, usize)>) -> TempDir {
    let dir = TempDir::new().unwrap();
    let schema = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("blob", DataType::Binary, false),
    ]));
    let properties = WriterProperties::builder().set_dictionary_enabled(false).build();
    let file = std::fs::File::create(dir.path().join("a.parquet")).unwrap();
    let mut writer = ArrowWriter::try_new(file, schema.clone(), Some(properties)).unwrap();
    let mut next = 0i64;
    for (rows, bytes) in groups {
        let ids = next..next + rows as i64;
        next = ids.end;
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(ids.clone())),
            Arc::new(BinaryArray::from_iter_values(ids.map(|id| vec![id as u8; bytes]))),
        ];
        writer.write(&RecordBatch::try_new(schema.clone(), columns).unwrap()).unwrap();
        writer.flush().unwrap();
    }
    writer.close().unwrap();
    dir
}

fn loader(dir: &TempDir) -> LoaderBuilder {
    Dataset::open(dir.path()).unwrap().loader().threads(2)
}

fn shard(rank: u32, world: u32) -> Shard {
    Shard::new(rank, world).unwrap()
}

fn ids(batch: &RecordBatch) -> Vec<i64> {
    batch.column_by_name("id").unwrap().as_primitive::<Int64Type>().values().to_vec()
}

/// The ids of an epoch, batch by batch. A wait without end fails the test.
fn epoch(loader: &Loader, number: u64) -> Vec<Vec<i64>> {
    let mut epoch = loader.epoch(number);
    let mut batches = Vec::new();
    loop {
        match epoch.next_step(EPOCH_TIMEOUT) {
            Wait::Step(step) => {
                let step = step.unwrap();
                loader.handed_over(&step.after);
                batches.push(ids(&step.batch));
            }
            Wait::Pending => panic!("epoch {number} waits for ever after {} batches", batches.len()),
            Wait::Finished => return batches,
        }
    }
}

/// Waits for something that the loader does by itself.
fn awaited(loader: &Loader, is_done: impl Fn(&Stats) -> bool) {
    let start = Instant::now();
    while !is_done(&loader.stats()) {
        assert!(start.elapsed() < EPOCH_TIMEOUT, "{:?}", loader.stats());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until the loader has done everything that it does by itself.
fn settled(loader: &Loader) -> Stats {
    let mut last = loader.stats();
    let mut since = Instant::now();
    while since.elapsed() < Duration::from_millis(500) {
        std::thread::sleep(Duration::from_millis(20));
        let now = loader.stats();
        let moved = now.stages.fetch.items != last.stages.fetch.items
            || now.stages.parquet.items != last.stages.parquet.items
            || now.stages.gather.items != last.stages.gather.items;
        if moved {
            since = Instant::now();
        }
        last = now;
    }
    last
}

#[test]
fn what_is_accepted_ends_in_every_epoch_on_every_rank_though_row_groups_differ() {
    let uneven = written((0..16).map(|group| (50, if group == 15 { 60 * KB } else { KB })));
    let two = written((0..16).map(|group| (if group % 3 == 0 { 200 } else { 20 }, 10 * KB)));
    let (mut accepted, mut refused) = (0, 0);
    for dir in [&uneven, &two] {
        for (world, lanes, window, batch) in [(2, 2, 150, 10), (2, 2, 40, 64), (2, 4, 60, 16), (3, 2, 100, 7)]
        {
            for memory in [3 * MB, 5 * MB, 8 * MB, 12 * MB, 16 * MB, 40 * MB] {
                let build = |rank| {
                    let shuffle = Shuffle::seeded(1).window_rows(window).lanes(lanes);
                    let loader = loader(dir).shuffle(shuffle).shard(shard(rank, world));
                    loader.batch_size(batch).memory(memory as u64).build()
                };
                let built: Vec<_> = (0..world).map(build).collect();
                if let Err(error) = &built[0] {
                    assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
                    let same = |other: &Result<Loader, forebay::Error>| {
                        other.as_ref().is_err_and(|other| other.to_string() == error.to_string())
                    };
                    assert!(built.iter().all(same), "every rank says the same: {error}");
                    refused += 1;
                    continue;
                }
                for loader in built {
                    let loader = loader.unwrap();
                    (0..3).for_each(|number| assert_eq!(epoch(&loader, number).len() as u64, loader.len()));
                }
                accepted += 1;
            }
        }
    }
    assert!(accepted > 4 && refused > 4, "{accepted} accepted, {refused} refused");
}

#[test]
fn an_epoch_that_ends_before_all_has_arrived_leaves_the_next_ones_whole() {
    let pairs = written((0..200).map(|_| (2, 4)));
    let single = written((0..64).map(|_| (1, 4)));
    for (dir, rows, batch) in [(&pairs, 400, 4), (&single, 64, 1), (&single, 64, 3)] {
        for shuffle in
            [Shuffle::exact(1), Shuffle::seeded(1).window_rows(rows / 4).lanes(1), Shuffle::seeded(1)]
        {
            for rank in [0, 3, 7] {
                let loader = loader(dir).shuffle(shuffle).shard(shard(rank, 8)).batch_size(batch).build();
                let loader = loader.unwrap();
                let rows = |number| epoch(&loader, number).concat().len() as u64;
                (0..5).for_each(|number| assert_eq!(rows(number), loader_rows(&loader)));
            }
        }
    }
}

fn loader_rows(loader: &Loader) -> u64 {
    loader.plan(0).unwrap().rows
}

#[test]
fn an_epoch_that_is_left_at_its_border_leaves_the_next_ones_whole() {
    let dir = written((0..60).map(|_| (2, 4)));
    let loader = loader(&dir).shuffle(Shuffle::seeded(1).window_rows(20)).shard(shard(1, 3)).batch_size(4);
    let loader = loader.build().unwrap();
    let steps = loader.len() as usize;
    for left in [0, 1, 2, 0, 1] {
        let mut epoch = loader.next_epoch();
        (left..steps).for_each(|_| drop(epoch.next().unwrap().unwrap()));
    }
    assert_eq!(epoch(&loader, 9).concat().len() as u64, loader_rows(&loader));
}

#[test]
fn an_epoch_that_is_ended_from_outside_names_the_reason() {
    let (dir, cached) = (written((0..20).map(|_| (50, KB))), TempDir::new().unwrap());
    let why = |end: fn(&Loader)| {
        let cache = DiskCache::open(cached.path().join("rows"), 1 << 30).unwrap();
        let loader =
            loader(&dir).batch_size(10).cache(cache).cache_tier(forebay::Tier::Rows).build().unwrap();
        let mut epoch = loader.epoch(3);
        epoch.next().unwrap().unwrap();
        // Batches that were already made are not delivered any more.
        settled(&loader);
        end(&loader);
        let error = epoch.next().unwrap().unwrap_err();
        assert!(epoch.next().is_none());
        assert_eq!(error.kind(), ErrorKind::Closed);
        error.to_string()
    };
    assert_eq!(why(|loader| loader.close()), "the loader was closed (build another)");
    for (end, cause) in [
        (
            (|loader| drop(loader.epoch(4))) as fn(&Loader),
            "another epoch was started (a loader has one epoch at a time",
        ),
        (
            |loader| loader.restore(&loader.position()).unwrap(),
            "a state was loaded (iterate over the loader again)",
        ),
        (
            |loader| drop(loader.warm(|_, _| {}).unwrap()),
            "the cache was warmed (iterate over the loader again)",
        ),
    ] {
        let said = why(end);
        assert!(said.starts_with(&format!("epoch 3 was ended: {cause}")), "{said}");
    }
}

#[test]
fn the_folder_of_a_cache_can_be_removed_once_its_loader_has_ended() {
    /// A loader that ends waits this long for its writes. On a busy machine they may take longer.
    const WRITES_TIME: Duration = Duration::from_secs(1);
    let dir = written((0..20).map(|_| (50, 20 * KB)));
    let kept = Cell::new(0);
    let ends_in_time = |steps: usize| {
        let folder = TempDir::new().unwrap();
        let cache = DiskCache::open(folder.path().join("rows"), 1 << 30).unwrap();
        let loader =
            loader(&dir).batch_size(25).cache(cache.clone()).cache_tier(forebay::Tier::Rows).build().unwrap();
        let mut epoch = loader.epoch(0);
        assert_eq!(epoch.by_ref().take(steps).filter_map(Result::ok).count(), steps.min(40));
        let ends = Instant::now();
        match steps % 3 {
            0 => loader.close(),
            1 => drop((epoch, loader)),
            _ => drop((loader, epoch)),
        }
        if ends.elapsed() >= WRITES_TIME {
            return false;
        }
        kept.set(kept.get() + cache.stats().written);
        drop(cache);
        let path = folder.path().to_owned();
        folder.close().unwrap_or_else(|error| panic!("after {steps} steps: {error}"));
        std::thread::sleep(Duration::from_millis(2));
        assert!(!path.exists(), "written to after {steps} steps");
        true
    };
    for steps in 0..60 {
        assert!((0..10).any(|_| ends_in_time(steps)), "after {steps} steps");
    }
    assert!(kept.get() > 0, "nothing was written into the folders");
}

#[test]
fn what_was_prepared_is_used_for_nothing_else() {
    let dir = written((0..10).map(|_| (20, 4)));
    let build = || loader(&dir).shuffle(Shuffle::seeded(4).window_rows(60)).batch_size(8).build().unwrap();
    let (one, other) = (build(), build());
    epoch(&one, 0);
    settled(&one);
    // Epoch 1 has been prepared.
    assert_eq!(epoch(&one, 5), epoch(&other, 5));
    settled(&one);
    assert_eq!(epoch(&one, 5), epoch(&other, 5), "once more, though 6 is prepared");
    let mut middle = other.epoch(6);
    (0..3).for_each(|_| drop(middle.next().unwrap().unwrap()));
    let position = other.position();
    let tail: Vec<Vec<i64>> = middle.map(|batch| ids(&batch.unwrap())).collect();
    settled(&one);
    one.restore(&position).unwrap();
    assert_eq!(epoch(&one, 6), tail, "from the middle, though its beginning is prepared");
}

#[test]
fn an_epoch_that_is_named_again_begins_with_its_first_row() {
    let dir = written((0..10).map(|_| (20, 4)));
    let loader = loader(&dir).batch_size(8).build().unwrap();
    let whole = epoch(&loader, 2);
    for taken in [1, 3] {
        loader.epoch(2).take(taken).for_each(|batch| drop(batch.unwrap()));
        assert_eq!(epoch(&loader, 2), whole, "after {taken} of its steps");
    }
}

#[test]
fn a_position_after_the_last_step_goes_on_with_the_next_epoch() {
    let dir = written([(105, 4)]);
    let build = |drop_last| loader(&dir).drop_last(drop_last).batch_size(10).build().unwrap();
    let padding = build(false);
    padding.epoch(0).take(10).for_each(|batch| drop(batch.unwrap()));
    let position = padding.position();
    assert_eq!((position.epoch, position.row), (0, 100));
    let dropping = build(true);
    dropping.restore(&position).unwrap();
    assert_eq!((dropping.position().epoch, dropping.position().row), (1, 0));
    let epoch = dropping.next_epoch();
    assert_eq!((epoch.number(), epoch.count()), (1, 10));
}

/// Covers numbers of ranks that divide neither the lanes nor the global batch, different numbers of threads,
/// and a cache.
#[test]
fn a_run_that_is_resumed_on_other_worlds_has_the_steps_of_one_that_was_not() {
    const GLOBAL: u64 = 23;
    let (dir, cached) = (written((1..31).map(|group| (group, 40))), TempDir::new().unwrap());
    let shuffle = Shuffle::seeded(8).window_rows(90).lanes(4);
    let on = |world: u32, position: Option<&Position>| {
        let start = |rank| {
            let cache = DiskCache::open(cached.path().join("rows"), 1 << 30).unwrap();
            let builder = loader(&dir).threads(1 + world as usize % 3).shuffle(shuffle);
            let builder = if world.is_multiple_of(2) {
                builder.cache(cache).cache_tier(forebay::Tier::Rows)
            } else {
                builder
            };
            let loader = builder.global_batch_size(GLOBAL).shard(shard(rank, world)).build().unwrap();
            position.inspect(|position| loader.restore(position).unwrap());
            let epoch = loader.next_epoch();
            (loader, epoch)
        };
        (0..world).map(start).collect::<Vec<_>>()
    };
    let step = |ranks: &mut [(Loader, Epoch)]| {
        let (world, mut rows) = (ranks.len() as u64, Vec::new());
        for (loader, epoch) in ranks {
            let Wait::Step(step) = epoch.next_step(EPOCH_TIMEOUT) else { return None };
            let step = step.unwrap();
            loader.handed_over(&step.after);
            let own = ids(&step.batch);
            assert!(own.len() as u64 <= GLOBAL.div_ceil(world));
            rows.extend(own);
        }
        rows.sort_unstable();
        Some(rows)
    };
    let mut alone = on(1, None);
    let whole: Vec<_> = std::iter::from_fn(|| step(&mut alone)).collect();
    assert_eq!(whole.concat().len(), 465);

    let (mut steps, mut saved, mut hits) = (Vec::new(), None, 0);
    for (world, taken) in [(8, 3), (2, 1), (8, 4), (3, 2), (5, 0), (1, 2), (23, 1), (3, 100)] {
        let mut ranks = on(world, saved.as_ref());
        steps.extend(std::iter::from_fn(|| step(&mut ranks)).take(taken));
        let caches = ranks.iter().filter_map(|(loader, _)| loader.stats().cache);
        hits += caches.map(|cache| cache.hits).sum::<u64>();
        let position = ranks[0].0.position();
        assert!(ranks.iter().all(|(loader, _)| loader.position() == position), "the same on every rank");
        let text = serde_json::to_string(&position).unwrap();
        assert!(text.len() < 1_000, "{text}");
        saved = Some(serde_json::from_str(&text).unwrap());
    }
    assert_eq!(steps, whole);
    assert!(hits > 0, "no row came from the cache");
}

#[test]
fn a_step_has_a_row_for_each_rank() {
    let dir = written([(50, 4)]);
    let refused = loader(&dir).global_batch_size(2).shard(shard(0, 3)).build().unwrap_err();
    assert_eq!(
        refused.to_string(),
        "global_batch_size is 2, for 3 ranks (a step needs at least one row for each rank)"
    );
    let loader = loader(&dir).global_batch_size(10).shard(shard(0, 3)).build().unwrap();
    let spec = loader.spec();
    assert_eq!((spec.batch_size, spec.global_batch_size), (4, Some(10)), "a rank gets 4 at most");
}

#[test]
fn lanes_are_taken_over_from_a_position() {
    let dir = written((0..12).map(|_| (20, 4)));
    let build = |rank, world, batch| {
        let loader = loader(&dir).shuffle(Shuffle::seeded(3).window_rows(60)).batch_size(batch);
        loader.shard(shard(rank, world)).build().unwrap()
    };
    let four = build(0, 4, 5);
    four.epoch(0).take(3).for_each(|batch| drop(batch.unwrap()));
    let saved = serde_json::to_string(&four.position()).unwrap();
    let position: Position = serde_json::from_str(&saved).unwrap();
    let steps = |world: u32, batch| -> Vec<Vec<i64>> {
        let ranks: Vec<Vec<Vec<i64>>> = (0..world)
            .map(|rank| {
                let loader = build(rank, world, batch);
                loader.restore(&position).unwrap();
                assert_eq!(loader.plan(0).unwrap().lanes, 4);
                epoch(&loader, 0)
            })
            .collect();
        let step = |at: usize| {
            let mut rows: Vec<i64> = ranks.iter().flat_map(|batches| batches[at].clone()).collect();
            rows.sort_unstable();
            rows
        };
        (0..ranks[0].len()).map(step).collect()
    };
    assert_eq!(steps(2, 10), steps(4, 5), "each step holds the same rows on two ranks as on four");
}

#[test]
fn batches_are_made_ahead_up_to_a_number() {
    let dir = written([(4_000, 4)]);
    let loader = loader(&dir).columns(["id"]).batch_size(10).build().unwrap();
    let mut epoch = loader.epoch(0);
    epoch.next().unwrap().unwrap();
    awaited(&loader, |stats| stats.stages.gather.items >= 2 * 10);
    let made = settled(&loader).stages.gather.items / 10;
    // At most 32 batches wait for the consumer, 16 more are being made, and one was taken.
    assert!((2..=32 + 16 + 1).contains(&made), "{made} batches");
}

#[test]
fn row_groups_that_are_fetched_and_not_let_go_are_within_the_budget() {
    let dir = written((0..40).map(|_| (100, 10 * KB)));
    let memory = 7 * MB as u64;
    let build = loader(&dir).shuffle(Shuffle::seeded(1).window_rows(300)).batch_size(10).memory(memory);
    let loader = build.build().unwrap();
    let mut epoch = loader.epoch(1);
    epoch.next().unwrap().unwrap();
    awaited(&loader, |stats| stats.stages.fetch.bytes >= 3 * MB as u64);
    let stats = settled(&loader);
    // Nothing has left the window yet, and a row group takes as much memory as its stored size.
    assert!(stats.stages.fetch.bytes >= 3 * MB as u64, "the window is there: {:?}", stats.stages.fetch);
    assert!(stats.stages.fetch.bytes <= memory, "{:?} of {memory}", stats.stages.fetch);
    assert!(stats.memory.row_groups >= stats.stages.fetch.bytes, "{:?}", stats.memory);
}

#[test]
fn a_row_group_that_would_break_the_bound_even_alone_is_refused_with_both_numbers() {
    let dir = written([(10, KB), (100, MB), (10, KB)]);
    // A shuffle mixes the rows of whole row groups, so it needs the large row group in memory.
    let shuffle = || Shuffle::seeded(1).window_rows(1);
    let build = |memory: u64| loader(&dir).shuffle(shuffle()).batch_size(1).memory(memory).build();
    let refused = build(16 << 20).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::TooLarge);
    assert_eq!(refused.place().row_group, Some(1));
    let words = refused.to_string();
    assert!(words.contains("a.parquet, row group 1") && words.contains("leave columns out"), "{words}");
    let enough: f64 =
        words.split("raise memory to ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!(words.contains(&format!("{enough} MiB")), "{words}");
    assert_eq!(epoch(&build((enough * 1_048_576.0) as u64).unwrap(), 0).concat().len(), 120);
    // In the stored order, a large row group is read in pieces.
    let stored = loader(&dir).batch_size(1).memory(16 << 20).build().unwrap();
    assert_eq!(epoch(&stored, 0).concat(), (0..120).collect::<Vec<_>>());
    assert!(stored.plan(0).unwrap().reads.unwrap().row_groups > 3);
    // Without the large column, row groups are small.
    let narrow =
        loader(&dir).columns(["id"]).shuffle(shuffle()).batch_size(1).memory(16 << 20).build().unwrap();
    assert_eq!(epoch(&narrow, 0).concat().len(), 120);
}

#[test]
fn a_batch_that_would_break_the_bound_is_refused_with_a_size_that_fits() {
    let dir = TempDir::new().unwrap();
    let schema = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("text", DataType::Utf8, false),
    ]));
    // A dictionary repeats a few texts, so the stored size does not show their lengths.
    let statistics = parquet::file::properties::EnabledStatistics::None;
    let properties = WriterProperties::builder().set_statistics_enabled(statistics).build();
    let file = std::fs::File::create(dir.path().join("a.parquet")).unwrap();
    let mut writer = ArrowWriter::try_new(file, schema.clone(), Some(properties)).unwrap();
    let texts: Vec<String> = (0..8).map(|text| text.to_string().repeat(100 * KB)).collect();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(0..2_000)),
        Arc::new(StringArray::from_iter_values((0..2_000).map(|row| texts[row % 8].as_str()))),
    ];
    writer.write(&RecordBatch::try_new(schema, columns).unwrap()).unwrap();
    writer.close().unwrap();
    let build = |batch| loader(&dir).memory(32 << 20).batch_size(batch).build();
    let refused = build(1_000).and_then(|loader| loader.epoch(0).find_map(Result::err).map_or(Ok(()), Err));
    let refused = refused.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::TooLarge, "{refused}");
    let words = refused.to_string();
    let fits: u64 = words.split("batch_size=").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    let loader = build(fits).unwrap();
    assert_eq!(epoch(&loader, 0).concat(), (0..2_000).collect::<Vec<_>>());
}

#[test]
fn the_last_step_of_a_rank_may_lie_in_another_lane_than_those_before() {
    // There are 124 rows in 3 lanes for 6 ranks. The last 16 are shared evenly: rank 2 reads lane 1, and then
    // lane 0 as well.
    let dir = written([(124, KB)]);
    let build = |rank, memory| {
        let shuffle = Shuffle::seeded(1).window_rows(200).lanes(3);
        loader(&dir).shuffle(shuffle).shard(shard(rank, 6)).batch_size(3).memory(memory).build()
    };
    // The smallest memory that is accepted.
    let least =
        (100 * KB as u64..2 * MB as u64).step_by(4 * KB).find(|memory| build(0, *memory).is_ok()).unwrap();
    for rank in 0..6 {
        let loader = build(rank, least).unwrap();
        (0..2).for_each(|number| assert_eq!(epoch(&loader, number).len(), 7, "rank {rank}"));
    }
}
