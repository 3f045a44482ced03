//! Divides the memory budget among batches, row groups and lists of rows, and checks that the shuffle window
//! fits.

mod needed;

use forebay_base::{Error, ErrorKind, Result};
use forebay_image::Workspace;

use super::semaphore::WITH_CONSUMER;
use crate::reader::budget::{ALONE_BEYOND, Budget};
use crate::reader::reads::Reads;
use crate::samples::SampleIndex;
use crate::shard::{OrderSpec, Split};

pub(super) use crate::reader::budget::words;
use needed::{Needed, listed_while_read};

/// The fewest batches that are made ahead of the consumer, if memory allows: one that is ready, one more in
/// case the loader is late, and one more in case the consumer is.
const MIN_AHEAD: u64 = 3;

/// The most batches that are made ahead of the consumer. It covers delays: decoding one row group holds up
/// many small batches, and decoding one photograph of 40 megapixels takes as long as several large batches.
const MAX_AHEAD: u64 = 32;

/// Batches beyond [`MIN_AHEAD`] may take at most the budget divided by this number.
const AHEAD_DIVISOR: u64 = 8;

/// All batches together may take at most the budget divided by this number. If they would take more, fewer
/// are made ahead.
const BATCHES_DIVISOR: u64 = 2;

/// The number of row groups, or bunches of small row groups, that may be decoded before the plan needs them.
/// One is then always ready, and they are few enough to be still in the processor's caches.
pub(super) const READ_AHEAD: usize = 2;

/// The memory that a run takes beside row groups and batches: for threads, and for freed memory that the
/// allocator keeps.
pub(super) const OVERHEAD_BYTES: u64 = 16 << 20;

/// Determines how many batches are made together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grouping {
    /// Each batch is made alone, because making one takes long.
    Alone,
    /// The rows of each part are already in the order of delivery. Enough batches are made together that the
    /// work on a column takes longer than giving it to a thread.
    Dealt,
    /// The rows are in stored order, so a batch takes them from anywhere. Several batches are made together,
    /// so that a row group's column is read once for all of them. They are few enough that the consumer does
    /// not wait for batches that it does not need yet.
    Scattered,
}

impl Grouping {
    /// The total size in bytes that batches which are made together should have. `row` is the size of a row.
    fn bytes(self, row: u64) -> u64 {
        const MOST: u64 = 16 << 20;
        const DEALT_ROWS: u64 = 24 << 10;
        match self {
            Grouping::Alone => 0,
            Grouping::Dealt => row.saturating_mul(DEALT_ROWS).min(MOST),
            Grouping::Scattered => MOST,
        }
    }
}

/// The number of batches that may exist without a permit: one that waits for a permit, the current and the
/// previous batch of the consumer, and the first batch of the next epoch.
const BATCHES_BEYOND_QUEUE: u64 = 4;

/// The memory that each row of a batch takes while the batch is made, to locate the row: its source and its
/// index, once in the order of the batch and once in the order of reading.
const PLACE_BYTES: u64 = 24;

/// The most steps of the search for a budget that an error suggests. Each step adds the missing bytes to the
/// budget; row groups get at least a third of them.
const MAX_TRIES: usize = 64;

/// If a row group is too large to be shuffled as a whole, the suggested pieces take at most the memory for
/// row groups divided by this number.
const PIECE_DIVISOR: u64 = 16;

/// If the lists of rows in a window take more than the budget divided by this number, the next epoch is
/// prepared late, so that the lists of two epochs do not exist together for long.
const LISTS_DIVISOR: u64 = 16;

/// The next epoch is prepared after the first `steps / NEXT_AFTER_DIVISOR` steps of an epoch or, if lists are
/// long, before the last `steps / NEXT_AFTER_DIVISOR` steps.
const NEXT_AFTER_DIVISOR: u64 = 4;

/// The memory budget, divided among its uses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizing {
    /// The whole budget.
    pub(super) memory: u64,
    /// The bytes for batches.
    pub(super) batches: u64,
    /// The bytes for row groups: those that are being fetched or decoded, and those in the window.
    pub(super) row_groups: u64,
    /// The bytes for the lists of rows that hold the shuffled order of the window.
    pub(super) lists: u64,
    asked: Asked,
    /// The number of batches that are made ahead of the consumer, which is the length of their queue.
    pub(super) ahead: usize,
    /// The most batches that are made together.
    pub(super) group: usize,
}

