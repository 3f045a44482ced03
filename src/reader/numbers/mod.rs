//! Decodes columns of numbers, and of lists of numbers, from pages straight to Arrow's buffers.
//!
//! The Parquet crate sets up readers for each column of each row group, examines a level for each value and
//! copies the decoded values once more. That is little if row groups have the usual size and values are
//! texts. But it is most of the work if a table has a thousand columns, a row group a thousand rows, or a
//! list half a million numbers. Here levels are read run by run, pages of the same kind share their memory,
//! and values are written once.
//!
//! ```text
//! page ─ decompress ─► levels ─ runs ─► validity, offsets of lists
//!                      values ─ plain, dictionary, differences, split bytes ─► Vec<u32 or u64> ─► the array's buffer
//! ```
//!
//! Texts and binary values that are delivered as codes (numbers that stand for them) are replaced by their
//! codes here. Each value of a dictionary is looked up only once.
//!
//! Binary values of a fixed length are also written only once, and large ones in a single page without
//! compression are not copied at all.
//!
//! Everything unusual is left to the Parquet crate, which decodes it or says what is wrong: a type or codec
//! that is not among those below, levels packed as before 2013, and everything that is damaged. So this
//! module needs no errors: a column is decoded here as a whole, or `None` is returned. But the crate accepts
//! some damage: levels and values that end early, and levels that continue a list that does not exist. Such
//! damage is [remembered](NumberColumn::is_damaged).

mod array;
mod flat;
mod form;
mod kept;
mod lists;
mod page;
mod scratch;
mod stored;
#[cfg(test)]
pub(super) mod tests;
mod validity;
mod values;

use forebay_arrow::array::ArrayRef;
use forebay_arrow::buffer::NullBuffer;
use forebay_arrow::datatypes::{DataType, Field};
use forebay_store::catalog::page_header::PageKind;
use parquet::basic::{Encoding, Type};
use parquet::schema::types::ColumnDescriptor;

pub(super) use self::array::spread;
pub(super) use self::kept::{KeptLevels, PageLevels};
pub(super) use self::page::{CheckedChunk, DataPage, is};
pub(super) use self::scratch::{Inflater, with_scratch};
pub(super) use self::validity::Validity;
pub(super) use self::values::indexed;

use self::array::{booleans, numbers};
use self::flat::Flat;
use self::form::Form;
use self::lists::Lists;
use self::scratch::Memory;
use self::stored::Stored;
use self::values::Value;
use crate::column::CodeValues;

/// The decoder of a column, which takes one column chunk after another. It gives up at the first chunk that
/// it does not support; the Parquet crate then reads the whole column.
pub(super) struct NumberColumn<'a>(Width<'a>);

