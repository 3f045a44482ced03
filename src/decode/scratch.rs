//! What a thread keeps from one image to the next: a decoder and the buffers between the stages.

use std::cell::RefCell;

use super::jpeg::Decoder;
use super::output::Output;

/// A buffer that one outlier made larger than this is given back after it: a 12-megapixel photograph, decoded whole, is
/// 36 MB and should not fault its pages in anew for each row; a 178-megapixel one is half a gigabyte per thread.
const KEPT_BYTES: usize = 64 << 20;

thread_local!(static SCRATCH: RefCell<Scratch> = RefCell::default());

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
    /// Lends the calling thread's scratch. Not to be nested.
    pub(super) fn with<T>(work: impl FnOnce(&mut Scratch) -> T) -> T {
        SCRATCH.with_borrow_mut(|scratch| {
            let done = work(scratch);
            scratch.pixels.shrink(KEPT_BYTES);
            scratch.second.shrink(KEPT_BYTES);
            scratch.output.shrink(KEPT_BYTES);
            done
        })
    }
}

/// Bytes whose content is meaningless until written: grown, never cleared.
#[derive(Default)]
pub(super) struct Buffer(Vec<u8>);

impl Buffer {
    /// `bytes` bytes of anything.
    pub(super) fn take(&mut self, bytes: usize) -> &mut [u8] {
        if self.0.len() < bytes {
            // Nothing of the old content is needed, so it is not copied.
            self.0 = Vec::new();
            self.0 = vec![0; bytes];
        }
        &mut self.0[..bytes]
    }

    /// The first `bytes` bytes, as last written.
    pub(super) fn get(&self, bytes: usize) -> &[u8] {
        &self.0[..bytes]
    }

    /// Gives the bytes back if there are more than `kept`.
    pub(super) fn shrink(&mut self, kept: usize) {
        if self.0.len() > kept {
            self.0 = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outlier_is_given_back() {
        Scratch::with(|scratch| scratch.pixels.take(KEPT_BYTES + 1)[KEPT_BYTES] = 1);
        Scratch::with(|scratch| assert_eq!(scratch.pixels.0.capacity(), 0));
        Scratch::with(|scratch| scratch.pixels.take(KEPT_BYTES).fill(7));
        Scratch::with(|scratch| assert_eq!(scratch.pixels.get(2), [7, 7]));
    }
}
