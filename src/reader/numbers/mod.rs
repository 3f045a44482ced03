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
//! Texts and binary values that are delivered as codes come as codes: those of a dictionary are looked up once.
//!
//! Cells of a fixed length are written once, too, and large ones in one page that is not compressed not at all.
//!
//! Whatever is unusual is left to the Parquet crate, which decodes it or says what is wrong: a type or codec that is not
//! among those below, levels packed as they were before 2013, and everything that is damaged. So this needs no errors: a
//! column is decoded here as a whole, or `None` is returned. The crate takes some damage for rows, though: levels and values
//! that end early, and lists that go on where none is. What was seen of that is [remembered](Column::is_damaged).

mod form;
mod lists;
mod stored;
#[cfg(test)]
mod tests;
mod validity;
mod values;

use std::cell::RefCell;

use bytes::Bytes;
use forebay_arrow::array::{ArrayData, ArrayRef, make_array};
use forebay_arrow::buffer::{Buffer, NullBuffer};
use forebay_arrow::datatypes::{DataType, Field};
use forebay_store::catalog::ColumnChunk;
use forebay_store::catalog::page_header::Kind;
use parquet::basic::{Compression, Encoding, Type};
use parquet::schema::types::ColumnDescriptor;

use self::form::Form;
use self::lists::Lists;
use self::stored::Stored;
use self::validity::Validity;
use self::values::Value;
use super::integers::Runs;
use super::pages::{StoredPage, split_levels, whole_deltas};
use crate::column::CodeValues;

/// A thread keeps its memory for a page up to this many bytes, and that for a dictionary and for dense values.
const KEPT_PAGE: usize = 4 << 20;
const KEPT_VALUES: usize = 1 << 20;

/// A column chunk whose pages were checked.
pub(super) struct CheckedChunk<'a> {
    pub(super) about: &'a ColumnChunk<'a>,
    /// What was fetched with it.
    pub(super) fetched: &'a Bytes,
    /// A part of that.
    pub(super) bytes: &'a [u8],
    pub(super) pages: &'a [StoredPage],
    /// Rows of its row group.
    pub(super) rows: usize,
}

/// A column that is decoded one column chunk after the other, until one of them is unusual.
pub(super) struct Column<'a>(Width<'a>);

