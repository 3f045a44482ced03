//! Resizes levels of 8 bits with AVX-512, with four weights at a time, each of 16 bits as two halves of 8.
//!
//! Rows are first resized vertically, from whole rows of the source to intermediate rows, and then
//! horizontally. For the horizontal step, every 16 bytes of a result row have a [`Lane`]: the positions of
//! their levels in the intermediate row, and the weights. The lanes also decide the order of pixels, so
//! mirroring costs nothing.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::super::depth::Depth;
use super::super::geometry::{Mirror, Rect};
use super::super::spec::Size;
use super::decoded::Decoded;
use super::part::Part;
use super::source::RowSource;
use super::target::{ResizeTarget, STRIP_ROWS as ROWS};
use super::weights::{LineWeights, TAPS};

/// The number of bytes of a register.
const REGISTER: usize = 64;
/// The number of bytes of two registers.
const TWO_REGISTERS: usize = 128;
/// The number of spare bytes after an intermediate row, because a lane loads whole registers even at the
/// row's end. It suffices for three channels.
const SLACK: usize = MAX_FOURS * TAPS * 3 + TWO_REGISTERS;
/// The number of sums in a register. Each becomes a byte of a result row.
const SUMS: usize = 16;
/// The most groups of four weights that a result pixel may have along an axis. They suffice for shrinking by
/// a factor of a little more than 7.
const MAX_FOURS: usize = 4;
/// The most fractional bits of a weight. With more, a sum of weighted levels would not fit into 16 bits after
/// its lower 8 bits are dropped.
const MAX_PRECISION: u32 = 16;
/// Multiplying a byte by this number copies it to four bytes.
const EACH: u32 = 0x0101_0101;
/// The largest weight whose rounded upper half fits into a signed byte.
const MAX_WEIGHT: i16 = 0x7F7F;

/// The operands that add four weighted levels to each of 16 sums, which become 16 bytes of a result row. Each
/// array element has four bytes, one for each of the four weights.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Lane {
    /// The positions of the levels in the intermediate row, relative to `base`.
    indices: [u32; SUMS],
    /// The upper halves of the weights, in units of 256.
    upper: [u32; SUMS],
    /// The lower halves of the weights.
    lower: [u32; SUMS],
    base: usize,
}

/// A thread's state for resizing with AVX-512.
#[derive(Default)]
pub(super) struct Avx512 {
    across: LineWeights,
    down: LineWeights,
    lanes: Vec<Lane>,
    /// The intermediate rows, which are resized vertically but not yet horizontally.
    rows: Vec<u8>,
}

/// Whether this processor has the AVX-512 extensions that are used here.
pub(super) fn is_here() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512vbmi")
        && is_x86_feature_detected!("avx512vnni")
}

impl Avx512 {
    /// Resizes a part of a view to the target. Returns false, and leaves the target unchanged, for plain
    /// copies and for scales that this code does not support.
    pub(super) fn resize(
        &mut self,
        decoded: Decoded<'_>,
        view: Rect,
        part: Part,
        size: Size,
        mirror: Mirror,
        target: &mut ResizeTarget<'_>,
    ) -> bool {
        if part.is_copied(size) || decoded.depth != Depth::Eight || !is_here() {
            return false;
        }
        // SAFETY: `is_here` found that the processor has all of these extensions.
        unsafe { self.resize_512(decoded, view, part, size, mirror, target) }.is_some()
    }

    /// The bytes that a resize needs in addition to weights and intermediate rows, if a row of the target has
    /// `row` bytes.
    pub(super) const fn lane_bytes(row: u64) -> u64 {
        (row / SUMS as u64 + 1) * (MAX_FOURS * size_of::<Lane>()) as u64 + (ROWS * SLACK) as u64
    }

