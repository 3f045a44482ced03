//! Reads the statistics in a Delta log: for each column, the least and greatest value and the nulls of each
//! file.
//!
//! The bounds may be wider than the values: the log shortens texts and cuts times to milliseconds, and it
//! still counts rows that were deleted later. A greatest value that may have been cut is raised here, so that
//! no value exceeds it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use forebay_arrow::array::{
    ArrayBuilder, ArrayRef, BinaryBuilder, BooleanBuilder, Float64Builder, Int64Array, Int64Builder,
    new_null_array,
};
use forebay_arrow::datatypes::{DataType, Date32Type, TimeUnit, TimestampMicrosecondType};
use forebay_arrow::statistics::{ColumnStatistics, Nulls};
use serde::Deserialize;
use serde_json::Value;

use crate::partition;
use crate::schema::TableColumn;

/// A greatest value of at least this many characters may be the shortened beginning of a longer text.
const MAY_BE_CUT: usize = 32;

/// A byte that is greater than any byte of UTF-8 text.
const BEHIND_ALL: u8 = 0xff;

/// The part of a file's statistics that is used here.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct OfFile {
    num_records: Option<u64>,
    min_values: Option<BTreeMap<String, Value>>,
    max_values: Option<BTreeMap<String, Value>>,
    null_count: Option<BTreeMap<String, Value>>,
}

/// The statistics of each column by its name. `texts` are the statistics of each file as the log has them;
/// texts that cannot be parsed are ignored.
pub(crate) fn of_files<'a>(
    columns: &[TableColumn],
    texts: impl ExactSizeIterator<Item = Option<&'a str>>,
) -> BTreeMap<String, ColumnStatistics> {
    let files = texts.len();
    let of_columns = columns.iter().enumerate().filter(|(_, column)| !column.is_partition);
    let by_name: HashMap<&str, usize> =
        of_columns.map(|(at, column)| (column.stored.stored.as_str(), at)).collect();
    let mut building: BTreeMap<usize, Building> = BTreeMap::new();
    for (file, text) in texts.enumerate() {
        let Some(text) = text else { continue };
        let OfFile { num_records, min_values, max_values, null_count } =
            serde_json::from_str(text).unwrap_or_default();
        for (name, count) in null_count.into_iter().flatten() {
            let nulls = match (count.as_u64(), num_records) {
                (Some(0), _) => Nulls::None,
                (Some(count), Some(rows)) if count == rows => Nulls::All,
                _ => continue,
            };
            if let Some(&column) = by_name.get(name.as_str()) {
                building
                    .entry(column)
                    .or_insert_with(|| Building::for_column(&columns[column]))
                    .nulls(file, nulls);
            }
        }
        let mut greatest = max_values.unwrap_or_default();
        for (name, least) in min_values.into_iter().flatten() {
            let bounds = greatest.remove(&name).map(|greatest| (least, greatest));
            if let Some((&column, bounds)) = by_name.get(name.as_str()).zip(bounds) {
                building
                    .entry(column)
                    .or_insert_with(|| Building::for_column(&columns[column]))
                    .bounds(file, &bounds);
            }
        }
    }
    let name = |column: usize| columns[column].field.name().clone();
    building.into_iter().map(|(column, building)| (name(column), building.finish(files))).collect()
}

/// The statistics of one column while files are added.
struct Building {
    data_type: DataType,
    bounds: StoredBounds,
    nulls: Vec<Nulls>,
}

enum StoredBounds {
    Bool([BooleanBuilder; 2]),
    Whole([Int64Builder; 2]),
    Float([Float64Builder; 2]),
    Bytes([BinaryBuilder; 2]),
    /// No statistics are read for a column of this type.
    Unread,
}

impl Building {
    fn for_column(column: &TableColumn) -> Self {
        let data_type = column.field.data_type().clone();
        let bounds = match &data_type {
            DataType::Boolean => StoredBounds::Bool(Default::default()),
            DataType::Float32 | DataType::Float64 => StoredBounds::Float(Default::default()),
            DataType::Utf8View => StoredBounds::Bytes(Default::default()),
            DataType::Date32 | DataType::Timestamp(..) => StoredBounds::Whole(Default::default()),
            other if other.is_signed_integer() => StoredBounds::Whole(Default::default()),
            _ => StoredBounds::Unread,
        };
        Building { data_type, bounds, nulls: Vec::new() }
    }

    fn nulls(&mut self, file: usize, nulls: Nulls) {
        self.nulls.resize(file, Nulls::Unknown);
        self.nulls.push(nulls);
    }

