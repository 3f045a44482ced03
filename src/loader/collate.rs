//! One batch: rows gathered, images decoded into the batch's own slots.

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
use super::images::{Encoded, tensor};
use super::queue::Sender;
use super::semaphore::BatchSemaphore;
use super::sizing::words;
use crate::batch::{Fill, Selection, fill, gather, longest, needs_values, null_rows, weigh};
use crate::catalog::Catalog;
use crate::decode::{Image, RowKey, Workspace, decode_within, needs_stable};
use crate::error::{Error, ErrorKind, OrFail, Place, Result, caught};
use crate::monitor::{Monitor, Stage, Watch};
use crate::reader::{Resident, Rows};
use crate::shard::row_key;

/// What becomes of one column.
#[derive(Clone, Debug)]
pub(crate) enum Treatment {
    /// Gathered as it is; nulls are replaced where a fill is given.
    Plain { fill: Option<Fill> },
    /// Decoded to pixels.
    Image(Image),
}

/// How the batches of a loader are made.
#[derive(Debug)]
pub(crate) struct Collator {
    pub(crate) catalog: Arc<Catalog>,
    /// One for each column of the projection.
    pub(crate) treatments: Vec<Treatment>,
    pub(crate) schema: SchemaRef,
    /// How many batches may be made together. A row group's column is then read while it is in the processor's cache,
    /// instead of once for each batch.
    pub(crate) group: usize,
    pub(crate) on_bad_row: OnBadRow,
    pub(crate) buffers: BufferPool,
    /// Memory for images while they are decoded.
    pub(crate) workspace: Workspace,
    pub(crate) monitor: Arc<Monitor>,
    /// Seed of the augmentation.
    pub(crate) seed: u64,
    pub(crate) lengths: Lengths,
}

/// What is known of the bytes of a batch before its rows are.
#[derive(Debug)]
pub(crate) struct Lengths {
    /// Columns whose values differ in length.
    pub(crate) columns: Vec<usize>,
    /// Bytes that a row takes in all others.
    pub(crate) others: u64,
    /// Bytes that one batch may take.
    pub(crate) largest: u64,
}

/// The rows of one batch, or of several that are made together.
#[derive(Clone)]
pub(crate) struct Job {
    pub(crate) collator: Arc<Collator>,
    /// The parts that rows come from; each keeps its memory permit until the batch is made.
    pub(crate) sources: Vec<Arc<Resident>>,
    /// Source and row in it.
    pub(crate) picks: Vec<(u32, u32)>,
    pub(crate) epoch: u64,
    pub(crate) cancelled: Arc<AtomicBool>,
    pub(crate) watch: Watch,
    /// Says, while it lives, that the job holds row groups.
    pub(crate) _running: Arc<()>,
}

/// A batch, and the rows that are missing from it because they were bad and the user asked to skip such rows.
pub(crate) struct Collated {
    pub(crate) batch: RecordBatch,
    pub(crate) skipped: Vec<BadRow>,
}

/// All rows of a job but the bad ones, which are told by their places among the job's.
type Finished = (RecordBatch, Vec<(usize, Error)>);

/// Images that one task decodes: few, so that a slow one holds up few others, yet enough that tiny ones do not pay for a
/// task each.
const IMAGES_PER_TASK: usize = 8;

/// A batch in the making: tasks of equal standing, of which the last to finish puts the batch together.
///
/// Tasks wait for nothing, so the pool works through batches in the order in which they were started. (With a join per
/// batch, a thread that waits for a stolen half begins the next batch meanwhile, on top of its stack, and the first
/// one is handed over when all are done.)
struct Collation {
    job: Job,
    /// The rows of each source, as they were when the job began.
    rows: Vec<Arc<Rows>>,
    selection: Selection,
    state: Mutex<State>,
    left: AtomicUsize,
    /// The rows of each batch, and who waits for it.
    done: Vec<(usize, Sender<Result<Collated>>)>,
}

#[derive(Default)]
struct State {
    columns: Vec<Option<ArrayRef>>,
    pixels: Vec<Pixels>,
    /// Bad rows, as they were found.
    bad: Vec<(usize, Error)>,
    failure: Option<Error>,
}