    /// The number of bytes that the state takes.
    pub(super) fn bytes(&self) -> u64 {
        let lanes = self.lanes.capacity() * size_of::<Lane>();
        self.across.bytes() + self.down.bytes() + (lanes + self.rows.capacity()) as u64
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vnni")]
    fn resize_512(
        &mut self,
        decoded: Decoded<'_>,
        view: Rect,
        part: Part,
        size: Size,
        mirror: Mirror,
        target: &mut ResizeTarget<'_>,
    ) -> Option<()> {
        let channels = decoded.channels;
        let Avx512 { across, down, lanes, rows } = self;
        across.set(view.width, part.left, part.width, size.width)?;
        down.set(view.height, part.top, part.height, size.height)?;
        (across.fours.max(down.fours) <= MAX_FOURS).then_some(())?;
        (across.precision.max(down.precision) <= MAX_PRECISION).then_some(())?;
        (across.largest.max(down.largest) <= MAX_WEIGHT).then_some(())?;
        let source = RowSource::visible(decoded, view)?;
        let reach = set_lanes(lanes, across, channels, mirror.across);
        (reach <= TWO_REGISTERS).then_some(())?;
        let pitch = source.bytes.next_multiple_of(REGISTER) + SLACK;
        if rows.len() < pitch * ROWS {
            *rows = vec![0; pitch * ROWS];
        }
        let rows = &mut rows[..pitch * ROWS];
        let row = size.width as usize * channels;
        let height = size.height as usize;
        for first in (0..height).step_by(ROWS) {
            let made = first..height.min(first + ROWS);
            let some = target.rows(&made, row)?;
            for (to, y) in rows.chunks_exact_mut(pitch).zip(made.clone()) {
                let y = if mirror.down { height - 1 - y } else { y };
                match down.fours {
                    1 => source_row::<1>(source, down, y, to)?,
                    2 => source_row::<2>(source, down, y, to)?,
                    3 => source_row::<3>(source, down, y, to)?,
                    _ => source_row::<MAX_FOURS>(source, down, y, to)?,
                }
            }
            let precision = across.precision;
            match (across.fours, reach <= REGISTER) {
                (1, true) => write_rows::<1, false>(lanes, precision, rows, some, row)?,
                (1, false) => write_rows::<1, true>(lanes, precision, rows, some, row)?,
                (2, true) => write_rows::<2, false>(lanes, precision, rows, some, row)?,
                (2, false) => write_rows::<2, true>(lanes, precision, rows, some, row)?,
                (3, _) => write_rows::<3, true>(lanes, precision, rows, some, row)?,
                _ => write_rows::<MAX_FOURS, true>(lanes, precision, rows, some, row)?,
            }
            target.made(&made, row);
        }
        Some(())
    }
}

/// Computes the lanes of a result row, which are the same for all rows. Returns the largest number of bytes
/// from its base that a lane reads.
fn set_lanes(lanes: &mut Vec<Lane>, across: &LineWeights, channels: usize, mirrored: bool) -> usize {
    let (width, fours) = (across.firsts.len(), across.fours);
    let empty = Lane { indices: [0; SUMS], upper: [0; SUMS], lower: [0; SUMS], base: usize::MAX };
    lanes.clear();
    lanes.resize((width * channels).div_ceil(SUMS) * fours, empty);
    let spacing = u32::from_le_bytes(std::array::from_fn(|tap| (tap * channels) as u8));
    let mut reach = 0;
    for (group, lanes) in lanes.chunks_exact_mut(fours).enumerate() {
        let bytes = group * SUMS..((group + 1) * SUMS).min(width * channels);
        let (mut pixel, mut channel) = (bytes.start / channels, bytes.start % channels);
        let from = |pixel: usize| if mirrored { width - 1 - pixel } else { pixel };
        let first = |pixel: usize| across.firsts[from(pixel)] as usize * channels;
        let ends = [first(pixel), first((bytes.end - 1) / channels)];
        let base = ends[0].min(ends[1]);
        reach = reach.max(ends[0].max(ends[1]) - base + TAPS * channels);
        let mut at = 0;
        while at < bytes.len() {
            // `some` is the range of this pixel's bytes in the group. The group of 16 bytes may begin or end
            // within the pixel.
            let some = at..bytes.len().min(at + channels - channel);
            // An offset above 255 gives wrong indices here, but the caller then refuses the lanes because of
            // the returned `reach`.
            let offset = (first(pixel) + channel).wrapping_sub(base) as u32;
            for (lane, weights) in lanes.iter_mut().zip(across.for_pixel(from(pixel))) {
                let (upper, lower) = halves(weights);
                for (at, channel) in some.clone().zip(0..) {
                    lane.indices[at] = spacing.wrapping_add((offset + channel).wrapping_mul(EACH));
                    (lane.upper[at], lane.lower[at]) = (upper, lower);
                }
            }
            (at, pixel, channel) = (some.end, pixel + 1, 0);
        }
        for (four, lane) in lanes.iter_mut().enumerate() {
            lane.base = base + four * TAPS * channels;
        }
    }
    reach
}

/// The four weights of each sum, split into upper and lower 8 bits.
#[derive(Clone, Copy)]
struct Halves {
    upper: __m512i,
    lower: __m512i,
}

/// Computes the 32-bit sums of levels times their weights, without their lower 8 bits. `half` is added for
/// rounding.
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
fn weighed<const FOURS: usize>(
    levels: &[__m512i; FOURS],
    weights: &[Halves; FOURS],
    half: __m512i,
) -> __m512i {
    let mut sum = half;
    for (levels, weights) in levels.iter().zip(weights) {
        sum = _mm512_dpbusd_epi32(sum, *levels, weights.lower);
    }
    sum = _mm512_srai_epi32::<8>(sum);
    for (levels, weights) in levels.iter().zip(weights) {
        sum = _mm512_dpbusd_epi32(sum, *levels, weights.upper);
    }
    sum
}

/// Rounds sums to bytes: adds half of the last unit that is kept (`half`), and shifts to the right.
#[derive(Clone, Copy)]
struct Rounding {
    shift: __m128i,
    half: __m512i,
}

impl Rounding {
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn for_precision(precision: u32) -> Rounding {
        let shift = _mm_cvtsi32_si128(precision as i32 - 8);
        Rounding { shift, half: _mm512_set1_epi32((1 << precision) >> 1) }
    }

