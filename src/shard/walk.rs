//! The steps of one rank through an epoch, with the parts that each step needs.

use std::collections::HashMap;
use std::iter::Peekable;
use std::ops::Range;
use std::sync::Arc;

use super::cursor::Cursor;
use super::deal::Deals;
use super::lane::{Part, Pick};
use super::mix::{PortionShares, StepOfMix};
use super::order::EpochOrder;
use super::skips::Skips;
use super::slots::Slots;
use super::split::{Share, Split};

/// One batch of one rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlannedStep {
    /// The parts that are needed from this step on, in the order in which they should be fetched.
    pub entering: Vec<Part>,
    /// The parts that have rows of the batch, in the order of first use.
    pub parts: Vec<Part>,
    /// The rows of the batch. Each is an index into `parts`, and a row of that part, or a place in its deal
    /// if [`Deals::walk`] made the walk.
    pub picks: Vec<(u32, u32)>,
    /// The parts that no later step needs.
    pub leaving: Vec<Part>,
    /// The number of rows in the batch.
    pub rows: u64,
    /// The number of repeated rows in the batch.
    pub padded: u64,
    /// The global row at which the next step begins.
    pub end: u64,
    /// The step of a mix that the batch is a share of, if other sources have shares of it too.
    pub(crate) of_mix: Option<StepOfMix>,
}

/// An iterator over the [steps](PlannedStep) of one rank.
///
/// Two walks over the same order give the same steps. So a reader can run ahead with a [scout](Walk::scout),
/// which lists the parts to fetch but no rows, while the consumer of the parts follows with a walk of its
/// own.
#[derive(Debug)]
pub struct Walk {
    shares: Peekable<Shares>,
    /// The state of each lane that has been read.
    lanes: Vec<Option<LaneState>>,
    /// Whether any lane has begun.
    has_begun: bool,
    deals: Arc<Deals>,
    draw: Draw,
    scratch: Vec<Pick>,
    /// Scratch space for [`list`]. It maps the parts of a lane, from the first one that has picks, to their
    /// indices in the `parts` of the step.
    places: Vec<u32>,
}

/// The rank's share of each step.
#[derive(Debug)]
enum Shares {
    /// Steps of equal size, except at skipped ranges.
    Even { split: Split, skips: Skips, start: u64 },
    /// The steps that have rows of this source of a mix.
    Portion(PortionShares),
}

impl Iterator for Shares {
    type Item = (Share, Option<StepOfMix>);

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Shares::Even { split, skips, start } => {
                let share = skips.share(split, *start)?;
                *start = share.end;
                Some((share, None))
            }
            Shares::Portion(shares) => shares.next(),
        }
    }
}

/// How much a walk computes for each step: only which parts it needs, or its rows as well.
#[derive(Debug)]
enum Draw {
    /// Only the parts.
    Parts,
    /// Only the parts, and those that enter are recorded in [`Deals`] for their readers.
    NotedParts,
    /// Each row as a place in the deal of its part (the order in which the part's rows are delivered).
    Places,
    /// Each row as its number in the part, which is looked up in the deal of the part. The deals of the parts
    /// in memory are kept here, by lane and number of the part in the lane.
    Rows(HashMap<(u32, u32), Option<Box<[u32]>>>),
}

#[derive(Debug)]
struct LaneState {
    slots: Slots,
    cursor: Cursor,
}

impl Walk {
    /// A walk that starts at the global row `start`.
    pub fn new(order: &EpochOrder, split: Split, start: u64) -> Self {
        let order = order.clone();
        Walk::over(Deals::new(move || order.clone()), split, start, Draw::Rows(HashMap::new()))
    }

    /// The same walk with the `picks` of every step left empty, which is enough to know which parts to read.
    pub fn scout(order: &EpochOrder, split: Split, start: u64) -> Self {
        Walk { draw: Draw::Parts, ..Walk::new(order, split, start) }
    }

    fn over(deals: Arc<Deals>, split: Split, start: u64, draw: Draw) -> Self {
        let order = deals.order();
        let shares = match &order.portion {
            Some((portion, pass)) => Shares::Portion(portion.shares(*pass, start)),
            None => Shares::Even { split, skips: order.skips.clone(), start },
        };
        Walk {
            shares: shares.peekable(),
            lanes: (0..order.lanes()).map(|_| None).collect(),
            has_begun: false,
            deals,
            draw,
            scratch: Vec::new(),
            places: Vec::new(),
        }
    }

