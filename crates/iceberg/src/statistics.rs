//! The statistics of data files in an Iceberg table's manifests: for each column, the nulls and the bounds of
//! the values.
//!
//! The bounds may be wider than the values: writers shorten texts, and bounds still include rows that were
//! deleted later.

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Float64Array, Int64Array, TimestampMicrosecondArray,
    new_null_array,
};
use forebay_arrow::datatypes::{DataType, TimeUnit};
use forebay_arrow::statistics::{ColumnStatistics, Nulls};

use crate::avro::AvroValue;
use crate::schema::TableColumn;
use crate::value::MICROSECONDS_A_DAY;

/// The statistics that a manifest has for one file. Each is paired with the id of its column.
#[derive(Debug, Default)]
pub(crate) struct Stated {
    nulls: Vec<(i32, AvroValue)>,
    least: Vec<(i32, AvroValue)>,
    greatest: BTreeMap<i32, AvroValue>,
}

impl Stated {
    /// Takes the statistics out of a file's entry in the manifest. The numbers are Iceberg's ids for the
    /// fields of a manifest.
    pub(crate) fn take(file: &mut AvroValue) -> Self {
        Stated {
            nulls: pairs(file.take(110), 121, 122).collect(),
            least: pairs(file.take(125), 126, 127).collect(),
            greatest: pairs(file.take(128), 129, 130).collect(),
        }
    }
}

/// The pairs of a map whose keys are numbers. Avro stores such a map as a list of records with a key and a
/// value.
fn pairs(map: Option<AvroValue>, key: i32, value: i32) -> impl Iterator<Item = (i32, AvroValue)> {
    map.and_then(AvroValue::items).unwrap_or_default().into_iter().filter_map(move |mut pair| {
        let column = i32::try_from(pair.take(key)?.number()?).ok()?;
        Some((column, pair.take(value)?))
    })
}

/// The statistics of all files that were added so far, column by column.
#[derive(Default)]
pub(crate) struct Collected {
    files: usize,
    columns: BTreeMap<usize, Building>,
}

impl Collected {
    /// Adds a file with this number of rows, and returns its index.
    pub(crate) fn add(&mut self, columns: &[TableColumn], rows: u64, stated: Stated) -> u32 {
        let file = self.files;
        self.files += 1;
        let place = |id: i32| columns.iter().position(|column| column.name.id == id);
        let Stated { nulls, least, mut greatest } = stated;
        for (id, count) in nulls {
            let nulls = match count.number().and_then(|count| u64::try_from(count).ok()) {
                Some(0) => Nulls::None,
                Some(count) if count == rows => Nulls::All,
                _ => continue,
            };
            if let Some(column) = place(id) {
                self.building(columns, column).nulls(file, nulls);
            }
        }
        for (id, least) in least {
            let both = greatest.remove(&id).map(|greatest| [least, greatest]);
            if let Some((column, [AvroValue::Bytes(least), AvroValue::Bytes(greatest)])) = place(id).zip(both)
            {
                self.building(columns, column).bounds(file, &[least, greatest]);
            }
        }
        file as u32
    }

    fn building(&mut self, columns: &[TableColumn], column: usize) -> &mut Building {
        self.columns.entry(column).or_insert_with(|| Building::new(&columns[column]))
    }

    /// Returns the statistics of each column by the column's name.
    pub(crate) fn finish(self, columns: &[TableColumn]) -> BTreeMap<String, ColumnStatistics> {
        let finished = |(column, building): (usize, Building)| {
            (columns[column].field.name().clone(), building.finish(self.files))
        };
        self.columns.into_iter().map(finished).collect()
    }
}

/// The statistics of a column while they are collected.
struct Building {
    data_type: DataType,
    bounds: FileBounds,
    nulls: Vec<Nulls>,
}

/// The smallest and the largest value of a column in each file.
enum FileBounds {
    /// Integers, and types that are kept as integers: booleans as 0 and 1, dates as days, timestamps as
    /// microseconds.
    Whole([Vec<Option<i64>>; 2]),
    Float([Vec<Option<f64>>; 2]),
    Text([Vec<Option<Box<[u8]>>>; 2]),
    /// The column has a type whose bounds are not read.
    Unread,
}

impl Building {
    fn new(column: &TableColumn) -> Self {
        let data_type = column.field.data_type().clone();
        let bounds = match &data_type {
            DataType::Float32 | DataType::Float64 => FileBounds::Float(Default::default()),
            DataType::Utf8View => FileBounds::Text(Default::default()),
            DataType::Boolean
            | DataType::Int32
            | DataType::Int64
            | DataType::Date32
            | DataType::Timestamp(TimeUnit::Microsecond, _) => FileBounds::Whole(Default::default()),
            _ => FileBounds::Unread,
        };
        Building { data_type, bounds, nulls: Vec::new() }
    }

