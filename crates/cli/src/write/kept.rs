//! Converts times to units that Parquet can store: it has no timestamps or times of day in seconds, and no
//! dates in milliseconds.

use std::sync::Arc;

use forebay_arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use forebay_arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Date64Type, Field, Schema, Time32MillisecondType,
    Time32SecondType, TimeUnit, TimestampMillisecondType, TimestampSecondType,
};
use forebay_arrow::names::TypeName;
use forebay_base::{Error, Result};

const MILLISECONDS_PER_SECOND: i32 = 1_000;
const MILLISECONDS_PER_DAY: i64 = 86_400_000;

/// Returns the schema with its times in units that Parquet can store.
pub(super) fn schema(schema: &Schema) -> Schema {
    let field = |field: &Arc<Field>| match kept(field.data_type()) {
        Some(of) => Arc::new(field.as_ref().clone().with_data_type(of)),
        None => field.clone(),
    };
    let fields: Vec<Arc<Field>> = schema.fields().iter().map(field).collect();
    Schema::new(fields).with_metadata(schema.metadata().clone())
}

/// The type in which Parquet stores values of type `of`; `None` if that is `of` itself.
fn kept(of: &DataType) -> Option<DataType> {
    Some(match of {
        DataType::Timestamp(TimeUnit::Second, zone) => {
            DataType::Timestamp(TimeUnit::Millisecond, zone.clone())
        }
        DataType::Time32(TimeUnit::Second) => DataType::Time32(TimeUnit::Millisecond),
        DataType::Date64 => DataType::Date32,
        _ => return None,
    })
}

/// Converts the values of a column to a unit that Parquet can store.
///
/// # Errors
/// Parquet cannot express a value in milliseconds or in whole days.
pub(super) fn array(values: &ArrayRef) -> Result<ArrayRef> {
    Ok(match values.data_type() {
        DataType::Timestamp(TimeUnit::Second, zone) => {
            let times = changed::<TimestampSecondType, TimestampMillisecondType>(values, |second| {
                second.checked_mul(MILLISECONDS_PER_SECOND.into())
            })?;
            Arc::new(times.with_timezone_opt(zone.clone()))
        }
        DataType::Time32(TimeUnit::Second) => {
            Arc::new(changed::<Time32SecondType, Time32MillisecondType>(values, |second| {
                second.checked_mul(MILLISECONDS_PER_SECOND)
            })?)
        }
        DataType::Date64 => Arc::new(changed::<Date64Type, Date32Type>(values, |time| {
            let is_whole = time % MILLISECONDS_PER_DAY == 0;
            i32::try_from(time / MILLISECONDS_PER_DAY).ok().filter(|_| is_whole)
        })?),
        _ => values.clone(),
    })
}

fn changed<A: ArrowPrimitiveType, B: ArrowPrimitiveType>(
    values: &ArrayRef,
    change: impl Fn(A::Native) -> Option<B::Native>,
) -> Result<PrimitiveArray<B>> {
    let changed = |value: A::Native| {
        change(value).ok_or_else(|| {
            let (from, to) = (TypeName(&A::DATA_TYPE), TypeName(&B::DATA_TYPE));
            let cause = format!("{value:?} of {from} has no equal value of {to}, as which Parquet keeps it");
            Error::invalid(cause).hint("cast the column to whole numbers, which are written as they are")
        })
    };
    values.as_primitive::<A>().iter().map(|value| value.map(changed).transpose()).collect()
}

#[cfg(test)]
mod tests {
    use forebay_arrow::array::{Date32Array, Date64Array, TimestampMillisecondArray, TimestampSecondArray};

    use super::*;

    #[test]
    fn times_have_another_unit_and_none_becomes_null() {
        let seconds = |values: Vec<Option<i64>>| Arc::new(TimestampSecondArray::from(values)) as ArrayRef;
        let found = array(&seconds(vec![Some(-2), None])).unwrap();
        assert_eq!(found.as_ref(), &TimestampMillisecondArray::from(vec![Some(-2_000), None]) as &dyn Array);
        let error = array(&seconds(vec![Some(i64::MAX)])).unwrap_err().to_string();
        assert!(error.contains(&i64::MAX.to_string()), "{error}");

        let days = |values: Vec<i64>| Arc::new(Date64Array::from(values)) as ArrayRef;
        let found = array(&days(vec![-MILLISECONDS_PER_DAY, MILLISECONDS_PER_DAY])).unwrap();
        assert_eq!(found.as_ref(), &Date32Array::from(vec![-1, 1]) as &dyn Array);
        for unfit in [1, i64::MAX - i64::MAX % MILLISECONDS_PER_DAY] {
            array(&days(vec![unfit])).unwrap_err();
        }
    }
}
