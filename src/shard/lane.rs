//! The row order of one lane: a rolling pool of parts, for which it is planned when each part gives its rows.
//!
//! A lane is a sequence of [parts](Part), each a run of rows of one row group. A pool of `P` parts rolls over
//! them: part `j` enters at tick `j`, stays for `P` ticks, and deals an even share of its (permuted) rows in
//! each of them. In one tick every resident part therefore gives the same fraction of itself, which mixes as
//! well as drawing at random from the whole pool, but each part leaves after a known number of ticks. Hence
//! the three properties that a pool of random draws does not have:
//!
//! * the residents at any point are a run of at most `P` consecutive parts, so resuming reads no more than
//!   starting;
//! * the number of rows dealt before any tick is a sum over `P` residents, so seeking is arithmetic;
//! * whole row groups are released, not single rows, so the plan determines the memory that is needed.
//!
//! Before the pool is full, and when no parts are left to enter, ticks are merged into one *opening* and one
//! *closing* slot, in which all rows that are due are mixed at once. A lane with at most `P` parts is a
//! single slot, and so a uniform permutation.
//!
//! ```text
//! part 0  ■■■■■■■■                          each ■ is one tick's share of the part's rows; P = 8
//! part 1   ■■■■■■■■
//! part 2    ■■■■■■■■
//! ...
//!         └opening┘└─ one slot per tick ─┘└closing┘
//! ```
//!
//! Before epoch 0 nothing was fetched, so waiting for a whole pool would delay the first row. In this epoch
//! the pool [deals while it fills](Opening::Growing): the opening merges the ticks in which an eighth
//! of the pool enters (or 32 parts, if that is less), and the first parts stay for fewer ticks than `P`, so
//! that rows are dealt at a steady rate from then on.

use std::ops::Range;
use std::sync::Arc;

use super::balance::Balance;
use super::draw::{Draws, Purpose};
use super::exact::Permutation;
use super::row_costs::RowCosts;

/// A run of selected rows of one row group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Part {
    /// Ordinal of the row group in the data set.
    pub group: u32,
    /// First row, counted among the group's selected rows.
    pub start: u32,
    /// The number of selected rows, at least 1.
    pub rows: u32,
}

/// A row to deliver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pick {
    /// Ordinal of the part in its lane.
    pub part: u32,
    /// Row in the part. If the lane has a pool, it is a place in the part's [deal](super::deal) until the row
    /// is looked up there.
    pub row: u32,
}

/// The first row of a pool that [deals while it fills](Opening::Growing) waits for this fraction of the pool:
/// one part in eight. With a smaller divisor, the first batches mix more parts and come later.
const OPENING_SHARE: usize = 8;

/// The most parts for which the first row waits: a batch from this number of parts is well mixed.
const MAX_OPENING_PARTS: usize = 32;

/// The fewest ticks that a part stays, even at the beginning, in a pool with at least this number of parts.
const SHORTEST_STAY: usize = 8;

/// If a part gives at least this number of rows in a tick on average, the order of these rows is decided
/// before the part is read, so that its reader can store them next to each other. Fewer rows are in few cache
/// lines anyway.
const MIN_SORTED_SHARE_ROWS: u64 = 8;

/// How a pool is filled at the beginning of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opening {
    /// The whole pool is filled before the first row is dealt. This mixes best, and needs no wait if the
    /// window was fetched during the previous epoch.
    Full,
    /// The pool deals while it fills. The part that enters at tick `j` stays for `S + j` ticks, where `S` is
    /// [`first_stay`], but never longer than in a full pool. From tick `S` on, half of the parts that have
    /// entered are in the pool. Each gives `1 / (S + j)` of its rows in a tick, and the sum over these parts
    /// is `ln 2` of a part. As one part is read in each tick, 1.44 rows are read for each row that is dealt,
    /// and the pool grows by the difference.
    Growing {
        /// The number of parts that the pool will hold, which is at most the number of parts of the lane.
        most: usize,
    },
}

