//! The inverse cosine transform, for several blocks at a time. Its samples equal those of libjpeg-turbo's
//! accurate integer transform on processors with AVX2, even if numbers overflow.
//!
//! libjpeg-turbo transforms one block at a time. Here, a register of 512 bits holds the same row of four
//! blocks, and a register of 256 bits the same row of two blocks, so that nothing must be moved between the
//! halves of a register.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod constants;
mod job;
#[cfg(target_arch = "x86_64")]
mod reduced;
#[cfg(all(test, target_arch = "x86_64"))]
mod tests;

pub(super) use job::{Job, SIDE, TRANSFORMS, Transform};

/// The transform for images that are reduced (blocks with fewer samples), if this processor can run it.
pub(super) fn reduced() -> Option<Transform> {
    #[cfg(target_arch = "x86_64")]
    return reduced::transform();
    #[cfg(not(target_arch = "x86_64"))]
    None
}

/// The transforms for blocks with all samples that this processor can run, the fastest first. If there are
/// none, libjpeg-turbo does the work.
pub(super) fn all() -> impl Iterator<Item = Transform> {
    #[cfg(target_arch = "x86_64")]
    let all = [avx512::transform(), avx2::transform()];
    #[cfg(not(target_arch = "x86_64"))]
    let all: [Option<Transform>; 0] = [];
    all.into_iter().flatten()
}
