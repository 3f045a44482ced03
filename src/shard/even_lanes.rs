//! Deals row groups to lanes so that all lanes cost about the same.
//!
//! Rows are [exchanged](super::exchange) only within a lane, because a lane reads its own row groups. So a
//! lane whose window holds expensive row groups is expensive in each of its batches: of 512 lanes that mix
//! 8,192 rows with a deviation of twice their mean cost, one is 7 % above the mean. Therefore the row groups
//! that enter the lanes at the same tick are dealt anew: expensive ones go to lanes that have cost little so
//! far. A row group keeps its tick, so the rows of all lanes are mixed as before.

use std::ops::Range;

use super::row_costs::{Excess, RowCosts};

/// The number of neighbours, in the order of their excess, with which a row group may be exchanged. More make
/// lanes more equal in several costs, and take longer.
const NEAR: usize = 16;

/// An exchange that gains less than this (in squares of mean costs) is not made.
const MIN_GAIN: f32 = 1e-6;

/// Deals items (row groups, or pieces of them) to lanes. `lanes` has the items of each lane in the order in
/// which they enter, and `excess` that of each item. Returns the items in their new order, so that the item
/// at place `i` is the one with which the lane that has place `i` continues.
pub(super) fn dealt(lanes: &[Range<u32>], excess: &[Excess]) -> Vec<u32> {
    let mut items: Vec<u32> = (0..excess.len() as u32).collect();
    let mut so_far = vec![Excess::default(); lanes.len()];
    let ticks = lanes.iter().map(|lane| lane.len() as u32).max().unwrap_or(0);
    let mut entering: Vec<(f32, u32)> = Vec::with_capacity(lanes.len());
    let mut taking: Vec<(f32, u32)> = Vec::with_capacity(lanes.len());
    for tick in 0..ticks {
        let open = || (0..).zip(lanes).filter(|(_, lane)| tick < lane.len() as u32);
        entering.clear();
        entering.extend(open().map(|(_, lane)| {
            let item = lane.start + tick;
            (sum(&excess[item as usize]), item)
        }));
        entering.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        taking.clear();
        taking.extend(open().map(|(number, _)| (sum(&so_far[number as usize]), number)));
        taking.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        for at in 0..taking.len() {
            exchange(at, &mut entering, &taking, excess, &so_far);
        }
        for ((_, item), (_, lane)) in entering.iter().zip(&taking) {
            items[(lanes[*lane as usize].start + tick) as usize] = *item;
            add(&mut so_far[*lane as usize], &excess[*item as usize]);
        }
    }
    items
}

/// Exchanges the item at place `at` with that one of its neighbours with which most is gained.
fn exchange(
    at: usize,
    entering: &mut [(f32, u32)],
    taking: &[(f32, u32)],
    excess: &[Excess],
    so_far: &[Excess],
) {
    let of_item = |place: usize| &excess[entering[place].1 as usize];
    let of_lane = |place: usize| {
        let mut sum = so_far[taking[place].1 as usize];
        add(&mut sum, of_item(place));
        sum
    };
    let (here, item) = (of_lane(at), of_item(at));
    let (mut least, mut with) = (-MIN_GAIN, at);
    for other in at.saturating_sub(NEAR)..entering.len().min(at + 1 + NEAR) {
        let (there, its) = (of_lane(other), of_item(other));
        let mut change = 0.0;
        for kind in 0..RowCosts::MAX_COSTS {
            let more = its[kind] - item[kind];
            change += more * (here[kind] - there[kind] + more);
        }
        if change < least {
            (least, with) = (change, other);
        }
    }
    entering.swap(at, with);
}

fn sum(excess: &Excess) -> f32 {
    excess.iter().sum()
}

fn add(to: &mut Excess, more: &Excess) {
    to.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::shard::draw::{Draws, Purpose};

    #[test]
    fn lanes_get_equal_costs_and_each_item_keeps_its_tick() {
        let mut draws = Draws::keyed(1, Purpose::Groups, &[]);
        for kinds in 1..=RowCosts::MAX_COSTS {
            // One lane has fewer items than the others, and two items belong to no lane alone.
            let lanes: Vec<Range<u32>> =
                (0..32).map(|lane| 9 * lane..9 * lane + 9 - u32::from(lane == 7)).collect();
            let mut draw = || {
                let mut excess = Excess::default();
                excess[..kinds].fill_with(|| draws.below(2_001) as f32 / 1_000.0 - 1.0);
                excess
            };
            let excess: Vec<Excess> = (0..32 * 9 + 1).map(|_| draw()).collect();
            let items = dealt(&lanes, &excess);
            assert_eq!(items.iter().collect::<HashSet<_>>().len(), excess.len());
            assert_eq!((items[9 * 7 + 8], items[32 * 9]), (9 * 7 + 8, 32 * 9), "these stay");
            let of_lane = |lane: &Range<u32>, items: &[u32], kind: usize| -> f32 {
                lane.clone().map(|place| excess[items[place as usize] as usize][kind]).sum()
            };
            for lane in &lanes {
                for place in lane.clone() {
                    assert_eq!(items[place as usize] % 9, place % 9, "the tick");
                }
            }
            let stored: Vec<u32> = (0..excess.len() as u32).collect();
            for kind in 0..kinds {
                let most = |items: &[u32]| -> f32 {
                    lanes.iter().map(|lane| of_lane(lane, items, kind).abs()).fold(0.0, f32::max)
                };
                assert!(most(&items) < 0.6 * most(&stored), "{kinds}: {} {}", most(&items), most(&stored));
            }
        }
    }

    #[test]
    fn lanes_without_items_and_equal_items_are_left_alone() {
        assert_eq!(dealt(&[], &[]), Vec::<u32>::new());
        assert_eq!(dealt(&[0..0, 0..1], &[Excess::default()]), [0]);
        assert_eq!(dealt(&[0..2, 2..4], &[[1.0; 4]; 4]), [0, 1, 2, 3]);
    }
}
