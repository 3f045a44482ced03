//! The Arrow types of delivered columns, and which types are supported.

use forebay_arrow::datatypes::{DataType, Field};
use forebay_arrow::names::TypeName;
use forebay_arrow::nested::with_fields;
use forebay_arrow::vectors::{SparkMl, TYPE, VALUES};
use forebay_base::error::listed;
use forebay_base::{Error, ErrorKind, Place, Result};

/// The number of bytes of one Arrow view of a string: its length, prefix, buffer and offset.
pub(super) const VIEW_BYTES: u64 = 16;

/// The delivered field for a stored one. At every depth, strings and binary become views, dictionaries become
/// their values, and views of lists become lists; everything else is unchanged.
///
/// Views are used because they can point into the fetched bytes of uncompressed pages, and because they do
/// not limit a batch to 2 GiB.
pub(super) fn delivered(field: &Field) -> Field {
    field.clone().with_data_type(delivered_type(field.data_type()))
}

fn delivered_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::Binary | DataType::LargeBinary => DataType::BinaryView,
        DataType::Dictionary(_, value) => delivered_type(value),
        DataType::ListView(item) => delivered_type(&DataType::List(item.clone())),
        DataType::LargeListView(item) => delivered_type(&DataType::LargeList(item.clone())),
        other => with_fields(other, delivered),
    }
}

/// The number of characters after which the name of a type is abbreviated in a message.
const TYPE_SHOWN: usize = 500;
/// The largest number of refused columns that a message names.
const COLUMNS_SHOWN: usize = 20;

/// Fails if columns have unsupported types. The error names all of these columns.
pub(super) fn check_read<'a>(fields: impl Iterator<Item = &'a Field>) -> Result<()> {
    let refused: Vec<&Field> = fields.filter(|field| !is_read(field.data_type())).collect();
    match refused.as_slice() {
        [] => Ok(()),
        [field] => Err(unread(field)),
        several => {
            let named =
                several.iter().map(|field| format!("{:?} ({})", field.name(), outline(field.data_type())));
            let cause = format!(
                "{} columns are of types that are not read: {}",
                several.len(),
                listed(named, COLUMNS_SHOWN)
            );
            Err(Error::new(ErrorKind::Unsupported, cause).hint("leave them out with `columns`"))
        }
    }
}

/// The reason why a column cannot be delivered; `None` if it can be.
pub(super) fn refusal(field: &Field) -> Option<Error> {
    (!is_read(field.data_type())).then(|| unread(field))
}

fn unread(field: &Field) -> Error {
    let full = TypeName(field.data_type()).to_string();
    let shown = if full.len() <= TYPE_SHOWN { full } else { outline(field.data_type()) };
    let error = match holds_intervals(field.data_type()) {
        true => Error::new(
            ErrorKind::Unsupported,
            format!("type {shown} is not read: the months of intervals would be lost"),
        )
        .hint("leave it out with `columns`, or write it as a number or a duration"),
        false => {
            let error = Error::new(ErrorKind::Unsupported, format!("type {shown} is not read"));
            match SparkMl::from_type(field.data_type()) {
                Some(SparkMl::Matrix) => {
                    let [kind, values] = [TYPE, VALUES].map(|part| format!("{}.{part}", field.name()));
                    error.hint(format!(
                        "leave it out with `columns`, or read fields of it, such as {kind:?} and {values:?}"
                    ))
                }
                _ => error.hint("leave it out with `columns`"),
            }
        }
    };
    error.at(Place::default().column(field.name().as_str()))
}

/// Whether a type contains an interval of months, days and milliseconds. Such columns are not supported,
/// because the Parquet crate drops the months.
fn holds_intervals(data_type: &DataType) -> bool {
    match data_type {
        DataType::Interval(_) => true,
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => holds_intervals(item.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| holds_intervals(field.data_type())),
        _ => false,
    }
}

/// The name of a type in short, with only the number of fields of structures: "list<struct of 3>".
fn outline(data_type: &DataType) -> String {
    match data_type {
        DataType::List(item) | DataType::LargeList(item) => format!("list<{}>", outline(item.data_type())),
        DataType::FixedSizeList(item, length) => format!("list<{}>[{length}]", outline(item.data_type())),
        DataType::Struct(fields) => match SparkMl::from_type(data_type) {
            Some(kind) => kind.name().to_owned(),
            None => format!("struct of {}", fields.len()),
        },
        DataType::Map(..) => "map".to_owned(),
        other => TypeName(other).to_string(),
    }
}

fn is_read(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8View | DataType::BinaryView | DataType::FixedSizeBinary(_) | DataType::Null => true,
        DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..)
        | DataType::Decimal256(..) => true,
        DataType::List(item) | DataType::LargeList(item) | DataType::Map(item, _) => {
            is_read(item.data_type())
        }
        // A list of length 0 is not supported, because the Parquet crate returns no rows for it.
        DataType::FixedSizeList(item, length) => *length > 0 && is_read(item.data_type()),
        DataType::Struct(fields) => {
            SparkMl::from_type(data_type) != Some(SparkMl::Matrix)
                && !fields.is_empty()
                && fields.iter().all(|field| is_read(field.data_type()))
        }
        other => is_number(other),
    }
}

/// Whether the type is a boolean, number or time: it has a fixed width and plain values.
fn is_number(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Boolean
            | DataType::Date32
            | DataType::Date64
            | DataType::Time32(_)
            | DataType::Time64(_)
            | DataType::Timestamp(..)
            | DataType::Duration(_)
    ) || data_type.is_integer()
        || data_type.is_floating()
}

/// Whether two delivered types are the same. Nullability, metadata and the name of a list's item may differ.
pub(crate) fn same_type(a: &DataType, b: &DataType) -> bool {
    match (a, b) {
        (DataType::List(a), DataType::List(b)) | (DataType::LargeList(a), DataType::LargeList(b)) => {
            same_type(a.data_type(), b.data_type())
        }
        (DataType::FixedSizeList(a, n), DataType::FixedSizeList(b, m)) => {
            n == m && same_type(a.data_type(), b.data_type())
        }
        (DataType::Struct(a), DataType::Struct(b)) => {
            a.len() == b.len()
                && a.iter()
                    .zip(b)
                    .all(|(a, b)| a.name() == b.name() && same_type(a.data_type(), b.data_type()))
        }
        // The entries and keys of maps are never null, so their nullability may differ.
        (DataType::Map(a, _), DataType::Map(b, _)) => match (a.data_type(), b.data_type()) {
            (DataType::Struct(a), DataType::Struct(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_type(a.data_type(), b.data_type()))
            }
            _ => false,
        },
        _ => a == b,
    }
}

/// The number of bytes that one value of a Parquet column takes in Arrow memory, without the bytes that a
/// view points to.
///
/// The widest Arrow type that the values may get is assumed: 256 bits for integers that are decimals, and 64
/// bits for all other integers.
pub fn leaf_width(descriptor: &parquet::schema::types::ColumnDescriptor) -> u64 {
    use parquet::basic::Type;
    match descriptor.physical_type() {
        Type::BOOLEAN => 1,
        Type::BYTE_ARRAY => VIEW_BYTES,
        Type::FIXED_LEN_BYTE_ARRAY => u64::try_from(descriptor.type_length()).unwrap_or(0).max(VIEW_BYTES),
        Type::INT32 | Type::FLOAT | Type::INT64 | Type::DOUBLE | Type::INT96 => {
            if descriptor.type_precision() > 0 {
                2 * size_of::<u128>() as u64
            } else {
                size_of::<u64>() as u64
            }
        }
    }
}
