//! Finds where each list of numbers in a column begins, from the repetition and definition levels of its
//! items.

use std::sync::Arc;

use forebay_arrow::array::{ArrayRef, BooleanBufferBuilder, FixedSizeListArray, LargeListArray, ListArray};
use forebay_arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use forebay_arrow::datatypes::{DataType, Field, FieldRef};
use parquet::basic::Repetition;
use parquet::schema::types::ColumnDescriptor;

use super::array::numbers;
use super::page::DataPage;
use super::validity::Validity;
use super::values::Value;
use crate::reader::integers::{GROUP, NumberRun, Runs, bits, unpack};

/// The number of levels that are examined together.
const STEP: usize = 64;

/// The lists of a column that were read so far.
pub(super) struct Lists {
    /// The number of rows up to the end of the present chunk.
    rows: usize,
    begin: (usize, usize),
    levels: Levels,
    /// The index of each list's first item.
    starts: Vec<i64>,
    lists: Validity,
    items: Validity,
    /// Memory for the repetition and definition levels of a page, if they are examined one by one.
    scratch: [Vec<u8>; 2],
}

/// The lowest definition levels at which a list, an item and a value exist.
#[derive(Clone, Copy)]
struct Levels {
    /// The least level at which the list exists; it may be empty.
    list: u8,
    /// The least level at which there is an item, which may be null.
    item: u8,
    /// The level at which there is a value.
    value: u8,
}

impl Lists {
    /// Prepares to read a column; `None` if it is not a column of lists at the top level of the schema.
    pub(super) fn for_column(column: &ColumnDescriptor) -> Option<Self> {
        let value = u8::try_from(column.max_def_level()).ok()?;
        let is_nullable = |at: Repetition| u8::from(at == Repetition::OPTIONAL);
        // The path is: list, repeated group, item.
        if column.path().parts().len() != 3 || column.max_rep_level() != 1 {
            return None;
        }
        let item = column.self_type().get_basic_info();
        let item_nullable = item.has_repetition().then(|| is_nullable(item.repetition()))?;
        let levels = Levels {
            list: value.checked_sub(1 + item_nullable)?,
            item: value.checked_sub(item_nullable)?,
            value,
        };
        (levels.list <= 1).then(|| Lists {
            rows: 0,
            begin: (0, 0),
            levels,
            starts: Vec::new(),
            lists: Validity::default(),
            items: Validity::default(),
            scratch: Default::default(),
        })
    }

    /// Reserves memory for this many rows.
    pub(super) fn reserve(&mut self, rows: usize) {
        self.starts.reserve_exact(rows + 1);
    }

    /// Begins a column chunk of this many rows.
    pub(super) fn begin(&mut self, rows: usize) {
        self.begin = (self.starts.len(), self.items.len());
        self.rows += rows;
    }

    /// Checks that all rows of the chunk were read.
    pub(super) fn end(&self) -> Option<()> {
        (self.starts.len() == self.rows).then_some(())
    }

    /// The validity of the items.
    pub(super) fn validity(&self) -> &Validity {
        &self.items
    }

    /// Reads the levels of a page, and returns the number of stored values.
    pub(super) fn page(&mut self, page: &DataPage<'_>) -> Option<usize> {
        match self.are_all_there(page)? {
            true => {
                self.starts_among_values(page)?;
                self.items.append(true, page.count);
                Some(page.count)
            }
            false => self.among_nulls(page),
        }
    }

    /// Whether the page is known to have neither nulls nor empty lists, so that every level stands for a
    /// value.
    fn are_all_there(&self, page: &DataPage<'_>) -> Option<bool> {
        let value = u32::from(self.levels.value);
        let mut are_all = true;
        Runs::new(page.definition, self.levels.width())?.each(page.count, |run| {
            are_all &= match run {
                NumberRun::Repeated(level, _) => level == value,
                NumberRun::Packed(packed, count) if self.levels.width() == 1 => {
                    (0..count).step_by(GROUP).all(|at| {
                        let wanted = (1 << (count - at).min(GROUP)) - 1;
                        bits(packed, at) & wanted == wanted
                    })
                }
                NumberRun::Packed(..) => false,
            };
            Some(())
        })?;
        Some(are_all)
    }

