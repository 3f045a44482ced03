//! Makes a batch from rows in memory: gathers its plain columns, and decodes other columns cell by cell
//! straight into the memory of the batch.

mod following;
mod packs;
mod stacks;
mod views;
mod windows;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::BytesMut;
use forebay_arrow::array::{
    Array, ArrayRef, BooleanArray, Int64Array, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array,
};
use forebay_arrow::buffer::BooleanBuffer;
use forebay_arrow::compute::{concat, take};
use forebay_arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use forebay_arrow::fail::OrFail;
use forebay_base::error::caught;
use forebay_base::{Error, ErrorKind, Place, Result};
use forebay_image::{RowKey, Workspace};
use forebay_store::catalog::{Catalog, GroupIds, RowId, joined};
use rayon::ThreadPool;

use super::bad_rows::{BadRow, OnBadRow, SKIP_HINT};
use super::batch_group::PackRows;
use super::buffer_pool::{BufferPool, PooledBuffer};
use super::lengths::{FoundRow, Lengths};
use super::queue::Sender;
use crate::batch::{
    Selection, ValueNumbers, gather, is_narrow, narrow_bits, needs_values, null_field, null_rows,
};
use crate::column::{Codec, DecodeCells, GatheredRows, Held, PackedValues, RowCells, clips, images, tensor};
use crate::monitor::{Monitor, Watch};
use crate::reader::{Copies, Resident, Rows};
use crate::shard::{column_key, repeat_key, row_key};
pub(super) use packs::{CU_SEQLENS, POSITION_IDS, PackShape, SEGMENT_IDS};
pub(crate) use stacks::StackBlocks;
use views::{Picks, View};
pub(super) use windows::{WindowColumn, WindowShape};

/// Makes the batches of a loader from rows in memory, as the loader's options ask.
#[derive(Debug)]
pub(crate) struct Collator {
    pub(crate) catalog: Arc<Catalog>,
    /// The codec of each column of the projection.
    pub(crate) codecs: Vec<Codec>,
    /// The fields of all columns, in the order of `codecs`; columns without a codec, such as row ids, come
    /// last.
    pub(crate) all: SchemaRef,
    /// The schema of batches. It lacks the columns of `all` that a stacked column contains.
    pub(crate) schema: SchemaRef,
    pub(crate) form: SampleForm,
    /// The most batches that are made together. A column of a row group is then read while it is in the
    /// processor's cache, and not again for each batch.
    pub(crate) group: usize,
    pub(crate) on_bad_row: OnBadRow,
    /// Whether row groups in memory keep a list with the shuffled order of their rows. The list is needed for
    /// columns that stay in stored order in memory, and to name bad rows.
    pub(crate) needs_deals: bool,
    /// Whether batches say which rows of the data set they hold.
    pub(crate) numbered: bool,
    /// Whether batches have a column of row ids.
    pub(crate) row_id: bool,
    /// Whether batches have a boolean column that is false for rows that only pad or replace others.
    pub(crate) row_mask: bool,
    /// For each column that is read: whether it has a single value in each file.
    pub(crate) keys: Vec<bool>,
    /// The schema of row groups in memory, if a codec converts a column once for the whole row group; `None`
    /// if row groups are held as they are stored.
    pub(crate) held: Option<SchemaRef>,
    /// The blocks of stacked columns, which row groups hold as lists.
    pub(crate) blocks: Option<StackBlocks>,
    /// Whether rows may come from a cache, which keeps them as they are stored.
    pub(crate) is_cached: bool,
    pub(crate) buffers: BufferPool,
    /// The scratch memory that decoders share.
    pub(crate) workspace: Workspace,
    pub(crate) monitor: Arc<Monitor>,
    /// The seed of the augmentation.
    pub(crate) seed: u64,
    /// For each column, a number that becomes a part of the keys of its random numbers. Columns that change
    /// together with an image have the number of the image's column.
    pub(crate) tags: Vec<u64>,
    pub(crate) lengths: Lengths,
}

/// The form of the samples that the rows of a batch make.
#[derive(Debug)]
pub(crate) enum SampleForm {
    /// Each row is a sample.
    Rows,
    /// Each sample is a window of several rows.
    Windows(WindowShape),
    /// Each sample is a pack of lists.
    Packs(PackShape),
}

impl SampleForm {
    pub(crate) fn is_rows(&self) -> bool {
        matches!(self, SampleForm::Rows)
    }

    /// Whether the lists of a column are packed.
    pub(crate) fn packs(&self, column: usize) -> bool {
        matches!(self, SampleForm::Packs(packs) if packs.is_packed(column))
    }

    /// The bytes of a sample that do not depend on the number of its rows.
    pub(crate) fn beside_rows(&self) -> u64 {
        match self {
            SampleForm::Packs(packs) => packs.bytes(),
            SampleForm::Rows | SampleForm::Windows(_) => 0,
        }
    }
}

/// The schema of row groups in memory, after [`Collator::prepared`] or, for rows from a cache,
/// [`Collator::copies`] has converted their columns; `None` if no column is converted.
pub(crate) fn held_schema(
    stored: &SchemaRef,
    codecs: &[Codec],
    keys: &[bool],
    is_cached: bool,
) -> Option<SchemaRef> {
    // Some codecs read the stored values of other columns.
    if codecs.iter().any(|codec| matches!(codec, Codec::Follow(_) | Codec::FollowOf(..))) {
        return None;
    }
    let fields = stored.fields().iter().zip(codecs).zip(keys);
    let fields: Vec<FieldRef> = fields
        .map(|((field, codec), is_key)| match held_of(codec, *is_key, is_cached) {
            Some(held) => Arc::new(field.as_ref().clone().with_data_type(held.data_type().clone())),
            None => field.clone(),
        })
        .collect();
    let is_stored = fields.iter().zip(stored.fields()).all(|(held, stored)| held == stored);
    (!is_stored).then(|| Arc::new(Schema::new(fields)))
}

/// The conversion of a column for row groups in memory; `None` if they hold its stored values. With a cache,
/// a column is converted only if its stored and converted types always differ, because some row groups from a
/// cache hold stored values.
fn held_of(codec: &Codec, is_key: bool, is_cached: bool) -> Option<&dyn Held> {
    codec.held().filter(|held| !is_key && (held.is_told_apart() || !is_cached))
}

