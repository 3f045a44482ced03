//! Decodes the fetched bytes of row groups to rows, on the loader's thread pool. Also writes rows to the
//! cache, and fetches a row group once more if its bytes are damaged.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crossbeam_channel::{Receiver, Sender, bounded};
use forebay_arrow::array::RecordBatch;
use forebay_base::error::caught;
use forebay_base::{Error, ErrorKind, Result};
use rayon::ThreadPool;
use tokio::runtime::Handle;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use super::collate::Collator;
use super::joint::JointSource;
use super::tiers::Tiers;
use crate::batch::{Selection, ValueNumbers, cut_numbers, value_numbers};
use crate::column::Codec;
use crate::monitor::{Monitor, Phase, RowGroupWatch, Stage};
use crate::reader::budget::Permit;
use crate::reader::fetch::{FetchOutcome, Fetched, FetchedHead, Fetcher};
use crate::reader::reads::{Chunks, Reads};
use crate::reader::row_cache::{CacheWriter, Kept, Lookup};
use crate::reader::row_memory::{RowMemory, Staying, compacted};
use crate::reader::{self, Renew, Resident};
use crate::samples::{EpochSamples, SampleIndex};
use crate::shard::{Deals, Part};

/// If the cache keeps images in another form, such as pixels, the images of one row group in that form may
/// take at most the memory for row groups divided by this number. The images of larger row groups are kept as
/// they are stored.
const FORM_DIVISOR: u64 = 8;

/// Everything that is needed to fetch and decode the row groups of a source.
#[derive(Clone)]
pub(super) struct Source {
    pub(super) runtime: Handle,
    pub(super) pool: Arc<ThreadPool>,
    pub(super) fetcher: Fetcher,
    pub(super) selected: Arc<SampleIndex>,
    /// Makes batches from the rows.
    pub(super) collator: Arc<Collator>,
    pub(super) monitor: Arc<Monitor>,
    /// The most bytes that one row group may decode to.
    pub(super) limit: u64,
    /// The most batches that are made ahead of the consumer, counting those that are still being made.
    pub(super) ahead: usize,
    /// Whether rows that are written to the cache are then used from the cache, because memory may not hold
    /// all of them.
    pub(super) exchange: bool,
    /// Chooses the form in which the cache keeps images, from a sample of the data set's cells.
    pub(super) tiers: Option<Arc<Tiers>>,
    /// The way to make batches together with the other sources of a mix, if all of them can.
    pub(super) joint: Option<JointSource>,
}

/// The order in which the rows of a part (a run of rows of one row group) are delivered.
type Deal = Box<[u32]>;

/// Parts that were fetched together, each with its deal (its order of delivery).
type Bunch = (Vec<Fetched>, Vec<Option<Deal>>);

/// Parts that were fetched together and are being decoded. [`wait`](Self::wait) returns their rows.
pub(super) struct PendingRowGroups {
    /// The number of parts that [`wait`](Self::wait) has not returned yet.
    left: usize,
    rows: Receiver<Result<Vec<Resident>>>,
    /// The size in bytes of the largest row so far, counting only columns whose values vary in length.
    longest: Arc<AtomicU64>,
    /// The permit to decode these parts before the plan needs them. It limits how much is decoded ahead.
    _place: Option<OwnedSemaphorePermit>,
}

impl PendingRowGroups {
    /// Waits until the next parts are decoded, and returns their rows. These are all parts if they are
    /// decoded together, and otherwise a single part.
    pub(super) fn wait(&mut self) -> Result<Vec<Resident>> {
        let decoded = self.rows.recv();
        let decoded =
            decoded.map_err(|_| Error::new(ErrorKind::Internal, "a row group's decoding was lost"))??;
        self.left = self.left.saturating_sub(decoded.len());
        Ok(decoded)
    }

    /// Whether the rows of all parts were returned.
    pub(super) fn is_over(&self) -> bool {
        self.left == 0
    }

    /// The size in bytes of the largest row so far, counting only columns whose values vary in length.
    pub(super) fn longest(&self) -> u64 {
        self.longest.load(Relaxed)
    }
}

