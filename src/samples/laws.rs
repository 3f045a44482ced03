//! Tests the laws that hold for samples of every kind, with random row groups, selections, orders, numbers of
//! ranks and skipped steps.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::shard::{EpochOrder, OrderSpec, Part, Shard, Shuffle, SkippedRows, Split, Walk};

/// The rows of a row group: for each, whether it is selected, its length, and its class.
type Group = Vec<(bool, u32, u32)>;

/// A delivered sample: its row group and its stored rows.
type Found = (u32, Vec<u32>);

#[derive(Clone, Debug)]
enum SampleKind {
    Rows,
    Windows { length: u32, overlap: u32 },
    Packs { length: u32, split: bool, reshuffle: bool },
    Buckets { rows: u32, reshuffle: bool },
    Weighted(Sample),
}

#[derive(Clone, Debug)]
struct SampledCase {
    groups: Vec<Group>,
    kind: SampleKind,
    shuffle: Shuffle,
    world: u32,
    global_batch: u64,
    drop_last: bool,
    epoch: u64,
}

impl SampledCase {
    fn sets(&self) -> Vec<RowSet> {
        let selected = |group: &Group| group.iter().map(|row| row.0).collect::<Vec<bool>>();
        self.groups.iter().map(|group| RowSet::from_bits(&selected(group).into())).collect()
    }

    /// Applies `number` to each selected row, and returns the results by row group.
    fn numbers(&self, number: fn(&(bool, u32, u32)) -> u32) -> Vec<Vec<u32>> {
        let of_group = |group: &Group| group.iter().filter(|row| row.0).map(number).collect();
        self.groups.iter().map(of_group).collect()
    }

    fn index(&self) -> Option<SampleIndex> {
        let (sets, lengths) = (self.sets(), self.numbers(|row| row.1));
        Some(match &self.kind {
            SampleKind::Rows => SampleIndex::of_rows(sets),
            SampleKind::Windows { length, overlap } => {
                let window = Window::rows(*length).overlap(*overlap);
                let starts = sets.iter().flat_map(|rows| {
                    let mut starts = SequenceStarts::new(&window);
                    starts.push(rows, &Stretches::new(rows.count() as usize), None);
                    starts.finish()
                });
                let windows = Windows::new(&window, starts.collect());
                SampleIndex::of_kind(Arc::new(windows), sets)
            }
            SampleKind::Packs { length, split, reshuffle } => {
                let pack = match split {
                    true => Pack::split(["x"], *length),
                    false => Pack::best_fit(["x"], *length).truncate(true),
                };
                if *reshuffle {
                    return Some(SampleIndex::drawn(Reshuffled::packs(&pack, lengths), 3, sets));
                }
                let groups = lengths.into_iter().flat_map(|lengths| pack.of_sequence(vec![lengths]));
                SampleIndex::of_kind(Arc::new(Packs(groups.collect())), sets)
            }
            SampleKind::Buckets { rows, reshuffle } => {
                let bucket = Bucket::rows("x", *rows);
                if *reshuffle {
                    return Some(SampleIndex::drawn(Reshuffled::buckets(&bucket, lengths), 3, sets));
                }
                let groups = lengths.iter().map(|lengths| bucket.of_group(lengths, &[])).collect();
                SampleIndex::of_kind(Arc::new(Buckets(groups)), sets)
            }
            SampleKind::Weighted(sample) => {
                let values = match sample.has_classes() {
                    true => ColumnValues {
                        classes: (0..3).map(Class::from).collect(),
                        numbers: self.numbers(|row| row.2),
                    },
                    false => ColumnValues {
                        classes: vec![],
                        numbers: self.numbers(|row| (row.1 as f32).to_bits()),
                    },
                };
                SampleIndex::drawn(Population::new(sample, values).ok()?.0, 3, sets)
            }
        })
    }

    fn split(&self, index: &SampleIndex, lanes: u32, rank: u32, world: u32) -> Split {
        Split {
            rows: index.total(),
            lanes,
            shard: Shard::new(rank, world).unwrap(),
            global_batch: self.global_batch,
            drop_last: self.drop_last,
        }
    }

    /// Returns the samples of each step from row `start` of the order on, over all `world` ranks, sorted and
    /// without those that are repeated as padding. Checks that all ranks have the same number of steps, and
    /// at least one sample in each.
    fn steps(&self, index: &SampleIndex, spec: &OrderSpec, world: u32, start: u64) -> Vec<Vec<Found>> {
        let samples = index.of_epoch(self.epoch);
        let order = EpochOrder::new(samples.counts.clone(), spec, self.epoch);
        let mut kinds = BTreeMap::new();
        let mut together: Vec<Vec<Found>> = Vec::new();
        for rank in 0..world {
            let split = self.split(index, spec.lanes(), rank, world);
            let mut steps = 0;
            for step in Walk::new(&order, split, start) {
                if rank == 0 {
                    together.push(Vec::new());
                }
                assert!(!step.picks.is_empty(), "a rank without a batch");
                let unique = step.picks.len() - step.padded as usize;
                for &(part, sample) in &step.picks[..unique] {
                    let part = step.parts[part as usize];
                    let key = (part.group, part.start, part.rows);
                    let known = kinds
                        .entry(key)
                        .or_insert_with(|| (samples.rows_of(&part), samples.samples_of(&part)));
                    let mut rows = SampleRows::default();
                    match &known.1 {
                        Some(samples) => samples.rows(sample, &mut rows),
                        None => rows.rows.push(sample),
                    }
                    let rows = rows.rows.iter().map(|row| known.0.row_in_group(*row)).collect();
                    together[steps].push((part.group, rows));
                }
                steps += 1;
            }
            assert_eq!(steps, together.len(), "all ranks have as many steps");
        }
        together.iter_mut().for_each(|step| step.sort_unstable());
        together
    }

