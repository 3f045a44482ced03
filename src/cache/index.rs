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

#[cfg(test)]
mod tests {
    use forebay_arrow::array::new_null_array;
    use forebay_arrow::datatypes::{DataType, Field, Schema};

    use super::*;

    fn name(number: u64) -> Name {
        Name::from_key(&number.to_le_bytes())
    }

    fn stamp() -> Stamp {
        Stamp::from_metadata(&std::env::current_exe().unwrap().metadata().unwrap())
    }

    fn remember(index: &Index, number: u64, columns: usize) {
        let fields: Vec<Field> = (0..columns).map(|_| Field::new("x", DataType::Null, true)).collect();
        let values = vec![new_null_array(&DataType::Null, 1); columns];
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), values).unwrap();
        let slot = EntrySlot { batch, numbers: ValueNumbers::default(), bytes: 1, seal: None };
        index.remember(name(number), stamp(), Body { rows: 1, stream: 1, bytes: 1 }, &slot);
    }

    fn are_open(index: &Index, numbers: std::ops::Range<u64>) -> Vec<u64> {
        numbers.filter(|number| index.get(name(*number)).is_some()).collect()
    }

    #[test]
    fn an_entry_that_is_opened_again_counts_once() {
        let index = Index::default();
        const MANY: usize = MAX_COLUMNS / 4;
        remember(&index, 0, MANY);
        (0..5).for_each(|_| remember(&index, 1, MANY));
        (2..4).for_each(|number| remember(&index, number, MANY));
        assert_eq!(are_open(&index, 0..4), [0, 1, 2, 3], "as many columns as may be open");
        remember(&index, 4, 1);
        assert_eq!(are_open(&index, 0..5), [1, 2, 3, 4], "the one whose last use is longest ago goes");
        assert!(index.verified(name(0), &stamp()).is_some(), "and is still known to be sound");
        remember(&index, 5, 2 * MAX_COLUMNS);
        assert_eq!(are_open(&index, 0..6), [5], "one entry is always kept");
        index.clear();
        (0..4).for_each(|number| remember(&index, number, MANY));
        assert_eq!(are_open(&index, 0..6), [0, 1, 2, 3]);
    }

    #[test]
    fn the_first_use_in_each_epoch_is_told() {
        let index = Index::default();
        remember(&index, 0, 1);
        let is_first = || index.get(name(0)).unwrap().1;
        assert_eq!([is_first(), is_first()], [false, false], "opening it was its first use");
        for _ in 0..2 {
            index.epoch_begins();
            assert_eq!([is_first(), is_first()], [true, false]);
        }
    }
}
