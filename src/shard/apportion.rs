//! Divides the `n` units of each step among sources by their weights. Each source gets a whole number of
//! units, and all sources together get exactly `n`.
//!
//! A source whose weight is the fraction `w` of the sum of all weights is owed `w·n` units of a step, which
//! is seldom a whole number. It gets that number rounded down or up, such that after any number of steps it
//! has less than one unit too few or too many. The units that are left after rounding down are scheduled like
//! processors, with at most one for each source in a step: by PD² (Anderson and Srinivasan, "Mixed
//! Pfair/ERfair scheduling of asynchronous periodic tasks", 2004), which is known to keep this bound for any
//! weights.
//!
//! `Weights` holds all weights as whole numbers. After as many steps as the sum of these numbers, each source
//! has got exactly the units that it is owed, so the shares of any step follow from its number alone.

use std::cmp::Reverse;

use forebay_base::{Error, Result};

/// The largest sum of weights, which are whole numbers. Weights that need a larger sum are rounded, so that
/// they add up to this one. The time to find a step grows with the sum.
const MAX_PARTS: u64 = 100_000;

/// The most digits after the decimal point for which weights are taken exactly as written.
const MAX_DIGITS: i32 = 5;

/// The weights of sources, as whole numbers without a common divisor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Weights {
    parts: Vec<u64>,
    sum: u64,
}

impl Weights {
    /// Takes weights as they are written: `0.7` and `0.3` are 7 and 3 parts of 10. Weights that would need
    /// more than 100,000 parts are rounded to that number of parts.
    ///
    /// # Errors
    /// Fails if a weight is negative or not finite, or if all are 0.
    pub(crate) fn new(weights: &[f64]) -> Result<Self> {
        if let Some((source, weight)) =
            (0..).zip(weights).find(|(_, weight)| !weight.is_finite() || **weight < 0.0)
        {
            let source: usize = source;
            return Err(Error::invalid(format!("the weight of source {source} is {weight}"))
                .hint("a weight is a number of at least 0"));
        }
        let sum: f64 = weights.iter().sum();
        if sum <= 0.0 || !sum.is_finite() {
            return Err(Error::invalid("all weights are 0").hint("give one source a weight above 0"));
        }
        let whole = |scale: f64| -> Option<Vec<u64>> {
            let scaled = weights.iter().map(|weight| weight * scale);
            let near = |scaled: f64| (scaled - scaled.round()).abs() <= scaled * 1e-9;
            scaled.map(|scaled| near(scaled).then(|| scaled.round() as u64)).collect()
        };
        let fits = |parts: &Vec<u64>| parts.iter().sum::<u64>() <= MAX_PARTS;
        let written = (sum <= MAX_PARTS as f64)
            .then(|| (0..=MAX_DIGITS).filter_map(|digits| whole(10f64.powi(digits))).map(reduced).find(fits));
        Ok(Weights::from_parts(written.flatten().unwrap_or_else(|| rounded(weights, sum))))
    }

    /// Makes weights from the whole numbers that a saved position has; `None` if these cannot be the weights
    /// of `sources` sources.
    pub(crate) fn of_parts(parts: &[u64], sources: usize) -> Option<Self> {
        let sum = parts.iter().try_fold(0, |sum: u64, part| sum.checked_add(*part))?;
        (parts.len() == sources && (1..=MAX_PARTS).contains(&sum))
            .then(|| Weights::from_parts(parts.to_vec()))
    }

    fn from_parts(parts: Vec<u64>) -> Self {
        let parts = reduced(parts);
        Weights { sum: parts.iter().sum(), parts }
    }

    /// The weights of the sources for which `keeps` holds, and 0 for the others; `None` if all would be 0.
    pub(super) fn only(&self, keeps: impl Fn(usize) -> bool) -> Option<Self> {
        let kept = self.parts.iter().enumerate().map(|(source, part)| if keeps(source) { *part } else { 0 });
        let kept = Weights::from_parts(kept.collect());
        (kept.sum > 0).then_some(kept)
    }

    /// The number of sources.
    pub(crate) fn len(&self) -> usize {
        self.parts.len()
    }

    /// The weight of a source, as a part of [`sum`](Self::sum).
    pub(crate) fn part(&self, source: usize) -> u64 {
        self.parts[source]
    }

    /// The sum of all weights.
    pub(crate) fn sum(&self) -> u64 {
        self.sum
    }
}

/// The weights rounded to parts of 100,000. A source that has a weight gets at least one part.
fn rounded(weights: &[f64], sum: f64) -> Vec<u64> {
    let part = |weight: &f64| match *weight {
        0.0 => 0,
        weight => ((weight / sum * MAX_PARTS as f64).round() as u64).max(1),
    };
    let mut parts: Vec<u64> = weights.iter().map(part).collect();
    // The largest part absorbs the rounding error, so that the sum is exact.
    if let Some(largest) = (0..parts.len()).max_by_key(|&source| (parts[source], Reverse(source))) {
        let others = parts.iter().sum::<u64>() - parts[largest];
        parts[largest] = MAX_PARTS.saturating_sub(others).max(1);
    }
    parts
}

