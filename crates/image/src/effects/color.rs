//! Changes brightness, contrast, saturation and hue of interleaved 8-bit pixels, or makes them grey, by
//! torchvision's formulas.
//!
//! The result of each change is truncated to whole numbers, not rounded, as in torchvision. All changes are
//! made to one block of pixels before the next, while the block is in registers and the first cache, so the
//! pixels are read and written once. A change of contrast needs a second pass, because it first needs the
//! mean of all changed pixels.
#![allow(unsafe_code)]

use super::super::spec::{LUMA, RGB};

/// The weights of red, green and blue in a grey level, as torchvision has them; Pillow's have more digits.
const WEIGHTS: [f32; RGB] = [0.2989, 0.587, 0.114];

/// The largest level of a channel.
const WHITE: f32 = 255.0;
/// The factor that converts a level between 0 and 1 to one between 0 and 255, which is then truncated.
const LEVELS: f32 = 256.0 - 1e-3;
/// The circle of hues has six parts, one from each primary or secondary colour to the next.
const SEXTANTS: f32 = 6.0;

/// The number of pixels that are changed together. As floats, their levels take 768 bytes.
const BLOCK: usize = 64;

/// The levels of one block of pixels, in an array for each channel.
type Planes<const CHANNELS: usize> = [[f32; BLOCK]; CHANNELS];

/// A change of the colours of all pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ColourChange {
    Brightness(f64),
    /// Scales the difference of each pixel from the mean grey level of the image.
    Contrast(f64),
    /// Scales the difference of each pixel from its own grey level.
    Saturation(f64),
    /// Shifts the hue by this part of the full circle.
    Hue(f64),
    /// Makes pixels grey.
    Grey,
}

/// A change that depends on nothing but the pixel itself.
#[derive(Clone, Copy)]
enum ColourStep {
    Levels { factor: f32, offset: f32 },
    Saturation { factor: f32, rest: f32 },
    Hue(f32),
    Grey,
}

impl ColourChange {
    /// Converts the change to a step. `mean` returns the mean grey level of the image as it is before this
    /// change.
    fn step(self, mean: impl FnOnce() -> f32) -> ColourStep {
        match self {
            ColourChange::Brightness(factor) => ColourStep::Levels { factor: factor as f32, offset: 0.0 },
            ColourChange::Contrast(factor) => {
                ColourStep::Levels { factor: factor as f32, offset: mean() * (1.0 - factor) as f32 }
            }
            ColourChange::Saturation(factor) => {
                ColourStep::Saturation { factor: factor as f32, rest: (1.0 - factor) as f32 }
            }
            ColourChange::Hue(turns) => ColourStep::Hue(turns as f32),
            ColourChange::Grey => ColourStep::Grey,
        }
    }
}

/// Applies the changes to all pixels, in order. An image of one channel has no saturation and no hue.
pub(super) fn change(changes: impl IntoIterator<Item = ColourChange>, pixels: &mut [u8], channels: usize) {
    if pixels.is_empty() {
        return;
    }
    let mut steps = Vec::new();
    for change in changes {
        let mut mean = || {
            let sum = pass(&steps, pixels, channels, true);
            steps.clear();
            (sum as f64 / (pixels.len() / channels) as f64) as f32
        };
        let step = change.step(&mut mean);
        steps.push(step);
    }
    pass(&steps, pixels, channels, false);
}

/// Applies the steps to all pixels. Returns the sum of the new grey levels if `is_sum_wanted`, otherwise 0.
fn pass(steps: &[ColourStep], pixels: &mut [u8], channels: usize, is_sum_wanted: bool) -> u64 {
    if steps.is_empty() && !is_sum_wanted {
        return 0;
    }
    #[cfg(target_arch = "x86_64")]
    if has_avx512() {
        // SAFETY: the processor has these extensions.
        return unsafe { pass_avx512(steps, pixels, channels, is_sum_wanted) };
    }
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { pass_avx2(steps, pixels, channels, is_sum_wanted) };
    }
    pass_of(steps, pixels, channels, is_sum_wanted)
}

/// Whether the processor has the extensions that [`pass_avx512`] uses.
#[cfg(target_arch = "x86_64")]
fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512vbmi")
}

