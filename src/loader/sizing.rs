//! Divides the memory budget, and checks that a window fits it.

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

/// The fewest batches made ahead of the consumer, if memory allows: one ready, and one for a delay on each
/// side.
const MIN_AHEAD: u64 = 3;

/// The most batches that are made ahead, if memory allows. Decoding one row group holds up many small
/// batches, and one photograph of 40 megapixels takes as long as several large ones.
const MAX_AHEAD: u64 = 32;

/// Batches beyond [`MIN_AHEAD`] may take at most the budget divided by this number.
const AHEAD_DIVISOR: u64 = 8;

/// Batches may take the budget divided by this number; beyond that, fewer are made ahead.
const BATCHES_DIVISOR: u64 = 2;

/// How many row groups, or bunches of small ones, may wait, decoded or being decoded, until the plan needs
/// them: enough that one is always ready, and few enough that they are still in the processor's caches.
pub(super) const READ_AHEAD: usize = 2;

/// The bytes that a run takes in addition to row groups and batches: for threads, and for what the allocator
/// keeps.
pub(super) const OVERHEAD_BYTES: u64 = 16 << 20;

/// How many batches are made together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grouping {
    /// Each batch is made alone, because making one takes long.
    Alone,
    /// The rows are in the order in which they are dealt. Enough batches are made together that the work on a
    /// column outweighs handing it out.
    Dealt,
    /// The rows are anywhere. Enough batches are made together that a row group's column is read in one go,
    /// and few enough that the consumer does not wait for batches that it does not need yet.
    Scattered,
}

impl Grouping {
    /// The number of bytes that the batches which are made together have, if a row has `row` bytes.
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

/// The number of batches that exist in addition to those that have a permit: one that waits for a permit, the
/// consumer's present one and the one before it, and the first one of the next epoch.
const BATCHES_BEYOND_QUEUE: u64 = 4;

/// The bytes that locate a row of a batch while it is made: source and row, in the order of the batch and in
/// the order of reading.
const PLACE_BYTES: u64 = 24;

/// How often a larger budget is tried before it is suggested. Each time the missing bytes are added, of which
/// row groups get at least a third.
const MAX_TRIES: usize = 64;

/// A piece of a row group that is too large to be shuffled as a whole should take the memory for row groups
/// divided by this number.
const PIECE_DIVISOR: u64 = 16;

/// If lists take more than the budget divided by this number, those of the next epoch are made late.
const LISTS_DIVISOR: u64 = 16;

/// The next epoch is prepared when an epoch's steps divided by this number are done; if lists are long, when
/// that number of steps is left.
const NEXT_AFTER_DIVISOR: u64 = 4;

/// The memory budget, divided among its uses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizing {
    /// The whole budget.
    pub(super) memory: u64,
    /// The bytes for batches.
    pub(super) batches: u64,
    /// The bytes for row groups: in flight, and in the window.
    pub(super) row_groups: u64,
    /// The bytes for the lists of rows that mix a window.
    pub(super) lists: u64,
    asked: Asked,
    /// The number of batches that are made ahead of the consumer, which is the length of their queue.
    pub(super) ahead: usize,
    /// The most batches that are made together.
    pub(super) group: usize,
}

/// Batches as the user asked for them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Batches {
    /// The number of rows, or samples, of a batch.
    pub(super) rows: u64,
    /// The bytes of a batch.
    pub(super) bytes: u64,
    /// The part of these bytes that does not depend on the number of rows in a sample.
    pub(super) beside_rows: u64,
    pub(super) grouping: Grouping,
    /// Whether decoding takes memory from the workspace, for which a part is set aside.
    pub(super) uses_workspace: bool,
    /// Whether the deals of parts are kept as long as the parts.
    pub(super) needs_deals: bool,
}

impl Batches {
    /// The bytes of a row in a batch.
    pub(super) fn row_bytes(self) -> u64 {
        self.bytes / self.rows.max(1)
    }

    /// The same batches, but with `rows` rows.
    pub(super) fn of_rows(self, rows: u64) -> Self {
        let beside_rows = self.beside_rows / self.rows.max(1) * rows;
        Batches { rows, bytes: self.row_bytes() * rows, beside_rows, ..self }
    }

