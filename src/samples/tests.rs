//! Kinds of samples through the plan: the counts are planned, and each sample is mapped back to its stored rows.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::shard::{EpochOrder, OrderSpec, Shard, Shuffle, Split, Walk};

/// `length` consecutive rows, each sample beginning `step` rows after the one before.
#[derive(Debug)]
struct Windows {
    length: u32,
    step: u32,
}

impl SampleKind for Windows {
    fn count(&self, _: usize, rows: u32) -> u32 {
        rows.checked_sub(self.length).map_or(0, |more| more / self.step + 1)
    }

    fn rows(&self, _: usize, sample: u32) -> Range<u32> {
        sample * self.step..sample * self.step + self.length
    }
}

/// Selected rows of each row group, as lists.
fn row_groups() -> impl Strategy<Value = Vec<Vec<bool>>> {
    let stretch = (any::<bool>(), 1usize..60)
        .prop_map(|(dense, length)| (0..length).map(|at| dense || at % 2 == 0).collect::<Vec<bool>>());
    vec(vec(stretch, 1..4).prop_map(|stretches| stretches.concat()), 1..8)
}

fn sets(groups: &[Vec<bool>]) -> Vec<RowSet> {
    groups.iter().map(|rows| RowSet::from_bits(&rows.clone().into())).collect()
}

/// The stored rows of a part, as the reader decodes them.
fn decoded(part: &PartRows, group_rows: u32) -> Vec<u32> {
    let Some(selection) = part.selection() else { return (0..group_rows).collect() };
    let mut at = 0;
    let mut rows = Vec::new();
    for run in selection.iter() {
        if !run.skip {
            rows.extend(at..at + run.row_count as u32);
        }
        at += run.row_count as u32;
    }
    rows
}

/// The stored rows of every sample that the ranks of an epoch receive, in the order of delivery.
fn delivered(index: &SampleIndex, groups: &[Vec<bool>], world: u32, epoch: u64) -> Vec<(u32, Vec<u32>)> {
    let spec = OrderSpec::new(&Shuffle::seeded(5), &index.counts, world, 64);
    let order = EpochOrder::new(&index.counts, &spec, epoch);
    let mut samples = Vec::new();
    for rank in 0..world {
        let shard = Shard::new(rank, world).unwrap();
        let split = Split {
            rows: order.rows(),
            lanes: spec.lanes(),
            shard,
            global_batch: 4 * u64::from(shard.world()),
            drop_last: false,
        };
        for step in Walk::new(&order, split, 0) {
            let unique = step.picks.len() - step.padded as usize;
            for (part, sample) in &step.picks[..unique] {
                let part = &step.parts[*part as usize];
                let rows_of = index.rows_of(part);
                let rows = decoded(&rows_of, groups[part.group as usize].len() as u32);
                for (at, &row) in rows.iter().enumerate() {
                    assert_eq!(rows_of.row_in_group(at as u32), row, "decoding and numbering agree");
                }
                let of_sample = index.decoded_rows_of(part, *sample);
                samples.push((part.group, rows[of_sample.start as usize..of_sample.end as usize].to_vec()));
            }
        }
    }
    samples
}

/// All samples by hand, from lists.
fn by_hand(groups: &[Vec<bool>], length: usize, step: usize) -> Vec<(u32, Vec<u32>)> {
    let mut samples = Vec::new();
    for (group, chosen) in groups.iter().enumerate() {
        let rows: Vec<u32> = (0..chosen.len() as u32).filter(|&row| chosen[row as usize]).collect();
        samples.extend(rows.windows(length).step_by(step).map(|rows| (group as u32, rows.to_vec())));
    }
    samples
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Every k-th row (length 1), windows side by side, and windows that overlap.
    #[test]
    fn each_sample_of_a_kind_is_delivered_once_with_its_rows(
        groups in row_groups(),
        length in 1u32..6,
        step in 1u32..8,
        world in 1u32..4,
        epoch in 0u64..2,
    ) {
        let index = SampleIndex::new(Arc::new(Windows { length, step }), sets(&groups));
        let total: u32 = index.counts.iter().sum();
        prop_assume!(total >= world);
        let mut samples = delivered(&index, &groups, world, epoch);
        prop_assert_eq!(samples.len(), total as usize);
        samples.sort_unstable();
        prop_assert_eq!(samples, by_hand(&groups, length as usize, step as usize));
    }

    #[test]
    fn single_rows_are_windows_of_one(groups in row_groups(), epoch in 0u64..2) {
        let rows = SampleIndex::new(Arc::new(SingleRows), sets(&groups));
        let windows = SampleIndex::new(Arc::new(Windows { length: 1, step: 1 }), sets(&groups));
        prop_assert_eq!(&rows.counts, &windows.counts);
        prop_assert_eq!(delivered(&rows, &groups, 1, epoch), delivered(&windows, &groups, 1, epoch));
    }
}

/// A part that samples share rows in decodes each of them once.
#[test]
fn rows_that_samples_share_are_decoded_once() {
    let index = SampleIndex::new(Arc::new(Windows { length: 3, step: 1 }), vec![RowSet::all(10)]);
    let part = Part { group: 0, start: 2, rows: 4 };
    assert_eq!(decoded(&index.rows_of(&part), 10), [2, 3, 4, 5, 6, 7]);
    assert_eq!(index.decoded_rows_of(&part, 1), 1..4);
}

/// What is decoded for samples with gaps between them leaves the gaps out.
#[test]
fn rows_between_samples_are_not_decoded() {
    let index = SampleIndex::new(Arc::new(Windows { length: 1, step: 3 }), vec![RowSet::all(10)]);
    let part = Part { group: 0, start: 1, rows: 3 };
    assert_eq!(decoded(&index.rows_of(&part), 10), [3, 6, 9]);
    let numbers: BTreeMap<u32, u32> =
        (0..3).map(|row| (row, index.rows_of(&part).row_in_group(row))).collect();
    assert_eq!(numbers, BTreeMap::from([(0, 3), (1, 6), (2, 9)]));
}
