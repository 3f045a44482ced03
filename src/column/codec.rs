//! The kinds of codecs, and what each of them is asked.

use std::fmt;
use std::sync::Arc;

use forebay_arrow::array::{Array, ArrayRef};
use forebay_arrow::datatypes::{DataType, Field, FieldRef};
use forebay_base::{Error, Result};
use forebay_image::{RowKey, Size, Workspace};

use super::{Cell, CodeValues, KeptForm, Noun, RowCells};
use crate::batch::Selection;
use crate::monitor::Stage;

/// Cells that one task decodes: few, so that a slow one holds up few others, but more than one, so that tiny cells
/// share the cost of a task.
pub(super) const CELLS_PER_TASK: usize = 8;

/// Bytes that a task writes at least where cells are little more than copied, so that small ones share its cost.
const BYTES_PER_TASK: usize = 32 << 10;

/// The rows of a column, and those of them that are bad.
pub(crate) type GatheredRows = (ArrayRef, Vec<BadValue>);

/// A row of a batch whose value is bad, and why. The caller adds its place.
pub(crate) type BadValue = (usize, Error);

/// Cells that one task decodes where they are little more than copied to slots of this length.
pub(super) fn copied_per_task(slot: usize) -> usize {
    (BYTES_PER_TASK / slot).max(CELLS_PER_TASK)
}

/// How one column is delivered. The name is Petastorm's: a codec turns a stored cell into the value that a training
/// step gets.
#[derive(Clone, Debug)]
pub(crate) enum Codec {
    /// All rows of the column at once.
    Gather(Arc<dyn Gather>),
    /// The same of another column, at this place: the column itself is not stored.
    GatherOf(usize, Arc<dyn Gather>),
    /// All rows at once, as they are stored, which then follow an image.
    Follow(Arc<dyn FollowImage>),
    /// Cell by cell, into slots of a buffer of the loader's pool.
    Cells(Arc<dyn DecodeCells>),
    /// The same of an image's column: the column itself is not stored.
    Numbers(Arc<dyn DrawNumbers>),
}

/// A column that is delivered: its codec, and the field that this delivers.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) codec: Codec,
    pub(crate) field: FieldRef,
}

/// Delivers all rows of a column at once.
pub(crate) trait Gather: fmt::Debug + Send + Sync {
    /// The field that a batch delivers for a stored one.
    ///
    /// # Errors
    /// The stored type is not one that this codec reads, or its own settings can never work.
    fn delivered(&self, stored: &Field) -> Result<FieldRef>;

    /// The selected rows of a column of the `sources`, and those of them that cannot be delivered, by their place and in
    /// order. In the column these may have any value.
    fn gather(&self, sources: &[&dyn Array], selection: &Selection) -> Result<GatheredRows>;

    /// What a row takes in a batch.
    fn size(&self) -> RowSize {
        RowSize::default()
    }

    /// The bytes that a row takes in a batch by its cell, where its size [is by cell](RowSize::is_by_cell).
    fn cell_bytes(&self, cell: &[u8]) -> u64 {
        cell.len() as u64
    }

    /// Whether a row may be bad for its value.
    fn may_refuse(&self) -> bool {
        true
    }

    /// Whether values are gathered, and that is all.
    fn is_plain(&self) -> bool {
        false
    }

    /// Whether rows that are null may have a mask: the codec then delivers them itself.
    fn takes_mask(&self) -> bool {
        false
    }

    /// A column of a whole row group, changed in place where that saves work for each batch.
    fn prepare(&self, column: ArrayRef) -> Result<ArrayRef> {
        Ok(column)
    }

    /// How row groups hold the column in another form than the stored one, where that saves work for each batch.
    fn held(&self) -> Option<&dyn Held> {
        None
    }

    /// Values so far that are delivered as the code for unknown ones.
    fn unknown_values(&self) -> u64 {
        0
    }
}

/// A column as row groups hold it in place of what is stored: batches are gathered from values that were made once.
pub(crate) trait Held {
    /// The type of these values.
    fn data_type(&self) -> &DataType;

    /// Whether their type is never a stored one, so that some row groups may hold them and others what is stored.
    fn is_told_apart(&self) -> bool;

    /// The codes of its values, where the column may be read as codes instead of what is stored.
    fn codes(&self) -> Option<Arc<dyn CodeValues>>;

    /// Makes the values of a column of a whole row group: one for each row, null where the stored one is null. A column
    /// that was read as codes is taken as it is.
    fn hold(&self, column: ArrayRef) -> Result<ArrayRef>;

    /// As [`Gather::gather`], of columns that [`hold`](Self::hold) made, and of stored ones where both are
    /// [told apart](Self::is_told_apart). A source whose rows were lost has nulls of the stored type.
    fn gather(&self, sources: &[&dyn Array], selection: &Selection) -> Result<GatheredRows>;
}

