//! The Arrow PyCapsule protocol, which passes schemas and batches to pyarrow, polars, DuckDB and others.

use forebay::Error;
use forebay::arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchReader, StructArray};
use forebay::arrow::datatypes::{DataType, Field, FieldRef, Schema};
use forebay::arrow::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use forebay_arrow::fail::OrFail;
use forebay_arrow::ffi_stream::FFI_ArrowArrayStream;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::errors::IntoPython;

/// The names of capsules with a schema, an array and a stream, as the protocol prescribes them.
pub(crate) const SCHEMA: &std::ffi::CStr = c"arrow_schema";
pub(crate) const ARRAY: &std::ffi::CStr = c"arrow_array";
pub(crate) const STREAM: &std::ffi::CStr = c"arrow_array_stream";

/// A capsule with a schema, and a capsule with an array of this schema.
pub(crate) type Pair<'py> = (Bound<'py, PyCapsule>, Bound<'py, PyCapsule>);

/// Refuses a column if a name in it has a zero byte, because Arrow's C interface ends each text at the first
/// zero byte. The name may be that of the column, of a field in it, or of a time zone.
fn check_names(py: Python<'_>, column: &Field) -> PyResult<()> {
    let Some((what, name)) = unspoken(column) else { return Ok(()) };
    let (name_of, next) = match what {
        Named::Column => ("its name", "give it another name with `rename`"),
        Named::Field => ("the name of a field in it", LEFT_OUT),
        Named::Zone => ("its time zone", LEFT_OUT),
    };
    let cause = format!(
        "column {:?} has a zero byte in {name_of}, {name:?}, which Arrow cannot hand over",
        column.name()
    );
    Err(Error::invalid(cause).hint(next)).or_raise(py)
}

/// The remedy for a name inside a column, which no option can change.
const LEFT_OUT: &str = "leave it out with `columns`, or read it as numpy has it";

/// The part of a column whose name cannot be passed to Arrow.
#[derive(PartialEq)]
enum Named {
    Column,
    Field,
    Zone,
}

/// Finds the first name with a zero byte, in the name of a field or in the fields of its type at any depth.
fn unspoken(field: &Field) -> Option<(Named, &str)> {
    if field.name().contains('\0') {
        return Some((Named::Column, field.name()));
    }
    match field.data_type() {
        DataType::Timestamp(_, Some(zone)) => zone.contains('\0').then(|| (Named::Zone, &**zone)),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => inside(std::slice::from_ref(item)),
        DataType::Struct(fields) => inside(fields),
        _ => None,
    }
}

fn inside(fields: &[FieldRef]) -> Option<(Named, &str)> {
    let (what, name) = fields.iter().find_map(|field| unspoken(field))?;
    Some((if what == Named::Column { Named::Field } else { what }, name))
}

/// A schema as an `arrow_schema` capsule.
pub(crate) fn schema<'py>(py: Python<'py>, schema: &Schema) -> PyResult<Bound<'py, PyCapsule>> {
    schema.fields().iter().try_for_each(|field| check_names(py, field))?;
    let exported = FFI_ArrowSchema::try_from(schema).or_fail().or_raise(py)?;
    PyCapsule::new_with_value(py, exported, SCHEMA)
}

/// The type of one column as an `arrow_schema` capsule.
pub(crate) fn field<'py>(py: Python<'py>, field: &Field) -> PyResult<Bound<'py, PyCapsule>> {
    check_names(py, field)?;
    let exported = FFI_ArrowSchema::try_from(field).or_fail().or_raise(py)?;
    PyCapsule::new_with_value(py, exported, SCHEMA)
}

/// A batch as a struct array that shares its memory.
pub(crate) fn batch<'py>(py: Python<'py>, batch: &RecordBatch) -> PyResult<Pair<'py>> {
    let structs = StructArray::from(batch.clone());
    let array = FFI_ArrowArray::new(&structs.to_data());
    Ok((schema(py, batch.schema_ref())?, PyCapsule::new_with_value(py, array, ARRAY)?))
}

/// A reader of batches as an `arrow_array_stream` capsule.
pub(crate) fn stream<'py>(
    py: Python<'py>,
    reader: Box<dyn RecordBatchReader + Send>,
) -> PyResult<Bound<'py, PyCapsule>> {
    reader.schema().fields().iter().try_for_each(|field| check_names(py, field))?;
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(reader), STREAM)
}

/// One column as an array that shares its memory.
pub(crate) fn column<'py>(py: Python<'py>, of: &Field, column: &ArrayRef) -> PyResult<Pair<'py>> {
    let array = FFI_ArrowArray::new(&column.to_data());
    Ok((field(py, of)?, PyCapsule::new_with_value(py, array, ARRAY)?))
}
