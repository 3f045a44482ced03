//! Random shares: each unit of a step (an equal bundle of rows) comes from a source with a probability that
//! is the source's weight.
//!
//! With exact shares in each step, weights of 0.7 and 0.3 give every batch exactly 70 and 30 of 100 rows.
//! With random shares, a batch has these numbers on average, and each unit may come from any source. The
//! units of a block of [`BLOCK`] steps are divided exactly among the sources and then shuffled. So a step is
//! a random sample of the units of its block, which is close to independent choices, and all shares are exact
//! at the end of each block. The sources of any step can be computed from the number of its block.

use super::apportion::{Apportionment, Weights};
use super::draw::{Draws, Purpose};

/// The number of steps whose sources are shuffled together. If the source of each unit were chosen
/// independently, the variance of a share would be greater by at most about `1 / BLOCK` of it.
pub(crate) const BLOCK: u64 = 32;

/// Divides the units of each step (equal bundles of rows) among the sources by weight, step after step:
/// exactly, or at random.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StepShares {
    Exact(Apportionment),
    Random(Box<RandomShares>),
}

/// Shares that are drawn at random, block by block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RandomShares {
    /// The exact shares of each block.
    blocks: Apportionment,
    units: u64,
    /// The seed, and the step at which these shares begin.
    key: (u64, u64),
    step: u64,
    /// The source of each unit in the block of the next step.
    block: Vec<u16>,
}

impl StepShares {
    /// The shares from step 0 on, which are random if there is a seed. `first` is the number of this step 0
    /// in the epoch: shares that begin at another step of the epoch use other random numbers.
    pub(super) fn new(weights: &Weights, units: u64, seed: Option<u64>, first: u64) -> Self {
        match seed {
            None => StepShares::Exact(Apportionment::new(weights, units)),
            Some(seed) => {
                let blocks = Apportionment::new(weights, units.saturating_mul(BLOCK));
                let shares = RandomShares { blocks, units, key: (seed, first), step: 0, block: Vec::new() };
                StepShares::Random(Box::new(shares.at(0)))
            }
        }
    }

    /// Moves to the position just before step `step`.
    pub(super) fn at(self, step: u64) -> Self {
        match self {
            StepShares::Exact(shares) => StepShares::Exact(shares.at(step)),
            StepShares::Random(shares) => StepShares::Random(Box::new(shares.at(step))),
        }
    }

    /// The units that each source got in the steps so far.
    pub(super) fn so_far(&self, source: usize) -> u64 {
        match self {
            StepShares::Exact(shares) => shares.so_far(source),
            StepShares::Random(shares) => shares.so_far(source),
        }
    }

    /// The units of each source in the next step.
    pub(super) fn next(&mut self) -> Vec<u64> {
        match self {
            StepShares::Exact(shares) => shares.next(),
            StepShares::Random(shares) => shares.next(),
        }
    }

    /// The step that takes the total of a source above `units` units; `None` if no step does.
    pub(super) fn last_within(&self, source: usize, units: u64) -> Option<u64> {
        self.last_before(&[(source, units)], false)
    }

    /// The step at whose end, for the first time, some source has more units than its limit, or, with `all`,
    /// every source in `limits` has. `None` if that never happens.
    pub(super) fn last_before(&self, limits: &[(usize, u64)], all: bool) -> Option<u64> {
        let random = match self {
            StepShares::Exact(shares) => return shares.last_before(limits, all),
            StepShares::Random(random) => random,
        };
        // This is the first block at whose end the limits count as exceeded, so the step is in it.
        let block = random.blocks.last_before(limits, all)?;
        let mut shares = RandomShares::clone(random).at(block.saturating_mul(BLOCK));
        loop {
            let step = shares.step;
            shares.next();
            let mut over = limits.iter().map(|&(source, units)| shares.so_far(source) > units);
            if if all { over.all(|over| over) } else { over.any(|over| over) } {
                return Some(step);
            }
        }
    }
}

impl RandomShares {
    fn at(mut self, step: u64) -> Self {
        self.blocks = self.blocks.at(step / BLOCK);
        self.step = step;
        self.begin();
        self
    }

    /// Shuffles the sources of the next step's block.
    fn begin(&mut self) {
        let totals = self.blocks.clone().next();
        self.block.clear();
        for (source, units) in (0..).zip(totals) {
            self.block.extend(std::iter::repeat_n(source, units as usize));
        }
        let ((seed, first), block) = (self.key, self.step / BLOCK);
        Draws::keyed(seed, Purpose::Shares, &[first, block]).shuffle(&mut self.block);
    }

    /// The sources of the units in the next step's block that come before the step.
    fn before(&self) -> &[u16] {
        &self.block[..(self.step % BLOCK * self.units) as usize]
    }

    fn so_far(&self, source: usize) -> u64 {
        let in_block = self.before().iter().filter(|of| usize::from(**of) == source).count();
        self.blocks.so_far(source) + in_block as u64
    }

    fn next(&mut self) -> Vec<u64> {
        let start = self.before().len();
        let mut units = vec![0; self.blocks.sources()];
        self.block[start..start + self.units as usize].iter().for_each(|of| units[usize::from(*of)] += 1);
        self.step += 1;
        if self.step.is_multiple_of(BLOCK) {
            self.blocks.next();
            self.begin();
        }
        units
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shares(weights: &[f64], units: u64) -> StepShares {
        StepShares::new(&Weights::new(weights).unwrap(), units, Some(7), 3)
    }

    #[test]
    fn shares_are_those_of_independent_draws() {
        let (mut shares, steps) = (shares(&[0.7, 0.3], 20), 3_200);
        let found: Vec<f64> = (0..steps).map(|_| shares.next()[1] as f64).collect();
        let mean = found.iter().sum::<f64>() / found.len() as f64;
        assert!((mean - 6.0).abs() < 1e-9, "exact at the end of a block: {mean}");
        let variance = found.iter().map(|units| (units - mean).powi(2)).sum::<f64>() / found.len() as f64;
        assert!((3.8..4.5).contains(&variance), "4.2 if independent: {variance}");
        let together: f64 = found.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum();
        assert!((together / found.len() as f64).abs() < 0.4, "steps that follow each other: {together}");
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn to_seek_a_step_is_to_go_there(
            weights in prop::collection::vec((0u32..50).prop_map(f64::from), 1..6),
            units in 1u64..40,
            to in 0u64..200,
            limit in 0u64..900,
        ) {
            prop_assume!(weights.iter().any(|weight| *weight > 0.0));
            let first = shares(&weights, units);
            let mut gone = first.clone();
            for step in 0..to {
                let next = gone.next();
                prop_assert_eq!(next.iter().sum::<u64>(), units, "step {}", step);
            }
            let mut sought = first.clone().at(to);
            for (source, weight) in weights.iter().enumerate() {
                prop_assert_eq!(gone.so_far(source), sought.so_far(source));
                match first.last_within(source, limit) {
                    None => prop_assert_eq!(*weight, 0.0),
                    Some(step) => {
                        let mut shares = first.clone().at(step);
                        prop_assert!(shares.so_far(source) <= limit);
                        shares.next();
                        prop_assert!(shares.so_far(source) > limit);
                    }
                }
            }
            prop_assert_eq!(gone.next(), sought.next());
        }
    }

    #[test]
    fn the_draws_never_change() {
        let mut shares = shares(&[3.0, 1.0, 1.0], 10).at(40);
        assert_eq!([shares.next(), shares.next()].concat(), GOLDEN);
    }

    const GOLDEN: [u64; 6] = [6, 0, 4, 7, 1, 2];
}
