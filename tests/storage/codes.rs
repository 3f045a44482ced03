//! Columns that are delivered as codes are the same from a cache, whether their values repeat or not, and
//! whatever else is read beside them.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use forebay::arrow::array::{ArrayRef, BinaryArray, Float32Array, Int64Array, RecordBatch, StringArray};
use forebay::column::{Encoding, Vocabulary};
use forebay::{Dataset, Epoch, LoaderBuilder, Shard, Shuffle, Tier};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use tempfile::TempDir;

use crate::cached::{cache_in, entries, harms, written};
use crate::kit::{draw, times};

/// The numbers that describe a case, drawn from its seed.
struct CodesCase {
    seed: u64,
    rows: u64,
    group: usize,
    /// The number of different values in the columns whose values repeat.
    distinct: u64,
    dictionary: bool,
    window: u64,
    lanes: u32,
    world: u32,
    batch: u64,
    memory: u64,
    has_unknown: bool,
    /// Whether nulls have a code of their own, instead of that of a value.
    has_null: bool,
}

impl CodesCase {
    fn drawn(seed: u64) -> CodesCase {
        let below = |count, most| draw(seed, count) % most;
        let group = [40, 300, 5_000][below(0, 3) as usize];
        CodesCase {
            seed,
            rows: 700 + below(1, 6_000),
            group,
            distinct: [1, 7, 90, 2_000][below(2, 4) as usize],
            dictionary: below(3, 2) == 0,
            window: [1, 100, 1_000, 100_000][below(4, 4) as usize],
            lanes: [1, 2, 3][below(5, 3) as usize],
            world: [1, 1, 2][below(6, 3) as usize],
            batch: 1 + below(7, 200),
            memory: [1 << 20, 64 << 20][below(8, 2) as usize],
            has_unknown: below(9, 2) == 0,
            has_null: below(10, 2) == 0,
        }
    }

    /// A text of one of the different values: an empty one, short ones, and ones that are too long for an
    /// Arrow view.
    fn text(&self, number: u64) -> String {
        match number {
            0 => String::new(),
            _ => format!("{number}{}", "é long".repeat(number as usize % 3)),
        }
    }

    fn write(&self, folder: &Path) {
        let column = |count: u64| (0..self.rows).map(move |row| draw(self.seed + count, row));
        let few =
            |count| column(count).map(|drawn| (drawn % 11 > 0).then(|| self.text(drawn % self.distinct)));
        let of_rows = |row: u64| format!("row {row}, which is as long as others");
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("few", Arc::new(StringArray::from_iter(few(1)))),
            ("id", Arc::new(Int64Array::from_iter_values(0..self.rows as i64))),
            ("bytes", Arc::new(BinaryArray::from_iter(few(2).map(|text| text.map(String::into_bytes))))),
            ("text", Arc::new(StringArray::from_iter(few(3)))),
            ("many", Arc::new(StringArray::from_iter_values((0..self.rows).map(of_rows)))),
            ("weight", Arc::new(Float32Array::from_iter(column(4).map(|n| (n % 5 > 0).then_some(n as f32))))),
        ];
        let properties = WriterProperties::builder()
            .set_max_row_group_row_count(Some(self.group))
            .set_dictionary_enabled(self.dictionary);
        let rows = RecordBatch::try_from_iter(columns).unwrap();
        let file = File::create(folder.join("a.parquet")).unwrap();
        let mut writer = ArrowWriter::try_new(file, rows.schema(), Some(properties.build())).unwrap();
        writer.write(&rows).unwrap();
        writer.close().unwrap();
    }

    /// A loader of a rank without a cache.
    fn loader(&self, folder: &Path, rank: u32) -> LoaderBuilder {
        let known = if self.has_unknown { self.distinct / 2 + 1 } else { self.distinct };
        let words = Vocabulary::texts((0..known).map(|number| self.text(number)));
        let words = if self.has_unknown { words.with_unknown() } else { words };
        let (words, buckets) = (Encoding::from(words), Encoding::hash(1_000));
        let shuffle = Shuffle::seeded(self.seed).window_rows(self.window).lanes(self.lanes * self.world);
        let loader = Dataset::open(folder).unwrap().loader().shuffle(shuffle).batch_size(self.batch);
        let loader = loader
            .shard(Shard::new(rank, self.world).unwrap())
            .memory(self.memory)
            .threads(2)
            .encode("many", Encoding::hash(1 << 40));
        match self.has_null {
            true => loader.encode("few", words.with_null()).encode("bytes", buckets.with_null()),
            false => loader
                .encode("few", words)
                .fill_null("few", "")
                .encode("bytes", buckets)
                .fill_null("bytes", b"none".to_vec()),
        }
    }
}

fn batches(epoch: Epoch) -> Vec<RecordBatch> {
    epoch.map(Result::unwrap).collect()
}

#[test]
fn codes_are_the_same_from_a_cache_in_each_of_its_states() {
    let mut hits = 0;
    for seed in 0..times(24, 400) {
        let case = CodesCase::drawn(seed);
        let folder = TempDir::new().unwrap();
        let data = folder.path().join("data");
        std::fs::create_dir(&data).unwrap();
        case.write(&data);
        for rank in 0..case.world {
            let Ok(plain) = case.loader(&data, rank).build() else { continue };
            let oracle = [0, 1].map(|epoch| batches(plain.epoch(epoch)));
            let cached = || {
                let loader = case.loader(&data, rank).cache(cache_in(&folder)).cache_tier(Tier::Rows);
                loader.build().unwrap()
            };
            let first = cached();
            for epoch in [0, 1, 0] {
                let same = batches(first.epoch(epoch)) == oracle[epoch as usize];
                assert!(same, "seed {seed}, rank {rank}, epoch {epoch} of the first loader");
            }
            written(&first);
            drop(first);
            let later = cached();
            let mut epoch = later.epoch(0);
            let half = oracle[0].len() / 2;
            let begun: Vec<RecordBatch> = epoch.by_ref().take(half).map(Result::unwrap).collect();
            assert!(begun == oracle[0][..half], "seed {seed}, rank {rank}, from the cache");
            let position = later.position();
            let resumed = cached();
            resumed.restore(&position).unwrap();
            assert!(batches(resumed.next_epoch()) == oracle[0][half..], "seed {seed}, rank {rank}, resumed");
            // Another program changes the entries whose rows are in use.
            let (_, harm) = harms()[seed as usize % harms().len()];
            entries(&folder.path().join("rows"))
                .iter()
                .filter(|path| path.is_file())
                .for_each(|path| harm(path));
            assert!(batches(epoch) == oracle[0][half..], "seed {seed}, rank {rank}, changed");
            assert!(batches(later.epoch(1)) == oracle[1], "seed {seed}, rank {rank}, after the change");
            assert_eq!(later.stats().unknown_values > 0, plain.stats().unknown_values > 0, "seed {seed}");
            hits += later.stats().cache.unwrap().hits;
        }
    }
    assert!(hits > 0, "rows came from the cache");
}
