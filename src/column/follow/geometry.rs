//! Delivers the crop and flips of an image as numbers, in a column that is not stored.

use std::sync::Arc;

use forebay_arrow::datatypes::{DataType, FieldRef};
use forebay_base::Result;
use forebay_image::{Drawn, RowKey};

use super::Followed;
use crate::column::tensor::tensor_field;
use crate::column::{DrawNumbers, RowCells};

/// Delivers the geometry of images.
#[derive(Debug)]
pub(crate) struct GeometryCodec {
    followed: Followed,
}

impl GeometryCodec {
    pub(crate) fn new(followed: Followed) -> Self {
        GeometryCodec { followed }
    }

    /// The name of the column.
    pub(crate) fn name(&self) -> String {
        format!("{}.geometry", self.followed.name)
    }

    /// The delivered field.
    pub(crate) fn field(&self) -> Result<FieldRef> {
        Ok(Arc::new(tensor_field(
            &self.name(),
            &[Drawn::numbers_of(&self.followed.image)],
            DataType::Float32,
        )?))
    }
}

impl DrawNumbers for GeometryCodec {
    fn image(&self) -> usize {
        self.followed.column
    }

    fn slot(&self) -> usize {
        Drawn::numbers_of(&self.followed.image) * size_of::<f32>()
    }

    fn draw(&self, row: RowCells<'_>, key: RowKey, slot: &mut [u8]) -> Result<()> {
        let Some(drawn) = self.followed.drawn(row, key)? else {
            slot.fill(0);
            return Ok(());
        };
        let numbers = drawn.numbers();
        let (slot, _) = slot.as_chunks_mut::<{ size_of::<f32>() }>();
        slot.iter_mut().zip(numbers).for_each(|(to, number)| *to = number.to_ne_bytes());
        Ok(())
    }
}
