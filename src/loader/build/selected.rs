//! The second step of building a loader: selects its rows, and makes samples from them.

use std::collections::HashMap;
use std::sync::Arc;

use forebay_base::Result;
use forebay_store::row_set::RowSet;

use super::LoaderBuilder;
use super::checked::Checked;
use super::samples::FoundSamples;
use crate::loader::bad_rows::BadRow;
use crate::loader::deny::sets_of;
use crate::loader::sizing::{Batches, Sizing};
use crate::loader::threads::IoRuntime;
use crate::reader::chunk_pages::GroupPages;
use crate::reader::heads::Heads;
use crate::reader::select::{self, Scanner};
use crate::samples::SampleIndex;
use crate::shard::{Mixing, OrderSpec, RowCosts};

/// Samples of several rows need memory in addition to their rows. Until its size is known, it is assumed to
/// be the memory of the rows divided by this number.
const SAMPLES_DIVISOR: u64 = 32;

/// The pages to read, by the indices of row groups. Other row groups are read as a whole.
type Pages = Option<Arc<HashMap<usize, GroupPages>>>;

/// The selected rows and samples of a loader, before they are put in an order.
pub(super) struct Selected {
    pub(super) samples: SampleIndex,
    /// The costs of each sample, if the option `balance` is used.
    pub(super) costs: Option<Arc<RowCosts>>,
    /// The mean cost of a sample, if a mix weighs this source by a cost.
    pub(super) mean_cost: Option<f64>,
    /// The pages that hold selected rows, for row groups with only few selected rows.
    pub(super) pages: Pages,
    pub(super) heads: Arc<Heads>,
    /// The batches of a rank, computed again now that the number of rows of a sample is known.
    pub(super) batches: Batches,
    /// The division of the memory, for these batches and for `beside`.
    pub(super) sizing: Sizing,
    /// The bytes of all data that is kept for the data set, such as the catalogue and the selected rows.
    pub(super) beside: u64,
    /// A warning about denied rows, or classes with a weight, that do not exist.
    pub(super) warning: Option<String>,
    pub(super) left_out: Vec<BadRow>,
}

impl LoaderBuilder {
    /// Selects the rows, and makes samples from them.
    pub(super) fn select(&self, io: &IoRuntime, checked: &Checked) -> Result<Selected> {
        let Checked { spec, denied, reads, .. } = checked;
        let least = match spec.filter.is_some() || !spec.samples.are_rows() {
            true => self.least_of_all(checked)?,
            false => 0,
        };
        let scanner = Scanner::new(reads, checked.sizing.row_groups, least);
        let (rows, unknown) = self.selected_rows(io, checked, &scanner)?;
        let pages = self.pages_of(io, checked, &rows)?;
        let denied = denied.digest.as_deref();
        let found = self.sample_index(io, &scanner, rows.clone(), denied)?;
        let FoundSamples { index: samples, largest, warning, left_out } = found;
        let costs = self.costs(io, &scanner, &rows, &samples, denied)?;
        let mean_cost = self.mean_cost(io, &scanner, &rows, &samples, denied)?;
        let heads = self.heads_of(io, checked, &samples)?;
        let batches = largest.map_or(checked.batches, |rows| checked.batches.of_samples(rows));
        let of_costs = costs.as_ref().map_or(0, |costs| costs.bytes());
        let kept = samples.bytes().saturating_add(heads.bytes()).saturating_add(of_costs);
        let beside = kept.saturating_add(checked.beside);
        let sizing = Sizing::new(checked.sizing.memory, batches)?;
        sizing.check_beside(beside)?;
        let warning = (unknown > 0).then(|| unknown_rows(unknown)).or(warning);
        Ok(Selected {
            samples,
            costs,
            mean_cost,
            pages,
            heads,
            batches,
            sizing: sizing.beside(beside),
            beside,
            warning,
            left_out,
        })
    }

