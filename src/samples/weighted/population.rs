//! The classes and weights of all rows of a data set, from which epochs draw.

use forebay_base::{Error, ErrorKind, Result};

use super::strata::{Strata, check_there, none};
use super::values::{ColumnValues, RefusedRow};
use super::{Class, Sample, Weights};

/// The whole number that stands for the largest weight. Other weights are proportional to it, and at least 1
/// if they are over 0.
const LARGEST_WEIGHT: u32 = 1 << 31;

/// Classes and weights of all rows, by row group.
#[derive(Debug)]
pub(crate) struct Population {
    pub(super) strata: Strata,
    /// The sum of the weights of all rows of each class.
    pub(super) totals: Box<[u64]>,
    /// The cells of all row groups, in the order of the row groups.
    pub(super) cells: Box<[Cell]>,
    /// The index in `cells` of the first cell of each row group, followed by the number of all cells.
    pub(super) first_cells: Box<[usize]>,
    groups: Box<[GroupRows]>,
}

/// The rows of one class in one row group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell {
    pub(super) class: u32,
    /// The sum of the weights of the rows. If rows have classes, each row counts 1, because the weight of a
    /// class only changes its number of draws.
    pub(super) weight: u64,
}

/// The cell or the weight of each row of a row group.
#[derive(Debug)]
enum GroupRows {
    /// All rows are of one class; the number is the count of rows.
    One(u32),
    /// For each row, the index of its cell in the row group, if the row group has at most 256 cells.
    Few(Box<[u8]>),
    Many(Box<[u32]>),
    /// The weight of each row, where rows have weights of their own.
    Weights(Box<[u32]>),
}

impl Population {
    /// Builds the population from the values of the column of classes or weights. Also returns the classes
    /// that have a weight and no rows.
    ///
    /// # Errors
    /// Fails if a class has no weight, if no row can be drawn, or if more rows are asked for than can be
    /// drawn. For a class without a weight, the error comes with a row of that class.
    pub(crate) fn new(sample: &Sample, values: ColumnValues) -> Result<(Self, Vec<Class>), RefusedRow> {
        let without_place = |error: Error| (None, error);
        let (population, unused) = match sample.has_classes() {
            true => {
                let (weights, unused) = values.weights(sample)?;
                (Population::of_classes(sample, &weights, values.numbers), unused)
            }
            false => (Population::of_weights(sample, values.numbers), Vec::new()),
        };
        let population = population.map_err(without_place)?;
        population.check().map_err(without_place)?;
        Ok((population, unused))
    }

    fn of_classes(sample: &Sample, weights: &[f64], rows: Vec<Vec<u32>>) -> Result<Self> {
        let (mut cells, mut first_cells, mut groups) = (Vec::<Cell>::new(), vec![0], Vec::new());
        let mut totals = vec![0; weights.len()];
        let mut places = vec![u32::MAX; weights.len()];
        for of_rows in rows {
            let first = cells.len();
            for &class in &of_rows {
                let place = &mut places[class as usize];
                if *place == u32::MAX {
                    *place = (cells.len() - first) as u32;
                    cells.push(Cell { class, weight: 0 });
                }
                cells[first + *place as usize].weight += 1;
            }
            groups.push(match cells.len() - first {
                0 | 1 => GroupRows::One(of_rows.len() as u32),
                2..=256 => {
                    GroupRows::Few(of_rows.iter().map(|class| places[*class as usize] as u8).collect())
                }
                _ => GroupRows::Many(of_rows.iter().map(|class| places[*class as usize]).collect()),
            });
            for cell in &cells[first..] {
                totals[cell.class as usize] += cell.weight;
                places[cell.class as usize] = u32::MAX;
            }
            first_cells.push(cells.len());
        }
        let classes: Vec<(f64, u64)> = weights.iter().copied().zip(totals.iter().copied()).collect();
        let is_balanced = sample.weights == Weights::Balanced;
        let strata = Strata::of_classes(&classes, is_balanced, sample.replacement, sample.rows)?;
        Ok(Population {
            strata,
            totals: totals.into(),
            cells: cells.into(),
            first_cells: first_cells.into(),
            groups: groups.into(),
        })
    }

    /// Builds the population from the weight of each row, given as the bits of a float.
    fn of_weights(sample: &Sample, mut rows: Vec<Vec<u32>>) -> Result<Self> {
        let largest = rows.iter().flatten().map(|bits| f32::from_bits(*bits)).fold(0.0, f32::max);
        if largest == 0.0 {
            return Err(none());
        }
        for weight in rows.iter_mut().flatten() {
            let share = f64::from(f32::from_bits(*weight)) / f64::from(largest);
            *weight = if share > 0.0 { ((share * f64::from(LARGEST_WEIGHT)) as u32).max(1) } else { 0 };
        }
        let there = rows.iter().flatten().filter(|weight| **weight > 0).count() as u64;
        let all: u64 = rows.iter().flatten().map(|weight| u64::from(*weight)).sum();
        let draws = match (sample.rows, sample.replacement) {
            (Some(rows), _) => rows,
            (None, true) => there,
            (None, false) => (all / u64::from(LARGEST_WEIGHT)).max(1),
        };
        if !sample.replacement {
            check_there(draws, there)?;
            let most = largest_of_one_draw(&rows, draws);
            rows.iter_mut().flatten().for_each(|weight| *weight = (*weight).min(most));
        }
        let cells: Box<[Cell]> = rows.iter().map(|weights| Cell { class: 0, weight: sum(weights) }).collect();
        Ok(Population {
            strata: Strata::of_rows(draws),
            totals: Box::new([cells.iter().map(|cell| cell.weight).sum()]),
            first_cells: (0..=cells.len()).collect(),
            cells,
            groups: rows.into_iter().map(|weights| GroupRows::Weights(weights.into())).collect(),
        })
    }

