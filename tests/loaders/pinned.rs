//! Orders and pixels that never change. `FOREBAY_BLESS=1` rewrites `pinned.txt`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};

use forebay::arrow::array::{Array, AsArray};
use forebay::arrow::datatypes::Int64Type;
use forebay::filter::{Op, Term};
use forebay::plan::{EpochOrder, OrderSpec, Split, Walk};
use forebay::{Filter, Image, Loader, LoaderBuilder, Shard, Shuffle};
use xxhash_rust::xxh3::Xxh3;

use crate::table::{Layout, TableOnDisk};

const PINNED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/loaders/pinned.txt");

/// Compares the hashes under a heading with those in the file, or writes them to it.
fn pinned(heading: &str, hashes: &[(String, u64)]) {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    // Another test that failed while it held the lock has not changed the file.
    let _only = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let text = std::fs::read_to_string(PINNED).unwrap_or_default();
    let mut all: BTreeMap<&str, &str> = text
        .lines()
        .filter_map(|line| line.rsplit_once("  "))
        .map(|(name, hash)| (name.trim(), hash))
        .collect();
    let now: Vec<(String, String)> =
        hashes.iter().map(|(name, hash)| (format!("{heading}: {name}"), format!("{hash:016x}"))).collect();
    if std::env::var_os("FOREBAY_BLESS").is_some_and(|value| value == "1") {
        all.retain(|name, _| !name.starts_with(&format!("{heading}: ")));
        all.extend(now.iter().map(|(name, hash)| (name.as_str(), hash.as_str())));
        let mut text = String::new();
        all.iter().for_each(|(name, hash)| writeln!(text, "{name:64}  {hash}").unwrap());
        std::fs::write(PINNED, text).unwrap();
        return;
    }
    for (name, hash) in &now {
        let known = all.get(name.as_str()).unwrap_or_else(|| panic!("{name} is not pinned"));
        assert_eq!(known, hash, "{name}");
    }
}

/// A table of 3,000 rows in row groups of three sizes.
fn table() -> TableOnDisk {
    let files = vec![vec![100; 10], vec![37; 20], vec![126; 10]];
    TableOnDisk::write(Layout { files, blob: 0, ..Layout::even(0, 0, 0) })
}

fn loader(table: &TableOnDisk, shuffle: Shuffle) -> LoaderBuilder {
    table.open().loader().columns(["id"]).shuffle(shuffle).batch_size(32).threads(2)
}

/// A hash of the ids in each batch of an epoch, from the loader's position on.
fn hash(loader: &Loader, epoch: u64) -> u64 {
    let mut hash = Xxh3::new();
    for batch in loader.epoch(epoch) {
        let batch = batch.unwrap();
        hash.update(&batch.num_rows().to_le_bytes());
        let ids = batch.column(0).as_primitive::<Int64Type>();
        ids.values().iter().for_each(|id| hash.update(&id.to_le_bytes()));
    }
    hash.digest()
}

/// Returns the hashes of an order in several epochs, on two ranks, from a position in the middle, and through
/// a filter.
fn orders(table: &TableOnDisk, name: &str, shuffle: Shuffle) -> Vec<(String, u64)> {
    let mut hashes = Vec::new();
    let mut note = |what: &str, hash: u64| hashes.push((format!("{name}, {what}"), hash));
    for lanes in [1, 2, 3] {
        let shuffle = shuffle.lanes(lanes);
        let whole = loader(table, shuffle).build().unwrap();
        for epoch in [0, 1, 1 << 33] {
            note(&format!("{lanes} lanes, epoch {epoch}"), hash(&whole, epoch));
        }
        let mut position = whole.position();
        (position.epoch, position.row) = (1, 32 * 21);
        let resumed = loader(table, shuffle).build().unwrap();
        resumed.restore(&position).unwrap();
        let rest = hash(&resumed, 1);
        note(&format!("{lanes} lanes, epoch 1 from step 21"), rest);
        for rank in [0, 1] {
            let shard = Shard::new(rank, 2).unwrap();
            let half = loader(table, shuffle).shard(shard).build().unwrap();
            note(&format!("{lanes} lanes, epoch 2, rank {rank} of 2"), hash(&half, 2));
        }
    }
    let filter = Filter::any_of([
        vec![Term::new("small", Op::Less, 0)],
        vec![Term::new("id", Op::GreaterEq, 1_000), Term::new("id", Op::Less, 1_400)],
    ]);
    let some = loader(table, shuffle).filter(filter).drop_last(true).build().unwrap();
    note("filtered, epoch 0", hash(&some, 0));
    note("filtered, epoch 1", hash(&some, 1));
    hashes
}

