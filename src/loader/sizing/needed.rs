//! Computes how much of the memory budget an order needs for row groups and for lists of rows.

use crate::reader::budget::Budget;
use crate::reader::cost::Cost;
use crate::reader::reads::Reads;
use crate::samples::SampleIndex;
use crate::shard::{Mixing, OrderSpec, Split};

/// The number of parts for which each lane has memory in addition to its pool (the parts in its window), so
/// that a batch may extend into the next part.
const STRADDLED_PARTS: u64 = 1;

/// The bytes for each row of a part's deal, the list of its rows in the order of delivery.
const DEAL_BYTES: u64 = 4;

/// The most memory that an order needs, in any epoch and on any rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Needed {
    /// The bytes for row groups.
    pub(super) row_groups: u64,
    /// The bytes for lists of rows, which hold the shuffled order of a window.
    pub(super) lists: u64,
    /// The number of lanes that a rank reads.
    pub(super) lanes: u64,
    /// The bytes that the largest row group takes while it is fetched and decoded, without the lists of its
    /// rows.
    pub(super) largest: u64,
}

/// The bytes for each row of a window if rows are balanced by cost. Three passes over the plan each hold the
/// row's costs, in eight bytes. The other 72 bytes hold the row's costs and positions while rows are
/// arranged; all rows of the window may be arranged at the same time.
const BALANCE_BYTES: u64 = 3 * 8 + 72;

/// The number of rows and the memory of a row group, or of a piece of one.
#[derive(Clone, Copy, Debug)]
struct Weight {
    /// The fewest rows that the row group has in an epoch, at least one.
    rows: u32,
    /// The most rows that the row group has in an epoch.
    most: u32,
    /// The bytes that the rows of the row group take.
    held: u64,
}

impl Needed {
    /// Computes the memory that `order` needs if it reads the rows of `samples` in the row groups of `reads`.
    pub(super) fn for_order(
        reads: &Reads,
        samples: &SampleIndex,
        order: &OrderSpec,
        split: Split,
        needs_deals: bool,
    ) -> Self {
        let counts = samples.least().iter().zip(samples.most()).enumerate();
        let (mut passing, mut largest) = (0, 0);
        let mut weight = |rows: u32, most: u32, cost: Cost| {
            passing = Budget::rounded(cost.passing()).max(passing);
            largest = cost.total().max(largest);
            // A row group of which an epoch selects no rows is not read in this epoch. So a row group that is
            // read has at least 1 row.
            Weight { rows: rows.max(1), most, held: Budget::rounded(cost.held) }
        };
        let mut groups: Vec<Weight> = Vec::with_capacity(samples.most().len());
        for (group, (&least, &most)) in counts.filter(|(_, (_, most))| **most > 0) {
            match reads.pieces.of_group(group) {
                Some(pieces) => {
                    let cost = |piece| reads.piece_cost(piece);
                    groups.extend(pieces.iter().map(|piece| weight(piece.rows, piece.rows, cost(piece))));
                }
                None => groups.push(weight(least, most, reads.whole_cost(group))),
            }
        }
        let lanes = order.lanes_of_a_rank(&split);
        let pool = u64::from(order.pool());
        let drawn = match samples.listed_bytes() {
            0 => 0,
            bytes => bytes.saturating_mul(listed(&mut groups, lanes * (pool + STRADDLED_PARTS), split.rows)),
        };
        let balanced = match order.is_balanced() {
            true => BALANCE_BYTES.saturating_mul(listed(&mut groups, lanes * pool, split.rows)),
            false => 0,
        };
        let needed = Needed::for_groups(groups, passing, order.mixing, pool, split, lanes, needs_deals);
        let lists = needed.lists.saturating_add(drawn).saturating_add(balanced);
        Needed { lists, largest, ..needed }
    }

