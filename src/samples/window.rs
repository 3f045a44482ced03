//! Windows of rows: samples of a fixed number of consecutive rows, in the order in which they are stored.
//!
//! The columns that decide which rows make a window ([`by`](Window::by) and [`within`](Window::within)) are
//! read once. For each row group, the rows with which windows begin are then kept as a set: window `n` of the
//! row group begins with row `n` of the set. A window belongs to the row group in which it begins, and may
//! have rows of the next row groups.
//!
//! ```text
//! by        1 2 3 9 10 11 12      with a gap of 1, two stretches of rows
//! stretches ───── ──────────      windows of 3 rows begin where `by` is 1, 9 and 10
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use forebay_base::{Error, Result};
use forebay_store::row_set::RowSet;
use serde::{Deserialize, Serialize};

use super::across::Across;
use super::frames::Frames;
use super::{SampleKind, SampleRows};

/// The highest number of rows that a window may have.
const MAX_ROWS: i64 = 1 << 16;

/// Samples of several consecutive rows, which Petastorm calls an NGram and forecasters a sequence: each
/// column is delivered with one value for each row, in the shape `[windows, rows, ...]`.
///
/// The rows of a window follow each other in the stored order, among the rows that a filter selects. With
/// [`by`](Self::by) they ascend in a column, and [`gap`](Self::gap) limits the step from one row to the next;
/// with [`within`](Self::within) they have one value in another column. Windows do not cross the borders of
/// row groups, unless [`across`](Self::across) says so.
///
/// ```
/// use forebay::samples::Window;
///
/// # fn build(dataset: forebay::Dataset) -> forebay::Result<forebay::Loader> {
/// // 16 rows of an episode: all columns as [windows, 16, ...].
/// dataset.loader().samples(Window::rows(16).by("time").gap(0.1).within("episode")).build()
/// # }
/// # let _ = build;
/// // "x" of the row before and of the row itself, "y" only of the row itself.
/// let window = Window::offsets([(-1, vec!["x"]), (0, vec!["x", "y"])]);
/// assert_eq!(window.columns(), ["x", "y"]);
/// assert_eq!(window.length(), 2);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Window {
    first: i64,
    last: i64,
    /// The columns that are delivered for each offset; empty if every row has all columns.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", with = "pairs")]
    fields: BTreeMap<i64, Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    gap: Option<Gap>,
    /// The number of rows that a window shares with the one before; `None` if it shares all rows but one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    overlap: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    within: Option<String>,
    /// Where a window must end. A saved position leaves the field out if it has its default.
    #[serde(default, skip_serializing_if = "Across::is_row_group")]
    across: Across,
    #[serde(default, skip_serializing_if = "Frames::are_together")]
    frames: Frames,
    /// The distance from one delivered row to the next; `None` for 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stride: Option<u32>,
}

/// Serializes columns by offset as pairs, because the keys of JSON objects are texts.
mod pairs {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    type Fields = BTreeMap<i64, Vec<String>>;

    pub(super) fn serialize<S: Serializer>(fields: &Fields, to: S) -> Result<S::Ok, S::Error> {
        fields.iter().collect::<Vec<_>>().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Fields, D::Error> {
        Ok(Vec::<(i64, Vec<String>)>::deserialize(from)?.into_iter().collect())
    }
}

/// The largest step in the `by` column from one row of a [`Window`](crate::samples::Window) to the next.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Gap {
    /// A number; in a column of times, in the unit of the column.
    Number(f64),
    /// A time in seconds, which only columns of times take.
    Seconds(f64),
}

impl From<f64> for Gap {
    fn from(number: f64) -> Self {
        Gap::Number(number)
    }
}

impl From<Duration> for Gap {
    fn from(time: Duration) -> Self {
        Gap::Seconds(time.as_secs_f64())
    }
}

impl Window {
    /// Windows of `length` rows in which each row has all columns.
    pub fn rows(length: u32) -> Self {
        let last = i64::from(length) - 1;
        Window {
            first: 0,
            last,
            fields: BTreeMap::new(),
            by: None,
            gap: None,
            overlap: None,
            within: None,
            across: Across::RowGroup,
            frames: Frames::Together,
            stride: None,
        }
    }

