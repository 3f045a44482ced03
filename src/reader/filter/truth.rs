//! Logic with three truth values, as in SQL: a comparison with null is unknown, and so is its negation.
//!
//! `arrow-arith` has the same logic for columns (`and_kleene`), but would be one more dependency for three
//! operations on bitmaps.

use std::ops::{BitAnd, BitOr, Not};

use forebay_arrow::buffer::{BooleanBuffer, NullBuffer};

use super::Op;

/// For each row of a batch, whether a condition is true and whether it is false; neither is set if it is
/// unknown.
#[derive(Clone, Debug)]
pub(super) struct Truth {
    pub(super) yes: BooleanBuffer,
    no: BooleanBuffer,
}

impl Truth {
    /// Creates the result of a condition that is true or false for each row.
    pub(super) fn known(yes: BooleanBuffer) -> Self {
        Truth { no: !&yes, yes }
    }

    /// Creates the result of a condition that is unknown for null values.
    pub(super) fn of_values(holds: BooleanBuffer, nulls: Option<&NullBuffer>) -> Self {
        match nulls {
            None => Truth::known(holds),
            Some(nulls) => Truth { yes: &holds & nulls.inner(), no: &!&holds & nulls.inner() },
        }
    }

    /// Collects the results of rows: `Some` for true or false, and `None` for unknown.
    pub(super) fn collect(rows: impl ExactSizeIterator<Item = Option<bool>> + Clone) -> Self {
        let bits = |wanted: bool| {
            let mut rows = rows.clone();
            BooleanBuffer::collect_bool(rows.len(), |_| rows.next() == Some(Some(wanted)))
        };
        Truth { yes: bits(true), no: bits(false) }
    }

    /// Turns unknown into false.
    pub(super) fn or_false(self) -> Self {
        Truth::known(self.yes)
    }

    pub(super) fn row(&self, row: usize) -> Outcomes {
        let (yes, no) = (self.yes.value(row), self.no.value(row));
        Outcomes { yes, no, unknown: !yes && !no }
    }
}

impl BitAnd for Truth {
    type Output = Truth;

    fn bitand(self, other: Truth) -> Truth {
        Truth { yes: &self.yes & &other.yes, no: &self.no | &other.no }
    }
}

impl BitOr for Truth {
    type Output = Truth;

    fn bitor(self, other: Truth) -> Truth {
        Truth { yes: &self.yes | &other.yes, no: &self.no & &other.no }
    }
}

impl Not for Truth {
    type Output = Truth;

    fn not(self) -> Truth {
        Truth { yes: self.no, no: self.yes }
    }
}

/// The truth values that a condition may have for the rows of a row group: all that occur, and possibly more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outcomes {
    pub(super) yes: bool,
    pub(super) no: bool,
    pub(super) unknown: bool,
}

impl Outcomes {
    pub(super) const YES: Outcomes = Outcomes { yes: true, no: false, unknown: false };
    pub(super) const NO: Outcomes = Outcomes { yes: false, no: true, unknown: false };
    pub(super) const UNKNOWN: Outcomes = Outcomes { yes: false, no: false, unknown: true };
    pub(super) const EITHER: Outcomes = Outcomes { yes: true, no: true, unknown: false };
    pub(super) const ANY: Outcomes = Outcomes { yes: true, no: true, unknown: true };

    /// The truth values that a comparison with the values between two bounds may have. NaN is not between any
    /// bounds.
    pub(super) fn of_values(matching: RowGroupMatch, may_be_nan: bool, op: Op) -> Self {
        let outcomes = match matching {
            RowGroupMatch::All => Outcomes::YES,
            RowGroupMatch::None => Outcomes::NO,
            RowGroupMatch::Some => Outcomes::EITHER,
        };
        let of_nan = matches!(op, Op::NotEq | Op::NotIn);
        match may_be_nan {
            true => outcomes.with(if of_nan { Outcomes::YES } else { Outcomes::NO }),
            false => outcomes,
        }
    }

