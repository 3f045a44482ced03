//! Limits on the size of footers, and on how many are read at the same time.

/// The number of footers that are read at the same time. A larger number hides the latency of a slow disk,
/// and costs a thread for each.
pub const FOOTERS_AT_ONCE: usize = 16;

/// The number of bytes that are read first, at the end of a file. They usually contain the whole footer; a
/// longer one takes a second read.
pub(in crate::source) const TAIL: u64 = 64 << 10;

/// The size in bytes of the longest footer that is read. The footers of the widest real data sets take tens
/// of megabytes, so a file that claims more is refused before memory is allocated.
pub(in crate::source) const LONGEST_FOOTER: u64 = 128 << 20;

/// The most bytes of large footers that are read and parsed at the same time, over all files.
pub(super) const FOOTER_BYTES_AT_ONCE: u32 = LONGEST_FOOTER as u32;
