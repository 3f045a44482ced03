//! Steps of a mix whose shares are made together: one batch has the rows of all sources, so that the shares
//! need not be copied into one.
//!
//! Each source lists its rows of a step on a thread of its own. The thread that lists the last share of the
//! step starts to make the batch. A share may be left of a pass that was ended since, so that the step never
//! has all of its shares; the consumer then starts to make those that it waits for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use forebay_base::Result;
use rayon::ThreadPool;

use super::batch_group::PackRows;
use super::collate::{BatchRows, Collated};
use super::queue::Sender;
use crate::shard::StepOfMix;

/// The steps of a mix that wait for shares.
#[derive(Debug, Default)]
pub(crate) struct JointSteps {
    /// Each step by its number in the run. The batches that wait for it own it.
    waiting: Mutex<HashMap<u64, Weak<JointStep>>>,
}

/// A source of a mix whose shares are made together with those of other sources.
#[derive(Clone, Debug)]
pub(crate) struct JointSource {
    pub(crate) steps: Arc<JointSteps>,
    /// The number of the source in the mix.
    pub(crate) number: usize,
}

/// A step, with the shares that are listed until its batch is started.
pub(crate) struct JointStep {
    pool: Arc<ThreadPool>,
    /// The shares; `None` once their batch is started.
    listed: Mutex<Option<Vec<ListedShare>>>,
}

/// The rows of a source in a step.
struct ListedShare {
    source: usize,
    rows: BatchRows,
    /// The number of samples, and the channel to which they are sent once they are made.
    output: (usize, Sender<Result<Collated>>),
}

impl JointSource {
    /// Adds the rows of this source in a step, and starts to make its batch if they are the last.
    pub(crate) fn add(
        &self,
        step: StepOfMix,
        rows: BatchRows,
        output: (usize, Sender<Result<Collated>>),
        pool: &Arc<ThreadPool>,
    ) -> Arc<JointStep> {
        let share = ListedShare { source: self.number, rows, output };
        let (joint, is_complete) = self.steps.add(step, share, pool);
        if is_complete {
            joint.start();
        }
        joint
    }
}

impl JointSteps {
    /// Adds a share to its step. Returns the step, and whether all of its shares are listed.
    fn add(&self, step: StepOfMix, share: ListedShare, pool: &Arc<ThreadPool>) -> (Arc<JointStep>, bool) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.retain(|_, joint| joint.strong_count() > 0);
        let known = waiting.get(&step.number).and_then(Weak::upgrade);
        let joint = known.filter(|joint| joint.lacks(share.source)).unwrap_or_else(|| {
            let joint = Arc::new(JointStep { pool: pool.clone(), listed: Mutex::new(Some(Vec::new())) });
            waiting.insert(step.number, Arc::downgrade(&joint));
            joint
        });
        let listed = joint.listed().as_mut().map_or(0, |listed| {
            listed.push(share);
            listed.len()
        });
        (joint, listed == step.shares)
    }
}

impl JointStep {
    fn listed(&self) -> MutexGuard<'_, Option<Vec<ListedShare>>> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the step waits for a share of this source. It does not if a share was listed by a pass that
    /// was ended since.
    fn lacks(&self, source: usize) -> bool {
        let is_other = |share: &ListedShare| share.source != source && !share.rows.is_cancelled();
        self.listed().as_ref().is_some_and(|listed| listed.iter().all(is_other))
    }

    /// Starts to make the batch of all shares that are listed, unless it is started already.
    pub(crate) fn start(&self) {
        let Some(mut listed) = self.listed().take() else { return };
        listed.sort_by_key(|share| share.source);
        let (shares, outputs) = listed.into_iter().map(|share| (share.rows, share.output)).unzip();
        if let Some(rows) = joined(shares) {
            rows.start(&self.pool, outputs);
        }
    }
}

/// Joins the rows of several shares, in their order; `None` if there are none.
fn joined(shares: Vec<BatchRows>) -> Option<BatchRows> {
    let all_rows: usize = shares.iter().map(|share| share.picks.len()).sum();
    let mut shares = shares.into_iter();
    let mut all = shares.next()?;
    let mut picks = Arc::unwrap_or_clone(all.picks);
    let mut packs = all.packs.map(Arc::unwrap_or_clone);
    let mut withheld = all.withheld.to_vec();
    picks.reserve(all_rows - picks.len());
    for share in shares {
        let (sources, rows) = (all.sources.len() as u32, picks.len() as u32);
        all.passes.extend(share.passes);
        all.sources.extend(share.sources);
        picks.extend(share.picks.iter().map(|(source, place)| (sources + source, *place)));
        packs.iter_mut().zip(share.packs).for_each(|(packs, more)| packs.extend(&more, rows));
        withheld.extend(share.withheld.iter().map(|row| rows + row));
    }
    (all.picks, all.packs, all.withheld) = (Arc::new(picks), packs.map(Arc::new), withheld.into());
    Some(all)
}

impl PackRows {
    /// Adds the packs of another batch, whose rows come after `rows` rows.
    fn extend(&mut self, more: &PackRows, rows: u32) {
        self.ends.extend(more.ends.iter().map(|end| rows + end));
        self.lengths.extend_from_slice(&more.lengths);
        self.skipped.extend_from_slice(&more.skipped);
    }
}
