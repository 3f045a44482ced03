//! How the one memory number is shared out, and whether a window fits it.

use crate::error::{Error, ErrorKind, Result};
use crate::reader::budget::Budget;
use crate::reader::fetch::Fetcher;
use crate::shard::{EpochOrder, OrderSpec, Split, Walk};

/// Batches made ahead of the consumer, at least, where memory allows: one ready, and one for each side's hiccups.
const AHEAD: u64 = 3;

/// Batches are made further ahead where memory allows, up to this many: decoding one row group holds up many small ones,
/// and one photograph of 40 megapixels takes as long as several large ones.
const AHEAD_MOST: u64 = 32;

/// Of the budget, the share that batches made further ahead may take.
const AHEAD_SHARE: u64 = 8;

/// Of the budget, the share that batches may take before fewer are made ahead.
const BATCHES_SHARE: u64 = 2;

/// Batches that are made together take up to this much: enough to read a row group's column in one go, not so much that
/// the consumer waits for what it does not need yet.
const GANG_BYTES: u64 = 16 << 20;

/// Batches that exist beside those that have a place: one that waits for a place, one in the consumer's hands and the one
/// that it had before, and the first one of the next epoch.
const BEYOND_QUEUE: u64 = 4;

/// Steps of an epoch that are walked to see what it holds at most: the opening, which fills the window, and many times
/// the steps in which shares of lanes repeat.
const STEPS_WALKED: usize = 20_000;

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
    /// Batches that are made together at most.
    pub(super) gang: usize,
}

impl Sizing {
    /// Shares `memory` out, for batches of `rows` rows and `bytes` bytes, which `may_gang` says can be made together.
    ///
    /// # Errors
    /// Not even the fewest batches fit.
    pub(super) fn new(memory: u64, rows: u64, bytes: u64, may_gang: bool) -> Result<Self> {
        let bytes = bytes.max(1);
        let least = (1 + BEYOND_QUEUE).saturating_mul(bytes);
        if least >= memory {
            let fits = (memory / (2 * (1 + BEYOND_QUEUE)) / (bytes / rows).max(1)).max(1);
            let cause = format!(
                "{} batches of {} each do not fit the memory budget of {}",
                1 + BEYOND_QUEUE,
                words(bytes),
                words(memory)
            );
            let hint =
                format!("`batch_size={fits}` fits, or raise memory to {}", words(least.saturating_mul(2)));
            return Err(Error::new(ErrorKind::TooLarge, cause).hint(hint));
        }
        let fitting = (memory / BATCHES_SHARE / bytes).saturating_sub(BEYOND_QUEUE).max(1);
        let ahead = (memory / AHEAD_SHARE / bytes).clamp(AHEAD, AHEAD_MOST).min(fitting);
        let most = if may_gang { ahead / 2 } else { 1 };
        let gang = (GANG_BYTES / bytes).clamp(1, most.max(1));
        let batches = (ahead + gang - 1 + BEYOND_QUEUE) * bytes;
        let (ahead, gang) = (ahead as usize, gang as usize);
        Ok(Sizing { memory, batches, row_groups: memory.saturating_sub(batches).max(1), ahead, gang })
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
        let alone = order.pool() == 1 && needed.lanes == 1 && !order.is_exact();
        if alone || needed.bytes <= self.row_groups {
            return Ok(());
        }
        if order.is_exact()
            && let Some(shelf) = &fetcher.shelf
        {
            let all: u64 = (0..counts.len()).filter(|&at| counts[at] > 0).map(|at| fetcher.held(at)).sum();
            if all <= shelf.cache().max_bytes() {
                return Ok(());
            }
            let (most, all) = (words(shelf.cache().max_bytes()), words(all));
            let cause =
                format!("an exact shuffle keeps all rows in the cache, {all}, over its limit of {most}");
            let hint = format!("raise the cache's max_bytes to {all}, or shuffle through a window");
            return Err(Error::new(ErrorKind::TooLarge, cause).hint(hint));
        }
        let total = words(needed.bytes + self.batches);
        let budget = words(self.memory);
        if order.is_exact() {
            let cause =
                format!("an exact shuffle holds all rows in memory, {total}, over the budget of {budget}");
            let hint = format!("raise memory to {total}, give it a cache, or shuffle through a window");
            return Err(Error::new(ErrorKind::TooLarge, cause).hint(hint));
        }
        let cause = format!(
            "the shuffle window of {} row groups in each of {} lanes needs {total} of memory, over the budget of {budget}",
            order.pool(),
            needed.lanes
        );
        let fits =
            |pool: u32| Needed::of(fetcher, counts, &order.with_pool(pool), split).bytes <= self.row_groups;
        let groups = counts.iter().filter(|rows| **rows > 0).count() as u64;
        let hint = match largest(order.pool(), fits) {
            Some(pool) => {
                let rows = u64::from(pool) * (split.rows / groups.max(1));
                format!("`window_rows={rows}` fits, or raise memory to {total}")
            }
            None => format!("raise memory to {total}"),
        };
        Err(Error::new(ErrorKind::TooLarge, cause).hint(hint))
    }
}

/// The largest number below `limit` that fits, where smaller ones fit as well.
fn largest(limit: u32, fits: impl Fn(u32) -> bool) -> Option<u32> {
    let (mut low, mut high) = (0, limit);
    while high - low > 1 {
        let middle = low.midpoint(high);
        if fits(middle) { low = middle } else { high = middle }
    }
    (low > 0).then_some(low)
}

/// What an order needs of the budget for row groups.
struct Needed {
    bytes: u64,
    /// Lanes that the rank reads.
    lanes: u64,
}

impl Needed {
    /// Walks the beginning of an epoch. Epochs differ in which row groups meet, not in how many: the largest are
    /// assumed to.
    fn of(fetcher: &Fetcher, counts: &[u32], order: &OrderSpec, split: Split) -> Self {
        let epoch = EpochOrder::new(counts, order, 0);
        let split = Split { lanes: order.lanes(), ..split };
        let (mut held, mut most) = (0, 0);
        for step in Walk::scout(&epoch, split, 0).take(STEPS_WALKED) {
            held += step.entering.len();
            most = most.max(held);
            held -= step.leaving.len();
        }
        let mut start = 0;
        let mut touched = std::collections::HashSet::new();
        for _ in 0..order.lanes() {
            let Some(share) = split.share(start) else { break };
            touched.extend(share.spans.iter().map(|span| span.lane));
            start = share.end;
        }
        // A part is a row group, or what a lane has of one; it is paid for as a whole.
        let parts = epoch.lanes().iter().enumerate().filter(|(lane, _)| touched.contains(&(*lane as u32)));
        let parts: Vec<_> = match order.is_exact() {
            true => epoch.lanes().iter().take(1).flat_map(|lane| lane.parts()).collect(),
            false => parts.flat_map(|(_, lane)| lane.parts()).collect(),
        };
        let mut costs: Vec<u64> =
            parts.iter().map(|part| Budget::rounded(fetcher.held(part.group as usize))).collect();
        costs.sort_unstable_by(|a, b| b.cmp(a));
        // A batch may straddle one more row group of each lane than the steps that were walked did.
        let most = most + touched.len();
        // While a row group is decoded, it lies beside its rows.
        let stored = parts.iter().map(|part| fetcher.stored(part.group as usize)).max().unwrap_or(0);
        let bytes = costs.iter().take(most).sum::<u64>() + Budget::rounded(stored);
        Needed { bytes, lanes: touched.len() as u64 }
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
