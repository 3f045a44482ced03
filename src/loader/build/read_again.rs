//! Decides for [`Tier::Auto`] whether a cache makes reading faster, and leaves the cache out if not.

use std::path::{Path, PathBuf};

use forebay_base::Result;
use forebay_store::source::Store;

use super::LoaderBuilder;
use super::settle::Settled;
use crate::cache::{DiskCache, Key, Tier, file_rate, is_local};
use crate::column::CacheForm;
use crate::loader::keeping::{RowCosts, ToKeep};
use crate::loader::machine::page_cache;
use crate::loader::source::Unkept;
use crate::loader::spec::LoaderSpec;
use crate::loader::threads::IoRuntime;
use crate::shard::{Mixing, kept_text};

/// Fewer bytes than this are kept in the cache without a measurement, which would take longer than reading
/// them.
const MIN_MEASURED_BYTES: u64 = 16 << 20;

impl LoaderBuilder {
    /// Settles the options with the cache, or without it if reading the rows again is not slower.
    ///
    /// The cache is left out only for files on local disks, and only if it cannot keep images in another
    /// form. (Which form to use is decided later, from measurements in the epochs.)
    pub(super) fn kept_or_read_again(
        self,
        spec: &LoaderSpec,
        io: &IoRuntime,
        store: Store,
    ) -> Result<Settled> {
        let is_open = self.spec.cache.as_ref().is_some_and(|cache| cache.tier == Tier::Auto);
        let may_be_read_again =
            is_open && !self.plan_only && store.is_local() && self.is_on_local_disks(&store);
        // The cache stays if the options cannot be settled without it, as for an exact shuffle of many rows.
        let without = may_be_read_again.then(|| self.without_cache().arranged(spec, io, store.clone()).ok());
        let Some(mut without) = without.flatten().filter(|without| !without.has_forms()) else {
            return self.arranged(spec, io, store);
        };
        let Some(cache) = self.open_cache()? else { return Ok(without) };
        let why = match self.among {
            1 => without.why_read_again(io, &cache),
            // A source of a mix with an exact shuffle keeps its cache: the memory is divided among sources
            // later, so it is not known yet whether all rows of the source fit into its part.
            _ if without.order.is_exact() => None,
            _ => without.why_faster(io, &cache),
        };
        match why {
            None => LoaderBuilder { cache: Some(cache), ..self }.arranged(spec, io, store),
            Some(why) => {
                without.unkept = Some(Unkept { cache, why });
                Ok(without)
            }
        }
    }

    fn without_cache(&self) -> LoaderBuilder {
        let spec = LoaderSpec { cache: None, ..self.spec.clone() };
        LoaderBuilder { cache: None, spec, ..self.clone() }
    }

    /// Whether all files are on disks of this machine, and not on a mounted network file system.
    fn is_on_local_disks(&self, store: &Store) -> bool {
        let files = self.dataset.catalog.files.iter().map(|file| PathBuf::from(store.address(file)));
        let mut folders: Vec<PathBuf> = files.filter_map(|file| file.parent().map(Path::to_owned)).collect();
        folders.dedup();
        folders.iter().all(|folder| is_local(folder))
    }
}

impl Settled {
    /// Whether a cache could keep cells in another form than the stored one.
    fn has_forms(&self) -> bool {
        !CacheForm::all(&self.columns.codecs, self.fetcher.reads.projection.schema()).is_empty()
    }

    /// Says why the cache does not keep these rows, which are read again instead; `None` if it keeps them.
    fn why_read_again(&self, io: &IoRuntime, cache: &DiskCache) -> Option<String> {
        match &self.fetcher.reads.row_memory {
            Some(_) if self.to_keep().held < MIN_MEASURED_BYTES => None,
            Some(_) => Some("nothing is kept: the rows are local, and stay in memory".into()),
            None => self.why_faster(io, cache),
        }
    }

    /// For rows that do not stay in memory, says why reading them again is not slower than a cache; `None` if
    /// the cache is faster, or if the costs are not known. They are measured now, or were by an earlier run.
    fn why_faster(&self, io: &IoRuntime, cache: &DiskCache) -> Option<String> {
        // A cache does not keep row groups that are read in pieces.
        if !self.fetcher.reads.pieces.is_empty() {
            return None;
        }
        let rows = self.to_keep();
        let key = self.key_of_costs();
        let costs = cache.note(&key, RowCosts::parse).or_else(|| {
            if rows.held < MIN_MEASURED_BYTES {
                return None;
            }
            let costs = self.costs(io, cache, &rows)?;
            cache.keep_note(&key, &costs.to_note(), RowCosts::parse)
        });
        costs?.why_read_again(&rows)
    }

    fn to_keep(&self) -> ToKeep {
        let reads = &self.fetcher.reads;
        let counts = self.selected.row_counts();
        let read = counts.iter().enumerate().filter(|(_, rows)| **rows > 0);
        let (mut rows, mut stored, mut held) = (0, 0, 0u64);
        for (group, count) in read {
            rows += u64::from(*count);
            stored += reads.stored(group);
            let all = u128::from(reads.catalog.groups[group].rows.max(1));
            held += (u128::from(reads.kept(group)) * u128::from(*count) / all) as u64;
        }
        ToKeep { rows, stored, held, threads: self.threads, page_cache: page_cache() }
    }

    /// The key under which the cache notes the measured costs. They are valid for the same rows and columns,
    /// and for this version of forebay.
    fn key_of_costs(&self) -> Key {
        let reads = &self.fetcher.reads;
        let filter = self.spec.filter.as_ref().map(|filter| kept_text(filter.canonical()));
        let rows = format!(
            "filter {filter:?} without {:?}{}",
            self.denied,
            if self.spec.shuffle.mixing == Mixing::Stored { ", in stored order" } else { "" }
        );
        let (data, version) = (reads.catalog.fingerprint.to_string(), env!("CARGO_PKG_VERSION"));
        Key::new(&data, reads.catalog.rows(), version, 0, &rows, reads.projection.schema())
    }

