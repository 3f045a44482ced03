//! The Gaussian blur of torchvision for interleaved 8-bit pixels. It blurs along rows, then along columns.
//! Pixels beyond a border are mirror images of the pixels inside it.
//!
//! Sums are of whole numbers, so every processor makes the same pixels. They differ from torchvision's, which
//! are rounded sums of floats, by at most one level, and only where such a sum is close to a half. Weights
//! that round to zero are left out: of the 23 of a usual kernel, 9 are left with a sigma of 1.

#[cfg(target_arch = "x86_64")]
mod avx2;
mod lines;

use super::super::spec::Size;
use lines::{BLOCK, LEVEL_BITS, Lines, WEIGHT_BITS};

/// Buffers for the steps of a blur, which a thread reuses for each image.
#[derive(Default)]
pub(crate) struct BlurScratch {
    /// The rows that the kernel reaches from the current one, after they are blurred along themselves. Row
    /// `y` replaces the row that is as far above it as the kernel is long.
    rows: Vec<i16>,
    /// One row of the image, extended at both ends by mirrored pixels.
    padded: Vec<i16>,
    /// The index of the first value for each weight, in `padded` and in `rows`.
    across: Vec<usize>,
    down: Vec<usize>,
}

/// The most bytes that the buffers take for a blur of an image of this size.
pub(super) fn bytes(size: Size, channels: usize, kernel_size: u32) -> u64 {
    let (row, taps) = (size.width as usize * channels, kernel_size as usize);
    let values = row.next_multiple_of(BLOCK) * (taps + 1) + taps * channels;
    let weights = 2 * (taps + 1) * size_of::<usize>() + (taps + 1) * size_of::<i16>();
    (values * size_of::<i16>() + weights) as u64
}

impl BlurScratch {
    /// The number of bytes that the buffers take.
    pub(crate) fn bytes(&self) -> u64 {
        let values = (self.rows.capacity() + self.padded.capacity()) * size_of::<i16>();
        (values + (self.across.capacity() + self.down.capacity()) * size_of::<usize>()) as u64
    }

    /// Blurs pixels in place. `kernel_size` is odd, and half of it must be less than the width and the height
    /// of the image.
    pub(super) fn blur(
        &mut self,
        pixels: &mut [u8],
        size: Size,
        channels: usize,
        kernel_size: usize,
        sigma: f64,
    ) {
        let Some(kernel) = Kernel::new(kernel_size, sigma) else { return };
        let (width, height) = (size.width as usize, size.height as usize);
        let (row, taps, reach) = (width * channels, kernel.taps, kernel.taps / 2);
        let pitch = row.next_multiple_of(BLOCK);
        let BlurScratch { rows, padded, across, down } = self;
        grow(rows, taps * pitch);
        grow(padded, pitch + taps * channels);
        kernel.place(across, |tap| tap * channels);
        let mut blurred = 0;
        for number in 0..height {
            while blurred <= (number + reach).min(height - 1) {
                pad(&pixels[blurred * row..][..row], channels, reach, padded);
                kernel.across(
                    Lines { values: padded, firsts: across },
                    &mut rows[blurred % taps * pitch..][..pitch],
                );
                blurred += 1;
            }
            kernel
                .place(down, |tap| mirrored((number + tap) as isize - reach as isize, height) % taps * pitch);
            kernel.down(Lines { values: rows, firsts: down }, &mut pixels[number * row..][..row]);
        }
    }
}

/// Makes a buffer at least this long. The new values are overwritten, or count nothing.
fn grow(buffer: &mut Vec<i16>, length: usize) {
    if buffer.len() < length {
        *buffer = vec![0; length];
    }
}

/// Writes a row to `padded`, with `reach` mirrored pixels before and after it.
fn pad(row: &[u8], channels: usize, reach: usize, padded: &mut [i16]) {
    let level = |byte: &u8| i16::from(*byte) << LEVEL_BITS;
    let width = row.len() / channels;
    let (before, after) = padded.split_at_mut(reach * channels);
    let (middle, after) = after.split_at_mut(row.len());
    middle.iter_mut().zip(row).for_each(|(to, byte)| *to = level(byte));
    let copy = |to: &mut [i16], column: isize| {
        let from = mirrored(column, width) * channels;
        to.iter_mut().zip(&row[from..]).for_each(|(to, byte)| *to = level(byte));
    };
    for (at, to) in before.chunks_exact_mut(channels).enumerate() {
        copy(to, at as isize - reach as isize);
    }
    for (at, to) in after.chunks_exact_mut(channels).enumerate().take(reach) {
        copy(to, (width + at) as isize);
    }
}