    /// Returns an error if a row group has too many draws to be numbered with 32 bits.
    fn check(&self) -> Result<()> {
        let draws = |group| self.draws_of(group).1;
        match (0..self.groups.len()).map(draws).max() {
            Some(draws) if draws > u64::from(u32::MAX) => {
                let cause = format!("{draws} rows of an epoch come from one row group");
                Err(Error::new(ErrorKind::TooLarge, cause).hint("give fewer `rows`, up to 2^32 - 1 of each"))
            }
            _ => Ok(()),
        }
    }

    /// The fewest and the most draws that a row group has in an epoch.
    pub(super) fn draws_of(&self, group: usize) -> (u64, u64) {
        let of_cell = |cell: &Cell| {
            let (least, most) = self.strata.bounds(cell.class as usize);
            let total = u128::from(self.totals[cell.class as usize]).max(1);
            let share = |draws: u64| u128::from(cell.weight) * u128::from(draws);
            ((share(least) / total) as u64, share(most).div_ceil(total) as u64)
        };
        let bounds = self.cells_of(group).iter().map(of_cell);
        let (least, most) = bounds.fold((0, 0), |sum: (u64, u64), of| (sum.0 + of.0, sum.1 + of.1));
        (least.min(self.strata.rows()), most.min(self.strata.rows()))
    }

    /// The memory that the population and the draws of two epochs take, in bytes.
    pub(super) fn kept_bytes(&self) -> u64 {
        let of_group = |rows: &GroupRows| {
            let numbers = match rows {
                GroupRows::One(_) => 0,
                GroupRows::Few(cells) => size_of_val(&**cells),
                GroupRows::Many(numbers) | GroupRows::Weights(numbers) => size_of_val(&**numbers),
            };
            numbers + size_of::<GroupRows>()
        };
        let groups: usize = self.groups.iter().map(of_group).sum();
        // Two epochs are held at a time, and each has a number for every cell and every row group.
        let of_epochs = 2 * (self.cells.len() * size_of::<u64>() + self.groups.len() * size_of::<u32>());
        (groups + size_of_val(&*self.cells) + size_of_val(&*self.first_cells) + of_epochs) as u64
    }

    /// The number of row groups.
    pub(super) fn groups(&self) -> usize {
        self.groups.len()
    }

    /// The number of selected rows in a row group.
    pub(super) fn rows_of(&self, group: usize) -> u32 {
        match &self.groups[group] {
            GroupRows::One(rows) => *rows,
            GroupRows::Few(cells) => cells.len() as u32,
            GroupRows::Many(numbers) | GroupRows::Weights(numbers) => numbers.len() as u32,
        }
    }

    /// The cells of a row group.
    pub(super) fn cells_of(&self, group: usize) -> &[Cell] {
        &self.cells[self.first_cells[group]..self.first_cells[group + 1]]
    }

    /// Returns the index of a row's cell among the cells of its row group, and the weight of the row in this
    /// cell.
    pub(super) fn row(&self, group: usize, row: u32) -> (usize, u64) {
        match &self.groups[group] {
            GroupRows::One(_) => (0, 1),
            GroupRows::Few(cells) => (cells[row as usize].into(), 1),
            GroupRows::Many(cells) => (cells[row as usize] as usize, 1),
            GroupRows::Weights(weights) => (0, weights[row as usize].into()),
        }
    }
}

fn sum(weights: &[u32]) -> u64 {
    weights.iter().map(|weight| u64::from(*weight)).sum()
}

/// Returns the weight to which all larger weights are reduced if no row may be drawn twice: a row of this
/// weight is certain to be drawn once. It is the largest `most` for which `most * draws` is at most the sum
/// of all weights, each reduced to at most `most`.
fn largest_of_one_draw(rows: &[Vec<u32>], draws: u64) -> u32 {
    let fits = |most: u32| {
        let all: u64 = rows.iter().flatten().map(|weight| u64::from((*weight).min(most))).sum();
        u128::from(most) * u128::from(draws) <= u128::from(all)
    };
    let (mut low, mut high) = (1, LARGEST_WEIGHT + 1);
    while high - low > 1 {
        let middle = low.midpoint(high);
        if fits(middle) { low = middle } else { high = middle }
    }
    low
}
