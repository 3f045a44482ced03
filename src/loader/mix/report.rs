//! What a rank reads in an epoch of a mix.

use std::fmt;

use serde::Serialize;

use crate::loader::sizing::words;
use crate::shard::{MixSplit, MixedEpoch};

/// A summary of one epoch of a mix: see [`Mix::plan`](crate::Mix::plan).
///
/// ```no_run
/// # fn print(mix: forebay::Mix) -> forebay::Result<()> {
/// let plan = mix.plan(0)?;
/// println!("{} steps, {} rows of source 0", plan.steps, plan.sources[0].rows);
/// # Ok(())
/// # }
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MixPlan {
    /// Number of the epoch, from 0.
    pub epoch: u64,
    /// The rank, from 0.
    pub rank: u32,
    /// Number of ranks.
    pub world: u32,
    /// Batches: the same on every rank.
    pub steps: u64,
    /// The number of its first step, counted through all epochs.
    pub first_step: u64,
    /// Rows over all ranks.
    pub rows: u64,
    /// Interleaved lanes of the order of each source.
    pub lanes: u32,
    /// The memory budget, in bytes.
    pub memory: u64,
    /// What comes of each source.
    pub sources: Vec<SourcePlan>,
}

/// What comes of one source in an epoch of a mix.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SourcePlan {
    /// Rows of the source.
    pub size: u64,
    /// Rows of it in the epoch, over all ranks.
    pub rows: u64,
    /// Passes over it that the epoch begins.
    pub passes: u64,
    /// Rows of its last pass that are not read.
    pub unread: u64,
}

impl MixPlan {
    pub(super) fn of(epoch: u64, plan: &MixedEpoch, split: MixSplit, memory: u64) -> Self {
        let of_source = |(source, &rows): (usize, &u64)| {
            let (size, passes) = (plan.sizes[source], plan.passes_of(source));
            // A source that gives nothing is left out as a whole.
            SourcePlan { size, rows, passes, unread: passes.max(1) * size - rows }
        };
        let sources: Vec<SourcePlan> = plan.course.rows().iter().enumerate().map(of_source).collect();
        MixPlan {
            epoch,
            rank: split.shard.rank(),
            world: split.shard.world(),
            steps: plan.course.steps(),
            first_step: plan.first_step,
            rows: sources.iter().map(|source| source.rows).sum(),
            lanes: split.lanes,
            memory,
            sources,
        }
    }
}

impl fmt::Display for MixPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MixPlan { epoch, rank, world, steps, rows, lanes, memory, .. } = self;
        write!(
            f,
            "epoch {epoch}, rank {rank} of {world}: {steps} steps of {rows} rows over all ranks, {lanes} lanes, memory {}",
            words(*memory)
        )?;
        for (number, SourcePlan { size, rows, passes, unread }) in self.sources.iter().enumerate() {
            let share = 100.0 * *rows as f64 / self.rows.max(1) as f64;
            write!(
                f,
                "\nsource {number}: {rows} rows ({share:.2} %) in {passes} {} over {size}, {unread} not read",
                if *passes == 1 { "pass" } else { "passes" }
            )?;
        }
        Ok(())
    }
}
