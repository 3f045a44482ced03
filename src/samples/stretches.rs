//! Stretches of consecutive rows that may be in one window, according to the `by` and `within` columns.

#[cfg(test)]
use std::ops::Range;

use forebay_arrow::array::{Array, ArrayRef, AsArray, make_array};
use forebay_arrow::compute::concat;
use forebay_arrow::datatypes::{
    DataType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimeUnit,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use forebay_arrow::fail::OrFail;
use forebay_arrow::names::TypeName;
use forebay_base::{Error, Place, Result};
use half::f16;

use super::across::Across;
use super::window::{Gap, Window};

/// Consecutive rows, divided into stretches: two neighbours that may not be in one window are in different
/// stretches.
#[derive(Clone, Debug)]
pub(crate) struct Stretches {
    /// For each row, whether it may not be in a window with the row before.
    cuts: Vec<bool>,
    /// For each row, whether it can be in no window.
    out: Vec<bool>,
    /// For each row, whether its `by` value equals that of the row before.
    equal: Vec<bool>,
}

impl Stretches {
    /// Makes one stretch of `rows` rows.
    pub(crate) fn new(rows: usize) -> Self {
        Stretches { cuts: vec![false; rows], out: vec![false; rows], equal: vec![false; rows] }
    }

    /// Finds the stretches of rows that have these values in the `by` and `within` columns of `window`.
    ///
    /// # Errors
    /// Fails if the rows are not sorted, or if the type of a column cannot decide about windows. The first
    /// error comes with the ordinal of the first row out of order.
    pub(crate) fn find(
        window: &Window,
        rows: usize,
        by: Option<&ArrayRef>,
        within: Option<&ArrayRef>,
    ) -> std::result::Result<Self, (Option<usize>, Error)> {
        let of = |name: Option<&str>| name.map_or_else(Place::default, |name| Place::default().column(name));
        let mut stretches = Stretches::new(rows);
        if let Some(within) = within {
            let differ = stretches.differ(within);
            differ.map_err(|error| (None, error.at(of(window.within_column()))))?;
        }
        let Some(by) = by else { return Ok(stretches) };
        let misfit = |error: Error| (None, error.at(of(window.by_column())));
        let gap = largest_gap(window, by.data_type()).map_err(misfit)?;
        let is_wide = |step: f64, rounding: f64| gap.is_some_and(|gap| step > gap + rounding);
        let mut wide = vec![false; rows];
        let by = &in_order(by).map_err(misfit)?;
        let ascending = match numbers(by).map_err(misfit)? {
            Numbers::Whole(values) => {
                let mut before = None;
                let compared = values.enumerate().map(|(at, value)| {
                    let pair = std::mem::replace(&mut before, value).zip(value);
                    wide[at] = pair.is_some_and(|(before, after)| is_wide((after - before) as f64, 0.0));
                    value
                });
                stretches.ascend(compared)
            }
            Numbers::Float(values) => {
                let precision = precision(by.data_type());
                let mut before = None;
                let compared = values.enumerate().map(|(at, value)| {
                    let pair = std::mem::replace(&mut before, value).zip(value);
                    wide[at] = pair.is_some_and(|(before, after): (f64, f64)| {
                        is_wide(after - before, (before.abs() + after.abs()) * precision)
                    });
                    value
                });
                stretches.ascend(compared)
            }
        };
        ascending.map_err(|at| (Some(at), unsorted(window).at(of(window.by_column()))))?;
        (0..rows).filter(|at| wide[*at]).for_each(|at| stretches.cut(at));
        Ok(stretches)
    }

    /// Says how the first row of one row group follows the last row of another. `before` and `after` hold the
    /// deciding values of these two rows.
    ///
    /// # Errors
    /// Fails if the `by` value in `after` is less than the one in `before`.
    pub(crate) fn border(window: &Window, before: &Deciding, after: &Deciding) -> Result<Border> {
        let joined = |(before, after): (&Option<ArrayRef>, &Option<ArrayRef>)| {
            let pair = before.as_ref().zip(after.as_ref());
            pair.map(|(before, after)| concat(&[before.as_ref(), after.as_ref()]).or_fail()).transpose()
        };
        let by = joined((&before.by, &after.by))?;
        let within = joined((&before.within, &after.within))?;
        match Stretches::find(window, 2, by.as_ref(), within.as_ref()) {
            Ok(stretches) => Ok(stretches.row(1)),
            Err((Some(_), _)) => Err(unsorted_across(window)),
            Err((None, error)) => Err(error),
        }
    }

    /// Says how a row follows the row before.
    pub(crate) fn row(&self, at: usize) -> Border {
        Border { is_cut: self.cuts[at], is_out: self.out[at], is_equal: self.equal[at] }
    }

    /// Cuts between a row and the row before.
    fn cut(&mut self, at: usize) {
        self.cuts[at] = true;
    }

    /// Marks rows without a value as being in no window. Fails with the first row whose value is less than
    /// that of the row before, if there is no cut between the two.
    fn ascend<T: PartialOrd + Copy>(
        &mut self,
        values: impl Iterator<Item = Option<T>>,
    ) -> std::result::Result<(), usize> {
        let mut before: Option<T> = None;
        for (at, value) in values.enumerate() {
            if self.cuts[at] {
                before = None;
            }
            match (before, value) {
                (_, None) => {
                    self.out[at] = true;
                    continue;
                }
                (Some(before), Some(value)) if value < before => return Err(at),
                (Some(before), Some(value)) => self.equal[at] = value == before && !self.out[at - 1],
                (None, Some(_)) => {}
            }
            before = value;
        }
        Ok(())
    }

    /// Cuts between neighbours with different values. Marks rows without a value as being in no window.
    fn differ(&mut self, values: &ArrayRef) -> Result<()> {
        let values: &dyn Array = values.as_ref();
        let nulls = values.logical_nulls();
        let is_null = |at: usize| nulls.as_ref().is_some_and(|nulls| nulls.is_null(at));
        let same: Box<dyn Fn(usize) -> bool> = match values.data_type() {
            DataType::Utf8View => {
                let texts = values.as_string_view();
                Box::new(move |at| texts.value(at) == texts.value(at - 1))
            }
            DataType::BinaryView => {
                let cells = values.as_binary_view();
                Box::new(move |at| cells.value(at) == cells.value(at - 1))
            }
            DataType::Boolean => {
                let flags = values.as_boolean();
                Box::new(move |at| flags.value(at) == flags.value(at - 1))
            }
            other if other.is_primitive() || matches!(other, DataType::FixedSizeBinary(_)) => {
                let width = match other {
                    DataType::FixedSizeBinary(width) => *width as usize,
                    other => other.primitive_width().unwrap_or(1),
                };
                let data = values.to_data();
                let bytes = data.buffers()[0].slice(data.offset() * width);
                Box::new(move |at| bytes[at * width..][..width] == bytes[(at - 1) * width..][..width])
            }
            other => {
                return Err(Error::invalid(format!(
                    "holds {}, which cannot keep rows together",
                    TypeName(other)
                ))
                .hint("windows are within one number, time, text or binary value"));
            }
        };
        for at in 0..values.len() {
            self.out[at] |= is_null(at);
            if at > 0 && (is_null(at) || is_null(at - 1) || !same(at)) {
                self.cut(at);
            }
        }
        Ok(())
    }

    /// Returns the stretches as ranges of rows.
    #[cfg(test)]
    fn iter(&self) -> impl Iterator<Item = Range<u32>> + '_ {
        let mut at = 0;
        std::iter::from_fn(move || {
            while at < self.out.len() && self.out[at] {
                at += 1;
            }
            if at == self.out.len() {
                return None;
            }
            let start = at;
            at += 1;
            while at < self.out.len() && !self.out[at] && !self.cuts[at] {
                at += 1;
            }
            Some(start as u32..at as u32)
        })
    }

    /// Makes stretches from the borders between rows.
    #[cfg(test)]
    pub(super) fn from_rows(rows: &[Border]) -> Self {
        Stretches {
            cuts: rows.iter().map(|row| row.is_cut).collect(),
            out: rows.iter().map(|row| row.is_out).collect(),
            equal: rows.iter().map(|row| row.is_equal).collect(),
        }
    }
}

