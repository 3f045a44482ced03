//! Finds footers that need not be read from their files, because they are in the metadata cache on local
//! disk, in the index of a folder, or in an index that another process handed on.

use std::sync::Arc;

use bytes::Bytes;
use forebay_base::Result;

use super::super::index::{self, Index};
use super::super::metadata_cache::{self, MetadataCache, Renewal};
use super::super::store::Store;
use crate::snapshot::Pin;

/// The footers of a data set that can be had without reading its files.
#[derive(Default)]
pub(in crate::source) struct KeptFooters {
    cache: Option<MetadataCache>,
    indexes: Vec<Arc<Index>>,
}

/// A footer from a cache or an index.
pub(super) struct KeptFooter {
    pub(super) bytes: Bytes,
    /// Whether the footer comes from an index; the metadata cache need not store it then.
    is_indexed: bool,
}

impl KeptFooters {
    /// Loads the cache and the indexes that may have footers of `files`, which are pairs of an address and a
    /// version. `first` is the address and the relative path of the first file.
    ///
    /// Three sources are tried in order, and the later ones are not read if an earlier one has all footers:
    /// the index that another process handed on, the metadata cache (for remote files only), the indexes of
    /// folders.
    pub(in crate::source) async fn load(
        store: &Store,
        first: Option<(String, String)>,
        files: impl Iterator<Item = (String, Pin)> + Clone,
    ) -> Result<Self> {
        let mut indexes = Vec::from_iter(store.handed_on.clone());
        if let Some(index) = &store.handed_on {
            if files.clone().all(|(whole, pin)| index.has(&whole, &pin)) {
                return Ok(KeptFooters { cache: None, indexes });
            }
            if !files.clone().any(|(whole, pin)| index.has(&whole, &pin)) {
                store.warn(
                    "footers are read without the index that was handed on: it has none of these files in their \
                     present version (hand it on between processes that read the same copy of the data)"
                        .to_owned(),
                );
            }
        }
        let cache = match first.filter(|_| !store.is_local()) {
            Some((whole, relative)) => {
                let choice = store.metadata_cache.clone();
                store.blocking(move || Ok(MetadataCache::load(choice, &whole, &relative))).await?
            }
            None => None,
        };
        let mut has_all = cache.as_ref().is_some_and(|cache| {
            files.clone().all(|(whole, pin)| cache.get(metadata_cache::key(&whole, &pin)).is_some())
        });
        has_all |= files.clone().next().is_none();
        if !has_all {
            indexes.extend(index::load(store, files).await?.into_iter().map(Arc::new));
        }
        Ok(KeptFooters { cache, indexes })
    }

    /// The footer of the file at the address `whole`, if an index or the cache has it for this version.
    pub(super) fn get(&self, whole: &str, pin: &Pin) -> Option<KeptFooter> {
        if let Some(bytes) = self.indexes.iter().find_map(|index| index.get(whole, pin)) {
            return Some(KeptFooter { bytes, is_indexed: true });
        }
        let bytes = self.cache.as_ref()?.get(metadata_cache::key(whole, pin))?;
        Some(KeptFooter { bytes, is_indexed: false })
    }

    /// Warns about indexes in which damaged entries were found so far.
    pub(super) fn warn_of_damage(&self, store: &Store) {
        for place in self.indexes.iter().filter_map(|index| index.damage()) {
            store.warn(format!(
                "some footers are read without the index: {place}: an entry of it is damaged ({})",
                index::WRITE_AGAIN
            ));
        }
    }

    /// Begins a new version of the metadata cache for `files`; `None` if it already has every footer that is
    /// not in an index.
    pub(super) fn renew<'a>(&self, files: impl Iterator<Item = (&'a str, &'a Pin)>) -> Option<Renewal> {
        let is_indexed = |whole: &str, pin: &Pin| self.indexes.iter().any(|index| index.has(whole, pin));
        let others = files.filter(|(whole, pin)| !is_indexed(whole, pin));
        self.cache.as_ref()?.renew(others.map(|(whole, pin)| metadata_cache::key(whole, pin)))
    }
}

impl KeptFooter {
    /// Whether the metadata cache should store a footer. `kept` is the footer as found in a cache or an
    /// index, or `None` if it was read from its file.
    pub(super) fn is_for_cache(kept: Option<&KeptFooter>) -> bool {
        kept.is_none_or(|kept| !kept.is_indexed)
    }
}