/// The slots of an image column: taken apart among tasks, put back by each.
struct Pixels {
    column: usize,
    /// Taken by the first task. Batches that only wait for their turn then need none, and a buffer that was just let go
    /// is used again at once.
    buffer: Option<PooledBuffer>,
    pieces: Vec<Option<BytesMut>>,
}

enum Task {
    /// Gathers a column.
    Gather(usize),
    /// Decodes the images of a piece of a column's slots: place of the column among the image columns, number of the
    /// piece.
    Decode(usize, usize),
}

impl Job {
    /// Hands the tasks to the pool. `done` says how many rows make a batch and who waits for it, batch by batch.
    pub(crate) fn start(self, pool: &ThreadPool, done: Vec<(usize, Sender<Result<Collated>>)>) {
        let (making, tasks) = Collation::new(self, done);
        let making = Arc::new(making);
        for task in tasks {
            let making = making.clone();
            pool.spawn_fifo(move || making.work(task));
        }
    }

    /// Decodes images `from..` into their slots; the failures come back with their rows.
    fn decode(
        &self,
        rows: &[Arc<Rows>],
        column: usize,
        image: &Image,
        from: usize,
        slots: &mut [u8],
    ) -> Result<Vec<(usize, Error)>> {
        let collator = &self.collator;
        let mut bad = Vec::new();
        let mut stable = Vec::new();
        for (at, slot) in slots.chunks_exact_mut(image.bytes_per_image()).enumerate() {
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
            let decoded = match Encoded::of(rows.batch.column(column).as_ref())?.get(row as usize) {
                Some(bytes) if rows.is_mapped() && needs_stable(bytes) => {
                    stable.clear();
                    stable.extend_from_slice(bytes);
                    decode_within(&collator.workspace, image, &stable, key, slot)
                }
                Some(bytes) => decode_within(&collator.workspace, image, bytes, key, slot),
                None => Err(Error::new(ErrorKind::BadRow, "null where an image is needed")),
            };
            if let Err(error) = decoded {
                bad.push((from + at, error.at(collator.place(resident, row, column))));
            }
        }
        Ok(bad)
    }
}

impl Job {
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
    fn new(job: Job, done: Vec<(usize, Sender<Result<Collated>>)>) -> (Collation, Vec<Task>) {
        let treatments = &job.collator.treatments;
        let mut tasks = Vec::new();
        let mut state = State { columns: vec![None; treatments.len()], ..State::default() };
        for (column, treatment) in treatments.iter().enumerate() {
            match treatment {
                Treatment::Plain { .. } => tasks.push(Task::Gather(column)),
                Treatment::Image(_) => {
                    let (place, pieces) = (state.pixels.len(), job.picks.len().div_ceil(IMAGES_PER_TASK));
                    state.pixels.push(Pixels { column, buffer: None, pieces: Vec::new() });
                    tasks.extend((0..pieces).map(|piece| Task::Decode(place, piece)));
                }
            }
        }
        let making = Collation {
            selection: Selection::new(job.picks.clone()),
            rows: job.sources.iter().map(|source| source.rows()).collect(),
            job,
            state: Mutex::new(state),
            left: AtomicUsize::new(tasks.len()),
            done,
        };
        (making, tasks)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self, task: Task) {
        if let Err(error) = caught(|| self.perform(task)) {
            self.lock().failure.get_or_insert(error);
        }
        if self.left.fetch_sub(1, AcqRel) == 1 {
            self.hand_over(caught(|| self.settle()));
        }
    }

    /// The column of a decoding task, what becomes of its images, and the task's slots.
    fn slots(&self, place: usize, piece: usize) -> Option<(usize, &Image, BytesMut)> {
        let Job { collator, picks, .. } = &self.job;
        let mut state = self.lock();
        let Pixels { column, buffer, pieces } = &mut state.pixels[place];
        let Treatment::Image(image) = &collator.treatments[*column] else { return None };
        if buffer.is_none() {
            let slot = image.bytes_per_image();
            let taken = buffer.insert(collator.buffers.take(slot * picks.len()));
            *pieces = taken.split(slot * IMAGES_PER_TASK).into_iter().map(Some).collect();
        }
        Some((*column, image, pieces[piece].take()?))
    }

