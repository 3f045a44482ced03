//! Columns of numbers, and of lists of numbers, from pages straight to Arrow's buffers.
//!
//! The Parquet crate sets up readers for each column of each row group, looks at a level for each value and copies what it
//! decoded once more: little where row groups are of the usual size and values are texts, but most of the work where a table
//! has a thousand columns, a row group a thousand rows, or a list half a million numbers. Here levels are taken by the run,
//! pages of equal kind share their memory, and values are written once.
//!
//! ```text
//! page ─ decompress ─► levels ─ runs ─► validity, offsets of lists
//!                      values ─ plain, dictionary, differences, split bytes ─► Vec<u32 or u64> ─► the array's buffer
//! ```
//!
//! Whatever is unusual is left to the Parquet crate, which decodes it or says what is wrong: a type or codec that is not
//! among those below, levels packed as they were before 2013, and everything that is damaged. So this needs no errors: a
//! column is decoded here as a whole, or `None` is returned.

mod lists;
mod runs;
#[cfg(test)]
mod tests;
mod validity;
mod values;

use std::cell::RefCell;

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, Type};
use parquet::schema::types::ColumnDescriptor;

use self::lists::Lists;
use self::runs::Runs;
use self::validity::Validity;
use self::values::Value;
use super::pages::{Kind, StoredPage};
use crate::arrow::array::{ArrayData, ArrayRef, make_array};
use crate::arrow::buffer::{Buffer, NullBuffer};
use crate::arrow::datatypes::{DataType, Field};
use crate::catalog::ColumnChunk;

/// A thread keeps its memory for pages up to this many bytes.
const KEPT_SCRATCH: usize = 4 << 20;

/// A column chunk whose pages were checked.
pub(super) struct CheckedChunk<'a> {
    pub(super) about: ColumnChunk<'a>,
    pub(super) bytes: Bytes,
    pub(super) pages: Vec<StoredPage>,
    /// Rows of its row group.
    pub(super) rows: usize,
}

/// The levels and values of one data page.
struct DataPage<'a> {
    /// Values, with nulls.
    count: usize,
    encoding: i32,
    repetition: &'a [u8],
    definition: &'a [u8],
    values: &'a [u8],
}

/// What a thread uses for one page after another.
#[derive(Default)]
struct Scratch {
    page: Vec<u8>,
    zstd: Option<zstd::bulk::Decompressor<'static>>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// Decodes the chunks of one column, one after the other, to an array of the type of `field`; `None` leaves them to the
/// Parquet crate.
pub(super) fn decode(field: &Field, chunks: &[&CheckedChunk<'_>]) -> Option<ArrayRef> {
    let column = chunks.first()?.about.column;
    let item = match field.data_type() {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            item.data_type()
        }
        flat => flat,
    };
    match (column.physical_type(), item) {
        (
            Type::INT32,
            DataType::Int32
            | DataType::UInt32
            | DataType::Date32
            | DataType::Time32(_)
            | DataType::Int8
            | DataType::UInt8
            | DataType::Int16
            | DataType::UInt16,
        )
        | (Type::FLOAT, DataType::Float32) => typed::<u32>(field, item, column, chunks),
        (
            Type::INT64,
            DataType::Int64
            | DataType::UInt64
            | DataType::Timestamp(..)
            | DataType::Time64(_)
            | DataType::Duration(_)
            | DataType::Date64,
        )
        | (Type::DOUBLE, DataType::Float64) => typed::<u64>(field, item, column, chunks),
        _ => None,
    }
}

fn typed<T: Value>(
    field: &Field,
    item: &DataType,
    column: &ColumnDescriptor,
    chunks: &[&CheckedChunk<'_>],
) -> Option<ArrayRef> {
    SCRATCH.with_borrow_mut(|scratch| {
        let decoder = Decoder {
            column,
            chunks,
            scratch: &mut *scratch,
            dictionary: Vec::<T>::new(),
            dense: Vec::new(),
        };
        let array = match item == field.data_type() {
            true => decoder.flat(item),
            false => decoder.lists(field, item),
        };
        scratch.page.truncate(KEPT_SCRATCH);
        scratch.page.shrink_to(KEPT_SCRATCH);
        array
    })
}

/// Decodes the pages of column chunks, one after the other.
struct Decoder<'a, T> {
    column: &'a ColumnDescriptor,
    chunks: &'a [&'a CheckedChunk<'a>],
    scratch: &'a mut Scratch,
    dictionary: Vec<T>,
    /// The values of a page with nulls, without them.
    dense: Vec<T>,
}

impl<T: Value> Decoder<'_, T> {
    /// One value or null for each row.
    fn flat(mut self, data_type: &DataType) -> Option<ArrayRef> {
        let (path, repetition) = (self.column.path().parts(), self.column.max_rep_level());
        let has_levels = match (path.len(), repetition, self.column.max_def_level()) {
            (1, 0, most @ (0 | 1)) => most == 1,
            _ => return None,
        };
        let mut end: usize = self.chunks.iter().map(|chunk| chunk.rows).sum();
        let (mut out, mut validity) = (Vec::with_capacity(end), Validity::default());
        end = 0;
        for chunk in self.chunks {
            end += chunk.rows;
            self.each(chunk, |dictionary, dense, page| {
                let from = validity.len();
                if from + page.count > end {
                    return None;
                }
                let mut there = page.count;
                match has_levels {
                    true => {
                        there = 0;
                        Runs::new(page.definition, 1)?.each(page.count, |run| {
                            there += validity.append_run(run)?;
                            Some(())
                        })?;
                    }
                    false => validity.append(true, page.count),
                }
                page.values(there, from, &validity, (dictionary, dense), &mut out)
            })?;
            (validity.len() == end).then_some(())?;
        }
        numbers(data_type, out, validity.finish())
    }

