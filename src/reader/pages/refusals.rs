//! Why the pages of a column chunk are not decoded.

use forebay_base::{Error, ErrorKind};

use crate::reader::budget::words;

/// Of any larger budget, row groups have a part as large as this share: batches take half at most, and images a quarter.
const ROW_GROUPS_SHARE: u64 = 4;

/// The refusal of pages that are damaged.
pub(super) fn corrupt(cause: String) -> Error {
    Error::new(ErrorKind::Corrupt, cause)
}

/// The refusal of a chunk that would take more memory than allowed.
pub(in crate::reader) fn too_large(bytes: u64, limit: u64) -> Error {
    let cause = format!("decoding takes {bytes} bytes, {limit} are allowed");
    let memory = words(bytes.saturating_mul(ROW_GROUPS_SHARE));
    Error::new(ErrorKind::TooLarge, cause)
        .hint(format!("raise `memory` to {memory}, or write the file with smaller row groups"))
}
