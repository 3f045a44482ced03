//! A term over the statistics of a row group.

use std::cmp::Ordering;

use arrow::datatypes::DataType;
use parquet::file::statistics::Statistics;

use super::{Op, Term, Value, Verdict, evaluate};
use crate::catalog::{Catalog, Group};

/// What the statistics tell of one term.
pub(super) fn term(catalog: &Catalog, group: &Group, term: &Term) -> Verdict {
    let Ok(projection) = catalog.project(&[&term.column]) else {
        return Verdict::Some;
    };
    let Some((_, chunk)) = catalog.leaves(group, &projection).next() else {
        return Verdict::Some;
    };
    let Some(statistics) = chunk.statistics() else {
        return Verdict::Some;
    };
    let nulls = statistics.null_count_opt();
    if nulls == Some(group.rows) {
        return Verdict::None;
    }
    let data_type = projection.schema().field(0).data_type();
    let Some(bounds) = Bounds::of(statistics, data_type) else {
        return Verdict::Some;
    };
    let descriptor = chunk.column_descr();
    let no_nulls = descriptor.max_def_level() == 0 || nulls == Some(0);
    match bounds.verdict(term) {
        // NaN is in no bounds, and holds for != and not in.
        Verdict::None if data_type.is_floating() && matches!(term.op, Op::NotEq | Op::NotIn) => Verdict::Some,
        Verdict::All if data_type.is_floating() || !no_nulls => Verdict::Some,
        verdict => verdict,
    }
}

/// The least and the greatest value of a row group, nulls and NaN apart. Either may lie beyond the real one.
enum Bounds {
    Bool(bool, bool),
    Int(i128, i128),
    Float(f64, f64),
    Bytes(Vec<u8>, Vec<u8>),
}

impl Bounds {
    /// `None` if there are none, or none to rely on.
    fn of(statistics: &Statistics, data_type: &DataType) -> Option<Bounds> {
        // The old fields were written with signed comparisons of strings and unsigned numbers.
        let is_signed = data_type.is_signed_integer() || data_type.is_floating();
        if statistics.is_min_max_deprecated() && !is_signed {
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

    /// Bounds that are NaN, or the wrong way round, tell nothing.
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
    fn verdict(&self, term: &Term) -> Verdict {
        let of = |value: &Value, op: Op| match self.compare(value) {
            Some((min, max)) => between(op, min, max),
            None => Verdict::Some,
        };
        match (&term.value, term.op) {
            (Value::List(values), Op::In) => {
                let mut verdicts = values.iter().map(|value| of(value, Op::Eq));
                match verdicts.try_fold(Verdict::None, |any, one| match one {
                    Verdict::All => Err(Verdict::All),
                    Verdict::Some => Ok(Verdict::Some),
                    Verdict::None => Ok(any),
                }) {
                    Ok(verdict) | Err(verdict) => verdict,
                }
            }
            (Value::List(values), Op::NotIn) => {
                let in_list = Term::new("", Op::In, Value::List(values.clone()));
                match self.verdict(&in_list) {
                    Verdict::None => Verdict::All,
                    Verdict::All => Verdict::None,
                    Verdict::Some => Verdict::Some,
                }
            }
            (value, op) => of(value, op),
        }
    }
}

/// How a comparison comes out if the least and the greatest value compare so with the term's.
fn between(op: Op, min: Ordering, max: Ordering) -> Verdict {
    let (all, none) = match op {
        Op::Less => (max.is_lt(), min.is_ge()),
        Op::LessEq => (max.is_le(), min.is_gt()),
        Op::Greater => (min.is_gt(), max.is_le()),
        Op::GreaterEq => (min.is_ge(), max.is_lt()),
        Op::Eq | Op::In => (min.is_eq() && max.is_eq(), min.is_gt() || max.is_lt()),
        Op::NotEq | Op::NotIn => (min.is_gt() || max.is_lt(), min.is_eq() && max.is_eq()),
    };
    match (all, none) {
        (true, _) => Verdict::All,
        (_, true) => Verdict::None,
        _ => Verdict::Some,
    }
}
