//! Registers the slots of a loader with the runtime of a device, by an object in Python.
//!
//! A registration ends by a call of Python, while a slot may be dropped on any thread, under any lock, and
//! after the interpreter has ended. So the memory moves into a Python object, and the reference to that
//! object is dropped; on a thread without the interpreter, pyo3 puts this off until a thread has it. Only
//! then the registration ends, and after it the memory is freed.

use std::sync::{Arc, Mutex, PoisonError};

use forebay::bindings::{Pages, Registration, SlotMemory};
use pyo3::prelude::*;

/// A registered slot.
#[pyclass(frozen, module = "forebay._forebay")]
struct Pin {
    registrar: Py<PyAny>,
    address: usize,
    process: u32,
    /// The slot's memory, once nobody uses the slot any longer.
    memory: Mutex<SlotMemory>,
}

impl Drop for Pin {
    fn drop(&mut self) {
        // A forked child does not have the state of the device.
        if self.process != std::process::id() {
            return;
        }
        let ended = Python::try_attach(|py| {
            let ended = self.registrar.call_method1(py, "unregister", (self.address,));
            ended.map_err(|error| error.write_unraisable(py, Some(self.registrar.bind(py)))).is_ok()
        });
        if ended != Some(true) {
            // The device may still know the memory, so nobody else may get it.
            let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::forget(std::mem::take(&mut *memory));
        }
    }
}

/// The registration of a slot, which the slot keeps.
#[derive(Debug)]
struct Pinned(Py<Pin>);

impl Registration for Pinned {
    fn retire(self: Box<Self>, memory: SlotMemory) {
        *self.0.get().memory.lock().unwrap_or_else(PoisonError::into_inner) = memory;
    }
}

/// Whether the memory at an address is registered with a device. The first call for a slot registers it by
/// `registrar.register(address, bytes)`, which returns whether that was possible;
/// `registrar.unregister(address)` is called later.
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
