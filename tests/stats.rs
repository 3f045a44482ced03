//! Statistics: a stage that is slowed on purpose is named, and all waiting is accounted for.
#![allow(clippy::unwrap_used, reason = "a helper of a test stops it")]
#![allow(clippy::disallowed_methods, reason = "a test may sleep: it has nothing to close")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fault_server::{FaultServer, Latency, Link};
use forebay::arrow::array::{ArrayRef, BinaryArray, Int64Array, RecordBatch, StringArray};
use forebay::stats::Stage;
use forebay::{Dataset, Image, Loader, LoaderBuilder, Stats};
use parquet::arrow::ArrowWriter;
use parquet::basic::{BrotliLevel, Compression};
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};
use tempfile::TempDir;

/// How often each stage is slowed, and how often it must be named.
const RUNS: usize = 20;
const NAMED: usize = 19;
/// How many rounds of runs there may be; one of them must succeed.
const ROUNDS: usize = 15;

/// A slow training step takes this many times as long as the wait for its batch, so that the loop waits for
/// less than 2 % of the time.
const BESIDE: u32 = 80;

/// The share of waiting that may be unaccounted for.
const UNACCOUNTED: f64 = 0.01;

/// Lets one test run at a time, because tests that measure time need the machine to themselves.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A number that looks random and is a function of a count (SplitMix64).
fn draw(count: u64) -> u64 {
    let mut bits = count.wrapping_add(0x9e37_79b9_7f4a_7c15);
    for (shift, factor) in [(30, 0xbf58_476d_1ce4_e5b9), (27, 0x94d0_49bb_1331_11eb)] {
        bits = (bits ^ (bits >> shift)).wrapping_mul(factor);
    }
    bits ^ (bits >> 31)
}

fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    (0..bytes as u64 / 8).flat_map(|word| draw(seed << 32 | word).to_le_bytes()).collect()
}

/// Writes one file of `groups` row groups with `rows` rows each, with one column and the row's number.
fn written(
    groups: usize,
    rows: usize,
    column: (&str, ArrayRef),
    properties: impl FnOnce(WriterPropertiesBuilder) -> WriterPropertiesBuilder,
) -> TempDir {
    let dir = TempDir::new().unwrap();
    let ids = Arc::new(Int64Array::from_iter_values(0..(groups * rows) as i64)) as ArrayRef;
    let batch = RecordBatch::try_from_iter([column, ("id", ids)]).unwrap();
    let plain =
        WriterProperties::builder().set_max_row_group_row_count(Some(rows)).set_dictionary_enabled(false);
    let file = std::fs::File::create(dir.path().join("part.parquet")).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties(plain).build())).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    dir
}

fn blobs(groups: usize, rows: usize, bytes: usize) -> TempDir {
    let blobs = BinaryArray::from_iter_values((0..groups * rows).map(|row| noise(row as u64, bytes)));
    written(groups, rows, ("blob", Arc::new(blobs)), |plain| plain)
}

/// Serves a folder through a slow store.
fn remote(dir: &TempDir, link: Link) -> (FaultServer, Dataset) {
    let server = FaultServer::builder().folder("bucket", dir.path()).link(link).start().unwrap();
    let options = [
        ("aws_endpoint_url", server.url().as_str()),
        ("aws_access_key_id", "key"),
        ("aws_secret_access_key", "secret"),
        ("aws_region", "us-east-1"),
        ("allow_http", "true"),
        ("metadata_cache", "off"),
    ]
    .map(|(key, value)| (key.to_string(), value.to_string()));
    let dataset = Dataset::open_with_options("s3://bucket/", &BTreeMap::from(options)).unwrap();
    (server, dataset)
}

/// Reads an epoch with a training step for each batch, which is told how long its batch took. Returns how
/// long `next()` and the steps took, in seconds by the test's own clock.
fn consumed(loader: &Loader, mut step: impl FnMut(Duration)) -> (f64, f64) {
    let (mut epoch, mut waited, mut trained) = (loader.epoch(0), 0.0, 0.0);
    loop {
        let asked = Instant::now();
        let batch = epoch.next();
        let took = asked.elapsed();
        waited += took.as_secs_f64();
        if batch.is_none() {
            return (waited, trained);
        }
        drop(batch.unwrap().unwrap());
        let began = Instant::now();
        step(took);
        trained += began.elapsed().as_secs_f64();
    }
}