/// The size of batches, from the user's options.
#[derive(Clone, Copy, Debug)]
pub(super) struct Batches {
    /// The number of rows, or samples, of a batch.
    pub(super) rows: u64,
    /// The bytes of a batch.
    pub(super) bytes: u64,
    /// How many of `bytes` do not depend on the number of rows in a sample.
    pub(super) beside_rows: u64,
    pub(super) grouping: Grouping,
    /// Whether decoding needs memory for temporary buffers, for which a part of the budget is set aside.
    pub(super) uses_workspace: bool,
    /// Whether each part keeps its deal, the list of its rows in the order of delivery, as long as it exists.
    pub(super) needs_deals: bool,
}

impl Batches {
    /// The bytes of a row in a batch.
    pub(super) fn row_bytes(self) -> u64 {
        self.bytes / self.rows.max(1)
    }

    /// The bytes that a batch takes while it is made.
    fn bytes_of_each(self) -> u64 {
        self.bytes.max(1).saturating_add(self.rows.saturating_mul(PLACE_BYTES))
    }

    /// The bytes of the fewest batches with which a loader works. The budget must be larger.
    fn least(self) -> u64 {
        (1 + BATCHES_BEYOND_QUEUE).saturating_mul(self.bytes_of_each())
    }

    /// Returns these batches with `rows` rows instead.
    pub(super) fn of_rows(self, rows: u64) -> Self {
        let beside_rows = self.beside_rows / self.rows.max(1) * rows;
        Batches { rows, bytes: self.row_bytes() * rows, beside_rows, ..self }
    }

    /// Returns these batches for samples of up to `rows` rows, instead of single rows.
    pub(super) fn of_samples(self, rows: u64) -> Self {
        let of_rows = self.bytes.saturating_sub(self.beside_rows);
        Batches { bytes: of_rows.saturating_mul(rows).saturating_add(self.beside_rows), ..self }
    }
}

/// The inputs of the sizing, from which an error computes the budget or the options that it suggests.
#[derive(Clone, Copy, Debug)]
struct Asked {
    batches: Batches,
    /// The average number of rows in a row group.
    group_rows: u64,
    /// An error may suggest to shuffle row groups in pieces, but only in pieces of fewer rows than this.
    pieces_below: u64,
    /// The bytes of data that the loader keeps about the data set: the sets of selected rows and the catalog.
    beside: u64,
}

impl Sizing {
    /// Divides the budget `memory` between batches, the temporary buffers of decoding and, with the rest, row
    /// groups.
    ///
    /// # Errors
    /// Fails if the budget is too small even for the fewest batches.
    pub(super) fn new(memory: u64, batches: Batches) -> Result<Self> {
        let Batches { rows, bytes, grouping, uses_workspace, .. } = batches;
        let made_together = bytes.max(1);
        let bytes = batches.bytes_of_each();
        let least = batches.least();
        if least >= memory {
            let fits = memory / (2 * (1 + BATCHES_BEYOND_QUEUE)) / (bytes / rows).max(1);
            let cause = format!(
                "{} batches of {} each do not fit the memory budget of {}",
                1 + BATCHES_BEYOND_QUEUE,
                words(bytes),
                words(memory)
            );
            let enough = words(least.saturating_mul(2));
            let hint = match (1..rows).contains(&fits) {
                true => format!("`batch_size={fits}` fits, or raise `memory` to {enough}"),
                false => format!("raise `memory` to {enough}"),
            };
            return Err(Error::new(ErrorKind::TooLarge, cause).hint(hint));
        }
        let fitting = (memory / BATCHES_DIVISOR / bytes).saturating_sub(BATCHES_BEYOND_QUEUE).max(1);
        let ahead = (memory / AHEAD_DIVISOR / bytes).clamp(MIN_AHEAD, MAX_AHEAD).min(fitting);
        let group =
            (grouping.bytes(made_together / rows.max(1)) / made_together).clamp(1, (ahead / 2).max(1));
        let all = (ahead + group - 1 + BATCHES_BEYOND_QUEUE) * bytes;
        let (ahead, group) = (ahead as usize, group as usize);
        let aside = if uses_workspace { Workspace::set_aside(memory) } else { 0 };
        let row_groups = memory.saturating_sub(all).saturating_sub(aside).max(1);
        let batches = Batches { bytes: made_together, ..batches };
        let asked = Asked { batches, group_rows: 0, pieces_below: 0, beside: 0 };
        Ok(Sizing { memory, batches: all, row_groups, lists: 0, asked, ahead, group })
    }

