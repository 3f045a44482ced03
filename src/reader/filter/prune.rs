//! Evaluates conditions on the constant columns and statistics of a row group, without reading its rows.
//! Statistics are not kept in memory, so the footer is read again for them.

use std::cmp::Ordering;

use forebay_arrow::array::{ArrayRef, AsArray, RecordBatch};
use forebay_arrow::datatypes::{DataType, Date32Type, TimeUnit, TimestampMicrosecondType};
use forebay_arrow::statistics::Nulls;
use forebay_store::catalog::{Catalog, Group, Origin, StoredGroup};
use forebay_store::snapshot::{Constant, FileStatistics, ListedBounds};
use parquet::basic::{ColumnOrder, ConvertedType, LogicalType, TimeUnit as StoredUnit};
use parquet::bloom_filter::Sbbf;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::file::statistics::Statistics;
use parquet::schema::types::ColumnDescriptor;

use super::expr::Node;
use super::index::GroupIndex;
use super::rows::Rows;
use super::term::Test;
use super::truth::{Outcomes, RowGroupMatch};
use super::{Op, check, conditions, evaluate, index, times};
use crate::operand::{Operand, Value};

/// The facts about rows that are known without reading them: the constant columns of their file, and the
/// statistics of their row group or file.
pub(super) struct Seen<'a> {
    pub(super) constants: &'a [Constant],
    pub(super) stored: Option<SeenGroup<'a>>,
    /// The statistics that the file list of a table, such as a Delta table, has for the file. They are used
    /// if the file's footer is not known.
    pub(super) listed: Option<&'a FileStatistics>,
}

/// A row group, and the statistics of it that are used.
#[derive(Clone, Copy)]
pub(super) struct SeenGroup<'a> {
    pub(super) catalog: &'a Catalog,
    pub(super) group: &'a Group,
    pub(super) stored: StoredGroup,
    /// The whole footer of the row group's file.
    pub(super) footer: Option<&'a ParquetMetaData>,
    pub(super) index: Option<&'a GroupIndex>,
    /// The row whose pages supply the statistics; `None` to use the statistics of the whole row group.
    pub(super) row: Option<u32>,
}