/// Decodes the fetched bytes of one epoch to rows, on the thread pool.
#[derive(Clone)]
pub(super) struct RowGroupDecoder {
    pub(super) source: Source,
    /// The samples of the epoch.
    pub(super) samples: Arc<EpochSamples>,
    /// The orders in which the rows of each part are delivered; `None` leaves the rows in their stored order.
    pub(super) deals: Option<Arc<Deals>>,
    pub(super) end: CancellationToken,
}

impl RowGroupDecoder {
    /// The number of row groups for the cache that may be decoded at once, before the plan needs them. It is
    /// half the number of threads, but at least 1, because batches are made on the same threads.
    pub(super) fn at_once(&self) -> usize {
        (self.source.pool.current_num_threads() / 2).max(1)
    }

    /// Begins to decode parts that were fetched together. The permit `place` is returned when the last part
    /// is taken, and the permit `turn` when the decoding has ended.
    pub(super) fn start(
        &self,
        bunch: Vec<Fetched>,
        place: Option<OwnedSemaphorePermit>,
        turn: Option<OwnedSemaphorePermit>,
    ) -> PendingRowGroups {
        let longest = Arc::<AtomicU64>::default();
        let (send, rows) = bounded(bunch.len());
        let pending = PendingRowGroups { left: bunch.len(), rows, longest: longest.clone(), _place: place };
        let (decoder, mut turn) = (self.clone(), turn);
        self.source.pool.spawn_fifo(move || {
            let take = |part| decoder.deals.as_ref().and_then(|deals: &Arc<Deals>| deals.take(part));
            let deals: Vec<_> = bunch.iter().map(|fetched| take(&fetched.part)).collect();
            let (bunch, deals) = match decoder.decode_together((bunch, deals), &longest) {
                // Sending fails if the epoch was abandoned, which is not an error.
                Ok(residents) => return drop(send.send(Ok(residents))),
                Err(alone) => alone,
            };
            // Each part is decoded alone. Parts whose rows go to the cache would be handed over in any order,
            // but a bunch never has more than one of them.
            for (fetched, deal) in bunch.into_iter().zip(deals) {
                decoder.decode_alone(fetched, deal, &longest, send.clone(), turn.take());
            }
        });
        pending
    }

    /// Decodes several parts into one batch of rows. Returns the parts as an `Err` if they cannot be decoded
    /// together, or if a part is damaged. Also returns them as an `Err` after moving the rows to the memory
    /// in which rows stay for later epochs; the `found` of each part then refers to these rows.
    fn decode_together(
        &self,
        (mut bunch, deals): Bunch,
        longest: &AtomicU64,
    ) -> std::result::Result<Vec<Resident>, Bunch> {
        let Source { fetcher, collator, monitor, limit, tiers, .. } = &self.source;
        let samples = &*self.samples;
        let row_memory = self.open_memory();
        let wanted = |part: &Part| row_memory.map_or(*part, |row_memory| row_memory.whole(part));
        let parts = bunch.iter().map(|fetched| match &fetched.found {
            FetchOutcome::Bytes(chunks, None) if fetcher.pages_of(&fetched.part).is_none() => {
                Some((wanted(&fetched.part), chunks.clone()))
            }
            _ => None,
        });
        let parts =
            (bunch.len() > 1 && samples.are_rows()).then(|| parts.collect::<Option<Vec<_>>>()).flatten();
        let Some(parts) = parts else { return Err((bunch, deals)) };
        RowGroupWatch::all_go_on(bunch.iter_mut().map(|fetched| &mut fetched.watch), Phase::Pool);
        let task = monitor.task(Stage::Parquet, Some(("row_group", bunch[0].part.group.into())));
        let read = caught(|| {
            let rows = reader::read_together(fetcher, samples, parts, *limit)?;
            if let Some(tiers) = tiers {
                tiers.observe(&rows);
            }
            if row_memory.is_some() {
                return collator.prepared(rows, None);
            }
            let mut dealt = Vec::with_capacity(rows.num_rows());
            for (fetched, deal) in bunch.iter().zip(&deals) {
                let (base, rows) = (dealt.len() as u32, fetched.part.rows);
                match deal {
                    Some(deal) => dealt.extend(deal.iter().map(|row| base + row)),
                    None => dealt.extend(base..base + rows),
                }
            }
            let order = deals.iter().any(Option::is_some).then(|| Selection::of_one(dealt));
            collator.prepared(rows, order.as_ref())
        });
        let Ok(rows) = read else { return Err((bunch, deals)) };
        longest.store(collator.lengths.longest(&rows), Relaxed);
        task.done(rows.num_rows() as u64, rows.get_array_memory_size() as u64);
        if let Some(row_memory) = row_memory {
            let wholes: Vec<Part> = bunch.iter().map(|fetched| wanted(&fetched.part)).collect();
            let staying = caught(|| self.keep_in_memory(row_memory, &wholes, rows));
            let staying = staying.ok().and_then(std::result::Result::ok).into_iter().flatten();
            bunch.iter_mut().zip(staying).for_each(|(part, rows)| part.found = FetchOutcome::Staying(rows));
            return Err((bunch, deals));
        }
        RowGroupWatch::all_go_on(bunch.iter_mut().map(|fetched| &mut fetched.watch), Phase::Ready);
        let permits = bunch.into_iter().map(|fetched| (fetched.part, fetched.permit)).collect();
        let residents = Resident::together(fetcher, samples, permits, rows).into_iter().zip(deals);
        Ok(residents.map(|(resident, deal)| self.as_dealt(resident, deal)).collect())
    }

