//! The memory that it takes to read a row group, or a part of it.

/// The bytes of memory that it takes to read a row group, or a piece of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    /// The bytes of the column chunks, or of the pages that are read.
    pub(crate) stored: u64,
    /// The additional bytes while rows are made: first for large pages that are decompressed, then for the
    /// copy of a column whose rows are put in shuffled order.
    pub(crate) decoding: u64,
    /// The largest number of bytes that the rows take in memory.
    pub(crate) held: u64,
}

impl Cost {
    /// The sum of this cost and another.
    pub(crate) fn with(self, other: Cost) -> Cost {
        Cost {
            stored: self.stored.saturating_add(other.stored),
            decoding: self.decoding.saturating_add(other.decoding),
            held: self.held.saturating_add(other.held),
        }
    }

    /// The number of bytes that are needed only until the rows are made.
    pub(crate) fn passing(self) -> u64 {
        self.stored.saturating_add(self.decoding)
    }

    /// The sum of all bytes.
    pub(crate) fn total(self) -> u64 {
        self.passing().saturating_add(self.held)
    }
}
