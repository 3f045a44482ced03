//! Finds the rows of any step of a run, past or future. They are computed from the plan, so no row is read.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use forebay_base::{Error, ErrorKind, Result};
use forebay_store::catalog::{Catalog, RowPlace};

use super::mix::Mixture;
use crate::samples::{EpochSamples, PartSamples, SampleIndex, SampleRows};
use crate::shard::{
    EpochOrder, MixSplit, MixedEpoch, OrderSpec, Part, PlannedStep, Portion, Run, Shard, Split, Walk,
};

/// The plan of a run, which knows the rows of each step without reading any.
/// [`Loader::rewind`](super::Loader::rewind) makes it from a loader. If only a saved position of the run is
/// left, [`Dataset::rewind`](crate::Dataset::rewind) or [`Rewind::new`] makes it from that position.
#[derive(Clone, Debug)]
pub struct Rewind {
    pub(super) sources: Vec<SourceOrder>,
    pub(super) mixed: Option<Mixed>,
    /// The progress of the run: its current epoch, and the number of rows of that epoch that were handed
    /// over.
    pub(super) at: (u64, u64),
}

/// The order of one source.
#[derive(Clone, Debug)]
pub(super) struct SourceOrder {
    pub(super) catalog: Arc<Catalog>,
    pub(super) selected: Arc<SampleIndex>,
    pub(super) order: OrderSpec,
    pub(super) split: Split,
    pub(super) last: LastAsked,
}

/// How the sources of a run are mixed.
#[derive(Clone, Debug)]
pub(super) struct Mixed {
    mixture: Arc<Mixture>,
    run: Arc<Run>,
    split: MixSplit,
}

/// The order of the epoch for which rows were last looked up. A loader keeps it, because permuting a million
/// row groups takes longer than finding a step in the result.
#[derive(Clone, Debug, Default)]
pub(super) struct LastAsked(Arc<Mutex<Option<Asked>>>);

/// The order of one epoch, and the spec and epoch from which it was made.
#[derive(Debug)]
struct Asked {
    spec: OrderSpec,
    epoch: u64,
    order: EpochOrder,
}

impl Mixed {
    /// Takes the current run and split of a mixture.
    pub(super) fn from_mixture(mixture: &Arc<Mixture>) -> Self {
        let (run, split) = mixture.run();
        Mixed { mixture: mixture.clone(), run, split }
    }

    fn planned(&self, epoch: u64) -> Result<Arc<MixedEpoch>> {
        self.mixture.planned(&self.run, epoch)
    }
}

impl Rewind {
    /// The epoch that the run is in, counted from 0.
    pub fn epoch(&self) -> u64 {
        self.at.0
    }

    /// The number of ranks that share each step.
    pub fn world(&self) -> u32 {
        self.mixed.as_ref().map_or_else(|| self.sources[0].split.shard, |mixed| mixed.split.shard).world()
    }

    /// The number of steps of each epoch, including skipped ones. In a mix, epochs may differ; this is the
    /// number of steps of the current epoch.
    pub fn steps(&self) -> u64 {
        match &self.mixed {
            None => self.sources[0].split.steps(0),
            Some(mixed) => mixed.planned(self.at.0).map_or(0, |plan| plan.course.steps()),
        }
    }

    /// Finds where the rows of a rank's batch are stored. The rows are in the order of delivery; if samples
    /// have several rows, the rows of each sample follow each other. `step` is counted from the beginning of
    /// the epoch, in steps of this run's batch size. Rows of skipped steps are returned too, and so are bad
    /// rows that [`OnBadRow::Skip`](super::OnBadRow::Skip) leaves out.
    ///
    /// # Errors
    /// Fails if there is no such step or rank. Also fails for the current epoch if it began with another
    /// batch size, because its steps then cannot be counted.
    pub fn step(&self, epoch: u64, step: u64, rank: u32) -> Result<Vec<RowPlace>> {
        let Some(mixed) = &self.mixed else { return self.step_of_one(epoch, step, rank) };
        let plan = Arc::new(mixed.planned(epoch)?.whole());
        let shard = Shard::new(rank, self.world())?;
        if plan.taken.iter().any(|taken| *taken > 0) {
            let cause = format!("the steps of epoch {epoch} cannot be counted: it began with other batches");
            return Err(Error::invalid(cause).hint("ask for the next step, or for one of another epoch"));
        }
        self.of_step(&plan, step, MixSplit { shard, ..mixed.split })?.ok_or_else(|| {
            Error::invalid(format!("there is no step {step} in epoch {epoch}"))
                .hint(format!("it has {}, which are counted from 0", plan.course.steps()))
        })
    }

