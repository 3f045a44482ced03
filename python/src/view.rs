//! Makes numpy arrays over memory that is not numpy's, with the functions that numpy exports to C.
//!
//! `numpy.asarray` would take six times as long for each array of each batch, because it asks an object to
//! describe its memory as a text, which it then parses. The functions used here are described in "Array API"
//! in numpy's reference. Their table belongs to numpy's stable interface, so the index of a function in it
//! does not change.
#![allow(unsafe_code, reason = "numpy's interface is a table of C functions")]

use std::ffi::{c_int, c_void};
use std::mem::transmute;
use std::ptr::null_mut;

use pyo3::exceptions::PyImportError;
use pyo3::ffi::{PyObject, PyTypeObject};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyCapsule;

use crate::dense::{Dense, Element};
use crate::memory::Memory;

/// `PyArray_NewFromDescr`. Its arguments are the type, the dtype (which it takes over), the number of
/// dimensions, the shape, the strides, the memory, the flags, and an object for subclasses.
type NewFromDescr = unsafe extern "C" fn(
    *mut PyTypeObject,
    *mut PyObject,
    c_int,
    *const isize,
    *const isize,
    *mut c_void,
    c_int,
    *mut PyObject,
) -> *mut PyObject;

/// `PyArray_SetBaseObject`. Its arguments are the array, and the object that the array keeps alive (which it
/// takes over).
type SetBaseObject = unsafe extern "C" fn(*mut PyObject, *mut PyObject) -> c_int;

/// `NPY_ARRAY_C_CONTIGUOUS`, `NPY_ARRAY_ALIGNED` and `NPY_ARRAY_WRITEABLE`.
///
/// Arrays are writable because a batch owns its memory alone, nothing in the library reads it again, and
/// `torch.from_numpy` warns about arrays that are not writable.
const FLAGS: c_int = 0x1 | 0x100 | 0x400;

/// The entries that are used from numpy's table of C functions.
struct Api {
    array_type: *mut PyTypeObject,
    new_from_descr: NewFromDescr,
    set_base_object: SetBaseObject,
}

// SAFETY: the table and the type are numpy's, which is never unloaded, and are only read.
unsafe impl Send for Api {}
// SAFETY: the table and the type are numpy's, which is never unloaded, and are only read.
unsafe impl Sync for Api {}

impl Api {
    fn get(py: Python<'_>) -> PyResult<&'static Api> {
        static API: PyOnceLock<Api> = PyOnceLock::new();
        API.get_or_try_init(py, || {
            // numpy 2 has the first module name, numpy 1 the second.
            let module =
                py.import("numpy._core.multiarray").or_else(|_| py.import("numpy.core.multiarray"))?;
            let capsule = module.getattr("_ARRAY_API")?.cast_into::<PyCapsule>()?;
            let table = capsule.pointer_checked(None)?.cast::<*mut c_void>();
            // SAFETY: the capsule points to numpy's table, which has more entries than the indices read here.
            let at = |place: usize| unsafe { table.add(place).read() };
            let (array_type, new, set_base) = (at(2), at(94), at(282));
            if array_type.is_null() || new.is_null() || set_base.is_null() {
                return Err(PyImportError::new_err("numpy's table of C functions is empty"));
            }
            // SAFETY: since numpy 1.7, these entries of the table are functions of these types.
            let (new_from_descr, set_base_object) = unsafe {
                (
                    transmute::<*mut c_void, NewFromDescr>(new),
                    transmute::<*mut c_void, SetBaseObject>(set_base),
                )
            };
            Ok(Api { array_type: array_type.cast(), new_from_descr, set_base_object })
        })
    }
}

/// Returns an array over the memory of a block, and keeps the block alive as the array's base. bfloat16
/// values are exposed as 16-bit integers, because numpy does not have the type.
pub(crate) fn array(py: Python<'_>, dense: Dense) -> PyResult<Bound<'_, PyAny>> {
    let api = Api::get(py)?;
    let dtype = dtype(py, dense.element)?;
    let shape: Vec<isize> = dense.shape.iter().map(|side| side.cast_signed()).collect();
    let memory = dense.buffer.as_ptr().cast_mut().cast();
    let base = Bound::new(py, Memory::new(dense))?.into_ptr();
    // SAFETY: the memory contains as many elements as the shape says, without gaps, and belongs to `base`,
    // which the array keeps alive.
    unsafe {
        let array = (api.new_from_descr)(
            api.array_type,
            dtype.into_ptr(),
            shape.len() as c_int,
            shape.as_ptr(),
            null_mut(),
            memory,
            FLAGS,
            null_mut(),
        );
        let base = Bound::from_owned_ptr(py, base);
        let array = Bound::from_owned_ptr_or_err(py, array)?;
        match (api.set_base_object)(array.as_ptr(), base.into_ptr()) {
            0 => Ok(array),
            _ => Err(PyErr::fetch(py)),
        }
    }
}

/// The numpy dtype for an element type.
fn dtype(py: Python<'_>, element: Element) -> PyResult<Bound<'_, PyAny>> {
    static DTYPES: PyOnceLock<Vec<(Element, Py<PyAny>)>> = PyOnceLock::new();
    let made = DTYPES.get_or_try_init(py, || {
        let class = py.import("numpy")?.getattr("dtype")?;
        let dtype = |element: &Element| Ok((*element, class.call1((element.typestr(),))?.unbind()));
        Element::NUMBERS.iter().map(dtype).collect::<PyResult<_>>()
    })?;
    match made.iter().find(|(made, _)| *made == element) {
        Some((_, dtype)) => Ok(dtype.bind(py).clone()),
        None => py.import("numpy")?.call_method1("dtype", (element.typestr(),)),
    }
}