/// The relation of a row to the row before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Border {
    /// Whether the two rows may not be in one window.
    pub(crate) is_cut: bool,
    /// Whether the row can be in no window.
    pub(crate) is_out: bool,
    /// Whether the `by` values of the two rows are equal.
    pub(crate) is_equal: bool,
}

/// The values of some rows in the columns that decide about windows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deciding {
    pub(crate) by: Option<ArrayRef>,
    pub(crate) within: Option<ArrayRef>,
}

/// The values of the `by` column, in which rows must ascend. A null or a NaN, which has no order, is `None`.
enum Numbers<'a> {
    Whole(Box<dyn Iterator<Item = Option<i128>> + 'a>),
    Float(Box<dyn Iterator<Item = Option<f64>> + 'a>),
}

/// Converts times to whole numbers of their unit, and returns any other array unchanged.
fn in_order(array: &ArrayRef) -> Result<ArrayRef> {
    let as_type = |data_type| {
        let data = array.to_data().into_builder().data_type(data_type).build();
        data.or_fail().map(make_array)
    };
    match (array.data_type(), array.data_type().primitive_width()) {
        (time, Some(4)) if time.is_temporal() => as_type(DataType::Int32),
        (time, Some(8)) if time.is_temporal() => as_type(DataType::Int64),
        _ => Ok(array.clone()),
    }
}

fn numbers(array: &ArrayRef) -> Result<Numbers<'_>> {
    macro_rules! whole {
        ($type:ty) => {
            Numbers::Whole(Box::new(array.as_primitive::<$type>().iter().map(|it| it.map(i128::from))))
        };
    }
    macro_rules! float {
        ($type:ty) => {{
            let values = array.as_primitive::<$type>().iter();
            Numbers::Float(Box::new(values.map(|it| it.map(f64::from).filter(|it| !it.is_nan()))))
        }};
    }
    Ok(match array.data_type() {
        DataType::Int8 => whole!(Int8Type),
        DataType::Int16 => whole!(Int16Type),
        DataType::Int32 => whole!(Int32Type),
        DataType::Int64 => whole!(Int64Type),
        DataType::UInt8 => whole!(UInt8Type),
        DataType::UInt16 => whole!(UInt16Type),
        DataType::UInt32 => whole!(UInt32Type),
        DataType::UInt64 => whole!(UInt64Type),
        DataType::Float16 => float!(Float16Type),
        DataType::Float32 => float!(Float32Type),
        DataType::Float64 => float!(Float64Type),
        other => return Err(no_order(other)),
    })
}

