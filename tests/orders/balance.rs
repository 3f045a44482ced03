//! Loaders whose ranks share the cost of each step.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and is its own loader"
)]

use std::collections::{HashMap, HashSet};
use std::path::Path;

use forebay::arrow::array::{AsArray, RecordBatch};
use forebay::arrow::datatypes::Int64Type;
use forebay::filter::col;
use forebay::samples::{Bucket, Pack, RowCost, Sample, Window};
use forebay::{
    Dataset, DiskCache, ErrorKind, Loader, LoaderBuilder, Position, Result, RowId, Shard, Shuffle,
};

use super::kit::Draw;
use super::samples::write;

/// The numbers of rows in the files, and in a row group.
const ROWS: [u64; 3] = [700, 500, 848];
const GROUP: usize = 128;

fn data(folder: &Path) -> Dataset {
    write(&mut Draw(7), folder, &ROWS, GROUP);
    Dataset::open(folder).unwrap()
}

fn builder(dataset: &Dataset) -> LoaderBuilder {
    let shuffle = Shuffle::seeded(5).window_rows(1_024).lanes(4);
    dataset.loader().columns(["n", "tokens"]).shuffle(shuffle).global_batch_size(64)
}

fn of_rank(builder: &LoaderBuilder, rank: u32, world: u32) -> Loader {
    builder.clone().shard(Shard::new(rank, world).unwrap()).build().unwrap()
}

/// The numbers of the rows of a batch, and the number of its tokens.
fn read(batch: Result<RecordBatch>) -> (Vec<i64>, usize) {
    let batch = batch.unwrap();
    let rows = batch["n"].as_primitive::<Int64Type>().values().to_vec();
    (rows, batch["tokens"].as_list::<i64>().values().len())
}

/// Returns the sorted rows of each step over all ranks. It also divides the largest number of tokens of a
/// rank by the mean of the ranks, and averages this ratio over the steps.
fn epoch(ranks: &[Loader], number: u64) -> (Vec<Vec<i64>>, f64) {
    let mut epochs: Vec<_> = ranks.iter().map(|rank| rank.epoch(number)).collect();
    let (mut steps, mut ratio) = (Vec::new(), 0.0);
    while let Some(first) = epochs[0].next() {
        let others = epochs[1..].iter_mut().map(|epoch| epoch.next().unwrap());
        let batches: Vec<_> = std::iter::once(first).chain(others).map(read).collect();
        let tokens: Vec<usize> = batches.iter().map(|(_, tokens)| *tokens).collect();
        ratio += (tokens.iter().max().unwrap() * ranks.len()) as f64 / tokens.iter().sum::<usize>() as f64;
        let mut rows = batches.into_iter().flat_map(|(rows, _)| rows).collect::<Vec<_>>();
        rows.sort_unstable();
        steps.push(rows);
    }
    assert!(epochs.iter_mut().all(|epoch| epoch.next().is_none()), "equal steps");
    let mean = ratio / steps.len() as f64;
    (steps, mean)
}

#[test]
fn ranks_share_the_tokens_of_a_step_and_steps_hold_the_same_rows_on_any_world() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = data(folder.path());
    let plain = builder(&dataset);
    let balanced = plain.clone().balance(["tokens"]);
    let cache = DiskCache::open(folder.path().join("cache"), 1 << 28).unwrap();
    for number in [0, 1] {
        let all = |builder: &LoaderBuilder, world| {
            let ranks: Vec<Loader> = (0..world).map(|rank| of_rank(builder, rank, world)).collect();
            epoch(&ranks, number)
        };
        let (steps, ratio) = all(&balanced, 4);
        let (_, random) = all(&plain, 4);
        assert!(
            random > 1.12 && ratio - 1.0 < 0.5 * (random - 1.0),
            "epoch {number}: {ratio}, {random} at random"
        );
        let rows = steps.concat();
        assert_eq!(rows.len() as u64, ROWS.iter().sum::<u64>());
        assert_eq!(rows.iter().collect::<HashSet<_>>().len(), rows.len());
        for world in [1, 2, 3] {
            assert_eq!(all(&balanced, world).0, steps, "epoch {number} on {world} ranks");
        }
        let cached = balanced.clone().cache(cache.clone()).cache_tier(forebay::Tier::Rows);
        of_rank(&cached, 0, 1).warm(|_, _| {}).unwrap();
        let before = cache.stats().hits;
        assert_eq!(all(&cached, 2).0, steps, "from a cache");
        assert!(cache.stats().hits > before);
        assert_ne!(all(&plain, 1).0, steps);
        // On one rank, each step takes rows from all ranges of costs, so the steps differ little as well.
        let alone: Vec<usize> = of_rank(&balanced, 0, 1).epoch(number).map(|batch| read(batch).1).collect();
        let (least, most) = (alone[..alone.len() - 1].iter().min(), alone.iter().max());
        assert!(*most.unwrap() < least.unwrap() * 5 / 4, "the steps cost about the same: {alone:?}");
    }
}

