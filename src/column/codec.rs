//! The kinds of codecs, and their interfaces.

use std::fmt;
use std::sync::Arc;

use forebay_arrow::array::{Array, ArrayRef};
use forebay_arrow::datatypes::{DataType, Field, FieldRef};
use forebay_base::{Error, ErrorKind, Result};
use forebay_image::{RowKey, Size, Workspace};

use super::{Cell, CodeValues, KeptForm, Noun, RowCells};
use crate::batch::Selection;
use crate::monitor::Stage;

/// The number of cells that a task decodes. It is small, so that a slow cell holds up few others, but more
/// than one, so that tiny cells share the cost of a task.
pub(super) const CELLS_PER_TASK: usize = 8;

/// The least number of bytes that a task writes if cells are little more than copied, so that small cells
/// share the cost of a task.
const BYTES_PER_TASK: usize = 32 << 10;

/// The rows of a column, and the bad rows among them.
pub(crate) type GatheredRows = (ArrayRef, Vec<BadValue>);

/// The place of a bad row in its batch, and the error, to which the caller adds the place in the file.
pub(crate) type BadValue = (usize, Error);

/// The number of cells that a task decodes if it does little more than copy them to slots of `slot` bytes.
pub(super) fn copied_per_task(slot: usize) -> usize {
    (BYTES_PER_TASK / slot).max(CELLS_PER_TASK)
}

/// How a column is delivered. The name is Petastorm's: a codec turns a stored cell into the value that a
/// training step gets.
#[derive(Clone, Debug)]
pub(crate) enum Codec {
    /// Delivers all rows of the column at once.
    Gather(Arc<dyn Gather>),
    /// Delivers all rows at once from the stored column at this place. The delivered column is not stored
    /// itself.
    GatherOf(usize, Arc<dyn Gather>),
    /// Gathers all rows at once, as they are stored, and then makes them follow an image.
    Follow(Arc<dyn FollowImage>),
    /// Makes all rows at once from the stored column at this place, which follows an image. The delivered
    /// column is not stored itself.
    FollowOf(usize, Arc<dyn FollowImage>),
    /// Decodes cell by cell, into slots of a buffer from the loader's pool.
    Cells(Arc<dyn DecodeCells>),
    /// Writes numbers about each image of a column into slots. The delivered column is not stored itself.
    Numbers(Arc<dyn DrawNumbers>),
    /// Has slots of `bytes`, which are filled when the cells of the column `first` are decoded. The delivered
    /// column is not stored itself.
    View { first: usize, bytes: usize },
    /// Writes the values of several stored columns side by side. The delivered column is not stored itself.
    Stack(Arc<dyn StackColumns>),
    /// Delivers nothing: the column is in a stack.
    Stacked,
}

/// A delivered column: its codec, and the field that the codec delivers.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) codec: Codec,
    pub(crate) field: FieldRef,
}

/// Delivers all rows of a column at once.
pub(crate) trait Gather: fmt::Debug + Send + Sync {
    /// The field of the column in a batch, made from its stored field.
    ///
    /// # Errors
    /// The codec cannot read the stored type, or its settings can never work.
    fn delivered(&self, stored: &Field) -> Result<FieldRef>;

    /// The selected rows of a column in `sources`, and the rows that cannot be delivered, in ascending order.
    /// Those rows have an arbitrary value in the column.
    fn gather(&self, sources: &[&dyn Array], selection: &Selection) -> Result<GatheredRows>;

    /// The size of a row in a batch.
    fn size(&self) -> RowSize {
        RowSize::default()
    }

    /// The bytes of a row in a batch, computed from its cell, if the size [is by cell](RowSize::is_by_cell).
    fn cell_bytes(&self, cell: &[u8]) -> u64 {
        cell.len() as u64
    }

    /// Whether a row may be bad because of its value.
    fn may_refuse(&self) -> bool {
        true
    }

    /// Whether the codec only gathers values, and changes nothing.
    fn is_plain(&self) -> bool {
        false
    }

    /// Whether values that are not null are delivered as they are stored.
    fn keeps_values(&self) -> bool {
        self.is_plain()
    }

