//! The Spark types that a Petastorm schema can give its columns, and their names.

use std::fmt;

/// The Spark type that a column was written with.
///
/// ```
/// use forebay_petastorm::SparkType;
///
/// assert_eq!(SparkType::Decimal { precision: 10, scale: 9 }.to_string(), "DecimalType(10,9)");
/// assert_eq!(SparkType::Array(Box::new(SparkType::Long)).to_string(), "ArrayType(LongType())");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SparkType {
    /// `BinaryType()`
    Binary,
    /// `BooleanType()`
    Boolean,
    /// `ByteType()`: 8 bits
    Byte,
    /// `ShortType()`: 16 bits
    Short,
    /// `IntegerType()`: 32 bits
    Integer,
    /// `LongType()`: 64 bits
    Long,
    /// `FloatType()`: 32 bits
    Float,
    /// `DoubleType()`: 64 bits
    Double,
    /// `StringType()`
    String,
    /// `DateType()`
    Date,
    /// `TimestampType()`: an instant
    Timestamp,
    /// `TimestampNTZType()`: a time without a zone
    TimestampNtz,
    /// `DecimalType(precision, scale)`
    Decimal {
        /// The total number of digits.
        precision: u32,
        /// The number of digits after the point.
        scale: i32,
    },
    /// `CharType(length)`
    Char(u32),
    /// `VarcharType(length)`
    Varchar(u32),
    /// `ArrayType(element)`, which old versions of Petastorm's `ScalarCodec` accepted
    Array(Box<SparkType>),
}

/// The types that take no arguments, with the names of their classes in Spark.
const PLAIN: [(&str, SparkType); 12] = [
    ("BinaryType", SparkType::Binary),
    ("BooleanType", SparkType::Boolean),
    ("ByteType", SparkType::Byte),
    ("ShortType", SparkType::Short),
    ("IntegerType", SparkType::Integer),
    ("LongType", SparkType::Long),
    ("FloatType", SparkType::Float),
    ("DoubleType", SparkType::Double),
    ("StringType", SparkType::String),
    ("DateType", SparkType::Date),
    ("TimestampType", SparkType::Timestamp),
    ("TimestampNTZType", SparkType::TimestampNtz),
];

/// A class in `pyspark.sql.types`, without the arguments that an instance of it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SparkClass {
    /// A class whose instances take no arguments: its index in `PLAIN`.
    Plain(u8),
    Decimal,
    Char,
    Varchar,
    Array,
}

impl SparkClass {
    /// The class called `name` in `pyspark.sql.types`.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        Some(match name {
            "DecimalType" => SparkClass::Decimal,
            "CharType" => SparkClass::Char,
            "VarcharType" => SparkClass::Varchar,
            "ArrayType" => SparkClass::Array,
            _ => SparkClass::Plain((0..).zip(&PLAIN).find(|(_, (known, _))| *known == name)?.0),
        })
    }

    /// The type that the class stands for, if it takes no arguments.
    pub(crate) fn plain(self) -> Option<SparkType> {
        match self {
            SparkClass::Plain(place) => {
                PLAIN.get(usize::from(place)).map(|(_, spark_type)| spark_type.clone())
            }
            _ => None,
        }
    }
}

impl fmt::Display for SparkType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SparkType::Decimal { precision, scale } => write!(f, "DecimalType({precision},{scale})"),
            SparkType::Char(length) => write!(f, "CharType({length})"),
            SparkType::Varchar(length) => write!(f, "VarcharType({length})"),
            SparkType::Array(element) => write!(f, "ArrayType({element})"),
            plain => {
                let name = PLAIN.iter().find(|(_, known)| known == plain).map_or("", |(name, _)| name);
                write!(f, "{name}()")
            }
        }
    }
}
