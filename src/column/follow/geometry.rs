//! Delivers the crop and flips of each image as numbers, in an additional column.

use std::sync::Arc;

use forebay_arrow::datatypes::{DataType, FieldRef};
use forebay_base::Result;
use forebay_image::{Drawn, RowKey};

use super::Followed;
use crate::column::tensor::tensor_field;
use crate::column::{DrawNumbers, RowCells};

/// The codec of the additional column, whose numbers describe the crop and flips of each image.
#[derive(Debug)]
pub(crate) struct GeometryCodec {
    followed: Followed,
    /// The number of images in a row, if a row has several: the numbers then have a dimension for the images.
    count: Option<u32>,
}

impl GeometryCodec {
    pub(crate) fn new(followed: Followed, count: Option<u32>) -> Self {
        GeometryCodec { followed, count }
    }

    /// The name of the column with the geometry.
    pub(crate) fn name(&self) -> String {
        format!("{}.geometry", self.followed.name)
    }

    /// The field of the column with the geometry.
    pub(crate) fn field(&self) -> Result<FieldRef> {
        let numbers = Drawn::numbers_of(&self.followed.image);
        let shape: Vec<usize> = self.count.map(|count| count as usize).into_iter().chain([numbers]).collect();
        Ok(Arc::new(tensor_field(&self.name(), &shape, DataType::Float32)?))
    }
}

impl DrawNumbers for GeometryCodec {
    fn image(&self) -> usize {
        self.followed.column
    }

    fn slot(&self) -> usize {
        self.bytes_of_one() * self.count.unwrap_or(1) as usize
    }

    fn draw(&self, row: RowCells<'_>, key: RowKey, slot: &mut [u8]) -> Result<()> {
        for (number, slot) in (0..).zip(slot.chunks_exact_mut(self.bytes_of_one())) {
            let Some(drawn) = self.followed.drawn_in_view(row, key, number)? else {
                slot.fill(0);
                continue;
            };
            let (slot, _) = slot.as_chunks_mut::<{ size_of::<f32>() }>();
            slot.iter_mut().zip(drawn.numbers()).for_each(|(to, number)| *to = number.to_ne_bytes());
        }
        Ok(())
    }
}

impl GeometryCodec {
    fn bytes_of_one(&self) -> usize {
        Drawn::numbers_of(&self.followed.image) * size_of::<f32>()
    }
}
