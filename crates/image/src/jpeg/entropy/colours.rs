//! From luma and chroma to a row of RGB, exactly as the library does: with its smooth upsampling, and its rounding.
//!
//! A row is read once and written once. Pixels of even and of odd columns are computed apart, since those are made of the same
//! sample of halved chroma, and mixed when they are bytes again.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod constants;
mod row;

pub(super) use row::{Chroma, Colours, MARGIN, REACH, Row};

/// The functions of this machine, from the fastest on; without any it is left to the library.
pub(super) fn all() -> impl Iterator<Item = Colours> {
    #[cfg(target_arch = "x86_64")]
    let all = [avx512::colours(), avx2::colours()];
    #[cfg(not(target_arch = "x86_64"))]
    let all: [Option<Colours>; 0] = [];
    all.into_iter().flatten()
}
