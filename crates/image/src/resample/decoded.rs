//! The pixels that are resized.

use super::super::depth::Depth;
use super::super::geometry::{Rect, Sampling};
use super::super::spec::Size;

/// Decoded pixels: a part of an image, at a part of its scale.
#[derive(Clone, Copy)]
pub(crate) struct Decoded<'a> {
    /// Interleaved, without padding: `rect.width * rect.height * channels` levels of this depth. Where a level has two bytes,
    /// they begin where a 16-bit number may.
    pub(crate) pixels: &'a [u8],
    /// The place of these pixels in the scaled image.
    pub(crate) rect: Rect,
    /// Pixels of the image per pixel here, along each axis: 1, 2, 4 or 8.
    pub(crate) reduction: u32,
    /// 1 or 3.
    pub(crate) channels: usize,
    pub(crate) depth: Depth,
}

impl<'a> Decoded<'a> {
    /// All pixels, where a sampling shows all of them in the size that they have.
    pub(crate) fn shown_whole(&self, sampling: &Sampling, size: Size) -> Option<&'a [u8]> {
        let Rect { width, height, .. } = self.rect;
        let is_whole = self.reduction == 1
            && size == Size { height, width }
            && *sampling == Sampling::cropped(self.rect, sampling.resampling);
        let bytes = width as usize * height as usize * self.pixel_bytes();
        self.pixels.get(..bytes).filter(|_| is_whole)
    }

    /// Bytes of a pixel.
    pub(crate) fn pixel_bytes(&self) -> usize {
        self.channels * self.depth.bytes()
    }
}
