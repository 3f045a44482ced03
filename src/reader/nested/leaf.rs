//! A leaf of a nested column, of any type.

use forebay_arrow::array::ArrayRef;
use forebay_arrow::buffer::NullBuffer;
use forebay_arrow::datatypes::{DataType, Field};
use parquet::schema::types::ColumnDescriptor;

use super::texts::TextColumn;
use crate::reader::numbers::{CheckedChunk, KeptLevels, NumberColumn};

/// A leaf that is decoded chunk by chunk, until a chunk is unusual.
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

    /// Decodes the next column chunk.
    pub(in crate::reader) fn append(&mut self, chunk: &CheckedChunk<'_>) -> Option<()> {
        match &mut self.0 {
            LeafColumn::Numbers(column) => column.append(chunk),
            LeafColumn::Texts(column) => column.append(chunk),
        }
    }

    /// Whether a chunk was left to the Parquet crate although it must be damaged.
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