    fn nulls(&mut self, file: usize, nulls: Nulls) {
        self.nulls.resize(file, Nulls::Unknown);
        self.nulls.push(nulls);
    }

    fn bounds(&mut self, file: usize, both: &[Box<[u8]>; 2]) {
        match &mut self.bounds {
            FileBounds::Whole(ends) => {
                put(ends, file, both.each_ref().map(|end| whole(&self.data_type, end)))
            }
            FileBounds::Float(ends) => {
                let [least, greatest] = both.each_ref().map(|end| float(end));
                // A bound of zero may mean 0.0 or -0.0, so it is widened to include both.
                let signed = |bound: f64, zero: f64| if bound == 0.0 { zero } else { bound };
                let least = least.map(|least| signed(least, -0.0));
                put(ends, file, [least, greatest.map(|greatest| signed(greatest, 0.0))]);
            }
            FileBounds::Text(ends) => put(ends, file, both.clone().map(Some)),
            FileBounds::Unread => {}
        }
    }

    fn finish(mut self, files: usize) -> ColumnStatistics {
        self.nulls.resize(files, Nulls::Unknown);
        let [least, greatest]: [ArrayRef; 2] = match self.bounds {
            FileBounds::Whole(ends) => filled(ends, files).map(|end| typed(end, &self.data_type)),
            FileBounds::Float(ends) => filled(ends, files).map(|end| Arc::new(Float64Array::from(end)) as _),
            FileBounds::Text(ends) => filled(ends, files)
                .map(|end| Arc::new(end.iter().map(Option::as_ref).collect::<BinaryArray>()) as _),
            FileBounds::Unread => [(); 2].map(|()| new_null_array(&DataType::Null, files)),
        };
        ColumnStatistics { least, greatest, nulls: self.nulls.into() }
    }
}

/// Stores the bounds of a file at the file's index. If one of the two is missing, neither is stored.
fn put<T>(ends: &mut [Vec<Option<T>>; 2], file: usize, bounds: [Option<T>; 2]) {
    let [least, greatest] = bounds;
    let (least, greatest) = least.zip(greatest).unzip();
    for (end, bound) in ends.iter_mut().zip([least, greatest]) {
        end.resize_with(file, || None);
        end.push(bound);
    }
}

fn filled<T>(mut ends: [Vec<Option<T>>; 2], files: usize) -> [Vec<Option<T>>; 2] {
    ends.iter_mut().for_each(|end| end.resize_with(files, || None));
    ends
}

/// Converts integers to the values that they stand for: booleans, dates, timestamps, or 64-bit integers.
fn typed(numbers: Vec<Option<i64>>, data_type: &DataType) -> ArrayRef {
    let each = numbers.iter().copied();
    match data_type {
        DataType::Boolean => {
            Arc::new(each.map(|number| number.map(|number| number != 0)).collect::<BooleanArray>())
        }
        DataType::Date32 => Arc::new(each.map(|days| days.map(|days| days as i32)).collect::<Date32Array>()),
        DataType::Timestamp(_, zone) => {
            Arc::new(TimestampMicrosecondArray::from(numbers).with_timezone_opt(zone.clone()))
        }
        _ => Arc::new(Int64Array::from(numbers)),
    }
}

/// Reads a bound as an integer: days, microseconds, or 0 and 1 for a boolean. A bound of 4 bytes may belong
/// to a column of 8 bytes, if the file was written before the column was widened.
fn whole(data_type: &DataType, bytes: &[u8]) -> Option<i64> {
    let number = match *bytes {
        [flag @ (0 | 1)] if *data_type == DataType::Boolean => flag.into(),
        [a, b, c, d] => i32::from_le_bytes([a, b, c, d]).into(),
        _ => i64::from_le_bytes(bytes.try_into().ok()?),
    };
    match data_type {
        DataType::Date32 => i32::try_from(number).ok().map(i64::from),
        DataType::Timestamp(..) if bytes.len() == size_of::<i32>() => number.checked_mul(MICROSECONDS_A_DAY),
        _ => Some(number),
    }
}

fn float(bytes: &[u8]) -> Option<f64> {
    let number = match *bytes {
        [a, b, c, d] => f32::from_le_bytes([a, b, c, d]).into(),
        _ => f64::from_le_bytes(bytes.try_into().ok()?),
    };
    (!number.is_nan()).then_some(number)
}

#[cfg(test)]
mod tests {
    use forebay_arrow::array::{Array, AsArray};
    use forebay_arrow::datatypes::{Date32Type, Float64Type, Int64Type, TimestampMicrosecondType};
    use serde_json::json;

