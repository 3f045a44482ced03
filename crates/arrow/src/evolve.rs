//! Converts the columns of a table's file to the types that the table has now. A table's types may have
//! changed since the file was written.

use std::sync::Arc;

use super::array::{
    Array, ArrayRef, AsArray, Decimal128Array, Int8Array, Int16Array, Int64Array, StringViewBuilder,
    TimestampMicrosecondArray,
};
use super::common::common;
use super::datatypes::*;
use super::misfit::{Misfit, Trouble};
use super::widen::widen;

const MICROSECONDS_A_DAY: i64 = 86_400_000_000;

/// Whether values of a stored type can be read as values of a table's type. Fields that the stored structure
/// lacks are null.
pub fn reads_as(stored: &DataType, table: &DataType) -> bool {
    match (stored, table) {
        (stored, table) if stored == table || changes(stored, table) => true,
        (DataType::List(stored), DataType::List(table)) => reads_as(stored.data_type(), table.data_type()),
        (DataType::Map(stored, _), DataType::Map(table, _)) => {
            match (stored.data_type(), table.data_type()) {
                (DataType::Struct(stored), DataType::Struct(table)) if stored.len() == table.len() => stored
                    .iter()
                    .zip(table)
                    .all(|(stored, table)| reads_as(stored.data_type(), table.data_type())),
                _ => false,
            }
        }
        (DataType::Struct(stored), DataType::Struct(table)) => table.iter().all(|field| {
            let of = stored.iter().find(|of| of.name() == field.name());
            of.is_none_or(|of| reads_as(of.data_type(), field.data_type()))
        }),
        (DataType::Decimal128(digits, scale), DataType::Decimal128(more, finer)) => {
            let whole = i16::from(*digits) - i16::from(*scale);
            scale <= finer && whole <= i16::from(*more) - i16::from(*finer)
        }
        // Some writers leave out that the instants of a table are in UTC.
        (DataType::Timestamp(unit, None), DataType::Timestamp(_, Some(zone))) => {
            reads_as(&DataType::Timestamp(*unit, Some(zone.clone())), table)
        }
        (stored, table) => common(&[stored, table], true).as_ref() == Some(table),
    }
}

/// Whether [`evolved`] can convert values from one type to the other. Conversions that only widen a type are
/// not among these.
pub(super) fn changes(from: &DataType, to: &DataType) -> bool {
    let is_whole = || matches!(from, DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64);
    match to {
        DataType::Decimal128(digits, scale) => is_whole() && *scale >= 0 && digits >= &scale.unsigned_abs(),
        DataType::Timestamp(TimeUnit::Microsecond, None) if *from == DataType::Date32 => true,
        DataType::Timestamp(TimeUnit::Microsecond, zone) => match from {
            DataType::Timestamp(TimeUnit::Nanosecond, of) => of.is_none() || zone.is_some(),
            DataType::Timestamp(TimeUnit::Microsecond, None) => zone.is_some(),
            _ => false,
        },
        DataType::Utf8View => *from == DataType::BinaryView,
        DataType::BinaryView => *from == DataType::Utf8View,
        // Some writers store short integers as longer ones.
        DataType::Int8 => matches!(from, DataType::Int16 | DataType::Int32),
        DataType::Int16 => *from == DataType::Int32,
        _ => false,
    }
}

