//! Measures the plan alone: it begins an epoch, seeks into it and walks through its steps, for a data set of
//! ImageNet's size and for one of small row groups.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use forebay::plan::{Deals, EpochOrder, OrderSpec, Split, Walk};
use forebay::{Shard, Shuffle};

const GROUPS: usize = 12_812;
const ROWS_PER_GROUP: u32 = 100;
const LANES: u32 = 8;
const BATCH: u64 = 256;
const WINDOW: u64 = 65_536;

fn plan(c: &mut Criterion) {
    let groups: Arc<[u32]> = vec![ROWS_PER_GROUP; GROUPS].into();
    let spec = OrderSpec::new(&Shuffle::seeded(1).window_rows(WINDOW), &groups, LANES, 0);
    let rows = GROUPS as u64 * u64::from(ROWS_PER_GROUP);
    let shard = Shard::new(3, LANES).expect("a rank of the world");
    let split =
        Split { rows, lanes: LANES, shard, global_batch: BATCH * u64::from(shard.world()), drop_last: false };
    let mut group = c.benchmark_group("plan");
    group.bench_function("begin an epoch", |b| {
        b.iter(|| EpochOrder::new(black_box(&groups).clone(), &spec, 1))
    });
    let order = EpochOrder::new(groups.clone(), &spec, 1);
    group.bench_function("first batch from the start", |b| b.iter(|| Walk::new(&order, split, 0).next()));
    group.bench_function("first batch from the middle", |b| {
        b.iter(|| Walk::new(&order, split, rows / 2).next())
    });
    group.throughput(Throughput::Elements(rows / u64::from(LANES)));
    group.bench_function("walk a rank's epoch", |b| {
        b.iter(|| Walk::new(&order, split, 0).map(|s| s.rows).sum::<u64>())
    });
    group.bench_function("scout a rank's epoch", |b| {
        b.iter(|| Walk::scout(&order, split, 0).map(|s| s.rows).sum::<u64>())
    });
    group.finish();
}

/// Measures the cost per row, which should not depend on the number of row groups in the window. The window
/// holds 6,554 row groups of 10 rows, or 66 of 1,000 rows.
fn small_row_groups(c: &mut Criterion) {
    const ROWS: u64 = 400_000;
    const BATCH: u64 = 8_192;
    let mut group = c.benchmark_group("plan, row groups");
    for rows_per_group in [10, 1_000] {
        let groups = vec![rows_per_group; (ROWS / u64::from(rows_per_group)) as usize];
        let spec = OrderSpec::new(&Shuffle::seeded(1).window_rows(WINDOW), &groups, 1, 0);
        let order = EpochOrder::new(groups.as_slice(), &spec, 1);
        let split =
            Split { rows: ROWS, lanes: 1, shard: Shard::default(), global_batch: BATCH, drop_last: false };
        let deals = || {
            let order = order.clone();
            Deals::new(move || order.clone())
        };
        group.throughput(Throughput::Elements(ROWS));
        group.bench_function(format!("scout, of {rows_per_group} rows"), |b| {
            b.iter(|| deals().scout(split, 0).map(|s| s.rows).sum::<u64>())
        });
        group.bench_function(format!("walk with deals, of {rows_per_group} rows"), |b| {
            b.iter(|| {
                let deals = deals();
                for (planned, scouted) in deals.walk(split, 0).zip(deals.scout(split, 0)) {
                    scouted.entering.iter().for_each(|part| drop(black_box(deals.take(part))));
                    black_box(planned);
                }
            })
        });
    }
    group.finish();
}

/// Makes the order of an epoch of a billion rows for 1,024 ranks. Then it finds the rows of one rank's step
/// in the middle of the epoch, as a run that resumes there does.
fn a_billion_rows(c: &mut Criterion) {
    const GROUPS: usize = 1_000_000;
    const ROWS: u64 = 1_000_000_000;
    const WORLD: u32 = 1_024;
    let groups: Arc<[u32]> = vec![1_000; GROUPS].into();
    let shard = Shard::new(700, WORLD).expect("a rank of the world");
    let mut group = c.benchmark_group("plan, a billion rows");
    for lanes in [8, WORLD] {
        let spec = OrderSpec::new(&Shuffle::seeded(1).window_rows(WINDOW), &groups, lanes, 0);
        let global_batch = BATCH * u64::from(WORLD);
        let split = Split { rows: ROWS, lanes, shard, global_batch, drop_last: false };
        let order = || EpochOrder::new(black_box(&groups).clone(), &spec, 1);
        group.bench_function(format!("begin an epoch, {lanes} lanes"), |b| b.iter(order));
        group.bench_function(format!("rows of a step in the middle, {lanes} lanes"), |b| {
            b.iter(|| Walk::new(&order(), split, ROWS / 2).next())
        });
        let order = order();
        group.bench_function(format!("scout a rank's epoch, {lanes} lanes"), |b| {
            b.iter(|| Walk::scout(&order, split, 0).map(|step| step.rows).sum::<u64>())
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20);
    targets = plan, small_row_groups, a_billion_rows
}
criterion_main!(benches);