/// Divides whole numbers by their greatest common divisor.
fn reduced(parts: Vec<u64>) -> Vec<u64> {
    let divisor = parts.iter().fold(0, |divisor, part| gcd(divisor, *part)).max(1);
    parts.into_iter().map(|part| part / divisor).collect()
}

pub(super) fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Divides the units of each step (equal bundles of rows) among the sources by weight, step after step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Apportionment {
    /// The number of units that each source gets in every step, rounded down.
    down: Vec<u64>,
    /// The fraction of a unit that each source is owed in a step beyond `down`, in parts of `period`.
    owed: Vec<u64>,
    /// The number of steps after which all shares are exact.
    period: u64,
    /// The number of units of a step that are left when all shares are rounded down.
    left: usize,
    /// The number of steps taken so far.
    step: u64,
    /// How often the share of each source was rounded up in the present period.
    up: Vec<u64>,
}

/// The urgency of a source; the smallest value goes first.
type Urgency = (u64, bool, Reverse<u64>, usize);

impl Apportionment {
    /// Starts at the first step.
    pub(super) fn new(weights: &Weights, units: u64) -> Self {
        let products = weights.parts.iter().map(|&part| u128::from(part) * u128::from(units));
        let sum = u128::from(weights.sum);
        let (down, owed): (Vec<u64>, Vec<u64>) =
            products.map(|product| ((product / sum) as u64, (product % sum) as u64)).unzip();
        let divisor = owed.iter().fold(weights.sum, |divisor, owed| gcd(divisor, *owed)).max(1);
        let owed: Vec<u64> = owed.into_iter().map(|owed| owed / divisor).collect();
        let period = weights.sum / divisor;
        let left = (owed.iter().sum::<u64>() / period) as usize;
        let up = vec![0; owed.len()];
        Apportionment { down, owed, period, left, step: 0, up }
    }

    /// Moves to the position just before step `step`.
    pub(super) fn at(mut self, step: u64) -> Self {
        self.step = step - step % self.period;
        self.up.fill(0);
        while self.step < step {
            self.advance(|_| ());
        }
        self
    }

    /// The units that each source got in the steps so far.
    pub(super) fn so_far(&self, source: usize) -> u64 {
        self.step * self.down[source] + self.step / self.period * self.owed[source] + self.up[source]
    }

    /// The number of sources.
    pub(super) fn sources(&self) -> usize {
        self.down.len()
    }

    /// The first step after which some source has more units than its limit, or, with `all`, the first after
    /// which every source has more. `None` if that never happens.
    pub(super) fn last_before(&self, limits: &[(usize, u64)], all: bool) -> Option<u64> {
        let near = |&(source, units): &(usize, u64)| {
            let each =
                u128::from(self.down[source]) * u128::from(self.period) + u128::from(self.owed[source]);
            // By any step a source has at most one unit more than its exact share, so it is within its limit
            // before the step at which that share reaches `units - 1`.
            let near = (u128::from(units.saturating_sub(1)) * u128::from(self.period)).checked_div(each);
            near.map(|near| u64::try_from(near).unwrap_or(u64::MAX).saturating_sub(1))
        };
        let near: Vec<Option<u64>> = limits.iter().map(near).collect();
        let begin = match all {
            true => near.iter().copied().collect::<Option<Vec<u64>>>()?.into_iter().max()?,
            false => near.iter().flatten().copied().min()?,
        };
        let mut shares = self.clone().at(begin);
        loop {
            let step = shares.step;
            shares.advance(|_| ());
            let mut over = limits.iter().map(|&(source, units)| shares.so_far(source) > units);
            if if all { over.all(|over| over) } else { over.any(|over| over) } {
                return Some(step);
            }
        }
    }

    /// The units of each source in the next step.
    pub(super) fn next(&mut self) -> Vec<u64> {
        let mut units = self.down.clone();
        self.advance(|source| units[source] += 1);
        units
    }

    /// Advances by a step, and reports the sources whose shares are rounded up in it.
    fn advance(&mut self, mut rounded_up: impl FnMut(usize)) {
        if self.left > 0 {
            let at = self.step % self.period;
            let mut urgent: Vec<Urgency> =
                (0..self.owed.len()).filter_map(|source| self.urgency(source, at)).collect();
            urgent.sort_unstable();
            for (.., source) in urgent.into_iter().take(self.left) {
                self.up[source] += 1;
                rounded_up(source);
            }
        }
        self.step += 1;
        if self.step.is_multiple_of(self.period) {
            self.up.fill(0);
        }
    }

