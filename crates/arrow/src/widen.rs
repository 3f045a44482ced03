//! Converts numbers to wider types, but only if every value stays the same.

use std::sync::Arc;

use super::array::{Array, ArrayRef, AsArray, PrimitiveArray, new_null_array};
use super::datatypes::*;

/// The narrowest type of numbers that holds every value of all `types`; `None` if there is no such type.
pub(super) fn widest(types: &[&DataType]) -> Option<DataType> {
    // Floats come first, because the order matters: float32 holds int16 and uint16, but it does not hold
    // int32, which is the narrowest integer type for both.
    let (floats, others): (Vec<&DataType>, Vec<&DataType>) =
        types.iter().partition(|data_type| data_type.is_floating());
    let mut all = floats.into_iter().chain(others);
    let first = all.next()?.clone();
    all.try_fold(first, |widest, next| wider(&widest, next))
}

/// The narrowest type of numbers that holds every value of both types, as in [`widest`].
fn wider(a: &DataType, b: &DataType) -> Option<DataType> {
    use DataType::{Float16, Float32, Float64, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64};
    const SIGNED: [DataType; 4] = [Int8, Int16, Int32, Int64];
    const UNSIGNED: [DataType; 4] = [UInt8, UInt16, UInt32, UInt64];
    const FLOATS: [DataType; 3] = [Float16, Float32, Float64];
    let rank = |types: &[DataType], of: &DataType| types.iter().position(|known| known == of);
    let both = |types: &[DataType]| Some(rank(types, a)?.max(rank(types, b)?));
    for types in [&SIGNED[..], &UNSIGNED, &FLOATS] {
        if let Some(wider) = both(types) {
            return Some(types[wider].clone());
        }
    }
    let one_of = |types: &[DataType]| rank(types, a).or_else(|| rank(types, b));
    match (one_of(&SIGNED), one_of(&UNSIGNED), one_of(&FLOATS)) {
        // A signed type holds the values of an unsigned type of half its bits.
        (Some(signed), Some(unsigned), None) => SIGNED.get(signed.max(unsigned + 1)).cloned(),
        // A float holds all integers that have at most as many bits as its significand: 11, 24 or 53.
        (Some(whole), None, Some(float)) | (None, Some(whole), Some(float)) => {
            let holds: usize = match whole {
                0 => 0,
                1 => 1,
                2 => 2,
                _ => return None,
            };
            Some(FLOATS[float.max(holds)].clone())
        }
        _ => None,
    }
}

/// Converts an array of numbers to a [wider](widest) type, or an array of nulls to any type; `None` for any
/// other pair of types.
pub(super) fn widen(array: &ArrayRef, to: &DataType) -> Option<ArrayRef> {
    macro_rules! from {
        ($from:ty => $($to:ident as $into:ty),*) => {
            match to {
                $(DataType::$to => Some(converted::<$from, $into>(array)),)*
                _ => None,
            }
        };
    }
    match array.data_type() {
        DataType::Int8 => {
            from!(Int8Type => Int16 as Int16Type, Int32 as Int32Type, Int64 as Int64Type, Float16 as Float16Type, Float32 as Float32Type, Float64 as Float64Type)
        }
        DataType::Int16 => {
            from!(Int16Type => Int32 as Int32Type, Int64 as Int64Type, Float32 as Float32Type, Float64 as Float64Type)
        }
        DataType::Int32 => from!(Int32Type => Int64 as Int64Type, Float64 as Float64Type),
        DataType::UInt8 => {
            from!(UInt8Type => UInt16 as UInt16Type, UInt32 as UInt32Type, UInt64 as UInt64Type, Int16 as Int16Type, Int32 as Int32Type, Int64 as Int64Type, Float16 as Float16Type, Float32 as Float32Type, Float64 as Float64Type)
        }
        DataType::UInt16 => {
            from!(UInt16Type => UInt32 as UInt32Type, UInt64 as UInt64Type, Int32 as Int32Type, Int64 as Int64Type, Float32 as Float32Type, Float64 as Float64Type)
        }
        DataType::UInt32 => {
            from!(UInt32Type => UInt64 as UInt64Type, Int64 as Int64Type, Float64 as Float64Type)
        }
        DataType::Float16 => from!(Float16Type => Float32 as Float32Type, Float64 as Float64Type),
        DataType::Float32 => from!(Float32Type => Float64 as Float64Type),
        DataType::Null => Some(new_null_array(to, array.len())),
        _ => None,
    }
}

fn converted<A: ArrowPrimitiveType, B: ArrowPrimitiveType>(array: &ArrayRef) -> ArrayRef
where
    A::Native: Into<B::Native>,
{
    let wide: PrimitiveArray<B> = array.as_primitive::<A>().unary(Into::into);
    Arc::new(wide)
}

#[cfg(test)]
mod tests {
    use super::super::array::{Int8Array, UInt32Array};
    use super::*;
    use DataType::{
        Float16, Float32, Float64, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64, Utf8,
    };

    #[test]
    fn a_wider_type_holds_every_value_of_both() {
        for (a, b, want) in [
            (Int8, Int64, Some(Int64)),
            (UInt8, UInt16, Some(UInt16)),
            (Float16, Float64, Some(Float64)),
            (UInt8, Int8, Some(Int16)),
            (UInt32, Int8, Some(Int64)),
            (UInt64, Int8, None),
            (Int8, Float16, Some(Float16)),
            (UInt16, Float16, Some(Float32)),
            (Int32, Float32, Some(Float64)),
            (Int64, Float64, None),
            (UInt64, Float64, None),
            (Int32, Utf8, None),
            (Utf8, Utf8, None),
        ] {
            assert_eq!(wider(&a, &b), want, "{a} and {b}");
            assert_eq!(wider(&b, &a), want, "{b} and {a}");
        }
    }

    #[test]
    fn the_order_of_types_makes_no_difference() {
        for types in [[Int8, UInt16, Float32], [UInt16, Float32, Int8], [Float32, Int8, UInt16]] {
            assert_eq!(widest(&types.each_ref()), Some(Float32));
        }
        for types in [[Int8, UInt32, Float64], [UInt32, Float64, Int8]] {
            assert_eq!(widest(&types.each_ref()), Some(Float64));
        }
        assert_eq!(widest(&[&Int64, &Float16]), None);
    }

    #[test]
    fn every_pair_that_has_a_wider_type_is_converted() {
        let all = [Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64, Float16, Float32, Float64];
        for a in &all {
            for wide in all.iter().filter_map(|b| wider(a, b)).filter(|wide| wide != a) {
                let array = new_null_array(a, 1);
                assert_eq!(widen(&array, &wide).map(|array| array.data_type().clone()), Some(wide));
            }
        }
        let signed: ArrayRef = Arc::new(Int8Array::from(vec![Some(-128), None, Some(127)]));
        let wide = widen(&signed, &Float16).unwrap();
        let values: Vec<Option<f32>> =
            wide.as_primitive::<Float16Type>().iter().map(|v| v.map(Into::into)).collect();
        assert_eq!(values, [Some(-128.0), None, Some(127.0)]);
        let large: ArrayRef = Arc::new(UInt32Array::from(vec![u32::MAX]));
        assert_eq!(widen(&large, &Int64).unwrap().as_primitive::<Int64Type>().value(0), i64::from(u32::MAX));
        assert!(widen(&large, &Int32).is_none());
    }
}
