//! The `stack` option: delivers several columns of numbers as one matrix in the batch's memory.

use std::sync::Arc;

use forebay_arrow::array::{Array, ArrayRef, AsArray, downcast_primitive_array};
use forebay_arrow::buffer::Buffer;
use forebay_arrow::datatypes::{DataType, FieldRef};
use forebay_arrow::names::TypeName;
use forebay_base::{Error, ErrorKind, Place, Result};
use serde::{Deserialize, Serialize};

use super::cast::cast_after;
use super::{Cast, Codec, Column, StackColumns, StackedColumn, tensor_field};

/// The number of columns that are written to the matrix together: 16 values of four bytes, one from each
/// column, fill a line of the processor's cache.
pub(crate) const STACKED_TOGETHER: usize = 16;

/// The number of rows that are written at a time. It is small, so that the values of all columns in these
/// rows stay in the processor's first-level cache.
const ROWS_PER_TURN: usize = 64;

/// Columns of numbers or booleans that are delivered as one column: tensors of one dimension, with a value
/// for each of these columns. The stacked columns themselves are not delivered.
///
/// Pass it to a loader with [`LoaderBuilder::stack`](crate::LoaderBuilder::stack).
///
/// ```
/// use forebay::arrow::datatypes::DataType;
/// use forebay::column::Stack;
///
/// let numbers = Stack::new(["age", "I*"]).dtype(DataType::Float32);
/// assert_eq!(numbers.columns(), ["age", "I*"]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stack {
    columns: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dtype: Option<Cast>,
}

impl Stack {
    /// Stacks these columns, given by stored names or patterns, in this order. The columns that a pattern
    /// matches are in the order of the schema. A column that is named and also matches a pattern is
    /// placed by its name.
    pub fn new<S: Into<String>>(columns: impl IntoIterator<Item = S>) -> Stack {
        Stack { columns: columns.into_iter().map(Into::into).collect(), dtype: None }
    }

    /// The type that values are [cast](crate::LoaderBuilder::cast) to. Default: the type that all columns
    /// have.
    #[must_use]
    pub fn dtype(self, dtype: DataType) -> Stack {
        Stack { dtype: Some(dtype.into()), ..self }
    }

    /// The names and patterns, in order.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// The type that values are cast to.
    pub(crate) fn cast(&self) -> Option<&Cast> {
        self.dtype.as_ref()
    }

    /// A copy of this stack in which the names and patterns are replaced by `columns`.
    pub(crate) fn of_columns(&self, columns: Vec<String>) -> Stack {
        Stack { columns, ..self.clone() }
    }
}

/// Writes the values of several stored columns to the rows of one matrix.
#[derive(Clone, Debug)]
pub(crate) struct StackCodec {
    members: Vec<StackedColumn>,
    /// The number of bytes of a value.
    width: usize,
}

impl StackCodec {
    /// Makes the column `name` from these columns, each given with the index of its stored column. Its values
    /// have the type `dtype`, or the type that all columns have.
    ///
    /// Fails with `Invalid` if a column has no single number or boolean for each row, or if two have
    /// different types.
    pub(crate) fn column(name: &str, columns: Vec<(usize, Column)>, dtype: Option<&Cast>) -> Result<Column> {
        let at = |field: &FieldRef, error: Error| error.at(Place::default().column(field.name().as_str()));
        let as_asked = |(place, column): (usize, Column)| {
            let Some(dtype) = dtype else { return Ok((place, column)) };
            let field = column.field.clone();
            if field.data_type().is_nested() {
                return Err(at(&field, not_numbers(name, field.data_type())));
            }
            let cast = cast_after(column, dtype.data_type()).map_err(|error| at(&field, error))?;
            Ok((place, cast))
        };
        let columns = columns.into_iter().map(as_asked).collect::<Result<Vec<_>>>()?;
        let Some((_, Column { field: first, .. })) = columns.first().cloned() else {
            return Err(Error::invalid(format!("stack: {name:?} has no columns")));
        };
        let item = first.data_type().clone();
        let mut members = Vec::with_capacity(columns.len());
        for (place, Column { codec, field }) in columns {
            let (Some(_), Codec::Gather(gather) | Codec::GatherOf(_, gather)) =
                (width(field.data_type()), codec)
            else {
                return Err(at(&field, not_numbers(name, field.data_type())));
            };
            if *field.data_type() != item {
                let (one, other) = (TypeName(&item), TypeName(field.data_type()));
                let cause =
                    format!("is stacked in {name:?} and holds {other}, but {:?} holds {one}", first.name());
                return Err(at(&field, Error::invalid(cause).hint("give the stack a `dtype`")));
            }
            members.push(StackedColumn { place, gather });
        }
        let field = Arc::new(tensor_field(name, &[members.len()], item.clone())?);
        let width = width(&item).unwrap_or(1);
        Ok(Column { codec: Codec::Stack(Arc::new(StackCodec { members, width })), field })
    }
}

