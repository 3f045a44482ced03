//! Steps of a mix whose shares are made together: one batch has the rows of all sources, so that the shares
//! need not be copied into one.
//!
//! Each source lists its rows of a step on a thread of its own. The thread that lists the last share of the
//! step starts to make the batch. A share may be left of a pass that was ended since, so that the step never
//! has all of its shares; the consumer then starts to make those that it waits for.

mod shares;

use std::fmt;
use std::sync::Arc;

use forebay_base::Result;
use rayon::ThreadPool;

use self::shares::{Share, StepShares, WaitingSteps};
use super::batch_group::PackRows;
use super::collate::{BatchRows, Collated};
use super::queue::Sender;
use crate::shard::StepOfMix;

/// The steps of a mix that wait for shares.
#[derive(Default)]
pub(crate) struct JointSteps(WaitingSteps<ListedShare>);

/// A source of a mix whose shares are made together with those of other sources.
#[derive(Clone, Debug)]
pub(crate) struct JointSource {
    pub(crate) steps: Arc<JointSteps>,
    /// The number of the source in the mix.
    pub(crate) number: usize,
}

/// A step, with the shares that are listed until its batch is started.
#[derive(Clone)]
pub(crate) struct JointStep {
    pool: Arc<ThreadPool>,
    shares: Arc<StepShares<ListedShare>>,
}

/// The rows of a source in a step.
struct ListedShare {
    source: usize,
    rows: BatchRows,
    /// The number of samples, and the channel to which they are sent once they are made.
    output: (usize, Sender<Result<Collated>>),
}

impl fmt::Debug for JointSteps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JointSteps").finish_non_exhaustive()
    }
}

impl Share for ListedShare {
    fn source(&self) -> usize {
        self.source
    }

    fn is_cancelled(&self) -> bool {
        self.rows.is_cancelled()
    }
}

impl JointSource {
    /// Adds the rows of this source in a step, and starts to make its batch if they are the last.
    pub(crate) fn add(
        &self,
        step: StepOfMix,
        rows: BatchRows,
        output: (usize, Sender<Result<Collated>>),
        pool: &Arc<ThreadPool>,
    ) -> JointStep {
        let share = ListedShare { source: self.number, rows, output };
        let (shares, listed) = self.steps.0.add(step.number, share);
        let joint = JointStep { pool: pool.clone(), shares };
        if listed == step.shares {
            joint.start();
        }
        joint
    }
}

impl JointStep {
    /// Starts to make the batch of all shares that are listed, unless it is started already.
    pub(crate) fn start(&self) {
        let Some(listed) = self.shares.take() else { return };
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
