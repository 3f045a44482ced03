//! The pixels that are resized, as rows of bytes for the AVX2 and AVX-512 code.

use super::super::geometry::Rect;
use super::decoded::Decoded;

/// The rows of a view: the rectangle of decoded pixels that resizing reads.
#[derive(Clone, Copy)]
pub(super) struct RowSource<'a> {
    /// The pixels, from the first one of the view on.
    pub(super) pixels: &'a [u8],
    /// The number of bytes between rows.
    pub(super) pitch: usize,
    /// The number of bytes of a row of the view.
    pub(super) bytes: usize,
    /// The index of the view's last row.
    pub(super) last: usize,
}

impl<'a> RowSource<'a> {
    /// The rows of a view; `None` if the view is empty or begins outside the pixels.
    pub(super) fn visible(decoded: Decoded<'a>, view: Rect) -> Option<RowSource<'a>> {
        let Decoded { rect, pixels, channels, .. } = decoded;
        let above = (view.y.checked_sub(rect.y)? as usize) * rect.width as usize;
        let start = (above + view.x.checked_sub(rect.x)? as usize) * channels;
        Some(RowSource {
            pixels: pixels.get(start..)?,
            pitch: rect.width as usize * channels,
            bytes: view.width as usize * channels,
            last: (view.height as usize).checked_sub(1)?,
        })
    }
}
