//! Steps whose batches are made together, so that a row group's column is read while it is in the processor's cache.

use std::sync::Arc;

use crate::reader::Resident;

/// How many sources a group searches for one that it already has, from the last one back.
const SOURCES_REMEMBERED: usize = 8;

/// The rows of a step.
pub(super) struct StepRows {
    pub(super) sources: Vec<Arc<Resident>>,
    /// Source and place in its deal; of samples of several rows, those rows.
    pub(super) picks: Vec<(u32, u32)>,
    pub(super) made_of: Made,
    /// Bytes that the batch will take; 0 where all rows take the same.
    pub(super) bytes: u64,
    /// The global row after it.
    pub(super) end: u64,
    pub(super) padded: u64,
}

/// What the rows of a batch make.
#[derive(Clone, Debug)]
pub(super) struct Made {
    /// What is delivered or left out as a whole: rows, windows or packs.
    pub(super) samples: usize,
    /// The last of them, which another rank has as well.
    pub(super) repeated: usize,
    pub(super) packs: Option<Arc<PackRows>>,
    /// Of each row how often it came before in its epoch, where one may come several times.
    pub(super) repeats: Option<Arc<[u32]>>,
}

/// The rows of some packs.
#[derive(Clone, Debug, Default)]
pub(crate) struct PackRows {
    /// Of each pack where its rows end among those of the batch.
    pub(crate) ends: Vec<u32>,
    /// Of each pack how much of its first list belongs to packs before.
    pub(crate) skipped: Vec<u32>,
    /// Of each row how long its list is.
    pub(crate) lengths: Vec<u32>,
}

/// Rows of several steps, with the sources that they share.
#[derive(Default)]
pub(super) struct BatchGroup {
    pub(super) sources: Vec<Arc<Resident>>,
    /// Source and place in its deal, step by step.
    pub(super) picks: Vec<(u32, u32)>,
    pub(super) bytes: u64,
    pub(super) batches: Vec<GroupedBatch>,
}

/// One batch of a group.
pub(super) struct GroupedBatch {
    pub(super) made_of: Made,
    /// The global row after it.
    pub(super) end: u64,
    pub(super) padded: u64,
}

impl BatchGroup {
    pub(super) fn add(&mut self, StepRows { sources, picks, made_of, bytes, end, padded }: StepRows) {
        self.bytes += bytes;
        self.batches.push(GroupedBatch { made_of, end, padded });
        let indices: Vec<u32> = sources.into_iter().map(|source| self.index(source)).collect();
        if self.picks.is_empty() && indices.iter().enumerate().all(|(at, index)| at == *index as usize) {
            self.picks = picks;
            return;
        }
        self.picks.extend(picks.into_iter().map(|(source, place)| (indices[source as usize], place)));
    }

    /// The index of a source among the group's. Consecutive steps mostly draw from the same few parts.
    fn index(&mut self, source: Arc<Resident>) -> u32 {
        let mut last = self.sources.iter().rev().take(SOURCES_REMEMBERED);
        let index = match last.position(|known| Arc::ptr_eq(known, &source)) {
            Some(back) => self.sources.len() - 1 - back,
            None => {
                self.sources.push(source);
                self.sources.len() - 1
            }
        };
        index as u32
    }
}
