//! Codecs: how the stored cells of a column become values of a batch.
//!
//! ```text
//! stored cells ─┬─ gather ─────────────────────────► column of the batch     plain, lists of tensors, text, encoding
//!               └─ decode, cell by cell ─► slots ──► column of the batch     image, tensor, decoder
//! ```
//!
//! [`ColumnCodec`] is all that the loader, the row cache and the statistics know of a column: a new type of column is one
//! file here that implements it, and one line where the builder creates it. Threads, tasks and buffers belong to
//! `loader/collate`, which calls a codec once for each column and, where cells are decoded, once for each cell.

mod cast;
mod cell;
mod decoder;
mod encoding;
mod extension;
mod follow;
mod form;
mod image;
mod masked;
mod nulls;
mod pad;
mod plain;
mod ragged;
mod tensor;
mod tensors;
mod text;
mod vectors;

use std::fmt;
use std::sync::Arc;

use forebay_arrow::array::{Array, ArrayRef};
use forebay_arrow::datatypes::{DataType, Field, FieldRef};

pub use crate::batch::Fill;
pub(crate) use cast::{CastCodec, by_name as cast_by_name, cast_field};
pub(crate) use cell::{Cell, RowCells};
pub use decoder::Decoder;
pub(crate) use decoder::DecoderCodec;
pub use encoding::{Categories, CategoryCounts, Encoding, Hash, Vocabulary};
pub use extension::is_packed;
pub(crate) use extension::{EXTENSION_METADATA, EXTENSION_NAME, packed_metadata};
pub(crate) use follow::{
    AlongCodec, BoxesCodec, Followed, GeometryCodec, KeypointsCodec, MaskCodec, SizeCodec,
};
pub use follow::{BoxFormat, Boxes, Follow, Keypoints, Mask};
pub(crate) use form::{CacheForm, Cost, KeptForm};
pub(crate) use image::ImageCodec;
pub(crate) use masked::{MaskedCodec, NullMaskCodec, masked_fill};
pub(crate) use nulls::{NullOptions, NullSlot};
pub use pad::Pad;
pub(crate) use pad::{PadCodec, PadMaskCodec};
pub(crate) use plain::PlainCodec;
pub(crate) use ragged::images;
pub(crate) use tensor::{tensor, tensor_field};
pub(crate) use tensors::{Declared, tensor_shape};
pub use tensors::{Tensor, TensorFormat};
pub(crate) use text::TextCodec;
pub use text::TextFormat;
pub(crate) use vectors::VectorCodec;

use forebay_base::{Error, ErrorKind, Result};
use forebay_image::{RowKey, Size, Workspace};

use crate::batch::{Selection, gather};
use crate::monitor::Stage;

/// The place of the values of a column's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    /// All of a column at once, by [`ColumnCodec::gather`]. The bytes of a batch follow from the stored lengths.
    Gathered,
    /// Cell by cell, by [`ColumnCodec::decode`], into slots of this many bytes in a buffer of the loader's pool.
    Fixed(usize),
}

/// Cells that one task decodes: few, so that a slow one holds up few others, but more than one, so that tiny cells
/// share the cost of a task.
const CELLS_PER_TASK: usize = 8;

/// The rows of a column, and those of them that are bad.
pub(crate) type GatheredRows = (ArrayRef, Vec<(usize, Error)>);

/// How one column is delivered. The name is Petastorm's: a codec turns a stored cell into the value that a training
/// step gets.
///
/// A codec that gathers implements [`gather`](Self::gather) alone; one that decodes says so with [`slot`](Self::slot) and
/// implements [`decode`](Self::decode).
pub(crate) trait ColumnCodec: fmt::Debug + Send + Sync {
    /// The field that a batch delivers for a stored one.
    ///
    /// # Errors
    /// The stored type is not one that this codec reads, or its own settings can never work.
    fn delivered(&self, stored: &Field) -> Result<FieldRef>;

    /// Where the values of the rows are put.
    fn slot(&self) -> Slot {
        Slot::Gathered
    }

    /// The stage that this work counts for in the statistics.
    fn stage(&self) -> Stage {
        match self.slot() {
            Slot::Gathered => Stage::Gather,
            Slot::Fixed(_) => Stage::Decode,
        }
    }

    /// The selected rows of a column of the `sources`. For [`Slot::Gathered`] alone.
    fn gather(&self, sources: &[&dyn Array], selection: &Selection) -> Result<ArrayRef> {
        gather(sources, selection, None)
    }

    /// The same, and those of the rows that cannot be delivered, by their place and in order, each with the reason. In the
    /// column they may have any value. The caller adds their places. For [`Slot::Gathered`] alone.
    fn gather_rows(&self, sources: &[&dyn Array], selection: &Selection) -> Result<GatheredRows> {
        Ok((self.gather(sources, selection)?, Vec::new()))
    }

    /// The bytes of a row in a batch, where they do not follow from what is stored. For [`Slot::Gathered`] alone.
    fn row_bytes(&self) -> Option<u64> {
        None
    }

    /// How many times the bytes of a stored value one of a batch has, at most. For [`Slot::Gathered`] alone.
    fn growth(&self) -> usize {
        1
    }

    /// Whether values are gathered, and that is all. For [`Slot::Gathered`] alone.
    fn is_plain(&self) -> bool {
        false
    }

