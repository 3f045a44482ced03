//! Derives how a column is decoded from the schema of Petastorm, if the user does not say how.

use forebay_arrow::datatypes::{DataType, Field};
use forebay_arrow::names::TypeName;
use forebay_base::{Error, ErrorKind, Result};
use forebay_image::Size;
use forebay_petastorm::{Codec, Dtype, Field as Declared};

use super::arrays::{Arrays, CellFormat, Item};
use super::cast::values_of;
use super::cell::holds_bytes;
use super::exact::{ExactImage, Pixels};
use super::tensors::name_of;
use super::text_bytes::TextBytesCodec;
use super::{Cast, Column, ColumnOption, ColumnSpec, NullOptions, Tensor, TensorFormat, cast_field};

/// How the cells of a column become values.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Decoding {
    /// Numbers that are stored as a wider type than declared, and are cast to the declared one.
    Cast(Cast),
    /// Text that is declared as bytes, and is delivered as binary.
    Bytes,
    /// Arrays of numbers that all have one shape.
    Tensor(Tensor),
    /// Images that all have one size.
    Image(ExactImage),
    /// Arrays or images whose shape differs from row to row, arrays that hold no numbers, and arrays to which
    /// the user applies another option such as padding. They are converted to lists first.
    Arrays(Arrays),
}

impl Decoding {
    /// The decoding of a column; `None` if the column is delivered as it is stored. `given` has the options
    /// that the user set for the column, none of which decodes it.
    ///
    /// Fails with `Unsupported` if forebay cannot decode the declared values, or if the column is not stored
    /// as the declared codec stores it.
    pub(crate) fn for_field(declared: &Declared, stored: &Field, given: &ColumnSpec) -> Result<Option<Self>> {
        let refused = |why: &str| refusal(declared, why);
        let Some(codec) = declared.codec.as_ref().filter(|codec| !matches!(codec, Codec::Scalar(_))) else {
            return scalar(declared, stored, given);
        };
        if !holds_bytes(stored.data_type()) {
            let kind = TypeName(stored.data_type());
            return Err(refused(&format!("its cells are stored as {kind}, and not as binary")));
        }
        let shape = declared.shape.iter().map(|side| side.map(usize::try_from).transpose());
        let shape = shape
            .collect::<std::result::Result<Vec<_>, _>>()
            .map_err(|_| refused("its shape is too large"))?;
        let format = match codec {
            Codec::Ndarray => TensorFormat::Npy,
            Codec::CompressedNdarray => TensorFormat::Npz,
            Codec::CompressedImage { .. } => return image(declared, shape).map(Some),
            Codec::Scalar(_) => return Ok(None),
        };
        let item = match (declared.dtype, number(declared.dtype)) {
            (_, Some(dtype)) => Item::Number(dtype),
            (Dtype::Str, _) => Item::Text,
            (Dtype::Bytes, _) => Item::Bytes,
            (Dtype::Datetime64 | Dtype::Timedelta64, _) => {
                return Err(refused("each cell has a unit of time of its own"));
            }
            _ => return Err(refused("such values have no column of numbers or text")),
        };
        let is_asked_for = given.cast.is_some() || given.pad.is_some() || given.encode.is_some();
        Ok(Some(match (&item, one_shape(&shape)) {
            (Item::Number(dtype), Some(sides)) if !is_asked_for => {
                Decoding::Tensor(Tensor::new(dtype.clone(), sides).format(format))
            }
            _ => Decoding::Arrays(Arrays::new(item, shape, CellFormat::Numpy(format))),
        }))
    }

    /// The arrays that are converted to lists before the user's options apply; `None` for another decoding.
    pub(crate) fn arrays(&self) -> Option<&Arrays> {
        match self {
            Decoding::Arrays(arrays) => Some(arrays),
            _ => None,
        }
    }

