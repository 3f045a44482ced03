//! Groups of steps whose batches are made together. The values of a row group's column are then in the
//! processor's cache while all batches of the group are made from them.

use std::sync::Arc;

use crate::reader::Resident;
use crate::shard::StepOfMix;

/// When a source (the rows of a part in memory) is added to a group, only this number of the group's latest
/// sources are searched for it.
const SOURCES_REMEMBERED: usize = 8;

/// The rows of a step, from which its batch is made.
pub(super) struct StepRows {
    pub(super) sources: Vec<Arc<Resident>>,
    /// For each row, the index of its source and its place in the source's deal (the shuffled order of the
    /// rows). If a sample has several rows, the index of the row in the source replaces the place.
    pub(super) picks: Vec<(u32, u32)>,
    /// The indices in `picks` of rows that the user denied, which are not delivered.
    pub(super) withheld: Vec<u32>,
    pub(super) made_of: Made,
    /// The step of a mix that the batch is a share of, if other sources have shares of it too.
    pub(super) of_mix: Option<StepOfMix>,
    /// The number of bytes that the batch will take; 0 if all rows have the same size.
    pub(super) bytes: u64,
    /// The number of rows in the epoch's order, over all ranks, up to the end of the step.
    pub(super) end: u64,
    pub(super) padded: u64,
}

/// Describes the samples that the rows of a batch belong to.
#[derive(Clone, Debug)]
pub(super) struct Made {
    /// The number of samples: rows, windows or packs, each of which is delivered or left out as a whole.
    pub(super) samples: usize,
    /// The number of repeated samples at the end of the batch. Another rank delivers them too; they are
    /// repeated so that no rank is without a batch.
    pub(super) repeated: usize,
    pub(super) packs: Option<Arc<PackRows>>,
    /// For each row, the number of times it came earlier in the epoch; `None` if rows come only once.
    pub(super) repeats: Option<Arc<[u32]>>,
}

/// Says which stored rows are in which pack of a batch. A pack is one delivered row of fixed length, which
/// joins the lists of several stored rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct PackRows {
    /// For each pack, the index after its last row in the batch.
    pub(crate) ends: Vec<u32>,
    /// The length of each row's list.
    pub(crate) lengths: Vec<u32>,
    /// For each row, the number of values of its list that are in earlier packs.
    pub(crate) skipped: Vec<u32>,
}

impl PackRows {
    /// No packs, with room for these numbers of packs and rows.
    pub(super) fn with_capacity(packs: usize, rows: usize) -> Self {
        PackRows {
            ends: Vec::with_capacity(packs),
            lengths: Vec::with_capacity(rows),
            skipped: Vec::with_capacity(rows),
        }
    }
}

/// The rows of several steps, from which batches are made together.
#[derive(Default)]
pub(super) struct BatchGroup {
    pub(super) sources: Vec<Arc<Resident>>,
    /// For each row, step by step, the index of its source and its place in the source's deal (the shuffled
    /// order of the rows).
    pub(super) picks: Vec<(u32, u32)>,
    /// The indices in `picks` of rows that the user denied, which are not delivered.
    pub(super) withheld: Vec<u32>,
    pub(super) bytes: u64,
    pub(super) batches: Vec<GroupedBatch>,
}

/// One batch of a group.
pub(super) struct GroupedBatch {
    pub(super) made_of: Made,
    pub(super) of_mix: Option<StepOfMix>,
    /// The number of rows in the epoch's order, over all ranks, up to the end of the batch's step.
    pub(super) end: u64,
    pub(super) padded: u64,
}

impl BatchGroup {
    pub(super) fn add(
        &mut self,
        StepRows { sources, picks, withheld, made_of, of_mix, bytes, end, padded }: StepRows,
    ) {
        let before = self.picks.len() as u32;
        self.withheld.extend(withheld.into_iter().map(|pick| before + pick));
        self.bytes += bytes;
        self.batches.push(GroupedBatch { made_of, of_mix, end, padded });
        let indices: Vec<u32> = sources.into_iter().map(|source| self.index(source)).collect();
        if self.picks.is_empty() && indices.iter().enumerate().all(|(at, index)| at == *index as usize) {
            self.picks = picks;
            return;
        }
        self.picks.extend(picks.into_iter().map(|(source, place)| (indices[source as usize], place)));
    }

    /// Returns the index of a source in the group, and adds the source if it is new. Only the latest sources
    /// are searched, since consecutive steps usually take rows from the same few parts.
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
