//! Decodes a leaf of a nested column: a column of numbers or texts within structures and lists.

use forebay_arrow::array::ArrayRef;
use forebay_arrow::buffer::NullBuffer;
use forebay_arrow::datatypes::{DataType, Field};
use parquet::schema::types::ColumnDescriptor;

use super::texts::TextColumn;
use crate::reader::numbers::{CheckedChunk, KeptLevels, NumberColumn};

/// The decoder of a leaf, which takes one column chunk after another. It gives up at the first chunk that it
/// does not support; the Parquet crate then reads the whole column.
pub(in crate::reader) struct NestedLeaf<'a>(LeafColumn<'a>);

enum LeafColumn<'a> {
    Numbers(NumberColumn<'a>),
    Texts(TextColumn<'a>),
}

impl<'a> NestedLeaf<'a> {
    pub(super) fn for_field(field: &'a Field, column: &'a ColumnDescriptor) -> Option<Self> {
        let kind = match field.data_type() {
            DataType::Utf8View | DataType::BinaryView => {
                TextColumn::for_leaf(field, column).map(LeafColumn::Texts)
            }
            _ => NumberColumn::for_leaf(field, column).map(LeafColumn::Numbers),
        };
        kind.map(NestedLeaf)
    }

    /// Decodes the next column chunk; `None` leaves the whole column to the Parquet crate.
    pub(in crate::reader) fn append(&mut self, chunk: &CheckedChunk<'_>) -> Option<()> {
        match &mut self.0 {
            LeafColumn::Numbers(column) => column.append(chunk),
            LeafColumn::Texts(column) => column.append(chunk),
        }
    }

    /// Whether a chunk that was left to the Parquet crate is damaged in a way that the crate may accept.
    pub(in crate::reader) fn is_damaged(&self) -> bool {
        match &self.0 {
            LeafColumn::Numbers(column) => column.is_damaged(),
            // The Parquet crate reports damaged texts itself.
            LeafColumn::Texts(_) => false,
        }
    }

    pub(super) fn levels(&self) -> Option<&KeptLevels> {
        match &self.0 {
            LeafColumn::Numbers(column) => column.levels(),
            LeafColumn::Texts(column) => Some(column.levels()),
        }
    }

    /// The array of `len` values, including nulls.
    pub(super) fn finish(self, len: usize, nulls: Option<NullBuffer>) -> Option<ArrayRef> {
        match self.0 {
            LeafColumn::Numbers(column) => column.finish_leaf(len, nulls),
            LeafColumn::Texts(column) => column.finish(len, nulls),
        }
    }
}
