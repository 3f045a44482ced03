//! The values of MosaicML's shards, by the encodings that `streaming` has.
//!
//! ```text
//! ndarray      [type u8]  axes and width of a side u8 │ sides │ numbers
//! list[jpeg]   0 u32 │ count u32 │ sizes u32 × count │ image │ image │ …
//! jpeg_array   count u32 │ sizes u32 × count │ image │ image │ …
//! pil          width u32 │ height u32 │ length of the mode u32 │ mode │ pixels
//! ```
//!
//! The type byte of an `ndarray` is absent if the name of the encoding states the type. If the name also
//! states the shape, only the numbers are stored. Images of PIL, which are pixels, become PNG.

use std::sync::Arc;

use forebay_arrow::array::{
    ArrayRef, BinaryArray, FixedSizeListArray, Float16Array, Float32Array, Float64Array, Int8Array,
    Int16Array, Int32Array, Int64Array, ListArray, StringArray, UInt8Array, UInt16Array, UInt32Array,
    UInt64Array,
};
use forebay_arrow::buffer::OffsetBuffer;
use forebay_arrow::datatypes::{ArrowPrimitiveType, DataType, Field, FieldRef, Float16Type};
use forebay_arrow::fail::OrFail;
use forebay_base::{Error, ErrorKind, Result};
use image::codecs::png::PngEncoder;
use image::{ExtendedColorType, ImageEncoder};

/// The form of the values of a column.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum MdsEncoding {
    Text,
    Bytes,
    Number(MdsNumber),
    /// An array of one shape.
    Tensor(MdsNumber, usize),
    /// Arrays of different shapes. If the type of their numbers is `None`, each array states its own type.
    Array(Option<MdsNumber>),
    /// Several encoded images. A value has this many bytes before its number of images.
    Images(usize),
    /// The pixels of an image.
    Pil,
    /// The pixels of several images.
    Pils,
}

/// A type of numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum MdsNumber {
    Int8,
    Int16,
    Int32,
    Int64,
    UInt8,
    UInt16,
    UInt32,
    UInt64,
    Float16,
    Float32,
    Float64,
}

/// The number of bytes with which a value of `list[...]` begins, before its number of images.
const LIST_HEAD: usize = size_of::<u32>();
/// The alignment of the values in a file of numpy.
const NPY_ALIGNMENT: usize = 64;
/// The number of bytes before the header text of a numpy file: its magic, its version and the text's length.
const NPY_START: usize = 10;

impl MdsEncoding {
    /// Parses the name of an encoding.
    pub(super) fn of_text(text: &str) -> Result<Self> {
        Self::known(text).ok_or_else(|| {
            let cause = format!("values in the form {text:?} are not read");
            Error::new(ErrorKind::Unsupported, cause).hint(match text {
                "pkl" => "write the column as json or bytes: a pickle can run any program as it is read",
                _ => "str, bytes, json, jpeg, png, pil, lists of images, numbers and arrays are",
            })
        })
    }

    fn known(text: &str) -> Option<Self> {
        Some(match text {
            "str" | "json" | "str_int" | "str_float" | "str_decimal" => MdsEncoding::Text,
            "bytes" | "jpeg" | "png" => MdsEncoding::Bytes,
            "int" => MdsEncoding::Number(MdsNumber::Int64),
            "list[jpeg]" | "list[png]" => MdsEncoding::Images(LIST_HEAD),
            "jpeg_array" | "jpegarray" => MdsEncoding::Images(0),
            "pil" => MdsEncoding::Pil,
            "list[pil]" => MdsEncoding::Pils,
            "ndarray" => MdsEncoding::Array(None),
            _ => match text.strip_prefix("ndarray:") {
                None => MdsEncoding::Number(MdsNumber::of_text(text)?),
                Some(form) => match form.split_once(':') {
                    None => MdsEncoding::Array(Some(MdsNumber::of_text(form)?)),
                    Some((of, shape)) => {
                        let mut sides = shape.split(',').map(|side| side.trim().parse::<usize>().ok());
                        let length = sides.try_fold(1_usize, |length, side| length.checked_mul(side?))?;
                        MdsEncoding::Tensor(MdsNumber::of_text(of)?, length)
                    }
                },
            },
        })
    }

    /// The size of a value in bytes, if all values have the same size.
    pub(super) fn fixed_bytes(&self) -> Option<usize> {
        match self {
            MdsEncoding::Number(of) => Some(of.bytes()),
            MdsEncoding::Tensor(of, length) => of.bytes().checked_mul(*length),
            _ => None,
        }
    }