    /// The memory in which rows stay for later epochs, if it still accepts rows.
    fn open_memory(&self) -> Option<&RowMemory> {
        self.source.fetcher.reads.row_memory.as_deref().filter(|row_memory| row_memory.is_open())
    }

    /// Keeps the prepared rows of whole row groups in memory for later epochs. Returns the rows as an `Err`
    /// if there is no room.
    fn keep_in_memory(
        &self,
        row_memory: &RowMemory,
        wholes: &[Part],
        rows: RecordBatch,
    ) -> Result<std::result::Result<Vec<Staying>, RecordBatch>> {
        let Source { fetcher: Fetcher { reads, .. }, collator, .. } = &self.source;
        let is_whole = |part: &Part| u64::from(part.rows) == reads.catalog.groups[part.group as usize].rows;
        // Values of text and binary may point into larger buffers, which would stay in memory too. Unless the
        // rows need all of these buffers, their values are copied.
        let owns = !reads.projection.keeps_bytes() || (reads.store.is_local() && wholes.iter().all(is_whole));
        let rows = if owns { rows } else { compacted(&rows)? };
        let longest = collator.lengths.longest(&rows);
        let groups: Vec<u32> = wholes.iter().map(|part| part.group).collect();
        Ok(row_memory.keep(&groups, rows, longest))
    }

    /// Makes a resident part from rows that stay in memory. If memory holds many rows, a copy of the part's
    /// narrow columns is put into the order of delivery, so that batches are gathered faster.
    fn stay(&self, part: Part, staying: &Staying, permit: Permit, deal: Option<Deal>) -> Result<Resident> {
        let Source { fetcher, collator, monitor, .. } = &self.source;
        let samples = &*self.samples;
        let is_little = fetcher.reads.row_memory.as_ref().is_none_or(|row_memory| row_memory.is_little());
        let deal = match deal {
            Some(deal) if !is_little && samples.are_rows() => deal,
            deal => return Ok(Resident::staying(samples, part, staying).dealt(deal, false)),
        };
        let task = monitor.task(Stage::Gather, Some(("row_group", part.group.into())));
        let from = staying.base + part.start;
        let stored = staying.rows.batch.slice(from as usize, part.rows as usize);
        let order = Selection::of_one(deal.into());
        let rows = collator.dealt(&stored, &order)?;
        task.done(0, rows.get_array_memory_size() as u64);
        let resident = Resident::new(fetcher, samples, part, rows, permit);
        Ok(self.as_dealt(resident, Some(order.into_rows().into())))
    }

