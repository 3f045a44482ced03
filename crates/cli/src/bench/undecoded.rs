//! Detects columns of encoded images that a run delivered without decoding them, and reports them instead of
//! a bottleneck. Such a run does so little work that its bottleneck would be a matter of chance.

use forebay_arrow::array::{Array, AsArray, RecordBatch};
use forebay_arrow::datatypes::DataType;
use forebay_image::{is_packed, probe};

/// The columns of a batch whose first value is an encoded image.
pub(super) fn images(batch: &RecordBatch) -> Vec<String> {
    let schema = batch.schema();
    let columns = schema.fields().iter().zip(batch.columns());
    columns
        .filter(|(_, column)| holds_image(column.as_ref()))
        .map(|(field, _)| field.name().clone())
        .collect()
}

/// The sentence that says that the images of `columns` were not decoded; `None` if `columns` is empty.
pub(super) fn sentence(columns: &[String]) -> Option<String> {
    let (first, others) = columns.split_first()?;
    let names = columns.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
    let (noun, options) = if others.is_empty() { ("column", "") } else { ("columns", ", and so on") };
    Some(format!(
        "Nothing was decoded, so no bottleneck is named: the {noun} {names} came as encoded images (decode \
         them with --image {first}=rrc224{options}, or leave them out with --columns)."
    ))
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

    use forebay_arrow::array::{ArrayRef, BinaryArray, LargeBinaryArray, StructArray};
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
        assert_eq!(found, ["b", "c"]);
        let said = sentence(&found).unwrap();
        assert!(
            said.contains("columns \"b\", \"c\"") && said.contains("--image b=rrc224, and so on"),
            "{said}"
        );
        assert_eq!(sentence(&[]), None);
    }
}
