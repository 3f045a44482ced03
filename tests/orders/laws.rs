//! The laws of order, as properties over random data sets, worlds, lanes, batches, windows, seeds, epochs and
//! resume points. Nothing here reads data, because plans are arithmetic.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a helper of a test stops it; figures are shown"
)]

use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap, HashSet};

use forebay::plan::{Deals, EpochOrder, OrderSpec, Part, PlannedStep, Split, Walk};
use forebay::{Shard, Shuffle};
use proptest::prelude::*;

/// A row of the data set: its row group, and its ordinal in it.
type Row = (u32, u32);

#[derive(Clone, Debug)]
struct OrderCase {
    groups: Vec<u32>,
    shuffle: Shuffle,
    lanes: u32,
    epoch: u64,
    /// The number of costs by which the order is balanced.
    costs: u64,
    /// The order, once it is made.
    made: OnceCell<EpochOrder>,
}

impl OrderCase {
    fn new(groups: Vec<u32>, shuffle: Shuffle, lanes: u32, epoch: u64) -> Self {
        OrderCase { groups, shuffle, lanes, epoch, costs: 0, made: OnceCell::new() }
    }

    fn order(&self) -> &EpochOrder {
        self.made.get_or_init(|| self.make())
    }

    fn make(&self) -> EpochOrder {
        let spec = OrderSpec::new(&self.shuffle, &self.groups, self.lanes, 64);
        let cost = |of: u64, group: usize, row: u32| (u64::from(row) * (7 + of) + group as u64) % 50;
        let costs_of = |of: u64| -> Vec<Vec<f32>> {
            let groups = self.groups.iter().enumerate();
            groups.map(|(group, &rows)| (0..rows).map(|row| cost(of, group, row) as f32).collect()).collect()
        };
        let costs: Vec<Vec<Vec<f32>>> = (0..self.costs).map(costs_of).collect();
        let spec = if costs.is_empty() { spec } else { spec.balanced(&costs) };
        EpochOrder::new(self.groups.as_slice(), &spec, self.epoch)
    }

    /// The split of a rank whose batches have `batch` rows.
    fn split(&self, rank: u32, world: u32, batch: u64, drop_last: bool) -> Split {
        self.split_of(rank, world, batch * u64::from(world), drop_last)
    }

    /// The split of a rank in steps of `global_batch` rows.
    fn split_of(&self, rank: u32, world: u32, global_batch: u64, drop_last: bool) -> Split {
        let (rows, shard) = (self.order().rows(), Shard::new(rank, world).unwrap());
        Split { rows, lanes: self.lanes, shard, global_batch, drop_last }
    }

    fn steps(&self, rank: u32, world: u32, batch: u64, drop_last: bool, start: u64) -> Vec<PlannedStep> {
        self.walk(self.split(rank, world, batch, drop_last), start)
    }

    fn walk(&self, split: Split, start: u64) -> Vec<PlannedStep> {
        Walk::new(self.order(), split, start).collect()
    }

    /// The rows of each step from row `start` on, over all ranks, without repeated rows.
    fn together(&self, world: u32, global_batch: u64, start: u64) -> Vec<BTreeSet<Row>> {
        let mut together = Vec::new();
        for rank in 0..world {
            let steps = self.walk(self.split_of(rank, world, global_batch, false), start);
            together.resize(steps.len(), BTreeSet::new());
            for (all, step) in together.iter_mut().zip(&steps) {
                let own = if step.padded > 0 { Vec::new() } else { rows_of(step) };
                own.into_iter().for_each(|row| assert!(all.insert(row), "{row:?} twice in a step"));
            }
        }
        together
    }
}

fn rows_of(step: &PlannedStep) -> Vec<Row> {
    step.picks
        .iter()
        .map(|&(part, row)| (step.parts[part as usize].group, step.parts[part as usize].start + row))
        .collect()
}

