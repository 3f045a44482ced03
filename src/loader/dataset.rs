//! A data set: its catalogue, and the store that its bytes lie in.

use std::collections::BTreeMap;
use std::fmt;
use std::future::ready;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use futures::stream;
use object_store::ObjectStore;

use super::build::LoaderBuilder;
use super::stats::StageStats;
use super::threads::Border;
use crate::catalog::{Catalog, Projection};
use crate::error::{Error, Result};
use crate::monitor::Watch;
use crate::reader::budget::Budget;
use crate::reader::fetch::{Fetched, Fetcher, Gauge};
use crate::shard::Part;
use crate::source::{self, Store, TrafficStats};

/// A Parquet data set whose files were found and whose footers were read. Cheap to clone.
///
/// ```no_run
/// let dataset = forebay::Dataset::open("data/train/")?;
/// println!("{} rows in {} row groups", dataset.catalog().rows(), dataset.catalog().groups.len());
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Clone)]
pub struct Dataset {
    store: Store,
    pub(super) catalog: Arc<Catalog>,
    /// Where the stores' connections live.
    border: Arc<Border>,
    /// What opening it came to.
    pub(super) opened: StageStats,
}

/// What [`Dataset::open`] takes: one location or several.
pub trait Locations {
    /// The locations as text.
    fn into_locations(self) -> Vec<String>;
}

impl Locations for &str {
    fn into_locations(self) -> Vec<String> {
        vec![self.to_string()]
    }
}

impl Locations for &String {
    fn into_locations(self) -> Vec<String> {
        vec![self.clone()]
    }
}

impl Locations for String {
    fn into_locations(self) -> Vec<String> {
        vec![self]
    }
}

impl Locations for &std::path::Path {
    fn into_locations(self) -> Vec<String> {
        vec![self.to_string_lossy().into_owned()]
    }
}

impl<S: Into<String>> Locations for Vec<S> {
    fn into_locations(self) -> Vec<String> {
        self.into_iter().map(Into::into).collect()
    }
}

impl<S: Into<String>, const N: usize> Locations for [S; N] {
    fn into_locations(self) -> Vec<String> {
        self.into_iter().map(Into::into).collect()
    }
}

impl Dataset {
    /// Finds the files of a path, URL or glob, or of a list of them, and reads their footers.
    ///
    /// # Errors
    /// Nothing is there, something is not Parquet or damaged, a table format or encryption is in the way, or schemas
    /// differ.
    pub fn open(locations: impl Locations) -> Result<Self> {
        Dataset::open_with_options(locations, &BTreeMap::new())
    }

    /// As [`open`](Self::open), with options for the stores: credentials and settings by the names that `object_store` gives
    /// them.
    ///
    /// # Errors
    /// As [`open`](Self::open); also for an option that the store does not know.
    pub fn open_with_options(locations: impl Locations, options: &BTreeMap<String, String>) -> Result<Self> {
        let locations = locations.into_locations();
        if locations.is_empty() {
            return Err(Error::invalid("an empty list of locations").hint("give a path, a URL or a glob"));
        }
        let options = options.clone();
        Dataset::opened(async move { source::open(&locations, &options).await })
    }

    /// As [`open`](Self::open), for what lies below `prefix` of any store of the `object_store` crate: a folder, the path of a
    /// file, or a glob.
    ///
    /// ```no_run
    /// # use std::sync::Arc;
    /// let store = Arc::new(object_store::memory::InMemory::new());
    /// let dataset = forebay::Dataset::open_with(store, "imagenet/train")?;
    /// # Ok::<(), forebay::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_with(store: Arc<dyn ObjectStore>, prefix: &str) -> Result<Self> {
        let prefix = prefix.to_string();
        Dataset::opened(async move { source::open_with(store, &prefix).await })
    }

    fn opened(opening: impl Future<Output = Result<(Store, Catalog)>> + Send + 'static) -> Result<Self> {
        let border = Border::start()?;
        let began = Instant::now();
        let (store, catalog) = border.wait_for(opening)??;
        let opened = StageStats {
            items: catalog.files.len() as u64,
            bytes: store.traffic().bytes_needed,
            working: began.elapsed().as_secs_f64(),
            ..StageStats::default()
        };
        Ok(Dataset { store, catalog: Arc::new(catalog), border, opened })
    }

    /// The threads to read on and the stores to read from, in this process: a forked child has neither of its parent's.
    pub(super) fn here(&self) -> Result<(Arc<Border>, Store)> {
        if !self.border.is_foreign() {
            return Ok((self.border.clone(), self.store.clone()));
        }
        let (border, store) = (Border::start()?, self.store.clone());
        let store = border.wait_for(async move { store.connect_again() })??;
        Ok((border, store))
    }

    /// Its files, row groups and columns.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// What was asked of its stores so far.
    pub fn traffic(&self) -> TrafficStats {
        self.store.traffic()
    }

    /// Reads the projected columns of row groups as a loader does, and throws the bytes away: what storage gives when
    /// nothing is done with them. `done` is told each row group. Returns the bytes that were needed.
    ///
    /// # Errors
    /// A file has changed, is gone, or cannot be read.
    pub fn fetch(
        &self,
        groups: Range<usize>,
        projection: &Projection,
        done: impl Fn(usize) + Send + Sync + 'static,
    ) -> Result<u64> {
        let (border, store) = self.here()?;
        let fetcher = Fetcher {
            store,
            catalog: self.catalog.clone(),
            projection: Arc::new(projection.clone()),
            budget: Budget::new(u64::MAX),
            lenient: false,
            row_cache: None,
        };
        let whole = |group: usize| Part { group: group as u32, start: 0, rows: 0 };
        let reading = async move {
            let sum = Arc::new(Mutex::new(Ok(0)));
            let counted = sum.clone();
            let count = async move |fetched: Result<(Part, u64)>| {
                let mut sum = counted.lock().unwrap_or_else(PoisonError::into_inner);
                match (fetched, &mut *sum) {
                    (Ok((part, bytes)), Ok(sum)) => {
                        *sum += bytes;
                        done(part.group as usize);
                    }
                    (Err(error), sum) => *sum = Err(error),
                    (Ok(_), Err(_)) => {}
                }
                sum.is_ok()
            };
            let weigh = |fetched: Fetched| ready((fetched.part, fetched.found.bytes()));
            let gauge = Arc::new(Gauge::new(Watch::unread()));
            fetcher.run(stream::iter(groups.map(whole)), gauge, weigh, count).await;
            sum.lock().unwrap_or_else(PoisonError::into_inner).clone()
        };
        border.wait_for(reading)?
    }

    /// Begins to describe a loader over it.
    pub fn loader(&self) -> LoaderBuilder {
        LoaderBuilder::new(self.clone())
    }
}

impl fmt::Debug for Dataset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dataset")
            .field("files", &self.catalog.files.len())
            .field("rows", &self.catalog.rows())
            .field("fingerprint", &self.catalog.fingerprint.to_string())
            .finish()
    }
}

#[cfg(test)]
mod tests;
