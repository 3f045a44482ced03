//! Decodes columns of encoded images or of raw pixels.

use std::borrow::Cow;
use std::sync::Arc;

use forebay_arrow::datatypes::{DataType, Field, FieldRef};
use forebay_arrow::names::TypeName;
use forebay_base::{Error, Result};
use forebay_image::{
    Drawing, Drawn, Form, Image, PixelType, Raw, RowKey, Workspace, decode_within, needs_stable,
};

use super::cell::{holds_bytes, lists_of_bytes};
use super::codec::{CELLS_PER_TASK, copied_per_task};
use super::extension::is_packed;
use super::follow::{Around, Followed};
use super::ragged::{SIZE_BYTES, images_field, pack, write_size};
use super::tensor::tensor_field;
use super::{
    Cell, ColumnOption, Cost, DecodeCells, KeptForm, Noun, NullOptions, NullSlot, PackedValues, RowCells,
};
use crate::batch::Fill;
use crate::cache::Tier;

/// The loader creates the column, because the image may follow the image of another column.
impl ColumnOption for Image {
    fn takes_whole() -> bool {
        true
    }

    fn is_always_written() -> bool {
        true
    }

    fn takes_fill(&self, _: &Field, fill: &Fill) -> bool {
        // The number is checked against the pixel type later, when the codec is created.
        fill.number().is_some()
    }
}

/// The codec that decodes images.
#[derive(Debug)]
pub(crate) struct ImageCodec {
    image: Image,
    slot: usize,
    /// The image of another column that this image follows, if any.
    of: Option<Box<Followed>>,
    /// The boxes around which images are cropped, if they are cropped around boxes.
    around: Option<Around>,
    /// Whether another column follows the crop of this image.
    is_followed: bool,
    /// The number that fills the pixels of a null image; `None` if a null is a bad row.
    null: Option<NullSlot>,
}

impl ImageCodec {
    pub(crate) fn new(image: Image) -> Self {
        let size = if image.is_ragged() { SIZE_BYTES } else { 0 };
        ImageCodec {
            slot: image.bytes_per_image() + size,
            image,
            of: None,
            around: None,
            is_followed: false,
            null: None,
        }
    }

    /// Returns the codec for images that take over the crop and flips of `of`, another image of their row.
    pub(crate) fn shown_as(self, of: Option<Box<Followed>>) -> Self {
        ImageCodec { of, ..self }
    }

    /// Returns the codec for images that are cropped around boxes of their row.
    pub(crate) fn around(self, around: Option<Around>) -> Self {
        ImageCodec { around, ..self }
    }

    /// Returns the codec for images whose crop other columns follow.
    pub(crate) fn followed(self) -> Self {
        ImageCodec { is_followed: true, ..self }
    }

    /// Returns the codec with these options for nulls. If images keep their own sizes, a null image has no
    /// pixels.
    ///
    /// # Errors
    /// Fails if the fill is not a number that a pixel can have.
    pub(crate) fn with_nulls(self, nulls: NullOptions<'_>) -> Result<Self> {
        let null = NullSlot::of_pixels(nulls, self.image.pixel_type())?;
        let null = if self.image.is_ragged() { null.map(NullSlot::empty) } else { null };
        Ok(ImageCodec { null, ..self })
    }

    fn decode_shown(
        &self,
        cell: &[u8],
        drawing: Drawing<'_>,
        workspace: &Workspace,
        slot: &mut [u8],
    ) -> Result<()> {
        let (pixels, size) = slot.split_at_mut(self.image.bytes_per_image());
        decode_within(workspace, &self.image, cell, drawing, pixels)?;
        if self.image.is_ragged() {
            write_size(size, Drawn::probe(&self.image, cell, drawing)?.target());
        }
        Ok(())
    }
}

impl DecodeCells for ImageCodec {
    fn delivered(&self, stored: &Field) -> Result<FieldRef> {
        self.image.validate()?;
        check_stored(stored, &self.image)?;
        pixels_field(stored.name(), &self.image, None).map(Arc::new)
    }

