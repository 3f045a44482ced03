//! Samples by weight: decides how often each row is drawn in an epoch.
//!
//! One column decides: it holds the weight or the class of each row. It is read once, and the rest is
//! arithmetic on its values:
//!
//! ```text
//! values ─► classes, whole weights ─► draws of each class ─► draws of each row group ─► rows of a part
//!           values, population         strata, each epoch      draws, each epoch          rows, when it is decoded
//! ```
//!
//! An epoch draws by systematic sampling (Madow, "On the theory of systematic sampling, II", 1949) over rows
//! in random order (Goodman and Kish, "Controlled selection", 1950), which is known from particle filters as
//! low-variance resampling. The rows of a class are laid end to end on a line, each as long as its weight.
//! Points at equal distances, beginning at a random offset, are put on this line, and a row is drawn as often
//! as points fall on it. So it is drawn as often as its weight says: rounded down or up in each epoch, and
//! exactly on average. The same holds for a class as a whole, and for its rows in one row group. The number
//! of draws of a row group follows from sums of weights, without looking at its rows.

mod draws;
mod population;
mod rows;
mod strata;
mod values;

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use forebay_base::{Error, Result};
pub(crate) use population::Population;
pub use values::Class;
pub(crate) use values::ColumnValues;

/// The highest number of rows that a user may set for an epoch. A higher one is likely a mistake.
const MAX_ROWS: u64 = 1 << 40;

/// Samples of one row each, drawn by weight anew in each epoch: some rows come several times, some not at
/// all. Batches, lengths, plans and positions count rows as they are drawn.
///
/// Each row is drawn as often as its weight says: exactly on average, and rounded down or up in each epoch.
/// This also holds for the rows of a class together. All ranks have the same number of batches. The rows of
/// an epoch depend only on the data, the seed and the number of the epoch. A row that is drawn several times
/// gets a different random crop each time.
///
/// ```
/// use forebay::samples::Sample;
///
/// # fn build(dataset: forebay::Dataset) -> forebay::Result<forebay::Loader> {
/// // Every class equally often; an epoch is as long as the data set.
/// dataset.loader().samples(Sample::balanced("label")).build()
/// # }
/// # let _ = build;
/// // Each row of "cat" comes three times as often as one of "dog"; 10,000 rows an epoch.
/// let sample = Sample::classes("animal", [("cat", 3.0), ("dog", 1.0)]).rows(10_000);
/// // No row comes twice: every class has as many rows as the rarest one.
/// let even = Sample::balanced("label").replacement(false);
/// // A column that holds the weight of each row.
/// let weighted = Sample::weights("importance");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sample {
    column: String,
    weights: Weights,
    #[serde(default = "with_replacement")]
    replacement: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rows: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
}

/// The meaning of the values in the column that decides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
enum Weights {
    /// Each value is the weight of its row.
    Values,
    /// Each value is the class of its row, and all classes come equally often.
    Balanced,
    /// Each value is the class of its row, and the weight of a row is that of its class.
    Classes {
        weights: Vec<(Class, f64)>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        others: Option<f64>,
    },
}

fn with_replacement() -> bool {
    true
}

impl Sample {
    fn weighted(column: impl Into<String>, weights: Weights) -> Self {
        Sample { column: column.into(), weights, replacement: true, rows: None, seed: None }
    }

    /// Draws each row by its weight in a column of numbers. A weight is 0 or more.
    pub fn weights(column: impl Into<String>) -> Self {
        Sample::weighted(column, Weights::Values)
    }

    /// Draws each row by the weight of its class, which is its value in a column of whole numbers, booleans
    /// or texts. A class that has no weight here is an error, unless [`others`](Self::others) gives one.
    pub fn classes<C: Into<Class>>(
        column: impl Into<String>,
        weights: impl IntoIterator<Item = (C, f64)>,
    ) -> Self {
        let weights = weights.into_iter().map(|(class, weight)| (class.into(), weight)).collect();
        Sample::weighted(column, Weights::Classes { weights, others: None })
    }