/// Converts an array to one of the types for which [`changes`] returns true.
pub(super) fn evolved(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, Trouble> {
    let rows = 0..array.len();
    let there = |row: usize| array.is_valid(row);
    match (array.data_type(), to) {
        (DataType::Date32, DataType::Timestamp(..)) => {
            let days = array.as_primitive::<Date32Type>();
            let at = |row: usize| i64::from(days.value(row)) * MICROSECONDS_A_DAY;
            Ok(Arc::new(rows.map(|row| there(row).then(|| at(row))).collect::<TimestampMicrosecondArray>()))
        }
        (DataType::Timestamp(TimeUnit::Microsecond, _), DataType::Timestamp(_, zone)) => {
            let stored = array.as_primitive::<TimestampMicrosecondType>();
            Ok(Arc::new(stored.clone().with_timezone_opt(zone.clone())))
        }
        (DataType::Timestamp(..), DataType::Timestamp(_, zone)) => {
            let nanoseconds = array.as_primitive::<TimestampNanosecondType>();
            let at = |row: usize| nanoseconds.value(row).div_euclid(1_000);
            let made = rows.map(|row| there(row).then(|| at(row))).collect::<TimestampMicrosecondArray>();
            Ok(Arc::new(made.with_timezone_opt(zone.clone())))
        }
        (DataType::BinaryView, _) => {
            let bytes = array.as_binary_view();
            let mut texts = StringViewBuilder::with_capacity(array.len());
            for row in rows {
                let text = there(row).then(|| std::str::from_utf8(bytes.value(row))).transpose();
                let text = text.map_err(|error| Misfit::value(row, format!("{error}:"), to))?;
                texts.append_option(text);
            }
            Ok(Arc::new(texts.finish()))
        }
        (DataType::Utf8View, _) => Ok(Arc::new(array.as_string_view().clone().to_binary_view())),
        (_, DataType::Decimal128(digits, scale)) => {
            let numbers = whole(array);
            let factor = 10i128.pow(u32::from(scale.unsigned_abs()));
            let most = 10i128.pow(u32::from(*digits));
            let fits = |row: usize| {
                let value = i128::from(numbers.value(row)) * factor;
                (value.abs() < most).then_some(value)
            };
            let each = rows.map(|row| match there(row) {
                true => fits(row).map(Some).ok_or_else(|| Misfit::value(row, numbers.value(row), to)),
                false => Ok(None),
            });
            let made = each.collect::<Result<Decimal128Array, Trouble>>()?;
            Ok(Arc::new(made.with_precision_and_scale(*digits, *scale)?))
        }
        (_, DataType::Int8) => {
            narrow::<Int8Type>(array, to).map(|made: Int8Array| Arc::new(made) as ArrayRef)
        }
        _ => narrow::<Int16Type>(array, to).map(|made: Int16Array| Arc::new(made) as ArrayRef),
    }
}

/// Integers of any width as 64-bit integers.
fn whole(array: &ArrayRef) -> Int64Array {
    let wide = widen(array, &DataType::Int64).unwrap_or_else(|| array.clone());
    wide.as_primitive::<Int64Type>().clone()
}

/// Converts integers to a shorter type; fails if one of them does not fit.
fn narrow<T: ArrowPrimitiveType>(
    array: &ArrayRef,
    to: &DataType,
) -> Result<super::array::PrimitiveArray<T>, Trouble>
where
    T::Native: TryFrom<i64>,
{
    let numbers = whole(array);
    let each = (0..array.len()).map(|row| match array.is_valid(row) {
        true => match T::Native::try_from(numbers.value(row)) {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(Misfit::value(row, numbers.value(row), to)),
        },
        false => Ok(None),
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::super::array::{
        BinaryViewArray, Date32Array, Int32Array, StringViewArray, StructArray, TimestampMillisecondArray,
        TimestampNanosecondArray,
    };
    use super::super::convert::converted;
    use super::*;

    fn decimal(digits: u8, scale: i8) -> DataType {
        DataType::Decimal128(digits, scale)
    }

    fn plain() -> DataType {
        DataType::Timestamp(TimeUnit::Microsecond, None)
    }

    fn instant() -> DataType {
        DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
    }

    fn structure(fields: &[(&str, DataType)]) -> DataType {
        DataType::Struct(fields.iter().map(|(name, of)| Field::new(*name, of.clone(), true)).collect())
    }

    #[test]
    fn older_types_are_read_as_those_of_the_table() {
        use DataType::{BinaryView, Date32, Float32, Float64, Int8, Int16, Int32, Int64, Utf8View};
        for (stored, table, is_read) in [
            (Int8, Int64, true),
            (Int32, Float64, true),
            (Float32, Float64, true),
            (Int32, decimal(10, 0), true),
            (decimal(5, 2), decimal(10, 4), true),
            (decimal(10, 2), decimal(10, 4), false),
            (Date32, plain(), true),
            (plain(), instant(), true),
            (DataType::Timestamp(TimeUnit::Millisecond, None), instant(), true),
            (instant(), plain(), false),
            (BinaryView, Utf8View, true),
            (Int32, Int16, true),
            (Int64, Int32, false),
            (Utf8View, Int64, false),
            (structure(&[("a", Int32)]), structure(&[("b", Utf8View), ("a", Int64)]), true),
            (structure(&[("a", Utf8View)]), structure(&[("a", Int64)]), false),
        ] {
            assert_eq!(reads_as(&stored, &table), is_read, "{stored} as {table}");
        }
    }

    #[test]
    fn values_stay_what_they_are() {
        let read = |array: ArrayRef, to: &DataType| converted(&array, to);
        let numbers = || Arc::new(Int32Array::from(vec![Some(-7), None, Some(300)])) as ArrayRef;
        let as_decimal = read(numbers(), &decimal(5, 2)).unwrap();
        assert_eq!(as_decimal.as_primitive::<Decimal128Type>().value(0), -700);
        assert!(as_decimal.is_null(1));
        assert!(matches!(read(numbers(), &decimal(4, 2)), Err(Trouble::Value(Misfit { row: 2, .. }))));
        assert!(matches!(read(numbers(), &DataType::Int8), Err(Trouble::Value(Misfit { row: 2, .. }))));
        assert_eq!(read(numbers(), &DataType::Int16).unwrap().as_primitive::<Int16Type>().value(2), 300);
        let days = Arc::new(Date32Array::from(vec![Some(-1), None]));
        let moments = read(days, &plain()).unwrap();
        assert_eq!(moments.as_primitive::<TimestampMicrosecondType>().value(0), -MICROSECONDS_A_DAY);
        let fine = Arc::new(TimestampNanosecondArray::from(vec![-1]));
        assert_eq!(read(fine, &plain()).unwrap().as_primitive::<TimestampMicrosecondType>().value(0), -1);
        let local = Arc::new(TimestampMicrosecondArray::from(vec![Some(-1), None]));
        let utc = local.as_ref().clone().with_timezone("UTC");
        assert_eq!(read(local, &instant()).unwrap().as_primitive::<TimestampMicrosecondType>(), &utc);
        let coarse = Arc::new(TimestampMillisecondArray::from(vec![-1]));
        assert_eq!(
            read(coarse, &instant()).unwrap().as_primitive::<TimestampMicrosecondType>().value(0),
            -1_000
        );
        let texts = Arc::new(BinaryViewArray::from_iter_values([b"a", b"b"]));
        assert_eq!(
            read(texts, &DataType::Utf8View).unwrap().as_string_view(),
            &StringViewArray::from(vec!["a", "b"])
        );
        let broken = Arc::new(BinaryViewArray::from_iter_values([b"a", b"\xff"]));
        assert!(matches!(read(broken, &DataType::Utf8View), Err(Trouble::Value(Misfit { row: 1, .. }))));
    }

    #[test]
    fn fields_that_a_structure_lacks_are_null() {
        let field = Arc::new(Field::new("a", DataType::Int32, true));
        let stored: ArrayRef =
            Arc::new(StructArray::from(vec![(field, Arc::new(Int32Array::from(vec![1, 2])) as ArrayRef)]));
        let to = structure(&[("b", DataType::Utf8View), ("a", DataType::Int64)]);
        let read = converted(&stored, &to).unwrap();
        let read = read.as_struct();
        assert_eq!(
            (read.column(0).null_count(), read.column(1).as_primitive::<Int64Type>().value(1)),
            (2, 2)
        );
    }
}
