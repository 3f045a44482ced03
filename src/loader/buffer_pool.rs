//! Reused buffers for decoded columns.
//!
//! A batch of images is tens of megabytes. If each batch allocated new memory, its pages would be mapped,
//! faulted in, zeroed and unmapped each time; pages that are kept are only written.
//!
//! While a batch is made, its buffer is [split](PooledBuffer::split) into pieces, so that each task writes
//! its rows to a piece of its own without a lock. The last task [joins](PooledBuffer::join) the pieces
//! without a copy.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytes::{Bytes, BytesMut};
use forebay_arrow::buffer::Buffer;

use super::slot::{Pages, Slot};

/// A pool that keeps the buffers of past batches for later ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct BufferPool {
    free: Arc<Mutex<Vec<Slot>>>,
    /// The pages of all slots (memory of buffers, in use or free) that can be registered with a device.
    pages: Arc<Mutex<Vec<Weak<Pages>>>>,
    keep: usize,
}

impl BufferPool {
    /// A pool that keeps up to `keep` unused buffers.
    pub(crate) fn new(keep: usize) -> Self {
        BufferPool { free: Arc::default(), pages: Arc::default(), keep }
    }

    /// Takes a free buffer of `bytes` bytes from the pool, or allocates one. Its content is arbitrary.
    pub(crate) fn take(&self, bytes: usize) -> PooledBuffer {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        // The buffer that was returned last may still be in the processor's cache.
        let kept = free.iter().rposition(|kept| kept.bytes.len() == bytes).map(|at| free.remove(at));
        drop(free);
        PooledBuffer { slot: kept.unwrap_or_else(|| self.allocate(bytes)), used: bytes, pool: self.clone() }
    }

    /// The pages of the buffer that contains this address, if they can be registered with a device. The
    /// caller must hold a batch that uses the buffer.
    pub(crate) fn pages(&self, address: usize) -> Option<Arc<Pages>> {
        let pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        pages.iter().filter_map(Weak::upgrade).find(|pages| pages.hold(address))
    }

    fn allocate(&self, bytes: usize) -> Slot {
        let slot = Slot::new(bytes);
        if let Some(new) = slot.pages() {
            let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
            pages.retain(|known| known.strong_count() > 0);
            pages.push(Arc::downgrade(new));
        }
        slot
    }
}

/// A buffer that returns to its [`BufferPool`] when its last user drops it.
#[derive(Debug)]
pub(crate) struct PooledBuffer {
    slot: Slot,
    used: usize,
    pool: BufferPool,
}

impl PooledBuffer {
    /// Splits the buffer into pieces of `bytes` bytes; the last piece may be shorter.
    pub(crate) fn split(&mut self, bytes: usize) -> Vec<BytesMut> {
        let buffer = &mut self.slot.bytes;
        let mut pieces = Vec::with_capacity(buffer.len().div_ceil(bytes.max(1)));
        while !buffer.is_empty() {
            pieces.push(buffer.split_to(bytes.clamp(1, buffer.len())));
        }
        pieces
    }

    /// Joins the pieces of the buffer again, in their order.
    pub(crate) fn join(&mut self, pieces: impl IntoIterator<Item = BytesMut>) {
        let mut whole = BytesMut::new();
        pieces.into_iter().for_each(|piece| whole.unsplit(piece));
        self.slot.bytes = whole;
    }

    /// Keeps only the rows with the indices `kept`, each of `bytes` bytes, and moves them together at the
    /// front. The indices ascend; a row may be listed several times if it also replaces bad rows beside it.
    pub(crate) fn retain(&mut self, bytes: usize, kept: &[usize]) {
        for (at, row) in kept.iter().enumerate().filter(|(at, row)| at != *row) {
            self.slot.bytes.copy_within(row * bytes..(row + 1) * bytes, at * bytes);
        }
        self.used = kept.len() * bytes;
    }

    /// The bytes of the rows that [`retain`](Self::retain) kept, or of all rows.
    pub(crate) fn rows(&mut self) -> &mut [u8] {
        &mut self.slot.bytes[..self.used]
    }

    /// This buffer as an Arrow buffer, without a copy.
    pub(crate) fn into_buffer(self) -> Buffer {
        Buffer::from(Bytes::from_owner(self))
    }
}

impl AsRef<[u8]> for PooledBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.slot.bytes[..self.used]
    }
}

impl Drop for PooledBuffer {
    fn drop(&mut self) {
        // A batch that was abandoned leaves its buffer in pieces, which other owners hold and drop.
        if self.slot.bytes.is_empty() {
            return;
        }
        // The lock is not waited for: in a forked child, another thread may have held it at the fork and
        // never releases it.
        if let Ok(mut free) = self.pool.free.try_lock() {
            // The buffer that was returned first is evicted, since its length may be one that is no longer
            // used.
            let evicted = (free.len() >= self.pool.keep).then(|| free.remove(0));
            free.push(std::mem::replace(&mut self.slot, Slot::new(0)));
            drop(free);
            // The evicted buffer is dropped after the lock is released, since its memory may have to be
            // unregistered first.
            drop(evicted);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::slot::MIN_OF_PAGES;
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
    fn the_pages_of_a_slot_are_found_by_an_address_while_it_lives() {
        let buffers = BufferPool::new(1);
        let (large, small) = (buffers.take(MIN_OF_PAGES), buffers.take(100));
        let address = large.as_ref().as_ptr() as usize;
        let pages = buffers.pages(address + 5).unwrap();
        assert_eq!(pages.address(), address);
        assert!(buffers.pages(small.as_ref().as_ptr() as usize).is_none());
        drop(large);
        let again = buffers.take(MIN_OF_PAGES);
        assert!(Arc::ptr_eq(&buffers.pages(again.as_ref().as_ptr() as usize).unwrap(), &pages));
        drop(pages);
        // The pool keeps only one buffer. The small buffer is returned last, and so evicts the large one.
        drop((again, small));
        assert!(buffers.pages(address).is_none());
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
        buffer.retain(10, &[0, 2, 5, 5, 5, 8]);
        assert_eq!(buffer.as_ref(), [[0; 10], [0; 10], [1; 10], [1; 10], [1; 10], [2; 10]].concat());
    }

    #[test]
    fn threads_never_write_to_the_same_buffer() {
        let buffers = BufferPool::new(2);
        std::thread::scope(|scope| {
            for number in 0..3 {
                let buffers = &buffers;
                scope.spawn(move || {
                    for _ in 0..5 {
                        let mut buffer = buffers.take(100);
                        buffer.rows().fill(number);
                        let buffer = buffer.into_buffer();
                        // Another thread may be the last user.
                        let copy = buffer.clone();
                        let reading = scope.spawn(move || copy.iter().all(|byte| *byte == number));
                        assert!(buffer.iter().all(|byte| *byte == number));
                        drop(buffer);
                        assert!(reading.join().unwrap());
                    }
                });
            }
        });
        assert!(buffers.free.lock().unwrap().len() <= 2);
    }
}
