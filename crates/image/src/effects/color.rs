//! Changes brightness, contrast, saturation, hue and grey of interleaved 8-bit pixels, by torchvision's
//! formulas.
//!
//! Results of each change are truncated to whole numbers, not rounded, as in torchvision. All changes of a
//! block of pixels are made while the block is in registers and the first cache, so the pixels are read and
//! written once, or twice if there is a contrast: it needs the mean of the pixels as they are then.
#![allow(unsafe_code)]

use super::super::spec::{LUMA, RGB};

/// torchvision's weights of the colours in grey. Those of Pillow have more digits.
const WEIGHTS: [f32; RGB] = [0.2989, 0.587, 0.114];

/// The largest level of a channel.
const WHITE: f32 = 255.0;
/// The factor that turns a share of white into a level, before it is truncated.
const LEVELS: f32 = 256.0 - 1e-3;
/// The number of parts into which the primary and secondary colours divide the circle of hues.
const SEXTANTS: f32 = 6.0;

/// The number of pixels that are changed together: their levels take 768 bytes as floats.
const BLOCK: usize = 64;

/// The levels of the pixels of a block, for each channel.
type Planes<const CHANNELS: usize> = [[f32; BLOCK]; CHANNELS];

/// A change of the colours of all pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ColourChange {
    Brightness(f64),
    /// Moves pixels away from the mean grey of the image, or towards it.
    Contrast(f64),
    /// Moves pixels away from their own grey, or towards it.
    Saturation(f64),
    /// Shifts the hue by a part of the circle.
    Hue(f64),
    /// Makes pixels grey.
    Grey,
}

/// A change that needs nothing but the pixel itself.
#[derive(Clone, Copy)]
enum ColourStep {
    Levels { factor: f32, offset: f32 },
    Saturation { factor: f32, rest: f32 },
    Hue(f32),
    Grey,
}

impl ColourChange {
    /// The change as a step, for an image with this mean grey at the time of the change.
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

/// Applies the steps, and returns the sum of the grey levels of the result if it is wanted.
fn pass(steps: &[ColourStep], pixels: &mut [u8], channels: usize, is_sum_wanted: bool) -> u64 {
    if steps.is_empty() && !is_sum_wanted {
        return 0;
    }
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the machine has the feature.
        return unsafe { pass_avx2(steps, pixels, channels, is_sum_wanted) };
    }
    pass_of(steps, pixels, channels, is_sum_wanted)
}

/// [`pass_of`], compiled for AVX2.
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
        // The block is filled up with black pixels, which are neither written back nor counted, whatever
        // becomes of them.
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
    // Channels are separated before bytes become floats, and joined after floats became bytes, because a
    // register holds four times as many bytes as floats.
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
            // SAFETY: each step leaves numbers from 0 to 255. The safe cast takes four times as long.
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
        // SAFETY: as above, and the weights of the channels have the sum 1 or less.
        sum += unsafe { level(&planes, at).to_int_unchecked::<i32>() };
    }
    sum as u64
}

/// Makes a step for all pixels of a block. The loops have no branches, so that the compiler handles several
/// pixels at a time.
#[inline(always)]
fn apply<const CHANNELS: usize>(step: ColourStep, planes: &mut Planes<CHANNELS>) {
    match step {
        ColourStep::Levels { factor, offset } => {
            for value in planes.as_flattened_mut() {
                *value = cut(*value * factor + offset);
            }
        }
        // An image of one channel is grey, and stays so.
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
    // The hue becomes its remainder of a division by 1, which is at least 0.
    let hue = sextant / SEXTANTS + turns;
    let hue = hue - hue.trunc();
    let hue = select(hue < 0.0, hue + 1.0, hue) * SEXTANTS;
    let saturation = range / most;
    let sextant = hue.trunc();
    let part = hue - sextant;
    let of = |share: f32| smaller(larger(most * (1.0 - share), 0.0), 1.0);
    let (low, falling, rising) = (of(saturation), of(saturation * part), of(saturation * (1.0 - part)));
    let is = |number: f32| sextant == number;
    // Rounding may reach a whole turn, which is the first hue again.
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

/// The grey of a pixel.
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

/// Limits a value to the range of a byte, and truncates it.
#[inline(always)]
fn cut(value: f32) -> f32 {
    smaller(larger(value, 0.0), WHITE).trunc()
}

#[cfg(test)]
mod tests;
