//! Tests of the blur, and that AVX2 gives the same pixels as plain code.

use super::*;
use crate::RowKey;
use crate::draws::Draws;

/// The kernel in floats, as torchvision has it.
fn exact(size: usize, sigma: f64) -> Vec<f64> {
    let half = (size / 2) as f64;
    let weights: Vec<f64> = (0..size).map(|at| (-((at as f64 - half) / sigma).powi(2) / 2.0).exp()).collect();
    let sum: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / sum).collect()
}

fn drawn(draws: &mut Draws, count: usize) -> Vec<u8> {
    let extremes = draws.below(2) == 0;
    (0..count).map(|_| if extremes { draws.below(2) as u8 * 255 } else { draws.below(256) as u8 }).collect()
}

#[test]
fn a_point_becomes_the_kernel() {
    let size = Size { height: 5, width: 5 };
    let mut pixels = [0; 25];
    pixels[12] = 255;
    BlurScratch::default().blur(&mut pixels, size, 1, 3, 1.0);
    let [edge, middle, _] = exact(3, 1.0)[..] else { unreachable!() };
    let level = |share: f64| (255.0 * share).round() as u8;
    assert_eq!(pixels[6..9], [level(edge * edge), level(edge * middle), level(edge * edge)]);
    assert_eq!(pixels[12], level(middle * middle));
    assert_eq!(pixels[0], 0);
}

#[test]
fn a_flat_image_stays_flat_to_its_border() {
    let mut scratch = BlurScratch::default();
    for (channels, kernel, sigma) in [(1, 11, 3.0), (3, 11, 3.0), (3, 3, 0.2), (1, 79, 30.0), (3, 79, 2.0)] {
        let size = Size { height: 44, width: 41 };
        for level in [0, 1, 127, 201, 255] {
            let mut pixels = vec![level; 44 * 41 * channels];
            scratch.blur(&mut pixels, size, channels, kernel, sigma);
            assert!(pixels.iter().all(|value| *value == level), "{level}, {kernel}, {sigma}");
        }
    }
}

/// The result is compared with sums of floats, which are not rounded between the two steps.
#[test]
fn pixels_are_those_of_floats_within_a_level() {
    let mut draws = Draws::new(RowKey(3));
    let mut scratch = BlurScratch::default();
    let (mut differ, mut all) = (0, 0);
    for round in 0..60 {
        let channels = if draws.below(3) == 0 { 1 } else { 3 };
        let kernel = 1 + 2 * (1 + draws.below(if round % 4 == 0 { 39 } else { 11 })) as usize;
        let least = kernel as u32 / 2 + 1;
        let size = Size { height: least + draws.below(40), width: least + draws.below(40) };
        let sigma = draws.uniform((0.1, if round % 4 == 0 { 30.0 } else { 2.0 }));
        let (width, height) = (size.width as usize, size.height as usize);
        let mut pixels = drawn(&mut draws, width * height * channels);
        let (weights, still, reach) = (exact(kernel, sigma), pixels.clone(), (kernel / 2) as isize);
        scratch.blur(&mut pixels, size, channels, kernel, sigma);
        assert!(scratch.bytes() > 0 || sigma < 0.3);
        let of_row = |y: usize, x: usize, channel: usize| -> f64 {
            let level = |tap: usize| {
                let x = mirrored((x + tap) as isize - reach, width);
                f64::from(still[(y * width + x) * channels + channel])
            };
            weights.iter().enumerate().map(|(tap, weight)| weight * level(tap)).sum()
        };
        for (at, found) in pixels.iter().enumerate() {
            let (y, x, channel) = (at / channels / width, at / channels % width, at % channels);
            let of_column = |tap: usize| of_row(mirrored((y + tap) as isize - reach, height), x, channel);
            let wanted: f64 = weights.iter().enumerate().map(|(tap, weight)| weight * of_column(tap)).sum();
            let off = (f64::from(*found) - wanted).abs();
            assert!(off < 0.8, "round {round}: {found} for {wanted} at {at}");
            (differ, all) = (differ + u32::from(off > 0.5), all + 1);
        }
    }
    assert!(differ < all / 50, "{differ} of {all} pixels are rounded otherwise");
}

#[test]
fn plain_code_gives_the_pixels_of_vector_instructions() {
    let mut draws = Draws::new(RowKey(5));
    for _ in 0..if cfg!(miri) { 12 } else { 300 } {
        let kernel = 1 + 2 * (1 + draws.below(39)) as usize;
        let Some(kernel) = Kernel::new(kernel, draws.uniform((0.3, 9.0))) else { continue };
        let row = 1 + draws.below(150) as usize;
        let pitch = row.next_multiple_of(BLOCK);
        let levels: Vec<i16> = drawn(&mut draws, pitch + kernel.taps * 3)
            .into_iter()
            .map(|byte| i16::from(byte) << LEVEL_BITS)
            .collect();
        let mut firsts = Vec::new();
        kernel.place(&mut firsts, |tap| tap * 3);
        let lines = Lines { values: &levels, firsts: &firsts };
        let (mut found, mut expected) = (vec![0; pitch], vec![0; pitch]);
        kernel.across(lines, &mut found);
        kernel.across_plain(lines, &mut expected);
        assert_eq!(found, expected);
        let (mut found, mut expected) = (vec![0; row], vec![0; row]);
        kernel.down(lines, &mut found);
        kernel.down_plain(lines, &mut expected);
        assert_eq!(found, expected);
    }
}

#[test]
fn a_buffer_takes_no_more_than_was_counted() {
    for (channels, kernel, sigma) in [(1, 3, 1.0), (3, 23, 2.0), (3, 79, 40.0)] {
        let size = Size { height: 60, width: 53 };
        let mut scratch = BlurScratch::default();
        scratch.blur(&mut vec![7; 60 * 53 * channels], size, channels, kernel, sigma);
        assert!(scratch.bytes() > 0 && scratch.bytes() <= bytes(size, channels, kernel as u32));
    }
}

#[test]
fn places_are_mirrored_without_the_end() {
    assert_eq!([-2, -1, 0, 3, 4, 5].map(|at| mirrored(at, 4)), [2, 1, 0, 3, 2, 1]);
}
