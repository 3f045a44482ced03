//! Makes the measurements of `forebay doctor`: the rate of the store alone, of the loader with the given
//! options, and of the loader with its rows in a cache.

use std::path::Path;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use forebay::Tier;
use forebay::bindings::page_cache;
use forebay::{Dataset, DiskCache, Loader, Shard};
use forebay_base::Result;
use forebay_image::Form;
use forebay_store::catalog::Projection;
use forebay_store::source::TrafficStats;

use super::model::{Measured, Rate, RowWork, StoreTimes};
use super::trial::{self, Mark, Trial};
use crate::console::Progress;
use crate::machine::{self, Clock};
use crate::options::{LoaderOptions, Order};

/// The number of row groups in the shuffle window of a measured loader. The rate hardly depends on the
/// window, and a small window is filled quickly.
const WINDOW_GROUPS: u64 = 4;
/// The numbers of row groups and batches that the loader may hold in memory while it reads from a cache. They
/// are small, so that it does not read far ahead.
const GROUPS_AT_HAND: u64 = 10;
const BATCHES_AT_HAND: u64 = 24;
/// The most bytes that each of the two measured caches, of rows and of pixels, may write to the local disk.
const MAX_SCRATCH_BYTES: u64 = 2 << 30;
/// A cache is filled in at most this many passes over the data. Rows that the disk was too slow to write in
/// one pass are written in a later one.
const MAX_FILLING_PASSES: u32 = 4;
/// The number of row groups that the first measured fetch reads. The number is doubled until a fetch takes
/// long enough.
const FIRST_GROUPS: usize = 4;
/// A measured fetch reads at most this many row groups; a small data set is read repeatedly.
const MAX_FETCH_GROUPS: usize = 1 << 14;
/// The time between two readings of the bytes received.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Decoded pixels take several times the bytes of stored rows, so the trial of a pixel cache runs over fewer
/// batches: their number is divided by this.
const PIXEL_BATCHES_DIVISOR: u64 = 4;
/// The number of measurements.
pub(super) const TRIALS: u64 = 5;
/// The number of requests that the store runs at the same time by default.
const DEFAULT_REQUESTS: f64 = 64.0;

/// The data set, the options and the machine to measure.
pub(super) struct Bench<'a> {
    pub(super) dataset: &'a Dataset,
    pub(super) options: &'a LoaderOptions,
    pub(super) threads: u32,
    /// The duration of each measurement.
    pub(super) time: Duration,
    /// A folder for this run, on the disk that a cache would be on.
    pub(super) scratch: &'a Path,
}

