//! Columns of tensors of one shape, which are stored as bytes, as files of numpy, or as lists.

mod bytes;
mod declared;
mod dtype;
mod lists;
pub(super) mod npy;
pub(super) mod npz;
mod spec;

use std::sync::Arc;

use forebay_arrow::datatypes::Field;
use forebay_base::Result;

use super::cell::holds_bytes;
use super::{Codec, Column, ColumnOption, NullOptions};
use bytes::BytesCodec;
pub(crate) use declared::{Declared, tensor_shape};
pub(super) use dtype::{name_of, read_name, value_bytes};
use lists::ListsCodec;
pub use spec::{Tensor, TensorFormat};

impl Tensor {
    /// The codec for a column of these tensors, whose stored field is `stored`.
    ///
    /// # Errors
    /// Fails if the column cannot hold these tensors, if the type or shape is not allowed for tensors, or if
    /// the fill does not have the type of the values.
    pub(crate) fn codec(&self, stored: &Field, nulls: NullOptions<'_>) -> Result<Codec> {
        self.validate()?;
        if holds_bytes(stored.data_type()) {
            return Ok(Codec::Cells(Arc::new(BytesCodec::new(self.clone(), stored.data_type(), nulls)?)));
        }
        Ok(Codec::Gather(Arc::new(ListsCodec::new(self.clone(), stored.data_type(), nulls)?)))
    }
}

impl ColumnOption for Tensor {
    fn keyword(_: &'static str) -> &'static str {
        "decode"
    }

    fn takes_whole() -> bool {
        true
    }

    fn column(&self, stored: &Field, nulls: NullOptions<'_>) -> Result<Option<Column>> {
        Column::with_codec(self.codec(stored, nulls)?, stored).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use forebay_arrow::datatypes::DataType;

    use super::*;

    #[test]
    fn a_tensor_that_can_never_work_is_refused() {
        let cells = Field::new("x", DataType::BinaryView, true);
        let list = |item: DataType| DataType::List(Arc::new(Field::new("item", item, true)));
        let fixed = DataType::FixedSizeList(Arc::new(Field::new("item", DataType::Float32, true)), 5);
        let lists = |data_type: DataType| Field::new("x", data_type, true);
        let float = |shape: &[usize]| Tensor::new(DataType::Float32, shape);
        for (tensor, stored, said) in [
            (Tensor::new(DataType::Date32, [2]), &cells, "Date32 values"),
            (float(&[]), &cells, "shape []"),
            (float(&[2, 0]), &cells, "shape [2, 0]"),
            (float(&[1 << 20, 1 << 20]), &cells, "more than 2^31"),
            (float(&[1; 32]), &cells, "32 sides"),
            (float(&[2]).big_endian().format(TensorFormat::Npy), &cells, "byte order"),
            (float(&[2]), &Field::new("x", DataType::Utf8View, true), "holds string"),
            (float(&[2]), &lists(list(DataType::Float64)), "values are float64, not float32"),
            (float(&[2]), &lists(list(DataType::Utf8View)), "values are string, not float32"),
            (float(&[2, 2, 2]), &lists(list(list(DataType::Float32))), "lists 2 deep"),
            (float(&[2, 2]), &lists(fixed), "lists of 5 values"),
            (float(&[2]).format(TensorFormat::Npy), &lists(list(DataType::Float32)), "no npy cells"),
            (float(&[3]), &Field::new("x", DataType::FixedSizeBinary(10), true), "10 bytes"),
        ] {
            let refused = tensor
                .codec(stored, NullOptions::default())
                .and_then(|codec| Column::with_codec(codec, stored))
                .unwrap_err();
            assert!(refused.to_string().contains(said), "{refused}");
        }
    }
}
