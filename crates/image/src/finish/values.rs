//! Writes the values of pixels one by one, in every number type and order of the axes.

use half::{bf16, f16};

use super::super::depth::Depth;
use super::super::pixel_type::{Layout, PixelType};
use super::super::spec::{LUMA, Normalize, RGB};

/// The largest 8-bit value, which is 1.0 in floats.
pub(super) const WHITE: f32 = 255.0;
/// The largest 16-bit value, which is 1.0 in floats.
const WIDE_WHITE: f32 = 65_535.0;

/// The properties of an image that decide how its levels are converted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct FinishKey {
    pub(super) pixel_type: PixelType,
    pub(super) normalize: Option<Normalize>,
    pub(super) layout: Layout,
    pub(super) channels: usize,
}

impl FinishKey {
    /// Normalises `unit`, the level of a channel, which the caller has scaled to the range from 0 to 1.
    pub(super) fn normalized(&self, channel: usize, unit: f32) -> f32 {
        match self.normalize {
            Some(Normalize { mean, std }) => (unit - mean[channel]) / std[channel],
            None => unit,
        }
    }

    /// Writes levels of 16 bits like [`write`](Self::write).
    pub(super) fn write_wide(&self, first: usize, count: usize, pixels: &[u8], slot: &mut [u8]) {
        let (pixels, _) = pixels.as_chunks::<{ Depth::Sixteen.bytes() }>();
        let normal = |channel, level: [u8; 2]| {
            self.normalized(channel, f32::from(u16::from_ne_bytes(level)) / WIDE_WHITE)
        };
        match self.pixel_type {
            PixelType::U8 => {
                self.write(first, count, pixels, slot, |_, level| {
                    [(u16::from_ne_bytes(level) >> u8::BITS) as u8]
                });
            }
            PixelType::U16 => self.write(first, count, pixels, slot, |_, level| level),
            PixelType::F16 => {
                self.write(first, count, pixels, slot, |c, level| {
                    f16::from_f32(normal(c, level)).to_ne_bytes()
                });
            }
            PixelType::BF16 => {
                self.write(first, count, pixels, slot, |c, level| {
                    bf16::from_f32(normal(c, level)).to_ne_bytes()
                });
            }
            PixelType::F32 => {
                self.write(first, count, pixels, slot, |c, level| normal(c, level).to_ne_bytes())
            }
        }
    }

    /// Writes the values of interleaved pixels of an image with `count` pixels, starting at its pixel number
    /// `first`.
    pub(super) fn write<L: Copy, const BYTES: usize>(
        &self,
        first: usize,
        count: usize,
        pixels: &[L],
        slot: &mut [u8],
        value: impl Fn(usize, L) -> [u8; BYTES],
    ) {
        let (slot, _) = slot.as_chunks_mut::<BYTES>();
        match (self.channels, self.layout) {
            (LUMA, _) => {
                slot[first..].iter_mut().zip(pixels).for_each(|(to, level)| *to = value(0, *level));
            }
            (_, Layout::Nhwc) => {
                let convert = |pixel: &[L; RGB]| [value(0, pixel[0]), value(1, pixel[1]), value(2, pixel[2])];
                let to = slot[first * RGB..].as_chunks_mut::<RGB>().0.iter_mut();
                to.zip(pixels.as_chunks::<RGB>().0).for_each(|(to, pixel)| *to = convert(pixel));
            }
            (_, Layout::Nchw) => {
                let (pixels, _) = pixels.as_chunks::<RGB>();
                for (channel, plane) in slot.chunks_exact_mut(count).enumerate() {
                    let to = plane[first..].iter_mut();
                    to.zip(pixels).for_each(|(to, pixel)| *to = value(channel, pixel[channel]));
                }
            }
        }
    }
}
