//! The row cache between a store and its loaders gives the same rows with fewer requests, and is never a
//! reason to stop.

use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use fault_server::{FaultServer, Latency, Link};
use forebay::Tier;
use forebay::arrow::array::{ArrayRef, BinaryArray, Int64Array, RecordBatch};
use forebay::filter::{Op, Term};
use forebay::{Dataset, DiskCache, Epoch, ErrorKind, Filter, Image, Loader, LoaderBuilder, Shard, Shuffle};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use tempfile::TempDir;

use crate::data::{BUCKET, FILES, GROUPS, copy, rewrite};
use crate::kit::{
    BATCH, ORACLE, draw, files_below, hash, local, open, run, run_with, server, serving, settled, shuffled,
    until,
};

/// More bytes than the data set takes.
const PLENTY: u64 = 1 << 30;

/// The number of row groups in the data set. An epoch reads each of them once, in one of its lanes.
const ROW_GROUPS: u64 = (FILES * GROUPS) as u64;

pub(super) fn cache_in(folder: &TempDir) -> DiskCache {
    DiskCache::open(folder.path().join("rows"), PLENTY).unwrap()
}

/// Waits until the cache has written all rows that it did not have, or has written nothing for a while. Rows
/// are delivered before they are written, and a loader that ends waits for unwritten rows only a moment.
pub(super) fn written(loader: &Loader) {
    const QUIET: Duration = Duration::from_secs(2);
    let (mut last, mut since) = (0, Instant::now());
    while since.elapsed() < QUIET {
        let cache = loader.stats().cache.unwrap();
        if cache.misses <= cache.written + cache.declined.all() + cache.gave_up_waiting {
            return;
        }
        if cache.written != last {
            (last, since) = (cache.written, Instant::now());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Runs epochs until all rows are cached. On a slow disk, some rows are cached only in a later epoch.
fn warm(loader: &Loader) {
    for _ in 0..20 {
        run(loader.epoch(0)).is_right("warming");
        written(loader);
        if loader.stats().cache.unwrap().entries == ROW_GROUPS {
            return;
        }
    }
    panic!("not all rows are kept: {}", loader.stats().cache.unwrap());
}

/// The files of entries, which are larger than the other files of a cache. A cache in use may remove a file
/// meanwhile.
pub(super) fn entries(folder: &Path) -> Vec<PathBuf> {
    files_below(folder)
        .into_iter()
        .filter(|path| path.metadata().is_ok_and(|found| found.len() > 4096))
        .collect()
}

/// Loaders that differ in everything that the cache must not depend on.
fn kinds() -> Vec<(&'static str, fn(&Dataset) -> LoaderBuilder)> {
    vec![
        ("through a window", shuffled),
        ("as stored", |dataset| dataset.loader().batch_size(BATCH).threads(2)),
        ("exactly", |dataset| dataset.loader().shuffle(Shuffle::exact(3)).batch_size(BATCH).threads(2)),
        ("in three lanes of one rank of two", |dataset| {
            let shuffle = Shuffle::seeded(1).window_rows(100).lanes(3);
            dataset.loader().shuffle(shuffle).batch_size(BATCH).shard(Shard::new(1, 2).unwrap())
        }),
        ("filtered", |dataset| {
            let some = [Term::new("id", Op::GreaterEq, 10_010), Term::new("id", Op::Less, 52_003)];
            shuffled(dataset).filter(Filter::all_of(some))
        }),
    ]
}

#[test]
fn the_cache_changes_no_row_and_no_order_and_asks_for_nothing_twice() {
    let server = server();
    for (kind, build) in kinds() {
        let folder = TempDir::new().unwrap();
        let oracle = local(&BUCKET, build);
        let loader = |cache| build(&open(&server, &[]).unwrap()).cache(cache).build().unwrap();
        let first = loader(cache_in(&folder));
        for _ in 0..2 {
            assert!(run(first.epoch(0)).batches == oracle, "{kind}");
            // The loader also requests the beginning of the next epoch.
            assert!(run(first.epoch(1)).error.is_none(), "{kind}");
        }
        written(&first);
        drop(first);
        // A later run requests only footers and the filter's column, and does so before its first epoch.
        let later = loader(cache_in(&folder));
        settled(&server);
        let before = later.stats();
        assert!(run(later.epoch(0)).batches == oracle, "{kind}, later");
        settled(&server);
        let stats = later.stats();
        let cache = stats.cache.clone().unwrap();
        assert_eq!(cache.misses, 0, "{kind}: {cache}");
        assert_eq!(stats.traffic.requests, before.traffic.requests, "{kind}: {}", stats.traffic);
        assert!(cache.hits > 0 && cache.read_bytes > 0, "{kind}: {cache}");
    }
}

#[test]
fn an_exact_shuffle_needs_no_more_memory_than_a_window() {
    let folder = TempDir::new().unwrap();
    let server = server();
    let dataset = open(&server, &[]).unwrap();
    let exact = |dataset: &Dataset| dataset.loader().shuffle(Shuffle::exact(3)).batch_size(BATCH).threads(2);
    let refused = exact(&dataset).memory(2 << 20).build().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::TooLarge);
    assert!(refused.to_string().contains("use a cache"), "{refused}");
    let oracle = local(&BUCKET, exact);
    let loader = exact(&dataset).memory(2 << 20).cache(cache_in(&folder)).build().unwrap();
    for _ in 0..2 {
        let most = std::cell::Cell::new(0);
        let epoch = run_with(loader.epoch(0), |_| most.set(most.get().max(loader.stats().memory.row_groups)));
        assert!(epoch.error.is_none(), "{:?}", epoch.error);
        assert!(epoch.batches == oracle);
        assert!(most.get() <= 2 << 20, "{} bytes of row groups", most.get());
    }

    let small = DiskCache::open(folder.path().join("small"), 1 << 20).unwrap();
    let refused = exact(&dataset).memory(2 << 20).cache(small).build().unwrap_err();
    assert!(refused.to_string().contains("raise the cache's max_bytes"), "{refused}");
}

#[test]
fn a_position_is_the_same_with_and_without_a_cache() {
    let folder = TempDir::new().unwrap();
    let server = server();
    let dataset = open(&server, &[]).unwrap();
    let cached = shuffled(&dataset).cache(cache_in(&folder)).build().unwrap();
    warm(&cached);
    let mut epoch = cached.epoch(0);
    let head: Vec<u64> = epoch.by_ref().take(7).map(|batch| hash(&batch.unwrap())).collect();
    let plain = shuffled(&dataset).build().unwrap();
    plain.restore(&cached.position()).unwrap();
    let tail = run(plain.next_epoch());
    assert!([head, tail.batches].concat() == *ORACLE);
}

#[test]
fn two_loaders_at_once_fetch_each_row_group_once() {
    let link = Link { first_byte: Some(Latency::constant(Duration::from_millis(20))), ..Link::default() };
    let server = serving().link(link).start().unwrap();
    let most = ROW_GROUPS * 115 / 100;
    // The loaders run one after the other, and then at the same time in different orders, so that each waits
    // for the other.
    for (turn, seeds) in [[7, 7], [1, 2]].into_iter().enumerate() {
        // A busy machine may hold up the writer of an entry, but not in each try.
        let is_fetched_once = (0..3).any(|_| {
            let asked = requests_of_two_loaders(&server, seeds);
            println!("{asked} requests for {ROW_GROUPS} row groups, turn {turn}");
            asked <= most
        });
        assert!(is_fetched_once, "over {most} requests for {ROW_GROUPS} row groups, turn {turn}");
    }
}

/// The requests of two loaders that read an epoch through an empty cache at the same time.
fn requests_of_two_loaders(server: &FaultServer, seeds: [u64; 2]) -> u64 {
    let folder = TempDir::new().unwrap();
    let loaders = seeds.map(|seed| {
        let shuffle = Shuffle::seeded(seed).window_rows(150).lanes(2);
        let dataset = open(server, &[]).unwrap();
        let builder = dataset.loader().shuffle(shuffle).batch_size(BATCH).threads(2);
        builder.cache(cache_in(&folder)).build().unwrap()
    });
    settled(server);
    // Requests that are sent a second time because the first is late do not count.
    let hedges = || loaders.iter().map(|loader| loader.stats().traffic.hedges).sum::<u64>();
    let before = server.stats().requests.saturating_sub(hedges());
    let begin = Barrier::new(2);
    std::thread::scope(|scope| {
        for loader in &loaders {
            let begin = &begin;
            scope.spawn(move || {
                begin.wait();
                let epoch = run(loader.epoch(0));
                assert!(epoch.error.is_none(), "{:?}", epoch.error);
            });
        }
    });
    let asked = server.stats().requests.saturating_sub(hedges() + before);
    let caches = loaders.each_ref().map(|loader| loader.stats().cache.unwrap());
    assert!(caches.iter().all(|cache| cache.gave_up_waiting == 0), "{caches:?}: somebody waited in vain");
    asked
}

#[test]
fn eight_ranks_over_one_cache_are_sent_the_data_once() {
    let bytes: u64 = files_below(&BUCKET).iter().map(|path| path.metadata().unwrap().len()).sum();
    // On a busy machine more requests are late and sent a second time, but not in each try.
    let is_sent_once = (0..3).any(|_| {
        let sent = sent_to_eight_ranks(bytes);
        println!("sent {sent} of {bytes} bytes: {:.2}", sent as f64 / bytes as f64);
        sent <= bytes * 115 / 100
    });
    assert!(is_sent_once);
}

/// The bytes that a store sends to eight ranks in two epochs over a data set of `bytes` bytes.
fn sent_to_eight_ranks(bytes: u64) -> u64 {
    // The link is so slow that a row group takes seconds.
    let link = Link { rate: Some(bytes / 6), ..Link::default() };
    let server = serving().link(link).start().unwrap();
    let folder = TempDir::new().unwrap();
    let loaders: Vec<Loader> = (0..8)
        .map(|rank| {
            let dataset = open(&server, &[]).unwrap();
            let loader =
                dataset.loader().shuffle(Shuffle::seeded(3).window_rows(150)).batch_size(8).threads(1);
            loader.shard(Shard::new(rank, 8).unwrap()).cache(cache_in(&folder)).build().unwrap()
        })
        .collect();
    settled(&server);
    let before = server.stats().bytes_sent;
    for epoch in 0..2 {
        std::thread::scope(|scope| {
            for loader in &loaders {
                scope.spawn(move || {
                    let epoch = run(loader.epoch(epoch));
                    assert!(epoch.error.is_none(), "{:?}", epoch.error);
                });
            }
        });
    }
    settled(&server);
    server.stats().bytes_sent - before
}

#[test]
fn damage_between_two_runs_is_never_seen() {
    let server = server();
    let folder = TempDir::new().unwrap();
    let loader = || {
        let dataset = open(&server, &[]).unwrap();
        shuffled(&dataset).cache(cache_in(&folder)).build().unwrap()
    };
    warm(&loader());
    // The first run must have ended: requests that it still had in progress would see and repair the damage
    // before the second run does.
    settled(&server);
    let files = entries(&folder.path().join("rows"));
    assert_eq!(files.len() as u64, ROW_GROUPS);
    for (number, path) in files.iter().enumerate() {
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
        let mut bytes = fs::read(path).unwrap();
        let at = draw(5, number as u64) as usize % bytes.len();
        match number % 4 {
            0 => bytes[at] ^= 1 << (at % 8),
            1 => bytes.truncate(at),
            2 => bytes = fs::read(&files[(number + 1) % files.len()]).unwrap(),
            _ => bytes.iter_mut().for_each(|byte| *byte = 0),
        }
        fs::write(path, bytes).unwrap();
    }
    let loader = loader();
    run(loader.epoch(0)).is_right("after damage");
    let cache = loader.stats().cache.unwrap();
    assert!(cache.damaged >= ROW_GROUPS, "{cache}");
}

/// Changes that other programs may make to an entry in place, and to its path.
pub(super) fn harms() -> Vec<(&'static str, fn(&Path))> {
    // The loader itself removes an entry that it finds changed, and a removed entry cannot be harmed.
    fn write(path: &Path, change: impl Fn(&mut Vec<u8>)) {
        let Ok(file) = fs::OpenOptions::new().read(true).write(true).open(path) else { return };
        let mut bytes = vec![0; file.metadata().unwrap().len() as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        change(&mut bytes);
        file.write_all_at(&bytes, 0).unwrap();
        file.set_len(bytes.len() as u64).unwrap();
    }
    vec![
        ("some bytes flipped", |path| {
            write(path, |bytes| bytes.iter_mut().step_by(97).for_each(|byte| *byte ^= 0x55));
        }),
        ("cut to a tenth", |path| {
            if let Ok(file) = fs::OpenOptions::new().write(true).open(path) {
                file.set_len(file.metadata().unwrap().len() / 10).unwrap();
            }
        }),
        ("ones all over", |path| write(path, |bytes| bytes.fill(0xFF))),
        ("zeros all over, and the times put back", |path| {
            let Ok(found) = path.metadata() else { return };
            write(path, |bytes| bytes.fill(0));
            let times = fs::FileTimes::new().set_accessed(found.accessed().unwrap());
            if let Ok(file) = fs::OpenOptions::new().write(true).open(path) {
                file.set_times(times.set_modified(found.modified().unwrap())).unwrap();
            }
        }),
        ("a folder in its place", |path| {
            let _ = fs::remove_file(path);
            let _ = fs::create_dir_all(path.join("x"));
        }),
    ]
}

#[test]
fn entries_that_are_changed_while_they_are_used_give_no_wrong_row() {
    let server = server();
    let exact = |dataset: &Dataset| dataset.loader().shuffle(Shuffle::exact(3)).batch_size(BATCH).threads(2);
    let oracle = local(&BUCKET, exact);
    for (harm, harms) in harms() {
        for is_exact in [false, true] {
            let case = format!("{harm}, {}", if is_exact { "exactly" } else { "through a window" });
            let folder = TempDir::new().unwrap();
            let dataset = open(&server, &[]).unwrap();
            let builder = if is_exact { exact(&dataset).memory(3 << 20) } else { shuffled(&dataset) };
            let loader = builder.cache(cache_in(&folder)).build().unwrap();
            for _ in 0..20 {
                assert!(run(loader.epoch(0)).error.is_none(), "{case}");
                if loader.stats().cache.unwrap().entries == ROW_GROUPS {
                    break;
                }
            }
            let epoch = run_with(loader.epoch(0), |batches| {
                if [3, 9].contains(&batches) {
                    let files = entries(&folder.path().join("rows"));
                    files.iter().filter(|path| path.is_file()).for_each(|path| harms(path));
                }
            });
            assert!(epoch.error.is_none(), "{case}: {:?}", epoch.error);
            assert!(epoch.batches == if is_exact { &*oracle } else { &*ORACLE }[..], "{case}: other rows");
            let off = loader.stats().cache.unwrap().writing_off;
            assert_eq!(off, None, "{case}");
        }
    }
}

#[test]
fn rows_of_another_filter_are_not_taken_for_those_of_this_one() {
    let server = server();
    let folder = TempDir::new().unwrap();
    // The filters select the same number of rows of one row group, but other rows.
    for from in [10_000, 10_005, 10_002] {
        let some = |dataset: &Dataset| {
            let ids = [Term::new("id", Op::GreaterEq, from), Term::new("id", Op::Less, from + 5)];
            dataset.loader().batch_size(5).filter(Filter::all_of(ids))
        };
        let loader = some(&open(&server, &[]).unwrap()).cache(cache_in(&folder)).build().unwrap();
        for _ in 0..2 {
            assert!(run(loader.epoch(0)).batches == local(&BUCKET, some), "from {from}");
        }
    }
}

#[test]
fn rows_of_other_columns_are_not_taken_for_those_of_these() {
    let server = server();
    let folder = TempDir::new().unwrap();
    let names = |columns: &[&str]| {
        let dataset = open(&server, &[]).unwrap();
        let loader =
            dataset.loader().columns(columns.iter().copied()).cache(cache_in(&folder)).batch_size(BATCH);
        let loader = loader.build().unwrap();
        let found: Vec<Vec<String>> = (0..2)
            .flat_map(|epoch| loader.epoch(epoch))
            .map(|batch| batch.unwrap().schema().fields().iter().map(|field| field.name().clone()).collect())
            .collect();
        found.into_iter().for_each(|found| assert_eq!(found, columns));
    };
    for columns in [&["id", "weight"][..], &["weight", "id"], &["id"], &["payload"]] {
        names(columns);
    }
}

/// Writes a folder of photographs, 12 in each of 4 row groups.
fn photographs() -> TempDir {
    let folder = TempDir::new().unwrap();
    let picture = |seed: u64| {
        let level = |at: u64| {
            ((at / 3 % 96) * (1 + seed % 5) + at / 288 * (2 + seed % 3) + at % 3 * 60 + seed * 7) as u8
        };
        forebay_image::encode_jpeg(&(0..96 * 72 * 3).map(level).collect::<Vec<u8>>(), 96, 72, 90).unwrap()
    };
    let images = BinaryArray::from_iter_values((0..48).map(picture));
    let ids = Int64Array::from_iter_values(0..48);
    let rows = RecordBatch::try_from_iter([
        ("image", Arc::new(images) as ArrayRef),
        ("id", Arc::new(ids) as ArrayRef),
    ]);
    let rows = rows.unwrap();
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(12)).build();
    let file = fs::File::create(folder.path().join("photographs.parquet")).unwrap();
    let mut writer = ArrowWriter::try_new(file, rows.schema(), Some(properties)).unwrap();
    writer.write(&rows).unwrap();
    writer.close().unwrap();
    folder
}

fn pictures(folder: &TempDir, image: &Image) -> LoaderBuilder {
    let dataset = Dataset::open(folder.path()).unwrap();
    dataset.loader().decode("image", image.clone()).shuffle(Shuffle::seeded(5)).batch_size(10).threads(2)
}

fn batches(epoch: Epoch) -> Vec<RecordBatch> {
    epoch.map(|batch| batch.unwrap()).collect()
}

#[test]
fn images_kept_for_one_purpose_are_not_taken_for_another() {
    let (data, folder) = (photographs(), TempDir::new().unwrap());
    for image in [
        Image::center_crop(16),
        Image::center_crop(24),
        Image::center_crop(16).grayscale(),
        Image::resize(16, 16),
        Image::random_resized_crop(16).flip(),
        Image::center_crop(16),
    ] {
        let oracle = batches(pictures(&data, &image).build().unwrap().epoch(0));
        let loader =
            pictures(&data, &image).cache(cache_in(&folder)).cache_tier(Tier::Pixels).build().unwrap();
        for _ in 0..2 {
            assert!(batches(loader.epoch(0)) == oracle, "{image}");
        }
    }
}

#[test]
fn each_image_that_is_kept_as_pixels_is_counted_once() {
    let (data, folder) = (photographs(), TempDir::new().unwrap());
    for count in [48, 0] {
        let image = Image::resize(16, 16);
        let loader = pictures(&data, &image).cache(cache_in(&folder)).cache_tier(Tier::Pixels).build();
        let loader = loader.unwrap();
        loader.warm(|_, _| ()).unwrap();
        let keep = loader.stats().stages.keep;
        assert_eq!(keep.items, count, "{keep:?}");
        assert!(keep.bytes >= count * 16 * 16 * 3, "{keep:?}");
    }
}

#[test]
fn pixels_that_are_changed_while_they_are_used_are_never_seen() {
    let data = photographs();
    let image = Image::random_resized_crop(16).flip();
    let oracle = batches(pictures(&data, &image).build().unwrap().epoch(0));
    for (harm, harms) in harms() {
        let folder = TempDir::new().unwrap();
        let loader =
            pictures(&data, &image).cache(cache_in(&folder)).cache_tier(Tier::Pixels).build().unwrap();
        // On a slow disk, some rows are cached only in a later epoch.
        for _ in 0..20 {
            assert!(batches(loader.epoch(0)) == oracle, "{harm}");
            written(&loader);
            if loader.stats().cache.unwrap().entries == 4 {
                break;
            }
        }
        let mut epoch = loader.epoch(0);
        let mut found = vec![epoch.next().unwrap().unwrap()];
        let files = entries(&folder.path().join("rows"));
        assert_eq!(files.len(), 4, "{harm}");
        files.iter().for_each(|path| harms(path));
        found.extend(batches(epoch));
        assert!(found == oracle, "{harm}");
        assert!(batches(loader.epoch(0)) == oracle, "{harm}, and later");
    }
}

#[test]
fn a_cache_that_is_full_or_gone_stops_nothing() {
    let server = server();
    let plain = |cache| shuffled(&open(&server, &[]).unwrap()).cache(cache).build().unwrap();

    let folder = TempDir::new().unwrap();
    let loader = plain(DiskCache::open(folder.path().join("rows"), 2 << 20).unwrap());
    for epoch in 0..3 {
        run(loader.epoch(0)).is_right("full");
        assert!(until(|| loader.stats().cache.unwrap().declined.all() > 0));
        let cache = loader.stats().cache.unwrap();
        assert!(cache.bytes <= 2 << 20, "{cache}");
        // The cache keeps the entries that fit, so later epochs find some of their rows in it.
        assert!(epoch == 0 || cache.hits > 0, "{cache}");
    }

    let loader = plain(cache_in(&folder));
    run_with(loader.epoch(0), |batches| {
        if batches == 3 {
            let _ = fs::remove_dir_all(folder.path());
        }
    })
    .is_right("removed");
    run(loader.epoch(0)).is_right("removed before");
}

#[test]
fn a_file_that_was_written_anew_has_no_rows_in_the_cache() {
    let folder = TempDir::new().unwrap();
    let bucket = copy();
    let server = FaultServer::builder().folder("bucket", bucket.path()).start().unwrap();
    let loader = || shuffled(&open(&server, &[]).unwrap()).cache(cache_in(&folder)).build().unwrap();
    warm(&loader());
    rewrite(bucket.path(), 3);
    let loader = loader();
    let epoch = run(loader.epoch(0));
    assert!(epoch.error.is_none() && epoch.batches == local(bucket.path(), shuffled));
    let cache = loader.stats().cache.unwrap();
    assert!(cache.misses >= GROUPS as u64 && cache.hits > 0, "{cache}");
}
