//! Advice for better mixing if few row groups fit the shuffle window: cut row groups into pieces, or make the
//! window larger.

use std::fmt;

use serde::Serialize;

use crate::shard::{OrderSpec, Split, expected_distinct, parts_of_a_batch};

/// Advice is given only if the number of row groups in a batch is below this share of the number in a batch
/// that is drawn uniformly from all rows.
const POORLY_MIXED_SHARE: f64 = 0.7;

/// The advice aims for batches that have this share of the number of row groups in a uniformly drawn batch. A
/// larger share would need far smaller pieces, or a far larger window.
const WELL_MIXED_SHARE: f64 = 0.8;

/// The smallest piece that is advised, since each piece is read separately.
const MIN_PIECE_ROWS: u64 = 32;

/// An option's value is tried only if the windows of all lanes together then hold at most this number of
/// parts (runs of rows of one row group).
const MAX_PARTS: u64 = 1 << 14;

/// A shuffle option and a value for it with which batches would be better mixed. A
/// [`RankPlan`](super::RankPlan) lists them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct BetterMixing {
    /// The option to set.
    pub option: MixingOption,
    /// The number of rows to set the option to.
    pub rows: u64,
    /// The approximate number of row groups from which a batch would have rows.
    pub row_groups_of_a_batch: f64,
}

/// An option of the [shuffle](crate::Shuffle) that determines how well rows are mixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum MixingOption {
    /// [`Shuffle::piece_rows`](crate::Shuffle::piece_rows).
    PieceRows,
    /// [`Shuffle::window_rows`](crate::Shuffle::window_rows).
    WindowRows,
}

impl fmt::Display for MixingOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MixingOption::PieceRows => "piece_rows",
            MixingOption::WindowRows => "window_rows",
        })
    }
}

/// Options that mix better than `order`. A batch now has rows from `now` row groups; a uniformly drawn batch
/// would have rows from `uniform` row groups. `counts` are the rows of each row group, and `may_cut` says
/// whether row groups can be shuffled in pieces.
pub(super) fn better_mixing(
    order: &OrderSpec,
    counts: &[u32],
    split: Split,
    now: f64,
    uniform: f64,
    may_cut: bool,
) -> Vec<BetterMixing> {
    let groups = counts.iter().filter(|rows| **rows > 0).count() as u64;
    if !order.is_windowed() || groups == 0 || now >= POORLY_MIXED_SHARE * uniform {
        return Vec::new();
    }
    let pieces: u64 = order.cuts().values().map(|cuts| cuts.len() as u64).sum();
    let part = (split.rows / (groups + pieces)).max(1);
    let lanes = order.lanes_of_a_rank(&split);
    let window = u64::from(order.pool()) * part;
    let rank_rows = split.rows.div_ceil(u64::from(split.lanes).max(1)) * lanes;
    let tried = Tried { counts, rows: split.rows, part, window, lanes, rank_rows, batch: split.batch() };
    let best = |candidates: Vec<BetterMixing>| {
        let enough = candidates.iter().find(|one| one.row_groups_of_a_batch >= WELL_MIXED_SHARE * uniform);
        let best = enough.or_else(|| candidates.last()).copied();
        // An option that brings a batch less than halfway from `now` to the goal is not worth a change.
        best.filter(|best| best.row_groups_of_a_batch >= f64::midpoint(now, WELL_MIXED_SHARE * uniform))
    };
    let in_pieces = if may_cut { best(tried.in_pieces(WELL_MIXED_SHARE * uniform)) } else { None };
    in_pieces.into_iter().chain(best(tried.in_windows(WELL_MIXED_SHARE * uniform))).collect()
}

/// The order to improve, as the numbers from which the effect of an option's value is estimated.
struct Tried<'a> {
    counts: &'a [u32],
    rows: u64,
    /// The average number of rows in a part, a run of rows of one row group.
    part: u64,
    /// The number of rows in a lane's window.
    window: u64,
    /// The number of lanes that the rank reads; `rank_rows` is the number of rows in them.
    lanes: u64,
    rank_rows: u64,
    batch: u64,
}