    /// Draws the same number of rows of each class, to within one row. A class is a value of a column of
    /// whole numbers, booleans or texts.
    pub fn balanced(column: impl Into<String>) -> Self {
        Sample::weighted(column, Weights::Balanced)
    }

    /// The weight of classes that [`classes`](Self::classes) does not list. Default: there is none, and such
    /// classes are an error.
    #[must_use]
    pub fn others(mut self, weight: f64) -> Self {
        if let Weights::Classes { others, .. } = &mut self.weights {
            *others = Some(weight);
        }
        self
    }

    /// Whether a row may come several times in an epoch. If it may not, a row whose weight asks for more than
    /// one draw comes once, and the other rows share the rest by their weights. Default: true.
    #[must_use]
    pub fn replacement(self, replacement: bool) -> Self {
        Sample { replacement, ..self }
    }

    /// The number of rows in an epoch. Default with replacement: the number of rows with a weight over 0.
    /// Default without replacement: the sum of the weights of all rows divided by the largest weight, because
    /// with more rows the heaviest row could not be drawn as often as its weight says; for balanced classes,
    /// as many rows of each class as the rarest class has.
    #[must_use]
    pub fn rows(self, rows: u64) -> Self {
        Sample { rows: Some(rows), ..self }
    }

    /// The seed of the draws. Default: the seed of the shuffle, or 0 for the stored order.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        Sample { seed: Some(seed), ..self }
    }

    /// The column that holds weights or classes.
    pub(crate) fn column(&self) -> &str {
        &self.column
    }

    /// Whether the column holds classes rather than weights.
    pub(crate) fn has_classes(&self) -> bool {
        self.weights != Weights::Values
    }

    /// The name under which the values of the column are kept on disk. All samples by classes can use the
    /// same kept values, and so can all samples by weights.
    pub(crate) fn kept_as(&self) -> &'static str {
        if self.has_classes() { "classes" } else { "weights" }
    }

    /// Returns the seed of the draws: the user's, or else `shuffle`, the seed of the shuffle.
    pub(crate) fn seed_beside(&self, shuffle: u64) -> u64 {
        self.seed.unwrap_or(shuffle)
    }

    /// Returns an error for options that can never work, whatever the data.
    pub(crate) fn check(&self) -> Result<()> {
        if self.rows.is_some_and(|rows| rows == 0 || rows > MAX_ROWS) {
            return Err(Error::invalid(format!("a sample of {} rows", self.rows.unwrap_or(0)))
                .hint(format!("an epoch has 1 row to {MAX_ROWS}; leave `rows` out for the default")));
        }
        let Weights::Classes { weights, others } = &self.weights else { return Ok(()) };
        if weights.is_empty() && others.is_none() {
            return Err(Error::invalid("a sample by classes needs a class with a weight")
                .hint("list classes and their weights, or ask for balanced ones"));
        }
        let mut classes: Vec<&Class> = weights.iter().map(|(class, _)| class).collect();
        classes.sort();
        if let Some(twice) = classes.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Error::invalid(format!("class {} has two weights", twice[0])).hint("give it one"));
        }
        let given = weights.iter().map(|(class, weight)| (format!("class {class}"), *weight));
        let given: Vec<_> = given.chain(others.map(|weight| ("other classes".to_owned(), weight))).collect();
        if let Some((who, weight)) = given.iter().find(|(_, weight)| !(weight.is_finite() && *weight >= 0.0))
        {
            return Err(Error::invalid(format!("the weight of {who} is {weight}")).hint("0 or more"));
        }
        if given.iter().all(|(_, weight)| *weight == 0.0) {
            return Err(Error::invalid("all classes have weight 0").hint("give one class a weight above 0"));
        }
        Ok(())
    }
}
