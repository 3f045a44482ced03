//! Parses the default values of columns, which the metadata stores as JSON.

use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, Timelike};
use forebay_arrow::datatypes::{DataType, TimeUnit};
use serde_json::Value as Json;

use crate::avro::AvroValue;

/// Parses the default value of a column; `None` if the JSON does not fit the type.
pub(crate) fn value(data_type: &DataType, json: &Json) -> Option<AvroValue> {
    let text = || json.as_str();
    Some(match data_type {
        _ if json.is_null() => AvroValue::Null,
        DataType::Boolean => AvroValue::Boolean(json.as_bool()?),
        DataType::Int32 => AvroValue::Int(i32::try_from(json.as_i64()?).ok()?),
        DataType::Int64 => AvroValue::Long(json.as_i64()?),
        DataType::Float32 => AvroValue::Float((json.as_f64()? as f32).to_bits()),
        DataType::Float64 => AvroValue::Double(json.as_f64()?.to_bits()),
        DataType::Utf8View => AvroValue::Text(text()?.into()),
        DataType::Date32 => {
            let date = NaiveDate::parse_from_str(text()?, "%Y-%m-%d").ok()?;
            AvroValue::Int(i32::try_from((date - NaiveDate::default()).num_days()).ok()?)
        }
        DataType::Time64(_) => {
            let time = NaiveTime::parse_from_str(text()?, "%H:%M:%S%.f").ok()?;
            let seconds = i64::from(time.num_seconds_from_midnight());
            AvroValue::Long(seconds * 1_000_000 + i64::from(time.nanosecond()) / 1_000)
        }
        DataType::Timestamp(unit, zone) => {
            let time = match zone {
                Some(_) => DateTime::parse_from_rfc3339(text()?).ok()?.to_utc(),
                None => NaiveDateTime::parse_from_str(text()?, "%Y-%m-%dT%H:%M:%S%.f").ok()?.and_utc(),
            };
            AvroValue::Long(match unit {
                TimeUnit::Nanosecond => time.timestamp_nanos_opt()?,
                _ => time.timestamp_micros(),
            })
        }
        DataType::BinaryView => AvroValue::Bytes(hex(text()?)?.into()),
        DataType::FixedSizeBinary(_) => AvroValue::Bytes(hex(&text()?.replace('-', ""))?.into()),
        DataType::Decimal128(_, scale) => {
            AvroValue::Bytes(decimal(text()?, usize::try_from(*scale).ok()?)?.to_be_bytes().into())
        }
        _ => return None,
    })
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text.chars().map(|digit| u8::try_from(digit.to_digit(16)?).ok()).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

/// Parses a decimal number as an integer in units of the last of `scale` decimal places.
fn decimal(text: &str, scale: usize) -> Option<i128> {
    let (digits, is_negative) = match text.strip_prefix('-') {
        Some(digits) => (digits, true),
        None => (text, false),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if fraction.len() > scale || whole.is_empty() {
        return None;
    }
    let all = format!("{whole}{fraction:0<scale$}");
    let number: i128 = all.bytes().all(|byte| byte.is_ascii_digit()).then(|| all.parse().ok())??;
    Some(if is_negative { -number } else { number })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn defaults_are_values_of_their_columns() {
        let moment = |zone: Option<&str>| DataType::Timestamp(TimeUnit::Microsecond, zone.map(Into::into));
        for (data_type, json, is) in [
            (DataType::Boolean, json!(true), AvroValue::Boolean(true)),
            (DataType::Int32, json!(34), AvroValue::Int(34)),
            (DataType::Float64, json!(1.5), AvroValue::Double(1.5f64.to_bits())),
            (DataType::Date32, json!("1969-12-31"), AvroValue::Int(-1)),
            (DataType::Time64(TimeUnit::Microsecond), json!("00:00:01.000002"), AvroValue::Long(1_000_002)),
            (moment(None), json!("1970-01-01T00:00:00.000007"), AvroValue::Long(7)),
            (moment(Some("UTC")), json!("1970-01-01T01:00:00+01:00"), AvroValue::Long(0)),
            (DataType::BinaryView, json!("00ff"), AvroValue::Bytes([0, 255].into())),
            (DataType::Utf8View, json!("x"), AvroValue::Text("x".into())),
            (DataType::Decimal128(9, 2), json!("-14.2"), AvroValue::Bytes((-1_420i128).to_be_bytes().into())),
            (DataType::Int64, json!(null), AvroValue::Null),
        ] {
            assert_eq!(value(&data_type, &json), Some(is), "{data_type} {json}");
        }
        for (data_type, json) in [
            (DataType::Int32, json!(1i64 << 40)),
            (DataType::Int32, json!("1")),
            (DataType::Decimal128(9, 2), json!("1.234")),
            (DataType::BinaryView, json!("0")),
            (DataType::Date32, json!("yesterday")),
        ] {
            assert_eq!(value(&data_type, &json), None, "{data_type} {json}");
        }
    }
}
