//! The crop and flips of an image as numbers, in a column that is not stored.

use std::sync::Arc;

use forebay_arrow::datatypes::{DataType, Field, FieldRef};
use forebay_base::Result;
use forebay_image::{Drawn, RowKey, Workspace};

use super::Followed;
use crate::column::tensor::tensor_field;
use crate::column::{Cell, ColumnCodec, Noun, RowCells, Slot};

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

    /// The field that it delivers.
    pub(crate) fn field(&self) -> Result<FieldRef> {
        Ok(Arc::new(tensor_field(
            &self.name(),
            &[Drawn::numbers_of(&self.followed.image)],
            DataType::Float32,
        )?))
    }
}

impl ColumnCodec for GeometryCodec {
    fn delivered(&self, _: &Field) -> Result<FieldRef> {
        self.field()
    }

    fn slot(&self) -> Slot {
        Slot::Fixed(Drawn::numbers_of(&self.followed.image) * size_of::<f32>())
    }

    fn follows(&self) -> Option<usize> {
        Some(self.followed.column)
    }

    fn decode_following(
        &self,
        _: Option<Cell<'_>>,
        row: RowCells<'_>,
        key: RowKey,
        _: &Workspace,
        slot: &mut [u8],
    ) -> Result<()> {
        let Some(drawn) = self.followed.drawn(row, key)? else {
            slot.fill(0);
            return Ok(());
        };
        let numbers = drawn.numbers();
        let (slot, _) = slot.as_chunks_mut::<{ size_of::<f32>() }>();
        slot.iter_mut().zip(numbers).for_each(|(to, number)| *to = number.to_ne_bytes());
        Ok(())
    }

    fn noun(&self) -> Noun {
        Noun { one: "an image", several: "images" }
    }
}
