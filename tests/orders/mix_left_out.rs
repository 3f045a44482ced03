//! Tests mixes whose sources leave rows out, because they are denied or bad. A step is shorter by those rows,
//! and repeats a row only if nothing else is left of it.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test fails by panicking")]

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use forebay::arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use forebay::arrow::datatypes::Int64Type;
use forebay::{Dataset, Deny, ErrorKind, Loader, LoaderBuilder, OnBadRow, Position, RowId, Shard, Shuffle};

use super::kit::write_batch;

/// Rows of each source.
const ROWS: i64 = 40;
/// Rows of a step, half of them from each source.
const BATCH: u64 = 8;

/// The delivered rows of a step: source, and number.
type Step = Vec<(i64, i64)>;

/// Two sources of rows in their stored order: step `s` has rows `4s..4s + 4` of each source.
struct Pair {
    _folder: tempfile::TempDir,
    sources: [Dataset; 2],
}

impl Pair {
    /// `nulls` says which rows of a source have a null where a value is needed.
    fn new(nulls: impl Fn(usize, i64) -> bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let write = |source: usize| {
            let path = folder.path().join(source.to_string());
            std::fs::create_dir_all(&path).unwrap();
            write(&path, |n| nulls(source, n));
            Dataset::open(path).unwrap()
        };
        let sources = [write(0), write(1)];
        Pair { _folder: folder, sources }
    }

    fn mix(
        &self,
        (rank, world): (u32, u32),
        change: impl Fn(usize, LoaderBuilder) -> LoaderBuilder,
    ) -> Loader {
        let sources = self.sources.iter().enumerate();
        let order = Shuffle::stored().lanes(1);
        let sources = sources.map(|(at, dataset)| (change(at, dataset.loader().shuffle(order)), 1.0));
        let builder = Loader::mix(sources).unwrap().source(true).global_batch_size(BATCH);
        builder.shard(Shard::new(rank, world).unwrap()).threads(2).build().unwrap()
    }

    /// Returns a deny list with the ids of these rows of a source.
    fn ids(&self, source: usize, rows: Range<i64>) -> Deny {
        let loader = self.sources[source].loader().row_id(true).batch_size(ROWS as u64).build().unwrap();
        let batch = loader.epoch(0).next().unwrap().unwrap();
        let ids = batch["row_id"].as_primitive::<Int64Type>().values();
        Deny::rows(ids[rows.start as usize..rows.end as usize].iter().map(|id| RowId::new(*id)))
    }
}

fn write(folder: &Path, is_null: impl Fn(i64) -> bool) {
    let value = |n: i64| (!is_null(n)).then_some(n);
    let columns = [
        ("n", Arc::new(Int64Array::from_iter_values(0..ROWS)) as ArrayRef),
        ("value", Arc::new(Int64Array::from_iter((0..ROWS).map(value))) as ArrayRef),
    ];
    write_batch(&folder.join("part.parquet"), &RecordBatch::try_from_iter(columns).unwrap(), 10);
}

fn rows(batch: &RecordBatch) -> Step {
    let column = |name: &str| batch[name].as_primitive::<Int64Type>().values().to_vec();
    column("source").into_iter().zip(column("n")).collect()
}

/// The steps of an epoch over all ranks, each with the position after it.
fn steps(ranks: &[Loader]) -> Vec<(Step, Position)> {
    let mut epochs: Vec<_> = ranks.iter().map(|rank| rank.epoch(0)).collect();
    let mut steps = Vec::new();
    while let Some(first) = epochs[0].next() {
        let mut step = rows(&first.unwrap());
        epochs[1..].iter_mut().for_each(|rank| step.extend(rows(&rank.next().unwrap().unwrap())));
        step.sort_unstable();
        steps.push((step, ranks[0].position()));
    }
    assert!(epochs.iter_mut().all(|rank| rank.next().is_none()), "all ranks have the same steps");
    steps
}

fn held(steps: Vec<(Step, Position)>) -> Vec<Step> {
    steps.into_iter().map(|(step, _)| step).collect()
}

fn step_of(source: i64, rows: Range<i64>) -> Step {
    rows.map(|n| (source, n)).collect()
}

#[test]
fn a_step_is_shorter_by_all_rows_that_a_source_leaves_out() {
    let pair = Pair::new(|_, _| false);
    // These are all rows of source 1 from step 3 on.
    let denied = pair.ids(1, 12..ROWS);
    let deny = |at: usize, source: LoaderBuilder| match at {
        1 => source.deny_from(3, denied.clone()),
        _ => source,
    };
    let expected: Vec<Step> = (0..10)
        .map(|step| {
            let rows = 4 * step..4 * step + 4;
            [step_of(0, rows.clone()), if step < 3 { step_of(1, rows) } else { Vec::new() }].concat()
        })
        .collect();
    let alone = pair.mix((0, 1), deny);
    let whole = steps(std::slice::from_ref(&alone));
    assert_eq!(held(whole.clone()), expected);
    assert_eq!((alone.stats().padded_rows, alone.stats().skipped_rows), (0, 0));
    for world in [1, 2, 4] {
        let ranks: Vec<Loader> = (0..world).map(|rank| pair.mix((rank, world), deny)).collect();
        assert_eq!(held(steps(&ranks)), expected, "{world} ranks");
        for at in [2, 5] {
            ranks.iter().for_each(|rank| rank.restore(&whole[at].1).unwrap());
            assert_eq!(held(steps(&ranks)), expected[at + 1..], "{world} ranks, resumed after step {at}");
        }
    }
}

