//! Converts images to the forms in which a cache keeps them. The steps of decoding that come before the first
//! random step are then done once, and not in every epoch.
//!
//! The result of a resize or a centre crop is kept in the target's size, and an image that is fitted into a
//! canvas is kept in the size that it has there. Before a random crop the whole image is kept: the crop is
//! later drawn from the same random numbers, on the image's original size. Flips, effects, normalisation,
//! number type and layout come later and do not matter here. There are three forms:
//!
//! * [`Form::Pixels`]: nothing is decoded again. Files of more than 8 bits keep 16 if the spec asks for them.
//!   Pixels are the same as without keeping, except for crops of more than six times the target, which are
//!   otherwise decoded at a smaller scale: these differ by less than one level of 255 on average on
//!   photographs, by up to nine in black and white patterns.
//! * [`Form::Resized`]: a JPEG at quality 95, just large enough that the smallest random crop has the size of
//!   the target. An image that would hardly be smaller stays as it is. On the 24 photographs of Kodak's set,
//!   pixels differ from those of the files by 1.0 to 1.8 levels of 255 on average, and by 3.1 in the worst.
//! * [`Form::Coefficients`]: the coefficients of a JPEG, without loss, in a form that needs no Huffman
//!   decoding. Pixels are those of the file, for every crop and size. Other files stay as they are.

use std::borrow::Cow;

use forebay_base::Result;

use super::decode::decode_within;
use super::depth::Depth;
use super::draws::RowKey;
use super::geometry::{smallest_crop, target};
use super::jpeg::encode_jpeg;
use super::kept::{HEADER, PIXELS, RESIZED, WIDE_PIXELS};
use super::pixel_type::{Layout, PixelType};
use super::probe::seen_size;
use super::refuse::check_size;
use super::scratch::Scratch;
use super::sniff::is_jpeg;
use super::spec::{Framing, Image, Resampling, Size};
use super::workspace::Workspace;
use super::{jpeg, packed, raster};

/// The JPEG quality of [`Form::Resized`].
const QUALITY: u8 = 95;

/// The cost of Huffman decoding for each bit that a pixel takes in the file, if the rest of decoding costs 1.
/// Without Huffman decoding, photographs of 0.9 to 4.5 bits a pixel took 0.69 to 0.35 of the processor time.
const HUFFMAN_COST_OF_BIT: f64 = 0.42;

/// The largest share of an image's pixels that its resized form may have; if it has more, the file is kept
/// instead.
const MAX_PIXEL_SHARE: f64 = 0.7;

/// The form in which a cache keeps an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// Pixels of 8 bits, or of 16 for a file that has more than 8 if [`Image::bit_depth`] asks for them.
    Pixels,
    /// A JPEG of the size that is needed. It has 8 bits, so images of 16 bits do not have this form.
    Resized,
    /// The coefficients of a JPEG, which serve every size and crop. Images of other formats are kept as
    /// files.
    Coefficients,
}

/// The name of [`Form::Coefficients`] with the version of its format. Entries of a cache are found by it.
const COEFFICIENTS: &str = "coefficients 1";

impl Image {
    /// Whether images of this spec can be kept in this form. Raw pixels cannot be kept, because there is
    /// nothing to decode. [`Form::Resized`] needs 8 bits, and a resize, a centre crop, a fit or a random
    /// resized crop.
    pub fn has_form(&self, form: Form) -> bool {
        let is_shrunk = matches!(
            self.framing,
            Framing::Resize | Framing::CenterCrop | Framing::Fit | Framing::RandomResizedCrop
        );
        self.raw.is_none() && (form != Form::Resized || self.depth() == Depth::Eight && is_shrunk)
    }

    /// A line of text that identifies how images of this spec are kept. It is equal for specs that can use
    /// the same kept images.
    pub fn kept_as(&self, form: Form) -> String {
        match form {
            Form::Pixels => format!("pixels of {}", self.before_randomness().canonical()),
            Form::Resized => format!("JPEG {QUALITY} of {}", self.before_compression().canonical()),
            Form::Coefficients => COEFFICIENTS.into(),
        }
    }