fn no_order(data_type: &DataType) -> Error {
    Error::invalid(format!("holds {}, which cannot order windows", TypeName(data_type)))
        .hint("name a column of numbers or times")
}

fn unsorted(window: &Window) -> Error {
    let cause = "is less than in the row before, but the rows of a window must ascend";
    let error = Error::invalid(cause);
    match window.within_column() {
        Some(_) => error.hint("write the rows of each row group sorted by it"),
        None => error.hint("write the rows sorted by it, or name with `within` what they are sorted in"),
    }
}

fn unsorted_across(window: &Window) -> Error {
    let at = window.by_column().map_or_else(Place::default, |name| Place::default().column(name));
    let hint = match (window.across_borders(), window.within_column()) {
        (Across::Dataset, None) => {
            "write the files sorted by it in the order of their paths, or keep windows to one file with `across`"
        }
        (Across::Dataset, Some(_)) => {
            "write the files in the order of their paths, or keep windows to one file with `across`"
        }
        _ => "write the row groups of a file in its order, or leave `across` out",
    };
    Error::invalid(
        "is less than in the last row of the row group before, but the rows of a window must ascend",
    )
    .hint(hint)
    .at(at)
}

/// Returns the relative rounding error of floats of this type. The difference of two stored numbers is wrong
/// by about that much: 0.4 - 0.3 is more than 0.1.
fn precision(by: &DataType) -> f64 {
    match by {
        DataType::Float16 => f64::from(f16::EPSILON),
        DataType::Float32 => f64::from(f32::EPSILON),
        _ => f64::EPSILON,
    }
}

