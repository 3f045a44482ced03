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
mod job;
#[cfg(target_arch = "x86_64")]
mod reduced;

pub(super) use job::{Job, SIDE, TRANSFORMS, Transform};

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
