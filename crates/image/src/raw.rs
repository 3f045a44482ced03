//! Converts raw pixels: cells that hold the levels of an image without a header. The spec gives the image's
//! size.

use forebay_base::Result;

use super::depth::Depth;
use super::frame::FrameOf;
use super::geometry::Rect;
use super::output::{Stages, bytes_of_fill};
use super::pixel_type::Layout;
use super::pixels::luma;
use super::refuse::bad_row;
use super::resample::Decoded;
use super::sniff::{is_jpeg, sniff};
use super::spec::{Image, RGB, Raw, Size};
use super::workspace::Workspace;

/// Crops, resizes and converts raw pixels like a decoded image, and writes the result into a slot of a batch.
pub(super) fn decode_into(
    image: &Image,
    raw: Raw,
    cell: &[u8],
    frame_of: &FrameOf<'_>,
    slot: &mut [u8],
    stages: &mut Stages,
    workspace: &Workspace,
) -> Result<()> {
    let Size { height, width } = size(raw, cell)?;
    let (frame, channels) = (frame_of(width, height), image.channels());
    let count = width as usize * height as usize;
    // With one channel, NHWC and NCHW store the levels in the same order.
    let is_ready = raw.channels() == channels && (raw.pixel_layout() == Layout::Nhwc || channels == 1);
    let arranged = if is_ready { 0 } else { count * channels };
    let needed = bytes_of_fill(image, &frame, 1, Depth::Eight).saturating_add(arranged as u64);
    let _taken = workspace.take(needed, || format!("raw pixels of {raw}"))?;
    let pixels = match is_ready {
        true => cell,
        false => {
            let to = stages.pixels.take(arranged);
            arrange(raw, cell, channels, to);
            to
        }
    };
    let rect = Rect::whole(width, height);
    let decoded = Decoded { pixels, rect, reduction: 1, channels, depth: Depth::Eight };
    stages.output.fill(image, decoded, &frame, slot)
}

/// The size of raw pixels.
///
/// # Errors
/// Fails if the cell has another number of bytes.
pub(super) fn size(raw: Raw, cell: &[u8]) -> Result<Size> {
    if cell.len() == raw.bytes() {
        return Ok(raw.size());
    }
    let cause = format!("{} bytes where raw pixels of {raw} take {}", cell.len(), raw.bytes());
    Err(match is_jpeg(cell) || sniff(cell).is_ok() {
        true => bad_row(cause).hint("it looks like an encoded image: leave `raw` out"),
        false => bad_row(cause),
    })
}

/// Converts raw pixels to interleaved RGB or to luma.
fn arrange(raw: Raw, cell: &[u8], channels: usize, to: &mut [u8]) {
    let stored = raw.channels();
    match raw.pixel_layout() {
        Layout::Nhwc if stored < RGB => {
            write(cell.chunks_exact(stored).map(|pixel| [pixel[0]; RGB]), channels, to);
        }
        Layout::Nhwc => {
            write(cell.chunks_exact(stored).map(|pixel| [pixel[0], pixel[1], pixel[2]]), channels, to);
        }
        Layout::Nchw => {
            let planes: Vec<&[u8]> = cell.chunks_exact(cell.len() / stored).collect();
            match planes[..] {
                [red, green, blue, ..] => {
                    let pixels = red.iter().zip(green).zip(blue);
                    write(pixels.map(|((red, green), blue)| [*red, *green, *blue]), channels, to);
                }
                _ => write(planes[0].iter().map(|grey| [*grey; RGB]), channels, to),
            }
        }
    }
}

/// Writes RGB pixels as they are, or as their luma if `channels` is 1.
fn write(pixels: impl Iterator<Item = [u8; RGB]>, channels: usize, to: &mut [u8]) {
    match channels {
        RGB => to.as_chunks_mut().0.iter_mut().zip(pixels).for_each(|(to, pixel)| *to = pixel),
        _ => to.iter_mut().zip(pixels).for_each(|(to, pixel)| *to = luma(pixel)),
    }
}

#[cfg(test)]
mod tests;
