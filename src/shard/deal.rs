//! The deal of each part (a run of rows of one row group): the order in which an epoch delivers its rows.
//!
//! A lane (one of the sequences of rows that are interleaved into an epoch's order) is cut into slots, and
//! the rows of a slot are mixed together. The plan says how many rows a part gives to each slot, and which:
//! the next rows of a random permutation of the part. So a reader of the part can bring its rows into this
//! order at once, while they are in the processor's cache. A batch then takes neighbouring rows from each
//! part of the window (the parts that are mixed at the same time), however large the window is.
//!
//! If the deal also has the order within each slot, it is enough to know which part each row of a slot comes
//! from ([`Sources`]). For this, a slot is mixed as soon as the first of its parts is read. A part that gives
//! only a few rows in each tick has them near each other anyway, so they are mixed later, when the slot is
//! delivered.
//!
//! ```text
//! part 3, 8 rows     permuted 5 2 7 0 4 1 6 3         the last slot shuffles its rows 4 1 6 3 to 1 4 3 6
//! its deal           5 2 | 7 0 | 1 4 3 6              a pick names a place in the deal: 0 to 7
//! ```

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::balance::Balance;
use super::blocks::Blocks;
use super::draw::{Draws, Purpose};
use super::lane::{Lane, Part, Rule};
use super::order::EpochOrder;
use super::packed::Packed;
use super::part_map::PartMap;
use super::row_costs::CoarseCosts;
use super::split::Split;

/// The deal of each part of an epoch (the order in which its rows are delivered), shared by the walks that
/// plan batches and the readers that decode the parts.
pub struct Deals {
    plan: Box<dyn Fn() -> EpochOrder + Send + Sync>,
    order: OnceLock<EpochOrder>,
    /// The place where the epoch begins.
    start: OnceLock<Start>,
    /// Parts that are planned to be read and have not been read yet, each with its lane and its number in the
    /// lane.
    entered: Mutex<PartMap<(u32, u32)>>,
    /// The orders of slots with several parts that are made before the slots are delivered, by lane and
    /// number of the slot.
    merged: Mutex<HashMap<(u32, usize), SharedMerged>>,
    /// The costs of the rows of recent parts, by lane and number of the part in the lane.
    costs: Mutex<HashMap<(u32, usize), PlaceCosts>>,
    /// Whether slots with several parts are mixed only when they are delivered.
    are_plain: AtomicBool,
}

/// The place where an epoch begins: at its first row, or where a position was restored.
struct Start {
    split: Split,
    /// The first row, in the global order.
    row: u64,
    /// For each lane, the slot at which the epoch begins, computed when it is first needed.
    slots: Box<[OnceLock<usize>]>,
}

/// The costs of each row of a part, in the order of the part's permutation.
type PlaceCosts = Arc<[CoarseCosts]>;

/// The order of a slot, which the first thread that needs it makes while others wait.
type SharedMerged = Arc<Mutex<Option<Merged>>>;

/// The order of a slot in two forms: for each part, the order of its rows, which the reader of the part
/// takes; and the part of each row, which the walk that delivers the slot takes.
struct Merged {
    sources: Option<Sources>,
    /// For each part of the slot, the places in its permutation in the order in which they are delivered;
    /// `None` if they were taken, or there are none.
    shares: Vec<Option<Box<[u32]>>>,
    /// The number of shares that have not been taken.
    shares_left: usize,
}

/// For each row of a slot, in order, which of the slot's parts it comes from, in the narrowest type that
/// fits.
#[derive(Debug)]
pub(super) enum Sources {
    Few(Blocks<u8>),
    Narrow(Blocks<u16>),
    Wide(Blocks<u32>),
}

