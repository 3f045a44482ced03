//! Builds the loader that `verify` checks, and lists the rows that its plan assigns to each batch.

use forebay::{Dataset, Deny, Loader, LoaderSpec, Position, Shard};
use forebay_base::Result;
use serde::{Deserialize, Serialize};

/// The column with row ids that the loader adds.
pub(super) const ROW_ID: &str = "row_id";

/// A source of a mix.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct MixSource {
    pub(super) weight: f64,
    pub(super) deny: Deny,
}

/// Identifies a row: the number of its source (0 if there is no mix) and its row id.
pub(super) type RowName = (u32, i64);

/// The rows that the plan assigns to each batch of one rank.
pub(super) type Batches = Box<dyn Iterator<Item = Vec<RowName>>>;

/// Builds a loader with these options over one data set, or over a mix of several. In a mix, options such as
/// the batch size and the memory apply to the whole mix, not to each source.
pub(super) fn build(datasets: &[Dataset], spec: &LoaderSpec, mix: &[MixSource]) -> Result<Loader> {
    if let ([dataset], []) = (datasets, mix) {
        return dataset.loader().spec(spec.clone()).build();
    }
    let mut of_source = spec.clone();
    of_source.shard = Shard::default();
    of_source.batch_size = LoaderSpec::BATCH_SIZE;
    of_source.global_batch_size = None;
    of_source.drop_last = false;
    of_source.epochs = None;
    of_source.memory = None;
    of_source.threads = None;
    let sources = datasets.iter().zip(mix).map(|(dataset, MixSource { weight, deny })| {
        (dataset.loader().spec(of_source.clone()).deny(deny.clone()), *weight)
    });
    let mut of_all = LoaderSpec::default();
    of_all.shard = spec.shard;
    of_all.global_batch_size = spec.global_batch_size;
    of_all.drop_last = spec.drop_last;
    of_all.epochs = spec.epochs;
    of_all.memory = spec.memory;
    of_all.threads = spec.threads;
    of_all.source = true;
    Loader::mix(sources)?.spec(of_all).build()
}

/// The columns of each source, without those that the loader adds.
pub(super) fn columns(loader: &Loader) -> Vec<Vec<String>> {
    let of_source = |schema: forebay::arrow::datatypes::SchemaRef| {
        let names = schema.fields().iter().map(|field| field.name().clone());
        names.filter(|name| name != ROW_ID).collect()
    };
    loader.source_schemas().map(of_source).collect()
}

/// The number of the step that follows the saved position. Steps are counted from the beginning of the epoch.
pub(super) fn step_of(loader: &Loader, saved: &Position, global_batch: u64) -> Result<u64> {
    Ok(match saved.step() {
        None => saved.row / global_batch,
        Some(step) => step.saturating_sub(loader.plan(saved.epoch)?.first_step.unwrap_or(0)),
    })
}

/// The rows that the plan assigns to each batch of a rank, starting at the loader's position in the epoch.
pub(super) fn planned(loader: &Loader, epoch: u64, rank: u32) -> Result<Batches> {
    let batches = loader.rewind()?.batches(epoch, rank)?;
    Ok(Box::new(batches.map(|rows| rows.iter().map(|row| (row.source as u32, row.id.get())).collect())))
}