/// Bytes of a value in the array.
enum Width<'a> {
    /// Any number of them.
    Many(Stored<'a>),
    One(Typed<'a, u8>),
    Two(Typed<'a, u16>),
    Four(Typed<'a, u32>),
    Eight(Typed<'a, u64>),
}

/// Does the same for a column of any width.
macro_rules! each_width {
    ($width:expr, $column:ident => $done:expr) => {
        match $width {
            Width::Many($column) => $done,
            Width::One($column) => $done,
            Width::Two($column) => $done,
            Width::Four($column) => $done,
            Width::Eight($column) => $done,
        }
    };
}

/// A column with values of one width.
struct Typed<'a, T> {
    field: &'a Field,
    form: Form<'a>,
    /// Of the numbers, which lists are of.
    item: &'a DataType,
    column: &'a ColumnDescriptor,
    /// In all column chunks.
    rows: usize,
    shape: Shape,
    out: Vec<T>,
    damaged: bool,
}

/// What a row is.
enum Shape {
    /// A value or null.
    Flat(Flat),
    /// A list or null.
    Lists(Lists),
}

/// Which rows have a value.
struct Flat {
    has_levels: bool,
    validity: Validity,
    /// The rows up to the end of the present chunk.
    end: usize,
}

/// The levels and values of one data page.
struct DataPage<'a> {
    /// Values, with nulls.
    count: usize,
    encoding: i32,
    repetition: &'a [u8],
    definition: &'a [u8],
    values: &'a [u8],
    /// Of version 2: where values begin says the header, which has no checksum.
    is_v2: bool,
}

/// What a thread uses for one column chunk after another.
#[derive(Default)]
struct Scratch {
    inflater: Inflater,
    one: Memory<u8>,
    two: Memory<u16>,
    four: Memory<u32>,
    eight: Memory<u64>,
}

#[derive(Default)]
struct Inflater {
    page: Vec<u8>,
    zstd: Option<zstd::bulk::Decompressor<'static>>,
}

/// Values of a column chunk that are not yet in their places.
#[derive(Default)]
struct Memory<T> {
    dictionary: Vec<T>,
    /// The values of a page with nulls, without them.
    dense: Vec<T>,
}

thread_local! {
    /// Boxed: a wheel shares the room for variables of threads with all other libraries of its process.
    static SCRATCH: RefCell<Box<Scratch>> = RefCell::default();
}

impl<'a> Column<'a> {
    /// One of `rows` rows that becomes an array of the type of `field`; `None` leaves it to the Parquet crate, as it does in
    /// [`append`](Self::append) and [`finish`](Self::finish). Takes no memory yet.
    pub(super) fn of(
        field: &'a Field,
        column: &'a ColumnDescriptor,
        codes: Option<&'a dyn CodeValues>,
        rows: usize,
    ) -> Option<Self> {
        if let Some(codes) = codes {
            return Column::coded(field, column, codes, rows);
        }
        let item = match field.data_type() {
            DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
                item.data_type()
            }
            flat => flat,
        };
        let width = match (column.physical_type(), item) {
            (Type::INT32, DataType::Int8 | DataType::UInt8) => {
                Typed::of(field, item, column, rows).map(Width::One)
            }
            (Type::INT32, DataType::Int16 | DataType::UInt16) => {
                Typed::of(field, item, column, rows).map(Width::Two)
            }
            (Type::INT32, DataType::Int32 | DataType::UInt32 | DataType::Date32 | DataType::Time32(_))
            | (Type::FLOAT, DataType::Float32) => Typed::of(field, item, column, rows).map(Width::Four),
            (
                Type::INT64,
                DataType::Int64
                | DataType::UInt64
                | DataType::Timestamp(..)
                | DataType::Time64(_)
                | DataType::Duration(_)
                | DataType::Date64,
            )
            | (Type::DOUBLE, DataType::Float64) => Typed::of(field, item, column, rows).map(Width::Eight),
            (Type::FIXED_LEN_BYTE_ARRAY, DataType::FixedSizeBinary(_)) => {
                Stored::of(field, column, rows).map(Width::Many)
            }
            _ => None,
        };
        width.map(Column)
    }

    /// The same of texts or binary values, as codes.
    fn coded(
        field: &'a Field,
        column: &'a ColumnDescriptor,
        codes: &'a dyn CodeValues,
        rows: usize,
    ) -> Option<Self> {
        let form = Form::Codes { codes, are_texts: *field.data_type() == DataType::Utf8View };
        let item = codes.data_type();
        match (column.physical_type(), item) {
            (Type::BYTE_ARRAY, DataType::Int32) => {
                Typed::flat(field, form, item, column, rows).map(Width::Four)
            }
            (Type::BYTE_ARRAY, DataType::Int64) => {
                Typed::flat(field, form, item, column, rows).map(Width::Eight)
            }
            _ => None,
        }
        .map(Column)
    }

    /// Decodes the next column chunk.
    pub(super) fn append(&mut self, chunk: &CheckedChunk<'_>) -> Option<()> {
        each_width!(&mut self.0, column => column.append(chunk))
    }

    /// Whether a chunk was left to the Parquet crate although it cannot be right: its levels or values end early, or make no
    /// sense.
    pub(super) fn is_damaged(&self) -> bool {
        each_width!(&self.0, column => column.damaged)
    }

    /// The array of all rows.
    pub(super) fn finish(self) -> Option<ArrayRef> {
        each_width!(self.0, column => column.finish())
    }
}

impl<'a, T: Value> Typed<'a, T> {
    fn of(field: &'a Field, item: &'a DataType, column: &'a ColumnDescriptor, rows: usize) -> Option<Self> {
        let shape = match item == field.data_type() {
            true => Shape::Flat(Flat::of(column)?),
            false => Shape::Lists(Lists::of(column)?),
        };
        let form = Form::Numbers;
        Some(Typed { field, form, item, column, rows, shape, out: Vec::new(), damaged: false })
    }

    /// A column of values in a form, which become those of the type `item`.
    fn flat(
        field: &'a Field,
        form: Form<'a>,
        item: &'a DataType,
        column: &'a ColumnDescriptor,
        rows: usize,
    ) -> Option<Self> {
        let shape = Shape::Flat(Flat::of(column)?);
        Some(Typed { field, form, item, column, rows, shape, out: Vec::new(), damaged: false })
    }

    fn append(&mut self, chunk: &CheckedChunk<'_>) -> Option<()> {
        if self.out.capacity() == 0 {
            self.reserve(chunk)?;
        }
        SCRATCH.with_borrow_mut(|scratch| {
            let (inflater, memory) = T::memory(scratch);
            let appended = self.pages(chunk, inflater, memory);
            trim(&mut inflater.page, KEPT_PAGE);
            trim(&mut memory.dictionary, KEPT_VALUES);
            trim(&mut memory.dense, KEPT_VALUES);
            appended
        })
    }

    /// Takes the memory, now that the pages of a chunk are known to hold what its footer says.
    fn reserve(&mut self, chunk: &CheckedChunk<'_>) -> Option<()> {
        let values = match &mut self.shape {
            Shape::Flat(_) => self.rows,
            Shape::Lists(lists) => {
                lists.reserve(self.rows);
                let values = usize::try_from(chunk.about.values).ok()?;
                lists.fixed(self.field, self.rows).map_or(values, |fixed| fixed.max(values))
            }
        };
        self.out.reserve_exact(values);
        Some(())
    }

    fn pages(
        &mut self,
        chunk: &CheckedChunk<'_>,
        inflater: &mut Inflater,
        memory: &mut Memory<T>,
    ) -> Option<()> {
        self.shape.begin(chunk.rows);
        memory.dictionary.clear();
        for (at, stored) in chunk.pages.iter().enumerate() {
            let (levels, values) = chunk.body(stored)?;
            let length = (stored.page.uncompressed - stored.page.levels) as usize;
            let values = match stored.is_compressed {
                true => inflater.inflate(chunk.about.compression(), values, length)?,
                false => values,
            };
            let count = stored.page.values as usize;
            if stored.page.kind == Kind::Dictionary {
                let is_plain = is(stored.page.encoding, Encoding::PLAIN)
                    || is(stored.page.encoding, Encoding::PLAIN_DICTIONARY);
                if at > 0 || !is_plain {
                    return None;
                }
                memory.dictionary.reserve_exact(count.min(values.len()));
                self.form.plain(values, count, &mut memory.dictionary)?;
                continue;
            }
            let page = DataPage::of(stored, self.column, levels, values)?;
            let from = self.shape.validity().len();
            let there = self.shape.page(&page);
            self.damaged |= there.is_none();
            let there = there?;
            let appended =
                page.values(self.form, (there, from), self.shape.validity(), memory, &mut self.out);
            self.damaged |= appended.is_none() && self.form.ends_early::<T>(&page, there);
            appended?;
        }
        let ended = self.shape.end();
        self.damaged |= ended.is_none();
        ended
    }

    fn finish(self) -> Option<ArrayRef> {
        let Typed { field, item, shape, out, .. } = self;
        match shape {
            Shape::Flat(flat) => numbers(item, out, flat.validity.finish()),
            Shape::Lists(lists) => lists.finish(field, item, out),
        }
    }
}

impl Shape {
    /// Begins a chunk of so many rows.
    fn begin(&mut self, rows: usize) {
        match self {
            Shape::Flat(flat) => flat.end += rows,
            Shape::Lists(lists) => lists.begin(rows),
        }
    }

    /// Reads the levels of a page, and returns how many values are stored.
    fn page(&mut self, page: &DataPage<'_>) -> Option<usize> {
        match self {
            Shape::Flat(flat) => flat.page(page),
            Shape::Lists(lists) => lists.page(page),
        }
    }

    /// Which values are there: one for each row, or for each item of the lists.
    fn validity(&self) -> &Validity {
        match self {
            Shape::Flat(flat) => &flat.validity,
            Shape::Lists(lists) => lists.validity(),
        }
    }

    /// Whether all rows of the chunks came.
    fn end(&self) -> Option<()> {
        match self {
            Shape::Flat(flat) => (flat.validity.len() == flat.end).then_some(()),
            Shape::Lists(lists) => lists.end(),
        }
    }
}

impl Flat {
    /// Those of a column at the top of the schema.
    fn of(column: &ColumnDescriptor) -> Option<Self> {
        let has_levels = match (column.path().parts().len(), column.max_rep_level(), column.max_def_level()) {
            (1, 0, most @ (0 | 1)) => most == 1,
            _ => return None,
        };
        Some(Flat { has_levels, validity: Validity::default(), end: 0 })
    }

    /// Reads the levels of a page, and returns how many values are stored.
    fn page(&mut self, page: &DataPage<'_>) -> Option<usize> {
        if self.validity.len() + page.count > self.end {
            return None;
        }
        if !self.has_levels {
            self.validity.append(true, page.count);
            return Some(page.count);
        }
        let mut there = 0;
        Runs::new(page.definition, 1)?.each(page.count, |run| {
            there += self.validity.append_run(run)?;
            Some(())
        })?;
        Some(there)
    }
}

impl<'a> CheckedChunk<'a> {
    /// The levels of a page that are in front of its stream, and the stream.
    fn body(&self, stored: &StoredPage) -> Option<(&'a [u8], &'a [u8])> {
        let body = self.bytes.get(stored.body())?;
        if stored.page.crc.is_some_and(|crc| crc32fast::hash(body) != crc) {
            return None;
        }
        body.split_at_checked(stored.page.levels as usize)
    }
}

impl<'a> DataPage<'a> {
    /// Of either version; `values` are not compressed.
    fn of(
        stored: &StoredPage,
        column: &ColumnDescriptor,
        levels: &'a [u8],
        values: &'a [u8],
    ) -> Option<Self> {
        let count = stored.page.values as usize;
        // Differences are of whole numbers.
        let is_float = matches!(column.physical_type(), Type::FLOAT | Type::DOUBLE);
        (!is_float || !is(stored.page.encoding, Encoding::DELTA_BINARY_PACKED)).then_some(())?;
        if stored.page.kind == Kind::Data {
            return DataPage::of_v1(stored, [column.max_rep_level(), column.max_def_level()], values, count);
        }
        let (repetition, definition) = levels.split_at_checked(stored.page.repetition as usize)?;
        Some(DataPage { count, encoding: stored.page.encoding, repetition, definition, values, is_v2: true })
    }

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
            (*levels, rest) = split_levels(rest)?;
        }
        let [repetition, definition] = levels;
        let encoding = stored.page.encoding;
        Some(DataPage { count, encoding, repetition, definition, values: rest, is_v2: false })
    }

    /// Appends the values, `there` of which are stored: those from `from` on that `validity` says are there.
    fn values<T: Value>(
        &self,
        form: Form<'_>,
        (there, from): (usize, usize),
        validity: &Validity,
        Memory { dictionary, dense }: &mut Memory<T>,
        out: &mut Vec<T>,
    ) -> Option<()> {
        let has_nulls = there < validity.len() - from;
        dense.clear();
        let target = if has_nulls { &mut *dense } else { &mut *out };
        match self.encoding {
            _ if there == 0 => {}
            encoding if is(encoding, Encoding::PLAIN) => form.plain(self.values, there, target)?,
            encoding
                if is(encoding, Encoding::RLE_DICTIONARY) || is(encoding, Encoding::PLAIN_DICTIONARY) =>
            {
                values::indexed(self.values, there, dictionary, target)?;
            }
            _ if !form.are_numbers() => return None,
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

    /// Whether values that could not be decoded are too few, name what is not there, or may begin elsewhere.
    fn ends_early<T: Value>(&self, there: usize) -> bool {
        let stored = there.saturating_mul(T::STORED);
        match self.encoding {
            encoding if is(encoding, Encoding::PLAIN) && self.is_v2 => self.values.len() != stored,
            encoding if is(encoding, Encoding::PLAIN) => self.values.len() < stored,
            encoding if is(encoding, Encoding::BYTE_STREAM_SPLIT) => self.values.len() != stored,
            encoding if is(encoding, Encoding::DELTA_BINARY_PACKED) => {
                whole_deltas(self.values, there as u32).is_none_or(|count| count < there)
            }
            encoding => is(encoding, Encoding::RLE_DICTIONARY) || is(encoding, Encoding::PLAIN_DICTIONARY),
        }
    }
}

impl Inflater {
    /// The `length` bytes that a stream gives: no more, no fewer. A stream of none is not looked at.
    fn inflate(&mut self, codec: Compression, stream: &[u8], length: usize) -> Option<&[u8]> {
        if length == 0 {
            return Some(&[]);
        }
        let mut page = std::mem::take(&mut self.page);
        if page.len() < length {
            page.resize(length, 0);
        }
        let inflated = self.inflate_into(codec, stream, &mut page[..length]);
        self.page = page;
        inflated.map(|()| &self.page[..length])
    }

    /// Fills `page` with what a stream gives: no more, no less.
    fn inflate_into(&mut self, codec: Compression, stream: &[u8], page: &mut [u8]) -> Option<()> {
        let length = page.len();
        if length == 0 {
            return Some(());
        }
        let given = match codec {
            Compression::SNAPPY => {
                // Fails where a stream says that it gives more.
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
        (given == length).then_some(())
    }
}

/// An array of numbers of this type, which has values of this width.
fn numbers<T: Value>(data_type: &DataType, values: Vec<T>, nulls: Option<NullBuffer>) -> Option<ArrayRef> {
    (data_type.primitive_width()? == size_of::<T>()).then_some(())?;
    let array = ArrayData::builder(data_type.clone()).len(values.len()).nulls(nulls);
    let array = array.add_buffer(Buffer::from_vec(values));
    Some(make_array(array.build().ok()?))
}

/// Gives memory back that few column chunks need.
fn trim<T>(kept: &mut Vec<T>, bytes: usize) {
    kept.truncate(bytes / size_of::<T>());
    kept.shrink_to(bytes / size_of::<T>());
}

fn is(encoding: i32, of: Encoding) -> bool {
    encoding == of as i32
}