    /// Converts four registers of sums to one register of bytes. Each quarter of the result has four bytes
    /// from the first register, then four from the second, and so on.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn bytes(self, [a, b, c, d]: [__m512i; 4]) -> __m512i {
        let low = _mm512_srl_epi16(_mm512_packus_epi32(a, b), self.shift);
        let high = _mm512_srl_epi16(_mm512_packus_epi32(c, d), self.shift);
        _mm512_packus_epi16(low, high)
    }
}

/// Makes the intermediate row for the result row `y`. It has the width of the view (the part of the source
/// that is read).
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vnni")]
fn source_row<const FOURS: usize>(
    source: RowSource<'_>,
    down: &LineWeights,
    y: usize,
    to: &mut [u8],
) -> Option<()> {
    let RowSource { pixels, pitch, bytes, last } = source;
    let first = *down.firsts.get(y)? as usize;
    let mut rows: [[&[u8]; TAPS]; FOURS] = [[&[]; TAPS]; FOURS];
    for (row, at) in rows.as_flattened_mut().iter_mut().zip(first..) {
        let from = at.min(last) * pitch;
        *row = pixels.get(from..from + bytes)?;
    }
    let mut weights = [Halves { upper: _mm512_setzero_si512(), lower: _mm512_setzero_si512() }; FOURS];
    for (to, weights) in weights.iter_mut().zip(down.for_pixel(y)) {
        let (upper, lower) = halves(weights);
        to.upper = _mm512_set1_epi32(upper.cast_signed());
        to.lower = _mm512_set1_epi32(lower.cast_signed());
    }
    let rounding = Rounding::for_precision(down.precision);
    let blocks = to.as_chunks_mut::<REGISTER>().0.iter_mut();
    for (block, to) in blocks.enumerate().take(bytes.div_ceil(REGISTER)) {
        let at = block * REGISTER;
        let count = (bytes - at).min(REGISTER);
        let mask = u64::MAX >> (REGISTER - count);
        let mut levels = [[_mm512_setzero_si512(); FOURS]; 4];
        for (four, rows) in rows.iter().enumerate() {
            let [a, b, c, d] = rows;
            // SAFETY: the mask limits each load to the bytes that the row still has.
            let (a, b, c, d) = unsafe {
                (
                    _mm512_maskz_loadu_epi8(mask, a.as_ptr().add(at).cast()),
                    _mm512_maskz_loadu_epi8(mask, b.as_ptr().add(at).cast()),
                    _mm512_maskz_loadu_epi8(mask, c.as_ptr().add(at).cast()),
                    _mm512_maskz_loadu_epi8(mask, d.as_ptr().add(at).cast()),
                )
            };
            let [low, high] = [_mm512_unpacklo_epi8(a, b), _mm512_unpackhi_epi8(a, b)];
            let [below, above] = [_mm512_unpacklo_epi8(c, d), _mm512_unpackhi_epi8(c, d)];
            levels[0][four] = _mm512_unpacklo_epi16(low, below);
            levels[1][four] = _mm512_unpackhi_epi16(low, below);
            levels[2][four] = _mm512_unpacklo_epi16(high, above);
            levels[3][four] = _mm512_unpackhi_epi16(high, above);
        }
        let mut sums = [_mm512_setzero_si512(); 4];
        for (sum, levels) in sums.iter_mut().zip(&levels) {
            *sum = weighed(levels, &weights, rounding.half);
        }
        let bytes = rounding.bytes(sums);
        // SAFETY: 64 bytes are written to memory of 64 bytes.
        unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), bytes) };
    }
    Some(())
}