    /// Windows from the lowest offset to the highest, in which each row has the columns that are listed for
    /// its offset. A column that is listed for `k` offsets has `k` values in each window, in ascending order
    /// of the offsets. Columns are named as they are delivered, or by patterns such as `I*`.
    pub fn offsets<N: Into<String>>(fields: impl IntoIterator<Item = (i64, Vec<N>)>) -> Self {
        let named = |(offset, names): (i64, Vec<N>)| (offset, names.into_iter().map(Into::into).collect());
        let fields: BTreeMap<i64, Vec<String>> = fields.into_iter().map(named).collect();
        let first = fields.keys().next().copied().unwrap_or(0);
        let last = fields.keys().next_back().copied().unwrap_or(-1);
        Window { first, last, fields, ..Window::rows(0) }
    }

    /// The column of numbers or times in which the rows of a window ascend. A row group that is not sorted by
    /// it, within [`within`](Self::within), is an error. Default: none.
    #[must_use]
    pub fn by(self, column: impl Into<String>) -> Self {
        Window { by: Some(column.into()), ..self }
    }

    /// The largest step in [`by`](Self::by) from one row to the next. A step may be larger by the rounding
    /// error of floats. Default: any step.
    #[must_use]
    pub fn gap(self, gap: impl Into<Gap>) -> Self {
        Window { gap: Some(gap.into()), ..self }
    }

    /// The number of rows that a window shares with the one before. With 0, windows share no rows, and the
    /// first value of each in the column [`by`](Self::by) is greater than the last one of the window before.
    /// Default: a new window begins at every row.
    #[must_use]
    pub fn overlap(self, rows: u32) -> Self {
        Window { overlap: Some(rows), ..self }
    }

    /// The column in which all rows of a window have one value, such as an episode. Rows of one value must be
    /// stored one after the other. Default: none.
    #[must_use]
    pub fn within(self, column: impl Into<String>) -> Self {
        Window { within: Some(column.into()), ..self }
    }

    /// Sets where a window must end. Default: at the end of the row group in which it begins.
    ///
    /// If windows may continue in later row groups, a row group is read together with the first rows of those
    /// row groups, as far as its windows need them. For these first rows, columns without lists are read by
    /// pages, if the file has an offset index or is local and the column is large; other columns are read as
    /// a whole.
    #[must_use]
    pub fn across(self, across: Across) -> Self {
        Window { across, ..self }
    }

    /// Sets whether the images of a window share their random crop, flip and change of colours. Default: they
    /// do.
    #[must_use]
    pub fn frames(self, frames: Frames) -> Self {
        Window { frames, ..self }
    }

    /// Delivers rows that are this far from each other: with 4, the rows 0, 4, 8 and so on of a window, which
    /// then spans nearly four times as many rows. For windows of [`rows`](Self::rows). Default: 1. If windows
    /// [overlap](Self::overlap) by fewer rows than by default, the rows between may be in no window.
    ///
    /// ```
    /// use forebay::samples::Window;
    ///
    /// assert_eq!(Window::rows(16).stride(4).length(), 61);
    /// ```
    #[must_use]
    pub fn stride(self, rows: u32) -> Self {
        let between = self.last.saturating_sub(self.first) / self.each_row();
        let last = self.first.saturating_add(between.saturating_mul(rows.into()));
        Window { last, stride: Some(rows), ..self }
    }

    /// The distance from one delivered row to the next.
    fn each_row(&self) -> i64 {
        self.stride.unwrap_or(1).max(1).into()
    }

    /// The number of rows that a window spans.
    pub fn length(&self) -> u32 {
        u32::try_from(self.last.saturating_sub(self.first).saturating_add(1)).unwrap_or(0)
    }

    /// The names of the columns that are listed for offsets, each once, in the order of the offsets; empty
    /// for all columns.
    pub fn columns(&self) -> Vec<&str> {
        let mut columns: Vec<&str> = Vec::new();
        for name in self.fields.values().flatten() {
            if !columns.contains(&name.as_str()) {
                columns.push(name);
            }
        }
        columns
    }

    /// These windows with other columns for each offset, which `columns` returns for those that are listed.
    pub(crate) fn with_fields(&self, columns: impl Fn(&[String]) -> Result<Vec<String>>) -> Result<Self> {
        let fields = self.fields.iter().map(|(offset, listed)| Ok((*offset, columns(listed)?)));
        Ok(Window { fields: fields.collect::<Result<_>>()?, ..self.clone() })
    }

