//! The options of a column of tensors, as a user gives them.

use forebay_arrow::datatypes::DataType;
use forebay_base::{Error, Result};
use serde::{Deserialize, Serialize};

use super::dtype::{TYPES, described, name_of, read_name, value_bytes, write_name};

/// The most dimensions of a tensor. A numpy array has at most 32, and one of them counts the rows of a batch.
pub(super) const MAX_SIDES: usize = 31;

/// Describes the tensors of a column: their type, their shape and, if they are stored as bytes, the format of
/// the bytes.
///
/// Pass it to a loader with [`LoaderBuilder::decode_tensor`](crate::LoaderBuilder::decode_tensor). The column
/// is delivered as a `FixedSizeList` with Arrow's extension type `arrow.fixed_shape_tensor`. As an array it
/// has the shape `[rows, shape...]`.
///
/// A tensor may be stored as bytes, in a column of binary values or of `struct<bytes, path>`. The bytes are
/// the values in row-major order, unless a [`format`](Self::format) is set. A tensor may also be stored as
/// one flat list, or as nested lists with one level for each dimension of the shape. Values are not cast: the
/// stored numbers must have the type that is given here.
///
/// A row is bad if its cell has another length, shape or type, if the cell is null, or if its lists contain a
/// null. [`fill_null`](crate::LoaderBuilder::fill_null) fills the tensor of a row that is null, and the null
/// numbers in a list; [`null_mask`](crate::LoaderBuilder::null_mask) says which rows are present.
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
    pub(super) dtype: DataType,
    pub(super) shape: Vec<usize>,
    #[serde(default)]
    pub(super) format: TensorFormat,
    #[serde(default)]
    pub(super) byte_order: ByteOrder,
}

impl Tensor {
    /// The names of the types that values may have, which are those of numpy.
    pub const TYPES: [&str; 12] = {
        let mut names = [""; 12];
        let mut at = 0;
        while at < names.len() {
            names[at] = TYPES[at].0;
            at += 1;
        }
        names
    };

    /// Describes tensors with this type of values and this shape. The type is boolean, or an integer or
    /// floating-point type of 8 to 64 bits. The shape has one dimension or more, each of length 1 or more,
    /// and at most 2^31 - 1 values in total. Building the loader fails for any other type or shape.
    #[must_use]
    pub fn new(dtype: DataType, shape: impl Into<Vec<usize>>) -> Self {
        Tensor {
            dtype,
            shape: shape.into(),
            format: TensorFormat::default(),
            byte_order: ByteOrder::default(),
        }
    }

    /// Sets the format in which a cell of bytes holds a tensor. Default: [`TensorFormat::Raw`], the only one
    /// for columns of lists.
    #[must_use]
    pub fn format(mut self, format: TensorFormat) -> Self {
        self.format = format;
        self
    }

    /// Reads raw values with their most significant byte first. Default: the least significant byte comes
    /// first. Files of numpy say their byte order themselves.
    #[must_use]
    pub fn big_endian(mut self) -> Self {
        self.byte_order = ByteOrder::Big;
        self
    }

    /// The shape of a row.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The type of a value.
    pub fn data_type(&self) -> &DataType {
        &self.dtype
    }

    /// The number of bytes that a value takes while a batch is made.
    pub(super) fn width(&self) -> usize {
        value_bytes(&self.dtype)
    }

    /// The type and the shape in the form for errors, such as "float32[3, 4]".
    pub(super) fn described(&self) -> String {
        described(&self.dtype, &self.shape)
    }

    /// Fails if the type or shape is not allowed for tensors, or if a byte order is set for files of numpy.
    pub(super) fn validate(&self) -> Result<()> {
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
}

/// The format in which a cell of bytes holds a tensor.
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
    /// A `.npz` file with one array, as `numpy.savez`, `numpy.savez_compressed` and Petastorm's
    /// `CompressedNdarrayCodec` write it.
    Npz,
}

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

/// The byte order of raw values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ByteOrder {
    #[default]
    Little,
    Big,
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
}