/// [`pass_of`] compiled with AVX-512 instructions. The floats are the same, since none of them is fused.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
fn pass_avx512(steps: &[ColourStep], pixels: &mut [u8], channels: usize, is_sum_wanted: bool) -> u64 {
    pass_of(steps, pixels, channels, is_sum_wanted)
}

/// [`pass_of`] compiled with AVX2 instructions.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn pass_avx2(steps: &[ColourStep], pixels: &mut [u8], channels: usize, is_sum_wanted: bool) -> u64 {
    pass_of(steps, pixels, channels, is_sum_wanted)
}

#[inline(always)]
fn pass_of(steps: &[ColourStep], pixels: &mut [u8], channels: usize, is_sum_wanted: bool) -> u64 {
    let is_by_level = steps.iter().all(|step| matches!(step, ColourStep::Levels { .. })) && !is_sum_wanted;
    match channels {
        // These steps change each level on its own, so the channels need not be separated.
        _ if is_by_level => pass_blocks::<LUMA>(steps, pixels, false),
        LUMA => pass_blocks::<LUMA>(steps, pixels, is_sum_wanted),
        _ => pass_blocks::<RGB>(steps, pixels, is_sum_wanted),
    }
}

#[inline(always)]
fn pass_blocks<const CHANNELS: usize>(steps: &[ColourStep], pixels: &mut [u8], is_sum_wanted: bool) -> u64 {
    let (pixels, _) = pixels.as_chunks_mut::<CHANNELS>();
    let (blocks, last) = pixels.as_chunks_mut::<BLOCK>();
    let mut sum = 0;
    for block in blocks {
        sum += pass_block(steps, block, is_sum_wanted);
    }
    if !last.is_empty() {
        // The last block is filled up with black pixels. They are neither written back nor added to the sum,
        // so it does not matter how the steps change them.
        let mut block = [[0; CHANNELS]; BLOCK];
        block[..last.len()].copy_from_slice(last);
        pass_block(steps, &mut block, false);
        last.copy_from_slice(&block[..last.len()]);
        if is_sum_wanted {
            let mut rest = [[0; CHANNELS]; BLOCK];
            rest[..last.len()].copy_from_slice(last);
            sum += pass_block(&[], &mut rest, true);
        }
    }
    sum
}

#[inline(always)]
fn pass_block<const CHANNELS: usize>(
    steps: &[ColourStep],
    pixels: &mut [[u8; CHANNELS]; BLOCK],
    is_sum_wanted: bool,
) -> u64 {
    // The channels are separated before the bytes become floats, and joined after the floats are bytes again,
    // because a register holds four times as many bytes as floats.
    let mut bytes = [[0; BLOCK]; CHANNELS];
    for at in 0..BLOCK {
        for channel in 0..CHANNELS {
            bytes[channel][at] = pixels[at][channel];
        }
    }
    let mut planes: Planes<CHANNELS> = [[0.0; BLOCK]; CHANNELS];
    for (value, byte) in planes.as_flattened_mut().iter_mut().zip(bytes.as_flattened()) {
        *value = f32::from(*byte);
    }
    for step in steps {
        apply(*step, &mut planes);
    }
    if !steps.is_empty() {
        for (byte, value) in bytes.as_flattened_mut().iter_mut().zip(planes.as_flattened()) {
            // SAFETY: after each step, the values are from 0 to 255. The safe cast takes four times as long.
            *byte = unsafe { value.to_int_unchecked::<i32>() } as u8;
        }
        for at in 0..BLOCK {
            for channel in 0..CHANNELS {
                pixels[at][channel] = bytes[channel][at];
            }
        }
    }
    if !is_sum_wanted {
        return 0;
    }
    let mut sum = 0;
    for at in 0..BLOCK {
        // SAFETY: the levels are from 0 to 255 as above, and the weights of a grey level add up to 1 or less.
        sum += unsafe { level(&planes, at).to_int_unchecked::<i32>() };
    }
    sum as u64
}

