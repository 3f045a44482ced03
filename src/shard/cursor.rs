//! A place in a lane's order, and the rows that come next.
//!
//! A pick names a part and a place in its [deal](super::deal). A slot's rows have to be listed to be mixed, and of narrow rows
//! such lists would be larger than the rows: so part and place are packed into 4 bytes where they fit, and a list gives back
//! [what was taken](Blocks) from it.

use std::sync::Arc;

use super::blocks::Blocks;
use super::deal::{Deals, Sources, slot_draws};
use super::draw::Draws;
use super::lane::{Lane, Pick, Rule};

/// A place in a lane's order that moves forward.
#[derive(Debug)]
pub(super) struct Cursor {
    lane: Arc<Lane>,
    /// Which lane of the order it is.
    number: u32,
    at: u64,
    /// The slot that was dealt last; `None` before the first, and where rows are computed one by one.
    slot: Option<Slot>,
}

/// A slot of a lane, with its rows that were not taken yet.
#[derive(Debug)]
struct Slot {
    number: usize,
    /// The lane's row after its last.
    end: u64,
    /// The ordinal of its first resident.
    first: u32,
    rows: SlotRows,
}

#[derive(Debug)]
enum SlotRows {
    /// Of one part, the places from the first on.
    Run { next: u32, rows: usize },
    /// Of several parts, each of which is dealt in order: the next place of each.
    Ordered { sources: Sources, next: Vec<u32> },
    /// Resident and place, mixed.
    Mixed(Packed),
}

/// A list of residents of a slot, each with a place in its deal, side by side.
#[derive(Debug)]
pub(super) struct Packed {
    /// Bits of a place.
    bits: u32,
    list: PackedList,
}

#[derive(Debug)]
enum PackedList {
    Narrow(Blocks<u32>),
    Wide(Blocks<u64>),
}

impl Cursor {
    /// At the beginning of the lane. Nothing is computed before rows are taken.
    pub(super) fn new(lane: Arc<Lane>, number: u32) -> Self {
        Cursor { lane, number, at: 0, slot: None }
    }

    pub(super) fn lane(&self) -> &Arc<Lane> {
        &self.lane
    }

    /// Moves to the lane's row `at`, backwards or forwards.
    pub(super) fn seek(&mut self, at: u64) {
        self.at = at;
    }

    /// Appends the next rows, up to the lane's row `to`: of a pool as places in the parts' deals, else as stored rows.
    pub(super) fn take(&mut self, deals: &Deals, to: u64, picks: &mut Vec<Pick>) {
        debug_assert!(to <= self.lane.rows());
        while self.at < to {
            let lane = &*self.lane;
            match &lane.rule {
                Rule::Exact { permutation, lane: number, lanes, .. } => {
                    let row = permutation.at(self.at * lanes + number);
                    let part = lane.before.partition_point(|before| *before <= row) - 1;
                    picks.push(Pick { part: part as u32, row: (row - lane.before[part]) as u32 });
                    self.at += 1;
                }
                Rule::Stored => {
                    let part = lane.before.partition_point(|before| *before <= self.at) - 1;
                    let (begin, until) = (lane.before[part], to.min(lane.before[part + 1]));
                    let rows = (self.at - begin) as u32..(until - begin) as u32;
                    picks.extend(rows.map(|row| Pick { part: part as u32, row }));
                    self.at = until;
                }
                Rule::Pool { .. } => {
                    let at = self.at;
                    let slot = self.slot(deals);
                    let left = (slot.end - at) as usize;
                    slot.take(slot.rows.len() - left, |_| ());
                    let until = to.min(slot.end);
                    slot.take((until - at) as usize, |pick| picks.push(pick));
                    self.at = until;
                }
            }
        }
    }

    /// The slot that holds the row `at`, with this row and those after it.
    fn slot(&mut self, deals: &Deals) -> &mut Slot {
        let (lane, at) = (&self.lane, self.at);
        let number = match &self.slot {
            Some(slot) if (slot.end - slot.rows.len() as u64..slot.end).contains(&at) => None,
            // The usual way: on to the next slot that has rows.
            Some(slot) if at == slot.end => Some(
                (slot.number + 1..).find(|next| lane.slot_start(next + 1) > at).unwrap_or(slot.number + 1),
            ),
            _ => Some(lane.slot_of(at)),
        };
        let present = self.slot.take();
        self.slot.insert(match (number, present) {
            (None, Some(slot)) => slot,
            (number, _) => Slot::deal(deals, lane, self.number, number.unwrap_or(0)),
        })
    }
}

