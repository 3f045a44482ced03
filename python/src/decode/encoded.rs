//! The encoded images that a caller passes: bytes, other objects with a buffer, and columns of Arrow.
#![allow(unsafe_code, reason = "the C data interface passes arrays and streams by pointers")]

use forebay::arrow::array::{Array, ArrayRef, AsArray, make_array};
use forebay::arrow::datatypes::DataType;
use forebay::arrow::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use forebay::{Error, Result};
use forebay_arrow::fail::OrFail;
use forebay_arrow::ffi_stream::FFI_ArrowArrayStream;
use forebay_arrow::names::TypeName;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyDict, PyList, PyMemoryView, PyString, PyTuple};

use crate::arguments::refused;
use crate::capsule;
use crate::errors::IntoPython;

const WANTED: &str = "the bytes of an encoded image, a list of them, or an Arrow column of them";

/// The encoded images of one call: a single file, a list of files, or Arrow columns. It keeps their memory
/// alive.
pub(super) enum Encoded<'py> {
    One(Bound<'py, PyBytes>),
    Files(Vec<Option<Bound<'py, PyBytes>>>),
    Columns(Vec<ArrayRef>),
}

impl<'py> Encoded<'py> {
    pub(super) fn read(data: &Bound<'py, PyAny>) -> PyResult<Self> {
        let py = data.py();
        if data.is_instance_of::<PyList>() || data.is_instance_of::<PyTuple>() {
            let files = data.try_iter()?.map(|item| file(&item?)).collect::<PyResult<_>>()?;
            return Ok(Encoded::Files(files));
        }
        if data.hasattr("__arrow_c_array__")? {
            let (schema, array) = data
                .call_method0("__arrow_c_array__")?
                .extract::<(Bound<'_, PyCapsule>, Bound<'_, PyCapsule>)>()?;
            return Ok(Encoded::Columns(vec![column(&schema, &array)?]));
        }
        if data.hasattr("__arrow_c_stream__")? {
            let stream = data.call_method0("__arrow_c_stream__")?.extract::<Bound<'_, PyCapsule>>()?;
            return Ok(Encoded::Columns(chunks(py, &stream)?));
        }
        let is_of_objects =
            |data: &Bound<'py, PyAny>| data.getattr("dtype")?.getattr("hasobject")?.is_truthy();
        if is_of_objects(data).unwrap_or(false) {
            return Encoded::read(&data.call_method0("tolist")?);
        }
        match file(data)? {
            Some(file) => Ok(Encoded::One(file)),
            None => Err(refused(data, "data", WANTED)),
        }
    }

    pub(super) fn is_batch(&self) -> bool {
        !matches!(self, Encoded::One(_))
    }

    /// The bytes of each image; `None` for a null.
    pub(super) fn cells(&self) -> Vec<Option<&[u8]>> {
        match self {
            Encoded::One(file) => vec![Some(file.as_bytes())],
            Encoded::Files(files) => {
                files.iter().map(|file| file.as_ref().map(|file| file.as_bytes())).collect()
            }
            Encoded::Columns(columns) => columns.iter().flat_map(|column| cells(column.as_ref())).collect(),
        }
    }
}

/// Returns the bytes of one image; `None` for a null. `item` is the bytes themselves, or a dict of `bytes`
/// and `path`, as Hugging Face stores images.
fn file<'py>(item: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let item = match item.cast::<PyDict>() {
        Ok(fields) => &fields.get_item("bytes")?.ok_or_else(|| refused(item, "data", WANTED))?,
        Err(_) => item,
    };
    (!item.is_none()).then(|| bytes(item)).transpose()
}

/// Returns the bytes of a file. Python's `bytes` are not copied; the memory of any other object is, because
/// it could change while it is decoded.
fn bytes<'py>(file: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    if let Ok(bytes) = file.cast::<PyBytes>() {
        return Ok(bytes.clone());
    }
    if file.is_instance_of::<PyString>() {
        return Err(refused(file, "data", &format!("{WANTED}, not a path")));
    }
    let view = PyMemoryView::from(file).map_err(|_| refused(file, "data", WANTED))?;
    if view.getattr("format")?.eq("O")? {
        return Err(refused(file, "data", WANTED));
    }
    Ok(view.call_method0("tobytes")?.cast_into::<PyBytes>()?)
}