/// The pass over a source of the loader that rows of a batch come from.
#[derive(Clone)]
pub(crate) struct BatchPass {
    pub(crate) collator: Arc<Collator>,
    pub(crate) epoch: u64,
    /// The number of its row groups among the sources of the batch.
    pub(crate) sources: usize,
    pub(crate) cancelled: Arc<AtomicBool>,
    pub(crate) watch: Watch,
    /// The batch maker counts the clones of this value to find out whether batches are still being made.
    pub(crate) _running: Arc<()>,
}

/// The rows of one batch, or of several that are collated together.
#[derive(Clone)]
pub(crate) struct BatchRows {
    /// The collator of the first pass. Those of the other passes make the same columns.
    pub(crate) collator: Arc<Collator>,
    /// The passes that the rows come from: one, or one for each source of a mix.
    pub(crate) passes: Vec<BatchPass>,
    /// The row groups, or parts of them, that the rows come from, pass by pass. Each keeps its memory permit
    /// until the batch is made.
    pub(crate) sources: Vec<Arc<Resident>>,
    pub(crate) picks: Picks,
    /// How many samples at the end of the batch repeat samples of another rank, so that all ranks have
    /// batches of equal size. It is used for `row_mask`, which a mix does not have.
    pub(crate) repeated: usize,
    /// How the rows are divided among packs, if the samples are packs.
    pub(crate) packs: Option<Arc<PackRows>>,
    /// For each row, the number of its earlier deliveries in this epoch; `None` if each row is delivered
    /// once.
    pub(crate) repeats: Option<Arc<[u32]>>,
    /// The indices in `picks` of the denied rows, which are not delivered, in ascending order.
    pub(crate) withheld: Arc<[u32]>,
}

/// A batch, and its bad rows that were skipped at the user's request.
pub(crate) struct Collated {
    pub(crate) batch: RecordBatch,
    pub(crate) skipped: Vec<BadRow>,
    /// The number of samples (rows, windows or packs) that were planned for the batch, including those left
    /// out.
    pub(crate) samples: usize,
    /// The number of repeated samples that fill the places of samples left out.
    pub(crate) refilled: u64,
    /// The numbers of the batch's rows in the data set; empty unless they are wanted.
    pub(crate) numbers: Arc<[u64]>,
    /// The key of each row from which its random numbers are made, such as those of a crop; `None` unless a
    /// row may be delivered several times.
    pub(crate) keys: Option<Arc<[u64]>>,
    /// The batch that the rows were made in, if they are a share of a mix's step and were made together with
    /// the other shares.
    pub(crate) whole: Option<Whole>,
}

/// A batch that has the rows of several shares of a step, one share after the other.
#[derive(Clone)]
pub(crate) struct Whole {
    pub(crate) batch: Arc<RecordBatch>,
    /// The index in it of the first row of this share.
    pub(crate) from: usize,
}

/// One large batch of all rows that are collated together, before it is cut into the batches of single steps.
struct Complete {
    batch: RecordBatch,
    /// The bad rows with their errors, each by its index among all picked rows.
    bad: Vec<(usize, Error)>,
    /// The samples that are not delivered, in ascending order: those with bad rows, and those that are
    /// denied.
    left_out: Vec<usize>,
    /// The samples to deliver, in order, with repeats that replace others; `None` if no sample is left out.
    kept: Option<Vec<usize>>,
}

/// The least number of bytes that one task gathers from columns of fixed width. Narrow columns share a task,
/// so a thousand of them do not become a thousand tasks.
const GATHERED_PER_TASK: usize = 256 << 10;

/// A batch, or several that are made together, while tasks on the thread pool fill its columns. The last task
/// to finish puts the result together.
///
/// No task waits for another, so the pool works through batches in the order in which they were started. With
/// a fork-join for each batch, a thread that waits for a stolen half would begin the next batch meanwhile,
/// and could hand over the first one only when both are done.
struct Collation {
    request: BatchRows,
    /// The rows of the sources, as they were when the batch was begun.
    rows: SourceRows,
    views: Vec<View>,
    results: Mutex<TaskResults>,
    /// The number of unfinished tasks.
    unfinished: AtomicUsize,
    /// The number of samples in each batch.
    sizes: Vec<usize>,
    /// The channels to send the batches to.
    outputs: Vec<Sender<Result<Collated>>>,
}

/// The rows in memory of each source. Sources that were decoded together share one `Rows`.
#[derive(Clone)]
struct SourceRows {
    rows: Vec<Arc<Rows>>,
    /// For each source, the index of its rows in `rows`.
    of: Vec<u32>,
}

/// The results of the tasks so far.
#[derive(Default)]
struct TaskResults {
    columns: Vec<Option<ArrayRef>>,
    decoded: Vec<Slots>,
    /// Bad rows, by their indices among all picked rows, in the order in which tasks found them.
    bad: Vec<(usize, Error)>,
    failure: Option<Error>,
}

/// The memory of a decoded column, cut into one slot for each cell. If an image column has several views,
/// their columns are filled together. Pieces of neighbouring slots go to tasks, which return them filled.
struct Slots {
    /// The number of slots in a piece.
    cells: usize,
    /// The columns that are filled together. The first is the one whose cells are decoded.
    columns: Vec<ColumnSlots>,
}

/// The memory of one column in a batch.
struct ColumnSlots {
    column: usize,
    /// The bytes of one slot.
    bytes: usize,
    /// The buffer; `None` until the first task takes it from the buffer pool. So a batch that waits for a
    /// thread holds no buffer, and a buffer that was just released is reused at once.
    buffer: Option<PooledBuffer>,
    pieces: Vec<Option<BytesMut>>,
}

/// Neighbouring slots of a column, which one task fills.
struct Piece {
    slots: BytesMut,
    /// The bytes of one slot.
    bytes: usize,
}

enum Task {
    /// Gathers neighbouring columns.
    Gather(Range<usize>),
    /// Decodes cells into a piece of a column: the index of the column in `TaskResults::decoded`, and the
    /// index of the piece.
    Decode(usize, usize),
}

impl Piece {
    /// The number of slots.
    fn count(&self) -> usize {
        self.slots.len() / self.bytes
    }
}

