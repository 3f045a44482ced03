//! Assembles the batches of an epoch: goes through the planned steps, waits for the parts (runs of rows of a
//! row group) that a step needs, starts to make its batch, and releases parts that no later step needs.
//!
//! The batches of several steps are made together if they are small, so that the values of a column are read
//! while they are in the processor's cache. A group of steps never waits for a part that has not arrived.

use std::collections::HashMap;
use std::sync::Arc;

use forebay_base::Result;
use rayon::ThreadPool;

use super::admission::Admission;
use super::arrivals::{Arrivals, Interrupt};
use super::batch_group::{BatchGroup, GroupedBatch, Made, PackRows, StepRows};
use super::collate::{BatchPass, BatchRows, Collated, Collator, SampleForm};
use super::hand_over::{HandOver, PendingBatch};
use super::joint::{JointSource, JointStep};
use super::lifecycle::{EpochId, Event};
use super::prefetch::PrefetchKey;
use super::queue::Sender;
use super::row_groups::Source;
use super::withheld::OfPass;
use crate::monitor::{Stage, Watch};
use crate::reader::Resident;
use crate::samples::SampleRows;
use crate::shard::{Part, PartSet, PlannedStep, StepOfMix, Walk};
use crate::shuffle::Window;

/// The callback with which an epoch's threads report their progress to the lifecycle of epochs.
pub(super) type Report = Arc<dyn Fn(fn(EpochId) -> Event<PrefetchKey>) + Send + Sync>;

/// Makes batches on the pool of decoding threads.
pub(super) struct BatchMaker {
    pool: Arc<ThreadPool>,
    collator: Arc<Collator>,
    /// The way to make shares of steps together with those of other sources, if this source has it.
    joint: Option<JointSource>,
    watch: Watch,
    epoch: u64,
    withheld: OfPass,
    admission: Arc<Admission>,
    /// Every unfinished job holds a clone, so the reference count tells whether jobs are still running. They
    /// will release memory when they finish.
    running: Arc<()>,
}

impl BatchMaker {
    pub(super) fn new(
        source: &Source,
        watch: Watch,
        epoch: u64,
        withheld: OfPass,
        admission: Arc<Admission>,
    ) -> Self {
        let (pool, collator, joint) = (source.pool.clone(), source.collator.clone(), source.joint.clone());
        BatchMaker { pool, collator, joint, watch, epoch, withheld, admission, running: Arc::default() }
    }

    /// Starts to make the batches of one group on the thread pool. If the only one is a share of a step that
    /// several sources make together, it is added to the step instead, which is returned.
    fn start(
        &self,
        sources: Vec<Arc<Resident>>,
        picks: Vec<(u32, u32)>,
        withheld: Vec<u32>,
        Made { repeated, packs, repeats, .. }: Made,
        of_mix: Option<StepOfMix>,
        mut batches: Vec<(usize, Sender<Result<Collated>>)>,
    ) -> Option<JointStep> {
        self.watch.count(Stage::Shuffle, picks.len() as u64, 0);
        let pass = BatchPass {
            collator: self.collator.clone(),
            epoch: self.epoch,
            sources: sources.len(),
            cancelled: self.admission.stopped(),
            watch: self.watch.clone(),
            _running: self.running.clone(),
        };
        let rows = BatchRows {
            collator: self.collator.clone(),
            passes: vec![pass],
            sources,
            picks: Arc::new(picks),
            repeated,
            packs,
            repeats,
            withheld: withheld.into(),
        };
        if let (Some(joint), Some(step), 1) = (&self.joint, of_mix, batches.len())
            && let Some(output) = batches.pop()
        {
            return Some(joint.add(step, rows, output, &self.pool));
        }
        rows.start(&self.pool, batches);
        None
    }

    /// Whether batches are being made.
    fn is_busy(&self) -> bool {
        Arc::strong_count(&self.running) > 1
    }
}

/// Assembles the batches of one epoch from the row groups that arrive.
pub(super) struct Assembly {
    maker: BatchMaker,
    arrivals: Arrivals,
    hand_over: HandOver,
    report: Report,
    /// The number of the step at which the loader begins to prepare the following epoch.
    next_at: u64,
    window: Window<Resident>,
    /// The number of steps whose batches are currently made together. It begins at 1, so that the first batch
    /// does not wait for others, and doubles up to a limit.
    group: usize,
    /// The number of rows of the last batch whose samples have several rows.
    rows_of_last: usize,
}

impl Assembly {
    pub(super) fn new(
        maker: BatchMaker,
        arrivals: Arrivals,
        hand_over: HandOver,
        next_at: u64,
        report: Report,
    ) -> Self {
        Assembly {
            maker,
            arrivals,
            hand_over,
            report,
            next_at,
            window: Window::new(),
            group: 1,
            rows_of_last: 0,
        }
    }

