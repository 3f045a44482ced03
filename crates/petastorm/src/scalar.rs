//! Reads the objects that numpy adds to a pickle: its `dtype` objects and its numbers.

use forebay_base::{Error, ErrorKind, Result};

use crate::dtype::Dtype;
use crate::fail::{malformed, shortened};
use crate::heap::{Heap, HeapValue, How, Node, Object};
use crate::name::Name;

/// Converts a pickled `numpy.dtype` object to the type that it names.
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

/// The value of a pickled integer or boolean of Python or of numpy, with `true` as 1; `None` for other
/// values.
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

/// Decodes the integer in `bytes`. `value` is the pickled `numpy.dtype`, with the integer's type and byte
/// order.
fn number(value: HeapValue, bytes: &[u8], heap: &Heap) -> Option<i64> {
    let dtype = dtype(value, heap).ok()?;
    let signed = match dtype {
        Dtype::Int8 | Dtype::Int16 | Dtype::Int32 | Dtype::Int64 => true,
        Dtype::Bool | Dtype::UInt8 | Dtype::UInt16 | Dtype::UInt32 | Dtype::UInt64 => false,
        _ => return None,
    };
    // The second value in the pickled state of a `numpy.dtype` is the byte order, `<` or `>`.
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

/// The content of a pickled bytes object. Older pickle protocols write it as a call of `_codecs.encode`,
/// which encodes a text in Latin 1.
fn bytes_of(value: HeapValue, heap: &Heap) -> Option<Vec<u8>> {
    const MAX_NUMBER_BYTES: usize = size_of::<u64>();
    match heap.node(value)? {
        Node::Bytes(bytes) => (bytes.len() <= MAX_NUMBER_BYTES).then(|| bytes.to_vec()),
        Node::Text(text) => (text.len() <= MAX_NUMBER_BYTES).then(|| text.as_bytes().to_vec()),
        _ => {
            let call = call(value, heap, Name::Encode)?;
            let text = heap.as_text(*heap.as_tuple(call.arguments)?.first()?)?;
            // The text is stored as UTF-8, where a character of Latin 1 takes up to two bytes.
            if text.len() > 2 * MAX_NUMBER_BYTES {
                return None;
            }
            text.chars().map(|character| u8::try_from(u32::from(character)).ok()).collect()
        }
    }
}

/// The call that `value` refers to, if it is a call of the function or class `callee`.
fn call(value: HeapValue, heap: &Heap, callee: Name) -> Option<&Object> {
    heap.as_object(value).filter(|object| object.how == How::Reduce && object.callee == callee)
}
