//! Packs: lists of numbers joined into rows of fixed length, and the columns that say where each list begins.

use std::ops::Range;
use std::sync::Arc;

use forebay_arrow::array::{
    Array, ArrayData, ArrayRef, FixedSizeListArray, Int32Array, LargeListArray, make_array,
};
use forebay_arrow::buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use forebay_arrow::datatypes::{DataType, Field, FieldRef, Schema};
use forebay_arrow::fail::OrFail;
use forebay_arrow::names::TypeName;
use forebay_base::{Error, ErrorKind, Place, Result};

use super::super::batch_group::PackRows;
use crate::batch::{Selection, StoredList, stored_lists, value_bytes};
use crate::column::GatheredRows;
use crate::samples::{Pack, PackMarks};

/// The names of the columns that packs add. The first two give, for each value of a pack, its position within
/// its list and the number of that list; the third gives the ends of the lists in each pack.
pub(crate) const POSITION_IDS: &str = "position_ids";
pub(crate) const SEGMENT_IDS: &str = "segment_ids";
pub(crate) const CU_SEQLENS: &str = "cu_seqlens";

/// How lists are joined into packs.
#[derive(Debug, PartialEq)]
pub(crate) struct PackShape {
    /// The number of values in a pack.
    length: usize,
    /// The fields of the delivered columns, without those that packs add.
    fields: Vec<FieldRef>,
    /// For each column, how its lists are packed; `None` for a column that is delivered as a list of one
    /// value for each row of the pack.
    packed: Vec<Option<PackedColumn>>,
}

/// How a column is packed.
#[derive(Clone, Copy, Debug, PartialEq)]
struct PackedColumn {
    /// The filler after the last list of a pack.
    value: f64,
    /// The numbers that are put before and after each list, such as marks for the beginning and end of a
    /// text.
    marks: PackMarks,
}

/// The part of a list that is in one pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PackSegment {
    /// The row of the batch whose list it is.
    row: usize,
    /// The range of the list's numbers that is in the pack: its start and its length. Marks before and after
    /// the list count as part of it.
    from: usize,
    length: usize,
}

impl PackRows {
    /// The pack to which a row of the batch belongs.
    pub(super) fn pack_of(&self, row: usize) -> usize {
        self.ends.partition_point(|end| *end as usize <= row)
    }

    /// The rows of the batch whose lists are in a pack.
    pub(super) fn rows_of(&self, pack: usize) -> Range<usize> {
        pack.checked_sub(1).map_or(0, |before| self.ends[before]) as usize..self.ends[pack] as usize
    }

    /// The pieces of lists that a pack of `length` numbers consists of.
    fn segments(&self, pack: usize, length: usize) -> impl Iterator<Item = PackSegment> + '_ {
        let mut room = length;
        self.rows_of(pack).map(move |row| {
            let from = self.skipped[row] as usize;
            let length = room.min((self.lengths[row] as usize).saturating_sub(from));
            room -= length;
            PackSegment { row, from, length }
        })
    }
}

impl PackShape {
    /// Packs the columns that `pack` names, and delivers every other column as lists. `rows` has the fields
    /// of the delivered columns before rows are packed; the fields of the `stored` columns come first.
    pub(crate) fn new(pack: &Pack, stored: &Schema, rows: &[FieldRef]) -> Result<Self> {
        let length = pack.length();
        let (mut fields, mut packed) = (Vec::new(), Vec::new());
        for (at, row) in rows.iter().enumerate() {
            let stored = stored.fields().get(at);
            let of_pack = stored
                .and_then(|stored| Some((stored, pack.columns().iter().find(|it| *it == stored.name())?)));
            let Some((stored, column)) = of_pack else {
                fields.push(Arc::new(of_lists(row)));
                packed.push(None);
                continue;
            };
            let item = item_of(stored)?;
            let refused = |number: f64, what: &str, option: &str| {
                let cause = format!("packs of {} cannot {what} {number}", TypeName(item));
                Error::invalid(cause)
                    .hint(format!("give `{option}` a number of that type"))
                    .at(Place::default().column(stored.name().as_str()))
            };
            let (value, of_column) = (pack.value_of(column), pack.marks_of(column));
            let numbers = [
                (Some(value), "be filled up with", "value"),
                (of_column.bos, "have lists that begin with", "bos"),
                (of_column.eos, "have lists that end with", "eos"),
            ];
            for (number, what, option) in numbers {
                let Some(number) = number else { continue };
                value_bytes(item, number).map_err(|_| refused(number, what, option))?;
            }
            fields.push(Arc::new(Field::new(stored.name(), rows_of(item, length), false)));
            packed.push(Some(PackedColumn { value, marks: of_column }));
        }
        Ok(PackShape { length: length as usize, fields, packed })
    }