/// The order of one lane of one epoch.
#[derive(Debug)]
pub(super) struct Lane {
    parts: Arc<[Part]>,
    /// The number of rows before each part, then the number of rows in all parts: one element longer than
    /// `parts`.
    pub(super) before: Arc<[u64]>,
    pub(super) rule: Rule,
}

#[derive(Debug)]
pub(super) enum Rule {
    /// One part after the other, with the rows in stored order.
    Stored,
    /// The rolling pool that the module describes.
    Pool {
        pool: u32,
        opening: Opening,
        seed: u64,
        epoch: u64,
        lane: u64,
        phases: Vec<u32>,
        balance: Option<Balance>,
    },
    /// Every `lanes`-th row of a permutation of all rows, from row `lane` on. The parts are all row groups,
    /// each as a whole.
    Exact { permutation: Permutation, lane: u64, lanes: u64, rows: u64 },
}

impl Lane {
    pub(super) fn stored(parts: Vec<Part>) -> Self {
        Lane { before: prefix(&parts), parts: parts.into(), rule: Rule::Stored }
    }

    pub(super) fn pooled(parts: Vec<Part>, pool: u32, seed: u64, epoch: u64, lane: u64) -> Self {
        let most = parts.len().min(pool as usize);
        let opening = if epoch == 0 { Opening::Growing { most } } else { Opening::Full };
        let mut draws = Draws::keyed(seed, Purpose::Phase, &[epoch, lane]);
        let phase = |part| draws.below(opening.stay(part, pool as usize) as u64) as u32;
        let phases = (0..parts.len()).map(phase).collect();
        let rule = Rule::Pool { pool, opening, seed, epoch, lane, phases, balance: None };
        Lane { before: prefix(&parts), parts: parts.into(), rule }
    }

    /// The same lane of a pool, in an order in which batches cost about the same.
    pub(super) fn balanced(mut self, costs: &Arc<RowCosts>) -> Self {
        if let Rule::Pool { seed, epoch, balance, .. } = &mut self.rule {
            *balance = Some(Balance::new(costs.clone(), *seed, *epoch));
        }
        self
    }

    /// The rule that arranges the lane's rows by cost, if batches are to cost about the same.
    pub(super) fn balance(&self) -> Option<&Balance> {
        match &self.rule {
            Rule::Pool { balance, .. } => balance.as_ref(),
            Rule::Stored | Rule::Exact { .. } => None,
        }
    }

    pub(super) fn exact(all: &ExactParts, permutation: Permutation, lane: u64, lanes: u64) -> Self {
        let total = all.before[all.parts.len()];
        let rows = (total + lanes - 1 - lane) / lanes;
        let rule = Rule::Exact { permutation, lane, lanes, rows };
        Lane { parts: all.parts.clone(), before: all.before.clone(), rule }
    }

    /// The parts from which the lane takes its rows.
    pub(super) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The number of rows in the lane.
    pub(super) fn rows(&self) -> u64 {
        match self.rule {
            Rule::Exact { rows, .. } => rows,
            _ => self.before[self.parts.len()],
        }
    }

    /// The number of slots in which the lane is dealt.
    pub(super) fn slots(&self) -> usize {
        let (parts, opening) = (self.parts.len(), self.opening());
        if self.rows() == 0 {
            0
        } else if parts <= opening {
            1
        } else {
            1 + (parts - opening) + usize::from(self.end() > parts)
        }
    }

    /// The most parts that are in the pool at a time.
    pub(super) fn pool(&self) -> usize {
        match self.rule {
            Rule::Stored => 1,
            Rule::Pool { pool, .. } => pool as usize,
            Rule::Exact { .. } => self.parts.len(),
        }
    }

    /// The number of ticks that the first slot merges.
    fn opening(&self) -> usize {
        match self.rule {
            Rule::Pool { opening, pool, .. } => opening.ticks(pool as usize),
            _ => self.pool(),
        }
    }