    /// Like [`step`](Self::step), but `step` is counted through all epochs, from the first step of epoch 0.
    ///
    /// # Errors
    /// The errors of [`step`](Self::step).
    pub fn step_of_run(&self, step: u64, rank: u32) -> Result<Vec<RowPlace>> {
        let (epoch, step) = self.locate(step)?;
        self.step(epoch, step, rank)
    }

    /// Converts a step that is counted through all epochs to its epoch and its number in that epoch.
    ///
    /// # Errors
    /// Fails in a mix if the step is so far in the future that its epoch cannot be computed.
    pub fn locate(&self, step: u64) -> Result<(u64, u64)> {
        match &self.mixed {
            None => {
                let steps = self.steps().max(1);
                Ok((step / steps, step % steps))
            }
            Some(mixed) => mixed.run.locate(step),
        }
    }

    /// Finds the rows of the next [`step`](Self::step) of the run; empty if the current epoch is over.
    ///
    /// # Errors
    /// Fails if there is no such rank.
    pub fn next(&self, rank: u32) -> Result<Vec<RowPlace>> {
        let (epoch, row) = self.at;
        Ok(match &self.mixed {
            None => {
                let source = &self.sources[0];
                source.walk(&source.order, epoch, row, Shard::new(rank, self.world())?).next()
            }
            Some(mixed) => {
                let plan = mixed.planned(epoch)?;
                let shard = Shard::new(rank, self.world())?;
                let next = plan.not_skipped(plan.step_of(row));
                self.of_step(&plan, next, MixSplit { shard, ..mixed.split })?
            }
        }
        .unwrap_or_default())
    }

    /// Iterates over the batches of a rank in an epoch; each item is like the result of [`step`](Self::step).
    /// In the current epoch the first batch is the next one of the run, and in any other epoch it is that of
    /// the first step. Skipped steps are left out.
    ///
    /// # Errors
    /// Fails if there is no such rank.
    pub fn batches(&self, epoch: u64, rank: u32) -> Result<impl Iterator<Item = Vec<RowPlace>> + use<>> {
        let row = if epoch == self.at.0 { self.at.1 } else { 0 };
        let shard = Shard::new(rank, self.world())?;
        let batches: Box<dyn Iterator<Item = Vec<RowPlace>>> = match &self.mixed {
            None => {
                let source = &self.sources[0];
                Box::new(source.walk(&source.order, epoch, row, shard))
            }
            Some(mixed) => {
                let (plan, split, this) =
                    (mixed.planned(epoch)?, MixSplit { shard, ..mixed.split }, self.clone());
                let skipped = plan.skipped.clone();
                let is_left = move |step: &u64| !skipped.iter().any(|range| range.contains(step));
                let steps = (plan.step_of(row)..).filter(is_left);
                Box::new(steps.map_while(move |step| this.of_step(&plan, step, split).ok().flatten()))
            }
        };
        Ok(batches)
    }

    fn step_of_one(&self, epoch: u64, step: u64, rank: u32) -> Result<Vec<RowPlace>> {
        let source = &self.sources[0];
        let (steps, batch) = (self.steps(), source.split.global_batch);
        if step >= steps {
            return Err(Error::invalid(format!("there is no step {step}"))
                .hint(format!("each epoch has {steps}, which are counted from 0")));
        }
        let (under_way, row) = self.at;
        if epoch == under_way && row < source.split.rows && !row.is_multiple_of(batch) {
            return Err(Error::invalid(format!(
                "the steps of epoch {epoch} cannot be counted: it has come to row {row}, and a step now has {batch} rows"
            ))
            .hint("it began with other batches; ask for the next step, or for one of another epoch"));
        }
        let order = source.order.clone().with_skipped(Arc::default());
        let shard = Shard::new(rank, self.world())?;
        Ok(source.walk(&order, epoch, step * batch, shard).next().unwrap_or_default())
    }

