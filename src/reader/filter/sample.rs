//! Selects a share of the rows by a hash, so that the same rows are selected in every run.
//!
//! The hash is XXH3 with 64 bits and the seed. It covers either the value in a column (an integer as 8 bytes
//! in little-endian order; a text or binary value as its bytes), or the place of the row (the hash of its
//! file's path in the data set, and its index in the file). A row is selected if its hash is less than
//! `fraction` times 2^64.

use forebay_arrow::array::{Array, AsArray};
use forebay_arrow::buffer::BooleanBuffer;
use forebay_arrow::datatypes::{DataType, Field};
use forebay_arrow::names::TypeName;
use forebay_base::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::evaluate::whole;
use super::rows::Rows;
use super::truth::{Outcomes, Truth};

/// The condition that selects a share of the rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sample {
    fraction: f64,
    seed: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    by: Option<String>,
}

impl Sample {
    pub(super) fn new(fraction: f64, seed: u64) -> Self {
        Sample { fraction, seed, by: None }
    }

    pub(super) fn by(self, column: String) -> Self {
        Sample { by: Some(column), ..self }
    }

    /// The column whose values are hashed; `None` if the places of rows are hashed.
    pub(super) fn column(&self) -> Option<&str> {
        self.by.as_deref()
    }

    pub(super) fn check(&self, stored: Option<&Field>) -> Result<()> {
        if !(0.0..=1.0).contains(&self.fraction) {
            return Err(Error::invalid(format!("the fraction of a sample is {}", self.fraction))
                .hint("give a number from 0 to 1"));
        }
        match stored.map(Field::data_type) {
            None | Some(DataType::Utf8View | DataType::BinaryView) => Ok(()),
            Some(whole) if whole.is_integer() => Ok(()),
            Some(other) => Err(Error::invalid(format!(
                "the column has type {}, by which a sample cannot be drawn",
                TypeName(other)
            ))
            .hint("draw by a column of integers, texts or binary, or by the place of rows")),
        }
    }

    pub(super) fn outcomes(&self) -> Outcomes {
        match self.limit() {
            0 => Outcomes::NO,
            limit if limit > u128::from(u64::MAX) => Outcomes::YES,
            _ => Outcomes::EITHER,
        }
    }

    /// Rows are selected if their hash is below this number.
    fn limit(&self) -> u128 {
        (self.fraction * (u64::MAX as f64)) as u128
    }

    /// Says for each row whether it is selected. Nulls have one hash, so all of them are selected or none is.
    pub(super) fn evaluate(&self, rows: &Rows<'_>) -> Result<Truth> {
        let (limit, seed) = (self.limit(), self.seed);
        let drawn = |bytes: &[u8]| u128::from(xxh3_64_with_seed(bytes, seed)) < limit;
        let Some(column) = &self.by else {
            let file = xxh3_64(rows.file.as_bytes()).to_le_bytes();
            let place = |row: usize| [file, rows.ordinal(row).to_le_bytes()].concat();
            return Ok(Truth::known(BooleanBuffer::collect_bool(rows.len(), |row| drawn(&place(row)))));
        };
        let array = rows.column(column)?;
        let is_drawn: Box<dyn Fn(usize) -> bool> = match array.data_type() {
            DataType::Utf8View => Box::new(|row| drawn(array.as_string_view().value(row).as_bytes())),
            DataType::BinaryView => Box::new(|row| drawn(array.as_binary_view().value(row))),
            _ => {
                let value = whole(array).ok_or_else(|| {
                    Error::new(
                        ErrorKind::Internal,
                        format!("a sample by {} was let through", array.data_type()),
                    )
                })?;
                // The low 64 bits are the same for signed and unsigned numbers of any width.
                Box::new(move |row| drawn(&(value(row) as u64).to_le_bytes()))
            }
        };
        let without = drawn(&[]);
        let each = |row| if array.is_null(row) { without } else { is_drawn(row) };
        Ok(Truth::known(BooleanBuffer::collect_bool(array.len(), each)))
    }
}
