//! Adds up the statistics of the caches that the sources of a mix use.

use crate::cache::{CacheStats, DiskCache};

/// The statistics of all caches together. Counts are added up, and so are the bytes and limits of folders,
/// each folder once. `None` if there is no cache.
pub(in crate::loader) fn together<'a>(caches: impl IntoIterator<Item = &'a DiskCache>) -> Option<CacheStats> {
    let mut counted: Vec<&DiskCache> = Vec::new();
    let mut all: Option<CacheStats> = None;
    for cache in caches {
        // Sources may share a cache, or use caches in one folder.
        if counted.iter().any(|other| other.is_same(cache)) {
            continue;
        }
        let is_known = counted.iter().any(|other| other.folder() == cache.folder());
        counted.push(cache);
        all = Some(match all {
            None => cache.stats(),
            Some(before) => before.and(cache.stats(), is_known),
        });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_counted_once() {
        let folder = tempfile::tempdir().unwrap();
        let open = |name: &str, bytes: u64| DiskCache::open(folder.path().join(name), bytes).unwrap();
        let (a, b) = (open("a", 1_000_000), open("b", 2_000_000));
        let limit = |caches: &[&DiskCache]| together(caches.iter().copied()).map(|stats| stats.max_bytes);
        assert_eq!(limit(&[]), None);
        assert_eq!(limit(&[&a, &b]), Some(3_000_000));
        assert_eq!(limit(&[&a, &a.clone(), &b]), Some(3_000_000));
        assert_eq!(limit(&[&a, &open("a", 4_000_000)]), Some(4_000_000), "the larger limit of one folder");
    }
}
