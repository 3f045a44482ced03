//! Remembers the entries that this process has opened, with their memory maps, and the files that it has
//! verified.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay_arrow::array::RecordBatch;
use lru::LruCache;

use super::format::Body;
use super::key::Name;
use super::seal::{Seal, Stamp};
use crate::batch::ValueNumbers;

/// How many maps are kept; Linux allows a process 65,530 maps in all.
const MAX_MAPS: NonZeroUsize = NonZeroUsize::new(16_384).expect("a number above 0");
/// How many columns all kept batches may have together; each takes some 300 bytes.
const MAX_COLUMNS: usize = 1 << 17;

/// The rows of an entry that is open.
#[derive(Clone)]
pub(super) struct EntrySlot {
    pub(super) batch: RecordBatch,
    pub(super) numbers: ValueNumbers,
    /// The length of the file.
    pub(super) bytes: u64,
    /// Detects changes of mapped rows; `None` if the rows are in private memory.
    pub(super) seal: Option<Arc<Seal>>,
}

/// The entries that this process has opened.
pub(super) struct Index(Mutex<IndexState>);

struct IndexState {
    open: LruCache<Name, (EntrySlot, u64)>,
    columns: usize,
    verified: HashMap<Name, (Stamp, Body)>,
    epoch: u64,
}

impl Default for Index {
    fn default() -> Self {
        Index(Mutex::new(IndexState {
            open: LruCache::new(MAX_MAPS),
            columns: 0,
            verified: HashMap::new(),
            epoch: 0,
        }))
    }
}

impl Index {
    fn state(&self) -> MutexGuard<'_, IndexState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn epoch_begins(&self) {
        self.state().epoch += 1;
    }

    /// The rows of an entry that is open, and whether this is their first use in this epoch.
    pub(super) fn get(&self, name: Name) -> Option<(EntrySlot, bool)> {
        let mut state = self.state();
        let epoch = state.epoch;
        let (slot, used) = state.open.get_mut(&name)?;
        let (slot, is_first) = (slot.clone(), *used != epoch);
        *used = epoch;
        if slot.seal.as_ref().is_some_and(|seal| !seal.is_intact()) {
            // The file was changed or removed. Its map is dropped, because it would keep the disk space in
            // use.
            state.forget(name);
            return None;
        }
        Some((slot, is_first))
    }

    /// The lengths of an entry's parts, if its file was verified before and has had the metadata `stamp`
    /// since.
    pub(super) fn verified(&self, name: Name, stamp: &Stamp) -> Option<Body> {
        let state = self.state();
        let (found_right, body) = state.verified.get(&name)?;
        (found_right == stamp).then_some(*body)
    }

    /// Keeps the map of a verified entry.
    pub(super) fn remember(&self, name: Name, stamp: Stamp, body: Body, slot: &EntrySlot) {
        let mut state = self.state();
        state.verified.insert(name, (stamp, body));
        let epoch = state.epoch;
        state.forget(name);
        state.columns += slot.batch.num_columns();
        while state.columns > MAX_COLUMNS || state.open.len() == MAX_MAPS.get() {
            let Some((_, (old, _))) = state.open.pop_lru() else { break };
            state.columns -= old.batch.num_columns();
        }
        state.open.put(name, (slot.clone(), epoch));
    }

    pub(super) fn clear(&self) {
        let mut state = self.state();
        state.open.clear();
        state.columns = 0;
        state.verified.clear();
    }
}

impl IndexState {
    fn forget(&mut self, name: Name) {
        if let Some((old, _)) = self.open.pop(&name) {
            self.columns -= old.batch.num_columns();
        }
    }
}
