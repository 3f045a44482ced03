//! Names of types in messages, as the documentation, numpy and pyarrow write them.
//!
//! Arrow's own names say how values are laid out in memory, which a user did not choose: a text is `Utf8View`
//! when it is read, and `LargeUtf8` when it is delivered.

use std::fmt;

use super::datatypes::{DataType, IntervalUnit, TimeUnit};
use super::vectors::SparkMl;

/// Shows the name of a type, such as `int64`, `string`, `list<float32>[4]` or `struct<x: int32, y: string>`.
#[derive(Clone, Copy, Debug)]
pub struct TypeName<'a>(pub &'a DataType);

impl fmt::Display for TypeName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            DataType::Boolean => f.write_str("bool"),
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => f.write_str("string"),
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => f.write_str("binary"),
            DataType::FixedSizeBinary(length) => write!(f, "binary[{length}]"),
            DataType::Timestamp(unit, None) => write!(f, "timestamp[{}]", short(*unit)),
            DataType::Timestamp(unit, Some(zone)) => write!(f, "timestamp[{}, {zone}]", short(*unit)),
            DataType::Time32(unit) => write!(f, "time32[{}]", short(*unit)),
            DataType::Time64(unit) => write!(f, "time64[{}]", short(*unit)),
            DataType::Duration(unit) => write!(f, "duration[{}]", short(*unit)),
            DataType::Interval(IntervalUnit::YearMonth) => f.write_str("interval of months"),
            DataType::Interval(_) => f.write_str("interval"),
            DataType::Decimal32(digits, scale) => write!(f, "decimal32({digits}, {scale})"),
            DataType::Decimal64(digits, scale) => write!(f, "decimal64({digits}, {scale})"),
            DataType::Decimal128(digits, scale) => write!(f, "decimal128({digits}, {scale})"),
            DataType::Decimal256(digits, scale) => write!(f, "decimal256({digits}, {scale})"),
            DataType::List(item)
            | DataType::LargeList(item)
            | DataType::ListView(item)
            | DataType::LargeListView(item) => write!(f, "list<{}>", TypeName(item.data_type())),
            DataType::FixedSizeList(item, length) => {
                write!(f, "list<{}>[{length}]", TypeName(item.data_type()))
            }
            DataType::Struct(fields) => {
                if let Some(kind) = SparkMl::from_type(self.0) {
                    return f.write_str(kind.name());
                }
                f.write_str("struct<")?;
                for (at, field) in fields.iter().enumerate() {
                    let separator = if at > 0 { ", " } else { "" };
                    write!(f, "{separator}{}: {}", field.name(), TypeName(field.data_type()))?;
                }
                f.write_str(">")
            }
            DataType::Map(entries, _) => match entries.data_type() {
                DataType::Struct(fields) if fields.len() == 2 => {
                    let of = |at: usize| TypeName(fields[at].data_type());
                    write!(f, "map<{}, {}>", of(0), of(1))
                }
                other => write!(f, "map<{}>", TypeName(other)),
            },
            DataType::Dictionary(_, values) => write!(f, "{}", TypeName(values)),
            DataType::RunEndEncoded(_, values) => write!(f, "{}", TypeName(values.data_type())),
            // The names of the remaining types differ from Arrow's only in case. Unions do not occur, because
            // Parquet has none.
            other => f.write_str(&other.to_string().to_lowercase()),
        }
    }
}

/// Names two different types so that a reader can tell them apart. If their [names](TypeName) are equal, the
/// types differ only in details such as the memory layout, so Arrow's own names are returned.
pub fn told_apart(one: &DataType, other: &DataType) -> (String, String) {
    let names = (TypeName(one).to_string(), TypeName(other).to_string());
    match names.0 == names.1 {
        true => (one.to_string(), other.to_string()),
        false => names,
    }
}

fn short(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::datatypes::Field;
    use super::super::vectors::tests::vector;
    use super::*;

    #[test]
    fn names_are_those_that_users_know() {
        let field = |name: &str, data_type: DataType| Arc::new(Field::new(name, data_type, true));
        let list = |item: DataType| DataType::List(field("element", item));
        let pair = vec![field("x", DataType::Int32), field("y", DataType::Utf8View)];
        let pair = DataType::Struct(pair.into());
        let zone: Arc<str> = "UTC".into();
        for (data_type, name) in [
            (DataType::UInt64, "uint64"),
            (DataType::Float16, "float16"),
            (DataType::Date32, "date32"),
            (DataType::Null, "null"),
            (DataType::Boolean, "bool"),
            (DataType::Utf8View, "string"),
            (DataType::LargeUtf8, "string"),
            (DataType::BinaryView, "binary"),
            (DataType::FixedSizeBinary(16), "binary[16]"),
            (DataType::Timestamp(TimeUnit::Microsecond, None), "timestamp[us]"),
            (DataType::Timestamp(TimeUnit::Nanosecond, Some(zone)), "timestamp[ns, UTC]"),
            (DataType::Time64(TimeUnit::Microsecond), "time64[us]"),
            (DataType::Decimal128(9, 2), "decimal128(9, 2)"),
            (DataType::Interval(IntervalUnit::MonthDayNano), "interval"),
            (list(list(DataType::Utf8View)), "list<list<string>>"),
            (DataType::FixedSizeList(field("item", DataType::Float32), 4), "list<float32>[4]"),
            (list(pair.clone()), "list<struct<x: int32, y: string>>"),
            (DataType::Map(field("entries", pair), false), "map<int32, string>"),
            (list(vector()), "list<vector of Spark ML>"),
        ] {
            assert_eq!(TypeName(&data_type).to_string(), name);
        }
    }

    #[test]
    fn types_that_differ_have_names_that_differ() {
        let item = |data_type: DataType| Arc::new(Field::new("item", data_type, true));
        let list = DataType::List(item(DataType::Int64));
        let named = |other: &DataType| told_apart(&list, other);
        assert_eq!(named(&DataType::List(item(DataType::Int8))), ("list<int64>".into(), "list<int8>".into()));
        let (one, other) = named(&DataType::LargeList(item(DataType::Int64)));
        assert!(one.starts_with("List(") && other.starts_with("LargeList("), "{one} and {other}");
    }
}
