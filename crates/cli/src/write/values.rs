//! Finds the types of values in CSV and JSON, and converts the values to Arrow arrays.
//!
//! All values are read before the first one is written, because even the last value of a column can change
//! the column's type.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use forebay_arrow::array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int64Array, ListArray, StringArray, StructArray, UInt64Array,
};
use forebay_arrow::buffer::{NullBuffer, OffsetBuffer};
use forebay_arrow::datatypes::{DataType, Field, Fields};
use forebay_arrow::fail::OrFail;
use forebay_base::Result;
use serde_json::Value;

/// The largest number up to which float64 holds every whole number.
const MAX_EXACT: u64 = 1 << f64::MANTISSA_DIGITS;
/// The largest whole number of int64.
const MAX_SIGNED: u64 = i64::MAX as u64;

/// The type of a column, derived from its values.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum ValueType {
    /// No value but null was seen.
    #[default]
    Null,
    Bool,
    /// Whole numbers from `least` to `most`; `least` is at most 0, and `most` is at least 0.
    Whole {
        least: i64,
        most: u64,
    },
    Float,
    Text,
    List(Box<ValueType>),
    Struct(BTreeMap<String, ValueType>),
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            ValueType::Null => "null",
            ValueType::Bool => "a truth value",
            ValueType::Whole { most, .. } if most > MAX_SIGNED => "a whole number of 2^63 or more",
            ValueType::Whole { most, .. } if most > MAX_EXACT => "a whole number above 2^53",
            ValueType::Whole { least, .. } if least.unsigned_abs() > MAX_EXACT => {
                "a whole number below -2^53"
            }
            ValueType::Whole { least: ..0, most: 0 } => "a whole number below 0",
            ValueType::Whole { .. } => "a whole number",
            ValueType::Float => "a number",
            ValueType::Text => "text",
            ValueType::List(_) => "a list",
            ValueType::Struct(_) => "an object",
        })
    }
}

/// The types of two values of one column that have no common type.
pub(super) struct Clash {
    /// The path from the column to the values, such as `.box[]`; empty if the values are not nested.
    pub(super) inside: String,
    pub(super) before: ValueType,
    pub(super) now: ValueType,
}

impl ValueType {
    /// The type of a value in JSON.
    pub(super) fn of_json(value: &Value) -> Result<ValueType, Clash> {
        Ok(match value {
            Value::Null => ValueType::Null,
            Value::Bool(_) => ValueType::Bool,
            Value::Number(number) => ValueType::of_number(number.as_i64(), number.as_u64()),
            Value::String(_) => ValueType::Text,
            Value::Array(items) => {
                let mut item = ValueType::Null;
                for value in items {
                    let now = ValueType::of_json(value).map_err(|clash| clash.within("[]"))?;
                    item.join(now).map_err(|clash| clash.within("[]"))?;
                }
                ValueType::List(Box::new(item))
            }
            Value::Object(fields) => {
                let mut types = BTreeMap::new();
                for (name, value) in fields {
                    let now = ValueType::of_json(value).map_err(|clash| clash.within(&format!(".{name}")))?;
                    types.insert(name.clone(), now);
                }
                ValueType::Struct(types)
            }
        })
    }