    /// Decodes a part and sends its rows to the receiver. If the row group is to be cached, its rows are also
    /// written to the cache.
    fn decode_alone(
        &self,
        fetched: Fetched,
        deal: Option<Deal>,
        longest: &AtomicU64,
        send: Sender<Result<Vec<Resident>>>,
        turn: Option<OwnedSemaphorePermit>,
    ) {
        let Fetched { part, found, heads, mut permit, mut watch } = fetched;
        watch.go_on(Phase::Pool);
        let task = match found {
            FetchOutcome::Bytes(..) => {
                Some(self.source.monitor.task(Stage::Parquet, Some(("row_group", part.group.into()))))
            }
            // Rows from the cache or from memory are not decoded, so no time of decoding is recorded.
            FetchOutcome::Rows(..) | FetchOutcome::Staying(_) | FetchOutcome::Lost(_) => None,
        };
        let known = match &found {
            FetchOutcome::Staying(staying) => Some(staying.longest),
            _ => None,
        };
        let read = caught(|| {
            let of_heads = permit.split(self.source.fetcher.reads.heads.cost(part.group).held);
            let heads = heads.into_iter().map(|head| self.read_head(head)).collect::<Result<Vec<_>>>()?;
            let read = self.read(part, found, permit, deal)?;
            let resident = read.resident.with_heads(&self.samples, heads, of_heads);
            Ok(Read { resident, ..read })
        });
        let mut bytes = 0;
        if let Some(known) = known {
            longest.fetch_max(known, Relaxed);
        } else if let Ok(Read { resident, .. }) = &read {
            for rows in std::iter::once(resident.rows()).chain(resident.heads().map(|head| head.rows())) {
                bytes += rows.batch.get_array_memory_size() as u64;
                longest.fetch_max(self.source.collator.lengths.longest(&rows.batch), Relaxed);
            }
        }
        if let Some(task) = task {
            task.done(u64::from(part.rows), bytes);
        }
        match read {
            Ok(Read { resident, keep: Some(keep) }) => self.keep(resident, send, keep, turn, watch),
            // Sending fails if the epoch was abandoned, which is not an error.
            read => drop(send.send(read.map(|read| vec![read.resident]))),
        }
    }

    /// Marks rows as already sorted into the order of `deal`, and drops the deal itself unless it is needed
    /// later.
    fn as_dealt(&self, resident: Resident, deal: Option<Deal>) -> Resident {
        let resident = resident.dealt(deal, true);
        if self.source.collator.needs_deals { resident } else { resident.without_deal() }
    }

    /// Starts to write the row group `whole` to the cache, on the runtime's blocking threads, and sends the
    /// wanted part of it to the receiver. The part is sent at once or, if `exchange` is set, after the write
    /// and from the cache.
    fn keep(
        &self,
        resident: Resident,
        send: Sender<Result<Vec<Resident>>>,
        Keep { writer, whole, numbers, memory }: Keep,
        turn: Option<OwnedSemaphorePermit>,
        mut watch: RowGroupWatch,
    ) {
        if self.source.exchange {
            let whole = match caught(|| self.in_form(whole)) {
                Ok(whole) => whole,
                Err(error) => return drop(send.send(Err(error))),
            };
            let renewer = Arc::new(self.clone());
            self.source.runtime.spawn_blocking(move || {
                watch.go_on(Phase::Writing);
                // Rows that could not be cached are used as they were decoded, since memory was planned for
                // that form.
                let resident = match writer.exchange(&whole) {
                    Some(kept) => resident.exchanged(&kept, renewer),
                    None => resident,
                };
                drop((send.send(Ok(vec![resident])), watch));
                // Rows with pixels take more memory than the part's permit covers, so `turn`, which limits
                // how many are made at once, is held until they are written.
                drop((whole, turn));
            });
            return;
        }
        drop(turn);
        let shared = resident.memory();
        drop(send.send(Ok(vec![resident])));
        if let Some(write) = writer.behind(whole, numbers, shared, memory) {
            self.source.runtime.spawn_blocking(write);
        }
    }

    /// Converts the images of rows to the form that the cache keeps, such as pixels. Returns the rows
    /// unchanged if there is no such form or the images are too large.
    fn in_form(&self, rows: RecordBatch) -> Result<RecordBatch> {
        let Source { fetcher, monitor, limit, collator, .. } = &self.source;
        let Some(form) = fetcher.reads.row_cache.as_ref().and_then(|row_cache| row_cache.form()) else {
            return Ok(rows);
        };
        let task = monitor.task(Stage::Keep, None);
        let Some(kept) = form.make(&rows, limit / FORM_DIVISOR, &collator.workspace)? else {
            return Ok(rows);
        };
        task.done((rows.num_rows() * form.columns()) as u64, kept.get_array_memory_size() as u64);
        Ok(kept)
    }