#[test]
fn bad_rows_of_a_source_are_replaced_by_rows_of_the_step_if_it_keeps_its_shape() {
    // The bad rows are all rows of source 1 in step 1, and one row of source 0 in step 2.
    let pair = Pair::new(|source, n| (source == 1 && (4..8).contains(&n)) || (source == 0 && n == 9));
    let skipping = pair.mix((0, 1), |_, source| source.on_bad_row(OnBadRow::skip(10)));
    let found = held(steps(std::slice::from_ref(&skipping)));
    assert_eq!(found[1], step_of(0, 4..8));
    assert_eq!((found.len(), found[2].len()), (10, 7));
    assert_eq!((skipping.stats().padded_rows, skipping.stats().skipped_rows), (0, 5));
    let refilling = pair.mix((0, 1), |_, source| source.on_bad_row(OnBadRow::refill(10)));
    let mut epoch = refilling.epoch(0);
    let batches: Vec<Step> = epoch.by_ref().map(|batch| rows(&batch.unwrap())).collect();
    assert!(batches.iter().all(|batch| batch.len() as u64 == BATCH));
    assert_eq!(batches[1], [step_of(0, 4..8), vec![(0, 7); 4]].concat());
    assert_eq!(batches[2][..4], [(0, 8), (0, 8), (0, 10), (0, 11)]);
    assert_eq!(epoch.skipped().len(), 5);
    assert_eq!((refilling.stats().padded_rows, refilling.stats().skipped_rows), (5, 5));
}

/// Source 1 has a bad row in each of the steps 0, 1 and 3, and the limit holds for a pass.
#[test]
fn bad_rows_before_a_position_count_towards_the_limit_of_their_source() {
    let pair = Pair::new(|source, n| source == 1 && [1, 6, 13].contains(&n));
    let mix = |at_most| pair.mix((0, 1), |_, source| source.on_bad_row(OnBadRow::skip(at_most)));
    let (whole, enough, few) = (mix(3), mix(3), mix(2));
    let all = steps(std::slice::from_ref(&whole));
    assert_eq!(whole.stats().skipped_rows, 3);
    [&enough, &few].into_iter().for_each(|resumed| resumed.restore(&all[2].1).unwrap());
    assert_eq!(held(steps(&[enough])), held(all)[3..]);
    let error = few.epoch(0).find_map(Result::err).expect("three rows are more than two");
    assert_eq!(error.kind(), ErrorKind::BadRow);
}

#[test]
fn a_row_stands_in_where_nothing_is_left_of_a_step() {
    let pair = Pair::new(|_, _| false);
    let denied: Vec<Deny> = (0..2)
        .map(|source| pair.ids(source, 16..20).and(pair.ids(source, 32..40)).and(pair.ids(source, 0..1)))
        .collect();
    let deny = |at: usize, source: LoaderBuilder| source.deny_from(4, denied[at].clone());
    let alone = pair.mix((0, 1), deny);
    let whole = steps(std::slice::from_ref(&alone));
    let found = held(whole.clone());
    assert_eq!(found[0], [step_of(0, 0..4), step_of(1, 0..4)].concat());
    assert_eq!(found[4], [(0, 20)], "the first row of the next step");
    assert_eq!(found[8..], [vec![(0, 1)], vec![(0, 1)]], "the first row of the epoch that is not denied");
    assert_eq!(alone.stats().padded_rows, 3);
    for at in 0..9 {
        let resumed = pair.mix((0, 1), deny);
        resumed.restore(&whole[at].1).unwrap();
        assert_eq!(held(steps(&[resumed])), found[at + 1..], "resumed after step {at}");
    }
    for world in [2, 4] {
        let ranks: Vec<Loader> = (0..world).map(|rank| pair.mix((rank, world), deny)).collect();
        let all = held(steps(&ranks));
        for (step, all) in all.iter().enumerate() {
            match found[step].len() {
                1 => assert_eq!(all.len(), world as usize, "each of {world} ranks has a row in step {step}"),
                _ => assert_eq!(*all, found[step], "step {step} on {world} ranks"),
            }
        }
        ranks.iter().for_each(|rank| rank.restore(&whole[6].1).unwrap());
        assert_eq!(held(steps(&ranks)), all[7..], "{world} ranks, resumed after step 6");
    }
}

