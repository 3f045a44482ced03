//! Decodes one encoded image to newly allocated memory, for callers without a slot.

use forebay_base::Result;

use super::decode::decode_within;
use super::drawn::Drawn;
use super::draws::RowKey;
use super::pixel_type::{Layout, PixelType};
use super::probe::seen_size;
use super::refuse::check_size;
use super::spec::{DEFAULT_MAX_PIXELS, Image, Size};
use super::workspace::Workspace;

/// The pixels of one image, with their shape and number type.
///
/// ```
/// use forebay_image::{Image, Layout, RowKey, encode_jpeg};
///
/// let file = encode_jpeg(&[90; 40 * 30 * 3], 40, 30, 90)?;
/// let pixels = Image::center_crop(8).resize_shorter(16).layout(Layout::Nchw).decode(&file, RowKey(7))?;
/// assert_eq!(pixels.shape(), [3, 8, 8]);
/// assert_eq!(pixels.bytes().len(), 3 * 8 * 8);
/// # Ok::<(), forebay_image::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pixels {
    bytes: Vec<u8>,
    size: Size,
    channels: usize,
    dtype: PixelType,
    layout: Layout,
}

impl Pixels {
    /// The numbers in the order of [`shape`](Self::shape), in native byte order.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the numbers without copying them.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// The number of rows.
    pub fn height(&self) -> u32 {
        self.size.height
    }

    /// The number of columns.
    pub fn width(&self) -> u32 {
        self.size.width
    }

    /// The number of channels: 3, or 1 for a grey image.
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// `[height, width, channels]`, or `[channels, height, width]` with [`Layout::Nchw`].
    pub fn shape(&self) -> [usize; 3] {
        let (height, width) = (self.size.height as usize, self.size.width as usize);
        match self.layout {
            Layout::Nhwc => [height, width, self.channels],
            Layout::Nchw => [self.channels, height, width],
        }
    }

    /// The number type.
    pub fn pixel_type(&self) -> PixelType {
        self.dtype
    }
}

impl Image {
    /// The spec that decodes one image in its own size, like [`decode`]. Only the header is read.
    ///
    /// # Errors
    /// Fails if the bytes are not an image, or the image has more pixels than the default of
    /// [`Image::max_pixels`].
    pub fn as_stored(encoded: &[u8]) -> Result<Image> {
        let any = Image::resize(1, 1);
        let (width, height) = seen_size(&any, encoded)?;
        check_size(width, height, any.max_pixels)?;
        Ok(any.of_size(Size { height, width }))
    }

    /// The spec with a fixed size, for one image. If this spec is [ragged](Image::ragged), the result has the
    /// size in which the image is shown; otherwise the spec is unchanged. Only the header is read.
    ///
    /// # Errors
    /// The errors of [`Drawn::probe`].
    pub fn sized(&self, encoded: &[u8], key: RowKey) -> Result<Image> {
        match self.is_ragged() {
            true => Ok(self.of_size(Drawn::probe(self, encoded, key)?.target())),
            false => Ok(self.clone()),
        }
    }

    /// Decodes one encoded image by this spec into newly allocated memory. To write into memory of your own,
    /// use [`decode_into`]. `key` decides the random draws. A [ragged](Image::ragged) image has its own size.
    ///
    /// # Errors
    /// The errors of [`decode_into`], [`Image::validate`] and [`Image::check_alone`].
    ///
    /// [`decode_into`]: crate::decode_into
    pub fn decode(&self, encoded: &[u8], key: RowKey) -> Result<Pixels> {
        decode_owned(&Workspace::of_one(self.max_pixels), Some(self), encoded, key)
    }
}

/// Decodes an image by a spec, or in its own size as [`decode`] does.
pub(super) fn decode_owned(
    workspace: &Workspace,
    image: Option<&Image>,
    encoded: &[u8],
    key: RowKey,
) -> Result<Pixels> {
    let image = match image {
        Some(image) => {
            image.validate()?;
            image.check_alone()?;
            image.sized(encoded, key)?
        }
        None => Image::as_stored(encoded)?,
    };
    let mut bytes = vec![0; image.bytes_per_image()];
    decode_within(workspace, &image, encoded, key, &mut bytes)?;
    let (size, channels) = (image.size(), image.channels());
    Ok(Pixels { bytes, size, channels, dtype: image.pixel_type(), layout: image.pixel_layout() })
}

