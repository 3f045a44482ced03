//! Arrow memory as an object that numpy can view.

use std::ffi::c_char;

use forebay::arrow::buffer::Buffer;
use pyo3::exceptions::PyAttributeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyString, PyTuple};

use crate::dense::{Dense, Element};

/// `NPY_ARRAY_C_CONTIGUOUS`, `NPY_ARRAY_ALIGNED`, `NPY_ARRAY_NOTSWAPPED` and `NPY_ARRAY_WRITEABLE`.
const FLAGS: i32 = 0x1 | 0x100 | 0x200 | 0x400;

/// `PyArrayInterface`, as numpy's reference describes it, with its pointers as numbers.
#[repr(C)]
struct ArrayInterface {
    /// 2, to tell that it is one.
    two: i32,
    dimensions: i32,
    kind: c_char,
    item_bytes: i32,
    flags: i32,
    shape: usize,
    /// Null: rows lie one after the other.
    strides: usize,
    data: usize,
    description: usize,
}

/// A block of memory that numpy views through its array interface, and that stays alive as the view's base.
///
/// It is writable: a batch owns its memory alone, nothing in the library reads it again, and
/// `torch.from_numpy` warns about arrays that are not.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct Memory {
    dense: Dense,
}

impl Memory {
    pub(crate) fn new(dense: Dense) -> Self {
        Memory { dense }
    }

    /// One dimension of `buffer`, as offsets or values of a list are.
    pub(crate) fn flat(buffer: Buffer, element: Element) -> Self {
        let rows = buffer.len() / element.bytes();
        Memory { dense: Dense { buffer, shape: vec![rows], element } }
    }
}

#[pymethods]
impl Memory {
    /// numpy's array interface in C, which takes less time than the one in Python, and has no units of time.
    #[getter]
    #[allow(
        deprecated,
        reason = "the capsule has no name, and the functions that are not deprecated ask for one"
    )]
    fn __array_struct__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let Dense { buffer, shape, element } = &self.dense;
        // Behind the byte order.
        let kind = element.typestr().as_bytes()[1];
        if matches!(element, Element::DateTime(_) | Element::TimeDelta(_)) {
            return Err(PyAttributeError::new_err("times have an __array_interface__"));
        }
        let interface = ArrayInterface {
            two: 2,
            dimensions: shape.len() as i32,
            kind: kind as c_char,
            item_bytes: element.bytes() as i32,
            flags: FLAGS,
            // numpy keeps this object beside the capsule.
            shape: shape.as_ptr() as usize,
            strides: 0,
            data: buffer.as_ptr() as usize,
            description: 0,
        };
        PyCapsule::new(py, interface, None)
    }

    /// numpy's array interface, version 3.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let interface = PyDict::new(py);
        let read_only = false;
        interface.set_item(intern!(py, "data"), (self.dense.buffer.as_ptr() as usize, read_only))?;
        interface.set_item(intern!(py, "shape"), PyTuple::new(py, &self.dense.shape)?)?;
        interface.set_item(intern!(py, "typestr"), PyString::intern(py, self.dense.element.typestr()))?;
        interface.set_item(intern!(py, "version"), 3)?;
        Ok(interface)
    }

    fn __repr__(&self) -> String {
        format!("<forebay memory: {:?} of {}>", self.dense.shape, self.dense.element.typestr())
    }
}
