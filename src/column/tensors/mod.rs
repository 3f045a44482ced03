//! Columns of tensors of one shape that are stored as bytes, as numpy's files, or as lists.

mod bytes;
mod declared;
mod lists;
pub(super) mod npy;
pub(super) mod npz;

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::cell::holds_bytes;
use super::{Codec, Column, ColumnOption, Noun, NullOptions};
use bytes::BytesCodec;
pub(crate) use declared::{Declared, tensor_shape};
use forebay_arrow::datatypes::{DataType, Field};
use forebay_base::{Error, Result};
use lists::ListsCodec;

/// The tensors of a column: type and shape of each, and how a cell of bytes holds one.
///
/// Pass it to a loader with [`LoaderBuilder::decode_tensor`](crate::LoaderBuilder::decode_tensor). The column is delivered
/// as images are: a `FixedSizeList` with Arrow's extension type `arrow.fixed_shape_tensor`, of shape `[rows, shape...]`.
///
/// A column of binary values, or of `struct<bytes, path>`, has the values one after the other in row-major order, or is in
/// another [`format`](Self::format). A column of lists has them as one list for each row, or as lists nested as deep as the
/// shape has sides. Nothing is cast: the type of the values is that of the column or of the file.
///
/// A cell of another length, shape or type is a bad row, and so is a null, or one within a list.
/// [`fill_null`](crate::LoaderBuilder::fill_null) fills the tensor of a row that is null, and the numbers that are null in a
/// list of numbers; [`null_mask`](crate::LoaderBuilder::null_mask) says which rows are there.
///
/// ```no_run
/// use forebay::arrow::datatypes::DataType;
/// use forebay::Dataset;
/// use forebay::column::{Tensor, TensorFormat};
///
/// let loader = Dataset::open("data/")?
///     .loader()
///     .decode_tensor("embedding", Tensor::new(DataType::Float32, [768]))
///     .decode_tensor("spectrum", Tensor::new(DataType::Int16, [2, 512]).big_endian())
///     .decode_tensor("matrix", Tensor::new(DataType::Float64, [3, 4]).format(TensorFormat::Npy))
///     .build()?;
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tensor {
    #[serde(serialize_with = "write_name", deserialize_with = "read_name")]
    dtype: DataType,
    shape: Vec<usize>,
    #[serde(default)]
    format: TensorFormat,
    #[serde(default)]
    byte_order: ByteOrder,
}

/// How a cell of bytes holds a tensor.
///
/// ```
/// use forebay::column::TensorFormat;
///
/// assert_eq!(TensorFormat::default(), TensorFormat::Raw);
/// assert_eq!(TensorFormat::Npy.name(), "npy");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum TensorFormat {
    /// The values alone, in row-major order.
    #[default]
    Raw,
    /// A `.npy` file of numpy, as `numpy.save` and Petastorm's `NdarrayCodec` write it.
    Npy,
    /// A `.npz` file with one array, as `numpy.savez`, `numpy.savez_compressed` and Petastorm's `CompressedNdarrayCodec`
    /// write it.
    Npz,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ByteOrder {
    #[default]
    Little,
    Big,
}

/// Sides of a tensor: numpy has arrays of 32, and rows are one of them.
const MAX_SIDES: usize = 31;

/// The types of values, by the names that numpy has for them.
const TYPES: [(&str, DataType); 12] = [
    ("bool", DataType::Boolean),
    ("int8", DataType::Int8),
    ("int16", DataType::Int16),
    ("int32", DataType::Int32),
    ("int64", DataType::Int64),
    ("uint8", DataType::UInt8),
    ("uint16", DataType::UInt16),
    ("uint32", DataType::UInt32),
    ("uint64", DataType::UInt64),
    ("float16", DataType::Float16),
    ("float32", DataType::Float32),
    ("float64", DataType::Float64),
];

impl TensorFormat {
    /// All formats.
    pub const ALL: [TensorFormat; 3] = [TensorFormat::Raw, TensorFormat::Npy, TensorFormat::Npz];

    /// The name: `raw`, `npy` or `npz`.
    pub fn name(self) -> &'static str {
        match self {
            TensorFormat::Raw => "raw",
            TensorFormat::Npy => "npy",
            TensorFormat::Npz => "npz",
        }
    }
}

