//! A row of pixels with AVX2: 32 at a time.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::constants::*;
use super::{Chroma, Colours, MARGIN, Row};

/// Pixels of a step, and bytes of a register.
const STEP: usize = 32;
/// Bytes of half a register, which most instructions do not leave.
const LANE: usize = 16;
/// Bytes of a pixel.
const PIXEL: usize = 3;

/// The function, if this machine has all that it needs.
pub(super) fn colours() -> Option<Colours> {
    // SAFETY: the function is only handed out where the machine has the feature.
    is_x86_feature_detected!("avx2").then_some(|row, chroma, out| unsafe { row_256(row, chroma, out) })
}

/// Words of even and of odd columns.
type Halves = [__m256i; 2];

#[target_feature(enable = "avx2")]
fn row_256(row: &Row<'_>, chroma: Chroma, out: &mut [u8]) -> Option<()> {
    for (step, out) in out.chunks_mut(STEP * PIXEL).enumerate() {
        let at = step * STEP;
        let [blue, red] = match chroma {
            Chroma::None => return None,
            Chroma::Full => [full(row.chroma[0], at)?, full(row.chroma[1], at)?],
            Chroma::HalfWidth => [half_width(row.chroma[0], at)?, half_width(row.chroma[1], at)?],
            Chroma::HalfHeight => {
                [half_height(row.chroma[0], row.is_lower, at)?, half_height(row.chroma[1], row.is_lower, at)?]
            }
            Chroma::Half => [half(row.chroma[0], at)?, half(row.chroma[1], at)?],
        };
        let levels = split(load(row.luma, at)?);
        let mut pixels = [[_mm256_setzero_si256(); 3]; 2];
        for (half, pixels) in pixels.iter_mut().enumerate() {
            *pixels = converted(levels[half], blue[half], red[half]);
        }
        let [even, odd] = pixels;
        let colours = std::array::from_fn(|colour| _mm256_packus_epi16(even[colour], odd[colour]));
        match out.as_mut_array::<{ STEP * PIXEL }>() {
            Some(out) => store(colours, out),
            None => {
                let mut whole = [0; STEP * PIXEL];
                store(colours, &mut whole);
                out.copy_from_slice(&whole[..out.len()]);
            }
        }
    }
    Some(())
}

/// 32 samples.
#[inline]
#[target_feature(enable = "avx2")]
fn load(samples: &[u8], at: usize) -> Option<__m256i> {
    let samples = samples.get(at..)?.first_chunk::<STEP>()?;
    // SAFETY: 32 bytes are loaded, and there are as many.
    Some(unsafe { _mm256_loadu_si256(samples.as_ptr().cast()) })
}

/// 16 samples.
#[inline]
#[target_feature(enable = "avx2")]
fn load_lane(samples: &[u8], at: usize) -> Option<__m128i> {
    let samples = samples.get(at..)?.first_chunk::<LANE>()?;
    // SAFETY: 16 bytes are loaded, and there are as many.
    Some(unsafe { _mm_loadu_si128(samples.as_ptr().cast()) })
}

/// Bytes as words of even and odd columns.
#[inline]
#[target_feature(enable = "avx2")]
fn split(bytes: __m256i) -> Halves {
    [_mm256_and_si256(bytes, _mm256_set1_epi16(0xFF)), _mm256_srli_epi16::<8>(bytes)]
}

/// Chroma around zero, of each pixel.
#[inline]
#[target_feature(enable = "avx2")]
fn full([samples, _]: [&[u8]; 2], at: usize) -> Option<Halves> {
    let centre = _mm256_set1_epi16(CENTRE);
    Some(split(load(samples, MARGIN + at)?).map(|half| _mm256_sub_epi16(half, centre)))
}

/// The same of chroma that is halved down: three parts of the nearest row, and one of the next.
#[inline]
#[target_feature(enable = "avx2")]
fn half_height([near, far]: [&[u8]; 2], is_lower: bool, at: usize) -> Option<Halves> {
    let (near, far) = (split(load(near, MARGIN + at)?), split(load(far, MARGIN + at)?));
    let rounding = _mm256_set1_epi16(if is_lower { ODD_OF_4 } else { EVEN_OF_4 } - 4 * CENTRE);
    Some([0, 1].map(|half| {
        let sum = _mm256_add_epi16(tripled(near[half]), _mm256_add_epi16(far[half], rounding));
        _mm256_srai_epi16::<2>(sum)
    }))
}

/// The same of chroma that is halved across: three parts of the nearest column, and one of the next.
#[inline]
#[target_feature(enable = "avx2")]
fn half_width([samples, _]: [&[u8]; 2], at: usize) -> Option<Halves> {
    let first = MARGIN + at / 2 - 1;
    let mut columns = [_mm256_setzero_si256(); 3];
    for (neighbour, column) in columns.iter_mut().enumerate() {
        *column = _mm256_cvtepu8_epi16(load_lane(samples, first + neighbour)?);
    }
    Some(smoothed::<2>(columns, [EVEN_OF_4, ODD_OF_4]))
}

