//! Delivers columns of numbers in another type than the stored one. Each value is checked, so no value
//! changes silently.
//!
//! Values are cast after they are gathered, batch by batch. The row cache therefore keeps the stored values,
//! and an error for a value that does not fit names its file and row. All other codecs of the column see the
//! type after the cast.

mod after;
mod values;

use std::sync::Arc;

use forebay_arrow::array::{Array, ArrayRef, AsArray, FixedSizeListArray, LargeListArray, new_null_array};
use forebay_arrow::datatypes::{DataType, Field, FieldRef};
use forebay_arrow::fail::OrFail;
use forebay_arrow::names::TypeName;
use forebay_base::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize, Serializer};
use values::{cast_values, shown};

pub(crate) use after::cast_after;

use super::codec::after_making;
use super::tensors::{name_of, read_name};
use super::{Codec, ColumnOption, Gather, GatheredRows, RowSize, Tensor};
use crate::batch::{Selection, gather};

/// The type that a column's numbers are cast to: one of [`Tensor::TYPES`]. A serialized spec has its name.
///
/// ```
/// use forebay::arrow::datatypes::DataType;
/// use forebay::column::Cast;
///
/// assert_eq!(Cast::from(DataType::Float32).data_type(), &DataType::Float32);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cast(#[serde(serialize_with = "write_type", deserialize_with = "read_name")] DataType);

impl Cast {
    /// The type to cast to.
    pub fn data_type(&self) -> &DataType {
        &self.0
    }
}

impl From<DataType> for Cast {
    fn from(data_type: DataType) -> Self {
        Cast(data_type)
    }
}

/// Another option may still say how the column is delivered. That option gets the values after the cast.
impl ColumnOption for Cast {
    fn delivers() -> bool {
        false
    }
}

/// Writes the name of a type. For a type without a name, writes Arrow's text, which is refused when it is
/// read.
fn write_type<S: Serializer>(to: &DataType, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    match name_of(to) {
        Some(name) => serializer.serialize_str(name),
        None => serializer.serialize_str(&to.to_string()),
    }
}

/// The field of a column after its values, or the values in its lists, were cast to `to`.
///
/// Fails with `Invalid` for a cast that is not supported.
pub(crate) fn cast_field(stored: &Field, to: &DataType) -> Result<Field> {
    let Some(name) = name_of(to) else {
        return Err(Error::invalid(format!("cast to {}", TypeName(to)))
            .hint(format!("use one of {}", Tensor::TYPES.join(", "))));
    };
    match cast_type(stored.data_type(), to) {
        Some(data_type) => Ok(stored.clone().with_data_type(data_type)),
        None => Err(Error::invalid(format!(
            "holds {}, which is not cast to {name}",
            TypeName(stored.data_type())
        ))
        .hint("numbers, booleans and decimals are cast to any of the types, text to numbers, times to integers, and lists of \
             these")),
    }
}

fn cast_type(stored: &DataType, to: &DataType) -> Option<DataType> {
    let inside = |item: &FieldRef| {
        Some(Arc::new(item.as_ref().clone().with_data_type(cast_type(item.data_type(), to)?)))
    };
    match stored {
        DataType::List(item) | DataType::LargeList(item) => Some(DataType::LargeList(inside(item)?)),
        DataType::FixedSizeList(item, length) => Some(DataType::FixedSizeList(inside(item)?, *length)),
        other => values::is_cast(other, to).then(|| to.clone()),
    }
}

/// Casts the values of a column, which the codec `inner` then delivers.
#[derive(Debug)]
pub(crate) struct CastCodec {
    /// The codec that delivers the cast values.
    inner: Arc<dyn Gather>,
    to: DataType,
    /// The type of the cast column, which `inner` sees.
    seen: DataType,
    /// The largest factor by which a cast value takes more bytes than its stored value.
    growth: usize,
}

impl CastCodec {
    /// Creates the codec that casts a column to `to`. The codec `inner` delivers the cast values. It must be
    /// a `Codec::Gather` that was made for the [field](cast_field) after the cast.
    ///
    /// Fails with `Invalid` for a column that cannot be cast.
    pub(crate) fn new(inner: Codec, stored: &Field, to: &DataType) -> Result<Self> {
        let seen = cast_field(stored, to)?.data_type().clone();
        let Codec::Gather(inner) = inner else {
            return Err(Error::invalid("is cast, and another option says how its cells are decoded")
                .hint("decoding decides the type: leave the column out of `cast`"));
        };
        let growth = width(values_of(&seen)).div_ceil(width(values_of(stored.data_type())).max(1)).max(1);
        Ok(CastCodec { inner, to: to.clone(), seen, growth })
    }
}

impl Gather for CastCodec {
    fn delivered(&self, stored: &Field) -> Result<FieldRef> {
        self.inner.delivered(&cast_field(stored, &self.to)?)
    }