    /// The type of a field of CSV. A field that a number would not reproduce, such as 007, is text.
    pub(super) fn of_field(field: &str) -> ValueType {
        let digits = field.strip_prefix('-').unwrap_or(field);
        let has_leading_zero =
            digits.len() > 1 && digits.starts_with('0') && digits.as_bytes()[1].is_ascii_digit();
        let is_decimal = digits.starts_with(|first: char| first.is_ascii_digit() || first == '.');
        match field {
            "" => ValueType::Null,
            "true" | "false" | "True" | "False" | "TRUE" | "FALSE" => ValueType::Bool,
            _ if has_leading_zero => ValueType::Text,
            "-0" => ValueType::Float,
            _ if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                match ValueType::of_number(field.parse().ok(), field.parse().ok()) {
                    // The number is too large for 64-bit integers, so it is an identifier and stays text.
                    ValueType::Float => ValueType::Text,
                    whole => whole,
                }
            }
            _ if is_decimal && field.parse::<f64>().is_ok_and(f64::is_finite) => ValueType::Float,
            _ if matches!(digits, "nan" | "NaN" | "inf" | "Infinity") => ValueType::Float,
            _ => ValueType::Text,
        }
    }

    /// The type of a number, given as int64 and as uint64; either is `None` if the number does not fit.
    fn of_number(signed: Option<i64>, unsigned: Option<u64>) -> ValueType {
        match (signed, unsigned) {
            (_, Some(most)) => ValueType::Whole { least: 0, most },
            (Some(least), None) => ValueType::Whole { least, most: 0 },
            (None, None) => ValueType::Float,
        }
    }

    /// Whether float64 holds all whole numbers from `least` to `most`.
    fn is_exact(least: i64, most: u64) -> bool {
        least.unsigned_abs().max(most) <= MAX_EXACT
    }

    /// Widens this type so that it also holds values of type `other`.
    pub(super) fn join(&mut self, other: ValueType) -> Result<(), Clash> {
        match (&mut *self, other) {
            (_, ValueType::Null) => {}
            (ValueType::Null, other) => *self = other,
            (ValueType::Whole { least, most }, ValueType::Whole { least: other_least, most: other_most }) => {
                let (before, now) = match () {
                    () if *least < 0 && other_most > MAX_SIGNED => ((*least, 0), (0, other_most)),
                    () if *most > MAX_SIGNED && other_least < 0 => ((0, *most), (other_least, 0)),
                    () => {
                        (*least, *most) = ((*least).min(other_least), (*most).max(other_most));
                        return Ok(());
                    }
                };
                let whole = |(least, most)| ValueType::Whole { least, most };
                return Err(Clash { inside: String::new(), before: whole(before), now: whole(now) });
            }
            (ValueType::Whole { least, most }, ValueType::Float) if Self::is_exact(*least, *most) => {
                *self = ValueType::Float;
            }
            (ValueType::Float, ValueType::Whole { least, most }) if Self::is_exact(least, most) => {}
            (ValueType::List(item), ValueType::List(other)) => {
                item.join(*other).map_err(|clash| clash.within("[]"))?;
            }
            (ValueType::Struct(fields), ValueType::Struct(others)) => {
                for (name, other) in others {
                    let field = fields.entry(name.clone()).or_default();
                    field.join(other).map_err(|clash| clash.within(&format!(".{name}")))?;
                }
            }
            (before, now) if *before == now => {}
            (before, now) => return Err(Clash { inside: String::new(), before: before.clone(), now }),
        }
        Ok(())
    }

    /// The Arrow type of the column. A column that has only nulls is text.
    pub(super) fn data_type(&self) -> DataType {
        match self {
            ValueType::Null | ValueType::Text => DataType::Utf8,
            ValueType::Bool => DataType::Boolean,
            ValueType::Whole { most, .. } if *most > MAX_SIGNED => DataType::UInt64,
            ValueType::Whole { .. } => DataType::Int64,
            ValueType::Float => DataType::Float64,
            ValueType::List(item) => DataType::List(item_field(item)),
            // Parquet cannot store a struct without fields, so such objects are written as JSON text.
            ValueType::Struct(fields) if fields.is_empty() => DataType::Utf8,
            ValueType::Struct(fields) => DataType::Struct(struct_fields(fields)),
        }
    }
}

impl Clash {
    fn within(mut self, outer: &str) -> Self {
        self.inside.insert_str(0, outer);
        self
    }
}

fn item_field(item: &ValueType) -> Arc<Field> {
    Arc::new(Field::new_list_field(item.data_type(), true))
}

fn struct_fields(fields: &BTreeMap<String, ValueType>) -> Fields {
    fields.iter().map(|(name, field)| Field::new(name, field.data_type(), true)).collect()
}

