//! Transforms coefficients of several blocks at a time to pixels: exactly like the library's accurate integer
//! transform on machines with AVX2, even if numbers overflow.
//!
//! The library transforms one block at a time. Here, registers of 512 bits have a row of each of four blocks,
//! and those of 256 bits of two, so nothing is exchanged between the halves of a register.

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

/// The transform to fewer samples than a block has at full scale, if this machine has one.
pub(super) fn reduced() -> Option<Transform> {
    #[cfg(target_arch = "x86_64")]
    return reduced::transform();
    #[cfg(not(target_arch = "x86_64"))]
    None
}

/// The transforms of this machine to whole blocks, fastest first; without any the library does the work.
pub(super) fn all() -> impl Iterator<Item = Transform> {
    #[cfg(target_arch = "x86_64")]
    let all = [avx512::transform(), avx2::transform()];
    #[cfg(not(target_arch = "x86_64"))]
    let all: [Option<Transform>; 0] = [];
    all.into_iter().flatten()
}
