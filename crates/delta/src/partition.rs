//! Reads the values of partition columns, which the log stores as text.

use std::sync::Arc;

use chrono::{DateTime, NaiveDate, NaiveDateTime};
use forebay_arrow::array::{
    ArrayRef, BinaryViewArray, BooleanArray, Date32Array, Decimal128Array, PrimitiveArray, StringViewArray,
    TimestampMicrosecondArray, new_null_array,
};
use forebay_arrow::datatypes::*;

/// Parses the text of a partition value to a column of one row; `None` if the text is not a value of the
/// type, or if partition columns cannot have the type.
pub(crate) fn value(data_type: &DataType, text: Option<&str>) -> Option<ArrayRef> {
    // In partition values, Delta does not distinguish null from an empty text, so both are read as null.
    let Some(text) = text.filter(|text| !text.is_empty()) else {
        return Some(new_null_array(data_type, 1));
    };
    macro_rules! number {
        ($type:ty) => {
            Arc::new(PrimitiveArray::<$type>::from_iter_values([text.parse().ok()?])) as ArrayRef
        };
    }
    Some(match data_type {
        DataType::Utf8View => Arc::new(StringViewArray::from(vec![text])),
        DataType::BinaryView => Arc::new(BinaryViewArray::from_iter_values([binary(text)])),
        DataType::Int8 => number!(Int8Type),
        DataType::Int16 => number!(Int16Type),
        DataType::Int32 => number!(Int32Type),
        DataType::Int64 => number!(Int64Type),
        DataType::Float32 => number!(Float32Type),
        DataType::Float64 => number!(Float64Type),
        DataType::Boolean => Arc::new(BooleanArray::from(vec![boolean(text)?])),
        DataType::Date32 => Arc::new(Date32Array::from(vec![date(text)?])),
        DataType::Timestamp(TimeUnit::Microsecond, zone) => {
            let at = TimestampMicrosecondArray::from(vec![moment(text, zone.is_some())?]);
            Arc::new(at.with_timezone_opt(zone.clone()))
        }
        DataType::Decimal128(digits, scale) => {
            let number = decimal(text, *scale)?;
            let most = 10i128.checked_pow(u32::from(*digits))?;
            let array = (number.abs() < most).then(|| Decimal128Array::from(vec![number]))?;
            Arc::new(array.with_precision_and_scale(*digits, *scale).ok()?)
        }
        _ => return None,
    })
}

fn boolean(text: &str) -> Option<bool> {
    match text {
        _ if text.eq_ignore_ascii_case("true") => Some(true),
        _ if text.eq_ignore_ascii_case("false") => Some(false),
        _ => None,
    }
}

/// Parses a date as the number of days since 1970.
pub(crate) fn date(text: &str) -> Option<i32> {
    let date = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?;
    let epoch = NaiveDate::from_ymd_opt(1970, 1, 1)?;
    i32::try_from((date - epoch).num_days()).ok()
}

/// Parses a time as microseconds since 1970. `is_moment` says that the column's type has a time zone: only
/// then may the text have one. A text without a time zone is read as UTC.
pub(crate) fn moment(text: &str, is_moment: bool) -> Option<i64> {
    if let Ok(at) = DateTime::parse_from_rfc3339(text) {
        return is_moment.then(|| at.timestamp_micros());
    }
    let text = text.replacen('T', " ", 1);
    let at = NaiveDateTime::parse_from_str(&text, "%Y-%m-%d %H:%M:%S%.f");
    let at = at.ok().or_else(|| NaiveDate::parse_from_str(&text, "%Y-%m-%d").ok()?.and_hms_opt(0, 0, 0))?;
    Some(at.and_utc().timestamp_micros())
}

