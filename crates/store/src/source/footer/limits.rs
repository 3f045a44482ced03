//! Limits on the size of footers, and on the number that is read at the same time.

/// The number of footers that are read at the same time. A larger number hides the latency of a slow disk,
/// and costs a thread for each.
pub const FOOTERS_AT_ONCE: usize = 16;

/// The number of bytes that are read at a file's end, which usually contain the whole footer; a larger footer
/// costs a second read.
pub(in crate::source) const TAIL: u64 = 64 << 10;

/// The size in bytes of the longest footer that is read. Those of the widest real data sets take tens of
/// megabytes. One that claims more is suspicious, and no memory is allocated for it.
pub(in crate::source) const LONGEST_FOOTER: u64 = 128 << 20;

/// The most bytes of large footers that are read and parsed at the same time, over all files.
pub(super) const FOOTER_BYTES_AT_ONCE: u32 = LONGEST_FOOTER as u32;