#[test]
fn a_position_resumes_on_other_ranks_and_names_the_rows_of_each_step() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = data(folder.path());
    let plain = dataset.loader().columns(["n"]).row_id(true).build().unwrap();
    let of_batch = |batch: Result<RecordBatch>| {
        let batch = batch.unwrap();
        let column = |name: &str| batch[name].as_primitive::<Int64Type>().values().to_vec();
        column("row_id").into_iter().map(RowId::new).zip(column("n")).collect::<Vec<_>>()
    };
    let numbers: HashMap<RowId, i64> = plain.epoch(0).flat_map(of_batch).collect();
    for builder in [
        builder(&dataset).balance(["tokens"]),
        builder(&dataset).balance(["tokens", "n"]).filter(col("n").gt(100)),
        builder(&dataset)
            .balance([RowCost::from("tokens"), (col("tokens") * col("tokens") + col("c")).into()]),
    ] {
        let ranks = [0, 1, 2].map(|rank| of_rank(&builder, rank, 3));
        let mut epochs: Vec<_> = ranks.iter().map(|rank| rank.epoch(1)).collect();
        for step in 0..9 {
            for (rank, epoch) in (0..).zip(&mut epochs) {
                let planned = ranks[0].which(1, step, rank).unwrap();
                let planned: Vec<i64> = planned.iter().map(|row| numbers[&row.id]).collect();
                assert_eq!(read(epoch.next().unwrap()).0, planned, "step {step}, rank {rank}");
            }
        }
        let state = serde_json::to_string(&ranks[1].position()).unwrap();
        let position: Position = serde_json::from_str(&state).unwrap();
        let (steps, _) = epoch(&[0, 1, 2].map(|rank| of_rank(&builder, rank, 3)), 1);
        let again = [0, 1].map(|rank| of_rank(&builder, rank, 2));
        again.iter().for_each(|rank| rank.restore(&position).unwrap());
        let mut tails = again.iter().map(Loader::next_epoch).collect::<Vec<_>>();
        for expected in &steps[9..] {
            let mut rows: Vec<i64> = tails.iter_mut().flat_map(|tail| read(tail.next().unwrap()).0).collect();
            rows.sort_unstable();
            rows.dedup();
            assert_eq!(&rows, expected);
        }
        let other = builder.clone().balance(["n"]).build().unwrap().restore(&position).unwrap_err();
        assert_eq!(other.kind(), ErrorKind::StateMismatch);
        assert!(other.to_string().contains("saved with balance tokens"), "{other}");
        let same = builder.build().unwrap().spec().clone();
        dataset.loader().spec(same).build().unwrap().restore(&position).unwrap();
    }
    let state = serde_json::to_string(&builder(&dataset).build().unwrap().position()).unwrap();
    assert!(!state.contains("balance"), "a default is left out");
}

/// A cost that is computed gives the order of a column with the same numbers, up to a factor.
#[test]
fn arithmetic_on_columns_is_a_cost_like_any_other() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = data(folder.path());
    let rows = |cost: RowCost| -> Vec<i64> {
        of_rank(&builder(&dataset).balance([cost]), 0, 1).epoch(1).flat_map(|batch| read(batch).0).collect()
    };
    let by_tokens = rows("tokens".into());
    assert_eq!(rows((col("tokens") * 2).into()), by_tokens);
    assert_eq!(rows((col("tokens") * 4 / 2).into()), by_tokens);
    assert_ne!(rows((col("tokens") * col("c")).into()), by_tokens);
    // The sum of squared lengths of a batch varies less if it is balanced by squares.
    let by_squares = builder(&dataset).balance([col("tokens") * col("tokens")]);
    let spread = |builder: &LoaderBuilder| {
        let ranks: Vec<Loader> = (0..4).map(|rank| of_rank(builder, rank, 4)).collect();
        let mut epochs: Vec<_> = ranks.iter().map(|rank| rank.epoch(1)).collect();
        let (mut sum, mut steps) = (0.0, 0.0);
        while let Some(first) = epochs[0].next() {
            let others = epochs[1..].iter_mut().map(|epoch| epoch.next().unwrap());
            let cost = |batch: Result<RecordBatch>| -> f64 {
                let batch = batch.unwrap();
                let lists = batch["tokens"].as_list::<i64>();
                lists.value_offsets().windows(2).map(|ends| ((ends[1] - ends[0]) as f64).powi(2)).sum()
            };
            let costs: Vec<f64> = std::iter::once(first).chain(others).map(cost).collect();
            sum += costs.iter().copied().fold(0.0, f64::max) * 4.0 / costs.iter().sum::<f64>();
            steps += 1.0;
        }
        sum / steps
    };
    let (even, random) = (spread(&by_squares), spread(&builder(&dataset)));
    assert!(random > 1.15 && even - 1.0 < 0.5 * (random - 1.0), "{even}, {random} at random");
}

