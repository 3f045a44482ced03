//! Tests the laws of mixes, as properties over random sources, weights, lanes, worlds and batches.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::super::apportion::Weights;
use super::super::course::Stop;
use super::super::order::EpochOrder;
use super::super::order_spec::OrderSpec;
use super::super::spec::Shuffle;
use super::super::walk::Walk;
use super::*;

/// A row of the epoch: source, pass, and row of the pass.
type Row = (usize, u64, u64);

#[derive(Clone, Debug)]
struct MixCase {
    run: Run,
    lanes: u32,
    world: u32,
}

impl MixCase {
    fn split(&self, rank: u32, world: u32) -> MixSplit {
        let global_batch = self.run.rule.global_batch;
        MixSplit { shard: Shard::new(rank, world).unwrap(), lanes: self.lanes, global_batch }
    }

    /// The rows of each step over all ranks of a world, without repeated rows, and the number of rows that
    /// each rank has.
    fn steps(&self, epoch: &MixedEpoch, world: u32) -> Vec<(BTreeSet<Row>, Vec<u64>)> {
        let together = |step: MixedStep| {
            let (mut rows, mut counts) = (BTreeSet::new(), Vec::new());
            for rank in 0..world {
                let split = self.split(rank, world);
                let mut count = 0;
                for source in 0..step.rows.len() {
                    for (pass, share) in epoch.share(&step, source, &split) {
                        for span in &share.spans {
                            count += span.to - span.from;
                            for at in (span.from..span.to).filter(|_| share.padded == 0) {
                                let row = at * u64::from(self.lanes) + u64::from(span.lane);
                                assert!(row < share.end, "beyond the step");
                                assert!(rows.insert((source, pass, row)), "twice in a step");
                            }
                        }
                    }
                }
                counts.push(count);
            }
            (rows, counts)
        };
        epoch.course.steps_from(0).map(together).collect()
    }
}

fn cases() -> impl Strategy<Value = MixCase> {
    let source =
        (1u64..120, prop_oneof![2 => Just(0.0), 1 => 0.05..1.0f64, 20 => (1u32..9).prop_map(f64::from)]);
    let sources = prop::collection::vec(source, 1..5);
    let change = prop::option::of((1u64..12, prop::collection::vec((0u32..9).prop_map(f64::from), 4)));
    let ends = (any::<bool>(), any::<bool>(), any::<bool>(), prop::option::of(0u64..9));
    let passes = prop::option::of(prop::collection::vec(prop::option::of(1u64..4), 4));
    (sources, change, ends, passes, 1u32..7, 1u32..7, 1u64..60).prop_map(
        |(sources, change, ends, passes, lanes, world, batch)| {
            let (mut rows, mut weights): (Vec<u64>, Vec<f64>) = sources.into_iter().unzip();
            // A data set has at least one row for each lane.
            rows.iter_mut().for_each(|rows| *rows = (*rows).max(lanes.into()));
            weights[0] = weights[0].max(0.1);
            let mut schedule = vec![(0, Weights::new(&weights).unwrap())];
            if let Some((step, mut later)) = change {
                later.truncate(weights.len());
                later[0] += 0.1;
                schedule.push((step, Weights::new(&later).unwrap()));
            }
            let global_batch = batch.max(world.into());
            let (last, repeat, drop_last, random_shares) = ends;
            let sources = rows.len();
            let unit = MixSplit { shard: Shard::default(), lanes, global_batch }.unit();
            let stop = if last { Stop::Last } else { Stop::First };
            let is_limited = last && repeat;
            let max_passes = passes.filter(|_| is_limited).map_or(Vec::new(), |mut passes| {
                passes.truncate(rows.len());
                passes
            });
            let rule = CourseRule {
                rows,
                global_batch,
                unit,
                stop,
                repeat,
                max_passes,
                drop_last,
                schedule,
                random_shares,
            };
            MixCase {
                run: Run {
                    rule,
                    origin: Origin::of_sources(sources),
                    skipped: Arc::default(),
                    set_from: None,
                },
                lanes,
                world,
            }
        },
    )
}

