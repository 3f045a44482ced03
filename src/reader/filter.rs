//! Filters over columns, in the DNF lists that pyarrow, Petastorm and Hugging Face use.
//!
//! A filter is used twice: on a row group's statistics, to leave out row groups that cannot match, and on rows. The two
//! must agree, so statistics decide only where no value, null or NaN could contradict them.

mod evaluate;
mod op;
mod prune;

use parquet::arrow::arrow_reader::RowSelection;
use parquet::file::metadata::ParquetMetaData;
use serde::{Deserialize, Serialize};

use crate::arrow::array::RecordBatch;
use crate::arrow::buffer::BooleanBuffer;
use crate::arrow::datatypes::DataType;
use crate::catalog::Catalog;
use crate::error::{Error, ErrorKind, Place, Result};

pub use op::Op;

/// Rows for which all terms of at least one of several lists hold.
///
/// A comparison with null never holds, not even `!=` and `not in`; one with NaN holds for `!=` and `not in` alone.
/// pyarrow does the same, except that `not in` holds for null there. Narrow floats are compared as 64-bit ones: no
/// stored 32-bit float equals 0.1.
///
/// ```
/// use forebay::Filter;
/// use forebay::filter::{Op, Term};
///
/// let large = Filter::all_of([Term::new("width", Op::GreaterEq, 224), Term::new("height", Op::GreaterEq, 224)]);
/// let either = Filter::any_of([vec![Term::new("split", Op::Eq, "train")], vec![Term::new("score", Op::Greater, 0.9)]]);
/// assert_eq!(large.columns(), ["width", "height"]);
/// assert_eq!(either.columns(), ["split", "score"]);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Filter {
    any_of: Vec<Vec<Term>>,
}

/// A comparison of a column with a value.
///
/// ```
/// use forebay::filter::{Op, Term};
///
/// let term = Term::new("split", Op::In, vec!["train", "extra"]);
/// assert_eq!((term.column.as_str(), term.op), ("split", Op::In));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Term {
    /// Name of the column.
    pub column: String,
    /// How to compare.
    pub op: Op,
    /// The value to compare with: a list for `in` and `not in`, one value for all others.
    pub value: Value,
}

impl Term {
    /// A comparison; [`Filter::validate`] checks it against a data set.
    pub fn new(column: impl Into<String>, op: Op, value: impl Into<Value>) -> Self {
        Term { column: column.into(), op, value: value.into() }
    }
}

/// A value to compare with.
///
/// ```
/// use forebay::filter::Value;
///
/// assert_eq!(Value::from(7), Value::Int(7));
/// assert_eq!(Value::from(vec!["a", "b"]), Value::List(vec!["a".into(), "b".into()]));
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// Compares with booleans.
    Bool(bool),
    /// Compares with integers and floats.
    Int(i64),
    /// Compares with floats and, exactly, with integers. Never NaN or infinite.
    Float(f64),
    /// Compares with strings and binary, byte by byte.
    Text(String),
    /// For `in` and `not in`.
    List(Vec<Value>),
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Value::Bool(value)
    }
}

impl From<i32> for Value {
    fn from(value: i32) -> Self {
        Value::Int(value.into())
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Value::Int(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Value::Float(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Value::Text(value.to_owned())
    }
}

impl<T: Into<Value>> From<Vec<T>> for Value {
    fn from(values: Vec<T>) -> Self {
        Value::List(values.into_iter().map(Into::into).collect())
    }
}

/// The rows of a row group that match, as far as its statistics show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowGroupMatch {
    /// No row matches.
    None,
    /// Every row matches.
    All,
    /// Some may: the rows must be checked.
    Some,
}

impl Filter {
    /// Rows for which all of the terms hold.
    pub fn all_of(terms: impl IntoIterator<Item = Term>) -> Self {
        Filter::any_of([terms.into_iter().collect()])
    }

    /// Rows for which all terms of at least one list hold.
    pub fn any_of(lists: impl IntoIterator<Item = Vec<Term>>) -> Self {
        Filter { any_of: lists.into_iter().collect() }
    }

    /// The columns that it compares, each once, in the order in which they are first named.
    pub fn columns(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for term in self.terms() {
            if !names.contains(&term.column) {
                names.push(term.column.clone());
            }
        }
        names
    }