impl Tensor {
    /// The names of the types that values may have: numpy's.
    pub const TYPES: [&str; 12] = {
        let mut names = [""; 12];
        let mut at = 0;
        while at < names.len() {
            names[at] = TYPES[at].0;
            at += 1;
        }
        names
    };

    /// Tensors with values of one type and of one shape: a boolean, an integer or a floating-point number of 8 to 64 bits,
    /// and one side or more, each of 1 or more, up to 2^31 - 1 values. Other ones are refused when the loader is built.
    #[must_use]
    pub fn new(dtype: DataType, shape: impl Into<Vec<usize>>) -> Self {
        Tensor {
            dtype,
            shape: shape.into(),
            format: TensorFormat::default(),
            byte_order: ByteOrder::default(),
        }
    }

    /// How a cell of bytes holds a tensor. Default: [`TensorFormat::Raw`]. Columns of lists have no other.
    #[must_use]
    pub fn format(mut self, format: TensorFormat) -> Self {
        self.format = format;
        self
    }

    /// The values of raw cells have their most significant byte first. Default: the least significant one. Files of numpy
    /// say it themselves.
    #[must_use]
    pub fn big_endian(mut self) -> Self {
        self.byte_order = ByteOrder::Big;
        self
    }

    /// The shape of one row.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The type of a value.
    pub fn data_type(&self) -> &DataType {
        &self.dtype
    }

    /// Bytes of one value in a slot.
    fn width(&self) -> usize {
        value_bytes(&self.dtype)
    }

    /// Type and shape, as errors name them: "float32[3, 4]".
    fn described(&self) -> String {
        described(&self.dtype, &self.shape)
    }

    /// Refuses what can never work.
    fn validate(&self) -> Result<()> {
        if name_of(&self.dtype).is_none() {
            return Err(Error::invalid(format!("a tensor of {} values", self.dtype))
                .hint(format!("values are one of {}", Tensor::TYPES.join(", "))));
        }
        if self.shape.is_empty() || self.shape.contains(&0) {
            return Err(Error::invalid(format!("a tensor of shape {:?}", self.shape))
                .hint("a row has one side or more, each of 1 or more"));
        }
        if self.shape.len() > MAX_SIDES {
            let cause = format!("a tensor of {} sides", self.shape.len());
            return Err(Error::invalid(cause).hint(format!("up to {MAX_SIDES}, as numpy has them")));
        }
        if self.byte_order == ByteOrder::Big && self.format != TensorFormat::Raw {
            let cause = format!("a byte order is given for {} cells", self.format.name());
            return Err(Error::invalid(cause).hint("files of numpy say it themselves: leave it out"));
        }
        Ok(())
    }

    /// The codec for a column that is stored so.
    ///
    /// # Errors
    /// The column does not hold such tensors, or they can never work, or a fill is not one of their values.
    pub(crate) fn codec(&self, stored: &Field, nulls: NullOptions<'_>) -> Result<Codec> {
        self.validate()?;
        if holds_bytes(stored.data_type()) {
            return Ok(Codec::Cells(Arc::new(BytesCodec::new(self.clone(), stored.data_type(), nulls)?)));
        }
        Ok(Codec::Gather(Arc::new(ListsCodec::new(self.clone(), stored.data_type(), nulls)?)))
    }
}

impl ColumnOption for Tensor {
    fn keyword(_: &'static str) -> &'static str {
        "decode"
    }

    fn takes_whole() -> bool {
        true
    }

    fn column(&self, stored: &Field, nulls: NullOptions<'_>) -> Result<Option<Column>> {
        Column::of(self.codec(stored, nulls)?, stored).map(Some)
    }
}

const NOUN: Noun = Noun { one: "a tensor", several: "tensors" };

fn described(dtype: &DataType, shape: &[usize]) -> String {
    match name_of(dtype) {
        Some(name) => format!("{name}{shape:?}"),
        None => format!("{dtype}{shape:?}"),
    }
}

/// Bytes of one value; of a boolean, as long as it is in a slot.
fn value_bytes(dtype: &DataType) -> usize {
    match dtype {
        DataType::Boolean => 1,
        other => other.primitive_width().unwrap_or(0),
    }
}

/// The name of a type that values may have.
pub(super) fn name_of(dtype: &DataType) -> Option<&'static str> {
    TYPES.iter().find(|(_, found)| found == dtype).map(|(name, _)| *name)
}

