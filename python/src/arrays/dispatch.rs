//! Makes a numpy array of an Arrow column: a view if numpy has the type, otherwise Python objects.

use std::sync::Arc;

use forebay::arrow::array::{Array, ArrayRef, AsArray, StructArray, make_array};
use forebay::arrow::buffer::{NullBuffer, OffsetBuffer};
use forebay::arrow::datatypes::{DataType, Field};
use forebay::bindings::needs_values;
use forebay::{Error, ErrorKind, Result};
use forebay_arrow::fail::OrFail;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use super::kind::{ARRAYS, IMAGES, KIND, sides};
use super::{memory, nulls, objects, texts};
use crate::errors::IntoPython;
use crate::ragged::Offsets;
use crate::{dense, errors, view};

/// Returns the array of a column, as the documentation of `forebay.Batch` describes.
pub(crate) fn array<'py>(
    py: Python<'py>,
    field: &Field,
    column: &ArrayRef,
    of: nulls::BatchOrigin,
) -> PyResult<Bound<'py, PyAny>> {
    nulls::refuse(py, field, column.as_ref(), of)?;
    if let Some(array) = texts::array(py, field, column) {
        return array;
    }
    delivered(py, field, column)
}

/// Returns the array of a column of numbers that has no nulls, and whose type numpy stores in the same way;
/// `None` for any other column.
pub(crate) fn numbers<'py>(
    py: Python<'py>,
    field: &Field,
    column: &ArrayRef,
) -> Option<PyResult<Bound<'py, PyAny>>> {
    let kind = column.data_type();
    // numpy uses 64 bits for these types, so an array of them is not a view.
    let is_wider = matches!(kind, DataType::Date32 | DataType::Time32(_));
    if !kind.is_primitive() || is_wider || column.null_count() > 0 {
        return None;
    }
    Some(view::array(py, dense::dense(field, column.as_ref())?))
}

/// Returns the array of a column, or of a part of a column. Nulls that the array could not hold were refused
/// before this is called.
fn delivered<'py>(py: Python<'py>, field: &Field, column: &ArrayRef) -> PyResult<Bound<'py, PyAny>> {
    if let Some(dense) = dense::dense(field, column.as_ref()) {
        return memory::view(py, dense);
    }
    match column.data_type() {
        DataType::LargeList(item) => {
            let list = column.as_list::<i64>();
            let offsets = Offsets::new(list.offsets().clone());
            let values = delivered(py, item, &offsets.items(list.values()))?;
            match field.metadata().get(KIND).map(String::as_str) {
                Some(IMAGES) => offsets.images(py, values),
                Some(ARRAYS) => offsets.arrays(py, values, sides(field)),
                _ => offsets.ragged(py, values),
            }
        }
        DataType::Map(entries, _) => {
            let map = column.as_map();
            let offsets = Offsets::new(long(map.offsets().iter().map(|offset| i64::from(*offset))));
            let of_map: ArrayRef = Arc::new(map.entries().clone());
            let values = delivered(py, entries, &offsets.items(&of_map))?;
            offsets.ragged(py, values)
        }
        DataType::FixedSizeList(item, length) => {
            let (rows, length) = (column.len() as i64, i64::from(*length));
            let offsets = Offsets::new(long((0..=rows).map(|row| row * length)));
            let values = delivered(py, item, column.as_fixed_size_list().values())?;
            offsets.ragged(py, values)
        }
        DataType::Struct(fields) => {
            let arrays = PyDict::new(py);
            let structure = column.as_struct();
            for (field, member) in fields.iter().zip(structure.columns()) {
                if arrays.contains(field.name())? {
                    return Err(twice(py, field));
                }
                let member = with_nulls_of(structure, member).or_raise(py)?;
                arrays.set_item(PyString::intern(py, field.name()), delivered(py, field, &member)?)?;
            }
            Ok(arrays.into_any())
        }
        _ => objects::array(py, field, column),
    }
}

/// The error for a structure in which two fields have the same name.
fn twice(py: Python<'_>, field: &Field) -> PyErr {
    let cause = format!("a structure has two fields {:?}, and a dict has one", field.name());
    let error = Error::new(ErrorKind::Unsupported, cause);
    errors::raise(py, &error.hint("read the batch through Arrow: pyarrow.record_batch(batch)"))
}

fn long(offsets: impl Iterator<Item = i64>) -> OffsetBuffer<i64> {
    OffsetBuffer::new(offsets.collect())
}

/// Returns a field of a structure. A value of the result is null if it is null in the field, or if the whole
/// structure is null in its row.
fn with_nulls_of(structure: &StructArray, member: &ArrayRef) -> Result<ArrayRef> {
    // The types that need values, such as numbers and lists, were refused before if they had nulls.
    if structure.null_count() == 0 || needs_values(member.data_type()) {
        return Ok(member.clone());
    }
    let nulls = NullBuffer::union(structure.nulls(), member.logical_nulls().as_ref());
    match member.as_struct_opt() {
        Some(inner) => {
            let (fields, columns) = (inner.fields().clone(), inner.columns().to_vec());
            Ok(Arc::new(StructArray::try_new(fields, columns, nulls).or_fail()?))
        }
        None if *member.data_type() == DataType::Null => Ok(member.clone()),
        None => Ok(make_array(member.to_data().into_builder().nulls(nulls).build().or_fail()?)),
    }
}
