//! What a column chunk costs, from its footer entry: memory once it is decoded.

use parquet::basic::{CompressionCodec, Type};
use parquet::schema::types::ColumnDescriptor;

use super::footer::ColumnChunk;
use super::leaf_width;
use crate::snapshot::Constant;

/// Offset or presence bytes that Arrow keeps for each row of a list, counted generously (a 64-bit offset and validity).
const ROW_OVERHEAD: u64 = 9;

/// Decompressed bytes of a chunk from which on they are counted: of others a thread has memory at any rate.
const LARGE_CHUNK: u64 = 8 << 20;

/// Memory that decoding chunks takes beside what they hold, for pages while they are decompressed. A footer does not say how many
/// pages there are, so each chunk is taken to have one. Those of texts are held, and not counted here.
#[derive(Clone, Copy, Debug, Default)]
pub struct PageMemory {
    /// The most of the columns of which one is decoded after the other.
    largest: u64,
    /// Of those that are decoded together.
    sum: u64,
}

impl PageMemory {
    /// With that of one chunk more, of which all rows are decoded or some.
    pub fn with(self, chunk: &ColumnChunk<'_>, is_whole: bool) -> Self {
        let descriptor = chunk.column;
        let is_plain = descriptor.type_precision() <= 0;
        let (is_number, out) = match descriptor.physical_type() {
            Type::BYTE_ARRAY => return self,
            Type::FIXED_LEN_BYTE_ARRAY => (false, leaf_width(descriptor)),
            Type::BOOLEAN => (false, 1),
            _ if !is_plain => (false, size_of::<u128>() as u64),
            Type::INT32 | Type::FLOAT => (true, size_of::<u32>() as u64),
            Type::INT64 | Type::DOUBLE => (true, size_of::<u64>() as u64),
            Type::INT96 => (false, size_of::<u64>() as u64),
        };
        let is_flat = descriptor.path().parts().len() == 1;
        let is_list = descriptor.max_rep_level() == 1 && descriptor.path().parts().len() == LIST_PARTS;
        let codec = chunk.codec;
        let is_inflated_here =
            matches!(codec, CompressionCodec::SNAPPY | CompressionCodec::ZSTD | CompressionCodec::LZ4_RAW);
        let is_compressed = codec != CompressionCodec::UNCOMPRESSED;
        let is_one_by_one = is_whole && (is_inflated_here || !is_compressed);
        let is_cells = descriptor.physical_type() == Type::FIXED_LEN_BYTE_ARRAY;
        // Cells are decompressed where they will be.
        if is_cells && is_flat && is_plain && is_one_by_one && !chunk.repeats {
            return self;
        }
        // The Parquet crate moves cells once more, to make room for nulls.
        let moved = if is_cells { chunk.uncompressed } else { 0 };
        let pages = if is_compressed { chunk.uncompressed } else { 0 };
        let counted = chunk.values.saturating_mul(value_width(descriptor) - out.min(value_width(descriptor)));
        let bytes = pages.saturating_add(moved).saturating_sub(counted);
        match is_number && is_one_by_one && (is_flat || is_list) {
            _ if bytes <= LARGE_CHUNK => self,
            true => PageMemory { largest: self.largest.max(bytes), ..self },
            false => PageMemory { sum: self.sum.saturating_add(bytes), ..self },
        }
    }

    /// The bytes of all.
    pub fn bytes(self) -> u64 {
        self.largest.saturating_add(self.sum)
    }
}

/// The names in the path of a list's numbers: the list's, and two more by the format.
const LIST_PARTS: usize = 3;

impl ColumnChunk<'_> {
    /// The most bytes that it holds once it is decoded, in a row group of `rows` rows: for each value its width and
    /// validity, for views also the decompressed pages that they point into, for lists also the offsets of their rows.
    pub fn held(&self, rows: u64) -> u64 {
        sum(self, rows, value_width(self.column))
    }
}

/// Bytes that a value is counted as.
pub fn value_width(descriptor: &ColumnDescriptor) -> u64 {
    let is_narrow = matches!(descriptor.physical_type(), Type::INT32 | Type::FLOAT)
        && descriptor.type_precision() <= 0
        && descriptor.max_rep_level() == 0;
    if is_narrow { size_of::<u32>() as u64 } else { leaf_width(descriptor) }
}

/// As [`ColumnChunk::held`] with every number counted as one of 64 bits. The default window is made of it, and stays as it is.
pub(super) fn wide(chunk: &ColumnChunk<'_>, rows: u64) -> u64 {
    sum(chunk, rows, leaf_width(chunk.column))
}

/// As [`ColumnChunk::held`], for the first of `all` rows. How long lists, texts and binary values are is not known: they count whole.
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
    // Of lists in lists there is at most one for each value.
    let lists = match u64::try_from(descriptor.max_rep_level()).unwrap_or(0) {
        0 => 0,
        depth => rows.saturating_add((depth - 1).saturating_mul(values)).saturating_mul(ROW_OVERHEAD),
    };
    let validity = values.div_ceil(u64::from(u8::BITS));
    values.saturating_mul(width).saturating_add(validity).saturating_add(pages).saturating_add(lists)
}

/// Bytes that a constant column holds in `rows` rows: a value or a view for each.
pub(super) fn constant(constant: &Constant, rows: u64) -> u64 {
    let width = constant.value.data_type().primitive_width().unwrap_or(size_of::<u128>());
    rows.saturating_mul(width as u64).saturating_add(rows.div_ceil(u64::from(u8::BITS)))
}

/// Bytes of the values of a constant column one by one, with an offset each.
pub(super) fn constant_values(constant: &Constant, rows: u64) -> u64 {
    let value = constant.value.get_array_memory_size() as u64;
    rows.saturating_mul(value.saturating_add(size_of::<u64>() as u64))
}

/// Bytes of the values of a chunk one by one, with an offset each; `None` where the footer does not tell.
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
