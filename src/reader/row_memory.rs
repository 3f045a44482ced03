//! Rows that stay in memory from one epoch to the next, if those of a whole data set are few: later epochs
//! neither read nor decode them.
//!
//! Rows stay in the form from which batches are made, in stored order: every epoch deals them anew. The
//! budget for row groups is smaller by the memory set aside for them, which is returned if a restored order
//! needs it.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay_arrow::array::{RecordBatch, RecordBatchOptions};
use forebay_arrow::compute::concat_batches;
use forebay_arrow::fail::OrFail;
use forebay_base::Result;
use forebay_store::catalog::Catalog;

use super::budget::{Aside, Budget};
use super::placed::Rows;
use crate::batch::compact;
use crate::shard::Part;

/// Rows that take fewer bytes stay in the processor's cache, so it does not matter in which order they lie.
const LITTLE_BYTES: u64 = 8 << 20;

/// The rows of a data set that stay in memory.
#[derive(Debug)]
pub(crate) struct RowMemory {
    catalog: Arc<Catalog>,
    /// The selected rows of each row group.
    counts: Arc<[u32]>,
    /// The largest number of bytes that the rows may take.
    most: u64,
    state: Mutex<MemoryState>,
    /// The number of rows that epochs took from this memory.
    served: AtomicU64,
}

#[derive(Debug)]
struct MemoryState {
    /// The rows of each row group, as far as it has been read.
    groups: Box<[Option<Staying>]>,
    bytes: u64,
    /// Whether more rows may stay.
    is_open: bool,
    /// The part of the budget that is set aside for the rows; `None` once it was returned.
    room: Option<Aside>,
    /// The rows of all row groups, once all of them stay in memory and lie together.
    all: Option<AllStaying>,
}

/// The rows of each row group; `None` for a row group without selected rows.
pub(crate) type AllStaying = Arc<[Option<Staying>]>;

/// The selected rows of a row group, which begin at row `base` of the rows that were decoded with them.
#[derive(Clone, Debug)]
pub(crate) struct Staying {
    pub(crate) rows: Arc<Rows>,
    pub(crate) base: u32,
    /// The most bytes that a row takes in columns whose values differ in length.
    pub(crate) longest: u64,
}

impl RowMemory {
    /// Memory of `most` bytes for `counts` rows of each row group; `None` if the budget does not have the
    /// room.
    pub(crate) fn new(
        catalog: &Arc<Catalog>,
        counts: Arc<[u32]>,
        most: u64,
        budget: &Budget,
    ) -> Option<Self> {
        let room = budget.set_aside(Self::room_of(most))?;
        let groups = counts.iter().map(|_| None).collect();
        let state = MemoryState { groups, bytes: 0, is_open: true, room: Some(room), all: None };
        Some(RowMemory {
            catalog: catalog.clone(),
            counts,
            most,
            state: Mutex::new(state),
            served: AtomicU64::new(0),
        })
    }

    /// The bytes of a budget that are set aside for rows of `most` bytes: twice as many if the rows are few,
    /// because these are copied once, to lie together.
    pub(crate) fn room_of(most: u64) -> u64 {
        if most <= LITTLE_BYTES { 2 * most } else { most }
    }

    fn state(&self) -> MutexGuard<'_, MemoryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The rows of a row group, if they stay in memory already.
    pub(crate) fn get(&self, group: u32) -> Option<Staying> {
        self.state().groups[group as usize].clone()
    }

    /// The rows of all row groups, if all of them stay in memory and lie together.
    pub(crate) fn all(&self) -> Option<AllStaying> {
        self.state().all.clone()
    }

    /// Whether the rows of a row group stay in memory already.
    pub(crate) fn has(&self, group: u32) -> bool {
        self.state().groups[group as usize].is_some()
    }

    /// Whether more rows may stay.
    pub(crate) fn is_open(&self) -> bool {
        self.state().is_open
    }

    /// All selected rows of a part's row group: they stay together.
    pub(crate) fn whole(&self, part: &Part) -> Part {
        Part { group: part.group, start: 0, rows: self.counts[part.group as usize] }
    }

