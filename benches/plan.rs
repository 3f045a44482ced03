//! The plan alone: beginning an epoch, seeking into it, and walking it, for a data set of ImageNet's size.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use forebay::internals::shard::{EpochOrder, OrderSpec, Shard, Shuffle, Split, Walk};

const GROUPS: usize = 12_812;
const ROWS_PER_GROUP: u32 = 100;
const LANES: u32 = 8;
const BATCH: u64 = 256;

fn plan(c: &mut Criterion) {
    let groups = vec![ROWS_PER_GROUP; GROUPS];
    let spec = OrderSpec::new(&Shuffle::seeded(1).window_rows(65_536), &groups, LANES, 0);
    let rows = GROUPS as u64 * u64::from(ROWS_PER_GROUP);
    let shard = Shard::new(3, LANES).expect("a rank of the world");
    let split = Split { rows, lanes: LANES, shard, batch: BATCH, drop_last: false };
    let mut group = c.benchmark_group("plan");
    group.bench_function("begin an epoch", |b| b.iter(|| EpochOrder::new(black_box(&groups), &spec, 1)));
    let order = EpochOrder::new(&groups, &spec, 1);
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

criterion_group! { name = benches; config = Criterion::default().sample_size(20); targets = plan }
criterion_main!(benches);
