//! The share of each rank in each step.
//!
//! A step is the next rows of the global order, `global_batch` of them. Sorted by lane, it is cut into
//! `world` shares that differ by at most one row, so that a rank keeps to the same lanes in every step. If
//! `world` divides the number of lanes and that number divides `global_batch`, a rank reads only lanes of its
//! own; otherwise it reads as few neighbouring lanes as possible. The rows of a step depend on neither rank
//! nor world, only on the global batch.

use std::ops::Range;

use super::spec::Shard;

/// The rule that shares steps among ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// The number of rows of the epoch.
    pub rows: u64,
    /// The number of lanes of the epoch's order.
    pub lanes: u32,
    /// The rank and the world.
    pub shard: Shard,
    /// The number of rows of a full step over all ranks, which is at least one for each rank.
    pub global_batch: u64,
    /// Whether rows that do not fill a step are left out.
    pub drop_last: bool,
}

/// Rows `from..to` of a lane's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneSpan {
    /// The number of the lane.
    pub lane: u32,
    /// The first row.
    pub from: u64,
    /// The row after the last one.
    pub to: u64,
}

/// The rows of one step that one rank gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// The rows of each lane, in the order in which the batch has them.
    pub spans: Vec<LaneSpan>,
    /// The number of repeated rows, which are delivered so that no rank is without a batch.
    pub padded: u64,
    /// The global row at which the next step begins.
    pub end: u64,
}

impl Split {
    /// The most rows that a rank gets in any step.
    pub fn batch(&self) -> u64 {
        self.global_batch.div_ceil(self.shard.world().into())
    }

    /// The first row of `rank` in a full step that is sorted by lane.
    fn first_row(&self, rank: u64) -> u64 {
        (u128::from(self.global_batch) * u128::from(rank) / u128::from(self.shard.world())) as u64
    }

    /// The number of steps from the global row `start` to the end of the epoch: the same on every rank.
    pub fn steps(&self, start: u64) -> u64 {
        let left = self.rows.saturating_sub(start);
        if self.drop_last { left / self.global_batch } else { left.div_ceil(self.global_batch) }
    }

    /// The number of rows at the end of the epoch that no rank gets.
    pub fn dropped(&self, start: u64) -> u64 {
        let left = self.rows.saturating_sub(start);
        if self.drop_last { left % self.global_batch } else { 0 }
    }

    /// The most lanes that any rank reads in full steps, wherever steps begin.
    pub fn lanes_of_a_rank(&self) -> u64 {
        let (lanes, world) = (u64::from(self.lanes), u64::from(self.shard.world()));
        let (each, more) = (self.global_batch / lanes, self.global_batch % lanes);
        // The most rows that a step can have in the lanes before `lane`: `more` of the lanes have one row
        // more than the others, and which lanes these are depends on where the step begins.
        let most = |lane: u64| each * lane + more.min(lane);
        let least = |lane: u64| each * lane + more.saturating_sub(lanes - lane);
        let reads = |rank: u64| {
            let first = last_below(lanes, |lane| most(lane) <= self.first_row(rank));
            let end = last_below(lanes, |lane| least(lane) < self.first_row(rank + 1)) + 1;
            end - first
        };
        (0..world).map(reads).max().unwrap_or(1).clamp(1, lanes)
    }

    /// This rank's share of the step that begins at the global row `start`; `None` after the last.
    pub fn share(&self, start: u64) -> Option<Share> {
        let left = self.rows.saturating_sub(start);
        let full = left >= self.global_batch;
        if left == 0 || (self.drop_last && !full) {
            return None;
        }
        let end = start + left.min(self.global_batch);
        let (rank, world) = (u64::from(self.shard.rank()), u64::from(self.shard.world()));
        if full {
            let mine = self.first_row(rank)..self.first_row(rank + 1);
            return Some(Share { spans: self.cut(start, end, mine), padded: 0, end });
        }
        // A short last step is cut by whole lanes if they divide evenly among the ranks and each rank's rows
        // fit into its batch, so that no rank opens another rank's lane for a single row.
        let lanes = u64::from(self.lanes);
        let before =
            |rank: u64| (0..rank * (lanes / world)).map(|lane| self.lane_rows(lane, start, end)).sum::<u64>();
        let fits = |rank: u64| before(rank + 1) - before(rank) <= self.batch();
        let mine = if lanes.is_multiple_of(world) && (0..world).all(fits) {
            before(rank)..before(rank + 1)
        } else {
            left * rank / world..left * (rank + 1) / world
        };
        if mine.is_empty() {
            // There are fewer rows than ranks, so an earlier row of the rank's own lane is repeated to keep
            // the number of steps equal.
            let lane = rank * lanes / world;
            let last = lane_position(lane, lanes, end);
            let from = last.saturating_sub(1);
            return Some(Share {
                spans: vec![LaneSpan { lane: lane as u32, from, to: from + 1 }],
                padded: 1,
                end,
            });
        }
        Some(Share { spans: self.cut(start, end, mine), padded: 0, end })
    }

