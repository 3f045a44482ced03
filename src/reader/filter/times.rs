//! Reads and writes dates and times in filters, as ISO 8601 defines them.

use chrono::{DateTime, NaiveDate, NaiveDateTime};
use forebay_arrow::datatypes::{DataType, TimeUnit};
use forebay_arrow::names::TypeName;
use forebay_base::{Error, Result};

const SECOND: i128 = 1_000_000_000;
const DAY: i128 = 86_400 * SECOND;

/// The number of nanoseconds in the unit of a type of dates or times; `None` for any other type.
pub(super) fn unit(data_type: &DataType) -> Option<i128> {
    match data_type {
        DataType::Date32 => Some(DAY),
        DataType::Date64 => Some(SECOND / 1_000),
        DataType::Timestamp(unit, _) => Some(unit_of(*unit)),
        _ => None,
    }
}

pub(super) fn unit_of(unit: TimeUnit) -> i128 {
    match unit {
        TimeUnit::Second => SECOND,
        TimeUnit::Millisecond => SECOND / 1_000,
        TimeUnit::Microsecond => SECOND / 1_000_000,
        TimeUnit::Nanosecond => 1,
    }
}

/// Parses a date or time, for a column of `data_type`, as nanoseconds since 1970.
///
/// Fails with `Invalid` for any other text, for an offset in a column without a time zone, and for a missing
/// offset in a column with a time zone, since the moment would be a guess.
pub(super) fn nanoseconds(text: &str, data_type: &DataType) -> Result<i128> {
    let has_zone = matches!(data_type, DataType::Timestamp(_, Some(_)));
    let refused = |hint: &str| {
        Err(Error::invalid(format!(
            "the column has type {}, and {text:?} is not such a time",
            TypeName(data_type)
        ))
        .hint(hint))
    };
    if let Ok(time) = DateTime::parse_from_rfc3339(text) {
        return match has_zone {
            true => Ok(since_1970(time.naive_utc())),
            false => refused("the column has no time zone: leave out the offset"),
        };
    }
    let naive = ["%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M"]
        .iter()
        .find_map(|format| NaiveDateTime::parse_from_str(text, format).ok())
        .or_else(|| NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?.and_hms_opt(0, 0, 0));
    match naive {
        Some(time) if !has_zone => Ok(since_1970(time)),
        Some(_) => refused("the column has a time zone: add an offset, as in 2024-05-17T12:30:00Z"),
        None => refused("write 2024-05-17 or 2024-05-17T12:30:00"),
    }
}

/// Writes a date or time, a `count` of units of its type, as text that [`nanoseconds`] can read. `None` for
/// any other type, and for times outside the calendar.
pub(crate) fn written(count: i64, data_type: &DataType) -> Option<String> {
    let nanoseconds = i128::from(count) * unit(data_type)?;
    let seconds = i64::try_from(nanoseconds.div_euclid(SECOND)).ok()?;
    let time = DateTime::from_timestamp(seconds, nanoseconds.rem_euclid(SECOND) as u32)?;
    Some(match data_type {
        DataType::Date32 => time.format("%Y-%m-%d").to_string(),
        DataType::Timestamp(_, Some(_)) => time.format("%Y-%m-%dT%H:%M:%S%.fZ").to_string(),
        _ => time.format("%Y-%m-%dT%H:%M:%S%.f").to_string(),
    })
}

fn since_1970(time: NaiveDateTime) -> i128 {
    let time = time.and_utc();
    i128::from(time.timestamp()) * SECOND + i128::from(time.timestamp_subsec_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_iso_8601_writes_them() {
        let naive = DataType::Timestamp(TimeUnit::Microsecond, None);
        let aware = DataType::Timestamp(TimeUnit::Nanosecond, Some("Europe/Berlin".into()));
        let read = |text: &str| nanoseconds(text, &naive).unwrap();
        assert_eq!(read("1970-01-02"), DAY);
        assert_eq!(read("1969-12-31T23:59:59.5"), -SECOND / 2);
        assert_eq!(read("2024-05-17 12:30:00"), read("2024-05-17T12:30"));
        assert_eq!(nanoseconds("1970-01-01T01:00:00+01:00", &aware).unwrap(), 0);
        assert_eq!(nanoseconds("1970-01-01T00:00:00.000000001Z", &aware).unwrap(), 1);
        for (count, data_type, text) in [
            (-1, &DataType::Date32, "1969-12-31"),
            (-1, &naive, "1969-12-31T23:59:59.999999"),
            (1, &aware, "1970-01-01T00:00:00.000000001Z"),
        ] {
            assert_eq!(written(count, data_type).unwrap(), text);
            assert_eq!(nanoseconds(text, data_type).unwrap(), i128::from(count) * unit(data_type).unwrap());
        }
        for (text, data_type, hint) in [
            ("2024-05-17", &aware, "add an offset"),
            ("2024-05-17T12:30:00Z", &naive, "leave out the offset"),
            ("17.05.2024", &naive, "write 2024-05-17"),
            ("2024-02-30", &DataType::Date32, "write 2024-05-17"),
        ] {
            let error = nanoseconds(text, data_type).unwrap_err().to_string();
            assert!(error.contains(hint), "{text}: {error}");
        }
    }
}
