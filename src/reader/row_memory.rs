//! Keeps the rows of a whole data set in memory from one epoch to the next, if they are few. Later epochs
//! neither read nor decode them.
//!
//! Rows are kept in the form from which batches are made, and in stored order; each epoch takes them in its
//! own order. The memory for them is taken from the budget for row groups. It is returned if the order of a
//! restored state needs it.

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

/// Rows that take at most this many bytes fit into the processor's cache, so reading them in any order is
/// fast.
const LITTLE_BYTES: u64 = 8 << 20;

/// The memory in which the rows of a data set are kept between epochs.
#[derive(Debug)]
pub(crate) struct RowMemory {
    catalog: Arc<Catalog>,
    /// The number of selected rows of each row group.
    counts: Arc<[u32]>,
    /// The largest number of bytes that the rows may take.
    most: u64,
    state: Mutex<MemoryState>,
    /// The number of rows that epochs took from this memory, with repetitions.
    served: AtomicU64,
}

#[derive(Debug)]
struct MemoryState {
    /// The kept rows of each row group; `None` before the row group was read.
    groups: Box<[Option<Staying>]>,
    bytes: u64,
    /// Whether further rows may be kept.
    is_open: bool,
    /// The bytes that were taken from the budget for row groups; `None` after they were returned.
    room: Option<Aside>,
    /// The rows of all row groups, after all were read and copied into few large batches.
    all: Option<AllStaying>,
}

/// The kept rows of each row group; `None` for a row group without selected rows.
pub(crate) type AllStaying = Arc<[Option<Staying>]>;

/// The selected rows of a row group. They begin at row `base` of `rows`, which may also hold other row
/// groups.
#[derive(Clone, Debug)]
pub(crate) struct Staying {
    pub(crate) rows: Arc<Rows>,
    pub(crate) base: u32,
    /// The most bytes that a row takes, counting only columns whose values differ in length.
    pub(crate) longest: u64,
}

impl RowMemory {
    /// Takes memory from the budget for rows of at most `most` bytes, where each row group has `counts`
    /// selected rows; `None` if the budget is too small.
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

    /// The number of bytes to take from the budget for rows of `most` bytes. It is twice as large if the rows
    /// are few, because they are then copied once.
    pub(crate) fn room_of(most: u64) -> u64 {
        if most <= LITTLE_BYTES { 2 * most } else { most }
    }

    fn state(&self) -> MutexGuard<'_, MemoryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The rows of a row group, if they are kept already.
    pub(crate) fn get(&self, group: u32) -> Option<Staying> {
        self.state().groups[group as usize].clone()
    }

    /// The rows of all row groups, if all of them are kept and were copied into few large batches.
    pub(crate) fn all(&self) -> Option<AllStaying> {
        self.state().all.clone()
    }

    /// Whether the rows of a row group are kept already.
    pub(crate) fn has(&self, group: u32) -> bool {
        self.state().groups[group as usize].is_some()
    }

    /// Whether further rows may be kept.
    pub(crate) fn is_open(&self) -> bool {
        self.state().is_open
    }

    /// The part that consists of all selected rows of a part's row group, because these are kept together.
    pub(crate) fn whole(&self, part: &Part) -> Part {
        Part { group: part.group, start: 0, rows: self.counts[part.group as usize] }
    }

    /// Keeps `rows`, which are the rows of the given row groups, one row group after the other. If they do
    /// not fit, they are returned as the error, and no further rows are kept.
    pub(crate) fn keep(
        &self,
        groups: &[u32],
        rows: RecordBatch,
        longest: u64,
    ) -> std::result::Result<Vec<Staying>, RecordBatch> {
        let bytes = rows.get_array_memory_size() as u64;
        let mut state = self.state();
        if let Some(here) = groups.iter().map(|group| state.groups[*group as usize].clone()).collect() {
            // Another epoch or lane has read the same row groups before.
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

    /// Once all row groups were read, copies their rows into one batch, so that batches for training are
    /// gathered from one place. Files with different constant values get a batch each, because the value of a
    /// constant column is looked up once for each batch that is gathered from.
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
        // If some rows cannot be joined, all rows stay as they are.
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

    /// Joins the rows of these row groups, one row group after the other; `None` if they cannot be joined.
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

    /// Whether the rows are so few that batches are gathered from them in stored order. Otherwise, each epoch
    /// first copies narrow columns into the order in which it takes the rows.
    pub(crate) fn is_little(&self) -> bool {
        self.most <= LITTLE_BYTES
    }

    /// Counts rows that an epoch took from this memory.
    pub(crate) fn count_served(&self, rows: u32) {
        self.served.fetch_add(rows.into(), Relaxed);
    }

    /// The number of rows that epochs took from this memory, with repetitions.
    pub(crate) fn served(&self) -> u64 {
        self.served.load(Relaxed)
    }

    /// The number of bytes that the kept rows take; 0 after they were dropped.
    pub(crate) fn bytes(&self) -> u64 {
        self.state().bytes
    }

    /// The number of bytes that were taken from the budget for row groups; 0 after they were returned.
    pub(crate) fn room(&self) -> u64 {
        self.state().room.as_ref().map_or(0, Aside::bytes)
    }

    /// Drops all rows, returns their memory to the budget, and keeps no rows from now on.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.groups.iter_mut().for_each(|rows| *rows = None);
        let groups = std::mem::take(&mut state.groups);
        *state = MemoryState { groups, bytes: 0, is_open: false, room: None, all: None };
    }
}

/// Copies texts and bytes of the rows to memory of their own, so that they do not keep whole pages in memory.
pub(crate) fn compacted(rows: &RecordBatch) -> Result<RecordBatch> {
    let columns = rows.columns().iter().map(compact).collect::<Result<_>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    RecordBatch::try_new_with_options(rows.schema(), columns, &options).or_fail()
}
