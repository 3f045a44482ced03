//! Limits on the size of footers, and on the number that is read at the same time.

/// The number of footers that are read at the same time. More hides the latency of a slow disk, and costs a
/// thread each.
pub const FOOTERS_AT_ONCE: usize = 16;

/// The bytes that are read at a file's end, which usually hold the whole footer; a larger one costs a second
/// read.
pub(in crate::source) const TAIL: u64 = 64 << 10;

/// The longest footer that is read. Those of the widest real data sets take tens of megabytes; one that
/// claims more is suspicious, and is not allocated.
pub(in crate::source) const LONGEST_FOOTER: u64 = 128 << 20;

/// The bytes of large footers that are read and parsed at the same time, over all files.
pub(super) const FOOTER_BYTES_AT_ONCE: u32 = LONGEST_FOOTER as u32;
