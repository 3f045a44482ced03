//! Arrow columns as rectangular blocks of memory, for numpy, DLPack and buffers.
//!
//! Booleans are copied, because Arrow packs eight of them into a byte, while numpy and DLPack use one byte
//! for each. Dates and times of 32 bits are copied, because numpy stores them in 64 bits. All other memory is
//! shared.

use forebay::arrow::array::{Array, ArrayData, AsArray};
use forebay::arrow::buffer::{BooleanBuffer, Buffer};
use forebay::arrow::datatypes::{DataType, Field, IntervalUnit, TimeUnit};
use forebay_arrow::array::downcast_primitive_array;

/// The metadata key under which a field names its Arrow extension type.
const EXTENSION_NAME: &str = "ARROW:extension:name";
/// The metadata key under which a field has the parameters of its extension type, which are JSON for tensors.
const EXTENSION_METADATA: &str = "ARROW:extension:metadata";
/// The name of Arrow's extension type for tensors, which are stored as fixed-size lists.
const TENSOR: &str = "arrow.fixed_shape_tensor";
/// The metadata key under which a field names its element type, if Arrow does not have that type.
const DTYPE: &str = "forebay:dtype";

/// The type of one element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Element {
    /// One byte, 0 or 1.
    Bool,
    /// A signed integer of this many bytes.
    Int(u8),
    /// An unsigned integer of this many bytes.
    UInt(u8),
    /// An IEEE float of this many bytes.
    Float(u8),
    /// A bfloat16 number: the upper 16 bits of a 32-bit float.
    BFloat16,
    /// A point in time in 64 bits, with numpy's name for the type, such as `<M8[us]`.
    DateTime(&'static str),
    /// A span of time in 64 bits, with numpy's name for the type, such as `<m8[us]`.
    TimeDelta(&'static str),
}

impl Dense {
    /// A one-dimensional block over `buffer`, for the offsets or the values of a list.
    pub(crate) fn flat(buffer: Buffer, element: Element) -> Self {
        let rows = buffer.len() / element.bytes();
        Dense { buffer, shape: vec![rows], element }
    }
}

impl Element {
    /// All element types except times, from the most to the least frequent.
    pub(crate) const NUMBERS: [Element; 13] = [
        Element::Float(4),
        Element::Int(4),
        Element::Int(8),
        Element::Float(8),
        Element::UInt(1),
        Element::Bool,
        Element::Int(2),
        Element::Int(1),
        Element::UInt(2),
        Element::UInt(4),
        Element::UInt(8),
        Element::Float(2),
        Element::BFloat16,
    ];

    /// The size of one element, in bytes.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Element::Bool => 1,
            Element::Int(n) | Element::UInt(n) | Element::Float(n) => n.into(),
            Element::BFloat16 => 2,
            Element::DateTime(_) | Element::TimeDelta(_) => 8,
        }
    }

    /// numpy's name for the type, or "bfloat16", which numpy does not have.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Element::BFloat16 => "bfloat16",
            other => other.typestr(),
        }
    }

    /// The type string of numpy's array interface. numpy does not have bfloat16, so bfloat16 values are
    /// exposed as 16-bit unsigned integers.
    pub(crate) fn typestr(self) -> &'static str {
        match self {
            Element::Bool => "|b1",
            Element::Int(1) => "|i1",
            Element::Int(2) => "<i2",
            Element::Int(4) => "<i4",
            Element::Int(_) => "<i8",
            Element::UInt(1) => "|u1",
            Element::UInt(2) | Element::BFloat16 => "<u2",
            Element::UInt(4) => "<u4",
            Element::UInt(_) => "<u8",
            Element::Float(2) => "<f2",
            Element::Float(4) => "<f4",
            Element::Float(_) => "<f8",
            Element::DateTime(typestr) | Element::TimeDelta(typestr) => typestr,
        }
    }
}