impl SourceRows {
    fn new(sources: &[Arc<Resident>]) -> Self {
        let mut rows: Vec<Arc<Rows>> = Vec::new();
        let mut known = HashMap::new();
        // `last` has the rows of the previous source and their index, because neighbouring sources often
        // share their rows.
        let mut last = (std::ptr::null(), 0);
        let of = sources.iter().map(|source| {
            source.with_rows(|found| {
                if last.0 != Arc::as_ptr(found) {
                    let index = *known.entry(Arc::as_ptr(found)).or_insert_with(|| {
                        rows.push(found.clone());
                        rows.len() as u32 - 1
                    });
                    last = (Arc::as_ptr(found), index);
                }
                last.1
            })
        });
        let of = of.collect();
        SourceRows { rows, of }
    }

    fn rows_of(&self, source: usize) -> &Arc<Rows> {
        &self.rows[self.of[source] as usize]
    }

    /// The cells of a row in all columns.
    fn cells(&self, source: u32, row: u32) -> RowCells<'_> {
        let rows = self.rows_of(source as usize);
        RowCells::new(&rows.batch, row as usize, rows.is_mapped())
    }
}

impl BatchRows {
    /// Starts the tasks that make the batches. `outputs` has the number of samples of each batch, and the
    /// channel to which it is sent.
    pub(crate) fn start(self, pool: &ThreadPool, outputs: Vec<(usize, Sender<Result<Collated>>)>) {
        let (sizes, outputs) = outputs.into_iter().unzip();
        let (collation, tasks) = Collation::new(self, sizes, outputs);
        let collation = Arc::new(collation);
        for task in tasks {
            let collation = collation.clone();
            pool.spawn_fifo(move || collation.work(task));
        }
    }

    /// Decodes the cells of consecutive rows, beginning with row `from` of the view, into the slots of the
    /// pieces. Returns the bad rows by their indices among all picked rows.
    fn decode(
        &self,
        source_rows: &SourceRows,
        column: usize,
        view: &View,
        from: usize,
        pieces: &mut [Piece],
    ) -> Result<Vec<(usize, Error)>> {
        let collator = &self.collator;
        let codec = &collator.codecs[column];
        let mut bad = Vec::new();
        let count = pieces.first().map_or(0, Piece::count);
        let mut each: Vec<_> =
            pieces.iter_mut().map(|piece| piece.slots.chunks_exact_mut(piece.bytes)).collect();
        let mut slots = Vec::with_capacity(each.len());
        for at in 0..count {
            slots.clear();
            slots.extend(each.iter_mut().filter_map(Iterator::next));
            if self.is_cancelled() {
                return Err(Error::new(ErrorKind::Closed, "the epoch was left"));
            }
            let (source, place) = view.picks[from + at];
            let resident = &self.sources[source as usize];
            if resident.lost.is_some() {
                continue;
            }
            let key = self.key(column, view, from + at);
            let cells = source_rows.cells(source, resident.row_at(place));
            let decoded = match codec {
                Codec::Cells(codec) if codec.takes_window() => {
                    let Some(slot) = slots.first_mut() else { continue };
                    if let Some((pick, error)) =
                        self.decode_window(codec.as_ref(), column, source_rows, view, from + at, slot)
                    {
                        bad.push((pick, self.placed(error, pick, column)));
                    }
                    continue;
                }
                Codec::Cells(codec) => {
                    codec.decode_row(column, cells, key, &collator.workspace, &mut slots)?
                }
                Codec::Numbers(numbers) => {
                    slots.iter_mut().try_for_each(|slot| numbers.draw(cells, key, slot))
                }
                _ => Ok(()),
            };
            if let Err(error) = decoded {
                bad.push((view.among_all(from + at), error.at(self.place((source, place), column))));
            }
        }
        Ok(bad)
    }

    /// Decodes the cells of one window of rows into a slot, and returns the index and the error of a bad row.
    /// Does nothing if a row of the window could not be read, which [`lost`](Self::lost) reports.
    fn decode_window(
        &self,
        codec: &dyn DecodeCells,
        column: usize,
        rows: &SourceRows,
        view: &View,
        at: usize,
        slot: &mut [u8],
    ) -> Option<(usize, Error)> {
        let SampleForm::Windows(windows) = &self.collator.form else { return None };
        let (first, frames) = (view.among_all(at), windows.frames_of(column));
        let first = first - first % windows.length;
        let picks = frames.iter().map(|row| first + *row as usize);
        if picks.clone().any(|pick| self.sources[self.picks[pick].0 as usize].lost.is_some()) {
            return None;
        }
        let cells = picks.clone().map(|pick| {
            let (source, place) = self.picks[pick];
            let row = self.sources[source as usize].row_at(place);
            (rows.cells(source, row), self.key_of(column, pick))
        });
        let (cells, key) = (cells.collect::<Vec<_>>(), self.key_of(column, first));
        let decoded = codec.decode_window(column, &cells, key, &self.collator.workspace, slot);
        decoded.err().map(|(at, error)| (first + frames[at] as usize, error))
    }

    /// Adds to an error the row and the column in which it occurred.
    fn placed(&self, error: Error, pick: usize, column: usize) -> Error {
        error.at(self.place(self.picks[pick], column))
    }

    /// The file, row group, row and column to name in an error about a row.
    fn place(&self, (source, place): (u32, u32), column: usize) -> Place {
        self.pass_of(source).collator.place(&self.sources[source as usize], place, column)
    }

    /// The pass that the rows of a source belong to.
    fn pass_of(&self, source: u32) -> &BatchPass {
        let mut end = 0;
        let is_of = |pass: &&BatchPass| {
            end += pass.sources;
            (source as usize) < end
        };
        self.passes.iter().find(is_of).unwrap_or(&self.passes[0])
    }

    /// Whether nobody wants the rows any more.
    pub(super) fn is_cancelled(&self) -> bool {
        self.passes.iter().all(|pass| pass.cancelled.load(Relaxed))
    }
}

impl BatchRows {
    /// The rows of a gathered column that have a null where the batch needs a value, if bad rows are left
    /// out. The result is empty for [`OnBadRow::Raise`]: the nulls are then delivered, and a consumer whose
    /// arrays cannot hold nulls refuses them.
    fn nulls(&self, column: usize, view: &View, gathered: &dyn Array) -> Vec<(usize, Error)> {
        let collator = &self.collator;
        if matches!(collator.on_bad_row, OnBadRow::Raise) || !needs_values(gathered.data_type()) {
            return Vec::new();
        }
        let missing = null_rows(gathered).into_iter().filter_map(|at| {
            let (source, place) = view.picks[at];
            let resident = &self.sources[source as usize];
            let path = null_field(gathered, at);
            let cause = match path.is_empty() {
                true => "null where a value is needed".to_owned(),
                false => {
                    let field = joined(collator.all.field(column).name(), &path);
                    format!("null where a value is needed, in {field:?}")
                }
            };
            let error = Error::new(ErrorKind::BadRow, cause);
            resident.lost.is_none().then(|| (at, error.at(self.place((source, place), column))))
        });
        missing.collect()
    }

