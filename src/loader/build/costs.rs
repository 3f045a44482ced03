//! The option `balance`: finds the cost of each sample, so that all ranks have about equal costs in each
//! step.

use std::sync::Arc;

use forebay_base::{Error, Result};
use forebay_store::row_set::RowSet;

use super::LoaderBuilder;
use super::places::of_column;
use crate::loader::threads::IoRuntime;
use crate::reader::select::Scanner;
use crate::samples::{SampleIndex, Samples};
use crate::shard::{CostRanks, Mixing};

impl LoaderBuilder {
    /// Refuses `balance` if it does not work with the shuffle and the samples.
    pub(super) fn check_balance(&self) -> Result<()> {
        let spec = &self.spec;
        if spec.balance.is_empty() {
            return Ok(());
        }
        if spec.balance.len() > CostRanks::MAX_COSTS {
            return Err(Error::invalid(format!("`balance` names {} columns", spec.balance.len()))
                .hint(format!("name up to {}", CostRanks::MAX_COSTS)));
        }
        if spec.shuffle.mixing != Mixing::Window {
            let cause = "`balance` was given, and only a shuffle in a window orders rows by their cost";
            return Err(Error::invalid(cause).hint("shuffle with a window, or leave `balance` out"));
        }
        if spec.samples.are_reshuffled() {
            let cause = "`balance` was given, but each epoch makes its samples anew (`reshuffle`)";
            return Err(Error::invalid(cause).hint("leave out one of them: costs are those of fixed samples"));
        }
        let samples = match &spec.samples {
            Samples::Rows | Samples::Packs(_) | Samples::Buckets(_) => return Ok(()),
            Samples::Windows(_) => "windows, which have equally many rows",
            Samples::Weighted(_) => "rows that are drawn by weight",
        };
        Err(Error::invalid(format!("`balance` was given, but samples are {samples}")).hint("leave it out"))
    }

    /// The position of each sample when the samples are sorted by cost; `None` if `balance` is not used.
    pub(super) fn cost_ranks(
        &self,
        io: &IoRuntime,
        scanner: &Scanner,
        selected: &[RowSet],
        samples: &SampleIndex,
        denied: Option<&str>,
    ) -> Result<Option<Arc<CostRanks>>> {
        if self.spec.balance.is_empty() {
            return Ok(None);
        }
        let mut costs = Vec::with_capacity(self.spec.balance.len());
        for name in &self.spec.balance {
            let stored = self.spec.stored_name(name);
            let of_rows = self.lengths_by(io, scanner, selected, stored, denied).map_err(|error| {
                if error.place().column.is_some() { error } else { error.at(of_column(name)) }
            })?;
            let squares = match &self.spec.samples {
                Samples::Packs(pack) if self.spec.stored_name(pack.length_column()) == stored => Some(pack),
                _ => None,
            };
            costs.push(samples.costs(&of_rows, squares));
        }
        Ok(Some(Arc::new(CostRanks::new(&costs))))
    }
}