    /// The bytes that this image takes when it is kept: an exact number for pixels, an upper limit for a JPEG
    /// and for coefficients of photographs.
    ///
    /// # Errors
    /// The errors of [`decode_into`](crate::decode_into) that the header shows.
    pub fn kept_bytes(&self, form: Form, encoded: &[u8]) -> Result<u64> {
        if self.raw.is_some() {
            return Ok(encoded.len() as u64);
        }
        let of = |size: Size| u64::from(size.width) * u64::from(size.height);
        let (seen, kept) = self.kept_size(form, encoded)?;
        Ok(match form {
            Form::Pixels => {
                HEADER as u64 + of(kept) * (self.channels() * self.kept_depth(encoded)?.bytes()) as u64
            }
            Form::Resized if saves_enough(seen, kept) => HEADER as u64 + of(kept),
            Form::Coefficients if is_jpeg(encoded) => jpeg::most_bytes(encoded),
            Form::Resized | Form::Coefficients => encoded.len() as u64,
        })
    }

    /// The share of an image's pixels that remains in [`Form::Resized`], from 0 to 1. The cost of decoding
    /// falls to the same share.
    ///
    /// # Errors
    /// The errors of [`kept_bytes`](Self::kept_bytes).
    pub fn resized_share(&self, encoded: &[u8]) -> Result<f64> {
        let (seen, kept) = self.kept_size(Form::Resized, encoded)?;
        Ok(if self.raw.is_none() && saves_enough(seen, kept) { share(seen, kept) } else { 1.0 })
    }

    /// The share of the cost of decoding that remains in [`Form::Coefficients`], from 0 to 1. It is estimated
    /// from the size of the file.
    ///
    /// # Errors
    /// The errors of [`kept_bytes`](Self::kept_bytes).
    pub fn coefficients_share(&self, encoded: &[u8]) -> Result<f64> {
        let (seen, _) = self.kept_size(Form::Coefficients, encoded)?;
        if self.raw.is_some() || !is_jpeg(encoded) {
            return Ok(1.0);
        }
        let bits = encoded.len() as f64 * 8.0 / (f64::from(seen.width) * f64::from(seen.height));
        Ok(1.0 / (1.0 + HUFFMAN_COST_OF_BIT * bits))
    }

