//! A term over the statistics of a row group, which are read again for it.

use std::cmp::Ordering;

use parquet::basic::ColumnOrder;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::statistics::Statistics;

use super::{Op, RowGroupMatch, Term, Value, evaluate};
use crate::arrow::datatypes::DataType;
use crate::catalog::{Catalog, Group};

/// What the constants of a row group's file tell of one term, and the statistics in its footer.
pub(super) fn term(
    catalog: &Catalog,
    group: &Group,
    footer: Option<&ParquetMetaData>,
    term: &Term,
) -> RowGroupMatch {
    let Ok(projection) = catalog.project(&[&term.column]) else {
        return RowGroupMatch::Some;
    };
    if let Some(value) = catalog.constant_of(group, projection.columns()[0]) {
        return match evaluate::term(&value.value, term) {
            Ok(holds) if holds.value(0) => RowGroupMatch::All,
            Ok(_) => RowGroupMatch::None,
            Err(_) => RowGroupMatch::Some,
        };
    }
    let (Some(footer), Ok(kept)) = (footer, catalog.files[group.file].footer()) else {
        return RowGroupMatch::Some;
    };
    let Some(&leaf) = kept.columns.leaves(projection.columns()).first() else {
        return RowGroupMatch::Some;
    };
    let chunk = footer.row_group(group.index).column(leaf);
    let Some(statistics) = chunk.statistics() else {
        return RowGroupMatch::Some;
    };
    let nulls = statistics.null_count_opt();
    if nulls == Some(group.rows) {
        return RowGroupMatch::None;
    }
    let data_type = projection.schema().field(0).data_type();
    let order = footer.file_metadata().column_order(leaf);
    let Some(bounds) = Bounds::of(statistics, order, data_type) else {
        return RowGroupMatch::Some;
    };
    let descriptor = chunk.column_descr();
    let no_nulls = descriptor.max_def_level() == 0 || nulls == Some(0);
    match bounds.matching(term) {
        // NaN is in no bounds, and holds for != and not in.
        RowGroupMatch::None if data_type.is_floating() && matches!(term.op, Op::NotEq | Op::NotIn) => {
            RowGroupMatch::Some
        }
        RowGroupMatch::All if data_type.is_floating() || !no_nulls => RowGroupMatch::Some,
        verdict => verdict,
    }
}

/// The least and the greatest value of a row group, without nulls and NaN. Either may be beyond the real one.
enum Bounds {
    Bool(bool, bool),
    Int(i128, i128),
    Float(f64, f64),
    Bytes(Vec<u8>, Vec<u8>),
}

impl Bounds {
    /// `None` if there are none, or none that are reliable.
    fn of(statistics: &Statistics, order: ColumnOrder, data_type: &DataType) -> Option<Bounds> {
        let relied_on = match order {
            ColumnOrder::UNKNOWN => false,
            _ if data_type.is_signed_integer() || data_type.is_floating() => true,
            // The old fields were written with signed comparisons of strings and unsigned numbers, and without an order
            // it is unknown how the new ones were.
            ColumnOrder::UNDEFINED => false,
            _ => !statistics.is_min_max_deprecated(),
        };
        if !relied_on {
            return None;
        }
        let bounds = match statistics {
            Statistics::Boolean(s) => Bounds::Bool(*s.min_opt()?, *s.max_opt()?),
            Statistics::Int32(s) if data_type.is_unsigned_integer() => {
                Bounds::Int((*s.min_opt()?).cast_unsigned().into(), (*s.max_opt()?).cast_unsigned().into())
            }
            Statistics::Int64(s) if data_type.is_unsigned_integer() => {
                Bounds::Int((*s.min_opt()?).cast_unsigned().into(), (*s.max_opt()?).cast_unsigned().into())
            }
            Statistics::Int32(s) => Bounds::Int((*s.min_opt()?).into(), (*s.max_opt()?).into()),
            Statistics::Int64(s) => Bounds::Int((*s.min_opt()?).into(), (*s.max_opt()?).into()),
            Statistics::Float(s) => Bounds::Float((*s.min_opt()?).into(), (*s.max_opt()?).into()),
            Statistics::Double(s) => Bounds::Float(*s.min_opt()?, *s.max_opt()?),
            Statistics::ByteArray(s) => {
                Bounds::Bytes(s.min_opt()?.data().to_vec(), s.max_opt()?.data().to_vec())
            }
            _ => return None,
        };
        bounds.checked()
    }

