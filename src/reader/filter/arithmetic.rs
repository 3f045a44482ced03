//! Compares operands, which are numbers of columns or computed from them, over the rows of a batch.

use std::cmp::Ordering;

use forebay_arrow::array::Array;
use forebay_base::{Error, ErrorKind, Result};

use super::rows::Rows;
use super::truth::Truth;
use super::{Op, evaluate};
use crate::operand::{Number, Operand, Value, apply, literal};

type Numbers<'a> = Box<dyn Fn(usize) -> Result<Number> + 'a>;

/// Compares two operands, row by row.
pub(super) fn compare(rows: &Rows<'_>, left: &Operand, op: Op, right: &Operand) -> Result<Truth> {
    let stored = numbers(rows, left)?;
    let others = match right {
        Operand::Literal(Value::List(values)) => values.iter().map(literal).map(constant).collect(),
        one => vec![numbers(rows, one)?],
    };
    let mut each = Vec::with_capacity(rows.len());
    let mut values = Vec::with_capacity(others.len());
    for row in 0..rows.len() {
        let stored = stored(row)?;
        values.clear();
        for other in &others {
            values.push(other(row)?);
        }
        let is_unknown = stored == Number::Null || values.contains(&Number::Null);
        each.push((!is_unknown).then(|| evaluate::holds(op, &values, |value| order(stored, *value))));
    }
    let truth = Truth::collect(each.into_iter());
    Ok(if op == Op::In { truth.or_false() } else { truth })
}

/// Says for each row whether the value of an operand is null.
pub(super) fn is_null(rows: &Rows<'_>, operand: &Operand) -> Result<Truth> {
    let number = numbers(rows, operand)?;
    let each = (0..rows.len()).map(|row| Ok(Some(number(row)? == Number::Null)));
    Ok(Truth::collect(each.collect::<Result<Vec<_>>>()?.into_iter()))
}

fn order(stored: Number, value: Number) -> Option<Ordering> {
    match (stored, value) {
        (Number::Whole(a), Number::Whole(b)) => Some(a.cmp(&b)),
        (Number::Float(a), Number::Float(b)) => a.partial_cmp(&b),
        (Number::Whole(a), Number::Float(b)) => evaluate::whole_with_float(a, b),
        (Number::Float(a), Number::Whole(b)) => evaluate::whole_with_float(b, a).map(Ordering::reverse),
        (Number::Null, _) | (_, Number::Null) => None,
    }
}

fn numbers<'a>(rows: &Rows<'a>, operand: &'a Operand) -> Result<Numbers<'a>> {
    Ok(match operand {
        Operand::Literal(value) => constant(literal(value)),
        Operand::Column(name) => {
            let array = rows.column(name)?;
            if let Some(value) = evaluate::whole(array) {
                Box::new(move |row| {
                    Ok(if array.is_null(row) { Number::Null } else { Number::Whole(value(row)) })
                })
            } else if let Some(value) = evaluate::floats(array) {
                Box::new(move |row| {
                    Ok(if array.is_null(row) { Number::Null } else { Number::Float(value(row)) })
                })
            } else {
                let cause = format!("arithmetic on {} was let through", array.data_type());
                return Err(Error::new(ErrorKind::Internal, cause));
            }
        }
        Operand::Arithmetic(parts) => {
            let (left, op, right) = &**parts;
            let (left, right) = (numbers(rows, left)?, numbers(rows, right)?);
            Box::new(move |row| apply(left(row)?, *op, right(row)?))
        }
    })
}

fn constant<'a>(number: Number) -> Numbers<'a> {
    Box::new(move |_| Ok(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_and_floats_are_compared_exactly() {
        assert_eq!(
            order(Number::Whole((1 << 53) + 1), Number::Float((1u64 << 53) as f64)),
            Some(Ordering::Greater)
        );
        assert_eq!(order(Number::Float(f64::NAN), Number::Whole(0)), None);
    }
}
