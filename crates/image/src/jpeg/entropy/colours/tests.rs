//! Tests that the vector functions make pixels as plain code does, from samples that end where they may. No
//! C code runs here, so that Miri can run these tests.

use super::*;
use crate::RowKey;
use crate::draws::Draws;

const ROUNDS: u32 = if cfg!(miri) { 12 } else { 3_000 };

/// A sample of chroma at full size, from halved samples as smooth upsampling gives it.
fn upsampled(row: &Row<'_>, colour: usize, chroma: Chroma, x: usize) -> i32 {
    let sample = |far: usize, x: usize| i32::from(row.chroma[colour][far][x]);
    let vertical = |x: usize| 3 * sample(0, x) + sample(1, x);
    let (near, beside) = (MARGIN + x / 2, MARGIN + x / 2 + x % 2 * 2 - 1);
    let odd = (x % 2) as i32;
    match chroma {
        Chroma::None | Chroma::Full => sample(0, MARGIN + x),
        Chroma::HalfHeight => (vertical(MARGIN + x) + 1 + i32::from(row.is_lower)) >> 2,
        Chroma::HalfWidth => (3 * sample(0, near) + sample(0, beside) + 1 + odd) >> 2,
        Chroma::Half => (3 * vertical(near) + vertical(beside) + 8 - odd) >> 4,
    }
}

/// A pixel of YCbCr as RGB, in fixed point.
fn rgb(luma: u8, blue: i32, red: i32) -> [u8; 3] {
    const BITS: u32 = 16;
    let fixed = |factor: f64| (factor * f64::from(1 << BITS)).round() as i32;
    let rounded = |sum: i32| (sum + (1 << (BITS - 1))) >> BITS;
    let (blue, red) = (blue - 128, red - 128);
    let green = rounded(-fixed(0.344_14) * blue - fixed(0.714_14) * red);
    [rounded(fixed(1.402) * red), green, rounded(fixed(1.772) * blue)]
        .map(|more| (i32::from(luma) + more).clamp(0, 255) as u8)
}

#[test]
fn pixels_are_those_of_plain_code() {
    let mut draws = Draws::new(RowKey(14));
    let kinds = [Chroma::Full, Chroma::HalfWidth, Chroma::HalfHeight, Chroma::Half];
    for round in 0..ROUNDS {
        let chroma = kinds[round as usize % kinds.len()];
        let most = if draws.below(8) == 0 { 1_200 } else { 150 };
        let width = 16 + draws.below(most) as usize;
        let of_chroma = if chroma.is_halved_across() { width.div_ceil(2) } else { width };
        let mut random = |bytes: usize| -> Vec<u8> { (0..bytes).map(|_| draws.below(256) as u8).collect() };
        let luma = random(width + REACH);
        let [blue, far_blue, red, far_red] = [(); 4].map(|()| random(MARGIN + of_chroma + REACH));
        let rows = [[&blue[..], &far_blue[..]], [&red[..], &far_red[..]]];
        let row = Row { luma: &luma, chroma: rows, is_lower: round / 4 % 2 == 0 };
        let pixel = |x: usize| rgb(luma[x], upsampled(&row, 0, chroma, x), upsampled(&row, 1, chroma, x));
        let expected: Vec<u8> = (0..width).flat_map(pixel).collect();
        for (way, colours) in all().enumerate() {
            let mut found = vec![0; width * 3];
            colours(&row, chroma, &mut found).unwrap();
            assert!(found == expected, "way {way}, round {round}, {chroma:?}, {width} pixels");
        }
    }
}

#[test]
fn samples_that_are_missing_are_noticed() {
    let (width, samples) = (200, [7; MARGIN + 200 + REACH]);
    for colours in all() {
        for chroma in [Chroma::Full, Chroma::HalfWidth, Chroma::HalfHeight, Chroma::Half] {
            let mut out = vec![0; width * 3];
            let mut made = |luma: usize, of_chroma: usize| {
                let chroma_rows = [[&samples[..of_chroma]; 2]; 2];
                colours(
                    &Row { luma: &samples[..luma], chroma: chroma_rows, is_lower: true },
                    chroma,
                    &mut out,
                )
            };
            assert_eq!(made(width + REACH, samples.len()), Some(()), "{chroma:?}");
            assert_eq!(made(width - 64, samples.len()), None, "{chroma:?}");
            assert_eq!(made(width + REACH, MARGIN + 60), None, "{chroma:?}");
        }
    }
}