    /// Bounds that are NaN, or in the wrong order, are ignored.
    fn checked(self) -> Option<Self> {
        let ordered = match &self {
            Bounds::Bool(min, max) => min <= max,
            Bounds::Int(min, max) => min <= max,
            // False if either is NaN.
            Bounds::Float(min, max) => min <= max,
            Bounds::Bytes(min, max) => min <= max,
        };
        ordered.then_some(self)
    }

    fn compare(&self, value: &Value) -> Option<(Ordering, Ordering)> {
        Some(match self {
            Bounds::Bool(min, max) => (evaluate::boolean(*min, value)?, evaluate::boolean(*max, value)?),
            Bounds::Int(min, max) => (evaluate::integer(*min, value)?, evaluate::integer(*max, value)?),
            Bounds::Float(min, max) => (evaluate::float(*min, value)?, evaluate::float(*max, value)?),
            Bounds::Bytes(min, max) => (evaluate::bytes(min, value)?, evaluate::bytes(max, value)?),
        })
    }

    /// Whether all values between the bounds, both included, fulfil a term. `All` and `None` must also be true of any
    /// narrower bounds, for these may be truncated.
    fn matching(&self, term: &Term) -> RowGroupMatch {
        let of = |value: &Value, op: Op| match self.compare(value) {
            Some((min, max)) => between(op, min, max),
            None => RowGroupMatch::Some,
        };
        match (&term.value, term.op) {
            (Value::List(values), Op::In) => {
                let mut matches = values.iter().map(|value| of(value, Op::Eq));
                match matches.try_fold(RowGroupMatch::None, |any, one| match one {
                    RowGroupMatch::All => Err(RowGroupMatch::All),
                    RowGroupMatch::Some => Ok(RowGroupMatch::Some),
                    RowGroupMatch::None => Ok(any),
                }) {
                    Ok(verdict) | Err(verdict) => verdict,
                }
            }
            (Value::List(values), Op::NotIn) => {
                let in_list = Term::new("", Op::In, Value::List(values.clone()));
                match self.matching(&in_list) {
                    RowGroupMatch::None => RowGroupMatch::All,
                    RowGroupMatch::All => RowGroupMatch::None,
                    RowGroupMatch::Some => RowGroupMatch::Some,
                }
            }
            (value, op) => of(value, op),
        }
    }
}

