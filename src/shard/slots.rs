//! Goes through the slots of a lane (the sets of its rows that are mixed together), one after the other. For
//! each slot, it knows where the slot begins and ends in the lane's order, and which parts of row groups must
//! be in memory.
//!
//! The first row of any slot can be computed as a sum over the parts in memory. Going on to the next slot is
//! cheaper: it adds the rows of the slot, which the [calendar](super::calendar) counts. So only a jump needs
//! the sum.

use std::ops::Range;
use std::sync::Arc;

use super::calendar::{Calendar, Due};
use super::lane::Lane;

/// The distance in rows, divided by the number of parts in the pool, up to which a seek goes from slot to
/// slot; it jumps if the row is further ahead. At this distance both cost about the same: a jump computes
/// some 30 sums over the pool, and fills a new calendar.
const NEAR_ROWS_PER_PART: u64 = 16;

/// The slots of a lane, one of which is the present slot.
#[derive(Debug)]
pub(super) struct Slots {
    lane: Arc<Lane>,
    /// The number of the present slot; `None` before the first.
    number: Option<usize>,
    rows: Range<u64>,
    /// The calendar as it is after the rows of the present slot, if the slot [is a tick](Lane::is_tick).
    calendar: Option<Calendar>,
}

impl Slots {
    /// The state before the first slot. No slot is computed until [`seek`](Self::seek) moves to one.
    pub(super) fn new(lane: Arc<Lane>) -> Self {
        Slots { lane, number: None, rows: 0..0, calendar: None }
    }

    pub(super) fn lane(&self) -> &Arc<Lane> {
        &self.lane
    }

    /// The number of the present slot; 0 before the first.
    pub(super) fn number(&self) -> usize {
        self.number.unwrap_or(0)
    }

    /// The range of the lane's rows that the present slot delivers.
    pub(super) fn rows(&self) -> Range<u64> {
        self.rows.clone()
    }

    /// The parts that must be in memory while the slot is dealt.
    pub(super) fn residents(&self) -> Range<usize> {
        self.number.map_or(0..0, |number| self.lane.residents(number))
    }

    /// The rows that each part gives to the present slot, sorted by part; empty unless the slot [is a
    /// tick](Lane::is_tick).
    pub(super) fn due(&self) -> Vec<Due> {
        self.calendar.as_ref().map_or_else(Vec::new, Calendar::due)
    }

    /// Moves to the slot that delivers the lane's row `at`. If that row is near, the move goes through all
    /// slots before it, at a cost that grows with the number of rows in between.
    pub(super) fn seek(&mut self, at: u64) {
        debug_assert!(at < self.lane.rows());
        let near = self.rows.start..=self.rows.end + NEAR_ROWS_PER_PART * self.lane.pool() as u64;
        let mut next = match self.number {
            Some(number) if near.contains(&at) => number + 1,
            _ => {
                let number = self.lane.slot_of(at);
                self.rows.end = self.lane.slot_start(number);
                number
            }
        };
        while at >= self.rows.end {
            self.enter(next);
            next += 1;
        }
    }

    /// Begins a slot at the end of the present one.
    fn enter(&mut self, slot: usize) {
        let (lane, begin) = (&*self.lane, self.rows.end);
        let end = if lane.is_tick(slot) {
            let tick = lane.ticks(slot).start;
            let calendar = self.calendar.take().filter(|calendar| calendar.tick() == tick);
            begin + self.calendar.insert(calendar.unwrap_or_else(|| Calendar::new(lane, tick))).deal(lane)
        } else {
            self.calendar = None;
            lane.slot_start(slot + 1)
        };
        self.number = Some(slot);
        self.rows = begin..end;
    }
}

#[cfg(test)]
mod tests {
    use super::super::draw::{Draws, Purpose};
    use super::super::order::EpochOrder;
    use super::super::order_spec::OrderSpec;
    use super::super::spec::Shuffle;
    use super::*;

    /// Lanes of every kind, over row groups with at most `most` rows.
    fn lanes(most: u64) -> Vec<Arc<Lane>> {
        let mut draws = Draws::keyed(most, Purpose::Rows, &[]);
        let groups: Vec<u32> = (0..150).map(|_| draws.below(most + 1) as u32).collect();
        let windows = [1, 2, 7, 40, 200].map(|parts| Shuffle::seeded(3).window_rows(parts * most / 2 + 1));
        let orders = windows.into_iter().chain([Shuffle::stored(), Shuffle::exact(3)]).flat_map(|shuffle| {
            let spec = OrderSpec::new(&shuffle, &groups, 2, 0);
            [0, 1].map(|epoch| EpochOrder::new(groups.as_slice(), &spec, epoch))
        });
        orders.flat_map(|order| [0, 1].map(|lane| order.lane(lane).clone())).collect()
    }

    /// Asserts that the present slot equals the one that is computed directly.
    fn check(slots: &Slots) {
        let (lane, number) = (slots.lane(), slots.number());
        assert_eq!(slots.rows(), lane.slot_start(number)..lane.slot_start(number + 1), "slot {number}");
        assert_eq!(slots.residents(), lane.residents(number));
        if lane.is_tick(number) {
            let shares = lane.residents(number).map(|part| (part, lane.share(part, number)));
            let due = slots
                .due()
                .into_iter()
                .map(|Due { part, places }| (part as usize, places.start as usize..places.end as usize));
            assert!(due.eq(shares.filter(|(_, places)| !places.is_empty())), "slot {number}");
        }
    }

    #[test]
    fn a_slot_is_the_same_whether_it_is_reached_step_by_step_or_by_a_jump() {
        for lane in [1, 3, 10, 70, 1_000].into_iter().flat_map(lanes) {
            let mut slots = Slots::new(lane.clone());
            while slots.rows().end < lane.rows() {
                let first = slots.rows().end;
                slots.seek(first);
                check(&slots);
                assert_eq!(lane.slot_of(first), slots.number(), "the slot begins with this row");
            }
            let mut draws = Draws::keyed(1, Purpose::Rows, &[]);
            for _ in 0..40 {
                let at = draws.below(lane.rows());
                for slots in [&mut slots, &mut Slots::new(lane.clone())] {
                    slots.seek(at);
                    assert!(slots.rows().contains(&at));
                    check(slots);
                }
            }
        }
    }
}