    /// Whether the codec can deliver null rows itself, beside a mask that marks them.
    fn takes_mask(&self) -> bool {
        false
    }

    /// A column of a whole row group, converted in advance if that saves work for each batch.
    fn prepare(&self, column: ArrayRef) -> Result<ArrayRef> {
        Ok(column)
    }

    /// The form in which row groups hold the column instead of the stored one, if that saves work for each
    /// batch.
    fn held(&self) -> Option<&dyn Held> {
        None
    }

    /// The number of values so far that were delivered as the code for unknown values.
    fn unknown_values(&self) -> u64 {
        0
    }
}

/// A column that row groups hold in another form than the stored one: its values are made once, and batches
/// are gathered from them.
pub(crate) trait Held {
    /// The type of the values that row groups hold.
    fn data_type(&self) -> &DataType;

    /// Whether the type of the held values is never the stored type, so that some row groups may hold these
    /// values and others the stored ones.
    fn is_told_apart(&self) -> bool;

    /// The codes of the values, if the column can be read as codes instead of the stored values.
    fn codes(&self) -> Option<Arc<dyn CodeValues>>;

    /// Makes the values of a column of a whole row group: one for each row, and null where the stored one is
    /// null. A column that was read as codes is used as it is.
    fn hold(&self, column: ArrayRef) -> Result<ArrayRef>;

    /// Does what [`Gather::gather`] does, for columns that [`hold`](Self::hold) made, and also for stored
    /// columns if the two are [told apart](Self::is_told_apart). A source whose rows were lost has nulls of
    /// the stored type.
    fn gather(&self, sources: &[&dyn Array], selection: &Selection) -> Result<GatheredRows>;
}

/// The size of a gathered column's row in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowSize {
    /// The bytes of a row, if they do not depend on the stored values.
    pub(crate) bytes: Option<u64>,
    /// The most bytes of a delivered value, as a multiple of the bytes of the stored one.
    pub(crate) growth: usize,
    /// Whether a batch holds values that are not stored, as those of sparse vectors. The loader then computes
    /// the bytes of every row, even if all delivered rows have one size.
    pub(crate) is_expanded: bool,
    /// Whether each row takes as many bytes as the longest row of its batch.
    pub(crate) is_to_longest: bool,
    /// The most bytes that a row takes beyond those of the stored value, because the length of rows is
    /// rounded up.
    pub(crate) added: u64,
    /// Whether the content of a cell determines the bytes of its row.
    pub(crate) is_by_cell: bool,
}

impl Default for RowSize {
    fn default() -> Self {
        RowSize {
            bytes: None,
            growth: 1,
            is_expanded: false,
            is_to_longest: false,
            added: 0,
            is_by_cell: false,
        }
    }
}

/// Delivers a column whose values change together with an image, as boxes do.
pub(crate) trait FollowImage: fmt::Debug + Send + Sync {
    /// The field of the column in a batch, made from its stored field.
    ///
    /// # Errors
    /// The errors of [`Gather::delivered`].
    fn delivered(&self, stored: &Field) -> Result<FieldRef>;

    /// The index of the image's column.
    fn image(&self) -> usize;

    /// Whether null rows can be delivered beside a mask that marks them.
    fn takes_mask(&self) -> bool;

    /// Makes the gathered values follow their images, and returns the bad rows.
    fn follow(&self, gathered: ArrayRef, rows: &dyn FollowedRows) -> Result<GatheredRows>;

    /// The size of a row in a batch.
    fn size(&self) -> RowSize {
        RowSize::default()
    }

    /// The bytes of a row of a stored column in a batch, if they follow from the number of its items.
    fn row_bytes(&self, stored: &dyn Array, row: usize) -> Option<u64> {
        let _ = (stored, row);
        None
    }

    /// The codec of a mask with this name, which says which items of a row are not padding.
    fn mask(&self, name: &str) -> Option<Arc<dyn FollowImage>> {
        let _ = name;
        None
    }

    /// The kind of content that the column has, as errors name it.
    fn noun(&self) -> Noun;
}