    /// Computes the memory for row groups of these weights. Each epoch distributes row groups among lanes and
    /// windows at random, so the largest ones are assumed to be in memory together.
    ///
    /// A lane holds the parts of its pool. Each lane also has memory for one more part, so that a batch that
    /// takes rows from two successive row groups does not wait. If there is no memory for the next part, the
    /// assembly of batches copies the few rows that a batch needs from parts that no later batch needs, and
    /// releases these parts ([`Assembly::detach_leaving`](crate::loader::assembly)). While a row group is
    /// decoded, its stored bytes and temporary buffers are in memory beside its rows. They take at most
    /// `passing` bytes.
    fn for_groups(
        mut groups: Vec<Weight>,
        passing: u64,
        mixing: Mixing,
        pool: u64,
        split: Split,
        lanes: u64,
        needs_deals: bool,
    ) -> Self {
        if mixing == Mixing::Exact {
            let held = groups.iter().map(|group| group.held).sum::<u64>();
            let lanes = u64::from(split.lanes);
            return Needed { row_groups: held + passing, lanes, ..Needed::default() };
        }
        let rows = lanes * split.rows.div_ceil(u64::from(split.lanes.max(1)));
        // A row group that is divided between two lanes is in memory for both, so it is counted twice.
        let shared = lanes - 1;
        let most = (lanes * (pool + STRADDLED_PARTS)).min(parts_of(&mut groups, rows) + shared);
        groups.sort_unstable_by_key(|group| std::cmp::Reverse(group.held));
        let largest = groups.first().map_or(0, |group| group.held);
        let by_count = groups.iter().map(|group| group.held).take(most as usize).sum::<u64>()
            + most.saturating_sub(groups.len() as u64) * largest;
        let by_rows = held_by(&mut groups, rows) + (CUT_GROUPS + shared) * largest;
        let lists = match (mixing, pool) {
            (Mixing::Window, 1) => {
                DEAL_BYTES.saturating_mul(listed(&mut groups, lanes * (1 + STRADDLED_PARTS), rows))
            }
            (Mixing::Window, _) => {
                listed_bytes(pool, needs_deals).saturating_mul(listed(&mut groups, lanes * pool, rows))
            }
            // No lists are needed: rows are delivered in stored order, or the position of each row is
            // computed.
            (Mixing::Stored | Mixing::Exact, _) => 0,
        };
        Needed { row_groups: by_count.min(by_rows) + passing, lists, lanes, largest: 0 }
    }
}

/// The bytes of lists for each row of a window of `pool` parts. The lists of two epochs overlap. For each
/// row, the next epoch has an entry in the deal of the row's part, and the number of the row's source. If
/// deals are needed, the current epoch adds its own deals and one byte for the source numbers that are left.
fn listed_bytes(pool: u64, needs_deals: bool) -> u64 {
    let source = if pool <= 0xFF { 1 } else { 2 };
    DEAL_BYTES + source + if needs_deals { DEAL_BYTES + 1 } else { 0 }
}

/// The bytes of lists for each row or sample of a row group while the row group is fetched and decoded.
pub(super) fn listed_while_read(samples: &SampleIndex, order: &OrderSpec) -> u64 {
    let dealt = if order.is_windowed() { DEAL_BYTES } else { 0 };
    dealt + samples.listed_bytes()
}

/// Consecutive rows may begin and end in the middle of a row group, so they touch up to this number of row
/// groups only in part.
const CUT_GROUPS: u64 = 2;

/// The largest number of row groups that `rows` consecutive rows can touch.
fn parts_of(groups: &mut [Weight], rows: u64) -> u64 {
    groups.sort_unstable_by_key(|group| group.rows);
    let mut left = rows;
    let whole = groups.iter().take_while(|group| {
        let fits = u64::from(group.rows) <= left;
        left = left.saturating_sub(group.rows.into());
        fits
    });
    (whole.count() as u64 + CUT_GROUPS).min(groups.len() as u64)
}

/// The most bytes that the row groups of `rows` rows can take.
fn held_by(groups: &mut [Weight], rows: u64) -> u64 {
    groups.sort_unstable_by_key(|group| std::cmp::Reverse(group.held / u64::from(group.rows.max(1))));
    let mut left = rows;
    let mut held = 0;
    for group in groups {
        if left == 0 {
            break;
        }
        held += group.held;
        left = left.saturating_sub(group.rows.into());
    }
    held
}

/// The most rows that any `parts` parts can have together, limited to `rows`.
fn listed(groups: &mut [Weight], parts: u64, rows: u64) -> u64 {
    groups.sort_unstable_by_key(|group| std::cmp::Reverse(group.most));
    let all: u64 = groups.iter().take(parts as usize).map(|group| u64::from(group.most)).sum();
    all.min(rows)
}