    /// The rows of a window for which a column is delivered, counted from 0.
    pub(crate) fn rows_of(&self, column: &str) -> Vec<u32> {
        let all = self.fields.is_empty();
        let has = |offset: &i64| {
            all && (offset - self.first) % self.each_row() == 0
                || self.fields.get(offset).is_some_and(|names| names.iter().any(|name| name == column))
        };
        (self.first..=self.last).filter(has).map(|offset| (offset - self.first) as u32).collect()
    }

    /// The columns that decide which rows make a window, by their stored names.
    pub(crate) fn deciding(&self) -> Vec<&str> {
        let mut columns: Vec<&str> = self.by.as_deref().into_iter().collect();
        columns.extend(self.within.as_deref().filter(|within| self.by.as_deref() != Some(within)));
        columns
    }

    /// These windows without the options that only decide how their rows are delivered.
    pub(crate) fn deciding_alone(&self) -> Self {
        Window { fields: BTreeMap::new(), frames: Frames::default(), stride: None, ..self.clone() }
    }

    pub(crate) fn by_column(&self) -> Option<&str> {
        self.by.as_deref()
    }

    pub(crate) fn within_column(&self) -> Option<&str> {
        self.within.as_deref()
    }

    pub(crate) fn across_borders(&self) -> Across {
        self.across
    }

    pub(crate) fn drawn_frames(&self) -> Frames {
        self.frames
    }

    /// The number of rows from the beginning of a window to the beginning of the next.
    pub(super) fn step(&self) -> u32 {
        let length = self.length();
        length - self.overlap.unwrap_or(length - 1)
    }

    /// Whether each window must begin at a later value of the `by` column than the last value of the window
    /// before.
    pub(super) fn is_apart(&self) -> bool {
        self.overlap == Some(0)
    }

    pub(crate) fn largest_gap(&self) -> Option<Gap> {
        self.gap
    }

    /// Returns an error for options that can never work, whatever the data.
    pub(crate) fn check(&self) -> Result<()> {
        if self.last < self.first {
            return Err(Error::invalid("a window of 0 rows").hint("give at least 1 row"));
        }
        if self.last.saturating_sub(self.first) >= MAX_ROWS {
            let cause = format!("a window reaches from offset {} to {}", self.first, self.last);
            return Err(Error::invalid(cause).hint(format!("up to {MAX_ROWS} rows")));
        }
        if self.stride == Some(0) {
            return Err(Error::invalid("a window with a stride of 0").hint("give 1 or more"));
        }
        if self.stride.is_some() && !self.fields.is_empty() {
            return Err(Error::invalid("a window has offsets and a stride")
                .hint("list the offsets that are delivered, and leave the stride out"));
        }
        if let Some(overlap) = self.overlap.filter(|overlap| *overlap >= self.length()) {
            let cause = format!("windows of {} rows share {overlap}", self.length());
            return Err(Error::invalid(cause).hint("give fewer than they have"));
        }
        let number = match self.gap {
            None => return Ok(()),
            Some(Gap::Number(number) | Gap::Seconds(number)) => number,
        };
        if !(number.is_finite() && number >= 0.0) {
            return Err(Error::invalid(format!("the gap of a window is {number}")).hint("0 or more"));
        }
        if self.by.is_none() {
            return Err(Error::invalid("a window has a gap, but no column to measure it in")
                .hint("name the column with `by`"));
        }
        Ok(())
    }
}

/// The windows of a data set.
#[derive(Debug)]
pub(crate) struct Windows {
    length: u32,
    /// The stored rows with which windows begin, for each row group.
    starts: Box<[RowSet]>,
}

impl Windows {
    pub(crate) fn new(window: &Window, starts: Vec<RowSet>) -> Self {
        Windows { length: window.length(), starts: starts.into() }
    }
}

impl SampleKind for Windows {
    fn count(&self, group: usize) -> u32 {
        self.starts[group].count()
    }

    fn rows(&self, group: usize, sample: u32, selected: &RowSet, rows: &mut SampleRows) {
        let first = selected.rank(self.starts[group].select(sample));
        rows.rows.extend(first..first + self.length);
    }

