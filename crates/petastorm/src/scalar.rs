//! Reads the objects that numpy adds to a pickle: its `dtype` objects and its numbers.

use forebay_base::{Error, ErrorKind, Result};

use crate::dtype::Dtype;
use crate::fail::{malformed, shortened};
use crate::heap::{Heap, HeapValue, How, Node, Object};
use crate::name::Name;

/// The type of a `numpy.dtype`.
pub(crate) fn dtype(value: HeapValue, heap: &Heap) -> Result<Dtype> {
    let call = call(value, heap, Name::NumpyDtype);
    let code =
        call.and_then(|call| heap.as_tuple(call.arguments)?.first()).and_then(|code| heap.as_text(*code));
    let code = code.ok_or_else(|| malformed("its type is not one of numpy"))?;
    Dtype::of_code(code).ok_or_else(|| {
        let cause = format!("its type is the numpy.dtype `{}`, which is not read", shortened(code));
        Error::new(ErrorKind::Unsupported, cause).hint("write the data set without fields of that type")
    })
}

/// An integer or a boolean of Python or of numpy.
pub(crate) fn integer(value: HeapValue, heap: &Heap) -> Option<i64> {
    match value {
        HeapValue::Bool(value) => Some(value.into()),
        HeapValue::Int(value) => Some(value),
        _ => {
            let call = call(value, heap, Name::NumpyScalar)?;
            let [dtype, bytes] = heap.as_tuple(call.arguments)? else { return None };
            number(*dtype, &bytes_of(*bytes, heap)?, heap)
        }
    }
}

/// The integer in `bytes`. The object `value` has its type and its byte order.
fn number(value: HeapValue, bytes: &[u8], heap: &Heap) -> Option<i64> {
    let dtype = dtype(value, heap).ok()?;
    let signed = match dtype {
        Dtype::Int8 | Dtype::Int16 | Dtype::Int32 | Dtype::Int64 => true,
        Dtype::Bool | Dtype::UInt8 | Dtype::UInt16 | Dtype::UInt32 | Dtype::UInt64 => false,
        _ => return None,
    };
    // The byte order is the second value of the state.
    let order = heap.as_tuple(heap.as_object(value)?.state)?.get(1)?;
    let (first, rest) = match heap.as_text(*order)? {
        ">" => bytes.split_first()?,
        _ => bytes.split_last()?,
    };
    let start = if signed && first & 0x80 != 0 { -1 } else { 0 };
    let add = |number: i128, byte: &u8| (number << 8) | i128::from(*byte);
    let number = match heap.as_text(*order)? {
        _ if bytes.len() > size_of::<i64>() => return None,
        ">" => rest.iter().fold(add(start, first), add),
        _ => rest.iter().rev().fold(add(start, first), add),
    };
    i64::try_from(number).ok()
}

/// The content of a bytes object. Older protocols write it as text in Latin 1 and a call that encodes the
/// text.
fn bytes_of(value: HeapValue, heap: &Heap) -> Option<Vec<u8>> {
    /// The size of the longest number, in bytes.
    const MAX_NUMBER_BYTES: usize = size_of::<u64>();
    match heap.node(value)? {
        Node::Bytes(bytes) => (bytes.len() <= MAX_NUMBER_BYTES).then(|| bytes.to_vec()),
        Node::Text(text) => (text.len() <= MAX_NUMBER_BYTES).then(|| text.as_bytes().to_vec()),
        _ => {
            let call = call(value, heap, Name::Encode)?;
            let text = heap.as_text(*heap.as_tuple(call.arguments)?.first()?)?;
            // A character of Latin 1 has up to two bytes in UTF-8.
            if text.len() > 2 * MAX_NUMBER_BYTES {
                return None;
            }
            text.chars().map(|character| u8::try_from(u32::from(character)).ok()).collect()
        }
    }
}

/// The recorded call in `value`, if it is a call of `callee`.
fn call(value: HeapValue, heap: &Heap, callee: Name) -> Option<&Object> {
    heap.as_object(value).filter(|object| object.how == How::Reduce && object.callee == callee)
}
