//! Decoded pixels, which resizing reads.

use super::super::depth::Depth;
use super::super::geometry::{Rect, Sampling};
use super::super::spec::Size;

/// Decoded pixels: a part of an image, possibly at a reduced scale.
#[derive(Clone, Copy)]
pub(crate) struct Decoded<'a> {
    /// Interleaved levels without padding: `rect.width * rect.height * channels` of them, of this depth. If a
    /// level has two bytes, they begin at an address suitable for a 16-bit number.
    pub(crate) pixels: &'a [u8],
    /// The rectangle of these pixels within the image at its reduced scale.
    pub(crate) rect: Rect,
    /// The reduction of the scale: a decoded pixel stands for this number of the image's pixels along each
    /// axis (1, 2, 4 or 8).
    pub(crate) reduction: u32,
    /// The number of channels: 1 or 3.
    pub(crate) channels: usize,
    pub(crate) depth: Depth,
}

impl<'a> Decoded<'a> {
    /// Returns all pixels if `sampling` shows all of them without resizing.
    pub(crate) fn shown_whole(&self, sampling: &Sampling, size: Size) -> Option<&'a [u8]> {
        let Rect { width, height, .. } = self.rect;
        let is_whole = self.reduction == 1
            && size == Size { height, width }
            && *sampling == Sampling::cropped(self.rect, sampling.resampling);
        let bytes = width as usize * height as usize * self.pixel_bytes();
        self.pixels.get(..bytes).filter(|_| is_whole)
    }

    /// The number of bytes of a pixel.
    pub(crate) fn pixel_bytes(&self) -> usize {
        self.channels * self.depth.bytes()
    }
}
