//! Columns of types that numpy does not have, as Python objects: the only place where values are copied one
//! by one.
//!
//! Text is `str`, binary is `bytes`, a decimal is `decimal.Decimal`, a null is `None`. If such columns must
//! be fast, read the batch through Arrow.

use forebay::arrow::array::{Array, ArrayRef, AsArray};
use forebay::arrow::datatypes::{
    DataType, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, Field,
};
use forebay::{Error, ErrorKind, Place};
use forebay_arrow::names::TypeName;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};

use super::memory;
use crate::dense::{self, Dense, Element};
use crate::{errors, view};

/// The number of texts whose Python objects are remembered for later rows of a column: enough for the names
/// of categories, and few enough for the processor's first-level cache.
const KNOWN_TEXTS: usize = 64;

/// Returns a column as a one-dimensional numpy array of Python objects.
pub(crate) fn array<'py>(py: Python<'py>, field: &Field, column: &ArrayRef) -> PyResult<Bound<'py, PyAny>> {
    match texts(py, column) {
        Some(texts) => texts.array(py),
        None => object_array(py, values(py, field, column)?.into_iter().map(Ok)),
    }
}

/// Returns a column as a list of Python objects.
pub(crate) fn list<'py>(py: Python<'py>, field: &Field, column: &ArrayRef) -> PyResult<Bound<'py, PyList>> {
    PyList::new(py, values(py, field, column)?)
}

/// Returns a one-dimensional numpy array of these objects.
pub(crate) fn object_array<'py>(
    py: Python<'py>,
    values: impl ExactSizeIterator<Item = PyResult<Bound<'py, PyAny>>>,
) -> PyResult<Bound<'py, PyAny>> {
    let values = values.collect::<PyResult<Vec<_>>>()?;
    let (rows, list) = (values.len(), PyList::new(py, values)?);
    // `numpy.array` would make a two-dimensional array of lists of equal length.
    py.import("numpy")?.call_method1("fromiter", (list, "O", rows))
}

/// Returns a Python object for each row of a column.
fn values<'py>(py: Python<'py>, field: &Field, column: &ArrayRef) -> PyResult<Vec<Bound<'py, PyAny>>> {
    if let Some(texts) = texts(py, column) {
        return Ok(texts.rows());
    }
    let mut values = match column.data_type() {
        DataType::Binary => binary(py, column.as_binary::<i32>().iter()),
        DataType::LargeBinary => binary(py, column.as_binary::<i64>().iter()),
        DataType::BinaryView => binary(py, column.as_binary_view().iter()),
        DataType::FixedSizeBinary(_) => binary(py, column.as_fixed_size_binary().iter()),
        DataType::Null => vec![py.None().into_bound(py); column.len()],
        DataType::Decimal32(..) => {
            let numbers = column.as_primitive::<Decimal32Type>();
            decimals(py, (0..numbers.len()).map(|row| numbers.value_as_string(row)))?
        }
        DataType::Decimal64(..) => {
            let numbers = column.as_primitive::<Decimal64Type>();
            decimals(py, (0..numbers.len()).map(|row| numbers.value_as_string(row)))?
        }
        DataType::Decimal128(..) => {
            let numbers = column.as_primitive::<Decimal128Type>();
            decimals(py, (0..numbers.len()).map(|row| numbers.value_as_string(row)))?
        }
        DataType::Decimal256(..) => {
            let numbers = column.as_primitive::<Decimal256Type>();
            decimals(py, (0..numbers.len()).map(|row| numbers.value_as_string(row)))?
        }
        DataType::Dictionary(..) => {
            let dictionary = column.as_any_dictionary();
            let distinct = values(py, &unnamed(dictionary.values().data_type()), dictionary.values())?;
            let none = py.None().into_bound(py);
            let keys = dictionary.normalized_keys();
            keys.into_iter().map(|key| distinct.get(key).unwrap_or(&none).clone()).collect()
        }
        _ => scalars(py, field, column)?,
    };
    if let Some(nulls) = column.logical_nulls() {
        for (value, valid) in values.iter_mut().zip(nulls.iter()) {
            if !valid {
                *value = py.None().into_bound(py);
            }
        }
    }
    Ok(values)
}