    /// The selected rows of each row group, and the number of denied rows that do not exist.
    fn selected_rows(
        &self,
        io: &IoRuntime,
        checked: &Checked,
        scanner: &Scanner,
    ) -> Result<(Vec<RowSet>, u64)> {
        let Checked { spec, denied, reads, .. } = checked;
        let catalog = &reads.catalog;
        let mut selected = select::live_rows(catalog)?;
        for filter in denied.filter.iter().chain(&spec.filter) {
            let scanner = scanner.of_columns(&Vec::from_iter(filter.columns()))?;
            let live = select::live_rows(catalog)?;
            let filter = filter.clone();
            let found = io.wait_for(async move { select::matching(&filter, live, &scanner).await })??;
            selected = selected.iter().zip(&found).map(|(one, other)| one.intersection(other)).collect();
        }
        let (selected, unknown) = spec.deny.without_rows(catalog, selected);
        let Some(only) = &self.only else { return Ok((selected, unknown)) };
        let (wanted, _) = sets_of(catalog, only);
        let of_group = |(group, rows): (usize, &RowSet)| match wanted.get(&group) {
            Some(wanted) => rows.intersection(wanted),
            None => RowSet::none(rows.rows()),
        };
        Ok((selected.iter().enumerate().map(of_group).collect(), unknown))
    }

    /// The pages that hold selected rows, for row groups with only few selected rows. `None` with a cache,
    /// which keeps whole row groups.
    fn pages_of(&self, io: &IoRuntime, checked: &Checked, rows: &[RowSet]) -> Result<Pages> {
        let Checked { spec, reads, .. } = checked;
        let is_asked_for = spec.filter.is_some() || !spec.deny.is_empty() || self.only.is_some();
        let lacks_rows = is_asked_for || reads.catalog.files.iter().any(|file| file.deleted.is_some());
        if !lacks_rows || self.keeps_rows() {
            return Ok(None);
        }
        let (reads, rows) = (reads.clone(), rows.to_vec());
        let pages = io.wait_for(async move { select::pages(&reads, &rows).await })??;
        Ok((!pages.is_empty()).then(|| Arc::new(pages)))
    }

    /// Reads the first rows of each row group that belong to a sample which begins in an earlier row group.
    fn heads_of(&self, io: &IoRuntime, checked: &Checked, samples: &SampleIndex) -> Result<Arc<Heads>> {
        if !samples.run_on() || self.plan_only {
            return Ok(Arc::default());
        }
        let reads = &checked.reads;
        let (of_heads, wanted) = (reads.clone(), Heads::wanted(samples));
        let pages = io.wait_for(async move { select::head_pages(&of_heads, &wanted).await })??;
        Ok(Arc::new(Heads::new(samples, &reads.catalog, &reads.projection, pages)?))
    }

    /// The least memory budget, in bytes, for a loader that selects all rows and makes each row a sample.
    fn least_of_all(&self, checked: &Checked) -> Result<u64> {
        let Checked { spec, reads, .. } = checked;
        let samples = SampleIndex::of_rows(select::live_rows(&reads.catalog)?);
        let lanes = self.default_lanes(samples.total());
        let order = OrderSpec::new(&spec.shuffle, &samples.row_counts(), lanes, checked.default_window);
        let split = spec.split(samples.total(), &order);
        Ok(match order.mixing {
            Mixing::Window => {
                let sizing = checked.sizing.beside(checked.beside);
                let least = sizing.least(reads, &samples, &order, split);
                least.saturating_add(least / SAMPLES_DIVISOR)
            }
            // Rows in stored order need no window, and an exact shuffle may keep all rows in a cache.
            Mixing::Stored | Mixing::Exact => 0,
        })
    }

    /// Whether rows are kept in a cache.
    pub(super) fn keeps_rows(&self) -> bool {
        self.spec.cache.is_some() || self.cache.is_some()
    }
}

fn unknown_rows(unknown: u64) -> String {
    format!(
        "{unknown} of the rows that `deny` lists are not in this data set: row ids hold for one root folder"
    )
}
