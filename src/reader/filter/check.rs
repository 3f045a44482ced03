//! Checks that a filter makes sense for a data set.

use forebay_arrow::datatypes::{DataType, Field};
use forebay_arrow::names::TypeName;
use forebay_base::{Error, Place, Result};
use forebay_store::catalog::Catalog;

use super::expr::Node;
use super::term::{Term, Test};
use super::{Op, evaluate, times};
use crate::operand::{Operand, Value};

const COMPARED: &str = "filters compare booleans, numbers, texts, binary, dates and times";

/// The greatest depth to which conditions may be nested.
const MAX_DEPTH: usize = 64;

pub(super) fn lists(lists: &[Vec<Term>], catalog: &Catalog) -> Result<()> {
    if lists.is_empty() || lists.iter().any(Vec::is_empty) {
        return Err(
            Error::invalid("the filter has an empty list").hint("leave out `filter` to take all rows")
        );
    }
    lists.iter().flatten().try_for_each(|term| term_of(term.test(), catalog))
}

pub(super) fn node(node: &Node, catalog: &Catalog) -> Result<()> {
    within(node, catalog, 0)
}

fn within(node: &Node, catalog: &Catalog, depth: usize) -> Result<()> {
    if depth > MAX_DEPTH {
        return Err(Error::invalid(format!(
            "the filter has more than {MAX_DEPTH} conditions inside one another"
        )));
    }
    if let Some(term) = node.test() {
        return term_of(term, catalog);
    }
    match node {
        Node::And(parts) | Node::Or(parts) => {
            parts.iter().try_for_each(|part| within(part, catalog, depth + 1))
        }
        Node::Not(part) => within(part, catalog, depth + 1),
        Node::Compare(left, op, right) => {
            number(left, catalog, depth)?;
            match (op, right) {
                (Op::In | Op::NotIn, Operand::Literal(Value::List(values))) => {
                    values.iter().try_for_each(is_number)
                }
                (Op::In | Op::NotIn, _) => Err(Error::invalid("in and not in take a list of values")),
                (_, right) => number(right, catalog, depth),
            }
        }
        Node::IsNull(Operand::Column(column)) => catalog.column(column).map(|_| ()),
        Node::IsNull(operand) => number(operand, catalog, depth),
        Node::StartsWith(Operand::Column(column), _) => {
            let field = field(column, catalog)?;
            match field.data_type() {
                DataType::Utf8View | DataType::BinaryView => Ok(()),
                other => Err(of_column(
                    column,
                    Error::invalid(format!("the column has type {}, which has no prefix", TypeName(other))),
                )),
            }
        }
        Node::StartsWith(..) => {
            Err(Error::invalid("a number has no prefix").hint("apply starts_with to a column of texts"))
        }
        Node::Sample(sample) => {
            let field = sample.column().map(|column| field(column, catalog)).transpose()?;
            sample.check(field).map_err(|error| match sample.column() {
                Some(column) => of_column(column, error),
                None => error,
            })
        }
    }
}

/// Checks an operand that must be a number: one of arithmetic, or one side of a comparison of two columns or
/// of computed numbers.
fn number(operand: &Operand, catalog: &Catalog, depth: usize) -> Result<()> {
    if depth > MAX_DEPTH {
        return Err(Error::invalid(format!(
            "the filter has more than {MAX_DEPTH} operations inside one another"
        )));
    }
    match operand {
        Operand::Column(column) => {
            let data_type = field(column, catalog)?.data_type();
            if evaluate::is_number(data_type) {
                return Ok(());
            }
            let error =
                Error::invalid(format!("the column has type {}, which is not a number", TypeName(data_type)));
            Err(of_column(column, error.hint("arithmetic and comparisons of two columns take numbers")))
        }
        Operand::Literal(value) => is_number(value),
        Operand::Arithmetic(parts) => {
            number(&parts.0, catalog, depth + 1)?;
            number(&parts.2, catalog, depth + 1)
        }
    }
}

fn is_number(value: &Value) -> Result<()> {
    match value {
        Value::Int(_) | Value::UInt(_) => Ok(()),
        Value::Float(value) if value.is_finite() => Ok(()),
        Value::Float(value) => Err(not_finite(*value)),
        other => Err(Error::invalid(format!("{} is not a number", shown(other)))
            .hint("arithmetic and comparisons of two columns take numbers")),
    }
}

fn term_of(term: Test<'_>, catalog: &Catalog) -> Result<()> {
    let data_type = field(term.column, catalog)?.data_type();
    self::term(term, data_type).map_err(|error| of_column(term.column, error))
}

/// Checks that a term (a column, an operator and a value) makes sense for a column of this type.
pub(super) fn term(term: Test<'_>, data_type: &DataType) -> Result<()> {
    // The type is checked before the values, since a list of values may be empty.
    if !evaluate::is_compared(data_type) {
        let error = Error::invalid(format!(
            "the column has type {}, which a filter cannot compare",
            TypeName(data_type)
        ));
        return Err(error.hint(COMPARED));
    }
    match (term.op, term.value) {
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
        Value::Int(_) | Value::UInt(_) => evaluate::is_number(data_type),
        Value::Float(float) if !float.is_finite() => return Err(not_finite(*float)),
        Value::Float(_) => evaluate::is_number(data_type),
        Value::Text(text) if times::unit(data_type).is_some() => {
            times::nanoseconds(text, data_type)?;
            true
        }
        Value::Text(_) => matches!(data_type, DataType::Utf8View | DataType::BinaryView),
        Value::List(_) => return Err(Error::invalid("a list holds another list")),
    };
    if fits {
        return Ok(());
    }
    let shown = shown(value);
    let error = Error::invalid(format!(
        "the column has type {}, which a filter cannot compare with {shown}",
        TypeName(data_type)
    ));
    Err(error.hint(if times::unit(data_type).is_some() {
        "write dates and times as texts, 2024-05-17T12:30:00"
    } else {
        COMPARED
    }))
}

fn not_finite(value: f64) -> Error {
    Error::invalid(format!("a filter cannot compare with {value}"))
}

fn shown(value: &Value) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

fn field<'a>(column: &str, catalog: &'a Catalog) -> Result<&'a Field> {
    Ok(catalog.schema.field(catalog.column(column)?))
}

fn of_column(column: &str, error: Error) -> Error {
    error.at(Place::default().column(column))
}