/// Applies a step to all pixels of a block. The loops have no branches, so that the compiler can use vector
/// instructions.
#[inline(always)]
fn apply<const CHANNELS: usize>(step: ColourStep, planes: &mut Planes<CHANNELS>) {
    match step {
        ColourStep::Levels { factor, offset } => {
            for value in planes.as_flattened_mut() {
                *value = cut(*value * factor + offset);
            }
        }
        // With one channel, the image is grey, and the other steps do not change it.
        _ if CHANNELS == LUMA => {}
        ColourStep::Saturation { factor, rest } => {
            for at in 0..BLOCK {
                let grey = level(planes, at) * rest;
                for plane in planes.iter_mut() {
                    plane[at] = cut(plane[at] * factor + grey);
                }
            }
        }
        ColourStep::Hue(turns) => {
            for at in 0..BLOCK {
                turn(planes, at, turns);
            }
        }
        ColourStep::Grey => {
            for at in 0..BLOCK {
                let grey = level(planes, at);
                planes.iter_mut().for_each(|plane| plane[at] = grey);
            }
        }
    }
}

/// Shifts the hue of a pixel.
#[inline(always)]
fn turn<const CHANNELS: usize>(planes: &mut Planes<CHANNELS>, at: usize, turns: f32) {
    let stored = [planes[0][at], planes[1 % CHANNELS][at], planes[2 % CHANNELS][at]];
    let [r, g, b] = stored.map(|value| value / WHITE);
    let (most, least) = (larger(larger(r, g), b), smaller(smaller(r, g), b));
    let range = most - least;
    let [of_r, of_g, of_b] = [r, g, b].map(|value| (most - value) / range);
    let sextant = select(most == g, 2.0 + of_r - of_b, 4.0 + of_g - of_r);
    let sextant = select(most == r, of_b - of_g, sextant);
    // The hue is reduced to the range from 0 to 1.
    let hue = sextant / SEXTANTS + turns;
    let hue = hue - hue.trunc();
    let hue = select(hue < 0.0, hue + 1.0, hue) * SEXTANTS;
    let saturation = range / most;
    let sextant = hue.trunc();
    let part = hue - sextant;
    let of = |share: f32| smaller(larger(most * (1.0 - share), 0.0), 1.0);
    let (low, falling, rising) = (of(saturation), of(saturation * part), of(saturation * (1.0 - part)));
    let is = |number: f32| sextant == number;
    // If rounding gives sextant 6 (a whole turn), none of these comparisons is true, which gives the same as
    // sextant 0.
    let red = select(is(2.0) | is(3.0), low, most);
    let red = select(is(1.0), falling, select(is(4.0), rising, red));
    let green = select(is(4.0) | is(5.0), low, select(is(3.0), falling, rising));
    let green = select(is(1.0) | is(2.0), most, green);
    let blue = select(is(3.0) | is(4.0), most, low);
    let blue = select(is(2.0), rising, select(is(5.0), falling, blue));
    for ((plane, stored), turned) in planes.iter_mut().zip(stored).zip([red, green, blue]) {
        plane[at] = select(range == 0.0, stored, (turned * LEVELS).trunc());
    }
}

#[inline(always)]
fn select(first: bool, yes: f32, no: f32) -> f32 {
    if first { yes } else { no }
}

#[inline(always)]
fn larger(one: f32, other: f32) -> f32 {
    select(one > other, one, other)
}

#[inline(always)]
fn smaller(one: f32, other: f32) -> f32 {
    select(one < other, one, other)
}

/// The grey level of a pixel.
#[inline(always)]
fn level<const CHANNELS: usize>(planes: &Planes<CHANNELS>, at: usize) -> f32 {
    match CHANNELS {
        LUMA => planes[0][at],
        _ => {
            let [r, g, b] = [planes[0][at], planes[1 % CHANNELS][at], planes[2 % CHANNELS][at]];
            (r * WEIGHTS[0] + g * WEIGHTS[1] + b * WEIGHTS[2]).trunc()
        }
    }
}

/// Limits a value to the range of a byte, and drops its fraction.
#[inline(always)]
fn cut(value: f32) -> f32 {
    smaller(larger(value, 0.0), WHITE).trunc()
}

#[cfg(test)]
mod tests;
