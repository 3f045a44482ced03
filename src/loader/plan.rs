//! Summary of what one rank reads in an epoch, from footers alone.

use std::collections::HashMap;
use std::fmt;

use serde::Serialize;

use super::advice::{BetterMixing, better_mixing};
use super::sizing::{Sizing, words};
use crate::reader::pieces::Cost;
use crate::reader::reads::Reads;
use crate::shard::{
    EpochOrder, OrderSpec, Part, Split, Walk, expected_distinct, row_groups_of_a_batch, row_groups_of_step,
};

/// A summary of what one rank reads in one epoch, from footers alone: see [`Loader::plan`](super::Loader::plan).
///
/// ```no_run
/// let loader = forebay::Dataset::open("data/train/")?.loader().batch_size(256).build()?;
/// let plan = loader.plan(0)?;
/// println!("{} steps, {} bytes to read, {} rows repeated", plan.steps, plan.stored_bytes, plan.padded);
/// # Ok::<(), forebay::Error>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RankPlan {
    /// Number of the epoch, from 0.
    pub epoch: u64,
    /// The rank, from 0.
    pub rank: u32,
    /// Number of ranks.
    pub world: u32,
    /// Batches: the same on every rank.
    pub steps: u64,
    /// Rows that this rank receives, repeats included.
    pub rows: u64,
    /// Of these, rows that are repeated so that no rank is without a batch.
    pub padded: u64,
    /// Rows that no rank receives, because they do not fill a step.
    pub dropped: u64,
    /// Interleaved lanes of the order.
    pub lanes: u32,
    /// Row groups that each lane holds to mix.
    pub pool: u32,
    /// Row groups that this rank reads; one that two lanes share counts twice.
    pub row_groups: u64,
    /// Bytes of their column chunks.
    pub stored_bytes: u64,
    /// Most bytes of decoded row groups at any step; for an exact shuffle over a cache, whose rows are used from there,
    /// those of the largest row group.
    pub peak_row_group_bytes: u64,
    /// The step at which these are at hand, counted from 0.
    pub peak_step: u64,
    /// Row groups of which the rows of this rank's batch are, on average: the more, the better they are mixed.
    pub row_groups_of_a_batch: f64,
    /// The same for a batch that is drawn uniformly from all rows, as an exact shuffle does.
    pub row_groups_if_uniform: f64,
    /// The same for the first batch. In epoch 0 the window deals rows while it fills, so its first batches are of fewer row groups: the
    /// first one of an eighth of those that the window holds, and of 32 at most, if they have its rows.
    pub row_groups_of_first_batch: u64,
    /// The step at which the window holds as many row groups as at any later one, counted from 0.
    pub full_window_step: u64,
    /// Where that is far less, because few row groups fit the window: what would mix better.
    pub better_mixing: Vec<BetterMixing>,
    /// Bytes of the budget that are kept for batches.
    pub batch_bytes: u64,
    /// The memory budget, in bytes.
    pub memory: u64,
}

impl RankPlan {
    #[allow(clippy::too_many_arguments, reason = "an order, what it is over, and what it takes")]
    pub(super) fn of(
        order: &EpochOrder,
        counts: &[u32],
        split: Split,
        spec: &OrderSpec,
        epoch: u64,
        reads: &Reads,
        sizing: &Sizing,
        may_cut: bool,
    ) -> Self {
        let now = row_groups_of_a_batch(order, split);
        let each = counts.iter().map(|&rows| rows.into());
        let uniform = expected_distinct(each, split.rows, split.batch().min(split.rows));
        let mut plan = RankPlan {
            epoch,
            rank: split.shard.rank(),
            world: split.shard.world(),
            steps: 0,
            rows: 0,
            padded: 0,
            dropped: split.dropped(0),
            lanes: spec.lanes(),
            pool: spec.pool(),
            row_groups: 0,
            stored_bytes: 0,
            peak_row_group_bytes: 0,
            peak_step: 0,
            row_groups_of_a_batch: now,
            row_groups_if_uniform: uniform,
            row_groups_of_first_batch: row_groups_of_step(order, split, 0),
            full_window_step: 0,
            better_mixing: better_mixing(spec, counts, split, (now, uniform), may_cut),
            batch_bytes: sizing.batches,
            memory: sizing.memory,
        };
        let mut held: HashMap<Part, u64> = HashMap::new();
        let (mut at_hand, mut most_held) = (0, 0);
        let mapped = spec.is_exact() && reads.row_cache.is_some();
        for step in Walk::scout(order, split, 0) {
            plan.steps += 1;
            plan.rows += step.rows;
            plan.padded += step.padded;
            for part in step.entering {
                let Cost { stored, held: bytes, .. } = reads.cost(&part);
                plan.row_groups += 1;
                plan.stored_bytes += stored;
                at_hand = if mapped { bytes } else { at_hand + bytes };
                held.insert(part, bytes);
                if at_hand > plan.peak_row_group_bytes {
                    (plan.peak_row_group_bytes, plan.peak_step) = (at_hand, plan.steps - 1);
                }
            }
            if held.len() > most_held {
                (most_held, plan.full_window_step) = (held.len(), plan.steps - 1);
            }
            for part in step.leaving {
                at_hand = at_hand.saturating_sub(held.remove(&part).unwrap_or(0));
            }
        }
        plan
    }
}

impl fmt::Display for RankPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let better = self.better_mixing.iter().map(|better| {
            format!("; about {:.0} with {}={}", better.row_groups_of_a_batch, better.option, better.rows)
        });
        let better: String = better.collect();
        write!(
            f,
            "epoch {}, rank {} of {}: {} steps, {} rows ({} repeated, {} dropped), {} row groups of {}, \
             {} lanes with a window of {} row groups, {:.0} in a batch ({:.0} if drawn uniformly{}), peak memory {} \
             at step {}",
            self.epoch,
            self.rank,
            self.world,
            self.steps,
            self.rows,
            self.padded,
            self.dropped,
            self.row_groups,
            words(self.stored_bytes),
            self.lanes,
            self.pool,
            self.row_groups_of_a_batch,
            self.row_groups_if_uniform,
            better,
            words(self.peak_row_group_bytes + self.batch_bytes),
            self.peak_step,
        )
    }
}
