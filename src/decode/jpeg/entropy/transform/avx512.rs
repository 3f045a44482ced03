//! The transform with AVX-512: of Loeffler, Ligtenberg and Moschytz (ICASSP 1989), in fixed point.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::super::library::{TRANSFORMS, Transform, TransformJob};

/// Bits after the point of a constant, and those that the first pass leaves.
const CONSTANT_BITS: u32 = 13;
const PASS_BITS: u32 = 2;
/// Bits that each pass rounds away. The second one divides by 8 as well.
const FIRST_SHIFT: u32 = CONSTANT_BITS - PASS_BITS;
const SECOND_SHIFT: u32 = CONSTANT_BITS + PASS_BITS + 3;
/// What turns levels around zero to bytes, once they are bytes.
const CENTRE: i8 = i8::MIN;

/// A number with [`CONSTANT_BITS`].
const fn fixed(number: f64) -> i16 {
    (number * (1 << CONSTANT_BITS) as f64 + 0.5) as i16
}

const C_0_298: i16 = fixed(0.298_631_336);
const C_0_390: i16 = fixed(0.390_180_644);
const C_0_541: i16 = fixed(0.541_196_100);
const C_0_765: i16 = fixed(0.765_366_865);
const C_0_899: i16 = fixed(0.899_976_223);
const C_1_175: i16 = fixed(1.175_875_602);
const C_1_501: i16 = fixed(1.501_321_110);
const C_1_847: i16 = fixed(1.847_759_065);
const C_1_961: i16 = fixed(1.961_570_560);
const C_2_053: i16 = fixed(2.053_119_869);
const C_2_562: i16 = fixed(2.562_915_447);
const C_3_072: i16 = fixed(3.072_711_026);

/// The function, if this machine has all that it needs.
pub(super) fn transform() -> Option<Transform> {
    let has = is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq");
    unsafe extern "C" fn detected(jobs: *const [TransformJob; TRANSFORMS]) {
        // SAFETY: the function is only handed out where the machine has the features; the caller vouches for the jobs.
        unsafe { transform_512(&*jobs) }
    }
    has.then_some(detected)
}

/// # Safety
/// The pointers of all jobs are valid, and their rows have eight bytes from the column on.
#[target_feature(enable = "avx512f,avx512bw,avx512dq")]
unsafe fn transform_512(jobs: &[TransformJob; TRANSFORMS]) {
    // SAFETY: a block and a table have 128 bytes each.
    let (blocks, tables) = unsafe {
        (
            by_rows(jobs.each_ref().map(|job| job.block.cast())),
            by_rows(jobs.each_ref().map(|job| job.quantization.cast())),
        )
    };
    let rows: [__m512i; 8] = std::array::from_fn(|at| _mm512_mullo_epi16(blocks[at], tables[at]));
    let mut columns = pass::<FIRST_SHIFT>(rows);
    // Blocks without any AC below the first row: the library saves their first pass, which differs where it overflows.
    let below = blocks[1..].iter().fold(_mm512_setzero_si512(), |all, row| _mm512_or_si512(all, *row));
    let any = _mm512_test_epi64_mask(below, below);
    let flat = !(any | any >> 1) & 0b0101_0101;
    if flat != 0 {
        let shifted = _mm512_slli_epi16::<PASS_BITS>(rows[0]);
        columns = columns.map(|column| _mm512_mask_mov_epi64(column, flat | flat << 1, shifted));
    }
    let rows = transposed(pass::<SECOND_SHIFT>(transposed(columns)));
    let centre = _mm512_set1_epi8(CENTRE);
    for pair in 0..4 {
        let bytes = _mm512_packs_epi16(rows[2 * pair], rows[2 * pair + 1]);
        let bytes = _mm512_add_epi8(bytes, centre);
        let each = [
            _mm512_castsi512_si128(bytes),
            _mm512_extracti32x4_epi32::<1>(bytes),
            _mm512_extracti32x4_epi32::<2>(bytes),
            _mm512_extracti32x4_epi32::<3>(bytes),
        ];
        for (job, bytes) in jobs.iter().zip(each) {
            let column = job.column as usize;
            // SAFETY: the caller vouches for eight rows, of eight bytes from the column on.
            unsafe {
                let [first, second] = [0, 1].map(|row| (*job.rows.add(2 * pair + row)).add(column));
                _mm_storel_epi64(first.cast(), bytes);
                _mm_storeh_pd(second.cast(), _mm_castsi128_pd(bytes));
            }
        }
    }
}