    /// Whether the lists of a column are packed.
    pub(super) fn is_packed(&self, column: usize) -> bool {
        self.packed.get(column).is_some_and(Option::is_some)
    }

    /// The fields of a batch.
    pub(crate) fn delivered(&self) -> Vec<FieldRef> {
        let ids = rows_of(&DataType::Int32, self.length as u32);
        let ends = DataType::LargeList(Arc::new(Field::new("item", DataType::Int32, false)));
        let added = [(POSITION_IDS, ids.clone()), (SEGMENT_IDS, ids), (CU_SEQLENS, ends)];
        let added = added.map(|(name, data_type)| Arc::new(Field::new(name, data_type, false)));
        self.fields.iter().cloned().chain(added).collect()
    }

    /// The bytes that a pack takes in its packed columns and in the columns that packs add.
    pub(crate) fn bytes(&self) -> u64 {
        let width = |field: &FieldRef| match field.data_type() {
            DataType::FixedSizeList(item, _) => item.data_type().primitive_width().unwrap_or(0),
            _ => 0,
        };
        let packed = self.fields.iter().zip(&self.packed).filter(|(_, packed)| packed.is_some());
        let of_number = packed.map(|(field, _)| width(field)).sum::<usize>() + 3 * size_of::<i32>();
        (of_number as u64).saturating_mul(self.length as u64)
    }

    /// The packs of the picked lists of a column, and the rows whose lists are bad.
    pub(super) fn gather(
        &self,
        column: usize,
        sources: &[&dyn Array],
        selection: &Selection,
        rows: &PackRows,
    ) -> Result<GatheredRows> {
        let (values, lists) = stored_lists(sources, selection)?;
        let item = match sources.first().map(|source| source.data_type()) {
            Some(DataType::List(item) | DataType::LargeList(item)) => item.data_type().clone(),
            _ => return Err(Error::new(ErrorKind::Internal, "a column of packs is not a list")),
        };
        let Some(PackedColumn { value, marks }) = self.packed[column] else {
            return Err(Error::new(ErrorKind::Internal, "a column is not packed"));
        };
        let filler = value_bytes(&item, value)?;
        let (width, padding) = (filler.len(), filler.repeat(self.length));
        let of_mark = |mark: Option<f64>| mark.map(|mark| value_bytes(&item, mark)).transpose();
        let (bos, eos) = (of_mark(marks.bos)?, of_mark(marks.eos)?);
        let before = usize::from(bos.is_some());
        let stored: Vec<ArrayData> = values.iter().map(|values| values.to_data()).collect();
        let mut numbers = Vec::with_capacity(rows.ends.len() * padding.len());
        let mut bad = Vec::new();
        for pack in 0..rows.ends.len() {
            let begin = numbers.len();
            for PackSegment { row, from, length } in rows.segments(pack, self.length) {
                let planned = (rows.lengths[row] as usize).saturating_sub(marks.count());
                let Some(list) = lists[row].filter(|list| list.len() == planned) else {
                    bad.push((row, other_length(lists[row].as_ref(), planned)));
                    numbers.extend_from_slice(&padding[..length * width]);
                    continue;
                };
                let to = from + length;
                numbers.extend_from_slice(bos.as_deref().filter(|_| from == 0 && to > 0).unwrap_or_default());
                // The part of the segment that is stored in the list, without the marks before and after it.
                let own = from.saturating_sub(before)..to.saturating_sub(before).min(planned);
                let (data, at) = (&stored[list.source], list.from + own.start);
                if data.nulls().is_some_and(|nulls| nulls.slice(at, own.len()).null_count() > 0) {
                    bad.push((row, Error::new(ErrorKind::BadRow, "null in a list that is packed")));
                }
                let bytes = &data.buffers()[0].as_slice()[(data.offset() + at) * width..];
                numbers.extend_from_slice(&bytes[..own.len() * width]);
                numbers
                    .extend_from_slice(eos.as_deref().filter(|_| to > before + planned).unwrap_or_default());
            }
            numbers.extend_from_slice(&padding[numbers.len() - begin..]);
        }
        let count = rows.ends.len() * self.length;
        let data = ArrayData::builder(item).len(count).add_buffer(Buffer::from_vec(numbers));
        // The numbers were collected as bytes, whose memory need not be aligned for the type of number.
        let data = data.align_buffers(true).build().or_fail()?;
        Ok((self.rows(make_array(data))?, bad))
    }