    use super::*;
    use crate::names::NameMapping;
    use crate::schema;

    /// Collects the statistics of files of three rows, for a column of this type with the id 7.
    fn collected(data_type: &str, files: Vec<Stated>) -> ColumnStatistics {
        let fields =
            json!([{"id": 3, "name": "other", "type": "int"}, {"id": 7, "name": "x", "type": data_type}]);
        let columns = schema::columns(&json!({"fields": fields}), &NameMapping::default()).unwrap();
        let mut collected = Collected::default();
        for (file, stated) in files.into_iter().enumerate() {
            assert_eq!(collected.add(&columns, 3, stated), file as u32);
        }
        collected.finish(&columns).remove("x").unwrap()
    }

    fn between(least: &[u8], greatest: &[u8]) -> Stated {
        let bytes = |bytes: &[u8]| AvroValue::Bytes(bytes.into());
        Stated {
            nulls: Vec::new(),
            least: vec![(7, bytes(least))],
            greatest: BTreeMap::from([(7, bytes(greatest))]),
        }
    }

    #[test]
    fn files_have_both_bounds_or_none() {
        let lone = Stated { least: vec![(7, AvroValue::Bytes([1; 8].into()))], ..Stated::default() };
        let unknown = Stated { least: vec![(9, AvroValue::Bytes([1; 8].into()))], ..Stated::default() };
        let widened = between(&(-5i32).to_le_bytes(), &7i32.to_le_bytes());
        let long = between(&1i64.to_le_bytes(), &(1i64 << 40).to_le_bytes());
        let short = between(&[1, 2], &[3, 4]);
        let found = collected("long", vec![Stated::default(), widened, lone, long, short, unknown]);
        let values = |array: &ArrayRef| array.as_primitive::<Int64Type>().iter().collect::<Vec<_>>();
        assert_eq!(values(&found.least), [None, Some(-5), None, Some(1), None, None]);
        assert_eq!(values(&found.greatest), [None, Some(7), None, Some(1 << 40), None, None]);
        assert_eq!(found.nulls.len(), 6);
    }

    #[test]
    fn nulls_are_known_where_they_are_none_or_all() {
        let count = |count: i64| Stated { nulls: vec![(7, AvroValue::Long(count))], ..Stated::default() };
        let found = collected("long", vec![count(0), count(2), Stated::default(), count(3), count(-1)]);
        let unknown = Nulls::Unknown;
        assert_eq!(*found.nulls, [Nulls::None, unknown, unknown, Nulls::All, unknown]);
    }

    #[test]
    fn bounds_have_the_type_of_their_column() {
        let days = collected("date", vec![between(&1i32.to_le_bytes(), &2i32.to_le_bytes())]);
        assert_eq!(days.greatest.as_primitive::<Date32Type>().value(0), 2);
        let moments = collected("timestamptz", vec![between(&1i32.to_le_bytes(), &90i64.to_le_bytes())]);
        assert_eq!(moments.least.as_primitive::<TimestampMicrosecondType>().value(0), MICROSECONDS_A_DAY);
        assert_eq!(moments.least.data_type().to_string(), "Timestamp(µs, \"UTC\")");
        let flags = collected("boolean", vec![between(&[0], &[1]), between(&[0], &[2])]);
        assert!(!flags.least.as_boolean().value(0) && flags.greatest.as_boolean().value(0));
        let texts = collected("string", vec![between(b"a", "zé".as_bytes())]);
        assert_eq!(texts.greatest.as_binary::<i32>().value(0), "zé".as_bytes());
        let price = collected("decimal(9,2)", vec![between(&[1], &[2])]);
        assert_eq!(price.least.data_type(), &DataType::Null);
    }

    #[test]
    fn a_bound_of_zero_includes_both_zeros_and_none_is_nan() {
        let zeros = between(&0f64.to_le_bytes(), &(-0f64).to_le_bytes());
        let narrow = between(&(-1.5f32).to_le_bytes(), &0.1f32.to_le_bytes());
        let undefined = between(&1f64.to_le_bytes(), &f64::NAN.to_le_bytes());
        let found = collected("double", vec![zeros, narrow, undefined]);
        let (least, greatest) =
            (found.least.as_primitive::<Float64Type>(), found.greatest.as_primitive::<Float64Type>());
        assert!(least.value(0).is_sign_negative() && greatest.value(0).is_sign_positive());
        assert_eq!((least.value(1), greatest.value(1)), (-1.5, f64::from(0.1f32)));
        assert!(least.is_null(2) && greatest.is_null(2));
    }
}
