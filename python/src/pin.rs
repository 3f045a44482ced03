//! Registers slots (buffers that a loader reuses for its batches) with the driver of a device, through a
//! Python object.
//!
//! A registration is ended by a Python call, but a slot may be dropped on any thread, under any lock, and
//! after the interpreter has ended. So the slot's memory moves into a Python object, and the reference to
//! that object is dropped; on a thread without the interpreter, pyo3 delays this until a thread has it. The
//! object's destructor first ends the registration and then frees the memory.

use std::sync::{Arc, Mutex, PoisonError};

use forebay::bindings::{Pages, Registration, SlotMemory};
use pyo3::prelude::*;

/// A registered slot, whose destructor ends the registration.
#[pyclass(frozen, module = "forebay._forebay")]
struct Pin {
    registrar: Py<PyAny>,
    address: usize,
    process: u32,
    /// The slot's memory, which is moved here when the slot is no longer used; empty until then.
    memory: Mutex<SlotMemory>,
}

impl Drop for Pin {
    fn drop(&mut self) {
        // A forked child cannot use the parent's device, so it leaves the registration alone.
        if self.process != std::process::id() {
            return;
        }
        let ended = Python::try_attach(|py| {
            let ended = self.registrar.call_method1(py, "unregister", (self.address,));
            ended.map_err(|error| error.write_unraisable(py, Some(self.registrar.bind(py)))).is_ok()
        });
        if ended != Some(true) {
            // The memory may still be registered with the device, so it is never freed.
            let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::forget(std::mem::take(&mut *memory));
        }
    }
}

/// The registration that a slot owns. When the slot is no longer used, its memory moves into the [`Pin`].
#[derive(Debug)]
struct Pinned(Py<Pin>);

impl Registration for Pinned {
    fn retire(self: Box<Self>, memory: SlotMemory) {
        *self.0.get().memory.lock().unwrap_or_else(PoisonError::into_inner) = memory;
    }
}

/// Whether the memory of a slot is registered with a device. The first call for a slot registers it with
/// `registrar.register(address, bytes)`, which returns whether it succeeded; the registration is ended with
/// `registrar.unregister(address)`.
pub(crate) fn is_pinned(
    py: Python<'_>,
    pages: Option<Arc<Pages>>,
    registrar: &Bound<'_, PyAny>,
) -> PyResult<bool> {
    let Some(pages) = pages else { return Ok(false) };
    if pages.claim() {
        let (address, bytes) = (pages.address(), pages.bytes());
        if !registrar.call_method1("register", (address, bytes))?.extract::<bool>()? {
            return Ok(false);
        }
        let (registrar, process) = (registrar.clone().unbind(), std::process::id());
        let pin = Pin { registrar, address, process, memory: Mutex::default() };
        pages.registered(Box::new(Pinned(Py::new(py, pin)?)));
    }
    Ok(pages.are_registered())
}