impl Seen<'_> {
    /// The truth values that a condition may have for rows with these facts.
    pub(super) fn node(&self, node: &Node) -> Outcomes {
        if let Some(term) = node.test() {
            return self.term(term);
        }
        match node {
            Node::And(parts) => parts.iter().fold(Outcomes::YES, |all, part| all & self.node(part)),
            Node::Or(parts) => parts.iter().fold(Outcomes::NO, |any, part| any | self.node(part)),
            Node::Not(part) => !self.node(part),
            Node::Sample(sample) => sample.outcomes(),
            other => match self.constants(other) {
                Some(batch) => {
                    let rows = Rows { batch: &batch, file: "", first: 0, live: None, verdicts: None };
                    conditions::node(&rows, other).map_or(Outcomes::ANY, |truth| truth.row(0))
                }
                None => self.leaf(other),
            },
        }
    }

    pub(super) fn term(&self, term: Test<'_>) -> Outcomes {
        let seen = self.term_of_values(term);
        if term.op == Op::In { seen.or_false() } else { seen }
    }

    fn term_of_values(&self, term: Test<'_>) -> Outcomes {
        let stored = match self.column(term.column) {
            None => return self.listed(term),
            Some(GroupColumn::Constant(constant)) => {
                let of_constant = || {
                    check::term(term, constant.field.data_type())?;
                    evaluate::term(&constant.value, term)
                };
                return of_constant().map_or(Outcomes::ANY, |truth| truth.row(0));
            }
            Some(GroupColumn::Stored(stored)) => stored,
        };
        let nulls = stored.nulls();
        if nulls == Some(stored.rows) {
            return Outcomes::UNKNOWN;
        }
        let bounds = stored.bounds(stored.data_type);
        let matching = match bounds.as_ref().map(|bounds| bounds.matching(term)) {
            Some(RowGroupMatch::Some) | None => stored.by_bloom(term),
            Some(decided) => decided,
        };
        let outcomes = Outcomes::of_values(matching, matches!(bounds, Some(Bounds::Float(..))), term.op);
        if nulls == Some(0) { outcomes } else { outcomes.with(Outcomes::UNKNOWN) }
    }

    /// The possible truth values of a comparison, as the file list of a table shows them.
    fn listed(&self, term: Test<'_>) -> Outcomes {
        let Some(listed) = self.listed else { return Outcomes::ANY };
        let nulls = listed.nulls(term.column).unwrap_or_default();
        if nulls == Nulls::All {
            return Outcomes::UNKNOWN;
        }
        let bounds = listed.bounds(term.column).and_then(Bounds::listed);
        let matching = bounds.as_ref().map_or(RowGroupMatch::Some, |bounds| bounds.matching(term));
        let outcomes = Outcomes::of_values(matching, matches!(bounds, Some(Bounds::Float(..))), term.op);
        if nulls == Nulls::None { outcomes } else { outcomes.with(Outcomes::UNKNOWN) }
    }

    fn leaf(&self, node: &Node) -> Outcomes {
        let column = match node {
            Node::IsNull(Operand::Column(name)) | Node::StartsWith(Operand::Column(name), _) => name,
            _ => return Outcomes::ANY,
        };
        let (nulls, bounds) = match (self.column(column), self.listed) {
            (Some(GroupColumn::Stored(stored)), _) => {
                let nulls = match stored.nulls() {
                    Some(0) => Nulls::None,
                    Some(nulls) if nulls == stored.rows => Nulls::All,
                    _ => Nulls::Unknown,
                };
                (nulls, stored.bounds(&DataType::Utf8View))
            }
            (None, Some(listed)) => {
                (listed.nulls(column).unwrap_or_default(), listed.bounds(column).and_then(Bounds::listed))
            }
            _ => return Outcomes::ANY,
        };
        let Node::StartsWith(_, prefix) = node else {
            return match nulls {
                Nulls::None => Outcomes::NO,
                Nulls::All => Outcomes::YES,
                Nulls::Unknown => Outcomes::EITHER,
            };
        };
        let outcomes = match bounds {
            Some(bounds) => bounds.starting_with(prefix.as_bytes()),
            None => Outcomes::EITHER,
        };
        if nulls == Nulls::None { outcomes } else { outcomes.with(Outcomes::UNKNOWN) }
    }

    /// The values of all columns in a condition, if each of these columns is constant in the file.
    fn constants(&self, node: &Node) -> Option<RecordBatch> {
        let mut names = Vec::new();
        node.columns(&mut names);
        names.sort_unstable();
        names.dedup();
        let each = names.iter().map(|name| match self.column(name)? {
            GroupColumn::Constant(constant) => Some((*name, constant.value.clone(), true)),
            GroupColumn::Stored(_) => None,
        });
        RecordBatch::try_from_iter_with_nullable(each.collect::<Option<Vec<_>>>()?).ok()
    }

    fn column(&self, name: &str) -> Option<GroupColumn<'_>> {
        if let Some(constant) = self.constants.iter().find(|constant| constant.field.name() == name) {
            return Some(GroupColumn::Constant(constant));
        }
        let SeenGroup { catalog, group, stored, footer, index, row } = self.stored?;
        let column = catalog.column(name).ok()?;
        let kept = catalog.files[group.file].footer().ok()?;
        // The type of the column in this file is used, since its type in the catalogue may be wider.
        let Origin::Stored(root) = kept.columns.origin(column) else { return None };
        let &leaf = kept.columns.leaves_of(&[root]).first()?;
        let chunk = footer?.row_group(stored.index).column(leaf);
        let page = index.zip(row).and_then(|(index, row)| index.page(leaf, row));
        let (statistics, rows) = match page {
            Some((statistics, rows)) => (Some(statistics), rows),
            None => (chunk.statistics(), stored.rows),
        };
        Some(GroupColumn::Stored(GroupValues {
            chunk,
            statistics,
            order: footer?.file_metadata().column_order(leaf),
            data_type: kept.columns.schema.field(root).data_type(),
            rows,
            bloom: index.and_then(|index| index.bloom(leaf)),
        }))
    }
}

