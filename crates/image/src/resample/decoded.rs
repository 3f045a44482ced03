//! The pixels that are resized.

use super::super::depth::Depth;
use super::super::geometry::Rect;

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

impl Decoded<'_> {
    /// Bytes of a pixel.
    pub(crate) fn pixel_bytes(&self) -> usize {
        self.channels * self.depth.bytes()
    }
}