/// The index of the pixel to use for position `at`, which may be beyond an end of a line of `length` pixels.
/// The line is mirrored there, without repeating its last pixel.
fn mirrored(at: isize, length: usize) -> usize {
    let last = length as isize - 1;
    let at = at.abs();
    (if at > last { 2 * last - at } else { at }) as usize
}

/// The weights of the blur along one axis.
struct Kernel {
    /// The weights, whose sum is 1. A zero at the end makes their number even.
    weights: Vec<i16>,
    /// The number of weights without that zero. It is odd, and the kernel is symmetric.
    taps: usize,
}

impl Kernel {
    /// The kernel; `None` if it changes nothing.
    fn new(size: usize, sigma: f64) -> Option<Kernel> {
        let half = size / 2;
        let weight = |at: usize| (-(at as f64 / sigma).powi(2) / 2.0).exp();
        let one = f64::from(1u32 << WEIGHT_BITS);
        let scale = one / (weight(0) + 2.0 * (1..=half).map(weight).sum::<f64>());
        // Sums of weights are rounded, and not each weight, so that errors do not add up in wide kernels.
        let (mut sum, mut side) = (0.0, Vec::with_capacity(half));
        for weight in (1..=half).map(|at| weight(at) * scale).take_while(|weight| *weight >= 0.5) {
            let before: f64 = sum;
            sum += weight;
            side.push((sum.round() - before.round()) as i16);
        }
        if side.is_empty() {
            return None;
        }
        // The middle weight makes up for the rest, so that flat parts stay as they are.
        let middle = (one - 2.0 * sum.round()) as i16;
        let weights = side.iter().rev().chain([&middle]).chain(&side).chain([&0]).copied();
        Some(Kernel { weights: weights.collect(), taps: 2 * side.len() + 1 })
    }

    /// Sets the index of the first value for each weight.
    fn place(&self, firsts: &mut Vec<usize>, first: impl Fn(usize) -> usize) {
        firsts.clear();
        firsts.reserve_exact(self.weights.len());
        firsts.extend((0..self.weights.len()).map(|tap| first(tap.min(self.taps - 1))));
    }

    /// Sums up levels along a row.
    fn across(&self, lines: Lines<'_>, to: &mut [i16]) {
        #[cfg(target_arch = "x86_64")]
        if avx2::across(&self.weights, lines, to) {
            return;
        }
        self.across_plain(lines, to);
    }

    /// Sums up levels along a column, and rounds them to bytes.
    fn down(&self, lines: Lines<'_>, to: &mut [u8]) {
        #[cfg(target_arch = "x86_64")]
        if avx2::down(&self.weights, lines, to) {
            return;
        }
        self.down_plain(lines, to);
    }

    fn across_plain(&self, lines: Lines<'_>, to: &mut [i16]) {
        for (block, to) in to.chunks_mut(BLOCK).enumerate() {
            let sums = self.sums(lines, block * BLOCK);
            to.iter_mut().zip(sums).for_each(|(to, sum)| *to = rounded(sum, WEIGHT_BITS) as i16);
        }
    }

    fn down_plain(&self, lines: Lines<'_>, to: &mut [u8]) {
        for (block, to) in to.chunks_mut(BLOCK).enumerate() {
            let sums = self.sums(lines, block * BLOCK);
            to.iter_mut().zip(sums).for_each(|(to, sum)| *to = rounded(sum, WEIGHT_BITS + LEVEL_BITS) as u8);
        }
    }

    /// The weighted sums of a block of values, whose first ones have the index `at` in their lines.
    fn sums(&self, lines: Lines<'_>, at: usize) -> [i32; BLOCK] {
        let mut sums = [0; BLOCK];
        for (first, weight) in lines.firsts.iter().zip(&self.weights) {
            for (sum, value) in sums.iter_mut().zip(&lines.values[first + at..]) {
                *sum += i32::from(*value) * i32::from(*weight);
            }
        }
        sums
    }
}

/// Drops the lowest bits of a number, rounded.
fn rounded(number: i32, bits: u32) -> i32 {
    (number + (1 << (bits - 1))) >> bits
}

#[cfg(test)]
mod tests;