    /// Fetches the bytes of a part again.
    fn fetch_again(&self, part: &Part) -> Result<Chunks> {
        let (fetcher, part) = (self.source.fetcher.clone(), *part);
        self.fetch_now(async move { fetcher.read(&part).await })
    }

    /// Waits until bytes are fetched. The wait also ends when the epoch ends, even if the store hangs.
    fn fetch_now(&self, read: impl Future<Output = Result<Chunks>> + Send + 'static) -> Result<Chunks> {
        let (send, receive) = bounded(1);
        let end = self.end.clone();
        self.source.runtime.spawn(async move {
            if let Some(read) = end.run_until_cancelled(read).await {
                let _ = send.send(read);
            }
        });
        receive.recv().unwrap_or_else(|_| Err(Error::new(ErrorKind::Closed, "the epoch was left")))
    }

    /// Decodes the rows of a part. If the bytes are damaged, they are fetched and decoded once more, because
    /// the damage may have happened in the transfer.
    fn decode(&self, part: &Part, chunks: Chunks) -> Result<RecordBatch> {
        let Source { fetcher, limit, .. } = &self.source;
        let decode = |chunks| reader::read(fetcher, &self.samples, part, chunks, *limit);
        match decode(chunks) {
            Err(error) if error.kind() == ErrorKind::Corrupt => self.fetch_again(part).and_then(decode),
            read => read,
        }
    }

