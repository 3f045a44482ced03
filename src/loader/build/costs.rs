//! The options `balance` and, in a mix, `by`: finds the cost of each sample, so that all ranks have about
//! equal costs in each step, and the mean cost of the samples of a source.

use std::collections::HashMap;
use std::sync::Arc;

use forebay_base::{Error, Result};
use forebay_store::catalog::Catalog;
use forebay_store::row_set::RowSet;

use super::LoaderBuilder;
use super::places::of_column;
use crate::loader::threads::IoRuntime;
use crate::reader::select::Scanner;
use crate::samples::{RowCost, SampleIndex, Samples};
use crate::shard::{Mixing, RowCosts};

impl LoaderBuilder {
    /// Refuses `balance` if it does not work with the shuffle and the samples.
    pub(super) fn check_balance(&self) -> Result<()> {
        let spec = &self.spec;
        if spec.balance.is_empty() {
            return Ok(());
        }
        if spec.balance.len() > RowCosts::MAX_COSTS {
            return Err(Error::invalid(format!("`balance` has {} costs", spec.balance.len()))
                .hint(format!("give up to {}", RowCosts::MAX_COSTS)));
        }
        spec.balance.iter().try_for_each(RowCost::check)?;
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

    /// The costs of each sample; `None` if `balance` is not used.
    pub(super) fn costs(
        &self,
        io: &IoRuntime,
        scanner: &Scanner,
        selected: &[RowSet],
        samples: &SampleIndex,
        denied: Option<&str>,
    ) -> Result<Option<Arc<RowCosts>>> {
        if self.spec.balance.is_empty() {
            return Ok(None);
        }
        let mut lengths = self.lengths_of(io, scanner, selected, &self.spec.balance, denied)?;
        let mut of_rows = vec![Vec::with_capacity(selected.len()); self.spec.balance.len()];
        for (group, selected) in selected.iter().enumerate() {
            let of_group = taken(&mut lengths, group);
            for (cost, of_rows) in self.spec.balance.iter().zip(&mut of_rows) {
                let costs = costs_of_group(cost, &of_group, scanner.catalog(), group, selected)?;
                // Balancing needs no more precision.
                of_rows.push(costs.into_iter().map(|cost| cost as f32).collect());
            }
        }
        let mut costs = Vec::with_capacity(self.spec.balance.len());
        for (cost, of_rows) in self.spec.balance.iter().zip(of_rows) {
            let stored = cost.column().map(|name| self.spec.stored_name(name));
            let squares = match &self.spec.samples {
                Samples::Packs(pack) if Some(self.spec.stored_name(pack.length_column())) == stored => {
                    Some(pack)
                }
                _ => None,
            };
            costs.push(samples.costs(of_rows, squares));
        }
        Ok(Some(Arc::new(RowCosts::new(costs))))
    }

    /// The mean cost of a sample, by which a mix weighs this source; `None` if it does not weigh by a cost.
    ///
    /// # Errors
    /// Fails if samples have no mean cost, or if it is 0.
    pub(super) fn mean_cost(
        &self,
        io: &IoRuntime,
        scanner: &Scanner,
        selected: &[RowSet],
        samples: &SampleIndex,
        denied: Option<&str>,
    ) -> Result<Option<f64>> {
        let Some(cost) = &self.weighed_by else { return Ok(None) };
        let of_several = match &self.spec.samples {
            Samples::Rows | Samples::Packs(_) | Samples::Buckets(_) => None,
            Samples::Windows(_) => Some("windows, which may share rows"),
            Samples::Weighted(_) => Some("rows that are drawn by weight"),
        };
        if let Some(samples) = of_several {
            return Err(Error::invalid(format!("the mix has weights by {cost}, but samples are {samples}"))
                .hint("leave out `by`: the weights then count samples"));
        }
        let mut lengths = self.lengths_of(io, scanner, selected, std::slice::from_ref(cost), denied)?;
        let mut all = 0.0;
        for (group, selected) in selected.iter().enumerate() {
            let of_group = taken(&mut lengths, group);
            // The sum of whole numbers below 2^53 is exact, in any order.
            all += costs_of_group(cost, &of_group, scanner.catalog(), group, selected)?.iter().sum::<f64>();
        }
        if all > 0.0 {
            return Ok(Some(all / samples.total() as f64));
        }
        Err(Error::invalid(format!("the mix has weights by {cost}, which is 0 in all rows"))
            .hint("weigh by another cost, or leave the source out"))
    }

    /// The lengths or numbers of the selected rows in each column of some costs.
    fn lengths_of<'a>(
        &self,
        io: &IoRuntime,
        scanner: &Scanner,
        selected: &[RowSet],
        costs: &'a [RowCost],
        denied: Option<&str>,
    ) -> Result<HashMap<&'a str, Vec<Vec<u32>>>> {
        let mut lengths: HashMap<&str, Vec<Vec<u32>>> = HashMap::new();
        for name in costs.iter().flat_map(RowCost::columns) {
            if !lengths.contains_key(name) {
                let stored = self.spec.stored_name(name);
                let of_rows = self.lengths_by(io, scanner, selected, stored, denied).map_err(|error| {
                    if error.place().column.is_some() { error } else { error.at(of_column(name)) }
                })?;
                lengths.insert(name, of_rows);
            }
        }
        Ok(lengths)
    }
}

/// The costs of the selected rows of a row group, from the `lengths` of its columns.
fn costs_of_group(
    cost: &RowCost,
    lengths: &HashMap<&str, Vec<u32>>,
    catalog: &Catalog,
    group: usize,
    selected: &RowSet,
) -> Result<Vec<f64>> {
    let columns = cost.columns();
    let lengths: Vec<&[u32]> = columns.iter().map(|name| &*lengths[name]).collect();
    cost.of_rows(&lengths).map_err(|(row, error)| {
        let row = selected.select(row as u32).into();
        error.at(catalog.place_of_row(&catalog.groups[group], row).column(columns[0]))
    })
}

/// Takes the lengths of a row group out of those of all row groups. With billions of rows they take
/// gigabytes, which are free again once the costs of the row group are known.
fn taken<'a>(lengths: &mut HashMap<&'a str, Vec<Vec<u32>>>, group: usize) -> HashMap<&'a str, Vec<u32>> {
    lengths.iter_mut().map(|(name, of_groups)| (*name, std::mem::take(&mut of_groups[group]))).collect()
}
