//! Buffers for pixels that are used again.
//!
//! A batch of pixels is tens of megabytes. Taken from the allocator each time, its pages are mapped, faulted in, zeroed
//! and unmapped once per batch; kept, they are written and nothing else.

use std::sync::{Arc, Mutex, PoisonError};

use arrow::buffer::Buffer;

/// Words of a buffer, aligned for every pixel type.
type Words = Vec<u64>;

/// Buffers kept for the next batches.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slabs {
    free: Arc<Mutex<Vec<Words>>>,
    keep: usize,
}

impl Slabs {
    /// Keeps up to `keep` buffers that nobody uses.
    pub(crate) fn new(keep: usize) -> Self {
        Slabs { free: Arc::default(), keep }
    }

    /// A buffer of at least `bytes`. Its content is arbitrary.
    pub(crate) fn take(&self, bytes: usize) -> Slab {
        let words = bytes.div_ceil(size_of::<u64>());
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = free.iter().position(|kept| kept.len() == words).map(|at| free.swap_remove(at));
        drop(free);
        Slab { words: kept.unwrap_or_else(|| vec![0; words]), bytes, home: self.clone() }
    }
}

/// A buffer that goes back to its [`Slabs`] when the last user drops it.
#[derive(Debug)]
pub(crate) struct Slab {
    words: Words,
    bytes: usize,
    home: Slabs,
}

impl Slab {
    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.words)[..self.bytes]
    }

    /// Shortens the buffer to its first `bytes`.
    pub(crate) fn truncate(&mut self, bytes: usize) {
        self.bytes = self.bytes.min(bytes);
    }

    /// The same memory as an Arrow buffer.
    pub(crate) fn into_buffer(self) -> Buffer {
        Buffer::from(bytes::Bytes::from_owner(self))
    }
}

impl AsRef<[u8]> for Slab {
    fn as_ref(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.bytes]
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        let mut free = self.home.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() < self.home.keep {
            free.push(std::mem::take(&mut self.words));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_when_its_last_user_is_gone() {
        let slabs = Slabs::new(1);
        let buffer = slabs.take(100).into_buffer();
        let (first, copy) = (buffer.as_ptr(), buffer.clone());
        drop(buffer);
        let meanwhile = slabs.take(100);
        assert_ne!(meanwhile.as_ref().as_ptr(), first, "somebody still reads it");
        drop(copy);
        let again = slabs.take(100);
        assert_eq!(again.as_ref().as_ptr(), first);
        assert_eq!(again.as_ref().len(), 100);
    }
}
