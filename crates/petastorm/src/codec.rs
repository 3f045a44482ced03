//! How the values of a field are stored.

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
    /// One value, in a column of this type of Spark. Narrow types are stored wider: `uint8` as `Short`.
    Scalar(SparkType),
    /// The bytes of `numpy.save`.
    Ndarray,
    /// The bytes of `numpy.savez_compressed`, with the one array `arr`.
    CompressedNdarray,
    /// An image that OpenCV encoded.
    CompressedImage {
        /// The name of the format as OpenCV or PIL takes it, without a dot: `png`, `jpeg`, `jpg`.
        format: String,
        /// The quality that was asked for, 80 unless chosen; JPEG uses it. Schemas before Petastorm 0.3 have
        /// none.
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
