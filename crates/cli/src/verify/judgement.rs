//! Compares the delivered rows with the plan and with the stored rows.

use std::collections::{HashMap, HashSet};

use forebay::column::AsStored;
use forebay::{Deny, LoaderSpec, Shuffle};
use forebay_base::Result;
use forebay_store::catalog::RowId;
use serde::Serialize;

use super::feed::{self, RowName};
use super::lives::{Life, VerifyRun};
use super::rank::{self, ArrivedRow};
use crate::console::Console;

/// The verdict of `forebay verify`.
#[derive(Serialize)]
pub(super) struct Judgement {
    /// Whether rows, order and contents are all right.
    pub(super) is_right: bool,
    /// The number of ranks in each life. A life is the part of a run from a start or resume to a kill or the
    /// end.
    pub(super) worlds: Vec<u32>,
    pub(super) rows: RowCounts,
    pub(super) denied: Denied,
    pub(super) order: OrderJudgement,
    pub(super) contents: Contents,
}

/// How often rows were delivered, over all epochs.
#[derive(Default, Serialize)]
pub(super) struct RowCounts {
    /// The number of rows in the data set.
    pub(super) stored: u64,
    pub(super) once: u64,
    pub(super) more: u64,
    pub(super) never: u64,
    /// The number of rows that the plan repeats so that all ranks get the same number of rows.
    pub(super) planned_more: u64,
    /// The number of rows that the plan leaves out, with `--drop-last`.
    pub(super) planned_never: u64,
    /// The number of rows that were delivered more or less often than planned.
    pub(super) differing: u64,
}

/// The number of denied rows, and how often one of them was delivered nevertheless.
#[derive(Default, Serialize)]
pub(super) struct Denied {
    pub(super) rows: u64,
    pub(super) came: u64,
}

/// The number of steps, and the number of batches that did not have the planned rows in the planned order.
#[derive(Default, Serialize)]
pub(super) struct OrderJudgement {
    pub(super) steps: u64,
    pub(super) differing_batches: u64,
    pub(super) first_difference: Option<String>,
}

/// The number of delivered rows, and the number of them whose values differ from the stored values.
#[derive(Default, Serialize)]
pub(super) struct Contents {
    pub(super) compared: u64,
    pub(super) differing: u64,
}

/// For each row, how often it was delivered and how often the plan contains it.
type Counts = HashMap<RowName, (u32, u32)>;

impl RowCounts {
    pub(super) fn are_planned(&self) -> bool {
        self.differing == 0
    }

    /// Adds the counts of one epoch.
    fn add(&mut self, counts: &Counts) {
        for &(came, planned) in counts.values() {
            match came {
                0 => self.never += 1,
                1 => self.once += 1,
                _ => self.more += 1,
            }
            self.planned_more += u64::from(planned > 1);
            self.planned_never += u64::from(planned == 0);
            self.differing += u64::from(came != planned);
        }
    }
}

impl Judgement {
    pub(super) fn judge(run: &VerifyRun, lives: &[Life], console: &Console) -> Result<Judgement> {
        let stored = stored(run, console)?;
        let denied = denied(run, &stored)?;
        let (mut order, mut contents) = (OrderJudgement::default(), Contents::default());
        let of_epoch = || {
            let given = stored.keys().filter(|name| !denied.contains(*name));
            given.map(|name| (*name, (0, 0))).collect()
        };
        let mut counts: Vec<Counts> = (0..run.epochs).map(|_| of_epoch()).collect();
        for life in lives {
            order.steps += life.steps.len() as u64;
            for step in &life.steps {
                for row in step.ranks.iter().flatten() {
                    if let Some(of_epoch) = counts.get_mut(step.epoch as usize) {
                        of_epoch.entry(row.name).or_default().0 += 1;
                    }
                    contents.compared += 1;
                    contents.differing += u64::from(stored.get(&row.name) != Some(&row.hash));
                }
            }
            order.follow(run, life, &mut counts)?;
        }
        let came = lives.iter().flat_map(|life| &life.steps).flat_map(|step| &step.ranks).flatten();
        let came = came.filter(|row| denied.contains(&row.name)).count() as u64;
        let denied = Denied { rows: denied.len() as u64, came };
        let mut rows = RowCounts { stored: stored.len() as u64, ..RowCounts::default() };
        counts.iter().for_each(|of_epoch| rows.add(of_epoch));
        Ok(Judgement {
            is_right: rows.are_planned()
                && denied.came == 0
                && order.differing_batches == 0
                && contents.differing == 0,
            worlds: lives.iter().map(|life| life.world).collect(),
            rows,
            denied,
            order,
            contents,
        })
    }
}

