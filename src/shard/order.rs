//! The order of an epoch: row groups are permuted, joined into one sequence, and cut by rows into lanes.

use std::sync::Arc;

use super::lane::Lane;
use super::lanes::Lanes;
use super::mix::Portion;
use super::order_spec::OrderSpec;
use super::skips::Skips;

/// The order of one epoch: global row `i` is row `i / lanes` of lane `i mod lanes`.
#[derive(Clone, Debug)]
pub struct EpochOrder {
    lanes: Arc<Lanes>,
    rows: u64,
    pub(super) skips: Skips,
    /// The pass over a source of a mix that this order belongs to.
    pub(super) portion: Option<(Portion, u64)>,
}

impl EpochOrder {
    /// The order of `epoch` over row groups that have `selected[g]` rows each.
    pub fn new(selected: impl Into<Arc<[u32]>>, spec: &OrderSpec, epoch: u64) -> Self {
        let selected = selected.into();
        let rows: u64 = selected.iter().map(|&rows| u64::from(rows)).sum();
        let portion = spec.portion.clone().map(|portion| (portion, epoch));
        let lanes = Arc::new(Lanes::new(&selected, rows, spec, epoch));
        EpochOrder { lanes, rows, skips: spec.skips(epoch), portion }
    }

    /// An order that reuses these lanes, for the same epoch and a spec that agrees in [everything that lanes
    /// depend on](OrderSpec::of_lanes).
    #[must_use]
    pub(crate) fn with_lanes_of(&self, spec: &OrderSpec, epoch: u64) -> Self {
        let portion = spec.portion.clone().map(|portion| (portion, epoch));
        EpochOrder { skips: spec.skips(epoch), portion, ..self.clone() }
    }

    /// The number of lanes.
    pub(super) fn lanes(&self) -> usize {
        self.lanes.len()
    }

    /// The lane with this number. The lengths of lanes differ by at most one row.
    pub(super) fn lane(&self, number: u32) -> &Arc<Lane> {
        self.lanes.lane(number)
    }

    /// The number of selected rows of the data set.
    pub fn rows(&self) -> u64 {
        self.rows
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::*;
    use crate::shard::{Part, PlannedStep, Shard, Shuffle, Split, Walk};

    #[test]
    fn a_shuffle_takes_pieces_for_row_groups() {
        let rows = [250, 0, 100, 7];
        let shuffle = Shuffle::seeded(5).window_rows(160).piece_rows(100);
        let spec = OrderSpec::new(&shuffle, &rows, 1, 1);
        assert_eq!(spec.cuts(), &HashMap::from([(0, vec![83, 166])]));
        assert_eq!(spec.pool(), 2, "of 5 pieces, with 71 rows on average");
        let order = EpochOrder::new(rows, &spec, 1);
        let parts: HashSet<Part> = order.lane(0).parts().iter().copied().collect();
        let part = |group, start, rows| Part { group, start, rows };
        let wanted = [part(0, 0, 83), part(0, 83, 83), part(0, 166, 84), part(2, 0, 100), part(3, 0, 7)];
        assert_eq!(parts, HashSet::from(wanted));
        // If no row group is larger than a piece, the order is the same as without `piece_rows`.
        let whole = OrderSpec::new(&Shuffle::seeded(5).window_rows(160), &rows, 1, 1);
        let same = OrderSpec::new(&shuffle.piece_rows(250), &rows, 1, 1);
        let parts = |spec| EpochOrder::new(rows, spec, 1).lane(0).parts().to_vec();
        assert_eq!((parts(&whole), whole.pool()), (parts(&same), same.pool()));
    }

    #[test]
    fn lanes_of_a_balanced_order_cost_about_the_same_and_have_each_row_once() {
        const LANES: u32 = 4;
        let cost = |group: u32| 1.0 + (group * 7 % 16) as f32;
        for (of_group, shuffle) in [
            (vec![10_u32; 64], Shuffle::seeded(5)),
            (vec![10; 64], Shuffle::seeded(6).piece_rows(5)),
            ((0..70).map(|group| group * 5 % 17).collect(), Shuffle::seeded(7)),
        ] {
            let rows: u32 = of_group.iter().sum();
            let costs = (0..).zip(&of_group).map(|(group, &rows)| vec![cost(group); rows as usize]).collect();
            let plain = OrderSpec::new(&shuffle.window_rows(160), &of_group, LANES, 1);
            let balanced = plain.clone().balanced(&[costs]);
            let farthest = |spec: &OrderSpec| -> f32 {
                let order = EpochOrder::new(of_group.clone(), spec, 1);
                let parts = |lane| order.lane(lane).parts().iter().copied();
                let of_lane = |lane| parts(lane).map(|part| cost(part.group) * part.rows as f32).sum::<f32>();
                let lanes: Vec<f32> = (0..LANES).map(of_lane).collect();
                let mean = lanes.iter().sum::<f32>() / LANES as f32;
                let all = (0..LANES).flat_map(parts);
                let each: HashSet<(u32, u32)> = all
                    .flat_map(|part| (0..part.rows).map(move |row| (part.group, part.start + row)))
                    .collect();
                assert_eq!(each.len() as u32, rows);
                assert!(
                    (0..LANES).all(|lane| order.lane(lane).rows().abs_diff(u64::from(rows / LANES)) <= 1)
                );
                lanes.iter().map(|of_lane| (of_lane / mean - 1.0).abs()).fold(0.0, f32::max)
            };
            let (even, random) = (farthest(&balanced), farthest(&plain));
            // Row groups of other sizes move the places where lanes begin.
            let has_one_size = of_group.iter().all(|rows| *rows == of_group[0]);
            assert!(!has_one_size || (even < 0.03 && even < 0.5 * random), "{even}, {random} at random");
        }
    }

    #[test]
    fn pieces_change_no_row_of_any_step() {
        let rows = [5, 0, 100, 7];
        for (world, batch) in [(1, 4), (3, 10)] {
            let whole = OrderSpec::new(&Shuffle::stored(), &rows, world, 1);
            let cut = whole.clone().with_cuts(HashMap::from([(2, vec![1, 30, 31, 99])]));
            let split = |rank| {
                let shard = Shard::new(rank, world).unwrap();
                Split {
                    rows: 112,
                    lanes: whole.lanes(),
                    shard,
                    global_batch: batch * u64::from(world),
                    drop_last: false,
                }
            };
            let delivered = |spec: &OrderSpec, rank| {
                let places = |step: PlannedStep| {
                    let place = |&(part, row): &(u32, u32)| {
                        let Part { group, start, .. } = step.parts[part as usize];
                        (group, start + row)
                    };
                    step.picks.iter().map(place).collect::<Vec<_>>()
                };
                Walk::new(&EpochOrder::new(rows, spec, 3), split(rank), 0).map(places).collect::<Vec<_>>()
            };
            for rank in 0..world {
                assert_eq!(delivered(&whole, rank), delivered(&cut, rank));
            }
            let order = EpochOrder::new(rows, &cut, 0);
            let parts = (0..world).flat_map(|lane| order.lane(lane).parts());
            let starts: Vec<u32> = parts.filter(|part| part.group == 2).map(|part| part.start).collect();
            assert!([1, 30, 31, 99].iter().all(|cut| starts.contains(cut)), "{starts:?}");
        }
    }
}