fn cases() -> impl Strategy<Value = OrderCase> {
    let groups = prop_oneof![
        prop::collection::vec(0u32..40, 1..40),
        (1u32..200, 1usize..30).prop_map(|(rows, groups)| vec![rows; groups]),
        prop::collection::vec(prop_oneof![Just(1u32), Just(3), Just(500)], 1..20),
        prop::collection::vec(0u32..6, 40..120),
    ];
    let kind = prop_oneof![
        1 => Just(None),
        4 => prop_oneof![1u64..2_000, 1u64..100].prop_map(|window| Some(Some(window))),
        1 => Just(Some(None)),
    ];
    let pieces = prop_oneof![3 => Just(None), 1 => (1u64..300).prop_map(Some)];
    let costs = prop_oneof![3 => Just(0), 1 => 1u64..4];
    let order = (kind, pieces);
    let numbers = (1u32..9, any::<u64>(), 0u64..5, costs);
    (groups, order, numbers).prop_map(|(mut groups, order, (lanes, seed, epoch, costs))| {
        // A data set must have a row for each lane.
        while groups.iter().sum::<u32>() < lanes {
            groups.push(lanes);
        }
        let shuffle = match order {
            (None, _) => Shuffle::stored(),
            (Some(None), _) => Shuffle::exact(seed),
            (Some(Some(window)), None) => Shuffle::seeded(seed).window_rows(window),
            (Some(Some(window)), Some(rows)) => Shuffle::seeded(seed).window_rows(window).piece_rows(rows),
        };
        OrderCase { costs, ..OrderCase::new(groups, shuffle, lanes, epoch) }
    })
}