/// What a row of a gathered column takes in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowSize {
    /// Its bytes, where they do not follow from what is stored.
    pub(crate) bytes: Option<u64>,
    /// How many times the bytes of a stored value one of a batch has, at most.
    pub(crate) growth: usize,
    /// Whether values have bytes in a batch that are not stored, so that they are weighed whatever a row takes in
    /// the end.
    pub(crate) is_expanded: bool,
    /// Whether each row takes as much as the longest of its batch.
    pub(crate) is_to_longest: bool,
    /// Whether what a cell holds says how much its row takes.
    pub(crate) is_by_cell: bool,
}

impl Default for RowSize {
    fn default() -> Self {
        RowSize { bytes: None, growth: 1, is_expanded: false, is_to_longest: false, is_by_cell: false }
    }
}

/// Delivers what becomes of the rows of a column as they follow an image.
pub(crate) trait FollowImage: fmt::Debug + Send + Sync {
    /// The field that a batch delivers for a stored one.
    ///
    /// # Errors
    /// As [`Gather::delivered`].
    fn delivered(&self, stored: &Field) -> Result<FieldRef>;

    /// The place of the image's column.
    fn image(&self) -> usize;

    /// Whether rows that are null may have a mask.
    fn takes_mask(&self) -> bool;

    /// What becomes of gathered values, and the rows that are bad.
    fn follow(&self, gathered: ArrayRef, rows: &dyn FollowedRows) -> Result<GatheredRows>;

    /// The kind of content, for errors.
    fn noun(&self) -> Noun;
}

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

/// Delivers the cells of a column one by one, each in a slot.
pub(crate) trait DecodeCells: fmt::Debug + Send + Sync {
    /// The field that a batch delivers for a stored one.
    ///
    /// # Errors
    /// As [`Gather::delivered`].
    fn delivered(&self, stored: &Field) -> Result<FieldRef>;

    /// Bytes of a slot.
    fn slot(&self) -> usize;

    /// Decodes one cell into its slot, beside the other cells of its `row`. The slot holds bytes of an earlier batch, so all
    /// of it must be written. `key` seeds everything random about the row.
    ///
    /// # Errors
    /// Each is a bad row; the caller adds its place.
    fn decode(
        &self,
        cell: Cell<'_>,
        row: RowCells<'_>,
        key: RowKey,
        workspace: &Workspace,
        slot: &mut [u8],
    ) -> Result<()>;

