//! Delivers the size that each image has on its canvas, in an additional column.

use std::sync::Arc;

use forebay_arrow::datatypes::{DataType, FieldRef};
use forebay_base::Result;
use forebay_image::{RowKey, Size};

use super::Followed;
use crate::column::tensor::tensor_field;
use crate::column::{DrawNumbers, RowCells};

/// The numbers in a row: a height and a width.
const NUMBERS: usize = 2;

/// The codec that delivers the sizes of images.
#[derive(Debug)]
pub(crate) struct SizeCodec {
    followed: Followed,
}

impl SizeCodec {
    pub(crate) fn new(followed: Followed) -> Self {
        SizeCodec { followed }
    }

    /// The name of the column with the sizes.
    pub(crate) fn name(&self) -> String {
        format!("{}.size", self.followed.name)
    }

    /// The field of the column with the sizes.
    pub(crate) fn field(&self) -> Result<FieldRef> {
        Ok(Arc::new(tensor_field(&self.name(), &[NUMBERS], DataType::Int32)?))
    }
}

impl DrawNumbers for SizeCodec {
    fn image(&self) -> usize {
        self.followed.column
    }

    fn slot(&self) -> usize {
        NUMBERS * size_of::<i32>()
    }

    fn draw(&self, row: RowCells<'_>, key: RowKey, slot: &mut [u8]) -> Result<()> {
        let Some(drawn) = self.followed.drawn(row, key)? else {
            slot.fill(0);
            return Ok(());
        };
        let Size { height, width } = drawn.target();
        let (slot, _) = slot.as_chunks_mut::<{ size_of::<i32>() }>();
        // The cast is exact, because a side has at most 65,535 pixels.
        slot.iter_mut().zip([height, width]).for_each(|(to, side)| *to = (side as i32).to_ne_bytes());
        Ok(())
    }
}
