//! The Python names that a schema's pickle may mention, as an enum: nothing is imported for them.

use forebay_base::{Error, Result};

use crate::dtype::Dtype;
use crate::fail::{foreign, unread};
use crate::spark::SparkClass;

/// The packages in which Petastorm's classes are, or were in earlier versions.
const PACKAGES: [&str; 4] = [
    "petastorm.",
    "av.experimental.deepdrive.dataset_toolkit.",
    "av.ml.dataset_toolkit.",
    "dataset_toolkit.",
];

const SPARK_TYPES: &str = "pyspark.sql.types";

/// Types that Petastorm allows in a schema and that forebay cannot read, by their Python module.
const UNREAD: [(&str, &[&str]); 2] = [
    ("numpy", &["longdouble", "clongdouble", "float128", "complex256", "void", "record"]),
    (
        SPARK_TYPES,
        &[
            "CalendarIntervalType",
            "DayTimeIntervalType",
            "MapType",
            "NullType",
            "StructType",
            "TimeType",
            "UserDefinedType",
            "VariantType",
            "YearMonthIntervalType",
        ],
    ),
];

/// A Python name that a pickle mentions. It stands for a class or function, which is never loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    /// `copy_reg._reconstructor`, which makes an object from its class, a base class and a value of the base
    /// class.
    Reconstructor,
    /// `object`, the base class of objects with attributes.
    Object,
    /// `tuple`, the base class of named tuples.
    Tuple,
    /// `collections.OrderedDict`
    OrderedDict,
    /// `pyspark.serializers._restore`, which makes a named tuple from names and values.
    Restore,
    /// `_codecs.encode`, which makes bytes from text in old pickles.
    Encode,
    /// `numpy.dtype`
    NumpyDtype,
    /// `numpy.core.multiarray.scalar`
    NumpyScalar,
    Unischema,
    UnischemaField,
    ScalarCodec,
    NdarrayCodec,
    CompressedNdarrayCodec,
    CompressedImageCodec,
    Spark(SparkClass),
    Type(Dtype),
}

impl Name {
    /// Finds `name` of the Python module `module`, or fails with the reason why a schema may not mention it.
    /// The error gives `at`, the byte offset in the pickle.
    pub(crate) fn new(module: &str, name: &str, at: usize) -> Result<Self> {
        Name::known(module, name).ok_or_else(|| refused(module, name, at))
    }

    fn known(module: &str, name: &str) -> Option<Self> {
        if let Some(module) = PACKAGES.iter().find_map(|package| module.strip_prefix(package)) {
            return Name::of_petastorm(module, name);
        }
        Some(match (module, name) {
            ("copy_reg" | "copyreg", "_reconstructor") => Name::Reconstructor,
            ("__builtin__" | "builtins", _) => return Name::of_python(name),
            ("collections", "OrderedDict") => Name::OrderedDict,
            ("pyspark.serializers", "_restore") => Name::Restore,
            ("_codecs", "encode") => Name::Encode,
            ("decimal" | "_decimal" | "_pydecimal", "Decimal") => Name::Type(Dtype::Decimal),
            ("numpy", "dtype") => Name::NumpyDtype,
            ("numpy.core.multiarray" | "numpy._core.multiarray", "scalar") => Name::NumpyScalar,
            ("numpy", _) => Name::Type(Dtype::of_numpy(name)?),
            (SPARK_TYPES, _) => Name::Spark(SparkClass::of_name(name)?),
            _ => return None,
        })
    }

    fn of_petastorm(module: &str, name: &str) -> Option<Self> {
        Some(match (module, name) {
            ("unischema", "Unischema") => Name::Unischema,
            ("unischema", "UnischemaField") => Name::UnischemaField,
            ("codecs", "ScalarCodec") => Name::ScalarCodec,
            ("codecs", "NdarrayCodec") => Name::NdarrayCodec,
            ("codecs", "CompressedNdarrayCodec") => Name::CompressedNdarrayCodec,
            ("codecs", "CompressedImageCodec") => Name::CompressedImageCodec,
            _ => return None,
        })
    }

    fn of_python(name: &str) -> Option<Self> {
        Some(match name {
            "object" => Name::Object,
            "tuple" => Name::Tuple,
            "bool" => Name::Type(Dtype::Bool),
            "int" | "long" => Name::Type(Dtype::Int64),
            "float" => Name::Type(Dtype::Float64),
            "complex" => Name::Type(Dtype::Complex128),
            "str" | "unicode" => Name::Type(Dtype::Str),
            "bytes" => Name::Type(Dtype::Bytes),
            _ => return None,
        })
    }
}

fn refused(module: &str, name: &str, at: usize) -> Error {
    match UNREAD.iter().any(|(known, names)| *known == module && names.contains(&name)) {
        true => unread(at, module, name),
        false => foreign(at, module, name),
    }
}
