//! Masks of images: the class of each pixel, as a PNG of one channel.
//!
//! The delivered values are the stored ones: the indices of a palette, or the stored numbers if they have
//! fewer than eight bits. A mask gets the crop, size and flips of its image. Each of its pixels is copied
//! from the nearest stored pixel, so no class appears that is not stored.

use forebay_base::Result;
use image::metadata::Orientation;

use super::canvas::spread;
use super::drawn::Drawn;
use super::format::Format;
use super::geometry::{Mirror, Rect};
use super::mask_type::MaskType;
use super::pixels::{orient, transposes};
use super::png::Classes;
use super::refuse::{bad_row, caught, check_size};
use super::scratch::Scratch;
use super::sniff::{is_jpeg, sniff};
use super::spec::{Image, Size};
use super::workspace::Workspace;

/// Decodes the mask of an image into `slot`, in rows of the image's target size and in native byte order.
/// Pixels of the canvas that the image does not cover become 0. `drawn` is the geometry of the image: its
/// crop, size and flips.
///
/// # Errors
/// Fails if the mask is not a PNG of one channel, has more bits than `dtype` or another size than the image,
/// or is damaged.
pub fn decode_mask(
    workspace: &Workspace,
    image: &Image,
    drawn: &Drawn,
    encoded: &[u8],
    dtype: MaskType,
    slot: &mut [u8],
) -> Result<()> {
    let format = if is_jpeg(encoded) { Format::Jpeg } else { sniff(encoded)? };
    if format != Format::Png {
        return Err(bad_row(format!("a mask stored as {format}")).hint("masks are PNG of one channel"));
    }
    Scratch::with(workspace.own(), |Scratch { stages, .. }| {
        caught(Format::Png, || {
            let classes = Classes::open(encoded, dtype)?;
            let (width, height) = classes.size();
            check_size(width, height, image.max_pixels)?;
            let orientation = match image.exif_orientation {
                true => classes.orientation(),
                false => Orientation::NoTransforms,
            };
            let turned = if transposes(orientation) { (height, width) } else { (width, height) };
            let Size { height: seen_height, width: seen_width } = drawn.seen();
            if turned != (seen_width, seen_height) {
                let (width, height) = turned;
                return Err(bad_row(format!(
                    "a mask of {width}x{height} pixels for an image of {seen_width}x{seen_height}"
                )));
            }
            let pixel = dtype.bytes();
            let bytes = (width as usize * height as usize).saturating_mul(pixel);
            let copies = if orientation == Orientation::NoTransforms { 1 } else { 2 };
            let still = if drawn.turn().is_some() { slot.len() as u64 } else { 0 };
            let needed = (copies * bytes as u64).saturating_add(classes.beside_bytes()).saturating_add(still);
            let _taken = workspace.take(needed, || format!("a mask of {width}x{height} pixels"))?;
            let pixels = stages.pixels.take(bytes);
            classes.read(pixels)?;
            let mut pixels = &*pixels;
            if orientation != Orientation::NoTransforms {
                let to = stages.second.take(bytes);
                orient(pixels, Rect::whole(width, height), pixel, orientation, to);
                pixels = to;
            }
            match dtype {
                MaskType::U8 => place::<{ MaskType::U8.bytes() }>(pixels, image, drawn, slot),
                MaskType::U16 => place::<{ MaskType::U16.bytes() }>(pixels, image, drawn, slot),
            }
            Ok(())
        })
    })
}

/// Crops, resizes, flips and rotates a decoded mask like its image, and writes it to its place on the canvas
/// in `slot`. `pixels` has the size in which the image is seen.
pub(super) fn place<const BYTES: usize>(pixels: &[u8], image: &Image, drawn: &Drawn, slot: &mut [u8]) {
    let target = drawn.target();
    let shown = &mut slot[..target.width as usize * target.height as usize * BYTES];
    sample::<BYTES>(pixels, drawn, target, shown);
    if let Some(turn) = drawn.turn() {
        let still = shown.to_vec();
        turn.nearest(&still, target, [0; BYTES], shown);
    }
    if target != image.size() {
        spread(slot, target, drawn.frame.corner, image.size(), &[0; BYTES]);
    }
}

