//! The option `deny_from`: rows that are withheld (not delivered) only at and after a certain step of the
//! run.
//!
//! Withheld rows keep their places in the order. A new order in the middle of an epoch would deliver some of
//! the other rows twice and some not at all. A batch with withheld rows is shorter, as if they were bad rows
//! that are skipped.

use std::sync::Arc;

use forebay_base::{Error, Result};
use forebay_store::catalog::Catalog;

use super::deny::Deny;
use super::prefetch::PrefetchKey;
use crate::shard::Split;

/// The rows that a source withholds, with the step of the run from which it withholds them.
#[derive(Debug, Default)]
pub(super) struct Withheld {
    /// The lists of withheld rows, in the order of the steps from which they apply.
    changes: Vec<Change>,
    /// A warning about listed rows that the data set does not have.
    pub(super) warning: Option<String>,
}

#[derive(Debug)]
struct Change {
    step: u64,
    /// The ordinals in the data set of all rows that are withheld from `step` on, in ascending order.
    rows: Arc<[u64]>,
    /// A hash of the row ids that are denied from `step` on.
    digest: Option<String>,
}

/// The rows that are withheld in a pass (one run through the rows of a source). Each list applies from the
/// given row of the pass, the first row of a step, until the next list applies.
#[derive(Clone, Debug, Default)]
pub(crate) struct OfPass(Vec<(u64, Arc<[u64]>)>);

impl OfPass {
    /// Applies the last list to the whole pass, and drops the others.
    pub(super) fn throughout(mut self) -> Self {
        OfPass(self.0.pop().map(|(_, rows)| (0, rows)).into_iter().collect())
    }

    /// The ordinals of the rows that are withheld in the step that ends at row `end` of the pass.
    pub(super) fn at(&self, end: u64) -> &[u64] {
        self.0.iter().rev().find(|(from, _)| *from < end).map_or(&[], |(_, rows)| rows)
    }
}

impl Withheld {
    /// Looks up the denied rows in `changes`. Each change is a step, and the rows that are withheld at and
    /// after it.
    ///
    /// # Errors
    /// Fails if rows are denied by the values of a column.
    pub(super) fn new(changes: &[(u64, Deny)], catalog: &Catalog) -> Result<Self> {
        let mut sorted = changes.to_vec();
        sorted.sort_by_key(|(step, _)| *step);
        let mut found = Withheld::default();
        let mut all = Deny::default();
        for (step, deny) in sorted {
            if deny.has_values() {
                return Err(Error::invalid("deny_from has values of a column")
                    .hint("list row ids, as `which` and the bad rows of an epoch have them"));
            }
            all = all.and(deny);
            let numbers = all.row_ids().iter().filter_map(|&id| {
                let (group, row) = catalog.find_row(id)?;
                Some(catalog.groups[group].first_row + row)
            });
            let mut rows: Vec<u64> = numbers.collect();
            rows.sort_unstable();
            let unknown = all.row_ids().len() - rows.len();
            found.warning = (unknown > 0).then(|| {
                format!(
                    "{unknown} of the rows that `deny_from` lists are not in this data set: row ids hold for \
                     one root folder"
                )
            });
            found.changes.push(Change { step, rows: rows.into(), digest: all.digest() });
        }
        Ok(found)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// The rows that are withheld in the pass that `key` names.
    pub(super) fn of_pass(&self, key: &PrefetchKey, split: &Split) -> OfPass {
        let begin = |change: &Change| Some((begin_in_pass(change.step, key, split)?, change.rows.clone()));
        OfPass(self.changes.iter().filter_map(begin).collect())
    }

    /// A hash of the row ids that were denied before some point of the run; `None` if there were none.
    /// `is_before` says whether a step came before that point.
    pub(super) fn digest(&self, is_before: impl Fn(u64) -> bool) -> Option<String> {
        let last = self.changes.iter().rev().find(|change| is_before(change.step));
        last.and_then(|change| change.digest.clone())
    }
}

/// Finds the epoch in which a step of the run lies, and the row of the epoch at which the step begins. For a
/// loader of one data set, not for a mix.
pub(super) fn place_of(step: u64, split: &Split) -> (u64, u64) {
    let steps = split.steps(0).max(1);
    (step / steps, (step % steps).saturating_mul(split.global_batch))
}

/// The row of a pass at which a step of the run begins: 0 if the step comes before the pass, and `None` if it
/// comes after it.
fn begin_in_pass(step: u64, key: &PrefetchKey, split: &Split) -> Option<u64> {
    let Some(portion) = key.order.portion() else {
        let (epoch, row) = place_of(step, split);
        return (key.epoch >= epoch).then_some(if key.epoch > epoch { 0 } else { row });
    };
    let (plan, source) = (&portion.epoch, portion.source);
    let Some(into) = step.checked_sub(plan.first_step) else { return Some(0) };
    if into >= plan.course.steps() {
        return None;
    }
    let first = (key.epoch - plan.passes[source]) * plan.sizes[source];
    let taken = plan.taken_before(into)[source];
    (taken < first + plan.sizes[source]).then(|| taken.saturating_sub(first))
}
