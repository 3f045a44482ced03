//! A decoder and the buffers between the stages, which a thread reuses for each image.

use std::cell::RefCell;

use super::jpeg::Decoder;
use super::output::Stages;

// The value is boxed, because a wheel shares the memory for thread-local variables with all other libraries
// of its process.
thread_local!(static SCRATCH: RefCell<Box<Scratch>> = RefCell::default());

/// The decoder and the buffers of one thread.
#[derive(Default)]
pub(super) struct Scratch {
    pub(super) decoder: Decoder,
    pub(super) stages: Stages,
}

impl Scratch {
    /// Lends the calling thread's scratch. Calls must not be nested. Buffers that have more than `kept` bytes
    /// together afterwards are freed.
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
