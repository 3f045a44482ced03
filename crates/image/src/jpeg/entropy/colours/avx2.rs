//! Makes rows of pixels with AVX2, 32 pixels at a time.
#![allow(unsafe_code)]

use std::arch::x86_64::*;
use std::mem::MaybeUninit;

use super::constants::*;
use super::row::{Chroma, Colours, MARGIN, Row};

/// The number of pixels of a step, one for each byte of a register.
const STEP: usize = 32;
/// The number of bytes in half a register; most instructions work on the two halves separately. It is also
/// the number of 16-bit words in a whole register.
const LANE: usize = 16;
/// The number of bytes of a pixel.
const PIXEL: usize = 3;
/// The number of steps in a span. Halved chroma is converted to 16-bit words for a whole span, and smoothed
/// afterwards.
const SPAN: usize = 16;
/// The number of words that a step needs of halved chroma: one for every two pixels, and a neighbour on each
/// side.
const WITH_NEIGHBOURS: usize = LANE + 2;

/// The function that makes a row of pixels, if this machine has the required features.
pub(super) fn colours() -> Option<Colours> {
    // SAFETY: the function is returned only if the machine has the feature.
    is_x86_feature_detected!("avx2").then_some(|row, chroma, out| unsafe { row_256(row, chroma, out) })
}

/// 16-bit words of the even columns, and of the odd columns.
type Halves = [__m256i; 2];

/// The memory for a span of halved chroma as 16-bit words.
type Words = [MaybeUninit<[i16; LANE]>; SPAN + 1];

#[target_feature(enable = "avx2")]
fn row_256(row: &Row<'_>, chroma: Chroma, out: &mut [u8]) -> Option<()> {
    match chroma {
        Chroma::None => None,
        Chroma::Full => write(row.luma, out, |step| {
            let [blue, red] = row.chroma;
            Some([full(blue, step)?, full(red, step)?])
        }),
        Chroma::HalfHeight => write(row.luma, out, |step| {
            let [blue, red] = row.chroma;
            Some([half_height(blue, row.is_lower, step)?, half_height(red, row.is_lower, step)?])
        }),
        Chroma::HalfWidth => write_spans::<2>(row, out),
        Chroma::Half => write_spans::<4>(row, out),
    }
}

/// Writes pixels whose chroma is halved across. The chroma of each span is converted to words, and the words
/// are then smoothed. `BITS` is the base-2 logarithm of the divisor that completes the smoothing: 2 if chroma
/// is halved only across, and 4 if it is also halved down.
#[inline]
#[target_feature(enable = "avx2")]
fn write_spans<const BITS: i32>(row: &Row<'_>, out: &mut [u8]) -> Option<()> {
    let mut words = [const { [const { MaybeUninit::uninit() }; SPAN + 1] }; 2];
    for (span, out) in out.chunks_mut(SPAN * STEP * PIXEL).enumerate() {
        let first = MARGIN + span * SPAN * LANE - 1;
        let count = out.len().div_ceil(STEP * PIXEL) + 1;
        let ([blue, red], [of_blue, of_red]) = (row.chroma, &mut words);
        let blue = as_words::<BITS>(blue, first, count, of_blue)?;
        let red = as_words::<BITS>(red, first, count, of_red)?;
        let with_neighbours = |words: &[i16], step: usize| {
            words.get(step * LANE..)?.first_chunk().map(|words| smoothed::<BITS>(words))
        };
        write(row.luma.get(span * SPAN * STEP..)?, out, |step| {
            Some([with_neighbours(blue, step)?, with_neighbours(red, step)?])
        })?;
    }
    Some(())
}

/// Converts `count` registers of chroma to words, beginning with the sample at index `first`. If chroma is
/// also halved down, each word is three times the sample of the nearest row plus the sample of the next
/// nearest row.
#[inline]
#[target_feature(enable = "avx2")]
fn as_words<'a, const BITS: i32>(
    [near, far]: [&[u8]; 2],
    first: usize,
    count: usize,
    words: &'a mut Words,
) -> Option<&'a [i16]> {
    let near = near.get(first..)?.as_chunks().0.get(..count)?;
    let far = far.get(first..)?.as_chunks().0.get(..count)?;
    let words = words.get_mut(..count)?;
    for ((near, far), words) in near.iter().zip(far).zip(&mut *words) {
        let mut sums = widened(near);
        if BITS == 4 {
            sums = _mm256_add_epi16(tripled(sums), widened(far));
        }
        // SAFETY: the store writes 16 words, and `words` has room for 16.
        unsafe { _mm256_storeu_si256(words.as_mut_ptr().cast(), sums) };
    }
    // SAFETY: the loop has initialised all of these words.
    Some(unsafe { words.assume_init_ref() }.as_flattened())
}