    /// Makes the delivered column, if no option of the user does. `field` describes the column after its
    /// arrays were converted to lists and its numbers were cast. Returns `None` if the column needs no
    /// further decoding, and is delivered as `field` describes it.
    ///
    /// # Errors
    /// The errors of [`ColumnOption::column`].
    pub(crate) fn column(&self, field: &Field, nulls: NullOptions<'_>) -> Result<Option<Column>> {
        match self {
            Decoding::Cast(_) => Ok(None),
            Decoding::Bytes => TextBytesCodec::column(field, nulls).map(Some),
            Decoding::Tensor(tensor) => tensor.column(field, nulls),
            Decoding::Image(image) => image.column(field, nulls).map(Some),
            Decoding::Arrays(arrays) => match (arrays.one_shape(), field.data_type()) {
                (Some(shape), DataType::FixedSizeList(item, _)) => {
                    Tensor::new(item.data_type().clone(), shape).column(field, nulls)
                }
                _ => Ok(None),
            },
        }
    }
}

/// The decoding of a field that Petastorm stores as a plain value. Numbers are cast to the declared type, and
/// text that is declared as bytes becomes binary, unless the user gives a cast.
fn scalar(declared: &Declared, stored: &Field, given: &ColumnSpec) -> Result<Option<Decoding>> {
    let is_text = matches!(stored.data_type(), DataType::Utf8View | DataType::BinaryView);
    if declared.dtype == Dtype::Str && !is_text && stored.data_type().is_integer() {
        let why =
            format!("it is stored as {}, or its folders were read as that", TypeName(stored.data_type()));
        let hint = "open the data set with `partition_types` that say string for it";
        return Err(refusal(declared, &why).hint_also(hint));
    }
    if declared.dtype == Dtype::Bytes && *stored.data_type() == DataType::Utf8View {
        return Ok(given.cast.is_none().then_some(Decoding::Bytes));
    }
    let Some(to) = number(declared.dtype).filter(|to| to != values_of(stored.data_type())) else {
        return Ok(None);
    };
    if given.cast.is_some() {
        return Ok(None);
    }
    cast_field(stored, &to).map_err(|error| refusal(declared, error.cause()))?;
    Ok(Some(Decoding::Cast(to.into())))
}

fn image(declared: &Declared, mut shape: Vec<Option<usize>>) -> Result<Decoding> {
    let refused = |why: &str| refusal(declared, why);
    let is_16_bit = match declared.dtype {
        Dtype::UInt8 => false,
        Dtype::UInt16 => true,
        _ => return Err(refused("pixels are uint8 or uint16")),
    };
    let is_grey = match shape[..] {
        [_, _] => true,
        // The decoder delivers a grey image without a dimension for its only channel, so this dimension is
        // removed here.
        [_, _, Some(1)] => shape.pop().is_some(),
        [_, _, Some(3) | None] => {
            shape[2] = Some(3);
            false
        }
        _ => return Err(refused("images have the shape (height, width) or (height, width, 3)")),
    };
    let pixels = Pixels { is_grey, is_16_bit };
    let side = |at: usize| shape[at].and_then(|side| u32::try_from(side).ok()).filter(|side| *side > 0);
    Ok(match (side(0), side(1)) {
        (Some(height), Some(width)) => Decoding::Image(ExactImage::new(pixels, Size { height, width })),
        _ => {
            Decoding::Arrays(Arrays::new(Item::Number(pixels.data_type()), shape, CellFormat::Image(pixels)))
        }
    })
}

/// The length of each dimension; `None` if there are no dimensions, or if the length of one is 0 or varies
/// between rows.
fn one_shape(shape: &[Option<usize>]) -> Option<Vec<usize>> {
    let sides = shape.iter().map(|side| side.filter(|length| *length > 0)).collect::<Option<Vec<_>>>()?;
    (!sides.is_empty()).then_some(sides)
}