/// Makes an array of the values of a column of JSON; a value is `None` if its row lacks the column.
pub(super) fn from_json(values: &[Option<&Value>], of: &ValueType) -> Result<ArrayRef> {
    let some = |value: &Option<&Value>| value.is_some_and(|value| !value.is_null());
    Ok(match of {
        ValueType::Bool => {
            Arc::new(values.iter().map(|value| value.and_then(Value::as_bool)).collect::<BooleanArray>())
        }
        ValueType::Whole { most, .. } if *most > MAX_SIGNED => {
            Arc::new(values.iter().map(|value| value.and_then(Value::as_u64)).collect::<UInt64Array>())
        }
        ValueType::Whole { .. } => {
            Arc::new(values.iter().map(|value| value.and_then(Value::as_i64)).collect::<Int64Array>())
        }
        ValueType::Float => {
            Arc::new(values.iter().map(|value| value.and_then(Value::as_f64)).collect::<Float64Array>())
        }
        ValueType::Struct(fields) if fields.is_empty() => from_json(values, &ValueType::Text)?,
        ValueType::Null | ValueType::Text => {
            let texts = values.iter().map(|value| match value {
                None | Some(Value::Null) => None,
                Some(Value::String(text)) => Some(text.clone()),
                Some(other) => Some(other.to_string()),
            });
            Arc::new(texts.collect::<StringArray>())
        }
        ValueType::List(item) => {
            let lists: Vec<&[Value]> = values
                .iter()
                .map(|value| value.and_then(Value::as_array).map_or(&[][..], |list| list))
                .collect();
            let offsets = OffsetBuffer::from_lengths(lists.iter().map(|list| list.len()));
            let items: Vec<Option<&Value>> = lists.iter().flat_map(|list| list.iter().map(Some)).collect();
            let nulls = NullBuffer::from_iter(values.iter().map(some));
            let items = from_json(&items, item)?;
            Arc::new(ListArray::try_new(item_field(item), offsets, items, Some(nulls)).or_fail()?)
        }
        ValueType::Struct(fields) => {
            let columns = fields.iter().map(|(name, field)| {
                let values: Vec<Option<&Value>> =
                    values.iter().map(|value| value.and_then(|value| value.get(name))).collect();
                from_json(&values, field)
            });
            let columns: Vec<ArrayRef> = columns.collect::<Result<_>>()?;
            let nulls = NullBuffer::from_iter(values.iter().map(some));
            let array =
                StructArray::try_new_with_length(struct_fields(fields), columns, Some(nulls), values.len());
            Arc::new(array.or_fail()?)
        }
    })
}

