//! Lists of values of one width: one values buffer per batch.

use std::sync::Arc;

use crate::arrow::array::{
    Array, ArrayRef, BooleanArray, FixedSizeListArray, LargeListArray, ListArray, make_array,
};
use crate::arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use crate::arrow::datatypes::{DataType, FieldRef};

use super::{Fill, Run, Selection, booleans, downcast, fill as fill_values, gather as gather_values};
use crate::error::{Error, ErrorKind, OrFail, Result};

/// The range of a list's values in its source.
type Bounds<'a> = Box<dyn Fn(usize) -> (usize, usize) + 'a>;

pub(super) fn gather(sources: &[&dyn Array], selection: &Selection, fill: Option<&Fill>) -> Result<ArrayRef> {
    let item = item(sources[0].data_type())?;
    let mut values: Vec<&dyn Array> = Vec::with_capacity(sources.len());
    let mut bounds: Vec<Bounds<'_>> = Vec::with_capacity(sources.len());
    if matches!(sources[0].data_type(), DataType::List(_)) {
        for array in downcast::<ListArray>(sources)? {
            values.push(array.values());
            bounds.push(Box::new(|row| {
                within(array.values(), array.offsets()[row] as usize, array.offsets()[row + 1] as usize)
            }));
        }
    } else {
        for array in downcast::<LargeListArray>(sources)? {
            values.push(array.values());
            bounds.push(Box::new(|row| {
                within(array.values(), array.offsets()[row] as usize, array.offsets()[row + 1] as usize)
            }));
        }
    }
    let mut offsets: Vec<i64> = Vec::with_capacity(selection.len() + 1);
    offsets.push(0);
    let mut runs = Runs::default();
    selection.for_each(|source, row| {
        // Values under a null list are not used.
        if fill.is_none() || sources[source].is_valid(row) {
            let (from, to) = bounds[source](row);
            runs.push(source, from, to);
        }
        offsets.push(runs.rows as i64);
    });
    let values = gather_values(&values, &runs.finish()?, fill)?;
    let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
    let nulls = if fill.is_none() { selection.nulls(sources) } else { None };
    Ok(Arc::new(LargeListArray::try_new(item, offsets, values, nulls).or_fail()?))
}

/// The bounds of a list, as far as there are values. Other processes may change the offsets of mapped rows at any time, so
/// they are checked at each use, and a batch of changed rows is made again.
fn within(values: &ArrayRef, from: usize, to: usize) -> (usize, usize) {
    let from = from.min(values.len());
    (from, to.clamp(from, values.len()))
}

pub(super) fn gather_fixed(
    sources: &[&dyn Array],
    selection: &Selection,
    fill: Option<&Fill>,
) -> Result<ArrayRef> {
    let item = item(sources[0].data_type())?;
    let arrays: Vec<&FixedSizeListArray> = downcast(sources)?;
    let values: Vec<&dyn Array> = arrays.iter().map(|array| array.values().as_ref()).collect();
    let length = arrays[0].value_length();
    let mut runs = Runs::default();
    selection.for_each(|source, row| {
        let from = arrays[source].value_offset_at(row) as usize;
        runs.push(source, from, from + length as usize);
    });
    let values = gather_values(&values, &runs.finish()?, None)?;
    let nulls = selection.nulls(sources);
    let (values, nulls) = match fill {
        Some(fill) => (filled(values, nulls, length as usize, fill)?, None),
        None => (values, nulls),
    };
    Ok(Arc::new(FixedSizeListArray::try_new(item, length, values, nulls).or_fail()?))
}

/// The values of lists of `length`, with nulls among them and all values under a null list replaced.
fn filled(values: ArrayRef, lists: Option<NullBuffer>, length: usize, fill: &Fill) -> Result<ArrayRef> {
    let nulls = NullBuffer::union(values.nulls(), lists.map(|lists| lists.expand(length)).as_ref());
    let Some(nulls) = nulls else { return Ok(values) };
    let data = values.to_data();
    drop(values);
    let values = make_array(data.into_builder().nulls(Some(nulls)).build().or_fail()?);
    match values.as_any().downcast_ref::<BooleanArray>() {
        Some(_) => {
            let all = Run { source: 0, start: 0, rows: values.len() as u32 };
            booleans(&[&values], &Selection::Runs { runs: vec![all], rows: values.len() }, Some(fill))
        }
        None => fill_values(values, fill),
    }
}

/// The values of the selected lists, as runs of their sources' values.
#[derive(Default)]
struct Runs {
    runs: Vec<Run>,
    rows: usize,
    overflow: bool,
}

impl Runs {
    fn push(&mut self, source: usize, from: usize, to: usize) {
        self.overflow |= to > u32::MAX as usize;
        self.runs.push(Run { source: source as u32, start: from as u32, rows: (to - from) as u32 });
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

fn item(data_type: &DataType) -> Result<FieldRef> {
    match data_type {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            Ok(item.clone())
        }
        other => Err(Error::new(ErrorKind::Internal, format!("{other} is no list"))),
    }
}
