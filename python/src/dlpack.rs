//! Exports a block of memory as a DLPack capsule, in the unversioned and in the versioned form of the
//! protocol.
//!
//! The capsule is consumed at most once: the consumer renames it to `used_…` and from then on calls the
//! tensor's own deleter. An unconsumed capsule calls the deleter when it is destroyed. The deleter may run on
//! any thread and without the interpreter, so it touches nothing but Arrow memory.

#![allow(unsafe_code, reason = "DLPack is a C protocol of raw pointers")]

use std::ffi::{CStr, c_void};
use std::ptr::{self, NonNull};

use forebay::arrow::buffer::Buffer;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::dense::{Dense, Element};

/// `kDLCPU`: the exported memory is always in the memory of the CPU.
pub(crate) const CPU: i32 = 1;
/// The version of the protocol that the structures in this file follow.
const VERSION: Version = Version { major: 1, minor: 0 };
/// The flag that says that a tensor was copied for its consumer.
const COPIED: u64 = 1 << 1;

const LEGACY: &CStr = c"dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";

#[repr(C)]
struct Device {
    kind: i32,
    id: i32,
}

#[repr(C)]
struct DataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
struct Tensor {
    data: *mut c_void,
    device: Device,
    dimensions: i32,
    data_type: DataType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

/// `DLManagedTensor`: the tensor in the unversioned form of the protocol.
#[repr(C)]
struct Legacy {
    tensor: Tensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Legacy)>,
}

#[repr(C)]
struct Version {
    major: u32,
    minor: u32,
}

/// `DLManagedTensorVersioned`: the tensor in the versioned form of the protocol.
#[repr(C)]
struct Versioned {
    version: Version,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Versioned)>,
    flags: u64,
    tensor: Tensor,
}

/// The memory that a tensor points to: its values, shape and strides. The tensor's deleter frees it.
struct Context {
    _buffer: Buffer,
    shape: Vec<i64>,
    strides: Vec<i64>,
}

/// Whether DLPack has a type for an element; it has none for times.
pub(crate) fn has_type(element: Element) -> bool {
    data_type(element).is_some()
}

fn data_type(element: Element) -> Option<DataType> {
    let (code, bytes) = match element {
        Element::Int(bytes) => (0, bytes),
        Element::UInt(bytes) => (1, bytes),
        Element::Float(bytes) => (2, bytes),
        Element::BFloat16 => (4, 2),
        Element::Bool => (6, 1),
        Element::DateTime(_) | Element::TimeDelta(_) => return None,
    };
    Some(DataType { code, bits: bytes * 8, lanes: 1 })
}

/// A capsule with a tensor over `dense`, named `dltensor_versioned` for consumers of version 1 and `dltensor`
/// for older ones. `None` if DLPack does not have the element type.
pub(crate) fn capsule(
    py: Python<'_>,
    dense: Dense,
    versioned: bool,
    copied: bool,
) -> Option<PyResult<Bound<'_, PyCapsule>>> {
    let data_type = data_type(dense.element)?;
    let shape: Vec<i64> = dense.shape.iter().map(|side| i64::try_from(*side).unwrap_or(i64::MAX)).collect();
    let data = dense.buffer.as_ptr().cast_mut().cast();
    let strides = row_major(&shape);
    let mut context = Box::new(Context { _buffer: dense.buffer, shape, strides });
    let tensor = Tensor {
        data,
        device: Device { kind: CPU, id: 0 },
        dimensions: i32::try_from(context.shape.len()).unwrap_or(i32::MAX),
        data_type,
        shape: context.shape.as_mut_ptr(),
        strides: context.strides.as_mut_ptr(),
        byte_offset: 0,
    };
    let context = Box::into_raw(context).cast();
    Some(if versioned {
        let flags = if copied { COPIED } else { 0 };
        let managed = Versioned { version: VERSION, context, deleter: Some(delete_versioned), flags, tensor };
        let pointer = NonNull::from(Box::leak(Box::new(managed))).cast();
        // SAFETY: the pointer is a `Versioned` in an allocation of its own, as the capsule's name tells
        // consumers. `destroy_versioned` frees it only if no consumer took it over, and may run on any
        // thread.
        unsafe { PyCapsule::new_with_pointer_and_destructor(py, pointer, VERSIONED, Some(destroy_versioned)) }
    } else {
        let managed = Legacy { tensor, context, deleter: Some(delete_legacy) };
        let pointer = NonNull::from(Box::leak(Box::new(managed))).cast();
        // SAFETY: the pointer is a `Legacy` in an allocation of its own, as the capsule's name tells
        // consumers. `destroy_legacy` frees it only if no consumer took it over, and may run on any thread.
        unsafe { PyCapsule::new_with_pointer_and_destructor(py, pointer, LEGACY, Some(destroy_legacy)) }
    })
}

/// The strides of a row-major tensor, in elements. Some consumers refuse tensors without strides.
fn row_major(shape: &[i64]) -> Vec<i64> {
    let mut strides = vec![1; shape.len()];
    for dimension in (1..shape.len()).rev() {
        strides[dimension - 1] = strides[dimension] * shape[dimension].max(1);
    }
    strides
}

unsafe extern "C" fn delete_legacy(managed: *mut Legacy) {
    // SAFETY: both pointers came from `Box` in `capsule`, and the protocol calls a deleter once.
    unsafe {
        let managed = Box::from_raw(managed);
        drop(Box::from_raw(managed.context.cast::<Context>()));
    }
}

unsafe extern "C" fn delete_versioned(managed: *mut Versioned) {
    // SAFETY: both pointers came from `Box` in `capsule`, and the protocol calls a deleter once.
    unsafe {
        let managed = Box::from_raw(managed);
        drop(Box::from_raw(managed.context.cast::<Context>()));
    }
}

unsafe extern "C" fn destroy_legacy(capsule: *mut pyo3::ffi::PyObject) {
    // SAFETY: Python passes the capsule that is being destroyed. The capsule still owns the pointer unless a
    // consumer has renamed it.
    unsafe {
        let managed: *mut Legacy = unconsumed(capsule, LEGACY).cast();
        if !managed.is_null() {
            delete_legacy(managed);
        }
    }
}

unsafe extern "C" fn destroy_versioned(capsule: *mut pyo3::ffi::PyObject) {
    // SAFETY: Python passes the capsule that is being destroyed. The capsule still owns the pointer unless a
    // consumer has renamed it.
    unsafe {
        let managed: *mut Versioned = unconsumed(capsule, VERSIONED).cast();
        if !managed.is_null() {
            delete_versioned(managed);
        }
    }
}

/// The pointer in a capsule that still has its original `name`; null if a consumer has renamed the capsule.
///
/// # Safety
/// `capsule` must be a capsule, and the thread must be attached to the interpreter.
unsafe fn unconsumed(capsule: *mut pyo3::ffi::PyObject, name: &CStr) -> *mut c_void {
    // SAFETY: by the contract above. The capsule is checked to be valid first, so no Python error is set.
    unsafe {
        match pyo3::ffi::PyCapsule_IsValid(capsule, name.as_ptr()) {
            0 => ptr::null_mut(),
            _ => pyo3::ffi::PyCapsule_GetPointer(capsule, name.as_ptr()),
        }
    }
}
