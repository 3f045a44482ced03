//! Many columns of numbers as one matrix in the batch's own memory.
//!
//! Columns that are stored alike and delivered alike form a block. Row groups hold a block as lists of its
//! values, one list for each row: a row of a batch is then copied as one piece, and not as a value of each
//! column.

mod block;
mod write;

use std::ops::Range;
use std::sync::Arc;

use forebay_arrow::array::{Array, ArrayRef};
use forebay_arrow::datatypes::{DataType, Field, FieldRef};
use forebay_arrow::names::TypeName;
use forebay_base::{Error, Place, Result};
use serde::{Deserialize, Serialize};

pub(crate) use self::write::STACKED_TOGETHER;

use self::write::{stacked_bytes, write_columns};
use super::cast::cast_after;
use super::{Cast, Codec, Column, StackBlock, StackColumns, StackedColumn, tensor_field};

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
    blocks: Vec<Arc<StackBlock>>,
    /// The number of bytes of a value.
    width: usize,
}

impl StackCodec {
    /// Makes the column `name` from these columns, each given with the index of its stored column. Its values
    /// have the type `dtype`, or the type that all columns have. `blocks` has the places of columns that form
    /// blocks, and the type that these are stored in.
    ///
    /// Fails with `Invalid` if a column has no single number or boolean for each row, or if two have
    /// different types.
    pub(crate) fn column(
        name: &str,
        columns: Vec<(usize, Column)>,
        dtype: Option<&Cast>,
        blocks: &[(Range<usize>, DataType)],
    ) -> Result<Column> {
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
        let blocks = blocks.iter().map(|(of, stored)| {
            let members = &members[of.clone()];
            Arc::new(StackBlock {
                first: of.start,
                places: members.iter().map(|member| member.place).collect(),
                gather: members[0].gather.clone(),
                item: Arc::new(Field::new("item", stored.clone(), true)),
            })
        });
        let blocks = blocks.collect();
        Ok(Column { codec: Codec::Stack(Arc::new(StackCodec { members, blocks, width })), field })
    }
}

impl StackColumns for StackCodec {
    fn members(&self) -> &[StackedColumn] {
        &self.members
    }

    fn row_bytes(&self) -> usize {
        self.members.len() * self.width
    }

    fn blocks(&self) -> &[Arc<StackBlock>] {
        &self.blocks
    }

    fn write(&self, first: usize, columns: &[ArrayRef], matrix: &mut [u8]) -> Result<()> {
        write_columns(self.width, columns, first, self.row_bytes(), matrix)
    }

    fn write_lists(&self, first: usize, lists: &dyn Array, length: usize, matrix: &mut [u8]) -> Result<()> {
        let values = stacked_bytes(lists)?;
        let (at, bytes) = (first * self.width, length * self.width);
        let rows = matrix.chunks_exact_mut(self.row_bytes()).zip(values.chunks_exact(bytes));
        rows.for_each(|(row, list)| row[at..at + bytes].copy_from_slice(list));
        Ok(())
    }
}

/// The error of a column that has no single number for each row.
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
        match StackCodec::column("x", columns, None, &[]).unwrap().codec {
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
            StackCodec::column("x", columns.into_iter().enumerate().collect(), None, &[])
                .unwrap_err()
                .to_string()
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
        let text = StackCodec::column("x", columns, Some(&dtype), &[]).unwrap_err().to_string();
        assert!(text.contains("holds list<int64>") && text.contains("decode it as a tensor"), "{text}");
    }
}