    /// The urgency of a source's next unit by PD², at this step of the period. The unit with the earlier
    /// deadline goes first, then one whose window (the steps in which it may be given) overlaps that of the
    /// source's following unit, then one whose chain of overlapping windows ends later. `None` if the unit
    /// would come too early.
    fn urgency(&self, source: usize, at: u64) -> Option<Urgency> {
        let (owed, period) = (self.owed[source], self.period);
        let next = self.up[source] + 1;
        if owed == 0 || (next - 1) * period / owed > at {
            return None;
        }
        let deadline = (next * period).div_ceil(owed);
        let overlaps = !(next * period).is_multiple_of(owed);
        let chain_end = if 2 * owed >= period {
            let free = period - owed;
            (deadline * free).div_ceil(period) * period / free
                + u64::from(!((deadline * free).div_ceil(period) * period).is_multiple_of(free))
        } else {
            0
        };
        Some((deadline, !overlaps, Reverse(chain_end), source))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn weights_are_taken_as_they_are_written() {
        let parts = |weights: &[f64]| Weights::new(weights).unwrap().parts;
        assert_eq!(parts(&[0.7, 0.3]), [7, 3]);
        assert_eq!(parts(&[0.1, 0.2, 0.7]), [1, 2, 7]);
        assert_eq!(parts(&[6.0, 2.0, 4.0]), [3, 1, 2]);
        assert_eq!(parts(&[0.0, 5.0]), [0, 1]);
        assert_eq!(parts(&[1.0 / 3.0, 2.0 / 3.0]), [33_333, 66_667]);
        assert_eq!(parts(&[1e12, 1.0]), [99_999, 1], "a source that has a weight gets rows");
        for refused in [&[0.5, -0.1][..], &[f64::NAN], &[0.0, 0.0], &[f64::INFINITY, 1.0]] {
            assert!(Weights::new(refused).is_err(), "{refused:?}");
        }
    }

    #[test]
    fn the_shares_of_a_batch_of_ten() {
        let mut shares = Apportionment::new(&Weights::new(&[0.7, 0.3]).unwrap(), 10);
        assert_eq!([shares.next(), shares.next()], [[7, 3], [7, 3]]);
        let mut shares = Apportionment::new(&Weights::new(&[0.7, 0.3]).unwrap(), 1);
        let first: Vec<usize> = (0..10).map(|_| shares.next()[1] as usize).collect();
        assert_eq!(first.iter().sum::<usize>(), 3, "{first:?}");
    }

    fn weights() -> impl Strategy<Value = Vec<f64>> {
        let weight = prop_oneof![40 => (0u32..100).prop_map(f64::from), 1 => 0.01..1.0f64, 10 => Just(0.5)];
        prop::collection::vec(weight, 1..9).prop_filter("all are 0", |all| all.iter().any(|one| *one > 0.0))
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() })]

        /// Each share is rounded down or up in each step, and over all steps it is off by less than one unit.
        #[test]
        fn shares_are_exact_in_each_step_and_over_all(weights in weights(), units in 1u64..300, from in 0u64..5_000) {
            let weights = Weights::new(&weights).unwrap();
            let mut shares = Apportionment::new(&weights, units).at(from);
            for step in from + 1..from + 60 {
                let got = shares.next();
                prop_assert_eq!(got.iter().sum::<u64>(), units);
                for (source, got) in got.into_iter().enumerate() {
                    let exact = u128::from(weights.part(source)) * u128::from(units);
                    let sum = u128::from(weights.sum());
                    let down = (exact / sum) as u64;
                    prop_assert!(got == down || (got == down + 1 && exact % sum > 0), "{} of {}/{}", got, exact, sum);
                    let (owed, so_far) = (exact * u128::from(step), u128::from(shares.so_far(source)) * sum);
                    prop_assert!(so_far.abs_diff(owed) < sum, "{} after {} steps, owed {}/{}", so_far, step, owed, sum);
                }
            }
        }

        #[test]
        fn to_seek_a_step_is_to_go_there(weights in weights(), units in 1u64..50, to in 0u64..300, limit in 0u64..600) {
            let first = Apportionment::new(&Weights::new(&weights).unwrap(), units);
            let mut gone = first.clone();
            (0..to).for_each(|_| drop(gone.next()));
            let mut sought = first.clone().at(to);
            for source in 0..weights.len() {
                prop_assert_eq!(gone.so_far(source), sought.so_far(source));
                if let Some(step) = first.last_before(&[(source, limit)], false) {
                    let mut shares = first.clone().at(step);
                    prop_assert!(shares.so_far(source) <= limit);
                    shares.next();
                    prop_assert!(shares.so_far(source) > limit);
                }
            }
            prop_assert_eq!(gone.next(), sought.next());
        }
    }
}
