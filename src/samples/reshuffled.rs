//! Packs and buckets that each epoch combines anew from the rows of a row group.
//!
//! The plan needs each row group to have the same number of samples in every epoch. So an epoch draws which
//! rows are in a sample, but not how many samples there are:
//!
//! - Lists that are split are put into random order. In any order they fill the same number of packs.
//! - Whole lists are packed as usual, but only roughly longest first: for sorting, each length is raised at
//!   random by up to a fraction of itself. If this gives more packs than the exact order, smaller fractions
//!   are tried. The last try raises nothing: only lists of equal length trade places, and the number of packs
//!   is the same. If a try gives fewer packs, the missing ones get lists from the packs with the most lists.
//! - For buckets, rows are sorted by lengths that are raised in the same way, and then cut into buckets of
//!   fixed numbers of rows. A bucket may therefore get longer rows than in the exact order, by at most the
//!   fraction, so room for longer rows is left in each bucket when the numbers of rows are chosen.

use std::cmp::Reverse;
use std::sync::Arc;

use forebay_store::row_set::RowSet;

use super::bucket::{Bucket, BucketGroup, Buckets};
use super::lengths::NO_LENGTH;
use super::pack::{Pack, PackedGroup, Packs, placed};
use super::{EpochKinds, SampleKind, SampleRows};
use crate::shard::{Draws, Purpose};

/// The largest fractions by which the length of a whole list is raised, in the order in which they are tried.
/// They are negative powers of two: 2 means a quarter. With 1,000 lists of lognormal length and packs of
/// 2,048 values, the third fraction needs no more packs than the exact order.
const PARTS_OF_LISTS: [u32; 6] = [2, 3, 4, 5, 6, 7];

/// The largest fraction by which the length of a row in a bucket is raised, as a negative power of two: 3
/// means an eighth. A larger fraction causes more padding.
const PART_OF_ROWS: u32 = 3;

/// The number of bits of the random number that determines how much is added to the length of a row before
/// rows are sorted by length.
const DRAWN_BITS: u32 = 31;

/// The bytes that each row of a row group takes in the lists that an epoch makes of the row group: the row,
/// its length, and its place in random order.
const LISTED_BYTES: u64 = 12;

/// Packs or buckets that each epoch makes anew.
#[derive(Debug)]
pub(crate) struct Reshuffled {
    kind: Regrouped,
    /// The lengths of the selected rows of each row group.
    lengths: Box<[Box<[u32]>]>,
    /// The number of samples of each row group.
    counts: Arc<[u32]>,
    largest: u32,
}

#[derive(Debug)]
enum Regrouped {
    Packs(Pack),
    Buckets(Bucket),
}

impl Reshuffled {
    /// Makes packs of lists. `lengths` has the lengths of the lists of each row group.
    pub(crate) fn packs(pack: &Pack, lengths: Vec<Vec<u32>>) -> Self {
        let most = lengths.iter().map(|lengths| pack.most_rows(lengths));
        let largest = most.max().unwrap_or(0);
        let count = |lengths: &Vec<u32>| Packs(pack.of_sequence(vec![lengths.clone()])).count(0);
        let counts = lengths.iter().map(count).collect();
        Reshuffled::new(Regrouped::Packs(pack.clone()), lengths, counts, largest)
    }

    /// Makes buckets of rows. `lengths` has the lengths of the rows of each row group.
    pub(crate) fn buckets(bucket: &Bucket, lengths: Vec<Vec<u32>>) -> Self {
        let ends: Vec<Vec<u32>> = lengths.iter().map(|lengths| ends_in(bucket, lengths)).collect();
        let sizes = |ends: &Vec<u32>| {
            ends.iter().scan(0, |from, end| Some(end - std::mem::replace(from, *end))).max()
        };
        let largest = ends.iter().filter_map(sizes).max().unwrap_or(0);
        let counts = ends.iter().map(|ends| ends.len() as u32).collect();
        Reshuffled::new(Regrouped::Buckets(bucket.clone()), lengths, counts, largest)
    }

