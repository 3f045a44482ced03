//! Finds one type for the values of one column that has several types in the files of a data set.
//!
//! The types may always differ in form: lists may have offsets of 32 or 64 bits or one fixed length, and the
//! name of the time zone UTC, the precision of decimals and the order of a structure's fields may differ.
//! They may differ in unit, scale or width only if the caller allows a wider type.

use std::sync::Arc;

use super::datatypes::{DataType, Field, FieldRef, Fields, TimeUnit};
use super::widen::widest;

/// The names of the time zone UTC, in lower case.
const UTC: [&str; 12] = [
    "utc",
    "etc/utc",
    "z",
    "+00:00",
    "-00:00",
    "+00",
    "+0000",
    "zulu",
    "etc/zulu",
    "uct",
    "etc/uct",
    "utc+00:00",
];

/// The highest number of digits in decimals of 32, 64, 128 and 256 bits.
const DIGITS: [u8; 4] = [9, 18, 38, 76];

/// The units of time, from coarse to fine.
const UNITS: [TimeUnit; 4] =
    [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond];

/// Finds the type that holds the values of all `types`; returns `None` if there is none. Without `widens`,
/// the types may differ only in form, as the module defines it. The order of `types` matters only for the
/// names and metadata of nested fields.
pub fn common(types: &[&DataType], widens: bool) -> Option<DataType> {
    let (first, others) = types.split_first()?;
    if others.iter().all(|other| other == first) {
        return Some((*first).clone());
    }
    let values: Vec<&DataType> =
        types.iter().copied().filter(|data_type| **data_type != DataType::Null).collect();
    // If types may be widened, a column of nulls can take any type. Only the others (`values`) then matter.
    if widens && values.len() < types.len() {
        return common(&values, widens);
    }
    lists(types, widens)
        .or_else(|| structures(types, widens))
        .or_else(|| maps(types, widens))
        .or_else(|| times(types, widens))
        .or_else(|| decimals(types, widens))
        .or_else(|| if widens { widest(types) } else { None })
}

/// Merges fields into one with the common type of all; its name and metadata are those of the first field. It
/// is nullable if one of the fields is.
fn common_field(fields: &[&FieldRef], widens: bool) -> Option<FieldRef> {
    let types: Vec<&DataType> = fields.iter().map(|field| field.data_type()).collect();
    let is_nullable = fields.iter().any(|field| field.is_nullable());
    let first = fields.first()?.as_ref().clone();
    Some(Arc::new(first.with_data_type(common(&types, widens)?).with_nullable(is_nullable)))
}

fn lists(types: &[&DataType], widens: bool) -> Option<DataType> {
    let items = types.iter().map(|data_type| match data_type {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => Some(item),
        _ => None,
    });
    let item = common_field(&items.collect::<Option<Vec<_>>>()?, widens)?;
    let mut lengths = types.iter().map(|data_type| match data_type {
        DataType::FixedSizeList(_, length) => Some(*length),
        _ => None,
    });
    let first = lengths.next()?;
    let have_one = lengths.clone().all(|length| length == first);
    let fixed = first.or_else(|| lengths.clone().flatten().next());
    let are_narrow = types.iter().all(|data_type| matches!(data_type, DataType::List(_)));
    match fixed {
        None if are_narrow => Some(DataType::List(item)),
        None => Some(DataType::LargeList(item)),
        Some(length) if have_one => Some(DataType::FixedSizeList(item, length)),
        Some(_) if widens => Some(DataType::LargeList(item)),
        // Some types are lists of variable length, and all fixed lengths are equal to `length`. Each list of
        // variable length must then have `length` items, which is checked when it is read.
        Some(length) if first.into_iter().chain(lengths.flatten()).all(|other| other == length) => {
            Some(DataType::FixedSizeList(item, length))
        }
        Some(_) => None,
    }
}

/// Finds the common type of structures with the same fields. Its fields have the order of the first one's.
fn structures(types: &[&DataType], widens: bool) -> Option<DataType> {
    let each = types.iter().map(|data_type| match data_type {
        DataType::Struct(fields) => Some(fields),
        _ => None,
    });
    let each = each.collect::<Option<Vec<&Fields>>>()?;
    let (first, others) = each.split_first()?;
    let has_names = |other: &&Fields| {
        first.len() == other.len() && first.iter().zip(*other).all(|(a, b)| a.name() == b.name())
    };
    let are_in_order = others.iter().all(has_names);
    let field = |(at, field): (usize, &FieldRef)| {
        let of = |fields: &&'_ Fields| {
            let mut named = fields.iter().filter(|other| other.name() == field.name());
            let one = named.next().filter(|_| named.next().is_none());
            if are_in_order { fields.get(at).cloned() } else { one.cloned() }
        };
        let all = each.iter().map(of).collect::<Option<Vec<_>>>()?;
        common_field(&all.iter().collect::<Vec<_>>(), widens)
    };
    let have_as_many = others.iter().all(|other| other.len() == first.len());
    let fields = have_as_many.then(|| first.iter().enumerate().map(field).collect::<Option<Fields>>())??;
    Some(DataType::Struct(fields))
}