fn config(cases: u32) -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    ProptestConfig { cases: asked.unwrap_or(cases), failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config(10_000))]

    /// Each row of a pass comes once over all ranks; all ranks have the same number of steps, and row counts
    /// that differ by at most one.
    #[test]
    fn each_row_of_a_pass_comes_once_in_equally_many_steps(case in cases(), number in 0u64..3) {
        let Ok(epoch) = case.run.epoch(number) else { return Ok(()) };
        let rule = &case.run.rule;
        let mut all: BTreeSet<Row> = BTreeSet::new();
        let steps = case.steps(&epoch, case.world);
        prop_assert_eq!(steps.len() as u64, epoch.course.steps());
        for (rows, counts) in steps {
            let (most, least) = (counts.iter().max().unwrap(), counts.iter().min().unwrap());
            prop_assert!(*least > 0, "a rank without a batch: {:?}", counts);
            let batch = rule.global_batch.div_ceil(case.world.into());
            prop_assert!(*most <= batch, "{:?} over {}", counts, batch);
            if rows.len() as u64 == rule.global_batch {
                prop_assert!(most - least <= 1, "{:?}", counts);
            }
            prop_assert!(!rule.drop_last || rows.len() as u64 == rule.global_batch);
            for row in rows {
                prop_assert!(all.insert(row), "{:?} twice", row);
            }
        }
        for (source, &size) in rule.rows.iter().enumerate() {
            let given = epoch.course.rows()[source];
            let expected: BTreeSet<Row> = (0..given).map(|row| (source, row / size, row % size)).collect();
            let found: BTreeSet<Row> = all.iter().filter(|row| row.0 == source).copied().collect();
            prop_assert_eq!(found, expected, "a source gives its rows in order, without a gap");
            prop_assert!(given <= size || (rule.stop == Stop::Last && rule.repeat));
            let passes = rule.max_passes.get(source).copied().flatten();
            prop_assert!(passes.is_none_or(|passes| given <= passes * size), "{} of {:?} passes of {}", given, passes, size);
        }
        let given = epoch.course.rows();
        let are_whole = || (0..given.len()).map(|source| given[source] >= rule.rows[source]);
        if !rule.drop_last {
            match rule.stop {
                Stop::First => prop_assert!(are_whole().any(|whole| whole)),
                Stop::Last => {
                    let end = epoch.first_step + epoch.course.steps();
                    let mut all = are_whole().enumerate();
                    prop_assert!(all.all(|(source, whole)| whole || rule.has_ended(source, end)));
                }
            }
        }
    }

    /// A step holds the same rows in any world.
    #[test]
    fn steps_do_not_depend_on_the_world(case in cases(), other in 1u32..9) {
        let Ok(epoch) = case.run.epoch(0) else { return Ok(()) };
        let other = u32::try_from(case.run.rule.global_batch).unwrap_or(other).min(other);
        let rows = |world| case.steps(&epoch, world).into_iter().map(|(rows, _)| rows).collect::<Vec<_>>();
        prop_assert_eq!(rows(case.world), rows(other));
    }

    /// Seeking to a step gives the same as walking there: in the course, in a source's pass, and in a run
    /// whose plan begins there.
    #[test]
    fn to_seek_is_to_skip(case in cases(), at in 0u64..40, rank in 0u32..7, number in 0u64..4) {
        let Ok(epoch) = case.run.epoch(number) else { return Ok(()) };
        let at = at % (epoch.course.steps() + 1);
        let all: Vec<MixedStep> = epoch.course.steps_from(0).collect();
        let tail: Vec<MixedStep> = epoch.course.steps_from(at).collect();
        prop_assert_eq!(&all[at as usize..], &tail[..]);
        prop_assert_eq!(epoch.course.step_of(epoch.taken_before(at).iter().sum()), at);
        let split = case.split(rank % case.world, case.world);
        for source in 0..case.run.rule.rows.len() {
            let portion = Portion { epoch: Arc::new(epoch.clone()), source, split };
            let size = epoch.sizes[source];
            for pass in 0..epoch.passes_of(source) {
                let shares: Vec<Share> =
                    portion.shares(epoch.passes[source] + pass, 0).map(|(share, _)| share).collect();
                let expected = all.iter().flat_map(|step| epoch.share(step, source, &split));
                let expected: Vec<Share> = expected.filter(|(of, _)| *of == pass).map(|(_, share)| share).collect();
                prop_assert_eq!(&shares, &expected);
                let before = epoch.taken_before(at)[source];
                if before / size == pass {
                    let later = portion.shares(epoch.passes[source] + pass, before % size);
                    let later: Vec<Share> = later.map(|(share, _)| share).collect();
                    let skipped = all[..at as usize].iter().flat_map(|step| epoch.share(step, source, &split));
                    let skipped = skipped.filter(|(of, _)| *of == pass).count();
                    prop_assert_eq!(&later[..], &shares[skipped..]);
                }
            }
        }
    }

    /// Skipping leaves out exactly the rows of the skipped steps in the passes over a source, even if the
    /// passes are read only from step `at` on.
    #[test]
    fn passed_steps_are_left_out_and_no_others(case in cases(), from in 0u64..40, many in 1u64..9, at in 0u64..40) {
        let Ok(whole) = case.run.epoch(0) else { return Ok(()) };
        let steps = whole.course.steps();
        let (from, to) = (from % steps, from % steps + many);
        let run = Run { skipped: [SkippedSteps { from, to }].into(), ..case.run.clone() };
        let Ok(epoch) = run.epoch(0) else {
            prop_assert!(from == 0 && to >= steps);
            return Ok(());
        };
        let is_left = |step: &u64| !(from..to).contains(step);
        let at = epoch.not_skipped(at % (steps + 1));
        prop_assert!(at == steps || is_left(&at));
        let left: Vec<MixedStep> =
            (at..).zip(whole.course.steps_from(at)).filter(|(step, _)| is_left(step)).map(|(_, step)| step).collect();
        prop_assert_eq!(epoch.steps_left(at), left.len() as u64);
        let passed: u64 = (from..to.min(steps)).zip(whole.course.steps_from(from)).map(|(_, step)| step.rows.iter().sum::<u64>()).sum();
        prop_assert_eq!(epoch.rows_skipped().iter().sum::<u64>(), passed);
        let split = case.split(0, case.world);
        for source in 0..case.run.rule.rows.len() {
            let portion = Portion { epoch: Arc::new(epoch.clone()), source, split };
            let (size, before) = (epoch.sizes[source], epoch.taken_before(at)[source]);
            for pass in before / size..epoch.passes_of(source) {
                let start = if pass == before / size { before % size } else { 0 };
                let shares: Vec<Share> =
                    portion.shares(epoch.passes[source] + pass, start).map(|(share, _)| share).collect();
                let expected = left.iter().flat_map(|step| epoch.share(step, source, &split));
                let expected: Vec<Share> = expected.filter(|(of, _)| *of == pass).map(|(_, share)| share).collect();
                prop_assert_eq!(shares, expected);
            }
        }
    }

    /// The plan of an epoch continues that of the epochs before it, and a plan that begins in the middle of
    /// an epoch continues like one that does not.
    #[test]
    fn epochs_follow_each_other(case in cases()) {
        let Ok(first) = case.run.epoch(0) else { return Ok(()) };
        let Ok(second) = case.run.epoch(1) else { return Ok(()) };
        prop_assert_eq!(second.first_step, first.course.steps());
        for source in 0..first.passes.len() {
            prop_assert_eq!(second.passes[source], first.passes_of(source));
        }
        for number in [2, 3, 50] {
            let Ok(epoch) = case.run.epoch(number) else { continue };
            let origin = Origin {
                epoch: number,
                step: epoch.first_step,
                passes: epoch.passes.clone(),
                taken: epoch.taken.clone(),
            };
            let again = Run { origin, ..case.run.clone() }.epoch(number).unwrap();
            let steps = |epoch: &MixedEpoch| epoch.course.steps_from(0).collect::<Vec<_>>();
            prop_assert_eq!(steps(&epoch), steps(&again));
            let Ok(next) = case.run.epoch(number + 1) else { continue };
            prop_assert_eq!(next.first_step, epoch.first_step + epoch.course.steps());
        }
    }
}