fn refusal(declared: &Declared, why: &str) -> Error {
    let sides = declared.shape.iter();
    let sides = sides.map(|side| side.map_or_else(|| "None".to_owned(), |side| side.to_string()));
    let shape = sides.collect::<Vec<_>>().join(", ");
    let codec = declared.codec.as_ref().map_or_else(|| "no codec".to_owned(), Codec::to_string);
    let cause =
        format!("{}[{shape}] of {codec} in the schema of Petastorm is not decoded: {why}", declared.dtype);
    Error::new(ErrorKind::Unsupported, cause).hint(format!(
        "leave it out of `columns`, read it as it is stored with `decode={{{:?}: None}}`, or read the data set \
         with forebay.petastorm.make_reader, which knows all codecs",
        declared.name
    ))
}

/// The Arrow type of numbers or booleans; `None` for other values, and for numbers that tensors cannot have.
fn number(dtype: Dtype) -> Option<DataType> {
    let data_type = match dtype {
        Dtype::Bool => DataType::Boolean,
        Dtype::Int8 => DataType::Int8,
        Dtype::Int16 => DataType::Int16,
        Dtype::Int32 => DataType::Int32,
        Dtype::Int64 => DataType::Int64,
        Dtype::UInt8 => DataType::UInt8,
        Dtype::UInt16 => DataType::UInt16,
        Dtype::UInt32 => DataType::UInt32,
        Dtype::UInt64 => DataType::UInt64,
        Dtype::Float16 => DataType::Float16,
        Dtype::Float32 => DataType::Float32,
        Dtype::Float64 => DataType::Float64,
        _ => return None,
    };
    name_of(&data_type).map(|_| data_type)
}

#[cfg(test)]
mod tests {
    use forebay_petastorm::SparkType;

    use super::*;
    use crate::column::{Encoding, Pad};

    fn declared(dtype: Dtype, shape: &[Option<u64>], codec: Option<Codec>) -> Declared {
        Declared { name: "x".to_owned(), dtype, shape: shape.to_vec(), codec, nullable: false }
    }

    fn decoding(
        dtype: Dtype,
        shape: &[Option<u64>],
        codec: Option<Codec>,
        stored: DataType,
    ) -> Option<Decoding> {
        let stored = Field::new("x", stored, true);
        Decoding::for_field(&declared(dtype, shape, codec), &stored, &ColumnSpec::default()).unwrap()
    }

    fn refused(dtype: Dtype, shape: &[Option<u64>], codec: Option<Codec>, stored: DataType) -> String {
        let stored = Field::new("x", stored, true);
        let refused =
            Decoding::for_field(&declared(dtype, shape, codec), &stored, &ColumnSpec::default()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unsupported);
        refused.to_string()
    }

    fn png() -> Option<Codec> {
        Some(Codec::CompressedImage { format: "png".to_owned(), quality: Some(80) })
    }

    #[test]
    fn numbers_that_are_stored_wider_are_cast_back() {
        let scalar = || Some(Codec::Scalar(SparkType::Short));
        let to_byte = Some(Decoding::Cast(DataType::UInt8.into()));
        assert_eq!(decoding(Dtype::UInt8, &[], scalar(), DataType::Int16), to_byte);
        assert_eq!(decoding(Dtype::UInt8, &[None], None, DataType::List(item(DataType::Int16))), to_byte);
        for (dtype, stored) in [
            (Dtype::Int16, DataType::Int16),
            (Dtype::Decimal, DataType::Decimal128(10, 3)),
            (Dtype::Str, DataType::Utf8View),
            (Dtype::Datetime64, DataType::Date32),
        ] {
            assert_eq!(decoding(dtype, &[], scalar(), stored), None);
        }
        assert!(refused(Dtype::UInt8, &[], scalar(), DataType::BinaryView).contains("holds binary"));
        assert!(refused(Dtype::Str, &[], None, DataType::Int64).contains("partition_types"));
        assert_eq!(decoding(Dtype::Bytes, &[], None, DataType::Utf8View), Some(Decoding::Bytes));
        assert_eq!(decoding(Dtype::Bytes, &[], None, DataType::BinaryView), None);
        let given = ColumnSpec { cast: Some(DataType::Float32.into()), ..ColumnSpec::default() };
        let stored = Field::new("x", DataType::Int16, true);
        assert_eq!(
            Decoding::for_field(&declared(Dtype::UInt8, &[], scalar()), &stored, &given).unwrap(),
            None
        );
    }

