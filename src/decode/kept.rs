//! Images as a cache keeps them: decoded as far as no random step comes in between.
//!
//! What a resize or a centre crop makes of an image is kept in the target's size. Before a random crop all of the image
//! is kept: the crop is drawn from the same numbers and sampled by the same filter as ever, so that the pixels are those
//! of the direct way, but for crops of more than six times the target, which that decodes at a smaller scale: they differ
//! by less than one level of 255 on average. Flip, normalisation, number type and layout come after, and do not matter.

use super::draws::RowKey;
use super::geometry::{Frame, Rect};
use super::pixel_type::{Layout, PixelType};
use super::resample::Decoded;
use super::scratch::Scratch;
use super::spec::{Framing, Image};
use super::{bad_row, decode_into as decode, seen_size};
use crate::error::Result;

/// How a kept image begins: like no file of an image, and not like text.
const MARK: [u8; 8] = *b"\xF4fbpx\r\n\x01";

/// The mark, then width, height and channels as 32-bit little-endian numbers.
const HEADER: usize = 20;

impl Image {
    /// One line that says how images are kept for this value: the same for values that can share them.
    pub fn kept_as(&self) -> String {
        self.before_randomness().canonical()
    }

    /// Bytes that this image takes when it is kept.
    ///
    /// # Errors
    /// As [`decode_into`](super::decode_into), as far as the header tells.
    pub fn kept_bytes(&self, encoded: &[u8]) -> Result<u64> {
        let (width, height) = self.kept_size(encoded)?;
        Ok(HEADER as u64 + u64::from(width) * u64::from(height) * self.channels() as u64)
    }

    /// The form in which [`decode_into`](super::decode_into) takes an image without its format having to be decoded.
    ///
    /// # Errors
    /// As [`decode_into`](super::decode_into).
    pub fn keep(&self, encoded: &[u8]) -> Result<Vec<u8>> {
        let (width, height) = self.kept_size(encoded)?;
        let mut image = self.before_randomness();
        if image.framing == Framing::RandomResizedCrop {
            (image.framing, image.size) = (Framing::Resize, (height, width).into());
        }
        let mut kept = vec![0; HEADER + image.bytes_per_image()];
        kept[..MARK.len()].copy_from_slice(&MARK);
        let numbers = [width, height, self.channels() as u32];
        kept[MARK.len()..HEADER].copy_from_slice(&numbers.map(u32::to_le_bytes).concat());
        decode(&image, encoded, RowKey(0), &mut kept[HEADER..])?;
        Ok(kept)
    }

    fn kept_size(&self, encoded: &[u8]) -> Result<(u32, u32)> {
        match self.framing {
            Framing::RandomResizedCrop => {
                let (width, height) = seen_size(self, encoded)?;
                super::check_size(width, height, self.max_pixels)?;
                Ok((width, height))
            }
            Framing::Resize | Framing::CenterCrop => Ok((self.size.width, self.size.height)),
        }
    }

    /// The same without all that comes after a random step, or that does not matter before one.
    fn before_randomness(&self) -> Image {
        let mut image = self.clone().flip_with(0.0).dtype(PixelType::U8).layout(Layout::Nhwc);
        image.normalize = None;
        if image.framing == Framing::RandomResizedCrop {
            (image.size, image.scale, image.ratio) = (0.into(), None, None);
        }
        image
    }
}

/// Whether bytes are an image that was kept.
pub(super) fn is_kept(bytes: &[u8]) -> bool {
    bytes.starts_with(&MARK)
}

