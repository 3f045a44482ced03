//! The axes of a plot: they map values to positions, and choose the round numbers to write beside the axis.

/// The approximate number of labels along an axis.
const TICKS: f64 = 5.0;
/// The most powers of ten that are labelled along an axis.
const MAX_LABELLED_POWERS: usize = 6;

/// One axis of a plot.
pub(crate) struct Axis {
    from: f64,
    to: f64,
    scale: Scale,
    /// The values that are labelled along the axis, each with the text of its label.
    pub(crate) ticks: Vec<(f64, String)>,
    /// The quantity and its unit.
    pub(crate) title: String,
}

#[derive(Clone, Copy, PartialEq)]
enum Scale {
    Linear,
    Log,
}

impl Axis {
    /// An axis from 0 to a round number of at least `most`.
    pub(crate) fn linear(most: f64, title: impl Into<String>, say: impl Fn(f64) -> String) -> Self {
        let step = round_step(most.max(f64::MIN_POSITIVE) / TICKS);
        let count = (most / step).ceil().max(1.0) as u32;
        let at = |tick: u32| f64::from(tick) * step;
        Axis {
            from: 0.0,
            to: at(count),
            scale: Scale::Linear,
            ticks: (0..=count).map(|tick| (at(tick), say(at(tick)))).collect(),
            title: title.into(),
        }
    }

    /// An axis from 0 to exactly `to`, for values that cannot be larger.
    pub(crate) fn up_to(to: f64, title: impl Into<String>, say: impl Fn(f64) -> String) -> Self {
        let mut axis = Axis { to, ..Axis::linear(to, title, say) };
        axis.ticks.retain(|(at, _)| *at <= to * (1.0 + f64::EPSILON));
        axis
    }

    /// An axis of powers of ten, from the one below `least` to the one above `most`.
    pub(crate) fn log(least: f64, most: f64, title: impl Into<String>, say: impl Fn(f64) -> String) -> Self {
        let from = least.log10().floor() as i32;
        let to = (most.log10().ceil() as i32).max(from + 1);
        let power = |exponent: i32| 10f64.powi(exponent);
        let every = ((to - from + 1) as usize).div_ceil(MAX_LABELLED_POWERS);
        Axis {
            from: power(from),
            to: power(to),
            scale: Scale::Log,
            ticks: (from..=to)
                .step_by(every)
                .map(|exponent| (power(exponent), say(power(exponent))))
                .collect(),
            title: title.into(),
        }
    }

    /// The position of `value`: 0 at the beginning of the axis, 1 at its end.
    pub(crate) fn place(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear => (value - self.from) / (self.to - self.from),
            Scale::Log => (value.max(self.from) / self.from).log10() / (self.to / self.from).log10(),
        };
        share.clamp(0.0, 1.0)
    }
}

/// Rounds `least` up to 1, 2 or 5 times a power of ten.
fn round_step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    let digit = least / power;
    power * [1.0, 2.0, 5.0].into_iter().find(|round| digit <= *round + 1e-9).unwrap_or(10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|(_, text)| text.as_str()).collect()
    }

    #[test]
    fn numbers_beside_an_axis_are_round_and_reach_beyond_the_data() {
        let plain = |value: f64| format!("{value}");
        assert_eq!(said(&Axis::linear(4_321.0, "", plain)), ["0", "1000", "2000", "3000", "4000", "5000"]);
        assert_eq!(
            said(&Axis::linear(1.0, "", |v| format!("{v:.1}"))),
            ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]
        );
        assert_eq!(said(&Axis::linear(0.0, "", plain)).len(), 2);
        assert_eq!(said(&Axis::up_to(23.0, "", plain)), ["0", "5", "10", "15", "20"]);
        assert_eq!(said(&Axis::log(0.002, 34.0, "", plain)), ["0.001", "0.01", "0.1", "1", "10", "100"]);
    }

    #[test]
    fn values_lie_where_they_belong_and_never_outside() {
        let axis = Axis::linear(10.0, "", |_| String::new());
        assert_eq!([0.0, 5.0, 10.0, 99.0].map(|value| axis.place(value)), [0.0, 0.5, 1.0, 1.0]);
        let log = Axis::log(0.01, 100.0, "", |_| String::new());
        assert!((log.place(1.0) - 0.5).abs() < 1e-9);
        assert_eq!((log.place(0.0), log.place(1e9)), (0.0, 1.0));
    }
}