    /// A list or null for each row.
    fn lists(mut self, field: &Field, item: &DataType) -> Option<ArrayRef> {
        let mut lists = Lists::of(self.column, self.chunks.iter().map(|chunk| chunk.rows).sum())?;
        // As many as the pages hold, which was checked.
        let items: u64 = self.chunks.iter().map(|chunk| chunk.about.values).sum();
        let mut out = Vec::with_capacity(usize::try_from(items).ok()?);
        for chunk in self.chunks {
            lists.begin(chunk.rows);
            self.each(chunk, |dictionary, dense, page| {
                let from = lists.items();
                let there = lists.page(&page)?;
                page.values(there, from, lists.validity(), (dictionary, dense), &mut out)
            })?;
            lists.end()?;
        }
        lists.finish(field, |nulls| numbers(item, out, nulls))
    }

    /// Calls `each` for every data page, with the dictionary and memory for values without nulls.
    fn each(
        &mut self,
        chunk: &CheckedChunk<'_>,
        mut each: impl FnMut(&[T], &mut Vec<T>, DataPage<'_>) -> Option<()>,
    ) -> Option<()> {
        self.dictionary.clear();
        for (at, stored) in chunk.pages.iter().enumerate() {
            let body = chunk.bytes.get(stored.body.clone())?;
            if stored.page.crc.is_some_and(|crc| crc32fast::hash(body) != crc) {
                return None;
            }
            let (levels, values) = body.split_at_checked(usize::try_from(stored.page.levels).ok()?)?;
            let length = usize::try_from(stored.page.uncompressed - stored.page.levels).ok()?;
            let values = match stored.is_compressed {
                true => self.scratch.decompress(chunk.about.compression(), values, length)?,
                false => values,
            };
            let count = usize::try_from(stored.page.values).ok()?;
            if stored.page.kind == Kind::Dictionary {
                let is_plain = is(stored.page.encoding, Encoding::PLAIN)
                    || is(stored.page.encoding, Encoding::PLAIN_DICTIONARY);
                if at > 0 || !is_plain {
                    return None;
                }
                self.dictionary.reserve_exact(count.min(values.len()));
                values::plain(values, count, &mut self.dictionary)?;
                continue;
            }
            let most = [self.column.max_rep_level(), self.column.max_def_level()];
            let page = match stored.page.kind {
                Kind::Data => DataPage::of_v1(stored, most, values, count)?,
                _ => {
                    let (repetition, definition) =
                        levels.split_at_checked(usize::try_from(stored.page.repetition).ok()?)?;
                    DataPage { count, encoding: stored.page.encoding, repetition, definition, values }
                }
            };
            each(&self.dictionary, &mut self.dense, page)?;
        }
        Some(())
    }
}

impl<'a> DataPage<'a> {
    /// Of version 1, with the levels in front of the values: repetition levels first, each with its length.
    fn of_v1(stored: &StoredPage, most: [i16; 2], body: &'a [u8], count: usize) -> Option<Self> {
        let mut rest = body;
        let mut levels = [&[][..]; 2];
        for ((levels, most), encoding) in levels.iter_mut().zip(most).zip(stored.page.level_encodings) {
            if most == 0 {
                continue;
            }
            if !is(encoding, Encoding::RLE) {
                return None;
            }
            let (length, after) = rest.split_first_chunk()?;
            let (runs, after) = after.split_at_checked(u32::from_le_bytes(*length) as usize)?;
            (*levels, rest) = (runs, after);
        }
        let [repetition, definition] = levels;
        Some(DataPage { count, encoding: stored.page.encoding, repetition, definition, values: rest })
    }

