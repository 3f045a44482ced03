//! Delivers segmentation masks: the class of each pixel of an image.

use std::sync::Arc;

use forebay_arrow::datatypes::{DataType, Field, FieldRef};
use forebay_arrow::names::TypeName;
use forebay_base::{Error, Result};
use forebay_image::{MaskType, RowKey, Size, Workspace, decode_mask};
use serde::{Deserialize, Serialize};

use super::Followed;
use crate::column::cell::holds_bytes;
use crate::column::tensor::tensor_field;
use crate::column::{Cell, DecodeCells, Noun, NullOptions, NullSlot, RowCells};

/// A column of masks that follow an image: they are cropped, resized and mirrored with it, and resized
/// without interpolation.
///
/// The column is stored as single-channel PNG files of the image's size, whose grey values or palette indices
/// are class numbers. It is delivered as tensors of shape `[height, width]` in the image's target size, with
/// the same numbers. A mask that is not such a PNG, or that has another size than its image, is a bad row.
/// The mask of a null image is all 0, or the value that `fill_null` sets for the masks.
///
/// ```
/// use forebay::Image;
/// use forebay::column::Mask;
/// use forebay::image::MaskType;
///
/// # fn build(dataset: forebay::Dataset) -> forebay::Result<forebay::Loader> {
/// dataset
///     .loader()
///     .decode("image", Image::random_resized_crop(224).flip())
///     .follow("classes", Mask::following("image"))
///     .follow("instances", Mask::following("image").dtype(MaskType::U16))
///     .build()
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mask {
    pub(super) of: String,
    #[serde(default)]
    dtype: MaskType,
}

impl Mask {
    /// Masks that follow the image in the column `image`.
    pub fn following(image: impl Into<String>) -> Mask {
        Mask { of: image.into(), dtype: MaskType::default() }
    }

    /// The number type of the delivered classes. Default: [`MaskType::U8`], which refuses 16-bit PNG files.
    #[must_use]
    pub fn dtype(self, dtype: MaskType) -> Mask {
        Mask { dtype, ..self }
    }
}

/// The codec that decodes masks.
#[derive(Debug)]
pub(crate) struct MaskCodec {
    dtype: MaskType,
    followed: Followed,
    /// The class number that replaces a null mask; `None` if a null is a bad row.
    null: Option<NullSlot>,
}

impl MaskCodec {
    /// # Errors
    /// Fails if the fill is not a class number.
    pub(crate) fn new(mask: &Mask, followed: Followed, nulls: NullOptions<'_>) -> Result<Self> {
        let null = NullSlot::new(nulls, &item_of(mask.dtype))?;
        Ok(MaskCodec { dtype: mask.dtype, followed, null })
    }

    /// Writes the mask of a null image.
    fn of_no_image(&self, slot: &mut [u8]) {
        match &self.null {
            Some(null) => null.write(slot),
            None => slot.fill(0),
        }
    }
}

fn item_of(dtype: MaskType) -> DataType {
    match dtype {
        MaskType::U8 => DataType::UInt8,
        MaskType::U16 => DataType::UInt16,
    }
}

impl DecodeCells for MaskCodec {
    fn delivered(&self, stored: &Field) -> Result<FieldRef> {
        if !holds_bytes(stored.data_type()) {
            return Err(Error::invalid(format!("holds {}, not encoded masks", TypeName(stored.data_type())))
                .hint("store masks as binary values, or as struct<bytes, path>"));
        }
        let item = item_of(self.dtype);
        let Size { height, width } = self.followed.image.size();
        Ok(Arc::new(tensor_field(stored.name(), &[height as usize, width as usize], item)?))
    }

    fn slot(&self) -> usize {
        let Size { height, width } = self.followed.image.size();
        height as usize * width as usize * self.dtype.bytes()
    }

    fn image(&self) -> Option<usize> {
        Some(self.followed.column)
    }

    fn decode(
        &self,
        cell: Cell<'_>,
        row: RowCells<'_>,
        key: RowKey,
        workspace: &Workspace,
        slot: &mut [u8],
    ) -> Result<()> {
        let Some(drawn) = self.followed.drawn(row, key)? else {
            self.of_no_image(slot);
            return Ok(());
        };
        decode_mask(workspace, &self.followed.image, &drawn, cell.stable(), self.dtype, slot)
    }

    fn decode_null(&self, row: RowCells<'_>, slot: &mut [u8]) -> Result<bool> {
        if self.followed.is_null(row)? {
            self.of_no_image(slot);
            return Ok(true);
        }
        self.null.iter().for_each(|null| null.write(slot));
        Ok(self.null.is_some())
    }

    fn noun(&self) -> Noun {
        Noun { one: "a mask", several: "masks" }
    }

    fn uses_workspace(&self) -> bool {
        true
    }
}
