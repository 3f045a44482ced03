//! Fetching and decoding alone, on one thread: reads a row group's column chunks from the page cache and
//! turns them into rows.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use forebay::rows::read_part;
use forebay_store::source;

mod common;

const NO_LIMIT: u64 = u64::MAX;

#[allow(clippy::disallowed_methods, reason = "a bench has no loader to wait in")]
fn rows(c: &mut Criterion) {
    let dir = common::written(2, common::table);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let location = dir.path().to_string_lossy().into_owned();
    let (store, catalog) =
        runtime.block_on(source::open(&[location], &Default::default())).expect("the file that was written");
    let projection = catalog.project_all().expect("columns that are read");
    let ranges = catalog.byte_ranges(&catalog.groups[0], &projection).expect("a footer");
    let fetch = || runtime.block_on(store.read_ranges(&catalog.files[0], &ranges)).expect("bytes");
    let mut group = c.benchmark_group("rows");
    group.throughput(Throughput::Bytes(ranges.iter().map(|range| range.end - range.start).sum()));
    group.bench_function("fetch a row group", |b| b.iter(|| black_box(fetch())));
    group.throughput(Throughput::Elements(common::GROUP as u64));
    let chunks: Vec<_> = ranges.iter().cloned().zip(fetch()).collect();
    group.bench_function("decode a row group", |b| {
        b.iter(|| {
            black_box(read_part(&catalog, &projection, 0, None, chunks.clone(), NO_LIMIT).expect("rows"))
        })
    });
    group.finish();
}

criterion_group! { name = benches; config = Criterion::default().sample_size(20); targets = rows }
criterion_main!(benches);