    fn new(kind: Regrouped, lengths: Vec<Vec<u32>>, counts: Arc<[u32]>, largest: u32) -> Self {
        let lengths = lengths.into_iter().map(Vec::into_boxed_slice).collect();
        Reshuffled { kind, lengths, counts, largest }
    }

    /// The most rows that a sample has in any epoch.
    pub(crate) fn largest(&self) -> u32 {
        self.largest
    }
}

impl EpochKinds for Reshuffled {
    fn bounds(&self, group: usize) -> (u32, u32) {
        (self.counts[group], self.counts[group])
    }

    fn total(&self) -> u64 {
        self.counts.iter().map(|samples| u64::from(*samples)).sum()
    }

    fn of_epoch(self: Arc<Self>, seed: u64, epoch: u64) -> (Arc<dyn SampleKind>, Arc<[u32]>) {
        let counts = self.counts.clone();
        (Arc::new(ReshuffledEpoch { all: self, seed, epoch }), counts)
    }

    fn listed_bytes(&self) -> u64 {
        let samples = self.counts.iter().map(|samples| (*samples).max(1) as usize);
        let most = self.lengths.iter().zip(samples).map(|(rows, samples)| rows.len().div_ceil(samples)).max();
        let most = most.unwrap_or(0);
        LISTED_BYTES.saturating_mul(most as u64)
    }

    fn bytes(&self) -> u64 {
        let lengths: usize = self.lengths.iter().map(|lengths| size_of_val(&**lengths)).sum();
        (lengths + size_of_val(&*self.lengths) + size_of_val(&*self.counts)) as u64
    }
}

/// The samples of one epoch.
#[derive(Debug)]
struct ReshuffledEpoch {
    all: Arc<Reshuffled>,
    seed: u64,
    epoch: u64,
}

impl SampleKind for ReshuffledEpoch {
    fn count(&self, group: usize) -> u32 {
        self.all.counts[group]
    }

    fn rows(&self, group: usize, sample: u32, selected: &RowSet, rows: &mut SampleRows) {
        self.of_group(group).into_iter().for_each(|of_group| of_group.rows(group, sample, selected, rows));
    }

    fn of_group(&self, group: usize) -> Option<Arc<dyn SampleKind>> {
        let (lengths, count) = (&*self.all.lengths[group], self.all.counts[group]);
        let draws = Draws::keyed(self.seed, Purpose::Regroup, &[self.epoch, group as u64]);
        Some(Arc::new(match &self.all.kind {
            Regrouped::Packs(pack) if pack.is_split() => split_anew(pack, lengths, draws),
            Regrouped::Packs(pack) => {
                GroupSamples::new(Packs(vec![packed_anew(pack, lengths, count, draws)]))
            }
            Regrouped::Buckets(bucket) => {
                GroupSamples::new(Buckets(vec![bucketed_anew(bucket, lengths, draws)]))
            }
        }))
    }

    fn bytes(&self) -> u64 {
        // `Reshuffled` already counts the lengths, and the lists of a row group are counted while it is read.
        0
    }
}

/// The samples of one row group in one epoch.
#[derive(Debug)]
struct GroupSamples {
    kind: Arc<dyn SampleKind>,
    /// The order in which `kind` took the rows: where `kind` lists the number `n`, the row is `order[n]`.
    /// `None` if `kind` lists the rows themselves.
    order: Option<Box<[u32]>>,
}

impl GroupSamples {
    fn new(kind: impl SampleKind + 'static) -> Self {
        GroupSamples { kind: Arc::new(kind), order: None }
    }
}

impl SampleKind for GroupSamples {
    fn count(&self, _: usize) -> u32 {
        self.kind.count(0)
    }

    fn rows(&self, _: usize, sample: u32, selected: &RowSet, rows: &mut SampleRows) {
        self.kind.rows(0, sample, selected, rows);
        if let Some(order) = &self.order {
            rows.rows.iter_mut().for_each(|row| *row = order[*row as usize]);
        }
    }

    fn bytes(&self) -> u64 {
        self.kind.bytes() + self.order.as_ref().map_or(0, |order| size_of_val(&**order) as u64)
    }
}

