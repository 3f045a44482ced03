//! One batch: columns gathered, or decoded cell by cell into the batch's own slots.

use std::sync::atomic::Ordering::{AcqRel, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::buffer::BooleanBuffer;
use arrow::compute::filter;
use arrow::datatypes::SchemaRef;
use bytes::BytesMut;
use rayon::ThreadPool;

use super::bad_rows::{BadRow, OnBadRow};
use super::buffer_pool::{BufferPool, PooledBuffer};
use super::lengths::Lengths;
use super::queue::Sender;
use crate::batch::{Selection, needs_values, null_rows};
use crate::catalog::Catalog;
use crate::column::{Cell, Cells, ColumnCodec, Slot, tensor};
use crate::decode::{RowKey, Workspace};
use crate::error::{Error, ErrorKind, OrFail, Place, Result, caught};
use crate::monitor::{Monitor, Watch};
use crate::reader::{Resident, Rows};
use crate::shard::row_key;

/// How the batches of a loader are made.
#[derive(Debug)]
pub(crate) struct Collator {
    pub(crate) catalog: Arc<Catalog>,
    /// One for each column of the projection.
    pub(crate) codecs: Vec<Arc<dyn ColumnCodec>>,
    pub(crate) schema: SchemaRef,
    /// How many batches may be made together. A row group's column is then read while it is in the processor's cache,
    /// instead of once for each batch.
    pub(crate) group: usize,
    pub(crate) on_bad_row: OnBadRow,
    pub(crate) buffers: BufferPool,
    /// Memory for cells while they are decoded.
    pub(crate) workspace: Workspace,
    pub(crate) monitor: Arc<Monitor>,
    /// Seed of the augmentation.
    pub(crate) seed: u64,
    pub(crate) lengths: Lengths,
}

/// The rows of one batch, or of several that are collated together.
#[derive(Clone)]
pub(crate) struct BatchRows {
    pub(crate) collator: Arc<Collator>,
    /// The parts that rows come from; each keeps its memory permit until the batch is made.
    pub(crate) sources: Vec<Arc<Resident>>,
    /// Source and row in it.
    pub(crate) picks: Vec<(u32, u32)>,
    pub(crate) epoch: u64,
    pub(crate) cancelled: Arc<AtomicBool>,
    pub(crate) watch: Watch,
    /// Says, while it lives, that row groups are held.
    pub(crate) _running: Arc<()>,
}

/// A batch, and the rows that are missing from it because they were bad and the user asked to skip such rows.
pub(crate) struct Collated {
    pub(crate) batch: RecordBatch,
    pub(crate) skipped: Vec<BadRow>,
}

/// All rows but the bad ones, and these by their place among the rows.
type Complete = (RecordBatch, Vec<(usize, Error)>);

/// Cells that one task decodes: few, so that a slow one holds up few others, yet enough that tiny ones do not pay for a
/// task each.
const CELLS_PER_TASK: usize = 8;

/// A batch that is being collated: tasks of equal standing, of which the last to finish puts the batch together.
///
/// Tasks wait for nothing, so the pool works through batches in the order in which they were started. (With a join per
/// batch, a thread that waits for a stolen half begins the next batch meanwhile, on top of its stack, and the first
/// one is handed over when all are done.)
struct Collation {
    request: BatchRows,
    /// The rows of each source, as they were at the beginning.
    rows: Vec<Arc<Rows>>,
    selection: Selection,
    results: Mutex<TaskResults>,
    /// Tasks that are not finished.
    unfinished: AtomicUsize,
    /// The rows of each batch, and who waits for it.
    outputs: Vec<(usize, Sender<Result<Collated>>)>,
}

/// What the tasks have put out so far.
#[derive(Default)]
struct TaskResults {
    columns: Vec<Option<ArrayRef>>,
    decoded: Vec<Slots>,
    /// Bad rows, as they were found.
    bad: Vec<(usize, Error)>,
    failure: Option<Error>,
}

/// The slots of a decoded column: taken apart among tasks, put back by each.
struct Slots {
    column: usize,
    /// Bytes of one slot.
    bytes: usize,
    /// Taken by the first task. Batches that only wait for their turn then need none, and a buffer that was just let go
    /// is used again at once.
    buffer: Option<PooledBuffer>,
    pieces: Vec<Option<BytesMut>>,
}

enum Task {
    /// Gathers a column.
    Gather(usize),
    /// Decodes the cells of a piece of a column's slots: place of the column among the decoded ones, number of the
    /// piece.
    Decode(usize, usize),
}

impl BatchRows {
    /// Hands the tasks to the pool. `outputs` says how many rows make a batch and who waits for it, batch by batch.
    pub(crate) fn start(self, pool: &ThreadPool, outputs: Vec<(usize, Sender<Result<Collated>>)>) {
        let (collation, tasks) = Collation::new(self, outputs);
        let collation = Arc::new(collation);
        for task in tasks {
            let collation = collation.clone();
            pool.spawn_fifo(move || collation.work(task));
        }
    }

    /// Decodes the cells of rows `from..` into their slots of so many bytes; the failures come back with their rows.
    fn decode(
        &self,
        rows: &[Arc<Rows>],
        column: usize,
        from: usize,
        (slots, bytes): (&mut [u8], usize),
    ) -> Result<Vec<(usize, Error)>> {
        let collator = &self.collator;
        let codec = &*collator.codecs[column];
        let mut bad = Vec::new();
        let mut copy = Vec::new();
        for (at, slot) in slots.chunks_exact_mut(bytes).enumerate() {
            if self.cancelled.load(Relaxed) {
                return Err(Error::new(ErrorKind::Closed, "the epoch was left"));
            }
            let (source, row) = self.picks[from + at];
            let resident = &self.sources[source as usize];
            if resident.lost.is_some() {
                continue;
            }
            let key = RowKey(row_key(collator.seed, self.epoch, collator.ordinal(resident, row)));
            let rows = &rows[source as usize];
            let decoded = match Cells::of(rows.batch.column(column).as_ref())?.get(row as usize) {
                Some(bytes) => {
                    let cell = Cell::new(bytes, rows.is_mapped().then_some(&mut copy));
                    codec.decode(cell, key, &collator.workspace, slot)
                }
                None => Err(codec.noun().null()),
            };
            if let Err(error) = decoded {
                bad.push((from + at, error.at(collator.place(resident, row, column))));
            }
        }
        Ok(bad)
    }
}

impl BatchRows {
    /// The rows of a gathered column that miss a value, where such rows are to be left out. Otherwise nulls are delivered
    /// as such, and refused where the consumer has no permits for them.
    fn nulls(&self, column: usize, gathered: &dyn Array) -> Vec<(usize, Error)> {
        let collator = &self.collator;
        if matches!(collator.on_bad_row, OnBadRow::Raise) || !needs_values(gathered.data_type()) {
            return Vec::new();
        }
        let missing = null_rows(gathered).into_iter().filter_map(|at| {
            let (source, row) = self.picks[at];
            let resident = &self.sources[source as usize];
            let error = Error::new(ErrorKind::BadRow, "null where a value is needed");
            resident.lost.is_none().then(|| (at, error.at(collator.place(resident, row, column))))
        });
        missing.collect()
    }

    /// The rows of parts that could not be read, with the reason.
    fn lost(&self) -> Vec<(usize, Error)> {
        if self.sources.iter().all(|source| source.lost.is_none()) {
            return Vec::new();
        }
        let rows = self.picks.iter().enumerate();
        let lost = rows.filter_map(|(at, (source, row))| {
            let resident = &self.sources[*source as usize];
            let place = Place::default().row(resident.row_in_group(*row));
            Some((at, resident.lost.clone()?.at(place)))
        });
        lost.collect()
    }
}

impl Collation {
    fn new(request: BatchRows, outputs: Vec<(usize, Sender<Result<Collated>>)>) -> (Collation, Vec<Task>) {
        let codecs = &request.collator.codecs;
        let mut tasks = Vec::new();
        let mut results = TaskResults { columns: vec![None; codecs.len()], ..TaskResults::default() };
        for (column, codec) in codecs.iter().enumerate() {
            match codec.slot() {
                Slot::Gathered => tasks.push(Task::Gather(column)),
                Slot::Fixed(bytes) => {
                    let (place, pieces) =
                        (results.decoded.len(), request.picks.len().div_ceil(CELLS_PER_TASK));
                    results.decoded.push(Slots { column, bytes, buffer: None, pieces: Vec::new() });
                    tasks.extend((0..pieces).map(|piece| Task::Decode(place, piece)));
                }
            }
        }
        let collation = Collation {
            selection: Selection::new(request.picks.clone()),
            rows: request.sources.iter().map(|source| source.rows()).collect(),
            request,
            results: Mutex::new(results),
            unfinished: AtomicUsize::new(tasks.len()),
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

    /// The column of a decoding task, the task's slots, and the bytes of each.
    fn slots(&self, place: usize, piece: usize) -> Option<(usize, BytesMut, usize)> {
        let BatchRows { collator, picks, .. } = &self.request;
        let mut results = self.lock();
        let Slots { column, bytes, buffer, pieces } = &mut results.decoded[place];
        if buffer.is_none() {
            let taken = buffer.insert(collator.buffers.take(*bytes * picks.len()));
            *pieces = taken.split(*bytes * CELLS_PER_TASK).into_iter().map(Some).collect();
        }
        Some((*column, pieces[piece].take()?, *bytes))
    }

    fn perform(&self, task: Task) -> Result<()> {
        let collator = &self.request.collator;
        match task {
            Task::Gather(column) => {
                let codec = &*collator.codecs[column];
                let work = collator.monitor.task(codec.stage(), Some(("column", column as u64)));
                let arrays: Vec<&dyn Array> =
                    self.rows.iter().map(|rows| rows.batch.column(column).as_ref()).collect();
                let name = collator.schema.field(column).name();
                let gathered = codec.gather(&arrays, &self.selection);
                let gathered = gathered.map_err(|error| error.at(Place::default().column(name.as_str())))?;
                let bytes = gathered.get_buffer_memory_size() as u64;
                let bad = self.request.nulls(column, gathered.as_ref());
                work.done(self.request.picks.len() as u64, bytes);
                let mut results = self.lock();
                results.columns[column] = Some(gathered);
                results.bad.extend(bad);
            }
            Task::Decode(place, piece) => {
                let Some((column, mut slots, bytes)) = self.slots(place, piece) else { return Ok(()) };
                let first = piece * CELLS_PER_TASK;
                let stage = collator.codecs[column].stage();
                let work = collator.monitor.task(stage, Some(("first_cell", first as u64)));
                let bad = self.request.decode(&self.rows, column, first, (&mut slots, bytes))?;
                work.done((slots.len() / bytes) as u64, slots.len() as u64);
                let mut results = self.lock();
                results.decoded[place].pieces[piece] = Some(slots);
                results.bad.extend(bad);
            }
        }
        Ok(())
    }

    /// Cuts all rows into batches and sends each to who waits for it. Nobody listens any more where the epoch was left.
    fn send(&self, complete: Result<Complete>) {
        self.request.watch.made(self.outputs.len() as u64);
        let (batch, bad) = match complete {
            Ok(complete) => complete,
            Err(error) => {
                return self.outputs.iter().for_each(|(_, output)| drop(output.send(Err(error.clone()))));
            }
        };
        let mut bad = bad.into_iter().peekable();
        let (mut end, mut from) = (0, 0);
        for (rows, output) in &self.outputs {
            end += rows;
            let skipped: Vec<BadRow> = std::iter::from_fn(|| bad.next_if(|(row, _)| *row < end))
                .map(|(_, error)| BadRow { error })
                .collect();
            let kept = rows - skipped.len();
            drop(output.send(Ok(Collated { batch: batch.slice(from, kept), skipped })));
            from += kept;
        }
    }

    /// Sources whose rows were changed by others while they were gathered.
    fn changed(&self) -> Vec<usize> {
        let mut mapped: Vec<(*const Rows, usize)> = self
            .rows
            .iter()
            .enumerate()
            .filter(|(_, rows)| rows.is_mapped())
            .map(|(source, rows)| (Arc::as_ptr(rows), source))
            .collect();
        // Batches that are made together share sources; each is looked at once.
        mapped.sort_unstable();
        let mut seen: Option<(*const Rows, bool)> = None;
        mapped.retain(|&(rows, source)| {
            let is_intact = match seen {
                Some((last, is_intact)) if last == rows => is_intact,
                _ => self.rows[source].is_intact(),
            };
            seen = Some((rows, is_intact));
            !is_intact
        });
        mapped.into_iter().map(|(_, source)| source).collect()
    }

    /// Puts the batch together; once more, of rows that nobody can change, where some were changed while they were used.
    /// Whatever came of those, a failure too, is worth nothing.
    fn complete(&self) -> Result<Complete> {
        let mut changed = self.changed();
        if changed.is_empty() {
            return self.finish();
        }
        // What was made lets its slots go first.
        drop(std::mem::take(&mut *self.lock()));
        let mut request = self.request.clone();
        let mut rows = self.rows.clone();
        loop {
            for source in changed {
                if request.cancelled.load(Relaxed) {
                    return Err(Error::new(ErrorKind::Closed, "the epoch was left"));
                }
                let mut wanted = Vec::new();
                for pick in request.picks.iter_mut().filter(|pick| pick.0 as usize == source) {
                    wanted.push(pick.1);
                    pick.1 = wanted.len() as u32 - 1;
                }
                request.sources[source] = Arc::new(request.sources[source].renewed(&rows[source], &wanted)?);
            }
            let (again, tasks) = Collation::new(request.clone(), Vec::new());
            let done = tasks.into_iter().try_for_each(|task| again.perform(task));
            // Others may have been changed since.
            changed = again.changed();
            if changed.is_empty() {
                return done.and_then(|()| again.finish());
            }
            rows = again.rows;
        }
    }

    /// Puts the batch together.
    fn finish(&self) -> Result<Complete> {
        let TaskResults { mut columns, decoded, mut bad, failure } = std::mem::take(&mut *self.lock());
        if let Some(failure) = failure {
            return Err(failure);
        }
        let collator = &self.request.collator;
        bad.extend(self.request.lost());
        bad.sort_by_key(|(row, _)| *row);
        if matches!(collator.on_bad_row, OnBadRow::Raise)
            && let Some((_, first)) = bad.first()
        {
            return Err(first.clone().hint_also("to count and skip such rows, say so with `on_bad_row`"));
        }
        bad.dedup_by_key(|(row, _)| *row);
        let rows = self.request.picks.len();
        let is_bad = |row: usize| bad.binary_search_by_key(&row, |(row, _)| *row).is_ok();
        if !bad.is_empty() {
            let kept = BooleanArray::new(BooleanBuffer::collect_bool(rows, |row| !is_bad(row)), None);
            for gathered in columns.iter_mut().flatten() {
                *gathered = filter(gathered, &kept).or_fail()?;
            }
        }
        for Slots { column, bytes, buffer, pieces } in decoded {
            let Some(mut buffer) = buffer else { continue };
            buffer.join(pieces.into_iter().flatten());
            if !bad.is_empty() {
                buffer.retain(bytes, |row| !is_bad(row));
            }
            let field = collator.schema.field(column);
            columns[column] = Some(tensor(field, buffer.into_buffer(), rows - bad.len())?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows - bad.len()));
        let columns = columns.into_iter().flatten().collect();
        let batch =
            RecordBatch::try_new_with_options(collator.schema.clone(), columns, &options).or_fail()?;
        Ok((batch, bad))
    }
}

impl Collator {
    /// The rows of a row group that nobody else has, with all done that is less work for a row group than for each batch.
    pub(super) fn prepared(&self, rows: RecordBatch) -> Result<RecordBatch> {
        let (schema, columns, count) = rows.into_parts();
        let columns = columns.into_iter().zip(&self.codecs).map(|(column, codec)| codec.prepare(column));
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        RecordBatch::try_new_with_options(schema, columns.collect::<Result<_>>()?, &options).or_fail()
    }

    /// The ordinal of a resident's row in the whole data set.
    fn ordinal(&self, resident: &Resident, row: u32) -> u64 {
        self.catalog.groups[resident.part.group as usize].first_row + resident.row_in_group(row)
    }

    fn place(&self, resident: &Resident, row: u32, column: usize) -> Place {
        let group = &self.catalog.groups[resident.part.group as usize];
        Place::file(self.catalog.files[group.file].location.clone())
            .row_group(group.index)
            .row(resident.row_in_group(row))
            .column(self.schema.field(column).name().as_str())
    }
}