    /// Takes the rows that a codec cannot deliver, and adds to each error the place of its row. Leaves out
    /// rows that could not be read, which [`lost`](Self::lost) reports.
    fn refused(&self, column: usize, view: &View, rows: Vec<(usize, Error)>) -> Vec<(usize, Error)> {
        let placed = rows.into_iter().filter_map(|(at, error)| {
            let (source, place) = view.picks[at];
            let resident = &self.sources[source as usize];
            resident.lost.is_none().then(|| (at, error.at(self.place((source, place), column))))
        });
        placed.collect()
    }

    /// The key for the random draws of a column in row `at` of its view. The rows of a window may share the
    /// key of the window's first row.
    fn key(&self, column: usize, view: &View, at: usize) -> RowKey {
        let pick = view.among_all(at);
        let drawn_with = match &self.collator.form {
            SampleForm::Windows(windows) if windows.frames.are_together() => pick - pick % windows.length,
            _ => pick,
        };
        self.key_of(column, drawn_with)
    }

    /// The key for the random draws of a column in one of the picked rows.
    fn key_of(&self, column: usize, pick: usize) -> RowKey {
        let tags = &self.pass_of(self.picks[pick].0).collator.tags;
        RowKey(column_key(self.row_key(pick), tags[column]))
    }

    /// The key of one of the picked rows, for any random draws.
    fn row_key(&self, pick: usize) -> u64 {
        let (source, place) = self.picks[pick];
        let BatchPass { collator, epoch, .. } = self.pass_of(source);
        let ordinal = collator.ordinal(&self.sources[source as usize], place);
        let repeat = self.repeats.as_ref().and_then(|repeats| repeats.get(pick)).copied().unwrap_or(0);
        repeat_key(row_key(collator.seed, *epoch, ordinal), repeat)
    }

    /// The sample to which a row of the batch belongs.
    fn sample_of(&self, row: usize) -> usize {
        match (&self.collator.form, &self.packs) {
            (SampleForm::Windows(windows), _) => row / windows.length,
            (_, Some(packs)) => packs.pack_of(row),
            _ => row,
        }
    }

    /// The indices in a column of the rows that belong to these samples. The column has `each` rows for each
    /// sample; in packs, a column that is not packed has the rows of all lists.
    fn rows_of_samples(&self, samples: &[usize], column: usize, each: usize) -> Vec<usize> {
        match &self.packs {
            Some(packs) if !self.collator.form.packs(column) => {
                samples.iter().flat_map(|pack| packs.rows_of(*pack)).collect()
            }
            _ => samples.iter().flat_map(|sample| sample * each..(sample + 1) * each).collect(),
        }
    }

    /// The number of samples that the rows make.
    fn samples(&self) -> usize {
        match (&self.collator.form, &self.packs) {
            (SampleForm::Windows(windows), _) => self.picks.len() / windows.length,
            (_, Some(packs)) => packs.ends.len(),
            _ => self.picks.len(),
        }
    }

    /// The ids of the rows that these picks name.
    fn row_ids(&self, picks: impl Iterator<Item = usize>) -> Int64Array {
        let mut picks = picks.peekable();
        if picks.peek().is_none() {
            return Int64Array::from_iter_values([]);
        }
        let of = |(source, resident): (u32, &Arc<Resident>)| {
            self.pass_of(source).collator.catalog.ids_of(resident.part.group as usize)
        };
        let ids: Vec<GroupIds<'_>> = (0..).zip(&self.sources).map(of).collect();
        let number = |pick: usize| {
            let (source, place) = self.picks[pick];
            ids[source as usize].at(self.sources[source as usize].row_in_group(place)).get()
        };
        Int64Array::from_iter_values(picks.map(number))
    }

    /// The picked rows of row groups that could not be read, each with the error of its row group.
    fn lost(&self) -> Vec<(usize, Error)> {
        if self.sources.iter().all(|source| source.lost.is_none()) {
            return Vec::new();
        }
        let rows = self.picks.iter().enumerate();
        let lost =
            rows.filter_map(|(at, (source, _))| Some((at, self.sources[*source as usize].lost.clone()?)));
        lost.collect()
    }
}

impl Collation {
    fn new(
        request: BatchRows,
        sizes: Vec<usize>,
        outputs: Vec<Sender<Result<Collated>>>,
    ) -> (Collation, Vec<Task>) {
        let codecs = &request.collator.codecs;
        let views = match &request.collator.form {
            SampleForm::Windows(windows) => windows.views(&request.picks),
            SampleForm::Rows | SampleForm::Packs(_) => vec![View::all(request.picks.clone())],
        };
        let view = |column: usize| &views[request.collator.view(column)];
        let mut tasks = Vec::new();
        // The number of bytes that the last `Gather` task gathers so far.
        let mut gathered = 0;
        let mut results = TaskResults { columns: vec![None; codecs.len()], ..TaskResults::default() };
        for (column, codec) in codecs.iter().enumerate() {
            match codec.slot() {
                None if matches!(codec, Codec::Stacked) => {}
                None => {
                    let width = request.collator.row_field(column).data_type().primitive_width();
                    let bytes = width.map_or(GATHERED_PER_TASK, |width| width * view(column).picks.len());
                    match tasks.last_mut() {
                        Some(Task::Gather(columns))
                            if columns.end == column && gathered < GATHERED_PER_TASK =>
                        {
                            columns.end += 1;
                            gathered += bytes;
                        }
                        _ => {
                            tasks.push(Task::Gather(column..column + 1));
                            gathered = bytes;
                        }
                    }
                }
                Some(bytes) => {
                    let slots = ColumnSlots { column, bytes, buffer: None, pieces: Vec::new() };
                    if let Codec::View { first, .. } = codec {
                        let first = |of: &&mut Slots| of.columns[0].column == *first;
                        if let Some(of) = results.decoded.iter_mut().find(first) {
                            of.columns.push(slots);
                        }
                        continue;
                    }
                    let (place, cells) = (results.decoded.len(), codec.cells_per_task());
                    let pieces = view(column).picks.len().div_ceil(cells);
                    results.decoded.push(Slots { cells, columns: vec![slots] });
                    tasks.extend((0..pieces).map(|piece| Task::Decode(place, piece)));
                }
            }
        }
        let collation = Collation {
            views,
            rows: SourceRows::new(&request.sources),
            request,
            results: Mutex::new(results),
            unfinished: AtomicUsize::new(tasks.len()),
            sizes,
            outputs,
        };
        (collation, tasks)
    }

