//! Decodes columns whose images must all have one size, number type and number of channels. No image is
//! resized or converted; one that differs is a bad row.

use std::sync::Arc;

use forebay_arrow::datatypes::{DataType, Field, FieldRef};
use forebay_base::{Error, ErrorKind, Result};
use forebay_image::{Image, PixelType, RowKey, Size, Workspace, decode_within, needs_stable, probe};

use super::tensor::tensor_field;
use super::{Cell, Column, DecodeCells, Noun, NullOptions, NullSlot, RowCells};

/// The signature of a PNG.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";
/// The offset of the byte in a PNG that states the bit depth.
const PNG_BITS: usize = 24;

/// The number type and the number of channels of an image. Images have one or three channels, of 8 or 16
/// bits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pixels {
    pub(crate) is_grey: bool,
    pub(crate) is_16_bit: bool,
}

impl Pixels {
    /// The number of bytes of one channel of a pixel.
    pub(super) fn bytes(self) -> usize {
        self.dtype().bytes()
    }

    pub(super) fn channels(self) -> usize {
        if self.is_grey { 1 } else { 3 }
    }

    fn dtype(self) -> PixelType {
        if self.is_16_bit { PixelType::U16 } else { PixelType::U8 }
    }

    /// The Arrow type of a channel's values.
    pub(crate) fn data_type(self) -> DataType {
        if self.is_16_bit { DataType::UInt16 } else { DataType::UInt8 }
    }

    /// The [`Image`] that decodes an image to this size.
    fn in_size(self, Size { height, width }: Size) -> Image {
        let image = Image::resize(height, width).dtype(self.dtype());
        if self.is_grey { image.grayscale() } else { image }
    }

    /// The [`Image`] that decodes `cell` in its own size.
    ///
    /// Fails with `BadRow` if the cell's image has another number type or other channels.
    pub(super) fn as_stored(self, cell: &[u8]) -> Result<Image> {
        self.check(cell)?;
        Ok(self.in_size(Image::as_stored(cell)?.size()))
    }

    /// Returns the size of an image, or an error if it has another number type or other channels.
    fn check(self, cell: &[u8]) -> Result<Size> {
        let header = probe(cell)?;
        let refused = |held: String, wanted: String| {
            let cause = format!("an image with {held} where the schema says {wanted}");
            Error::new(ErrorKind::BadRow, cause)
        };
        if usize::from(header.channels) != self.channels() {
            return Err(refused(channels(header.channels.into()), channels(self.channels())));
        }
        let is_16_bit = cell.starts_with(PNG) && cell.get(PNG_BITS) == Some(&16);
        if is_16_bit != self.is_16_bit {
            let bits = |is_16_bit: bool| format!("{} bits", if is_16_bit { 16 } else { 8 });
            return Err(refused(bits(is_16_bit), bits(self.is_16_bit)));
        }
        Ok(Size { height: header.height, width: header.width })
    }
}

fn channels(count: usize) -> String {
    if count == 1 { "one channel".to_owned() } else { format!("{count} channels") }
}

/// The form that all images of a column must have.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ExactImage {
    pixels: Pixels,
    size: Size,
}

impl ExactImage {
    pub(crate) fn new(pixels: Pixels, size: Size) -> Self {
        ExactImage { pixels, size }
    }

    /// Creates the column that delivers these images.
    ///
    /// # Errors
    /// Fails if the fill is not a number that a pixel can have, or if the size is invalid.
    pub(crate) fn column(&self, stored: &Field, nulls: NullOptions<'_>) -> Result<Column> {
        let image = self.pixels.in_size(self.size);
        image.validate()?;
        let null = NullSlot::of_pixels(nulls, image.pixel_type())?;
        Column::decoded(ExactCodec { exact: self.clone(), image, null }, stored)
    }
}

/// Decodes images of one size.
#[derive(Debug)]
struct ExactCodec {
    exact: ExactImage,
    image: Image,
    /// The value that replaces nulls; `None` if a null is a bad row.
    null: Option<NullSlot>,
}

impl DecodeCells for ExactCodec {
    fn delivered(&self, stored: &Field) -> Result<FieldRef> {
        let ExactImage { pixels, size: Size { height, width } } = self.exact;
        let sides = [height as usize, width as usize, pixels.channels()];
        let shape = if pixels.is_grey { &sides[..2] } else { &sides[..] };
        Ok(Arc::new(tensor_field(stored.name(), shape, pixels.data_type())?))
    }

    fn slot(&self) -> usize {
        self.image.bytes_per_image()
    }

    fn decode(
        &self,
        cell: Cell<'_>,
        _: RowCells<'_>,
        key: RowKey,
        workspace: &Workspace,
        slot: &mut [u8],
    ) -> Result<()> {
        let cell = cell.stable_if(|bytes| needs_stable(&self.image, bytes));
        let Size { height, width } = self.exact.pixels.check(cell)?;
        if self.exact.size != (Size { height, width }) {
            let wanted = self.exact.size;
            let cause = format!(
                "an image of {height} x {width} pixels where the schema says {} x {}",
                wanted.height, wanted.width
            );
            return Err(
                Error::new(ErrorKind::BadRow, cause).hint("an Image in `decode` takes images of any size")
            );
        }
        decode_within(workspace, &self.image, cell, key, slot)
    }

    fn decode_null(&self, _: RowCells<'_>, slot: &mut [u8]) -> Result<bool> {
        self.null.iter().for_each(|null| null.write(slot));
        Ok(self.null.is_some())
    }

    fn noun(&self) -> Noun {
        Noun { one: "an image", several: "images" }
    }

    fn uses_workspace(&self) -> bool {
        true
    }
}