    /// Makes a delivered column of packs. The values of a column that is not packed become a list for each
    /// pack; a packed column is returned unchanged.
    pub(super) fn column(
        &self,
        column: usize,
        values: ArrayRef,
        rows: &PackRows,
        packs: impl Iterator<Item = usize>,
    ) -> Result<ArrayRef> {
        let DataType::LargeList(item) = self.fields[column].data_type() else { return Ok(values) };
        let offsets = OffsetBuffer::from_lengths(packs.map(|pack| rows.rows_of(pack).len()));
        Ok(Arc::new(LargeListArray::try_new(item.clone(), offsets, values, None).or_fail()?))
    }

    /// The columns `position_ids`, `segment_ids` and `cu_seqlens` of these packs.
    pub(super) fn places(
        &self,
        rows: &PackRows,
        packs: impl Iterator<Item = usize>,
    ) -> Result<[ArrayRef; 3]> {
        let places = packs.size_hint().0 * self.length;
        let (mut positions, mut segments) = (Vec::with_capacity(places), Vec::with_capacity(places));
        let (mut ends, mut offsets) = (Vec::new(), vec![0]);
        for pack in packs {
            let (begin, mut number) = (positions.len(), 0);
            ends.push(0);
            for PackSegment { length, .. } in rows.segments(pack, self.length).filter(|it| it.length > 0) {
                number += 1;
                positions.extend(0..length as i32);
                segments.extend(std::iter::repeat_n(number, length));
                ends.push((positions.len() - begin) as i32);
            }
            let room = begin + self.length - positions.len();
            if room > 0 {
                positions.extend(0..room as i32);
                segments.extend(std::iter::repeat_n(0, room));
                ends.push(self.length as i32);
            }
            offsets.push(ends.len() as i64);
        }
        let item = Arc::new(Field::new("item", DataType::Int32, false));
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        let ends =
            LargeListArray::try_new(item, offsets, Arc::new(Int32Array::from(ends)), None).or_fail()?;
        Ok([
            self.rows(Arc::new(Int32Array::from(positions)))?,
            self.rows(Arc::new(Int32Array::from(segments)))?,
            Arc::new(ends),
        ])
    }

    /// Cuts an array of numbers into rows of a pack's length.
    fn rows(&self, numbers: ArrayRef) -> Result<ArrayRef> {
        let item = Arc::new(Field::new("item", numbers.data_type().clone(), false));
        let length = self.length as i32;
        Ok(Arc::new(FixedSizeListArray::try_new(item, length, numbers, None).or_fail()?))
    }
}

/// The type of rows of `length` numbers.
fn rows_of(item: &DataType, length: u32) -> DataType {
    DataType::FixedSizeList(Arc::new(Field::new("item", item.clone(), false)), length as i32)
}

/// The field of a column that is not packed: each pack has the list of its rows' values.
fn of_lists(row: &Field) -> Field {
    let item =
        Field::new("item", row.data_type().clone(), row.is_nullable()).with_metadata(row.metadata().clone());
    Field::new(row.name(), DataType::LargeList(Arc::new(item)), false)
}

/// The type of the numbers in a column of lists, or an error if the column has no such lists.
fn item_of(stored: &Field) -> Result<&DataType> {
    match stored.data_type() {
        DataType::List(item) | DataType::LargeList(item) if item.data_type().primitive_width().is_some() => {
            Ok(item.data_type())
        }
        other => Err(Error::invalid(format!("holds {}, which is not packed", TypeName(other)))
            .hint("lists of numbers are packed")
            .at(Place::default().column(stored.name().as_str()))),
    }
}

fn other_length(list: Option<&StoredList>, planned: usize) -> Error {
    let found = match list {
        Some(list) => format!("a list of {} values", list.len()),
        None => "null".to_owned(),
    };
    let cause = format!("{found}, where packs were planned with {planned}");
    Error::new(ErrorKind::BadRow, cause)
        .hint("all packed columns of a row have lists of one length, which a column of `lengths` says")
}

#[cfg(test)]
mod tests {
    use forebay_arrow::array::{AsArray, ListArray};
    use forebay_arrow::datatypes::Int64Type;

    use super::*;

    fn shape(pack: &Pack, lists: &ListArray) -> PackShape {
        let stored = Schema::new(vec![Field::new("x", lists.data_type().clone(), true)]);
        PackShape::new(pack, &stored, stored.fields()).unwrap()
    }