    /// Makes the batches of all steps of `walk`, unless the epoch is stopped or fails.
    pub(super) fn run(mut self, walk: Walk) {
        let followed = self.follow(walk);
        self.maker.watch.assembled();
        let (report, admission) = (self.report.clone(), self.maker.admission.clone());
        // The following epoch may be waiting for the memory that this assembly holds.
        drop(self);
        match followed {
            Ok(()) => report(Event::Assembled),
            Err(Interrupt::Failed(_)) => return report(Event::Failed),
            Err(Interrupt::Stopped) => return,
        }
        // `follow` may not have reported step `next_at`, if the epoch has fewer steps, or if all steps were
        // assembled before the consumer began the epoch. It is reported now.
        if admission.wait_open().is_ok() {
            report(Event::StepReached);
        }
    }

    fn follow(&mut self, walk: Walk) -> Result<(), Interrupt> {
        let mut is_reached = false;
        let mut group = BatchGroup::default();
        for (number, step) in (0..).zip(walk) {
            if !is_reached && number >= self.next_at && self.maker.admission.is_open() {
                is_reached = true;
                (self.report)(Event::StepReached);
            }
            let full = group.batches.len() >= self.group;
            let waits = || !step.parts.iter().all(|part| self.window.get(part).is_some());
            if full || (!self.arrivals.are_at_hand() && waits()) {
                // The group is full, or the next step waits for a part. The batches of the group are made
                // now, so that none waits for a row group that it does not need.
                self.launch(std::mem::take(&mut group))?;
                self.group = if full { (self.group * 2).min(self.maker.collator.group) } else { self.group };
            }
            if number == 1 {
                self.maker.admission.wait_admitted()?;
            }
            let (end, padded) = (step.end, step.padded);
            match self.rows(step) {
                Ok(rows) => group.add(rows),
                Err(Interrupt::Stopped) => return Err(Interrupt::Stopped),
                Err(Interrupt::Failed(error)) => {
                    self.launch(group)?;
                    self.hand_over.fail(error.clone(), end, padded)?;
                    return Err(error.into());
                }
            }
        }
        self.launch(group)
    }

    /// Starts to make a group's batches, and queues them for the consumer.
    fn launch(&mut self, group: BatchGroup) -> Result<(), Interrupt> {
        let BatchGroup { sources, picks, withheld, bytes, batches } = group;
        // The whole group uses the `made_of` of its last batch. If samples are rows, it differs only in the
        // last step of an epoch, which may repeat rows. For other samples a group has one batch.
        let Some((made_of, of_mix)) = batches.last().map(|last| (last.made_of.clone(), last.of_mix)) else {
            return Ok(());
        };
        let mut memory = if bytes > 0 { Some(self.hand_over.memory(bytes)?) } else { None };
        let (sends, pending): (Vec<_>, Vec<_>) = batches
            .into_iter()
            .map(|GroupedBatch { made_of, end, padded, .. }| {
                let (send, pending) = PendingBatch::new(end, padded);
                ((made_of.samples, send), PendingBatch { memory: memory.take(), ..pending })
            })
            .unzip();
        let joint = self.maker.start(sources, picks, withheld, made_of, of_mix, sends);
        let pending = pending.into_iter().map(|pending| PendingBatch { joint: joint.clone(), ..pending });
        pending.into_iter().try_for_each(|pending| self.hand_over.pass_on(pending))?;
        Ok(())
    }

    /// Waits for the parts of a step and lists its rows.
    fn rows(&mut self, step: PlannedStep) -> Result<StepRows, Interrupt> {
        let PlannedStep { parts, mut picks, mut leaving, end, padded, of_mix, .. } = step;
        let used: PartSet =
            if leaving.is_empty() { PartSet::default() } else { parts.iter().copied().collect() };
        for unused in leaving.extract_if(.., |part| !used.contains(part)) {
            self.window.let_go(&unused);
        }
        let mut sources: Vec<Option<Arc<Resident>>> = vec![None; parts.len()];
        for (at, part) in parts.iter().enumerate() {
            while sources[at].is_none() {
                if let Some(resident) = self.window.get(part).cloned() {
                    sources[at] = Some(resident);
                    break;
                }
                if self.arrivals.is_stuck() {
                    self.detach_leaving(&mut leaving, &parts, &mut sources, &mut picks)?;
                    let held: u64 = self.window.residents().map(Resident::permitted).sum();
                    if self.arrivals.is_hopeless(held, self.maker.is_busy()) {
                        return Err(self.arrivals.do_not_fit(parts.len()).into());
                    }
                }
                if let Some((part, rows)) = self.arrivals.next()? {
                    self.window.admit(part, rows.at_hand());
                }
            }
        }
        let mut sources: Vec<Arc<Resident>> = sources.into_iter().flatten().collect();
        leaving.iter().for_each(|part| self.window.let_go(part));
        let mut made_of =
            Made { samples: picks.len(), repeated: padded as usize, packs: None, repeats: None };
        if sources.iter().any(|source| source.has_samples()) {
            (picks, made_of) = self.rows_of_samples(&mut sources, &picks, padded as usize);
            self.rows_of_last = picks.len();
        }
        let (permits, longest) = (self.hand_over.permits(), self.arrivals.longest());
        let collator = &self.maker.collator;
        let row = |source: &Resident, row, column| collator.found_row(source, row, column);
        let bytes = collator.lengths.weigh(permits, longest, &sources, &picks, made_of.samples, row)?;
        let withheld = self.withheld(&sources, &picks, end);
        Ok(StepRows { sources, picks, withheld, made_of, of_mix, bytes, end, padded })
    }

