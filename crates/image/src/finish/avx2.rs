//! Converts 8-bit levels to results with AVX2, 8 at a time.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::super::pixel_type::PixelType;
use super::group::{GroupTarget, LevelGroup, VECTORS};

/// The number of results in one register.
pub(super) const LANES: usize = 8;
const LEVELS: usize = LevelGroup::<LANES>::LEVELS;
/// The number of 16-byte halves of a register. A shuffle instruction cannot move bytes between them.
const HALVES: usize = 2;
/// The number of bytes of a half.
const HALF: usize = 16;
/// The offset of a group's last 16 levels. Half a register is loaded from here if any of its results needs a
/// level after the first 16 of the group.
const LATER: usize = LEVELS - HALF;
/// Shuffle indices that set the upper three bytes of a 32-bit number to zero.
const ZEROS: u32 = 0x8080_8000;

const U8: u8 = PixelType::U8 as u8;
const U16: u8 = PixelType::U16 as u8;
const F16: u8 = PixelType::F16 as u8;
const BF16: u8 = PixelType::BF16 as u8;
const F32: u8 = PixelType::F32 as u8;

/// Whether this processor has the required instructions.
pub(super) fn is_here() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c")
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
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn write_as<const TYPE: u8>(
    group: &LevelGroup<LANES>,
    GroupTarget { starts, step }: GroupTarget,
    groups: &[[u8; LEVELS]],
    slot: &mut [u8],
) {
    let mut places = [[0; LANES]; VECTORS];
    let mut bases = [[0; HALVES]; VECTORS];
    for ((to, from), bases) in places.iter_mut().zip(&group.places).zip(&mut bases) {
        let halves = to.chunks_exact_mut(LANES / HALVES).zip(from.chunks_exact(LANES / HALVES));
        for ((to, from), base) in halves.zip(bases) {
            *base = if from.iter().any(|place| *place as usize >= HALF) { LATER } else { 0 };
            to.iter_mut().zip(from).for_each(|(to, from)| *to = ZEROS | (from - *base as u32));
        }
    }
    let (white, lacking) = (_mm256_set1_ps(group.white.nearest), _mm256_set1_ps(group.white.rest));
    for (at, levels) in groups.iter().enumerate() {
        for vector in 0..VECTORS {
            let [low, high] = bases[vector];
            // SAFETY: both loads of 16 bytes are within the group, and `places` has 32 bytes for each
            // register.
            let levels = unsafe {
                let levels =
                    _mm256_loadu2_m128i(levels.as_ptr().add(high).cast(), levels.as_ptr().add(low).cast());
                _mm256_shuffle_epi8(levels, _mm256_loadu_si256(places[vector].as_ptr().cast()))
            };
            // SAFETY: the caller guarantees that the slot has room for a register of results at this offset.
            let to = unsafe { slot.as_mut_ptr().add(starts[vector] + at * step) };
            if TYPE == U8 {
                let levels = words(levels);
                // SAFETY: as above, the slot has room.
                unsafe { _mm_storel_epi64(to.cast(), _mm_packus_epi16(levels, levels)) };
                continue;
            }
            if TYPE == U16 {
                let wide = _mm256_or_si256(levels, _mm256_slli_epi32::<8>(levels));
                // SAFETY: as above, the slot has room.
                unsafe { _mm_storeu_si128(to.cast(), words(wide)) };
                continue;
            }
            // SAFETY: each load takes 32 bytes, and each of these arrays has 32 bytes.
            let (mean, inverse, rest) = unsafe {
                (
                    _mm256_loadu_ps(group.mean[vector].as_ptr()),
                    _mm256_loadu_ps(group.inverse[vector].as_ptr()),
                    _mm256_loadu_ps(group.rest[vector].as_ptr()),
                )
            };
            let level = _mm256_cvtepi32_ps(levels);
            let unit = _mm256_fmadd_ps(level, white, _mm256_mul_ps(level, lacking));
            let centred = _mm256_sub_ps(unit, mean);
            let value = _mm256_fmadd_ps(centred, inverse, _mm256_mul_ps(centred, rest));
            // SAFETY: as above, the slot has room.
            unsafe {
                match TYPE {
                    F16 => _mm_storeu_si128(to.cast(), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(value)),
                    BF16 => _mm_storeu_si128(to.cast(), brains(value)),
                    _ => _mm256_storeu_ps(to.cast(), value),
                }
            }
        }
    }
}

/// Converts floats to bfloat16: rounds each to its upper 16 bits, ties to even.
#[inline]
#[target_feature(enable = "avx2")]
fn brains(value: __m256) -> __m128i {
    let bits = _mm256_castps_si256(value);
    let is_odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
    let half = _mm256_add_epi32(is_odd, _mm256_set1_epi32(0x7FFF));
    words(_mm256_srli_epi32::<16>(_mm256_add_epi32(bits, half)))
}

/// Converts 32-bit integers to 16-bit integers. Their values must fit.
#[inline]
#[target_feature(enable = "avx2")]
fn words(numbers: __m256i) -> __m128i {
    _mm_packus_epi32(_mm256_castsi256_si128(numbers), _mm256_extracti128_si256::<1>(numbers))
}