    /// Batches of samples that have up to `rows` rows.
    pub(super) fn of_samples(self, rows: u64) -> Self {
        let of_rows = self.bytes.saturating_sub(self.beside_rows);
        Batches { bytes: of_rows.saturating_mul(rows).saturating_add(self.beside_rows), ..self }
    }
}

/// The numbers from which an error suggests a sufficient budget.
#[derive(Clone, Copy, Debug)]
struct Asked {
    batches: Batches,
    /// The average number of rows in a row group.
    group_rows: u64,
    /// An error may suggest pieces of fewer rows than this.
    pieces_below: u64,
    /// The bytes that grow with the data set, for the sets of selected rows and for the catalogue.
    beside: u64,
}

impl Sizing {
    /// Divides `memory` for batches, with a part for the workspace if decoding uses it.
    ///
    /// # Errors
    /// Fails if the budget is too small even for the fewest batches.
    pub(super) fn new(memory: u64, batches: Batches) -> Result<Self> {
        let Batches { rows, bytes, grouping, uses_workspace, .. } = batches;
        let made_together = bytes.max(1);
        let bytes = made_together.saturating_add(rows.saturating_mul(PLACE_BYTES));
        let least = (1 + BATCHES_BEYOND_QUEUE).saturating_mul(bytes);
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

    /// The sizing for row groups of which these numbers of rows are read, in the pieces of an order. An error
    /// may suggest pieces of fewer rows than `pieces_below`.
    pub(super) fn with_rows(self, counts: &[u32], order: &OrderSpec, pieces_below: u64) -> Self {
        let rows: u64 = counts.iter().map(|rows| u64::from(*rows)).sum();
        let pieces: usize = order.cuts().values().map(Vec::len).sum();
        let groups = (counts.iter().filter(|rows| **rows > 0).count() + pieces) as u64;
        Sizing { asked: Asked { group_rows: rows / groups.max(1), pieces_below, ..self.asked }, ..self }
    }

    /// The sizing with `bytes` taken from the share of row groups, for the data that is kept for the data
    /// set.
    pub(super) fn beside(self, bytes: u64) -> Self {
        let asked = Asked { beside: bytes, ..self.asked };
        Sizing { row_groups: self.row_groups.saturating_sub(bytes).max(1), asked, ..self }
    }

    /// Checks that the data that is kept for a data set leaves some of this budget to row groups.
    ///
    /// # Errors
    /// The data leaves nothing.
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

    /// Sets the share of row groups: the rest after the lists, but enough for the largest row group to be
    /// granted alone, when only its own lists exist. If the footers do not give the lengths of values,
    /// batches get half of the budget, unless the row groups need more.
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

    /// Refuses a window that does not fit, and names the number of rows that does.
    pub(super) fn check(
        &self,
        reads: &Reads,
        samples: &SampleIndex,
        order: &OrderSpec,
        split: Split,
    ) -> Result<()> {
        self.needed(reads, samples, order, split).map(drop)
    }

    /// Whether an order fits if `bytes` of the memory for row groups are used for other things, and the
    /// largest row group fits into the rest as well.
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

    /// The part of the budget that an order needs, if it fits.
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
        let of_group = |group: usize| (group, samples.most()[group]);
        let largest_group =
            given().max_by_key(|group| reads.alone(of_group(*group), listed).bytes).map(of_group);
        if let Some(group) = largest_group {
            let alone = reads.alone(group, listed);
            // The suggested budget is enough for the window as well; otherwise the next error would name a
            // larger one.
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
                    self.pieces_that_fit(reads, group, listed),
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
            let all: u64 = given().map(|group| reads.held(group)).sum();
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

    /// The bytes of row groups and lists that a window takes; 0 if row groups are granted memory one at a
    /// time, or if a cache holds all rows.
    fn window_bytes(&self, reads: &Reads, needed: Needed, order: &OrderSpec) -> u64 {
        let is_mapped = reads.row_cache.as_ref().is_some_and(|row_cache| row_cache.cache().is_mapped());
        match is_alone(needed, order) || (order.is_exact() && is_mapped) {
            true => 0,
            false => needed.row_groups.saturating_add(needed.lists),
        }
    }

    /// The hint to shuffle in pieces, for a row group of `rows` rows that is too large otherwise; none if it
    /// is in pieces that are small enough already, or cannot be cut.
    fn pieces_that_fit(&self, reads: &Reads, (group, rows): (usize, u32), listed: u64) -> Option<String> {
        let share = u128::from(self.row_groups / PIECE_DIVISOR);
        reads.in_each_piece(group).filter(|whole| u128::from(*whole) <= share)?;
        let bytes = reads.group_cost(group).total().saturating_add(listed.saturating_mul(rows.into()));
        let fit = (u128::from(rows) * share / u128::from(bytes.max(1))).max(1);
        let is_smaller = fit < u128::from(self.asked.pieces_below);
        is_smaller.then(|| format!("or shuffle in pieces: `piece_rows={fit}`"))
    }

    /// Refuses heads that do not fit while the cache keeps all rows, because heads stay in memory.
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

    /// The budget that leaves `bytes` to row groups and lists, at least the present one.
    fn total(&self, bytes: u64) -> u64 {
        self.total_from(self.memory, bytes)
    }

    /// The budget of `memory` or more that leaves `bytes` to row groups and lists. The share of batches
    /// depends on the budget, so budgets are tried.
    fn total_from(&self, memory: u64, bytes: u64) -> u64 {
        let Asked { batches, beside, .. } = self.asked;
        let mut memory = memory.max(bytes);
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

    /// The most bytes that one batch may take, granted alone, beside the batches that the consumer holds.
    pub(super) fn largest_batch(&self) -> u64 {
        (self.batches.max(self.memory / BATCHES_DIVISOR) + ALONE_BEYOND) / (1 + WITH_CONSUMER)
    }

    /// The bytes of one batch, with rows of average length.
    pub(super) fn batch_bytes(&self) -> u64 {
        self.asked.batches.bytes
    }

    /// The memory that an epoch of `steps` steps is expected to take, if its row groups take `row_groups`
    /// bytes. It counts all batches that are made ahead, with rows of average length.
    pub(super) fn expected(&self, row_groups: u64, steps: u64) -> u64 {
        let made = steps.min(self.ahead as u64 + WITH_CONSUMER);
        let batches = self.asked.batches.bytes.saturating_mul(made);
        row_groups.min(self.row_groups).saturating_add(batches).saturating_add(OVERHEAD_BYTES)
    }

    /// The most memory that row groups and batches take, if all row groups on their way take `row_groups`
    /// bytes.
    pub(super) fn most(&self, row_groups: u64) -> u64 {
        let row_groups = row_groups.saturating_add(self.lists).min(self.row_groups + self.lists);
        self.batches.saturating_add(row_groups).saturating_add(OVERHEAD_BYTES).min(self.memory)
    }

    /// The memory without the data that is kept for the data set, which exists already.
    pub(super) fn promised(&self) -> u64 {
        self.memory.saturating_sub(self.asked.beside)
    }

    /// The step, out of `steps`, at which the next epoch is prepared.
    pub(super) fn next_at(&self, steps: u64) -> u64 {
        let early = steps / NEXT_AFTER_DIVISOR;
        if self.lists <= self.memory / LISTS_DIVISOR { early } else { steps - early }
    }
}

/// Whether row groups are granted memory one at a time. That is always possible, because one may exceed the
/// budget only by a fixed amount.
fn is_alone(needed: Needed, order: &OrderSpec) -> bool {
    order.pool() == 1 && needed.lanes == 1 && !order.is_exact()
}

/// The largest number below `limit` that fits, if all smaller numbers fit as well.
fn largest(limit: u32, fits: impl Fn(u32) -> bool) -> Option<u32> {
    let (mut low, mut high) = (0, limit);
    while high - low > 1 {
        let middle = low.midpoint(high);
        if fits(middle) { low = middle } else { high = middle }
    }
    (low > 0).then_some(low)
}
