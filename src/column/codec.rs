//! [`Codec`], which says how a stored column becomes a column of a batch, and the traits of its kinds.

use std::fmt;
use std::sync::Arc;

use forebay_arrow::array::{Array, ArrayRef, UInt16Array};
use forebay_arrow::datatypes::{DataType, Field, FieldRef};
use forebay_base::{Error, ErrorKind, Result};
use forebay_image::{RowKey, Size, Workspace};

use super::{Cell, CodeValues, KeptForm, Noun, RowCells};
use crate::batch::Selection;
use crate::monitor::Stage;

/// The number of cells that a task of the thread pool decodes. It is small, so that a slow cell delays few
/// others, but more than one, so that tiny cells share the cost of starting a task.
pub(super) const CELLS_PER_TASK: usize = 8;

/// The least number of bytes that a task of the thread pool writes if decoding does little more than copy
/// cells, so that small cells share the cost of starting a task.
const BYTES_PER_TASK: usize = 32 << 10;

/// The rows of a column, and the bad rows among them.
pub(crate) type GatheredRows = (ArrayRef, Vec<BadValue>);

/// The index of a bad row in its batch, and its error, to which the caller adds the file and the row.
pub(crate) type BadValue = (usize, Error);

/// The number of cells that a task decodes if it does little more than copy them to slots of `slot` bytes.
pub(super) fn copied_per_task(slot: usize) -> usize {
    (BYTES_PER_TASK / slot).max(CELLS_PER_TASK)
}

/// The way in which a column is delivered. The name is Petastorm's: a codec turns a stored cell into the
/// value that a training step gets.
#[derive(Clone, Debug)]
pub(crate) enum Codec {
    /// Gathers all rows of a batch at once.
    Gather(Arc<dyn Gather>),
    /// Gathers all rows of a batch at once, from another column: the stored one with this index.
    GatherOf(usize, Arc<dyn Gather>),
    /// Gathers all rows of a batch at once as they are stored, and then changes them with an image, as boxes
    /// are cropped with it.
    Follow(Arc<dyn FollowImage>),
    /// Like `Follow`, for a column that is not stored itself: it is made from the stored column with this
    /// index.
    FollowOf(usize, Arc<dyn FollowImage>),
    /// Decodes cell by cell, each into its slot of a buffer from the loader's pool.
    Cells(Arc<dyn DecodeCells>),
    /// Writes numbers about the image in each row, such as its crop, into slots. The column is not stored
    /// itself.
    Numbers(Arc<dyn DrawNumbers>),
    /// A further view of the images of a column. Its slots of `bytes` are filled when the first view, the
    /// column with the index `first`, is decoded.
    View { first: usize, bytes: usize },
    /// Writes the values of several stored columns side by side into a matrix. The matrix is not stored
    /// itself.
    Stack(Arc<dyn StackColumns>),
    /// Delivers nothing, because a `Stack` delivers the values of this column.
    Stacked,
}

/// A delivered column: its codec, and the field that the codec delivers.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) codec: Codec,
    pub(crate) field: FieldRef,
}

/// A codec that delivers all rows of a column in a batch at once.
pub(crate) trait Gather: fmt::Debug + Send + Sync {
    /// The field of the column in a batch, made from its stored field.
    ///
    /// # Errors
    /// The codec cannot read the stored type, or its settings can never work.
    fn delivered(&self, stored: &Field) -> Result<FieldRef>;

    /// Gathers the selected rows of a column, whose arrays are `sources`. Also returns the rows that cannot
    /// be delivered, in ascending order; the gathered column has an arbitrary value for each of them.
    fn gather(&self, sources: &[&dyn Array], selection: &Selection) -> Result<GatheredRows>;

    /// The size of a row in a batch.
    fn size(&self) -> RowSize {
        RowSize::default()
    }

    /// The bytes that a row takes in a batch, computed from its cell. Used if the size [is by
    /// cell](RowSize::is_by_cell).
    fn cell_bytes(&self, cell: &[u8]) -> u64 {
        cell.len() as u64
    }

    /// Whether a row may be bad because of its value.
    fn may_refuse(&self) -> bool {
        true
    }

    /// Whether the codec delivers the stored values unchanged.
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

    /// Converts a column of a whole row group in advance, if that saves work for each batch.
    fn prepare(&self, column: ArrayRef) -> Result<ArrayRef> {
        Ok(column)
    }

    /// The conversion of a column that is done once for each row group in memory, if that saves work for each
    /// batch.
    fn held(&self) -> Option<&dyn Held> {
        None
    }

    /// The number of unknown values so far, which were delivered with the code for such values.
    fn unknown_values(&self) -> u64 {
        0
    }
}

