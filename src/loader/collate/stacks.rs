//! Stacked columns: a matrix whose rows contain the values of several stored columns side by side.

use std::ops::Range;
use std::sync::Arc;

use forebay_arrow::array::{Array, ArrayRef, AsArray};
use forebay_arrow::buffer::Buffer;
use forebay_arrow::datatypes::{DataType, Schema, SchemaRef};
use forebay_base::{Error, ErrorKind, Result};

use super::{Collation, View};
use crate::batch::{Run, Selection, copy_rows};
use crate::column::{Codec, GatheredRows, STACKED_TOGETHER, StackBlock, StackColumns, StackedColumn, tensor};

/// The advice for a null in a column of a stack.
const NULL_HINT: &str = "give a value with `fill_null`, or a mask with `null_mask`";

/// The rows of a matrix are written in turns of at most this number of bytes, so that these rows stay in the
/// processor's cache while each block writes its columns of them.
const BYTES_PER_TURN: usize = 128 << 10;

/// The blocks of all stacks, which row groups hold as lists.
#[derive(Debug)]
pub(crate) struct StackBlocks {
    blocks: Vec<Arc<StackBlock>>,
    /// The columns as row groups hold them.
    schema: SchemaRef,
}

impl StackBlocks {
    /// The blocks of the stacks among `codecs`; `None` without blocks, or if one is not `is_worthwhile`.
    /// `held` has the columns as row groups would hold them without blocks.
    pub(crate) fn new(
        codecs: &[Codec],
        held: &Schema,
        is_worthwhile: impl Fn(&StackBlock) -> bool,
    ) -> Option<Self> {
        let mut blocks: Vec<Arc<StackBlock>> = Vec::new();
        for codec in codecs {
            let Codec::Stack(stack) = codec else { continue };
            // A stack and its mask are two codecs with the same blocks, so each block is taken only once.
            let is_new = |block: &&Arc<StackBlock>| blocks.iter().all(|known| known.places != block.places);
            let new: Vec<Arc<StackBlock>> = stack.blocks().iter().filter(is_new).cloned().collect();
            blocks.extend(new);
        }
        let mut fields: Vec<_> = held.fields().iter().cloned().collect();
        for block in &blocks {
            for place in &block.places {
                let of = if *place == block.places[0] { block.data_type() } else { DataType::Null };
                fields[*place] =
                    Arc::new(fields[*place].as_ref().clone().with_data_type(of).with_nullable(true));
            }
        }
        let are_made = !blocks.is_empty() && blocks.iter().all(|block| is_worthwhile(block));
        are_made.then(|| StackBlocks { blocks, schema: Arc::new(Schema::new(fields)) })
    }

    /// The columns as row groups hold them.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Makes the blocks of a row group from its columns.
    pub(super) fn hold(&self, columns: &mut [ArrayRef], rows: usize) -> Result<()> {
        self.blocks.iter().try_for_each(|block| block.hold(columns, rows))
    }
}

impl Collation {
    /// The matrix of a stack, in a buffer of the loader's pool, and the bad rows by their indices among all
    /// picked rows.
    pub(super) fn stack(
        &self,
        column: usize,
        view: &View,
        stack: &dyn StackColumns,
    ) -> Result<(ArrayRef, Vec<(usize, Error)>)> {
        let (collator, rows) = (&self.request.collator, view.picks.len());
        let mut matrix = collator.buffers.take(stack.row_bytes() * rows);
        let mut bad = Vec::new();
        let blocks = if collator.blocks.is_some() { stack.blocks() } else { &[] };
        let mut first = 0;
        for block in blocks {
            bad.extend(self.members(first..block.first, view, stack, matrix.rows())?);
            first = block.first + block.len();
        }
        bad.extend(self.members(first..stack.members().len(), view, stack, matrix.rows())?);
        bad.extend(self.blocks(blocks, view, stack, matrix.rows())?);
        let matrix = tensor(collator.row_field(column), matrix.into_buffer(), rows)?;
        Ok((matrix, view.bad_among_all(bad).collect()))
    }

    /// Writes some columns of a stack, which are in none of its blocks.
    fn members(
        &self,
        range: Range<usize>,
        view: &View,
        stack: &dyn StackColumns,
        matrix: &mut [u8],
    ) -> Result<Vec<(usize, Error)>> {
        let (mut bad, first) = (Vec::new(), range.start);
        for (turn, members) in stack.members()[range].chunks(STACKED_TOGETHER).enumerate() {
            let mut columns = Vec::with_capacity(members.len());
            for member in members {
                let (values, mut refused) = self.member(member, view)?;
                refused.extend(nulls(values.as_ref()));
                bad.extend(self.request.refused(member.place, view, refused));
                columns.push(values);
            }
            stack.write(first + turn * STACKED_TOGETHER, &columns, matrix)?;
        }
        Ok(bad)
    }

