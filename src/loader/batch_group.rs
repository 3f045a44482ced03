//! Steps whose batches are made together, so that a row group's column is read while it is in the processor's
//! cache.

use std::sync::Arc;

use crate::reader::Resident;

/// A source is looked for among this number of a group's last sources before it is added to the group.
const SOURCES_REMEMBERED: usize = 8;

/// The rows of a step, from which its batch is made.
pub(super) struct StepRows {
    pub(super) sources: Vec<Arc<Resident>>,
    /// For each row, its source and its place in the source's deal; for samples of several rows, its source
    /// and the row itself.
    pub(super) picks: Vec<(u32, u32)>,
    /// The indices of the picks that are denied, and thus not delivered.
    pub(super) withheld: Vec<u32>,
    pub(super) made_of: Made,
    /// The number of bytes that the batch will take; 0 if every row takes equally many.
    pub(super) bytes: u64,
    /// The global row at which the step ends.
    pub(super) end: u64,
    pub(super) padded: u64,
}

/// The samples that the rows of a batch make.
#[derive(Clone, Debug)]
pub(super) struct Made {
    /// The number of samples: rows, windows or packs, each of which is delivered or left out as a whole.
    pub(super) samples: usize,
    /// How many of the last samples are repeats of samples that another rank has.
    pub(super) repeated: usize,
    pub(super) packs: Option<Arc<PackRows>>,
    /// How many times each row came earlier in its epoch, if a row may come several times.
    pub(super) repeats: Option<Arc<[u32]>>,
}

/// The rows of a batch of packs, and how they are divided among the packs.
#[derive(Clone, Debug, Default)]
pub(crate) struct PackRows {
    /// For each pack, the end of its rows among those of the batch.
    pub(crate) ends: Vec<u32>,
    /// The length of each row's list.
    pub(crate) lengths: Vec<u32>,
    /// For each row, the number of values of its list that are in earlier packs.
    pub(crate) skipped: Vec<u32>,
}

/// The rows of several steps, with the sources that they share.
#[derive(Default)]
pub(super) struct BatchGroup {
    pub(super) sources: Vec<Arc<Resident>>,
    /// For each row, step by step, its source and its place in the source's deal.
    pub(super) picks: Vec<(u32, u32)>,
    /// The indices of the picks that are denied, and thus not delivered.
    pub(super) withheld: Vec<u32>,
    pub(super) bytes: u64,
    pub(super) batches: Vec<GroupedBatch>,
}

/// One batch of a group.
pub(super) struct GroupedBatch {
    pub(super) made_of: Made,
    /// The global row at which the batch ends.
    pub(super) end: u64,
    pub(super) padded: u64,
}

impl BatchGroup {
    pub(super) fn add(
        &mut self,
        StepRows { sources, picks, withheld, made_of, bytes, end, padded }: StepRows,
    ) {
        let before = self.picks.len() as u32;
        self.withheld.extend(withheld.into_iter().map(|pick| before + pick));
        self.bytes += bytes;
        self.batches.push(GroupedBatch { made_of, end, padded });
        let indices: Vec<u32> = sources.into_iter().map(|source| self.index(source)).collect();
        if self.picks.is_empty() && indices.iter().enumerate().all(|(at, index)| at == *index as usize) {
            self.picks = picks;
            return;
        }
        self.picks.extend(picks.into_iter().map(|(source, place)| (indices[source as usize], place)));
    }

    /// The index of a source among those of the group. Consecutive steps usually draw from the same few
    /// parts.
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
