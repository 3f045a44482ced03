//! Which rows a step holds, past or to come: asked of the plan, without reading any.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use forebay_base::{Error, ErrorKind, Result};
use forebay_store::catalog::{Catalog, RowPlace};

use crate::samples::{EpochSamples, PartSamples, SampleIndex, SampleRows};
use crate::shard::{EpochOrder, OrderSpec, Part, PlannedStep, Shard, Split, Walk};

/// The plan of a run: it knows the rows of each step without reading any. Made by [`Loader::rewind`](super::Loader::rewind), or
/// by [`Dataset::rewind`](crate::Dataset::rewind) where there is nothing of the run but a saved position.
#[derive(Clone, Debug)]
pub struct Rewind {
    pub(super) catalog: Arc<Catalog>,
    pub(super) selected: Arc<SampleIndex>,
    pub(super) order: OrderSpec,
    pub(super) split: Split,
    /// Where the run stands: its epoch, and rows of it that were handed over.
    pub(super) at: (u64, u64),
    pub(super) last: LastAsked,
}

/// The order that was asked last, which a loader keeps: to permute a million row groups takes longer than to find a step in
/// them.
#[derive(Clone, Debug, Default)]
pub(super) struct LastAsked(Arc<Mutex<Option<Asked>>>);

/// The lanes of an epoch.
#[derive(Debug)]
struct Asked {
    spec: OrderSpec,
    epoch: u64,
    order: EpochOrder,
}

impl Rewind {
    /// The epoch in which the run stands, counted from 0.
    pub fn epoch(&self) -> u64 {
        self.at.0
    }

    /// Ranks that share each step.
    pub fn world(&self) -> u32 {
        self.split.shard.world()
    }

    /// Steps of each epoch, with those that are passed over.
    pub fn steps(&self) -> u64 {
        self.split.steps(0)
    }

    /// Where the rows of a rank's batch are stored, in the order of delivery: of samples of several rows, those of one after
    /// those of another. A step is counted from the beginning of its epoch,
    /// with the batches of this run. One that is passed over has its rows nevertheless, and rows that
    /// [`OnBadRow::Skip`](super::OnBadRow::Skip) leaves out are among them.
    ///
    /// # Errors
    /// There is no such step or rank; or the epoch is under way and began with other batches, so that its steps cannot be
    /// counted.
    pub fn step(&self, epoch: u64, step: u64, rank: u32) -> Result<Vec<RowPlace>> {
        let (steps, batch) = (self.steps(), self.split.global_batch);
        if step >= steps {
            return Err(Error::invalid(format!("there is no step {step}"))
                .hint(format!("each epoch has {steps}, which are counted from 0")));
        }
        let (under_way, row) = self.at;
        if epoch == under_way && row < self.split.rows && !row.is_multiple_of(batch) {
            return Err(Error::invalid(format!(
                "the steps of epoch {epoch} cannot be counted: it has come to row {row}, and a step now has {batch} rows"
            ))
            .hint("it began with other batches; ask for the next step, or for one of another epoch"));
        }
        let order = self.order.clone().with_skipped(Arc::default());
        self.rows(&order, epoch, step * batch, rank)
    }

    /// As [`step`](Self::step), for the step that comes next: empty where the epoch is over.
    ///
    /// # Errors
    /// There is no such rank.
    pub fn next(&self, rank: u32) -> Result<Vec<RowPlace>> {
        let (epoch, row) = self.at;
        self.rows(&self.order, epoch, row, rank)
    }

    /// The batches of a rank as [`step`](Self::step) has them, one after another: from where the run stands in the epoch that
    /// is under way, and of any other epoch from its beginning. Those that are passed over are not among them.
    ///
    /// # Errors
    /// There is no such rank.
    pub fn batches(&self, epoch: u64, rank: u32) -> Result<impl Iterator<Item = Vec<RowPlace>> + use<>> {
        let row = if epoch == self.at.0 { self.at.1 } else { 0 };
        self.walk(&self.order, epoch, row, rank)
    }

    /// The rows of a rank's batch in the step of a mix that begins at a row of a pass over this source of it.
    pub(super) fn of_portion(
        &self,
        order: &OrderSpec,
        pass: u64,
        row: u64,
        rank: u32,
    ) -> Result<Vec<RowPlace>> {
        let split = Split { lanes: order.lanes(), ..self.split };
        let step = Rewind { split, ..self.clone() }.walk(order, pass, row, rank)?.next();
        step.ok_or_else(|| Error::new(ErrorKind::Internal, "a step of a mix without rows"))
    }

    fn rows(&self, order: &OrderSpec, epoch: u64, row: u64, rank: u32) -> Result<Vec<RowPlace>> {
        Ok(self.walk(order, epoch, row, rank)?.next().unwrap_or_default())
    }

    fn walk(
        &self,
        order: &OrderSpec,
        epoch: u64,
        row: u64,
        rank: u32,
    ) -> Result<impl Iterator<Item = Vec<RowPlace>> + use<>> {
        let shard = Shard::new(rank, self.world())?;
        let samples = self.selected.of_epoch(epoch);
        let order = self.last.order(order, epoch, &samples.counts);
        let mut places = Places { catalog: self.catalog.clone(), samples, parts: HashMap::new() };
        let walk = Walk::new(&order, Split { shard, ..self.split }, row);
        Ok(walk.map(move |step| places.of_step(&step)))
    }
}

impl LastAsked {
    /// The order of an epoch over row groups that have so many samples each.
    fn order(&self, order: &OrderSpec, epoch: u64, counts: &Arc<[u32]>) -> EpochOrder {
        let spec = order.of_lanes();
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_kept = last.as_ref().is_some_and(|asked| asked.epoch == epoch && asked.spec == spec);
        if !is_kept {
            // Two of them would take twice the memory.
            *last = None;
        }
        let asked = last.get_or_insert_with(|| {
            let order = EpochOrder::new(counts.clone(), &spec, epoch);
            Asked { spec, epoch, order }
        });
        asked.order.with_lanes_of(order, epoch)
    }
}

/// Finds the places of rows, step by step.
struct Places {
    catalog: Arc<Catalog>,
    samples: Arc<EpochSamples>,
    /// Parts that were met and did not leave: finding their samples may take work.
    parts: HashMap<Part, Option<PartSamples>>,
}

impl Places {
    /// Where the rows of a step are stored, in the order of delivery.
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