    /// Measures the costs of reading rows again and of a cache; `None` if a row group cannot be read.
    fn costs(&self, io: &IoRuntime, cache: &DiskCache, rows: &ToKeep) -> Option<RowCosts> {
        let trial = self.trial(io)?;
        let source_disk = rows.is_read_from_disk(rows.stored).then(|| self.source_disk()).flatten();
        let cache_disk = rows.is_read_from_disk(rows.held);
        let cache_disk = cache_disk.then(|| cache.disk_rate().or_else(|| cache.empty_disk_rate())).flatten();
        Some(RowCosts { again: trial.again, kept: trial.kept, source_disk, cache_disk })
    }

    /// The bytes per second that the disk of the data set delivers, measured with the largest file.
    fn source_disk(&self) -> Option<f64> {
        let reads = &self.fetcher.reads;
        let largest = reads.catalog.files.iter().max_by_key(|file| file.size)?;
        file_rate(Path::new(&reads.store.address(largest)))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::sync::Arc;

    use forebay_arrow::array::{ArrayRef, Int64Array, ListArray, RecordBatch, StringArray};
    use forebay_arrow::datatypes::Int32Type;
    use parquet::arrow::ArrowWriter;

    use super::*;
    use crate::Dataset;
    use crate::shard::Shuffle;

    const FAST: RowCosts = RowCosts { again: 1e-8, kept: 1e-7, source_disk: None, cache_disk: None };
    const SLOW: RowCosts = RowCosts { again: 1e-6, kept: 1e-7, source_disk: None, cache_disk: None };

    /// A loader over a local file with 4,000 rows of 5 KB: smaller files are not measured.
    fn rows(folder: &Path) -> LoaderBuilder {
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..4_000));
        let texts: ArrayRef =
            Arc::new(StringArray::from_iter_values((0..4_000).map(|id| format!("{id:>5000}"))));
        let lists = (0..4_000).map(|id| Some((0..id % 3).map(Some)));
        let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists));
        let batch = RecordBatch::try_from_iter([("id", ids), ("text", texts), ("list", lists)]).unwrap();
        let file = File::create(folder.join("a.parquet")).unwrap();
        let mut writer = ArrowWriter::try_new(file, batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        Dataset::open(folder).unwrap().loader().shuffle(Shuffle::seeded(3)).batch_size(100).threads(1)
    }

    /// Notes `costs` as measured before, and settles the options with the cache.
    fn settled(builder: &LoaderBuilder, cache: &DiskCache, costs: RowCosts) -> Settled {
        let (io, store) = builder.dataset.here().unwrap();
        let key = builder.settle(&io, store.clone()).unwrap().key_of_costs();
        cache.clear().unwrap();
        assert_eq!(cache.keep_note(&key, &costs.to_note(), RowCosts::parse), Some(costs));
        builder.clone().cache(cache.clone()).settle(&io, store).unwrap()
    }

    #[test]
    fn what_was_measured_before_decides_for_each_later_run() {
        let (data, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let cache = DiskCache::open(home.path(), 1 << 30).unwrap();
        // With a single epoch, rows do not stay in memory for later epochs.
        let once = rows(data.path()).epochs(1);
        let fast = settled(&once, &cache, FAST);
        assert!(fast.fetcher.reads.row_cache.is_none());
        assert!(fast.unkept.unwrap().why.contains("10 ns"));
        let slow = settled(&once, &cache, SLOW);
        assert!(slow.unkept.is_none() && slow.fetcher.reads.row_cache.is_some());

        // A tier that the user names is used. With [`Tier::Auto`], the noted costs decide each time.
        let named = settled(&once.clone().cache_tier(Tier::Rows), &cache, FAST);
        assert!(named.unkept.is_none() && named.fetcher.reads.row_cache.is_some());
        let again = DiskCache::open(home.path(), 1 << 30).unwrap();
        for _ in 0..2 {
            let loader = once.clone().cache(again.clone()).build().unwrap();
            assert!(loader.stats().cache.unwrap().read_again.is_some());
            assert!(loader.plan(0).unwrap().to_string().contains("nothing is kept"));
            assert_eq!(loader.warm(|_, _| ()).unwrap().written, 0);
        }
    }

    #[test]
    fn rows_that_stay_in_memory_are_not_kept_on_disk_too() {
        let (data, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let cache = DiskCache::open(home.path(), 1 << 30).unwrap();
        let stay = settled(&rows(data.path()), &cache, SLOW);
        assert!(stay.fetcher.reads.row_memory.is_some());
        assert!(stay.unkept.unwrap().why.contains("stay in memory"));
    }

    #[test]
    fn a_trial_measures_both_ways_for_every_order() {
        let (data, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let cache = DiskCache::open(home.path(), 1 << 30).unwrap();
        for shuffle in [Shuffle::stored(), Shuffle::seeded(1), Shuffle::exact(1)] {
            let builder = rows(data.path()).shuffle(shuffle);
            let (io, store) = builder.dataset.here().unwrap();
            let settled = builder.settle(&io, store).unwrap();
            let costs = settled.costs(&io, &cache, &settled.to_keep()).unwrap();
            assert!(costs.again > 0.0 && costs.kept > 0.0, "{costs:?}");
            assert_eq!(RowCosts::parse(&costs.to_note()), Some(costs));
        }
    }
}