    /// The number of ticks that a part stays.
    fn stay(&self, part: usize) -> usize {
        match self.rule {
            Rule::Pool { opening, pool, .. } => opening.stay(part, pool as usize),
            _ => self.pool(),
        }
    }

    /// The number of parts that have left the pool when a tick begins. They are the first parts of the lane.
    pub(super) fn left(&self, tick: usize) -> usize {
        let whole_stay = (tick + 1).saturating_sub(self.pool());
        let left = match self.rule {
            // Part j enters at tick j and stays for S + j ticks, so it has left at tick 2 j + S, where S is
            // `first_stay`.
            Rule::Pool { opening: Opening::Growing { most }, .. } => {
                whole_stay.max((tick + 2).saturating_sub(first_stay(most)) / 2)
            }
            _ => whole_stay,
        };
        left.min(self.parts.len())
    }

    /// The tick after the last one of the lane.
    fn end(&self) -> usize {
        self.parts.len().checked_sub(1).map_or(0, |last| last + self.stay(last))
    }

    /// The ticks that a slot merges.
    pub(super) fn ticks(&self, slot: usize) -> Range<usize> {
        let (parts, opening) = (self.parts.len(), self.opening());
        if parts <= opening {
            0..self.end()
        } else if slot == 0 {
            0..opening
        } else if slot <= parts - opening {
            opening + slot - 1..opening + slot
        } else {
            parts..self.end()
        }
    }

    /// Whether a slot is a single tick between the opening and the closing slot, in which a part enters.
    pub(super) fn is_tick(&self, slot: usize) -> bool {
        slot > 0 && self.ticks(slot).end <= self.parts.len()
    }

    /// The parts that must be in memory while a slot is dealt.
    pub(super) fn residents(&self, slot: usize) -> Range<usize> {
        let ticks = self.ticks(slot);
        self.left(ticks.start)..ticks.end.min(self.parts.len())
    }

    /// The rows that a part gives to a slot, as places in the part's deal (the order in which its rows are
    /// delivered).
    pub(super) fn share(&self, part: usize, slot: usize) -> Range<usize> {
        let ticks = self.ticks(slot);
        let dealt = |tick: usize| self.dealt(part, tick.saturating_sub(part)) as usize;
        dealt(ticks.start)..dealt(ticks.end)
    }

    /// Whether the deals of the parts already have the order in which this slot delivers rows: if it is the
    /// opening or the closing slot, if parts give many rows in a tick, or if the slot has only one part.
    pub(super) fn is_ordered(&self, slot: usize) -> bool {
        self.ticks(slot).len() > 1 || self.has_long_shares() || self.residents(slot).len() == 1
    }

    /// The slots of a part that are [ordered](Self::is_ordered). If parts give few rows in a tick, only the
    /// part's first and last slots can be: in between, a slot is a single tick with several parts.
    pub(super) fn ordered_slots(&self, part: usize) -> impl Iterator<Item = usize> {
        let (first, last) = (self.slot_at(part), self.slot_at(part + self.stay(part) - 1));
        let between = if self.has_long_shares() { first + 1..last } else { 0..0 };
        let last = (last > first).then_some(last);
        std::iter::once(first).chain(between).chain(last).filter(|slot| self.is_ordered(*slot))
    }

    /// The slot that merges this tick.
    fn slot_at(&self, tick: usize) -> usize {
        let (parts, opening) = (self.parts.len(), self.opening());
        if parts <= opening { 0 } else { (tick.min(parts) + 1).saturating_sub(opening) }
    }

    /// Whether the parts of a tick give enough rows each to make it worthwhile to know their order in
    /// advance.
    fn has_long_shares(&self) -> bool {
        self.rows() >= MIN_SORTED_SHARE_ROWS * self.parts.len() as u64 * self.pool() as u64
    }

    /// Whether all lanes share the parts of this lane.
    pub(super) fn shares_parts(&self) -> bool {
        matches!(self.rule, Rule::Exact { .. })
    }

