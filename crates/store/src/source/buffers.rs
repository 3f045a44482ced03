//! Reuses buffers for large reads.
//!
//! A column chunk of images has tens of megabytes. If memory is allocated anew for each read, the system must
//! map and clear its pages, which takes longer than copying the bytes. The pages of a reused buffer only have
//! to be written.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use forebay_base::{Error, ErrorKind, Result};

/// The size in bytes from which buffers are reused. The allocator itself keeps smaller ones.
const MIN_BYTES: usize = 1 << 20;
/// The most bytes of unused buffers that are kept for the next reads. A single buffer is kept even if it is
/// larger. This is enough because reads wait for memory: one usually starts as soon as the rows of an earlier
/// read are released.
const MAX_KEPT_BYTES: usize = 32 << 20;
/// The size in bytes of the largest buffer that is kept. Larger ones would take too much memory beyond the
/// budget of a loader.
const MAX_BYTES: usize = 64 << 20;
/// A new buffer whose bytes will be overwritten is made larger than needed, by its length divided by this
/// number.
const ROOM_DIVISOR: usize = 8;
/// A buffer is reused for a read only if its capacity is at most this many times the size of the read.
const MAX_SIZE_RATIO: usize = 2;

/// The unused buffers. The one that has not been used for the longest time comes first.
#[derive(Debug, Default)]
pub(super) struct Buffers(Mutex<Vec<Vec<u8>>>);

impl Buffers {
    /// Lends an empty buffer with capacity for `bytes`.
    ///
    /// # Errors
    /// Fails if there is not enough memory.
    pub(super) fn take(self: &Arc<Self>, bytes: usize) -> Result<Lent> {
        let mut lent = self.lend(bytes)?;
        lent.buffer.clear();
        Ok(lent)
    }

    /// Lends a buffer of `bytes` arbitrary bytes, which the caller must overwrite.
    ///
    /// Fails if there is not enough memory.
    pub(super) fn take_filled(self: &Arc<Self>, bytes: u64) -> Result<Lent> {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        // The buffer is made a little larger, so that it can be reused for reads of similar length.
        let room = if bytes < MIN_BYTES { bytes } else { bytes.saturating_add(bytes / ROOM_DIVISOR) };
        let mut lent = self.lend(room)?;
        lent.buffer.resize(bytes, 0);
        Ok(lent)
    }

    /// Lends a buffer with capacity for `bytes`. It still has the bytes of an earlier read.
    fn lend(self: &Arc<Self>, bytes: usize) -> Result<Lent> {
        let mut free = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fits =
            |buffer: &&Vec<u8>| (bytes..=bytes.saturating_mul(MAX_SIZE_RATIO)).contains(&buffer.capacity());
        let best = free.iter().filter(fits).map(Vec::capacity).min();
        let kept = best.and_then(|best| free.iter().position(|buffer| buffer.capacity() == best));
        let kept = kept.map(|at| free.remove(at));
        drop(free);
        let mut buffer = kept.unwrap_or_default();
        buffer.try_reserve_exact(bytes.saturating_sub(buffer.len())).map_err(|_| {
            Error::new(ErrorKind::TooLarge, format!("not enough memory for a read of {bytes} bytes"))
                .hint("leave columns out, or rewrite the file with smaller row groups")
        })?;
        Ok(Lent { buffer, home: Arc::clone(self) })
    }
}

/// A buffer that goes back to the unused buffers when its last user drops it.
#[derive(Debug)]
pub(super) struct Lent {
    pub(super) buffer: Vec<u8>,
    home: Arc<Buffers>,
}

impl Lent {
    pub(super) fn into_bytes(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.buffer
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let buffer = std::mem::take(&mut self.buffer);
        if !(MIN_BYTES..=MAX_BYTES).contains(&buffer.capacity()) {
            return;
        }
        // Surplus buffers are dropped only after the lock is released. The lock is not waited for, because in
        // a forked child it may be held for ever; the buffer is then freed.
        let mut surplus = vec![];
        if let Ok(mut free) = self.home.0.try_lock() {
            free.push(buffer);
            let mut kept: usize = free.iter().map(Vec::capacity).sum();
            while kept > MAX_KEPT_BYTES && free.len() > 1 {
                let longest_unused = free.remove(0);
                kept -= longest_unused.capacity();
                surplus.push(longest_unused);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn kept(buffers: &Buffers) -> usize {
        buffers.0.lock().unwrap().iter().map(Vec::capacity).sum()
    }

    #[test]
    fn a_buffer_comes_back_when_its_last_user_is_gone() {
        let buffers = Arc::new(Buffers::default());
        let mut lent = buffers.take(3 * MIB).unwrap();
        lent.buffer.extend([7; 10]);
        let at = lent.buffer.as_ptr();
        let bytes = lent.into_bytes();
        let part = bytes.slice(2..5);
        drop(bytes);
        let meanwhile = buffers.take(3 * MIB).unwrap();
        assert_ne!(meanwhile.buffer.as_ptr(), at, "somebody still reads it");
        assert_eq!(part, [7; 3].as_slice());
        drop(part);
        let again = buffers.take(2 * MIB).unwrap();
        assert_eq!((again.buffer.as_ptr(), again.buffer.len()), (at, 0));
    }

    #[test]
    fn one_that_is_much_larger_or_too_small_is_not_taken() {
        let buffers = Arc::new(Buffers::default());
        drop(buffers.take(8 * MIB).unwrap());
        assert_eq!(buffers.take(3 * MIB).unwrap().buffer.capacity(), 3 * MIB);
        assert_eq!(buffers.take(9 * MIB).unwrap().buffer.capacity(), 9 * MIB);
    }

    #[test]
    fn few_are_kept_and_no_small_ones() {
        let buffers = Arc::new(Buffers::default());
        let all: Vec<Lent> = (1..=20).map(|_| buffers.take(3 * MIB).unwrap()).collect();
        drop(all);
        assert_eq!(kept(&buffers), 30 * MIB);
        drop(buffers.take(MIB / 2).unwrap());
        assert_eq!(kept(&buffers), 30 * MIB);
        drop(buffers.take(100 * MIB).unwrap());
        assert_eq!(kept(&buffers), 30 * MIB, "nor very large ones");
        drop(buffers.take(60 * MIB).unwrap());
        assert_eq!(kept(&buffers), 60 * MIB, "a large one alone");
    }

    #[test]
    fn memory_that_there_is_not_is_an_error() {
        let buffers = Arc::new(Buffers::default());
        assert_eq!(buffers.take(isize::MAX as usize).unwrap_err().kind(), ErrorKind::TooLarge);
    }
}