/// Makes an array of the fields of a column of CSV. An empty field is null, except in a column of text, where
/// it is an empty text.
pub(super) fn from_fields<'a>(fields: impl Iterator<Item = Option<&'a str>>, of: &ValueType) -> ArrayRef {
    let filled = |field: Option<&'a str>| field.filter(|field| !field.is_empty());
    match of {
        ValueType::Bool => {
            let truth = |field: &str| field.eq_ignore_ascii_case("true");
            Arc::new(fields.map(|field| filled(field).map(truth)).collect::<BooleanArray>())
        }
        ValueType::Whole { most, .. } if *most > MAX_SIGNED => {
            Arc::new(fields.map(|field| filled(field)?.parse::<u64>().ok()).collect::<UInt64Array>())
        }
        ValueType::Whole { .. } => {
            Arc::new(fields.map(|field| filled(field)?.parse::<i64>().ok()).collect::<Int64Array>())
        }
        ValueType::Float => {
            Arc::new(fields.map(|field| filled(field)?.parse::<f64>().ok()).collect::<Float64Array>())
        }
        ValueType::Null | ValueType::Text | ValueType::List(_) | ValueType::Struct(_) => {
            Arc::new(fields.collect::<StringArray>()) as Arc<dyn Array>
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_field_that_a_number_would_change_is_text() {
        let whole = |least, most| ValueType::Whole { least, most };
        for (field, of) in [
            ("7", whole(0, 7)),
            ("-7", whole(-7, 0)),
            ("0", whole(0, 0)),
            ("18446744073709551615", whole(0, u64::MAX)),
            ("007", ValueType::Text),
            ("+7", ValueType::Text),
            ("99999999999999999999", ValueType::Text),
            ("1.5", ValueType::Float),
            ("-.5e3", ValueType::Float),
            ("1.0000000000000000001", ValueType::Float),
            ("-99999999999999999999", ValueType::Text),
            ("nan", ValueType::Float),
            ("infinite", ValueType::Text),
            ("True", ValueType::Bool),
            ("9007199254740993", whole(0, 9_007_199_254_740_993)),
            ("-0", ValueType::Float),
            ("1e400", ValueType::Text),
            ("", ValueType::Null),
            ("-", ValueType::Text),
        ] {
            assert_eq!(ValueType::of_field(field), of, "{field}");
        }
    }

    #[test]
    fn a_column_has_the_type_of_all_its_values() {
        let mut whole = ValueType::Null;
        for value in [json!(null), json!([{"a": 1}]), json!([]), json!([{"a": 0.5, "b": "x"}, null])] {
            assert!(ValueType::of_json(&value).and_then(|now| whole.join(now)).is_ok());
        }
        let fields = BTreeMap::from([("a".into(), ValueType::Float), ("b".into(), ValueType::Text)]);
        assert_eq!(whole, ValueType::List(Box::new(ValueType::Struct(fields))));
        let Err(clash) = ValueType::of_json(&json!([{"a": "x"}])).and_then(|now| whole.join(now)) else {
            panic!("a number and text have one type");
        };
        assert_eq!(
            (clash.inside.as_str(), clash.before, clash.now),
            ("[].a", ValueType::Float, ValueType::Text)
        );
    }

    #[test]
    fn whole_numbers_on_both_sides_of_2_to_the_63rd_have_a_type_unless_one_is_below_0() {
        let joined = |fields: &[&str]| {
            let mut of = ValueType::Null;
            fields.iter().try_for_each(|field| of.join(ValueType::of_field(field))).map(|()| of.data_type())
        };
        for (fields, of) in [
            (["1", "18446744073709551615"], DataType::UInt64),
            (["9223372036854775808", "0"], DataType::UInt64),
            (["-1", "9223372036854775807"], DataType::Int64),
            (["9007199254740992", "0.5"], DataType::Float64),
        ] {
            assert_eq!(joined(&fields).ok(), Some(of), "{fields:?}");
        }
        for (fields, before, now) in [
            (["-1", "18446744073709551615"], "a whole number below 0", "a whole number of 2^63 or more"),
            (["9223372036854775808", "-1"], "a whole number of 2^63 or more", "a whole number below 0"),
            (["0.5", "9007199254740993"], "a number", "a whole number above 2^53"),
            (["-9007199254740993", "0.5"], "a whole number below -2^53", "a number"),
        ] {
            let Err(clash) = joined(&fields) else { panic!("{fields:?} have one type") };
            assert_eq!((&*clash.before.to_string(), &*clash.now.to_string()), (before, now));
        }
    }

    #[test]
    fn values_of_json_are_those_of_the_array() {
        let values = [json!([{"a": 1}, {"b": "x"}]), json!(null), json!([])];
        let mut of = ValueType::Null;
        values
            .iter()
            .for_each(|value| assert!(ValueType::of_json(value).and_then(|now| of.join(now)).is_ok()));
        let values: Vec<Option<&Value>> = values.iter().map(Some).chain([None]).collect();
        let array = from_json(&values, &of).unwrap();
        assert_eq!((array.len(), array.null_count()), (4, 2));
        assert_eq!(array.data_type(), &of.data_type());
    }
}
