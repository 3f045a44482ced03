//! The gate of a loader's row cache. Threads enter it before they write to the cache's folder. Once the gate
//! is closed, no thread can enter, so the folder can be removed after the loader was closed.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[derive(Debug, Default)]
pub(super) struct Gate {
    state: Mutex<GateState>,
    left: Condvar,
}

#[derive(Debug, Default)]
struct GateState {
    inside: usize,
    is_closed: bool,
}

/// The right to write to the folder, until this value is dropped.
#[derive(Debug)]
pub(super) struct Pass(Arc<Gate>);

impl Gate {
    /// Gives the right to write; `None` once the gate is closed.
    pub(super) fn enter(self: &Arc<Self>) -> Option<Pass> {
        let mut state = self.state();
        if state.is_closed {
            return None;
        }
        state.inside += 1;
        Some(Pass(self.clone()))
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state().is_closed
    }

    /// Closes the gate, and waits until all threads have finished writing, but at most for `patience`.
    pub(super) fn close(&self, patience: Duration) {
        let mut state = self.state();
        state.is_closed = true;
        drop(self.left.wait_timeout_while(state, patience, |state| state.inside > 0));
    }

    fn state(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pass {
    /// Whether the gate is closed, so that its closing waits for this pass to be dropped.
    pub(super) fn is_closing(&self) -> bool {
        self.0.is_closed()
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.0.state().inside -= 1;
        self.0.left.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Instant;

    use super::*;

    #[test]
    #[allow(clippy::disallowed_methods, reason = "one that writes takes its time")]
    fn closing_waits_for_those_inside_and_lets_none_in() {
        let gate = Arc::new(Gate::default());
        let pass = gate.enter().expect("it is open");
        let (began, short) = (Instant::now(), Duration::from_millis(50));
        gate.close(short);
        assert!(began.elapsed() >= short, "one is inside");
        assert!(gate.enter().is_none() && gate.is_closed());

        let inside = thread::spawn(move || {
            thread::sleep(short);
            drop(pass);
        });
        let began = Instant::now();
        gate.close(Duration::from_mins(1));
        assert!(began.elapsed() < Duration::from_secs(30), "until it is out, and no longer");
        inside.join().unwrap();
    }
}
