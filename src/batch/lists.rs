//! Gathers lists and maps into one array of values per batch.

use std::sync::Arc;

use forebay_arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, FixedSizeListArray, LargeListArray, MapArray, make_array,
};
use forebay_arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use forebay_arrow::datatypes::{DataType, FieldRef};
use forebay_arrow::fail::OrFail;
use forebay_base::{Error, ErrorKind, Result};

use super::delivered::delivered_type;
use super::fill::Fill;
use super::nested::fixed_lists;
use super::selection::{Run, Selection};
use super::sources::{disagreement, downcast};
use super::{booleans, fixed};

/// One list in the column of a source: the range of its values in that column's array of values.
#[derive(Clone, Copy)]
pub(crate) struct StoredList {
    pub(crate) source: usize,
    pub(crate) from: usize,
    pub(crate) to: usize,
}

impl StoredList {
    pub(crate) fn len(&self) -> usize {
        self.to - self.from
    }
}

/// Selected lists or maps of varying length, whose values are gathered separately. A map is treated as a list
/// of its entries.
pub(super) struct Lists {
    /// The type of the column in the batch.
    data_type: DataType,
    /// The offset at which each list begins among the gathered values, and the end of the last list.
    offsets: Vec<i64>,
    nulls: Option<NullBuffer>,
}

impl Lists {
    /// Returns the selected lists without their values, and the values that are still to be gathered.
    pub(super) fn select<'a>(
        sources: &[&'a dyn Array],
        selection: &Selection,
        fill: Option<&Fill>,
    ) -> Result<(Self, Items<'a>)> {
        let mut values: Vec<&dyn Array> = Vec::with_capacity(sources.len());
        let mut bounds: Vec<Bounds<'_>> = Vec::with_capacity(sources.len());
        for source in sources {
            let (items, of) = match source.as_map_opt() {
                Some(map) => {
                    (map.entries() as &dyn Array, Bounds::Short(map.value_offsets(), map.entries().len()))
                }
                None => {
                    let (items, of) = parts(*source)?;
                    (items.as_ref(), of)
                }
            };
            values.push(items);
            bounds.push(of);
        }
        let mut offsets: Vec<i64> = Vec::with_capacity(selection.len() + 1);
        offsets.push(0);
        let mut runs = Runs::default();
        selection.for_each(|source, row| {
            // With a fill, a null list becomes empty, so values that are stored under it are not gathered.
            if fill.is_none() || sources[source].is_valid(row) {
                let (from, to) = bounds[source].of_row(row);
                runs.push(source, from, to);
            }
            offsets.push(runs.rows as i64);
        });
        let data_type = delivered_type(sources[0].data_type());
        let nulls = if fill.is_none() { selection.nulls(sources) } else { None };
        Ok((Lists { data_type, offsets, nulls }, Items { values, selection: runs.finish()? }))
    }

    /// Combines the lists with their gathered values into an array.
    pub(super) fn with_values(self, values: ArrayRef) -> Result<ArrayRef> {
        let Lists { data_type, offsets, nulls } = self;
        match data_type {
            DataType::LargeList(item) => {
                let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
                Ok(Arc::new(LargeListArray::try_new(item, offsets, values, nulls).or_fail()?))
            }
            DataType::Map(entries, sorted) => {
                let offsets: Option<Vec<i32>> =
                    offsets.into_iter().map(|offset| i32::try_from(offset).ok()).collect();
                let offsets = offsets.ok_or_else(|| {
                    Error::new(ErrorKind::TooLarge, "a batch with 2^31 or more entries of maps")
                        .hint("use smaller batches")
                })?;
                let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
                let values = values.as_struct().clone();
                Ok(Arc::new(MapArray::try_new(entries, offsets, values, nulls, sorted).or_fail()?))
            }
            other => Err(Error::new(ErrorKind::Internal, format!("{other} is not a list"))),
        }
    }
}

/// Selected lists of one length, whose values are gathered separately.
pub(super) struct FixedLists {
    item: FieldRef,
    length: i32,
    nulls: Option<NullBuffer>,
    rows: usize,
}

impl FixedLists {
    /// Returns the selected lists without their values, and the values that are still to be gathered.
    pub(super) fn select<'a>(sources: &[&'a dyn Array], selection: &Selection) -> Result<(Self, Items<'a>)> {
        let DataType::FixedSizeList(item, length) = delivered_type(sources[0].data_type()) else {
            return Err(disagreement());
        };
        let arrays: Vec<&FixedSizeListArray> = downcast(sources)?;
        let values: Vec<&dyn Array> = arrays.iter().map(|array| array.values().as_ref()).collect();
        let mut runs = Runs::default();
        selection.for_each_run(|source, row, rows| {
            let from = arrays[source].value_offset_at(row) as usize;
            runs.push(source, from, from + rows * length as usize);
        });
        let nulls = selection.nulls(sources);
        let lists = FixedLists { item, length, nulls, rows: selection.len() };
        Ok((lists, Items { values, selection: runs.finish()? }))
    }

    /// Combines the lists with their gathered values into an array. `fill` replaces null values and all
    /// values of null lists.
    pub(super) fn with_values(self, values: ArrayRef, fill: Option<&Fill>) -> Result<ArrayRef> {
        let FixedLists { item, length, nulls, rows } = self;
        let (values, nulls) = match fill {
            Some(fill) => (filled(values, nulls, length as usize, fill)?, None),
            None => (values, nulls),
        };
        Ok(Arc::new(fixed_lists(item, length, values, nulls, rows).or_fail()?))
    }
}