impl Tried<'_> {
    /// Tries ever smaller pieces, until a batch has rows of `enough` row groups.
    fn in_pieces(&self, enough: f64) -> Vec<BetterMixing> {
        let sizes = (1..).map(|halvings: u32| self.part.checked_shr(halvings).unwrap_or(0));
        let sizes = sizes.take_while(|rows| *rows >= MIN_PIECE_ROWS && self.fits(self.window / rows));
        let of_pieces = |rows: u64| {
            let parts =
                parts_of_a_batch(rows, self.window / rows, self.lanes, self.batch, self.rank_rows / rows);
            let in_pieces = || self.counts.iter().map(|count| u64::from(*count).div_ceil(rows));
            BetterMixing {
                option: MixingOption::PieceRows,
                rows,
                // Two parts of a batch may belong to one row group, which is counted once.
                row_groups_of_a_batch: expected_distinct(
                    in_pieces(),
                    in_pieces().sum(),
                    parts.round() as u64,
                ),
            }
        };
        until(sizes.map(of_pieces), enough)
    }

    /// Tries ever larger windows, until a batch has rows of `enough` row groups.
    fn in_windows(&self, enough: f64) -> Vec<BetterMixing> {
        let windows = (1..).map(|doublings: u32| self.window.checked_shl(doublings).unwrap_or(u64::MAX));
        let windows = windows
            .take_while(|rows| rows.saturating_mul(self.lanes) <= self.rows && self.fits(rows / self.part));
        let of_window = |rows: u64| BetterMixing {
            option: MixingOption::WindowRows,
            rows,
            row_groups_of_a_batch: parts_of_a_batch(
                self.part,
                rows / self.part,
                self.lanes,
                self.batch,
                self.rank_rows / self.part,
            ),
        };
        until(windows.map(of_window), enough)
    }

    /// Whether the window of a lane may hold `pool` parts without all lanes exceeding `MAX_PARTS`.
    fn fits(&self, pool: u64) -> bool {
        pool.saturating_mul(self.lanes) <= MAX_PARTS
    }
}

/// The candidates up to the first one that is good enough.
fn until(candidates: impl Iterator<Item = BetterMixing>, enough: f64) -> Vec<BetterMixing> {
    let mut found = Vec::new();
    for candidate in candidates {
        found.push(candidate);
        if candidate.row_groups_of_a_batch >= enough {
            break;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shard::{EpochOrder, Shard, Shuffle, row_groups_of_a_batch};

    const GROUP: u32 = 1_000;
    const GROUPS: usize = 1_281;

    fn split() -> Split {
        let rows = u64::from(GROUP) * GROUPS as u64;
        Split { rows, lanes: 1, shard: Shard::default(), global_batch: 256, drop_last: false }
    }

    /// The order of `shuffle`, the number of row groups in one of its batches, and the number in a uniformly
    /// drawn batch.
    fn measured(shuffle: &Shuffle) -> (OrderSpec, f64, f64) {
        let counts = vec![GROUP; GROUPS];
        let spec = OrderSpec::new(shuffle, &counts, 1, 65_536);
        let now = row_groups_of_a_batch(&EpochOrder::new(counts, &spec, 1), split());
        (spec, now, expected_distinct((0..GROUPS).map(|_| GROUP.into()), split().rows, 256))
    }

    #[test]
    fn what_is_advised_mixes_as_well_as_was_said() {
        let (spec, now, uniform) = measured(&Shuffle::seeded(1));
        assert!(now < 66.0, "{now}");
        let counts = vec![GROUP; GROUPS];
        let advice = better_mixing(&spec, &counts, split(), now, uniform, true);
        let options: Vec<MixingOption> = advice.iter().map(|one| one.option).collect();
        assert_eq!(options, [MixingOption::PieceRows, MixingOption::WindowRows]);
        for BetterMixing { option, rows, row_groups_of_a_batch: said } in advice {
            let shuffle = match option {
                MixingOption::PieceRows => Shuffle::seeded(1).piece_rows(rows),
                MixingOption::WindowRows => Shuffle::seeded(1).window_rows(rows),
            };
            let (_, found, _) = measured(&shuffle);
            assert!((found - said).abs() < 0.05 * found, "{option}={rows}: {said} were said, {found} found");
            assert!(found >= 0.76 * uniform, "{option}={rows}: {found} of {uniform}");
        }
        let windows = better_mixing(&spec, &counts, split(), now, uniform, false);
        assert_eq!(windows.len(), 1, "no pieces where samples are not rows");
    }

    #[test]
    fn nothing_is_advised_where_rows_are_mixed_or_not_to_be() {
        let counts = vec![GROUP; GROUPS];
        for shuffle in [Shuffle::seeded(1).window_rows(500_000), Shuffle::stored(), Shuffle::exact(1)] {
            let (spec, now, uniform) = measured(&shuffle);
            assert_eq!(better_mixing(&spec, &counts, split(), now, uniform, true), []);
        }
    }
}