/// A column, by the number of bytes of a value in the array.
enum Width<'a> {
    /// Binary values of a fixed length, which may be any number of bytes.
    Many(Stored<'a>),
    One(Typed<'a, u8>),
    Two(Typed<'a, u16>),
    Four(Typed<'a, u32>),
    Eight(Typed<'a, u64>),
}

/// Runs the same code for a column of any width.
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
    /// The type of the decoded values; in a column of lists, the type of their items.
    item: &'a DataType,
    column: &'a ColumnDescriptor,
    /// The number of rows in all column chunks.
    rows: usize,
    shape: Shape,
    out: Vec<T>,
    damaged: bool,
}

/// The shape of a row.
enum Shape {
    /// A row is a value or null.
    Flat(Flat),
    /// A row is a list or null.
    Lists(Lists),
    /// A row is a nested value, whose structure follows from the levels of several leaves.
    Nested(KeptLevels),
}

impl<'a> NumberColumn<'a> {
    /// Prepares to decode a column of `rows` rows to an array of the type of `field`. `None` leaves the
    /// column to the Parquet crate, also when [`append`](Self::append) or [`finish`](Self::finish) returns
    /// it. The first chunk that is appended reserves the memory.
    pub(super) fn for_field(
        field: &'a Field,
        column: &'a ColumnDescriptor,
        codes: Option<&'a dyn CodeValues>,
        rows: usize,
    ) -> Option<Self> {
        if let Some(codes) = codes {
            return NumberColumn::coded(field, column, codes, rows);
        }
        let item = match field.data_type() {
            DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
                item.data_type()
            }
            flat => flat,
        };
        if let (Type::FIXED_LEN_BYTE_ARRAY, DataType::FixedSizeBinary(_)) = (column.physical_type(), item) {
            return Stored::for_field(field, column, rows).map(Width::Many).map(NumberColumn);
        }
        let shape = || match item == field.data_type() {
            true => Flat::for_column(column).map(Shape::Flat),
            false => Lists::for_column(column).map(Shape::Lists),
        };
        NumberColumn::with_shape(field, item, column, rows, shape)
    }

    /// Prepares to decode a leaf of a nested column: its values are decoded here, and its levels are kept
    /// until all leaves of the column are joined. `field` is the field of the leaf itself.
    pub(super) fn for_leaf(field: &'a Field, column: &'a ColumnDescriptor) -> Option<Self> {
        let item = field.data_type();
        let nested = || KeptLevels::for_column(column).map(Shape::Nested);
        if let (Type::BOOLEAN, DataType::Boolean) = (column.physical_type(), item) {
            let typed = Typed::new(field, Form::Booleans, item, column, 0, nested()?);
            return Some(NumberColumn(Width::One(typed)));
        }
        NumberColumn::with_shape(field, item, column, 0, nested)
    }

    /// A column of numbers, if `item` is a type of numbers that is stored in this column.
    fn with_shape(
        field: &'a Field,
        item: &'a DataType,
        column: &'a ColumnDescriptor,
        rows: usize,
        shape: impl Fn() -> Option<Shape>,
    ) -> Option<Self> {
        /// The column with values of one width.
        macro_rules! typed {
            ($width:ident) => {
                Width::$width(Typed::new(field, Form::Numbers, item, column, rows, shape()?))
            };
        }
        let width = match (column.physical_type(), item) {
            (Type::INT32, DataType::Int8 | DataType::UInt8) => typed!(One),
            (Type::INT32, DataType::Int16 | DataType::UInt16) => typed!(Two),
            (Type::INT32, DataType::Int32 | DataType::UInt32 | DataType::Date32 | DataType::Time32(_))
            | (Type::FLOAT, DataType::Float32) => typed!(Four),
            (
                Type::INT64,
                DataType::Int64
                | DataType::UInt64
                | DataType::Timestamp(..)
                | DataType::Time64(_)
                | DataType::Duration(_)
                | DataType::Date64,
            )
            | (Type::DOUBLE, DataType::Float64) => typed!(Eight),
            _ => return None,
        };
        Some(NumberColumn(width))
    }

    /// A column of texts or binary values that becomes codes.
    fn coded(
        field: &'a Field,
        column: &'a ColumnDescriptor,
        codes: &'a dyn CodeValues,
        rows: usize,
    ) -> Option<Self> {
        let form = Form::Codes { codes, are_texts: *field.data_type() == DataType::Utf8View };
        let item = codes.data_type();
        let shape = Shape::Flat(Flat::for_column(column)?);
        Some(NumberColumn(match (column.physical_type(), item) {
            (Type::BYTE_ARRAY, DataType::Int32) => {
                Width::Four(Typed::new(field, form, item, column, rows, shape))
            }
            (Type::BYTE_ARRAY, DataType::Int64) => {
                Width::Eight(Typed::new(field, form, item, column, rows, shape))
            }
            _ => return None,
        }))
    }

    /// Decodes the next column chunk.
    pub(super) fn append(&mut self, chunk: &CheckedChunk<'_>) -> Option<()> {
        each_width!(&mut self.0, column => column.append(chunk))
    }

    /// Whether a chunk that was left to the Parquet crate is damaged in a way that the crate may accept: its
    /// levels or values end early, or are invalid.
    pub(super) fn is_damaged(&self) -> bool {
        each_width!(&self.0, column => column.damaged)
    }

    /// The array of all rows.
    pub(super) fn finish(self) -> Option<ArrayRef> {
        each_width!(self.0, column => column.finish())
    }

    /// The levels of a leaf of a nested column; `None` for any other column.
    pub(super) fn levels(&self) -> Option<&KeptLevels> {
        each_width!(&self.0, column => column.levels())
    }

    /// The array of a leaf of a nested column, with `len` values including nulls.
    pub(super) fn finish_leaf(self, len: usize, nulls: Option<NullBuffer>) -> Option<ArrayRef> {
        each_width!(self.0, column => column.finish_leaf(len, nulls))
    }
}

impl<'a, T: Value> Typed<'a, T> {
    /// A column whose values are stored in `form`, and become values of the type `item`.
    fn new(
        field: &'a Field,
        form: Form<'a>,
        item: &'a DataType,
        column: &'a ColumnDescriptor,
        rows: usize,
        shape: Shape,
    ) -> Self {
        Typed { field, form, item, column, rows, shape, out: Vec::new(), damaged: false }
    }

    fn append(&mut self, chunk: &CheckedChunk<'_>) -> Option<()> {
        if self.out.capacity() == 0 {
            self.reserve(chunk)?;
        }
        with_scratch(|scratch| {
            let (inflater, memory) = T::memory(scratch);
            let appended = self.pages(chunk, inflater, memory);
            inflater.trim();
            memory.trim();
            appended
        })
    }

    /// Reserves memory for all values. An earlier check found that the chunk's pages hold as many values as
    /// the footer says.
    fn reserve(&mut self, chunk: &CheckedChunk<'_>) -> Option<()> {
        let values = match &mut self.shape {
            Shape::Flat(_) => self.rows,
            Shape::Nested(_) => usize::try_from(chunk.about.values).ok()?,
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
            if stored.page.kind == PageKind::Dictionary {
                let is_plain = is(stored.page.encoding, Encoding::PLAIN)
                    || is(stored.page.encoding, Encoding::PLAIN_DICTIONARY);
                if at > 0 || !is_plain {
                    return None;
                }
                memory.dictionary.reserve_exact(count.min(values.len()));
                self.form.plain(values, count, &mut memory.dictionary)?;
                continue;
            }
            let page = DataPage::parse(stored, self.column, levels, values)?;
            let from = self.shape.validity().len();
            let there = self.shape.page(&page);
            self.damaged |= there.is_none();
            let there = there?;
            let appended = page.values(self.form, there, from, self.shape.validity(), memory, &mut self.out);
            // The Parquet crate itself reports texts that end early.
            let may_end_early = appended.is_none() && self.form.are_numbers();
            self.damaged |= may_end_early && page.ends_early::<T>(there);
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
            Shape::Nested(_) => None,
        }
    }

    fn levels(&self) -> Option<&KeptLevels> {
        match &self.shape {
            Shape::Nested(levels) => Some(levels),
            Shape::Flat(_) | Shape::Lists(_) => None,
        }
    }

    fn finish_leaf(mut self, len: usize, nulls: Option<NullBuffer>) -> Option<ArrayRef> {
        spread(&mut self.out, len, nulls.as_ref())?;
        match self.form {
            Form::Booleans => Some(booleans(&self.out, nulls)),
            _ => numbers(self.item, self.out, nulls),
        }
    }
}

impl Shape {
    /// Begins a chunk of this many rows.
    fn begin(&mut self, rows: usize) {
        match self {
            Shape::Flat(flat) => flat.end += rows,
            Shape::Lists(lists) => lists.begin(rows),
            Shape::Nested(levels) => levels.begin(rows),
        }
    }

    /// Reads the levels of a page, and returns the number of stored values.
    fn page(&mut self, page: &DataPage<'_>) -> Option<usize> {
        match self {
            Shape::Flat(flat) => flat.page(page),
            Shape::Lists(lists) => lists.page(page),
            Shape::Nested(levels) => levels.page(page),
        }
    }

    /// The validity of the values: one for each row, or for each item of the lists.
    fn validity(&self) -> &Validity {
        match self {
            Shape::Flat(flat) => &flat.validity,
            Shape::Lists(lists) => lists.validity(),
            Shape::Nested(levels) => levels.stored(),
        }
    }

    /// Checks that all rows of the chunks were read.
    fn end(&self) -> Option<()> {
        match self {
            Shape::Flat(flat) => (flat.validity.len() == flat.end).then_some(()),
            Shape::Lists(lists) => lists.end(),
            // The number of rows is checked when the leaves of the nested column are joined.
            Shape::Nested(_) => Some(()),
        }
    }
}