    fn bounds(&mut self, file: usize, (least, greatest): &(Value, Value)) {
        self.fill(file);
        let data_type = &self.data_type;
        match &mut self.bounds {
            StoredBounds::Bool(ends) => {
                append(ends, least.as_bool().zip(greatest.as_bool()), BooleanBuilder::append_option)
            }
            StoredBounds::Whole(ends) => {
                let number = |value: &Value, is_last| whole(data_type, value, is_last);
                append(ends, number(least, false).zip(number(greatest, true)), Int64Builder::append_option);
            }
            StoredBounds::Float(ends) => {
                let number = |value: &Value, is_last| float(data_type, value, is_last);
                append(ends, number(least, false).zip(number(greatest, true)), Float64Builder::append_option);
            }
            StoredBounds::Bytes(ends) => {
                let text = |value: &Value, is_last| bytes(value.as_str()?, is_last);
                append(ends, text(least, false).zip(text(greatest, true)), BinaryBuilder::append_option);
            }
            StoredBounds::Unread => {}
        }
    }

    /// Appends null bounds for all files before `file` that have no bounds yet.
    fn fill(&mut self, file: usize) {
        fn each<B>(ends: &mut [B; 2], mut more: impl FnMut(&mut B)) {
            ends.iter_mut().for_each(&mut more);
        }
        match &mut self.bounds {
            StoredBounds::Bool(ends) => each(ends, |end| (end.len()..file).for_each(|_| end.append_null())),
            StoredBounds::Whole(ends) => each(ends, |end| (end.len()..file).for_each(|_| end.append_null())),
            StoredBounds::Float(ends) => each(ends, |end| (end.len()..file).for_each(|_| end.append_null())),
            StoredBounds::Bytes(ends) => each(ends, |end| (end.len()..file).for_each(|_| end.append_null())),
            StoredBounds::Unread => {}
        }
    }

    fn finish(mut self, files: usize) -> ColumnStatistics {
        self.fill(files);
        self.nulls.resize(files, Nulls::Unknown);
        let [least, greatest]: [ArrayRef; 2] = match self.bounds {
            StoredBounds::Bool(ends) => ends.map(|mut end| Arc::new(end.finish()) as ArrayRef),
            StoredBounds::Whole(ends) => ends.map(|mut end| typed(end.finish(), &self.data_type)),
            StoredBounds::Float(ends) => ends.map(|mut end| Arc::new(end.finish()) as ArrayRef),
            StoredBounds::Bytes(ends) => ends.map(|mut end| Arc::new(end.finish()) as ArrayRef),
            StoredBounds::Unread => [(); 2].map(|()| new_null_array(&DataType::Null, files)),
        };
        ColumnStatistics { least, greatest, nulls: self.nulls.into() }
    }
}

/// Converts integers to the dates or times that they stand for; other integers stay as they are.
fn typed(numbers: Int64Array, data_type: &DataType) -> ArrayRef {
    match data_type {
        DataType::Date32 => Arc::new(numbers.unary::<_, Date32Type>(|days| days as i32)),
        DataType::Timestamp(_, zone) => {
            let times = numbers.reinterpret_cast::<TimestampMicrosecondType>();
            Arc::new(times.with_timezone_opt(zone.clone()))
        }
        _ => Arc::new(numbers),
    }
}

fn append<B, T>(ends: &mut [B; 2], bounds: Option<(T, T)>, add: impl Fn(&mut B, Option<T>)) {
    let (least, greatest) = bounds.unzip();
    let [first, last] = ends;
    add(first, least);
    add(last, greatest);
}

/// Parses a bound as an integer: the integer itself, the days of a date or the microseconds of a time.
/// `is_last` says that the bound is the greatest value.
fn whole(data_type: &DataType, value: &Value, is_last: bool) -> Option<i64> {
    match data_type {
        DataType::Date32 => partition::date(value.as_str()?).map(i64::from),
        DataType::Timestamp(TimeUnit::Microsecond, zone) => {
            let at = partition::moment(value.as_str()?, zone.is_some())?;
            // The log may have cut the greatest time to milliseconds, so 1,000 microseconds are added.
            if is_last { at.checked_add(1_000) } else { Some(at) }
        }
        _ => value.as_i64(),
    }
}

/// Parses a bound as a float. If the column was widened from 32 to 64 bits, the bound of an older file is the
/// decimal text of a 32-bit float, which may differ from that float, so the wider of the two bounds is taken.
fn float(data_type: &DataType, value: &Value, is_last: bool) -> Option<f64> {
    let value = value.as_f64()?;
    let narrow = f64::from(value as f32);
    Some(match data_type {
        DataType::Float32 => narrow,
        _ if is_last => value.max(narrow),
        _ => value.min(narrow),
    })
}