proptest! {
    #![proptest_config(config(1_500))]

    /// Over all ranks, the walks over the order of a source take each row of each of its passes once.
    #[test]
    fn walks_take_each_row_of_a_source_once(case in cases(), seed: u64, group in 1u32..30, window in 1u64..90) {
        let Ok(epoch) = case.run.epoch(0) else { return Ok(()) };
        let epoch = Arc::new(epoch);
        for source in 0..case.run.rule.rows.len() {
            let size = epoch.sizes[source];
            let mut counts = vec![group; (size / u64::from(group)) as usize];
            counts.push((size % u64::from(group)) as u32);
            let shuffle = Shuffle::seeded(seed).window_rows(window).lanes(case.lanes);
            for pass in 0..epoch.passes_of(source) {
                let mut taken = BTreeSet::new();
                for rank in 0..case.world {
                    let split = case.split(rank, case.world);
                    let portion = Portion { epoch: epoch.clone(), source, split };
                    let order = OrderSpec::new(&shuffle, &counts, case.lanes, 64).with_portion(portion);
                    let number = epoch.passes[source] + pass;
                    let order = EpochOrder::new(counts.as_slice(), &order, number);
                    let (shard, global_batch) = (split.shard, split.global_batch);
                    let of_rank = Split { rows: size, lanes: case.lanes, shard, global_batch, drop_last: false };
                    let mut held: BTreeSet<(u32, u32)> = BTreeSet::new();
                    for step in Walk::new(&order, of_rank, 0) {
                        held.extend(step.entering.iter().map(|part| (part.group, part.start)));
                        for &(part, row) in step.picks.iter().filter(|_| step.padded == 0) {
                            let part = step.parts[part as usize];
                            prop_assert!(held.contains(&(part.group, part.start)), "not at hand");
                            prop_assert!(taken.insert((part.group, part.start + row)), "twice in a pass");
                        }
                        for part in &step.leaving {
                            held.remove(&(part.group, part.start));
                        }
                    }
                    prop_assert!(held.is_empty(), "parts that never leave");
                }
                let expected = (epoch.course.rows()[source] - pass * size).min(size);
                prop_assert_eq!(taken.len() as u64, expected);
            }
        }
    }
}
