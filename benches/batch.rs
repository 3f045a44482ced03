//! Measures gathering alone, on one thread: it copies rows from row groups in memory into the columns of
//! batches, in stored and in random order.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use forebay::arrow::array::{Array, RecordBatch};
use forebay::rows::{Selection, gather};

mod common;

const BATCH: usize = 8192;

/// Draws `rows` pairs of a row group and a row in it, in an order that a processor's prefetcher cannot
/// predict.
fn scattered(rows: usize, sources: u32) -> Vec<(u32, u32)> {
    let mut state = 1u64;
    let mut draw = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u32
    };
    (0..rows).map(|_| (draw() % sources, draw() % common::GROUP as u32)).collect()
}

fn all_columns(sources: &[RecordBatch], selection: &Selection) {
    for column in 0..common::COLUMNS {
        let arrays: Vec<&dyn Array> = sources.iter().map(|source| source.column(column).as_ref()).collect();
        black_box(gather(&arrays, selection, None).expect("numbers"));
    }
}

fn batch(c: &mut Criterion) {
    let sources: Vec<RecordBatch> = (0..16).map(common::table).collect();
    let mut group = c.benchmark_group("batch");
    for (name, rows, picks) in [
        ("stored order, 8,192 rows", BATCH, (0..BATCH as u32).map(|row| (0, row)).collect()),
        ("random rows of one row group, 8,192 rows", BATCH, scattered(BATCH, 1)),
        ("random rows of one row group, 12 batches at once", 12 * BATCH, scattered(12 * BATCH, 1)),
        ("random rows of four row groups, 8,192 rows", BATCH, scattered(BATCH, 4)),
        ("random rows of sixteen row groups, 6 batches at once", 6 * BATCH, scattered(6 * BATCH, 16)),
    ] {
        let selection = Selection::new(picks);
        group.throughput(Throughput::Elements(rows as u64));
        group.bench_function(name, |b| b.iter(|| all_columns(&sources, &selection)));
    }
    group.finish();
}

criterion_group! { name = benches; config = Criterion::default().sample_size(20); targets = batch }
criterion_main!(benches);
