//! End to end, from files in the page cache: a whole epoch through the loader, against a bare scan of the same columns
//! by the Parquet crate with as many threads, in batches and in whole row groups. They take turns.

use std::fs::File;
use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use forebay::{Dataset, Shuffle};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ParquetRecordBatchReaderBuilder};

mod common;

/// As the program has it, for both sides.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const GROUPS: usize = 10;
const BATCH: u64 = 8192;
const WINDOW: u64 = 65_536;
const THREADS: usize = 2;

/// Decodes every row group, shared out among plain threads, so many rows at a time.
fn scan(path: &std::path::Path, rows: usize) {
    let open = || File::open(path).expect("the file that was written");
    let metadata = ArrowReaderMetadata::load(&open(), Default::default()).expect("a Parquet file");
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let metadata = &metadata;
            scope.spawn(move || {
                for group in (thread..GROUPS).step_by(THREADS) {
                    let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(open(), metadata.clone());
                    for batch in
                        reader.with_row_groups(vec![group]).with_batch_size(rows).build().expect("rows")
                    {
                        black_box(batch.expect("rows"));
                    }
                }
            });
        }
    });
}

fn pipe(c: &mut Criterion) {
    let dir = common::written(GROUPS);
    let loader = |shuffle| {
        let dataset = Dataset::open(dir.path()).expect("the file that was written");
        dataset.loader().threads(THREADS).batch_size(BATCH).shuffle(shuffle).build().expect("a loader")
    };
    let stored = loader(Shuffle::stored());
    let shuffled = loader(Shuffle::seeded(1).window_rows(WINDOW));
    let mut group = c.benchmark_group("pipe");
    group.throughput(Throughput::Elements((GROUPS * common::GROUP) as u64));
    let path = dir.path().join("table.parquet");
    // Each measurement of one contestant is preceded by an untimed turn of the others.
    let mut contest = |name: &str, timed: &dyn Fn(), others: &[&dyn Fn()]| {
        group.bench_function(name, |b| {
            b.iter_custom(|turns| {
                (0..turns).fold(Duration::ZERO, |sum, _| {
                    others.iter().for_each(|other| other());
                    let started = Instant::now();
                    timed();
                    sum + started.elapsed()
                })
            });
        });
    };
    let epoch = |loader: &forebay::Loader| {
        for batch in loader.next_epoch() {
            black_box(batch.expect("a batch"));
        }
    };
    let (in_order, mixed) = (|| epoch(&stored), || epoch(&shuffled));
    let (bare, whole) = (|| scan(&path, BATCH as usize), || scan(&path, common::GROUP));
    contest("bare scan", &bare, &[&in_order]);
    contest("bare scan, whole row groups", &whole, &[&in_order]);
    contest("stored order", &in_order, &[&bare]);
    contest("shuffled over a window", &mixed, &[&bare]);
    group.finish();
}

criterion_group! { name = benches; config = Criterion::default().sample_size(10); targets = pipe }
criterion_main!(benches);