    fn lock(&self) -> MutexGuard<'_, TaskResults> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self, task: Task) {
        if let Err(error) = caught(|| self.perform(task)) {
            self.lock().failure.get_or_insert(error);
        }
        if self.unfinished.fetch_sub(1, AcqRel) == 1 {
            self.send(caught(|| self.complete()));
        }
    }

    /// The rows for which a column is delivered.
    fn view(&self, column: usize) -> &View {
        &self.views[self.request.collator.view(column)]
    }

    /// The rows to copy from a column of this type, in output order. Narrow columns may be in shuffled order
    /// in memory; all others are in stored order.
    fn selection<'a>(&self, view: &'a View, data_type: &DataType) -> &'a Selection {
        let of = &self.rows.of;
        match is_narrow(data_type) && self.request.sources.iter().any(|source| source.is_dealt()) {
            true => view
                .dealt
                .get_or_init(|| Selection::near(self.rows_at(view, Resident::dealt_rows_at).collect(), of)),
            false => view.stored.get_or_init(|| {
                let rows = self.rows_at(view, Resident::rows_at);
                Selection::new(rows.map(|(source, row)| (of[source as usize], row)).collect())
            }),
        }
    }

    /// For each pick, its source and the index of its row in memory. For a source, `rows_of` gives the index
    /// of its first row and, if its rows are not in shuffled order, the row at each place of that order.
    fn rows_at<'a>(
        &'a self,
        view: &'a View,
        rows_of: impl Fn(&Resident) -> (u32, Option<&[u32]>),
    ) -> impl ExactSizeIterator<Item = (u32, u32)> {
        let sources: Vec<_> = self.request.sources.iter().map(|source| rows_of(source)).collect();
        view.picks.iter().map(move |&(source, place)| {
            let (first, deal) = sources[source as usize];
            (source, first + deal.map_or(place, |deal| deal[place as usize]))
        })
    }

    /// For each pick, the index in `self.rows.rows` of the rows that it comes from.
    fn picked_sources(&self, view: &View) -> impl Iterator<Item = u32> {
        view.picks.iter().map(|(source, _)| self.rows.of[*source as usize])
    }

    /// For a column with a single value in each file: that value for each element of `self.rows.rows`.
    fn keys(&self, column: usize, arrays: &[&dyn Array]) -> Result<Option<ArrayRef>> {
        let is_key = self.request.collator.keys.get(column).is_some_and(|is_key| *is_key);
        if !is_key {
            return Ok(None);
        }
        // If an array is empty, no pick has a row of it, and a null takes the place of its value.
        let first = |array: &&dyn Array| match array.is_empty() {
            true => new_null_array(array.data_type(), 1),
            false => array.slice(0, 1),
        };
        let values: Vec<ArrayRef> = arrays.iter().map(first).collect();
        let values: Vec<&dyn Array> = values.iter().map(AsRef::as_ref).collect();
        concat(&values).or_fail().map(Some)
    }

    /// Takes a piece out of each column that a decoding task fills. Also returns the column whose cells are
    /// decoded.
    fn slots(&self, place: usize, piece: usize) -> Option<(usize, Vec<Piece>)> {
        let mut results = self.lock();
        let Slots { cells, columns } = &mut results.decoded[place];
        let first = columns.first()?.column;
        let mut taken = Vec::with_capacity(columns.len());
        for ColumnSlots { column, bytes, buffer, pieces } in columns {
            if buffer.is_none() {
                let rows = self.view(*column).picks.len();
                let taken = buffer.insert(self.request.collator.buffers.take(*bytes * rows));
                *pieces = taken.split(*bytes * *cells).into_iter().map(Some).collect();
            }
            taken.push(Piece { slots: pieces[piece].take()?, bytes: *bytes });
        }
        Some((first, taken))
    }

    /// The values of the picked rows in a column. Also returns the bad rows by their indices among all picked
    /// rows.
    fn gather(&self, column: usize) -> Result<(ArrayRef, Vec<(usize, Error)>)> {
        let collator = &self.request.collator;
        let (codec, view) = (&collator.codecs[column], self.view(column));
        if let Codec::Stack(stack) = codec {
            return self.stack(column, view, stack.as_ref());
        }
        let stored = match codec {
            Codec::GatherOf(stored, _) | Codec::FollowOf(stored, _) => *stored,
            _ => column,
        };
        let arrays: Vec<&dyn Array> =
            self.rows.rows.iter().map(|rows| rows.batch.column(stored).as_ref()).collect();
        let held = collator.held(stored);
        let data_type = match held {
            Some(held) => held.data_type(),
            None => arrays.first().map_or(&DataType::Null, |array| array.data_type()),
        };
        let gathered = match (self.keys(column, &arrays)?, &collator.form, &self.request.packs) {
            (None, SampleForm::Packs(packs), Some(rows)) if packs.is_packed(column) => {
                packs.gather(column, &arrays, self.selection(view, data_type), rows)
            }
            (Some(keys), ..) => {
                let of_source = || Selection::of_one(self.picked_sources(view).collect());
                gather_rows(codec, &[&keys], view.of_source.get_or_init(of_source))
            }
            (None, ..) => {
                let selection = self.selection(view, data_type);
                match held {
                    Some(held) => held.gather(&arrays, selection),
                    None => gather_rows(codec, &arrays, selection),
                }
            }
        };
        let name = collator.all.field(column).name();
        let (gathered, refused) =
            gathered.map_err(|error| error.at(Place::default().column(name.as_str())))?;
        let (gathered, mut bad) = self.followed(column, gathered)?;
        bad.extend(self.request.refused(column, view, refused));
        bad.extend(self.request.nulls(column, view, gathered.as_ref()));
        Ok((gathered, view.bad_among_all(bad).collect()))
    }

    fn perform(&self, task: Task) -> Result<()> {
        let collator = &self.request.collator;
        match task {
            Task::Gather(columns) => {
                let rows = columns.clone().map(|column| self.view(column).picks.len() as u64).sum();
                let stage = collator.codecs[columns.start].stage();
                let work = collator.monitor.task(stage, Some(("column", columns.start as u64)));
                let mut bytes = 0;
                let mut done = Vec::with_capacity(columns.len());
                let mut bad = Vec::new();
                for column in columns.clone() {
                    let (gathered, nulls) = self.gather(column)?;
                    bytes += gathered.get_buffer_memory_size() as u64;
                    done.push(Some(gathered));
                    bad.extend(nulls);
                }
                work.done(rows, bytes);
                let mut results = self.lock();
                results.columns[columns].clone_from_slice(&done);
                results.bad.extend(bad);
            }
            Task::Decode(place, piece) => {
                let Some((column, mut pieces)) = self.slots(place, piece) else { return Ok(()) };
                let first = piece * collator.codecs[column].cells_per_task();
                let stage = collator.codecs[column].stage();
                let work = collator.monitor.task(stage, Some(("first_cell", first as u64)));
                let view = self.view(column);
                let bad = self.request.decode(&self.rows, column, view, first, &mut pieces)?;
                let bytes: usize = pieces.iter().map(|piece| piece.slots.len()).sum();
                work.done(pieces.first().map_or(0, Piece::count) as u64, bytes as u64);
                let mut results = self.lock();
                let columns = &mut results.decoded[place].columns;
                columns.iter_mut().zip(pieces).for_each(|(of, done)| of.pieces[piece] = Some(done.slots));
                results.bad.extend(bad);
            }
        }
        Ok(())
    }

    /// Cuts the large batch into the batches of single steps and sends each. If the consumer left the epoch,
    /// the channels are closed and the batches are dropped.
    fn send(&self, complete: Result<Complete>) {
        let passes = &self.request.passes;
        let each = self.outputs.len() / passes.len();
        passes.iter().for_each(|pass| pass.watch.made(each as u64));
        let Complete { batch, bad, left_out: all_left_out, kept } = match complete {
            Ok(complete) => complete,
            Err(error) => {
                return self.outputs.iter().for_each(|output| drop(output.send(Err(error.clone()))));
            }
        };
        let whole = (passes.len() > 1).then(|| Arc::new(batch.clone()));
        let mut bad = bad.into_iter().peekable();
        let is_left_out = |sample: usize| all_left_out.binary_search(&sample).is_ok();
        let (mut end, mut from) = (0, 0);
        for (&samples, output) in self.sizes.iter().zip(&self.outputs) {
            end += samples;
            let left_out: Vec<(usize, Error)> =
                std::iter::from_fn(|| bad.next_if(|(row, _)| self.request.sample_of(*row) < end)).collect();
            let good = samples - (end - samples..end).filter(|sample| is_left_out(*sample)).count();
            let refills = self.request.collator.on_bad_row.refills() && good > 0;
            let rows = if refills { samples } else { good };
            let (numbers, keys) = match &kept {
                None => self.numbers(end - samples..end),
                Some(kept) => self.numbers(kept[from..from + rows].iter().copied()),
            };
            let ids = self.request.row_ids(left_out.iter().map(|(row, _)| *row));
            let skipped = left_out.into_iter().zip(ids.values());
            let skipped = skipped.map(|((pick, error), id)| {
                let (source, place) = self.request.picks[pick];
                let row = self.request.sources[source as usize].row_in_group(place);
                BadRow::new(error, row, RowId::new(*id))
            });
            let skipped = skipped.collect();
            let refilled = (rows - good) as u64;
            let batch = batch.slice(from, rows);
            let whole = whole.clone().map(|batch| Whole { batch, from });
            drop(output.send(Ok(Collated { batch, skipped, samples, refilled, numbers, keys, whole })));
            from += rows;
        }
    }

    /// The numbers of these picks in the data set, if they are wanted, and the keys for their random draws,
    /// if a row may be delivered several times.
    fn numbers(&self, picks: impl Iterator<Item = usize> + Clone) -> (Arc<[u64]>, Option<Arc<[u64]>>) {
        let BatchRows { collator, sources, .. } = &self.request;
        if !collator.numbered {
            return (Arc::default(), None);
        }
        let number = |pick: usize| {
            let (source, place) = self.request.picks[pick];
            self.request.pass_of(source).collator.ordinal(&sources[source as usize], place)
        };
        let key = |pick: usize| self.request.row_key(pick);
        let keys = self.request.repeats.is_some().then(|| picks.clone().map(key).collect());
        (picks.map(number).collect(), keys)
    }

    /// The sources whose memory-mapped rows another program changed while they were gathered.
    fn changed(&self) -> Vec<usize> {
        let SourceRows { rows, of } = &self.rows;
        let is_changed: Vec<bool> = rows.iter().map(|rows| rows.is_mapped() && !rows.is_intact()).collect();
        (0..of.len()).filter(|source| is_changed[of[*source] as usize]).collect()
    }

    /// Assembles the batch. If another program changed memory-mapped rows meanwhile, the result is discarded,
    /// even an error, and the batch is made again from private copies of those rows.
    fn complete(&self) -> Result<Complete> {
        let mut changed = self.changed();
        if changed.is_empty() {
            return self.finish();
        }
        // This releases the buffers of the first attempt before new ones are taken.
        drop(std::mem::take(&mut *self.lock()));
        let mut request = self.request.clone();
        let mut rows = self.rows.clone();
        loop {
            for source in changed {
                if request.is_cancelled() {
                    return Err(Error::new(ErrorKind::Closed, "the epoch was left"));
                }
                let mut wanted = Vec::new();
                let picks = Arc::make_mut(&mut request.picks);
                for pick in picks.iter_mut().filter(|pick| pick.0 as usize == source) {
                    wanted.push(pick.1);
                    pick.1 = wanted.len() as u32 - 1;
                }
                request.sources[source] =
                    Arc::new(request.sources[source].renewed(rows.rows_of(source), &wanted)?);
            }
            let (again, tasks) = Collation::new(request.clone(), self.sizes.clone(), Vec::new());
            let done = tasks.into_iter().try_for_each(|task| again.perform(task));
            // More rows may have been changed since the first check.
            changed = again.changed();
            if changed.is_empty() {
                return done.and_then(|()| again.finish());
            }
            rows = again.rows;
        }
    }

    /// Assembles the batch.
    fn finish(&self) -> Result<Complete> {
        let TaskResults { mut columns, decoded, mut bad, failure } = std::mem::take(&mut *self.lock());
        if let Some(failure) = failure {
            return Err(failure);
        }
        let collator = &self.request.collator;
        bad.extend(self.request.lost());
        // A sample that is both denied and bad counts as denied only.
        let mut left_out: Vec<usize> =
            self.request.withheld.iter().map(|pick| self.request.sample_of(*pick as usize)).collect();
        left_out.dedup();
        bad.retain(|(row, _)| left_out.binary_search(&self.request.sample_of(*row)).is_err());
        // If a row is bad in several columns, the first column's error is kept, whichever thread found it
        // first.
        bad.sort_by_cached_key(|(row, error)| {
            let column = error.place().column.as_deref().and_then(|name| collator.all.index_of(name).ok());
            // The column of an image and the columns that follow it may both report it; the cause then
            // decides.
            (*row, column, error.cause().to_owned())
        });
        if matches!(collator.on_bad_row, OnBadRow::Raise)
            && let Some((_, first)) = bad.first()
        {
            return Err(first.clone().hint_also(SKIP_HINT));
        }
        // One bad row is enough to leave out its sample.
        let sample_of = |row: usize| self.request.sample_of(row);
        bad.dedup_by_key(|(row, _)| sample_of(*row));
        let samples = self.request.samples();
        left_out.extend(bad.iter().map(|(row, _)| sample_of(*row)));
        left_out.sort_unstable();
        let kept = (!left_out.is_empty()).then(|| self.kept(&left_out));
        if let Some(kept) = &kept {
            for (column, gathered) in columns.iter_mut().enumerate() {
                let Some(gathered) = gathered else { continue };
                let each = self.view(column).of_a_sample();
                let rows = self.request.rows_of_samples(kept, column, each);
                let rows = UInt32Array::from_iter_values(rows.into_iter().map(|row| row as u32));
                *gathered = take(gathered, &rows, None).or_fail()?;
            }
        }
        let delivered = kept.as_ref().map_or(samples, Vec::len);
        for ColumnSlots { column, bytes, buffer, pieces } in
            decoded.into_iter().flat_map(|slots| slots.columns)
        {
            let Some(mut buffer) = buffer else { continue };
            buffer.join(pieces.into_iter().flatten());
            let of_a_sample = self.view(column).of_a_sample();
            if let Some(kept) = &kept {
                buffer.retain(bytes * of_a_sample, kept);
            }
            let (field, rows) = (collator.row_field(column), delivered * of_a_sample);
            let packed = match &collator.codecs[column] {
                Codec::Cells(codec) => codec.pack(buffer.rows())?,
                _ => None,
            };
            columns[column] = Some(match packed {
                Some(PackedValues::Images(sizes)) => images(field, buffer.into_buffer(), &sizes)?,
                Some(PackedValues::Clips(counts)) => clips(field, buffer.into_buffer(), &counts)?,
                None => tensor(field, buffer.into_buffer(), rows)?,
            });
        }
        if collator.row_id {
            let ids = match &kept {
                None => self.request.row_ids(0..self.request.picks.len()),
                Some(kept) => {
                    let each = self.request.picks.len() / samples.max(1);
                    self.request.row_ids(self.request.rows_of_samples(kept, columns.len(), each).into_iter())
                }
            };
            columns.push(Some(Arc::new(ids)));
        }
        match (&collator.form, &self.request.packs) {
            (SampleForm::Windows(windows), _) => {
                for (column, rows) in columns.iter_mut().enumerate() {
                    *rows = rows.take().map(|rows| windows.column(column, &rows)).transpose()?;
                }
            }
            (SampleForm::Packs(packs), Some(rows)) => {
                let kept = (0..delivered).map(|at| kept.as_ref().map_or(at, |kept| kept[at]));
                for (column, values) in columns.iter_mut().enumerate() {
                    *values = values
                        .take()
                        .map(|values| packs.column(column, values, rows, kept.clone()))
                        .transpose()?;
                }
                columns.extend(packs.places(rows, kept)?.map(Some));
            }
            _ => {}
        }
        if collator.row_mask {
            let sample = |at: usize| kept.as_ref().map_or(at, |kept| kept[at]);
            // The mask is true for the first delivery of a sample, and false for its repeats in place of
            // other samples and for samples that repeat those of another rank.
            let is_first = |at: usize| at == 0 || sample(at - 1) != sample(at);
            let is_own = |at: usize| sample(at) < samples - self.request.repeated;
            let counts = BooleanBuffer::collect_bool(delivered, |at| is_first(at) && is_own(at));
            columns.push(Some(Arc::new(BooleanArray::new(counts, None))));
        }
        let options = RecordBatchOptions::new().with_row_count(Some(delivered));
        let columns = columns.into_iter().flatten().collect();
        let batch =
            RecordBatch::try_new_with_options(collator.schema.clone(), columns, &options).or_fail()?;
        Ok(Complete { batch, bad, left_out, kept })
    }

    /// The samples to deliver, in ascending order: all but those left out. If batches keep their shape, the
    /// nearest good sample before a sample that is left out is repeated in its place, or else the one after
    /// it in the same batch.
    fn kept(&self, left_out: &[usize]) -> Vec<usize> {
        let mut bad = left_out.iter().copied().peekable();
        let (mut kept, mut first) = (Vec::new(), 0);
        for samples in &self.sizes {
            let end = first + samples;
            let begin = kept.len();
            // The number of left-out samples before the first good one.
            let mut early = 0;
            for sample in first..end {
                if bad.next_if_eq(&sample).is_none() {
                    kept.extend(std::iter::repeat_n(sample, 1 + std::mem::take(&mut early)));
                } else if self.request.collator.on_bad_row.refills() {
                    match kept[begin..].last() {
                        Some(&before) => kept.push(before),
                        None => early += 1,
                    }
                }
            }
            first = end;
        }
        kept
    }
}

