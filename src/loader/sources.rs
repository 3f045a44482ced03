//! The state that a loader shares with its epochs: its sources, how they are mixed if there are several, and
//! how far the consumer got.

use std::sync::Arc;

use forebay_base::Result;

use super::mix::Mixture;
use super::pass::Pass;
use super::prefetch::PrefetchKey;
use super::progress::{At, Progress};
use super::source::{Begun, Source};
use super::spec::LoaderSpec;
use crate::shard::{MixSplit, MixedEpoch, Portion, Run};

/// The sources of a loader, the way in which they are mixed, and the consumer's progress.
pub(super) struct Sources {
    /// The sources, of which there is at least one.
    all: Vec<Arc<Source>>,
    /// How the sources are mixed; `None` if the loader has a single source.
    pub(super) mixture: Option<Arc<Mixture>>,
    pub(super) progress: Arc<Progress>,
}

/// The current epoch of a mix, with its plan.
#[derive(Clone)]
pub(super) struct PlannedEpoch {
    pub(super) number: u64,
    pub(super) run: Arc<Run>,
    pub(super) split: MixSplit,
    pub(super) plan: Arc<MixedEpoch>,
}

/// A position in a pass, a run through the rows of one source.
#[derive(Clone, Copy)]
pub(super) struct PassPlace {
    pub(super) source: usize,
    /// The number of the pass in the epoch.
    pub(super) pass: u64,
    pub(super) row: u64,
    /// The number of bad rows that were left out of the pass before this position.
    pub(super) skipped: u64,
}

impl Sources {
    /// Makes the state of a loader with a single source.
    pub(super) fn one(source: Source) -> Arc<Self> {
        Arc::new(Sources { all: vec![Arc::new(source)], mixture: None, progress: Arc::default() })
    }

    /// Makes the state of a loader that mixes several sources.
    pub(super) fn mixed(sources: impl IntoIterator<Item = Source>, mixture: Mixture) -> Arc<Self> {
        let all = sources.into_iter().map(Arc::new).collect();
        Arc::new(Sources { all, mixture: Some(Arc::new(mixture)), progress: Arc::default() })
    }

    pub(super) fn all(&self) -> &[Arc<Source>] {
        &self.all
    }

    /// The first source, which is the only one unless the loader is a mix.
    pub(super) fn first(&self) -> &Arc<Source> {
        &self.all[0]
    }

    /// The options of the loader, with the defaults filled in.
    pub(super) fn spec(&self) -> &LoaderSpec {
        self.mixture.as_ref().map_or(&self.first().spec, |mixture| &mixture.spec)
    }

    /// Fails if the loader was closed, or if this process is a fork of the one that built it.
    pub(super) fn check_usable(&self) -> Result<()> {
        self.all.iter().try_for_each(|source| source.engine.check_usable())
    }

    /// Begins the next epoch of a loader with one source, or the epoch `number`. `begins` is called with the
    /// place at which the epoch begins, after everything that can fail. So the position does not move if the
    /// epoch cannot begin.
    pub(super) fn begin_alone(&self, number: Option<u64>, begins: impl FnOnce(&At, u64)) -> Result<Pass> {
        let source = self.first();
        source.begin(false, || {
            let (at, generation) = self.progress.begin(number)?;
            begins(&at, generation);
            let (number, start, skipped) = (at.epoch, at.row, at.skipped_of(0));
            let order = source.order();
            let last = source.spec.epochs;
            let following = number.checked_add(1).filter(|next| last.is_none_or(|epochs| *next < epochs));
            let epochs = std::iter::once((number, start)).chain(following.map(|next| (next, 0)));
            let keys = epochs.map(|(epoch, start)| PrefetchKey { epoch, start, order: order.clone() });
            Ok(Begun { generation, skipped, keys: keys.collect(), stands_in: false, is_joined: false })
        })
    }

    /// Begins a pass over a source of a mix at the position `at`, and prepares the following pass.
    /// `stands_in` means that the pass is read only to find a row that replaces rows in other batches. Rows
    /// that are denied at any step of the pass are then left out from its beginning.
    pub(super) fn begin_part(
        &self,
        mixture: &Mixture,
        epoch: &PlannedEpoch,
        at: PassPlace,
        stands_in: bool,
    ) -> Result<Pass> {
        let PlannedEpoch { number, run, split, plan } = epoch;
        let PassPlace { source, pass, row, skipped } = at;
        let of = &self.all[source];
        let order = of.order();
        let key = |plan: &Arc<MixedEpoch>, pass: u64, start: u64| {
            let portion = Portion { epoch: plan.clone(), source, split: *split };
            PrefetchKey {
                epoch: plan.passes[source] + pass,
                start,
                order: order.clone().with_portion(portion),
            }
        };
        let mut keys = vec![key(plan, pass, row)];
        if pass + 1 < plan.passes_of(source) {
            keys.push(key(plan, pass + 1, 0));
        } else if mixture.spec.epochs.is_none_or(|epochs| number + 1 < epochs) {
            // The run may have no next epoch; then nothing more is prepared.
            if let Ok(next) = mixture.planned(run, number + 1)
                && next.passes_of(source) > 0
            {
                keys.push(key(&next, 0, 0));
            }
        }
        of.begin(true, || Ok(Begun { generation: 0, skipped, keys, stands_in, is_joined: true }))
    }
}