/// Finds the common type of maps, whose keys and values may have any names.
fn maps(types: &[&DataType], widens: bool) -> Option<DataType> {
    let entries = types.iter().map(|data_type| match data_type {
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) if fields.len() == 2 => Some((entries, fields)),
            _ => None,
        },
        _ => None,
    });
    let entries = entries.collect::<Option<Vec<_>>>()?;
    let field =
        |at: usize| common_field(&entries.iter().map(|(_, fields)| &fields[at]).collect::<Vec<_>>(), widens);
    let pair = DataType::Struct(Fields::from(vec![field(0)?, field(1)?]));
    let first: &Field = entries.first()?.0;
    let is_sorted = types.iter().all(|data_type| matches!(data_type, DataType::Map(_, true)));
    Some(DataType::Map(Arc::new(first.clone().with_data_type(pair)), is_sorted))
}

/// Finds the common type of timestamps, times of day, durations or dates.
fn times(types: &[&DataType], widens: bool) -> Option<DataType> {
    let unit = |data_type: &&DataType| match data_type {
        DataType::Timestamp(unit, _)
        | DataType::Time32(unit)
        | DataType::Time64(unit)
        | DataType::Duration(unit) => UNITS.iter().position(|known| known == unit),
        _ => None,
    };
    let are = |is: fn(&DataType) -> bool| types.iter().all(|data_type| is(data_type));
    if are(|data_type| matches!(data_type, DataType::Date32 | DataType::Date64)) {
        return widens.then_some(DataType::Date64);
    }
    let units = types.iter().map(unit).collect::<Option<Vec<usize>>>()?;
    let finest = units.iter().copied().max()?;
    if !widens && units.iter().any(|unit| *unit != finest) {
        return None;
    }
    let unit = UNITS[finest];
    if are(|data_type| matches!(data_type, DataType::Timestamp(..))) {
        return Some(DataType::Timestamp(unit, zone(types, widens)?));
    }
    if are(|data_type| matches!(data_type, DataType::Duration(_))) {
        return Some(DataType::Duration(unit));
    }
    let are_of_day = are(|data_type| matches!(data_type, DataType::Time32(_) | DataType::Time64(_)));
    are_of_day.then_some(match unit {
        TimeUnit::Second | TimeUnit::Millisecond => DataType::Time32(unit),
        TimeUnit::Microsecond | TimeUnit::Nanosecond => DataType::Time64(unit),
    })
}

/// Finds the common time zone of timestamps, which is `Some(None)` if no type has a zone. Different names of
/// UTC are one zone. Other zones have UTC in common if `widens` is true.
fn zone(types: &[&DataType], widens: bool) -> Option<Option<Arc<str>>> {
    let zones: Vec<Option<&Arc<str>>> = types
        .iter()
        .map(|data_type| match data_type {
            DataType::Timestamp(_, zone) => zone.as_ref(),
            _ => None,
        })
        .collect();
    let (first, others) = zones.split_first()?;
    if others.iter().all(|other| other == first) {
        return Some(first.cloned());
    }
    let zones = zones.into_iter().collect::<Option<Vec<_>>>()?;
    let is_utc = |zone: &&Arc<str>| UTC.contains(&zone.to_ascii_lowercase().as_str());
    (widens || zones.iter().all(is_utc)).then(|| Some("UTC".into()))
}