    fn item(data_type: DataType) -> std::sync::Arc<Field> {
        std::sync::Arc::new(Field::new("item", data_type, true))
    }

    #[test]
    fn arrays_of_one_shape_are_tensors_and_others_lists() {
        let bytes = DataType::BinaryView;
        let of =
            |dtype, shape: &[Option<u64>], codec| decoding(dtype, shape, Some(codec), bytes.clone()).unwrap();
        let tensor = Tensor::new(DataType::Float32, [2, 3]).format(TensorFormat::Npz);
        let found = of(Dtype::Float32, &[Some(2), Some(3)], Codec::CompressedNdarray);
        assert_eq!(found, Decoding::Tensor(tensor));
        for (dtype, shape) in [
            (Dtype::Float32, &[None, Some(3)][..]),
            (Dtype::Str, &[Some(2)]),
            (Dtype::Int8, &[]),
            (Dtype::Int8, &[Some(0)]),
        ] {
            assert!(of(dtype, shape, Codec::Ndarray).arrays().is_some(), "{dtype}{shape:?}");
        }
        let lists = Field::new("x", bytes.clone(), true);
        let matrix = declared(Dtype::Float32, &[Some(2), Some(3)], Some(Codec::Ndarray));
        for given in [
            ColumnSpec { cast: Some(DataType::Float64.into()), ..ColumnSpec::default() },
            ColumnSpec { pad: Some(Pad::new(4)), ..ColumnSpec::default() },
            ColumnSpec { encode: Some(Encoding::hash(9)), ..ColumnSpec::default() },
        ] {
            let found = Decoding::for_field(&matrix, &lists, &given).unwrap().unwrap();
            assert!(found.arrays().is_some(), "an option of lists sees lists: {given:?}");
        }
        for (dtype, why) in [
            (Dtype::Datetime64, "unit of time"),
            (Dtype::Complex64, "no column"),
            (Dtype::Object, "no column"),
        ] {
            let refused = refused(dtype, &[None], Some(Codec::Ndarray), bytes.clone());
            assert!(refused.starts_with(&format!("{dtype}[None] of NdarrayCodec()")), "{refused}");
            assert!(refused.contains(why) && refused.contains("make_reader"), "{refused}");
        }
        assert!(refused(Dtype::Int8, &[], Some(Codec::Ndarray), DataType::Int8).contains("stored as int8"));
    }

    #[test]
    fn images_of_one_size_are_exact_and_others_lists() {
        let of = |dtype, shape: &[Option<u64>]| decoding(dtype, shape, png(), DataType::BinaryView).unwrap();
        let exact = |is_grey, is_16_bit| {
            let size = Size { height: 4, width: 5 };
            Decoding::Image(ExactImage::new(Pixels { is_grey, is_16_bit }, size))
        };
        assert_eq!(of(Dtype::UInt8, &[Some(4), Some(5), Some(3)]), exact(false, false));
        assert_eq!(of(Dtype::UInt16, &[Some(4), Some(5)]), exact(true, true));
        assert_eq!(of(Dtype::UInt8, &[Some(4), Some(5), Some(1)]), exact(true, false));
        assert!(of(Dtype::UInt8, &[None, Some(5), Some(3)]).arrays().is_some());
        for (dtype, shape) in [
            (Dtype::Float32, &[Some(4), Some(5)][..]),
            (Dtype::UInt8, &[Some(4)]),
            (Dtype::UInt8, &[Some(4), Some(5), Some(4)]),
        ] {
            refused(dtype, shape, png(), DataType::BinaryView);
        }
    }
}
