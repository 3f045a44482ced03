//! A place in a lane's order, and the rows that come next.
//!
//! A slot's rows have to be listed to be mixed, and a part's to be permuted; of narrow rows such lists would be larger than
//! the rows. So a row is packed into 4 bytes where part and row fit, it stands either in its part's list or in the
//! slot's, and either list gives back [what was taken](Blocks) from it.

use std::collections::VecDeque;
use std::sync::Arc;

use super::blocks::{Blocks, permutation};
use super::draw::{Draws, Purpose};
use super::lane::{Lane, Pick, Rule};

/// A place in a lane's order that moves forward.
#[derive(Debug)]
pub(super) struct Cursor {
    lane: Arc<Lane>,
    at: u64,
    /// The slot that was dealt last; `None` before the first, and where rows are computed one by one.
    slot: Option<Slot>,
    /// Of each part that is in the pool, oldest first, the permuted rows that were not dealt yet.
    permuted: VecDeque<(usize, Blocks<u32>)>,
}

/// A slot of a lane, with its rows that were not taken yet.
#[derive(Debug)]
struct Slot {
    number: usize,
    /// The lane's row after its last.
    end: u64,
    /// The part that packed ones are counted from.
    first: usize,
    /// Bits of a row in its part.
    row_bits: u32,
    rows: Packed,
}

/// Part and row, side by side.
#[derive(Debug)]
enum Packed {
    Narrow(Blocks<u32>),
    Wide(Blocks<u64>),
}

impl Cursor {
    /// At the beginning of the lane. Nothing is computed before rows are taken.
    pub(super) fn new(lane: Arc<Lane>) -> Self {
        Cursor { lane, at: 0, slot: None, permuted: VecDeque::new() }
    }

    pub(super) fn lane(&self) -> &Arc<Lane> {
        &self.lane
    }

    /// Moves to the lane's row `at`, backwards or forwards.
    pub(super) fn seek(&mut self, at: u64) {
        self.at = at;
    }

    /// Appends the next rows, up to the lane's row `to`.
    pub(super) fn take(&mut self, to: u64, picks: &mut Vec<Pick>) {
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
                    let slot = self.slot();
                    slot.rows.keep((slot.end - at) as usize);
                    let until = to.min(slot.end);
                    slot.take((until - at) as usize, picks);
                    self.at = until;
                }
            }
        }
    }

    /// The slot that holds the row `at`, with this row and those after it.
    fn slot(&mut self) -> &mut Slot {
        let (lane, at) = (&self.lane, self.at);
        let number = match &self.slot {
            Some(slot) if (slot.end - slot.rows.len() as u64..slot.end).contains(&at) => None,
            // The usual way: on to the next slot that has rows.
            Some(slot) if at == slot.end => Some(
                (slot.number + 1..).find(|next| lane.slot_start(next + 1) > at).unwrap_or(slot.number + 1),
            ),
            slot => {
                // What was taken is gone.
                if slot.as_ref().is_some_and(|slot| at < slot.end) {
                    self.permuted.clear();
                }
                Some(lane.slot_of(at))
            }
        };
        let present = self.slot.take();
        self.slot.insert(match (number, present) {
            (None, Some(slot)) => slot,
            (number, _) => deal(lane, number.unwrap_or(0), &mut self.permuted),
        })
    }
}

/// Deals a slot.
fn deal(lane: &Lane, number: usize, permuted: &mut VecDeque<(usize, Blocks<u32>)>) -> Slot {
    let (ticks, residents) = (lane.ticks(number), lane.residents(number));
    let (start, end) = (lane.slot_start(number), lane.slot_start(number + 1));
    let longest = residents.clone().map(|part| lane.parts()[part].rows).max().unwrap_or(1);
    let bits = |numbers: u64| u64::BITS - numbers.saturating_sub(1).leading_zeros();
    let row_bits = bits(u64::from(longest));
    let is_narrow = row_bits + bits(residents.len() as u64) <= u32::BITS;
    let rows = (end - start) as usize;
    let rows = match is_narrow {
        true => Packed::Narrow(Blocks::with_capacity(rows)),
        false => Packed::Wide(Blocks::with_capacity(rows)),
    };
    let mut slot = Slot { number, end, first: residents.start, row_bits, rows };
    let Rule::Pool { seed, epoch, lane: lane_number, .. } = lane.rule else { return slot };
    permuted.retain(|(part, _)| residents.contains(part));
    if permuted.front().is_some_and(|(part, _)| *part != residents.start) {
        permuted.clear();
    }
    for part in residents.clone() {
        let (at, all) = (part - residents.start, lane.parts()[part].rows);
        let from = lane.dealt(part, ticks.start.saturating_sub(part)) as usize;
        let to = lane.dealt(part, ticks.end.saturating_sub(part)) as usize;
        if at == permuted.len() {
            let draws = Draws::keyed(seed, Purpose::Rows, &[epoch, lane_number, part as u64]);
            permuted.push_back((part, permutation(all, draws)));
        }
        let rows = &mut permuted[at].1;
        // Of a slot that was passed over.
        rows.pass(rows.len() - (all as usize - from));
        rows.take(to - from, |run| slot.rows.extend((at as u64) << row_bits, run));
    }
    slot.rows.shuffle(Draws::keyed(seed, Purpose::Slot, &[epoch, lane_number, number as u64]));
    slot
}

impl Slot {
    /// Appends the next `count` rows.
    fn take(&mut self, count: usize, picks: &mut Vec<Pick>) {
        let (first, bits) = (self.first as u64, self.row_bits);
        let unpacked = |packed: u64| Pick {
            part: (first + (packed >> bits)) as u32,
            row: (packed & ((1 << bits) - 1)) as u32,
        };
        match &mut self.rows {
            Packed::Narrow(rows) => {
                rows.take(count, |run| picks.extend(run.iter().map(|packed| unpacked(u64::from(*packed)))));
            }
            Packed::Wide(rows) => {
                rows.take(count, |run| picks.extend(run.iter().map(|packed| unpacked(*packed))))
            }
        }
    }
}

impl Packed {
    fn len(&self) -> usize {
        match self {
            Packed::Narrow(rows) => rows.len(),
            Packed::Wide(rows) => rows.len(),
        }
    }

    /// Passes rows over, but for the last `rest`.
    fn keep(&mut self, rest: usize) {
        match self {
            Packed::Narrow(rows) => rows.pass(rows.len().saturating_sub(rest)),
            Packed::Wide(rows) => rows.pass(rows.len().saturating_sub(rest)),
        }
    }

    fn extend(&mut self, part: u64, rows: &[u32]) {
        match self {
            Packed::Narrow(list) => list.extend(rows.iter().map(|row| part as u32 | row)),
            Packed::Wide(list) => list.extend(rows.iter().map(|row| part | u64::from(*row))),
        }
    }

    fn shuffle(&mut self, draws: Draws) {
        match self {
            Packed::Narrow(rows) => rows.shuffle(draws),
            Packed::Wide(rows) => rows.shuffle(draws),
        }
    }
}
