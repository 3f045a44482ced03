//! Footers that need not be read from their files: those that are kept on local disk for this user, those in
//! the indexes of the folders that were opened, and those that another process passed on.

use std::sync::Arc;

use bytes::Bytes;
use forebay_base::Result;

use super::super::index::{self, Index};
use super::super::metadata_cache::{self, MetadataCache, Renewal};
use super::super::store::Store;
use crate::snapshot::Pin;

/// The kept footers of a data set.
#[derive(Default)]
pub(in crate::source) struct KeptFooters {
    cache: Option<MetadataCache>,
    indexes: Vec<Arc<Index>>,
}

/// A kept footer.
pub(super) struct KeptFooter {
    pub(super) bytes: Bytes,
    /// Whether the footer is in an index, so that the cache need not keep it.
    is_indexed: bool,
}

impl KeptFooters {
    /// Reads the kept footers of `files`, which are given by address and version; `first` is the address and
    /// the relative path of the first one. The cache is not read if the index that another process passed on
    /// has all footers, nor the index of a folder if the cache has them all. A cache has no footers of local
    /// files.
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

    /// The kept footer of this version of a file, if there is one.
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

    /// Begins to rewrite the cache's footers of `files`; `None` if the cache already has all that it should.
    pub(super) fn renew<'a>(&self, files: impl Iterator<Item = (&'a str, &'a Pin)>) -> Option<Renewal> {
        let is_indexed = |whole: &str, pin: &Pin| self.indexes.iter().any(|index| index.has(whole, pin));
        let others = files.filter(|(whole, pin)| !is_indexed(whole, pin));
        self.cache.as_ref()?.renew(others.map(|(whole, pin)| metadata_cache::key(whole, pin)))
    }
}

impl KeptFooter {
    /// Whether the cache should keep a footer that was found as `kept`, or was read from its file.
    pub(super) fn is_for_cache(kept: Option<&KeptFooter>) -> bool {
        kept.is_none_or(|kept| !kept.is_indexed)
    }
}
