//! What the schema of Petastorm says of a column, as the options that a user would give for it.

use forebay_arrow::datatypes::{DataType, Field};
use forebay_base::{Error, ErrorKind, Result};
use forebay_petastorm::{Codec, Dtype, Field as Declared};

use super::tensors::name_of;
use super::{ColumnSpec, Tensor, TensorFormat, cast_field};

/// The next move where a column is not decoded by its schema.
const BY_HAND: &str = "leave it out of `columns`, or read the data set with forebay.petastorm.make_reader, which knows all codecs";

/// How a column that is stored like this is delivered where the user says nothing of it.
///
/// Fails with `Unsupported` for values that no option decodes.
pub(crate) fn declared_options(declared: &Declared, stored: &Field) -> Result<ColumnSpec> {
    let mut options = ColumnSpec::default();
    match &declared.codec {
        None | Some(Codec::Scalar(_)) => {
            options.cast = number(declared.dtype)
                .filter(|to| to != stored.data_type() && cast_field(stored, to).is_ok())
                .map(Into::into);
        }
        Some(Codec::Ndarray) => options.tensors = Some(tensor(declared)?.format(TensorFormat::Npy)),
        Some(Codec::CompressedNdarray) => options.tensors = Some(tensor(declared)?.format(TensorFormat::Npz)),
        Some(codec @ Codec::CompressedImage { .. }) => return Err(refused(declared, codec)),
    }
    Ok(options)
}

fn tensor(declared: &Declared) -> Result<Tensor> {
    let codec = declared.codec.as_ref();
    let refused = || codec.map_or_else(|| Error::invalid("no codec"), |codec| refused(declared, codec));
    let sides = declared.shape.iter().map(|side| usize::try_from((*side)?).ok().filter(|side| *side > 0));
    let sides: Option<Vec<usize>> = sides.collect();
    match (number(declared.dtype), sides) {
        (Some(dtype), Some(sides)) if !sides.is_empty() => Ok(Tensor::new(dtype, sides)),
        _ => Err(refused()),
    }
}

fn refused(declared: &Declared, codec: &Codec) -> Error {
    let sides =
        declared.shape.iter().map(|side| side.map_or_else(|| "?".to_owned(), |side| side.to_string()));
    let shape = sides.collect::<Vec<_>>().join(", ");
    let cause = format!("holds {}[{shape}] of {codec}, which is not decoded", declared.dtype);
    Error::new(ErrorKind::Unsupported, cause).hint(BY_HAND)
}

/// The type of a number or a boolean.
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
    use super::*;
    use forebay_petastorm::SparkType;

    fn declared(dtype: Dtype, shape: &[Option<u64>], codec: Option<Codec>) -> Declared {
        Declared { name: "x".to_owned(), dtype, shape: shape.to_vec(), codec, nullable: false }
    }

    #[test]
    fn numbers_that_are_stored_wider_are_cast_back() {
        let short = Field::new("x", DataType::Int16, false);
        let scalar = Some(Codec::Scalar(SparkType::Short));
        let cast = |dtype: Dtype, stored: &Field| {
            let options = declared_options(&declared(dtype, &[], scalar.clone()), stored).unwrap();
            options.cast.map(|cast| cast.data_type().clone())
        };
        assert_eq!(cast(Dtype::UInt8, &short), Some(DataType::UInt8));
        assert_eq!(cast(Dtype::Int16, &short), None);
        assert_eq!(cast(Dtype::Decimal, &short), None);
        assert_eq!(cast(Dtype::Str, &Field::new("x", DataType::Utf8View, true)), None);
    }

    #[test]
    fn arrays_of_one_shape_are_tensors_and_others_refused() {
        let bytes = Field::new("x", DataType::BinaryView, false);
        let of = |dtype, shape: &[Option<u64>], codec| {
            declared_options(&declared(dtype, shape, Some(codec)), &bytes)
        };
        let whole = of(Dtype::Float32, &[Some(2), Some(3)], Codec::CompressedNdarray).unwrap();
        let tensor = Tensor::new(DataType::Float32, [2, 3]).format(TensorFormat::Npz);
        assert_eq!(whole.tensors, Some(tensor));
        for (dtype, shape) in
            [(Dtype::Float32, &[None, Some(3)][..]), (Dtype::Str, &[Some(2)]), (Dtype::Int8, &[])]
        {
            let refused = of(dtype, shape, Codec::Ndarray).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Unsupported);
        }
        let refused = of(Dtype::Float32, &[None, Some(3)], Codec::Ndarray).unwrap_err().to_string();
        assert!(
            refused.starts_with("holds float32[?, 3] of NdarrayCodec(), which is not decoded"),
            "{refused}"
        );
    }
}
