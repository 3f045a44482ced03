//! Makes an array of numbers or booleans.

use std::sync::Arc;

use forebay_arrow::array::{ArrayData, ArrayRef, BooleanArray, make_array};
use forebay_arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use forebay_arrow::datatypes::DataType;

use super::values::Value;

/// An array of numbers of type `data_type`; `None` if a value of that type has another size than `T`.
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

/// An array of booleans: false for each zero, and true for any other value.
pub(super) fn booleans<T: Value>(values: &[T], nulls: Option<NullBuffer>) -> ArrayRef {
    let bits = BooleanBuffer::collect_bool(values.len(), |at| values[at] != T::default());
    Arc::new(BooleanArray::new(bits, nulls))
}

/// Makes room for nulls among `len` places: moves the stored values, in order, to the places that are valid,
/// and puts zeros into the others. `None` if there are more or fewer values than valid places.
pub(in crate::reader) fn spread<T: Copy + Default>(
    values: &mut Vec<T>,
    len: usize,
    nulls: Option<&NullBuffer>,
) -> Option<()> {
    let mut left = values.len();
    (len - nulls.map_or(0, NullBuffer::null_count) == left).then_some(())?;
    let Some(nulls) = nulls else { return Some(()) };
    values.resize(len, T::default());
    // Going backwards, no value is overwritten before it has been moved.
    for at in (0..len).rev() {
        // No null is left before this place, so all values before it are where they belong.
        if left == at + 1 {
            break;
        }
        values[at] = match nulls.is_valid(at) {
            true => {
                left -= 1;
                values[left]
            }
            false => T::default(),
        };
    }
    Some(())
}