/// The number of random topologies for each law; the environment variable PROPTEST_CASES sets another number.
fn config() -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    ProptestConfig { cases: asked.unwrap_or(10_000), failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    /// Law 2 (exactly once) and law 3 (equal steps), with every way to end an epoch.
    #[test]
    fn over_all_ranks_each_row_is_delivered_once_in_equally_many_steps(
        case in cases(), world in 1u32..9, batch in 1u64..70, more in 0u64..8, drop_last: bool,
    ) {
        let more = more % u64::from(world);
        let global = batch * u64::from(world) + more;
        let most = batch + u64::from(more > 0);
        let total: u64 = case.groups.iter().map(|&rows| u64::from(rows)).sum();
        let mut seen = HashSet::new();
        let mut padded = 0;
        let mut delivered = 0;
        for rank in 0..world {
            let split = case.split_of(rank, world, global, drop_last);
            let steps = case.walk(split, 0);
            prop_assert_eq!(steps.len() as u64, split.steps(0), "len() is exact");
            for (k, step) in steps.iter().enumerate() {
                let (last, rows) = (k + 1 == steps.len(), step.picks.len() as u64);
                prop_assert!(rows > 0);
                prop_assert!(last || rows == steps[0].picks.len() as u64, "only the last batch may be short");
                prop_assert!(last || (batch..=most).contains(&rows), "ranks differ by a row");
                prop_assert!(rows <= most && most == split.batch(), "and none is long");
                padded += step.padded;
                delivered += step.picks.len() as u64;
                for row in rows_of(step) {
                    prop_assert!(row.1 < case.groups[row.0 as usize]);
                    prop_assert!(step.padded > 0 || seen.insert(row), "row {:?} twice", row);
                }
            }
        }
        let dropped = case.split_of(0, world, global, drop_last).dropped(0);
        prop_assert_eq!(delivered, total - dropped + padded, "drops and repeats are counted");
        prop_assert_eq!(seen.len() as u64, total - dropped);
    }

    /// Law 4 (elastic): with the global batch and the lanes constant, a step has the same rows on any world,
    /// whether or not the number of ranks divides anything.
    #[test]
    fn a_step_holds_the_same_rows_on_any_world(case in cases(), world in 1u32..14, global in 1u64..250) {
        let global = global.max(world.into());
        prop_assert_eq!(case.together(1, global, 0), case.together(world, global, 0));
    }

    /// Law 4: a run that is stopped and resumed several times, each time on another world, has the steps of
    /// an uninterrupted run.
    #[test]
    fn steps_do_not_show_on_how_many_ranks_they_were_resumed(
        case in cases(), worlds in prop::collection::vec(1u32..14, 1..6), global in 14u64..250, at in any::<u64>(),
    ) {
        let whole = case.together(1, global, 0);
        let mut taken = 0;
        for (turn, world) in worlds.into_iter().enumerate() {
            let left = case.together(world, global, taken as u64 * global);
            prop_assert_eq!(&left[..], &whole[taken..], "on {} ranks from step {}", world, taken);
            taken += (at.rotate_left(turn as u32 * 13) % (left.len() as u64 + 1)) as usize;
        }
    }

    /// Law 4: a position that is saved on one world and resumed on another still gives each row exactly once.
    #[test]
    fn a_position_saved_on_one_world_resumes_on_another(
        case in cases(), before in 1u32..9, after in 1u32..9, batch in 1u64..40, batch_after in 1u64..40, at in 0.0f64..1.0,
    ) {
        let total: u64 = case.groups.iter().map(|&rows| u64::from(rows)).sum();
        let steps = case.split(0, before, batch, false).steps(0);
        let taken = (steps as f64 * at) as usize;
        let mut seen = HashSet::new();
        let mut row = 0;
        for rank in 0..before {
            for step in case.steps(rank, before, batch, false, 0).iter().take(taken) {
                prop_assert!(step.padded == 0);
                row = step.end;
                for r in rows_of(step) {
                    prop_assert!(seen.insert(r));
                }
            }
        }
        prop_assert_eq!(seen.len() as u64, row);
        for rank in 0..after {
            for step in case.steps(rank, after, batch_after, false, row) {
                for r in rows_of(&step) {
                    prop_assert!(step.padded > 0 || seen.insert(r));
                }
            }
        }
        prop_assert_eq!(seen.len() as u64, total);
    }

    /// Laws 1 and 5: after any resume point, the steps are those of an undisturbed walk, and only the parts
    /// of the pool that they need are read.
    #[test]
    fn resuming_gives_the_undisturbed_tail_and_reads_no_more_than_a_pool(
        case in cases(), world in 1u32..5, batch in 1u64..70, at in 0.0f64..1.0,
    ) {
        let whole = case.steps(0, world, batch, false, 0);
        let k = (whole.len() as f64 * at) as usize;
        let start = if k == 0 { 0 } else { whole[k - 1].end };
        let tail = case.steps(0, world, batch, false, start);
        prop_assert_eq!(tail.len(), whole.len() - k);
        for (a, b) in tail.iter().zip(&whole[k..]) {
            prop_assert_eq!((&a.parts, &a.picks), (&b.parts, &b.picks));
        }
        if let Some(first) = tail.first() {
            // The undisturbed walk already holds each of these parts at this step, or the part enters in it.
            let mut held: HashSet<Part> = HashSet::new();
            for step in &whole[..k] {
                held.extend(&step.entering);
                step.leaving.iter().for_each(|part| { held.remove(part); });
            }
            held.extend(&whole[k].entering);
            for part in &first.entering {
                prop_assert!(held.contains(part), "{:?} was already done with", part);
            }
        }
    }

    /// A deal puts the rows of a part in order. The places that a walk picks in the deals have the rows of
    /// the plan, wherever the walk begins, also if the deals leave out the order within slots. If nothing
    /// else is mixed with a part, its places are picked in order.
    #[test]
    fn places_in_deals_are_the_rows_of_the_plan(
        case in cases(), world in 1u32..5, rank in 0u32..4, batch in 1u64..70, at in 0.0f64..1.0,
        are_plain: bool,
    ) {
        let rank = rank % world;
        let split = case.split(rank, world, batch, false);
        let whole = case.steps(rank, world, batch, false, 0);
        let k = (whole.len() as f64 * at) as usize;
        let start = if k == 0 { 0 } else { whole[k - 1].end };
        let order = case.order().clone();
        let deals = Deals::new(move || order.clone());
        if are_plain {
            deals.leave_plain();
        }
        let mut taken = HashMap::new();
        for (step, scouted) in deals.walk(split, start).zip(deals.scout(split, start)) {
            taken.extend(scouted.entering.iter().map(|part| (*part, deals.take(part))));
            let rows = step.picks.iter().map(|&(part, place)| {
                let part = step.parts[part as usize];
                let row = taken[&part].as_ref().map_or(place, |deal| deal[place as usize]);
                (part.group, part.start + row)
            });
            let number = whole.iter().position(|planned| planned.end == step.end).unwrap();
            prop_assert_eq!(rows.collect::<Vec<_>>(), rows_of(&whole[number]));
        }
        // With a single part, nothing is mixed. Two pieces of one row group are two parts.
        let parts: HashSet<_> = whole.iter().flat_map(|step| &step.parts).collect();
        let alone = case.shuffle != Shuffle::stored() && parts.len() == 1;
        if alone && case.lanes == 1 && world == 1 {
            let places = deals.walk(split, 0).flat_map(|step| step.picks).map(|(_, place)| place);
            prop_assert!(places.is_sorted() || case.shuffle == Shuffle::exact(case.shuffle.seed()));
        }
    }

    /// The plan for the reader agrees with the plan for the consumer: a scout sees the same parts at the same
    /// steps, every picked row is in a part in memory, and every part enters and leaves once.
    #[test]
    fn parts_are_at_hand_when_needed_and_gone_after(case in cases(), rank in 0u32..4, batch in 1u64..70) {
        let order = case.order();
        let split = case.split(rank, 4, batch, false);
        let mut held: HashSet<Part> = HashSet::new();
        let mut ever: HashSet<Part> = HashSet::new();
        for (step, scouted) in Walk::new(order, split, 0).zip(Walk::scout(order, split, 0)) {
            prop_assert_eq!(&step.entering, &scouted.entering);
            prop_assert_eq!(step.end, scouted.end);
            for part in &step.entering {
                prop_assert!(ever.insert(*part), "{part:?} is read twice");
                held.insert(*part);
            }
            prop_assert!(step.parts.iter().all(|part| held.contains(part)));
            for &(part, row) in &step.picks {
                prop_assert!(row < step.parts[part as usize].rows);
            }
            for part in &step.leaving {
                prop_assert!(held.remove(part));
            }
        }
        prop_assert!(held.is_empty());
    }
}

