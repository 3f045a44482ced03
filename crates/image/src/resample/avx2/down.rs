//! The first step of resizing with AVX2: makes an intermediate row, which has the source's width, from rows
//! of the source.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::super::source::RowSource;
use super::super::weights::LineWeights;
use super::constants::{MOST_PAIRS, PAIR, REGISTER};

/// Two rows of the source that contribute to an intermediate row: the byte offsets of their beginnings, and
/// their weights.
#[derive(Clone, Copy)]
struct DownStep {
    rows: [usize; PAIR],
    weights: __m256i,
}

/// Makes the intermediate row for the result row `y`. It has the width of the view (the part of the source
/// that is read).
#[target_feature(enable = "avx2")]
pub(super) fn source_row(source: RowSource<'_>, down: &LineWeights, y: usize, to: &mut [u8]) -> Option<()> {
    let RowSource { pitch, last, .. } = source;
    let first = *down.firsts.get(y)? as usize;
    let mut steps = [DownStep { rows: [0; PAIR], weights: _mm256_setzero_si256() }; MOST_PAIRS];
    let mut used = 1;
    let pairs = down.for_pixel(y).as_flattened().as_chunks::<PAIR>().0;
    for (pair, (step, weights)) in steps.iter_mut().zip(pairs).enumerate() {
        step.rows = [0, 1].map(|tap| (first + pair * PAIR + tap).min(last) * pitch);
        let [low, high] = weights.map(|weight| i32::from(weight as u16));
        step.weights = _mm256_set1_epi32(low | high << 16);
        used = if *weights == [0; PAIR] { used } else { pair + 1 };
    }
    match used {
        1 => weighed_row::<1>(source, steps.first_chunk()?, down.precision, to),
        2 => weighed_row::<2>(source, steps.first_chunk()?, down.precision, to),
        3 => weighed_row::<3>(source, steps.first_chunk()?, down.precision, to),
        4 => weighed_row::<4>(source, steps.first_chunk()?, down.precision, to),
        5 => weighed_row::<5>(source, steps.first_chunk()?, down.precision, to),
        6 => weighed_row::<6>(source, steps.first_chunk()?, down.precision, to),
        // The remaining weights are zero.
        _ => weighed_row::<MOST_PAIRS>(source, &steps, down.precision, to),
    }
}

/// Multiplies rows by their weights and adds them up. It is not inlined, so that the compiler can assign all
/// registers for each `PAIRS` separately.
#[inline(never)]
#[target_feature(enable = "avx2")]
fn weighed_row<const PAIRS: usize>(
    source: RowSource<'_>,
    steps: &[DownStep; PAIRS],
    precision: u32,
    to: &mut [u8],
) -> Option<()> {
    let half = _mm256_set1_epi32((1 << precision) >> 1);
    let precision = _mm_cvtsi32_si128(precision as i32);
    let to = to.as_chunks_mut::<REGISTER>().0.get_mut(..source.bytes.div_ceil(REGISTER))?;
    let furthest = steps.iter().flat_map(|step| step.rows).max()?;
    let whole = source.pixels.len().saturating_sub(furthest) / REGISTER;
    let (within, beyond) = to.split_at_mut(whole.min(to.len()));
    for (block, to) in within.iter_mut().enumerate() {
        // SAFETY: `whole` is the number of blocks of 32 bytes that fit between the beginning of the last row
        // and the end of the pixels.
        let bytes =
            unsafe { weighed::<PAIRS, true>(source.pixels, block * REGISTER, steps, (half, precision)) };
        store(bytes, to);
    }
    for (block, to) in beyond.iter_mut().enumerate() {
        let at = (whole + block) * REGISTER;
        // SAFETY: without `WITHIN` there is no requirement, because `load` checks the end of the pixels.
        let bytes = unsafe { weighed::<PAIRS, false>(source.pixels, at, steps, (half, precision)) };
        store(bytes, to);
    }
    Some(())
}

/// Multiplies 32 levels of each row, from `at` on, by the row's weight and adds them up. The code uses loops,
/// because a function that takes a closure may be compiled without AVX2, and then cannot be inlined.
///
/// # Safety
/// With `WITHIN`, the 32 levels of each row must be within `pixels`.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn weighed<const PAIRS: usize, const WITHIN: bool>(
    pixels: &[u8],
    at: usize,
    steps: &[DownStep; PAIRS],
    (half, precision): (__m256i, __m128i),
) -> __m256i {
    let zero = _mm256_setzero_si256();
    let mut sums = [half; 4];
    for DownStep { rows: [first, second], weights } in steps {
        let [a, b] = match WITHIN {
            // SAFETY: the caller guarantees that 32 bytes of each row are within the pixels.
            true => unsafe {
                let from = pixels.as_ptr().add(at);
                [_mm256_loadu_si256(from.add(*first).cast()), _mm256_loadu_si256(from.add(*second).cast())]
            },
            false => [load(pixels, first + at), load(pixels, second + at)],
        };
        let [low, high] = [_mm256_unpacklo_epi8(a, b), _mm256_unpackhi_epi8(a, b)];
        let levels = [
            _mm256_unpacklo_epi8(low, zero),
            _mm256_unpackhi_epi8(low, zero),
            _mm256_unpacklo_epi8(high, zero),
            _mm256_unpackhi_epi8(high, zero),
        ];
        for (sum, levels) in sums.iter_mut().zip(levels) {
            *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(levels, *weights));
        }
    }
    for sum in &mut sums {
        *sum = _mm256_sra_epi32(*sum, precision);
    }
    let [a, b, c, d] = sums;
    _mm256_packus_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d))
}

#[inline]
#[target_feature(enable = "avx2")]
fn store(bytes: __m256i, to: &mut [u8; REGISTER]) {
    // SAFETY: 32 bytes are written to memory of 32 bytes.
    unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), bytes) };
}

/// Loads 32 bytes at `at`. Bytes after the end of the pixels are zero.
#[inline]
#[target_feature(enable = "avx2")]
fn load(pixels: &[u8], at: usize) -> __m256i {
    let from = pixels.get(at..).unwrap_or_default();
    if let Some(from) = from.first_chunk::<REGISTER>() {
        // SAFETY: 32 bytes are loaded from a chunk of 32 bytes.
        return unsafe { _mm256_loadu_si256(from.as_ptr().cast()) };
    }
    let mut bytes = [0; REGISTER];
    bytes[..from.len()].copy_from_slice(from);
    // SAFETY: 32 bytes are loaded from an array of 32 bytes.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}