    /// The number of rows of a part that are dealt in its first `age` ticks.
    pub(super) fn dealt(&self, part: usize, age: usize) -> u32 {
        let rows = self.parts[part].rows;
        let stay = self.stay(part);
        match &self.rule {
            Rule::Pool { phases, .. } if age < stay => {
                ((age as u64 * u64::from(rows) + u64::from(phases[part])) / stay as u64) as u32
            }
            _ if age == 0 => 0,
            _ => rows,
        }
    }

    /// Whether a part has at least one row for each tick that it stays.
    pub(super) fn is_steady(&self, part: usize) -> bool {
        self.parts[part].rows as usize >= self.stay(part)
    }

    /// The number of ticks that a part has been in the pool when the row at `place` of its deal is delivered:
    /// the highest age for which [`dealt`](Self::dealt) is at most `place`.
    pub(super) fn age(&self, part: usize, place: u32) -> usize {
        let (rows, stay) = (u64::from(self.parts[part].rows), self.stay(part) as u64);
        let phase = match &self.rule {
            Rule::Pool { phases, .. } => u64::from(phases[part]),
            _ => 0,
        };
        (((u64::from(place) + 1) * stay - phase - 1) / rows) as usize
    }

    /// The lane's row (its position in the order) at which a slot begins; for `slots()`, the end of the lane.
    pub(super) fn slot_start(&self, slot: usize) -> u64 {
        if slot == 0 {
            return 0;
        }
        if slot >= self.slots() {
            return self.rows();
        }
        let tick = self.ticks(slot).start;
        // The first `whole` parts have left the pool, so all of their rows were dealt. The parts that are in
        // the pool have dealt `partly` rows so far.
        let whole = self.left(tick);
        let partly: u64 =
            (whole..tick.min(self.parts.len())).map(|part| u64::from(self.dealt(part, tick - part))).sum();
        self.before[whole] + partly
    }

    /// The slot that deals the lane's row `at`.
    pub(super) fn slot_of(&self, at: u64) -> usize {
        let (mut low, mut high) = (0, 1);
        // Most searches are for a row near the beginning of the epoch, so the search begins there.
        while high < self.slots() && self.slot_start(high) <= at {
            (low, high) = (high, 2 * high);
        }
        high = high.min(self.slots());
        while high - low > 1 {
            let middle = low.midpoint(high);
            if self.slot_start(middle) <= at { low = middle } else { high = middle }
        }
        low
    }
}

impl Opening {
    /// The number of ticks that the first slot of a pool of `pool` parts merges.
    fn ticks(self, pool: usize) -> usize {
        match self {
            Opening::Full => pool,
            Opening::Growing { most } => merged(most),
        }
    }

    /// The number of ticks that a part stays in the pool.
    fn stay(self, part: usize, pool: usize) -> usize {
        match self {
            Opening::Full => pool,
            Opening::Growing { most } => pool.min(first_stay(most) + part),
        }
    }
}

/// The number of ticks in the opening of a pool that deals while it fills with up to `most` parts.
fn merged(most: usize) -> usize {
    most.div_ceil(OPENING_SHARE).min(MAX_OPENING_PARTS)
}

/// The number of ticks that the first part stays in a pool that deals while it fills, unless the pool is
/// smaller: twice the number of ticks in the opening. After that number of ticks, rows are dealt at a steady
/// rate; before it, at nearly that rate.
fn first_stay(most: usize) -> usize {
    SHORTEST_STAY.max(2 * merged(most))
}

/// All row groups as parts, shared by the lanes of an exact shuffle.
#[derive(Debug)]
pub(super) struct ExactParts {
    parts: Arc<[Part]>,
    before: Arc<[u64]>,
}

impl ExactParts {
    pub(super) fn new(parts: Vec<Part>) -> Self {
        ExactParts { before: prefix(&parts), parts: parts.into() }
    }
}

fn prefix(parts: &[Part]) -> Arc<[u64]> {
    let mut sum = 0;
    std::iter::once(0)
        .chain(parts.iter().map(|part| {
            sum += u64::from(part.rows);
            sum
        }))
        .collect()
}
