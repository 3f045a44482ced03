//! Changes brightness, contrast, saturation, hue and grey of interleaved 8-bit pixels, by torchvision's
//! formulas.
//!
//! Results are truncated to whole numbers, not rounded, as in torchvision.

use super::super::spec::RGB;

/// torchvision's weights of the colours in grey. Those of Pillow have more digits.
const WEIGHTS: [f32; RGB] = [0.2989, 0.587, 0.114];

/// The largest level of a channel.
const WHITE: f32 = 255.0;
/// The factor that turns a share of white into a level, before it is truncated.
const LEVELS: f32 = 256.0 - 1e-3;
/// The number of parts into which the primary and secondary colours divide the circle of hues.
const SEXTANTS: f32 = 6.0;

pub(super) fn brightness(pixels: &mut [u8], factor: f64) {
    let factor = factor as f32;
    replace(pixels, |value| value * factor);
}

/// Moves pixels away from the mean grey of the image, or towards it.
pub(super) fn contrast(pixels: &mut [u8], channels: usize, factor: f64) {
    if pixels.is_empty() {
        return;
    }
    let (sum, count) = if channels == RGB {
        let (pixels, _) = pixels.as_chunks::<RGB>();
        (pixels.iter().map(|pixel| u64::from(level(*pixel))).sum::<u64>(), pixels.len())
    } else {
        (pixels.iter().map(|value| u64::from(*value)).sum::<u64>(), pixels.len())
    };
    let mean = (sum as f64 / count as f64) as f32;
    let (factor, offset) = (factor as f32, mean * (1.0 - factor) as f32);
    replace(pixels, |value| value * factor + offset);
}

/// Moves pixels away from their own grey, or towards it.
pub(super) fn saturation(pixels: &mut [u8], factor: f64) {
    let (factor, rest) = (factor as f32, (1.0 - factor) as f32);
    let (pixels, _) = pixels.as_chunks_mut::<RGB>();
    for pixel in pixels {
        let grey = f32::from(level(*pixel)) * rest;
        *pixel = pixel.map(|value| cut(f32::from(value) * factor + grey));
    }
}

/// Shifts the hue of each pixel by a part of the circle.
pub(super) fn hue(pixels: &mut [u8], turns: f64) {
    let turns = turns as f32;
    let (pixels, _) = pixels.as_chunks_mut::<RGB>();
    for pixel in pixels {
        let [r, g, b] = pixel.map(|value| f32::from(value) / WHITE);
        let (most, least) = (r.max(g).max(b), r.min(g).min(b));
        let range = most - least;
        if range == 0.0 {
            continue;
        }
        let away = |value: f32| (most - value) / range;
        let sextant = if most == r {
            away(b) - away(g)
        } else if most == g {
            2.0 + away(r) - away(b)
        } else {
            4.0 + away(g) - away(r)
        };
        let hue = (sextant / SEXTANTS + turns).rem_euclid(1.0) * SEXTANTS;
        let saturation = range / most;
        let (sextant, part) = (hue.floor(), hue.fract());
        let of = |share: f32| (most * (1.0 - share)).clamp(0.0, 1.0);
        let (low, falling, rising) = (of(saturation), of(saturation * part), of(saturation * (1.0 - part)));
        let turned = match sextant as u32 {
            1 => [falling, most, low],
            2 => [low, most, rising],
            3 => [low, falling, most],
            4 => [rising, low, most],
            5 => [most, low, falling],
            // Rounding may reach a whole turn, which is the first hue again.
            _ => [most, rising, low],
        };
        *pixel = turned.map(|value| (value * LEVELS) as u8);
    }
}

/// Makes each pixel grey.
pub(super) fn grey(pixels: &mut [u8]) {
    let (pixels, _) = pixels.as_chunks_mut::<RGB>();
    pixels.iter_mut().for_each(|pixel| *pixel = [level(*pixel); RGB]);
}

/// The grey of a pixel.
fn level(pixel: [u8; RGB]) -> u8 {
    let [r, g, b] = pixel.map(f32::from);
    (r * WEIGHTS[0] + g * WEIGHTS[1] + b * WEIGHTS[2]) as u8
}

/// Limits a value to the range of a byte, and truncates it.
fn cut(value: f32) -> u8 {
    // A cast from a float to an integer saturates.
    value as u8
}

/// Replaces each level by a function of it.
fn replace(values: &mut [u8], of: impl Fn(f32) -> f32) {
    let table: [u8; 256] = std::array::from_fn(|level| cut(of(level as f32)));
    values.iter_mut().for_each(|value| *value = table[usize::from(*value)]);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Some colours, for which torchvision's functions on tensors gave the expected results.
    const COLOURS: [u8; 12] = [200, 30, 90, 10, 250, 128, 77, 77, 77, 0, 0, 255];

    fn after(change: impl Fn(&mut [u8])) -> [u8; 12] {
        let mut pixels = COLOURS;
        change(&mut pixels);
        pixels
    }

    #[test]
    fn colours_change_as_in_torchvision() {
        assert_eq!(after(|p| brightness(p, 1.3)), BRIGHTER);
        assert_eq!(after(|p| contrast(p, RGB, 0.6)), LESS_CONTRAST);
        assert_eq!(after(|p| saturation(p, 1.7)), MORE_SATURATED);
        assert_eq!(after(|p| hue(p, -0.2)), TURNED);
        assert_eq!(after(grey), GREY);
    }

    #[test]
    fn a_factor_that_changes_nothing_changes_nothing() {
        assert_eq!(after(|p| brightness(p, 1.0)), COLOURS);
        assert_eq!(after(|p| contrast(p, RGB, 1.0)), COLOURS);
        assert_eq!(after(|p| saturation(p, 1.0)), COLOURS);
        for turns in [0.0, 1.0] {
            assert_eq!(after(|p| hue(p, turns)), COLOURS);
        }
        assert_eq!(after(|p| contrast(p, RGB, 0.0)), [after(|p| contrast(p, RGB, 0.0))[0]; 12]);
    }

    const BRIGHTER: [u8; 12] = [255, 39, 116, 13, 255, 166, 100, 100, 100, 0, 0, 255];
    const LESS_CONTRAST: [u8; 12] = [155, 53, 89, 41, 185, 112, 81, 81, 81, 35, 35, 188];
    const MORE_SATURATED: [u8; 12] = [255, 0, 92, 0, 255, 102, 77, 77, 77, 0, 0, 255];
    const TURNED: [u8; 12] = [106, 30, 200, 180, 250, 10, 77, 77, 77, 0, 255, 204];
    const GREY: [u8; 12] = [87, 87, 87, 164, 164, 164, 76, 76, 76, 29, 29, 29];
}