    /// Adds the average number of rows in a row group, or in a piece if `order` cuts row groups into pieces.
    /// `counts` has the number of rows that are read of each row group. An error may suggest pieces of fewer
    /// rows than `pieces_below`.
    pub(super) fn with_rows(self, counts: &[u32], order: &OrderSpec, pieces_below: u64) -> Self {
        let rows: u64 = counts.iter().map(|rows| u64::from(*rows)).sum();
        let pieces: usize = order.cuts().values().map(Vec::len).sum();
        let groups = (counts.iter().filter(|rows| **rows > 0).count() + pieces) as u64;
        Sizing { asked: Asked { group_rows: rows / groups.max(1), pieces_below, ..self.asked }, ..self }
    }

    /// Takes `bytes` from the share of row groups, for the data that the loader keeps about the data set: its
    /// footers, the values of the filter and the selection of rows.
    pub(super) fn beside(self, bytes: u64) -> Self {
        let asked = Asked { beside: bytes, ..self.asked };
        Sizing { row_groups: self.row_groups.saturating_sub(bytes).max(1), asked, ..self }
    }

    /// Checks that the data that the loader keeps about a data set, of `bytes` bytes, leaves memory for row
    /// groups.
    ///
    /// # Errors
    /// Fails if it leaves nothing.
    pub(super) fn check_beside(&self, bytes: u64) -> Result<()> {
        if bytes < self.row_groups {
            return Ok(());
        }
        let cause = format!(
            "the footers, the values of the filter and the selection of rows take {}, over the {} that \
             a memory of {} leaves for them",
            words(bytes),
            words(self.row_groups),
            words(self.memory)
        );
        let enough = words(self.beside(bytes).total(self.row_groups));
        let hint = format!("raise `memory` to {enough}, or read fewer files or values");
        Err(Error::new(ErrorKind::TooLarge, cause).hint(hint))
    }

    /// Divides the share of row groups between row groups and lists of rows. Lists get what they need, but
    /// row groups always keep enough to hold the largest row group alone. If the footers do not tell how long
    /// the values of columns are, batches get half of the budget, unless row groups need more than the other
    /// half.
    ///
    /// # Errors
    /// Fails if the window does not fit, or if a row group does not fit even alone.
    pub(super) fn settle(
        self,
        reads: &Reads,
        samples: &SampleIndex,
        order: &OrderSpec,
        split: Split,
        are_lengths_known: bool,
    ) -> Result<Self> {
        let Needed { row_groups: needed, lists, largest, .. } = self.needed(reads, samples, order, split)?;
        let alone = Budget::rounded(largest.saturating_sub(ALONE_BEYOND)).min(self.row_groups);
        let rest = self.row_groups.saturating_sub(lists).max(alone);
        let lists = self.row_groups - rest;
        if are_lengths_known {
            return Ok(Sizing { row_groups: rest, lists, ..self });
        }
        let row_groups = rest.min((self.memory / BATCHES_DIVISOR).max(needed));
        Ok(Sizing { batches: self.batches + rest - row_groups, row_groups, lists, ..self })
    }

    /// Fails if the window of an order does not fit into memory. The error suggests a number of rows that
    /// fits.
    pub(super) fn check(
        &self,
        reads: &Reads,
        samples: &SampleIndex,
        order: &OrderSpec,
        split: Split,
    ) -> Result<()> {
        self.needed(reads, samples, order, split).map(drop)
    }

    /// Whether an order and the largest row group still fit if `bytes` of the memory for row groups are used
    /// for something else.
    pub(super) fn fits_beside(
        &self,
        bytes: u64,
        reads: &Reads,
        samples: &SampleIndex,
        order: &OrderSpec,
        split: Split,
    ) -> bool {
        let rest = Sizing { row_groups: self.row_groups.saturating_sub(bytes), ..*self };
        let needed = rest.needed(reads, samples, order, split);
        needed.is_ok_and(|needed| needed.row_groups.max(needed.largest) <= rest.row_groups)
    }