/// Joins the lists of a row group in random order, and splits them into packs.
fn split_anew(pack: &Pack, lengths: &[u32], mut draws: Draws) -> GroupSamples {
    let mut order: Vec<u32> = (0..lengths.len() as u32).collect();
    draws.shuffle(&mut order);
    let in_order = order.iter().map(|row| lengths[*row as usize]).collect();
    let kind = Arc::new(Packs(pack.of_sequence(vec![in_order])));
    GroupSamples { kind, order: Some(order.into()) }
}

/// Packs the whole lists of a row group into `count` packs.
fn packed_anew(pack: &Pack, lengths: &[u32], count: u32, mut draws: Draws) -> PackedGroup {
    let (rests, count) = (pack.rests(lengths), (count - pack.filled_alone(lengths)) as usize);
    let some = (0..).zip(&rests).filter(|(_, rest)| **rest > 0);
    let rows: Vec<(u32, u64)> = some.map(|(row, _)| (row, draw(&mut draws))).collect();
    let in_order_of = |part: Option<u32>| {
        let mut order = rows.clone();
        order
            .sort_by_cached_key(|(row, drawn)| Reverse((raised(rests[*row as usize], part, *drawn), *drawn)));
        placed(&rests, order.into_iter().map(|(row, _)| row), pack.length())
    };
    let mut parts = PARTS_OF_LISTS.iter().map(|part| in_order_of(Some(*part)));
    let fitting = parts.find(|packs| packs.len() <= count);
    let mut packs = fitting.unwrap_or_else(|| in_order_of(None));
    while packs.len() < count {
        let fullest = packs.iter_mut().max_by_key(|rows| rows.len());
        // There are at least as many lists as packs, so one pack has two lists if another is missing.
        let Some(row) = fullest.and_then(Vec::pop) else { break };
        packs.push(vec![row]);
    }
    pack.whole(lengths.to_vec(), &rests, packs)
}

/// Sorts the rows of a row group into buckets.
fn bucketed_anew(bucket: &Bucket, lengths: &[u32], mut draws: Draws) -> BucketGroup {
    let keyed = |(row, length): (u32, &u32)| {
        let drawn = draw(&mut draws);
        (*length != NO_LENGTH).then(|| (raised(*length, Some(PART_OF_ROWS), drawn), drawn, row))
    };
    let mut rows: Vec<(u64, u64, u32)> = (0..).zip(lengths).filter_map(keyed).collect();
    rows.sort_unstable();
    let rows = rows.into_iter().map(|(.., row)| row).collect();
    BucketGroup::new(rows, ends_in(bucket, lengths))
}

/// Returns the ends of the buckets, which are the same in every epoch, as indices into the rows that are
/// sorted by raised lengths.
fn ends_in(bucket: &Bucket, lengths: &[u32]) -> Vec<u32> {
    let mut lengths: Vec<u32> = lengths.iter().copied().filter(|length| *length != NO_LENGTH).collect();
    lengths.sort_unstable();
    // With raised lengths, a bucket may get rows that are longer by `1 / parts` than in the exact order. Only
    // `parts / (parts + 1)` of `most_tokens` are used, so that there is room for them.
    let parts = 1 << PART_OF_ROWS;
    let tokens = bucket.most_tokens().map(|tokens| (u128::from(tokens) * parts / (parts + 1)) as u64);
    bucket.ends(lengths.len(), tokens, |_, at| lengths[at].into())
}

/// Draws a random number that says by how much a length is raised.
fn draw(draws: &mut Draws) -> u64 {
    draws.below(1 << DRAWN_BITS)
}

