//! Takes the next rows of one lane (one of the sequences of rows that are interleaved into an epoch's order).
//!
//! Each row is returned as a [`Pick`], which names a part (a run of rows of one row group). If the lane has a
//! pool, the pick also names a place in the part's [deal](super::deal), the order in which the part's rows
//! are delivered. In stored order and in an exact shuffle, it names a row of the part.

use std::ops::Range;

use super::deal::{Deals, Sources};
use super::lane::{Pick, Rule};
use super::packed::Packed;
use super::slots::Slots;

/// The rows of a lane's present slot (rows that are mixed together) that have not been taken yet.
#[derive(Debug)]
pub(super) struct Cursor {
    /// The number of the lane in the order.
    number: u32,
    /// The slot that was dealt last; `None` before the first slot, and if rows are computed one by one.
    slot: Option<Slot>,
}

/// A slot of a lane, with its rows that have not been taken yet.
#[derive(Debug)]
struct Slot {
    number: usize,
    /// The number, in the lane, of the first part that is in the pool during the slot.
    first: u32,
    rows: SlotRows,
}

#[derive(Debug)]
enum SlotRows {
    /// The slot has one part: its next row is at place `next` of its deal, and `rows` rows are left.
    Run { next: u32, rows: usize },
    /// The slot has several parts, and their deals already have the order of the slot: `sources` has the part
    /// of each row, and `next` the next place in the deal of each part.
    Ordered { sources: Sources, next: Vec<u32> },
    /// The rows of the slot in shuffled order, each as a part and a place in the part's deal.
    Mixed(Packed),
}

impl Cursor {
    /// A cursor before the first row; nothing is computed until rows are taken.
    pub(super) fn new(number: u32) -> Self {
        Cursor { number, slot: None }
    }

    /// Appends these rows of the lane, all of which are in the present slot, to `picks`: as places in the
    /// deals of the parts if the lane has a pool, otherwise by their numbers in the parts.
    pub(super) fn take(&mut self, deals: &Deals, slots: &Slots, rows: Range<u64>, picks: &mut Vec<Pick>) {
        let lane = slots.lane().clone();
        match &lane.rule {
            Rule::Exact { permutation, lane: number, lanes, .. } => {
                picks.extend(rows.map(|at| {
                    let row = permutation.at(at * lanes + number);
                    let part = lane.before.partition_point(|before| *before <= row) - 1;
                    Pick { part: part as u32, row: (row - lane.before[part]) as u32 }
                }));
            }
            Rule::Stored => {
                let (part, begin) = (slots.residents().start as u32, slots.rows().start);
                let rows = (rows.start - begin) as u32..(rows.end - begin) as u32;
                picks.extend(rows.map(|row| Pick { part, row }));
            }
            Rule::Pool { .. } => {
                let left = (slots.rows().end - rows.start) as usize;
                // A slot is dealt again if its rows are taken a second time.
                let present = |slot: &Slot| slot.number == slots.number() && slot.rows.len() >= left;
                let slot = match self.slot.take().filter(present) {
                    Some(slot) => slot,
                    None => Slot::deal(deals, slots, self.number),
                };
                let slot = self.slot.insert(slot);
                slot.pass_over(slot.rows.len() - left, picks);
                slot.take((rows.end - rows.start) as usize, picks);
            }
        }
    }
}

impl Slot {
    fn deal(deals: &Deals, slots: &Slots, lane_number: u32) -> Self {
        let (number, residents) = (slots.number(), slots.residents());
        let lane = slots.lane().clone();
        let first = residents.start as u32;
        let begin = |part: usize| lane.share(part, number).start as u32;
        let rows = if residents.len() == 1 {
            SlotRows::Run { next: begin(residents.start), rows: lane.share(residents.start, number).len() }
        } else if lane.is_ordered(number) && deals.are_plain() {
            let mut rows = Packed::in_slot(&lane, number);
            deals.mix(&lane, lane_number, number, &mut rows);
            SlotRows::Mixed(rows)
        } else if lane.is_ordered(number) {
            let sources = deals.sources(&lane, lane_number, number);
            SlotRows::Ordered { sources, next: residents.map(begin).collect() }
        } else {
            let due = slots.due();
            let shares = due.iter().map(|due| (due.part - first, due.places.clone()));
            let mut rows = Packed::new(residents.len(), shares);
            deals.mix(&lane, lane_number, number, &mut rows);
            SlotRows::Mixed(rows)
        };
        Slot { number, first, rows }
    }

    /// Skips the next `count` rows.
    fn pass_over(&mut self, count: usize, picks: &mut Vec<Pick>) {
        if let SlotRows::Run { next, rows } = &mut self.rows {
            // This is one addition and not a loop, because a walk may begin far inside a large part.
            *next += count as u32;
            *rows -= count;
        } else if count > 0 {
            let before = picks.len();
            self.take(count, picks);
            picks.truncate(before);
        }
    }

    /// Takes the next `count` rows.
    fn take(&mut self, count: usize, picks: &mut Vec<Pick>) {
        let first = self.first;
        match &mut self.rows {
            SlotRows::Run { next, rows } => {
                picks.extend((*next..*next + count as u32).map(|row| Pick { part: first, row }));
                *next += count as u32;
                *rows -= count;
            }
            SlotRows::Ordered { sources, next } => {
                sources.take(count, picks, |resident| {
                    let row = &mut next[resident as usize];
                    *row += 1;
                    Pick { part: first + resident, row: *row - 1 }
                });
            }
            SlotRows::Mixed(rows) => {
                rows.take(count, picks, |resident, row| Pick { part: first + resident, row });
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
