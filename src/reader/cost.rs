//! The memory that it takes to read a row group, or a part of one.

/// Bytes of a row group, or of a piece of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    /// The bytes of its column chunks, or of their pages.
    pub(crate) stored: u64,
    /// The further bytes while its rows are made: for large pages that are decompressed, then for the second
    /// copy of a column that is brought into the order of a shuffle.
    pub(crate) decoding: u64,
    /// The most bytes of its rows in memory.
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

    /// The bytes that are returned once its rows are made.
    pub(crate) fn passing(self) -> u64 {
        self.stored.saturating_add(self.decoding)
    }

    /// The sum of all bytes.
    pub(crate) fn total(self) -> u64 {
        self.passing().saturating_add(self.held)
    }
}