/// The type with this name.
fn type_of(name: &str) -> Option<DataType> {
    TYPES.into_iter().find(|(found, _)| *found == name).map(|(_, dtype)| dtype)
}

/// The levels of lists of a type, with the length of those that have one, and the type of the values in them.
fn levels(mut data_type: &DataType) -> (Vec<Option<usize>>, &DataType) {
    let mut levels = Vec::new();
    loop {
        let (item, length) = match data_type {
            DataType::List(item) | DataType::LargeList(item) => (item, None),
            DataType::FixedSizeList(item, length) => (item, usize::try_from(*length).ok()),
            values => return (levels, values),
        };
        levels.push(length);
        data_type = item.data_type();
    }
}

fn write_name<S: Serializer>(dtype: &DataType, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    match name_of(dtype) {
        Some(name) => serializer.serialize_str(name),
        None => Err(serde::ser::Error::custom(format!("a tensor of {dtype} values"))),
    }
}

/// Reads the name of a type.
pub(super) fn read_name<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<DataType, D::Error> {
    let given = String::deserialize(deserializer)?;
    type_of(&given).ok_or_else(|| {
        serde::de::Error::custom(format!("{given:?} is not one of {}", Tensor::TYPES.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tensor_is_read_as_it_was_written() {
        let tensors = [
            Tensor::new(DataType::Float32, [3, 4]),
            Tensor::new(DataType::Boolean, [7]).format(TensorFormat::Npz),
            Tensor::new(DataType::UInt16, vec![1, 2, 3]).big_endian(),
        ];
        for tensor in tensors {
            let text = serde_json::to_string(&tensor).unwrap();
            assert_eq!(serde_json::from_str::<Tensor>(&text).unwrap(), tensor, "{text}");
        }
        let short: Tensor = serde_json::from_str(r#"{"dtype": "int8", "shape": [2]}"#).unwrap();
        assert_eq!(short, Tensor::new(DataType::Int8, [2]));
        for text in [
            r#"{"dtype": "int7", "shape": [2]}"#,
            r#"{"dtype": "int8", "shape": [-2]}"#,
            r#"{"dtype": "int8", "shape": [2], "format": "npx"}"#,
            r#"{"dtype": "int8", "shape": [2], "order": "big"}"#,
        ] {
            assert!(serde_json::from_str::<Tensor>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_tensor_that_can_never_work_is_refused() {
        let cells = Field::new("x", DataType::BinaryView, true);
        let list = |item: DataType| DataType::List(Arc::new(Field::new("item", item, true)));
        let fixed = DataType::FixedSizeList(Arc::new(Field::new("item", DataType::Float32, true)), 5);
        let lists = |data_type: DataType| Field::new("x", data_type, true);
        let float = |shape: &[usize]| Tensor::new(DataType::Float32, shape);
        for (tensor, stored, said) in [
            (Tensor::new(DataType::Date32, [2]), &cells, "Date32 values"),
            (float(&[]), &cells, "shape []"),
            (float(&[2, 0]), &cells, "shape [2, 0]"),
            (float(&[1 << 20, 1 << 20]), &cells, "more than 2^31"),
            (float(&[1; 32]), &cells, "32 sides"),
            (float(&[2]).big_endian().format(TensorFormat::Npy), &cells, "byte order"),
            (float(&[2]), &Field::new("x", DataType::Utf8View, true), "holds string"),
            (float(&[2]), &lists(list(DataType::Float64)), "values are float64, not float32"),
            (float(&[2]), &lists(list(DataType::Utf8View)), "values are string, not float32"),
            (float(&[2, 2, 2]), &lists(list(list(DataType::Float32))), "lists 2 deep"),
            (float(&[2, 2]), &lists(fixed), "lists of 5 values"),
            (float(&[2]).format(TensorFormat::Npy), &lists(list(DataType::Float32)), "no npy cells"),
            (float(&[3]), &Field::new("x", DataType::FixedSizeBinary(10), true), "10 bytes"),
        ] {
            let refused = tensor
                .codec(stored, NullOptions::default())
                .and_then(|codec| Column::of(codec, stored))
                .unwrap_err();
            assert!(refused.to_string().contains(said), "{refused}");
        }
    }
}