fn decimals(types: &[&DataType], widens: bool) -> Option<DataType> {
    let each = types.iter().map(|data_type| match data_type {
        DataType::Decimal32(digits, scale) => Some((0, *digits, *scale)),
        DataType::Decimal64(digits, scale) => Some((1, *digits, *scale)),
        DataType::Decimal128(digits, scale) => Some((2, *digits, *scale)),
        DataType::Decimal256(digits, scale) => Some((3, *digits, *scale)),
        _ => None,
    });
    let each = each.collect::<Option<Vec<(usize, u8, i8)>>>()?;
    let scale = each.iter().map(|(.., scale)| *scale).max()?;
    if !widens && each.iter().any(|(.., other)| *other != scale) {
        return None;
    }
    let whole = each.iter().map(|(_, digits, scale)| i16::from(*digits) - i16::from(*scale)).max()?;
    let digits = u8::try_from(whole + i16::from(scale)).ok()?;
    let width = each.iter().map(|(width, ..)| *width).max()?;
    let width = (width..DIGITS.len()).find(|width| digits <= DIGITS[*width])?;
    Some(match width {
        0 => DataType::Decimal32(digits, scale),
        1 => DataType::Decimal64(digits, scale),
        2 => DataType::Decimal128(digits, scale),
        _ => DataType::Decimal256(digits, scale),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use DataType::{Date32, Date64, Float32, Int8, Int32, Int64, LargeList, List, Null, Utf8View};
    use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};

    fn item(data_type: DataType) -> FieldRef {
        Arc::new(Field::new("item", data_type, true))
    }

    fn fixed(data_type: DataType, length: i32) -> DataType {
        DataType::FixedSizeList(item(data_type), length)
    }

    fn at(unit: TimeUnit, zone: &str) -> DataType {
        DataType::Timestamp(unit, (!zone.is_empty()).then(|| zone.into()))
    }

    fn structure(fields: &[(&str, DataType)]) -> DataType {
        let field = |(name, data_type): &(&str, DataType)| Field::new(*name, data_type.clone(), true);
        DataType::Struct(fields.iter().map(field).collect())
    }

    fn map(names: [&str; 2], value: DataType) -> DataType {
        let pair = vec![Field::new(names[0], Utf8View, false), Field::new(names[1], value, true)];
        DataType::Map(Arc::new(Field::new("entries", DataType::Struct(pair.into()), false)), false)
    }

    /// Each case has two types, their common type without widening, and their common type with it.
    #[test]
    fn types_that_differ_in_form_are_one_and_wider_ones_are_taken_if_asked_for() {
        let decimal = DataType::Decimal128;
        let same = |a: DataType, b: DataType, both: DataType| (a, b, Some(both.clone()), Some(both));
        let wide = |a: DataType, b: DataType, both: DataType| (a, b, None, Some(both));
        let none = |a: DataType, b: DataType| (a, b, None, None);
        let two = [("a", Int64), ("b", Utf8View)];
        for (a, b, as_they_are, wider) in [
            same(List(item(Int64)), LargeList(item(Int64)), LargeList(item(Int64))),
            same(
                List(item(LargeList(item(Int8)))),
                List(item(List(item(Int8)))),
                List(item(LargeList(item(Int8)))),
            ),
            same(map(["key", "value"], List(item(Int8))), map(["k", "v"], LargeList(item(Int8))), {
                map(["key", "value"], LargeList(item(Int8)))
            }),
            (fixed(Int8, 4), List(item(Int8)), Some(fixed(Int8, 4)), Some(LargeList(item(Int8)))),
            wide(fixed(Int8, 4), fixed(Int8, 5), LargeList(item(Int8))),
            wide(fixed(Int8, 4), fixed(Int32, 4), fixed(Int32, 4)),
            wide(List(item(Int8)), LargeList(item(Float32)), LargeList(item(Float32))),
            none(List(item(Int8)), Int8),
            none(List(item(Int8)), LargeList(item(Utf8View))),
            same(at(Second, "UTC"), at(Second, "+00:00"), at(Second, "UTC")),
            same(at(Nanosecond, "Etc/UTC"), at(Nanosecond, "Z"), at(Nanosecond, "UTC")),
            wide(at(Microsecond, "utc"), at(Nanosecond, "UTC"), at(Nanosecond, "UTC")),
            wide(at(Microsecond, ""), at(Nanosecond, ""), at(Nanosecond, "")),
            wide(at(Second, "UTC"), at(Second, "Europe/Stockholm"), at(Second, "UTC")),
            none(at(Second, "UTC"), at(Second, "")),
            none(at(Second, ""), Date32),
            wide(Date32, Date64, Date64),
            wide(DataType::Time32(Second), DataType::Time64(Microsecond), DataType::Time64(Microsecond)),
            wide(
                DataType::Duration(Millisecond),
                DataType::Duration(Second),
                DataType::Duration(Millisecond),
            ),
            none(DataType::Time32(Second), DataType::Duration(Second)),
            same(decimal(9, 2), decimal(18, 2), decimal(18, 2)),
            same(DataType::Decimal32(9, 2), decimal(18, 2), decimal(18, 2)),
            wide(decimal(9, 2), decimal(9, 4), decimal(11, 4)),
            wide(decimal(38, 0), decimal(38, 10), DataType::Decimal256(48, 10)),
            none(DataType::Decimal256(76, 0), DataType::Decimal256(76, 10)),
            none(decimal(9, 0), Int32),
            same(structure(&two), structure(&[two[1].clone(), two[0].clone()]), structure(&two)),
            wide(structure(&two), structure(&[("a", Int8), ("b", Utf8View)]), structure(&two)),
            none(structure(&two), structure(&two[..1])),
            none(structure(&two), structure(&[("a", Int64), ("c", Utf8View)])),
            wide(Int32, Int64, Int64),
            wide(Null, List(item(Int8)), List(item(Int8))),
            wide(List(item(Null)), List(item(Utf8View)), List(item(Utf8View))),
            none(Int32, Utf8View),
        ] {
            assert_eq!(common(&[&a, &b], false), as_they_are, "{a} and {b}");
            assert_eq!(common(&[&a, &b], true), wider, "{a} and {b}");
            let mirrored = common(&[&b, &a], true);
            assert_eq!(mirrored.is_some(), wider.is_some(), "{b} and {a}");
        }
    }
}
