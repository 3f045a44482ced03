//! Decodes the AC scans of progressive JPEGs with AVX2, and with bit instructions that the same processors
//! have.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::super::block::Block;
use super::super::sequential::NATURAL;
use super::bands::Masks;
use super::rows::{AcRows, Data};
use super::tables::{AcTable, First, Refine};

/// Whether this processor has the required instructions.
pub(super) fn is_here() -> bool {
    is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("lzcnt")
        && is_x86_feature_detected!("popcnt")
}

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn first(rows: &mut AcRows<'_>, data: &mut Data<'_>, table: &AcTable<First>) -> Option<()> {
    rows.first(data, table)
}

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn refine(rows: &mut AcRows<'_>, data: &mut Data<'_>, table: &AcTable<Refine>) -> Option<()> {
    rows.refine::<Instructions>(data, table)
}

pub(super) struct Instructions;

impl Masks for Instructions {
    #[inline(always)]
    fn deposit(bits: u64, mask: u64) -> u64 {
        // SAFETY: only `refine` and tests call this, after [`is_here`] has found the instruction. The same is
        // true below.
        unsafe { _pdep_u64(bits, mask) }
    }

    #[inline(always)]
    fn raise(block: &mut Block, which: u64, negative: u64, step: i16) {
        // SAFETY: as above, and each load and store is of 16 coefficients within the block.
        unsafe {
            let (which, negative) = (_mm256_set1_epi64x(which as i64), _mm256_set1_epi64x(negative as i64));
            let (step, one) = (_mm256_set1_epi16(step), _mm256_set1_epi16(1));
            for (part, place) in block.as_chunks_mut::<16>().0.iter_mut().zip(&PLACES) {
                let bytes = _mm256_load_si256((&raw const place.bytes).cast());
                let bits = _mm256_load_si256((&raw const place.bits).cast());
                // Sets all bits of each coefficient that has a bit in `mask`.
                let spread =
                    |mask| _mm256_cmpeq_epi16(_mm256_and_si256(_mm256_shuffle_epi8(mask, bytes), bits), bits);
                let values = _mm256_loadu_si256(part.as_ptr().cast());
                let signs = _mm256_or_si256(_mm256_or_si256(values, spread(negative)), one);
                let steps = _mm256_and_si256(_mm256_sign_epi16(step, signs), spread(which));
                _mm256_storeu_si256(part.as_mut_ptr().cast(), _mm256_add_epi16(values, steps));
            }
        }
    }
}

/// The positions of 16 coefficients (in natural order) in the mask of a block: for each coefficient, the
/// index of the mask's byte, and the bit within that byte. The indices hold for a register that has the whole
/// mask in each of its halves.
#[repr(C, align(32))]
struct BitPlaces {
    bytes: [[u8; 2]; 16],
    bits: [u16; 16],
}

static PLACES: [BitPlaces; 4] = {
    /// The shuffle index that gives a zero byte.
    const NONE: u8 = 0x80;
    const EMPTY: BitPlaces = BitPlaces { bytes: [[NONE; 2]; 16], bits: [0; 16] };
    let mut places = [EMPTY; 4];
    let mut at = 0;
    while at < 64 {
        let natural = NATURAL[at] as usize;
        let bit = 63 - at;
        let place = &mut places[natural / 16];
        place.bytes[natural % 16] = [bit as u8 / 8, NONE];
        place.bits[natural % 16] = 1 << (bit % 8);
        at += 1;
    }
    places
};