impl Bench<'_> {
    /// Makes all measurements that predictions need.
    pub(super) fn measure(&self, progress: &mut Progress) -> Result<Measured> {
        let window = self.small_window();
        // The loader is built first, so that data that no loader accepts, such as a data set without rows, is
        // not measured.
        let loader = self.loader(self.threads, window.clone(), None)?;
        let (store, fetch) = self.store()?;
        progress.advance(1);
        let now = trial::run(&loader, self.time, None)?;
        drop(loader);
        progress.advance(1);

        let near = self.near(window.clone(), &now);
        let rows = DiskCache::open(self.scratch.join("rows"), MAX_SCRATCH_BYTES)?;
        let cached = |threads| self.cached_rate(threads, &near, &rows, Tier::Rows, now.batches);
        let all = cached(self.threads)?;
        progress.advance(1);
        let alone = if self.threads > 1 { cached(1)? } else { all };
        progress.advance(1);
        // A cache of pixels is measured only if a column holds encoded images: columns of raw pixels need no
        // decoding, so they gain nothing from it.
        let pixels = match self.options.image.iter().any(|(_, image)| image.has_form(Form::Pixels)) {
            false => None,
            true => {
                let cache = DiskCache::open(self.scratch.join("pixels"), MAX_SCRATCH_BYTES)?;
                let few = (now.batches / PIXEL_BATCHES_DIVISOR).max(2);
                // This trial runs without the lowered memory limit of `near`, which is too low for several
                // row groups of pixels.
                let rate = self.cached_rate(self.threads, &window, &cache, Tier::Pixels, few)?;
                Some((rate, self.kept(&cache)))
            }
        };
        progress.advance(1);
        Ok(Measured {
            processors: machine::processors(),
            threads: self.threads,
            now: now.rate,
            cached: all,
            cached_alone: alone,
            pixels: pixels.map(|(rate, _)| rate),
            work: RowWork { parquet: now.parquet, fetch },
            store,
            pixel_bytes: pixels.map(|(_, bytes)| bytes),
            disk: rows.disk_rate(),
            row_bytes: self.kept(&rows),
            rows: self.dataset.catalog().rows(),
            remembered: page_cache(),
        })
    }

    /// The size of a row in a cache, in bytes.
    fn kept(&self, cache: &DiskCache) -> f64 {
        let stats = cache.stats();
        stats.bytes as f64 / (stats.entries as f64 * self.group_rows()).max(1.0)
    }

    /// Builds a loader that is the only rank and therefore reads the whole data set.
    fn loader(
        &self,
        threads: u32,
        options: LoaderOptions,
        cache: Option<(DiskCache, Tier)>,
    ) -> Result<Loader> {
        let mut builder =
            self.dataset.loader().spec(options.spec(Shard::default())).threads(threads as usize);
        if let Some((cache, tier)) = cache {
            builder = builder.cache(cache).cache_tier(tier);
        }
        builder.build()
    }

    /// The given options, with a small window that is filled quickly.
    fn small_window(&self) -> LoaderOptions {
        let mut options = self.options.clone();
        options.cache = None;
        if options.order != Order::Stored {
            let rows = (WINDOW_GROUPS * self.group_rows() as u64).max(1);
            options.order = Order::Window;
            options.window_rows = Some(options.window_rows.map_or(rows, |asked| asked.min(rows)));
        }
        options
    }

    /// Lowers the memory limit of `options`, so that the loader does not read far ahead.
    fn near(&self, options: LoaderOptions, now: &Trial) -> LoaderOptions {
        let catalog = self.dataset.catalog();
        let largest = self.options.projection(self.dataset).map_or(0, |projection| {
            let held =
                |group| catalog.held_bytes(group, &projection) + catalog.stored_bytes(group, &projection);
            catalog.groups.iter().map(held).max().unwrap_or(0)
        });
        let batch = now.bytes / now.batches.max(1);
        let enough = BATCHES_AT_HAND * batch + GROUPS_AT_HAND * largest;
        LoaderOptions { memory: Some(options.memory.map_or(enough, |asked| asked.min(enough))), ..options }
    }

    /// Fills the cache and measures the rate of reading from it, over the first `batches` batches of an epoch
    /// again and again.
    fn cached_rate(
        &self,
        threads: u32,
        options: &LoaderOptions,
        cache: &DiskCache,
        tier: Tier,
        batches: u64,
    ) -> Result<Rate> {
        let loader = self.loader(threads, options.clone(), Some((cache.clone(), tier)))?;
        for _ in 0..MAX_FILLING_PASSES {
            let before = cache.stats().misses;
            for batch in loader.epoch(0).take(usize::try_from(batches).unwrap_or(usize::MAX)) {
                batch?;
            }
            if cache.stats().misses == before {
                break;
            }
        }
        Ok(trial::run(&loader, self.time, Some(batches))?.rate)
    }

    /// Fetches row groups and discards them. The number of row groups is doubled until a fetch takes long
    /// enough to measure. Returns the store's rate, and the processor time that this process spent on a row,
    /// in seconds.
    fn store(&self) -> Result<(StoreTimes, f64)> {
        let (projection, most) =
            (self.options.projection(self.dataset)?, self.dataset.catalog().groups.len());
        let mut groups = FIRST_GROUPS.min(most);
        loop {
            let (before, clock) = (self.dataset.traffic(), Clock::now());
            let (rows, marks) = self.watched(|| self.fetch(groups, &projection))?;
            let took = marks.last().map_or(0.0, |mark| mark.at);
            if took < self.time.as_secs_f64() && groups < MAX_FETCH_GROUPS.max(most) {
                groups *= 2;
                continue;
            }
            let spent = Clock::now().zip(clock).map_or(0.0, |(now, then)| now.own - then.own);
            let traffic = self.dataset.traffic().since(&before);
            let row_bytes = traffic.bytes_needed as f64 / rows.max(1) as f64;
            let rates: Vec<f64> =
                trial::intervals(&marks).iter().map(|bytes| bytes / row_bytes.max(1.0)).collect();
            return Ok((self.seen(Rate::from_intervals(&rates), &traffic, rows), spent / rows.max(1) as f64));
        }
    }

    /// Fetches this many row groups and returns their number of rows. A data set with fewer row groups is
    /// read repeatedly.
    fn fetch(&self, groups: usize, projection: &Projection) -> Result<u64> {
        let all = &self.dataset.catalog().groups;
        let (mut left, mut rows) = (groups, 0);
        while left > 0 {
            let some = left.min(all.len());
            self.dataset.fetch(0..some, projection, |_| ())?;
            rows += all[..some].iter().map(|group| group.rows).sum::<u64>();
            left -= some;
        }
        Ok(rows)
    }

    /// Runs `work` and records how many bytes were received at which time. Bytes are counted because they
    /// arrive steadily, while whole row groups finish in bursts.
    fn watched<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<(T, Vec<Mark>)> {
        let (before, started) = (self.dataset.traffic().bytes_read, Instant::now());
        let read = || self.dataset.traffic().bytes_read - before;
        let mut marks = vec![Mark::default()];
        std::thread::scope(|scope| {
            let (done, ended) = std::sync::mpsc::channel();
            let working = scope.spawn(move || {
                let outcome = work();
                // Sending fails only if the receiver is gone, which happens only after a panic.
                let _ = done.send(());
                outcome
            });
            loop {
                let is_over = ended.recv_timeout(POLL_INTERVAL) != Err(RecvTimeoutError::Timeout);
                marks.push(Mark { at: started.elapsed().as_secs_f64(), amount: read() });
                if is_over {
                    break;
                }
            }
            let outcome = working.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            Ok((outcome, marks))
        })
    }

    fn seen(&self, rate: Rate, traffic: &TrafficStats, rows: u64) -> StoreTimes {
        let seconds = |micros: u64| micros as f64 / 1e6;
        let rows_in_request = rows as f64 / traffic.requests.max(1) as f64;
        StoreTimes {
            rate,
            first_byte: seconds(traffic.first_byte_us),
            request: seconds(traffic.request_us),
            under_way: DEFAULT_REQUESTS * rows_in_request,
        }
    }

    /// The mean number of rows in a row group.
    fn group_rows(&self) -> f64 {
        let catalog = self.dataset.catalog();
        catalog.rows() as f64 / catalog.groups.len().max(1) as f64
    }
}
