//! The format of images that a cache keeps ([`Form`](super::Form)), and their decoding into a slot of a
//! batch.

use forebay_base::Result;

use super::depth::Depth;
use super::drawing::Drawing;
use super::frame::Frame;
use super::geometry::Rect;
use super::jpeg;
use super::output::bytes_of_fill;
use super::refuse::{bad_row, check_size};
use super::resample::Decoded;
use super::scratch::Scratch;
use super::shown::Shown;
use super::spec::{Framing, Image, Size};
use super::workspace::Workspace;

/// The first bytes of an image kept as pixels of 8 bits. No image file and no text begins with them.
pub(super) const PIXELS: [u8; 8] = *b"\xF4fbpx\r\n\x01";
/// The first bytes of an image kept as pixels of 16 bits.
pub(super) const WIDE_PIXELS: [u8; 8] = *b"\xF4fbpx\r\n\x02";
/// The first bytes of an image kept as a resized JPEG.
pub(super) const RESIZED: [u8; 8] = *b"\xF4fbrj\r\n\x01";

/// The number of bytes of the header: one of the marks above, then width, height and channels as 32-bit
/// little-endian numbers.
pub(super) const HEADER: usize = 20;

/// Whether the bytes are an image in one of the kept forms.
pub(super) fn is_kept(bytes: &[u8]) -> bool {
    is_decoded(bytes) || jpeg::is_coefficients(bytes)
}

/// Whether the bytes are an image kept as pixels or as a resized JPEG, which were decoded from the file
/// before.
pub(super) fn is_decoded(bytes: &[u8]) -> bool {
    is_pixels(bytes) || bytes.starts_with(&RESIZED)
}

/// Whether the bytes are an image kept as pixels. Apart from a short header, such bytes are used without
/// being parsed.
pub(super) fn is_pixels(bytes: &[u8]) -> bool {
    bytes.starts_with(&PIXELS) || bytes.starts_with(&WIDE_PIXELS)
}

/// The width and height from which decoding computes the crop, or the position on a canvas. They are those of
/// the original image, except after a resize or a centre crop: such a kept image is shown as a whole, so its
/// own width and height are used.
pub(super) fn drawn_on(image: &Image, kept: &[u8]) -> Result<(u32, u32)> {
    if jpeg::is_coefficients(kept) {
        return jpeg::coefficients_seen_size(image, kept);
    }
    let [width, height, _] = numbers(kept)?;
    Ok((width, height))
}

/// The width, height and channels in the header of a kept image.
fn numbers(kept: &[u8]) -> Result<[u32; 3]> {
    let number = |at: usize| {
        let bytes = kept.get(PIXELS.len() + 4 * at..)?.first_chunk::<4>()?;
        Some(u32::from_le_bytes(*bytes))
    };
    let all = number(0).zip(number(1)).zip(number(2));
    all.map(|((width, height), channels)| [width, height, channels])
        .ok_or_else(|| bad_row("a kept image ends early"))
}

/// Fills a slot from an image that [was decoded](is_decoded) before it was kept.
pub(super) fn decode_into(
    image: &Image,
    kept: &[u8],
    drawing: Drawing<'_>,
    slot: &mut [u8],
    Scratch { decoder, stages }: &mut Scratch,
    workspace: &Workspace,
) -> Result<()> {
    let [width, height, channels] = numbers(kept)?;
    check_size(width, height, image.max_pixels)?;
    let body = &kept[HEADER..];
    let frame = match image.framing {
        // Resize and centre crop were done when the image was kept, so the whole kept image is shown.
        Framing::Resize | Framing::CenterCrop => {
            let mut whole = image.clone();
            whole.framing = Framing::Resize;
            Frame::draw(&whole, width, height, drawing.key())
        }
        _ => drawing.frame(image, width, height),
    };
    if kept.starts_with(&RESIZED) {
        let shown = Shown::new(
            image,
            |w, h| frame.scaled(Size { height, width }, Size { height: h, width: w }),
            slot,
        );
        return decoder.decode_into(image, body, &mut [shown], stages, workspace);
    }
    let (frame, width, height) = match image.framing {
        Framing::Fit => (frame.of_shown(), frame.target.width, frame.target.height),
        _ => (frame, width, height),
    };
    let depth = if kept.starts_with(&WIDE_PIXELS) { Depth::Sixteen } else { Depth::Eight };
    let pixel = image.channels() * depth.bytes();
    let (expected, channels) = (u128::from(width) * u128::from(height) * pixel as u128, channels as usize);
    let is_foreign = channels != image.channels() || (depth, image.depth()) == (Depth::Sixteen, Depth::Eight);
    if is_foreign || body.len() as u128 != expected {
        return Err(bad_row(format!(
            "{} bytes of kept pixels for {width}x{height} of {} channels",
            body.len(),
            image.channels()
        )));
    }
    let rect = Rect::whole(width, height);
    // 16-bit numbers must begin at an even address, but kept bytes may begin anywhere, so they are copied.
    let copied = if depth == Depth::Sixteen { body.len() as u64 } else { 0 };
    let needed = bytes_of_fill(image, &frame, 1, depth).saturating_add(copied);
    let _taken = workspace.take(needed, || format!("kept pixels of {width}x{height}"))?;
    let pixels = match depth {
        Depth::Eight => body,
        Depth::Sixteen => {
            let pixels = stages.pixels.take(body.len());
            pixels.copy_from_slice(body);
            pixels
        }
    };
    let decoded = Decoded { pixels, rect, reduction: 1, channels, depth };
    stages.output.fill(image, decoded, &frame, slot)
}