/// Decodes one encoded image in its own size: RGB of 8 bits, rows of whole pixels.
///
/// Grey is repeated in each channel, alpha is dropped, palettes are expanded, and 16-bit levels keep their
/// high byte, as in Pillow's `convert("RGB")`. The image is as stored: EXIF's orientation is not applied.
/// [`Image::decode`] gives other sizes, number types and layouts.
///
/// ```
/// use forebay_image::{decode, encode_jpeg};
///
/// let file = encode_jpeg(&[90; 40 * 30 * 3], 40, 30, 90)?;
/// let pixels = decode(&file)?;
/// assert_eq!((pixels.height(), pixels.width(), pixels.channels()), (30, 40, 3));
/// assert_eq!(pixels.bytes()[0], 90);
/// # Ok::<(), forebay_image::Error>(())
/// ```
///
/// # Errors
/// The errors of [`decode_into`](crate::decode_into), with the default of [`Image::max_pixels`].
pub fn decode(encoded: &[u8]) -> Result<Pixels> {
    decode_owned(&Workspace::of_one(DEFAULT_MAX_PIXELS), None, encoded, RowKey(0))
}

#[cfg(test)]
mod tests {
    use forebay_base::ErrorKind;

    use super::*;
    use crate::{decode_into, encode_jpeg, pack};

    fn file(width: u32, height: u32) -> Vec<u8> {
        let pixels: Vec<u8> = (0..width * height * 3).map(|at| (at * 7 % 251) as u8).collect();
        encode_jpeg(&pixels, width, height, 90).unwrap()
    }

    #[test]
    fn an_image_has_its_own_size_and_the_pixels_of_its_slot() {
        let file = file(37, 21);
        let pixels = decode(&file).unwrap();
        let mut slot = vec![0; 37 * 21 * 3];
        decode_into(&Image::resize(21, 37), &file, RowKey(0), &mut slot).unwrap();
        assert_eq!((pixels.shape(), pixels.pixel_type()), ([21, 37, 3], PixelType::U8));
        assert!(pixels.bytes() == slot);
        assert!(decode(&pack(&file).unwrap()).unwrap() == pixels, "coefficients");
    }

    #[test]
    fn a_spec_decides_size_type_and_draws() {
        let file = file(80, 60);
        let image = Image::random_resized_crop(16).flip().dtype(PixelType::F32).layout(Layout::Nchw);
        let pixels = image.decode(&file, RowKey(3)).unwrap();
        assert_eq!((pixels.shape(), pixels.bytes().len()), ([3, 16, 16], 3 * 16 * 16 * 4));
        assert!(pixels == image.decode(&file, RowKey(3)).unwrap());
        assert!(pixels != image.decode(&file, RowKey(4)).unwrap());
    }

    #[test]
    fn a_ragged_image_takes_no_more_than_it_shows() {
        let file = file(80, 60);
        let image = Image::fit(40).ragged();
        let pixels = image.decode(&file, RowKey(0)).unwrap();
        assert_eq!(pixels.shape(), [30, 40, 3]);
        let mut slot = vec![0; image.bytes_per_image()];
        decode_into(&image, &file, RowKey(0), &mut slot).unwrap();
        assert!(pixels.into_bytes() == slot[..30 * 40 * 3]);
    }

    #[test]
    fn what_is_no_image_or_too_large_is_refused_before_memory_is_taken() {
        assert_eq!(decode(b"<html>").unwrap_err().kind(), ErrorKind::BadRow);
        assert_eq!(
            Image::resize(0, 4).decode(&file(8, 8), RowKey(0)).unwrap_err().kind(),
            ErrorKind::Invalid
        );
        // The header of this small file is changed to claim 65,500 x 65,500 pixels.
        let mut bomb = file(8, 8);
        let frame = bomb.windows(2).position(|pair| pair == [0xFF, 0xC0]).unwrap() + 5;
        bomb[frame..frame + 4].copy_from_slice(&[0xFF, 0xDC, 0xFF, 0xDC]);
        assert_eq!(decode(&bomb).unwrap_err().kind(), ErrorKind::TooLarge);
    }
}