/// Checks that the statistics name `stage` as the slow one. A round may fail on a busy machine, so further
/// rounds are run until one succeeds.
fn is_named(stage: Stage, step: Duration, build: impl Fn() -> LoaderBuilder) {
    let shown: Vec<String> = (0..ROUNDS).map_while(|_| round(stage, step, &build).err()).collect();
    assert!(shown.len() < ROUNDS, "{}", shown.join("\n"));
}

/// Runs one round. Returns the statistics if they seldom named `stage`, or did not account for the waiting.
fn round(stage: Stage, step: Duration, build: impl Fn() -> LoaderBuilder) -> Result<(), String> {
    let (mut named, mut missing, mut shown) = (0, Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let loader = build().threads(2).build().unwrap();
        let (waited, _) = consumed(&loader, |took| {
            if !step.is_zero() {
                std::thread::sleep(step.max(took * BESIDE));
            }
        });
        let stats = loader.stats();
        named += usize::from(stats.verdict().stage == stage);
        shown.push(format!("{stats}\nwaited {waited:.6} s, accounted for {:.6} s", stats.waits.total()));
        assert!(stats.waits.total() <= waited, "{}", shown[shown.len() - 1]);
        missing.push(1.0 - stats.waits.total() / waited);
    }
    let shown = shown.join("\n");
    if named < NAMED {
        return Err(format!("{stage:?} was named {named} times of {RUNS}\n{shown}"));
    }
    // The machine may interrupt a run between the loader's clock and the test's, so the best run decides:
    // waiting that the loader does not count is missing in all of them. If the loop is the slow one, it waits
    // too little for this check.
    let least = missing.into_iter().fold(f64::INFINITY, f64::min);
    match least <= UNACCOUNTED || stage == Stage::Consumer {
        true => Ok(()),
        false => Err(format!("{least} is not accounted for\n{shown}")),
    }
}

#[test]
fn a_store_that_answers_late_is_named() {
    let _alone = alone();
    let dir = blobs(12, 100, 1_000);
    let first_byte = Some(Latency::constant(Duration::from_millis(25)));
    let (_server, dataset) = remote(&dir, Link { first_byte, ..Link::default() });
    is_named(Stage::Fetch, Duration::ZERO, || dataset.loader().batch_size(10).memory(1 << 20));
}

#[test]
fn a_store_that_gives_little_is_named() {
    let _alone = alone();
    let dir = blobs(12, 100, 1_000);
    let (_server, dataset) = remote(&dir, Link { rate: Some(4 << 20), ..Link::default() });
    is_named(Stage::Fetch, Duration::ZERO, || dataset.loader().batch_size(10));
}

#[test]
fn parquet_that_is_hard_to_decode_is_named() {
    let _alone = alone();
    let text =
        (0..64_000).map(|row| noise(row, 64).iter().map(|byte| format!("{byte:02x}")).collect::<String>());
    let text = Arc::new(StringArray::from_iter_values(text));
    let brotli = Compression::BROTLI(BrotliLevel::try_new(1).unwrap());
    let dir = written(8, 8_000, ("text", text), |plain| plain.set_compression(brotli));
    let dataset = Dataset::open(dir.path()).unwrap();
    is_named(Stage::Parquet, Duration::ZERO, || dataset.loader().batch_size(500));
}

/// A data set of 48 photographs that are large and slow to decode.
fn photos() -> TempDir {
    let (width, height) = (800, 600);
    let photo =
        |seed| forebay_image::encode_jpeg(&noise(seed, width * height * 3), width as u32, height as u32, 80);
    let photos = BinaryArray::from_iter_values((0..48).map(|seed| photo(seed % 3).unwrap()));
    written(12, 4, ("image", Arc::new(photos)), |plain| plain)
}

#[test]
fn images_that_are_hard_to_decode_are_named() {
    let _alone = alone();
    let dir = photos();
    let dataset = Dataset::open(dir.path()).unwrap();
    is_named(Stage::Decode, Duration::ZERO, || {
        dataset.loader().batch_size(4).decode("image", Image::resize(8, 8))
    });
}

#[test]
fn a_training_loop_that_takes_its_time_is_named() {
    let _alone = alone();
    let dir = blobs(4, 100, 100);
    let dataset = Dataset::open(dir.path()).unwrap();
    is_named(Stage::Consumer, Duration::from_millis(4), || dataset.loader().batch_size(20));
}