/// The same of chroma that is halved across and down.
#[inline]
#[target_feature(enable = "avx2")]
fn half([near, far]: [&[u8]; 2], at: usize) -> Option<Halves> {
    let first = MARGIN + at / 2 - 1;
    let parts = _mm256_set1_epi16(i16::from_le_bytes([3, 1]));
    let mut columns = [_mm256_setzero_si256(); 3];
    for (neighbour, column) in columns.iter_mut().enumerate() {
        let [near, far] = [load_lane(near, first + neighbour)?, load_lane(far, first + neighbour)?];
        let both = _mm256_set_m128i(_mm_unpackhi_epi8(near, far), _mm_unpacklo_epi8(near, far));
        *column = _mm256_maddubs_epi16(both, parts);
    }
    Some(smoothed::<4>(columns, [EVEN_OF_16, ODD_OF_16]))
}

/// Even pixels: three parts of a column, and one of the column before. Odd ones: and one of the column after.
#[inline]
#[target_feature(enable = "avx2")]
fn smoothed<const BITS: i32>([before, column, after]: [__m256i; 3], rounding: [i16; 2]) -> Halves {
    let three = tripled(column);
    let half = |next: __m256i, rounding: i16| {
        let rounding = _mm256_set1_epi16(rounding - (CENTRE << BITS));
        _mm256_srai_epi16::<BITS>(_mm256_add_epi16(three, _mm256_add_epi16(next, rounding)))
    };
    [half(before, rounding[0]), half(after, rounding[1])]
}

#[inline]
#[target_feature(enable = "avx2")]
fn tripled(words: __m256i) -> __m256i {
    _mm256_add_epi16(words, _mm256_add_epi16(words, words))
}

/// Red, green and blue of words, which may be beyond a byte.
#[inline]
#[target_feature(enable = "avx2")]
fn converted(luma: __m256i, blue: __m256i, red: __m256i) -> [__m256i; 3] {
    let weights = _mm256_set1_epi32(i32::from(GREEN_OF_BLUE) & 0xFFFF | i32::from(GREEN_OF_RED) << 16);
    let rounding = _mm256_set1_epi32(GREEN_HALF);
    let pairs = [_mm256_unpacklo_epi16(blue, red), _mm256_unpackhi_epi16(blue, red)];
    let [low, high] = pairs.map(|pairs| {
        let sum = _mm256_add_epi32(_mm256_madd_epi16(pairs, weights), rounding);
        _mm256_srai_epi32::<{ GREEN_BITS as i32 }>(sum)
    });
    let green = _mm256_sub_epi16(_mm256_packs_epi32(low, high), red);
    [
        _mm256_add_epi16(_mm256_add_epi16(luma, red), _mm256_mulhrs_epi16(red, _mm256_set1_epi16(RED))),
        _mm256_add_epi16(luma, green),
        _mm256_add_epi16(_mm256_add_epi16(luma, blue), _mm256_mulhrs_epi16(blue, _mm256_set1_epi16(BLUE))),
    ]
}

/// Stores pixels of three colours, of each of which 16 bytes have eight of even columns and then eight of odd ones.
#[inline]
#[target_feature(enable = "avx2")]
fn store(colours: [__m256i; PIXEL], out: &mut [u8; STEP * PIXEL]) {
    let mut mixed = [_mm256_setzero_si256(); PIXEL];
    for (mixed, orders) in mixed.iter_mut().zip(&MIXED) {
        for (bytes, order) in colours.into_iter().zip(orders) {
            // SAFETY: 16 bytes are loaded, and there are as many.
            let order = _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(order.as_ptr().cast()) });
            *mixed = _mm256_or_si256(*mixed, _mm256_shuffle_epi8(bytes, order));
        }
    }
    let [first, second, third] = mixed;
    let whole = [
        _mm256_permute2x128_si256::<0x20>(first, second),
        _mm256_blend_epi32::<0xF0>(third, first),
        _mm256_permute2x128_si256::<0x31>(second, third),
    ];
    for (bytes, to) in whole.into_iter().zip(out.as_chunks_mut::<STEP>().0) {
        // SAFETY: 32 bytes are stored to as many.
        unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), bytes) };
    }
}

/// Of each 16 bytes of 16 pixels: which bytes of red, green and blue are there, or none.
static MIXED: [[[u8; LANE]; PIXEL]; PIXEL] = [mixed(0), mixed(1), mixed(2)];

const fn mixed(part: usize) -> [[u8; LANE]; PIXEL] {
    let mut orders = [[0x80; LANE]; PIXEL];
    let mut at = 0;
    while at < LANE {
        let byte = part * LANE + at;
        let (pixel, colour) = (byte / PIXEL, byte % PIXEL);
        orders[colour][at] = (pixel % 2 * 8 + pixel / 2) as u8;
        at += 1;
    }
    orders
}