/// The rows of a batch, for codecs that need more than their own column.
pub(crate) trait FollowedRows {
    /// The number of rows.
    fn count(&self) -> usize;

    /// The cells of a row, and the key that seeds the column's random draws for it. `None` for a row that
    /// could not be read and is bad already.
    fn cells(&self, row: usize) -> Option<(RowCells<'_>, RowKey)>;

    /// Another stored column of the same rows, gathered as it is.
    fn gather(&self, column: usize) -> Result<ArrayRef>;

    /// The memory for decoding.
    fn workspace(&self) -> &Workspace;
}

/// Delivers the cells of a column one by one, each in a slot of its own.
pub(crate) trait DecodeCells: fmt::Debug + Send + Sync {
    /// The field of the column in a batch, made from its stored field.
    ///
    /// # Errors
    /// The errors of [`Gather::delivered`].
    fn delivered(&self, stored: &Field) -> Result<FieldRef>;

    /// The number of bytes of a slot.
    fn slot(&self) -> usize;

    /// Decodes a cell into its slot; `row` has the other cells of its row. The slot holds bytes of an earlier
    /// batch, so that all of it must be written. `key` seeds everything random about the row.
    ///
    /// # Errors
    /// Each error makes a bad row; the caller adds the place.
    fn decode(
        &self,
        cell: Cell<'_>,
        row: RowCells<'_>,
        key: RowKey,
        workspace: &Workspace,
        slot: &mut [u8],
    ) -> Result<()>;

    /// Decodes a cell into its slots: the one in this column, and one in each [`Codec::View`] of it.
    ///
    /// # Errors
    /// The errors of [`decode`](Self::decode).
    fn decode_views(
        &self,
        cell: Cell<'_>,
        row: RowCells<'_>,
        key: RowKey,
        workspace: &Workspace,
        slots: &mut [&mut [u8]],
    ) -> Result<()> {
        let [slot] = slots else { return Err(Error::new(ErrorKind::Internal, "a cell with several slots")) };
        self.decode(cell, row, key, workspace, slot)
    }

    /// Fills the slots of a null row like [`decode_null`](Self::decode_null).
    ///
    /// # Errors
    /// The errors of [`decode_null`](Self::decode_null).
    fn decode_null_views(&self, row: RowCells<'_>, slots: &mut [&mut [u8]]) -> Result<bool> {
        let [slot] = slots else { return Err(Error::new(ErrorKind::Internal, "a null with several slots")) };
        self.decode_null(row, slot)
    }