    /// Decodes a fetched head, the first rows of a row group, which samples of an earlier row group need. The
    /// rows are copied, because the decoded pages hold many more rows that are not needed.
    fn read_head(&self, FetchedHead { head, found }: FetchedHead) -> Result<Resident> {
        let (Source { fetcher, collator, limit, .. }, samples) = (&self.source, &*self.samples);
        let chunks = match found {
            FetchOutcome::Rows(kept, _) => {
                return Ok(Resident::kept_head(samples, head, &kept, Arc::new(self.clone())));
            }
            FetchOutcome::Lost(error) => return Resident::lost_head(fetcher, samples, head, error),
            FetchOutcome::Staying(_) => {
                return Err(Error::new(ErrorKind::Internal, "a head stays in memory"));
            }
            FetchOutcome::Bytes(chunks, _) => chunks,
        };
        let decode = |chunks| reader::read_head(fetcher, samples, head, chunks, *limit);
        let read = match decode(chunks) {
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                let fetcher = fetcher.clone();
                self.fetch_now(async move { fetcher.read_head(head).await }).and_then(decode)
            }
            read => read,
        };
        match read {
            Ok(rows) => {
                let rows = Resident::head(samples, head, collator.prepared(rows, None)?);
                rows.detach(&(0..head.rows).collect::<Vec<_>>())
            }
            Err(error) if fetcher.may_lose(&error) => Resident::lost_head(fetcher, samples, head, error),
            Err(error) => Err(error),
        }
    }

    /// The deal as an order of rows, into which rows are sorted; otherwise the deal itself. They are sorted
    /// only if each row is a sample: samples of several rows may share rows, so no order of rows fits them.
    /// The deal is moved, not copied, since it is as large as a column; [`deal_of`] takes it back.
    fn order_of(&self, deal: Option<Deal>) -> (Option<Selection>, Option<Deal>) {
        match deal {
            Some(deal) if self.samples.are_rows() => (Some(Selection::of_one(deal.into())), None),
            deal => (None, deal),
        }
    }

    /// Does what [`order_of`](Self::order_of) does, for columns that would have to be copied into the order.
    /// That is worth its time only if no cells are decoded, which takes far longer than to gather numbers.
    fn copied_order(&self, deal: Option<Deal>) -> (Option<Selection>, Option<Deal>) {
        let is_decoded = self.source.collator.codecs.iter().any(|codec| matches!(codec, Codec::Cells(_)));
        if is_decoded { (None, deal) } else { self.order_of(deal) }
    }

    /// Replaces mapped columns of a part from the cache by copies in memory: those of which row groups hold
    /// codes, and narrow ones in the order of delivery. Batches then find the values of a part side by side.
    fn copied(&self, resident: Resident, numbers: &ValueNumbers, deal: Option<Deal>) -> Result<Resident> {
        let Source { collator, monitor, .. } = &self.source;
        let numbers = self.cut_numbers(numbers, &resident.part);
        let (order, deal) = self.copied_order(deal);
        if order.is_none() && collator.held.is_none() {
            return Ok(resident.dealt(deal, false));
        }
        let task = monitor.task(Stage::Gather, Some(("row_group", resident.part.group.into())));
        let (resident, is_copied) =
            resident.with_copies(|rows| collator.copies(rows, &numbers, order.as_ref()))?;
        task.done(0, if is_copied { resident.permitted() } else { 0 });
        let is_dealt = is_copied && order.is_some();
        Ok(resident.dealt(order.map(deal_of).or(deal), is_dealt))
    }

    /// The numbers of the values in the rows of a part, from those of all rows of its row group.
    fn cut_numbers(&self, numbers: &ValueNumbers, part: &Part) -> ValueNumbers {
        let Part { start, rows, .. } = self.samples.decoded(part);
        cut_numbers(numbers, start as usize, rows as usize)
    }

    /// Makes a resident part from decoded rows that are also written to the cache. If there is memory for
    /// them, columns are copied as those of cached rows are. Also returns the permit for the columns that
    /// only the cache then needs.
    fn beside_cache(
        &self,
        part: Part,
        rows: RecordBatch,
        numbers: &ValueNumbers,
        permit: Permit,
        deal: Option<Deal>,
    ) -> Result<(Resident, Option<Permit>)> {
        let Source { fetcher, collator, exchange, .. } = &self.source;
        let (order, deal) = self.copied_order(deal);
        let bytes = match exchange {
            true => 0,
            false => collator.copied_bytes(rows.schema_ref(), part.rows, order.is_some()),
        };
        let memory = (bytes > 0).then(|| fetcher.budget.take(bytes)).flatten();
        let copies = match &memory {
            Some(_) => collator.copies(&rows, &self.cut_numbers(numbers, &part), order.as_ref())?,
            None => None,
        };
        let is_dealt = copies.is_some() && order.is_some();
        let rows = copies.map_or(rows, |copies| copies.rows);
        let resident = Resident::new(fetcher, &self.samples, part, rows, permit);
        Ok((resident.dealt(order.map(deal_of).or(deal), is_dealt), memory))
    }

    /// Turns whatever was found for a part (fetched bytes, cached rows, or rows in memory) into rows.
    fn read(&self, part: Part, found: FetchOutcome, permit: Permit, deal: Option<Deal>) -> Result<Read> {
        let Source { fetcher, collator, .. } = &self.source;
        let samples = &*self.samples;
        let (chunks, writer) = match found {
            FetchOutcome::Rows(kept, writer) => {
                let resident = Resident::kept(fetcher, samples, part, &kept, permit, Arc::new(self.clone()));
                // With `exchange`, rows are used from the cache because memory is short, so there is none for
                // copies.
                let resident = match self.source.exchange {
                    true => resident.dealt(deal, false),
                    false => self.copied(resident, &kept.numbers, deal)?,
                };
                let Kept { rows: whole, numbers, .. } = kept;
                let keep = writer.map(|writer| Keep { writer, whole, numbers, memory: None });
                return Ok(Read { resident, keep });
            }
            FetchOutcome::Staying(staying) => return Ok(self.stay(part, &staying, permit, deal)?.into()),
            FetchOutcome::Lost(error) => {
                return Ok(Resident::lost(fetcher, samples, part, error)?.dealt(deal, false).into());
            }
            FetchOutcome::Bytes(chunks, writer) => (chunks, writer),
        };
        let row_memory = self.open_memory();
        // The cache and the memory for later epochs hold whole row groups only, so the whole row group is
        // decoded for them.
        let writer = writer.zip(fetcher.reads.row_cache.as_ref());
        let kept = writer.as_ref().map(|(_, row_cache)| row_cache.whole(&part));
        let wanted = kept.or(row_memory.map(|row_memory| row_memory.whole(&part))).unwrap_or(part);
        let read = self.decode(&wanted, chunks);
        if let (Ok(rows), Some(tiers)) = (&read, &self.source.tiers) {
            tiers.observe(rows);
        }
        match (read, writer) {
            (Ok(rows), None) => {
                let (rows, is_prepared) = match row_memory {
                    None => (rows, false),
                    Some(row_memory) => {
                        let prepared = collator.prepared(rows, None)?;
                        match self.keep_in_memory(row_memory, &[wanted], prepared)? {
                            Ok(staying) => {
                                return Ok(self.stay(part, &staying[0], permit, deal)?.into());
                            }
                            Err(rows) => (reader::cut(samples, &rows, &part), true),
                        }
                    }
                };
                let (order, deal) = self.order_of(deal);
                let rows = match &order {
                    Some(order) if is_prepared => collator.dealt(&rows, order)?,
                    None if is_prepared => rows,
                    order => collator.prepared(rows, order.as_ref())?,
                };
                let deal = order.map(deal_of).or(deal);
                let resident = Resident::new(fetcher, samples, part, rows, permit);
                Ok(self.as_dealt(resident, deal).into())
            }
            (Ok(whole), Some((writer, _))) => {
                let rows = reader::cut(samples, &whole, &part);
                let numbers =
                    if self.source.exchange { ValueNumbers::default() } else { value_numbers(&whole) };
                let (resident, memory) = self.beside_cache(part, rows, &numbers, permit, deal)?;
                Ok(Read { resident, keep: Some(Keep { writer, whole, numbers, memory }) })
            }
            (Err(error), _) if fetcher.may_lose(&error) => {
                Ok(Resident::lost(fetcher, samples, part, error)?.dealt(deal, false).into())
            }
            (Err(error), _) => Err(error),
        }
    }
}

