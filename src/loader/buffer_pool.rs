//! Reused buffers for decoded columns.
//!
//! A batch of images is tens of megabytes. If it is allocated each time, its pages are mapped, faulted in, zeroed and
//! unmapped once per batch; if it is kept, they are only written.
//!
//! While a batch is made its buffer is [split](PooledBuffer::split) among tasks, each of which owns its rows' slots, and
//! [joined](PooledBuffer::join) again by the last: without a copy and without a lock.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Bytes, BytesMut};

use crate::arrow::buffer::Buffer;

/// Buffers kept for the next batches.
#[derive(Clone, Debug, Default)]
pub(crate) struct BufferPool {
    free: Arc<Mutex<Vec<BytesMut>>>,
    keep: usize,
}

impl BufferPool {
    /// Keeps up to `keep` unused buffers.
    pub(crate) fn new(keep: usize) -> Self {
        BufferPool { free: Arc::default(), keep }
    }

    /// A buffer of `bytes`. Its content is arbitrary.
    pub(crate) fn take(&self, bytes: usize) -> PooledBuffer {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        // The last one that came back may still be in the processor's cache.
        let kept = free.iter().rposition(|kept| kept.len() == bytes).map(|at| free.remove(at));
        drop(free);
        PooledBuffer {
            buffer: kept.unwrap_or_else(|| BytesMut::zeroed(bytes)),
            used: bytes,
            pool: self.clone(),
        }
    }
}

/// A buffer that goes back to its [`BufferPool`] when the last user drops it.
#[derive(Debug)]
pub(crate) struct PooledBuffer {
    buffer: BytesMut,
    used: usize,
    pool: BufferPool,
}

impl PooledBuffer {
    /// Takes the buffer apart into pieces of `bytes`, the last one shorter.
    pub(crate) fn split(&mut self, bytes: usize) -> Vec<BytesMut> {
        let mut pieces = Vec::with_capacity(self.buffer.len().div_ceil(bytes.max(1)));
        while !self.buffer.is_empty() {
            pieces.push(self.buffer.split_to(bytes.clamp(1, self.buffer.len())));
        }
        pieces
    }

    /// Puts the pieces back, in order.
    pub(crate) fn join(&mut self, pieces: impl IntoIterator<Item = BytesMut>) {
        let mut whole = BytesMut::new();
        pieces.into_iter().for_each(|piece| whole.unsplit(piece));
        self.buffer = whole;
    }

    /// Keeps the rows of `bytes` each for which `keep` is true.
    pub(crate) fn retain(&mut self, bytes: usize, keep: impl Fn(usize) -> bool) {
        let mut kept = 0;
        for row in (0..self.used / bytes).filter(|row| keep(*row)) {
            self.buffer.copy_within(row * bytes..(row + 1) * bytes, kept * bytes);
            kept += 1;
        }
        self.used = kept * bytes;
    }

    /// The rows that are kept.
    pub(crate) fn rows(&mut self) -> &mut [u8] {
        &mut self.buffer[..self.used]
    }

    /// The same memory as an Arrow buffer.
    pub(crate) fn into_buffer(self) -> Buffer {
        Buffer::from(Bytes::from_owner(self))
    }
}

impl AsRef<[u8]> for PooledBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.buffer[..self.used]
    }
}

impl Drop for PooledBuffer {
    fn drop(&mut self) {
        // The pieces of an abandoned batch are elsewhere. (A forked child finds the lock taken at worst.)
        if self.buffer.is_empty() {
            return;
        }
        if let Ok(mut free) = self.pool.free.try_lock() {
            if free.len() >= self.pool.keep {
                // Those that came back first may have lengths that are no longer used.
                free.remove(0);
            }
            free.push(std::mem::take(&mut self.buffer));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_when_its_last_user_is_gone() {
        let buffers = BufferPool::new(1);
        let buffer = buffers.take(100).into_buffer();
        let (first, copy) = (buffer.as_ptr(), buffer.clone());
        drop(buffer);
        let meanwhile = buffers.take(100);
        assert_ne!(meanwhile.as_ref().as_ptr(), first, "somebody still reads it");
        drop(copy);
        let again = buffers.take(100);
        assert_eq!(again.as_ref().as_ptr(), first);
        assert_eq!(again.as_ref().len(), 100);
    }

    #[test]
    fn pieces_join_without_a_copy() {
        let buffers = BufferPool::new(1);
        let mut buffer = buffers.take(100);
        let at = buffer.as_ref().as_ptr();
        let mut pieces = buffer.split(30);
        assert_eq!(pieces.iter().map(|piece| piece.len()).collect::<Vec<_>>(), [30, 30, 30, 10]);
        for (number, piece) in pieces.iter_mut().enumerate() {
            piece.fill(number as u8);
        }
        buffer.join(pieces);
        assert_eq!((buffer.as_ref().as_ptr(), buffer.as_ref().len()), (at, 100));
        buffer.retain(10, |row| row % 3 == 2);
        assert_eq!(buffer.as_ref(), [[0; 10], [1; 10], [2; 10]].concat());
    }
}