impl OrderJudgement {
    /// Compares the rows that the ranks received between a start or resume and the next kill (a life) with
    /// the planned rows. Adds the planned rows to the counts of their epoch.
    fn follow(&mut self, run: &VerifyRun, life: &Life, counts: &mut [Counts]) -> Result<()> {
        let mut spec = run.of_rank(0, life.world)?;
        spec.threads = Some(1);
        spec.cache = None;
        let loader = feed::build(&run.datasets, &spec, &run.mix)?;
        life.from.as_ref().map_or(Ok(()), |position| loader.restore(position))?;
        let (mut planned, mut epoch, mut number) = (Vec::new(), None, 0);
        for step in &life.steps {
            if epoch != Some(step.epoch) {
                epoch = Some(step.epoch);
                number = match &life.from {
                    Some(from) if from.epoch == step.epoch => {
                        feed::step_of(&loader, from, run.spec.global_batch_size.unwrap_or(1))?
                    }
                    _ => 0,
                };
                let ranks = (0..life.world).map(|rank| feed::planned(&loader, step.epoch, rank));
                planned = ranks.collect::<Result<Vec<_>>>()?;
            }
            for (rank, (came, planned)) in step.ranks.iter().zip(&mut planned).enumerate() {
                let planned: Vec<RowName> = planned.next().unwrap_or_default();
                if let Some(of_epoch) = counts.get_mut(step.epoch as usize) {
                    planned.iter().for_each(|name| of_epoch.entry(*name).or_default().1 += 1);
                }
                if !came.iter().map(|row| &row.name).eq(&planned) {
                    self.differing_batches += 1;
                    self.first_difference.get_or_insert_with(|| {
                        let (epoch, what) = (step.epoch, first_difference(run, came, &planned));
                        format!("in epoch {epoch}, step {number}, rank {rank} of {}: {what}", life.world)
                    });
                }
            }
            number += 1;
        }
        Ok(())
    }
}

/// Describes the first row of a batch that is not the planned one.
fn first_difference(run: &VerifyRun, came: &[ArrivedRow], planned: &[RowName]) -> String {
    let place = |(source, id): RowName| {
        let place = run.datasets.get(source as usize).and_then(|dataset| dataset.row(RowId::new(id)).ok()?);
        place.map_or_else(|| format!("a row that is not in the data, {id}"), |place| place.to_string())
    };
    let differs = |at: &usize| came.get(*at).map(|row| row.name) != planned.get(*at).copied();
    let Some(at) = (0..came.len().max(planned.len())).find(differs) else { return String::new() };
    match (came.get(at), planned.get(at)) {
        (Some(row), Some(name)) => {
            format!("row {at} of the batch is {}, but {} was planned", place(row.name), place(*name))
        }
        (Some(row), None) => format!("{} was delivered, but no row was planned there", place(row.name)),
        (None, Some(name)) => format!("{} was not delivered", place(*name)),
        (None, None) => String::new(),
    }
}

/// Finds the denied rows: the listed row ids, and all rows that are missing when a loader reads the data with
/// the deny lists.
fn denied(run: &VerifyRun, stored: &HashMap<RowName, u64>) -> Result<HashSet<RowName>> {
    let mut denied = HashSet::new();
    let lists: Vec<&Deny> = match run.mix.is_empty() {
        true => vec![&run.spec.deny],
        false => run.mix.iter().map(|source| &source.deny).collect(),
    };
    for (source, (dataset, deny)) in (0..).zip(run.datasets.iter().zip(lists)) {
        if deny.is_empty() {
            continue;
        }
        // Only the row ids are needed, but a loader must read at least one stored column.
        let mut spec = as_stored(run);
        spec.columns = run.spec.columns.as_ref().map(|columns| columns[..columns.len().min(1)].to_vec());
        spec.deny = deny.clone();
        let loader = dataset.loader().spec(spec).build()?;
        let mut given = HashSet::new();
        for batch in loader.epoch(0) {
            given.extend(rank::rows(&batch?, &[Vec::new()])?.into_iter().map(|row| row.name.1));
        }
        let listed =
            deny.row_ids().iter().map(|id| (source, id.get())).filter(|name| stored.contains_key(name));
        let left_out = stored.keys().filter(|name| name.0 == source && !given.contains(&name.1));
        denied.extend(listed.chain(left_out.copied()));
    }
    Ok(denied)
}

/// The options of a loader that delivers all rows as they are stored, with their row ids.
fn as_stored(run: &VerifyRun) -> LoaderSpec {
    let mut spec = LoaderSpec::default();
    spec.column("*").as_stored = Some(AsStored);
    spec.columns = run.spec.columns.clone();
    spec.memory = run.spec.memory;
    spec.row_id = true;
    spec.shuffle = Shuffle::stored();
    spec.epochs = Some(1);
    spec
}

/// Reads all stored rows of the run, and hashes the values of every row.
fn stored(run: &VerifyRun, console: &Console) -> Result<HashMap<RowName, u64>> {
    let spec = as_stored(run);
    let mut stored = HashMap::new();
    for (source, dataset) in (0..).zip(&run.datasets) {
        let loader = feed::build(std::slice::from_ref(dataset), &spec, &[])?;
        let (columns, steps) = (feed::columns(&loader), loader.plan(0)?.steps);
        let mut progress = console.progress("reading as stored", "steps", steps);
        for batch in loader.epoch(0) {
            let rows = rank::rows(&batch?, &columns)?;
            stored.extend(rows.into_iter().map(|row| ((source, row.name.1), row.hash)));
            progress.advance(1);
        }
    }
    Ok(stored)
}