/// Splits four weights into an upper and a lower byte each. The lower byte is signed, and the upper byte
/// counts units of 256.
#[inline(always)]
fn halves(weights: &[i16; TAPS]) -> (u32, u32) {
    let (mut upper, mut lower) = ([0; TAPS], [0; TAPS]);
    for (at, weight) in weights.iter().enumerate() {
        upper[at] = ((i32::from(*weight) + 128) >> 8) as u8;
        lower[at] = *weight as u8;
    }
    (u32::from_le_bytes(upper), u32::from_le_bytes(lower))
}

/// Makes up to four rows of the result from intermediate rows. With `WIDE`, a lane reads 128 bytes instead of
/// 64.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vnni")]
fn write_rows<const FOURS: usize, const WIDE: bool>(
    lanes: &[Lane],
    precision: u32,
    rows: &[u8],
    target: &mut [u8],
    row: usize,
) -> Option<()> {
    let rounding = Rounding::for_precision(precision);
    // Each quarter of a register has four bytes of every row. This order brings the bytes of a row together.
    let by_rows = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    let pitch = rows.len() / ROWS;
    let mut targets = target.chunks_exact_mut(row);
    let mut targets: [Option<&mut [u8]>; ROWS] = std::array::from_fn(|_| targets.next());
    for (group, lanes) in lanes.as_chunks::<FOURS>().0.iter().enumerate() {
        (lanes.iter().all(|lane| lane.base + TWO_REGISTERS <= pitch)).then_some(())?;
        let mut levels = [[_mm512_setzero_si512(); FOURS]; ROWS];
        let mut weights = [Halves { upper: _mm512_setzero_si512(), lower: _mm512_setzero_si512() }; FOURS];
        for (four, lane) in lanes.iter().enumerate() {
            // SAFETY: 64 bytes are loaded from each of these arrays, which have 64 bytes and are aligned to
            // 64.
            let indices = unsafe {
                weights[four].upper = _mm512_load_si512(lane.upper.as_ptr().cast());
                weights[four].lower = _mm512_load_si512(lane.lower.as_ptr().cast());
                _mm512_load_si512(lane.indices.as_ptr().cast())
            };
            for (at, levels) in levels.iter_mut().enumerate() {
                // SAFETY: 64 or 128 bytes are loaded, and it was checked above that a row has 128 bytes from
                // each base on.
                levels[four] = unsafe {
                    let from = rows.as_ptr().add(at * pitch + lane.base);
                    let first = _mm512_loadu_si512(from.cast());
                    if WIDE {
                        let second = _mm512_loadu_si512(from.add(REGISTER).cast());
                        _mm512_permutex2var_epi8(first, indices, second)
                    } else {
                        _mm512_permutexvar_epi8(indices, first)
                    }
                };
            }
        }
        let mut sums = [_mm512_setzero_si512(); 4];
        for (sum, levels) in sums.iter_mut().zip(&levels) {
            *sum = weighed(levels, &weights, rounding.half);
        }
        let bytes = rounding.bytes(sums);
        let bytes = _mm512_permutexvar_epi32(by_rows, bytes);
        let each = [
            _mm512_castsi512_si128(bytes),
            _mm512_extracti32x4_epi32::<1>(bytes),
            _mm512_extracti32x4_epi32::<2>(bytes),
            _mm512_extracti32x4_epi32::<3>(bytes),
        ];
        let from = group * SUMS;
        let mask = u16::MAX >> (SUMS - (row - from).min(SUMS));
        for (target, bytes) in targets.iter_mut().flatten().zip(each) {
            let to = target.get_mut(from..)?;
            // SAFETY: the mask limits the store to the bytes that the row still has.
            unsafe { _mm_mask_storeu_epi8(to.as_mut_ptr().cast(), mask, bytes) };
        }
    }
    Some(())
}
