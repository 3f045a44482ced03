//! A log-linear histogram of durations, like HdrHistogram. It counts any number of durations in a fixed
//! amount of memory.
//!
//! Durations below 2^([`BITS`] + 1) ns are counted exactly. Above that, the range between two powers of two
//! is cut into 2^[`BITS`] equal steps. A duration is read back as the middle of its step, so it is off by at
//! most one part in 2^(`BITS` + 1): 0.8 %.

/// The number of binary digits of a duration that are kept after its leading 1.
const BITS: u32 = 6;

/// The number of equal steps between two powers of two.
const STEPS: u64 = 1 << BITS;

/// The number of binary digits of the longest duration. A duration of 2^43 ns (more than two hours) or more
/// is counted as this longest one.
const DIGITS: u32 = 43;

/// The number of [bins](Histogram::bins) per power of ten.
const BINS_A_DECADE: f64 = 10.0;
/// The upper end of the first bin, in nanoseconds. Shorter durations need no other bin, because even a batch
/// that is ready takes about a microsecond to arrive.
const FIRST_BIN: u64 = 1_000;

const BUCKETS: usize = ((DIGITS - BITS + 1) as usize) << BITS;

/// The number of durations of each length, in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Histogram {
    buckets: Box<[u64]>,
    count: u64,
    sum: u64,
    max: u64,
}

/// One bar of the histogram: the number of durations in a range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bin {
    /// The longest duration in this bin, in nanoseconds.
    pub(crate) up_to: f64,
    pub(crate) count: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { buckets: vec![0; BUCKETS].into(), count: 0, sum: 0, max: 0 }
    }
}

impl Histogram {
    /// Counts a duration in nanoseconds.
    pub(crate) fn record(&mut self, nanos: u64) {
        self.buckets[place(nanos)] += 1;
        self.count += 1;
        self.sum += nanos;
        self.max = self.max.max(nanos);
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The exact sum of all durations, in nanoseconds.
    pub(crate) fn sum(&self) -> u64 {
        self.sum
    }

    /// The exact length of the longest duration, in nanoseconds.
    pub(crate) fn max(&self) -> u64 {
        self.max
    }

    /// Groups the durations into ten bins per power of ten, from the first bin that is not empty to the last.
    /// The upper end of a bin is in nanoseconds. Each duration is rounded as [`quantile`](Self::quantile)
    /// rounds it.
    pub(crate) fn bins(&self) -> Vec<Bin> {
        let number = |nanos: u64| ((nanos.max(FIRST_BIN) as f64).log10() * BINS_A_DECADE).ceil() as i32;
        let mut bins: Vec<Bin> = Vec::new();
        let mut first = None;
        let filled = self.buckets.iter().enumerate().filter(|(_, calls)| **calls > 0);
        for (place, calls) in filled {
            let bin = number(middle(place).min(self.max));
            let from = *first.get_or_insert(bin);
            while bins.len() as i32 <= bin - from {
                let up_to = 10f64.powf(f64::from(from + bins.len() as i32) / BINS_A_DECADE);
                bins.push(Bin { up_to, count: 0 });
            }
            bins[(bin - from) as usize].count += calls;
        }
        bins
    }

    /// The shortest duration that is at least as long as the given share of all durations; 0 for an empty
    /// histogram. It is off by up to 0.8 %, as the module explains.
    pub(crate) fn quantile(&self, share: f64) -> u64 {
        let rank = ((share * self.count as f64).ceil() as u64).max(1);
        let mut seen = 0;
        for (place, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return middle(place).min(self.max);
            }
        }
        self.max
    }
}

/// The index of the bucket that counts a duration.
fn place(nanos: u64) -> usize {
    let nanos = nanos.min((1 << DIGITS) - 1);
    let doublings = (u64::BITS - nanos.leading_zeros()).saturating_sub(BITS + 1);
    // The digits that are kept begin with a 1, unless the duration is so short that all its digits are kept.
    let digits = nanos >> doublings;
    (u64::from(doublings) * STEPS + digits) as usize
}

/// The duration in the middle of a bucket, in nanoseconds.
fn middle(place: usize) -> u64 {
    let place = place as u64;
    let doublings = (place / STEPS).saturating_sub(1);
    let digits = place - doublings * STEPS;
    (digits << doublings) + ((1 << doublings) >> 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_duration_is_read_back_within_the_error() {
        let mut last = 0;
        for nanos in (0..200_000).chain((18..DIGITS).flat_map(|digits| {
            let power = 1u64 << digits;
            [power - 1, power, power + power / 3, power + power / 2 + 1]
        })) {
            let place = place(nanos);
            assert!(place < BUCKETS && place >= last, "{nanos}");
            last = place;
            let error = middle(place).abs_diff(nanos) as f64;
            assert!(error <= nanos as f64 / f64::from(1 << (BITS + 1)), "{nanos}: {}", middle(place));
        }
    }

    #[test]
    fn quantiles_are_those_of_the_sorted_durations() {
        let mut histogram = Histogram::default();
        assert_eq!((histogram.quantile(0.5), histogram.max()), (0, 0));
        (1..=10_000).for_each(|step: u64| histogram.record(step * 1_000));
        for (share, expected) in [(0.5, 5e6), (0.95, 9.5e6), (0.99, 9.9e6), (0.999, 9.99e6), (1.0, 1e7)] {
            let found = histogram.quantile(share) as f64;
            assert!((found - expected).abs() <= expected / 128.0, "{share}: {found}");
        }
        assert_eq!(
            (histogram.count(), histogram.sum(), histogram.max()),
            (10_000, 50_005_000_000, 10_000_000)
        );
    }

    #[test]
    fn every_duration_is_in_one_bin_of_its_length() {
        let mut histogram = Histogram::default();
        assert!(histogram.bins().is_empty());
        let nanos = [0, 2_500, 2_500, 40_000, 1_000_000];
        nanos.into_iter().for_each(|nanos| histogram.record(nanos));
        let bins = histogram.bins();
        assert_eq!(bins.iter().map(|bin| bin.count).sum::<u64>(), 5);
        assert!(bins.windows(2).all(|pair| (pair[1].up_to / pair[0].up_to - 10f64.powf(0.1)).abs() < 1e-6));
        let two = bins.iter().find(|bin| bin.count == 2).unwrap();
        assert!((2_500.0..2_500.0 * 1.27).contains(&two.up_to), "{two:?}");
        assert!((bins[0].up_to - 1_000.0).abs() < 1e-6 && bins[0].count == 1, "{bins:?}");
        assert_eq!(bins.last().map(|bin| bin.count), Some(1));
    }

    #[test]
    fn what_is_too_long_to_be_told_apart_keeps_the_maximum() {
        let mut histogram = Histogram::default();
        histogram.record(u64::MAX / 2);
        assert_eq!(histogram.max(), u64::MAX / 2);
        assert!(histogram.quantile(0.5) > 1 << (DIGITS - 1));
    }
}
