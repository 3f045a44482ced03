//! Converts single values from Avro to arrays of one row: the values of partitions, and the defaults of
//! columns.

use std::sync::Arc;

use forebay_arrow::array::{
    ArrayRef, BinaryViewArray, BooleanArray, Date32Array, Decimal128Array, FixedSizeBinaryArray,
    Float32Array, Float64Array, Int32Array, Int64Array, StringViewArray, Time64MicrosecondArray,
    TimestampMicrosecondArray, TimestampNanosecondArray, new_null_array,
};
use forebay_arrow::datatypes::{DataType, TimeUnit};

use crate::avro::AvroValue;

pub(crate) const MICROSECONDS_A_DAY: i64 = 86_400_000_000;

/// An array of one row with the value; `None` if the value does not fit the type. A value of a narrower type
/// is widened, since the column may have had that type when the value was written.
pub(crate) fn array(data_type: &DataType, value: &AvroValue) -> Option<ArrayRef> {
    Some(match (data_type, value) {
        (_, AvroValue::Null) => new_null_array(data_type, 1),
        (DataType::Boolean, AvroValue::Boolean(value)) => Arc::new(BooleanArray::from(vec![*value])),
        (DataType::Int32, AvroValue::Int(value)) => Arc::new(Int32Array::from(vec![*value])),
        (DataType::Int64, AvroValue::Int(value)) => Arc::new(Int64Array::from(vec![i64::from(*value)])),
        (DataType::Int64, AvroValue::Long(value)) => Arc::new(Int64Array::from(vec![*value])),
        (DataType::Float32, AvroValue::Float(bits)) => {
            Arc::new(Float32Array::from(vec![f32::from_bits(*bits)]))
        }
        (DataType::Float64, AvroValue::Float(bits)) => {
            Arc::new(Float64Array::from(vec![f64::from(f32::from_bits(*bits))]))
        }
        (DataType::Float64, AvroValue::Double(bits)) => {
            Arc::new(Float64Array::from(vec![f64::from_bits(*bits)]))
        }
        (DataType::Date32, AvroValue::Int(days)) => Arc::new(Date32Array::from(vec![*days])),
        (DataType::Time64(TimeUnit::Microsecond), AvroValue::Long(time)) => {
            Arc::new(Time64MicrosecondArray::from(vec![*time]))
        }
        (DataType::Timestamp(TimeUnit::Microsecond, zone), AvroValue::Long(_) | AvroValue::Int(_)) => {
            let time = match value {
                AvroValue::Int(days) => i64::from(*days) * MICROSECONDS_A_DAY,
                other => other.clone().number()?,
            };
            Arc::new(TimestampMicrosecondArray::from(vec![time]).with_timezone_opt(zone.clone()))
        }
        (DataType::Timestamp(TimeUnit::Nanosecond, zone), AvroValue::Long(time)) => {
            Arc::new(TimestampNanosecondArray::from(vec![*time]).with_timezone_opt(zone.clone()))
        }
        (DataType::Utf8View, AvroValue::Text(text)) => Arc::new(StringViewArray::from(vec![&**text])),
        (DataType::BinaryView, AvroValue::Bytes(bytes)) => {
            Arc::new(BinaryViewArray::from_iter_values([bytes]))
        }
        (DataType::FixedSizeBinary(size), AvroValue::Bytes(bytes)) if bytes.len() == *size as usize => {
            Arc::new(FixedSizeBinaryArray::try_from_iter([bytes].into_iter()).ok()?)
        }
        (DataType::Decimal128(digits, scale), AvroValue::Bytes(bytes)) => {
            let number = number_of(bytes)?;
            let most = 10i128.checked_pow(u32::from(*digits))?;
            let array =
                (number.unsigned_abs() < most.unsigned_abs()).then(|| Decimal128Array::from(vec![number]))?;
            Arc::new(array.with_precision_and_scale(*digits, *scale).ok()?)
        }
        _ => return None,
    })
}

/// Reads a signed integer of any length in big-endian order; `None` if it does not fit into 128 bits.
fn number_of(bytes: &[u8]) -> Option<i128> {
    let sign = if bytes.first()? & 0x80 == 0 { 0 } else { 0xff };
    let spare = bytes.len().saturating_sub(16);
    let (spare, rest) = bytes.split_at(spare);
    let mut whole = [sign; 16];
    whole[16 - rest.len()..].copy_from_slice(rest);
    let number = i128::from_be_bytes(whole);
    (spare.iter().all(|byte| *byte == sign) && (number < 0) == (sign != 0)).then_some(number)
}

#[cfg(test)]
mod tests {
    use forebay_arrow::array::{Array, AsArray};
    use forebay_arrow::datatypes::{Decimal128Type, Float64Type, Int64Type, TimestampMicrosecondType};

    use super::*;

    #[test]
    fn values_of_narrower_types_are_widened() {
        let of = |data_type: &DataType, value: &AvroValue| array(data_type, value).unwrap();
        assert_eq!(of(&DataType::Int64, &AvroValue::Int(-7)).as_primitive::<Int64Type>().value(0), -7);
        let float = AvroValue::Float(1.5f32.to_bits());
        assert_eq!(of(&DataType::Float64, &float).as_primitive::<Float64Type>().value(0), 1.5);
        let moment = DataType::Timestamp(TimeUnit::Microsecond, None);
        let day = of(&moment, &AvroValue::Int(-1));
        assert_eq!(day.as_primitive::<TimestampMicrosecondType>().value(0), -MICROSECONDS_A_DAY);
        let price = of(&DataType::Decimal128(9, 2), &AvroValue::Bytes([0xff, 0x38].into()));
        assert_eq!(price.as_primitive::<Decimal128Type>().value(0), -200);
        assert_eq!(of(&DataType::Utf8View, &AvroValue::Null).null_count(), 1);
    }

    #[test]
    fn values_of_other_types_are_none() {
        for (data_type, value) in [
            (DataType::Int32, AvroValue::Long(1)),
            (DataType::Boolean, AvroValue::Int(1)),
            (DataType::Decimal128(2, 0), AvroValue::Bytes([0, 100].into())),
            (DataType::Decimal128(38, 0), AvroValue::Bytes([1; 17].into())),
            (DataType::Decimal128(38, 0), AvroValue::Bytes([].into())),
            (DataType::FixedSizeBinary(2), AvroValue::Bytes([1].into())),
        ] {
            assert!(array(&data_type, &value).is_none(), "{data_type} {value:?}");
        }
    }
}