    fn beyond(&self, group: usize, selected: &RowSet) -> u32 {
        let last = self.starts[group].count().checked_sub(1);
        let first = last.map_or(0, |last| selected.rank(self.starts[group].select(last)));
        last.map_or(0, |_| (first + self.length).saturating_sub(selected.count()))
    }

    fn bytes(&self) -> u64 {
        self.starts.iter().map(RowSet::bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use forebay_arrow::array::{ArrayRef, Int64Array};

    use super::super::starts::SequenceStarts;
    use super::super::stretches::Stretches;
    use super::*;

    /// The rows with which windows begin in one row group, if another episode begins at each row of `breaks`.
    fn starts(window: &Window, by: &[i64], breaks: &[usize]) -> Vec<u32> {
        let episode = |row: usize| breaks.iter().filter(|at| **at <= row).count() as i64;
        let within: ArrayRef = Arc::new(Int64Array::from_iter_values((0..by.len()).map(episode)));
        let ascending: ArrayRef = Arc::new(Int64Array::from(by.to_vec()));
        let rows = Stretches::find(window, by.len(), Some(&ascending), Some(&within)).unwrap();
        let mut starts = SequenceStarts::new(window);
        starts.push(&RowSet::all(by.len() as u32), &rows, None);
        let found = starts.finish().remove(0);
        (0..found.count()).map(|at| found.select(at)).collect()
    }

    #[test]
    fn windows_begin_with_each_row_that_has_enough_after_it() {
        let by = [1, 2, 3, 9, 10, 11, 12];
        let window = Window::rows(3);
        assert_eq!(starts(&window, &by, &[3]), [0, 3, 4]);
        assert_eq!(starts(&window, &by, &[]), [0, 1, 2, 3, 4]);
        assert_eq!(starts(&window.clone().overlap(0), &by, &[]), [0, 3]);
        assert_eq!(starts(&window.clone().overlap(1), &by, &[]), [0, 2, 4]);
        assert_eq!(starts(&window, &by[..2], &[]), [0; 0]);
    }

    #[test]
    fn windows_without_overlap_do_not_share_a_time() {
        let window = Window::rows(2).overlap(0);
        assert_eq!(starts(&window, &[1, 2, 2, 2, 3, 4], &[]), [0, 4]);
        assert_eq!(starts(&window, &[1, 2, 2, 2, 3, 4], &[3]), [0, 3], "another stretch has its own times");
    }

    #[test]
    fn a_window_that_can_never_be_is_refused() {
        for (window, said) in [
            (Window::rows(0), "0 rows"),
            (Window::offsets([(0, vec!["x"]), (1 << 40, vec!["x"])]), "reaches"),
            (Window::rows(3).overlap(3), "share 3"),
            (Window::rows(3).by("t").gap(-1.0), "gap"),
            (Window::rows(3).gap(1.0), "no column"),
            (Window::rows(3).stride(0), "stride of 0"),
            (Window::offsets([(0, vec!["x"]), (3, vec!["x"])]).stride(2), "offsets and a stride"),
            (Window::rows(16).stride(1 << 20), "reaches"),
        ] {
            let error = window.check().unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn a_window_is_read_as_it_was_written() {
        let window = Window::offsets([(-1, vec!["x"]), (1, vec!["x", "y"])]);
        let window = window.by("t").gap(Duration::from_millis(1500)).overlap(0).within("e");
        assert!(!serde_json::to_string(&window).unwrap().contains("across"), "as it was written before");
        let window = window.across(Across::Dataset).frames(Frames::Alone);
        let text = serde_json::to_string(&window).unwrap();
        assert_eq!(serde_json::from_str::<Window>(&text).unwrap(), window, "{text}");
        assert_eq!((window.rows_of("x"), window.rows_of("y"), window.length()), (vec![0, 2], vec![2], 3));
        assert_eq!(Window::rows(2).rows_of("any"), [0, 1]);
        let strided = Window::rows(3).stride(2).stride(4);
        assert_eq!((strided.rows_of("any"), strided.length()), (vec![0, 4, 8], 9));
        let text = serde_json::to_string(&strided).unwrap();
        assert_eq!(serde_json::from_str::<Window>(&text).unwrap(), strided, "{text}");
        assert_eq!(strided.deciding_alone(), Window::rows(9));
        assert_eq!(window.deciding_alone(), window.clone().frames(Frames::Together).deciding_alone());
    }
}