#[test]
fn every_call_is_counted_and_the_first_one_apart() {
    let _alone = alone();
    let dir = blobs(4, 100, 100);
    let loader = Dataset::open(dir.path()).unwrap().loader().batch_size(20).threads(2).build().unwrap();
    let began = Instant::now();
    let mut is_first = true;
    let (waited, trained) = consumed(&loader, |_| {
        // The first step lasts until ten batches are ready, so that the mean of ready batches is above one.
        while is_first && loader.stats().queues.batches_ready < 10 {
            assert!(began.elapsed() < Duration::from_secs(300), "{:?}", loader.stats().queues);
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(if is_first { 200 } else { 1 }));
        is_first = false;
    });
    let all = began.elapsed().as_secs_f64();
    let Stats { next, consumer, queues, memory, pool, stages, waits_first, .. } = loader.stats();
    assert_eq!(next.count, 19, "20 batches, the first one apart");
    assert!(next.first > 0.0 && (next.first - waits_first.total()).abs() < 1e-6, "{next:?}");
    assert!(next.sum + next.first <= waited && next.p50 <= next.p99 && next.p99 <= next.max, "{next:?}");
    assert!(
        (trained..=all - next.sum - next.first).contains(&consumer),
        "steps of {trained} s were {consumer} s"
    );
    assert_eq!((stages.list.items, pool.threads), (1, 2));
    // The counts may be up to twice those of one epoch, because the next epoch is prepared while this one is
    // read.
    assert!((4..=8).contains(&stages.fetch.items), "{stages:?}");
    assert!((400..=800).contains(&stages.parquet.items), "{stages:?}");
    assert!((400..=800).contains(&stages.shuffle.items), "{stages:?}");
    assert!((800..=1_600).contains(&stages.gather.items), "{stages:?}");
    assert!(queues.batches_ready == 0 && queues.batches_ready_mean > 1.0, "{queues:?}");
    assert!(memory.row_groups_peak > 0 && memory.row_groups_peak <= memory.budget - memory.batches);
    let shuffle = stages.shuffle;
    assert!(shuffle.blocked.is_some() && shuffle.starved.is_some() && stages.parquet.blocked.is_none());
    let metrics = loader.stats().to_prometheus();
    assert!(metrics.contains("\nforebay_next_seconds_count 19\n"), "{metrics}");
}

#[test]
fn a_timeline_has_what_was_done_and_no_two_spans_of_a_thread_overlap() {
    let _alone = alone();
    let dir = photos();
    let file = dir.path().join("trace.json");
    let loader = Dataset::open(dir.path().join("part.parquet").as_path())
        .unwrap()
        .loader()
        .batch_size(4)
        .decode("image", Image::resize(8, 8))
        .threads(2)
        .trace(&file)
        .build()
        .unwrap();
    consumed(&loader, |_| ());
    loader.close();
    let tracks = timeline(&file);
    let names: BTreeSet<&str> = tracks.values().flatten().map(|(name, ..)| name.as_str()).collect();
    for expected in ["fetch", "parquet", "gather", "decode", "next", "wait for a row group"] {
        assert!(names.contains(expected), "{expected:?} is not among {names:?}");
    }
    let count = |what: &str| tracks.values().flatten().filter(|(name, ..)| name == what).count();
    assert_eq!(count("next"), 12);
    assert!(count("parquet") >= 12 && count("fetch") >= 12, "the next epoch's row groups are fetched ahead");
    for (track, spans) in tracks {
        for pair in spans.windows(2) {
            let ((_, _, end), (_, start, _)) = (&pair[0], &pair[1]);
            assert!(*start >= end - 0.001, "{track}: {pair:?}");
        }
    }
}

/// Returns the spans of each thread in a trace, ordered by their beginning: name, begin and end in
/// microseconds.
fn timeline(file: &Path) -> BTreeMap<String, Vec<(String, f64, f64)>> {
    let trace: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    assert_eq!(trace["otherData"]["spans_dropped"], 0);
    let (mut names, mut tracks) = (BTreeMap::new(), BTreeMap::<String, Vec<_>>::new());
    for event in trace["traceEvents"].as_array().unwrap() {
        let (name, thread) = (event["name"].as_str().unwrap(), event["tid"].as_u64().unwrap());
        match event["ph"].as_str().unwrap() {
            "M" if name == "thread_name" => {
                names.insert(thread, event["args"]["name"].as_str().unwrap().to_string());
            }
            "M" => {}
            _ => {
                let (start, length) = (event["ts"].as_f64().unwrap(), event["dur"].as_f64().unwrap());
                assert!(start >= 0.0 && length >= 0.0, "{event}");
                let spans = tracks.entry(names[&thread].clone()).or_default();
                spans.push((name.to_string(), start, start + length));
            }
        }
    }
    tracks.values_mut().for_each(|spans| spans.sort_by(|a, b| a.1.total_cmp(&b.1)));
    tracks
}
