//! Lists the rows that a lane delivers in each tick: which of the parts in its pool give rows, and which
//! rows. A part is a run of rows of one row group; the pool holds the parts that are being mixed.
//!
//! A part that has fewer rows than it spends ticks in the pool gives no row in some of these ticks. To ask
//! every part in every tick whether it gives a row would take too long for the few rows of a tick. But as
//! soon as such a part gives a row, the tick of its next row is known, and the part waits for that tick in
//! the calendar:
//!
//! ```text
//! tick 40   part 31 ─► part 27          a chain of the parts that give a row in this tick
//! tick 41
//! tick 42   part 38
//! tick 43   part 25 ─► part 36 ─► part 33
//! ```
//!
//! The chains run through two arrays that are as long as the pool. Parts with at least one row for each of
//! their ticks are asked in every tick. So the cost of a tick depends on the rows that it delivers, not on
//! the size of the pool.

use std::collections::VecDeque;
use std::ops::Range;

use super::lane::Lane;

/// The number that ends a chain.
const NONE: u32 = u32::MAX;

/// The rows that each part of a lane gives, tick by tick.
#[derive(Debug)]
pub(super) struct Calendar {
    /// The number of the next tick.
    tick: usize,
    /// The parts in the pool that give rows in every tick, each with the rows that it gave in the last tick.
    steady: VecDeque<Due>,
    /// For each tick to come, the first of the parts that wait to give a row in it.
    first: Ring<u32>,
    /// For each waiting part, its next row and the next part in its chain.
    waiting: Ring<Waiting>,
    /// The waiting parts that gave a row in the last tick, in no particular order.
    due: Vec<Due>,
}

/// The rows that a part gives in a tick, at least one, as places in its deal (the order in which its rows are
/// delivered).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Due {
    pub(super) part: u32,
    pub(super) places: Range<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    /// The next row that the part gives, as a place in its deal.
    place: u32,
    /// Another part that waits for the same tick, or `NONE`.
    next: u32,
}

/// One value for each of several consecutive parts or ticks: the value for a number is stored at this number
/// modulo the length of the ring.
#[derive(Debug)]
struct Ring<T>(Box<[T]>);

impl Calendar {
    /// The calendar just before a tick, with the parts that entered earlier.
    pub(super) fn new(lane: &Lane, tick: usize) -> Self {
        // `residents` items are enough for each ring: a part waits at most as many ticks ahead as the pool
        // has parts, and never for a tick after the last part has entered, because one slot merges
        // all later ticks.
        let residents = lane.pool().min(lane.parts().len());
        let mut calendar = Calendar {
            tick,
            steady: VecDeque::new(),
            first: Ring::new(residents, NONE),
            waiting: Ring::new(residents, Waiting { place: 0, next: NONE }),
            due: Vec::new(),
        };
        for part in lane.left(tick)..tick {
            calendar.enter(lane, part, lane.dealt(part, tick - part));
        }
        calendar
    }

    pub(super) fn tick(&self) -> usize {
        self.tick
    }

    /// Moves to the next tick, in which one more part enters the pool, and returns the number of rows of the
    /// tick.
    pub(super) fn deal(&mut self, lane: &Lane) -> u64 {
        let tick = self.tick;
        self.tick += 1;
        self.enter(lane, tick, 0);
        let left = lane.left(tick) as u32;
        while self.steady.front().is_some_and(|oldest| oldest.part < left) {
            self.steady.pop_front();
        }
        let mut rows = 0;
        for Due { part, places } in &mut self.steady {
            *places = places.end..lane.dealt(*part as usize, tick + 1 - *part as usize);
            rows += u64::from(places.end - places.start);
        }
        self.due.clear();
        let mut part = std::mem::replace(self.first.at(tick), NONE);
        while part != NONE {
            let Waiting { place, next } = *self.waiting.at(part as usize);
            self.due.push(Due { part, places: place..place + 1 });
            self.wait(lane, part as usize, place + 1);
            part = next;
        }
        rows + self.due.len() as u64
    }

    /// The rows that each part gave in the last tick, sorted by part.
    pub(super) fn due(&self) -> Vec<Due> {
        let mut due: Vec<Due> = self.steady.iter().chain(&self.due).cloned().collect();
        due.sort_unstable_by_key(|due| due.part);
        due
    }

    /// Adds a part of the pool, which has already given the rows before `place` in its deal.
    fn enter(&mut self, lane: &Lane, part: usize, place: u32) {
        match lane.is_steady(part) {
            true => self.steady.push_back(Due { part: part as u32, places: place..place }),
            false => self.wait(lane, part, place),
        }
    }

    /// Adds a part to the chain of the tick in which it gives the row at `place`, unless it has no such row,
    /// or that tick comes after all parts have entered the pool (the closing slot merges these ticks).
    fn wait(&mut self, lane: &Lane, part: usize, place: u32) {
        if place == lane.parts()[part].rows {
            return;
        }
        let tick = part + lane.age(part, place);
        if tick < lane.parts().len() {
            let next = std::mem::replace(self.first.at(tick), part as u32);
            *self.waiting.at(part) = Waiting { place, next };
        }
    }
}

impl<T: Copy> Ring<T> {
    fn new(consecutive: usize, value: T) -> Self {
        Ring(vec![value; consecutive.next_power_of_two()].into())
    }

    fn at(&mut self, number: usize) -> &mut T {
        let place = number & (self.0.len() - 1);
        &mut self.0[place]
    }
}