    /// Finds where lists begin in a page that has neither nulls nor empty lists.
    fn starts_among_values(&mut self, page: &DataPage<'_>) -> Option<()> {
        let mut at = self.items.len();
        let (starts, lists) = (&mut self.starts, &mut self.lists);
        let (rows, before) = (self.rows, starts.len());
        Runs::new(page.repetition, 1)?.each(page.count, |run| {
            match run {
                NumberRun::Repeated(0, count) => {
                    (starts.len() + count <= rows).then_some(())?;
                    starts.extend((at..at + count).map(|item| item as i64));
                }
                NumberRun::Repeated(1, _) => {}
                NumberRun::Repeated(..) => return None,
                NumberRun::Packed(packed, count) => {
                    for from in (0..count).step_by(u32::BITS as usize) {
                        let counted = (count - from).min(u32::BITS as usize);
                        let mut zeros = !bits(packed, from) & ((1 << counted) - 1);
                        while zeros > 0 {
                            starts.push((at + from + zeros.trailing_zeros() as usize) as i64);
                            zeros &= zeros - 1;
                        }
                    }
                    (starts.len() <= rows).then_some(())?;
                }
            }
            at += run.len();
            Some(())
        })?;
        // The first item of a chunk must begin a list. If it does not, the levels are not read here.
        (page.count == 0 || *starts.get(self.begin.0)? == self.begin.1 as i64).then_some(())?;
        lists.append(true, starts.len() - before);
        Some(())
    }

    /// Finds the beginnings of lists if lists may be empty or null, or have null items.
    fn among_nulls(&mut self, page: &DataPage<'_>) -> Option<usize> {
        let [mut repetition, mut definition] = std::mem::take(&mut self.scratch);
        levels(page.repetition, 1, page.count, &mut repetition)?;
        levels(page.definition, self.levels.width(), page.count, &mut definition)?;
        let mut values = 0;
        for (repeated, defined) in repetition.chunks(STEP).zip(definition.chunks(STEP)) {
            values += match self.in_a_list(repeated, defined) {
                Some(values) => values,
                None => self.one_by_one(repeated, defined)?,
            };
        }
        self.scratch = [repetition, definition];
        Some(values)
    }

    /// Reads [`STEP`] levels at once if all of them are items of the list that began last; `None` otherwise.
    fn in_a_list(&mut self, repeated: &[u8], defined: &[u8]) -> Option<usize> {
        let Levels { item, value, .. } = self.levels;
        let (repeated, defined): (&[u8; STEP], &[u8; STEP]) =
            (repeated.try_into().ok()?, defined.try_into().ok()?);
        // The loop has no early exit, so that the processor can compare many levels at once.
        let are_items = repeated.iter().fold(true, |all, level| all & (*level == 1))
            & defined.iter().fold(true, |all, level| all & (item..=value).contains(level));
        if !are_items || self.starts.len() == self.begin.0 {
            return None;
        }
        if defined.iter().fold(true, |all, level| all & (*level == value)) {
            self.items.append(true, STEP);
            return Some(STEP);
        }
        let valid = (0..STEP).fold(0, |valid, at| valid | u64::from(defined[at] == value) << at);
        self.items.append_run(NumberRun::Packed(&valid.to_le_bytes(), STEP))
    }

    /// Reads levels one by one, and returns the number of stored values; `None` if the levels are invalid.
    fn one_by_one(&mut self, repeated: &[u8], defined: &[u8]) -> Option<usize> {
        let Levels { list, item, value } = self.levels;
        let mut values = 0;
        for (&repeated, &defined) in repeated.iter().zip(defined) {
            let is_item = defined >= item;
            if repeated == 0 {
                if self.starts.len() == self.rows {
                    return None;
                }
                self.starts.push(self.items.len() as i64);
                self.lists.append(defined >= list, 1);
            } else if !is_item || self.starts.len() == self.begin.0 {
                return None;
            }
            if defined > value {
                return None;
            }
            if is_item {
                self.items.append(defined == value, 1);
                values += usize::from(defined == value);
            }
        }
        Some(values)
    }

