//! Reads the vectors of a column one by one: the length of each, its values, or the reason why it is not a
//! vector.

use std::ops::Range;

use super::super::array::{Array, AsArray, Float64Array, Int8Array, Int32Array};
use super::super::buffer::NullBuffer;
use super::super::datatypes::{Float64Type, Int8Type, Int32Type};
use super::{DENSE, SPARSE, SparkMl};

/// The vectors of a column, field by field.
///
/// The rows may be memory-mapped from a file that other processes can change at any time. The range of a list
/// is therefore clamped to the numbers that exist.
pub struct Vectors<'a> {
    nulls: Option<&'a NullBuffer>,
    types: &'a Int8Array,
    sizes: &'a Int32Array,
    indices: NumberLists<'a, Int32Array>,
    values: NumberLists<'a, Float64Array>,
}

/// Lists of numbers.
struct NumberLists<'a, A> {
    offsets: Offsets<'a>,
    nulls: Option<&'a NullBuffer>,
    numbers: &'a A,
}

enum Offsets<'a> {
    Short(&'a [i32]),
    Long(&'a [i64]),
}

/// The reason why a structure is not a vector.
type Cause = String;

impl<'a> Vectors<'a> {
    /// The vectors of a column; `None` for a column of another type.
    pub fn from_array(column: &'a dyn Array) -> Option<Self> {
        if SparkMl::from_type(column.data_type()) != Some(SparkMl::Vector) {
            return None;
        }
        let [types, sizes, indices, values] = column.as_struct_opt()?.columns() else { return None };
        Some(Vectors {
            nulls: column.nulls(),
            types: types.as_primitive_opt::<Int8Type>()?,
            sizes: sizes.as_primitive_opt::<Int32Type>()?,
            indices: NumberLists::new(indices, |numbers| numbers.as_primitive_opt::<Int32Type>())?,
            values: NumberLists::new(values, |numbers| numbers.as_primitive_opt::<Float64Type>())?,
        })
    }

    /// The number of values in the vector of a row; `None` for a null.
    ///
    /// # Errors
    /// The stored structure is not a vector.
    pub fn length(&self, row: usize) -> Result<Option<usize>, Cause> {
        if self.nulls.is_some_and(|nulls| nulls.is_null(row)) {
            return Ok(None);
        }
        let size = self.sizes.is_valid(row).then(|| self.sizes.value(row));
        let values = self.values.at(row).ok_or("it has no values")?;
        if has_nulls(self.values.numbers, &values) {
            return Err("null among its values".into());
        }
        let indices = self.indices.at(row);
        match self.types.is_valid(row).then(|| self.types.value(row)) {
            Some(DENSE) => match (size, indices) {
                (Some(size), _) if usize::try_from(size).ok() != Some(values.len()) => {
                    Err(format!("dense, of size {size}, with {} values", values.len()))
                }
                (_, Some(indices)) if !indices.is_empty() => {
                    Err(format!("dense, with {} indices", indices.len()))
                }
                _ => Ok(Some(values.len())),
            },
            Some(SPARSE) => {
                let size = size.ok_or("sparse, without a size")?;
                let length = usize::try_from(size).map_err(|_| format!("sparse, of size {size}"))?;
                let indices = indices.ok_or("sparse, without indices")?;
                if indices.len() != values.len() {
                    return Err(format!("{} indices, and {} values", indices.len(), values.len()));
                }
                if has_nulls(self.indices.numbers, &indices) {
                    return Err("null among its indices".into());
                }
                let mut next = 0;
                for &index in &self.indices.numbers.values()[indices] {
                    if index < 0 || index >= size {
                        return Err(format!("index {index} where its size is {size}"));
                    }
                    if index < next {
                        return Err(format!("index {index} after {}, and they ascend", next - 1));
                    }
                    next = index + 1;
                }
                Ok(Some(length))
            }
            Some(other) => Err(format!("its type is {other}, neither {SPARSE} (sparse) nor {DENSE} (dense)")),
            None => Err("its type is null".into()),
        }
    }

    /// Writes the values of a vector into `zeros`, whose length must be the [length](Vectors::length) of the
    /// vector.
    pub fn copy_to(&self, row: usize, zeros: &mut [f64]) {
        let Some(values) = self.values.at(row) else { return };
        let values = &self.values.numbers.values()[values];
        match (self.types.value(row), self.indices.at(row)) {
            (SPARSE, Some(indices)) => {
                let indices = &self.indices.numbers.values()[indices];
                for (index, value) in indices.iter().zip(values) {
                    zeros[*index as usize] = *value;
                }
            }
            _ => zeros.copy_from_slice(values),
        }
    }
}

impl<'a, A: Array> NumberLists<'a, A> {
    fn new(column: &'a dyn Array, numbers: impl Fn(&'a dyn Array) -> Option<&'a A>) -> Option<Self> {
        let (offsets, values) = match (column.as_list_opt::<i32>(), column.as_list_opt::<i64>()) {
            (Some(lists), _) => (Offsets::Short(lists.value_offsets()), lists.values()),
            (_, Some(lists)) => (Offsets::Long(lists.value_offsets()), lists.values()),
            (None, None) => return None,
        };
        Some(NumberLists { offsets, nulls: column.nulls(), numbers: numbers(values.as_ref())? })
    }

    /// The range of a list's numbers; `None` for a null.
    fn at(&self, row: usize) -> Option<Range<usize>> {
        if self.nulls.is_some_and(|nulls| nulls.is_null(row)) {
            return None;
        }
        let (from, to) = match self.offsets {
            Offsets::Short(offsets) => (offsets[row] as usize, offsets[row + 1] as usize),
            Offsets::Long(offsets) => (offsets[row] as usize, offsets[row + 1] as usize),
        };
        let from = from.min(self.numbers.len());
        Some(from..to.clamp(from, self.numbers.len()))
    }
}

fn has_nulls(numbers: &dyn Array, range: &Range<usize>) -> bool {
    let nulls = numbers.nulls().filter(|nulls| nulls.null_count() > 0);
    nulls.is_some_and(|nulls| nulls.slice(range.start, range.len()).null_count() > 0)
}
