//! The columns of images that a run decodes: how they are decoded, and how many images a batch has of them.

use std::collections::BTreeMap;

use forebay::column::Clip;
use forebay_arrow::array::{Array, AsArray, RecordBatch};
use forebay_arrow::datatypes::DataType;
use forebay_image::Image;
use serde::{Serialize, Serializer};

/// The decoded columns by their names.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(transparent)]
pub(super) struct DecodedImages(BTreeMap<String, DecodedColumn>);

/// A column of images, or of clips.
#[derive(Clone, Debug)]
struct DecodedColumn {
    how: Decoding,
    /// The number of values of one image.
    values: usize,
}

#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
enum Decoding {
    Image(Box<Image>),
    Clip(Box<Clip>),
}

/// Serializes as the value of `decode=` that a loader's spec has.
impl Serialize for DecodedColumn {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.how.serialize(serializer)
    }
}

impl DecodedImages {
    /// Adds a column of images.
    pub(super) fn add_image(&mut self, column: &str, image: Image) {
        let values = image.shape().iter().product();
        self.0.insert(column.to_owned(), DecodedColumn { how: Decoding::Image(Box::new(image)), values });
    }

    /// Adds a column of clips, whose images have this number of values.
    pub(super) fn add_clip(&mut self, column: &str, clip: Clip, values: usize) {
        self.0.insert(column.to_owned(), DecodedColumn { how: Decoding::Clip(Box::new(clip)), values });
    }

    /// The number of images in a batch. Each image of a clip or a window counts.
    pub(super) fn images(&self, batch: &RecordBatch) -> u64 {
        let images = self.0.iter().map(|(name, column)| {
            let values = batch.column_by_name(name).map_or(0, |found| tensor_values(found.as_ref()));
            values / column.values.max(1)
        });
        images.sum::<usize>() as u64
    }
}

/// The number of values in a column of tensors, or of lists of tensors.
fn tensor_values(column: &dyn Array) -> usize {
    match column.data_type() {
        DataType::FixedSizeList(_, length) => column.len() * *length as usize,
        DataType::LargeList(item) => {
            let DataType::FixedSizeList(_, length) = item.data_type() else { return 0 };
            let offsets = column.as_list::<i64>().value_offsets();
            let items = offsets.last().zip(offsets.first()).map_or(0, |(end, start)| end - start);
            items as usize * *length as usize
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use forebay_arrow::array::{ArrayRef, BinaryArray, FixedSizeListArray, LargeListArray, UInt8Array};
    use forebay_arrow::buffer::OffsetBuffer;
    use forebay_arrow::datatypes::Field;

    use super::*;

    #[test]
    fn each_image_of_a_clip_counts() {
        let item = || Arc::new(Field::new_list_field(DataType::UInt8, false));
        let tensors = |rows: usize, length: i32| -> ArrayRef {
            let values = UInt8Array::from(vec![0; rows * length as usize]);
            Arc::new(FixedSizeListArray::try_new(item(), length, Arc::new(values), None).unwrap())
        };
        let image = tensors(7, 12);
        let of_list = Arc::new(Field::new_list_field(image.data_type().clone(), false));
        let lists = LargeListArray::new(of_list, OffsetBuffer::from_lengths([4, 1, 2]), image, None);
        let columns: [(&str, ArrayRef); 4] = [
            ("image", tensors(3, 12)),
            ("window", tensors(3, 60)),
            ("lists", Arc::new(lists)),
            ("stored", Arc::new(BinaryArray::from_iter_values([[0; 12]; 3]))),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let mut decoded = DecodedImages::default();
        assert_eq!(decoded.images(&batch), 0);
        for name in ["image", "window", "stored", "absent"] {
            decoded.add_image(name, Image::resize(2, 2));
        }
        assert_eq!(decoded.images(&batch), 3 + 15);
        decoded.add_clip("lists", Clip::new(Image::resize(2, 2)).at_most(4), 12);
        assert_eq!(decoded.images(&batch), 3 + 15 + 7);
        assert_eq!(decoded.images(&batch.slice(1, 2)), 2 + 10 + 3);
    }
}
