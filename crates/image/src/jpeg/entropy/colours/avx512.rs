//! Makes rows of pixels with AVX-512, 64 pixels at a time.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::constants::*;
use super::row::{Chroma, Colours, MARGIN, Row};

/// The number of pixels of a step, one for each byte of a register.
const STEP: usize = 64;
/// The number of bytes of a pixel.
const PIXEL: usize = 3;
/// The number of samples of halved chroma that are loaded before the first sample of a step, because
/// smoothing also needs the sample before it.
const BEFORE: usize = 16;

/// The function that makes a row of pixels, if this machine has the required features.
pub(super) fn colours() -> Option<Colours> {
    let has = is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vbmi")
        && is_x86_feature_detected!("avx512vnni");
    // SAFETY: the function is returned only if the machine has the features.
    has.then_some(|row, chroma, out| unsafe { row_512(row, chroma, out) })
}

/// 16-bit words of the even columns, and of the odd columns.
type Halves = [__m512i; 2];

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vnni")]
fn row_512(row: &Row<'_>, chroma: Chroma, out: &mut [u8]) -> Option<()> {
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
        let mut pixels = [[_mm512_setzero_si512(); 3]; 2];
        for (half, pixels) in pixels.iter_mut().enumerate() {
            *pixels = converted(levels[half], blue[half], red[half]);
        }
        let [even, odd] = pixels;
        store(std::array::from_fn(|colour| _mm512_packus_epi16(even[colour], odd[colour])), out);
    }
    Some(())
}

/// Loads 64 samples.
#[inline]
#[target_feature(enable = "avx512f")]
fn load(samples: &[u8], at: usize) -> Option<__m512i> {
    let samples = samples.get(at..)?.first_chunk::<STEP>()?;
    // SAFETY: 64 bytes are loaded, which is the length of the array.
    Some(unsafe { _mm512_loadu_si512(samples.as_ptr().cast()) })
}

/// Splits bytes into 16-bit words of the even columns, and of the odd columns.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn split(bytes: __m512i) -> Halves {
    [_mm512_and_si512(bytes, _mm512_set1_epi16(0xFF)), _mm512_srli_epi16::<8>(bytes)]
}

/// The chroma of each pixel as a signed number, where zero means no colour.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn full([samples, _]: [&[u8]; 2], at: usize) -> Option<Halves> {
    let centre = _mm512_set1_epi16(CENTRE);
    Some(split(load(samples, MARGIN + at)?).map(|half| _mm512_sub_epi16(half, centre)))
}

/// The chroma of each pixel as a signed number, for chroma that is halved down. It is three quarters of the
/// sample in the nearest row plus one quarter of the sample in the next nearest row.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn half_height([near, far]: [&[u8]; 2], is_lower: bool, at: usize) -> Option<Halves> {
    let (near, far) = (split(load(near, MARGIN + at)?), split(load(far, MARGIN + at)?));
    let rounding = _mm512_set1_epi16(if is_lower { ODD_OF_4 } else { EVEN_OF_4 } - 4 * CENTRE);
    Some([0, 1].map(|half| {
        let sum = _mm512_add_epi16(tripled(near[half]), _mm512_add_epi16(far[half], rounding));
        _mm512_srai_epi16::<2>(sum)
    }))
}

/// The chroma of each pixel as a signed number, for chroma that is halved across. It is three quarters of the
/// sample in the nearest column plus one quarter of the sample in the next nearest column.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn half_width([samples, _]: [&[u8]; 2], at: usize) -> Option<Halves> {
    let bytes = load(samples, MARGIN + at / 2 - BEFORE)?;
    let columns = NEIGHBOURS.map(|indices| {
        // SAFETY: 64 bytes are loaded, which is the length of the array.
        let indices = unsafe { _mm512_load_si512(indices.0.as_ptr().cast()) };
        _mm512_maskz_permutexvar_epi8(EVERY_SECOND, indices, bytes)
    });
    Some(smoothed::<2>(columns, [EVEN_OF_4, ODD_OF_4]))
}

/// The chroma of each pixel as a signed number, for chroma that is halved across and down.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn half([near, far]: [&[u8]; 2], at: usize) -> Option<Halves> {
    let [near, far] = [load(near, MARGIN + at / 2 - BEFORE)?, load(far, MARGIN + at / 2 - BEFORE)?];
    let parts = _mm512_set1_epi16(i16::from_le_bytes([3, 1]));
    let columns = NEIGHBOURS.map(|indices| {
        // SAFETY: 64 bytes are loaded, which is the length of the array.
        let indices = unsafe { _mm512_load_si512(indices.0.as_ptr().cast()) };
        _mm512_maddubs_epi16(_mm512_permutex2var_epi8(near, indices, far), parts)
    });
    Some(smoothed::<4>(columns, [EVEN_OF_16, ODD_OF_16]))
}