/// An epoch has ten steps. Each step has the rows of the stored order that no list denies at that step of the
/// run.
#[test]
fn rows_are_denied_from_a_step_of_the_run_on_and_in_all_later_epochs() {
    let pair = Pair::new(|_, _| false);
    let changes: [(u64, Range<i64>); 3] = [(3, 9..14), (10, 30..33), (14, 0..3)];
    let plain = pair.sources[0].loader().shuffle(Shuffle::stored().lanes(1)).batch_size(4).threads(2);
    // The lists may be given in any order.
    let builder = changes
        .iter()
        .rev()
        .fold(plain, |builder, (from, rows)| builder.deny_from(*from, pair.ids(0, rows.clone())));
    let numbers = |batch: RecordBatch| batch["n"].as_primitive::<Int64Type>().values().to_vec();
    let expected = |epoch: u64, step: u64| -> Vec<i64> {
        let is_denied =
            |n: &i64| changes.iter().any(|(from, rows)| 10 * epoch + step >= *from && rows.contains(n));
        (4 * step as i64..4 * step as i64 + 4).filter(|n| !is_denied(n)).collect()
    };
    let loader = builder.clone().build().unwrap();
    let resumed = builder.build().unwrap();
    for epoch in 0..3 {
        for (step, batch) in (0..).zip(loader.epoch(epoch)) {
            assert_eq!(numbers(batch.unwrap()), expected(epoch, step), "epoch {epoch}, step {step}");
            if step % 4 == 1 && step < 9 {
                resumed.restore(&loader.position()).unwrap();
                let rest: Vec<_> = resumed.next_epoch().map(|batch| numbers(batch.unwrap())).collect();
                let left: Vec<_> = (step + 1..10).map(|step| expected(epoch, step)).collect();
                assert_eq!(rest, left, "epoch {epoch}, resumed after step {step}");
            }
        }
    }
}

#[test]
fn a_row_that_stands_in_is_not_counted() {
    let pair = Pair::new(|_, _| false);
    let plain = pair.sources[0].loader().shuffle(Shuffle::stored().lanes(1)).batch_size(4).threads(2);
    let loader = plain.deny_from(2, pair.ids(0, 8..12)).row_mask(true).build().unwrap();
    for (step, batch) in (0..10).zip(loader.epoch(0)) {
        let batch = batch.unwrap();
        let rows: Vec<i64> = batch["n"].as_primitive::<Int64Type>().values().to_vec();
        let mask: Vec<bool> = batch["row_mask"].as_boolean().values().iter().collect();
        match step {
            2 => assert_eq!((rows, mask), (vec![12], vec![false])),
            _ => assert_eq!((rows, mask), ((4 * step..4 * step + 4).collect(), vec![true; 4])),
        }
    }
    assert_eq!(loader.stats().padded_rows, 1);
}

#[test]
fn an_epoch_without_a_row_says_what_denies_them() {
    let pair = Pair::new(|_, _| false);
    let all: Vec<Deny> = (0..2).map(|source| pair.ids(source, 0..ROWS)).collect();
    let none = pair.mix((0, 1), |at, source| source.deny_from(0, all[at].clone()));
    let error = none.epoch(0).next().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let says = "no row of this rank in epoch 0 can be delivered: `deny_from` denies all of them (deny fewer";
    assert!(error.to_string().starts_with(says), "{error}");
}

#[test]
fn weights_that_are_set_hold_although_the_next_step_was_taken_to_stand_in() {
    // The bad rows are all rows of step 4, and one row of step 5.
    let pair = Pair::new(|source, n| (16..20).contains(&n) || (source == 1 && n == 21));
    let skip = |_: usize, source: LoaderBuilder| source.on_bad_row(OnBadRow::skip(20));
    let set = pair.mix((0, 1), skip);
    let mut epoch = set.epoch(0);
    let mut found: Vec<Step> = (0..5).map(|_| rows(&epoch.next().unwrap().unwrap())).collect();
    assert_eq!(found[4], [(0, 20)]);
    assert_eq!(epoch.skipped().len(), 8, "the bad rows of the steps that were returned");
    set.set_weights(&[3.0, 1.0], None).unwrap();
    found.extend(epoch.by_ref().map(|batch| rows(&batch.unwrap())));
    let sources = pair.sources.iter().enumerate().map(|(at, dataset)| (skip(at, dataset.loader()), 1.0));
    let builder = Loader::mix(sources).unwrap().source(true).batch_size(BATCH);
    let planned = builder.weights_from(5, [3.0, 1.0]).threads(2).build().unwrap();
    assert_eq!(found, planned.epoch(0).map(|batch| rows(&batch.unwrap())).collect::<Vec<_>>());
    assert_eq!(epoch.skipped().len(), 9, "each bad row is listed once");
    assert_eq!(set.stats().skipped_rows, 9);
}
