//! Measures a whole epoch through the loader, from files in the page cache, in turns with a bare scan of the
//! same columns by the Parquet crate. The scan uses the same number of threads, and reads batches or whole
//! row groups.

use std::fs::File;
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use forebay::arrow::array::RecordBatch;
use forebay::{Dataset, Shuffle};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ParquetRecordBatchReaderBuilder};

mod common;

/// Both sides use the allocator of the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const THREADS: usize = 2;

/// The data of a measurement, and the options for reading it.
struct Case {
    name: &'static str,
    /// Makes the rows of a row group.
    rows: fn(usize) -> RecordBatch,
    groups: usize,
    batch: usize,
    window: u64,
    /// The number of elements that a row counts for in the throughput.
    elements: usize,
}

const CASES: [Case; 2] = [
    Case { name: "pipe", rows: common::table, groups: 10, batch: 8192, window: 65_536, elements: 1 },
    Case {
        name: "pipe of tokens",
        rows: common::lists,
        groups: 20,
        batch: 16,
        window: 1_000,
        elements: common::TOKENS,
    },
];

/// Decodes every row group, `rows` rows at a time; plain threads share the row groups out.
fn scan(path: &Path, rows: usize) {
    let open = || File::open(path).expect("the file that was written");
    let metadata = ArrowReaderMetadata::load(&open(), Default::default()).expect("a Parquet file");
    let groups = metadata.metadata().num_row_groups();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let metadata = &metadata;
            scope.spawn(move || {
                for group in (thread..groups).step_by(THREADS) {
                    let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(open(), metadata.clone());
                    let reader = reader.with_row_groups(vec![group]).with_batch_size(rows);
                    for batch in reader.build().expect("rows") {
                        black_box(batch.expect("rows"));
                    }
                }
            });
        }
    });
}

fn pipe(c: &mut Criterion) {
    CASES.iter().for_each(|case| contests(c, case));
}

fn contests(c: &mut Criterion, case: &Case) {
    let dir = common::written(case.groups, case.rows);
    let loader = |shuffle| {
        let dataset = Dataset::open(dir.path()).expect("the file that was written");
        let loader = dataset.loader().threads(THREADS).batch_size(case.batch as u64);
        loader.shuffle(shuffle).build().expect("a loader")
    };
    let stored = loader(Shuffle::stored());
    let shuffled = loader(Shuffle::seeded(1).window_rows(case.window));
    let group_rows = (case.rows)(0).num_rows();
    let mut group = c.benchmark_group(case.name);
    group.throughput(Throughput::Elements((case.groups * group_rows * case.elements) as u64));
    let path = dir.path().join("table.parquet");
    // Each measurement of one contestant follows an untimed turn of the others.
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
    let (bare, whole) = (|| scan(&path, case.batch), || scan(&path, group_rows));
    contest("bare scan", &bare, &[&in_order]);
    contest("bare scan, whole row groups", &whole, &[&in_order]);
    contest("stored order", &in_order, &[&bare]);
    contest("shuffled over a window", &mixed, &[&bare]);
    group.finish();
}

criterion_group! { name = benches; config = Criterion::default().sample_size(10); targets = pipe }
criterion_main!(benches);
