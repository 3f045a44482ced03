//! Settles the options of a loader: fills in defaults, selects the rows, puts them in an order, and divides
//! the memory.
//!
//! ```text
//! options ─► Checked ─► Selected ─► Ordered ─► Settled
//!            columns    samples     order      memory, and what fetches under it
//! ```

use std::sync::Arc;

use forebay_arrow::datatypes::SchemaRef;
use forebay_base::Result;
use forebay_store::source::{Reading, Store};

use super::LoaderBuilder;
use super::checked::Checked;
use super::columns::Delivered;
use super::ordered::Ordered;
use super::selected::Selected;
use crate::loader::bad_rows::{BadRow, OnBadRow};
use crate::loader::dataset::read_row_ids;
use crate::loader::plan::Planned;
use crate::loader::sizing::{Batches, Sizing};
use crate::loader::source::{Open, Unkept};
use crate::loader::spec::LoaderSpec;
use crate::loader::threads::IoRuntime;
use crate::loader::withheld::Withheld;
use crate::reader::budget::Budget;
use crate::reader::fetch::Fetcher;
use crate::reader::reads::Reads;
use crate::reader::row_memory::RowMemory;
use crate::samples::SampleIndex;
use crate::shard::{OrderSpec, Portion, Split};

/// All rows stay in memory from epoch to epoch if they take at most the memory budget divided by this number.
const STAYING_DIVISOR: u64 = 8;

/// The share of a mix that one of its sources gets.
pub(super) struct SourceShare {
    /// The bytes of memory.
    pub(super) memory: u64,
    /// The most rows of the source in a batch.
    pub(super) rows: u64,
    pub(super) portion: Portion,
}

/// The settled options of a loader, before anything is started.
pub(super) struct Settled {
    /// The options with the defaults filled in.
    pub(super) spec: LoaderSpec,
    /// Flags for options, such as the number of lanes, that say whether the user left them open.
    pub(super) open: Open,
    pub(super) threads: usize,
    pub(super) columns: Delivered,
    pub(super) fetcher: Fetcher,
    /// Keeps the files open as long as the loader exists.
    pub(super) reading: Reading,
    pub(super) selected: SampleIndex,
    pub(super) order: OrderSpec,
    pub(super) split: Split,
    pub(super) sizing: Sizing,
    /// The size of the batches for which the memory is divided.
    pub(super) batches: Batches,
    /// The mean cost of a sample, if a mix weighs this source by a cost.
    pub(super) mean_cost: Option<f64>,
    /// The bytes of all data that is kept for the data set, such as the catalogue and the selected rows.
    beside: u64,
    /// A hash of the denied rows.
    pub(super) denied: Option<String>,
    /// The rows that are left out only at and after a certain step.
    pub(super) withheld: Withheld,
    pub(super) warning: Option<String>,
    /// The rows that are in no sample, which each epoch counts as bad.
    pub(super) left_out: Arc<[BadRow]>,
    /// The cache that the user gave, and the reason why it keeps nothing; `None` otherwise.
    pub(super) unkept: Option<Unkept>,
}

impl LoaderBuilder {
    /// Checks all options, and fills in those that the user left open. The settled options contain patterns
    /// of names as the user gave them.
    pub(super) fn settle(&self, io: &IoRuntime, store: Store) -> Result<Settled> {
        if self.needs_row_ids() {
            read_row_ids(io, &store, &self.dataset.catalog)?;
        }
        let (reading, catalog) = (store.clone(), self.dataset.catalog.clone());
        io.wait_for(async move { reading.read_sample(&catalog).await })??;
        let named = self
            .without_patterns()?
            .with_stacks()?
            .with_offsets()?
            .decoded_by_schema(io, &store)?
            .with_fills()?;
        named.kept_or_read_again(&self.spec, io, store)
    }

    /// Settles the options of this builder, in which column names have replaced the patterns. `spec` has the
    /// same options with the patterns.
    pub(super) fn arranged(&self, spec: &LoaderSpec, io: &IoRuntime, store: Store) -> Result<Settled> {
        let checked = self.checked(spec.clone(), store)?;
        let selected = self.select(io, &checked)?;
        let ordered = self.ordered(io, &checked, &selected)?;
        self.sized(checked, selected, ordered)
    }

    /// Whether the options name rows by their ids, or deliver ids.
    fn needs_row_ids(&self) -> bool {
        let LoaderSpec { row_id, deny, deny_from, on_bad_row, .. } = &self.spec;
        let skips = matches!(on_bad_row, OnBadRow::Skip { .. });
        let names_rows = self.only.is_some() || !deny.row_ids().is_empty() || !deny_from.is_empty();
        *row_id || skips || names_rows || self.plan_only
    }