/// Resizes the shown part of a mask by copying the nearest pixels, and mirrors it if the image is mirrored.
fn sample<const BYTES: usize>(pixels: &[u8], drawn: &Drawn, target: Size, slot: &mut [u8]) {
    let (pixels, _) = pixels.as_chunks::<BYTES>();
    let (slot, _) = slot.as_chunks_mut::<BYTES>();
    let (sampling, seen) = (&drawn.frame.sampling, drawn.seen());
    let Mirror { across, down } = drawn.frame.mirror;
    let (columns, rows) = match drawn.frame.padding {
        None => (
            nearest(sampling.left, sampling.width, target.width, seen.width, across),
            nearest(sampling.top, sampling.height, target.height, seen.height, down),
        ),
        Some(repeat) => (
            mirrored(repeat.columns(sampling.left, target.width), across),
            mirrored(repeat.rows(sampling.top, target.height), down),
        ),
    };
    for (to, row) in slot.chunks_exact_mut(columns.len()).zip(rows) {
        let from = &pixels[row * seen.width as usize..][..seen.width as usize];
        to.iter_mut().zip(&columns).for_each(|(to, column)| *to = from[*column]);
    }
}

/// Reverses the pixel positions along an axis if the image is mirrored.
fn mirrored(places: Vec<u32>, mirrored: bool) -> Vec<usize> {
    let places = places.into_iter().map(|place| place as usize);
    if mirrored { places.rev().collect() } else { places.collect() }
}