impl Deals {
    /// The deals of an order, which `plan` makes when it is first needed.
    pub fn new(plan: impl Fn() -> EpochOrder + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Deals {
            plan: Box::new(plan),
            order: OnceLock::new(),
            start: OnceLock::new(),
            entered: Mutex::default(),
            merged: Mutex::default(),
            costs: Mutex::default(),
            are_plain: AtomicBool::new(false),
        })
    }

    /// Leaves the order within slots out of the deals, which are then the permutations of the parts. Called
    /// before the epoch begins, if no reader will bring the rows into the order of a deal. Rows come in the
    /// same order, and it takes less work to list them.
    pub fn leave_plain(&self) {
        self.are_plain.store(true, Relaxed);
    }

    pub(super) fn are_plain(&self) -> bool {
        self.are_plain.load(Relaxed)
    }

    /// Records the row of the global order at which the epoch begins, unless it has been recorded before.
    pub(super) fn begin(&self, split: Split, row: u64) {
        self.start.get_or_init(|| {
            let slots = (0..self.order().lanes()).map(|_| OnceLock::new()).collect();
            Start { split, row, slots }
        });
    }

    pub(super) fn order(&self) -> &EpochOrder {
        self.order.get_or_init(&self.plan)
    }

    pub(super) fn enters(&self, part: Part, lane: u32, ordinal: u32) {
        lock(&self.entered).insert(part, (lane, ordinal));
    }

    /// Takes the deal of a part that a [scout](Self::scout) has recorded: the numbers of its rows, in the
    /// order in which they are delivered. `None` if rows are delivered as they are stored or in an exact
    /// shuffle, or if the part is not recorded.
    pub fn take(&self, part: &Part) -> Option<Box<[u32]>> {
        let (lane, ordinal) = lock(&self.entered).remove(part)?;
        self.deal(lane, ordinal)
    }

    /// The deal of the part with this ordinal in its lane.
    pub(super) fn deal(&self, lane: u32, ordinal: u32) -> Option<Box<[u32]>> {
        let number = lane;
        let lane = &**self.order().lane(number);
        let part = ordinal as usize;
        let mut rows = permuted(lane, part)?;
        let start = self.start.get().map_or(0, |start| start.slot(number, lane));
        for slot in lane.ordered_slots(part).filter(|slot| *slot >= start) {
            let (residents, share) = (lane.residents(slot), lane.share(part, slot));
            if share.is_empty() || (residents.len() > 1 && self.are_plain()) {
                continue;
            }
            if residents.len() == 1 {
                let rows = &mut rows[share];
                slot_draws(lane, slot).shuffle(rows);
                if let Some(balance) = lane.balance() {
                    balance.even_out(rows, lane.slot_start(slot), costs_of(lane, part, balance));
                }
                continue;
            }
            let resident = part - residents.start;
            let places = self.merged(lane, number, slot, |merged| merged.take_share(resident));
            let again = || self.merge(lane, number, slot).take_share(resident).unwrap_or_default();
            let places = places.unwrap_or_else(again);
            let dealt: Vec<u32> = places.iter().map(|&place| rows[place as usize]).collect();
            rows[share].copy_from_slice(&dealt);
        }
        Some(rows)
    }

    /// For each row of a slot whose order is made in advance, which of the slot's parts it comes from.
    pub(super) fn sources(&self, lane: &Lane, number: u32, slot: usize) -> Sources {
        let sources = self.merged(lane, number, slot, |merged| merged.sources.take());
        // The slot's sources were already taken, because the walk went back.
        let again = || self.merge(lane, number, slot).sources;
        sources.or_else(again).unwrap_or(Sources::Narrow(Blocks::with_capacity(0)))
    }

    /// Applies `take` to the order of a slot, which is made at its first use and forgotten when all of it has
    /// been taken.
    fn merged<T>(&self, lane: &Lane, number: u32, slot: usize, take: impl FnOnce(&mut Merged) -> T) -> T {
        let shared = lock(&self.merged).entry((number, slot)).or_default().clone();
        let mut merged = lock(&shared);
        let mixed = merged.get_or_insert_with(|| self.merge(lane, number, slot));
        let taken = take(mixed);
        if mixed.sources.is_none() && mixed.shares_left == 0 {
            lock(&self.merged).remove(&(number, slot));
        }
        taken
    }

    /// Makes the order of a slot by mixing its rows.
    fn merge(&self, lane: &Lane, number: u32, slot: usize) -> Merged {
        let mut rows = Packed::in_slot(lane, slot);
        self.mix(lane, number, slot, &mut rows);
        Merged::new(lane, slot, rows)
    }

    /// Puts the rows of a slot into the order in which they are delivered. Each row is the number of its part
    /// within the slot, and its place in the part's permutation.
    pub(super) fn mix(&self, lane: &Lane, number: u32, slot: usize, rows: &mut Packed) {
        rows.shuffle(slot_draws(lane, slot));
        if let Some(balance) = lane.balance() {
            let known = self.costs(lane, number, lane.residents(slot), balance);
            let costs = |&(resident, place): &(u32, u32)| known[resident as usize][place as usize];
            rows.reorder(|rows| balance.even_out(rows, lane.slot_start(slot), costs));
        }
    }

    /// For each place in the permutations of these parts, the costs of its row.
    fn costs(&self, lane: &Lane, number: u32, parts: Range<usize>, balance: &Balance) -> Vec<PlaceCosts> {
        // Older parts are not needed again: readers are ahead of the walk by at most a pool of parts, and the
        // parts of the walk's own slot reach back by at most another pool.
        let oldest = parts.start.saturating_sub(2 * lane.pool());
        let mut known = lock(&self.costs);
        known.retain(|(of, part), _| *of != number || *part >= oldest);
        let of_part = |part: usize| {
            let made = || {
                let rows = permuted(lane, part).unwrap_or_default();
                rows.iter().map(costs_of(lane, part, balance)).collect()
            };
            known.entry((number, part)).or_insert_with(made).clone()
        };
        parts.map(of_part).collect()
    }
}

