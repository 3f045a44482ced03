//! The blocks that one call of a transform function converts to samples.

use super::super::block::Block;

/// The number of samples across and down a block of an image that is not reduced.
pub(in super::super) const SIDE: usize = 8;
/// The number of blocks that are transformed together.
pub(in super::super) const TRANSFORMS: usize = 4;

/// Blocks of a component, and where to write their samples.
#[cfg_attr(
    not(target_arch = "x86_64"),
    allow(dead_code, reason = "no other processor has a function that reads it")
)]
#[derive(Clone, Copy)]
pub(in super::super) struct Job<'a> {
    pub(in super::super) blocks: [&'a Block; TRANSFORMS],
    /// The number of samples across and down a block: 8, or 4, 2 or 1 if the image is reduced.
    pub(in super::super) side: usize,
    /// The quantisation steps of the coefficients.
    pub(in super::super) quantization: &'a [u16; 64],
    /// The samples of each block begin at `start` plus the block's number in `offsets`. (The offsets are a
    /// reference to memory that was written long before. If they were stored just before a vector instruction
    /// loads them, the load would stall.)
    pub(in super::super) start: usize,
    pub(in super::super) offsets: &'a [usize; TRANSFORMS],
    pub(in super::super) pitch: usize,
}

impl Job<'_> {
    /// Whether all samples of the job are within a buffer of `bytes` bytes.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn fits(&self, bytes: usize) -> bool {
        let rows = self.pitch.checked_mul(self.side - 1).and_then(|rows| rows.checked_add(self.side));
        let first = rows.and_then(|rows| rows.checked_add(self.start));
        let room = first.and_then(|end| bytes.checked_sub(end));
        room.is_some_and(|room| self.offsets.iter().all(|offset| *offset <= room))
    }
}

/// A function that transforms the blocks of a job and writes their samples.
///
/// # Panics
/// Panics if samples of the job are beyond the end of the buffer.
pub(in super::super) type Transform = fn(&Job<'_>, &mut [u8]);