    /// The indices of the picks (the chosen rows) of a step that are denied and therefore not delivered. The
    /// step ends at row `end` of the epoch's order.
    fn withheld(&self, sources: &[Arc<Resident>], picks: &[(u32, u32)], end: u64) -> Vec<u32> {
        let rows = self.maker.withheld.at(end);
        if rows.is_empty() {
            return Vec::new();
        }
        let is_withheld = |&(source, place): &(u32, u32)| {
            let number = self.maker.collator.ordinal(&sources[source as usize], place);
            rows.binary_search(&number).is_ok()
        };
        let picks = (0..).zip(picks).filter(|(_, pick)| is_withheld(pick));
        picks.map(|(at, _)| at).collect()
    }

    /// Lists the rows of `samples`, one sample after the other. The last `repeated` samples are repeats. A
    /// sample may continue in the next row group; the first rows of that row group, its head, are then added
    /// to `sources`.
    fn rows_of_samples(
        &self,
        sources: &mut Vec<Arc<Resident>>,
        samples: &[(u32, u32)],
        repeated: usize,
    ) -> (Vec<(u32, u32)>, Made) {
        // A batch has about as many rows as the one before it.
        let expected = self.rows_of_last + self.rows_of_last / 4;
        let (mut picks, mut rows) = (Vec::with_capacity(expected), SampleRows::default());
        let mut packs = match self.maker.collator.form {
            SampleForm::Packs(_) => PackRows::with_capacity(samples.len(), expected),
            _ => PackRows::default(),
        };
        let (mut last, mut repeats) = (0, Vec::new());
        let mut heads: HashMap<(u32, usize), u32> = HashMap::new();
        for (at, &(source, sample)) in samples.iter().enumerate() {
            if at == samples.len() - repeated {
                last = picks.len();
            }
            rows.clear();
            sources[source as usize].rows_of_sample(sample, &mut rows);
            if sources[source as usize].heads().next().is_none() {
                picks.extend(rows.rows.iter().map(|row| (source, *row)));
                rows.rows.clear();
            }
            for &row in &rows.rows {
                let Some((head, row_of_head)) = sources[source as usize].in_head(row) else {
                    picks.push((source, row));
                    continue;
                };
                let head = *heads.entry((source, head)).or_insert_with(|| {
                    let head = sources[source as usize].heads().nth(head).cloned();
                    sources.extend(head);
                    sources.len() as u32 - 1
                });
                picks.push((head, row_of_head));
            }
            packs.ends.push(picks.len() as u32);
            rows.skipped.resize(rows.lengths.len(), 0);
            packs.skipped.append(&mut rows.skipped);
            packs.lengths.append(&mut rows.lengths);
            repeats.append(&mut rows.repeats);
        }
        let made_of = match self.maker.collator.form {
            SampleForm::Packs(_) => {
                Made { samples: samples.len(), repeated, packs: Some(Arc::new(packs)), repeats: None }
            }
            SampleForm::Windows(_) => Made { samples: samples.len(), repeated, packs: None, repeats: None },
            // Here the batch consists of rows, not of samples with several rows, so samples and repeats are
            // counted in rows.
            SampleForm::Rows => {
                let repeated = if repeated > 0 { picks.len() - last } else { 0 };
                let repeats = (!repeats.is_empty()).then(|| repeats.into());
                Made { samples: picks.len(), repeated, packs: None, repeats }
            }
        };
        (picks, made_of)
    }

    /// Frees memory while this step still waits for parts: copies the few rows that the step takes from parts
    /// that no later step needs, and releases these parts. This is needed only if the parts of one batch do
    /// not fit the memory budget together, because they are many, or row groups are as large as the budget.
    fn detach_leaving(
        &mut self,
        leaving: &mut Vec<Part>,
        parts: &[Part],
        sources: &mut [Option<Arc<Resident>>],
        picks: &mut [(u32, u32)],
    ) -> Result<()> {
        // All such parts that have arrived are copied and released, not only those before the part that this
        // step waits for, because all of them take memory that its fetch needs.
        let here: Vec<Part> = leaving.extract_if(.., |part| self.window.get(part).is_some()).collect();
        for gone in here {
            let Some(resident) = self.window.get(&gone).cloned() else { continue };
            self.window.let_go(&gone);
            let Some(source) = parts.iter().position(|part| *part == gone) else { continue };
            // Rows that are mapped from a cache file take nothing from the memory budget, so they are not
            // copied.
            if resident.memory().is_none() {
                sources[source] = Some(resident);
                continue;
            }
            let mut rows = Vec::new();
            for pick in picks.iter_mut().filter(|pick| pick.0 as usize == source) {
                rows.push(pick.1);
                pick.1 = rows.len() as u32 - 1;
            }
            let detached = match resident.has_samples() {
                true => resident.detach_samples(&rows)?,
                false => resident.detach(&rows)?,
            };
            sources[source] = Some(Arc::new(detached));
        }
        Ok(())
    }
}
