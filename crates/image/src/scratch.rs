//! Keeps a JPEG decoder and buffers for decoded pixels in each thread, so that every image reuses them.

use std::cell::RefCell;

use super::jpeg::Decoder;
use super::output::Stages;

// The value is boxed, because little memory is reserved for the thread-local variables of a Python extension,
// and all libraries of the process share it.
thread_local!(static SCRATCH: RefCell<Box<Scratch>> = RefCell::default());

/// The decoder and the buffers of one thread.
#[derive(Default)]
pub(super) struct Scratch {
    pub(super) decoder: Decoder,
    pub(super) stages: Stages,
}

impl Scratch {
    /// Runs `work` with the decoder and buffers of the calling thread. Calls must not be nested. If the
    /// memory is more than `kept` bytes afterwards, it is freed.
    pub(super) fn with<T>(kept: u64, work: impl FnOnce(&mut Scratch) -> T) -> T {
        SCRATCH.with_borrow_mut(|scratch| {
            let done = work(scratch);
            if scratch.bytes() > kept {
                scratch.stages = Stages::default();
                scratch.decoder.free();
            }
            done
        })
    }

    fn bytes(&self) -> u64 {
        self.stages.bytes() + self.decoder.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outlier_is_given_back() {
        const KEPT: u64 = 1000;
        Scratch::with(KEPT, |scratch| scratch.stages.pixels.take(600)[0] = 1);
        Scratch::with(KEPT, |scratch| scratch.stages.second.take(401)[0] = 1);
        Scratch::with(KEPT, |scratch| assert_eq!(scratch.bytes(), 0));
        Scratch::with(KEPT, |scratch| scratch.stages.pixels.take(1000).fill(7));
        Scratch::with(KEPT, |scratch| assert_eq!(scratch.stages.pixels.get(2), [7, 7]));
    }
}
