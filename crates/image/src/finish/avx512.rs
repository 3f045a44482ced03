//! Converts 8-bit levels to results with AVX-512, 16 at a time.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::super::pixel_type::PixelType;
use super::group::{GroupTarget, LevelGroup, VECTORS};

/// The number of results in one register.
pub(super) const LANES: usize = 16;
const LEVELS: usize = LevelGroup::<LANES>::LEVELS;
/// The mask for loading all bytes of a group.
const LOADED: u64 = (1 << LEVELS) - 1;
/// The mask for the lowest byte of each 32-bit number.
const LOWEST: u64 = 0x1111_1111_1111_1111;

const U8: u8 = PixelType::U8 as u8;
const U16: u8 = PixelType::U16 as u8;
const F16: u8 = PixelType::F16 as u8;
const BF16: u8 = PixelType::BF16 as u8;
const F32: u8 = PixelType::F32 as u8;

/// Whether this processor has the required instructions.
pub(super) fn is_here() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vbmi")
}

/// Converts all whole groups of levels, and returns the number of converted levels. It is 0 if the processor
/// lacks the instructions, or if the slot is too small.
pub(super) fn write(group: &LevelGroup<LANES>, to: GroupTarget, levels: &[u8], slot: &mut [u8]) -> usize {
    let (groups, _) = levels.as_chunks::<LEVELS>();
    if !is_here() || !to.fits(groups.len(), LANES * group.pixel_type.bytes(), slot) {
        return 0;
    }
    // SAFETY: the processor has the instructions, and the slot has room for all results.
    unsafe {
        match group.pixel_type {
            PixelType::U8 => write_as::<U8>(group, to, groups, slot),
            PixelType::U16 => write_as::<U16>(group, to, groups, slot),
            PixelType::F16 => write_as::<F16>(group, to, groups, slot),
            PixelType::BF16 => write_as::<BF16>(group, to, groups, slot),
            PixelType::F32 => write_as::<F32>(group, to, groups, slot),
        }
    }
    groups.as_flattened().len()
}

/// Converts groups to the pixel type with this number.
///
/// # Safety
/// The slot must have room for the results of all groups.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
unsafe fn write_as<const TYPE: u8>(
    group: &LevelGroup<LANES>,
    GroupTarget { starts, step }: GroupTarget,
    groups: &[[u8; LEVELS]],
    slot: &mut [u8],
) {
    let mut places = [_mm512_setzero_si512(); VECTORS];
    let [mut mean, mut inverse, mut rest] = [[_mm512_setzero_ps(); VECTORS]; 3];
    for vector in 0..VECTORS {
        // SAFETY: each load takes 64 bytes, and each of these arrays has 64 bytes.
        unsafe {
            places[vector] = _mm512_loadu_si512(group.places[vector].as_ptr().cast());
            mean[vector] = _mm512_loadu_ps(group.mean[vector].as_ptr());
            inverse[vector] = _mm512_loadu_ps(group.inverse[vector].as_ptr());
            rest[vector] = _mm512_loadu_ps(group.rest[vector].as_ptr());
        }
    }
    let (white, lacking) = (_mm512_set1_ps(group.white.nearest), _mm512_set1_ps(group.white.rest));
    for (at, levels) in groups.iter().enumerate() {
        // SAFETY: the mask limits the load to the bytes of the group.
        let levels = unsafe { _mm512_maskz_loadu_epi8(LOADED, levels.as_ptr().cast()) };
        for vector in 0..VECTORS {
            let levels = _mm512_maskz_permutexvar_epi8(LOWEST, places[vector], levels);
            // SAFETY: the caller guarantees that the slot has room for a register of results at this offset.
            let to = unsafe { slot.as_mut_ptr().add(starts[vector] + at * step) };
            if TYPE == U8 {
                // SAFETY: as above, the slot has room.
                unsafe { _mm_storeu_si128(to.cast(), _mm512_cvtepi32_epi8(levels)) };
                continue;
            }
            if TYPE == U16 {
                let wide = _mm512_or_si512(levels, _mm512_slli_epi32::<8>(levels));
                // SAFETY: as above, the slot has room.
                unsafe { _mm256_storeu_si256(to.cast(), _mm512_cvtepi32_epi16(wide)) };
                continue;
            }
            let level = _mm512_cvtepi32_ps(levels);
            let unit = _mm512_fmadd_ps(level, white, _mm512_mul_ps(level, lacking));
            let centred = _mm512_sub_ps(unit, mean[vector]);
            let value = _mm512_fmadd_ps(centred, inverse[vector], _mm512_mul_ps(centred, rest[vector]));
            // SAFETY: as above, the slot has room.
            unsafe {
                match TYPE {
                    F16 => {
                        _mm256_storeu_si256(to.cast(), _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(value))
                    }
                    BF16 => _mm256_storeu_si256(to.cast(), brains(value)),
                    _ => _mm512_storeu_ps(to.cast(), value),
                }
            }
        }
    }
}

/// Converts floats to bfloat16: rounds each to its upper 16 bits, ties to even.
#[inline]
#[target_feature(enable = "avx512f")]
fn brains(value: __m512) -> __m256i {
    let bits = _mm512_castps_si512(value);
    let is_odd = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
    let half = _mm512_add_epi32(is_odd, _mm512_set1_epi32(0x7FFF));
    _mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(_mm512_add_epi32(bits, half)))
}