/// The known facts about a column, in a row group or in one of its pages.
enum GroupColumn<'a> {
    Constant(&'a Constant),
    Stored(GroupValues<'a>),
}

struct GroupValues<'a> {
    chunk: &'a ColumnChunkMetaData,
    statistics: Option<&'a Statistics>,
    order: ColumnOrder,
    data_type: &'a DataType,
    /// The number of rows that the statistics cover.
    rows: u64,
    bloom: Option<&'a Sbbf>,
}

impl GroupValues<'_> {
    /// The number of rows that are null; `None` if it is unknown.
    fn nulls(&self) -> Option<u64> {
        let descriptor = self.chunk.column_descr();
        if descriptor.max_def_level() == 0 {
            return Some(0);
        }
        // The statistics of a nested column also count nulls inside its items, so they are not used.
        let is_flat = descriptor.path().parts().len() == 1;
        let statistics = self.statistics.filter(|_| is_flat)?;
        let nulls = statistics.null_count_opt()?;
        // A column with only nulls has neither a least nor a greatest value. A null count above the number of
        // rows is wrong, and not used.
        let has_values = statistics.min_bytes_opt().is_some_and(|bytes| !bytes.is_empty())
            || statistics.max_bytes_opt().is_some_and(|bytes| !bytes.is_empty());
        (nulls < self.rows || nulls == self.rows && !has_values).then_some(nulls)
    }

    fn bounds(&self, data_type: &DataType) -> Option<Bounds> {
        Bounds::from_statistics(self.statistics?, self.order, self.chunk.column_descr(), data_type)
    }

    /// The result of a comparison according to a Bloom filter, which is asked if bounds do not decide. A
    /// value that is not in the filter is not in the column.
    fn by_bloom(&self, term: Test<'_>) -> RowGroupMatch {
        let is_absent = |bloom| {
            let physical = self.chunk.column_type();
            index::rules_out(bloom, physical, self.data_type, term.values())
        };
        match term.op {
            Op::Eq | Op::In if self.bloom.is_some_and(is_absent) => RowGroupMatch::None,
            Op::NotEq | Op::NotIn if self.bloom.is_some_and(is_absent) => RowGroupMatch::All,
            _ => RowGroupMatch::Some,
        }
    }
}

/// A lower and an upper bound of the values, other than nulls and NaN. They may be wider than the least and
/// greatest value.
enum Bounds {
    Bool(bool, bool),
    Int(i128, i128),
    Float(f64, f64),
    Bytes(Vec<u8>, Vec<u8>),
    /// Times in nanoseconds since 1970, in a column of this type.
    Moment(i128, i128, DataType),
}

