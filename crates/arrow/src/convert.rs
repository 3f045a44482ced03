//! Converts arrays to a [common](super::common) type. A value that the type cannot hold exactly is an error.

use std::sync::Arc;

use super::array::{
    Array, ArrayRef, AsArray, FixedSizeListArray, Int64Array, LargeListArray, OffsetSizeTrait,
    PrimitiveArray, StructArray, UInt64Array, make_array, new_null_array,
};
use super::buffer::{NullBuffer, OffsetBuffer};
use super::compute::take;
use super::datatypes::*;
use super::error::ArrowError;
use super::evolve::{changes, evolved};
use super::names::TypeName;
use super::widen::widen;

pub use super::misfit::{Misfit, Trouble};

/// Converts an array to a type that holds all of its values. Fields of structures are matched by name.
pub fn converted(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, Trouble> {
    if array.data_type() == to {
        return Ok(array.clone());
    }
    if let Some(wide) = widen(array, to) {
        return Ok(wide);
    }
    match (array.data_type(), to) {
        (DataType::List(_), DataType::LargeList(_) | DataType::FixedSizeList(..)) => list::<i32>(array, to),
        (DataType::LargeList(_), DataType::LargeList(_) | DataType::FixedSizeList(..)) => {
            list::<i64>(array, to)
        }
        (DataType::FixedSizeList(_, length), DataType::LargeList(item)) => {
            unfixed(array, usize::try_from(*length).unwrap_or(0), item)
        }
        (DataType::Struct(_), DataType::Struct(fields)) => structure(array, fields),
        (from, to) if changes(from, to) => evolved(array, to),
        (DataType::Date32, DataType::Date64) => {
            let days = array.as_primitive::<Date32Type>();
            let milliseconds = days.unary::<_, Date64Type>(|days| i64::from(days) * MILLISECONDS_A_DAY);
            Ok(Arc::new(milliseconds))
        }
        (from, to) if unit(from).is_some() && unit(to).is_some() => in_unit(array, to),
        (from, to) if from.is_decimal() && to.is_decimal() => decimals(array, to),
        _ => inside(array, to),
    }
}

const MILLISECONDS_A_DAY: i64 = 86_400_000;

/// Converts an array to a type of the same kind whose nested fields differ in name, nullability or type.
fn inside(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, Trouble> {
    let fields: Vec<&DataType> = match to {
        DataType::List(field) | DataType::FixedSizeList(field, _) | DataType::Map(field, _) => {
            vec![field.data_type()]
        }
        _ => Vec::new(),
    };
    let data = array.to_data();
    let children = data.child_data().iter().zip(fields).map(|(child, to)| {
        let child = converted(&make_array(child.clone()), to);
        Ok(child.map_err(|trouble| trouble.in_list(|item| row_of(array, item)))?.to_data())
    });
    let children = children.collect::<Result<_, Trouble>>()?;
    Ok(make_array(data.into_builder().data_type(to.clone()).child_data(children).build()?))
}

/// Finds the row whose list or map contains the item at index `item`.
fn row_of(array: &ArrayRef, item: usize) -> usize {
    let of_32 = |offsets: &[i32]| last_before(offsets, item);
    match array.data_type() {
        DataType::List(_) => of_32(array.as_list::<i32>().value_offsets()),
        DataType::Map(..) => of_32(array.as_map().value_offsets()),
        DataType::FixedSizeList(_, length) => item / usize::try_from(*length).unwrap_or(1).max(1),
        _ => item,
    }
}

/// Finds the last list whose first item has the index `item` or a smaller one.
fn last_before<O: OffsetSizeTrait>(offsets: &[O], item: usize) -> usize {
    offsets.partition_point(|offset| offset.as_usize() <= item).saturating_sub(1)
}

fn structure(array: &ArrayRef, fields: &Fields) -> Result<ArrayRef, Trouble> {
    let structure = array.as_struct();
    let names = || structure.fields().iter().map(|field| field.name());
    let are_in_order = structure.num_columns() == fields.len() && names().eq(fields.iter().map(|f| f.name()));
    let columns = fields.iter().enumerate().map(|(at, field)| {
        let column = match are_in_order {
            true => Some(structure.column(at)),
            false => structure.column_by_name(field.name()),
        };
        match column {
            Some(column) => converted(column, field.data_type()),
            None => Ok(new_null_array(field.data_type(), structure.len())),
        }
    });
    let columns = columns.collect::<Result<Vec<_>, Trouble>>()?;
    let (nulls, rows) = (structure.nulls().cloned(), structure.len());
    Ok(Arc::new(StructArray::try_new_with_length(fields.clone(), columns, nulls, rows)?))
}

/// Converts lists of variable length to lists with 64-bit offsets or to lists of a fixed length.
fn list<O: OffsetSizeTrait>(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, Trouble> {
    let list = array.as_list::<O>();
    let offsets = list.value_offsets();
    let items = |item: &FieldRef| {
        converted(list.values(), item.data_type())
            .map_err(|trouble| trouble.in_list(|item| last_before(offsets, item)))
    };
    match to {
        DataType::LargeList(item) => {
            let offsets: Vec<i64> = offsets.iter().map(|offset| offset.as_usize() as i64).collect();
            let (offsets, nulls) = (OffsetBuffer::new(offsets.into()), list.nulls().cloned());
            Ok(Arc::new(LargeListArray::try_new(item.clone(), offsets, items(item)?, nulls)?))
        }
        DataType::FixedSizeList(item, length) => {
            let long = usize::try_from(*length).unwrap_or(0);
            let of = |row: usize| offsets[row].as_usize()..offsets[row + 1].as_usize();
            let there = |row: &usize| list.is_valid(*row);
            if let Some(row) = (0..list.len()).filter(there).find(|row| of(*row).len() != long) {
                let cause =
                    format!("a list of {} items, where lists of other files have {length}", of(row).len());
                return Err(Trouble::Value(Misfit { row, cause, is_length: true }));
            }
            let items = items(item)?;
            let items = match list.null_count() {
                0 => items.slice(offsets[0].as_usize(), list.len() * long),
                _ => {
                    let none = || vec![None; long];
                    let some = |row: usize| of(row).map(|item| Some(item as i64)).collect();
                    let each = (0..list.len()).flat_map(|row| if there(&row) { some(row) } else { none() });
                    take(&items, &Int64Array::from_iter(each), None)?
                }
            };
            let nulls = list.nulls().cloned();
            let made =
                FixedSizeListArray::try_new_with_length(item.clone(), *length, items, nulls, list.len())?;
            Ok(Arc::new(made))
        }
        _ => inside(array, to),
    }
}

/// Converts lists of a fixed length to lists of variable length. Lists that are null become empty.
fn unfixed(array: &ArrayRef, length: usize, item: &FieldRef) -> Result<ArrayRef, Trouble> {
    let list = array.as_fixed_size_list();
    let items = converted(list.values(), item.data_type())
        .map_err(|trouble| trouble.in_list(|item| item / length.max(1)))?;
    let nulls = list.nulls().cloned();
    let (items, lengths): (ArrayRef, Vec<usize>) = match &nulls {
        None => (items, vec![length; list.len()]),
        Some(nulls) => {
            let there = nulls.valid_indices().flat_map(|row| row * length..(row + 1) * length);
            let there = UInt64Array::from_iter_values(there.map(|item| item as u64));
            let lengths = nulls.iter().map(|is_there| if is_there { length } else { 0 }).collect();
            (take(&items, &there, None)?, lengths)
        }
    };
    let offsets = OffsetBuffer::from_lengths(lengths);
    Ok(Arc::new(LargeListArray::try_new(item.clone(), offsets, items, nulls)?))
}

/// The unit of a time; `None` for dates.
fn unit(data_type: &DataType) -> Option<TimeUnit> {
    match data_type {
        DataType::Timestamp(unit, _)
        | DataType::Time32(unit)
        | DataType::Time64(unit)
        | DataType::Duration(unit) => Some(*unit),
        _ => None,
    }
}

/// The number of `unit`s in a second.
fn a_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// Converts times to a finer unit, or renames their time zone.
fn in_unit(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, Trouble> {
    let from = array.data_type();
    let (Some(coarse), Some(fine)) = (unit(from), unit(to)) else { return inside(array, to) };
    if coarse == fine {
        return inside(array, to);
    }
    let plain = |data_type: DataType| -> Result<ArrayRef, ArrowError> {
        Ok(make_array(array.to_data().into_builder().data_type(data_type).build()?))
    };
    let numbers: Int64Array = match from {
        DataType::Time32(_) => plain(DataType::Int32)?.as_primitive::<Int32Type>().unary(i64::from),
        _ => plain(DataType::Int64)?.as_primitive::<Int64Type>().clone(),
    };
    let factor = a_second(fine) / a_second(coarse);
    let (nulls, fits_32) = (numbers.nulls().cloned(), matches!(to, DataType::Time32(_)));
    let scaled = |number: i64| {
        let scaled = number.checked_mul(factor)?;
        (!fits_32 || i32::try_from(scaled).is_ok()).then_some(scaled)
    };
    let made: Int64Array = match numbers.try_unary(|number| scaled(number).ok_or(())) {
        Ok(made) => made,
        Err(()) => {
            let there = |row: &usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(*row));
            let beyond = |row: &usize| scaled(numbers.value(*row)).is_none();
            let row = (0..numbers.len()).filter(there).find(beyond).unwrap_or_default();
            let shown = format!("{} of {}", numbers.value(row), TypeName(from));
            return Err(Misfit::value(row, shown, to));
        }
    };
    let made: ArrayRef = match fits_32 {
        true => Arc::new(made.unary::<_, Int32Type>(|number| number as i32)),
        false => Arc::new(made),
    };
    Ok(make_array(made.to_data().into_builder().data_type(to.clone()).build()?))
}

/// Converts decimals to more digits, or to more digits after the point.
fn decimals(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, Trouble> {
    let from = array.data_type();
    let (Some((width, scale)), Some((wide, fine))) = (form(from), form(to)) else { return inside(array, to) };
    if (width, scale) == (wide, fine) {
        return inside(array, to);
    }
    macro_rules! values {
        ($type:ty, $number:expr) => {{
            let values = array.as_primitive::<$type>();
            Box::new(|row| $number(values.value(row)))
        }};
    }
    let value: Box<dyn Fn(usize) -> i256 + '_> = match from {
        DataType::Decimal32(..) => values!(Decimal32Type, |value: i32| i256::from_i128(value.into())),
        DataType::Decimal64(..) => values!(Decimal64Type, |value: i64| i256::from_i128(value.into())),
        DataType::Decimal128(..) => values!(Decimal128Type, i256::from_i128),
        _ => values!(Decimal256Type, |value: i256| value),
    };
    let ten = i256::from_i128(10);
    let factor =
        u32::try_from(i16::from(fine) - i16::from(scale)).ok().and_then(|more| ten.checked_pow(more));
    let scaled = |row: usize| factor.and_then(|factor| value(row).checked_mul(factor));
    let beyond = |row: usize| Misfit::value(row, format!("{} of {}", value(row), TypeName(from)), to);
    let (nulls, rows) = (array.nulls(), 0..array.len());
    let there = |row: usize| nulls.is_none_or(|nulls: &NullBuffer| nulls.is_valid(row));
    macro_rules! made {
        ($type:ty, $native:expr) => {{
            let each = rows.map(|row| match there(row) {
                true => Ok(Some(scaled(row).and_then($native).ok_or_else(|| beyond(row))?)),
                false => Ok(None),
            });
            Arc::new(each.collect::<Result<PrimitiveArray<$type>, Trouble>>()?) as ArrayRef
        }};
    }
    let made = match to {
        DataType::Decimal32(..) => {
            made!(Decimal32Type, |value: i256| value.to_i128().and_then(|value| value.try_into().ok()))
        }
        DataType::Decimal64(..) => {
            made!(Decimal64Type, |value: i256| value.to_i128().and_then(|value| value.try_into().ok()))
        }
        DataType::Decimal128(..) => made!(Decimal128Type, |value: i256| value.to_i128()),
        _ => made!(Decimal256Type, Some),
    };
    Ok(make_array(made.to_data().into_builder().data_type(to.clone()).build()?))
}

/// The number of bits of a decimal, and its number of digits after the point.
fn form(data_type: &DataType) -> Option<(u16, i8)> {
    match data_type {
        DataType::Decimal32(_, scale) => Some((32, *scale)),
        DataType::Decimal64(_, scale) => Some((64, *scale)),
        DataType::Decimal128(_, scale) => Some((128, *scale)),
        DataType::Decimal256(_, scale) => Some((256, *scale)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::array::{
        Decimal128Array, Int8Array, ListArray, Time32SecondArray, TimestampMicrosecondArray,
    };
    use super::super::common::common;
    use super::*;

    fn item(data_type: DataType) -> FieldRef {
        Arc::new(Field::new("item", data_type, true))
    }

    fn lists(rows: Vec<Option<Vec<i8>>>) -> ArrayRef {
        let rows = rows.into_iter().map(|row| row.map(|row| row.into_iter().map(Some).collect::<Vec<_>>()));
        Arc::new(ListArray::from_iter_primitive::<Int8Type, _, _>(rows))
    }

    fn misfit(array: &ArrayRef, to: &DataType) -> Misfit {
        match converted(array, to).unwrap_err() {
            Trouble::Value(misfit) => misfit,
            Trouble::Types(error) => panic!("{error}"),
        }
    }

    #[test]
    fn every_pair_that_has_a_common_type_is_converted() {
        let zone = |zone: &str| DataType::Timestamp(TimeUnit::Second, Some(zone.into()));
        let pair = |names: [(&str, DataType); 2]| {
            let field = |(name, data_type): (&str, DataType)| Field::new(name, data_type, true);
            DataType::Struct(names.into_iter().map(field).collect())
        };
        let plain = [
            DataType::Int8,
            DataType::Null,
            DataType::Date32,
            DataType::Date64,
            zone("UTC"),
            zone("Z"),
            DataType::Timestamp(TimeUnit::Second, None),
            DataType::Timestamp(TimeUnit::Nanosecond, None),
            DataType::Time32(TimeUnit::Second),
            DataType::Time32(TimeUnit::Millisecond),
            DataType::Time64(TimeUnit::Nanosecond),
            DataType::Duration(TimeUnit::Second),
            DataType::Duration(TimeUnit::Microsecond),
            DataType::Decimal32(5, 2),
            DataType::Decimal64(5, 3),
            DataType::Decimal128(30, 2),
            DataType::Decimal256(40, 4),
            pair([("a", DataType::Int8), ("b", DataType::Int64)]),
            pair([("b", DataType::Int8), ("a", DataType::Int16)]),
        ];
        let inside =
            |of: fn(FieldRef) -> DataType| plain.iter().map(move |data_type| of(item(data_type.clone())));
        let nested = inside(DataType::List).chain(inside(DataType::LargeList));
        let nested = nested.chain(inside(|item| DataType::FixedSizeList(item, 2)));
        let all: Vec<DataType> = plain.iter().cloned().chain(nested).collect();
        let mut converted_pairs = 0;
        for a in &all {
            for b in &all {
                for to in [false, true].into_iter().filter_map(|widens| common(&[a, b], widens)) {
                    let array = converted(&new_null_array(a, 2), &to);
                    let array = array.unwrap_or_else(|trouble| panic!("{a} to {to}: {trouble:?}"));
                    assert_eq!((array.data_type(), array.len(), array.logical_null_count()), (&to, 2, 2));
                    converted_pairs += 1;
                }
            }
        }
        assert!(converted_pairs > 300, "{converted_pairs}");
    }

    #[test]
    fn times_are_the_same_moments_or_refused_with_their_row() {
        let nanoseconds = DataType::Timestamp(TimeUnit::Nanosecond, None);
        let times: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![Some(-1), None, Some(2_000)]));
        let fine = converted(&times, &nanoseconds).unwrap();
        let fine: Vec<_> = fine.as_primitive::<TimestampNanosecondType>().iter().collect();
        assert_eq!(fine, [Some(-1_000), None, Some(2_000_000)]);
        let far: ArrayRef =
            Arc::new(TimestampMicrosecondArray::from(vec![Some(0), None, Some(i64::MAX / 999)]));
        let misfit = misfit(&far, &nanoseconds);
        assert_eq!((misfit.row, misfit.is_length), (2, false));
        assert!(misfit.cause.ends_with("of timestamp[us] does not fit timestamp[ns]"), "{}", misfit.cause);
        let of_day: ArrayRef = Arc::new(Time32SecondArray::from(vec![i32::MAX]));
        assert_eq!(self::misfit(&of_day, &DataType::Time32(TimeUnit::Millisecond)).row, 0);
    }

    #[test]
    fn decimals_keep_their_value_or_are_refused() {
        let decimals = |values: Vec<Option<i128>>| {
            let array = Decimal128Array::from(values);
            Arc::new(array.with_precision_and_scale(5, 2).unwrap()) as ArrayRef
        };
        let some = decimals(vec![Some(-12345), None, Some(1)]);
        let wide = converted(&some, &DataType::Decimal256(40, 4)).unwrap();
        let wide: Vec<_> = wide.as_primitive::<Decimal256Type>().iter().collect();
        assert_eq!(wide, [Some(i256::from_i128(-1_234_500)), None, Some(i256::from_i128(100))]);
        let more = converted(&some, &DataType::Decimal128(9, 2)).unwrap();
        assert_eq!(more.as_primitive::<Decimal128Type>().value(0), -12345);
        // The value has more digits than its own type permits.
        let beyond = decimals(vec![None, Some(i128::MAX)]);
        assert_eq!(misfit(&beyond, &DataType::Decimal128(7, 4)).row, 1);
    }

    #[test]
    fn lists_of_one_length_are_found_and_others_refused_with_their_row() {
        let fixed = DataType::FixedSizeList(item(DataType::Int16), 2);
        let array = lists(vec![Some(vec![1, 2]), None, Some(vec![3, 4])]);
        for array in [array.clone(), converted(&array, &DataType::LargeList(item(DataType::Int8))).unwrap()] {
            let made = converted(&array, &fixed).unwrap();
            let made = made.as_fixed_size_list();
            assert!(made.is_null(1));
            assert_eq!(made.value(2).as_primitive::<Int16Type>().values(), &[3, 4]);
            let back =
                converted(&(Arc::new(made.clone()) as ArrayRef), &DataType::LargeList(item(DataType::Int16)));
            let back = back.unwrap();
            assert_eq!(back.as_list::<i64>().value_offsets(), [0, 2, 2, 4]);
            assert_eq!(back.as_list::<i64>().value(2).as_primitive::<Int16Type>().values(), &[3, 4]);
        }
        let misfit = misfit(&lists(vec![None, Some(vec![1, 2]), Some(vec![3])]), &fixed);
        assert_eq!((misfit.row, misfit.is_length), (2, true));
        assert_eq!(misfit.cause, "a list of 1 items, where lists of other files have 2");
    }

    #[test]
    fn what_does_not_fit_in_a_list_has_the_row_of_the_list() {
        let seconds = Time32SecondArray::from(vec![1, 2, i32::MAX]);
        let offsets = OffsetBuffer::from_lengths([0, 2, 0, 1]);
        let list = ListArray::new(item(seconds.data_type().clone()), offsets, Arc::new(seconds), None);
        let list: ArrayRef = Arc::new(list);
        let milliseconds = item(DataType::Time32(TimeUnit::Millisecond));
        for to in [DataType::List(milliseconds.clone()), DataType::LargeList(milliseconds)] {
            assert_eq!(misfit(&list, &to).row, 3);
        }
    }

    #[test]
    fn fields_are_found_by_name() {
        let numbers: ArrayRef = Arc::new(Int8Array::from(vec![7]));
        let fields = |names: [&str; 2], data_type: &DataType| -> Fields {
            names.iter().map(|name| Field::new(*name, data_type.clone(), true)).collect()
        };
        let columns = vec![numbers.clone(), new_null_array(&DataType::Int8, 1)];
        let array: ArrayRef = Arc::new(StructArray::new(fields(["a", "b"], &DataType::Int8), columns, None));
        let made = converted(&array, &DataType::Struct(fields(["b", "a"], &DataType::Int64))).unwrap();
        assert_eq!(made.as_struct().column(1).as_primitive::<Int64Type>().value(0), 7);
        assert!(made.as_struct().column(0).is_null(0));
    }
}