    /// The last step of settling: divides the memory for an order, and sets up the fetcher with the memory
    /// for row groups.
    fn sized(&self, checked: Checked, selected: Selected, ordered: Ordered) -> Result<Settled> {
        let Checked { mut spec, open, threads, columns, reading, denied, default_window, .. } = checked;
        let (withheld, warning) = (checked.withheld, selected.warning);
        let warning = warning.or_else(|| withheld.warning.clone());
        let Selected { samples, mean_cost, pages, batches, beside, left_out, .. } = selected;
        let Ordered { order, split, reads, sizing } = ordered;
        spec.shuffle = spec.shuffle.settled(order.lanes(), default_window);
        let sizing = sizing.settle(&reads, &samples, &order, split, columns.lengths.are_known)?;
        let lenient = matches!(spec.on_bad_row, OnBadRow::Skip { .. });
        let (reads, budget) = staying(reads, &samples, &order, split, &sizing, spec.epochs);
        Ok(Settled {
            fetcher: Fetcher { reads, budget, lenient, pages },
            selected: samples,
            denied: denied.digest,
            withheld,
            left_out: left_out.into(),
            spec,
            open,
            threads,
            columns,
            reading,
            order,
            split,
            sizing,
            batches,
            mean_cost,
            beside,
            warning,
            unkept: None,
        })
    }

    /// Settles the options again as a source of a mix.
    pub(super) fn divided(
        &self,
        io: &IoRuntime,
        settled: Settled,
        SourceShare { memory, rows, portion }: SourceShare,
    ) -> Result<Settled> {
        let Settled { mut spec, fetcher, selected, order, split, batches, beside, .. } = settled;
        (spec.batch_size, spec.memory) = (rows, Some(memory));
        let sizing = Sizing::new(memory, batches.of_rows(rows))?.beside(beside);
        let (order, pieces) = self.in_pieces(io, &fetcher.reads, &selected, order, sizing.row_groups)?;
        let order = order.with_portion(portion);
        let split = Split { lanes: order.lanes(), global_batch: spec.global_batch(), ..split };
        let row_cache = fetcher.reads.row_cache.as_ref();
        let row_cache = row_cache.map(|row_cache| row_cache.within(sizing.row_groups));
        let reads = Reads { pieces, row_cache, ..fetcher.reads.clone() };
        let sizing = sizing.settle(&reads, &selected, &order, split, settled.columns.lengths.are_known)?;
        let (reads, budget) = staying(reads, &selected, &order, split, &sizing, spec.epochs);
        let fetcher = Fetcher { reads, budget, ..fetcher };
        Ok(Settled { spec, fetcher, selected, order: order.alone(), split, sizing, ..settled })
    }
}

impl Settled {
    /// The settled options that are needed to sum up the reads of a rank in a plan.
    pub(super) fn planned(&self) -> Planned<'_> {
        let Settled { selected: samples, order, split, fetcher, sizing, unkept, .. } = self;
        let read_again = unkept.as_ref().map(|unkept| &*unkept.why);
        Planned { samples, order, split: *split, fetcher, sizing, read_again }
    }

    /// The schema of batches.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.columns.schema
    }

    /// The bytes of a row in a batch.
    pub(super) fn row_bytes(&self) -> u64 {
        self.batches.row_bytes()
    }

    /// The number of samples in an epoch, which are rows by default.
    pub(super) fn rows(&self) -> u64 {
        self.split.rows
    }

    /// The least memory, in bytes, with which these options work as a source of a mix.
    pub(super) fn least(&self, rows: u64, portion: Portion) -> u64 {
        // The starting point is more memory than any batches need; `Sizing::least` then computes the least.
        let sizing = Sizing::new(u64::MAX / 4, self.batches.of_rows(rows));
        let sizing = sizing.unwrap_or(self.sizing).beside(self.beside);
        let order = self.order.clone().with_portion(portion);
        let world = u64::from(self.spec.shard.world());
        let split = Split { lanes: order.lanes(), global_batch: rows * world, ..self.split };
        sizing.least(&self.fetcher.reads, &self.selected, &order, split)
    }
}

/// Sets up the budget for row groups. If all rows are few enough, a part of the budget holds them from epoch
/// to epoch, so that they are read only once. That is not done if a cache on disk keeps them already.
fn staying(
    reads: Reads,
    samples: &SampleIndex,
    order: &OrderSpec,
    split: Split,
    sizing: &Sizing,
    epochs: Option<u64>,
) -> (Reads, Budget) {
    let budget = Budget::new(sizing.row_groups);
    let reads = Reads { row_memory: None, ..reads };
    let may_stay = reads.row_cache.is_none() && reads.pieces.is_empty() && reads.heads.is_empty();
    if !may_stay || epochs == Some(1) {
        return (reads, budget);
    }
    let counts = samples.row_counts();
    let bytes = reads.staying_bytes(&counts);
    let fits = bytes <= sizing.memory / STAYING_DIVISOR
        && sizing.fits_beside(RowMemory::room_of(bytes), &reads, samples, order, split);
    let row_memory = fits.then(|| RowMemory::new(&reads.catalog, counts, bytes, &budget)).flatten();
    (Reads { row_memory: row_memory.map(Arc::new), ..reads }, budget)
}
