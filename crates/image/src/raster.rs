//! Images that are decoded as a whole: PNG, and the other [`formats`], which a build may leave out.
//!
//! Pixels are those of Pillow's `convert("RGB")`: alpha is dropped without blending, palettes are expanded,
//! 16-bit channels keep their high byte, or both bytes if 16 bits are asked for. The differences are:
//!
//! * Pillow turns 16-bit grey white wherever the value is above 255, which loses most of the image. Here grey
//!   keeps its high byte, like colour in both libraries. If a TIFF says that white is 0, it is inverted,
//!   which Pillow does not do.
//! * Pillow always turns a TIFF as its tag says. Here all formats are turned in the same way, on request.
//! * CMYK, and JPEG inside a TIFF, are rounded differently, by a level or two of 255.

use forebay_base::Result;
use image::metadata::Orientation;

use super::depth::Depth;
use super::format::{Format, Header};
use super::geometry::Rect;
use super::opened::Opened;
use super::output::{Stages, Whole, bytes_after};
use super::png::Png;
use super::refuse::{caught, check_size};
use super::shown::Shown;
use super::sniff::sniff;
use super::spec::{Image, RGB};
use super::workspace::{Taken, Workspace};
use super::{formats, pixels};

/// The header of an image that is not a JPEG.
pub(super) fn probe(encoded: &[u8]) -> Result<Header> {
    let format = sniff(encoded)?;
    caught(format, || Ok(open(encoded, format, Depth::Eight)?.header))
}

/// The orientation of an image that is not a JPEG.
pub(super) fn orientation(encoded: &[u8]) -> Result<Orientation> {
    let format = sniff(encoded)?;
    caught(format, || Ok(open(encoded, format, Depth::Eight)?.orientation))
}

/// The depth in which an image that is not a JPEG is decoded, if a depth of up to `most` is wanted.
pub(super) fn depth(encoded: &[u8], most: Depth) -> Result<Depth> {
    let format = sniff(encoded)?;
    caught(format, || Ok(open(encoded, format, most)?.depth))
}

/// Decodes a file that is not a JPEG into the slots of `shown`. `image` decides depth, channels and
/// orientation.
pub(super) fn decode_into(
    image: &Image,
    encoded: &[u8],
    shown: &mut [Shown<'_>],
    stages: &mut Stages,
    workspace: &Workspace,
) -> Result<()> {
    let format = sniff(encoded)?;
    let (whole, _taken) = caught(format, || read(image, encoded, format, shown, stages, workspace))?;
    stages.fill_from_whole(image.channels(), whole, shown)
}

/// Decodes all pixels into `stages.pixels`, as RGB or luma. The memory that is taken from the workspace here
/// also covers the stages after decoding.
fn read<'w>(
    image: &Image,
    encoded: &[u8],
    format: Format,
    shown: &[Shown<'_>],
    stages: &mut Stages,
    workspace: &'w Workspace,
) -> Result<(Whole, Option<Taken<'w>>)> {
    let opened = open(encoded, format, image.depth())?;
    let Opened { header: Header { width, height, .. }, orientation, depth, pending } = opened;
    check_size(width, height, image.max_pixels)?;
    let orientation = if image.exif_orientation { orientation } else { Orientation::NoTransforms };
    let whole = Whole { rect: Rect::whole(width, height), orientation, depth };
    let bytes = pending.buffer_bytes();
    let needed = bytes.saturating_add(pending.beside_bytes()).saturating_add(bytes_after(
        image.channels(),
        whole,
        shown,
    ));
    let taken = workspace.take(needed, || format!("a {format} of {width}x{height} pixels"))?;
    let buffer = stages.pixels.take(bytes as usize);
    pending.read(buffer)?;
    let count = width as usize * height as usize;
    match depth {
        _ if image.channels() == RGB => {}
        Depth::Eight => pixels::luma_in_place(buffer, count),
        Depth::Sixteen => pixels::wide_luma_in_place(buffer.as_chunks_mut().0, count),
    }
    Ok((whole, taken))
}

/// Reads the header. The image will be decoded in the depth `most`, or in 8 bits if the file has no more.
fn open(encoded: &[u8], format: Format, most: Depth) -> Result<Opened<'_>> {
    match format {
        Format::Png => {
            let png = Png::open(encoded, most)?;
            let (header, orientation, depth) = (png.header(), png.orientation(), png.depth());
            Ok(Opened { header, orientation, depth, pending: Box::new(png) })
        }
        _ => formats::open(encoded, format, most),
    }
}