/// Raises a length by a random part of at most `2^-part` of itself, and returns it multiplied by
/// `2^DRAWN_BITS`.
fn raised(length: u32, part: Option<u32>, drawn: u64) -> u64 {
    let length = u64::from(length);
    (length << DRAWN_BITS) + part.map_or(0, |part| (length * drawn) >> part)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Returns, for each sample of a row group in an epoch, its rows, and the number of values of its first
    /// row that are in earlier samples.
    fn samples(all: &Arc<Reshuffled>, group: usize, seed: u64, epoch: u64) -> Vec<(Vec<u32>, u32)> {
        let (kind, counts) = all.clone().of_epoch(seed, epoch);
        let of_group = kind.of_group(group).unwrap();
        assert_eq!(of_group.count(group), counts[group]);
        let selected = RowSet::all(all.lengths[group].len() as u32);
        let sample = |sample: u32| {
            let (mut rows, mut alone) = (SampleRows::default(), SampleRows::default());
            of_group.rows(group, sample, &selected, &mut rows);
            kind.rows(group, sample, &selected, &mut alone);
            assert_eq!(rows, alone);
            let planned = rows.rows.iter().map(|row| all.lengths[group][*row as usize]);
            assert!(rows.lengths.is_empty() || planned.eq(rows.lengths.iter().copied()));
            assert!(rows.rows.len() as u32 <= all.largest());
            (rows.rows, rows.skipped.first().copied().unwrap_or(0))
        };
        (0..counts[group]).map(sample).collect()
    }

    fn draws_of(seed: u64) -> Vec<u32> {
        let mut draws = Draws::keyed(seed, Purpose::Regroup, &[9]);
        (0..1_000).map(|_| 1 + draws.below(700) as u32).collect()
    }

    /// The pairs of rows that are in one sample.
    fn neighbours(samples: &[(Vec<u32>, u32)]) -> BTreeSet<(u32, u32)> {
        let pairs = |rows: &Vec<u32>| {
            let pair = |one: u32| rows.iter().map(move |other| (one.min(*other), one.max(*other)));
            rows.iter().flat_map(|row| pair(*row)).collect::<Vec<_>>()
        };
        samples.iter().flat_map(|(rows, _)| pairs(rows)).filter(|(one, other)| one != other).collect()
    }

    /// Lists in another order may fit fewer packs than in the order of length, from which packs are planned.
    #[test]
    fn packs_are_divided_until_they_are_as_many_as_planned() {
        let (pack, lengths) = (Pack::best_fit(["x"], 4), [1, 0, 2, 1]);
        for planned in 1..=3 {
            let draws = Draws::keyed(1, Purpose::Regroup, &[0]);
            let packs = Packs(vec![packed_anew(&pack, &lengths, planned, draws)]);
            assert_eq!(packs.count(0), planned);
            let mut all = Vec::new();
            for number in 0..planned {
                let mut rows = SampleRows::default();
                packs.rows(0, number, &RowSet::all(4), &mut rows);
                assert!(!rows.rows.is_empty(), "pack {number} of {planned}");
                all.extend(rows.rows);
            }
            all.sort_unstable();
            assert_eq!(all, [0, 2, 3]);
        }
    }

    #[test]
    fn another_epoch_or_row_group_has_other_members_and_the_same_epoch_the_same() {
        let lengths = vec![draws_of(4); 2];
        for all in [
            Reshuffled::packs(&Pack::split(["x"], 2_048), lengths.clone()),
            Reshuffled::packs(&Pack::best_fit(["x"], 2_048), lengths.clone()),
            Reshuffled::buckets(&Bucket::rows("x", 16), lengths.clone()),
            Reshuffled::buckets(&Bucket::tokens("x", 4_000).max_rows(12), lengths),
        ] {
            let all = Arc::new(all);
            let of_epoch = |seed, epoch| samples(&all, 0, seed, epoch);
            assert_eq!(of_epoch(1, 2), of_epoch(1, 2));
            let (one, next, seeded) = (of_epoch(1, 2), of_epoch(1, 3), of_epoch(2, 2));
            for other in [next, seeded, samples(&all, 1, 1, 2)] {
                let (pairs, others) = (neighbours(&one), neighbours(&other));
                let shared = pairs.intersection(&others).count();
                assert!(shared * 3 < pairs.len(), "{shared} of {} pairs are the same", pairs.len());
            }
        }
    }

    proptest! {
        /// Each value of each list is in one pack, whatever the order of the lists, and every epoch has as
        /// many packs as the stored order of the lists needs.
        #[test]
        fn split_packs_have_each_value_once(
            lengths in prop::collection::vec(0u32..40, 0..60),
            length in 1u32..60,
            epoch: u64,
        ) {
            let pack = Pack::split(["x"], length);
            let all = Arc::new(Reshuffled::packs(&pack, vec![vec![7], lengths.clone()]));
            let packs = samples(&all, 1, 3, epoch);
            prop_assert_eq!(packs.len() as u32, lengths.iter().sum::<u32>().div_ceil(length));
            let mut found = vec![BTreeSet::new(); lengths.len()];
            for (at, (rows, skipped)) in packs.iter().enumerate() {
                let mut room = length;
                for (place, row) in rows.iter().enumerate() {
                    let from = if place == 0 { *skipped } else { 0 };
                    let to = lengths[*row as usize].min(from + room);
                    prop_assert!((from..to).all(|value| found[*row as usize].insert(value)));
                    room -= to - from;
                }
                prop_assert!(room == 0 || at + 1 == packs.len());
            }
            prop_assert!(found.iter().zip(&lengths).all(|(found, length)| found.len() as u32 == *length));
        }

        /// Each list is in one pack, no pack is too full, and there are as many packs as without reshuffling.
        #[test]
        fn whole_packs_are_as_many_as_in_the_order_of_length(
            lengths in prop::collection::vec(0u32..25, 0..60),
            epoch: u64,
            seed: u64,
        ) {
            let pack = Pack::best_fit(["x"], 20).truncate(true);
            let long = Pack::best_fit(["x"], 9).split_long(true);
            let anew = Arc::new(Reshuffled::packs(&long, vec![lengths.clone()]));
            let values = |(rows, _): (Vec<u32>, u32)| rows.len();
            let pieces: usize = samples(&anew, 0, seed, epoch).into_iter().map(values).sum();
            prop_assert_eq!(pieces as u32, lengths.iter().map(|length| length.div_ceil(9)).sum::<u32>());
            let all = Arc::new(Reshuffled::packs(&pack, vec![lengths.clone()]));
            let packs = samples(&all, 0, seed, epoch);
            prop_assert_eq!(packs.len() as u32, Packs(pack.of_sequence(vec![lengths.clone()])).count(0));
            let full = |rows: &Vec<u32>| rows.iter().map(|row| lengths[*row as usize].min(20)).sum::<u32>();
            prop_assert!(packs.iter().all(|(rows, _)| !rows.is_empty() && full(rows) <= 20));
            let mut rows: Vec<u32> = packs.into_iter().flat_map(|(rows, _)| rows).collect();
            rows.sort_unstable();
            let some: Vec<u32> = (0..lengths.len() as u32).filter(|row| lengths[*row as usize] > 0).collect();
            prop_assert_eq!(rows, some);
        }

        /// Each row with a length is in one bucket, no bucket is too large once its rows are padded, and
        /// every epoch has as many buckets of the same sizes.
        #[test]
        fn buckets_hold_their_limits(
            lengths in prop::collection::vec(prop_oneof![9 => 0u32..40, 1 => Just(NO_LENGTH)], 0..80),
            rows in prop::option::of(1u32..9),
            epoch: u64,
        ) {
            let bucket = Bucket::tokens("x", 90);
            let bucket = rows.map_or(bucket.clone(), |rows| bucket.max_rows(rows));
            let all = Arc::new(Reshuffled::buckets(&bucket, vec![lengths.clone()]));
            let (found, next) = (samples(&all, 0, 1, epoch), samples(&all, 0, 1, epoch.wrapping_add(1)));
            let sizes =
                |found: &[(Vec<u32>, u32)]| found.iter().map(|(rows, _)| rows.len()).collect::<Vec<_>>();
            prop_assert_eq!(sizes(&found), sizes(&next));
            for (of_bucket, _) in &found {
                let longest = of_bucket.iter().map(|row| lengths[*row as usize]).max().unwrap();
                prop_assert!(longest as usize * of_bucket.len() <= 90, "{of_bucket:?}");
                prop_assert!(of_bucket.len() <= rows.unwrap_or(u32::MAX) as usize);
            }
            let mut all_rows: Vec<u32> = found.into_iter().flat_map(|(rows, _)| rows).collect();
            all_rows.sort_unstable();
            let some = (0..lengths.len() as u32).filter(|row| lengths[*row as usize] != NO_LENGTH);
            let some: Vec<u32> = some.collect();
            prop_assert_eq!(all_rows, some);
        }
    }
}
