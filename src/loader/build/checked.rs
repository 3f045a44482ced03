//! The first step of building a loader: checks the options, and finds the columns that they deliver.

use std::sync::Arc;

use forebay_base::{Error, Result};
use forebay_store::catalog::{Catalog, Projection};
use forebay_store::source::{Reading, Store, check_handles};

use super::LoaderBuilder;
use super::columns::Delivered;
use crate::batch::is_narrow;
use crate::column::Codec;
use crate::loader::bad_rows::OnBadRow;
use crate::loader::deny::Denied;
use crate::loader::machine::{default_memory, processors};
use crate::loader::sizing::{Batches, Grouping, Sizing};
use crate::loader::source::Open;
use crate::loader::spec::LoaderSpec;
use crate::loader::withheld::Withheld;
use crate::reader::Filter;
use crate::reader::reads::Reads;
use crate::shard::Mixing;

/// The bytes of the catalogue (the metadata of files and row groups) that do not count against the memory
/// budget: enough for some thousand files. The rest of a larger catalogue counts. The sources of a mix share
/// these bytes.
const CATALOG_BYTES_FREE: u64 = 4 << 20;

/// The checked options of a loader, before the rows to read are selected.
pub(super) struct Checked {
    /// The options with the defaults filled in, except for those of the shuffle.
    pub(super) spec: LoaderSpec,
    pub(super) open: Open,
    pub(super) threads: usize,
    pub(super) denied: Denied,
    pub(super) withheld: Withheld,
    pub(super) columns: Delivered,
    /// The settings for reading the columns, with row groups that are read as a whole.
    pub(super) reads: Reads,
    pub(super) reading: Reading,
    /// The number of rows in the window if the user does not set it.
    pub(super) default_window: u64,
    pub(super) batches: Batches,
    /// The division of the memory budget, computed for `batches`.
    pub(super) sizing: Sizing,
    /// The bytes that are kept for the data set, no matter which rows are selected: the part of the catalogue
    /// that counts against the budget, the filter and the denied rows.
    pub(super) beside: u64,
}

impl LoaderBuilder {
    /// Checks the options of this builder, whose patterns were replaced by column names. `spec` has the
    /// options with the patterns, and is returned with the defaults filled in.
    pub(super) fn checked(&self, mut spec: LoaderSpec, store: Store) -> Result<Checked> {
        self.check_numbers()?;
        check_handles()?;
        let reading = store.reading();
        let catalog = self.dataset.catalog.clone();
        spec.batch_size = spec.most_of_a_rank();
        let open = Open {
            lanes: spec.shuffle.lanes.is_none(),
            window: spec.shuffle.window_rows.is_none(),
            skips: spec.skip_steps.is_empty(),
        };
        spec.deny = spec.deny.typed(&catalog)?;
        let denied = spec.deny.checked(&catalog)?;
        let withheld = Withheld::new(&spec.deny_from, &catalog)?;
        let projection = Arc::new(self.projection()?);
        let columns = self.delivered(&projection)?;
        let threads = *spec.threads.get_or_insert_with(processors);
        let memory = *spec.memory.get_or_insert_with(default_memory);
        spec.columns = Some(projection.names(&catalog.schema));
        let default_window = catalog.window_rows(&projection) / self.among;
        let batches = self.batches(&spec, &columns, &projection);
        let sizing = Sizing::new(memory, batches).map_err(|error| of_all_rows(error, &catalog, &spec))?;
        let filters = spec.filter.as_ref().map_or(0, Filter::bytes).saturating_add(spec.deny.bytes());
        let footers = catalog.bytes().saturating_sub(CATALOG_BYTES_FREE / self.among);
        let beside = footers.saturating_add(filters);
        sizing.check_beside(beside)?;
        let reads = Reads::whole(store, catalog, projection);
        Ok(Checked {
            spec,
            open,
            threads,
            denied,
            withheld,
            columns,
            reads,
            reading,
            default_window,
            batches,
            sizing,
            beside,
        })
    }

    /// The batches that the options ask for.
    fn batches(&self, spec: &LoaderSpec, columns: &Delivered, projection: &Projection) -> Batches {
        let is_flat = columns.are_flat();
        let grouping = match is_flat && spec.samples.are_rows() {
            false => Grouping::Alone,
            true if spec.shuffle.mixing == Mixing::Window => Grouping::Dealt,
            true => Grouping::Scattered,
        };
        let all_narrow = columns.lengths.all(projection.schema().fields(), is_narrow);
        let needs_deals = !all_narrow
            || columns.block_bits() > 0
            || columns.codecs.iter().any(Codec::may_refuse)
            || spec.cache.is_some()
            || self.numbered
            || !spec.samples.are_rows()
            || spec.row_id
            || spec.row_mask
            || !spec.deny_from.is_empty()
            || !matches!(spec.on_bad_row, OnBadRow::Raise);
        Batches {
            rows: spec.batch_size,
            bytes: spec.batch_size.saturating_mul(columns.sample_bytes),
            beside_rows: spec.batch_size.saturating_mul(columns.form.beside_rows()),
            grouping,
            uses_workspace: columns.codecs.iter().any(Codec::uses_workspace),
            needs_deals,
        }
    }
}

/// Adds a hint to the error for batches that take too much memory, if a batch would have more rows than the
/// data set.
fn of_all_rows(error: Error, catalog: &Catalog, spec: &LoaderSpec) -> Error {
    match catalog.rows() < spec.batch_size {
        true => error.hint_also(&format!(
            "they are counted with {} rows each, and the data set has {}",
            spec.batch_size,
            catalog.rows()
        )),
        false => error,
    }
}
