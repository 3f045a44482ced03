//! The cost of a row: the length or the number of a column, or arithmetic on several columns.

use std::fmt;

use forebay_base::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use super::lengths::NO_LENGTH;
use crate::operand::{Arithmetic, Number, Operand, Value, apply, literal};

/// The greatest depth to which operations may be nested.
const MAX_DEPTH: usize = 64;

/// The cost of a row, such as its tokens: a column, or arithmetic on columns. A column stands for its number
/// in the row, or for the length of its list or text.
///
/// ```
/// use forebay::filter::col;
/// use forebay::samples::{Bucket, RowCost};
///
/// let attention = RowCost::from(col("tokens") * col("tokens"));
/// let bucket = Bucket::tokens(col("prompt") + col("answer"), 16_384);
/// assert_eq!(RowCost::from("tokens"), RowCost::from(col("tokens")));
/// # let _ = (attention, bucket);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "RowCostForm", into = "RowCostForm")]
pub struct RowCost(Operand);

/// The serialized form: a name for a column alone.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum RowCostForm {
    Column(String),
    Computed(Operand),
}

impl RowCost {
    /// The column, if the cost is that of a column alone.
    pub(crate) fn column(&self) -> Option<&str> {
        match &self.0 {
            Operand::Column(name) => Some(name),
            _ => None,
        }
    }

    /// The columns, each once, in the order in which they are first named.
    pub(crate) fn columns(&self) -> Vec<&str> {
        let (mut named, mut columns) = (Vec::new(), Vec::new());
        self.0.columns(&mut named);
        for name in named {
            if !columns.contains(&name) {
                columns.push(name);
            }
        }
        columns
    }

    /// Returns an error for a cost that cannot be computed, whatever the data.
    pub(crate) fn check(&self) -> Result<()> {
        check(&self.0, 0)?;
        if self.columns().is_empty() {
            return Err(Error::invalid(format!("the cost {self} is the same for all rows"))
                .hint("name a column, or compute the cost from columns"));
        }
        Ok(())
    }

    /// The cost with other names of its columns.
    pub(crate) fn renamed(&self, name: &dyn Fn(&str) -> String) -> RowCost {
        RowCost(renamed(&self.0, name))
    }

    /// Whether a row never costs less if one of its columns is longer.
    pub(crate) fn grows(&self) -> bool {
        grows(&self.0)
    }

    /// The cost of each row. For each of the [`columns`](Self::columns), `lengths` has the lengths or numbers
    /// of the rows. A null counts as 0.
    ///
    /// # Errors
    /// Fails as [`of_row`](Self::of_row) does. The error comes with the index of the row.
    pub(crate) fn of_rows(&self, lengths: &[&[u32]]) -> Result<Vec<f64>, (usize, Error)> {
        let columns = self.columns();
        let mut of_row = vec![0; lengths.len()];
        let cost = |row: usize| {
            of_row.iter_mut().zip(lengths).for_each(|(length, column)| *length = column[row]);
            self.of_row(&columns, &of_row).map_err(|error| (row, error))
        };
        (0..lengths.first().map_or(0, |column| column.len())).map(cost).collect()
    }

    /// The cost of a row, whose columns have these lengths or numbers, in the order of
    /// [`columns`](Self::columns).
    ///
    /// # Errors
    /// Fails if the cost is negative, infinite or not a number.
    pub(crate) fn of_row(&self, columns: &[&str], lengths: &[u32]) -> Result<f64> {
        let cost = match number(&self.0, columns, lengths)? {
            Number::Null => f64::NAN,
            Number::Whole(cost) => cost as f64,
            Number::Float(cost) => cost,
        };
        if cost.is_finite() && cost >= 0.0 {
            return Ok(cost);
        }
        let error = Error::new(ErrorKind::Invalid, format!("the cost {self} is {cost}"));
        Err(error.hint("costs are numbers from 0 on; leave such rows out with `filter` or `deny`"))
    }
}

/// A column is shown by its name, and arithmetic with its columns in quotation marks.
impl fmt::Display for RowCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Operand::Column(name) => f.write_str(name),
            other => show(other, f),
        }
    }
}

impl From<RowCostForm> for RowCost {
    fn from(form: RowCostForm) -> Self {
        match form {
            RowCostForm::Column(name) => RowCost(Operand::Column(name)),
            RowCostForm::Computed(operand) => RowCost(operand),
        }
    }
}

impl From<RowCost> for RowCostForm {
    fn from(cost: RowCost) -> Self {
        match cost.0 {
            Operand::Column(name) => RowCostForm::Column(name),
            other => RowCostForm::Computed(other),
        }
    }
}

impl From<Operand> for RowCost {
    fn from(operand: Operand) -> Self {
        RowCost(operand)
    }
}

impl From<&str> for RowCost {
    fn from(column: &str) -> Self {
        RowCost(Operand::Column(column.to_owned()))
    }
}

impl From<String> for RowCost {
    fn from(column: String) -> Self {
        RowCost(Operand::Column(column))
    }
}

fn check(operand: &Operand, depth: usize) -> Result<()> {
    if depth > MAX_DEPTH {
        let cause = format!("a cost has more than {MAX_DEPTH} operations inside one another");
        return Err(Error::invalid(cause));
    }
    match operand {
        Operand::Column(_) => Ok(()),
        Operand::Literal(Value::Float(value)) if !value.is_finite() => {
            Err(Error::invalid(format!("a cost cannot be computed from {value}")))
        }
        Operand::Literal(value) => match literal(value) {
            Number::Null => {
                let shown = serde_json::to_string(value).unwrap_or_default();
                Err(Error::invalid(format!("a cost cannot be computed from {shown}, which is not a number")))
            }
            Number::Whole(_) | Number::Float(_) => Ok(()),
        },
        Operand::Arithmetic(parts) => {
            check(&parts.0, depth + 1)?;
            check(&parts.2, depth + 1)
        }
    }
}