    /// Keeps `rows`, which are those of these row groups, one after the other. If they do not fit, they are
    /// given back, and nothing more will stay.
    pub(crate) fn keep(
        &self,
        groups: &[u32],
        rows: RecordBatch,
        longest: u64,
    ) -> std::result::Result<Vec<Staying>, RecordBatch> {
        let bytes = rows.get_array_memory_size() as u64;
        let mut state = self.state();
        if let Some(here) = groups.iter().map(|group| state.groups[*group as usize].clone()).collect() {
            // Another epoch or lane read the same row groups.
            return Ok(here);
        }
        state.is_open &= state.bytes.saturating_add(bytes) <= self.most;
        if !state.is_open {
            return Err(rows);
        }
        state.bytes += bytes;
        let (rows, mut base) = (Rows::new(rows, None), 0);
        let staying = groups.iter().map(|&group| {
            let staying = Staying { rows: rows.clone(), base, longest };
            base += self.counts[group as usize];
            state.groups[group as usize].get_or_insert(staying).clone()
        });
        let staying = staying.collect();
        if self.is_little() {
            self.lay_together(&mut state);
        }
        Ok(staying)
    }

    /// Copies the rows of row groups into one place once all are here: a batch then gathers from one place
    /// instead of many. Rows of files with different constants lie in different places, because a batch takes
    /// the value of a constant column once for each place.
    fn lay_together(&self, state: &mut MemoryState) {
        let read = self.counts.iter().enumerate().filter(|(_, rows)| **rows > 0).map(|(group, _)| group);
        let mut alike: HashMap<_, Vec<usize>> = HashMap::new();
        for group in read {
            if state.groups[group].is_none() {
                return;
            }
            let constants = &self.catalog.files[self.catalog.groups[group].file].constants;
            let constants = (!constants.is_empty()).then_some(Arc::as_ptr(constants));
            alike.entry(constants).or_default().push(group);
        }
        // Where the rows cannot be joined, they stay as they are.
        let joined = alike.into_values().map(|groups| Some((self.joined(state, &groups)?, groups)));
        let Some(joined) = joined.collect::<Option<Vec<_>>>() else { return };
        let bytes = joined.iter().map(|(rows, _)| rows.batch.get_array_memory_size() as u64).sum();
        if bytes > self.most {
            return;
        }
        state.bytes = bytes;
        for (all, groups) in joined {
            let mut base = 0;
            for group in groups {
                if let Some(staying) = &mut state.groups[group] {
                    (staying.rows, staying.base) = (all.clone(), base);
                    base += self.counts[group];
                }
            }
        }
        state.all = Some(state.groups.iter().cloned().collect());
    }

    /// The rows of these row groups, one after the other; `None` if they cannot be joined.
    fn joined(&self, state: &MemoryState, groups: &[usize]) -> Option<Arc<Rows>> {
        let rows = |&group: &usize| {
            let Staying { rows: all, base, .. } = state.groups[group].as_ref()?;
            Some(all.batch.slice(*base as usize, self.counts[group] as usize))
        };
        match groups {
            [alone] => state.groups[*alone].as_ref().map(|staying| staying.rows.clone()),
            groups => {
                let parts = groups.iter().map(rows).collect::<Option<Vec<_>>>()?;
                Some(Rows::new(concat_batches(&parts[0].schema(), &parts).ok()?, None))
            }
        }
    }

    /// Whether the rows are so few that batches are made of them as they lie. Otherwise narrow columns are
    /// brought into the order of each epoch's deal first.
    pub(crate) fn is_little(&self) -> bool {
        self.most <= LITTLE_BYTES
    }

    /// Counts rows that an epoch took from this memory.
    pub(crate) fn count_served(&self, rows: u32) {
        self.served.fetch_add(rows.into(), Relaxed);
    }

    /// The number of rows that epochs took from this memory.
    pub(crate) fn served(&self) -> u64 {
        self.served.load(Relaxed)
    }

    /// The number of bytes of the rows that stay in memory; 0 once their memory was returned.
    pub(crate) fn bytes(&self) -> u64 {
        self.state().bytes
    }

    /// The bytes of the budget that are set aside for the rows.
    pub(crate) fn room(&self) -> u64 {
        self.state().room.as_ref().map_or(0, Aside::bytes)
    }

    /// Lets all rows go, and keeps none from now on: the budget gets their memory back.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.groups.iter_mut().for_each(|rows| *rows = None);
        let groups = std::mem::take(&mut state.groups);
        *state = MemoryState { groups, bytes: 0, is_open: false, room: None, all: None };
    }
}

/// The same rows, whose bytes and texts keep nothing else in memory.
pub(crate) fn compacted(rows: &RecordBatch) -> Result<RecordBatch> {
    let columns = rows.columns().iter().map(compact).collect::<Result<_>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    RecordBatch::try_new_with_options(rows.schema(), columns, &options).or_fail()
}