    fn numbers_of(packs: &ArrayRef) -> Vec<i64> {
        packs.as_fixed_size_list().values().as_primitive::<Int64Type>().values().to_vec()
    }

    /// Three lists in packs of 4 numbers: the second pack begins with the last number of the first list.
    fn packed() -> (PackShape, PackRows, ListArray) {
        let lists = [vec![1, 2, 3, 4, 5], vec![6], vec![7]];
        let lists = lists.map(|list| Some(list.into_iter().map(Some).collect::<Vec<_>>()));
        let lists = ListArray::from_iter_primitive::<Int64Type, _, _>(lists);
        let rows = PackRows { ends: vec![1, 4], lengths: vec![5, 5, 1, 1], skipped: vec![0, 4, 0, 0] };
        (shape(&Pack::split(["x"], 4).value(-1.0), &lists), rows, lists)
    }

    #[test]
    fn lists_follow_each_other() {
        let (shape, rows, lists) = packed();
        let selection = Selection::of_one(vec![0, 0, 1, 2]);
        let (packs, bad) = shape.gather(0, &[&lists], &selection, &rows).unwrap();
        assert!(bad.is_empty());
        assert_eq!(numbers_of(&packs), [1, 2, 3, 4, 5, 6, 7, -1]);
        let [positions, segments, ends] = shape.places(&rows, 0..2).unwrap();
        let numbers = |array: &ArrayRef| {
            array
                .as_fixed_size_list()
                .values()
                .as_primitive::<forebay_arrow::datatypes::Int32Type>()
                .values()
                .to_vec()
        };
        assert_eq!(numbers(&positions), [0, 1, 2, 3, 0, 0, 0, 0]);
        assert_eq!(numbers(&segments), [1, 1, 1, 1, 1, 2, 3, 0]);
        let ends = ends.as_list::<i64>();
        let ends: Vec<Vec<i32>> = ends
            .iter()
            .flatten()
            .map(|ends| ends.as_primitive::<forebay_arrow::datatypes::Int32Type>().values().to_vec())
            .collect();
        assert_eq!(ends, [vec![0, 4], vec![0, 1, 2, 3, 4]]);
    }

    #[test]
    fn numbers_stand_before_the_beginning_and_after_the_end_of_a_list() {
        let (_, _, lists) = packed();
        let shape = shape(&Pack::split(["x"], 4).bos(-2.0).eos(-3.0), &lists);
        // -2 1 2 3 | 4 5 -3 -2 | 6 -3
        let rows = PackRows { ends: vec![1, 3, 4], lengths: vec![7, 7, 3, 3], skipped: vec![0, 4, 0, 1] };
        let selection = Selection::of_one(vec![0, 0, 1, 1]);
        let (packs, bad) = shape.gather(0, &[&lists], &selection, &rows).unwrap();
        assert!(bad.is_empty(), "{bad:?}");
        assert_eq!(numbers_of(&packs), [-2, 1, 2, 3, 4, 5, -3, -2, 6, -3, 0, 0]);
        // The first pack has only the mark after its list; the second is full before its list ends.
        let rows = PackRows { ends: vec![1, 2], lengths: vec![7, 7], skipped: vec![6, 0] };
        let (packs, bad) = shape.gather(0, &[&lists], &Selection::of_one(vec![0, 0]), &rows).unwrap();
        assert_eq!((numbers_of(&packs), bad.len()), (vec![-3, 0, 0, 0, -2, 1, 2, 3], 0));
        let rows = PackRows { lengths: vec![8, 7], ..rows };
        let (_, bad) = shape.gather(0, &[&lists], &Selection::of_one(vec![0, 0]), &rows).unwrap();
        let said = bad[0].1.to_string();
        assert!(said.starts_with("a list of 5 values, where packs were planned with 6"), "{said}");
    }

    #[test]
    fn a_list_of_another_length_is_bad() {
        let (shape, mut rows, lists) = packed();
        rows.lengths = vec![4, 4, 1, 1];
        rows.skipped = vec![0; 4];
        let (_, bad) = shape.gather(0, &[&lists], &Selection::of_one(vec![0, 1, 1, 2]), &rows).unwrap();
        let said: Vec<String> = bad.iter().map(|(row, error)| format!("{row}: {error}")).collect();
        assert!(said[0].starts_with("0: a list of 5 values, where packs were planned with 4"), "{said:?}");
        assert_eq!(rows.pack_of(0), 0);
        assert_eq!((rows.pack_of(1), rows.pack_of(3)), (1, 1));
    }
}
