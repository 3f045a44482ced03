//! Filling the cache before it is needed.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::RecvTimeoutError;

use super::handle::Loader;
use super::prefetch::{Prefetch, ended_early};
use crate::cache::CacheStats;
use crate::error::{Error, Result};
use crate::monitor::Watch;
use crate::shard::{EpochOrder, OrderSpec, Shard, Shuffle, Split, Walk};

/// Time between two checks whether the loader was closed.
const CLOSED_CHECK_INTERVAL: Duration = Duration::from_millis(100);

impl Loader {
    /// Puts the rows of all ranks into the cache, as far as they fit and are not there yet; not those of row groups that are
    /// larger than memory. Ends the epoch that is under
    /// way. `done` is called with the number of finished row groups and of all.
    ///
    /// # Errors
    /// There is no cache; a row group cannot be read; the loader was closed.
    pub fn warm(&self, mut done: impl FnMut(u64, u64)) -> Result<CacheStats> {
        self.check_usable()?;
        let inner = &*self.inner;
        let row_cache = inner.fetcher.row_cache.as_ref();
        let row_cache = row_cache
            .ok_or_else(|| Error::invalid("there is no cache to warm").hint("give the loader one"))?;
        inner.engine.warmed();
        let is_kept = |group: usize| inner.fetcher.pieces.of_group(group).is_none();
        let counts = inner.selected.counts.iter().enumerate();
        let counts: Arc<[u32]> = counts.map(|(group, &rows)| if is_kept(group) { rows } else { 0 }).collect();
        let total = counts.iter().filter(|rows| **rows > 0).count() as u64;
        let spec = OrderSpec::new(&Shuffle::stored(), &counts, 1, 1);
        let split = Split {
            rows: counts.iter().map(|&rows| u64::from(rows)).sum(),
            lanes: 1,
            shard: Shard::default(),
            global_batch: inner.spec.batch_size,
            drop_last: false,
        };
        let scout = move || Walk::scout(&EpochOrder::new(&counts, &spec, 0), split, 0);
        let watch = Watch::new(&inner.monitor);
        let prefetch = Prefetch::start(&inner.source(true)?, None, Box::new(scout), || {}, watch.clone());
        let _ended_with_this = prefetch.control.cancel_on_drop();
        prefetch.control.fetch_all();
        let mut passed = 0;
        while passed < total {
            self.check_usable()?;
            let arrived = match prefetch.arriving.next(CLOSED_CHECK_INTERVAL) {
                Ok(arrived) => arrived?,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return Err(ended_early()),
            };
            arrived.wait()?;
            watch.admits();
            passed += 1;
            done(passed, total);
        }
        Ok(row_cache.cache().stats())
    }
}