/// The values of selected lists, before they are gathered.
pub(super) struct Items<'a> {
    /// The values of each source.
    pub(super) values: Vec<&'a dyn Array>,
    pub(super) selection: Selection,
}

/// The offsets of a source's lists in 32 or 64 bits, and the number of its values.
enum Bounds<'a> {
    Short(&'a [i32], usize),
    Long(&'a [i64], usize),
}

impl Bounds<'_> {
    /// The range of a list's values, cut off at the end of the source's values. Other processes may change
    /// the offsets of memory-mapped rows at any time, so offsets are checked whenever they are used, and a
    /// batch is made again if its rows have changed.
    fn of_row(&self, row: usize) -> (usize, usize) {
        let (from, to, values) = match self {
            Bounds::Short(offsets, values) => (offsets[row] as usize, offsets[row + 1] as usize, *values),
            Bounds::Long(offsets, values) => (offsets[row] as usize, offsets[row + 1] as usize, *values),
        };
        let from = from.min(values);
        (from, to.clamp(from, values))
    }
}

/// The values of the selected lists, as runs of consecutive values in their sources.
#[derive(Default)]
struct Runs {
    runs: Vec<Run>,
    rows: usize,
    overflow: bool,
}

impl Runs {
    /// Adds the values `from..to` of a source. They extend the last run if they directly follow it.
    fn push(&mut self, source: usize, from: usize, to: usize) {
        self.overflow |= to > u32::MAX as usize;
        let (source, start, rows) = (source as u32, from as u32, (to - from) as u32);
        match self.runs.last_mut() {
            _ if rows == 0 => {}
            Some(last) if last.source == source && last.end() == Some(start) => last.rows += rows,
            _ => self.runs.push(Run { source, start, rows }),
        }
        self.rows += to - from;
    }

    fn finish(self) -> Result<Selection> {
        if self.overflow {
            return Err(Error::new(ErrorKind::TooLarge, "a row group with more than 2^32 list values")
                .hint("rewrite it with smaller row groups"));
        }
        Ok(Selection::Runs { runs: self.runs, rows: self.rows })
    }
}

/// Returns the values of each source, and the selected lists as ranges of these values; null lists are
/// `None`.
pub(crate) fn stored_lists<'a>(
    sources: &[&'a dyn Array],
    selection: &Selection,
) -> Result<(Vec<&'a ArrayRef>, Vec<Option<StoredList>>)> {
    let parts = sources.iter().map(|source| parts(*source)).collect::<Result<Vec<_>>>()?;
    let mut lists = Vec::with_capacity(selection.len());
    selection.for_each(|source, row| {
        lists.push(sources[source].is_valid(row).then(|| {
            let (from, to) = parts[source].1.of_row(row);
            StoredList { source, from, to }
        }));
    });
    Ok((parts.into_iter().map(|(values, _)| values).collect(), lists))
}

/// Replaces nulls, and all values under null lists, in the values of lists that have `length` values each.
fn filled(values: ArrayRef, lists: Option<NullBuffer>, length: usize, fill: &Fill) -> Result<ArrayRef> {
    let nulls = NullBuffer::union(values.nulls(), lists.map(|lists| lists.expand(length)).as_ref());
    let Some(nulls) = nulls else { return Ok(values) };
    let data = values.to_data();
    drop(values);
    let values = make_array(data.into_builder().nulls(Some(nulls)).build().or_fail()?);
    match values.as_any().downcast_ref::<BooleanArray>() {
        Some(_) => {
            let all = Run { source: 0, start: 0, rows: values.len() as u32 };
            booleans::gather(&[&values], &Selection::Runs { runs: vec![all], rows: values.len() }, Some(fill))
        }
        None => fixed::fill(values, fill),
    }
}

/// Splits an array of lists into its values and the bounds of each list.
fn parts(array: &dyn Array) -> Result<(&ArrayRef, Bounds<'_>)> {
    if let Some(lists) = array.as_list_opt::<i32>() {
        return Ok((lists.values(), Bounds::Short(lists.value_offsets(), lists.values().len())));
    }
    let lists = array.as_list_opt::<i64>().ok_or_else(disagreement)?;
    Ok((lists.values(), Bounds::Long(lists.value_offsets(), lists.values().len())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_up_to_2_to_the_32_and_refused_beyond() {
        let last = |to: usize| {
            let mut runs = Runs::default();
            runs.push(0, 0, 2);
            runs.push(0, to - 3, to);
            runs.push(1, 7, 9);
            runs.finish()
        };
        let most = u32::MAX as usize;
        let ends = |selection: Selection| selection.to_runs().iter().map(Run::end).collect::<Vec<_>>();
        assert_eq!(ends(last(most).unwrap()), [Some(2), Some(u32::MAX), Some(9)]);
        let refusal = |to: usize| last(to).err().map(|error| error.kind());
        assert_eq!(refusal(most + 1), Some(ErrorKind::TooLarge));
        assert_eq!(refusal(most + 4), Some(ErrorKind::TooLarge), "all of the values lie beyond");
    }
}
