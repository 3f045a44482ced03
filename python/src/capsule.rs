//! The Arrow PyCapsule protocol: schemas and batches to pyarrow, polars, DuckDB and others.

use forebay::Error;
use forebay::arrow::array::{Array, ArrayRef, RecordBatch, StructArray};
use forebay::arrow::datatypes::{Field, Schema};
use forebay::arrow::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use forebay::internals::error::OrFail;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::errors::IntoPython;

/// The names that the protocol prescribes.
const SCHEMA: &std::ffi::CStr = c"arrow_schema";
const ARRAY: &std::ffi::CStr = c"arrow_array";

/// A pair of capsules, schema first.
pub(crate) type Pair<'py> = (Bound<'py, PyCapsule>, Bound<'py, PyCapsule>);

/// Refuses a name that Arrow's interface, whose texts end at the first zero byte, cannot hand over.
fn check_name(py: Python<'_>, field: &Field) -> PyResult<()> {
    let refusal = || {
        Error::invalid(format!(
            "column {:?} has a zero byte in its name, which Arrow cannot hand over",
            field.name()
        ))
        .hint("give it another name with `rename`")
    };
    if field.name().contains('\0') { Err(refusal()).or_raise(py) } else { Ok(()) }
}

/// A schema as an `arrow_schema` capsule.
pub(crate) fn schema<'py>(py: Python<'py>, schema: &Schema) -> PyResult<Bound<'py, PyCapsule>> {
    schema.fields().iter().try_for_each(|field| check_name(py, field))?;
    let exported = FFI_ArrowSchema::try_from(schema).or_fail().or_raise(py)?;
    PyCapsule::new_with_value(py, exported, SCHEMA)
}

/// The type of one column as an `arrow_schema` capsule.
pub(crate) fn field<'py>(py: Python<'py>, field: &Field) -> PyResult<Bound<'py, PyCapsule>> {
    check_name(py, field)?;
    let exported = FFI_ArrowSchema::try_from(field).or_fail().or_raise(py)?;
    PyCapsule::new_with_value(py, exported, SCHEMA)
}

/// A batch as a struct array that shares its memory.
pub(crate) fn batch<'py>(py: Python<'py>, batch: &RecordBatch) -> PyResult<Pair<'py>> {
    let structs = StructArray::from(batch.clone());
    let array = FFI_ArrowArray::new(&structs.to_data());
    Ok((schema(py, batch.schema_ref())?, PyCapsule::new_with_value(py, array, ARRAY)?))
}

/// One column as an array that shares its memory.
pub(crate) fn column<'py>(py: Python<'py>, of: &Field, column: &ArrayRef) -> PyResult<Pair<'py>> {
    let array = FFI_ArrowArray::new(&column.to_data());
    Ok((field(py, of)?, PyCapsule::new_with_value(py, array, ARRAY)?))
}
