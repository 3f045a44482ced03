//! One column of a batch, for DLPack, Arrow and other protocols.

use forebay::arrow::array::ArrayRef;
use forebay::arrow::buffer::Buffer;
use forebay::arrow::datatypes::FieldRef;
use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};

use crate::arrays::{self, nulls};
use crate::dense::{self, Dense};
use crate::{capsule, dlpack, errors, schema};

/// Base class of :class:`forebay.Column`, which adds the buffer protocol.
#[pyclass(frozen, subclass, module = "forebay._forebay")]
pub(crate) struct Column {
    field: FieldRef,
    array: ArrayRef,
    /// The origin of the column's batch, which decides the remedies that an error about a null suggests.
    of: nulls::BatchOrigin,
}

#[pymethods]
impl Column {
    /// The column `name` of `batch`.
    #[new]
    fn new(batch: &crate::batch::Batch, name: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (field, array) = batch.lookup(name.py(), name)?;
        Ok(Column { field: field.clone(), array: array.clone(), of: batch.of })
    }

    /// Name of the column.
    #[getter]
    fn name(&self) -> &str {
        self.field.name()
    }

    /// Type of an element as numpy writes it, or "bfloat16"; ``None`` if the column is not one block of
    /// memory.
    #[getter]
    fn element(&self) -> Option<&'static str> {
        dense::layout(&self.field).map(|(element, _)| element.name())
    }

    /// Number of nulls in the column.
    #[getter]
    fn null_count(&self) -> usize {
        self.array.logical_null_count()
    }

    fn __len__(&self) -> usize {
        self.array.len()
    }

    fn __repr__(&self) -> String {
        format!(
            "<forebay.Column {:?}: {}, {} rows>",
            self.name(),
            schema::describe(&self.field),
            self.array.len()
        )
    }

    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        &self,
        py: Python<'py>,
        dtype: Option<Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let array = arrays::array(py, &self.field, &self.array, self.of)?;
        if array.is_instance_of::<PyDict>() {
            let name = self.name();
            return Err(PyTypeError::new_err(format!(
                "column {name:?} is a structure, which is not an array (take a field of batch[{name:?}])"
            )));
        }
        let array = py.import("numpy")?.call_method1("asarray", (array, &dtype))?;
        match copy {
            Some(true) => array.call_method0("copy"),
            _ => Ok(array),
        }
    }

    /// `(kDLCPU, 0)`, because batches are in host memory.
    fn __dlpack_device__(&self) -> (i32, i32) {
        (dlpack::CPU, 0)
    }

    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        if stream.is_some() {
            return Err(PyValueError::new_err(
                "a column is in host memory, which has no streams (pass stream=None)",
            ));
        }
        if dl_device.is_some_and(|device| device != (dlpack::CPU, 0)) {
            return Err(PyBufferError::new_err("a column is in host memory (move it with the framework)"));
        }
        let mut dense = self.block(py)?;
        let copied = copy == Some(true);
        if copied {
            dense.buffer = Buffer::from(dense.buffer.as_slice());
        }
        let versioned = max_version.is_some_and(|(major, _)| major >= 1);
        let kind = dense.element;
        dlpack::capsule(py, dense, versioned, copied)
            .unwrap_or_else(|| Err(errors::internal(&format!("no DLPack type for {kind:?}"))))
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<capsule::Pair<'py>> {
        // The protocol permits any schema that is close to the requested one; the consumer casts the column.
        let _ = requested_schema;
        capsule::column(py, &self.field, &self.array)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        capsule::field(py, &self.field)
    }
}

impl Column {
    /// Returns the column as the block of memory that DLPack passes on, if DLPack has its type.
    fn block(&self, py: Python<'_>) -> PyResult<Dense> {
        if dense::layout(&self.field).is_some_and(|(element, _)| dlpack::has_type(element)) {
            nulls::refuse(py, &self.field, self.array.as_ref(), self.of)?;
            if let Some(dense) = dense::dense(&self.field, self.array.as_ref()) {
                return Ok(dense);
            }
        }
        Err(PyBufferError::new_err(format!(
            "column {:?} is {}, which DLPack has no type for (use batch[{:?}], or read the batch through Arrow)",
            self.name(),
            schema::describe(&self.field),
            self.name()
        )))
    }
}
