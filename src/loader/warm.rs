//! Fills the cache before a run, with [`Loader::warm`] and its variants.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::RecvTimeoutError;
use forebay_base::{Error, Result};

use super::handle::Loader;
use super::prefetch::{Prefetch, ended_early};
use super::source::Source;
use crate::cache::CacheStats;
use crate::monitor::Watch;
use crate::shard::{EpochOrder, OrderSpec, Shard, Shuffle, Split, Walk};

/// The time between two checks of whether the loader was closed.
const CLOSED_CHECK_INTERVAL: Duration = Duration::from_millis(100);

impl Loader {
    /// Puts the rows of all ranks into the cache, as far as they fit and are not cached yet. Row groups that
    /// are larger than the memory budget are left out. An epoch that is under way is ended. `done` is called
    /// with the number of finished row groups and the number of all row groups. If
    /// [`Tier::Auto`](crate::Tier::Auto) has decided to keep nothing of this data set, nothing is done, and
    /// the statistics give the reason.
    ///
    /// # Errors
    /// The loader has no cache, or is a mix, whose sources are warmed one by one before they are mixed; a row
    /// group cannot be read; the loader was closed.
    pub fn warm(&self, done: impl FnMut(u64, u64)) -> Result<CacheStats> {
        self.warm_until(false, whenever_one_ends(done))
    }

    /// Fills the cache like [`warm`](Self::warm), but only with the row groups that this rank reads in the
    /// epoch that is under way or comes next. With a windowed shuffle, the rank reads different row groups in
    /// every epoch.
    ///
    /// # Errors
    /// The errors of [`warm`](Self::warm).
    pub fn warm_share(&self, done: impl FnMut(u64, u64)) -> Result<CacheStats> {
        self.warm_until(true, whenever_one_ends(done))
    }

    /// Fills the cache like [`warm`](Self::warm), or like [`warm_share`](Self::warm_share) if `share` is
    /// true, until `done` returns `Break`. `done` is also called while a row group is still being fetched,
    /// and once before the first row group.
    ///
    /// # Errors
    /// The errors of [`warm`](Self::warm).
    pub fn warm_until(
        &self,
        share: bool,
        mut done: impl FnMut(u64, u64) -> ControlFlow<()>,
    ) -> Result<CacheStats> {
        self.check_usable()?;
        if self.is_mix() {
            return Err(Error::invalid("a mix has no cache of its own")
                .hint("call warm() on the loaders of its sources, before they are mixed"));
        }
        let source = self.sources.first();
        let cache = source.cache().ok_or_else(|| {
            Error::invalid("the loader has no cache to warm").hint("make the loader with `cache`")
        })?;
        if source.unkept.is_some() {
            return Ok(self.stats().cache.unwrap_or_default());
        }
        source.engine.warmed();
        let share = share.then(|| share_of(source, self.sources.progress.get().epoch));
        let is_kept = |group: usize| {
            share.as_ref().is_none_or(|share| share.contains(&group))
                && source.fetcher.reads.pieces.of_group(group).is_none()
        };
        let counts = source.selected.most().iter().enumerate();
        let counts: Arc<[u32]> = counts.map(|(group, &rows)| if is_kept(group) { rows } else { 0 }).collect();
        let total = counts.iter().filter(|rows| **rows > 0).count() as u64;
        let spec = OrderSpec::new(&Shuffle::stored(), &counts, 1, 1);
        let split = Split {
            rows: counts.iter().map(|&rows| u64::from(rows)).sum(),
            lanes: 1,
            shard: Shard::default(),
            global_batch: source.spec.batch_size,
            drop_last: false,
        };
        let scout = move || Walk::scout(&EpochOrder::new(counts.clone(), &spec, 0), split, 0);
        let watch = Watch::new(&source.monitor);
        let mut row_groups = source.row_groups(true)?;
        // No samples are made here, so the rows that samples need from the next row group (its head) are not
        // read.
        row_groups.fetcher.reads.heads = Arc::default();
        // Only the row groups matter here. They are the same in every epoch, so the samples of epoch 0 will
        // do.
        let samples = source.selected.of_epoch(0);
        let prefetch = Prefetch::start(&row_groups, samples, None, Box::new(scout), || {}, watch.clone());
        let _ended_with_this = prefetch.control.cancel_on_drop();
        prefetch.control.fetch_all();
        let mut passed = 0;
        while done(passed, total).is_continue() && passed < total {
            self.check_usable()?;
            let mut arrived = match prefetch.arriving.next(CLOSED_CHECK_INTERVAL) {
                Ok(arrived) => arrived?,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return Err(ended_early()),
            };
            while !arrived.is_over() {
                let row_groups = arrived.wait()?.len();
                watch.admits(row_groups);
                passed += row_groups as u64;
            }
        }
        Ok(cache.stats())
    }
}

/// The row groups of a source that this rank reads in an epoch.
fn share_of(source: &Source, epoch: u64) -> HashSet<usize> {
    let spec = source.order();
    let order = EpochOrder::new(source.selected.of_epoch(epoch).counts.clone(), &spec, epoch);
    let entering = Walk::scout(&order, source.split(&spec), 0).flat_map(|step| step.entering);
    entering.map(|part| part.group as usize).collect()
}

/// Makes a function that calls `done` only when the number of finished row groups has grown, and always
/// continues.
fn whenever_one_ends(mut done: impl FnMut(u64, u64)) -> impl FnMut(u64, u64) -> ControlFlow<()> {
    let mut before = 0;
    move |passed, total| {
        if passed > before {
            done(passed, total);
            before = passed;
        }
        ControlFlow::Continue(())
    }
}
