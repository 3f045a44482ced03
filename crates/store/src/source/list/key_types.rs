//! The types that a user declares for the keys of `key=value` folders.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{NaiveDate, NaiveDateTime};
use forebay_arrow::array::{
    ArrayRef, BooleanArray, Date32Array, PrimitiveArray, StringViewArray, TimestampMicrosecondArray,
};
use forebay_arrow::datatypes::*;
use forebay_arrow::names::TypeName;
use forebay_base::{Error, Place, Result};

use crate::snapshot::DataFile;

const KINDS: &str = "keys are text, integers, 32-bit or 64-bit floats, booleans, dates, or times in microseconds without a zone";

/// The declared types of keys of `key=value` folders, by the names of the keys.
#[derive(Clone, Debug, Default)]
pub struct KeyTypes(BTreeMap<String, DataType>);

impl KeyTypes {
    /// Creates the types. Every Arrow type of text becomes `Utf8View`, the type in which text is delivered.
    ///
    /// # Errors
    /// `Invalid` if a key cannot have its declared type.
    pub fn new(types: BTreeMap<String, DataType>) -> Result<Self> {
        let each = types.into_iter().map(|(name, data_type)| {
            let data_type = match data_type {
                DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
                other => other,
            };
            match column(&data_type, Some("")) {
                Parsed::Other => Err(Error::invalid(format!("holds no {}", TypeName(&data_type)))
                    .at(Place::default().column(name))
                    .hint(KINDS)),
                _ => Ok((name, data_type)),
            }
        });
        each.collect::<Result<_>>().map(KeyTypes)
    }

    pub(super) fn get(&self, key: &str) -> Option<&DataType> {
        self.0.get(key)
    }

    /// Fails if a type is declared for a key that no folder has.
    pub(in crate::source) fn check(&self, files: &[DataFile]) -> Result<()> {
        let is_there = |name: &str| files.iter().any(|file| file.keys.iter().any(|key| key.name == name));
        match self.0.keys().find(|name| !is_there(name)) {
            Some(name) => Err(Error::invalid("a type is declared for a key that is in no folder's name")
                .at(Place::default().column(name.as_str()))
                .hint("declare types for the keys of key=value folders below the location")),
            None => Ok(()),
        }
    }
}

enum Parsed {
    Column(ArrayRef),
    /// The text of the key's value cannot be parsed as the type.
    Malformed,
    /// A key cannot have this type.
    Other,
}

/// Parses the value of a key, and returns it as an array of one row.
///
/// # Errors
/// `Invalid` if the text cannot be parsed as the type.
pub(super) fn value(data_type: &DataType, text: Option<&str>) -> Result<ArrayRef> {
    match column(data_type, text) {
        Parsed::Column(column) => Ok(column),
        _ => {
            let text = text.unwrap_or_default();
            Err(Error::invalid(format!(
                "{text:?} in its folder's name is not a value of type {}",
                TypeName(data_type)
            ))
            .hint("declare another type for the key, or none"))
        }
    }
}

fn column(data_type: &DataType, text: Option<&str>) -> Parsed {
    macro_rules! number {
        ($type:ty) => {
            parsed::<$type>(text, |text| text.parse().ok())
        };
    }
    let date = |text: &str| Some(days(NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?));
    match data_type {
        DataType::Utf8View => Parsed::Column(Arc::new(StringViewArray::from(vec![text]))),
        DataType::Int8 => number!(Int8Type),
        DataType::Int16 => number!(Int16Type),
        DataType::Int32 => number!(Int32Type),
        DataType::Int64 => number!(Int64Type),
        DataType::UInt8 => number!(UInt8Type),
        DataType::UInt16 => number!(UInt16Type),
        DataType::UInt32 => number!(UInt32Type),
        DataType::UInt64 => number!(UInt64Type),
        DataType::Float32 => number!(Float32Type),
        DataType::Float64 => number!(Float64Type),
        DataType::Boolean => match text.map(|text| text.to_ascii_lowercase().parse().ok()) {
            Some(None) => Parsed::Malformed,
            value => Parsed::Column(Arc::new(BooleanArray::from(vec![value.flatten()]))),
        },
        DataType::Date32 => match text.map(date) {
            Some(None) => Parsed::Malformed,
            value => Parsed::Column(Arc::new(Date32Array::from(vec![value.flatten()]))),
        },
        DataType::Timestamp(TimeUnit::Microsecond, None) => match text.map(microseconds) {
            Some(None) => Parsed::Malformed,
            value => Parsed::Column(Arc::new(TimestampMicrosecondArray::from(vec![value.flatten()]))),
        },
        _ => Parsed::Other,
    }
}

fn parsed<T: ArrowPrimitiveType>(text: Option<&str>, parse: impl Fn(&str) -> Option<T::Native>) -> Parsed {
    match text.map(parse) {
        Some(None) => Parsed::Malformed,
        value => Parsed::Column(Arc::new(PrimitiveArray::<T>::from_iter([value.flatten()]))),
    }
}

/// The number of days since 1970. It fits in 32 bits for every date that can be parsed.
fn days(date: NaiveDate) -> i32 {
    date.signed_duration_since(NaiveDate::default()).num_days() as i32
}

fn microseconds(text: &str) -> Option<i64> {
    let formats = ["%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M:%S%.f"];
    let time = formats.iter().find_map(|format| NaiveDateTime::parse_from_str(text, format).ok());
    let time = time.or_else(|| NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?.and_hms_opt(0, 0, 0))?;
    // A time with more digits than microseconds is refused instead of rounded.
    let utc = time.and_utc();
    (utc.timestamp_subsec_nanos() % 1000 == 0).then(|| utc.timestamp_micros())
}