    fn perform(&self, task: Task) -> Result<()> {
        let collator = &self.job.collator;
        match task {
            Task::Gather(column) => {
                let Treatment::Plain { fill } = &collator.treatments[column] else { return Ok(()) };
                let work = collator.monitor.task(Stage::Gather, Some(("column", column as u64)));
                let arrays: Vec<&dyn Array> =
                    self.rows.iter().map(|rows| rows.batch.column(column).as_ref()).collect();
                let name = collator.schema.field(column).name();
                let gathered = gather(&arrays, &self.selection, fill.as_ref());
                let gathered = gathered.map_err(|error| error.at(Place::default().column(name.as_str())))?;
                let bytes = gathered.get_buffer_memory_size() as u64;
                let bad = self.job.nulls(column, gathered.as_ref());
                work.done(self.job.picks.len() as u64, bytes);
                let mut state = self.lock();
                state.columns[column] = Some(gathered);
                state.bad.extend(bad);
            }
            Task::Decode(place, piece) => {
                let Some((column, image, mut slots)) = self.slots(place, piece) else { return Ok(()) };
                let work = collator
                    .monitor
                    .task(Stage::Decode, Some(("first_image", (piece * IMAGES_PER_TASK) as u64)));
                let bad = self.job.decode(&self.rows, column, image, piece * IMAGES_PER_TASK, &mut slots)?;
                let images = slots.len() / image.bytes_per_image();
                work.done(images as u64, slots.len() as u64);
                let mut state = self.lock();
                state.pixels[place].pieces[piece] = Some(slots);
                state.bad.extend(bad);
            }
        }
        Ok(())
    }

