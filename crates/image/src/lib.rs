//! One column of encoded image bytes to one column of pixels.
//!
//! [`Image`] describes the result; [`decode_into`] turns one encoded image into exactly that, in the place
//! where it will be used:
//!
//! ```text
//! bytes ─ probe ─► size ─ geometry ─► region ─ jpeg/raster ─► RGB or luma ─ resample ─► target size ─ effects ─ finish ─► slot
//!         header.rs       geometry.rs          jpeg/, raster.rs             resample.rs             effects/  finish.rs
//! ```
//!
//! The size is known before a pixel is decoded, so that the crop is drawn first and only its rows and columns are
//! decoded, and an image bomb is refused from its header. [`kept`] is the form in which a cache holds images that need not
//! be decoded again, and [`packed`] that in which Parquet may hold JPEGs. [`drawn`] is the same crop and flips for what belongs to an image: boxes, points and [`mask`]s.
//! Nothing here knows about Parquet, threads or batches: the caller owns the pool and the slots, and adds the place (file,
//! row, column) to an error.

mod canvas;
mod depth;
mod drawn;
mod draws;
mod effects;
mod exif;
mod finish;
mod following;
#[cfg_attr(not(feature = "formats"), path = "formats/absent.rs")]
mod formats;
mod geometry;
mod header;
mod jpeg;
mod kept;
mod mask;
mod output;
mod packed;
mod pixel_type;
mod pixels;
mod png;
mod raster;
mod resample;
mod rotation;
mod scratch;
mod spec;
mod unread;
mod validate;
mod workspace;

pub use drawn::Drawn;
pub use draws::RowKey;
pub use following::Drawing;
pub use header::is_jpeg;
pub use header::{Format, Header, probe};
pub use jpeg::encode_jpeg;
pub use kept::Form;
pub use mask::MaskType;
pub use mask::decode_mask;
pub use packed::{EXTENSION as PACKED_EXTENSION, VERSION as PACKED_VERSION, newer as newer_packed};
pub use packed::{is_packed, pack, unpack};
pub use pixel_type::{Layout, PixelType};
pub use rotation::Interpolation;
pub use spec::{Image, Size};
pub use workspace::Workspace;

pub use forebay_base::{Error, ErrorKind, Result};
use header::seen_size;
use scratch::Scratch;

/// Decodes one encoded image into its slot, transformed as `image` says.
///
/// `encoded` is a whole JPEG, PNG, WebP, GIF (its first frame), BMP or TIFF file, the result of [`Image::keep`] for
/// one with the same spec, or that of [`pack`]. `slot` takes exactly [`Image::bytes_per_image`] bytes, in [`Image::shape`]'s order and native
/// byte order; it needs no alignment. `key` decides the random draws: equal arguments give equal pixels on every thread.
///
/// Decoders and intermediate buffers belong to the calling thread and are reused for its next image.
///
/// # Errors
/// [`ErrorKind::BadRow`] for an image that is damaged in the part of it that is decoded, [`ErrorKind::TooLarge`] for an image beyond
/// [`Image::max_pixels`], or whose decoding would take more memory than that allows, [`ErrorKind::Invalid`] for a slot of another length. The slot's content is
/// unspecified after an error.
pub fn decode_into(image: &Image, encoded: &[u8], key: RowKey, slot: &mut [u8]) -> Result<()> {
    decode_within(&Workspace::of_one(image.max_pixels), image, encoded, key, slot)
}

/// [`decode_into`] that takes the memory for it from a workspace, also for an image that follows another one.
pub fn decode_within<'a>(
    workspace: &Workspace,
    image: &Image,
    encoded: &[u8],
    drawing: impl Into<Drawing<'a>>,
    slot: &mut [u8],
) -> Result<()> {
    if slot.len() != image.bytes_per_image() {
        return Err(Error::invalid(format!(
            "a slot of {} bytes for an image of {}",
            slot.len(),
            image.bytes_per_image()
        )));
    }
    let (encoded, drawing) = (packed::unframed(encoded)?, drawing.into());
    Scratch::with(workspace.own(), |scratch| {
        let frame_of = |width, height| drawing.frame(image, width, height);
        let memory = (scratch, workspace);
        if kept::is_kept(encoded) {
            kept::decode_into(image, encoded, drawing, slot, memory)
        } else if is_jpeg(encoded) {
            jpeg::decode_into(image, encoded, &frame_of, slot, memory)
        } else {
            raster::decode_into(image, encoded, &frame_of, slot, memory)
        }
    })
}

/// Whether decoding needs bytes that cannot change meanwhile: decoders read a header more than once, and memory that
/// they allocate after the first time must suffice after the second.
pub fn needs_stable(encoded: &[u8]) -> bool {
    !kept::is_pixels(encoded)
}

/// The failure of a row whose bytes are not one whole image.
fn bad_row(cause: impl Into<String>) -> Error {
    Error::new(ErrorKind::BadRow, cause)
}

/// Refuses an image by the size in its header, before anything is allocated for it.
fn check_size(width: u32, height: u32, max_pixels: u64) -> Result<()> {
    let pixels = u64::from(width) * u64::from(height);
    if pixels == 0 {
        return Err(bad_row(format!("an image of {width}x{height} pixels")));
    }
    if pixels > max_pixels {
        return Err(Error::new(
            ErrorKind::TooLarge,
            format!("an image of {width}x{height} = {pixels} pixels, over the limit of {max_pixels}"),
        )
        .hint("raise max_pixels if such images are expected"));
    }
    Ok(())
}