    pub(super) fn data_type(&self) -> DataType {
        match self {
            MdsEncoding::Text => DataType::Utf8,
            MdsEncoding::Bytes | MdsEncoding::Array(_) | MdsEncoding::Pil => DataType::Binary,
            MdsEncoding::Number(of) => of.data_type(),
            MdsEncoding::Tensor(of, length) => DataType::FixedSizeList(item(of.data_type()), *length as i32),
            MdsEncoding::Images(_) | MdsEncoding::Pils => DataType::List(item(DataType::Binary)),
        }
    }

    /// Makes an array of values. An error comes with the index of its value.
    pub(super) fn array(&self, values: &[&[u8]]) -> Result<ArrayRef, (usize, Error)> {
        let whole = |made: Result<ArrayRef>| made.map_err(|error| (0, error));
        Ok(match self {
            MdsEncoding::Bytes => Arc::new(BinaryArray::from_iter_values(values)),
            MdsEncoding::Text => Arc::new(StringArray::from_iter_values(each(values, text)?)),
            MdsEncoding::Number(of) => of.array(&values.concat()),
            MdsEncoding::Tensor(of, length) => {
                let (field, items) = (item(of.data_type()), of.array(&values.concat()));
                let made = FixedSizeListArray::try_new(field, *length as i32, items, None).or_fail();
                whole(made.map(|made| Arc::new(made) as ArrayRef))?
            }
            MdsEncoding::Array(of) => {
                Arc::new(BinaryArray::from_iter_values(each(values, |value| npy(value, *of))?))
            }
            MdsEncoding::Pil => Arc::new(BinaryArray::from_iter_values(each(values, png_of_pil)?)),
            MdsEncoding::Images(head) => whole(list(&each(values, |value| images(value, *head))?))?,
            MdsEncoding::Pils => {
                let of_list = |value| images(value, LIST_HEAD)?.into_iter().map(png_of_pil).collect();
                let lists: Vec<Vec<Vec<u8>>> = each(values, of_list)?;
                whole(list(&lists))?
            }
        })
    }
}