    /// Returns the memory that an order needs. Fails if it does not fit into the budget, with an error that
    /// suggests options that fit.
    fn needed(
        &self,
        reads: &Reads,
        samples: &SampleIndex,
        order: &OrderSpec,
        split: Split,
    ) -> Result<Needed> {
        let room = self.row_groups + self.lists;
        let given = || (0..samples.most().len()).filter(|&group| samples.most()[group] > 0);
        let (listed, budget) = (listed_while_read(samples, order), Budget::new(room));
        let needed = Needed::for_order(reads, samples, order, split, self.asked.batches.needs_deals);
        let alone = |group: usize| reads.alone(group, samples.most()[group], listed);
        let largest_group = given().max_by_key(|group| alone(*group).bytes);
        if let Some(group) = largest_group {
            let alone = alone(group);
            // The suggested budget must be enough for the window too. Otherwise the user who follows it would
            // get another error, with a larger suggestion.
            let whole = alone.bytes.max(self.window_bytes(reads, needed, order));
            let admitted = reads.admit(&alone, &budget, |_| self.total(whole));
            admitted.map_err(|error| {
                let small = order.with_pool(1);
                let needed = Needed::for_order(reads, samples, &small, split, self.asked.batches.needs_deals);
                let less = alone.bytes.max(self.window_bytes(reads, needed, &small));
                let hints = [
                    (order.pool() > 1 && less < whole).then(|| {
                        let (rows, total) = (self.asked.group_rows, words(self.total(less)));
                        format!("{total} are enough with `window_rows={rows}`")
                    }),
                    self.pieces_that_fit(reads, group, samples.most()[group], listed),
                ];
                hints.into_iter().flatten().fold(error, |error, hint| error.hint_also(&hint))
            })?;
        }
        let alone = is_alone(needed, order);
        let fits = |needed: Needed| {
            needed.row_groups <= self.row_groups && needed.row_groups.saturating_add(needed.lists) <= room
        };
        if alone || fits(needed) {
            return Ok(needed);
        }
        if order.is_exact()
            && let Some(row_cache) = &reads.row_cache
            && row_cache.cache().is_mapped()
        {
            let all: u64 = given().map(|group| reads.kept(group)).sum();
            if all <= row_cache.cache().max_bytes() {
                return self.check_heads(reads, samples.most()).map(|()| needed);
            }
            let (most, all) = (words(row_cache.cache().max_bytes()), words(all));
            let cause =
                format!("an exact shuffle keeps all rows in the cache, {all}, over its limit of {most}");
            let hint = format!("raise the cache's max_bytes to {all}, or shuffle through a window");
            return Err(Error::new(ErrorKind::TooLarge, cause).hint(hint));
        }
        let total = words(self.total(needed.row_groups + needed.lists));
        let budget = words(self.memory);
        if order.is_exact() {
            let cause =
                format!("an exact shuffle holds all rows in memory, {total}, over the budget of {budget}");
            let hint = format!("raise `memory` to {total}, use a cache, or shuffle through a window");
            return Err(Error::new(ErrorKind::TooLarge, cause).hint(hint));
        }
        let cause = format!(
            "the shuffle window of {} row groups in each of {} lanes needs {total} of memory, over the budget of {budget}",
            order.pool(),
            needed.lanes
        );
        let fits = |pool: u32| {
            let needed = Needed::for_order(
                reads,
                samples,
                &order.with_pool(pool),
                split,
                self.asked.batches.needs_deals,
            );
            (pool == 1 && needed.lanes == 1) || fits(needed)
        };
        let hint = match largest(order.pool(), fits) {
            Some(pool) => {
                let rows = u64::from(pool) * self.asked.group_rows;
                format!("`window_rows={rows}` fits, or raise `memory` to {total}")
            }
            None => format!("raise `memory` to {total}"),
        };
        Err(Error::new(ErrorKind::TooLarge, cause).hint(hint))
    }

    /// The memory in bytes that the row groups and lists of a window take. It is 0 if row groups get memory
    /// one at a time, or if a cache on disk holds all rows.
    fn window_bytes(&self, reads: &Reads, needed: Needed, order: &OrderSpec) -> u64 {
        let is_mapped = reads.row_cache.as_ref().is_some_and(|row_cache| row_cache.cache().is_mapped());
        match is_alone(needed, order) || (order.is_exact() && is_mapped) {
            true => 0,
            false => needed.row_groups.saturating_add(needed.lists),
        }
    }

    /// The hint to shuffle in pieces, for a row group of `rows` rows that is too large as a whole. `None` if
    /// the row group cannot be cut, or if its pieces are small enough already.
    fn pieces_that_fit(&self, reads: &Reads, group: usize, rows: u32, listed: u64) -> Option<String> {
        let share = u128::from(self.row_groups / PIECE_DIVISOR);
        reads.in_each_piece(group).filter(|whole| u128::from(*whole) <= share)?;
        let bytes = reads.group_cost(group).total().saturating_add(listed.saturating_mul(rows.into()));
        let fit = (u128::from(rows) * share / u128::from(bytes.max(1))).max(1);
        let is_smaller = fit < u128::from(self.asked.pieces_below);
        is_smaller.then(|| format!("or shuffle in pieces: `piece_rows={fit}`"))
    }