    /// The parts that are in memory.
    fn held(&self) -> impl Iterator<Item = Part> {
        let begun = self.lanes.iter().flatten().map(|state| &state.slots);
        let begun = begun.filter(|slots| !slots.residents().is_empty());
        let are_shared = begun.clone().any(|slots| slots.lane().shares_parts());
        let lanes = begun.take(if are_shared { 1 } else { self.lanes.len() });
        lanes.flat_map(|slots| slots.lane().parts()[slots.residents()].iter().copied())
    }
}

impl Iterator for Walk {
    type Item = PlannedStep;

    fn next(&mut self) -> Option<PlannedStep> {
        let (share, of_mix) = self.shares.next()?;
        let rows = share.spans.iter().map(|span| span.to - span.from).sum();
        let (padded, end) = (share.padded, share.end);
        let mut step = PlannedStep { rows, padded, end, of_mix, ..PlannedStep::default() };
        for span in &share.spans {
            let state = &mut self.lanes[span.lane as usize];
            let LaneState { slots, cursor } = state.get_or_insert_with(|| LaneState {
                slots: Slots::new(self.deals.order().lane(span.lane).clone()),
                cursor: Cursor::new(span.lane),
            });
            let lane = slots.lane().clone();
            let parts = lane.parts();
            self.scratch.clear();
            let mut at = span.from;
            while at < span.to {
                if !slots.rows().contains(&at) {
                    let old = slots.residents();
                    slots.seek(at);
                    let new = slots.residents();
                    let is_held = self.has_begun && lane.shares_parts();
                    for part in without(&new, &old).filter(|_| !is_held) {
                        step.entering.push(parts[part]);
                        if let Draw::NotedParts = self.draw {
                            self.deals.enters(parts[part], span.lane, part as u32);
                        }
                    }
                    for part in without(&old, &new) {
                        step.leaving.push(parts[part]);
                        if let Draw::Rows(deals) = &mut self.draw {
                            deals.remove(&(span.lane, part as u32));
                        }
                    }
                    self.has_begun = true;
                }
                let until = span.to.min(slots.rows().end);
                if matches!(self.draw, Draw::Places | Draw::Rows(_)) {
                    cursor.take(&self.deals, slots, at..until, &mut self.scratch);
                }
                at = until;
            }
            if let Draw::Rows(deals) = &mut self.draw {
                for pick in &mut self.scratch {
                    let deal = deals.entry((span.lane, pick.part));
                    let deal = deal.or_insert_with(|| self.deals.deal(span.lane, pick.part));
                    pick.row = deal.as_ref().map_or(pick.row, |deal| deal[pick.row as usize]);
                }
            }
            list(&self.scratch, parts, &mut self.places, &mut step);
        }
        if self.shares.peek().is_none() {
            step.leaving.extend(self.held());
        }
        Some(step)
    }
}

impl Deals {
    /// A walk whose picks name places in the deals of the parts instead of their rows.
    pub fn walk(self: &Arc<Self>, split: Split, start: u64) -> Walk {
        Walk::over(self.clone(), split, start, Draw::Places)
    }

    /// A walk that leaves `picks` empty and records the parts that enter, so that [`take`](Self::take) finds
    /// them.
    pub fn scout(self: &Arc<Self>, split: Split, start: u64) -> Walk {
        self.begin(split, start);
        Walk::over(self.clone(), split, start, Draw::NotedParts)
    }
}

/// The numbers of a range that are not in the other range.
fn without(range: &Range<usize>, other: &Range<usize>) -> impl Iterator<Item = usize> {
    (range.start..range.end.min(other.start)).chain(range.start.max(other.end)..range.end)
}

/// Adds a lane's picks to a step, each with the index of its part among the step's parts. All `places` must
/// be `NOT_YET` before, and are `NOT_YET` after.
fn list(picks: &[Pick], parts: &[Part], places: &mut Vec<u32>, step: &mut PlannedStep) {
    const NOT_YET: u32 = u32::MAX;
    let ends = picks.iter().fold(None, |ends, pick| {
        let (first, last) = ends.unwrap_or((pick.part, pick.part));
        Some((pick.part.min(first), pick.part.max(last)))
    });
    let Some((first, last)) = ends else { return };
    let residents = (last - first + 1) as usize;
    places.resize(places.len().max(residents), NOT_YET);
    step.picks.extend(picks.iter().map(|pick| {
        let place = &mut places[(pick.part - first) as usize];
        if *place == NOT_YET {
            *place = step.parts.len() as u32;
            step.parts.push(parts[pick.part as usize]);
        }
        (*place, pick.row)
    }));
    if residents < picks.len() {
        places[..residents].fill(NOT_YET);
    } else {
        picks.iter().for_each(|pick| places[(pick.part - first) as usize] = NOT_YET);
    }
}
