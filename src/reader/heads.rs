//! Heads: the first rows of a row group, if samples that begin in an earlier row group need them too. They
//! are read together with the earlier row group.

use std::collections::HashMap;

use forebay_base::Result;
use forebay_store::catalog::{Catalog, Projection};
use forebay_store::row_set::RowSet;

use super::chunk_pages::GroupPages;
use super::cost::Cost;
use crate::samples::{Head, SampleIndex};

/// The heads of a data set, by the earlier row groups with which they are read.
#[derive(Default)]
pub(crate) struct Heads {
    of: HashMap<u32, Box<[(Head, Cost)]>>,
    /// The pages to read for heads, by the row groups that have these pages. A row group that is not in the
    /// map is read as a whole.
    pages: HashMap<usize, GroupPages>,
}

impl Heads {
    /// For each row group, the selected rows that are read together with an earlier row group as its head.
    pub(crate) fn wanted(samples: &SampleIndex) -> Vec<RowSet> {
        let groups = samples.most().len();
        let mut most = vec![0; groups];
        for head in (0..groups).flat_map(|group| samples.heads(group)) {
            let rows = &mut most[head.group as usize];
            *rows = head.rows.max(*rows);
        }
        let of_group = |(group, rows): (usize, u32)| {
            let selected = samples.selected(group);
            RowSet::from_runs(selected.rows(), selected.runs(0..rows))
        };
        most.into_iter().enumerate().map(of_group).collect()
    }

    /// Finds the heads of all row groups. `pages` has the pages with [`wanted`](Self::wanted) rows, for row
    /// groups that need not be read as a whole.
    pub(crate) fn new(
        samples: &SampleIndex,
        catalog: &Catalog,
        projection: &Projection,
        pages: HashMap<usize, GroupPages>,
    ) -> Result<Self> {
        let cost = |head: Head| {
            let group = &catalog.groups[head.group as usize];
            let held = catalog.first_rows_bytes(group, projection, head.rows.into());
            let cost = match pages.get(&(head.group as usize)) {
                Some(pages) => {
                    let cost = pages.cost(catalog, projection, group, head.rows.into())?;
                    Cost { held: cost.held.min(held), ..cost }
                }
                None => Cost { stored: catalog.stored_bytes(group, projection), decoding: 0, held },
            };
            Ok((head, cost))
        };
        let mut of = HashMap::new();
        for group in 0..samples.most().len() {
            let heads = samples.heads(group).map(cost).collect::<Result<Box<[_]>>>()?;
            if !heads.is_empty() {
                of.insert(group as u32, heads);
            }
        }
        Ok(Heads { of, pages })
    }

    /// Whether no sample continues in another row group.
    pub(crate) fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// The heads (the first rows of later row groups) that are read together with a row group.
    pub(crate) fn of_group(&self, group: u32) -> impl Iterator<Item = Head> + '_ {
        self.of.get(&group).into_iter().flatten().map(|(head, _)| *head)
    }

    /// The memory for reading the heads that [`of_group`](Self::of_group) returns for a row group.
    pub(crate) fn cost(&self, group: u32) -> Cost {
        let costs = self.of.get(&group).into_iter().flatten().map(|(_, cost)| *cost);
        costs.fold(Cost::default(), Cost::with)
    }

    /// The pages to read for the head of `group`; `None` if all pages of `group` are read.
    pub(crate) fn pages(&self, group: u32) -> Option<&GroupPages> {
        self.pages.get(&(group as usize))
    }

    /// The memory that this list of heads takes, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        let entry = size_of::<(u32, Box<[(Head, Cost)]>)>() + size_of::<(Head, Cost)>();
        (self.of.len() * entry) as u64
    }
}