/// Converts each value. An error comes with the index of its value.
fn each<'a, T>(values: &[&'a [u8]], made: impl Fn(&'a [u8]) -> Result<T>) -> Result<Vec<T>, (usize, Error)> {
    let made = |(at, value): (usize, &&'a [u8])| made(value).map_err(|error| (at, error));
    values.iter().enumerate().map(made).collect()
}

fn item(of: DataType) -> FieldRef {
    Arc::new(Field::new_list_field(of, false))
}

fn text(value: &[u8]) -> Result<&str> {
    std::str::from_utf8(value).map_err(|_| Error::new(ErrorKind::Corrupt, "a text is not UTF-8"))
}

/// Divides a value into its images, which follow `head` bytes, the number of images and their sizes.
fn images(value: &[u8], head: usize) -> Result<Vec<&[u8]>> {
    let read = || {
        let mut rest = value;
        cut(&mut rest, head)?;
        let count = number(cut(&mut rest, size_of::<u32>())?) as usize;
        let sizes = cut(&mut rest, count.checked_mul(size_of::<u32>())?)?;
        let sizes = sizes.chunks(size_of::<u32>()).map(|size| number(size) as usize);
        let images: Vec<&[u8]> = sizes.map(|size| cut(&mut rest, size)).collect::<Option<_>>()?;
        rest.is_empty().then_some(images)
    };
    read().ok_or_else(|| unfit("a list of images"))
}

/// Makes an array of lists of encoded images.
fn list<T: AsRef<[u8]>>(lists: &[Vec<T>]) -> Result<ArrayRef> {
    let offsets = OffsetBuffer::from_lengths(lists.iter().map(Vec::len));
    let images = BinaryArray::from_iter_values(lists.iter().flatten());
    Ok(Arc::new(ListArray::try_new(item(DataType::Binary), offsets, Arc::new(images), None).or_fail()?))
}

/// Makes a numpy file from an array. `of` is the type of its numbers; if it is `None`, the first byte of
/// `value` states the type.
fn npy(value: &[u8], of: Option<MdsNumber>) -> Result<Vec<u8>> {
    let read = || {
        let mut rest = value;
        let of = match of {
            Some(of) => of,
            None => MdsNumber::of_code(cut(&mut rest, 1)?[0])?,
        };
        let form = cut(&mut rest, 1)?[0];
        let (axes, width) = (usize::from(form >> 2), 1 << (form & 3));
        let sides = cut(&mut rest, axes * width)?
            .chunks(width)
            .map(|side| side.iter().rev().fold(0_u64, |side, byte| side << 8 | u64::from(*byte)) as usize);
        let sides: Vec<usize> = sides.collect();
        let length = sides.iter().try_fold(of.bytes(), |bytes, side| bytes.checked_mul(*side))?;
        (length == rest.len()).then_some((of, sides, rest))
    };
    let (of, sides, numbers) = read().ok_or_else(|| unfit("an array"))?;
    let shape: String = sides.iter().map(|side| format!("{side}, ")).collect();
    let text = format!("{{'descr': '{}', 'fortran_order': False, 'shape': ({shape}), }}", of.of_numpy());
    let end = (NPY_START + text.len() + 1).next_multiple_of(NPY_ALIGNMENT);
    let length = ((end - NPY_START) as u16).to_le_bytes();
    let mut file = [b"\x93NUMPY\x01\0", &length[..], text.as_bytes()].concat();
    file.resize(end - 1, b' ');
    file.push(b'\n');
    file.extend_from_slice(numbers);
    Ok(file)
}

/// A PNG with the pixels of an image of PIL.
fn png_of_pil(value: &[u8]) -> Result<Vec<u8>> {
    let read = || {
        let mut rest = value;
        let [width, height, mode] = [(); 3].map(|()| cut(&mut rest, size_of::<u32>()).map(number));
        let mode = cut(&mut rest, mode? as usize)?;
        Some((width?, height?, mode, rest))
    };
    let (width, height, mode, pixels) = read().ok_or_else(|| unfit("an image of PIL"))?;
    let mode = text(mode)?;
    let color = match mode {
        "L" => ExtendedColorType::L8,
        "LA" => ExtendedColorType::La8,
        "RGB" => ExtendedColorType::Rgb8,
        "RGBA" => ExtendedColorType::Rgba8,
        _ => {
            let cause = format!("images of PIL in the mode {mode:?} are not read");
            return Err(Error::new(ErrorKind::Unsupported, cause)
                .hint("write them as png, or convert them to L, LA, RGB or RGBA"));
        }
    };
    let bits =
        u64::from(width).saturating_mul(u64::from(height)).saturating_mul(color.bits_per_pixel().into());
    if bits != pixels.len() as u64 * u64::from(u8::BITS) {
        return Err(unfit("an image of PIL"));
    }
    let mut file = Vec::new();
    let encoded = PngEncoder::new(&mut file).write_image(pixels, width, height, color);
    encoded.map_err(|error| Error::new(ErrorKind::Corrupt, format!("an image of PIL: {error}")))?;
    Ok(file)
}

fn unfit(what: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("a value is not {what}")).hint("copy the shard again")
}

impl MdsNumber {
    fn of_text(text: &str) -> Option<Self> {
        Some(match text {
            "int8" => MdsNumber::Int8,
            "int16" => MdsNumber::Int16,
            "int32" => MdsNumber::Int32,
            "int64" => MdsNumber::Int64,
            "uint8" => MdsNumber::UInt8,
            "uint16" => MdsNumber::UInt16,
            "uint32" => MdsNumber::UInt32,
            "uint64" => MdsNumber::UInt64,
            "float16" => MdsNumber::Float16,
            "float32" => MdsNumber::Float32,
            "float64" => MdsNumber::Float64,
            _ => return None,
        })
    }

    /// The type that an array names in its first byte.
    fn of_code(code: u8) -> Option<Self> {
        Some(match code {
            8 => MdsNumber::UInt8,
            9 => MdsNumber::Int8,
            16 => MdsNumber::UInt16,
            17 => MdsNumber::Int16,
            18 => MdsNumber::Float16,
            32 => MdsNumber::UInt32,
            33 => MdsNumber::Int32,
            34 => MdsNumber::Float32,
            64 => MdsNumber::UInt64,
            65 => MdsNumber::Int64,
            66 => MdsNumber::Float64,
            _ => return None,
        })
    }