    /// Converts an encoded image to `form`, which [`decode_into`](crate::decode_into) decodes with less work
    /// than the file. Raw pixels are returned unchanged.
    ///
    /// ```
    /// use forebay_image::{Form, Image, RowKey, encode_jpeg};
    ///
    /// let file = encode_jpeg(&[90; 64 * 48 * 3], 64, 48, 90)?;
    /// let train = Image::random_resized_crop(16).flip();
    /// let kept = train.keep(Form::Coefficients, &file)?;
    /// assert_eq!(train.decode(&kept, RowKey(7))?, train.decode(&file, RowKey(7))?);
    /// # Ok::<(), forebay_image::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`decode_into`](crate::decode_into).
    pub fn keep<'a>(&self, form: Form, encoded: &'a [u8]) -> Result<Cow<'a, [u8]>> {
        self.keep_within(&Workspace::of_one(self.max_pixels), form, encoded)
    }

    /// Works like [`keep`](Self::keep), but takes the memory from a workspace.
    pub fn keep_within<'a>(
        &self,
        workspace: &Workspace,
        form: Form,
        encoded: &'a [u8],
    ) -> Result<Cow<'a, [u8]>> {
        let (seen, size) = self.kept_size(form, encoded)?;
        if self.raw.is_some() {
            return Ok(Cow::Borrowed(encoded));
        }
        if form == Form::Coefficients {
            return self.keep_coefficients(workspace, encoded);
        }
        if form == Form::Resized && !saves_enough(seen, size) {
            return Ok(Cow::Borrowed(encoded));
        }
        let mut image = match form {
            Form::Pixels => self.before_randomness().dtype(match self.kept_depth(encoded)? {
                Depth::Eight => PixelType::U8,
                Depth::Sixteen => PixelType::U16,
            }),
            Form::Resized | Form::Coefficients => self.before_compression(),
        };
        // The header stores `drawn_on`. From this size, decoding later computes a random crop or the position
        // on a canvas, so it is the original size, except for framings that show the whole kept image.
        let drawn_on = match self.framing {
            Framing::Resize | Framing::CenterCrop => size,
            _ => seen,
        };
        if self.kept_with_size() {
            image = image.of_size(size);
        }
        workspace.check(image.bytes_per_image() as u64, || {
            format!("an image of {}x{}", size.width, size.height)
        })?;
        let mut pixels = vec![0; HEADER + image.bytes_per_image()];
        decode_within(workspace, &image, encoded, RowKey(0), &mut pixels[HEADER..])?;
        let (mark, mut kept) = match form {
            Form::Pixels if image.dtype == PixelType::U16 => (WIDE_PIXELS, pixels),
            Form::Pixels => (PIXELS, pixels),
            Form::Resized | Form::Coefficients => {
                let file = encode_jpeg(&pixels[HEADER..], size.width, size.height, QUALITY)?;
                (RESIZED, [&[0; HEADER], &file[..]].concat())
            }
        };
        kept[..mark.len()].copy_from_slice(&mark);
        let numbers = [drawn_on.width, drawn_on.height, image.channels() as u32];
        kept[mark.len()..HEADER].copy_from_slice(&numbers.map(u32::to_le_bytes).concat());
        Ok(Cow::Owned(kept))
    }

    fn keep_coefficients<'a>(&self, workspace: &Workspace, encoded: &'a [u8]) -> Result<Cow<'a, [u8]>> {
        if !is_jpeg(encoded) {
            return Ok(Cow::Borrowed(encoded));
        }
        let kept = Scratch::with(workspace.own(), |Scratch { decoder, .. }| {
            decoder.keep_coefficients(self.max_pixels, encoded, workspace)
        })?;
        Ok(kept.map_or(Cow::Borrowed(encoded), Cow::Owned))
    }

    /// The size of the image as it is seen (after EXIF's orientation), and the size in which it is kept.
    fn kept_size(&self, form: Form, encoded: &[u8]) -> Result<(Size, Size)> {
        let (width, height) = seen_size(self, encoded)?;
        check_size(width, height, self.max_pixels)?;
        let seen = Size { height, width };
        let kept = match (&self.framing, form) {
            (_, Form::Coefficients) => seen,
            (Framing::Resize | Framing::CenterCrop, _) => self.size,
            (Framing::Fit, _) => target(self, width, height),
            (Framing::RandomResizedCrop, Form::Resized) => {
                let (least_width, least_height) = smallest_crop(self, width, height);
                let shrink = (least_width / f64::from(self.size.width))
                    .min(least_height / f64::from(self.size.height))
                    .max(1.0);
                let shrunk = |side: u32| (f64::from(side) / shrink).ceil() as u32;
                Size { height: shrunk(height), width: shrunk(width) }
            }
            _ => seen,
        };
        Ok((seen, kept))
    }

    /// The depth (8 or 16 bits) in which an image is kept as pixels.
    fn kept_depth(&self, encoded: &[u8]) -> Result<Depth> {
        match self.depth() {
            Depth::Sixteen if !is_jpeg(encoded) && !packed::is_packed(encoded) => {
                raster::depth(encoded, Depth::Sixteen)
            }
            _ => Ok(Depth::Eight),
        }
    }

    /// The spec without the options of the first random step and of all later steps, because those do not
    /// affect the kept pixels. Its number type can hold the levels of every file.
    fn before_randomness(&self) -> Image {
        let mut image = self.clone().flip_with(0.0).vertical_flip_with(0.0).without_effects();
        image = image.layout(Layout::Nhwc).dtype(match self.depth() {
            Depth::Eight => PixelType::U8,
            Depth::Sixteen => PixelType::U16,
        });
        (image.bit_depth, image.ragged, image.centered) = (None, false, false);
        (image.normalize, image.rotation, image.fill, image.emit_geometry) = (None, None, None, false);
        image.of = None;
        if image.framing.is_drawn() {
            image.framing = Framing::RandomResizedCrop;
            (image.size, image.scale, image.ratio) = (0.into(), None, None);
            image.resampling = Resampling::default();
        }
        image
    }

    /// The spec by which an image is decoded for [`Form::Resized`]: always in colour, and with the options of
    /// the random crop, which decide its size.
    fn before_compression(&self) -> Image {
        let mut image = self.before_randomness();
        image.grayscale = false;
        (image.size, image.scale, image.ratio) = (self.size, self.scale, self.ratio);
        image.resampling = self.resampling;
        image
    }
}

fn share(seen: Size, kept: Size) -> f64 {
    let pixels = |size: Size| f64::from(size.width) * f64::from(size.height);
    pixels(kept) / pixels(seen)
}

fn saves_enough(seen: Size, kept: Size) -> bool {
    share(seen, kept) <= MAX_PIXEL_SHARE
}

#[cfg(test)]
mod tests;