/// Writes pixels made of `luma` and of the chroma that `chroma` returns for each step.
#[inline]
#[target_feature(enable = "avx2")]
fn write(luma: &[u8], out: &mut [u8], chroma: impl Fn(usize) -> Option<[Halves; 2]>) -> Option<()> {
    let (whole, rest) = out.as_chunks_mut();
    let steps = whole.len();
    let luma = luma.as_chunks::<STEP>().0;
    for (step, (luma, out)) in luma.get(..steps)?.iter().zip(whole).enumerate() {
        write_step(luma, chroma(step)?, out);
    }
    if !rest.is_empty() {
        let mut all = [0; STEP * PIXEL];
        write_step(luma.get(steps)?, chroma(steps)?, &mut all);
        rest.copy_from_slice(all.get(..rest.len())?);
    }
    Some(())
}

#[inline]
#[target_feature(enable = "avx2")]
fn write_step(luma: &[u8; STEP], [blue, red]: [Halves; 2], out: &mut [u8; STEP * PIXEL]) {
    let levels = split(load(luma));
    let [even, odd] = [converted(levels[0], blue[0], red[0]), converted(levels[1], blue[1], red[1])];
    let mut colours = [_mm256_setzero_si256(); PIXEL];
    for (colour, bytes) in colours.iter_mut().enumerate() {
        *bytes = _mm256_packus_epi16(even[colour], odd[colour]);
    }
    store(colours, out);
}

/// Loads 32 samples.
#[inline]
#[target_feature(enable = "avx2")]
fn load(samples: &[u8; STEP]) -> __m256i {
    // SAFETY: the load reads 32 bytes, which is the length of the array.
    unsafe { _mm256_loadu_si256(samples.as_ptr().cast()) }
}

/// The samples of a step in a row of chroma that is not halved across.
fn samples_of(samples: &[u8], step: usize) -> Option<&[u8; STEP]> {
    samples.get(MARGIN + step * STEP..)?.first_chunk()
}

/// Splits bytes into 16-bit words of the even columns, and of the odd columns.
#[inline]
#[target_feature(enable = "avx2")]
fn split(bytes: __m256i) -> Halves {
    [_mm256_and_si256(bytes, _mm256_set1_epi16(0xFF)), _mm256_srli_epi16::<8>(bytes)]
}

/// The chroma of each pixel as a signed number, where zero means no colour.
#[inline]
#[target_feature(enable = "avx2")]
fn full([samples, _]: [&[u8]; 2], step: usize) -> Option<Halves> {
    let centre = _mm256_set1_epi16(CENTRE);
    let [even, odd] = split(load(samples_of(samples, step)?));
    Some([_mm256_sub_epi16(even, centre), _mm256_sub_epi16(odd, centre)])
}

/// The chroma of each pixel as a signed number, for chroma that is halved down. It is three quarters of the
/// sample in the nearest row plus one quarter of the sample in the next nearest row.
#[inline]
#[target_feature(enable = "avx2")]
fn half_height([near, far]: [&[u8]; 2], is_lower: bool, step: usize) -> Option<Halves> {
    let (near, far) = (split(load(samples_of(near, step)?)), split(load(samples_of(far, step)?)));
    let rounding = _mm256_set1_epi16(if is_lower { ODD_OF_4 } else { EVEN_OF_4 } - 4 * CENTRE);
    let mut halves = [_mm256_setzero_si256(); 2];
    for (half, words) in halves.iter_mut().enumerate() {
        let sum = _mm256_add_epi16(tripled(near[half]), _mm256_add_epi16(far[half], rounding));
        *words = _mm256_srai_epi16::<2>(sum);
    }
    Some(halves)
}

/// Loads 16 samples as words.
#[inline]
#[target_feature(enable = "avx2")]
fn widened(samples: &[u8; LANE]) -> __m256i {
    // SAFETY: the load reads 16 bytes, which is the length of the array.
    _mm256_cvtepu8_epi16(unsafe { _mm_loadu_si128(samples.as_ptr().cast()) })
}

