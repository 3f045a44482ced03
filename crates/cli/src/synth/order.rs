//! The request for a data set: the kind of its rows, and their layout in files.

use std::ops::RangeInclusive;

use super::gallery::Gallery;

/// The kind of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowKind {
    Jpeg,
    Png,
    /// A user's own images
    Own,
    Table,
    Tokens(usize),
    /// The rows that MLPerf Storage reads for Flux, made for `bench` alone
    Embeddings,
    /// The rows that MLPerf Storage reads for DLRM, made for `bench` alone
    Features,
}

impl RowKind {
    /// The default number of rows in a row group. Most row groups take 10 to 20 MB: large enough to be read
    /// at full speed, small enough to shuffle. Those of MLPerf Storage have their published size: a whole
    /// file of 623 MB for Flux, and 4.7 MB for DLRM.
    pub(crate) fn rows_per_group(self) -> u64 {
        match self {
            RowKind::Jpeg | RowKind::Own => 100,
            RowKind::Png => 5_000,
            RowKind::Table => 100_000,
            RowKind::Tokens(_) => 1_000,
            RowKind::Embeddings => 288,
            RowKind::Features => 6_144,
        }
    }

    pub(super) fn noun(self) -> &'static str {
        match self {
            RowKind::Jpeg => "JPEG picture",
            RowKind::Png => "PNG picture",
            RowKind::Own => "image",
            RowKind::Table => "table row",
            RowKind::Tokens(_) => "token list",
            RowKind::Embeddings => "embedding",
            RowKind::Features => "feature row",
        }
    }
}

/// The rows to write, from the checked arguments of the command.
pub(crate) struct Order {
    pub(crate) kind: RowKind,
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) quality: RangeInclusive<u8>,
    pub(crate) classes: u32,
    /// The user's own images, if the pictures are not drawn.
    pub(crate) gallery: Gallery,
    pub(crate) seed: u64,
}

/// How the rows are divided into row groups and files.
pub(crate) struct FileLayout {
    pub(crate) rows: u64,
    pub(crate) rows_per_group: u64,
    pub(crate) rows_per_file: u64,
}
