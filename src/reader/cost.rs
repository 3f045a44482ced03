//! What it takes to read a row group, or a part of one.

/// Bytes of a row group, or of a piece of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    /// Of its column chunks, or their pages.
    pub(crate) stored: u64,
    /// Beside these and its rows, while these are made: for large pages that are decompressed, then for the second copy of a
    /// column that is brought into the order of a shuffle.
    pub(crate) decoding: u64,
    /// Of its rows in memory, at most.
    pub(crate) held: u64,
}

impl Cost {
    /// With that of something else.
    pub(crate) fn with(self, other: Cost) -> Cost {
        Cost {
            stored: self.stored.saturating_add(other.stored),
            decoding: self.decoding.saturating_add(other.decoding),
            held: self.held.saturating_add(other.held),
        }
    }

    /// What is returned once its rows are made.
    pub(crate) fn passing(self) -> u64 {
        self.stored.saturating_add(self.decoding)
    }

    /// All together.
    pub(crate) fn total(self) -> u64 {
        self.passing().saturating_add(self.held)
    }
}
