//! The lanes of an epoch: row groups permuted, laid end to end, cut by rows.

use std::collections::HashMap;
use std::sync::Arc;

use super::draw::{Draws, Purpose};
use super::exact::Permutation;
use super::lane::{ExactParts, Lane, Part};
use super::mix::Portion;
use super::skips::{SkippedRows, Skips};
use super::spec::{Mixing, Shuffle};
use super::split::Split;

/// Everything that the order of an epoch depends on, beside the epoch itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderSpec {
    pub(crate) mixing: Mixing,
    pub(crate) seed: u64,
    /// Parts in a lane's pool.
    pub(crate) pool: u32,
    pub(crate) lanes: u32,
    /// The most rows of a row group that is shuffled as a whole.
    pub(crate) piece_rows: Option<u64>,
    /// Of row groups that are read in pieces, the selected rows with which each piece but the first begins. In stored order
    /// it changes nothing but the parts; a shuffle takes each piece for a row group.
    cuts: Arc<HashMap<u32, Vec<u32>>>,
    /// Rows of its epochs that are passed over.
    pub(crate) skipped: Arc<[SkippedRows]>,
    /// Where it is one of the sources of a mix, what of it comes in which step.
    pub(super) portion: Option<Portion>,
}

impl OrderSpec {
    /// What `shuffle` means for a data set whose row groups have `selected[g]` rows each: `lanes` and `window_rows` are
    /// taken where it leaves them open.
    pub fn new(shuffle: &Shuffle, selected: &[u32], lanes: u32, window_rows: u64) -> Self {
        let rows: u64 = selected.iter().map(|&rows| u64::from(rows)).sum();
        let piece_rows = shuffle.piece_rows.filter(|_| shuffle.mixing == Mixing::Window);
        let cuts = piece_rows.map_or_else(HashMap::new, |most| even_cuts(selected, most));
        let pieces: usize = cuts.values().map(Vec::len).sum();
        let groups = selected.iter().filter(|rows| **rows > 0).count() as u64 + pieces as u64;
        let window = shuffle.window_rows.unwrap_or(window_rows);
        // Rounded to whole row groups of average size; a pool of all of them is a uniform permutation already.
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
        }
    }

    /// The same order with row groups in pieces: for each of them the selected rows with which one begins, ascending.
    #[must_use]
    pub(crate) fn with_cuts(self, cuts: HashMap<u32, Vec<u32>>) -> Self {
        OrderSpec { cuts: Arc::new(cuts), ..self }
    }

    /// The row groups that are in pieces, with the selected rows with which each piece but the first begins.
    pub(crate) fn cuts(&self) -> &HashMap<u32, Vec<u32>> {
        &self.cuts
    }

    /// The same order with these rows of its epochs passed over.
    #[must_use]
    pub(crate) fn with_skipped(self, skipped: Arc<[SkippedRows]>) -> Self {
        OrderSpec { skipped, ..self }
    }

    /// The same order as one of the sources of a mix.
    #[must_use]
    pub(crate) fn with_portion(self, portion: Portion) -> Self {
        OrderSpec { lanes: portion.split.lanes, portion: Some(portion), ..self }
    }

    /// The same order by itself.
    #[must_use]
    pub(crate) fn alone(self) -> Self {
        OrderSpec { portion: None, ..self }
    }

    /// The most lanes that a rank reads.
    pub(crate) fn lanes_of_a_rank(&self, split: &Split) -> u64 {
        self.portion.as_ref().map_or(split.lanes_of_a_rank(), |portion| portion.lanes_of_a_rank(split))
    }

    /// Steps of an epoch from one of its rows on: the same on every rank, but for those of a mix.
    pub(crate) fn steps(&self, epoch: u64, split: &Split, start: u64) -> u64 {
        match &self.portion {
            Some(portion) => portion.shares(epoch, start).count() as u64,
            None => self.skips(epoch).steps(split, start),
        }
    }

    /// The rows of an epoch that are passed over.
    pub(crate) fn skips(&self, epoch: u64) -> Skips {
        Skips::of_epoch(&self.skipped, epoch)
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

    /// Parts, each cut where a piece of its row group begins.
    fn in_pieces(&self, parts: Vec<Part>) -> Vec<Part> {
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

/// The order of one epoch: global row `i` is row `i / lanes` of lane `i mod lanes`.
#[derive(Clone, Debug)]
pub struct EpochOrder {
    lanes: Vec<Arc<Lane>>,
    rows: u64,
    pub(super) skips: Skips,
    /// The pass over one of the sources of a mix that it is.
    pub(super) portion: Option<(Portion, u64)>,
}

impl EpochOrder {
    /// The order of `epoch` over row groups that have `selected[g]` rows each.
    pub fn new(selected: &[u32], spec: &OrderSpec, epoch: u64) -> Self {
        let rows: u64 = selected.iter().map(|&rows| u64::from(rows)).sum();
        let lanes = u64::from(spec.lanes);
        let portion = spec.portion.clone().map(|portion| (portion, epoch));
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
            return EpochOrder {
                lanes: lanes.map(Arc::new).collect(),
                rows,
                skips: spec.skips(epoch),
                portion,
            };
        }
        if spec.mixing == Mixing::Window {
            groups = spec.in_pieces(groups);
            Draws::keyed(spec.seed, Purpose::Groups, &[epoch]).shuffle(&mut groups);
        }
        let mut groups = groups.into_iter();
        let mut rest = groups.next();
        let lanes = (0..lanes).map(|lane| {
            let parts = cut(&mut rest, &mut groups, (rows + lanes - 1 - lane) / lanes);
            Arc::new(match spec.mixing {
                Mixing::Window => Lane::pooled(parts, spec.pool, spec.seed, epoch, lane),
                _ => Lane::stored(spec.in_pieces(parts)),
            })
        });
        EpochOrder { lanes: lanes.collect(), rows, skips: spec.skips(epoch), portion }
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

/// Where row groups of more than `most` selected rows are cut, into pieces that differ by a row at most.
fn even_cuts(selected: &[u32], most: u64) -> HashMap<u32, Vec<u32>> {
    let larger = selected.iter().enumerate().filter(|(_, rows)| u64::from(**rows) > most);
    let cuts = larger.map(|(group, &rows)| {
        let pieces = u64::from(rows).div_ceil(most.max(1));
        let start = |piece: u64| (u64::from(rows) * piece / pieces) as u32;
        (group as u32, (1..pieces).map(start).collect())
    });
    cuts.collect()
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

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::shard::{PlannedStep, Shard, Split, Walk};

    #[test]
    fn a_shuffle_takes_pieces_for_row_groups() {
        let rows = [250, 0, 100, 7];
        let shuffle = Shuffle::seeded(5).window_rows(160).piece_rows(100);
        let spec = OrderSpec::new(&shuffle, &rows, 1, 1);
        assert_eq!(spec.cuts(), &HashMap::from([(0, vec![83, 166])]));
        assert_eq!(spec.pool(), 2, "of 5 pieces, with 71 rows on average");
        let order = EpochOrder::new(&rows, &spec, 1);
        let parts: HashSet<Part> = order.lanes()[0].parts().iter().copied().collect();
        let part = |group, start, rows| Part { group, start, rows };
        let wanted = [part(0, 0, 83), part(0, 83, 83), part(0, 166, 84), part(2, 0, 100), part(3, 0, 7)];
        assert_eq!(parts, HashSet::from(wanted));
        // Without row groups that are larger, it is the order that it is without the option.
        let whole = OrderSpec::new(&Shuffle::seeded(5).window_rows(160), &rows, 1, 1);
        let same = OrderSpec::new(&shuffle.piece_rows(250), &rows, 1, 1);
        let parts = |spec| EpochOrder::new(&rows, spec, 1).lanes()[0].parts().to_vec();
        assert_eq!((parts(&whole), whole.pool()), (parts(&same), same.pool()));
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
                Walk::new(&EpochOrder::new(&rows, spec, 3), split(rank), 0).map(places).collect::<Vec<_>>()
            };
            for rank in 0..world {
                assert_eq!(delivered(&whole, rank), delivered(&cut, rank));
            }
            let order = EpochOrder::new(&rows, &cut, 0);
            let parts = order.lanes().iter().flat_map(|lane| lane.parts());
            let starts: Vec<u32> = parts.filter(|part| part.group == 2).map(|part| part.start).collect();
            assert!([1, 30, 31, 99].iter().all(|cut| starts.contains(cut)), "{starts:?}");
        }
    }
}