    /// Writes the columns of all blocks, a few rows in each turn.
    fn blocks(
        &self,
        blocks: &[Arc<StackBlock>],
        view: &View,
        stack: &dyn StackColumns,
        matrix: &mut [u8],
    ) -> Result<Vec<(usize, Error)>> {
        let Some(first) = blocks.first() else { return Ok(Vec::new()) };
        let runs = self.selection(view, &first.data_type()).to_runs();
        let values = blocks.iter().map(|block| self.values(block)).collect::<Result<Vec<_>>>()?;
        let bytes = blocks.iter().zip(&values).map(|(block, values)| block.bytes(values));
        let bytes = bytes.collect::<Result<Vec<_>>>()?;
        let slices = bytes.iter().map(|of| Some(of.as_ref()?.iter().map(Buffer::as_slice).collect()));
        let slices: Vec<Option<Vec<&[u8]>>> = slices.collect();
        let row = stack.row_bytes();
        let (mut bad, mut before, mut rest) = (Vec::new(), 0, matrix);
        for (rows, runs) in turns(&runs, (BYTES_PER_TURN / row).max(1)) {
            let (of_turn, after) = rest.split_at_mut(rows * row);
            for ((block, values), slices) in blocks.iter().zip(&values).zip(&slices) {
                match slices {
                    Some(slices) => {
                        let width = row / stack.members().len();
                        copy_rows(&runs, slices, block.len() * width, block.first * width, row, of_turn);
                    }
                    None => {
                        let refused = self.convert(block, values, &runs, stack, of_turn)?;
                        for (column, row, error) in refused {
                            let at = vec![(before + row, error)];
                            bad.extend(self.request.refused(block.places[column], view, at));
                        }
                    }
                }
            }
            (before, rest) = (before + rows, after);
        }
        Ok(bad)
    }

    /// The values of the lists that each source holds for a block. The rows of a row group that could not be
    /// read have no lists: null values stand for them.
    fn values(&self, block: &StackBlock) -> Result<Vec<ArrayRef>> {
        let held = self.rows.rows.iter().map(|rows| rows.batch.column(block.places[0]));
        let values = held.map(|held| match held.as_fixed_size_list_opt() {
            Some(lists) => Ok(lists.values().clone()),
            None if held.null_count() == held.len() => Ok(block.no_values(held.len())),
            None => Err(Error::new(ErrorKind::Internal, "a block of stacked columns is held as columns")),
        });
        values.collect()
    }

    /// Writes the rows of a block whose values are not delivered as they are stored, and returns the column
    /// and the row of each bad value.
    fn convert(
        &self,
        block: &StackBlock,
        values: &[ArrayRef],
        runs: &[Run],
        stack: &dyn StackColumns,
        matrix: &mut [u8],
    ) -> Result<Vec<(usize, usize, Error)>> {
        let length = block.len();
        let sources: Vec<&dyn Array> = values.iter().map(AsRef::as_ref).collect();
        let of_values = |rows: u32| rows * length as u32;
        let of_run = |run: &Run| Run { start: of_values(run.start), rows: of_values(run.rows), ..*run };
        let rows = runs.iter().map(|run| run.rows as usize).sum::<usize>();
        let selection = Selection::Runs { runs: runs.iter().map(of_run).collect(), rows: rows * length };
        let (values, mut refused) = block.gather.gather(&sources, &selection)?;
        refused.extend(nulls(values.as_ref()));
        stack.write_lists(block.first, values.as_ref(), length, matrix)?;
        Ok(refused.into_iter().map(|(value, error)| (value % length, value / length, error)).collect())
    }

    /// The values of one of the columns that a stack combines.
    fn member(&self, member: &StackedColumn, view: &View) -> Result<GatheredRows> {
        let arrays = self.rows.rows.iter().map(|rows| rows.batch.column(member.place).as_ref());
        let arrays: Vec<&dyn Array> = arrays.collect();
        if let Some(keys) = self.keys(member.place, &arrays)? {
            let of_source = || Selection::of_one(self.picked_sources(view).collect());
            return member.gather.gather(&[&keys], view.of_source.get_or_init(of_source));
        }
        let data_type = arrays.first().map_or(&DataType::Null, |array| array.data_type());
        member.gather.gather(&arrays, self.selection(view, data_type))
    }
}

/// The rows that are null.
fn nulls(values: &dyn Array) -> Vec<(usize, Error)> {
    let Some(nulls) = values.nulls().filter(|nulls| nulls.null_count() > 0) else { return Vec::new() };
    let missing = (0..values.len()).filter(|row| nulls.is_null(*row));
    let error = || Error::new(ErrorKind::BadRow, "null where a value is stacked").hint(NULL_HINT);
    missing.map(|row| (row, error())).collect()
}

/// Cuts `runs` into turns of at most `most` rows. Each turn is returned as its number of rows and its runs.
fn turns(runs: &[Run], most: usize) -> impl Iterator<Item = (usize, Vec<Run>)> {
    let mut left = runs.iter().copied();
    let mut begun: Option<Run> = None;
    std::iter::from_fn(move || {
        let (mut of_turn, mut rows) = (Vec::new(), 0);
        while rows < most
            && let Some(run) = begun.take().or_else(|| left.next())
        {
            let taken = run.rows.min((most - rows) as u32);
            of_turn.push(Run { rows: taken, ..run });
            rows += taken as usize;
            let after = Run { start: run.start + taken, rows: run.rows - taken, ..run };
            begun = Some(after).filter(|run| run.rows > 0);
        }
        (rows > 0).then_some((rows, of_turn))
    })
}