/// Law 1: the order is pinned. A change of one of these hashes is a change of the contract.
#[test]
fn the_order_of_a_known_data_set_never_changes() {
    let case = |rows, groups, window, epoch| {
        OrderCase::new(vec![rows; groups], Shuffle::seeded(17).window_rows(window), 4, epoch)
    };
    for (case, pinned) in [
        (case(100, 50, 1_000, 3), "00317f58a7bebb45"),
        // Here a part has fewer rows than the number of ticks that it stays in the window, in the first epoch
        // and later.
        (case(3, 2_000, 300, 0), "49e14edc55545794"),
        (case(3, 2_000, 300, 3), "0d4838282f8d471e"),
        (OrderCase { costs: 1, ..case(100, 50, 1_000, 3) }, "da96d2c6e73fb045"),
        (OrderCase { costs: 2, ..case(3, 2_000, 300, 3) }, "5c31ff26218adc73"),
    ] {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for step in case.steps(1, 2, 32, false, 0) {
            for (group, row) in rows_of(&step) {
                for byte in [group, row].map(u32::to_le_bytes).concat() {
                    hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
                }
            }
        }
        assert_eq!(format!("{hash:016x}"), pinned, "{case:?}");
    }
}

/// A data set of ImageNet's shape, sorted by label, on which mixing is measured.
const CLASSES: u32 = 1_000;
const ROWS_PER_CLASS: u32 = 1_281;
const GROUP: u32 = 512;
const WINDOW: u64 = 65_536;
const BATCH: u64 = 256;

fn sorted_by_label(shuffle: Shuffle, epoch: u64) -> OrderCase {
    let rows = CLASSES * ROWS_PER_CLASS;
    let groups = (0..rows.div_ceil(GROUP)).map(|g| GROUP.min(rows - g * GROUP)).collect();
    OrderCase::new(groups, shuffle, 1, epoch)
}

/// The mean number of distinct classes in a batch, over `steps` batches after the first `skipped`.
fn distinct_classes(case: &OrderCase, skipped: u64, steps: usize) -> f64 {
    let walk = Walk::new(case.order(), case.split(0, 1, BATCH, true), skipped * BATCH);
    let class = |(group, row): Row| (group * GROUP + row) / ROWS_PER_CLASS;
    let per_batch =
        walk.take(steps).map(|step| rows_of(&step).into_iter().map(class).collect::<HashSet<_>>().len());
    per_batch.sum::<usize>() as f64 / steps as f64
}

#[test]
fn a_pool_mixes_better_than_a_block_of_the_same_memory() {
    let windowed = sorted_by_label(Shuffle::seeded(1).window_rows(WINDOW), 1);
    let pool = distinct_classes(&windowed, 2_000, 200);
    let opening = distinct_classes(&windowed, 0, 20);
    let exact = distinct_classes(&sorted_by_label(Shuffle::exact(1), 1), 2_000, 200);
    println!("distinct classes per batch of 256: pool {pool:.0}, its opening {opening:.0}, exact {exact:.0}");
    assert!((220.0..232.0).contains(&exact), "{exact}");
    assert!(pool > 110.0, "{pool}");
    assert!(opening > 0.8 * pool, "{opening}");
}

