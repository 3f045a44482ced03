//! Summaries of measurements.

use std::fmt;

/// The median of some measurements, and their spread.
pub(crate) struct Summary {
    median: f64,
    lowest: f64,
    highest: f64,
}

impl Summary {
    pub(crate) fn new(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        Summary { median: sorted[sorted.len() / 2], lowest: sorted[0], highest: sorted[sorted.len() - 1] }
    }

    /// Divides two series round by round, and summarises the ratios. A slow phase of the machine slows both
    /// results of a round.
    pub(crate) fn of_ratios(over: &[f64], under: &[f64]) -> Self {
        Summary::new(&over.iter().zip(under).map(|(over, under)| over / under).collect::<Vec<_>>())
    }
}

impl fmt::Display for Summary {
    /// Takes the width of the median and the precision of all numbers from the format.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (width, precision) = (f.width().unwrap_or(0), f.precision().unwrap_or(1));
        let Summary { median, lowest, highest } = self;
        write!(f, "{median:width$.precision$} ({lowest:.precision$} to {highest:.precision$})")
    }
}