/// The order has the same hash as in python/tests/test_rows.py, on any number of threads.
#[test]
fn the_order_is_that_of_python() {
    let table = TableOnDisk::write(Layout { files: vec![vec![100; 30]], blob: 0, ..Layout::even(0, 0, 0) });
    for threads in [1, 2, 8] {
        let shuffle = Shuffle::seeded(17).window_rows(500).lanes(3);
        let loader = loader(&table, shuffle).threads(threads).build().unwrap();
        let mut hash = crc32fast::Hasher::new();
        for batch in (0..2).flat_map(|epoch| loader.epoch(epoch)) {
            let batch = batch.unwrap();
            let ids = batch.column(0).as_primitive::<Int64Type>();
            ids.values().iter().for_each(|id| hash.update(&id.to_le_bytes()));
        }
        assert_eq!(hash.finalize(), 0x5799_89a0);
    }
}

#[test]
fn the_stored_and_the_exact_order_never_change() {
    let table = table();
    pinned("stored", &orders(&table, "as it is", Shuffle::stored()));
    pinned("exact", &orders(&table, "seed 17", Shuffle::exact(17)));
}

#[test]
fn the_windowed_order_never_changes() {
    let table = table();
    let window = |rows| Shuffle::seeded(17).window_rows(rows);
    let shuffles = [
        ("1 row", window(1)),
        ("200 rows", window(200)),
        ("1000 rows", window(1_000)),
        ("default", Shuffle::seeded(17)),
    ];
    let hashes: Vec<_> =
        shuffles.into_iter().flat_map(|(name, shuffle)| orders(&table, name, shuffle)).collect();
    pinned("window", &hashes);
}

/// The rows of a plan's steps, and the parts that enter and leave at each step, never change. The row groups
/// are larger than in any file of these tests.
#[test]
fn plans_never_change() {
    let groups: Vec<u32> = (0..400).map(|group| [1_000, 0, 313, 1, 70_000][group % 5]).collect();
    let mut hashes = Vec::new();
    for (kind, shuffle) in [
        ("stored", Shuffle::stored()),
        ("exact", Shuffle::exact(u64::MAX)),
        ("window", Shuffle::seeded(3).window_rows(100_000)),
    ] {
        for lanes in [1, 4] {
            let spec = OrderSpec::new(&shuffle, &groups, lanes, 0);
            let order = EpochOrder::new(groups.as_slice(), &spec, 5);
            let shard = Shard::new(1, 4).unwrap();
            let split = Split {
                rows: order.rows(),
                lanes,
                shard,
                global_batch: 64 * u64::from(shard.world()),
                drop_last: false,
            };
            let mut hash = Xxh3::new();
            for step in Walk::new(&order, split, 1_000_000).take(300) {
                for &(part, row) in &step.picks {
                    let part = step.parts[part as usize];
                    hash.update(&part.group.to_le_bytes());
                    hash.update(&(part.start + row).to_le_bytes());
                }
            }
            hashes.push((format!("{kind}, {lanes} lanes"), hash.digest()));
        }
    }
    pinned("plan", &hashes);
}

/// A row's crop and flip are drawn from the seed, the epoch and the row in a way that never changes.
#[test]
fn random_pixels_never_change() {
    // The table has some rows of each image format, which the default window mixes.
    let table = TableOnDisk::write(Layout { blob: 0, ..Layout::even(2, 3, 20) });
    let crop = || Image::random_resized_crop(16);
    let mut hashes = Vec::new();
    for (name, image) in [
        ("crop", crop()),
        ("crop and flip", crop().flip()),
        ("flip alone", Image::resize(16, 16).flip()),
        ("narrow crops", crop().scale((0.1, 0.3)).ratio((0.5, 2.0)).flip_with(0.2)),
    ] {
        for (seed, epoch) in [(17, 0), (17, 1), (18, 0)] {
            let loader = table.open().loader().columns(["id", "image"]).decode("image", image.clone());
            let loader = loader.shuffle(Shuffle::seeded(seed)).batch_size(25).threads(2).build().unwrap();
            let mut rows: BTreeMap<i64, Vec<u8>> = BTreeMap::new();
            for batch in loader.epoch(epoch) {
                let batch = batch.unwrap();
                let pixels = batch.column(1).as_fixed_size_list().values().to_data();
                let images = pixels.buffers()[0].chunks_exact(image.bytes_per_image());
                let ids = batch.column(0).as_primitive::<Int64Type>().values();
                rows.extend(ids.iter().copied().zip(images.map(<[u8]>::to_vec)));
            }
            assert_eq!(rows.len(), 120);
            let mut hash = Xxh3::new();
            rows.values().for_each(|pixels| hash.update(pixels));
            hashes.push((format!("{name}, seed {seed}, epoch {epoch}"), hash.digest()));
        }
    }
    let distinct: std::collections::BTreeSet<u64> = hashes.iter().map(|(_, hash)| *hash).collect();
    assert_eq!(distinct.len(), hashes.len(), "seed and epoch decide pixels");
    pinned("pixels", &hashes);
}