#[test]
fn the_pool_of_the_first_epoch_deals_while_it_fills() {
    let first = sorted_by_label(Shuffle::seeded(1).window_rows(WINDOW), 0);
    let steps = first.steps(0, 1, BATCH, true, 0);
    let read_for_the_first = steps[0].entering.len();
    assert_eq!(read_for_the_first, 16, "of the 128 row groups of the window");
    let mut held = 0;
    let full = steps.iter().position(|step| {
        held += step.entering.len();
        let full = held >= 128;
        held -= step.leaving.len();
        full
    });
    let full = full.unwrap() as u64;
    println!(
        "the first batch reads {read_for_the_first} row groups, the window is full after {full} batches"
    );
    for (skipped, most) in [(0, 20), (20, 20), (full, 20)] {
        let classes = distinct_classes(&first, skipped, most);
        println!("from batch {skipped} on {classes:.0} distinct classes");
    }
    assert!((300..=330).contains(&full), "{full}");
    assert!(distinct_classes(&first, 0, 20) > 20.0);
    assert!(distinct_classes(&first, 20, 20) > 36.0);
    assert!(distinct_classes(&first, 2_000, 200) > 110.0);
}

/// The link delivers 1.5 times the rows that batches need. From the first batch on, it is late by less than
/// one row group or one batch.
#[test]
fn the_window_fills_no_faster_than_a_link_of_1_5_times_the_demand() {
    for (rows, groups, window, batch) in [
        (GROUP, 2_502, WINDOW, BATCH),
        (100, 30, 10_000, 64),
        (100, 500, 10_000, 64),
        (100, 500, 10_000, 256),
        (10, 5_000, 10_000, 256),
        (3_000, 30, 10_000, 64),
        (3_000, 100, 60_000, 64),
        (1, 5_000, 100, 8),
    ] {
        let shuffle = Shuffle::seeded(1).window_rows(window);
        let case = OrderCase::new(vec![rows; groups], shuffle, 1, 0);
        let mut asked = 0.0;
        let mut latest = 0.0_f64;
        for (dealt, step) in case.steps(0, 1, batch, true, 0).iter().enumerate() {
            if dealt > 0 {
                asked += step.entering.len() as f64 * f64::from(rows) / 1.5;
            }
            latest = latest.max(asked - dealt as f64 * batch as f64);
        }
        println!("{rows} rows a row group, window {window}, batch {batch}: {latest} rows late");
        assert!(
            latest < f64::from(rows).max(batch as f64),
            "{rows} of {groups}, {window}, {batch}: {latest}"
        );
    }
}

#[test]
fn a_window_that_holds_the_data_set_deals_a_uniform_permutation_after_the_first_epoch() {
    let shuffle = Shuffle::seeded(3).window_rows(500);
    let case = OrderCase::new(vec![50; 10], shuffle, 1, 1);
    let steps = case.steps(0, 1, 50, false, 0);
    assert_eq!(steps[0].entering.len(), 10, "all of it is mixed at once");
    let in_the_first = OrderCase::new(case.groups, shuffle, 1, 0).steps(0, 1, 50, false, 0)[0].entering.len();
    assert!(in_the_first < 10, "{in_the_first}");
}

/// The lengths of rows of row groups, which are lognormal as those of documents are.
struct LengthLaw {
    /// The mean and the deviation of the logarithm.
    log: (f32, f32),
    least: f32,
    most: f32,
}

const DOCUMENTS: LengthLaw = LengthLaw { log: (6.0, 0.7), least: 0.0, most: 8_192.0 };

/// The lengths with which the pull request of transformers' `batch_rebalance` was measured.
const TRANSFORMERS: LengthLaw = LengthLaw { log: (5.0, 1.0), least: 16.0, most: 1_024.0 };

impl LengthLaw {
    /// Draws independent lengths for each row of each row group. LengthLaw of one `kind` are the same each
    /// time.
    fn draw(&self, groups: usize, rows: usize, kind: u64) -> Vec<Vec<f32>> {
        let mut state = kind;
        let mut uniform = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1 << 24) as f32
        };
        let mut normal = || (0..12).map(|_| uniform()).sum::<f32>() - 6.0;
        let mut length = || {
            let length = (self.log.0 + self.log.1 * normal()).exp();
            length.clamp(self.least, self.most).round()
        };
        (0..groups).map(|_| (0..rows).map(|_| length()).collect()).collect()
    }
}