/// The bytes of a register, aligned in memory.
#[repr(align(64))]
struct Aligned([u8; STEP]);

/// Shuffle indices that select, for the 32 columns of a step, the column before each, the column itself and
/// the column after it. The bytes at odd indices come from a second register.
const NEIGHBOURS: [&Aligned; 3] = [&neighbours(BEFORE - 1), &neighbours(BEFORE), &neighbours(BEFORE + 1)];

/// A mask of every second byte: the bytes that come from the first register.
const EVERY_SECOND: u64 = 0x5555_5555_5555_5555;

const fn neighbours(first: usize) -> Aligned {
    let mut indices = [0; STEP];
    let mut at = 0;
    while at < STEP {
        indices[at] = (first + at / 2 + at % 2 * STEP) as u8;
        at += 1;
    }
    Aligned(indices)
}

/// Smooths chroma across: a pixel gets three parts of its own column and one part of the column beside it,
/// which is the one before for even pixels and the one after for odd pixels.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn smoothed<const BITS: u32>([before, column, after]: [__m512i; 3], rounding: [i16; 2]) -> Halves {
    let three = tripled(column);
    let half = |next: __m512i, rounding: i16| {
        let rounding = _mm512_set1_epi16(rounding - (CENTRE << BITS));
        _mm512_srai_epi16::<BITS>(_mm512_add_epi16(three, _mm512_add_epi16(next, rounding)))
    };
    [half(before, rounding[0]), half(after, rounding[1])]
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn tripled(words: __m512i) -> __m512i {
    _mm512_add_epi16(words, _mm512_add_epi16(words, words))
}

/// Computes red, green and blue as 16-bit words, whose values may not fit a byte yet.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn converted(luma: __m512i, blue: __m512i, red: __m512i) -> [__m512i; 3] {
    let weights = _mm512_set1_epi32(i32::from(GREEN_OF_BLUE) & 0xFFFF | i32::from(GREEN_OF_RED) << 16);
    let rounding = _mm512_set1_epi32(GREEN_HALF);
    let pairs = [_mm512_unpacklo_epi16(blue, red), _mm512_unpackhi_epi16(blue, red)];
    let [low, high] =
        pairs.map(|pairs| _mm512_srai_epi32::<GREEN_BITS>(_mm512_dpwssd_epi32(rounding, pairs, weights)));
    let green = _mm512_sub_epi16(_mm512_packs_epi32(low, high), red);
    [
        _mm512_add_epi16(_mm512_add_epi16(luma, red), _mm512_mulhrs_epi16(red, _mm512_set1_epi16(RED))),
        _mm512_add_epi16(luma, green),
        _mm512_add_epi16(_mm512_add_epi16(luma, blue), _mm512_mulhrs_epi16(blue, _mm512_set1_epi16(BLUE))),
    ]
}

/// Stores pixels, given a register for each colour. In every 16 bytes of a register, the eight even columns
/// come before the eight odd columns.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn store([red, green, blue]: [__m512i; 3], out: &mut [u8]) {
    let mut bytes = [_mm512_setzero_si512(); PIXEL];
    for ((order, is_blue), bytes) in MIXED.iter().zip(&mut bytes) {
        // SAFETY: 64 bytes are loaded, which is the length of the array.
        let order = unsafe { _mm512_load_si512(order.0.as_ptr().cast()) };
        let two = _mm512_permutex2var_epi8(red, order, green);
        *bytes = _mm512_mask_permutexvar_epi8(two, *is_blue, order, blue);
    }
    let whole = out.len() == STEP * PIXEL;
    for (bytes, to) in bytes.into_iter().zip(out.chunks_mut(STEP)) {
        // SAFETY: if `out` is whole, `to` has 64 bytes, which is what a store writes. Otherwise, the mask
        // limits the store to the length of `to`.
        unsafe {
            match whole {
                true => _mm512_storeu_si512(to.as_mut_ptr().cast(), bytes),
                false => {
                    _mm512_mask_storeu_epi8(to.as_mut_ptr().cast(), u64::MAX >> (STEP - to.len()), bytes)
                }
            }
        }
    }
}

/// For each of the three output registers, the shuffle indices of its bytes and a mask of its blue bytes.
static MIXED: [(Aligned, u64); PIXEL] = [mixed(0), mixed(1), mixed(2)];

const fn mixed(register: usize) -> (Aligned, u64) {
    let (mut order, mut is_blue) = ([0; STEP], 0);
    let mut at = 0;
    while at < STEP {
        let byte = register * STEP + at;
        let (pixel, colour) = (byte / PIXEL, byte % PIXEL);
        let place = pixel / 16 * 16 + pixel % 2 * 8 + pixel % 16 / 2;
        order[at] = (place + if colour == 1 { STEP } else { 0 }) as u8;
        is_blue |= ((colour == 2) as u64) << at;
        at += 1;
    }
    (Aligned(order), is_blue)
}