/// Returns the largest gap that the window allows, in the unit of the `by` column; `None` for any gap.
fn largest_gap(window: &Window, by: &DataType) -> Result<Option<f64>> {
    let seconds = match window.largest_gap() {
        None => return Ok(None),
        Some(Gap::Number(number)) => return Ok(Some(number)),
        Some(Gap::Seconds(seconds)) => seconds,
    };
    let of_unit = |unit: &TimeUnit| match unit {
        TimeUnit::Second => 1.0,
        TimeUnit::Millisecond => 1e3,
        TimeUnit::Microsecond => 1e6,
        TimeUnit::Nanosecond => 1e9,
    };
    let units = match by {
        DataType::Timestamp(unit, _)
        | DataType::Time32(unit)
        | DataType::Time64(unit)
        | DataType::Duration(unit) => of_unit(unit),
        DataType::Date32 => 1.0 / 86_400.0,
        DataType::Date64 => 1e3,
        other => {
            return Err(Error::invalid(format!("holds {}, but the gap is a time", TypeName(other)))
                .hint("give the gap as a number"));
        }
    };
    Ok(Some(seconds * units))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use forebay_arrow::array::{
        BinaryViewArray, BooleanArray, Date32Array, FixedSizeBinaryArray, Float32Array, Float64Array,
        Int8Array, Int64Array, StringViewArray, TimestampMillisecondArray,
    };

    use super::*;

    fn found(window: &Window, by: Option<ArrayRef>, within: Option<ArrayRef>) -> Vec<Range<u32>> {
        let rows = by.as_ref().or(within.as_ref()).map_or(0, |array| array.len());
        Stretches::find(window, rows, by.as_ref(), within.as_ref()).unwrap().iter().collect()
    }

    #[test]
    fn a_gap_ends_a_stretch() {
        let window = Window::rows(2).by("t").gap(2.0);
        let by: ArrayRef = Arc::new(Int64Array::from(vec![1, 3, 6, 7]));
        assert_eq!(found(&window, Some(by), None), [0..2, 2..4]);
        let floats: ArrayRef = Arc::new(Float64Array::from(vec![0.0, 2.0, 4.5]));
        assert_eq!(found(&window, Some(floats), None), [0..2, 2..3]);
        // Neither tenths nor their differences can be written exactly as floats.
        let tenths: ArrayRef =
            Arc::new(Float64Array::from_iter_values((0..1000).map(|at| f64::from(at) * 0.1)));
        let narrow: ArrayRef = Arc::new(Float32Array::from_iter_values((0..1000).map(|at| at as f32 * 0.1)));
        let window = Window::rows(2).by("t").gap(0.1);
        for tenths in [tenths, narrow] {
            assert_eq!(found(&window, Some(tenths), None).first(), Some(&(0..1000)));
        }
        let wider: ArrayRef = Arc::new(Float64Array::from(vec![99.9, 100.000_001]));
        assert_eq!(found(&window, Some(wider), None), [0..1, 1..2]);
        let far: ArrayRef = Arc::new(Int64Array::from(vec![i64::MIN, i64::MAX]));
        assert_eq!(found(&window, Some(far), None), [0..1, 1..2]);
    }

    #[test]
    fn a_row_is_where_the_one_before_is_also_across_a_border() {
        let window = Window::rows(2).by("t").across(Across::File);
        let row = |value: i64| Deciding {
            by: Some(Arc::new(Int64Array::from(vec![value])) as ArrayRef),
            within: None,
        };
        for (before, after) in [(3, 3), (3, 4)] {
            let border = Stretches::border(&window, &row(before), &row(after)).unwrap();
            assert_eq!(border, Border { is_cut: false, is_out: false, is_equal: before == after });
        }
        assert!(Stretches::border(&window, &row(4), &row(3)).is_err());
    }

    #[test]
    fn a_time_is_in_the_unit_of_the_column() {
        let window = Window::rows(2).by("t").gap(std::time::Duration::from_secs(1));
        let by: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![0, 1000, 2001]));
        assert_eq!(found(&window, Some(by), None), [0..2, 2..3]);
        let days = Window::rows(2).by("t").gap(std::time::Duration::from_secs(2 * 86_400));
        let by: ArrayRef = Arc::new(Date32Array::from(vec![0, 2, 5]));
        assert_eq!(found(&days, Some(by), None), [0..2, 2..3]);
        let number: ArrayRef = Arc::new(Int64Array::from(vec![0]));
        assert!(
            Stretches::find(&window, 1, Some(&number), None).unwrap_err().1.to_string().contains("a time")
        );
    }

    #[test]
    fn a_row_without_a_value_is_in_no_window() {
        let window = Window::rows(2).by("t");
        let by: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(2), Some(3)]));
        assert_eq!(found(&window, Some(by), None), [0..1, 2..4]);
        let nan: ArrayRef = Arc::new(Float64Array::from(vec![f64::NAN, 1.0, 2.0]));
        assert_eq!(found(&window, Some(nan), None).first(), Some(&(1..3)));
        let within: ArrayRef = Arc::new(StringViewArray::from(vec![Some("a"), Some("a"), None, Some("a")]));
        assert_eq!(found(&Window::rows(2).within("e"), None, Some(within)), [0..2, 3..4]);
    }

    #[test]
    fn a_stretch_has_one_value_of_any_type() {
        let texts = ["a", "a", "b", "b"];
        let values: [ArrayRef; 7] = [
            Arc::new(BooleanArray::from(vec![true, true, false, false])),
            Arc::new(Int8Array::from(vec![1, 1, -1, -1])),
            Arc::new(Float64Array::from(vec![0.5, 0.5, 1.5, 1.5])),
            Arc::new(Date32Array::from(vec![1, 1, 257, 257])),
            Arc::new(StringViewArray::from_iter_values(texts)),
            Arc::new(BinaryViewArray::from_iter_values(texts)),
            Arc::new(FixedSizeBinaryArray::try_from_iter([b"xa", b"xa", b"xb", b"xb"].iter()).unwrap()),
        ];
        let window = Window::rows(2).within("e");
        for values in values {
            assert_eq!(found(&window, None, Some(values.clone())), [0..2, 2..4], "{values:?}");
            let after = values.slice(1, 3);
            assert_eq!(found(&window, None, Some(after)), [0..1, 1..3], "{values:?} after its first row");
        }
    }

    #[test]
    fn rows_ascend_within_each_value() {
        let window = Window::rows(2).by("t").within("e");
        let by: ArrayRef = Arc::new(Int64Array::from(vec![5, 6, 1, 2]));
        let within: ArrayRef = Arc::new(Int64Array::from(vec![1, 1, 2, 2]));
        assert_eq!(found(&window, Some(by.clone()), Some(within)), [0..2, 2..4]);
        let (row, error) = Stretches::find(&window, 4, Some(&by), None).unwrap_err();
        assert_eq!(row, Some(2));
        assert!(error.to_string().contains("less than in the row before"), "{error}");
    }
}