/// Converts the values of a column once for each row group in memory; batches are then gathered from the
/// converted values.
pub(crate) trait Held {
    /// The type of the converted values.
    fn data_type(&self) -> &DataType;

    /// Whether the converted type always differs from the stored type. Some row groups may then hold
    /// converted values and others stored ones.
    fn is_told_apart(&self) -> bool;

    /// The function from stored values to codes; `None` if the column cannot be read as codes.
    fn codes(&self) -> Option<Arc<dyn CodeValues>>;

    /// Converts a column of a whole row group: one value for each row, and null where the stored value is
    /// null. A column that was read as codes is used as it is.
    fn hold(&self, column: ArrayRef) -> Result<ArrayRef>;

    /// Does what [`hold`](Self::hold) does, for a column of which `numbers` has the number of the value in
    /// each row; rows with equal values have equal numbers. The converted values are those of the rows in
    /// `order`, if there is one.
    fn hold_numbered(
        &self,
        column: &ArrayRef,
        numbers: &UInt16Array,
        order: Option<&[u32]>,
    ) -> Result<ArrayRef>;

    /// Does what [`Gather::gather`] does, for columns that [`hold`](Self::hold) converted, and also for
    /// stored columns if the two types are [told apart](Self::is_told_apart). For a row group that could not
    /// be read, the source has nulls of the stored type.
    fn gather(&self, sources: &[&dyn Array], selection: &Selection) -> Result<GatheredRows>;
}

/// The bytes that one row of a gathered column takes in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowSize {
    /// The bytes of a row, if they do not depend on the stored values.
    pub(crate) bytes: Option<u64>,
    /// The most bytes of a delivered value, as a multiple of the bytes of the stored one.
    pub(crate) growth: usize,
    /// Whether a batch holds values that are not stored, such as the zeros of sparse vectors. The loader then
    /// computes the bytes of every row, even if all delivered rows have one size.
    pub(crate) is_expanded: bool,
    /// Whether each row takes as many bytes as the longest row of its batch.
    pub(crate) is_to_longest: bool,
    /// The most bytes that a row takes beyond those of its stored value, because its length is rounded up.
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

/// A codec for a column whose values change together with an image, such as boxes when it is cropped.
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

    /// Changes the gathered values in the way in which their images were changed, and returns the bad rows.
    fn follow(&self, gathered: ArrayRef, rows: &dyn FollowedRows) -> Result<GatheredRows>;

    /// The size of a row in a batch.
    fn size(&self) -> RowSize {
        RowSize::default()
    }

    /// The bytes that a row takes in a batch, if its number of stored items determines them.
    fn row_bytes(&self, stored: &dyn Array, row: usize) -> Option<u64> {
        let _ = (stored, row);
        None
    }

    /// The codec of the mask column `name`, which marks the items of a row that are not padding.
    fn mask(&self, name: &str) -> Option<Arc<dyn FollowImage>> {
        let _ = name;
        None
    }

    /// The kind of content that the column has, as errors name it.
    fn noun(&self) -> Noun;
}

/// The rows of a batch, for codecs that also need other columns than their own.
pub(crate) trait FollowedRows {
    fn count(&self) -> usize;

    /// The cells of a row, and the key that seeds the random values of the column in this row. `None` for a
    /// row that could not be read and is bad already.
    fn cells(&self, row: usize) -> Option<(RowCells<'_>, RowKey)>;

    /// Gathers another stored column of the same rows, unchanged.
    fn gather(&self, column: usize) -> Result<ArrayRef>;

    /// The memory for decoding.
    fn workspace(&self) -> &Workspace;
}

/// A codec that delivers the cells of a column one by one, each in its slot (its part of the batch's memory).
pub(crate) trait DecodeCells: fmt::Debug + Send + Sync {
    /// The field of the column in a batch, made from its stored field.
    ///
    /// # Errors
    /// The errors of [`Gather::delivered`].
    fn delivered(&self, stored: &Field) -> Result<FieldRef>;

    /// The number of bytes of a slot.
    fn slot(&self) -> usize;

    /// Decodes a cell into its slot; `row` has the other cells of its row. The slot holds bytes of an earlier
    /// batch, so all of it must be written. `key` seeds all random draws of the row.
    ///
    /// # Errors
    /// Each error makes a bad row; the caller adds the file and the row to it.
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