    /// Fills the slot of a null row with the value that stands for nulls; false if a null is a bad row.
    ///
    /// # Errors
    /// The row's column does not hold cells.
    fn decode_null(&self, row: RowCells<'_>, slot: &mut [u8]) -> Result<bool>;

    /// Decodes the cell of a row into its slots, as [`decode_views`](Self::decode_views) does. The inner
    /// result has an error of the row itself.
    ///
    /// # Errors
    /// The row's column does not hold cells.
    fn decode_row(
        &self,
        (column, row): (usize, RowCells<'_>),
        key: RowKey,
        workspace: &Workspace,
        slots: &mut [&mut [u8]],
    ) -> Result<Result<()>> {
        let mut copy = Vec::new();
        let cell = match row.get(column, &mut copy) {
            Err(error) if error.kind() == ErrorKind::BadRow => return Ok(Err(error)),
            cell => cell?,
        };
        Ok(match cell {
            Some(cell) => self.decode_views(cell, row, key, workspace, slots),
            None if row.path(column).is_none() && self.decode_null_views(row, slots)? => Ok(()),
            None => Err(row.null(column, self.noun())),
        })
    }

    /// Whether a value is made of the cells of all rows of a window, by
    /// [`decode_window`](Self::decode_window).
    fn takes_window(&self) -> bool {
        false
    }

    /// Decodes the cells of the rows of a window into one slot. `key` is the key of the window, and each row
    /// comes with its own.
    ///
    /// # Errors
    /// An error makes a bad row. The number that comes with it is the place of that row in `rows`.
    fn decode_window(
        &self,
        column: usize,
        (rows, key): (&[(RowCells<'_>, RowKey)], RowKey),
        workspace: &Workspace,
        slot: &mut [u8],
    ) -> Result<(), (usize, Error)> {
        let _ = (column, rows, key, workspace, slot);
        Err((0, Error::new(ErrorKind::Internal, "a value that is not made of a window")))
    }

    /// Moves values that may be shorter than their slots to the front of the buffer, and returns their sizes.
    /// Returns `None` if all values fill their slots.
    fn pack(&self, slots: &mut [u8]) -> Result<Option<PackedValues>> {
        let _ = slots;
        Ok(None)
    }

    /// The index of the image's column that this column follows.
    fn image(&self) -> Option<usize> {
        None
    }

    /// The number of cells that a task decodes.
    fn cells_per_task(&self) -> usize {
        CELLS_PER_TASK
    }

    /// The kind of content that the column has, as errors name it.
    fn noun(&self) -> Noun;

    /// Whether decoding takes memory from the [`Workspace`], for which a part of the budget is set aside.
    fn uses_workspace(&self) -> bool {
        false
    }

    /// The forms in which the row cache may keep the cells of a stored type, best first.
    fn forms(&self, stored: &DataType) -> Vec<Arc<dyn KeptForm>> {
        let _ = stored;
        Vec::new()
    }
}

/// The sizes of values that were moved together.
#[derive(Debug)]
pub(crate) enum PackedValues {
    /// The sizes of [`images`](super::images) in their own sizes.
    Images(Vec<Size>),
    /// How many images each of the [`clips`](super::clips) has.
    Clips(Vec<usize>),
}

/// Delivers numbers about an image in a column of their own, each row in a slot.
pub(crate) trait DrawNumbers: fmt::Debug + Send + Sync {
    /// The index of the image's column.
    fn image(&self) -> usize;

    /// The number of bytes of a slot.
    fn slot(&self) -> usize;

    /// Fills the slot of a row with the numbers of its image, or with 0 if the image is null.
    ///
    /// # Errors
    /// Each error makes a bad row; the caller adds the place.
    fn draw(&self, row: RowCells<'_>, key: RowKey, slot: &mut [u8]) -> Result<()>;
}

/// Writes the values of several stored columns side by side to the rows of one matrix.
pub(crate) trait StackColumns: fmt::Debug + Send + Sync {
    /// The columns of the matrix, from the left to the right.
    fn members(&self) -> &[StackedColumn];

    /// The number of bytes of a row of the matrix.
    fn row_bytes(&self) -> usize;

    /// The blocks of neighbouring columns that row groups hold as lists, from the left to the right.
    fn blocks(&self) -> &[Arc<StackBlock>];

    /// Writes the values of neighbouring columns, the first of which is number `first`, to the rows of the
    /// matrix.
    ///
    /// # Errors
    /// [`forebay_base::ErrorKind::Internal`] if the values are not those of the columns.
    fn write(&self, first: usize, columns: &[ArrayRef], matrix: &mut [u8]) -> Result<()>;

    /// Writes lists of `length` values, one after the other, to the rows of the matrix; the first value of
    /// each is that of column `first`.
    ///
    /// # Errors
    /// [`forebay_base::ErrorKind::Internal`] if the values are not those of the columns.
    fn write_lists(&self, first: usize, lists: &dyn Array, length: usize, matrix: &mut [u8]) -> Result<()>;
}

/// A column of a stack.
#[derive(Clone, Debug)]
pub(crate) struct StackedColumn {
    /// The index of the stored column.
    pub(crate) place: usize,
    /// Delivers the values of the column.
    pub(crate) gather: Arc<dyn Gather>,
}

/// Neighbouring columns of a stack that are stored alike and delivered alike.
#[derive(Debug)]
pub(crate) struct StackBlock {
    /// The place of the first column in the stack.
    pub(crate) first: usize,
    /// The index of each stored column.
    pub(crate) places: Vec<usize>,
    /// Delivers the values of each column.
    pub(crate) gather: Arc<dyn Gather>,
    /// The field of the values, as they are stored.
    pub(crate) item: FieldRef,
}

impl Codec {
    /// The number of bytes of a slot; `None` for a codec without slots.
    pub(crate) fn slot(&self) -> Option<usize> {
        match self {
            Codec::Gather(_)
            | Codec::GatherOf(..)
            | Codec::Follow(_)
            | Codec::FollowOf(..)
            | Codec::Stack(_)
            | Codec::Stacked => None,
            Codec::Cells(cells) => Some(cells.slot()),
            Codec::Numbers(numbers) => Some(numbers.slot()),
            Codec::View { bytes, .. } => Some(*bytes),
        }
    }

    /// The number of bytes of a row of a column that is not stored itself, if it is known.
    pub(crate) fn row_bytes(&self) -> Option<usize> {
        match self {
            Codec::Stack(stack) => Some(stack.row_bytes()),
            Codec::FollowOf(_, follow) => follow.size().bytes.map(|bytes| bytes as usize),
            codec => codec.slot(),
        }
    }

    /// The number of cells that a task decodes.
    pub(crate) fn cells_per_task(&self) -> usize {
        match self {
            Codec::Cells(cells) => cells.cells_per_task(),
            _ => CELLS_PER_TASK,
        }
    }

    /// The index of the column that this one follows, or is made from.
    pub(crate) fn follows(&self) -> Option<usize> {
        match self {
            Codec::Gather(_) | Codec::Stack(_) | Codec::Stacked => None,
            Codec::GatherOf(column, _) => Some(*column),
            Codec::Follow(follow) | Codec::FollowOf(_, follow) => Some(follow.image()),
            Codec::Cells(cells) => cells.image(),
            Codec::Numbers(numbers) => Some(numbers.image()),
            Codec::View { first, .. } => Some(*first),
        }
    }

    /// The codec as one that gathers; `None` if it decodes cells or follows an image.
    pub(crate) fn as_gather(&self) -> Option<&dyn Gather> {
        match self {
            Codec::Gather(gather) | Codec::GatherOf(_, gather) => Some(gather.as_ref()),
            _ => None,
        }
    }

    /// The codec as one that decodes cells.
    pub(crate) fn as_cells(&self) -> Option<&dyn DecodeCells> {
        match self {
            Codec::Cells(cells) => Some(cells.as_ref()),
            _ => None,
        }
    }

    /// Calls [`DecodeCells::takes_window`] if the codec decodes cells.
    pub(crate) fn takes_window(&self) -> bool {
        self.as_cells().is_some_and(DecodeCells::takes_window)
    }

    /// The stage for which the time of this codec counts in the statistics.
    pub(crate) fn stage(&self) -> Stage {
        if self.slot().is_some() { Stage::Decode } else { Stage::Gather }
    }

    /// Whether null rows can be delivered beside a mask that marks them, if an option delivers the column.
    pub(crate) fn takes_mask(&self) -> bool {
        match self {
            Codec::Gather(gather) | Codec::GatherOf(_, gather) => gather.takes_mask(),
            Codec::Follow(follow) | Codec::FollowOf(_, follow) => follow.takes_mask(),
            Codec::Cells(_) => true,
            Codec::Numbers(_) | Codec::View { .. } | Codec::Stack(_) | Codec::Stacked => false,
        }
    }

    /// Whether a value may stand for nulls: a column of boxes or points has no single value for a row.
    pub(crate) fn takes_fill(&self) -> bool {
        !matches!(self, Codec::Follow(_) | Codec::FollowOf(..))
    }

    /// The kind of content that the column has, as errors name it.
    pub(crate) fn noun(&self) -> Noun {
        match self {
            Codec::Follow(follow) | Codec::FollowOf(_, follow) => follow.noun(),
            Codec::Cells(cells) => cells.noun(),
            _ => Noun::VALUE,
        }
    }

    /// The size of a row in a batch, if the codec has no slots.
    pub(crate) fn size(&self) -> RowSize {
        match self {
            Codec::Follow(follow) | Codec::FollowOf(_, follow) => follow.size(),
            codec => codec.as_gather().map(Gather::size).unwrap_or_default(),
        }
    }

    /// Whether a row may be bad because of its value.
    pub(crate) fn may_refuse(&self) -> bool {
        self.as_gather().is_none_or(Gather::may_refuse)
    }

    /// Calls [`Gather::prepare`] if the codec gathers the column itself.
    pub(crate) fn prepare(&self, column: ArrayRef) -> Result<ArrayRef> {
        match self {
            Codec::Gather(gather) => gather.prepare(column),
            _ => Ok(column),
        }
    }

    /// Calls [`Gather::held`] if the codec gathers the column itself.
    pub(crate) fn held(&self) -> Option<&dyn Held> {
        match self {
            Codec::Gather(gather) => gather.held(),
            _ => None,
        }
    }

    /// Calls [`Gather::unknown_values`] if the codec gathers.
    pub(crate) fn unknown_values(&self) -> u64 {
        match self {
            Codec::Stack(stack) => stack.members().iter().map(|column| column.gather.unknown_values()).sum(),
            codec => codec.as_gather().map_or(0, Gather::unknown_values),
        }
    }

    /// Calls [`DecodeCells::uses_workspace`] if the codec decodes cells.
    pub(crate) fn uses_workspace(&self) -> bool {
        self.as_cells().is_some_and(DecodeCells::uses_workspace)
    }

    /// Calls [`DecodeCells::forms`] if the codec decodes cells.
    pub(crate) fn forms(&self, stored: &DataType) -> Vec<Arc<dyn KeptForm>> {
        self.as_cells().map_or_else(Vec::new, |cells| cells.forms(stored))
    }
}

impl Column {
    /// A column whose rows are gathered.
    pub(crate) fn gathered(codec: impl Gather + 'static, stored: &Field) -> Result<Self> {
        Column::with_codec(Codec::Gather(Arc::new(codec)), stored)
    }

    /// A column whose cells are decoded.
    pub(crate) fn decoded(codec: impl DecodeCells + 'static, stored: &Field) -> Result<Self> {
        Column::with_codec(Codec::Cells(Arc::new(codec)), stored)
    }

    /// A column with any codec. Its field follows from the stored field.
    ///
    /// # Errors
    /// The errors of [`Gather::delivered`].
    pub(crate) fn with_codec(codec: Codec, stored: &Field) -> Result<Self> {
        let field = match &codec {
            Codec::Gather(gather) | Codec::GatherOf(_, gather) => gather.delivered(stored),
            Codec::Follow(follow) | Codec::FollowOf(_, follow) => follow.delivered(stored),
            Codec::Cells(cells) => cells.delivered(stored),
            Codec::Numbers(_) | Codec::View { .. } | Codec::Stack(_) | Codec::Stacked => {
                Ok(Arc::new(stored.clone()))
            }
        };
        Ok(Column { codec, field: field? })
    }
}

/// Delivers a column that was `made` from a stored one through `inner`, and adds the rows that were `bad`
/// already, in order. `is_as_delivered` says whether `made` is what a codec that only gathers would deliver.
pub(super) fn after_making(
    made: ArrayRef,
    bad: Vec<BadValue>,
    inner: &dyn Gather,
    is_as_delivered: bool,
) -> Result<GatheredRows> {
    if is_as_delivered && inner.is_plain() {
        return Ok((made, bad));
    }
    let all = Selection::of_one((0..made.len() as u32).collect());
    let (rows, refused) = inner.gather(&[made.as_ref()], &all)?;
    if bad.is_empty() {
        return Ok((rows, refused));
    }
    // A bad row has an arbitrary value, so an error of `inner` for it means nothing.
    let is_bad = |row: &usize| bad.binary_search_by_key(row, |(bad, _)| *bad).is_ok();
    let others: Vec<BadValue> = refused.into_iter().filter(|(row, _)| !is_bad(row)).collect();
    let mut refused: Vec<BadValue> = bad.into_iter().chain(others).collect();
    refused.sort_by_key(|(row, _)| *row);
    Ok((rows, refused))
}