    /// Writes what stands for a null of a row into its slot, all of it; false where a null is a bad row.
    ///
    /// # Errors
    /// The row holds no cells.
    fn decode_null(&self, row: RowCells<'_>, slot: &mut [u8]) -> Result<bool>;

    /// Moves values that may be shorter than their slots together, to the front, and returns their sizes: the column is one of
    /// [`images`](super::images) then. `None`: slots are full.
    fn pack(&self, slots: &mut [u8]) -> Result<Option<Vec<Size>>> {
        let _ = slots;
        Ok(None)
    }

    /// The place of the image's column that this one follows.
    fn image(&self) -> Option<usize> {
        None
    }

    /// Cells that one task decodes.
    fn cells_per_task(&self) -> usize {
        CELLS_PER_TASK
    }

    /// The kind of content, for errors.
    fn noun(&self) -> Noun;

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

/// Delivers numbers of an image in a column of their own, each row in a slot.
pub(crate) trait DrawNumbers: fmt::Debug + Send + Sync {
    /// The place of the image's column.
    fn image(&self) -> usize;

    /// Bytes of a slot.
    fn slot(&self) -> usize;

    /// Writes the numbers of a row's image into its slot, all of it; of one that is null they are 0.
    ///
    /// # Errors
    /// Each is a bad row; the caller adds its place.
    fn draw(&self, row: RowCells<'_>, key: RowKey, slot: &mut [u8]) -> Result<()>;
}

impl Codec {
    /// Bytes of a slot, where the rows have slots.
    pub(crate) fn slot(&self) -> Option<usize> {
        match self {
            Codec::Gather(_) | Codec::GatherOf(..) | Codec::Follow(_) => None,
            Codec::Cells(cells) => Some(cells.slot()),
            Codec::Numbers(numbers) => Some(numbers.slot()),
        }
    }

    /// Cells that one task decodes.
    pub(crate) fn cells_per_task(&self) -> usize {
        match self {
            Codec::Cells(cells) => cells.cells_per_task(),
            _ => CELLS_PER_TASK,
        }
    }

    /// The place of the column that this one follows, or is made of.
    pub(crate) fn follows(&self) -> Option<usize> {
        match self {
            Codec::Gather(_) => None,
            Codec::GatherOf(column, _) => Some(*column),
            Codec::Follow(follow) => Some(follow.image()),
            Codec::Cells(cells) => cells.image(),
            Codec::Numbers(numbers) => Some(numbers.image()),
        }
    }

    /// What gathers its rows, where they do not follow an image.
    pub(crate) fn as_gather(&self) -> Option<&dyn Gather> {
        match self {
            Codec::Gather(gather) | Codec::GatherOf(_, gather) => Some(gather.as_ref()),
            Codec::Follow(_) | Codec::Cells(_) | Codec::Numbers(_) => None,
        }
    }

    /// What decodes its cells.
    pub(crate) fn as_cells(&self) -> Option<&dyn DecodeCells> {
        match self {
            Codec::Cells(cells) => Some(cells.as_ref()),
            _ => None,
        }
    }

    /// The stage that this work counts for in the statistics.
    pub(crate) fn stage(&self) -> Stage {
        if self.slot().is_some() { Stage::Decode } else { Stage::Gather }
    }

    /// Whether rows that are null may have a mask, where an option says how the column is delivered.
    pub(crate) fn takes_mask(&self) -> bool {
        match self {
            Codec::Gather(gather) | Codec::GatherOf(_, gather) => gather.takes_mask(),
            Codec::Follow(follow) => follow.takes_mask(),
            Codec::Cells(_) => true,
            Codec::Numbers(_) => false,
        }
    }

    /// Whether a value may stand for nulls: what follows an image has none to deliver.
    pub(crate) fn takes_fill(&self) -> bool {
        !matches!(self, Codec::Follow(_))
    }

    /// The kind of content, for errors.
    pub(crate) fn noun(&self) -> Noun {
        match self {
            Codec::Gather(_) | Codec::GatherOf(..) | Codec::Numbers(_) => Noun::VALUE,
            Codec::Follow(follow) => follow.noun(),
            Codec::Cells(cells) => cells.noun(),
        }
    }

    /// What a row takes in a batch, where it has no slot.
    pub(crate) fn size(&self) -> RowSize {
        self.as_gather().map(Gather::size).unwrap_or_default()
    }

    /// Whether a row may be bad for its value.
    pub(crate) fn may_refuse(&self) -> bool {
        self.as_gather().is_none_or(Gather::may_refuse)
    }

    /// As [`Gather::prepare`].
    pub(crate) fn prepare(&self, column: ArrayRef) -> Result<ArrayRef> {
        match self {
            Codec::Gather(gather) => gather.prepare(column),
            _ => Ok(column),
        }
    }

    /// As [`Gather::held`], of the column's own values.
    pub(crate) fn held(&self) -> Option<&dyn Held> {
        match self {
            Codec::Gather(gather) => gather.held(),
            _ => None,
        }
    }

    /// As [`Gather::unknown_values`].
    pub(crate) fn unknown_values(&self) -> u64 {
        self.as_gather().map_or(0, Gather::unknown_values)
    }

    /// As [`DecodeCells::uses_workspace`].
    pub(crate) fn uses_workspace(&self) -> bool {
        self.as_cells().is_some_and(DecodeCells::uses_workspace)
    }

    /// As [`DecodeCells::forms`].
    pub(crate) fn forms(&self, stored: &DataType) -> Vec<Arc<dyn KeptForm>> {
        self.as_cells().map_or_else(Vec::new, |cells| cells.forms(stored))
    }
}

impl Column {
    /// Rows that are gathered.
    pub(crate) fn gathered(codec: impl Gather + 'static, stored: &Field) -> Result<Self> {
        Column::of(Codec::Gather(Arc::new(codec)), stored)
    }

    /// Cells that are decoded.
    pub(crate) fn decoded(codec: impl DecodeCells + 'static, stored: &Field) -> Result<Self> {
        Column::of(Codec::Cells(Arc::new(codec)), stored)
    }

    /// Rows that follow an image.
    pub(crate) fn following(codec: impl FollowImage + 'static, stored: &Field) -> Result<Self> {
        Column::of(Codec::Follow(Arc::new(codec)), stored)
    }

    /// A column with its codec.
    ///
    /// # Errors
    /// As [`Gather::delivered`].
    pub(crate) fn of(codec: Codec, stored: &Field) -> Result<Self> {
        let field = match &codec {
            Codec::Gather(gather) | Codec::GatherOf(_, gather) => gather.delivered(stored),
            Codec::Follow(follow) => follow.delivered(stored),
            Codec::Cells(cells) => cells.delivered(stored),
            Codec::Numbers(_) => Ok(Arc::new(stored.clone())),
        };
        Ok(Column { codec, field: field? })
    }
}

/// The rows that `inner` delivers of a column that was made of what is stored, of which some rows are `bad`
/// already, in order. `is_as_delivered` says whether the column is as a codec that gathers alone would
/// deliver it.
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
    // What comes of the value in the place of a bad one says nothing.
    let is_bad = |row: &usize| bad.binary_search_by_key(row, |(bad, _)| *bad).is_ok();
    let others: Vec<BadValue> = refused.into_iter().filter(|(row, _)| !is_bad(row)).collect();
    let mut refused: Vec<BadValue> = bad.into_iter().chain(others).collect();
    refused.sort_by_key(|(row, _)| *row);
    Ok((rows, refused))
}