impl StackColumns for StackCodec {
    fn members(&self) -> &[StackedColumn] {
        &self.members
    }

    fn row_bytes(&self) -> usize {
        self.members.len() * self.width
    }

    fn write(&self, first: usize, columns: &[ArrayRef], matrix: &mut [u8]) -> Result<()> {
        let columns = columns.iter().map(|column| values(column.as_ref())).collect::<Result<Vec<_>>>()?;
        let columns: Vec<&[u8]> = columns.iter().map(Buffer::as_slice).collect();
        let at = first * self.width;
        match self.width {
            1 => write::<1>(&columns, at, self.row_bytes(), matrix),
            2 => write::<2>(&columns, at, self.row_bytes(), matrix),
            4 => write::<4>(&columns, at, self.row_bytes(), matrix),
            _ => write::<8>(&columns, at, self.row_bytes(), matrix),
        }
        Ok(())
    }
}

/// Writes the values of `columns`, each of `WIDTH` bytes, side by side into `matrix`. A row of the matrix has
/// `row` bytes, and the first of these columns begins at byte `at` of the row.
fn write<const WIDTH: usize>(columns: &[&[u8]], at: usize, row: usize, matrix: &mut [u8]) {
    let columns: Vec<&[[u8; WIDTH]]> = columns.iter().map(|column| column.as_chunks().0).collect();
    for (turn, rows) in matrix.chunks_mut(row * ROWS_PER_TURN).enumerate() {
        let before = turn * ROWS_PER_TURN;
        match <&[&[[u8; WIDTH]]; STACKED_TOGETHER]>::try_from(&columns[..]) {
            Ok(columns) => write_turn(columns, at, row, before, rows),
            Err(_) => write_turn(&columns[..], at, row, before, rows),
        }
    }
}

