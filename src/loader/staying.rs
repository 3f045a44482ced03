//! Supplies the rows of an epoch if the rows of all row groups are in memory already, kept from earlier
//! epochs. Such an epoch fetches and decodes nothing, and needs no further memory.

use std::sync::Arc;

use forebay_base::{Error, ErrorKind, Result};

use super::prefetch::Scout;
use crate::reader::Resident;
use crate::reader::row_memory::{AllStaying, RowMemory};
use crate::samples::EpochSamples;
use crate::shard::{Deals, Part};

/// Yields the parts of an epoch (runs of rows of one row group) in plan order, each with its rows in memory.
pub(super) struct StayingParts {
    rows: AllStaying,
    memory: Arc<RowMemory>,
    samples: Arc<EpochSamples>,
    deals: Arc<Deals>,
    /// The parts in the order in which the plan needs them. The walk over the plan begins when the first part
    /// is requested, on the thread that requests it.
    entering: Box<dyn Iterator<Item = Part> + Send>,
}

impl StayingParts {
    pub(super) fn new(
        rows: AllStaying,
        memory: Arc<RowMemory>,
        samples: Arc<EpochSamples>,
        deals: Arc<Deals>,
        scout: Scout,
    ) -> Self {
        let steps = std::iter::once_with(scout).flatten();
        let entering = Box::new(steps.flat_map(|step| step.entering));
        StayingParts { rows, memory, samples, deals, entering }
    }

    /// Returns the next part with its rows, and the most bytes that one of its rows can take, counting only
    /// columns whose values differ in length.
    pub(super) fn next(&mut self) -> Result<(Resident, u64)> {
        let part = self.entering.next().ok_or_else(|| {
            Error::new(ErrorKind::Internal, "the plan ended before the steps that follow it")
        })?;
        let staying = self.rows[part.group as usize].as_ref();
        let staying =
            staying.ok_or_else(|| Error::new(ErrorKind::Internal, "a row group is not in memory"))?;
        self.memory.count_served(part.rows);
        let resident = Resident::staying(&self.samples, part, staying).dealt(self.deals.take(&part), false);
        Ok((resident, staying.longest))
    }
}