/// Gathers the rows of a column, before values such as boxes are changed with their image.
fn gather_rows(codec: &Codec, sources: &[&dyn Array], selection: &Selection) -> Result<GatheredRows> {
    match codec.as_gather() {
        Some(codec) => codec.gather(sources, selection),
        None => Ok((gather(sources, selection, None)?, Vec::new())),
    }
}

impl Collator {
    /// Whether another source's rows can be made into one batch with those of this source: both pack the same
    /// columns, and deliver the others as they are stored.
    pub(crate) fn makes_same(&self, other: &Self) -> bool {
        let is_plain = |codec: &Codec| matches!(codec.as_gather(), Some(codec) if codec.is_plain() && codec.held().is_none());
        let are_same_packs = match (&self.form, &other.form) {
            (SampleForm::Packs(one), SampleForm::Packs(other)) => one == other,
            _ => false,
        };
        are_same_packs
            && [self, other].iter().all(|of| of.codecs.iter().all(is_plain) && !of.row_mask)
            && (&self.all, &self.keys) == (&other.all, &other.keys)
            && (self.on_bad_row, self.row_id, self.numbered)
                == (other.on_bad_row, other.row_id, other.numbered)
    }

    /// The index of the view (the set of rows for which a column is delivered) in [`Collation::views`].
    fn view(&self, column: usize) -> usize {
        match &self.form {
            SampleForm::Windows(windows) => windows.view(column),
            SampleForm::Rows | SampleForm::Packs(_) => 0,
        }
    }

