//! What a column chunk costs, from its footer entry: memory once it is decoded.

use parquet::basic::Type;

use super::footer::ColumnChunk;
use super::leaf_width;
use crate::snapshot::Constant;

/// Offset or presence bytes that Arrow keeps for each row of a list, counted generously (a 64-bit offset and validity).
const ROW_OVERHEAD: u64 = 9;

/// Bytes that the decoded chunk holds: for each value its width and validity, for views also the decompressed pages that
/// they point into, for lists also the offsets of their `rows`.
pub(super) fn held(chunk: &ColumnChunk<'_>, rows: u64) -> u64 {
    let descriptor = chunk.column;
    let is_narrow = matches!(descriptor.physical_type(), Type::INT32 | Type::FLOAT)
        && descriptor.type_precision() <= 0
        && descriptor.max_rep_level() == 0;
    sum(chunk, rows, if is_narrow { size_of::<u32>() as u64 } else { leaf_width(descriptor) })
}

/// The same with every number counted as one of 64 bits. The default window is made of it, and stays as it is.
pub(super) fn wide(chunk: &ColumnChunk<'_>, rows: u64) -> u64 {
    sum(chunk, rows, leaf_width(chunk.column))
}

/// As [`held`], for the first of `all` rows. How long lists, texts and binary values are is not known: they count whole.
pub(super) fn held_of_first(chunk: &ColumnChunk<'_>, all: u64, rows: u64) -> u64 {
    let is_list = chunk.column.max_rep_level() > 0;
    match is_list || rows >= all {
        true => held(chunk, all),
        false => held(&chunk.share(chunk.length, rows), rows),
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