/// Parses a decimal number as an integer in units of the last of `scale` decimal places; `None` if the number
/// needs more decimal places.
fn decimal(text: &str, scale: i8) -> Option<i128> {
    let (number, exponent) = match text.split_once(['e', 'E']) {
        Some((number, exponent)) => (number, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (digits, negative) = match number.strip_prefix('-') {
        Some(digits) => (digits, true),
        None => (number.strip_prefix('+').unwrap_or(number), false),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all = [whole, fraction].concat();
    if all.is_empty() || !all.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let value: i128 = all.parse().ok()?;
    let more = i32::from(scale) - i32::try_from(fraction.len()).ok()? + exponent;
    let ten = |power: i32| 10i128.checked_pow(u32::try_from(power).ok()?);
    let value = match more {
        0.. => value.checked_mul(ten(more)?)?,
        _ => {
            let factor = ten(-more)?;
            (value % factor == 0).then_some(value / factor)?
        }
    };
    Some(if negative { -value } else { value })
}

/// Parses a binary value. An escape such as `\u0001` stands for one byte, and any other character for its
/// UTF-8 bytes.
fn binary(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let code = rest.strip_prefix("\\u").and_then(|rest| u8::from_str_radix(rest.get(..4)?, 16).ok());
        match code {
            Some(code) => {
                bytes.push(code);
                rest = &rest[6..];
            }
            None => {
                let mut buffer = [0; 4];
                bytes.extend(first.encode_utf8(&mut buffer).as_bytes());
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(data_type: DataType, text: &str) -> Option<String> {
        let array = value(&data_type, Some(text))?;
        let shown = format!("{array:?}").replace(char::is_whitespace, "");
        Some(
            shown
                .rsplit_once('[')
                .map_or_else(String::new, |(_, last)| last.trim_end_matches([',', ']']).to_owned()),
        )
    }

    #[test]
    fn texts_are_values_of_their_columns() {
        let zone = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        let plain = DataType::Timestamp(TimeUnit::Microsecond, None);
        for (of, text, is) in [
            (DataType::Int8, "-128", "-128"),
            (DataType::Int64, "9223372036854775807", "9223372036854775807"),
            (DataType::Float64, "-0.5", "-0.5"),
            (DataType::Float32, "NaN", "NaN"),
            (DataType::Float64, "-Infinity", "-inf"),
            (DataType::Boolean, "true", "true"),
            (DataType::Date32, "1969-12-31", "1969-12-31"),
            (DataType::Decimal128(10, 2), "-12.3", "-1230"),
            (DataType::Decimal128(10, 2), "1.2E3", "120000"),
            (DataType::Decimal128(10, 2), "12.300", "1230"),
            (plain.clone(), "2024-05-17 01:02:03.5", "2024-05-17T01:02:03.500"),
            (plain.clone(), "2024-05-17", "2024-05-17T00:00:00"),
            (zone.clone(), "2024-05-17 01:02:03.123456", "2024-05-17T01:02:03.123456Z"),
            (zone.clone(), "2024-05-17T01:02:03.123456Z", "2024-05-17T01:02:03.123456Z"),
            (zone.clone(), "2024-05-17T01:02:03+02:00", "2024-05-16T23:02:03Z"),
            (DataType::Utf8View, "a=b/c", "\"a=b/c\""),
            (DataType::BinaryView, "a\\u0001\\u00ff", "97,1,255"),
        ] {
            let shown = shown(of.clone(), text).unwrap_or_default();
            let shown = shown.replace("(UnknownTimeZone'UTC')", "Z");
            assert!(shown == is || shown == format!("{is},"), "{of} {text}: {shown}");
        }
        assert_eq!(value(&DataType::Utf8View, Some("")).unwrap().null_count(), 1);
        assert_eq!(value(&DataType::Int32, None).unwrap().null_count(), 1);
    }

    #[test]
    fn other_texts_are_none() {
        for (of, text) in [
            (DataType::Int8, "128"),
            (DataType::Int32, "1.5"),
            (DataType::Boolean, "yes"),
            (DataType::Date32, "17.5.2024"),
            (DataType::Decimal128(4, 2), "123.45"),
            (DataType::Decimal128(10, 2), "1.234"),
            (DataType::Decimal128(10, 2), "."),
            (DataType::Timestamp(TimeUnit::Microsecond, None), "2024-05-17T01:02:03Z"),
            (DataType::Struct(Fields::empty()), "x"),
        ] {
            assert!(value(&of, Some(text)).is_none(), "{of} {text}");
        }
    }
}
