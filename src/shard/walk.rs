//! The steps of one rank through an epoch, with the parts that each needs.

use std::collections::HashMap;
use std::sync::Arc;

use super::cursor::Cursor;
use super::deal::Deals;
use super::lane::{Lane, Part, Pick};
use super::order::EpochOrder;
use super::split::Split;

/// One batch of one rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlannedStep {
    /// Parts that are needed from this step on, in the order in which to fetch them.
    pub entering: Vec<Part>,
    /// Parts that rows of the batch come from, in the order of first use.
    pub parts: Vec<Part>,
    /// The rows of the batch: an index into `parts`, and a row in that part, or a place in its deal where the walk is one of
    /// [`Deals::walk`].
    pub picks: Vec<(u32, u32)>,
    /// Parts that no later step needs.
    pub leaving: Vec<Part>,
    /// How many rows.
    pub rows: u64,
    /// How many of them are repeats.
    pub padded: u64,
    /// The global row at which the next step begins.
    pub end: u64,
}

/// An iterator over the [steps](PlannedStep) of one rank.
///
/// Two walks over one order give the same steps: a reader runs ahead with a [scout](Walk::scout), which skips the
/// drawing of rows, while the consumer of its parts follows with a walk of its own.
#[derive(Debug)]
pub struct Walk {
    split: Split,
    start: u64,
    lanes: Vec<LaneState>,
    /// How many lanes hold a part at present: an exact shuffle's lanes share theirs.
    holders: HashMap<Part, u32>,
    deals: Arc<Deals>,
    draw: Draw,
    scratch: Vec<Pick>,
    /// Where a lane's parts are among the step's, from the span's first resident on.
    places: Vec<u32>,
}

/// What a walk draws, beside the parts.
#[derive(Debug)]
enum Draw {
    /// Nothing.
    Parts,
    /// Nothing, and notes the parts that enter.
    NotedParts,
    /// Places in the deals of parts.
    Places,
    /// Rows of parts, through the deals of those that are resident, by lane and ordinal.
    Rows(HashMap<(u32, u32), Option<Box<[u32]>>>),
}

#[derive(Debug)]
struct LaneState {
    cursor: Cursor,
    /// The slot that the lane is in, and the lane's row at which the next one begins.
    slot: Option<usize>,
    slot_end: u64,
}

impl Walk {
    /// From the global row `start` on.
    pub fn new(order: &EpochOrder, split: Split, start: u64) -> Self {
        let order = order.clone();
        Walk::over(Deals::new(move || order.clone()), split, start, Draw::Rows(HashMap::new()))
    }

    /// The same walk with the `picks` of every step left empty: enough to know what to read.
    pub fn scout(order: &EpochOrder, split: Split, start: u64) -> Self {
        Walk { draw: Draw::Parts, ..Walk::new(order, split, start) }
    }

    pub(super) fn dealt(deals: Arc<Deals>, split: Split, start: u64) -> Self {
        Walk::over(deals, split, start, Draw::Places)
    }

    pub(super) fn noting(deals: Arc<Deals>, split: Split, start: u64) -> Self {
        Walk::over(deals, split, start, Draw::NotedParts)
    }

    fn over(deals: Arc<Deals>, split: Split, start: u64, draw: Draw) -> Self {
        let state = |(number, lane): (usize, &Arc<Lane>)| LaneState {
            cursor: Cursor::new(lane.clone(), number as u32),
            slot: None,
            slot_end: 0,
        };
        Walk {
            split,
            start,
            lanes: deals.order().lanes().iter().enumerate().map(state).collect(),
            holders: HashMap::new(),
            deals,
            draw,
            scratch: Vec::new(),
            places: Vec::new(),
        }
    }

    fn release(holders: &mut HashMap<Part, u32>, part: Part, leaving: &mut Vec<Part>) {
        if let Some(count) = holders.get_mut(&part) {
            *count -= 1;
            if *count == 0 {
                holders.remove(&part);
                leaving.push(part);
            }
        }
    }
}

impl Iterator for Walk {
    type Item = PlannedStep;

    fn next(&mut self) -> Option<PlannedStep> {
        let share = self.split.share(self.start)?;
        let rows = share.spans.iter().map(|span| span.to - span.from).sum();
        let mut step = PlannedStep { rows, padded: share.padded, end: share.end, ..PlannedStep::default() };
        for span in &share.spans {
            let state = &mut self.lanes[span.lane as usize];
            let lane = state.cursor.lane().clone();
            let parts = lane.parts();
            loop {
                let next = match state.slot {
                    Some(slot) if span.from == state.slot_end => slot + 1,
                    Some(_) if span.to <= state.slot_end => break,
                    Some(slot) if span.from < state.slot_end => slot + 1,
                    _ => lane.slot_of(span.from),
                };
                let old = state.slot.map_or(0..0, |slot| lane.residents(slot));
                let new = lane.residents(next);
                for part in new.clone().filter(|part| !old.contains(part)) {
                    let holders = self.holders.entry(parts[part]).or_insert(0);
                    *holders += 1;
                    if *holders == 1 {
                        step.entering.push(parts[part]);
                        if let Draw::NotedParts = self.draw {
                            self.deals.enters(parts[part], span.lane, part as u32);
                        }
                    }
                }
                for part in old.filter(|part| !new.contains(part)) {
                    Walk::release(&mut self.holders, parts[part], &mut step.leaving);
                    if let Draw::Rows(deals) = &mut self.draw {
                        deals.remove(&(span.lane, part as u32));
                    }
                }
                state.slot = Some(next);
                state.slot_end = lane.slot_start(next + 1);
            }
            if matches!(self.draw, Draw::Places | Draw::Rows(_)) {
                self.scratch.clear();
                state.cursor.seek(span.from);
                state.cursor.take(&self.deals, span.to, &mut self.scratch);
                if let Draw::Rows(deals) = &mut self.draw {
                    for pick in &mut self.scratch {
                        let deal = deals.entry((span.lane, pick.part));
                        let deal = deal.or_insert_with(|| self.deals.deal(span.lane, pick.part));
                        pick.row = deal.as_ref().map_or(pick.row, |deal| deal[pick.row as usize]);
                    }
                }
                list(&self.scratch, parts, &mut self.places, &mut step);
            }
        }
        self.start = share.end;
        if self.split.share(self.start).is_none() {
            step.leaving.extend(self.holders.drain().map(|(part, _)| part));
        }
        Some(step)
    }
}

/// Adds a lane's picks to a step, each with its part's place among the step's parts.
fn list(picks: &[Pick], parts: &[Part], places: &mut Vec<u32>, step: &mut PlannedStep) {
    const NOT_YET: u32 = u32::MAX;
    let (Some(first), Some(last)) = (picks.iter().map(|p| p.part).min(), picks.iter().map(|p| p.part).max())
    else {
        return;
    };
    places.clear();
    places.resize((last - first + 1) as usize, NOT_YET);
    step.picks.reserve(picks.len());
    for pick in picks {
        let place = &mut places[(pick.part - first) as usize];
        if *place == NOT_YET {
            *place = step.parts.len() as u32;
            step.parts.push(parts[pick.part as usize]);
        }
        step.picks.push((*place, pick.row));
    }
}