/// Writes up to `ROWS_PER_TURN` rows of the matrix; `before` is the number of rows that are already written.
fn write_turn<'a, const WIDTH: usize>(
    columns: &(impl AsRef<[&'a [[u8; WIDTH]]]> + ?Sized),
    at: usize,
    row: usize,
    before: usize,
    rows: &mut [u8],
) {
    let columns = columns.as_ref();
    for (number, row) in rows.chunks_exact_mut(row).enumerate() {
        let written = row[at..at + columns.len() * WIDTH].as_chunks_mut().0;
        for (to, column) in written.iter_mut().zip(columns) {
            *to = column[before + number];
        }
    }
}

/// The error for a column that cannot be stacked, because its rows are not single numbers.
fn not_numbers(stack: &str, data_type: &DataType) -> Error {
    let hint = match data_type.is_nested() {
        true => "numbers and booleans are stacked: leave it out, or decode it as a tensor",
        false => {
            "numbers and booleans are stacked: give a `dtype` that the values are cast to, or leave it out"
        }
    };
    Error::invalid(format!("is stacked in {stack:?}, but holds {}", TypeName(data_type))).hint(hint)
}

/// The number of bytes that a value takes in the matrix; `None` for a type that is not a single number or
/// boolean.
fn width(data_type: &DataType) -> Option<usize> {
    use DataType::{
        Boolean, Float16, Float32, Float64, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64,
    };
    match data_type {
        Boolean | Int8 | UInt8 => Some(1),
        Int16 | UInt16 | Float16 => Some(2),
        Int32 | UInt32 | Float32 => Some(4),
        Int64 | UInt64 | Float64 => Some(8),
        _ => None,
    }
}

/// Returns the values of a column as bytes. A boolean takes one byte, and a null row has an arbitrary value.
fn values(column: &dyn Array) -> Result<Buffer> {
    let values: &Buffer = downcast_primitive_array!(
        column => column.values().inner(),
        DataType::Boolean => {
            return Ok(column.as_boolean().values().iter().map(u8::from).collect());
        }
        other => return Err(Error::new(ErrorKind::Internal, format!("{other} in a stack of columns"))),
    );
    Ok(values.clone())
}

#[cfg(test)]
mod tests {
    use forebay_arrow::array::{BooleanArray, Int16Array};
    use forebay_arrow::datatypes::Field;

    use super::*;
    use crate::column::PlainCodec;

    fn column(name: &str, data_type: DataType) -> Column {
        Column::gathered(PlainCodec::default(), &Field::new(name, data_type, true)).unwrap()
    }

    fn stack(columns: usize, data_type: &DataType) -> Arc<dyn StackColumns> {
        let columns = (0..columns).map(|at| (at, column(&format!("c{at}"), data_type.clone()))).collect();
        match StackCodec::column("x", columns, None).unwrap().codec {
            Codec::Stack(stack) => stack,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_matrix_has_a_column_for_each_column() {
        for (columns, rows) in [(1, 1), (16, 64), (35, 200), (33, 65)] {
            let stack = stack(columns, &DataType::Int16);
            let value = |row: usize, column: usize| (row * 100 + column) as i16;
            let stored: Vec<ArrayRef> = (0..columns)
                .map(|column| {
                    let values = (0..rows + 3).map(|row: usize| value(row.saturating_sub(3), column));
                    Arc::new(Int16Array::from_iter_values(values).slice(3, rows)) as ArrayRef
                })
                .collect();
            let mut matrix = vec![0xFF; rows * stack.row_bytes()];
            for (turn, together) in stored.chunks(STACKED_TOGETHER).enumerate() {
                stack.write(turn * STACKED_TOGETHER, together, &mut matrix).unwrap();
            }
            let read = matrix.chunks_exact(2).map(|bytes| i16::from_le_bytes([bytes[0], bytes[1]]));
            let expected = (0..rows).flat_map(|row| (0..columns).map(move |column| value(row, column)));
            assert!(read.eq(expected), "{columns} columns, {rows} rows");
        }
    }

    #[test]
    fn a_boolean_is_a_byte() {
        let stack = stack(2, &DataType::Boolean);
        let stored: [ArrayRef; 2] = [vec![true, false, true], vec![false, false, true]]
            .map(|values| Arc::new(BooleanArray::from(values)) as _);
        let mut matrix = vec![9; 6];
        stack.write(0, &stored, &mut matrix).unwrap();
        assert_eq!(matrix, [1, 0, 0, 0, 1, 1]);
    }

    #[test]
    fn columns_of_other_types_are_refused_by_name() {
        let error = |columns: Vec<Column>| {
            StackCodec::column("x", columns.into_iter().enumerate().collect(), None).unwrap_err().to_string()
        };
        let text = error(vec![column("a", DataType::Int8), column("b", DataType::Float32)]);
        assert!(
            text.contains("\"b\"") && text.contains("but \"a\" holds int8") && text.contains("dtype"),
            "{text}"
        );
        let text = error(vec![column("a", DataType::Utf8View)]);
        assert!(text.contains("\"a\"") && text.contains("numbers and booleans are stacked"), "{text}");
        assert!(error(Vec::new()).contains("has no columns"));
        let lists = DataType::List(Arc::new(Field::new("item", DataType::Int64, true)));
        let (columns, dtype) = (vec![(0, column("l", lists))], Cast::from(DataType::Float32));
        let text = StackCodec::column("x", columns, Some(&dtype)).unwrap_err().to_string();
        assert!(text.contains("holds list<int64>") && text.contains("decode it as a tensor"), "{text}");
    }
}
