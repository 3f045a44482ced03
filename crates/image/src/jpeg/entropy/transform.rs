//! Transforms coefficients of several blocks at a time to pixels, which equal those of the library's accurate
//! integer transform on machines with AVX2, even if numbers overflow.
//!
//! The library transforms one block at a time. Here, a register of 512 bits holds a row of four blocks, and
//! one of 256 bits a row of two, so that nothing is exchanged between the halves of a register.

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

/// The transform to blocks with fewer samples, if this machine can run one.
pub(super) fn reduced() -> Option<Transform> {
    #[cfg(target_arch = "x86_64")]
    return reduced::transform();
    #[cfg(not(target_arch = "x86_64"))]
    None
}

/// The transforms to whole blocks that this machine can run, fastest first; if there are none, the library
/// does the work.
pub(super) fn all() -> impl Iterator<Item = Transform> {
    #[cfg(target_arch = "x86_64")]
    let all = [avx512::transform(), avx2::transform()];
    #[cfg(not(target_arch = "x86_64"))]
    let all: [Option<Transform>; 0] = [];
    all.into_iter().flatten()
}