fn renamed(operand: &Operand, name: &dyn Fn(&str) -> String) -> Operand {
    match operand {
        Operand::Column(column) => Operand::Column(name(column)),
        Operand::Literal(value) => Operand::Literal(value.clone()),
        Operand::Arithmetic(parts) => {
            Operand::Arithmetic(Box::new((renamed(&parts.0, name), parts.1, renamed(&parts.2, name))))
        }
    }
}

/// Whether an operand is never negative, and never less if a column is longer.
fn grows(operand: &Operand) -> bool {
    let is_at_least = |value: &Value, least: f64| match literal(value) {
        Number::Whole(value) => value as f64 >= least,
        Number::Float(value) => value >= least,
        Number::Null => false,
    };
    match operand {
        Operand::Column(_) => true,
        Operand::Literal(value) => is_at_least(value, 0.0),
        Operand::Arithmetic(parts) => match (parts.1, &parts.2) {
            (Arithmetic::Add | Arithmetic::Multiply, other) => grows(&parts.0) && grows(other),
            (Arithmetic::Divide | Arithmetic::FloorDivide, Operand::Literal(value)) => {
                grows(&parts.0) && is_at_least(value, f64::MIN_POSITIVE)
            }
            _ => false,
        },
    }
}

fn number(operand: &Operand, columns: &[&str], lengths: &[u32]) -> Result<Number> {
    match operand {
        Operand::Column(name) => {
            let at = columns.iter().position(|column| column == name);
            Ok(match at.map_or(NO_LENGTH, |at| lengths[at]) {
                NO_LENGTH => Number::Whole(0),
                length => Number::Whole(length.into()),
            })
        }
        Operand::Literal(value) => Ok(literal(value)),
        Operand::Arithmetic(parts) => {
            let (left, right) = (number(&parts.0, columns, lengths)?, number(&parts.2, columns, lengths)?);
            apply(left, parts.1, right)
        }
    }
}

fn show(operand: &Operand, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match operand {
        Operand::Column(name) => write!(f, "{name:?}"),
        Operand::Literal(value) => f.write_str(&serde_json::to_string(value).unwrap_or_default()),
        Operand::Arithmetic(parts) => {
            let side = |side: &Operand, f: &mut fmt::Formatter<'_>| match side {
                Operand::Arithmetic(_) => {
                    f.write_str("(")?;
                    show(side, f)?;
                    f.write_str(")")
                }
                _ => show(side, f),
            };
            side(&parts.0, f)?;
            write!(f, " {} ", parts.1.name())?;
            side(&parts.2, f)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operand::col;

    #[test]
    fn a_cost_is_computed_from_lengths() {
        let cost = RowCost::from(col("a") * 2 + col("b") * col("a"));
        assert_eq!(cost.columns(), ["a", "b"]);
        assert_eq!(cost.of_row(&["a", "b"], &[3, 5]).unwrap(), 21.0);
        assert_eq!(cost.of_row(&["a", "b"], &[3, NO_LENGTH]).unwrap(), 6.0, "a null counts as 0");
        assert_eq!(cost.to_string(), r#"("a" * 2) + ("b" * "a")"#);
        let half = RowCost::from(col("a") / 2);
        assert_eq!(half.of_row(&["a"], &[3]).unwrap(), 1.5);
        for bad in [
            RowCost::from(col("a") - col("b")),
            RowCost::from(col("b") / (col("a") - 3)),
            RowCost::from(col("b") % (col("a") - 3)),
        ] {
            let error = bad.of_row(&["a", "b"], &[3, 5]).unwrap_err().to_string();
            assert!(error.contains("costs are numbers from 0 on"), "{error}");
        }
    }

    #[test]
    fn a_cost_has_one_form_in_json() {
        for (json, cost) in [
            (r#""a""#, RowCost::from("a")),
            (r#"{"arithmetic":[{"column":"a"},"*",{"literal":2}]}"#, RowCost::from(col("a") * 2)),
        ] {
            assert_eq!(serde_json::to_string(&cost).unwrap(), json);
            assert_eq!(serde_json::from_str::<RowCost>(json).unwrap(), cost);
        }
        assert_eq!(serde_json::from_str::<RowCost>(r#"{"column":"a"}"#).unwrap(), RowCost::from("a"));
    }

    #[test]
    fn costs_that_can_never_be_computed_are_refused() {
        let text = || Operand::Literal("x".into());
        let deep = (0..70).fold(col("a"), |deep, _| deep + 1);
        for (cost, cause) in [
            (RowCost::from(col("a") + text()), "is not a number"),
            (RowCost::from(Operand::Literal(1.into()) + 2), "the same for all rows"),
            (RowCost::from(col("a") * f64::INFINITY), "inf"),
            (RowCost::from(deep), "operations inside one another"),
        ] {
            let error = cost.check().unwrap_err().to_string();
            assert!(error.contains(cause), "{cause}: {error}");
        }
        RowCost::from(col("a") * 2.5).check().unwrap();
    }

    #[test]
    fn a_cost_without_differences_grows() {
        for (cost, expected) in [
            (RowCost::from("a"), true),
            (RowCost::from(col("a") * col("a") + col("b") * 3), true),
            (RowCost::from(col("a") / 2), true),
            (RowCost::from(col("a") - col("b")), false),
            (RowCost::from(col("a") * -1), false),
            (RowCost::from(col("a") / col("b")), false),
            (RowCost::from(col("a") % 3), false),
        ] {
            assert_eq!(cost.grows(), expected, "{cost}");
        }
    }
}
