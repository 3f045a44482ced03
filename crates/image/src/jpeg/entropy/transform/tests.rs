//! Tests that the vector functions transform blocks as plain code does, and write nothing beside the samples
//! of the blocks. No C code runs here, so that Miri can run these tests.

use super::*;
use crate::RowKey;
use crate::draws::Draws;
use crate::jpeg::entropy::block::Block;

const ROUNDS: u32 = if cfg!(miri) { 12 } else { 3_000 };
/// The byte of the buffer before any sample is written.
const UNTOUCHED: u8 = 0xA5;
/// The fractional bits of the factors, and of the numbers between the two passes.
const FACTOR_BITS: u32 = 13;
const BETWEEN_BITS: u32 = 2;

/// Blocks that are next to each other in rows of a buffer, with free bytes around them.
struct JobPlaces {
    start: usize,
    offsets: [usize; TRANSFORMS],
    pitch: usize,
    bytes: usize,
}

fn places(side: usize, draws: &mut Draws) -> JobPlaces {
    let pitch = TRANSFORMS * side + draws.below(9) as usize;
    let start = draws.below(40) as usize;
    let offsets = std::array::from_fn(|block| block * side);
    // The last sample of the last block is the last byte of the buffer.
    JobPlaces { start, offsets, pitch, bytes: start + (side - 1) * pitch + TRANSFORMS * side }
}

/// A block whose transform does not overflow; many have only their lowest frequencies.
fn block(draws: &mut Draws) -> Block {
    let used = [1, 2, 4, 8][draws.below(4) as usize];
    std::array::from_fn(|at| match at / 8 < used && at % 8 < used && draws.below(3) > 0 {
        true => draws.below(41) as i16 - 20,
        false => 0,
    })
}

/// One pass of the accurate integer transform along eight numbers, with `shift` bits rounded away.
fn pass(numbers: [i32; 8], shift: u32) -> [i32; 8] {
    let fixed = |factor: f64| (factor * f64::from(1 << FACTOR_BITS)).round() as i32;
    let [a, b, c, d, e, f, g, h] = numbers;
    let shared = (c + g) * fixed(0.541_196_100);
    let [low, high] = [shared + c * fixed(0.765_366_865), shared - g * fixed(1.847_759_065)];
    let [sum, difference] = [(a + e) << FACTOR_BITS, (a - e) << FACTOR_BITS];
    let even = [sum + low, difference + high, difference - high, sum - low];
    let all = (h + d + f + b) * fixed(1.175_875_602);
    let [bh, df] = [(h + b) * -fixed(0.899_976_223), (f + d) * -fixed(2.562_915_447)];
    let [dh, bf] = [(h + d) * -fixed(1.961_570_560) + all, (f + b) * -fixed(0.390_180_644) + all];
    let odd = [
        b * fixed(1.501_321_110) + bh + bf,
        d * fixed(3.072_711_026) + df + dh,
        f * fixed(2.053_119_869) + df + bf,
        h * fixed(0.298_631_336) + bh + dh,
    ];
    let rounded = |number: i32| (number + (1 << (shift - 1))) >> shift;
    std::array::from_fn(|at| match at {
        0..4 => rounded(even[at] + odd[at]),
        _ => rounded(even[7 - at] - odd[7 - at]),
    })
}

/// The samples of a block, computed plainly.
fn samples_of(block: &Block, quantization: &[u16; 64]) -> [u8; 64] {
    let mut numbers = [[0; 8]; 8];
    for column in 0..8 {
        let of_column =
            |row: usize| i32::from(block[row * 8 + column]) * i32::from(quantization[row * 8 + column]);
        for (row, number) in
            pass(std::array::from_fn(of_column), FACTOR_BITS - BETWEEN_BITS).into_iter().enumerate()
        {
            numbers[row][column] = number;
        }
    }
    let mut samples = [0; 64];
    for (row, samples) in numbers.into_iter().zip(samples.as_chunks_mut::<8>().0) {
        *samples = pass(row, FACTOR_BITS + BETWEEN_BITS + 3).map(|level| (level + 128).clamp(0, 255) as u8);
    }
    samples
}

