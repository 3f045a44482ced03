//! From coefficients to pixels, of several blocks at a time: exactly as the library's accurate integer transform does on
//! machines with AVX2, also where numbers overflow.
//!
//! The library transforms a block by itself. Here, registers of 512 bits have a row of each of four blocks, and those of
//! 256 bits of two, so none is exchanged between the halves of a register.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod constants;
#[cfg(target_arch = "x86_64")]
mod reduced;

use super::library::Block;

/// Samples across and down a block at full scale.
pub(super) const SIDE: usize = 8;
/// Blocks that are transformed together.
pub(super) const TRANSFORMS: usize = 4;

/// Blocks of a component, and the places of their samples.
#[cfg_attr(
    not(target_arch = "x86_64"),
    allow(dead_code, reason = "no other processor has a function that reads it")
)]
#[derive(Clone, Copy)]
pub(super) struct Job<'a> {
    pub(super) blocks: [&'a Block; TRANSFORMS],
    /// Samples across and down a block: 8, or 4, 2 or 1 at a reduced scale.
    pub(super) side: usize,
    /// Steps of the coefficients.
    pub(super) quantization: &'a [u16; 64],
    /// Where the first row of each block begins, from `start` on, and bytes from each row to the next. (A reference to what was
    /// stored long ago: registers of numbers that were just stored one by one have to wait.)
    pub(super) start: usize,
    pub(super) offsets: &'a [usize; TRANSFORMS],
    pub(super) pitch: usize,
}

impl Job<'_> {
    /// Whether its samples are within so many bytes.
    #[cfg(target_arch = "x86_64")]
    fn fits(&self, bytes: usize) -> bool {
        let rows = self.pitch.checked_mul(self.side - 1).and_then(|rows| rows.checked_add(self.side));
        let first = rows.and_then(|rows| rows.checked_add(self.start));
        let room = first.and_then(|end| bytes.checked_sub(end));
        room.is_some_and(|room| self.offsets.iter().all(|offset| *offset <= room))
    }
}

/// Makes the samples of a job.
///
/// # Panics
/// If a place is not within the samples.
pub(super) type Transform = fn(&Job<'_>, &mut [u8]);

/// The transform to fewer samples than a block has at full scale, where this machine has one.
pub(super) fn reduced() -> Option<Transform> {
    #[cfg(target_arch = "x86_64")]
    return reduced::transform();
    #[cfg(not(target_arch = "x86_64"))]
    None
}

/// The transforms of this machine to whole blocks, from the fastest on; without any it is left to the library.
pub(super) fn all() -> impl Iterator<Item = Transform> {
    #[cfg(target_arch = "x86_64")]
    let all = [avx512::transform(), avx2::transform()];
    #[cfg(not(target_arch = "x86_64"))]
    let all: [Option<Transform>; 0] = [];
    all.into_iter().flatten()
}
