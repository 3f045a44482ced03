//! Computes the memory that a column chunk takes when it is decoded, from its footer entry.

use parquet::basic::{CompressionCodec, Type};
use parquet::schema::types::ColumnDescriptor;

use super::footer::ColumnChunk;
use super::leaf_width;
use crate::snapshot::Constant;

/// The bytes that Arrow keeps for each list in addition to its items, counted generously: a 64-bit offset and
/// the validity.
const ROW_OVERHEAD: u64 = 9;

/// [`PageMemory`] leaves out the pages of a chunk if their cost is at most this many bytes, because each
/// thread has that memory anyway.
const LARGE_CHUNK: u64 = 8 << 20;

/// The bytes of definition and repetition levels, 16 bits each, that the Parquet crate keeps for each value
/// of a nested column.
pub const LEVEL_BYTES: u64 = 4;

/// The memory that decoding column chunks takes in addition to their values: for the levels of nested
/// columns, for a second copy of fixed-length lists with nulls, and for pages while they are decompressed. A
/// footer does not state the number of pages, so each chunk is assumed to have one. Pages of texts are not
/// counted here, because they stay in memory with the values.
#[derive(Clone, Copy, Debug, Default)]
pub struct PageMemory {
    /// The largest cost among columns that are decoded one after the other.
    largest: u64,
    /// The sum of the costs of columns that are decoded together.
    sum: u64,
}

impl PageMemory {
    /// Adds the cost of one more chunk. `is_whole` says that all of its rows are decoded, not only some.
    pub fn with(self, chunk: &ColumnChunk<'_>, is_whole: bool) -> Self {
        let descriptor = chunk.column;
        let beside = chunk.levels().saturating_add(chunk.second_copy());
        let with_levels = PageMemory { sum: self.sum.saturating_add(beside), ..self };
        match descriptor.physical_type() {
            Type::BYTE_ARRAY => with_levels,
            _ => with_levels.with_pages(chunk, is_whole),
        }
    }

    /// Adds the memory for a chunk's pages while they are decompressed.
    fn with_pages(self, chunk: &ColumnChunk<'_>, is_whole: bool) -> Self {
        let descriptor = chunk.column;
        let is_plain = descriptor.type_precision() <= 0;
        let out = decoded_width(descriptor);
        let is_flat = descriptor.path().parts().len() == 1;
        let is_compressed = chunk.codec != CompressionCodec::UNCOMPRESSED;
        let is_one_by_one = is_whole && chunk.is_inflated_here();
        let is_cells = descriptor.physical_type() == Type::FIXED_LEN_BYTE_ARRAY;
        // Under these conditions, values of a fixed number of bytes (`is_cells`) are decompressed directly
        // into the Arrow buffer, so their pages take no additional memory.
        if is_cells && is_flat && is_plain && is_one_by_one && !chunk.repeats {
            return self;
        }
        // The Parquet crate copies values of a fixed number of bytes once more, to make room for nulls.
        let moved = if is_cells { chunk.uncompressed } else { 0 };
        let pages = if is_compressed { chunk.uncompressed } else { 0 };
        let counted = chunk.values.saturating_mul(value_width(descriptor) - out.min(value_width(descriptor)));
        let bytes = pages.saturating_add(moved).saturating_sub(counted);
        match is_whole && chunk.is_read_by_itself() {
            _ if bytes <= LARGE_CHUNK => self,
            true => PageMemory { largest: self.largest.max(bytes), ..self },
            false => PageMemory { sum: self.sum.saturating_add(bytes), ..self },
        }
    }

    /// The additional memory in bytes that decoding all of the added chunks takes.
    pub fn bytes(self) -> u64 {
        self.largest.saturating_add(self.sum)
    }
}

/// The number of names in a list column's path: the column's own, and two that Parquet adds inside it.
const LIST_PARTS: usize = 3;

impl ColumnChunk<'_> {
    /// The most bytes that the chunk takes once it is decoded, in a row group of `rows` rows: for each value
    /// its width and validity, for views also the decompressed pages that they point into, for lists also the
    /// offsets of their rows.
    pub fn held(&self, rows: u64) -> u64 {
        sum(self, rows, value_width(self.column)).saturating_add(self.padding(rows))
    }

    /// The bytes that Arrow stores for null lists of a fixed length, although Parquet stores none: their
    /// values, and the offsets of lists in them.
    pub fn padding(&self, rows: u64) -> u64 {
        let Some(lists) = self.lists else { return 0 };
        let slots = lists.slots(rows, self.values, self.nulls);
        let values = slots.values.saturating_sub(self.values);
        let offsets = slots.lists.saturating_sub(self.list_count(rows)).saturating_mul(ROW_OVERHEAD);
        let validity = values.div_ceil(u64::from(u8::BITS));
        values.saturating_mul(lists.width()).saturating_add(validity).saturating_add(offsets)
    }

    /// The bytes of the definition and repetition levels that are kept while the chunk is decoded. If a
    /// decoded value is smaller than [`value_width`], its levels fill the difference, so less is counted.
    pub fn levels(&self) -> u64 {
        let descriptor = self.column;
        if descriptor.path().parts().len() == 1 || self.is_read_by_itself() {
            return 0;
        }
        let spare = value_width(descriptor).saturating_sub(decoded_width(descriptor));
        self.values.saturating_mul(LEVEL_BYTES.saturating_sub(spare))
    }

    /// The bytes of a second copy of the values, which the Parquet crate makes to insert items for null lists
    /// of a fixed length.
    fn second_copy(&self) -> u64 {
        let lists = self.lists.filter(|_| !self.is_read_by_itself());
        lists.map_or(0, |lists| self.values.saturating_mul(lists.width()))
    }

    /// Whether the chunk holds numbers or lists of numbers, which forebay decodes without the Parquet crate
    /// (unless the pages are unusual).
    fn is_read_by_itself(&self) -> bool {
        let descriptor = self.column;
        let is_number = match descriptor.physical_type() {
            Type::INT32 | Type::FLOAT | Type::INT64 | Type::DOUBLE => descriptor.type_precision() <= 0,
            Type::BOOLEAN | Type::INT96 | Type::BYTE_ARRAY | Type::FIXED_LEN_BYTE_ARRAY => false,
        };
        let parts = descriptor.path().parts().len();
        let is_list = descriptor.max_rep_level() == 1 && parts == LIST_PARTS;
        is_number && self.is_inflated_here() && (parts == 1 || is_list)
    }

    /// Whether the chunk is uncompressed, or has a codec that forebay decompresses without the Parquet crate.
    fn is_inflated_here(&self) -> bool {
        matches!(
            self.codec,
            CompressionCodec::UNCOMPRESSED
                | CompressionCodec::SNAPPY
                | CompressionCodec::ZSTD
                | CompressionCodec::LZ4_RAW
        )
    }

    /// The most lists that the chunk can have: one for each row, and one for each value at each deeper level.
    fn list_count(&self, rows: u64) -> u64 {
        match u64::try_from(self.column.max_rep_level()).unwrap_or(0) {
            0 => 0,
            depth => rows.saturating_add((depth - 1).saturating_mul(self.values.max(rows))),
        }
    }
}