    /// Fails if the heads do not fit into memory. Heads, the first rows of row groups that samples of earlier
    /// row groups need, stay in memory even if the cache holds all other rows.
    fn check_heads(&self, reads: &Reads, counts: &[u32]) -> Result<()> {
        let groups = (0..counts.len()).filter(|&group| counts[group] > 0);
        let heads: u64 = groups.clone().map(|group| reads.heads.cost(group as u32).held).sum();
        let largest = groups.map(|group| reads.whole_cost(group).total()).max().unwrap_or(0);
        let needed = heads.saturating_add(largest);
        if heads == 0 || needed <= self.row_groups {
            return Ok(());
        }
        let cause = format!(
            "an exact shuffle holds in memory the rows of other row groups that samples reach into, {}, \
             over the budget of {}",
            words(self.total(needed)),
            words(self.memory)
        );
        let hint = format!("raise `memory` to {}, or shuffle through a window", words(self.total(needed)));
        Err(Error::new(ErrorKind::TooLarge, cause).hint(hint))
    }

    /// The least memory budget, in bytes, that holds the window of an order.
    pub(super) fn least(&self, reads: &Reads, samples: &SampleIndex, order: &OrderSpec, split: Split) -> u64 {
        let needed = Needed::for_order(reads, samples, order, split, self.asked.batches.needs_deals);
        self.total_from(0, needed.row_groups.saturating_add(needed.lists))
    }

    /// A budget that leaves `bytes` to row groups and lists, and is not smaller than the current one.
    fn total(&self, bytes: u64) -> u64 {
        self.total_from(self.memory, bytes)
    }

    /// Finds a budget of at least `memory` that leaves `bytes` to row groups and lists. The share of batches
    /// depends on the budget, so the result is found by trying larger and larger budgets.
    fn total_from(&self, memory: u64, bytes: u64) -> u64 {
        let Asked { batches, beside, .. } = self.asked;
        let mut memory = memory.max(bytes).max(batches.least().saturating_add(1));
        for _ in 0..MAX_TRIES {
            let left = Sizing::new(memory, batches).map_or(0, |sizing| sizing.row_groups);
            let left = left.saturating_sub(beside);
            if left >= bytes {
                break;
            }
            memory = memory.saturating_add(bytes - left);
        }
        memory
    }

    /// The most bytes that one batch may take if no other batch is being made. Memory for the batches that
    /// the consumer holds is set aside first.
    pub(super) fn largest_batch(&self) -> u64 {
        (self.batches.max(self.memory / BATCHES_DIVISOR) + ALONE_BEYOND) / (1 + WITH_CONSUMER)
    }

    /// The size in bytes of one batch with rows of average length.
    pub(super) fn batch_bytes(&self) -> u64 {
        self.asked.batches.bytes
    }

    /// The memory that an epoch of `steps` steps is expected to take, if its row groups take `row_groups`
    /// bytes. All batches that are made ahead are counted, with rows of average length.
    pub(super) fn expected(&self, row_groups: u64, steps: u64) -> u64 {
        let made = steps.min(self.ahead as u64 + WITH_CONSUMER);
        let batches = self.asked.batches.bytes.saturating_mul(made);
        row_groups.min(self.row_groups).saturating_add(batches).saturating_add(OVERHEAD_BYTES)
    }

    /// The most memory that row groups and batches can take, if `row_groups` is the size of all row groups
    /// that can be in memory at once.
    pub(super) fn most(&self, row_groups: u64) -> u64 {
        let row_groups = row_groups.saturating_add(self.lists).min(self.row_groups + self.lists);
        self.batches.saturating_add(row_groups).saturating_add(OVERHEAD_BYTES).min(self.memory)
    }

    /// The budget without the data that the loader keeps about the data set, which is in memory already.
    pub(super) fn promised(&self) -> u64 {
        self.memory.saturating_sub(self.asked.beside)
    }

    /// The number of the step at which the next epoch is prepared, in an epoch of `steps` steps.
    pub(super) fn next_at(&self, steps: u64) -> u64 {
        let early = steps / NEXT_AFTER_DIVISOR;
        if self.lists <= self.memory / LISTS_DIVISOR { early } else { steps - early }
    }
}

/// Whether row groups are granted memory one at a time. Such an order always fits, because the largest row
/// group was already checked against the budget by itself.
fn is_alone(needed: Needed, order: &OrderSpec) -> bool {
    order.pool() == 1 && needed.lanes == 1 && !order.is_exact()
}

/// Finds the largest number from 1 to `limit` - 1 that fits, by binary search; `None` if none fits. If a
/// number fits, all smaller ones must fit too.
fn largest(limit: u32, fits: impl Fn(u32) -> bool) -> Option<u32> {
    let (mut low, mut high) = (0, limit);
    while high - low > 1 {
        let middle = low.midpoint(high);
        if fits(middle) { low = middle } else { high = middle }
    }
    (low > 0).then_some(low)
}