#[test]
fn samples_are_those_of_plain_code_and_nothing_else_is_written() {
    let mut draws = Draws::new(RowKey(11));
    for round in 0..ROUNDS {
        let blocks: [Block; TRANSFORMS] = std::array::from_fn(|_| block(&mut draws));
        let quantization = std::array::from_fn(|_| 1 + draws.below(8) as u16);
        let at = places(SIDE, &mut draws);
        let mut expected = vec![UNTOUCHED; at.bytes];
        for (block, offset) in blocks.iter().zip(at.offsets) {
            let samples = samples_of(block, &quantization);
            for (row, samples) in samples.chunks(SIDE).enumerate() {
                expected[at.start + offset + row * at.pitch..][..SIDE].copy_from_slice(samples);
            }
        }
        for (way, transform) in all().enumerate() {
            let mut found = vec![UNTOUCHED; at.bytes];
            let job = Job {
                blocks: blocks.each_ref(),
                side: SIDE,
                quantization: &quantization,
                start: at.start,
                offsets: &at.offsets,
                pitch: at.pitch,
            };
            transform(&job, &mut found);
            assert!(found == expected, "way {way}, round {round}");
        }
    }
}

/// A block that has only DC has the same sample everywhere, however much it is reduced.
#[test]
fn reduced_samples_have_the_mean_and_nothing_else_is_written() {
    let mut draws = Draws::new(RowKey(12));
    for round in 0..ROUNDS {
        let side = 1 << (round % 3);
        let dc: [i16; TRANSFORMS] = std::array::from_fn(|_| draws.below(501) as i16 - 250);
        let blocks: [Block; TRANSFORMS] = dc.map(|dc| {
            let mut block = [0; 64];
            block[0] = dc;
            block
        });
        let step = 1 + draws.below(8) as u16;
        let at = places(side, &mut draws);
        let mut expected = vec![UNTOUCHED; at.bytes];
        for (dc, offset) in dc.into_iter().zip(at.offsets) {
            let level = ((i32::from(dc) * i32::from(step) + 4) >> 3) + 128;
            for row in 0..side {
                expected[at.start + offset + row * at.pitch..][..side].fill(level.clamp(0, 255) as u8);
            }
        }
        let Some(transform) = reduced() else { return };
        let mut found = vec![UNTOUCHED; at.bytes];
        let (quantization, offsets) = ([step; 64], at.offsets);
        let blocks = blocks.each_ref();
        let job = Job {
            blocks,
            side,
            quantization: &quantization,
            start: at.start,
            offsets: &offsets,
            pitch: at.pitch,
        };
        transform(&job, &mut found);
        assert!(found == expected, "round {round}, {side} samples");
    }
}

#[test]
fn blocks_beyond_the_buffer_are_refused() {
    let blocks: [Block; TRANSFORMS] = [[1; 64]; TRANSFORMS];
    let mut draws = Draws::new(RowKey(13));
    for side in [1, 2, 4, SIDE] {
        let ways: Vec<Transform> =
            if side == SIDE { all().collect() } else { reduced().into_iter().collect() };
        for transform in ways {
            let at = places(side, &mut draws);
            for start in [at.start + 1, usize::MAX] {
                let job = Job {
                    blocks: blocks.each_ref(),
                    side,
                    quantization: &[1; 64],
                    start,
                    offsets: &at.offsets,
                    pitch: at.pitch,
                };
                let mut samples = vec![UNTOUCHED; at.bytes];
                let refused = forebay_base::panics::caught(|| transform(&job, &mut samples));
                assert!(refused.is_err(), "{side} samples from {start}");
            }
        }
    }
}