/// Brings a kept image into its slot.
pub(super) fn decode_into(
    image: &Image,
    kept: &[u8],
    key: RowKey,
    slot: &mut [u8],
    scratch: &mut Scratch,
) -> Result<()> {
    let number = |at: usize| {
        let bytes = kept.get(MARK.len() + 4 * at..)?.first_chunk::<4>()?;
        Some(u32::from_le_bytes(*bytes))
    };
    let numbers = number(0).zip(number(1)).zip(number(2));
    let ((width, height), channels) = numbers.ok_or_else(|| bad_row("kept pixels end early"))?;
    super::check_size(width, height, image.max_pixels)?;
    let (pixels, channels) = (&kept[HEADER..], channels as usize);
    let expected = u128::from(width) * u128::from(height) * image.channels() as u128;
    if channels != image.channels() || pixels.len() as u128 != expected {
        return Err(bad_row(format!(
            "{} bytes of kept pixels for {width}x{height} of {} channels",
            pixels.len(),
            image.channels()
        )));
    }
    let frame = match image.framing {
        Framing::RandomResizedCrop => Frame::draw(image, width, height, key),
        // What these show was chosen when it was kept.
        Framing::Resize | Framing::CenterCrop => {
            let mut whole = image.clone();
            whole.framing = Framing::Resize;
            Frame::draw(&whole, width, height, key)
        }
    };
    let rect = Rect::whole(width, height);
    scratch.output.fill(image, Decoded { pixels, rect, reduction: 1, channels }, &frame, slot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::{encode_jpeg, probe};

    /// A picture with detail in every direction.
    fn picture(width: u32, height: u32) -> Vec<u8> {
        let level = |x: u32, y: u32, c: u32| ((x * 7 + y * 13 + c * 50) % 256 / 2 + (x * y / 9) % 128) as u8;
        let pixels: Vec<u8> = (0..height)
            .flat_map(|y| (0..width).flat_map(move |x| (0..3).map(move |c| level(x, y, c))))
            .collect();
        encode_jpeg(&pixels, width, height, 90).unwrap()
    }

    fn decoded(image: &Image, bytes: &[u8], key: u64) -> Vec<u8> {
        let mut slot = vec![0; image.bytes_per_image()];
        decode(image, bytes, RowKey(key), &mut slot).unwrap();
        slot
    }

    #[test]
    fn kept_pixels_give_the_same_as_the_file() {
        let random = Image::random_resized_crop(48).flip();
        for image in [
            random.clone(),
            random.clone().grayscale(),
            random.clone().normalize([0.5; 3], [0.2; 3]).dtype(PixelType::F32).layout(Layout::Nchw),
            random.scale((0.5, 1.0)).exif_orientation(true),
            Image::center_crop(64).flip(),
            Image::resize(30, 50).dtype(PixelType::F16),
        ] {
            for (width, height) in [(160, 120), (63, 200), (48, 48)] {
                let file = picture(width, height);
                let kept = image.keep(&file).unwrap();
                assert_eq!(kept.len() as u64, image.kept_bytes(&file).unwrap());
                for key in 0..50 {
                    assert!(
                        decoded(&image, &file, key) == decoded(&image, &kept, key),
                        "{image}, {width}x{height}, {key}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_crop_that_the_direct_way_decodes_smaller_differs_by_less_than_a_level() {
        let image = Image::random_resized_crop(32).scale((0.9, 1.0));
        let file = picture(400, 300);
        let kept = image.keep(&file).unwrap();
        let (direct, kept) = (decoded(&image, &file, 3), decoded(&image, &kept, 3));
        let difference: u32 = direct.iter().zip(&kept).map(|(a, b)| u32::from(a.abs_diff(*b))).sum();
        let mean = f64::from(difference) / direct.len() as f64;
        assert!(mean > 0.0 && mean < 1.0, "{mean}");
    }

    #[test]
    fn what_comes_after_randomness_shares_what_is_kept() {
        let image = Image::random_resized_crop(224);
        assert_eq!(image.kept_as(), Image::random_resized_crop(96).flip().dtype(PixelType::F32).kept_as());
        assert_ne!(image.kept_as(), image.clone().grayscale().kept_as());
        assert_ne!(Image::center_crop(224).kept_as(), Image::center_crop(96).kept_as());
    }

    #[test]
    fn cut_or_foreign_pixels_are_a_bad_row() {
        let image = Image::random_resized_crop(8);
        let kept = image.keep(&picture(20, 10)).unwrap();
        let mut slot = vec![0; image.bytes_per_image()];
        for length in [MARK.len(), HEADER - 1, HEADER, kept.len() - 1] {
            assert!(decode(&image, &kept[..length], RowKey(0), &mut slot).is_err(), "{length}");
        }
        let grey = image.clone().grayscale();
        assert!(decode(&grey, &kept, RowKey(0), &mut slot[..64]).is_err());
        assert!(probe(&kept).is_err(), "it is no file");
        assert!(image.keep(b"no image").is_err());
    }
}