/// The number of bytes that a value takes directly after it is decoded from a page.
fn decoded_width(descriptor: &ColumnDescriptor) -> u64 {
    match descriptor.physical_type() {
        Type::BYTE_ARRAY | Type::FIXED_LEN_BYTE_ARRAY => leaf_width(descriptor),
        Type::BOOLEAN => 1,
        _ if descriptor.type_precision() > 0 => size_of::<u128>() as u64,
        Type::INT32 | Type::FLOAT => size_of::<u32>() as u64,
        Type::INT64 | Type::DOUBLE | Type::INT96 => size_of::<u64>() as u64,
    }
}

/// The number of bytes that the memory budget counts for a value in Arrow memory.
pub fn value_width(descriptor: &ColumnDescriptor) -> u64 {
    let is_narrow = matches!(descriptor.physical_type(), Type::INT32 | Type::FLOAT)
        && descriptor.type_precision() <= 0
        && descriptor.max_rep_level() == 0;
    if is_narrow { size_of::<u32>() as u64 } else { leaf_width(descriptor) }
}

/// Computes [`ColumnChunk::held`] with at least 64 bits for each number, and without padding. The size of the
/// default shuffle window, and so the order of rows, depends on the result, so it must never change.
pub(super) fn wide(chunk: &ColumnChunk<'_>, rows: u64) -> u64 {
    sum(chunk, rows, leaf_width(chunk.column))
}

/// Computes [`ColumnChunk::held`] for the first `rows` of `all` rows. The lengths of single lists, texts and
/// binary values are unknown, so the bytes of all rows are counted for them.
pub(super) fn held_of_first(chunk: &ColumnChunk<'_>, all: u64, rows: u64) -> u64 {
    let is_list = chunk.column.max_rep_level() > 0;
    match is_list || rows >= all {
        true => chunk.held(all),
        false => chunk.share(chunk.length, rows).held(rows),
    }
}

fn sum(chunk: &ColumnChunk<'_>, rows: u64, width: u64) -> u64 {
    let descriptor = chunk.column;
    let values = chunk.values.max(rows);
    let pages = match descriptor.physical_type() {
        Type::BYTE_ARRAY => chunk.uncompressed.max(chunk.length),
        _ => 0,
    };
    let lists = chunk.list_count(rows).saturating_mul(ROW_OVERHEAD);
    let validity = values.div_ceil(u64::from(u8::BITS));
    values.saturating_mul(width).saturating_add(validity).saturating_add(pages).saturating_add(lists)
}

/// The bytes that a column with a single value takes for `rows` rows: for each row a number or a view, and a
/// bit that says whether it is null.
pub(super) fn constant(constant: &Constant, rows: u64) -> u64 {
    let width = constant.value.data_type().primitive_width().unwrap_or(size_of::<u128>());
    rows.saturating_mul(width as u64).saturating_add(rows.div_ceil(u64::from(u8::BITS)))
}

/// The bytes that a column with a single value would take if each row stored it separately, with an offset.
pub(super) fn constant_values(constant: &Constant, rows: u64) -> u64 {
    let value = constant.value.get_array_memory_size() as u64;
    rows.saturating_mul(value.saturating_add(size_of::<u64>() as u64))
}

/// The bytes that a chunk would take if each value was stored separately, with an offset, even repeated ones;
/// `None` if the footer does not say.
pub(super) fn values(chunk: &ColumnChunk<'_>) -> Option<u64> {
    let number = chunk.values;
    let bytes = match chunk.column.physical_type() {
        Type::BYTE_ARRAY => match chunk.unencoded {
            Some(bytes) => bytes,
            None if chunk.repeats => return None,
            None => chunk.uncompressed,
        },
        _ => number.saturating_mul(leaf_width(chunk.column)),
    };
    Some(bytes.saturating_add(number.saturating_mul(size_of::<u64>() as u64)))
}
