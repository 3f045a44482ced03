//! The options that say what a sample is, and which rows an epoch has.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use forebay::samples::{Bucket, Frames, Sample, Samples, Window};

use super::units;

/// The options for samples. Without them, each row is a sample and comes once in an epoch.
#[derive(clap::Args, Clone, Default)]
#[command(group = clap::ArgGroup::new("drawn").args(["balance", "weights"]))]
pub(crate) struct SampleOptions {
    /// Draw rows so that an epoch has as many rows of each class; a class is a value of this column
    #[arg(long, value_name = "COLUMN", conflicts_with_all = ["window", "bucket"])]
    balance: Option<String>,
    /// Draw rows by the weight that this column of numbers holds
    #[arg(long, value_name = "COLUMN", conflicts_with_all = ["window", "bucket"])]
    weights: Option<String>,
    /// Rows that are drawn in an epoch with --balance or --weights [default: as many as have a weight]
    #[arg(long, value_name = "ROWS", requires = "drawn", value_parser = units::whole::<u64, 1>)]
    draws: Option<u64>,
    /// Draw no row twice in an epoch, with --balance or --weights
    #[arg(long, requires = "drawn")]
    without_replacement: bool,
    /// A sample is a window of this many consecutive rows
    #[arg(long, value_name = "ROWS", value_parser = units::whole::<u32, 1>, conflicts_with = "bucket")]
    window: Option<u32>,
    /// Whether the images of a window draw one crop and flip, or each its own [default: together]
    #[arg(long, value_name = "HOW", requires = "window", value_parser = frames())]
    frames: Option<Frames>,
    /// A sample is a bucket of rows of similar length in this column, padded to at most this many values,
    /// such as tokens=4096
    #[arg(long, value_name = "COLUMN=VALUES", value_parser = parse_bucket)]
    bucket: Option<(String, u64)>,
}

impl SampleOptions {
    /// Converts these options to the form in which the loader takes them.
    pub(super) fn samples(&self) -> Samples {
        let drawn =
            self.balance.as_ref().map(Sample::balanced).or(self.weights.as_ref().map(Sample::weights));
        if let Some(sample) = drawn {
            let sample = sample.replacement(!self.without_replacement);
            return self.draws.map_or(sample.clone(), |rows| sample.rows(rows)).into();
        }
        let bucket =
            self.bucket.as_ref().map(|(column, values)| Bucket::tokens(column.as_str(), *values).into());
        let window = |rows| Window::rows(rows).frames(self.frames.unwrap_or_default()).into();
        bucket.or(self.window.map(window)).unwrap_or_default()
    }
}

fn frames() -> impl TypedValueParser<Value = Frames> {
    PossibleValuesParser::new(Frames::NAMES).map(|name| match name.as_str() {
        "alone" => Frames::Alone,
        _ => Frames::Together,
    })
}

fn parse_bucket(text: &str) -> Result<(String, u64), String> {
    let parsed = text.rsplit_once('=').and_then(|(column, values)| {
        let values = values.parse().ok().filter(|values| *values > 0)?;
        (!column.is_empty()).then(|| (column.to_owned(), values))
    });
    parsed.ok_or_else(|| format!("{text:?} is not COLUMN=VALUES, such as tokens=4096"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        samples: SampleOptions,
    }

    #[test]
    fn frames_of_windows_draw_as_they_are_told() {
        let of =
            |words: &str| Program::try_parse_from(words.split(' ')).map(|program| program.samples.samples());
        let window = Window::rows(4);
        assert_eq!(of("program --window 4").unwrap(), window.clone().into());
        assert_eq!(of("program --window 4 --frames together").unwrap(), window.clone().into());
        assert_eq!(of("program --window 4 --frames alone").unwrap(), window.frames(Frames::Alone).into());
        assert!(of("program --frames alone").is_err());
        assert!(of("program --window 4 --frames both").is_err());
    }
}