#[cfg(test)]
mod tests {
    use forebay_store::row_set::RowSet;

    use super::*;
    use crate::shard::{Shard, Shuffle};

    const KIB: u64 = 1 << 10;

    /// Makes row groups of 100 rows and 100 KiB each.
    fn groups(number: usize) -> Vec<Weight> {
        vec![Weight { rows: 100, most: 100, held: 100 * KIB }; number]
    }

    fn split(rows: u64, lanes: u32, world: u32) -> Split {
        Split {
            rows,
            lanes,
            shard: Shard::new(0, world).unwrap(),
            global_batch: 10 * u64::from(world),
            drop_last: false,
        }
    }

    fn need(groups: Vec<Weight>, mixing: Mixing, pool: u64, split: Split) -> Needed {
        let stored = if groups.iter().all(|group| group.held == 100 * KIB) { 40 * KIB } else { 15_000 * KIB };
        Needed::for_groups(groups, stored, mixing, pool, split, split.lanes_of_a_rank(), true)
    }

    #[test]
    fn a_lane_has_memory_for_its_pool_and_the_part_that_a_batch_straddles() {
        let needed = need(groups(64), Mixing::Window, 4, split(6_400, 2, 2));
        assert_eq!(needed.row_groups, 5 * 100 * KIB + 40 * KIB, "and the bytes of the one that is decoded");
        assert_eq!((needed.lanes, needed.lists), (1, 4 * 100 * listed_bytes(4, true)));
        let two_lanes = need(groups(64), Mixing::Window, 4, split(6_400, 4, 2));
        assert_eq!((two_lanes.row_groups, two_lanes.lanes), (2 * 500 * KIB + 40 * KIB, 2));
        let stored = need(groups(64), Mixing::Stored, 1, split(6_400, 1, 1));
        assert_eq!((stored.row_groups, stored.lists), (240 * KIB, 0));
    }

    #[test]
    fn a_list_has_the_place_of_a_row_its_part_and_maybe_its_place_in_the_deal() {
        let bytes = [(255, false), (256, false), (255, true)].map(|(pool, deals)| listed_bytes(pool, deals));
        assert_eq!(bytes, [5, 6, 10]);
    }

    #[test]
    fn only_rows_of_a_window_are_listed_while_their_row_group_is_read() {
        let samples = SampleIndex::of_rows(vec![RowSet::all(100)]);
        let listed = |shuffle| listed_while_read(&samples, &OrderSpec::new(&shuffle, &[100], 1, 10));
        assert_eq!([Shuffle::stored(), Shuffle::exact(1)].map(listed), [0, 0]);
        assert_eq!(listed(Shuffle::seeded(1)), size_of::<u32>() as u64, "the number of the row");
    }

    #[test]
    fn a_lane_holds_no_more_than_it_has() {
        let needed = need(groups(16), Mixing::Window, 16, split(1_600, 2, 2));
        // A rank reads as many rows as eight row groups have. They touch at most ten row groups, two of them
        // only in part.
        assert_eq!(needed.row_groups, 10 * 100 * KIB + 40 * KIB);
        assert_eq!(needed.lists, 800 * listed_bytes(16, true));
        // Two lanes may share a row group, which is then in memory for both.
        let shared = need(groups(16), Mixing::Window, 16, split(1_600, 4, 2));
        assert_eq!((shared.row_groups, shared.lanes), (11 * 100 * KIB + 40 * KIB, 2));
        let all = need(groups(16), Mixing::Window, 16, split(1_600, 1, 1));
        assert_eq!(all.row_groups, 16 * 100 * KIB + 40 * KIB);
        let exact = need(groups(16), Mixing::Exact, 1, split(1_600, 2, 2));
        assert_eq!((exact.row_groups, exact.lists), (1_640 * KIB, 0));
    }

    #[test]
    fn the_largest_row_groups_are_taken_to_meet() {
        let mut uneven = groups(16);
        uneven[7] = Weight { rows: 100, most: 100, held: 15_000 * KIB };
        let needed = need(uneven, Mixing::Window, 3, split(1_600, 2, 2));
        assert_eq!(needed.row_groups, 15_300 * KIB + 15_000 * KIB);
    }
}