impl Bounds {
    /// The bounds that statistics have; `None` if there are none, or if they are unreliable.
    fn from_statistics(
        statistics: &Statistics,
        order: ColumnOrder,
        descriptor: &ColumnDescriptor,
        data_type: &DataType,
    ) -> Option<Bounds> {
        let is_time = times::unit(data_type).is_some();
        let relied_on = match order {
            ColumnOrder::UNKNOWN => false,
            _ if data_type.is_signed_integer() || data_type.is_floating() || is_time => true,
            // The deprecated fields of statistics were written with signed comparisons of texts and unsigned
            // numbers. If the file states no order, it is unknown how the new fields were written.
            ColumnOrder::UNDEFINED => false,
            _ => !statistics.is_min_max_deprecated(),
        };
        if !relied_on {
            return None;
        }
        let bounds = match statistics {
            _ if is_time => {
                // Times are rounded on reading if they are stored in a finer unit. Bounds of such times are
                // not used.
                let unit = stored_unit(descriptor)
                    .filter(|unit| times::unit(data_type).is_some_and(|read| unit % read == 0))?;
                let (min, max): (i64, i64) = match statistics {
                    Statistics::Int32(s) => ((*s.min_opt()?).into(), (*s.max_opt()?).into()),
                    Statistics::Int64(s) => (*s.min_opt()?, *s.max_opt()?),
                    _ => return None,
                };
                Bounds::Moment(i128::from(min) * unit, i128::from(max) * unit, data_type.clone())
            }
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

    /// The bounds in the file list of a table; `None` for types whose bounds are not reliable there.
    fn listed(ListedBounds { least, greatest, at }: ListedBounds<'_>) -> Option<Bounds> {
        let whole = |end: &ArrayRef| evaluate::whole(end).map(|values| values(at));
        let float = |end: &ArrayRef| evaluate::floats(end).map(|values| values(at));
        let bounds = match least.data_type() {
            DataType::Boolean => Bounds::Bool(least.as_boolean().value(at), greatest.as_boolean().value(at)),
            DataType::Float64 => Bounds::Float(float(least)?, float(greatest)?),
            DataType::Binary => {
                let value = |end: &ArrayRef| end.as_binary::<i32>().value(at).to_vec();
                Bounds::Bytes(value(least), value(greatest))
            }
            data_type => match times::unit(data_type) {
                None => Bounds::Int(whole(least)?, whole(greatest)?),
                Some(unit) => {
                    let time = |end: &ArrayRef| {
                        let date = end.as_primitive_opt::<Date32Type>().map(|end| i128::from(end.value(at)));
                        let time =
                            || Some(end.as_primitive_opt::<TimestampMicrosecondType>()?.value(at).into());
                        Some(date.or_else(time)? * unit)
                    };
                    Bounds::Moment(time(least)?, time(greatest)?, data_type.clone())
                }
            },
        };
        bounds.checked()
    }

    /// Returns `None` for bounds that are NaN, or whose lower bound is above the upper one.
    fn checked(self) -> Option<Self> {
        let ordered = match &self {
            Bounds::Bool(min, max) => min <= max,
            Bounds::Int(min, max) => min <= max,
            // The comparison is false if either bound is NaN.
            Bounds::Float(min, max) => min <= max,
            Bounds::Bytes(min, max) => min <= max,
            Bounds::Moment(min, max, _) => min <= max,
        };
        ordered.then_some(self)
    }

    fn compare(&self, value: &Value) -> Option<(Ordering, Ordering)> {
        Some(match self {
            Bounds::Bool(min, max) => (evaluate::boolean(*min, value)?, evaluate::boolean(*max, value)?),
            Bounds::Int(min, max) => (evaluate::integer(*min, value)?, evaluate::integer(*max, value)?),
            Bounds::Float(min, max) => (evaluate::float(*min, value)?, evaluate::float(*max, value)?),
            Bounds::Bytes(min, max) => (evaluate::bytes(min, value)?, evaluate::bytes(max, value)?),
            Bounds::Moment(min, max, data_type) => {
                let value = evaluate::moment(value, data_type).ok()?;
                (min.cmp(&value), max.cmp(&value))
            }
        })
    }

    /// Says whether all, some or no values between the bounds, both included, satisfy a term. The bounds may
    /// be wider than the values, so `All` and `None` must also be right for any narrower bounds.
    fn matching(&self, term: Test<'_>) -> RowGroupMatch {
        let of = |value: &Value, op: Op| match self.compare(value) {
            Some((min, max)) => between(op, min, max),
            None => RowGroupMatch::Some,
        };
        let in_list = || {
            let mut matches = term.values().iter().map(|value| of(value, Op::Eq));
            match matches.try_fold(RowGroupMatch::None, |any, one| match one {
                RowGroupMatch::All => Err(RowGroupMatch::All),
                RowGroupMatch::Some => Ok(RowGroupMatch::Some),
                RowGroupMatch::None => Ok(any),
            }) {
                Ok(verdict) | Err(verdict) => verdict,
            }
        };
        match term.op {
            Op::In => in_list(),
            Op::NotIn => match in_list() {
                RowGroupMatch::None => RowGroupMatch::All,
                RowGroupMatch::All => RowGroupMatch::None,
                RowGroupMatch::Some => RowGroupMatch::Some,
            },
            op => of(term.value, op),
        }
    }

    /// The possible results of the question whether values between the bounds begin with `prefix`.
    fn starting_with(&self, prefix: &[u8]) -> Outcomes {
        match self {
            Bounds::Bytes(min, max) if min.starts_with(prefix) && max.starts_with(prefix) => Outcomes::YES,
            // Values that begin with the prefix are not less than the prefix. They are less than every value
            // that is greater than the prefix and does not begin with it.
            Bounds::Bytes(min, max) if &**max < prefix || (&**min > prefix && !min.starts_with(prefix)) => {
                Outcomes::NO
            }
            _ => Outcomes::EITHER,
        }
    }
}

/// The number of nanoseconds in the unit in which dates or times are stored. Their statistics have the same
/// unit.
fn stored_unit(descriptor: &ColumnDescriptor) -> Option<i128> {
    let unit = match (descriptor.logical_type_ref(), descriptor.converted_type()) {
        (Some(LogicalType::Date), _) | (None, ConvertedType::DATE) => return times::unit(&DataType::Date32),
        (Some(LogicalType::Timestamp(stored)), _) => match stored.unit {
            StoredUnit::MILLIS => TimeUnit::Millisecond,
            StoredUnit::MICROS => TimeUnit::Microsecond,
            StoredUnit::NANOS => TimeUnit::Nanosecond,
        },
        (None, ConvertedType::TIMESTAMP_MILLIS) => TimeUnit::Millisecond,
        (None, ConvertedType::TIMESTAMP_MICROS) => TimeUnit::Microsecond,
        _ => return None,
    };
    Some(times::unit_of(unit))
}

/// The result of a comparison for all values between two bounds. `min` and `max` say how the bounds compare
/// with the value of the term.
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
    use std::sync::Arc;

    use parquet::basic::Type;
    use parquet::schema::types::{ColumnPath, Type as Node};

    use super::super::Term;
    use super::*;

    const OPS: [Op; 6] = [Op::Eq, Op::NotEq, Op::Less, Op::LessEq, Op::Greater, Op::GreaterEq];

    /// A column that is stored as 64-bit integers without a logical type.
    fn any() -> ColumnDescriptor {
        column(None)
    }

    fn column(logical: Option<LogicalType>) -> ColumnDescriptor {
        let node = Node::primitive_type_builder("c", Type::INT64).with_logical_type(logical).build().unwrap();
        ColumnDescriptor::new(Arc::new(node), 0, 0, ColumnPath::from("c"))
    }

    /// Finds the result by checking every value between two bounds.
    fn by_hand(term: &Term, min: i64, max: i64) -> RowGroupMatch {
        let holds = (min..=max).map(|stored| {
            evaluate::holds(term.op, term.test().values(), |value| {
                evaluate::integer(i128::from(stored), value)
            })
        });
        let (all, count) = ((max - min + 1) as usize, holds.filter(|holds| *holds).count());
        match count {
            0 => RowGroupMatch::None,
            count if count == all => RowGroupMatch::All,
            _ => RowGroupMatch::Some,
        }
    }

    /// Bounds that decided more would lose matching rows, and bounds that decided less would cause needless
    /// reads.
    #[test]
    fn bounds_tell_what_looking_at_every_value_between_them_does() {
        for (min, max) in (0..4).flat_map(|min| (min..4).map(move |max| (min, max))) {
            let bounds = Bounds::Int(min.into(), max.into());
            for value in -1..=4 {
                for op in OPS {
                    let term = Term::new("", op, value);
                    let want = by_hand(&term, min, max);
                    assert_eq!(bounds.matching(term.test()), want, "{min}..={max} {op:?} {value}");
                    // No integer equals a fraction.
                    let between = Term::new("", op, value as f64 + 0.5);
                    let want = by_hand(&between, min, max);
                    let got = bounds.matching(between.test());
                    let undecided = matches!(op, Op::Eq | Op::NotEq) && got == RowGroupMatch::Some;
                    assert!(got == want || undecided, "{min}..={max} {op:?} {value}.5: {got:?}");
                }
                for list in [vec![], vec![value], vec![value, 2], vec![9, value, -9]] {
                    for op in [Op::In, Op::NotIn] {
                        let term = Term::new("", op, list.clone());
                        let (got, want) = (bounds.matching(term.test()), by_hand(&term, min, max));
                        // For a list, the bounds do not show whether its values together are all values
                        // between the bounds.
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
        let matching = |bounds: &Bounds, op, value: Value| bounds.matching(Term::new("", op, value).test());
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

    /// Some writers compared texts and unsigned numbers as signed, which gives wrong bounds.
    #[test]
    fn bounds_in_another_order_than_that_of_the_values_are_not_relied_on() {
        let defined = ColumnOrder::column_order_for_type(None, ConvertedType::UTF8, Type::BYTE_ARRAY);
        let text = |old| Statistics::byte_array(Some("a".into()), Some("b".into()), None, Some(0), old);
        let number = |old| Statistics::int64(Some(1), Some(2), None, Some(0), old);
        for (order, new, old, signed) in [
            (defined, true, false, true),
            (ColumnOrder::UNDEFINED, false, false, true),
            (ColumnOrder::UNKNOWN, false, false, false),
        ] {
            assert_eq!(
                Bounds::from_statistics(&text(false), order, &any(), &DataType::Utf8View).is_some(),
                new,
                "{order:?}"
            );
            assert_eq!(
                Bounds::from_statistics(&text(true), order, &any(), &DataType::Utf8View).is_some(),
                old,
                "{order:?}"
            );
            assert_eq!(
                Bounds::from_statistics(&number(true), order, &any(), &DataType::UInt64).is_some(),
                old,
                "{order:?}"
            );
            assert_eq!(
                Bounds::from_statistics(&number(true), order, &any(), &DataType::Int64).is_some(),
                signed,
                "{order:?}"
            );
        }
    }

    #[test]
    fn bounds_of_unsigned_numbers_are_read_without_a_sign() {
        let order = ColumnOrder::column_order_for_type(None, ConvertedType::UINT_32, Type::INT32);
        let statistics = Statistics::int32(Some(5), Some(-1), None, Some(0), false);
        let bounds = Bounds::from_statistics(&statistics, order, &any(), &DataType::UInt32).unwrap();
        let term = Term::new("", Op::Greater, i64::from(i32::MAX));
        assert_eq!(bounds.matching(term.test()), RowGroupMatch::Some);
        assert!(Bounds::from_statistics(&statistics, order, &any(), &DataType::Int32).is_none());
    }

    /// Reading rounds times that are stored in a finer unit. Their bounds are not rounded, so these bounds
    /// are not used.
    #[test]
    fn bounds_of_times_are_in_the_unit_that_is_stored() {
        let order = ColumnOrder::TYPE_DEFINED_ORDER(parquet::basic::SortOrder::SIGNED);
        let bounds = |stored: StoredUnit, read: TimeUnit| {
            let column = column(Some(LogicalType::timestamp(false, stored)));
            let statistics = Statistics::int64(Some(-1), Some(1_500), None, Some(0), false);
            Bounds::from_statistics(&statistics, order, &column, &DataType::Timestamp(read, None))
        };
        let Some(Bounds::Moment(min, max, _)) = bounds(StoredUnit::MILLIS, TimeUnit::Microsecond) else {
            panic!("no bounds")
        };
        assert_eq!((min, max), (-1_000_000, 1_500_000_000));
        assert!(bounds(StoredUnit::MILLIS, TimeUnit::Second).is_none());
        let bounds = bounds(StoredUnit::MICROS, TimeUnit::Microsecond).unwrap();
        let matching = |text: &str| bounds.matching(Term::new("", Op::Greater, text).test());
        assert_eq!(matching("1970-01-01T00:00:00.0015"), RowGroupMatch::None);
        assert_eq!(matching("1969-12-31"), RowGroupMatch::All);
        assert_eq!(matching("1970-01-01"), RowGroupMatch::Some);
    }

    #[test]
    fn bounds_tell_a_prefix_even_where_they_are_truncated() {
        let bounds = |min: &str, max: &str| Bounds::Bytes(min.into(), max.into());
        for (min, max, prefix, outcomes) in [
            ("ka", "kz", "k", Outcomes::YES),
            ("ka", "l", "k", Outcomes::EITHER),
            ("ka", "kz", "kb", Outcomes::EITHER),
            ("a", "b", "k", Outcomes::NO),
            ("l", "m", "k", Outcomes::NO),
            ("k", "k", "kb", Outcomes::NO),
            ("a", "kb", "kb", Outcomes::EITHER),
            ("", "z", "", Outcomes::YES),
        ] {
            assert_eq!(bounds(min, max).starting_with(prefix.as_bytes()), outcomes, "{min}..={max} {prefix}");
        }
    }
}
