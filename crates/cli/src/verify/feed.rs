//! A loader, or a mix of several, as a run takes batches from it.

use forebay::{
    Dataset, Deny, Epoch, Loader, LoaderSpec, Mix, MixEpoch, MixPosition, MixSpec, Position, Receipt, Shard,
    Wait,
};
use forebay_base::{Error, ErrorKind, Result};
use forebay_store::catalog::RowPlace;
use serde::{Deserialize, Serialize};

/// The column that the loader adds.
pub(super) const ROW_ID: &str = "row_id";

/// A loader, or a mix of several.
pub(super) enum Feed {
    Loader(Loader),
    Mix(Mix),
}

/// A source of a mix.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Source {
    pub(super) weight: f64,
    pub(super) deny: Deny,
}

/// Its position.
#[derive(Clone, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Saved {
    Mix(MixPosition),
    Loader(Position),
}

/// Its epoch.
pub(super) enum FeedEpoch {
    Loader(Box<Epoch>),
    Mix(Box<MixEpoch>),
}

/// The number of the source that a row is of, 0 where there is one alone, and the row's own.
pub(super) type RowName = (u32, i64);

impl Feed {
    /// A loader of these options; or a mix of the data sets as its sources, which have these options together.
    pub(super) fn build(datasets: &[Dataset], spec: &LoaderSpec, mix: &[Source]) -> Result<Feed> {
        if let ([dataset], []) = (datasets, mix) {
            return Ok(Feed::Loader(dataset.loader().spec(spec.clone()).build()?));
        }
        let mut of_source = spec.clone();
        of_source.shard = Shard::default();
        of_source.batch_size = LoaderSpec::BATCH_SIZE;
        of_source.global_batch_size = None;
        of_source.drop_last = false;
        of_source.epochs = None;
        of_source.memory = None;
        of_source.threads = None;
        let sources = datasets.iter().zip(mix).map(|(dataset, Source { weight, deny })| {
            (dataset.loader().spec(of_source.clone()).deny(deny.clone()), *weight)
        });
        let mut options = MixSpec::default();
        options.shard = spec.shard;
        options.global_batch_size = spec.global_batch_size;
        options.drop_last = spec.drop_last;
        options.epochs = spec.epochs;
        options.memory = spec.memory;
        options.threads = spec.threads;
        options.source = true;
        let mix = Mix::of(sources).spec(options).build()?;
        Ok(Feed::Mix(mix))
    }

    pub(super) fn restore(&self, saved: &Saved) -> Result<()> {
        match (self, saved) {
            (Feed::Loader(loader), Saved::Loader(position)) => loader.restore(position),
            (Feed::Mix(mix), Saved::Mix(position)) => mix.restore(position),
            // A run has one kind of positions.
            _ => Err(Error::new(ErrorKind::Internal, "a position of something else")),
        }
    }

    pub(super) fn position(&self) -> Saved {
        match self {
            Feed::Loader(loader) => Saved::Loader(loader.position()),
            Feed::Mix(mix) => Saved::Mix(mix.position()),
        }
    }

    pub(super) fn next_epoch(&self) -> FeedEpoch {
        match self {
            Feed::Loader(loader) => FeedEpoch::Loader(Box::new(loader.next_epoch())),
            Feed::Mix(mix) => FeedEpoch::Mix(Box::new(mix.next_epoch())),
        }
    }

    pub(super) fn handed_over(&self, receipt: &Receipt) {
        match self {
            Feed::Loader(loader) => loader.handed_over(receipt),
            Feed::Mix(mix) => mix.handed_over(receipt),
        }
    }

    /// Steps of the first epoch.
    pub(super) fn steps(&self) -> Result<u64> {
        Ok(match self {
            Feed::Loader(loader) => loader.plan(0)?.steps,
            Feed::Mix(mix) => mix.plan(0)?.steps,
        })
    }

    /// The columns of each source, without those that are added.
    pub(super) fn columns(&self) -> Vec<Vec<String>> {
        let of_loader = |loader: &Loader| {
            let schema = loader.schema();
            let names = schema.fields().iter().map(|field| field.name().clone());
            names.filter(|name| name != ROW_ID).collect()
        };
        match self {
            Feed::Loader(loader) => vec![of_loader(loader)],
            Feed::Mix(mix) => mix.sources().map(of_loader).collect(),
        }
    }

    /// The number of the step in its epoch that comes after a position.
    pub(super) fn step_of(&self, saved: &Saved, global_batch: u64) -> Result<u64> {
        Ok(match (self, saved) {
            (Feed::Mix(mix), Saved::Mix(position)) => {
                position.step.saturating_sub(mix.plan(position.epoch)?.first_step)
            }
            (_, Saved::Loader(position)) => position.row / global_batch,
            (_, Saved::Mix(position)) => position.step,
        })
    }

    /// The rows that each batch of a rank is to have, from a step of an epoch on.
    pub(super) fn planned(
        &self,
        epoch: u64,
        step: u64,
        rank: u32,
    ) -> Result<Box<dyn Iterator<Item = Vec<RowName>> + '_>> {
        let name = |(source, row): (usize, RowPlace)| (source as u32, row.id.get());
        Ok(match self {
            Feed::Loader(loader) => {
                let batches = loader.rewind().batches(epoch, rank)?;
                Box::new(batches.map(move |rows| rows.into_iter().map(|row| name((0, row))).collect()))
            }
            Feed::Mix(mix) => {
                let rows =
                    move |step| Some(mix.which(epoch, step, rank).ok()?.into_iter().map(name).collect());
                Box::new((step..).map_while(rows))
            }
        })
    }
}

impl Saved {
    /// The epoch that is under way, or comes next.
    pub(super) fn epoch(&self) -> u64 {
        match self {
            Saved::Loader(position) => position.epoch,
            Saved::Mix(position) => position.epoch,
        }
    }
}

impl FeedEpoch {
    pub(super) fn number(&self) -> u64 {
        match self {
            FeedEpoch::Loader(epoch) => epoch.number(),
            FeedEpoch::Mix(epoch) => epoch.number(),
        }
    }

    pub(super) fn next_step(&mut self, patience: std::time::Duration) -> Wait {
        match self {
            FeedEpoch::Loader(epoch) => epoch.next_step(patience),
            FeedEpoch::Mix(epoch) => epoch.next_step(patience),
        }
    }
}