/// The rows of four blocks of 8x8: each register has one of each block.
///
/// # Safety
/// 128 bytes may be read from each pointer.
#[target_feature(enable = "avx512f,avx512bw,avx512dq")]
unsafe fn by_rows(blocks: [*const u8; TRANSFORMS]) -> [__m512i; 8] {
    let mut rows = [_mm512_setzero_si512(); 8];
    for half in 0..2 {
        // SAFETY: 64 bytes are read from the beginning and from the middle.
        let [a, b, c, d] = blocks.map(|block| unsafe { _mm512_loadu_si512(block.add(64 * half).cast()) });
        let [first, second] = [_mm512_shuffle_i32x4::<0x44>(a, b), _mm512_shuffle_i32x4::<0x44>(c, d)];
        let [third, fourth] = [_mm512_shuffle_i32x4::<0xEE>(a, b), _mm512_shuffle_i32x4::<0xEE>(c, d)];
        rows[4 * half] = _mm512_shuffle_i32x4::<0x88>(first, second);
        rows[4 * half + 1] = _mm512_shuffle_i32x4::<0xDD>(first, second);
        rows[4 * half + 2] = _mm512_shuffle_i32x4::<0x88>(third, fourth);
        rows[4 * half + 3] = _mm512_shuffle_i32x4::<0xDD>(third, fourth);
    }
    rows
}

/// Rows as columns, in each block.
#[target_feature(enable = "avx512f,avx512bw,avx512dq")]
fn transposed(rows: [__m512i; 8]) -> [__m512i; 8] {
    let low = |a: __m512i, b: __m512i| _mm512_unpacklo_epi16(a, b);
    let high = |a: __m512i, b: __m512i| _mm512_unpackhi_epi16(a, b);
    let [a, b, c, d, e, f, g, h] = rows;
    // Twice, rows that are four apart are mixed, and then those two apart; and once more.
    let [a, b, c, d, e, f, g, h] =
        [low(a, e), high(a, e), low(b, f), high(b, f), low(c, g), high(c, g), low(d, h), high(d, h)];
    let [a, b, c, d, e, f, g, h] =
        [low(a, e), high(a, e), low(b, f), high(b, f), low(c, g), high(c, g), low(d, h), high(d, h)];
    [low(a, e), high(a, e), low(b, f), high(b, f), low(c, g), high(c, g), low(d, h), high(d, h)]
}

/// One pass: of every column.
#[target_feature(enable = "avx512f,avx512bw,avx512dq")]
fn pass<const SHIFT: u32>(rows: [__m512i; 8]) -> [__m512i; 8] {
    // The lower and the upper half of each block's columns, as sums of 32 bits.
    let pairs = |a: __m512i, b: __m512i| [_mm512_unpacklo_epi16(a, b), _mm512_unpackhi_epi16(a, b)];
    let weighed = |pairs: [__m512i; 2], a: i16, b: i16| {
        let weights = _mm512_set1_epi32(i32::from(a) & 0xFFFF | i32::from(b) << 16);
        pairs.map(|pair| _mm512_madd_epi16(pair, weights))
    };
    let add = |a: [__m512i; 2], b: [__m512i; 2]| [_mm512_add_epi32(a[0], b[0]), _mm512_add_epi32(a[1], b[1])];
    let subtract =
        |a: [__m512i; 2], b: [__m512i; 2]| [_mm512_sub_epi32(a[0], b[0]), _mm512_sub_epi32(a[1], b[1])];

    // Even rows. Half of what is rounded away is added here, to all results.
    let half = _mm512_set1_epi32(1 << (SHIFT - 1));
    let in_bits = |sum: __m512i| {
        pairs(_mm512_setzero_si512(), sum)
            .map(|wide| _mm512_add_epi32(_mm512_srai_epi32::<{ 16 - CONSTANT_BITS }>(wide), half))
    };
    let two_and_six = pairs(rows[2], rows[6]);
    let two = weighed(two_and_six, C_0_541, C_0_541 - C_1_847);
    let three = weighed(two_and_six, C_0_541 + C_0_765, C_0_541);
    let zero = in_bits(_mm512_add_epi16(rows[0], rows[4]));
    let one = in_bits(_mm512_sub_epi16(rows[0], rows[4]));
    let even = [add(zero, three), add(one, two), subtract(one, two), subtract(zero, three)];

    // Odd rows.
    let sums = pairs(_mm512_add_epi16(rows[7], rows[3]), _mm512_add_epi16(rows[5], rows[1]));
    let third = weighed(sums, C_1_175 - C_1_961, C_1_175);
    let fourth = weighed(sums, C_1_175, C_1_175 - C_0_390);
    let seven_and_one = pairs(rows[7], rows[1]);
    let five_and_three = pairs(rows[5], rows[3]);
    let odd = [
        add(weighed(seven_and_one, -C_0_899, C_1_501 - C_0_899), fourth),
        add(weighed(five_and_three, -C_2_562, C_3_072 - C_2_562), third),
        add(weighed(five_and_three, C_2_053 - C_2_562, -C_2_562), fourth),
        add(weighed(seven_and_one, C_0_298 - C_0_899, -C_0_899), third),
    ];

    let row = |sums: [__m512i; 2]| {
        let [low, high] = sums.map(|sum| _mm512_srai_epi32::<SHIFT>(sum));
        _mm512_packs_epi32(low, high)
    };
    std::array::from_fn(|at| match at {
        ..4 => row(add(even[at], odd[at])),
        _ => row(subtract(even[7 - at], odd[7 - at])),
    })
}
