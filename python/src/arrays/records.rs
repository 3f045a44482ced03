//! Lists of structures as Python objects: a list of dicts for each row, for functions of single rows.

use std::sync::Arc;

use forebay::arrow::array::{Array, ArrayRef, AsArray};
use forebay::arrow::datatypes::{DataType, Field};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

use super::objects;

/// Returns the rows of a column that has structures in lists, at any depth; `None` for any other column.
/// Lists become Python lists, structures become dicts, and nulls become `None`, at every depth.
pub(crate) fn list<'py>(
    py: Python<'py>,
    field: &Field,
    column: &ArrayRef,
) -> PyResult<Option<Bound<'py, PyList>>> {
    match has_records(field.data_type(), false) {
        true => PyList::new(py, rows(py, field, column)?).map(Some),
        false => Ok(None),
    }
}

/// Returns the rows of a column of any type as Python objects, in the form that [`list`] describes.
pub(crate) fn of_any<'py>(py: Python<'py>, field: &Field, column: &ArrayRef) -> PyResult<Bound<'py, PyList>> {
    PyList::new(py, rows(py, field, column)?)
}

/// Whether a type contains a list of structures; `in_list` says that the type itself is the item of a list.
fn has_records(data_type: &DataType, in_list: bool) -> bool {
    match data_type {
        DataType::LargeList(item) | DataType::FixedSizeList(item, _) => has_records(item.data_type(), true),
        DataType::Struct(fields) => {
            in_list || fields.iter().any(|field| has_records(field.data_type(), false))
        }
        _ => false,
    }
}

/// Returns a Python object for each row of a column.
fn rows<'py>(py: Python<'py>, field: &Field, column: &ArrayRef) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let none = || py.None().into_bound(py);
    match column.data_type() {
        DataType::LargeList(item) => {
            let lists = column.as_list::<i64>();
            let offsets = lists.value_offsets();
            let (first, last) = (offsets[0], offsets[lists.len()]);
            let items = rows(py, item, &lists.values().slice(first as usize, (last - first) as usize))?;
            let list = |row: usize| match lists.is_null(row) {
                true => Ok(none()),
                false => {
                    let (start, end) = (offsets[row] - first, offsets[row + 1] - first);
                    Ok(PyList::new(py, &items[start as usize..end as usize])?.into_any())
                }
            };
            (0..lists.len()).map(list).collect()
        }
        DataType::FixedSizeList(item, length) => {
            let (lists, length) = (column.as_fixed_size_list(), *length as usize);
            let items = rows(py, item, lists.values())?;
            let list = |row: usize| match lists.is_null(row) {
                true => Ok(none()),
                false => Ok(PyList::new(py, &items[row * length..(row + 1) * length])?.into_any()),
            };
            (0..lists.len()).map(list).collect()
        }
        DataType::Map(entries, _) => {
            let maps = column.as_map();
            let offsets = maps.value_offsets();
            let all: ArrayRef = Arc::new(maps.entries().clone());
            let items = rows(py, entries, &all)?;
            let list = |row: usize| match maps.is_null(row) {
                true => Ok(none()),
                false => {
                    let (start, end) = (offsets[row] as usize, offsets[row + 1] as usize);
                    Ok(PyList::new(py, &items[start..end])?.into_any())
                }
            };
            (0..maps.len()).map(list).collect()
        }
        DataType::Struct(fields) => {
            let structs = column.as_struct();
            let members = fields.iter().zip(structs.columns());
            let members = members
                .map(|(field, column)| Ok((PyString::intern(py, field.name()), rows(py, field, column)?)));
            let members = members.collect::<PyResult<Vec<_>>>()?;
            let dict = |row: usize| {
                if structs.is_null(row) {
                    return Ok(none());
                }
                let dict = PyDict::new(py);
                for (name, values) in &members {
                    dict.set_item(name, &values[row])?;
                }
                Ok(dict.into_any())
            };
            (0..structs.len()).map(dict).collect()
        }
        _ => Ok(objects::list(py, field, column)?.iter().collect()),
    }
}