/// For each output pixel along an axis, the position of the image's pixel that it shows. As in torchvision,
/// it is the image's pixel at the start of the output pixel, computed in 32-bit floats. The precision matters
/// if that point is on the border between two pixels.
fn nearest(start: f64, length: f64, target: u32, limit: u32, mirrored: bool) -> Vec<usize> {
    let scale = length / f64::from(target);
    // A crop that is made before the resize begins at a whole pixel of the image. A crop after the resize
    // begins at a whole pixel of the resized image.
    let (before, after) = match start.fract() == 0.0 && length.fract() == 0.0 {
        true => (start as u32, 0.0),
        false => (0, (start / scale).round() as f32),
    };
    let places = (0..target).map(|at| {
        let place = before + ((after + at as f32) * scale as f32) as u32;
        place.min(limit - 1) as usize
    });
    if mirrored { places.rev().collect() } else { places.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RowKey;

    /// A PNG of one channel whose stored rows are `rows`.
    fn encoded(width: u32, color: png::ColorType, depth: png::BitDepth, rows: &[u8], height: u32) -> Vec<u8> {
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, width, height);
        encoder.set_color(color);
        encoder.set_depth(depth);
        if color == png::ColorType::Indexed {
            encoder.set_palette(vec![9; 3 * 256]);
        }
        encoder.write_header().unwrap().write_image_data(rows).unwrap();
        file
    }

    fn decoded(image: &Image, file: &[u8], dtype: MaskType) -> Result<Vec<u8>> {
        let drawn = Drawn::probe(image, file, RowKey(5))?;
        let Size { height, width } = image.size();
        let mut slot = vec![77; (height * width) as usize * dtype.bytes()];
        let workspace = Workspace::of_one(image.max_pixels);
        decode_mask(&workspace, image, &drawn, file, dtype, &mut slot).map(|()| slot)
    }

    #[test]
    fn classes_are_the_stored_numbers() {
        use png::{BitDepth, ColorType};
        let same = Image::resize(2, 5);
        let classes = [0, 1, 1, 0, 1, 1, 0, 0, 1, 0];
        for color in [ColorType::Grayscale, ColorType::Indexed] {
            let bits = encoded(5, color, BitDepth::One, &[0b0110_1000, 0b1001_0000], 2);
            assert_eq!(decoded(&same, &bits, MaskType::U8).unwrap(), classes);
            let bytes = encoded(5, color, BitDepth::Eight, &classes, 2);
            assert_eq!(decoded(&same, &bytes, MaskType::U8).unwrap(), classes);
        }
        let nibbles =
            encoded(5, ColorType::Indexed, BitDepth::Four, &[0x01, 0x2F, 0x30, 0x45, 0x67, 0x80], 2);
        let classes = [0, 1, 2, 15, 3, 4, 5, 6, 7, 8];
        assert_eq!(decoded(&same, &nibbles, MaskType::U8).unwrap(), classes);
        let wide: Vec<u8> = classes.iter().flat_map(|class| u16::from(*class).to_ne_bytes()).collect();
        assert_eq!(decoded(&same, &nibbles, MaskType::U16).unwrap(), wide);
        let words: Vec<u8> = (0..10u16).flat_map(|at| (at * 5000).to_be_bytes()).collect();
        let deep = encoded(5, ColorType::Grayscale, BitDepth::Sixteen, &words, 2);
        let wide: Vec<u8> = (0..10u16).flat_map(|at| (at * 5000).to_ne_bytes()).collect();
        assert_eq!(decoded(&same, &deep, MaskType::U16).unwrap(), wide);
        let error = decoded(&same, &deep, MaskType::U8).unwrap_err();
        assert_eq!(error.to_string(), "a mask of 16 bits, delivered as uint8 (deliver it as uint16)");
        let colours = encoded(5, ColorType::Rgb, BitDepth::Eight, &[0; 30], 2);
        let error = decoded(&same, &colours, MaskType::U8).unwrap_err();
        assert!(error.to_string().starts_with("a mask of 3 channels"), "{error}");
        assert!(decoded(&same, &nibbles[..nibbles.len() - 20], MaskType::U8).is_err());
    }

    #[test]
    fn a_mask_is_cropped_and_mirrored_like_its_image() {
        use png::{BitDepth, ColorType};
        let levels: Vec<u8> = (0..48 * 60).map(|at| (at * 7 % 251) as u8).collect();
        let file = encoded(60, ColorType::Grayscale, BitDepth::Eight, &levels, 48);
        // These specs crop and flip but do not resize, so an image decoded as grey has the same values as the
        // mask.
        let whole = Image::resize(48, 60).grayscale().flip().vertical_flip();
        let crop = Image::center_crop((40, 32)).resize_shorter(48).grayscale().flip_with(1.0);
        for image in [whole, crop] {
            for key in (0..8).map(RowKey) {
                let drawn = Drawn::probe(&image, &file, key).unwrap();
                let mut mask = vec![0; image.bytes_per_image()];
                let workspace = Workspace::of_one(1 << 20);
                decode_mask(&workspace, &image, &drawn, &file, MaskType::U8, &mut mask).unwrap();
                let mut pixels = vec![0; image.bytes_per_image()];
                crate::decode_into(&image, &file, key, &mut pixels).unwrap();
                assert_eq!(mask, pixels);
            }
        }
    }

    #[test]
    fn a_mask_of_another_size_is_refused() {
        use png::{BitDepth, ColorType};
        let file = encoded(4, ColorType::Grayscale, BitDepth::Eight, &[0; 8], 2);
        let other = encoded(2, ColorType::Grayscale, BitDepth::Eight, &[0; 8], 4);
        let image = Image::resize(3, 3);
        let drawn = Drawn::probe(&image, &other, RowKey(0)).unwrap();
        let workspace = Workspace::of_one(1 << 20);
        let error = decode_mask(&workspace, &image, &drawn, &file, MaskType::U8, &mut [0; 9]).unwrap_err();
        assert_eq!(error.to_string(), "a mask of 4x2 pixels for an image of 2x4");
    }

    #[test]
    fn the_nearest_pixel_is_torchs() {
        assert_eq!(nearest(3.0, 5.0, 3, 20, false), [3, 4, 6]);
        assert_eq!(nearest(0.0, 3.0, 6, 3, true), [2, 2, 1, 1, 0, 0]);
        // Here 8 pixels are resized to 6, and then cropped to the 3 pixels that begin at pixel 2.
        assert_eq!(nearest(2.0 * 8.0 / 6.0, 3.0 * 8.0 / 6.0, 3, 8, false), [2, 4, 5]);
    }
}
