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
#[cfg(test)]
mod tests;

use super::library::Transform;

/// The transform of this machine; `None` to leave it to the library.
pub(super) fn fastest() -> Option<Transform> {
    #[cfg(target_arch = "x86_64")]
    return avx512::transform().or_else(avx2::transform);
    #[cfg(not(target_arch = "x86_64"))]
    None
}