/// The bytes of a text bound. If a greatest value is long, the log may have shortened it, so a byte that is
/// greater than any in a text is appended.
fn bytes(text: &str, is_last: bool) -> Option<Vec<u8>> {
    let mut bytes = text.as_bytes().to_vec();
    if is_last && text.chars().nth(MAY_BE_CUT - 1).is_some() {
        bytes.push(BEHIND_ALL);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use forebay_arrow::array::{Array, AsArray};
    use forebay_arrow::datatypes::{Float64Type, Int64Type};

    use super::*;
    use crate::schema::{self, Found};

    /// The statistics of a column `x` of this type, in files whose statistics are `texts`.
    fn of_values(data_type: &str, texts: &[&str]) -> ColumnStatistics {
        let schema = format!(
            r#"{{"type":"struct","fields":[{{"name":"x","type":"{data_type}","nullable":true,"metadata":{{}}}}]}}"#
        );
        let columns = schema::columns(&schema, &[], Found::AsNamed).unwrap();
        of_files(&columns, texts.iter().map(|text| Some(*text))).remove("x").unwrap()
    }

    fn between(least: &str, greatest: &str) -> String {
        format!(r#"{{"numRecords":3,"minValues":{{"x":{least}}},"maxValues":{{"x":{greatest}}}}}"#)
    }

    #[test]
    fn files_have_bounds_or_none() {
        let found = of_values(
            "long",
            &[&between("1", "7"), "{}", &between("2", "null"), &between("-9007199254740993", "5")],
        );
        let (least, greatest) =
            (found.least.as_primitive::<Int64Type>(), found.greatest.as_primitive::<Int64Type>());
        assert_eq!(least.iter().collect::<Vec<_>>(), [Some(1), None, None, Some(-9_007_199_254_740_993)]);
        assert_eq!(greatest.iter().collect::<Vec<_>>(), [Some(7), None, None, Some(5)]);
        let unread = of_values("decimal(38,2)", &[&between("1.5", "7.25")]);
        assert_eq!(unread.least.data_type(), &DataType::Null);
        assert_eq!(
            of_values("long", &[&between("\"a\"", "\"b\""), &between("1.5", "2.5")]).least.null_count(),
            2
        );
    }

    #[test]
    fn nulls_are_known_where_they_are_none_or_all() {
        let count =
            |nulls: &str| format!(r#"{{"numRecords":3,"tightBounds":false,"nullCount":{{"x":{nulls}}}}}"#);
        let texts = [count("0"), count("2"), count("3"), count("{}"), r#"{"nullCount":{"x":3}}"#.to_owned()];
        let found = of_values("long", &texts.each_ref().map(String::as_str));
        let unknown = Nulls::Unknown;
        assert_eq!(*found.nulls, [Nulls::None, unknown, Nulls::All, unknown, unknown]);
    }

    #[test]
    fn bounds_that_may_be_cut_or_rounded_are_wider() {
        let long = "x".repeat(32);
        let found =
            of_values("string", &[&between("\"a\"", "\"b\""), &between("\"a\"", &format!("\"{long}\""))]);
        let greatest = found.greatest.as_binary::<i32>();
        assert_eq!(greatest.value(0), b"b");
        assert!(greatest.value(1) > [long.as_bytes(), "\u{10ffff}".as_bytes()].concat().as_slice());
        let at = of_values(
            "timestamp",
            &[&between("\"1970-01-01T00:00:00.001Z\"", "\"1970-01-01T02:00:00.001+02:00\"")],
        );
        assert_eq!(at.least.as_primitive::<TimestampMicrosecondType>().value(0), 1_000);
        assert_eq!(at.greatest.as_primitive::<TimestampMicrosecondType>().value(0), 2_000);
        let narrow = f64::from(0.1f32);
        for (data_type, least) in [("float", narrow), ("double", 0.1)] {
            let found = of_values(data_type, &[&between("0.1", "0.1")]);
            assert_eq!(found.least.as_primitive::<Float64Type>().value(0), least);
            assert_eq!(found.greatest.as_primitive::<Float64Type>().value(0), narrow);
        }
        assert_eq!(of_values("double", &[&between("0.5", "\"NaN\"")]).least.null_count(), 1);
        let days = of_values("date", &[&between("\"1970-01-02\"", "\"1970-01-03\"")]);
        assert_eq!(days.least.as_primitive::<Date32Type>().value(0), 1);
    }
}