    /// Appends the values, `there` of which are stored: those from `from` on that `validity` says are there.
    fn values<T: Value>(
        &self,
        there: usize,
        from: usize,
        validity: &Validity,
        (dictionary, dense): (&[T], &mut Vec<T>),
        out: &mut Vec<T>,
    ) -> Option<()> {
        let has_nulls = there < validity.len() - from;
        dense.clear();
        let target = if has_nulls { &mut *dense } else { &mut *out };
        match self.encoding {
            _ if there == 0 => {}
            encoding if is(encoding, Encoding::PLAIN) => values::plain(self.values, there, target)?,
            encoding
                if is(encoding, Encoding::RLE_DICTIONARY) || is(encoding, Encoding::PLAIN_DICTIONARY) =>
            {
                values::indexed(self.values, there, dictionary, target)?;
            }
            encoding if is(encoding, Encoding::BYTE_STREAM_SPLIT) => {
                values::split(self.values, there, target)?
            }
            encoding if is(encoding, Encoding::DELTA_BINARY_PACKED) => {
                values::differences(self.values, there, target)?;
            }
            _ => return None,
        }
        if has_nulls {
            validity.spread(from, dense, out);
        }
        Some(())
    }
}

impl Scratch {
    /// The `length` bytes that a stream gives: no more, no fewer. A stream of none is not looked at.
    fn decompress(&mut self, codec: Compression, stream: &[u8], length: usize) -> Option<&[u8]> {
        if length == 0 {
            return Some(&[]);
        }
        let page = &mut self.page;
        if page.len() < length {
            page.resize(length, 0);
        }
        let page = &mut page[..length];
        let given = match codec {
            Compression::SNAPPY => {
                (snap::raw::decompress_len(stream).ok()? == length).then_some(())?;
                snap::raw::Decoder::new().decompress(stream, page).ok()?
            }
            Compression::ZSTD(_) => {
                if self.zstd.is_none() {
                    self.zstd = zstd::bulk::Decompressor::new().ok();
                }
                self.zstd.as_mut()?.decompress_to_buffer(stream, page).ok()?
            }
            Compression::LZ4_RAW => lz4_flex::block::decompress_into(stream, page).ok()?,
            _ => return None,
        };
        (given == length).then_some(&self.page[..length])
    }
}

/// An array of numbers of this type, whose values are in as many bytes or in fewer of the lowest.
fn numbers<T: Value>(data_type: &DataType, values: Vec<T>, nulls: Option<NullBuffer>) -> Option<ArrayRef> {
    let len = values.len();
    let buffer = match data_type.primitive_width()? {
        1 => Buffer::from_vec(values.iter().map(|value| value.as_usize() as u8).collect::<Vec<_>>()),
        2 => Buffer::from_vec(values.iter().map(|value| value.as_usize() as u16).collect::<Vec<_>>()),
        width if width == size_of::<T>() => Buffer::from_vec(values),
        _ => return None,
    };
    let array = ArrayData::builder(data_type.clone()).len(len).nulls(nulls).add_buffer(buffer);
    Some(make_array(array.build().ok()?))
}

fn is(encoding: i32, of: Encoding) -> bool {
    encoding == of as i32
}