    /// Cuts what was made into batches. Nobody listens any more where the epoch was left.
    fn hand_over(&self, finished: Result<Finished>) {
        self.job.watch.made(self.done.len() as u64);
        let (batch, bad) = match finished {
            Ok(finished) => finished,
            Err(error) => {
                return self.done.iter().for_each(|(_, done)| drop(done.send(Err(error.clone()))));
            }
        };
        let mut bad = bad.into_iter().peekable();
        let (mut end, mut from) = (0, 0);
        for (rows, done) in &self.done {
            end += rows;
            let skipped: Vec<BadRow> = std::iter::from_fn(|| bad.next_if(|(row, _)| *row < end))
                .map(|(_, error)| BadRow { error })
                .collect();
            let kept = rows - skipped.len();
            drop(done.send(Ok(Collated { batch: batch.slice(from, kept), skipped })));
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
    fn settle(&self) -> Result<Finished> {
        let mut changed = self.changed();
        if changed.is_empty() {
            return self.finish();
        }
        // What was made lets its slots go first.
        drop(std::mem::take(&mut *self.lock()));
        let mut job = self.job.clone();
        let mut rows = self.rows.clone();
        loop {
            for source in changed {
                if job.cancelled.load(Relaxed) {
                    return Err(Error::new(ErrorKind::Closed, "the epoch was left"));
                }
                let mut wanted = Vec::new();
                for pick in job.picks.iter_mut().filter(|pick| pick.0 as usize == source) {
                    wanted.push(pick.1);
                    pick.1 = wanted.len() as u32 - 1;
                }
                job.sources[source] = Arc::new(job.sources[source].renewed(&rows[source], &wanted)?);
            }
            let (again, tasks) = Collation::new(job.clone(), Vec::new());
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
    fn finish(&self) -> Result<Finished> {
        let State { mut columns, pixels, mut bad, failure } = std::mem::take(&mut *self.lock());
        if let Some(failure) = failure {
            return Err(failure);
        }
        let collator = &self.job.collator;
        bad.extend(self.job.lost());
        bad.sort_by_key(|(row, _)| *row);
        if matches!(collator.on_bad_row, OnBadRow::Raise)
            && let Some((_, first)) = bad.first()
        {
            return Err(first.clone().hint_also("to count and skip such rows, say so with `on_bad_row`"));
        }
        bad.dedup_by_key(|(row, _)| *row);
        let rows = self.job.picks.len();
        let is_bad = |row: usize| bad.binary_search_by_key(&row, |(row, _)| *row).is_ok();
        for Pixels { column, buffer, pieces } in pixels {
            let (Treatment::Image(image), Some(mut buffer)) = (&collator.treatments[column], buffer) else {
                continue;
            };
            buffer.join(pieces.into_iter().flatten());
            if !bad.is_empty() {
                buffer.retain(image.bytes_per_image(), |row| !is_bad(row));
            }
            columns[column] = Some(tensor(collator.schema.field(column), image, buffer, rows - bad.len())?);
        }
        if !bad.is_empty() {
            let kept = BooleanArray::new(BooleanBuffer::collect_bool(rows, |row| !is_bad(row)), None);
            for (column, treatment) in columns.iter_mut().zip(&collator.treatments) {
                if let (Some(gathered), Treatment::Plain { .. }) = (&column, treatment) {
                    *column = Some(filter(gathered, &kept).or_fail()?);
                }
            }
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows - bad.len()));
        let columns = columns.into_iter().flatten().collect();
        let batch =
            RecordBatch::try_new_with_options(collator.schema.clone(), columns, &options).or_fail()?;
        Ok((batch, bad))
    }
}

impl Collator {
    /// The rows of a row group with nulls replaced already, where that is asked for and nobody else has the rows: once
    /// for a row group is less work than for each batch, which then gathers no validity.
    pub(super) fn filled(&self, rows: RecordBatch) -> Result<RecordBatch> {
        let (schema, columns, count) = rows.into_parts();
        let columns = columns.into_iter().zip(&self.treatments).map(|(column, treatment)| match treatment {
            Treatment::Plain { fill: Some(value) } => fill(column, value),
            _ => Ok(column),
        });
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        Ok(RecordBatch::try_new_with_options(schema, columns.collect::<Result<_>>()?, &options).or_fail()?)
    }

    /// The most bytes that one of the rows takes in columns whose values differ in length.
    pub(super) fn longest(&self, rows: &RecordBatch) -> u64 {
        self.lengths.columns.iter().map(|&column| longest(rows.column(column))).sum()
    }

    /// The bytes of a batch before it is made, where its rows differ: at most, where that fits `permits` already; else exactly.
    ///
    /// # Errors
    /// The batch is larger than one may be.
    pub(super) fn weigh(
        &self,
        permits: &BatchSemaphore,
        longest: u64,
        sources: &[Arc<Resident>],
        picks: &[(u32, u32)],
    ) -> Result<u64> {
        let Lengths { columns, others, largest } = &self.lengths;
        let rows = picks.len() as u64;
        if columns.is_empty() || rows == 0 {
            return Ok(0);
        }
        let most = rows.saturating_mul(others + longest);
        if permits.fits(most) {
            return Ok(most);
        }
        let all: Vec<Arc<Rows>> = sources.iter().map(|source| source.rows()).collect();
        let exactly = columns.iter().map(|&column| {
            let sources: Vec<&dyn Array> =
                all.iter().map(|rows| rows.batch.column(column).as_ref()).collect();
            weigh(&sources, picks)
        });
        let bytes = exactly.sum::<u64>().saturating_add(rows.saturating_mul(*others));
        if bytes <= *largest {
            return Ok(bytes);
        }
        if all.iter().any(|rows| !rows.is_intact()) {
            // Lengths that others wrote: the batch is made of other rows.
            return Ok(*largest);
        }
        let cause = format!(
            "a batch of {rows} rows takes {}, over the {} that one may take of the memory budget",
            words(bytes),
            words(*largest)
        );
        let fits = (u128::from(rows) * u128::from(*largest) / u128::from(bytes)).max(1);
        // A batch may take a sixth of any budget.
        let enough = words(bytes.saturating_mul(6));
        let hint = format!("`batch_size={fits}` may fit, or raise memory to {enough}");
        Err(Error::new(ErrorKind::TooLarge, cause).hint(hint))
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
