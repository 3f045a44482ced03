//! Makes an array of numbers.

use forebay_arrow::array::{ArrayData, ArrayRef, make_array};
use forebay_arrow::buffer::{Buffer, NullBuffer};
use forebay_arrow::datatypes::DataType;

use super::values::Value;

/// An array of numbers of this type, whose values have this width.
pub(super) fn numbers<T: Value>(
    data_type: &DataType,
    values: Vec<T>,
    nulls: Option<NullBuffer>,
) -> Option<ArrayRef> {
    (data_type.primitive_width()? == size_of::<T>()).then_some(())?;
    let array = ArrayData::builder(data_type.clone()).len(values.len()).nulls(nulls);
    let array = array.add_buffer(Buffer::from_vec(values));
    Some(make_array(array.build().ok()?))
}