    /// The number of items in `rows` lists if the type of the column fixes their length; `None` otherwise.
    pub(super) fn fixed(&self, field: &Field, rows: usize) -> Option<usize> {
        match field.data_type() {
            DataType::FixedSizeList(_, length) => rows.checked_mul(usize::try_from(*length).ok()?),
            _ => None,
        }
    }

    /// The array of all lists, from the values of their items.
    pub(super) fn finish<T: Value>(
        mut self,
        field: &Field,
        item: &DataType,
        values: Vec<T>,
    ) -> Option<ArrayRef> {
        self.starts.push(self.items.len() as i64);
        if let DataType::FixedSizeList(item, length) = field.data_type() {
            return self.finish_fixed(item, *length, values);
        }
        let (starts, lists) = (self.starts, self.lists.finish());
        let items = numbers(item, values, self.items.finish())?;
        Some(match field.data_type() {
            DataType::List(item) => {
                i32::try_from(items.len()).ok()?;
                let starts: ScalarBuffer<i32> = starts.into_iter().map(|start| start as i32).collect();
                Arc::new(ListArray::try_new(item.clone(), OffsetBuffer::new(starts), items, lists).ok()?)
            }
            DataType::LargeList(item) => {
                let starts = OffsetBuffer::new(starts.into());
                Arc::new(LargeListArray::try_new(item.clone(), starts, items, lists).ok()?)
            }
            _ => return None,
        })
    }

    /// Makes an array of lists of a fixed length. Arrow requires items for null lists too, so the items of
    /// the other lists are moved apart.
    fn finish_fixed<T: Value>(self, item: &FieldRef, length: i32, mut values: Vec<T>) -> Option<ArrayRef> {
        let Lists { rows, starts, lists, items, .. } = self;
        let (lists, mut items) = (lists.finish(), items.finish());
        let items_of = usize::try_from(length).ok()?;
        let is_there = |row: usize| lists.as_ref().is_none_or(|lists| lists.is_valid(row));
        let is_fixed =
            |row: usize| starts[row + 1] - starts[row] == if is_there(row) { i64::from(length) } else { 0 };
        (0..rows).all(is_fixed).then_some(())?;
        // Memory for the items of null lists was counted before pages were decoded.
        if lists.is_some() {
            let all = rows.checked_mul(items_of)?;
            values.resize(all, T::default());
            // Going backwards, no list is overwritten before it has been moved.
            for row in (0..rows).rev() {
                let to = row * items_of..(row + 1) * items_of;
                match is_there(row) {
                    true => values.copy_within(starts[row] as usize..starts[row + 1] as usize, to.start),
                    false => values[to].fill(T::default()),
                }
            }
            items = items.map(|items| {
                let mut moved = BooleanBufferBuilder::new(all);
                for pair in starts.windows(2).map(|pair| pair[0] as usize..pair[1] as usize) {
                    match pair.is_empty() {
                        true => moved.append_n(items_of, false),
                        false => moved.append_buffer(&items.inner().slice(pair.start, items_of)),
                    }
                }
                NullBuffer::new(moved.finish())
            });
        }
        let items = numbers(item.data_type(), values, items)?;
        Some(Arc::new(FixedSizeListArray::try_new(item.clone(), length, items, lists).ok()?))
    }
}

impl Levels {
    /// The number of bits of a level.
    fn width(self) -> u32 {
        u8::BITS - self.value.leading_zeros()
    }
}

/// Unpacks the first `count` levels of `width` bits, one by one.
fn levels(runs: &[u8], width: u32, count: usize, out: &mut Vec<u8>) -> Option<()> {
    out.clear();
    Runs::new(runs, width)?.each(count, |run| {
        match run {
            NumberRun::Repeated(level, count) => out.resize(out.len() + count, u8::try_from(level).ok()?),
            NumberRun::Packed(packed, count) => unpack(packed, width, count, |levels: &[u32]| {
                out.extend(levels.iter().map(|level| *level as u8));
                Some(())
            })?,
        }
        Some(())
    })
}