/// The permutation of a part's rows; `None` if rows are not dealt from a pool.
fn permuted(lane: &Lane, part: usize) -> Option<Box<[u32]>> {
    let Rule::Pool { seed, epoch, lane: key, .. } = lane.rule else { return None };
    let mut rows: Box<[u32]> = (0..lane.parts()[part].rows).collect();
    Draws::keyed(seed, Purpose::Rows, &[epoch, key, part as u64]).shuffle(&mut rows);
    if let Some(balance) = lane.balance() {
        balance.spread(&mut rows, costs_of(lane, part, balance));
    }
    Some(rows)
}

/// The costs of a row of a part.
fn costs_of(lane: &Lane, part: usize, balance: &Balance) -> impl Fn(&u32) -> CoarseCosts {
    let Part { group, start, .. } = lane.parts()[part];
    move |row| balance.costs().of_row(group, start + row)
}

/// The random numbers that mix a slot.
fn slot_draws(lane: &Lane, slot: usize) -> Draws {
    match lane.rule {
        Rule::Pool { seed, epoch, lane, .. } => {
            Draws::keyed(seed, Purpose::Slot, &[epoch, lane, slot as u64])
        }
        Rule::Stored | Rule::Exact { .. } => Draws::keyed(0, Purpose::Slot, &[]),
    }
}

impl Start {
    /// The slot of a lane at which the epoch begins.
    fn slot(&self, number: u32, lane: &Lane) -> usize {
        *self.slots[number as usize].get_or_init(|| {
            // The slot must contain the lane's row before the start, because a rank may repeat that row to
            // have as many steps as the others.
            let row = self.split.lane_position(number.into(), self.row).saturating_sub(1);
            lane.slot_of(row)
        })
    }
}

impl Merged {
    fn new(lane: &Lane, slot: usize, rows: Packed) -> Self {
        let residents = lane.residents(slot);
        let mut shares: Vec<Vec<u32>> =
            residents.clone().map(|part| Vec::with_capacity(lane.share(part, slot).len())).collect();
        let mut sources = Sources::with_capacity(residents.len(), rows.len());
        match &mut sources {
            Sources::Few(list) => part_off(rows, &mut shares, list, |resident| resident as u8),
            Sources::Narrow(list) => part_off(rows, &mut shares, list, |resident| resident as u16),
            Sources::Wide(list) => part_off(rows, &mut shares, list, |resident| resident),
        }
        let shares: Vec<Option<Box<[u32]>>> =
            shares.into_iter().map(|places| (!places.is_empty()).then(|| places.into())).collect();
        let shares_left = shares.iter().flatten().count();
        Merged { sources: Some(sources), shares, shares_left }
    }

    fn take_share(&mut self, resident: usize) -> Option<Box<[u32]>> {
        let share = self.shares[resident].take();
        self.shares_left -= usize::from(share.is_some());
        share
    }
}

/// Splits the rows of a slot: appends the place of each row to the share of its part, and the part to the
/// list.
fn part_off<T: Copy>(
    mut rows: Packed,
    shares: &mut [Vec<u32>],
    residents: &mut Blocks<T>,
    narrowed: impl Fn(u32) -> T,
) {
    let mut some = Vec::with_capacity(PARTED_AT_ONCE);
    while rows.len() > 0 {
        let count = rows.len().min(PARTED_AT_ONCE);
        some.clear();
        rows.take(count, &mut some, |resident, place| (resident, place));
        residents.extend(count, |at| narrowed(some[at].0));
        some.iter().for_each(|&(resident, place)| shares[resident as usize].push(place));
    }
}

/// The number of rows that [`part_off`] splits at a time: they fit into the first-level cache.
const PARTED_AT_ONCE: usize = 1 << 10;

impl Sources {
    fn with_capacity(residents: usize, rows: usize) -> Self {
        match residents {
            0..=0xFF => Sources::Few(Blocks::with_capacity(rows)),
            0x100..=0xFFFF => Sources::Narrow(Blocks::with_capacity(rows)),
            _ => Sources::Wide(Blocks::with_capacity(rows)),
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Sources::Few(list) => list.len(),
            Sources::Narrow(list) => list.len(),
            Sources::Wide(list) => list.len(),
        }
    }

    /// Takes the next `count` numbers of parts, and appends `item(part)` to `out` for each.
    pub(super) fn take<X>(&mut self, count: usize, out: &mut Vec<X>, item: impl FnMut(u32) -> X) {
        match self {
            Sources::Few(list) => take(list, count, out, item),
            Sources::Narrow(list) => take(list, count, out, item),
            Sources::Wide(list) => take(list, count, out, item),
        }
    }
}

fn take<T: Copy + Into<u32>, X>(
    list: &mut Blocks<T>,
    count: usize,
    out: &mut Vec<X>,
    mut item: impl FnMut(u32) -> X,
) {
    list.take(count, |run| out.extend(run.iter().map(|one| item((*one).into()))));
}

impl fmt::Debug for Deals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deals").field("order", &self.order.get().is_some()).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
