//! A decoder and the buffers between the stages, which a thread keeps from one image to the next.

use std::cell::RefCell;

use super::jpeg::Decoder;
use super::output::Output;

// Boxed: a wheel shares the room for variables of threads with all other libraries of its process.
thread_local!(static SCRATCH: RefCell<Box<Scratch>> = RefCell::default());

/// One thread's decoder and buffers.
#[derive(Default)]
pub(super) struct Scratch {
    pub(super) decoder: Decoder,
    pub(super) output: Output,
    /// Decoded pixels.
    pub(super) pixels: Buffer,
    /// Decoded pixels in their second form: turned, or of fewer bits.
    pub(super) second: Buffer,
}

impl Scratch {
    /// Lends the calling thread's scratch. Not to be nested. Buffers that are larger than `kept` bytes together
    /// afterwards are freed.
    pub(super) fn with<T>(kept: u64, work: impl FnOnce(&mut Scratch) -> T) -> T {
        SCRATCH.with_borrow_mut(|scratch| {
            let done = work(scratch);
            if scratch.bytes() > kept {
                (scratch.pixels, scratch.second) = Default::default();
                scratch.output = Output::default();
                scratch.decoder.free();
            }
            done
        })
    }

    fn bytes(&self) -> u64 {
        self.pixels.bytes() + self.second.bytes() + self.output.bytes() + self.decoder.bytes()
    }
}

/// Bytes that a buffer may skip, so that it begins where a 16-bit number may.
const SLACK: usize = align_of::<u16>() - 1;

/// Bytes whose content is meaningless until written: grown, never cleared. They begin where a 16-bit number may.
#[derive(Default)]
pub(super) struct Buffer(Vec<u8>);

impl Buffer {
    /// `bytes` bytes of arbitrary content.
    pub(super) fn take(&mut self, bytes: usize) -> &mut [u8] {
        if self.bytes() < bytes as u64 {
            // Nothing of the old content is needed, so it is not copied.
            self.0 = Vec::new();
            self.0 = vec![0; bytes + SLACK];
        }
        let start = self.start();
        &mut self.0[start..start + bytes]
    }

    /// The first `bytes` bytes, as last written.
    pub(super) fn get(&self, bytes: usize) -> &[u8] {
        &self.0[self.start()..][..bytes]
    }

    /// Bytes that it holds.
    pub(super) fn bytes(&self) -> u64 {
        self.0.len().saturating_sub(SLACK) as u64
    }

    fn start(&self) -> usize {
        self.0.as_ptr().align_offset(align_of::<u16>()).min(SLACK).min(self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outlier_is_given_back() {
        const KEPT: u64 = 1000;
        Scratch::with(KEPT, |scratch| scratch.pixels.take(600)[0] = 1);
        Scratch::with(KEPT, |scratch| scratch.second.take(401)[0] = 1);
        Scratch::with(KEPT, |scratch| assert_eq!(scratch.bytes(), 0));
        Scratch::with(KEPT, |scratch| scratch.pixels.take(1000).fill(7));
        Scratch::with(KEPT, |scratch| assert_eq!(scratch.pixels.get(2), [7, 7]));
    }
}
