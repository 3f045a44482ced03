//! Evaluates a condition over the rows of a batch.

use forebay_arrow::array::{Array, AsArray};
use forebay_arrow::buffer::{BooleanBuffer, NullBuffer};
use forebay_base::{Error, ErrorKind, Result};

use super::arithmetic;
use super::expr::Node;
use super::rows::Rows;
use super::truth::Truth;
use super::verdicts::Uses;
use crate::operand::Operand;

/// Says for each row whether a condition is true.
pub(super) fn node(rows: &Rows<'_>, condition: &Node) -> Result<Truth> {
    if let Some(term) = condition.test() {
        return rows.test(term);
    }
    match condition {
        Node::And(parts) => {
            let mut all = Truth::known(BooleanBuffer::new_set(rows.len()));
            for part in parts {
                all = all & node(rows, part)?;
            }
            Ok(all)
        }
        Node::Or(parts) => {
            let mut any = Truth::known(BooleanBuffer::new_unset(rows.len()));
            for part in parts {
                any = any | node(rows, part)?;
            }
            Ok(any)
        }
        Node::Not(part) => Ok(!node(rows, part)?),
        Node::Compare(left, op, right) => arithmetic::compare(rows, left, *op, right),
        Node::IsNull(Operand::Column(column)) => {
            let nulls = rows.column(column)?.logical_nulls();
            let is_null = |nulls: NullBuffer| !nulls.inner();
            Ok(Truth::known(nulls.map_or_else(|| BooleanBuffer::new_unset(rows.len()), is_null)))
        }
        Node::IsNull(operand) => arithmetic::is_null(rows, operand),
        Node::StartsWith(operand, prefix) => starts_with(rows, operand, prefix.as_bytes()),
        Node::Sample(sample) => sample.evaluate(rows),
    }
}

fn starts_with(rows: &Rows<'_>, operand: &Operand, prefix: &[u8]) -> Result<Truth> {
    let Operand::Column(column) = operand else {
        return Err(Error::new(ErrorKind::Internal, "the prefix of a number was let through"));
    };
    let array = rows.column(column)?;
    if let Some(truth) = rows.verdicts.and_then(|verdicts| verdicts.of_prefix(array, column, prefix)) {
        return Ok(truth);
    }
    let collect = |starts: &dyn Fn(usize) -> bool| BooleanBuffer::collect_bool(array.len(), starts);
    let holds = match (array.as_string_view_opt(), array.as_binary_view_opt()) {
        (Some(texts), _) => collect(&|row| texts.value(row).as_bytes().starts_with(prefix)),
        (_, Some(values)) => collect(&|row| values.value(row).starts_with(prefix)),
        _ => return Err(Error::new(ErrorKind::Internal, "the prefix of another type was let through")),
    };
    Ok(Truth::of_values(holds, array.nulls()))
}

/// Collects how each column is used in a condition: compared with values, tested for a prefix, or in another
/// way.
pub(super) fn uses(condition: &Node, found: &mut Uses) {
    if let Some(test) = condition.test() {
        return found.test(test);
    }
    match condition {
        Node::And(parts) | Node::Or(parts) => parts.iter().for_each(|part| uses(part, found)),
        Node::Not(part) => uses(part, found),
        Node::StartsWith(Operand::Column(column), prefix) => found.prefix(column, prefix),
        // A column that is read as codes has nulls in the same rows, so this test does not need its values.
        Node::IsNull(Operand::Column(_)) => {}
        other => {
            let mut names = Vec::new();
            other.columns(&mut names);
            names.into_iter().for_each(|name| found.values(name));
        }
    }
}