#[test]
fn a_source_of_a_mix_is_balanced_as_it_is_alone() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = data(folder.path());
    let source = |seed| {
        let shuffle = Shuffle::seeded(seed).window_rows(1_024).lanes(4);
        dataset.loader().columns(["n", "tokens"]).shuffle(shuffle)
    };
    let made = |is_balanced: bool, world: u32| {
        let ranks = (0..world).map(|rank| {
            let of = |seed| if is_balanced { source(seed).balance(["tokens"]) } else { source(seed) };
            let mix = Loader::mix([(of(1), 3.0), (of(2), 1.0)]).unwrap().global_batch_size(64);
            mix.shard(Shard::new(rank, world).unwrap()).build().unwrap()
        });
        epoch(&ranks.collect::<Vec<_>>(), 1)
    };
    let ((steps, ratio), (_, random)) = (made(true, 4), made(false, 4));
    assert!(random > 1.12 && ratio - 1.0 < 0.5 * (random - 1.0), "{ratio}, {random} at random");
    assert_eq!(made(true, 2).0, steps);
}

#[test]
fn packs_are_balanced_by_the_squares_of_their_lengths_and_buckets_by_their_sums() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = data(folder.path());
    let shuffle = || Shuffle::seeded(5).window_rows(2_048).lanes(2);
    let costs = |builder: &LoaderBuilder, is_pack: bool| {
        let builder = builder.clone().shuffle(shuffle()).batch_size(2);
        let ranks = [0, 1].map(|rank| of_rank(&builder, rank, 2));
        let mut epochs = ranks.iter().map(|rank| rank.epoch(1)).collect::<Vec<_>>();
        let mut ratios = Vec::new();
        while let Some(first) = epochs[0].next() {
            let batches = [first.unwrap(), epochs[1].next().unwrap().unwrap()];
            let cost = |batch: &RecordBatch| match is_pack {
                true => squares(batch),
                false => batch["tokens"].as_list::<i64>().values().len() as f64,
            };
            let [a, b] = batches.each_ref().map(cost);
            ratios.push(a.max(b) * 2.0 / (a + b));
        }
        ratios.iter().sum::<f64>() / ratios.len() as f64
    };
    let packs = dataset.loader().samples(Pack::split(["tokens"], 16));
    let buckets = dataset.loader().columns(["tokens"]).samples(Bucket::rows("tokens", 4));
    for (builder, is_pack) in [(packs, true), (buckets, false)] {
        let (even, random) = (costs(&builder.clone().balance(["tokens"]), is_pack), costs(&builder, is_pack));
        assert!(even - 1.0 < 0.5 * (random - 1.0), "{even}, {random} at random");
    }
}

/// The sum of the squares of the lengths of the documents in packs.
fn squares(batch: &RecordBatch) -> f64 {
    let packs = batch["segment_ids"].as_fixed_size_list();
    let of_pack = |segments: &[i32]| {
        let last = segments.iter().copied().max().unwrap_or(0);
        (1..=last).map(|one| segments.iter().filter(|it| **it == one).count().pow(2) as f64).sum::<f64>()
    };
    let values = packs.values().as_primitive::<forebay::arrow::datatypes::Int32Type>().values();
    values.chunks(packs.value_length() as usize).map(of_pack).sum()
}

#[test]
fn costs_by_which_nothing_can_be_balanced_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = data(folder.path());
    let refused = |builder: LoaderBuilder| builder.build().unwrap_err().to_string();
    let by_tokens = || builder(&dataset).balance(["tokens"]);
    for (builder, cause) in [
        (by_tokens().shuffle(Shuffle::stored()), "only a shuffle in a window orders rows by their cost"),
        (by_tokens().shuffle(Shuffle::exact(1)), "only a shuffle in a window orders rows by their cost"),
        (by_tokens().samples(Sample::balanced("c")), "rows that are drawn by weight"),
        (by_tokens().columns(["n"]).samples(Window::rows(2)), "windows"),
        (by_tokens().balance(["absent"]), "absent"),
        (by_tokens().balance([col("tokens") * col("absent")]), "absent"),
        (
            by_tokens().balance([col("n") - 2]),
            "part-0.parquet, row group 0, row 0, column \"n\": the cost \"n\" - 2 is -1",
        ),
        (by_tokens().balance([col("n") * "x"]), "\"x\", which is not a number"),
        (by_tokens().balance(["n", "t", "c", "tokens", "n"]), "has 5 costs"),
    ] {
        let error = refused(builder);
        assert!(error.contains(cause), "{cause}: {error}");
    }
}