    /// A string that is the same for the same filter: part of what identifies an order.
    #[doc(hidden)]
    pub fn canonical(&self) -> String {
        // Values are finite and keys are strings, so this cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Whether the filter makes sense for a data set: `UnknownColumn`, or `Invalid` for an empty list of terms, a value that
    /// does not fit the column's type or the operator, NaN and infinity.
    #[doc(hidden)]
    pub fn validate(&self, catalog: &Catalog) -> Result<()> {
        if self.any_of.is_empty() || self.any_of.iter().any(Vec::is_empty) {
            return Err(
                Error::invalid("the filter has an empty list").hint("leave out `filter` to take all rows")
            );
        }
        for term in self.terms() {
            let column = catalog.column(&term.column)?;
            check(term, catalog.schema.field(column).data_type())
                .map_err(|error| error.at(Place::default().column(term.column.as_str())))?;
        }
        Ok(())
    }

    /// Which rows of a row group, an index into [`Catalog::groups`], match as far as its file's constants and `footer` say:
    /// the whole footer, with statistics. The filter must be valid for the catalogue.
    #[doc(hidden)]
    pub fn prune(&self, catalog: &Catalog, group: usize, footer: Option<&ParquetMetaData>) -> RowGroupMatch {
        let Some(group) = catalog.groups.get(group) else {
            return RowGroupMatch::Some;
        };
        let lists = self.any_of.iter().map(|terms| {
            let matches = terms.iter().map(|term| prune::term(catalog, group, footer, term));
            matches.fold(RowGroupMatch::All, |all, one| match (all, one) {
                (RowGroupMatch::None, _) | (_, RowGroupMatch::None) => RowGroupMatch::None,
                (RowGroupMatch::All, RowGroupMatch::All) => RowGroupMatch::All,
                _ => RowGroupMatch::Some,
            })
        });
        lists.fold(RowGroupMatch::None, |any, one| match (any, one) {
            (RowGroupMatch::All, _) | (_, RowGroupMatch::All) => RowGroupMatch::All,
            (RowGroupMatch::None, RowGroupMatch::None) => RowGroupMatch::None,
            _ => RowGroupMatch::Some,
        })
    }

    /// For each row of a batch, which must have the filter's columns, whether it matches.
    #[doc(hidden)]
    pub fn evaluate(&self, batch: &RecordBatch) -> Result<BooleanBuffer> {
        let mut any = BooleanBuffer::new_unset(batch.num_rows());
        for terms in &self.any_of {
            let mut all = BooleanBuffer::new_set(batch.num_rows());
            for term in terms {
                let array = batch.column_by_name(&term.column).ok_or_else(|| {
                    Error::new(ErrorKind::Internal, format!("column {:?} was not read", term.column))
                })?;
                all = &all & &evaluate::term(array, term)?;
            }
            any = &any | &all;
        }
        Ok(any)
    }

    /// The rows of a batch that match, for [`read_part`](super::rows::read_part), and how many they are.
    #[doc(hidden)]
    pub fn select(&self, batch: &RecordBatch) -> Result<(RowSelection, u64)> {
        let matching = self.evaluate(batch)?;
        let rows = matching.set_slices().map(|(from, to)| from..to);
        let selection = RowSelection::from_consecutive_ranges(rows, batch.num_rows());
        Ok((selection, matching.count_set_bits() as u64))
    }

    fn terms(&self) -> impl Iterator<Item = &Term> {
        self.any_of.iter().flatten()
    }
}

fn check(term: &Term, data_type: &DataType) -> Result<()> {
    // Before the values: a list may have none.
    if !evaluate::is_compared(data_type) {
        return Err(Error::invalid(format!(
            "the column has type {data_type}, which a filter cannot compare"
        ))
        .hint("filters compare booleans, numbers and strings"));
    }
    match (term.op, &term.value) {
        (Op::In | Op::NotIn, Value::List(values)) => {
            values.iter().try_for_each(|value| check_value(value, data_type))
        }
        (Op::In | Op::NotIn, _) => Err(Error::invalid("in and not in take a list of values")),
        (_, Value::List(_)) => Err(Error::invalid("a list is compared with in or not in")),
        (_, value) => check_value(value, data_type),
    }
}

fn check_value(value: &Value, data_type: &DataType) -> Result<()> {
    let fits = match value {
        Value::Bool(_) => *data_type == DataType::Boolean,
        Value::Int(_) => data_type.is_integer() || data_type.is_floating(),
        Value::Float(float) => {
            if !float.is_finite() {
                return Err(Error::invalid(format!("a filter cannot compare with {float}")));
            }
            data_type.is_integer() || data_type.is_floating()
        }
        Value::Text(_) => matches!(data_type, DataType::Utf8View | DataType::BinaryView),
        Value::List(_) => return Err(Error::invalid("a list holds another list")),
    };
    if fits {
        return Ok(());
    }
    let shown = serde_json::to_string(value).unwrap_or_default();
    Err(Error::invalid(format!(
        "the column has type {data_type}, which a filter cannot compare with {shown}"
    ))
    .hint("filters compare booleans, numbers and strings"))
}
