//! Types with nested fields.

use std::sync::Arc;

use super::array::{Array, ArrayRef, AsArray, StructArray};
use super::datatypes::{DataType, Field, FieldRef, Fields, TimeUnit};
use super::error::ArrowError;

/// The type with `each` applied to the fields directly inside it. A type without fields is returned
/// unchanged.
pub fn with_fields(data_type: &DataType, each: impl Fn(&Field) -> Field) -> DataType {
    let each = |field: &FieldRef| Arc::new(each(field));
    match data_type {
        DataType::List(item) => DataType::List(each(item)),
        DataType::LargeList(item) => DataType::LargeList(each(item)),
        DataType::FixedSizeList(item, length) => DataType::FixedSizeList(each(item), *length),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(each).collect()),
        DataType::Map(entries, sorted) => DataType::Map(each(entries), *sorted),
        other => other.clone(),
    }
}

/// The field with `times` in place of its timestamps in nanoseconds, at any depth.
pub fn with_times(field: &Field, times: &DataType) -> Field {
    let data_type = match field.data_type() {
        DataType::Timestamp(TimeUnit::Nanosecond, _) => times.clone(),
        other => with_fields(other, |inside| with_times(inside, times)),
    };
    field.clone().with_data_type(data_type)
}

/// Joins the fields of two structures into one. A field that both have is joined in the same way if it is a
/// structure; otherwise it is taken from `other`.
///
/// # Errors
/// The structures are null in different rows.
pub fn united(one: &ArrayRef, other: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let (Some(one), Some(more)) = (one.as_struct_opt(), other.as_struct_opt()) else {
        return Ok(other.clone());
    };
    let valid = |of: &StructArray| (0..of.len()).map(|row| of.is_valid(row)).collect::<Vec<_>>();
    if one.nulls() != more.nulls() && valid(one) != valid(more) {
        let cause = "structures that are null in other rows".to_owned();
        return Err(ArrowError::InvalidArgumentError(cause));
    }
    let mut fields: Vec<FieldRef> = one.fields().iter().cloned().collect();
    let mut columns = one.columns().to_vec();
    for (field, column) in more.fields().iter().zip(more.columns()) {
        match fields.iter().position(|have| have.name() == field.name()) {
            Some(at) => {
                columns[at] = united(&columns[at], column)?;
                let data_type = columns[at].data_type().clone();
                fields[at] = Arc::new(field.as_ref().clone().with_data_type(data_type));
            }
            None => {
                fields.push(field.clone());
                columns.push(column.clone());
            }
        }
    }
    let (nulls, rows) = (one.nulls().cloned(), one.len());
    Ok(Arc::new(StructArray::try_new_with_length(Fields::from(fields), columns, nulls, rows)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::{Int32Array, StringArray};
    use crate::buffer::NullBuffer;

    fn structure(fields: Vec<(&str, ArrayRef)>) -> ArrayRef {
        let (names, columns): (Vec<&str>, Vec<ArrayRef>) = fields.into_iter().unzip();
        let field = |(name, column): (&str, &ArrayRef)| Field::new(name, column.data_type().clone(), true);
        let fields: Fields = names.into_iter().zip(&columns).map(field).collect();
        Arc::new(StructArray::new(fields, columns, Some(NullBuffer::from(vec![true, false]))))
    }

    #[test]
    fn structures_are_put_together_leaf_by_leaf() {
        let a: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
        let b: ArrayRef = Arc::new(StringArray::from(vec!["x", "y"]));
        let inside = |leaf: (&'static str, &ArrayRef)| {
            structure(vec![("in", structure(vec![(leaf.0, leaf.1.clone())]))])
        };
        let leaves = [structure(vec![("a", a.clone())]), inside(("a", &a)), inside(("b", &b))];
        let all = leaves[1..].iter().fold(leaves[0].clone(), |all, leaf| united(&all, leaf).unwrap());
        let wanted = structure(vec![("a", a.clone()), ("in", structure(vec![("a", a), ("b", b)]))]);
        assert_eq!(&all, &wanted);
    }
}
