//! Detects columns of encoded images that a run delivered without decoding them, and reports them instead of
//! a bottleneck. Such a run does so little work that its bottleneck would be a matter of chance.

use forebay_arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use forebay_arrow::datatypes::DataType;
use forebay_image::{is_packed, probe};
use serde::{Serialize, Serializer};

/// A column of encoded images.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Undecoded {
    column: String,
    /// Whether each row holds a list of encoded images instead of one image.
    are_lists: bool,
}

/// Serializes as the name of the column alone, because a report names these columns and nothing else.
impl Serialize for Undecoded {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.column)
    }
}

/// The columns of a batch whose first value is an encoded image, or a list of them.
pub(super) fn images(batch: &RecordBatch) -> Vec<Undecoded> {
    let schema = batch.schema();
    let columns = schema.fields().iter().zip(batch.columns());
    let undecoded = columns.filter_map(|(field, column)| {
        let images = items(column.as_ref());
        let are_lists = images.is_some();
        let images = images.unwrap_or_else(|| column.clone());
        holds_image(images.as_ref()).then(|| Undecoded { column: field.name().clone(), are_lists })
    });
    undecoded.collect()
}

/// The sentence about a run that decoded none of the images in these columns; `None` if there are no such
/// columns.
pub(super) fn sentence(columns: &[Undecoded]) -> Option<String> {
    let (Undecoded { column: first, are_lists }, others) = columns.split_first()?;
    let option = match are_lists {
        true => format!("--clip {first}=rrc224,frames=8"),
        false => format!("--image {first}=rrc224"),
    };
    let names = columns.iter().map(|found| format!("{:?}", found.column)).collect::<Vec<_>>().join(", ");
    let (noun, options) = if others.is_empty() { ("column", "") } else { ("columns", ", and so on") };
    Some(format!(
        "Nothing was decoded, so no bottleneck is named: the {noun} {names} came as encoded images (decode \
         them with {option}{options}, or leave them out with --columns)."
    ))
}

/// The items of a column of lists.
fn items(column: &dyn Array) -> Option<ArrayRef> {
    match column.data_type() {
        DataType::List(_) => Some(column.as_list::<i32>().values().clone()),
        DataType::LargeList(_) => Some(column.as_list::<i64>().values().clone()),
        DataType::FixedSizeList(..) => Some(column.as_fixed_size_list().values().clone()),
        _ => None,
    }
}

fn holds_image(column: &dyn Array) -> bool {
    let is_image = |value: Option<&[u8]>| value.is_some_and(|value| is_packed(value) || probe(value).is_ok());
    match column.data_type() {
        DataType::Binary => is_image(column.as_binary::<i32>().iter().flatten().next()),
        DataType::LargeBinary => is_image(column.as_binary::<i64>().iter().flatten().next()),
        DataType::BinaryView => is_image(column.as_binary_view().iter().flatten().next()),
        DataType::Struct(_) => column.as_struct().columns().iter().any(|field| holds_image(field.as_ref())),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use forebay_arrow::array::{BinaryArray, LargeBinaryArray, ListArray, StructArray};
    use forebay_arrow::buffer::OffsetBuffer;
    use forebay_arrow::datatypes::Field;
    use forebay_image::encode_jpeg;

    use super::*;

    #[test]
    fn columns_of_encoded_images_are_known_by_their_first_value() {
        let jpeg = encode_jpeg(&[128; 8 * 8 * 3], 8, 8, 90).unwrap();
        let images: ArrayRef = Arc::new(LargeBinaryArray::from_opt_vec(vec![None, Some(&jpeg)]));
        let others: ArrayRef = Arc::new(BinaryArray::from_vec(vec![b"text", b""]));
        let field = Arc::new(Field::new("bytes", DataType::LargeBinary, true));
        let nested: ArrayRef = Arc::new(StructArray::from(vec![(field, images.clone())]));
        let batch = RecordBatch::try_from_iter([("a", others), ("b", images), ("c", nested)]).unwrap();
        let found = super::images(&batch);
        assert_eq!(found.iter().map(|found| &*found.column).collect::<Vec<_>>(), ["b", "c"]);
        let said = sentence(&found).unwrap();
        assert!(
            said.contains("columns \"b\", \"c\"") && said.contains("--image b=rrc224, and so on"),
            "{said}"
        );
        assert_eq!(sentence(&[]), None);

        let item = Arc::new(Field::new_list_field(DataType::Binary, true));
        let values: ArrayRef = Arc::new(BinaryArray::from_vec(vec![&jpeg, &jpeg]));
        let lists = ListArray::new(item, OffsetBuffer::from_lengths([0, 2]), values, None);
        let batch = RecordBatch::try_from_iter([("frames", Arc::new(lists) as ArrayRef)]).unwrap();
        let said = sentence(&super::images(&batch)).unwrap();
        assert!(said.contains("--clip frames=rrc224,frames=8"), "{said}");
    }
}
