//! Tests kinds of samples through the plan: the counts are planned, and each sample is mapped back to its
//! stored rows.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::shard::{EpochOrder, OrderSpec, Part, Shard, Shuffle, Split, Walk};

/// Makes an index of windows of `length` rows. Each window begins `step` rows after the one before, and may
/// continue through `sequence` row groups.
fn windows_across(sets: &[RowSet], length: u32, step: u32, sequence: usize) -> SampleIndex {
    let window = Window::rows(length).overlap(length - step);
    let of_sequence = |groups: &[RowSet]| {
        let mut starts = SequenceStarts::new(&window);
        groups.iter().for_each(|rows| starts.push(rows, &Stretches::new(rows.count() as usize), None));
        starts.finish()
    };
    let starts = sets.chunks(sequence).flat_map(of_sequence).collect();
    SampleIndex::of_kind(Arc::new(Windows::new(&window, starts)), sets.to_vec())
}

/// Makes an index of windows of `length` rows, none of which crosses the end of its row group.
fn windows(sets: &[RowSet], length: u32, step: u32) -> SampleIndex {
    windows_across(sets, length, step, 1)
}

/// Makes random row groups, which say for each row whether it is selected.
fn row_groups() -> impl Strategy<Value = Vec<Vec<bool>>> {
    let stretch = (any::<bool>(), 1usize..60)
        .prop_map(|(dense, length)| (0..length).map(|at| dense || at % 2 == 0).collect::<Vec<bool>>());
    vec(vec(stretch, 1..4).prop_map(|stretches| stretches.concat()), 1..8)
}

fn sets(groups: &[Vec<bool>]) -> Vec<RowSet> {
    groups.iter().map(|rows| RowSet::from_bits(&rows.clone().into())).collect()
}

/// The stored rows that the reader decodes for a part.
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

/// Returns the rows of each sample that is delivered in an epoch, rank by rank. A row is given by its row
/// group and its ordinal in it.
fn delivered(index: &SampleIndex, groups: &[Vec<bool>], world: u32, epoch: u64) -> Vec<Vec<(u32, u32)>> {
    let spec = OrderSpec::new(&Shuffle::seeded(5), index.most(), world, 64);
    let of_epoch = index.of_epoch(epoch);
    let order = EpochOrder::new(of_epoch.counts.clone(), &spec, epoch);
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
                let of_group = |rows: &PartRows, group: u32| -> Vec<(u32, u32)> {
                    let rows = decoded(rows, groups[group as usize].len() as u32);
                    rows.into_iter().map(|row| (group, row)).collect()
                };
                let mut rows = of_group(&of_epoch.rows_of(part), part.group);
                for head in of_epoch.heads(part.group as usize) {
                    rows.extend(of_group(&of_epoch.rows_of_head(head), head.group));
                }
                for (at, (group, row)) in rows.iter().enumerate() {
                    let place = of_epoch.place(part, at as u32);
                    assert_eq!(place, (*group as usize, *row), "decoding and numbering agree");
                }
                let mut of_sample = SampleRows::default();
                match of_epoch.samples_of(part) {
                    Some(samples) => samples.rows(*sample, &mut of_sample),
                    None => of_sample.rows.push(*sample),
                }
                samples.push(of_sample.rows.iter().map(|row| rows[*row as usize]).collect());
            }
        }
    }
    samples
}

/// All windows, built from plain lists.
fn by_hand(groups: &[Vec<bool>], length: usize, step: usize, sequence: usize) -> Vec<Vec<(u32, u32)>> {
    let rows = groups.iter().zip(0..).map(|(chosen, group)| {
        let rows = (0..chosen.len() as u32).filter(|&row| chosen[row as usize]);
        rows.map(|row| (group, row)).collect::<Vec<_>>()
    });
    let sequences: Vec<_> = rows.collect::<Vec<_>>().chunks(sequence).map(|rows| rows.concat()).collect();
    let windows = sequences.iter().flat_map(|rows| rows.windows(length).step_by(step));
    windows.map(<[_]>::to_vec).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The test covers windows that are side by side as well as windows that overlap.
    #[test]
    fn each_sample_of_a_kind_is_delivered_once_with_its_rows(
        groups in row_groups(),
        length in 1u32..40,
        step in 1u32..40,
        sequence in 1usize..4,
        world in 1u32..4,
        epoch in 0u64..2,
    ) {
        let step = step.min(length);
        let index = windows_across(&sets(&groups), length, step, sequence);
        let total = index.total() as u32;
        prop_assume!(total >= world);
        let mut samples = delivered(&index, &groups, world, epoch);
        prop_assert_eq!(samples.len(), total as usize);
        samples.sort_unstable();
        prop_assert_eq!(samples, by_hand(&groups, length as usize, step as usize, sequence));
    }

    #[test]
    fn single_rows_are_windows_of_one(groups in row_groups(), epoch in 0u64..2) {
        let rows = SampleIndex::of_rows(sets(&groups));
        let windows = windows(&sets(&groups), 1, 1);
        prop_assert_eq!(rows.most(), windows.most());
        prop_assert_eq!(delivered(&rows, &groups, 1, epoch), delivered(&windows, &groups, 1, epoch));
    }
}

/// Samples may take rows from anywhere in their row group, so the rows that are decoded for a part do not
/// depend on where the part is cut.
#[test]
fn the_selected_rows_of_a_row_group_are_decoded_for_each_of_its_parts() {
    let selected = RowSet::from_runs(10, [1..4, 6..10]);
    let index = windows(&[selected], 3, 1);
    assert_eq!((index.most()[0], index.row_counts()[0]), (5, 7));
    let part = Part { group: 0, start: 2, rows: 2 };
    assert_eq!(decoded(&index.of_epoch(0).rows_of(&part), 10), [1, 2, 3, 6, 7, 8, 9]);
    let mut rows = SampleRows::default();
    index.of_epoch(0).samples_of(&part).unwrap().rows(1, &mut rows);
    assert_eq!(rows.rows, [3, 4, 5]);
}

#[test]
fn a_window_may_have_rows_of_several_row_groups() {
    let index = windows_across(&[RowSet::all(3), RowSet::none(2), RowSet::all(2), RowSet::all(9)], 7, 7, 4);
    assert_eq!(index.most(), [1, 0, 0, 1]);
    let heads: Vec<Head> = index.heads(0).collect();
    assert_eq!(heads, [Head { group: 2, rows: 2 }, Head { group: 3, rows: 2 }]);
    assert_eq!(index.heads(3).count(), 0);
    assert!(index.run_on() && !windows(&[RowSet::all(9)], 7, 7).run_on());
    let buckets = Arc::new(Buckets(vec![Bucket::rows("n", 2).of_group(&[4, 5, 6], &[])]));
    let index = SampleIndex::of_kind(buckets, vec![RowSet::all(3)]);
    assert!(!index.run_on(), "a bucket has rows of one row group");
}

#[test]
fn a_row_group_without_a_sample_counts_no_rows() {
    let index = windows(&[RowSet::all(2), RowSet::all(3)], 3, 1);
    assert_eq!((index.most(), &*index.row_counts()), (&[0, 1][..], &[0, 3][..]));
}
