//! The inputs that determine the order of an epoch.

use std::collections::HashMap;
use std::sync::Arc;

use super::lane::Part;
use super::mix::Portion;
use super::row_costs::RowCosts;
use super::skips::{SkippedRows, Skips};
use super::spec::{Mixing, Shuffle};
use super::split::Split;

/// Everything that determines the order of an epoch, except the number of the epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderSpec {
    pub(crate) mixing: Mixing,
    pub(crate) seed: u64,
    /// The number of row groups, or pieces of row groups, in the pool (shuffle buffer) of a lane.
    pub(crate) pool: u32,
    pub(crate) lanes: u32,
    /// The most rows that are shuffled in one piece. Larger row groups are cut into pieces, which are
    /// shuffled like row groups.
    pub(crate) piece_rows: Option<u64>,
    /// The row groups that are cut into pieces, each with the number of the selected row at which each piece
    /// after the first begins. A shuffle treats each piece as a row group; without a shuffle, the order of
    /// rows stays the same.
    cuts: Arc<HashMap<u32, Vec<u32>>>,
    /// The rows that are skipped in epochs of this order.
    pub(crate) skipped: Arc<[SkippedRows]>,
    /// The rows that the data set gives to each step, if it is a source of a mix.
    pub(super) portion: Option<Portion>,
    /// The costs of the rows, if batches are to cost about the same.
    pub(super) costs: Option<Arc<RowCosts>>,
}

impl OrderSpec {
    /// The order that `shuffle` describes, for a data set whose row groups have `selected[g]` rows each.
    /// `lanes` and `window_rows` are used if `shuffle` leaves them open.
    pub fn new(shuffle: &Shuffle, selected: &[u32], lanes: u32, window_rows: u64) -> Self {
        let rows: u64 = selected.iter().map(|&rows| u64::from(rows)).sum();
        let piece_rows = shuffle.piece_rows.filter(|_| shuffle.mixing == Mixing::Window);
        let cuts = piece_rows.map_or_else(HashMap::new, |most| even_cuts(selected, most));
        let pieces: usize = cuts.values().map(Vec::len).sum();
        let groups = selected.iter().filter(|rows| **rows > 0).count() as u64 + pieces as u64;
        let window = shuffle.window_rows.unwrap_or(window_rows);
        // The window is rounded to whole row groups of average size. A pool of all row groups already gives a
        // uniform permutation, so the pool is never larger.
        let pool = (u128::from(window) * u128::from(groups) + u128::from(rows) / 2) / u128::from(rows.max(1));
        let pool = match shuffle.mixing {
            Mixing::Window => pool.clamp(1, u128::from(groups.max(1))) as u32,
            Mixing::Stored | Mixing::Exact => 1,
        };
        OrderSpec {
            mixing: shuffle.mixing,
            seed: shuffle.seed,
            pool,
            lanes: shuffle.lanes.unwrap_or(lanes),
            piece_rows,
            cuts: Arc::new(cuts),
            skipped: Arc::default(),
            portion: None,
            costs: None,
        }
    }

    /// The same order with its rows arranged by their costs, so that in each step all ranks have about the
    /// same cost. For each kind of cost, `costs` has the costs of the selected rows, by row group. Orders
    /// without a window stay as they are.
    #[must_use]
    pub fn balanced(self, costs: &[Vec<Vec<f32>>]) -> Self {
        self.with_costs(Some(Arc::new(RowCosts::new(costs.to_vec()))))
    }

    /// The same order, balanced by these costs of its rows, or not balanced if `costs` is `None`.
    #[must_use]
    pub(crate) fn with_costs(self, costs: Option<Arc<RowCosts>>) -> Self {
        OrderSpec { costs, ..self }
    }

    /// The same order with row groups in pieces. `cuts` has, for each such row group, the selected rows at
    /// which pieces begin, in ascending order.
    #[must_use]
    pub(crate) fn with_cuts(self, cuts: HashMap<u32, Vec<u32>>) -> Self {
        OrderSpec { cuts: Arc::new(cuts), ..self }
    }

    /// The row groups that are in pieces, with the selected rows at which their pieces begin, except the
    /// first.
    pub(crate) fn cuts(&self) -> &HashMap<u32, Vec<u32>> {
        &self.cuts
    }