/// The chroma of each pixel as a signed number, for chroma that is halved across. A pixel gets three parts of
/// its own column and one part of the column beside it: the one before for even pixels, the one after for odd
/// pixels. The sum is divided by two to the power `BITS`.
#[inline]
#[target_feature(enable = "avx2")]
fn smoothed<const BITS: i32>(words: &[i16; WITH_NEIGHBOURS]) -> Halves {
    let from = words.as_ptr();
    // SAFETY: `words` has 18 words. The three loads of 16 words begin at words 0, 1 and 2.
    let [before, column, after] = unsafe {
        [
            _mm256_loadu_si256(from.cast()),
            _mm256_loadu_si256(from.add(1).cast()),
            _mm256_loadu_si256(from.add(2).cast()),
        ]
    };
    let rounding = if BITS == 2 { [EVEN_OF_4, ODD_OF_4] } else { [EVEN_OF_16, ODD_OF_16] };
    let [even, odd] = rounding.map(|rounding| rounding - (CENTRE << BITS));
    let three = tripled(column);
    let [even, odd] = [
        _mm256_add_epi16(_mm256_add_epi16(three, _mm256_set1_epi16(even)), before),
        _mm256_add_epi16(_mm256_add_epi16(three, _mm256_set1_epi16(odd)), after),
    ];
    [_mm256_srai_epi16::<BITS>(even), _mm256_srai_epi16::<BITS>(odd)]
}

#[inline]
#[target_feature(enable = "avx2")]
fn tripled(words: __m256i) -> __m256i {
    _mm256_mullo_epi16(words, _mm256_set1_epi16(3))
}

/// Computes red, green and blue as 16-bit words, whose values may not fit a byte yet.
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

/// Stores pixels, given a register for each colour. In every 16 bytes of a register, the eight even columns
/// come before the eight odd columns.
#[inline]
#[target_feature(enable = "avx2")]
fn store(colours: [__m256i; PIXEL], out: &mut [u8; STEP * PIXEL]) {
    let [mut red, mut green, mut blue] = colours;
    for (bytes, order) in [&mut red, &mut green, &mut blue].into_iter().zip(&ORDERS) {
        *bytes = _mm256_shuffle_epi8(*bytes, twice(order));
    }
    let thirds = [twice(&THIRDS[0]), twice(&THIRDS[1]), twice(&THIRDS[2])];
    let mut mixed = [_mm256_setzero_si256(); PIXEL];
    for (part, mixed) in mixed.iter_mut().enumerate() {
        let [of_green, of_blue] = [thirds[(1 + PIXEL - part) % PIXEL], thirds[(2 + PIXEL - part) % PIXEL]];
        *mixed = _mm256_blendv_epi8(_mm256_blendv_epi8(red, green, of_green), blue, of_blue);
    }
    let [first, second, third] = mixed;
    let whole = [
        _mm256_permute2x128_si256::<0x20>(first, second),
        _mm256_blend_epi32::<0xF0>(third, first),
        _mm256_permute2x128_si256::<0x31>(second, third),
    ];
    for (bytes, to) in whole.into_iter().zip(out.as_chunks_mut::<STEP>().0) {
        // SAFETY: the store writes 32 bytes, which is the length of the array.
        unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), bytes) };
    }
}

/// Copies the bytes to both halves of a register.
#[inline]
#[target_feature(enable = "avx2")]
fn twice(bytes: &[u8; LANE]) -> __m256i {
    // SAFETY: the load reads 16 bytes, which is the length of the array.
    _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) })
}

/// For each colour, the shuffle indices that move its 16 bytes to their final positions modulo 16. One
/// shuffle serves all three output registers, because 3 and 16 have no common factor.
static ORDERS: [[u8; LANE]; PIXEL] = {
    let (mut orders, mut byte) = ([[0; LANE]; PIXEL], 0);
    while byte < LANE * PIXEL {
        let (pixel, colour) = (byte / PIXEL, byte % PIXEL);
        orders[colour][byte % LANE] = (pixel % 2 * 8 + pixel / 2) as u8;
        byte += 1;
    }
    orders
};

/// Masks that select every third byte, beginning with the first, the second or the third byte.
static THIRDS: [[u8; LANE]; PIXEL] = {
    let (mut thirds, mut byte) = ([[0; LANE]; PIXEL], 0);
    while byte < LANE {
        thirds[byte % PIXEL][byte] = 0xFF;
        byte += 1;
    }
    thirds
};