    /// The field that a column's codec delivers for each row.
    fn row_field(&self, column: usize) -> &Field {
        match &self.form {
            SampleForm::Windows(windows) => windows.row_field(column),
            SampleForm::Rows | SampleForm::Packs(_) => self.all.field(column),
        }
    }

    /// Prepares the rows of a row group that no one else uses yet: does all work that takes less for a row
    /// group than for each batch, such as bringing narrow columns into an order while they are in the
    /// processor's cache. Columns are done one after the other, and so are blocks of stacked columns, since
    /// the budget covers a second copy of only one.
    pub(super) fn prepared(&self, rows: RecordBatch, order: Option<&Selection>) -> Result<RecordBatch> {
        let (schema, mut columns, count) = rows.into_parts();
        let mut schema = self.held.as_ref().unwrap_or(&schema).clone();
        if let Some(blocks) = &self.blocks {
            blocks.hold(&mut columns, count)?;
            schema = blocks.schema().clone();
        }
        let columns = columns.into_iter().zip(&self.codecs).zip(&self.keys).enumerate().map(
            |(at, ((column, codec), is_key))| {
                let column = match self.held(at) {
                    Some(held) => held.hold(column)?,
                    None => codec.prepare(column)?,
                };
                match order {
                    Some(order) if is_narrow(column.data_type()) && !is_key => {
                        gather(&[&column], order, None)
                    }
                    _ => Ok(column),
                }
            },
        );
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        RecordBatch::try_new_with_options(schema, columns.collect::<Result<_>>()?, &options).or_fail()
    }