    fn slot(&self) -> usize {
        self.slot
    }

    fn image(&self) -> Option<usize> {
        self.of.as_ref().map(|of| of.column)
    }

    fn decode(
        &self,
        cell: Cell<'_>,
        row: RowCells<'_>,
        key: RowKey,
        workspace: &Workspace,
        slot: &mut [u8],
    ) -> Result<()> {
        let cell = cell.stable_if(|bytes| needs_stable(&self.image, bytes));
        let of = self.of.as_ref().map(|of| of.drawn_for(&self.image, cell, row, key)).transpose()?;
        let key = self.of.as_ref().map_or(key, |of| of.key(key, 0));
        let corners = self.around.as_ref().map(|around| around.corners(row)).unwrap_or_default();
        let drawing = of.as_ref().map_or(key.into(), |of| Drawing::following(key, of));
        let drawing = match &self.around {
            Some(around) => around.drawing(drawing, &corners),
            None => drawing,
        };
        self.decode_shown(cell, drawing, workspace, slot)
    }

    fn decode_null(&self, _: RowCells<'_>, slot: &mut [u8]) -> Result<bool> {
        self.null.iter().for_each(|null| null.write(slot));
        Ok(self.null.is_some())
    }

    fn pack(&self, slots: &mut [u8]) -> Result<Option<PackedValues>> {
        if !self.image.is_ragged() {
            return Ok(None);
        }
        let sizes = pack(slots, self.slot, self.image.channels() * self.image.pixel_type().bytes())?;
        Ok(Some(PackedValues::Images(sizes)))
    }

    /// Decoding raw pixels is little more than a copy, so a task decodes more cells of raw pixels than of
    /// encoded images.
    fn cells_per_task(&self) -> usize {
        if self.image.raw_pixels().is_some() { copied_per_task(self.slot) } else { CELLS_PER_TASK }
    }

    fn noun(&self) -> Noun {
        Noun { one: "an image", several: "images" }
    }

    fn uses_workspace(&self) -> bool {
        true
    }

    /// Returns the forms in which the cache may keep the cells. Resized or decoded images no longer have the
    /// stored size and the pixels outside the crop. If columns that follow the image need these, only
    /// coefficients are allowed, which keep both.
    fn forms(&self, stored: &DataType) -> Vec<Arc<dyn KeptForm>> {
        let is_lost = self.is_followed && !self.image.kept_with_size()
            || self.of.as_ref().is_some_and(|of| of.image.crops_by_size());
        kept_forms(&self.image, stored, |form| !is_lost || form == Form::Coefficients)
    }
}

/// The field of a column of pixels. With `count`, each row has that many images, which all have one size.
///
/// # Errors
/// Fails if a row is too large.
pub(super) fn pixels_field(name: &str, image: &Image, count: Option<u32>) -> Result<Field> {
    if image.is_ragged() {
        return Ok(images_field(name, image, with_dtype(Field::new("item", item(image), false), image)));
    }
    let shape: Vec<usize> = count.map(|count| count as usize).into_iter().chain(image.shape()).collect();
    pixels_of_shape(name, image, &shape)
}

/// The field of a column of pixels whose rows have this shape.
///
/// # Errors
/// Fails if a row is too large.
pub(super) fn pixels_of_shape(name: &str, image: &Image, shape: &[usize]) -> Result<Field> {
    Ok(with_dtype(tensor_field(name, shape, item(image))?, image))
}

/// The Arrow type of a channel's values. Arrow does not have bfloat16, so its bits are delivered as 16-bit
/// integers, and the field's metadata names the type.
fn item(image: &Image) -> DataType {
    match image.pixel_type() {
        PixelType::U8 => DataType::UInt8,
        PixelType::U16 | PixelType::BF16 => DataType::UInt16,
        PixelType::F16 => DataType::Float16,
        PixelType::F32 => DataType::Float32,
    }
}

