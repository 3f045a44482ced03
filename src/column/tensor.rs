//! Columns of tensors: rows of one shape, one after the other in one buffer.

use std::collections::HashMap;
use std::sync::Arc;

use forebay_arrow::array::{ArrayData, ArrayRef, BooleanArray, FixedSizeListArray, make_array};
use forebay_arrow::buffer::{BooleanBuffer, Buffer};
use forebay_arrow::datatypes::{DataType, Field};
use forebay_arrow::fail::OrFail;
use forebay_base::{Error, ErrorKind, Result};

use super::extension::{EXTENSION_METADATA, EXTENSION_NAME};

/// The name of Arrow's extension type for tensors of one shape.
pub(super) const TENSOR: &str = "arrow.fixed_shape_tensor";

/// The field of a column of tensors: fixed-size lists with the `arrow.fixed_shape_tensor` extension type.
/// `shape` is the shape of one row.
///
/// # Errors
/// A row has more values than a list can hold.
pub(crate) fn tensor_field(name: &str, shape: &[usize], item: DataType) -> Result<Field> {
    let values = shape.iter().try_fold(1usize, |values, side| values.checked_mul(*side));
    let values = values.and_then(|values| i32::try_from(values).ok());
    let values = values
        .ok_or_else(|| Error::invalid(format!("a tensor of shape {shape:?} has more than 2^31 values")))?;
    let list = DataType::FixedSizeList(Arc::new(Field::new("item", item, false)), values);
    let sides: Vec<String> = shape.iter().map(ToString::to_string).collect();
    let metadata = HashMap::from([
        (EXTENSION_NAME.to_string(), TENSOR.to_string()),
        (EXTENSION_METADATA.to_string(), format!(r#"{{"shape":[{}]}}"#, sides.join(","))),
    ]);
    Ok(Field::new(name, list, false).with_metadata(metadata))
}

/// Makes the column of a [field of tensors](tensor_field) from the values of `rows` rows.
pub(crate) fn tensor(field: &Field, buffer: Buffer, rows: usize) -> Result<ArrayRef> {
    let DataType::FixedSizeList(item, length) = field.data_type() else {
        return Err(Error::new(ErrorKind::Internal, "slots of a column that is no tensor"));
    };
    let count = *length as usize * rows;
    let values: ArrayRef = match item.data_type() {
        // The buffer has a byte for each boolean, but Arrow has a bit.
        DataType::Boolean => {
            Arc::new(BooleanArray::new(BooleanBuffer::collect_bool(count, |at| buffer[at] != 0), None))
        }
        other => {
            let data = ArrayData::builder(other.clone()).len(count).add_buffer(buffer);
            // The buffer was allocated for bytes, so it may not be aligned for the type of the numbers. If it
            // is not, `align_buffers` copies it to one that is.
            make_array(data.align_buffers(true).build().or_fail()?)
        }
    };
    Ok(Arc::new(FixedSizeListArray::try_new(item.clone(), *length, values, None).or_fail()?))
}