    /// Prepared rows with their narrow columns in the shuffled order; the other columns are shared.
    pub(super) fn dealt(&self, rows: &RecordBatch, order: &Selection) -> Result<RecordBatch> {
        let columns = rows.columns().iter().zip(&self.keys).map(|(column, is_key)| {
            match is_narrow(column.data_type()) && !is_key {
                true => gather(&[column], order, None),
                false => Ok(column.clone()),
            }
        });
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        RecordBatch::try_new_with_options(rows.schema(), columns.collect::<Result<_>>()?, &options).or_fail()
    }

    /// Copies columns of rows that lie in a cache, or that are also written to one: columns that row groups
    /// hold in another form than the stored one, and narrow columns in `order`, if there is one, which is an
    /// order of all rows. `numbers` are those of the rows' values. `None` if nothing is copied.
    pub(super) fn copies(
        &self,
        rows: &RecordBatch,
        numbers: &ValueNumbers,
        order: Option<&Selection>,
    ) -> Result<Option<Copies>> {
        let stored = rows.schema();
        let schema = self.held.as_ref().unwrap_or(&stored).clone();
        let (mut bytes, mut copied) = (0, 0);
        let columns = rows.columns().iter().zip(&self.keys).enumerate().map(|(at, (column, is_key))| {
            let order = order.filter(|_| is_narrow(schema.field(at).data_type()) && !is_key);
            let copy = match (self.held(at), numbers.get(at).and_then(Option::as_ref), order) {
                (Some(held), Some(numbers), order) => {
                    held.hold_numbered(column, numbers, order.and_then(Selection::rows_of_one))?
                }
                (Some(held), None, Some(order)) => gather(&[&held.hold(column.clone())?], order, None)?,
                (Some(held), None, None) => held.hold(column.clone())?,
                (None, _, Some(order)) => gather(&[column], order, None)?,
                (None, _, None) => return Ok(column.clone()),
            };
            bytes += copy.get_buffer_memory_size() as u64;
            copied += 1;
            Ok(copy)
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        if copied == 0 {
            return Ok(None);
        }
        let are_all = copied == columns.len();
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        let rows = RecordBatch::try_new_with_options(schema, columns, &options).or_fail()?;
        Ok(Some(Copies { rows, bytes, are_all }))
    }

    /// The most bytes that [`copies`](Self::copies) of `rows` rows take.
    pub(super) fn copied_bytes(&self, stored: &SchemaRef, rows: u32, is_ordered: bool) -> u64 {
        let fields = self.held.as_ref().unwrap_or(stored).fields().iter().enumerate();
        let bits = fields.filter_map(|(at, field)| match is_ordered || self.held(at).is_some() {
            true => narrow_bits(field.data_type()),
            false => None,
        });
        bits.sum::<u64>().saturating_mul(rows.into()).div_ceil(u8::BITS.into())
    }

    /// The conversion of a column that row groups hold in another form than the stored one.
    fn held(&self, column: usize) -> Option<&dyn Held> {
        self.held.as_ref()?;
        held_of(self.codecs.get(column)?, *self.keys.get(column)?, self.is_cached)
    }

    /// The number that a row has in the whole data set. `place` is its place in its source's shuffled order.
    pub(super) fn ordinal(&self, resident: &Resident, place: u32) -> u64 {
        self.catalog.groups[resident.part.group as usize].first_row + resident.row_in_group(place)
    }

    /// The file, row group, row and column to name in an error about a row.
    pub(super) fn place(&self, resident: &Resident, place: u32, column: usize) -> Place {
        let group = &self.catalog.groups[resident.part.group as usize];
        self.catalog
            .place_of_row(group, resident.row_in_group(place))
            .column(self.all.field(column).name().as_str())
    }

    /// The row and column to name in an error, with the row's id if ids are known.
    pub(super) fn found_row(&self, resident: &Resident, place: u32, column: usize) -> FoundRow {
        let ids = self.catalog.ids_of(resident.part.group as usize);
        let id = self.catalog.has_row_ids().then(|| ids.at(resident.row_in_group(place)));
        FoundRow { place: self.place(resident, place, column), id }
    }
}
