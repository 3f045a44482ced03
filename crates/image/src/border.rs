//! Crops that extend beyond their image, with padding that repeats the image's pixels.

use super::frame::Frame;
use super::geometry::Rect;
use super::repeat::Repeat;
use super::resample::Decoded;

/// Copies the crop `frame`, and fills the parts of it that are outside the image with repeated pixels of the
/// image.
pub(super) fn copy(decoded: Decoded<'_>, frame: &Frame, repeat: Repeat, to: &mut [u8]) {
    let pixel = decoded.pixel_bytes();
    let Rect { x, y, width, .. } = decoded.rect;
    let columns = repeat.columns(frame.sampling.left, frame.target.width);
    let rows = repeat.rows(frame.sampling.top, frame.target.height);
    for (row, to) in rows.iter().zip(to.chunks_exact_mut(columns.len() * pixel)) {
        let from = &decoded.pixels[(row - y) as usize * width as usize * pixel..];
        for (column, to) in columns.iter().zip(to.chunks_exact_mut(pixel)) {
            to.copy_from_slice(&from[(column - x) as usize * pixel..][..pixel]);
        }
    }
}
