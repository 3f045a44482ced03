//! The codecs of Petastorm: how the values of a field are stored in cells.

use std::fmt;

use crate::spark::SparkType;

/// How Petastorm stored the values of a field.
///
/// ```
/// use forebay_petastorm::{Codec, SparkType};
///
/// let codec = Codec::CompressedImage { format: "png".to_owned(), quality: Some(80) };
/// assert_eq!(codec.to_string(), "CompressedImageCodec('png', 80)");
/// assert_eq!(Codec::Scalar(SparkType::Integer).to_string(), "ScalarCodec(IntegerType())");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Codec {
    /// One value, in a column of this Spark type. Spark has no unsigned types, so some values are stored in a
    /// wider type, such as `uint8` in `Short`.
    Scalar(SparkType),
    /// The bytes that `numpy.save` writes.
    Ndarray,
    /// The bytes that `numpy.savez_compressed` writes, with one array named `arr`.
    CompressedNdarray,
    /// An image that OpenCV encoded.
    CompressedImage {
        /// The name of the format as OpenCV or PIL takes it, without a dot, such as `png`, `jpeg` or `jpg`.
        format: String,
        /// The quality, which only JPEG uses. Petastorm's default is 80. Schemas before Petastorm 0.3 have no
        /// quality.
        quality: Option<u32>,
    },
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Codec::Scalar(spark_type) => write!(f, "ScalarCodec({spark_type})"),
            Codec::Ndarray => f.write_str("NdarrayCodec()"),
            Codec::CompressedNdarray => f.write_str("CompressedNdarrayCodec()"),
            Codec::CompressedImage { format, quality: Some(quality) } => {
                write!(f, "CompressedImageCodec('{format}', {quality})")
            }
            Codec::CompressedImage { format, quality: None } => write!(f, "CompressedImageCodec('{format}')"),
        }
    }
}
