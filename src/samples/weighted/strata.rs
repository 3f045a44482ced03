//! Decides how many rows of each class an epoch draws.
//!
//! Each class has a share, and the draws of an epoch are divided among the classes in proportion to their
//! shares. The number of draws of a class is rounded down or up by points at equal distances, so that the
//! numbers of all classes add up exactly. Without replacement, all rows of a class are drawn if the class
//! would need more rows than it has, and the other classes share the remaining draws.

use forebay_base::{Error, Result};

use crate::shard::{Draws, Purpose};

/// The largest sum that the shares of all classes may have.
const MAX_SUM_OF_SHARES: f64 = (1u64 << 62) as f64;

/// A number of rows that is less than `1 / MISSING_DIVISOR` below a whole number is rounded up to it, so that
/// the rounding of weights does not cost a row.
const MISSING_DIVISOR: u128 = 1 << 24;

/// The rows of a class, or all rows if rows have weights of their own.
#[derive(Clone, Debug)]
pub(super) struct Stratum {
    /// The part of [`Strata::shares`] that belongs to this class; 0 if the class has no draws or a fixed
    /// number of draws.
    share: u64,
    /// The fixed number of draws in each epoch, if all rows of the class are drawn; otherwise 0.
    certain: u64,
}

/// All classes, and the draws that they share.
#[derive(Clone, Debug)]
pub(super) struct Strata {
    of: Vec<Stratum>,
    /// The number of draws in an epoch.
    rows: u64,
    /// The number of draws that classes share: all draws but the fixed ones.
    shared: u64,
    shares: u64,
}

impl Strata {
    /// Divides the draws among classes, each given by the weight of one of its rows and by its number of
    /// rows. `rows` is the number of draws in an epoch, if the user gives it.
    pub(super) fn of_classes(
        classes: &[(f64, u64)],
        is_balanced: bool,
        replacement: bool,
        rows: Option<u64>,
    ) -> Result<Self> {
        let share = |(weight, rows): &(f64, u64)| match (is_balanced, *rows) {
            (_, 0) => 0.0,
            (true, _) => 1.0,
            (false, rows) => weight * rows as f64,
        };
        let shares: Vec<f64> = classes.iter().map(share).collect();
        let largest = shares.iter().copied().fold(0.0, f64::max);
        if largest == 0.0 {
            return Err(none());
        }
        let unit = MAX_SUM_OF_SHARES / shares.len() as f64;
        let whole = |share: &f64| if *share == 0.0 { 0 } else { ((share / largest * unit) as u64).max(1) };
        let of: Vec<Stratum> =
            shares.iter().map(|share| Stratum { share: whole(share), certain: 0 }).collect();
        let shares = of.iter().map(|stratum| stratum.share).sum();
        let weighted = of.iter().zip(classes).filter(|(stratum, _)| stratum.share > 0);
        let there: u64 = weighted.clone().map(|(_, (_, rows))| rows).sum();
        let even = weighted.map(|(stratum, (_, rows))| {
            let (all, share) = (u128::from(*rows) * u128::from(shares), u128::from(stratum.share));
            (all + share / MISSING_DIVISOR) / share
        });
        let rows = match (rows, replacement) {
            (Some(rows), _) => rows,
            (None, true) => there,
            (None, false) => even.min().map_or(1, |rows| (rows as u64).clamp(1, there)),
        };
        let mut strata = Strata { of, rows, shared: rows, shares };
        if !replacement {
            check_there(rows, there)?;
            strata.cap(classes);
        }
        Ok(strata)
    }

    /// Makes a single class of all rows, because each row has a weight of its own. `rows` is the number of
    /// draws in an epoch.
    pub(super) fn of_rows(rows: u64) -> Self {
        Strata { of: vec![Stratum { share: 1, certain: 0 }], rows, shared: rows, shares: 1 }
    }

    /// Limits classes that would need more draws than they have rows: all of their rows are drawn once.
    fn cap(&mut self, classes: &[(f64, u64)]) {
        loop {
            let (shared, shares) = (u128::from(self.shared), u128::from(self.shares));
            let is_over = |stratum: &Stratum, rows: u64| {
                stratum.share > 0 && u128::from(stratum.share) * shared > u128::from(rows) * shares
            };
            let mut is_done = true;
            for (stratum, (_, rows)) in self.of.iter_mut().zip(classes) {
                if is_over(stratum, *rows) {
                    self.shared -= rows;
                    self.shares -= stratum.share;
                    *stratum = Stratum { share: 0, certain: *rows };
                    is_done = false;
                }
            }
            if is_done {
                return;
            }
        }
    }

    /// The number of draws in an epoch.
    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    /// The fewest and the most draws that a class has in an epoch.
    pub(super) fn bounds(&self, class: usize) -> (u64, u64) {
        let Stratum { share, certain } = self.of[class];
        if share == 0 {
            return (certain, certain);
        }
        let (all, shares) = (u128::from(share) * u128::from(self.shared), u128::from(self.shares));
        ((all / shares) as u64, all.div_ceil(shares) as u64)
    }

