//! Compares an order of rows with the stored rows. This file is only arithmetic.
//!
//! A row is identified by a hash of its content, which is looked up among the hashes of the stored rows.
//! Equal rows cannot be distinguished: they are matched in turn, so that the counts are right in any case.

/// The index of a row in the stored data.
type Place = usize;

/// The stored row of each delivered row.
pub(super) struct Matched {
    /// The stored row of each delivered row, in the order of delivery; `None` for a row that is not stored.
    pub(super) places: Vec<Option<Place>>,
    /// How often each stored row was delivered.
    times: Vec<u32>,
    /// For each stored row, whether no other stored row equals it.
    alone: Vec<bool>,
}

/// How many rows were delivered once, twice, never, or without being stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(super) struct Deliveries {
    pub(super) once: u64,
    /// The number of stored rows that were delivered twice or more often.
    pub(super) twice: u64,
    pub(super) never: u64,
    /// The number of delivered rows that are not among the stored rows.
    pub(super) unknown: u64,
}

/// Matches the hashes of `delivered` rows to those of `stored` rows.
pub(super) fn matched(stored: &[u64], delivered: &[u64]) -> Matched {
    let mut sorted: Vec<(u64, Place)> = stored.iter().copied().zip(0..).collect();
    sorted.sort_unstable();
    let alike = |digest: u64| {
        let from = sorted.partition_point(|(other, _)| *other < digest);
        let to = sorted.partition_point(|(other, _)| *other <= digest);
        from..to
    };
    let mut times = vec![0; stored.len()];
    // `met` counts, at the first row of each group of equal rows, how many rows of the group were delivered
    // so far.
    let mut met = vec![0; stored.len()];
    let places = delivered
        .iter()
        .map(|digest| {
            let rows = alike(*digest);
            if rows.is_empty() {
                return None;
            }
            let (_, place) = sorted[rows.start + met[rows.start] % rows.len()];
            met[rows.start] += 1;
            times[place] += 1;
            Some(place)
        })
        .collect();
    let alone = stored.iter().map(|digest| alike(*digest).len() == 1).collect();
    Matched { places, times, alone }
}

impl Matched {
    pub(super) fn deliveries(&self) -> Deliveries {
        let count = |what: fn(u32) -> bool| self.times.iter().filter(|times| what(**times)).count() as u64;
        Deliveries {
            once: count(|times| times == 1),
            twice: count(|times| times > 1),
            never: count(|times| times == 0),
            unknown: self.places.iter().filter(|place| place.is_none()).count() as u64,
        }
    }

    /// Computes χ² per degree of freedom: about 1 for a uniform permutation, and larger the more of the
    /// stored order is left. The stored and the delivered order are cut into stretches, and a table counts
    /// the rows of each stored stretch in each delivered stretch. Rows that equal other rows are left out;
    /// the result is `None` if too few rows remain.
    pub(super) fn chi_squared(&self) -> Option<f64> {
        /// With fewer rows in a cell, the sum would not be distributed like χ².
        const ROWS_TO_A_CELL: usize = 16;
        /// Finer stretches would find patterns that do not matter for training.
        const MAX_STRETCHES: usize = 64;
        let pairs: Vec<(usize, Place)> = self
            .places
            .iter()
            .copied()
            .enumerate()
            .filter_map(|(at, place)| Some((at, place.filter(|place| self.alone[*place])?)))
            .collect();
        let stretches = ((pairs.len() / ROWS_TO_A_CELL) as f64).sqrt().min(MAX_STRETCHES as f64) as usize;
        if stretches < 2 {
            return None;
        }
        let (mut cells, mut rows, mut columns) =
            (vec![0u64; stretches * stretches], vec![0u64; stretches], vec![0u64; stretches]);
        for (at, place) in &pairs {
            let row = place * stretches / self.times.len();
            let column = at * stretches / self.places.len();
            cells[row * stretches + column] += 1;
            rows[row] += 1;
            columns[column] += 1;
        }
        let total = pairs.len() as f64;
        let mut sum = 0.0;
        for (cell, found) in cells.iter().enumerate() {
            let expected = rows[cell / stretches] as f64 * columns[cell % stretches] as f64 / total;
            if expected > 0.0 {
                sum += (*found as f64 - expected).powi(2) / expected;
            }
        }
        let filled = |sums: &[u64]| sums.iter().filter(|sum| **sum > 0).count();
        let freedom = filled(&rows).saturating_sub(1) * filled(&columns).saturating_sub(1);
        (freedom > 0).then(|| sum / freedom as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// `rows` in a uniformly random order.
    fn shuffled(rows: usize, seed: u64) -> Vec<u64> {
        let mut random = Random::new(seed, 0);
        let mut order: Vec<u64> = (0..rows as u64).collect();
        for last in (1..rows).rev() {
            order.swap(last, random.below(last as u32 + 1) as usize);
        }
        order
    }

    #[test]
    fn rows_are_counted_whatever_their_order() {
        let stored = [10, 11, 12, 13];
        let found = matched(&stored, &[13, 11, 99, 11]).deliveries();
        assert_eq!(found, Deliveries { once: 1, twice: 1, never: 2, unknown: 1 });
        let whole = matched(&stored, &[12, 10, 13, 11]);
        assert_eq!(whole.deliveries(), Deliveries { once: 4, ..Deliveries::default() });
        assert_eq!(whole.places, [Some(2), Some(0), Some(3), Some(1)]);
    }

    #[test]
    fn rows_that_are_alike_are_matched_in_turn() {
        let stored = [5, 5, 5, 6];
        let deliveries = |delivered: &[u64]| matched(&stored, delivered).deliveries();
        assert_eq!(deliveries(&[5, 6, 5, 5]), Deliveries { once: 4, ..Deliveries::default() });
        assert_eq!(deliveries(&[5, 5]), Deliveries { once: 2, never: 2, ..Deliveries::default() });
        assert_eq!(deliveries(&[5, 5, 5, 5, 6]), Deliveries { once: 3, twice: 1, ..Deliveries::default() });
    }

    #[test]
    fn a_uniform_permutation_has_a_chi_squared_of_one_and_the_stored_order_a_large_one() {
        const ROWS: usize = 50_000;
        let stored: Vec<u64> = (0..ROWS as u64).collect();
        for seed in 0..3 {
            let found = matched(&stored, &shuffled(ROWS, seed)).chi_squared().unwrap();
            assert!((0.9..1.1).contains(&found), "{found}");
        }
        let found = matched(&stored, &stored).chi_squared().unwrap();
        assert!(found > 100.0, "{found}");
        // Blocks of 1,000 rows, shuffled within each block and among each other.
        let blocks: Vec<u64> = shuffled(50, 1)
            .into_iter()
            .flat_map(|b| shuffled(1_000, b).into_iter().map(move |r| b * 1_000 + r))
            .collect();
        let found = matched(&stored, &blocks).chi_squared().unwrap();
        assert!(found > 10.0, "{found}");
    }

    #[test]
    fn rows_that_are_alike_do_not_spoil_chi_squared() {
        let mut stored: Vec<u64> = (0..20_000).collect();
        stored.extend([7; 20_000]);
        let delivered: Vec<u64> =
            shuffled(40_000, 3).into_iter().map(|place| stored[place as usize]).collect();
        let found = matched(&stored, &delivered).chi_squared().unwrap();
        assert!((0.85..1.15).contains(&found), "{found}");
        assert_eq!(matched(&[1; 500], &[1; 500]).chi_squared(), None);
    }
}