    /// The same order with these rows skipped in its epochs.
    #[must_use]
    pub(crate) fn with_skipped(self, skipped: Arc<[SkippedRows]>) -> Self {
        OrderSpec { skipped, ..self }
    }

    /// The same order as one of the sources of a mix.
    #[must_use]
    pub(crate) fn with_portion(self, portion: Portion) -> Self {
        OrderSpec { lanes: portion.split.lanes, portion: Some(portion), ..self }
    }

    /// The rows that the data set gives to each step, if it is a source of a mix.
    pub(crate) fn portion(&self) -> Option<&Portion> {
        self.portion.as_ref()
    }

    /// The same order of the data set alone, outside of a mix.
    #[must_use]
    pub(crate) fn alone(self) -> Self {
        OrderSpec { portion: None, ..self }
    }

    /// The same specification without the skipped rows and the mix, on which the lanes of an epoch do not
    /// depend.
    #[must_use]
    pub(crate) fn of_lanes(&self) -> Self {
        OrderSpec { portion: None, skipped: Arc::default(), ..self.clone() }
    }

    /// The most lanes that a rank reads; in a mix, that this rank reads.
    pub(crate) fn lanes_of_a_rank(&self, split: &Split) -> u64 {
        self.portion.as_ref().map_or(split.lanes_of_a_rank(), |portion| portion.lanes_of_a_rank(split))
    }

    /// The number of steps from the row `start` of an epoch to the end of the epoch. It is the same on every
    /// rank, except in a mix: there it counts only the steps that give this rank rows of the source.
    pub(crate) fn steps(&self, epoch: u64, split: &Split, start: u64) -> u64 {
        match &self.portion {
            Some(portion) => portion.shares(epoch, start).count() as u64,
            None => self.skips(epoch).steps(split, start),
        }
    }

    /// The rows of an epoch that are skipped.
    pub(crate) fn skips(&self, epoch: u64) -> Skips {
        Skips::of_epoch(&self.skipped, epoch)
    }

    /// The number of interleaved lanes.
    pub fn lanes(&self) -> u32 {
        self.lanes
    }

    /// The same order with a pool of another size.
    #[must_use]
    pub fn with_pool(&self, pool: u32) -> Self {
        OrderSpec { pool, ..self.clone() }
    }

    /// Whether the order is a uniform permutation of all rows.
    pub fn is_exact(&self) -> bool {
        self.mixing == Mixing::Exact
    }

    /// Whether rows are mixed in a window.
    pub(crate) fn is_windowed(&self) -> bool {
        self.mixing == Mixing::Window
    }

    /// Whether rows are arranged by what they cost.
    pub(crate) fn is_balanced(&self) -> bool {
        self.costs.is_some() && self.is_windowed()
    }

    /// The number of row groups that a lane's pool holds.
    pub fn pool(&self) -> u32 {
        self.pool
    }

    /// Cuts parts at the beginnings of the pieces of their row groups.
    pub(super) fn in_pieces(&self, parts: Vec<Part>) -> Vec<Part> {
        if self.cuts.is_empty() {
            return parts;
        }
        let pieces = parts.into_iter().flat_map(|part| {
            let cuts = self.cuts.get(&part.group).map(Vec::as_slice).unwrap_or_default();
            let end = part.start + part.rows;
            let from = cuts.partition_point(|cut| *cut <= part.start);
            let to = cuts.partition_point(|cut| *cut < end);
            let starts = std::iter::once(part.start).chain(cuts[from..to].iter().copied());
            let ends = cuts[from..to].iter().copied().chain(std::iter::once(end));
            starts.zip(ends).map(move |(start, end)| Part { start, rows: end - start, ..part })
        });
        pieces.collect()
    }
}

/// The rows at which row groups of more than `most` selected rows are cut, into pieces that differ by at most
/// one row.
fn even_cuts(selected: &[u32], most: u64) -> HashMap<u32, Vec<u32>> {
    let larger = selected.iter().enumerate().filter(|(_, rows)| u64::from(**rows) > most);
    let cuts = larger.map(|(group, &rows)| {
        let pieces = u64::from(rows).div_ceil(most.max(1));
        let start = |piece: u64| (u64::from(rows) * piece / pieces) as u32;
        (group as u32, (1..pieces).map(start).collect())
    });
    cuts.collect()
}