fn with_dtype(mut field: Field, image: &Image) -> Field {
    if image.pixel_type() == PixelType::BF16 {
        field.metadata_mut().insert("forebay:dtype", "bfloat16");
    }
    field
}

/// Returns an error if a stored column cannot contain the cells that `image` decodes.
pub(super) fn check_stored(stored: &Field, image: &Image) -> Result<()> {
    match image.raw_pixels() {
        Some(raw) => check_raw(stored.data_type(), raw),
        None => check_encoded(stored),
    }
}

/// The forms in which the row cache may keep the cells of an image column: those that `allowed` accepts, best
/// first. Cells of a fixed-length type cannot be kept in another form.
pub(super) fn kept_forms(
    image: &Image,
    stored: &DataType,
    allowed: impl Fn(Form) -> bool,
) -> Vec<Arc<dyn KeptForm>> {
    if matches!(stored, DataType::FixedSizeBinary(_)) {
        return Vec::new();
    }
    let forms = [Form::Pixels, Form::Resized, Form::Coefficients].into_iter();
    let forms = forms.filter(|form| image.has_form(*form) && allowed(*form));
    forms.map(|form| Arc::new(KeptImage { image: image.clone(), form }) as Arc<dyn KeptForm>).collect()
}

/// Returns an error if a stored column cannot contain encoded images.
fn check_encoded(stored: &Field) -> Result<()> {
    if !holds_bytes(stored.data_type()) {
        let error = Error::invalid(format!("holds {}, not encoded images", TypeName(stored.data_type())));
        return Err(match lists_of_bytes(stored.data_type()) {
            Some(_) => error
                .hint("raw pixels are decoded with `raw`; images are binary values, or struct<bytes, path>"),
            None => error.hint("images are binary values, or struct<bytes, path>"),
        });
    }
    // Packed images of a later version are refused here, when the loader is built, and not row by row.
    is_packed(stored).map(drop)
}

/// Returns an error if a stored column cannot contain raw pixels, or if all its cells have a wrong length.
fn check_raw(stored: &DataType, raw: Raw) -> Result<()> {
    let bytes = match stored {
        DataType::FixedSizeBinary(bytes) => usize::try_from(*bytes).ok(),
        stored if holds_bytes(stored) => None,
        stored => lists_of_bytes(stored).ok_or_else(|| {
            Error::invalid(format!("holds {}, not raw pixels", TypeName(stored)))
                .hint("raw pixels are binary values, struct<bytes, path>, or lists of uint8")
        })?,
    };
    match bytes.filter(|bytes| *bytes != raw.bytes()) {
        Some(bytes) => {
            let cause = format!("holds cells of {bytes} bytes, and raw pixels of {raw} take {}", raw.bytes());
            Err(Error::invalid(cause))
        }
        None => Ok(()),
    }
}

/// An image column in one of the forms of the row cache.
#[derive(Debug)]
struct KeptImage {
    image: Image,
    form: Form,
}

impl KeptForm for KeptImage {
    fn tier(&self) -> Tier {
        match self.form {
            Form::Pixels => Tier::Pixels,
            Form::Resized => Tier::Resized,
            Form::Coefficients => Tier::Coefficients,
        }
    }

    fn key(&self) -> String {
        self.image.kept_as(self.form)
    }

    fn cost(&self, cell: &[u8]) -> Result<Cost> {
        let bytes = self.image.kept_bytes(self.form, cell)? as f64;
        let decoding = match self.form {
            Form::Pixels => 0.0,
            Form::Resized => self.image.resized_share(cell)?,
            Form::Coefficients => self.image.coefficients_share(cell)?,
        };
        Ok(Cost { bytes, decoding })
    }

    fn make<'a>(&self, cell: &'a [u8], workspace: &Workspace) -> Result<Cow<'a, [u8]>> {
        self.image.keep_within(workspace, self.form, cell)
    }
}