/// The result of a comparison, given how the least and the greatest value compare with the term's.
fn between(op: Op, min: Ordering, max: Ordering) -> RowGroupMatch {
    let (all, none) = match op {
        Op::Less => (max.is_lt(), min.is_ge()),
        Op::LessEq => (max.is_le(), min.is_gt()),
        Op::Greater => (min.is_gt(), max.is_le()),
        Op::GreaterEq => (min.is_ge(), max.is_lt()),
        Op::Eq | Op::In => (min.is_eq() && max.is_eq(), min.is_gt() || max.is_lt()),
        Op::NotEq | Op::NotIn => (min.is_gt() || max.is_lt(), min.is_eq() && max.is_eq()),
    };
    match (all, none) {
        (true, _) => RowGroupMatch::All,
        (_, true) => RowGroupMatch::None,
        _ => RowGroupMatch::Some,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPS: [Op; 6] = [Op::Eq, Op::NotEq, Op::Less, Op::LessEq, Op::Greater, Op::GreaterEq];

    /// The result of checking every value between two bounds.
    fn by_hand(term: &Term, min: i64, max: i64) -> RowGroupMatch {
        let holds = (min..=max)
            .map(|stored| evaluate::holds(term, |value| evaluate::integer(i128::from(stored), value)));
        let (all, count) = ((max - min + 1) as usize, holds.filter(|holds| *holds).count());
        match count {
            0 => RowGroupMatch::None,
            count if count == all => RowGroupMatch::All,
            _ => RowGroupMatch::Some,
        }
    }

    /// Deciding more would lose rows, and deciding less would read row groups for nothing.
    #[test]
    fn bounds_tell_what_looking_at_every_value_between_them_does() {
        for (min, max) in (0..4).flat_map(|min| (min..4).map(move |max| (min, max))) {
            let bounds = Bounds::Int(min.into(), max.into());
            for value in -1..=4 {
                for op in OPS {
                    let term = Term::new("", op, value);
                    let want = by_hand(&term, min, max);
                    assert_eq!(bounds.matching(&term), want, "{min}..={max} {op:?} {value}");
                    // No integer is a fraction.
                    let between = Term::new("", op, value as f64 + 0.5);
                    let want = by_hand(&between, min, max);
                    let got = bounds.matching(&between);
                    let undecided = matches!(op, Op::Eq | Op::NotEq) && got == RowGroupMatch::Some;
                    assert!(got == want || undecided, "{min}..={max} {op:?} {value}.5: {got:?}");
                }
                for list in [vec![], vec![value], vec![value, 2], vec![9, value, -9]] {
                    for op in [Op::In, Op::NotIn] {
                        let term = Term::new("", op, list.clone());
                        let (got, want) = (bounds.matching(&term), by_hand(&term, min, max));
                        // Whether several values together cover all values between the bounds is not checked.
                        assert!(
                            got == want || got == RowGroupMatch::Some && list.len() > 1,
                            "{min}..={max} {op:?} {list:?}: {got:?}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn bounds_of_texts_and_floats_are_compared_as_their_values_are() {
        let texts = Bounds::Bytes(b"a\x80".to_vec(), b"b".to_vec());
        let matching = |bounds: &Bounds, op, value: Value| bounds.matching(&Term::new("", op, value));
        assert_eq!(matching(&texts, Op::Less, "a".into()), RowGroupMatch::None);
        assert_eq!(matching(&texts, Op::GreaterEq, "b".into()), RowGroupMatch::Some);
        assert_eq!(matching(&texts, Op::Greater, "b".into()), RowGroupMatch::None);
        assert_eq!(matching(&texts, Op::Greater, "a".into()), RowGroupMatch::All);
        let zeros = Bounds::Float(-0.0, 0.0);
        assert_eq!(matching(&zeros, Op::Less, 0.0.into()), RowGroupMatch::None);
        assert_eq!(matching(&zeros, Op::Eq, (-0.0).into()), RowGroupMatch::All);
        assert!(Bounds::Float(f64::NAN, 1.0).checked().is_none());
        assert!(Bounds::Float(0.0, f64::NAN).checked().is_none());
        assert!(Bounds::Int(2, 1).checked().is_none());
    }

    /// Texts and unsigned numbers were once compared as if they had a sign.
    #[test]
    fn bounds_in_another_order_than_that_of_the_values_are_not_relied_on() {
        let defined = ColumnOrder::column_order_for_type(
            None,
            parquet::basic::ConvertedType::UTF8,
            parquet::basic::Type::BYTE_ARRAY,
        );
        let text = |old| Statistics::byte_array(Some("a".into()), Some("b".into()), None, Some(0), old);
        let number = |old| Statistics::int64(Some(1), Some(2), None, Some(0), old);
        for (order, new, old, signed) in [
            (defined, true, false, true),
            (ColumnOrder::UNDEFINED, false, false, true),
            (ColumnOrder::UNKNOWN, false, false, false),
        ] {
            assert_eq!(Bounds::of(&text(false), order, &DataType::Utf8View).is_some(), new, "{order:?}");
            assert_eq!(Bounds::of(&text(true), order, &DataType::Utf8View).is_some(), old, "{order:?}");
            assert_eq!(Bounds::of(&number(true), order, &DataType::UInt64).is_some(), old, "{order:?}");
            assert_eq!(Bounds::of(&number(true), order, &DataType::Int64).is_some(), signed, "{order:?}");
        }
    }

    #[test]
    fn bounds_of_unsigned_numbers_are_read_without_a_sign() {
        let order = ColumnOrder::column_order_for_type(
            None,
            parquet::basic::ConvertedType::UINT_32,
            parquet::basic::Type::INT32,
        );
        let statistics = Statistics::int32(Some(5), Some(-1), None, Some(0), false);
        let bounds = Bounds::of(&statistics, order, &DataType::UInt32).unwrap();
        let term = Term::new("", Op::Greater, i64::from(i32::MAX));
        assert_eq!(bounds.matching(&term), RowGroupMatch::Some);
        assert!(Bounds::of(&statistics, order, &DataType::Int32).is_none());
    }
}