/// The metadata key that marks padded lists: all lists of a batch have one length, which may differ in the
/// next batch. The value of the key is not used.
const PADDED: &str = "forebay:padded";

/// A block of memory whose elements form an array with this shape, in row-major order. It keeps the memory
/// alive.
#[derive(Clone, Debug)]
pub(crate) struct Dense {
    /// The memory, which begins at the first element.
    pub(crate) buffer: Buffer,
    /// The number of elements in each dimension, rows first.
    pub(crate) shape: Vec<usize>,
    /// The type of an element.
    pub(crate) element: Element,
}

/// The element type and the shape of one row, if columns of this type are rectangular blocks. A `None` in the
/// shape stands for a length that differs from batch to batch. Nulls are not considered here.
pub(crate) fn layout(field: &Field) -> Option<(Element, Vec<Option<usize>>)> {
    let (element, shape) = match field.data_type() {
        DataType::LargeList(item) if field.metadata().contains_key(PADDED) => {
            return Some((element(item.data_type())?, vec![None]));
        }
        DataType::FixedSizeList(item, length) => {
            let element = match field.metadata().get(DTYPE).map(String::as_str) {
                Some("bfloat16") => Element::BFloat16,
                _ => element(item.data_type())?,
            };
            let length = usize::try_from(*length).ok()?;
            (element, tensor_shape(field, length).unwrap_or_else(|| vec![length]))
        }
        DataType::FixedSizeBinary(width) => (Element::UInt(1), vec![usize::try_from(*width).ok()?]),
        scalar => (element(scalar)?, Vec::new()),
    };
    Some((element, shape.into_iter().map(Some).collect()))
}

/// The values of a column without nulls as a rectangular block; `None` if they do not form one.
pub(crate) fn dense(field: &Field, array: &dyn Array) -> Option<Dense> {
    let (element, row) = layout(field)?;
    let mut shape = vec![array.len()];
    let buffer = match array.data_type() {
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            let first = usize::try_from(list.offsets().first()).ok()?;
            let count = usize::try_from(list.offsets().last()).ok()? - first;
            let row = count.checked_div(list.len()).unwrap_or(0);
            // Rows of differing lengths are not a block, even if their average length is a whole number.
            let are_even = (0..list.len()).all(|at| usize::try_from(list.value_length(at)) == Ok(row));
            shape.push(are_even.then_some(row)?);
            block(list.values().slice(first, count).as_ref(), count)?
        }
        DataType::FixedSizeList(_, length) => {
            let list = array.as_fixed_size_list();
            let length = usize::try_from(*length).ok()?;
            // For a slice of a list array, `values` contains only the values of the slice.
            block(list.values().as_ref(), list.len().checked_mul(length)?)?
        }
        _ => block(array, array.len())?,
    };
    shape.extend(row.into_iter().flatten());
    // The consumer of the block reads memory according to the shape, so the size is checked here.
    let bytes = product(&shape)?.checked_mul(element.bytes())?;
    (buffer.len() == bytes).then_some(Dense { buffer, shape, element })
}

/// The memory of the first `count` elements of `array`; `None` if it has fewer, or no fixed width.
pub(crate) fn block(array: &dyn Array, count: usize) -> Option<Buffer> {
    if count > array.len() {
        return None;
    }
    if let Some(values) = values(array) {
        return Some(values.slice_with_length(0, array.data_type().primitive_width()? * count));
    }
    let data: ArrayData = array.to_data();
    let buffer = data.buffers().first()?;
    let end = data.offset().checked_add(count)?;
    match array.data_type() {
        DataType::Boolean => {
            let has_all = end.div_ceil(8) <= buffer.len();
            has_all.then(|| unpack(&BooleanBuffer::new(buffer.clone(), data.offset(), count)))
        }
        // Arrow stores days in 32 bits, numpy in 64.
        DataType::Date32 => {
            let days = buffer.typed_data::<i32>().get(data.offset()..end)?;
            Some(days.iter().map(|day| i64::from(*day)).collect())
        }
        DataType::Time32(_) => {
            let times = buffer.typed_data::<i32>().get(data.offset()..end)?;
            Some(times.iter().map(|time| i64::from(*time)).collect())
        }
        other => {
            let width = match other {
                DataType::FixedSizeBinary(width) => usize::try_from(*width).ok()?,
                _ => other.primitive_width()?,
            };
            let has_all = end.checked_mul(width)? <= buffer.len();
            has_all.then(|| buffer.slice_with_length(data.offset() * width, count * width))
        }
    }
}