    /// The number of rows of `lane` among the first `global` rows.
    pub(super) fn lane_position(&self, lane: u64, global: u64) -> u64 {
        lane_position(lane, self.lanes.into(), global)
    }

    fn lane_rows(&self, lane: u64, start: u64, end: u64) -> u64 {
        let lanes = u64::from(self.lanes);
        lane_position(lane, lanes, end) - lane_position(lane, lanes, start)
    }

    /// The rows `mine` among the global rows `start..end`, when those are sorted by lane.
    fn cut(&self, start: u64, end: u64, mine: Range<u64>) -> Vec<LaneSpan> {
        let lanes = u64::from(self.lanes);
        let mut spans = Vec::new();
        let mut before = 0;
        for lane in 0..lanes {
            let from = lane_position(lane, lanes, start);
            let rows = lane_position(lane, lanes, end) - from;
            let (low, high) = (mine.start.max(before), mine.end.min(before + rows));
            if low < high {
                spans.push(LaneSpan {
                    lane: lane as u32,
                    from: from + low - before,
                    to: from + high - before,
                });
            }
            before += rows;
        }
        spans
    }
}

/// The last number in `0..lanes` for which `is_true` holds, or 0 if there is none. If `is_true` fails for a
/// number, it must fail for all larger ones.
fn last_below(lanes: u64, is_true: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (0, lanes);
    while high - low > 1 {
        let middle = low.midpoint(high);
        if is_true(middle) { low = middle } else { high = middle }
    }
    low
}

/// The number of rows of `lane` among the first `global` rows.
fn lane_position(lane: u64, lanes: u64, global: u64) -> u64 {
    (global + lanes - 1 - lane) / lanes
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_row_that_is_repeated_lies_in_a_lane_of_its_rank() {
        let split = |rank| Split {
            rows: 34,
            lanes: 4,
            shard: Shard::new(rank, 4).unwrap(),
            global_batch: 32,
            drop_last: false,
        };
        for rank in 0..4 {
            let share = split(rank).share(32).unwrap();
            assert_eq!(share.spans.iter().map(|span| span.lane).collect::<Vec<_>>(), [rank]);
            assert_eq!(share.padded, u64::from(rank > 1), "two rows for four ranks");
        }
    }

    #[test]
    fn no_rank_reads_more_lanes_than_is_said() {
        for (lanes, world, batch) in
            [(8, 8, 16), (8, 4, 10), (24, 8, 32), (1, 16, 40), (6, 4, 10), (5, 3, 7), (16, 3, 2), (7, 2, 1)]
        {
            let split = |rank| Split {
                rows: u64::MAX >> 8,
                lanes,
                shard: Shard::new(rank, world).unwrap(),
                global_batch: u64::from(world) * batch,
                drop_last: true,
            };
            let reads = |rank: u32| {
                let mut start = 0;
                let mut read = HashSet::new();
                for _ in 0..lanes {
                    let share = split(rank).share(start).unwrap();
                    read.extend(share.spans.iter().map(|span| span.lane));
                    start = share.end;
                }
                read.len() as u64
            };
            let (said, most) = (split(0).lanes_of_a_rank(), (0..world).map(reads).max().unwrap());
            assert!(most <= said, "{most} of {said} lanes: {lanes} lanes, {world} ranks, batches of {batch}");
            let divides = (u64::from(world) * batch).is_multiple_of(u64::from(lanes));
            assert!(!divides || most == said, "{most}, not {said}: {lanes}, {world}, {batch}");
        }
    }
}
