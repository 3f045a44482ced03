//! The lanes of an epoch, each of which is made when it is first needed.
//!
//! A step needs only a few lanes. Making all of them takes longer than permuting the row groups, and several
//! times the memory: a lane keeps its parts, the number of rows before each part, and the phases of all
//! parts.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use super::draw::{Draws, Purpose};
use super::even_lanes;
use super::exact::Permutation;
use super::lane::{ExactParts, Lane, Part};
use super::order_spec::OrderSpec;
use super::row_costs::{Excess, RowCosts};
use super::spec::Mixing;

/// The lanes of one epoch. Their lengths differ by at most one row.
#[derive(Debug)]
pub(super) struct Lanes {
    made: Box<[OnceLock<Arc<Lane>>]>,
    rule: Rule,
}

/// How the lanes of an epoch are made.
#[derive(Debug)]
enum Rule {
    /// Each lane is a run of the sequence.
    Cut { sequence: Sequence, begins: Box<[Begin]>, spec: OrderSpec, epoch: u64 },
    /// Each lane is every `lanes`-th row of a permutation of all rows.
    Exact { all: ExactParts, permutation: Permutation },
}

/// Row groups, or pieces of them, in the order in which they are dealt to the lanes.
#[derive(Debug)]
enum Sequence {
    /// Whole row groups, and the number of rows of each row group of the data set.
    Groups(Box<[u32]>, Arc<[u32]>),
    Parts(Box<[Part]>),
}

/// The place where a lane begins: an item of the sequence (a row group or a piece of one), and the number of
/// rows of that item that belong to earlier lanes.
#[derive(Clone, Copy, Debug)]
struct Begin {
    item: u32,
    row: u32,
}

impl Lanes {
    /// The lanes of `epoch` over row groups that have `selected[g]` rows each.
    pub(super) fn new(selected: &Arc<[u32]>, rows: u64, spec: &OrderSpec, epoch: u64) -> Self {
        let groups = || (0..).zip(&**selected).filter(|(_, rows)| **rows > 0);
        let whole = |(group, &rows): (u32, &u32)| Part { group, start: 0, rows };
        let made = (0..spec.lanes).map(|_| OnceLock::new()).collect();
        if spec.mixing == Mixing::Exact {
            let all = ExactParts::new(groups().map(whole).collect());
            return Lanes {
                made,
                rule: Rule::Exact { all, permutation: Permutation::new(rows, spec.seed, epoch) },
            };
        }
        let mut draws = Draws::keyed(spec.seed, Purpose::Groups, &[epoch]);
        let is_mixed = spec.mixing == Mixing::Window;
        let mut sequence = if is_mixed && !spec.cuts().is_empty() {
            let mut parts = spec.in_pieces(groups().map(whole).collect());
            draws.shuffle(&mut parts);
            Sequence::Parts(parts.into())
        } else {
            let mut order: Box<[u32]> = groups().map(|(group, _)| group).collect();
            if is_mixed {
                draws.shuffle(&mut order);
            }
            Sequence::Groups(order, selected.clone())
        };
        let mut begins = sequence.begins(rows, spec.lanes.into());
        if let Some(costs) = spec.costs.as_ref().filter(|_| is_mixed && spec.lanes > 1) {
            sequence.even_out(&begins, costs);
            // Row groups of other sizes move the places where lanes begin.
            begins = sequence.begins(rows, spec.lanes.into());
        }
        Lanes { made, rule: Rule::Cut { sequence, begins, spec: spec.clone(), epoch } }
    }

    /// The number of lanes.
    pub(super) fn len(&self) -> usize {
        self.made.len()
    }

    /// The lane with a number below [`len`](Self::len).
    pub(super) fn lane(&self, number: u32) -> &Arc<Lane> {
        self.made[number as usize].get_or_init(|| Arc::new(self.make(number)))
    }

    fn make(&self, number: u32) -> Lane {
        match &self.rule {
            Rule::Exact { all, permutation } => {
                Lane::exact(all, permutation.clone(), number.into(), self.made.len() as u64)
            }
            Rule::Cut { sequence, begins, spec, epoch } => {
                let parts = sequence.between(begins[number as usize], begins[number as usize + 1]);
                match spec.mixing {
                    Mixing::Window => {
                        let lane = Lane::pooled(parts, spec.pool, spec.seed, *epoch, number.into());
                        spec.costs.iter().fold(lane, Lane::balanced)
                    }
                    _ => Lane::stored(spec.in_pieces(parts)),
                }
            }
        }
    }
}

impl Sequence {
    fn len(&self) -> usize {
        match self {
            Sequence::Groups(order, _) => order.len(),
            Sequence::Parts(parts) => parts.len(),
        }
    }

    fn at(&self, item: usize) -> Part {
        match self {
            Sequence::Groups(order, rows) => {
                Part { group: order[item], start: 0, rows: rows[order[item] as usize] }
            }
            Sequence::Parts(parts) => parts[item],
        }
    }

    /// Deals the items anew to the lanes that have them as a whole, so that all lanes cost about the same.
    fn even_out(&mut self, begins: &[Begin], costs: &RowCosts) {
        let of_item = |item| {
            let Part { group, start, rows } = self.at(item);
            costs.excess(group, start..start + rows)
        };
        let excess: Vec<Excess> = (0..self.len()).map(of_item).collect();
        let of_lane = |ends: &[Begin]| ends[0].item + u32::from(ends[0].row > 0)..ends[1].item;
        let lanes: Vec<Range<u32>> = begins.windows(2).map(of_lane).collect();
        let dealt = even_lanes::dealt(&lanes, &excess);
        match self {
            Sequence::Groups(order, _) => *order = dealt.iter().map(|item| order[*item as usize]).collect(),
            Sequence::Parts(parts) => *parts = dealt.iter().map(|item| parts[*item as usize]).collect(),
        }
    }

    /// The place where each lane begins, and the place where the last one ends.
    fn begins(&self, rows: u64, lanes: u64) -> Box<[Begin]> {
        let (mut item, mut before, mut end) = (0, 0, 0);
        let mut begins = Vec::with_capacity(lanes as usize + 1);
        begins.push(Begin { item: 0, row: 0 });
        for lane in 0..lanes {
            end += (rows + lanes - 1 - lane) / lanes;
            while item < self.len() {
                let of_item = u64::from(self.at(item).rows);
                if before + of_item > end {
                    break;
                }
                before += of_item;
                item += 1;
            }
            begins.push(Begin { item: item as u32, row: (end - before) as u32 });
        }
        begins.into()
    }

    /// The parts between the beginnings of two lanes.
    fn between(&self, from: Begin, to: Begin) -> Vec<Part> {
        let last = to.item as usize + usize::from(to.row > 0);
        let part = |item: usize| {
            let part = self.at(item);
            let start = if item == from.item as usize { from.row } else { 0 };
            let end = if item == to.item as usize { to.row } else { part.rows };
            Part { start: part.start + start, rows: end - start, ..part }
        };
        (from.item as usize..last).map(part).collect()
    }
}
