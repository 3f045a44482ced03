//! The errors for pages that are damaged or too large to be decoded.

use forebay_base::{Error, ErrorKind};

use crate::reader::budget::words;

/// The error for a row group that is too large suggests this many times its bytes as `memory`. Row groups get
/// at least a quarter of `memory`, since batches take at most half of it, and images a quarter.
const ROW_GROUPS_DIVISOR: u64 = 4;

/// The error for damaged pages.
pub(super) fn corrupt(cause: String) -> Error {
    Error::new(ErrorKind::Corrupt, cause)
}

/// The error for a column chunk whose decoding would take more memory than is allowed.
pub(in crate::reader) fn too_large(bytes: u64, limit: u64) -> Error {
    let cause = format!("decoding takes {bytes} bytes, {limit} are allowed");
    let memory = words(bytes.saturating_mul(ROW_GROUPS_DIVISOR));
    Error::new(ErrorKind::TooLarge, cause)
        .hint(format!("raise `memory` to {memory}, or write the file with smaller row groups"))
}
