//! How the one memory number is shared out, and whether a window fits it.

use crate::error::{Error, ErrorKind, Result};
use crate::reader::fetch::Fetcher;
use crate::shard::{OrderSpec, Split};

/// Batches made ahead of the consumer, at least, where memory allows: one ready, and one for each side's hiccups.
const AHEAD: u64 = 3;

/// Small batches are made further ahead, up to this many: decoding one row group holds up many of them.
const AHEAD_SMALL: u64 = 32;

/// Of the budget, the share that small batches made ahead may take.
const SMALL_SHARE: u64 = 32;

/// Of the budget, the share that batches may take before fewer are made ahead.
const BATCHES_SHARE: u64 = 2;

/// Batches that are made together take up to this much: enough to read a row group's column in one go, not so much that
/// the consumer waits for what it does not need yet.
const GANG_BYTES: u64 = 16 << 20;

/// Batches that exist beside those in the queue: one in the consumer's hands, one that waits for room in the queue.
const BEYOND_QUEUE: u64 = 2;

/// The budget, shared out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizing {
    /// All of it.
    pub(super) memory: u64,
    /// For batches.
    pub(super) batches: u64,
    /// For row groups: in flight, and in the window.
    pub(super) row_groups: u64,
    /// Length of the queue of batches.
    pub(super) ahead: usize,
}

impl Sizing {
    /// Shares `memory` out, for batches of `batch_bytes`.
    pub(super) fn new(memory: u64, batch_bytes: u64) -> Self {
        let batch_bytes = batch_bytes.max(1);
        let fitting = (memory / BATCHES_SHARE / batch_bytes).saturating_sub(BEYOND_QUEUE);
        let ahead = (memory / SMALL_SHARE / batch_bytes).clamp(AHEAD, AHEAD_SMALL).min(fitting).max(1);
        let batches = (ahead + BEYOND_QUEUE).saturating_mul(batch_bytes).min(memory / BATCHES_SHARE);
        Sizing { memory, batches, row_groups: memory - batches, ahead: ahead as usize }
    }

    /// How many batches of `batch_bytes` to make together.
    pub(super) fn gang(&self, batch_bytes: u64) -> usize {
        (GANG_BYTES / batch_bytes.max(1)).clamp(1, (self.ahead as u64 / 2).max(1)) as usize
    }

    /// Refuses a window that does not fit, with the number that does.
    pub(super) fn check(
        &self,
        fetcher: &Fetcher,
        counts: &[u32],
        order: &OrderSpec,
        split: Split,
    ) -> Result<()> {
        let needed = Needed::of(fetcher, counts, order, split);
        // One row group at a time always passes, however large it is.
        let alone = order.pool() == 1 && needed.lanes == 1 && !needed.all;
        if alone || needed.bytes(order.pool()) <= self.row_groups {
            return Ok(());
        }
        let fits = (1..order.pool()).rev().find(|pool| needed.bytes(*pool) <= self.row_groups);
        let total = words(needed.bytes(order.pool()) + self.batches);
        let error = Error::new(
            ErrorKind::TooLarge,
            if needed.all {
                format!(
                    "an exact shuffle holds all rows in memory, {total}, over the budget of {}",
                    words(self.memory)
                )
            } else {
                format!(
                    "the shuffle window of {} row groups in each of {} lanes needs {total} of memory, over the budget of {}",
                    order.pool(),
                    needed.lanes,
                    words(self.memory)
                )
            },
        );
        Err(error.hint(match fits {
            Some(pool) if !needed.all => {
                format!("window_rows={} fits, or raise memory to {total}", u64::from(pool) * needed.mean_rows)
            }
            _ => format!(
                "raise memory to {total}{}",
                if needed.all { ", or shuffle through a window" } else { "" }
            ),
        }))
    }
}

/// What an order needs of the budget for row groups.
struct Needed {
    /// What row groups take once decoded, largest first, as running sums.
    sums: Vec<u64>,
    /// The largest row group as stored: it lies beside its rows while it is decoded.
    stored: u64,
    /// Lanes that the rank reads.
    lanes: u64,
    /// Row groups that one lane's share of a batch may span beyond the pool.
    span: u64,
    mean_rows: u64,
    all: bool,
}

impl Needed {
    fn of(fetcher: &Fetcher, counts: &[u32], order: &OrderSpec, split: Split) -> Self {
        let present = || (0..counts.len()).filter(|&group| counts[group] > 0);
        let mut held: Vec<u64> = present().map(|group| fetcher.held(group)).collect();
        held.sort_unstable_by(|a, b| b.cmp(a));
        let stored = present().map(|group| fetcher.stored(group)).max().unwrap_or(0);
        let mean_rows = (split.rows / (held.len() as u64).max(1)).max(1);
        let world = u64::from(split.shard.world());
        let lanes = u64::from(order.lanes()).div_ceil(world)
            + u64::from(!u64::from(order.lanes()).is_multiple_of(world));
        let lanes = lanes.min(u64::from(order.lanes()));
        let span = split.batch.div_ceil(lanes).div_ceil(mean_rows);
        let mut sum = 0;
        let sums = held.iter().map(|bytes| {
            sum += bytes;
            sum
        });
        Needed { sums: sums.collect(), stored, lanes, span, mean_rows, all: order.is_exact() }
    }

    /// Row groups at hand at once in one lane.
    fn at_once(&self, pool: u32) -> u64 {
        u64::from(pool) + self.span
    }

    fn bytes(&self, pool: u32) -> u64 {
        let groups = if self.all { u64::MAX } else { self.at_once(pool).saturating_mul(self.lanes) };
        let groups = groups.min(self.sums.len() as u64);
        self.stored + groups.checked_sub(1).map_or(0, |last| self.sums[last as usize])
    }
}

/// Bytes in words, rounded up so that a number that is quoted back is enough.
pub(super) fn words(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    for (unit, name) in UNITS {
        if bytes >= unit {
            return format!("{:.1} {name}", (bytes as f64 / unit as f64 * 10.0).ceil() / 10.0);
        }
    }
    format!("{bytes} bytes")
}