    /// The name of the type in a file of numpy.
    fn of_numpy(self) -> &'static str {
        match self {
            MdsNumber::Int8 => "|i1",
            MdsNumber::Int16 => "<i2",
            MdsNumber::Int32 => "<i4",
            MdsNumber::Int64 => "<i8",
            MdsNumber::UInt8 => "|u1",
            MdsNumber::UInt16 => "<u2",
            MdsNumber::UInt32 => "<u4",
            MdsNumber::UInt64 => "<u8",
            MdsNumber::Float16 => "<f2",
            MdsNumber::Float32 => "<f4",
            MdsNumber::Float64 => "<f8",
        }
    }

    fn bytes(self) -> usize {
        match self {
            MdsNumber::Int8 | MdsNumber::UInt8 => 1,
            MdsNumber::Int16 | MdsNumber::UInt16 | MdsNumber::Float16 => 2,
            MdsNumber::Int32 | MdsNumber::UInt32 | MdsNumber::Float32 => 4,
            MdsNumber::Int64 | MdsNumber::UInt64 | MdsNumber::Float64 => 8,
        }
    }

    fn data_type(self) -> DataType {
        match self {
            MdsNumber::Int8 => DataType::Int8,
            MdsNumber::Int16 => DataType::Int16,
            MdsNumber::Int32 => DataType::Int32,
            MdsNumber::Int64 => DataType::Int64,
            MdsNumber::UInt8 => DataType::UInt8,
            MdsNumber::UInt16 => DataType::UInt16,
            MdsNumber::UInt32 => DataType::UInt32,
            MdsNumber::UInt64 => DataType::UInt64,
            MdsNumber::Float16 => DataType::Float16,
            MdsNumber::Float32 => DataType::Float32,
            MdsNumber::Float64 => DataType::Float64,
        }
    }

    /// Makes an array of the numbers whose bytes follow each other in `bytes`.
    fn array(self, bytes: &[u8]) -> ArrayRef {
        macro_rules! numbers {
            ($array:ty, $of:ty) => {{
                let parts = bytes.chunks_exact(size_of::<$of>());
                let numbers = parts.map(|part| <$of>::from_le_bytes(part.try_into().unwrap_or_default()));
                Arc::new(<$array>::from_iter_values(numbers))
            }};
        }
        match self {
            MdsNumber::Int8 => numbers!(Int8Array, i8),
            MdsNumber::Int16 => numbers!(Int16Array, i16),
            MdsNumber::Int32 => numbers!(Int32Array, i32),
            MdsNumber::Int64 => numbers!(Int64Array, i64),
            MdsNumber::UInt8 => numbers!(UInt8Array, u8),
            MdsNumber::UInt16 => numbers!(UInt16Array, u16),
            MdsNumber::UInt32 => numbers!(UInt32Array, u32),
            MdsNumber::UInt64 => numbers!(UInt64Array, u64),
            MdsNumber::Float16 => numbers!(Float16Array, <Float16Type as ArrowPrimitiveType>::Native),
            MdsNumber::Float32 => numbers!(Float32Array, f32),
            MdsNumber::Float64 => numbers!(Float64Array, f64),
        }
    }
}

/// Takes the first `bytes` bytes of `rest` away; `None` if it has fewer.
pub(super) fn cut<'a>(rest: &mut &'a [u8], bytes: usize) -> Option<&'a [u8]> {
    let (first, others) = rest.split_at_checked(bytes)?;
    *rest = others;
    Some(first)
}

/// The number of four bytes.
pub(super) fn number(bytes: &[u8]) -> u32 {
    bytes.try_into().map_or(0, u32::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_values_are_refused_with_their_index() {
        for (encoding, good, bad) in [
            ("list[jpeg]", &b"\0\0\0\0\x01\0\0\0\x02\0\0\0ab"[..], &b"\0\0\0\0\x01\0\0\0\x02\0\0\0abc"[..]),
            ("jpeg_array", b"\x01\0\0\0\x02\0\0\0ab", b"\xff\xff\xff\xff\x02\0\0\0ab"),
            ("ndarray:uint16", b"\x04\x02abcd", b"\x04\x02abc"),
            ("ndarray", b"\x08\x04\x02ab", b"\x07\x04\x02ab"),
            ("pil", b"\x01\0\0\0\x02\0\0\0\x01\0\0\0Lab", b"\x01\0\0\0\x02\0\0\0\x01\0\0\0Labc"),
            ("pil", b"\x01\0\0\0\x01\0\0\0\x03\0\0\0RGBabc", b"\x01\0\0\0\x08\0\0\0\x01\0\0\x001a"),
            ("str", b"a", b"\xff"),
        ] {
            let encoding = MdsEncoding::of_text(encoding).unwrap();
            assert_eq!(encoding.array(&[good]).unwrap().data_type(), &encoding.data_type());
            let (at, error) = encoding.array(&[good, bad]).unwrap_err();
            assert_eq!(at, 1, "{error}");
        }
        assert!(MdsEncoding::of_text("pkl").unwrap_err().to_string().contains("any program"));
        assert!(MdsEncoding::of_text("ndarray:complex64:2").is_err());
    }
}
