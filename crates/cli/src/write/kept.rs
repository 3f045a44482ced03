//! Times in units that Parquet has: it has no seconds, and no days in milliseconds.

use std::sync::Arc;

use forebay_arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use forebay_arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Date64Type, Field, Schema, Time32MillisecondType,
    Time32SecondType, TimeUnit, TimestampMillisecondType, TimestampSecondType,
};

const MILLISECONDS_PER_SECOND: i32 = 1_000;
const MILLISECONDS_PER_DAY: i64 = 86_400_000;

/// The schema of columns in the units that Parquet has.
pub(super) fn schema(schema: &Schema) -> Schema {
    let field = |field: &Arc<Field>| match kept(field.data_type()) {
        Some(of) => Arc::new(field.as_ref().clone().with_data_type(of)),
        None => field.clone(),
    };
    let fields: Vec<Arc<Field>> = schema.fields().iter().map(field).collect();
    Schema::new(fields).with_metadata(schema.metadata().clone())
}

/// The type that holds the values of a type in a unit that Parquet has, if that is another one.
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

/// The values of a column in a unit that Parquet has. A moment that it cannot express is null.
pub(super) fn array(values: &ArrayRef) -> ArrayRef {
    match values.data_type() {
        DataType::Timestamp(TimeUnit::Second, zone) => {
            let times = changed::<TimestampSecondType, TimestampMillisecondType>(values, |second| {
                second.checked_mul(MILLISECONDS_PER_SECOND.into())
            });
            Arc::new(times.with_timezone_opt(zone.clone()))
        }
        DataType::Time32(TimeUnit::Second) => {
            Arc::new(changed::<Time32SecondType, Time32MillisecondType>(values, |second| {
                second.checked_mul(MILLISECONDS_PER_SECOND)
            }))
        }
        DataType::Date64 => Arc::new(changed::<Date64Type, Date32Type>(values, |time| {
            i32::try_from(time.div_euclid(MILLISECONDS_PER_DAY)).ok()
        })),
        _ => values.clone(),
    }
}

fn changed<A: ArrowPrimitiveType, B: ArrowPrimitiveType>(
    values: &ArrayRef,
    change: impl Fn(A::Native) -> Option<B::Native>,
) -> PrimitiveArray<B> {
    values.as_primitive::<A>().iter().map(|value| value.and_then(&change)).collect()
}
