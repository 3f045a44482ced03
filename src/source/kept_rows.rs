//! The rows that a filter selects, kept on local disk beside the footers: the second start with it reads no values.
//!
//! One file for each data set and filter. It is found by all that the rows depend on: the files with their addresses and
//! versions, the filter, and the version of this library, and proven by a checksum. What it holds are the numbers of rows, no
//! values. A failure here only costs the pass that it would have saved.

use std::fs;
use std::path::PathBuf;

use xxhash_rust::xxh3::{Xxh3, xxh3_64_with_seed};

use super::metadata_cache::{Writing, folder, make_room};
use super::store::Store;
use crate::catalog::Catalog;
use crate::row_set::RowSet;

/// The first bytes of a file, which name its format.
const MAGIC: &[u8; 8] = b"FBROWS01";

/// The most bytes that are kept of one filter.
const MAX_BYTES: usize = 256 << 20;

pub(super) const SUFFIX: &str = "rows";

/// Where the rows of one filter are kept.
pub(crate) struct KeptRows {
    path: PathBuf,
    key: u128,
}

impl KeptRows {
    /// Of `catalog` and a filter in its canonical form; `None` where nothing is to be kept. Waits for the disk.
    pub(crate) fn of(store: &Store, catalog: &Catalog, filter: &str) -> Option<Self> {
        let folder = folder(store.metadata_cache.clone())?;
        let mut hash = Xxh3::new();
        let mut add = |text: &str| {
            hash.update(&(text.len() as u64).to_le_bytes());
            hash.update(text.as_bytes());
        };
        add(env!("CARGO_PKG_VERSION"));
        add(filter);
        add(&catalog.fingerprint.to_string());
        for file in &catalog.files {
            add(&store.address(file));
            add(&file.version.for_keys());
        }
        let key = hash.digest128();
        Some(KeptRows { path: folder.join(format!("{key:032x}.{SUFFIX}")), key })
    }

    /// The rows of each row group, of its `live` ones, if they are known.
    pub(crate) fn load(&self, live: &[RowSet]) -> Option<Vec<RowSet>> {
        let bytes = fs::read(&self.path).ok()?;
        let rest = bytes.strip_prefix(MAGIC)?;
        let (proof, mut rest) = rest.split_first_chunk::<8>()?;
        if u64::from_le_bytes(*proof) != self.proof(rest) {
            return None;
        }
        let sets = live.iter().map(|live| {
            let set = RowSet::read(&mut rest, live.rows())?;
            (set.intersection(live) == set).then_some(set)
        });
        let sets = sets.collect::<Option<Vec<_>>>()?;
        rest.is_empty().then_some(sets)
    }

    /// Keeps the rows of each row group.
    pub(crate) fn keep(&self, sets: &[RowSet]) {
        let mut bytes = Vec::new();
        for set in sets {
            set.write(&mut bytes);
            if bytes.len() > MAX_BYTES {
                return;
            }
        }
        let proof = self.proof(&bytes).to_le_bytes();
        let Some(mut writing) = Writing::begin(&self.path) else { return };
        if [&MAGIC[..], &proof, &bytes].into_iter().all(|part| writing.write(part)) && writing.keep() {
            make_room(&self.path);
        }
    }

    fn proof(&self, bytes: &[u8]) -> u64 {
        xxh3_64_with_seed(bytes, self.key as u64)
    }
}
