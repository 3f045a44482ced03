//! Measures the row cache alone, on one thread. Its files are in the temporary folder, and mostly in the page
//! cache. The bench writes entries, opens them for the first time, reads them whole, and takes random rows.
//! An entry holds images of 100 KB, or rows of 40 numbers.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use forebay::DiskCache;
use forebay::arrow::array::{Array, AsArray, BinaryViewArray, Int64Array, RecordBatch};
use forebay::arrow::datatypes::{DataType, Field, Int32Type, Schema};
use forebay::rows::{Entry, Key};

mod common;

const IMAGES: usize = 100;
const IMAGE_BYTES: usize = 100_000;
const ROOM: u64 = 20 << 30;
/// The number of rows that are taken from one entry: an exact shuffle takes a few rows of each row group for
/// one batch.
const TAKEN: usize = 8;

fn images() -> RecordBatch {
    let labels = Int64Array::from_iter_values(0..IMAGES as i64);
    let blobs = BinaryViewArray::from_iter_values((0..IMAGES).map(|row| vec![row as u8 + 1; IMAGE_BYTES]));
    let schema = Schema::new(vec![
        Field::new("label", DataType::Int64, false),
        Field::new("image", DataType::BinaryView, false),
    ]);
    RecordBatch::try_new(Arc::new(schema), vec![Arc::new(labels), Arc::new(blobs)]).expect("one length")
}

fn key(rows: &RecordBatch, group: usize) -> Key {
    Key::new("bench.parquet", 1, "v", group, "all", &rows.schema())
}

/// Adds up the values, so that the compiler cannot remove the reads.
fn touch(batch: &RecordBatch) -> u64 {
    let mut sum = 0u64;
    for column in batch.columns() {
        match column.data_type() {
            DataType::BinaryView => {
                for value in column.as_binary_view().iter().flatten() {
                    let words =
                        value.chunks_exact(8).map(|word| word.iter().fold(0, |n, b| n << 8 | u64::from(*b)));
                    sum = words.fold(sum, u64::wrapping_add);
                }
            }
            DataType::Int32 => {
                sum = column
                    .as_primitive::<Int32Type>()
                    .values()
                    .iter()
                    .fold(sum, |n, v| n.wrapping_add(*v as u64));
            }
            _ => sum = sum.wrapping_add(column.to_data().buffers()[0].iter().map(|b| u64::from(*b)).sum()),
        }
    }
    sum
}

/// Draws rows of an entry without a pattern.
fn draw(state: &mut u64, entry: &Entry) -> Vec<u32> {
    (0..TAKEN)
        .map(|_| {
            *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((*state >> 33) % entry.rows()) as u32
        })
        .collect()
}

fn cache(c: &mut Criterion) {
    for (name, rows, groups) in
        [("images of 100 KB", images(), 32), ("40 numbers a row", common::table(0), 16)]
    {
        let mut group = c.benchmark_group(format!("cache, {name}"));
        let dir = tempfile::tempdir().expect("a temporary folder");
        let cache = DiskCache::open(dir.path(), ROOM).expect("a folder of its own");
        for number in 0..groups {
            assert!(cache.put(&key(&rows, number), &rows), "{:?}", cache.stats());
        }
        let bytes = cache.get(&key(&rows, 0)).expect("kept").bytes();

        group.throughput(Throughput::Bytes(bytes));
        group.bench_function("write", |b| {
            b.iter_batched(
                || cache.clear().expect("room for the next"),
                |_| assert!(cache.put(&key(&rows, 0), &rows)),
                BatchSize::PerIteration,
            )
        });
        for number in 0..groups {
            cache.put(&key(&rows, number), &rows);
        }
        let mut next = 0;
        group.bench_function("open for the first time, checksum included", |b| {
            b.iter_batched(
                || DiskCache::open(dir.path(), ROOM).expect("a folder of its own"),
                |fresh| {
                    next = (next + 1) % groups;
                    black_box(fresh.get(&key(&rows, next)).expect("kept"));
                    fresh
                },
                BatchSize::PerIteration,
            )
        });
        group.bench_function("read whole, every value looked at", |b| {
            b.iter(|| {
                next = (next + 1) % groups;
                black_box(touch(&cache.get(&key(&rows, next)).expect("kept").read()))
            })
        });
        group.throughput(Throughput::Elements(TAKEN as u64));
        let mut state = 1;
        group.bench_function("take 8 random rows of a random entry, every value looked at", |b| {
            b.iter(|| {
                next = (next + 7) % groups;
                let entry = cache.get(&key(&rows, next)).expect("kept");
                black_box(touch(&entry.take(&draw(&mut state, &entry)).expect("rows of the entry")))
            })
        });
        group.finish();
    }
}

criterion_group! { name = benches; config = Criterion::default().sample_size(20); targets = cache }
criterion_main!(benches);