    /// The truth values that are possible in either set.
    pub(super) fn with(self, other: Outcomes) -> Outcomes {
        Outcomes {
            yes: self.yes || other.yes,
            no: self.no || other.no,
            unknown: self.unknown || other.unknown,
        }
    }

    /// The truth values that are possible after [`Truth::or_false`].
    pub(super) fn or_false(self) -> Outcomes {
        Outcomes { yes: self.yes, no: self.no || self.unknown, unknown: false }
    }

    pub(super) fn rows(self) -> RowGroupMatch {
        match self {
            Outcomes { yes: false, .. } => RowGroupMatch::None,
            Outcomes { no: false, unknown: false, .. } => RowGroupMatch::All,
            _ => RowGroupMatch::Some,
        }
    }
}

impl BitAnd for Outcomes {
    type Output = Outcomes;

    fn bitand(self, other: Outcomes) -> Outcomes {
        let unknown = |a: Outcomes, b: Outcomes| a.unknown && (b.unknown || b.yes);
        Outcomes {
            yes: self.yes && other.yes,
            no: self.no || other.no,
            unknown: unknown(self, other) || unknown(other, self),
        }
    }
}

impl BitOr for Outcomes {
    type Output = Outcomes;

    fn bitor(self, other: Outcomes) -> Outcomes {
        !(!self & !other)
    }
}

impl Not for Outcomes {
    type Output = Outcomes;

    fn not(self) -> Outcomes {
        Outcomes { yes: self.no, no: self.yes, unknown: self.unknown }
    }
}

/// Says how many rows of a row group match a filter, as far as its statistics show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowGroupMatch {
    /// No row matches.
    None,
    /// Every row matches.
    All,
    /// Some rows may match: they must be checked.
    Some,
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUES: [Option<bool>; 3] = [Some(true), Some(false), None];

    fn value(truth: &Truth) -> Option<bool> {
        match truth.row(0) {
            Outcomes::YES => Some(true),
            Outcomes::NO => Some(false),
            _ => None,
        }
    }

    #[test]
    fn conditions_combine_as_in_sql() {
        let truth = |value: Option<bool>| Truth::collect([value].into_iter());
        for a in VALUES {
            assert_eq!(value(&!truth(a)), a.map(|a| !a));
            for b in VALUES {
                let and = match (a, b) {
                    (Some(false), _) | (_, Some(false)) => Some(false),
                    (Some(true), Some(true)) => Some(true),
                    _ => None,
                };
                assert_eq!(value(&(truth(a) & truth(b))), and, "{a:?} and {b:?}");
                let or = !(!truth(a) & !truth(b));
                assert_eq!(value(&(truth(a) | truth(b))), value(&or), "{a:?} or {b:?}");
            }
        }
    }

    /// The outcomes of `a & b` and `a | b` are those of all pairs that have one truth value from `a` and one
    /// from `b`.
    #[test]
    fn outcomes_of_sets_are_those_of_their_values() {
        let sets: Vec<Outcomes> = (0..8)
            .map(|bits| Outcomes { yes: bits & 1 > 0, no: bits & 2 > 0, unknown: bits & 4 > 0 })
            .collect();
        let values = |set: &Outcomes| {
            let each = [(set.yes, Outcomes::YES), (set.no, Outcomes::NO), (set.unknown, Outcomes::UNKNOWN)];
            each.into_iter().filter(|(is_in, _)| *is_in).map(|(_, value)| value).collect::<Vec<_>>()
        };
        let none = Outcomes { yes: false, no: false, unknown: false };
        for a in &sets {
            for b in sets.iter().filter(|b| **b != none && *a != none) {
                let pairs = || values(a).into_iter().flat_map(|a| values(b).into_iter().map(move |b| (a, b)));
                let and = pairs().map(|(a, b)| a & b).fold(none, Outcomes::with);
                let or = pairs().map(|(a, b)| a | b).fold(none, Outcomes::with);
                assert_eq!((*a & *b, *a | *b), (and, or), "{a:?} {b:?}");
            }
        }
    }
}
