//! Stores each half of a register at a place of its own, of any alignment. `_mm_storeh_pd` stores an upper
//! half too, but only to memory that is aligned to eight bytes.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

/// Stores the lower eight bytes to `lower`, and the upper eight bytes to `upper`.
///
/// # Safety
/// Eight bytes must be writable at both places.
#[inline]
pub(crate) unsafe fn store_halves(bytes: __m128i, lower: *mut u8, upper: *mut u8) {
    // SAFETY: eight bytes are written to each place, as the caller allows; all processors have SSE2.
    unsafe {
        let both = _mm_castsi128_pd(bytes);
        _mm_storel_epi64(lower.cast(), bytes);
        upper.cast::<f64>().write_unaligned(_mm_cvtsd_f64(_mm_unpackhi_pd(both, both)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_stored_at_odd_places() {
        let bytes: [u8; 16] = std::array::from_fn(|at| at as u8 + 1);
        for at in 0..8 {
            let mut memory = [0; 32];
            // SAFETY: the load reads 16 bytes; the stores write bytes `at..at + 8` and `at + 16..at + 24`.
            unsafe {
                let to = memory.as_mut_ptr().add(at);
                store_halves(_mm_loadu_si128(bytes.as_ptr().cast()), to, to.add(16));
            }
            let mut expected = [0; 32];
            expected[at..at + 8].copy_from_slice(&bytes[..8]);
            expected[at + 16..at + 24].copy_from_slice(&bytes[8..]);
            assert_eq!(memory, expected);
        }
    }
}