    /// The number of draws of each class in an epoch. Their sum is [`rows`](Self::rows).
    pub(super) fn draws(&self, seed: u64, epoch: u64) -> Vec<u64> {
        let mut random = Draws::keyed(seed, Purpose::Sample, &[epoch]);
        let mut order: Vec<usize> = (0..self.of.len()).collect();
        random.shuffle(&mut order);
        let points = Points::new(self.shares, self.shared, &mut random);
        let mut draws = vec![0; self.of.len()];
        let mut at = 0;
        for class in order {
            let Stratum { share, certain } = self.of[class];
            draws[class] = certain + points.between(at, at + share);
            at += share;
        }
        draws
    }
}

/// Points at equal distances on a line, beginning at a random offset.
#[derive(Clone, Copy, Debug)]
pub(super) struct Points {
    length: u64,
    points: u64,
    offset: u64,
}

impl Points {
    /// Puts a number of `points` on a line of `length`.
    pub(super) fn new(length: u64, points: u64, random: &mut Draws) -> Self {
        Points { length: length.max(1), points, offset: random.below(length.max(1)) }
    }

    /// Returns the number of points between two places on the line.
    pub(super) fn between(&self, from: u64, to: u64) -> u64 {
        self.before(to) - self.before(from)
    }

    fn before(&self, at: u64) -> u64 {
        match at.checked_mul(self.points).and_then(|all| all.checked_add(self.offset)) {
            Some(all) => all / self.length,
            None => {
                let all = u128::from(at) * u128::from(self.points) + u128::from(self.offset);
                (all / u128::from(self.length)) as u64
            }
        }
    }
}

/// Returns an error if more rows would be drawn without replacement than exist.
pub(super) fn check_there(rows: u64, there: u64) -> Result<()> {
    if rows <= there {
        return Ok(());
    }
    let cause =
        format!("a sample of {rows} rows without replacement, but only {there} have a weight above 0");
    Err(Error::invalid(cause).hint("give fewer `rows`, or sample with replacement"))
}

/// The error for weights with which no row can be drawn.
pub(super) fn none() -> Error {
    Error::invalid("no row has a weight above 0").hint("give a class or row that is selected a weight")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draws(classes: &[(f64, u64)], balanced: bool, replacement: bool, rows: Option<u64>) -> Vec<u64> {
        Strata::of_classes(classes, balanced, replacement, rows).unwrap().draws(7, 0)
    }

    #[test]
    fn balanced_classes_have_as_many_draws() {
        let classes = [(1.0, 700), (1.0, 200), (1.0, 0), (1.0, 100)];
        let mut found = draws(&classes, true, true, None);
        assert_eq!(found.iter().sum::<u64>(), 1000);
        assert_eq!(found.remove(2), 0);
        assert!(found.iter().all(|draws| (333..=334).contains(draws)), "{found:?}");
        assert_eq!(draws(&classes, true, false, None), [100, 100, 0, 100]);
        assert_eq!(
            draws(&classes, true, false, Some(500)),
            [200, 200, 0, 100],
            "the rarest gives all of its"
        );
        assert_eq!(draws(&classes, true, false, Some(1000)), [700, 200, 0, 100]);
        let error = Strata::of_classes(&classes, true, false, Some(1001)).unwrap_err().to_string();
        assert!(error.contains("1000 have a weight above 0"), "{error}");
    }

    #[test]
    fn a_weight_is_of_each_row_of_a_class() {
        let classes = [(1.0, 100), (2.0, 10), (0.0, 50)];
        assert_eq!(draws(&classes, false, true, Some(120)), [100, 20, 0]);
        assert_eq!(draws(&classes, false, false, None), [50, 10, 0], "none comes more often than once");
        assert!(Strata::of_classes(&[(0.0, 9)], false, true, None).is_err());
        let tiny = draws(&[(1.0, 1), (1e-300, 1)], false, true, Some(1 << 40));
        assert_eq!(tiny.iter().sum::<u64>(), 1 << 40);
    }

    #[test]
    fn draws_are_rounded_down_or_up_and_are_exact_on_average() {
        let classes = [(1.0, 10), (1.5, 10), (0.7, 10), (0.1, 10)];
        let strata = Strata::of_classes(&classes, false, true, Some(17)).unwrap();
        let mut sums = [0; 4];
        for epoch in 0..4_000 {
            let draws = strata.draws(3, epoch);
            assert_eq!(draws.iter().sum::<u64>(), 17);
            for (class, draws) in draws.into_iter().enumerate() {
                let (least, most) = strata.bounds(class);
                assert!((least..=most).contains(&draws) && most - least == 1);
                sums[class] += draws;
            }
        }
        for (class, sum) in sums.into_iter().enumerate() {
            let expected = 17.0 * classes[class].0 / 3.3;
            // The standard error of the average is below 0.008, a fifth of what is allowed.
            assert!((sum as f64 / 4_000.0 - expected).abs() < 0.04, "{class}: {sum}");
        }
    }
}