fn squares(costs: &[Vec<f32>]) -> Vec<Vec<f32>> {
    costs.iter().map(|rows| rows.iter().map(|cost| cost * cost).collect()).collect()
}

/// Divides the largest cost of a rank in a step by the mean of all ranks, and averages over the steps.
/// Returns one ratio for each kind of cost.
fn largest_over_mean(spec: &OrderSpec, world: u32, batch: u64, costs: &[Vec<Vec<f32>>]) -> Vec<f64> {
    let counts: Vec<u32> = costs[0].iter().map(|rows| rows.len() as u32).collect();
    let order = EpochOrder::new(counts, spec, 1);
    let split = |rank| Split {
        rows: order.rows(),
        lanes: spec.lanes(),
        shard: Shard::new(rank, world).unwrap(),
        global_batch: batch * u64::from(world),
        drop_last: true,
    };
    let steps = split(0).steps(0) as usize;
    let mut ratios = vec![(vec![0.0_f64; steps], vec![0.0_f64; steps]); costs.len()];
    for rank in 0..world {
        for (at, step) in Walk::new(&order, split(rank), 0).enumerate() {
            let rows = rows_of(&step);
            for ((most, sum), costs) in ratios.iter_mut().zip(costs) {
                let cost: f64 =
                    rows.iter().map(|&(group, row)| f64::from(costs[group as usize][row as usize])).sum();
                most[at] = most[at].max(cost);
                sum[at] += cost;
            }
        }
    }
    let mean = |(most, sum): (Vec<f64>, Vec<f64>)| {
        let of_steps = most.iter().zip(&sum).map(|(most, sum)| most * f64::from(world) / sum);
        of_steps.sum::<f64>() / steps as f64
    };
    ratios.into_iter().map(mean).collect()
}

/// Balancing gives the ranks of a step rows of similar cost. The bounds are wider where a row group has fewer
/// rows, and for squares: the row of a long document costs far more than a batch of others.
#[test]
fn the_ranks_of_a_step_have_about_the_same_cost() {
    for (world, groups, rows, by_one, by_two) in
        [(8, 32, 4_096, 1.02, 1.03), (64, 256, 4_096, 1.03, 1.05), (512, 1_024, 1_024, 1.04, 1.06)]
    {
        let tokens = DOCUMENTS.draw(groups, rows, 1);
        let patches = DOCUMENTS.draw(groups, rows, 2);
        let window = Shuffle::seeded(3).window_rows(2 * rows as u64);
        let spec = OrderSpec::new(&window, &vec![rows as u32; groups], world, 0);
        let all = [tokens.clone(), squares(&tokens), patches.clone()];
        let random = largest_over_mean(&spec, world, 8, &all);
        let by_tokens =
            largest_over_mean(&spec.clone().balanced(std::slice::from_ref(&tokens)), world, 8, &all);
        let by_both = largest_over_mean(&spec.balanced(&[tokens, patches]), world, 8, &all);
        println!(
            "{world} ranks; tokens, their squares, patches: {random:.3?}, by tokens {by_tokens:.3?}, by \
             tokens and patches {by_both:.3?}"
        );
        assert!(random[0] > 1.4 && by_tokens[0] < by_one, "{world}: {random:?} {by_tokens:?}");
        assert!(by_tokens[1] - 1.0 < 0.05 * (random[1] - 1.0), "{world}: {random:?} {by_tokens:?}");
        assert!(by_both[0] < by_two && by_both[2] < by_two, "{world}: {random:?} {by_both:?}");
    }
}

#[test]
fn ranks_share_tokens_and_their_squares_of_the_lengths_of_transformers() {
    for (world, rows, of_tokens, of_squares) in
        [(8, 4_096, 1.01, 1.02), (64, 4_096, 1.02, 1.03), (512, 1_024, 1.05, 1.05)]
    {
        let groups = 8 * world as usize;
        let tokens = TRANSFORMERS.draw(groups, rows, 1);
        let all = [tokens.clone(), squares(&tokens)];
        let window = Shuffle::seeded(3).window_rows(8 * rows as u64);
        let spec = OrderSpec::new(&window, &vec![rows as u32; groups], world, 0);
        let balanced = largest_over_mean(&spec.clone().balanced(&all), world, 8, &all);
        println!("{world} ranks; tokens, their squares: {balanced:.3?}");
        assert!(balanced[0] < of_tokens && balanced[1] < of_squares, "{world}: {balanced:?}");
    }
}