    /// Finds the rows of a step of a mix; `None` if the epoch has no such step.
    fn of_step(&self, plan: &Arc<MixedEpoch>, step: u64, split: MixSplit) -> Result<Option<Vec<RowPlace>>> {
        let Some(mixed) = plan.course.steps_from(step).next() else { return Ok(None) };
        let mut places = Vec::new();
        for (number, source) in self.sources.iter().enumerate() {
            for (pass, _) in plan.share(&mixed, number, &split) {
                let portion = Portion { epoch: plan.clone(), source: number, split };
                let order = source.order.clone().with_portion(portion);
                let start = mixed.before[number].saturating_sub(pass * plan.sizes[number]);
                let rows = source.walk(&order, plan.passes[number] + pass, start, split.shard).next();
                let rows =
                    rows.ok_or_else(|| Error::new(ErrorKind::Internal, "a step of a mix without rows"))?;
                places.extend(rows.into_iter().map(|mut row| {
                    row.source = number;
                    row
                }));
            }
        }
        Ok(Some(places))
    }
}

impl SourceOrder {
    /// Iterates over the batches of a rank in an epoch of this source, beginning with the step that begins at
    /// `row`.
    fn walk(
        &self,
        order: &OrderSpec,
        epoch: u64,
        row: u64,
        shard: Shard,
    ) -> impl Iterator<Item = Vec<RowPlace>> + use<> {
        let split = Split { shard, lanes: order.lanes(), ..self.split };
        let samples = self.selected.of_epoch(epoch);
        let order = self.last.order(order, epoch, &samples.counts);
        let mut places = Places { catalog: self.catalog.clone(), samples, parts: HashMap::new() };
        Walk::new(&order, split, row).map(move |step| places.of_step(&step))
    }
}

impl LastAsked {
    /// Returns the order of an epoch. It is made anew unless it is the last one that was asked for. `counts`
    /// has the number of samples of each row group.
    fn order(&self, order: &OrderSpec, epoch: u64, counts: &Arc<[u32]>) -> EpochOrder {
        let spec = order.of_lanes();
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_kept = last.as_ref().is_some_and(|asked| asked.epoch == epoch && asked.spec == spec);
        if !is_kept {
            // The old order is dropped before the new one is made, so that two are never in memory.
            *last = None;
        }
        let asked = last.get_or_insert_with(|| {
            let order = EpochOrder::new(counts.clone(), &spec, epoch);
            Asked { spec, epoch, order }
        });
        asked.order.with_lanes_of(order, epoch)
    }
}

/// Finds where the rows of each step are stored, one step after the other.
struct Places {
    catalog: Arc<Catalog>,
    samples: Arc<EpochSamples>,
    /// The samples of the parts (runs of rows of a row group) that the current steps use. They are kept
    /// because finding the samples of a part may take long.
    parts: HashMap<Part, Option<PartSamples>>,
}

impl Places {
    /// Finds where the rows of a step are stored, in the order of delivery.
    fn of_step(&mut self, step: &PlannedStep) -> Vec<RowPlace> {
        let Places { catalog, samples, parts } = self;
        for part in &step.parts {
            parts.entry(*part).or_insert_with(|| samples.samples_of(part));
        }
        let (mut places, mut rows) = (Vec::with_capacity(step.picks.len()), SampleRows::default());
        for &(part, pick) in &step.picks {
            let part = &step.parts[part as usize];
            let Some(samples_of) = parts.get(part) else { continue };
            rows.clear();
            match samples_of {
                None => rows.rows.push(pick),
                Some(samples) => samples.rows(pick, &mut rows),
            }
            let place = |row: &u32| {
                let (group, row) = samples.place(part, *row);
                catalog.row_place(group, row.into())
            };
            places.extend(rows.rows.iter().map(place));
        }
        step.leaving.iter().for_each(|part| drop(parts.remove(part)));
        places
    }
}