impl Slot {
    fn deal(deals: &Deals, lane: &Lane, lane_number: u32, number: usize) -> Self {
        let residents = lane.residents(number);
        let begin = |part: usize| lane.share(part, number).start as u32;
        let rows = if residents.len() == 1 {
            SlotRows::Run { next: begin(residents.start), rows: lane.share(residents.start, number).len() }
        } else if lane.is_ordered(number) {
            let sources = deals.sources(lane, lane_number, number);
            SlotRows::Ordered { sources, next: residents.clone().map(begin).collect() }
        } else {
            let mut rows = Packed::of(lane, number);
            rows.shuffle(slot_draws(lane, number));
            SlotRows::Mixed(rows)
        };
        Slot { number, end: lane.slot_start(number + 1), first: residents.start as u32, rows }
    }

    /// Takes the next `count` rows.
    fn take(&mut self, count: usize, mut each: impl FnMut(Pick)) {
        let first = self.first;
        match &mut self.rows {
            SlotRows::Run { next, rows } => {
                (*next..*next + count as u32).for_each(|row| each(Pick { part: first, row }));
                *next += count as u32;
                *rows -= count;
            }
            SlotRows::Ordered { sources, next } => sources.take(count, |resident| {
                let row = &mut next[resident as usize];
                each(Pick { part: first + resident, row: *row });
                *row += 1;
            }),
            SlotRows::Mixed(rows) => {
                rows.take(count, |resident, row| each(Pick { part: first + resident, row }))
            }
        }
    }
}

impl SlotRows {
    fn len(&self) -> usize {
        match self {
            SlotRows::Run { rows, .. } => *rows,
            SlotRows::Ordered { sources, .. } => sources.len(),
            SlotRows::Mixed(rows) => rows.len(),
        }
    }
}

impl Packed {
    /// The shares of all residents of a slot, one after the other.
    pub(super) fn of(lane: &Lane, slot: usize) -> Self {
        let residents = lane.residents(slot);
        let longest = residents.clone().map(|part| lane.parts()[part].rows).max().unwrap_or(1);
        let bits_of = |numbers: u64| u64::BITS - numbers.saturating_sub(1).leading_zeros();
        let bits = bits_of(u64::from(longest));
        let rows = (lane.slot_start(slot + 1) - lane.slot_start(slot)) as usize;
        let list = match bits + bits_of(residents.len() as u64) <= u32::BITS {
            true => PackedList::Narrow(Blocks::with_capacity(rows)),
            false => PackedList::Wide(Blocks::with_capacity(rows)),
        };
        let mut packed = Packed { bits, list };
        for (resident, part) in residents.enumerate() {
            let share = lane.share(part, slot);
            match &mut packed.list {
                PackedList::Narrow(list) => {
                    list.extend(share.map(|place| (resident << bits) as u32 | place as u32));
                }
                PackedList::Wide(list) => {
                    list.extend(share.map(|place| (resident as u64) << bits | place as u64));
                }
            }
        }
        packed
    }

    pub(super) fn len(&self) -> usize {
        match &self.list {
            PackedList::Narrow(list) => list.len(),
            PackedList::Wide(list) => list.len(),
        }
    }

    pub(super) fn shuffle(&mut self, draws: Draws) {
        match &mut self.list {
            PackedList::Narrow(list) => list.shuffle(draws),
            PackedList::Wide(list) => list.shuffle(draws),
        }
    }

    /// Takes the next `count`: resident and place.
    pub(super) fn take(&mut self, count: usize, mut each: impl FnMut(u32, u32)) {
        let (bits, mask) = (self.bits, (1u64 << self.bits) - 1);
        match &mut self.list {
            PackedList::Narrow(list) => {
                let mask = mask as u32;
                list.take(count, |run| run.iter().for_each(|one| each(one >> bits, one & mask)));
            }
            PackedList::Wide(list) => {
                list.take(count, |run| {
                    run.iter().for_each(|one| each((one >> bits) as u32, (one & mask) as u32))
                });
            }
        }
    }
}