/// Python objects that several rows may share, and for each row the index of its object.
struct SharedObjects<'py> {
    objects: Vec<Bound<'py, PyAny>>,
    /// For each row the index of its object, in the integer type that numpy uses for indices.
    indices: Vec<i64>,
}

impl<'py> SharedObjects<'py> {
    /// Returns the object of each row.
    fn rows(self) -> Vec<Bound<'py, PyAny>> {
        self.indices.iter().map(|&index| self.objects[index as usize].clone()).collect()
    }

    /// Returns a numpy array with the object of each row. numpy fills the array about three times as fast as
    /// Python fills a list.
    fn array(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let (rows, each_its_own) = (self.indices.len(), self.objects.len() == self.indices.len());
        let objects = object_array(py, self.objects.into_iter().map(Ok))?;
        if each_its_own {
            return Ok(objects);
        }
        let (buffer, shape, element) = (self.indices.into(), vec![rows], Element::Int(8));
        objects.call_method1("take", (memory::view(py, Dense { buffer, shape, element })?,))
    }
}

/// Returns the Python objects for the rows of a column of text; `None` for any other column.
fn texts<'py>(py: Python<'py>, column: &ArrayRef) -> Option<SharedObjects<'py>> {
    match column.data_type() {
        DataType::Utf8 => Some(shared(py, column.as_string::<i32>().iter())),
        DataType::LargeUtf8 => Some(shared(py, column.as_string::<i64>().iter())),
        DataType::Utf8View => Some(shared(py, column.as_string_view().iter())),
        _ => None,
    }
}

/// Makes Python objects of texts. A text that equals a recent one shares its object, because most columns
/// hold few different names.
fn shared<'a, 'py>(
    py: Python<'py>,
    rows: impl ExactSizeIterator<Item = Option<&'a str>>,
) -> SharedObjects<'py> {
    let mut known = [None::<(&str, i64)>; KNOWN_TEXTS];
    let mut none = None;
    let (mut objects, mut indices) = (Vec::new(), Vec::with_capacity(rows.len()));
    for row in rows {
        let mut add = |object: Bound<'py, PyAny>| {
            objects.push(object);
            objects.len() as i64 - 1
        };
        let index = match row {
            Some(text) => {
                let last = text.as_bytes().last().map_or(0, |byte| usize::from(*byte));
                let place = &mut known[(text.len() ^ last) % KNOWN_TEXTS];
                match place {
                    Some((before, index)) if *before == text => *index,
                    _ => place.insert((text, add(PyString::new(py, text).into_any()))).1,
                }
            }
            None => *none.get_or_insert_with(|| add(py.None().into_bound(py))),
        };
        indices.push(index);
    }
    SharedObjects { objects, indices }
}

fn binary<'a, 'py>(py: Python<'py>, rows: impl Iterator<Item = Option<&'a [u8]>>) -> Vec<Bound<'py, PyAny>> {
    rows.map(|row| PyBytes::new(py, row.unwrap_or_default()).into_any()).collect()
}

fn decimals<'py>(py: Python<'py>, rows: impl Iterator<Item = String>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let class = py.import("decimal")?.getattr("Decimal")?;
    rows.map(|digits| class.call1((digits,))).collect()
}

/// Returns the numbers or times of a column as Python objects. In place of a null
/// the result has an arbitrary value, which the caller has to replace.
fn scalars<'py>(py: Python<'py>, field: &Field, column: &ArrayRef) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let Some(Dense { buffer, shape, element }) = dense::dense(field, column.as_ref()) else {
        let error = Error::new(
            ErrorKind::Unsupported,
            format!("type {} has no numpy array", TypeName(column.data_type())),
        )
        .at(Place::default().column(field.name().as_str()))
        .hint("read it through Arrow: pyarrow.record_batch(batch)");
        return Err(errors::raise(py, &error));
    };
    let array = view::array(py, Dense { buffer, shape, element })?;
    array.call_method0("tolist")?.extract()
}

fn unnamed(data_type: &DataType) -> Field {
    Field::new("", data_type.clone(), true)
}