/// Imports an array through Arrow's C data interface, without a copy.
fn column(schema: &Bound<'_, PyCapsule>, array: &Bound<'_, PyCapsule>) -> PyResult<ArrayRef> {
    let py = array.py();
    let schema = schema.pointer_checked(Some(capsule::SCHEMA))?.cast::<FFI_ArrowSchema>();
    let array = array.pointer_checked(Some(capsule::ARRAY))?.cast::<FFI_ArrowArray>();
    // SAFETY: the protocol says that capsules of these names hold these structures. The array is moved out of
    // its capsule, and a released array is left there; the schema stays in its capsule, which is alive.
    let made = unsafe { from_ffi(FFI_ArrowArray::from_raw(array.as_ptr()), schema.as_ref()) };
    checked(made.or_fail().map(make_array)).or_raise(py)
}

/// Imports the arrays of a stream through Arrow's C data interface, without a copy.
fn chunks(py: Python<'_>, stream: &Bound<'_, PyCapsule>) -> PyResult<Vec<ArrayRef>> {
    let stream = stream.pointer_checked(Some(capsule::STREAM))?.cast::<FFI_ArrowArrayStream>();
    // SAFETY: the protocol says that a capsule of this name holds a stream, which is moved out of it.
    let mut stream = unsafe { FFI_ArrowArrayStream::from_raw(stream.as_ptr()) };
    let broken = || Error::invalid("the Arrow stream of the images cannot be read");
    let (Some(get_schema), Some(get_next)) = (stream.get_schema(), stream.get_next()) else {
        return Err(broken()).or_raise(py);
    };
    let mut schema = FFI_ArrowSchema::empty();
    // SAFETY: the functions are those of the stream, which is alive and not moved, and write a structure that
    // this frame owns.
    if unsafe { get_schema(&raw mut stream, &raw mut schema) } != 0 {
        return Err(broken()).or_raise(py);
    }
    let mut chunks = Vec::new();
    loop {
        let mut array = FFI_ArrowArray::empty();
        // SAFETY: `get_next` belongs to the stream, which is alive and not moved, and writes to `array`,
        // which this frame owns.
        if unsafe { get_next(&raw mut stream, &raw mut array) } != 0 {
            return Err(broken()).or_raise(py);
        }
        if array.is_released() {
            return Ok(chunks);
        }
        // SAFETY: the stream says that its arrays have this schema.
        let made = unsafe { from_ffi(array, &schema) };
        chunks.push(checked(made.or_fail().map(make_array)).or_raise(py)?);
    }
}

/// Refuses an array that does not hold encoded images.
fn checked(array: Result<ArrayRef>) -> Result<ArrayRef> {
    let array = array?;
    match holds_files(array.as_ref()) {
        true => Ok(array),
        false => {
            Err(Error::invalid(format!("data holds {}, not encoded images", TypeName(array.data_type())))
                .hint("images are binary values, or struct<bytes, path>; of a table, pass one column"))
        }
    }
}

fn holds_files(array: &dyn Array) -> bool {
    let content = content(array);
    match content.data_type() {
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            true
        }
        _ => content
            .as_any_dictionary_opt()
            .is_some_and(|dictionary| holds_files(dictionary.values().as_ref())),
    }
}

/// The array with the bytes: the field `bytes` of a `struct<bytes, path>`, or the array itself.
fn content(array: &dyn Array) -> &dyn Array {
    let bytes = array.as_struct_opt().and_then(|fields| fields.column_by_name("bytes"));
    bytes.map_or(array, |bytes| bytes.as_ref())
}

fn cells(array: &dyn Array) -> Vec<Option<&[u8]>> {
    let content = content(array);
    let cells: Vec<Option<&[u8]>> = match content.data_type() {
        DataType::Binary => content.as_binary::<i32>().iter().collect(),
        DataType::LargeBinary => content.as_binary::<i64>().iter().collect(),
        DataType::BinaryView => content.as_binary_view().iter().collect(),
        DataType::FixedSizeBinary(_) => content.as_fixed_size_binary().iter().collect(),
        _ => of_dictionary(content),
    };
    let valid = |(row, cell): (usize, Option<_>)| cell.filter(|_| array.is_valid(row));
    cells.into_iter().enumerate().map(valid).collect()
}

/// Returns the bytes of each row of a dictionary array, in which several rows may share a value.
fn of_dictionary(array: &dyn Array) -> Vec<Option<&[u8]>> {
    let Some(dictionary) = array.as_any_dictionary_opt().filter(|dictionary| !dictionary.values().is_empty())
    else {
        return vec![None; array.len()];
    };
    let values = cells(dictionary.values().as_ref());
    let rows = dictionary.normalized_keys().into_iter().enumerate();
    rows.map(|(row, key)| values[key].filter(|_| array.is_valid(row))).collect()
}