/// The memory of numbers that numpy stores as Arrow does, from the first element on; `None` for other arrays.
fn values(array: &dyn Array) -> Option<Buffer> {
    downcast_primitive_array!(
        array => match array.data_type() {
            DataType::Date32 | DataType::Time32(_) => None,
            _ => Some(array.values().inner().clone()),
        },
        _ => None
    )
}

/// Unpacks booleans into one byte each.
fn unpack(bits: &BooleanBuffer) -> Buffer {
    bits.iter().map(u8::from).collect::<Vec<u8>>().into()
}

/// The element type of a scalar Arrow type, if it has one.
pub(crate) fn element(data_type: &DataType) -> Option<Element> {
    Some(match data_type {
        DataType::Boolean => Element::Bool,
        DataType::Int8 => Element::Int(1),
        DataType::Int16 => Element::Int(2),
        DataType::Int32 => Element::Int(4),
        DataType::Int64 => Element::Int(8),
        DataType::UInt8 => Element::UInt(1),
        DataType::UInt16 => Element::UInt(2),
        DataType::UInt32 => Element::UInt(4),
        DataType::UInt64 => Element::UInt(8),
        DataType::Float16 => Element::Float(2),
        DataType::Float32 => Element::Float(4),
        DataType::Float64 => Element::Float(8),
        DataType::Date32 => Element::DateTime("<M8[D]"),
        DataType::Date64 => Element::DateTime("<M8[ms]"),
        DataType::Timestamp(unit, _) => Element::DateTime(datetime(*unit)),
        DataType::Time32(unit) | DataType::Time64(unit) | DataType::Duration(unit) => {
            Element::TimeDelta(timedelta(*unit))
        }
        DataType::Interval(IntervalUnit::YearMonth | IntervalUnit::DayTime | IntervalUnit::MonthDayNano) => {
            return None;
        }
        _ => return None,
    })
}

fn datetime(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Second => "<M8[s]",
        TimeUnit::Millisecond => "<M8[ms]",
        TimeUnit::Microsecond => "<M8[us]",
        TimeUnit::Nanosecond => "<M8[ns]",
    }
}

fn timedelta(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Second => "<m8[s]",
        TimeUnit::Millisecond => "<m8[ms]",
        TimeUnit::Microsecond => "<m8[us]",
        TimeUnit::Nanosecond => "<m8[ns]",
    }
}

/// The shape that the metadata of a tensor column declares. `None` if it declares none, or a shape that does
/// not have `length` elements.
fn tensor_shape(field: &Field, length: usize) -> Option<Vec<usize>> {
    if field.metadata().get(EXTENSION_NAME)? != TENSOR {
        return None;
    }
    let parameters: serde_json::Value =
        serde_json::from_str(field.metadata().get(EXTENSION_METADATA)?).ok()?;
    let shape: Option<Vec<usize>> = parameters
        .get("shape")?
        .as_array()?
        .iter()
        .map(|side| usize::try_from(side.as_u64()?).ok())
        .collect();
    shape.filter(|shape| product(shape) == Some(length))
}

/// The number of elements in a shape; `None` if it overflows.
fn product(shape: &[usize]) -> Option<usize> {
    shape.iter().try_fold(1_usize, |product, side| product.checked_mul(*side))
}