    /// Whether values have bytes in a batch that are not stored, so that they are weighed whatever a row takes in
    /// the end. For [`Slot::Gathered`] alone.
    fn is_expanded(&self) -> bool {
        false
    }

    /// Whether each row takes as much as the longest of its batch. For [`Slot::Gathered`] alone.
    fn is_to_longest(&self) -> bool {
        false
    }

    /// A column of a whole row group, changed in place where that saves work for each batch. For [`Slot::Gathered`] alone.
    fn prepare(&self, column: ArrayRef) -> Result<ArrayRef> {
        Ok(column)
    }

    /// Decodes one cell into its slot. The slot holds bytes of an earlier batch, so all of it must be written. `key` seeds
    /// everything random about the row. For [`Slot::Fixed`] alone.
    ///
    /// # Errors
    /// Each is a bad row; the caller adds its place.
    fn decode(&self, cell: Cell<'_>, key: RowKey, workspace: &Workspace, slot: &mut [u8]) -> Result<()> {
        let _ = (cell, key, workspace, slot);
        Err(Error::new(ErrorKind::Internal, format!("{self:?} decodes no cells")))
    }

    /// Writes what stands for a null of a row into its slot, all of it; false where a null is a bad row. For [`Slot::Fixed`]
    /// alone.
    ///
    /// # Errors
    /// The row holds no cells.
    fn decode_null(&self, row: RowCells<'_>, slot: &mut [u8]) -> Result<bool> {
        let _ = (row, slot);
        Ok(false)
    }

    /// Moves values that may be shorter than their slots together, to the front, and returns their sizes: the column is one of
    /// [`images`] then. `None`: slots are full. For [`Slot::Fixed`] alone.
    fn pack(&self, slots: &mut [u8]) -> Result<Option<Vec<Size>>> {
        let _ = slots;
        Ok(None)
    }

    /// The place of the column that this one follows, such as the image of boxes: its cells are passed along.
    fn follows(&self) -> Option<usize> {
        None
    }

    /// What becomes of gathered values that follow another column, and the rows that are bad. For [`Slot::Gathered`] that
    /// [`follows`](Self::follows).
    fn follow(&self, gathered: ArrayRef, rows: &dyn FollowedRows) -> Result<(ArrayRef, Vec<BadValue>)> {
        let _ = rows;
        Ok((gathered, Vec::new()))
    }

    /// Decodes one cell, `None` for a column that is not stored, beside the other cells of its row, as
    /// [`decode`](Self::decode) does. For [`Slot::Fixed`] that [`follows`](Self::follows).
    fn decode_following(
        &self,
        cell: Option<Cell<'_>>,
        row: RowCells<'_>,
        key: RowKey,
        workspace: &Workspace,
        slot: &mut [u8],
    ) -> Result<()> {
        let _ = (cell, row, key, workspace, slot);
        Err(Error::new(ErrorKind::Internal, format!("{self:?} decodes no cells")))
    }

    /// Cells that one task decodes. For [`Slot::Fixed`] alone.
    fn cells_per_task(&self) -> usize {
        CELLS_PER_TASK
    }

    /// Values so far that are delivered as the code for unknown ones.
    fn unknown_values(&self) -> u64 {
        0
    }

    /// The kind of content, for errors.
    fn noun(&self) -> Noun {
        Noun { one: "a value", several: "values" }
    }

    /// Whether decoding takes memory of the [`Workspace`], for which a part of the budget is then set aside.
    fn uses_workspace(&self) -> bool {
        false
    }

    /// The forms in which the row cache may keep the cells of a stored type instead of as they are, best first.
    fn forms(&self, stored: &DataType) -> Vec<Arc<dyn KeptForm>> {
        let _ = stored;
        Vec::new()
    }
}

/// A row of a batch whose value is bad, and why.
pub(crate) type BadValue = (usize, Error);

/// The rows of a batch, for codecs that need more than their own column.
pub(crate) trait FollowedRows {
    /// How many there are.
    fn count(&self) -> usize;

    /// The cells of a row, and the key of what the column draws for it. `None` for a row that could not be read: it is a bad
    /// row already.
    fn cells(&self, row: usize) -> Option<(RowCells<'_>, RowKey)>;

    /// Another stored column, gathered as it is.
    fn gather(&self, column: usize) -> Result<ArrayRef>;
}

/// The kind of content of a cell, as errors name it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Noun {
    /// With its article: "an image".
    pub(crate) one: &'static str,
    /// "images".
    pub(crate) several: &'static str,
}

impl Noun {
    /// A null where a cell is to be decoded.
    pub(crate) fn null(self) -> Error {
        Error::new(ErrorKind::BadRow, format!("null where {} is needed", self.one))
            .hint("give a value with `fill_null`, or a mask with `null_mask`")
    }

    /// A value for nulls of a column that has none to deliver, but a mask if it `has_mask`.
    pub(crate) fn no_fill(self, has_mask: bool) -> Error {
        let left_out = format!("rows without {} are left out with `on_bad_row`", self.one);
        Error::invalid(format!("fill_null gives a value for {}, which have none", self.several)).hint(
            match has_mask {
                true => format!("`null_mask` delivers them empty, with a mask that says so; {left_out}"),
                false => left_out,
            },
        )
    }
}