impl Renew for RowGroupDecoder {
    fn renew(&self, part: Part) -> Result<(Resident, Option<Kept>)> {
        let (fetcher, samples) = (&self.source.fetcher, &*self.samples);
        let Reads { store, catalog, projection, row_cache: Some(row_cache), .. } = &fetcher.reads else {
            return Err(Error::new(ErrorKind::Internal, "rows are kept without a cache"));
        };
        let group = part.group as usize;
        let (whole, writer) = match row_cache.turn_again(store, catalog, projection, group) {
            Lookup::Hit(kept, writer) => (Ok(kept.rows), writer),
            Lookup::Miss(writer) => {
                let fetched = self.fetch_again(&part);
                (fetched.and_then(|chunks| self.decode(&row_cache.whole(&part), chunks)), writer)
            }
        };
        let whole = match whole {
            Err(error) if fetcher.may_lose(&error) => {
                return Ok((Resident::lost(fetcher, samples, part, error)?, None));
            }
            whole => whole?,
        };
        let kept = match writer {
            Some(writer) => writer.exchange(&self.in_form(whole.clone())?),
            None => row_cache.found(store, catalog, projection, group),
        };
        Ok((Resident::alone(samples, part, reader::cut(samples, &whole, &part)), kept))
    }

    fn dealt(&self, rows: &RecordBatch, deal: &[u32]) -> Result<RecordBatch> {
        let order = Selection::of_one(deal.to_vec());
        let copies = self.source.collator.copies(rows, &ValueNumbers::default(), Some(&order))?;
        Ok(copies.map_or_else(|| rows.clone(), |copies| copies.rows))
    }

    fn room(&self, part: Part) -> Option<Permit> {
        let fetcher = &self.source.fetcher;
        fetcher.budget.take(fetcher.reads.own_cost(&part).held)
    }
}

impl fmt::Debug for RowGroupDecoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowGroupDecoder").finish_non_exhaustive()
    }
}

/// The order of delivery as a deal.
fn deal_of(order: Selection) -> Deal {
    order.into_rows().into()
}

/// The rows of a part and, if its row group is to be cached, all rows of the row group.
struct Read {
    resident: Resident,
    keep: Option<Keep>,
}

/// The rows of a row group that is to be cached.
struct Keep {
    writer: CacheWriter,
    whole: RecordBatch,
    numbers: ValueNumbers,
    /// The permit for columns that were copied for the epoch, so that only the cache needs the originals.
    memory: Option<Permit>,
}

impl From<Resident> for Read {
    fn from(resident: Resident) -> Self {
        Read { resident, keep: None }
    }
}
