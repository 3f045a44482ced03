//! The lanes of an epoch: row groups permuted, laid end to end, cut by rows.

use std::sync::Arc;

use super::draw::{Draws, Purpose};
use super::exact::Permutation;
use super::lane::{ExactParts, Lane, Part};
use super::spec::{Mixing, Shuffle};

/// Everything that the order of an epoch depends on, beside the epoch itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderSpec {
    pub(crate) mixing: Mixing,
    pub(crate) seed: u64,
    /// Parts in a lane's pool.
    pub(crate) pool: u32,
    pub(crate) lanes: u32,
}

impl OrderSpec {
    /// What `shuffle` means for a data set whose row groups have `selected[g]` rows each: `lanes` and `window_rows` are
    /// taken where it leaves them open.
    pub fn new(shuffle: &Shuffle, selected: &[u32], lanes: u32, window_rows: u64) -> Self {
        let rows: u64 = selected.iter().map(|&rows| u64::from(rows)).sum();
        let groups = selected.iter().filter(|rows| **rows > 0).count() as u64;
        let window = shuffle.window_rows.unwrap_or(window_rows);
        // Rounded to whole row groups of average size; a pool of all of them is a uniform permutation already.
        let pool = (u128::from(window) * u128::from(groups) + u128::from(rows) / 2) / u128::from(rows.max(1));
        let pool = match shuffle.mixing {
            Mixing::Window => pool.clamp(1, u128::from(groups.max(1))) as u32,
            Mixing::Stored | Mixing::Exact => 1,
        };
        OrderSpec { mixing: shuffle.mixing, seed: shuffle.seed, pool, lanes: shuffle.lanes.unwrap_or(lanes) }
    }

    /// Interleaved lanes.
    pub fn lanes(&self) -> u32 {
        self.lanes
    }

    /// The same order through a pool of another size.
    #[must_use]
    pub fn with_pool(&self, pool: u32) -> Self {
        OrderSpec { pool, ..self.clone() }
    }

    /// Whether each batch draws from all row groups.
    pub fn is_exact(&self) -> bool {
        self.mixing == Mixing::Exact
    }

    /// Row groups that a lane's pool holds.
    pub fn pool(&self) -> u32 {
        self.pool
    }
}

/// The order of one epoch: global row `i` is row `i / lanes` of lane `i mod lanes`.
#[derive(Clone, Debug)]
pub struct EpochOrder {
    lanes: Vec<Arc<Lane>>,
    rows: u64,
}

impl EpochOrder {
    /// The order of `epoch` over row groups that have `selected[g]` rows each.
    pub fn new(selected: &[u32], spec: &OrderSpec, epoch: u64) -> Self {
        let rows: u64 = selected.iter().map(|&rows| u64::from(rows)).sum();
        let lanes = u64::from(spec.lanes);
        let mut groups: Vec<Part> = selected
            .iter()
            .enumerate()
            .filter(|(_, rows)| **rows > 0)
            .map(|(group, &rows)| Part { group: group as u32, start: 0, rows })
            .collect();
        if spec.mixing == Mixing::Exact {
            let permutation = Permutation::new(rows, spec.seed, epoch);
            let all = ExactParts::new(groups);
            let lanes = (0..lanes).map(|lane| Lane::exact(&all, permutation.clone(), lane, lanes));
            return EpochOrder { lanes: lanes.map(Arc::new).collect(), rows };
        }
        if spec.mixing == Mixing::Window {
            Draws::keyed(spec.seed, Purpose::Groups, &[epoch]).shuffle(&mut groups);
        }
        let mut groups = groups.into_iter();
        let mut rest = groups.next();
        let lanes = (0..lanes).map(|lane| {
            let parts = cut(&mut rest, &mut groups, (rows + lanes - 1 - lane) / lanes);
            Arc::new(match spec.mixing {
                Mixing::Window => Lane::pooled(parts, spec.pool, spec.seed, epoch, lane),
                _ => Lane::stored(parts),
            })
        });
        EpochOrder { lanes: lanes.collect(), rows }
    }

    /// The lanes. Their lengths differ by at most one row.
    pub fn lanes(&self) -> &[Arc<Lane>] {
        &self.lanes
    }

    /// Selected rows of the data set.
    pub fn rows(&self) -> u64 {
        self.rows
    }
}

/// Takes the next `rows` rows off a sequence of groups, splitting the last one.
fn cut(rest: &mut Option<Part>, groups: &mut impl Iterator<Item = Part>, mut rows: u64) -> Vec<Part> {
    let mut parts = Vec::new();
    while rows > 0 {
        let Some(next) = *rest else { break };
        let taken = rows.min(u64::from(next.rows)) as u32;
        parts.push(Part { rows: taken, ..next });
        rows -= u64::from(taken);
        *rest = if taken < next.rows {
            Some(Part { start: next.start + taken, rows: next.rows - taken, ..next })
        } else {
            groups.next()
        };
    }
    parts
}
