//! Converts luma and chroma to a row of RGB, with exactly the smooth upsampling and the rounding of
//! libjpeg-turbo.
//!
//! A row is read once and written once. Pixels of even and odd columns are computed separately, because each
//! pair of columns uses the same sample of halved chroma. The two are interleaved after they have been
//! converted back to bytes.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod constants;
mod row;
#[cfg(all(test, target_arch = "x86_64"))]
mod tests;

pub(super) use row::{Chroma, Colours, MARGIN, REACH, Row};

/// The functions that this machine can run, fastest first. Without any, libjpeg-turbo makes the rows.
pub(super) fn all() -> impl Iterator<Item = Colours> {
    #[cfg(target_arch = "x86_64")]
    let all = [avx512::colours(), avx2::colours()];
    #[cfg(not(target_arch = "x86_64"))]
    let all: [Option<Colours>; 0] = [];
    all.into_iter().flatten()
}
