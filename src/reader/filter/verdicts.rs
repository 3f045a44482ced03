//! Comparisons that are made once for each value of a dictionary, instead of once for each row.
//!
//! A column of texts or binary values is read as integer codes: bit `n` of a code is the result of check `n`
//! of the column. In a page with a dictionary, each entry is then checked once, and each row needs only the
//! index of its entry; no text is made. This works if the filter only compares the column with values, tests
//! prefixes, or asks whether it is null.

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_arrow::array::{Array, ArrayRef, AsArray};
use forebay_arrow::buffer::BooleanBuffer;
use forebay_arrow::datatypes::{DataType, Int32Type};
use forebay_store::catalog::Projection;

use super::Op;
use super::evaluate::{bytes, holds};
use super::term::Test;
use super::truth::Truth;
use crate::column::CodeValues;
use crate::operand::Value;
use crate::reader::coded::CodedColumns;

/// The type of the codes, whose bits are the results of checks.
const CODES: DataType = DataType::Int32;
/// The most checks of a column: one for each bit of a code, except the sign.
const MAX_CHECKS: usize = i32::BITS as usize - 1;

/// A test of a value that is not null.
#[derive(Debug, PartialEq)]
enum Check {
    /// Compares the value with these values.
    Compare(Op, Vec<Value>),
    /// Tests whether the value is one of these texts, which ascend. With `false`, tests whether it is none of
    /// them.
    IsAmong(bool, Vec<Box<[u8]>>),
    StartsWith(Box<[u8]>),
}

impl Check {
    fn of_test(test: Test<'_>) -> Self {
        let texts = test.values().iter().map(|value| match value {
            Value::Text(text) => Some(text.as_bytes().into()),
            _ => None,
        });
        match (test.op, texts.collect::<Option<Vec<Box<[u8]>>>>()) {
            (Op::In | Op::NotIn, Some(mut texts)) => {
                texts.sort_unstable();
                Check::IsAmong(test.op == Op::In, texts)
            }
            _ => Check::Compare(test.op, test.values().to_vec()),
        }
    }

    fn holds(&self, stored: &[u8]) -> bool {
        match self {
            Check::Compare(op, values) => holds(*op, values, |value| bytes(stored, value)),
            Check::IsAmong(is_in, texts) => {
                texts.binary_search_by(|text| text.as_ref().cmp(stored)).is_ok() == *is_in
            }
            Check::StartsWith(prefix) => stored.starts_with(prefix),
        }
    }
}

/// The checks that a filter makes on one column.
#[derive(Debug, Default)]
struct Checks(Vec<Check>);

impl CodeValues for Checks {
    fn data_type(&self) -> &DataType {
        &CODES
    }

    fn code(&self, value: &[u8]) -> i64 {
        let bits = self.0.iter().enumerate().map(|(bit, check)| i64::from(check.holds(value)) << bit);
        bits.sum()
    }
}

/// How a filter uses each column.
#[derive(Debug, Default)]
pub(super) struct Uses(BTreeMap<String, Use>);

/// How a filter uses one column.
#[derive(Debug)]
enum Use {
    Checks(Checks),
    /// Uses that need the values themselves.
    Values,
}

impl Uses {
    /// Records that the filter compares a column with values.
    pub(super) fn test(&mut self, test: Test<'_>) {
        self.check(test.column, Check::of_test(test));
    }

    /// Records that the filter tests whether values of a column begin with `prefix`.
    pub(super) fn prefix(&mut self, column: &str, prefix: &str) {
        self.check(column, Check::StartsWith(prefix.as_bytes().into()));
    }

    /// Records a use that needs the values of a column themselves.
    pub(super) fn values(&mut self, column: &str) {
        self.0.insert(column.to_owned(), Use::Values);
    }

    fn check(&mut self, column: &str, check: Check) {
        let of_column = self.0.entry(column.to_owned()).or_insert_with(|| Use::Checks(Checks::default()));
        if let Use::Checks(Checks(checks)) = of_column
            && !checks.contains(&check)
        {
            match checks.len() {
                MAX_CHECKS => *of_column = Use::Values,
                _ => checks.push(check),
            }
        }
    }

    /// The columns of a projection that can be read as the results of their checks.
    pub(super) fn verdicts(self, projection: &Projection) -> Verdicts {
        let Uses(mut uses) = self;
        let mut checks = BTreeMap::new();
        let codes = projection.schema().fields().iter().map(|field| {
            let are_texts = matches!(field.data_type(), DataType::Utf8View | DataType::BinaryView);
            let (column, Use::Checks(found)) = uses.remove_entry(field.name()).filter(|_| are_texts)? else {
                return None;
            };
            let found = Arc::new(found);
            checks.insert(column, found.clone());
            Some(found as Arc<dyn CodeValues>)
        });
        Verdicts { coded: CodedColumns::new(codes.collect()), checks }
    }
}

/// The columns of texts and binary values that are read as the results of a filter's checks.
#[derive(Debug)]
pub(crate) struct Verdicts {
    coded: Option<CodedColumns>,
    checks: BTreeMap<String, Arc<Checks>>,
}

impl Verdicts {
    /// The columns to read as codes, and how; `None` if there are no such columns.
    pub(crate) fn coded(&self) -> Option<&CodedColumns> {
        self.coded.as_ref()
    }

    /// Says for each row of a column whether a term is true; `None` if the column has values instead of
    /// codes.
    pub(super) fn of_test(&self, array: &ArrayRef, test: Test<'_>) -> Option<Truth> {
        let truth = self.truth(array, test.column, || Check::of_test(test))?;
        Some(if test.op == Op::In { truth.or_false() } else { truth })
    }

    /// Says for each row of a column whether its value has a prefix; `None` if the column has values instead
    /// of codes.
    pub(super) fn of_prefix(&self, array: &ArrayRef, column: &str, prefix: &[u8]) -> Option<Truth> {
        self.truth(array, column, || Check::StartsWith(prefix.into()))
    }

    fn truth(&self, array: &ArrayRef, column: &str, check: impl FnOnce() -> Check) -> Option<Truth> {
        // Only columns of texts and binary values have checks, so an array of integers holds codes.
        let checks = self.checks.get(column)?;
        let codes = array.as_primitive_opt::<Int32Type>()?.values();
        let check = check();
        let bit = checks.0.iter().position(|known| *known == check)?;
        let holds = BooleanBuffer::collect_bool(codes.len(), |row| codes[row] >> bit & 1 == 1);
        Some(Truth::of_values(holds, array.nulls()))
    }
}