    /// All samples of an epoch, listed by row group without a plan.
    fn all(&self, index: &SampleIndex) -> Vec<Found> {
        let samples = index.of_epoch(self.epoch);
        let mut all = Vec::new();
        for (group, &count) in samples.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let part = Part { group: group as u32, start: 0, rows: count };
            let (rows_of, samples_of) = (samples.rows_of(&part), samples.samples_of(&part));
            for sample in 0..count {
                let mut rows = SampleRows::default();
                match &samples_of {
                    Some(samples) => samples.rows(sample, &mut rows),
                    None => rows.rows.push(sample),
                }
                all.push((group as u32, rows.rows.iter().map(|row| rows_of.row_in_group(*row)).collect()));
            }
        }
        all.sort_unstable();
        all
    }
}

fn kinds() -> impl Strategy<Value = SampleKind> {
    let weighted = (any::<bool>(), any::<bool>(), prop::option::of(1u64..60), 0.1f64..9.0);
    prop_oneof![
        Just(SampleKind::Rows),
        (1u32..6, 0u32..5)
            .prop_map(|(length, overlap)| SampleKind::Windows { length, overlap: overlap.min(length - 1) }),
        (1u32..30, any::<bool>(), any::<bool>()).prop_map(|(length, split, reshuffle)| SampleKind::Packs {
            length,
            split,
            reshuffle
        }),
        (1u32..7, any::<bool>()).prop_map(|(rows, reshuffle)| SampleKind::Buckets { rows, reshuffle }),
        weighted.prop_map(|(classes, replacement, rows, weight)| {
            let sample = match classes {
                true => Sample::classes("x", [(0, weight)]).others(1.0),
                false => Sample::weights("x"),
            };
            let sample = sample.replacement(replacement);
            SampleKind::Weighted(rows.map_or(sample.clone(), |rows| sample.rows(rows)))
        }),
    ]
}

fn cases() -> impl Strategy<Value = SampledCase> {
    let row = (prop::bool::weighted(0.7), 0u32..9, 0u32..3);
    let groups = prop::collection::vec(prop::collection::vec(row, 0..20), 1..6);
    let order = (0u32..3, any::<u64>(), 1u64..60, 1u32..5);
    (groups, kinds(), order, 1u32..5, 1u64..14, any::<bool>(), 0u64..3).prop_map(
        |(groups, kind, (mixing, seed, window, lanes), world, batch, drop_last, epoch)| {
            let shuffle = match mixing {
                0 => Shuffle::stored(),
                1 => Shuffle::exact(seed),
                _ => Shuffle::seeded(seed).window_rows(window),
            };
            let global_batch = batch.max(world.into());
            SampledCase { groups, kind, shuffle: shuffle.lanes(lanes), world, global_batch, drop_last, epoch }
        },
    )
}

/// The environment variable PROPTEST_CASES changes the number of cases.
fn config() -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    ProptestConfig { cases: asked.unwrap_or(10_000), failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    /// Each sample is delivered once over all ranks, a step has the same samples for any number of ranks, an
    /// epoch that begins at a step gives the same steps as one that goes through all steps before, and
    /// skipped steps change no other step.
    #[test]
    fn samples_of_all_kinds_keep_the_laws(case in cases(), other in 1u32..6, at: u64, skip: (u64, u64)) {
        // If no row is selected, or sampling without replacement leaves no row, there is nothing to plan.
        let Some(index) = case.index().filter(|index| index.total() > 0) else { return Ok(()) };
        let lanes = case.shuffle.lanes.unwrap().min(index.total() as u32);
        let spec = OrderSpec::new(&case.shuffle.lanes(lanes), &index.row_counts(), case.world, 64);
        let steps = case.steps(&index, &spec, case.world, 0);
        let split = case.split(&index, lanes, 0, case.world);
        prop_assert_eq!(steps.len() as u64, split.steps(0));

        let all = case.all(&index);
        prop_assert_eq!(all.len() as u64, index.total());
        let mut found = steps.concat();
        found.sort_unstable();
        match case.drop_last {
            false => prop_assert_eq!(&found, &all),
            true => {
                let mut left = all.clone();
                for sample in &found {
                    let at = left.binary_search(sample);
                    prop_assert!(at.is_ok(), "{:?} too often", sample);
                    left.remove(at.unwrap());
                }
                prop_assert_eq!(left.len() as u64, split.dropped(0));
            }
        }
        if steps.is_empty() {
            return Ok(());
        }

        let other = other.min(u32::try_from(case.global_batch).unwrap_or(other));
        prop_assert_eq!(&case.steps(&index, &spec, other, 0), &steps);

        let at = at % steps.len() as u64;
        prop_assert_eq!(&case.steps(&index, &spec, other, at * case.global_batch)[..], &steps[at as usize..]);

        let first = skip.0 % steps.len() as u64;
        let end = first + 1 + skip.1 % (steps.len() as u64 - first);
        let base = case.epoch * steps.len() as u64;
        let Ok(skipped) = SkippedRows::of_steps(&[(base + first, base + end)], &split) else { return Ok(()) };
        let rest = [&steps[..first as usize], &steps[end as usize..]].concat();
        prop_assert_eq!(case.steps(&index, &spec.with_skipped(skipped), case.world, 0), rest);
    }
}