    fn gather(&self, sources: &[&dyn Array], selection: &Selection) -> Result<GatheredRows> {
        let stored = gather(sources, selection, None)?;
        let (values, unfit) = cast(&stored, &self.to)?;
        let leaves = leaves(&stored);
        let unfit = unfit.iter().map(|unfit| (unfit.row, refusal(leaves, unfit.leaf, &self.to)));
        let is_as_delivered = !values.data_type().is_nested();
        after_making(values, unfit.collect(), self.inner.as_ref(), is_as_delivered)
    }

    fn size(&self) -> RowSize {
        let inner = self.inner.size();
        RowSize { bytes: inner.bytes.or_else(|| row_width(&self.seen)), growth: self.growth, ..inner }
    }

    fn unknown_values(&self) -> u64 {
        self.inner.unknown_values()
    }
}

/// A row with a value that does not fit the type; only the first such value of the row is recorded.
#[derive(Clone, Copy, Debug, PartialEq)]
struct UnfitRow {
    row: usize,
    /// The index of the value among the innermost values of all rows.
    leaf: usize,
}

fn refusal(leaves: &dyn Array, leaf: usize, to: &DataType) -> Error {
    let name = name_of(to).unwrap_or_default();
    let cause = format!("{} has no place in {name}, which it is cast to", shown(leaves, leaf));
    Error::new(ErrorKind::BadRow, cause).hint("cast to a type that has all values")
}

/// Casts an array. Returns the cast array, with an arbitrary value in place of each value that does not fit,
/// and the rows of these values in ascending order.
fn cast(array: &ArrayRef, to: &DataType) -> Result<(ArrayRef, Vec<UnfitRow>)> {
    let item = |item: &FieldRef, values: &ArrayRef| {
        Arc::new(item.as_ref().clone().with_data_type(values.data_type().clone()))
    };
    match array.data_type() {
        DataType::LargeList(field) => {
            let lists = array.as_list::<i64>();
            let (values, unfit) = cast(lists.values(), to)?;
            let offsets = lists.value_offsets();
            let row = |at: usize| {
                let row = offsets.partition_point(|offset| *offset as usize <= at).checked_sub(1)?;
                (row < lists.len()).then_some(row)
            };
            let unfit = of_rows(unfit, array.as_ref(), row);
            let (offsets, nulls) = (lists.offsets().clone(), lists.nulls().cloned());
            let made = LargeListArray::try_new(item(field, &values), offsets, values, nulls).or_fail()?;
            Ok((Arc::new(made), unfit))
        }
        DataType::FixedSizeList(field, length) => {
            let lists = array.as_fixed_size_list();
            let (values, unfit) = cast(lists.values(), to)?;
            let each = usize::try_from(*length).unwrap_or(1).max(1);
            let unfit = of_rows(unfit, array.as_ref(), |at| Some(at / each));
            let nulls = lists.nulls().cloned();
            let made = FixedSizeListArray::try_new(item(field, &values), *length, values, nulls).or_fail()?;
            Ok((Arc::new(made), unfit))
        }
        DataType::Null => Ok((new_null_array(to, array.len()), Vec::new())),
        _ => {
            let (values, unfit) = cast_values(array, to)?;
            Ok((values, unfit.into_iter().map(|at| UnfitRow { row: at, leaf: at }).collect()))
        }
    }
}

/// Converts the indices of items that do not fit to the rows of their lists. Items under a null list are
/// dropped, since they belong to no row.
fn of_rows(items: Vec<UnfitRow>, lists: &dyn Array, row: impl Fn(usize) -> Option<usize>) -> Vec<UnfitRow> {
    let rows =
        items.into_iter().filter_map(|UnfitRow { row: item, leaf }| Some(UnfitRow { row: row(item)?, leaf }));
    let mut rows: Vec<UnfitRow> = rows.filter(|unfit| lists.is_valid(unfit.row)).collect();
    rows.dedup_by_key(|unfit| unfit.row);
    rows
}

/// The innermost values of lists of any depth.
fn leaves(array: &dyn Array) -> &dyn Array {
    match array.data_type() {
        DataType::LargeList(_) => leaves(array.as_list::<i64>().values().as_ref()),
        DataType::FixedSizeList(..) => leaves(array.as_fixed_size_list().values().as_ref()),
        _ => array,
    }
}

/// The type of the values in lists of any depth.
pub(super) fn values_of(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            values_of(item.data_type())
        }
        other => other,
    }
}

fn width(data_type: &DataType) -> usize {
    data_type.primitive_width().unwrap_or(1)
}

/// The number of bytes of a row; `None` if it differs from row to row.
fn row_width(data_type: &DataType) -> Option<u64> {
    match data_type {
        DataType::LargeList(_) => None,
        DataType::FixedSizeList(item, length) => {
            Some(row_width(item.data_type())?.saturating_mul(u64::try_from(*length).ok()?))
        }
        other => Some(width(other) as u64),
    }
}

#[cfg(test)]
mod tests;