    /// Fills the slot of a null row with the value for nulls. Returns `false` if a null is a bad row.
    ///
    /// # Errors
    /// The row's column does not hold cells.
    fn decode_null(&self, row: RowCells<'_>, slot: &mut [u8]) -> Result<bool>;

    /// Decodes the cell of a row into its slots, as [`decode_views`](Self::decode_views) does. The inner
    /// `Result` has the error if the row is bad.
    ///
    /// # Errors
    /// The row's column does not hold cells.
    fn decode_row(
        &self,
        column: usize,
        row: RowCells<'_>,
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

    /// Whether one value is made from all rows of a window, with [`decode_window`](Self::decode_window).
    fn takes_window(&self) -> bool {
        false
    }

    /// Decodes the cells of the rows of a window into one slot. `key` seeds the random draws of the whole
    /// window, and each row comes with a key of its own.
    ///
    /// # Errors
    /// An error makes a bad row; the number beside the error is the index of this row in `rows`.
    fn decode_window(
        &self,
        column: usize,
        rows: &[(RowCells<'_>, RowKey)],
        key: RowKey,
        workspace: &Workspace,
        slot: &mut [u8],
    ) -> Result<(), (usize, Error)> {
        let _ = (column, rows, key, workspace, slot);
        Err((0, Error::new(ErrorKind::Internal, "a value that is not made of a window")))
    }

    /// Closes the gaps between values that are shorter than their slots: moves all values to the front of the
    /// buffer, and returns their sizes. Returns `None` if all values fill their slots.
    fn pack(&self, slots: &mut [u8]) -> Result<Option<PackedValues>> {
        let _ = slots;
        Ok(None)
    }

    /// The index of the image column that this column follows, as a mask is cropped like its image; `None` if
    /// it follows no image.
    fn image(&self) -> Option<usize> {
        None
    }

    /// The number of cells that a task decodes.
    fn cells_per_task(&self) -> usize {
        CELLS_PER_TASK
    }

    /// The kind of content that the column has, as error messages name it.
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

/// The sizes of the values that [`DecodeCells::pack`] moved together.
#[derive(Debug)]
pub(crate) enum PackedValues {
    /// The size of each image, for [`images`](super::images) that are not all of one size.
    Images(Vec<Size>),
    /// The number of images in each of the [`clips`](super::clips).
    Clips(Vec<usize>),
}

/// A codec that delivers numbers about an image, such as its crop, in a separate column, with a slot for each
/// row.
pub(crate) trait DrawNumbers: fmt::Debug + Send + Sync {
    /// The index of the image's column.
    fn image(&self) -> usize;

    /// The number of bytes of a slot.
    fn slot(&self) -> usize;

    /// Fills the slot of a row with the numbers of its image, or with 0 if the image is null.
    ///
    /// # Errors
    /// Each error makes a bad row; the caller adds the file and the row to it.
    fn draw(&self, row: RowCells<'_>, key: RowKey, slot: &mut [u8]) -> Result<()>;
}

/// A codec that writes the values of several stored columns side by side into the rows of one matrix.
pub(crate) trait StackColumns: fmt::Debug + Send + Sync {
    /// The columns of the matrix, from left to right.
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
    /// Gathers the values of the column.
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

    /// The number of bytes of a delivered row, if it is known. It is used for columns that are made from
    /// other columns.
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

    /// The stage of the statistics that the time of this codec is added to.
    pub(crate) fn stage(&self) -> Stage {
        if self.slot().is_some() { Stage::Decode } else { Stage::Gather }
    }

    /// Whether null rows of the column can be delivered if a mask in another column marks them.
    pub(crate) fn takes_mask(&self) -> bool {
        match self {
            Codec::Gather(gather) | Codec::GatherOf(_, gather) => gather.takes_mask(),
            Codec::Follow(follow) | Codec::FollowOf(_, follow) => follow.takes_mask(),
            Codec::Cells(_) => true,
            Codec::Numbers(_) | Codec::View { .. } | Codec::Stack(_) | Codec::Stacked => false,
        }
    }

    /// Whether null rows can be filled with a value. Null rows of boxes or points cannot, since a box or a
    /// point has several values.
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

/// Delivers the column `made`, which was computed from a stored column, with the codec `inner`. The rows in
/// `bad` were bad already, and are merged into the bad rows that it returns. `is_as_delivered` says whether
/// `made` has the form in which columns without a codec are delivered.
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
    // A bad row has an arbitrary value in `made`, so an error of `inner` for this row means nothing.
    let is_bad = |row: &usize| bad.binary_search_by_key(row, |(bad, _)| *bad).is_ok();
    let others: Vec<BadValue> = refused.into_iter().filter(|(row, _)| !is_bad(row)).collect();
    let mut refused: Vec<BadValue> = bad.into_iter().chain(others).collect();
    refused.sort_by_key(|(row, _)| *row);
    Ok((rows, refused))
}
