//! The checked options of a loader: the open ones filled in, the rows selected, the memory divided.

use std::sync::Arc;

use forebay_arrow::datatypes::{DataType, Fields, SchemaRef};
use forebay_base::Result;
use forebay_store::row_set::RowSet;
use forebay_store::source::{Reading, Store, check_handles};

use super::LoaderBuilder;
use super::columns::{RowBytes, decodes, is_flat};
use super::samples::FoundSamples;
use crate::batch::{is_narrow, narrow_bits};
use crate::cache::DiskCache;
use crate::column::ColumnCodec;
use crate::loader::bad_rows::{BadRow, OnBadRow};
use crate::loader::collate::SampleForm;
use crate::loader::deny::{Denied, Deny, sets_of};
use crate::loader::handle::Open;
use crate::loader::machine::{default_memory, processors};
use crate::loader::sizing::{Grouping, Sizing};
use crate::loader::spec::LoaderSpec;
use crate::loader::threads::IoRuntime;
use crate::reader::Filter;
use crate::reader::budget::Budget;
use crate::reader::fetch::{Fetcher, KnownCosts};
use crate::reader::heads::Heads;
use crate::reader::row_cache::RowCache;
use crate::reader::select;
use crate::samples::SampleIndex;
use crate::shard::{Mixing, OrderSpec, Portion, SkippedRows, Split};

/// Of the catalogue of files and footers, the bytes that belong to what a process takes beside its budget: those of some
/// thousand files. Of a larger one the rest is counted. The sources of a mix share them.
const CATALOG_BYTES_FREE: u64 = 4 << 20;

/// What samples of several rows may take beside their rows, as a share of these, before it is known.
const SAMPLES_SHARE: u64 = 32;

/// The checked options of a loader with the defaults filled in, before anything is started.
pub(in crate::loader) struct Settled {
    /// With the defaults filled in.
    pub(in crate::loader) spec: LoaderSpec,
    /// The values of its shuffle that the user left open.
    pub(in crate::loader) open: Open,
    pub(super) threads: usize,
    pub(super) codecs: Vec<Arc<dyn ColumnCodec>>,
    /// Columns that are decoded.
    pub(super) decoded: usize,
    pub(in crate::loader) schema: SchemaRef,
    pub(super) fetcher: Fetcher,
    /// The files that were opened stay open for the loader.
    pub(super) reading: Reading,
    pub(super) selected: SampleIndex,
    pub(in crate::loader) order: OrderSpec,
    pub(in crate::loader) split: Split,
    pub(super) sizing: Sizing,
    /// What the division of the memory depends on.
    batches: Batches,
    pub(super) needs_deals: bool,
    pub(super) lengths: RowBytes,
    pub(super) form: SampleForm,
    /// A hash of the rows that are denied.
    pub(super) denied: Option<String>,
    pub(super) warning: Option<String>,
    /// Rows of which no sample is made, as each epoch counts them.
    pub(super) left_out: Arc<[BadRow]>,
}

/// The batches for which memory is divided.
#[derive(Clone, Copy, Debug)]
struct Batches {
    bytes: u64,
    grouping: Grouping,
    uses_workspace: bool,
    /// Bytes of what is kept of the data set.
    beside: u64,
}

impl LoaderBuilder {
    /// Checks everything, and fills in the open options. Patterns of names stay in them as they were given.
    pub(in crate::loader) fn settle(&self, io: &IoRuntime, store: Store) -> Result<Settled> {
        let settled = self.without_patterns()?.settle_named(io, store)?;
        let LoaderSpec { cast, decode, follow, tensors, texts, encode, pad, fill_null, .. } =
            self.spec.clone();
        let spec =
            LoaderSpec { cast, decode, follow, tensors, texts, encode, pad, fill_null, ..settled.spec };
        Ok(Settled { spec, ..settled })
    }

    /// The same of options that name each column.
    fn settle_named(&self, io: &IoRuntime, store: Store) -> Result<Settled> {
        self.check_numbers()?;
        check_handles()?;
        let reading = store.reading();
        let mut spec = self.spec.clone();
        spec.batch_size = spec.most_of_a_rank();
        let open = Open {
            lanes: spec.shuffle.lanes.is_none(),
            window: spec.shuffle.window_rows.is_none(),
            skips: spec.skip_steps.is_empty(),
        };
        let catalog = self.dataset.catalog.clone();
        spec.deny = spec.deny.typed(&catalog)?;
        let checked = spec.deny.checked(&catalog)?;
        let denied = checked.digest.clone();
        let projection = Arc::new(self.projection()?);
        let (codecs, schema) = self.codecs(&projection)?;
        let (schema, form) = self.form(&projection, schema)?;
        let threads = *spec.threads.get_or_insert_with(processors);
        let memory = *spec.memory.get_or_insert_with(default_memory);
        spec.columns = Some(projection.names(&catalog.schema));
        let default_window = catalog.window_rows(&projection) / self.among;
        let row_bytes = self.batch_row_bytes(&codecs, &projection)?;
        let batch_bytes = spec.batch_size.saturating_mul(self.sample_bytes(&form, row_bytes));
        let decoded = codecs.iter().filter(|codec| decodes(codec)).count();
        let mut lengths = self.lengths(&codecs, &projection)?;
        if let SampleForm::Packs(packs) = &form {
            lengths = lengths.all_alike(packs.bytes());
        }
        let with_keys = |fields: &Fields, takes: fn(&DataType) -> bool| {
            let keys = lengths.keys.iter().copied().chain(std::iter::repeat(false));
            fields.iter().zip(keys).all(|(field, is_key)| is_key || takes(field.data_type()))
        };
        let all_flat = with_keys(schema.fields(), is_flat);
        let grouping = match all_flat && decoded == 0 && lengths.columns.is_empty() {
            false => Grouping::Alone,
            true if !spec.samples.are_rows() => Grouping::Alone,
            true if spec.shuffle.mixing == Mixing::Window && spec.cache.is_none() => Grouping::Dealt,
            true => Grouping::Scattered,
        };
        let uses_workspace = codecs.iter().any(|codec| codec.uses_workspace());
        let sizing = Sizing::new(memory, spec.batch_size, batch_bytes, grouping, uses_workspace);
        let sizing = sizing.map_err(|error| match catalog.rows() < spec.batch_size {
            true => error.hint_also(&format!(
                "they are counted with {} rows each, and the data set has {}",
                spec.batch_size,
                catalog.rows()
            )),
            false => error,
        })?;
        let all_narrow = with_keys(projection.schema().fields(), is_narrow);
        let needs_deals = !all_narrow
            || decoded > 0
            || spec.cache.is_some()
            || !spec.encode.is_empty()
            || !spec.texts.is_empty()
            || !spec.cast.is_empty()
            || self.numbered
            || !spec.samples.are_rows()
            || spec.row_id
            || spec.row_mask
            || !matches!(spec.on_bad_row, OnBadRow::Raise);
        let sizing = sizing.with_deals(needs_deals);

        let mut fetcher = Fetcher {
            store,
            catalog,
            projection,
            budget: Budget::new(sizing.row_groups),
            lenient: matches!(spec.on_bad_row, OnBadRow::Skip { .. }),
            row_cache: None,
            costs: KnownCosts::default(),
            pages: None,
            pieces: Arc::default(),
            heads: Arc::default(),
            dealt_bits: 0,
            least: 0,
        };
        let filters = spec.filter.as_ref().map_or(0, Filter::bytes).saturating_add(spec.deny.bytes());
        let footers = fetcher.catalog.bytes().saturating_sub(CATALOG_BYTES_FREE / self.among);
        sizing.check_beside(footers.saturating_add(filters))?;
        if spec.filter.is_some() || !spec.samples.are_rows() {
            fetcher.least = self.least_of_all(&fetcher, sizing.beside(footers.saturating_add(filters)))?;
        }
        let found = self.select(io, &mut fetcher, &spec.deny, checked, sizing.row_groups)?;
        let FoundSamples { index: selected, largest, warning, left_out } = found;
        let sizing = match largest {
            Some(rows) => {
                let bytes = batch_bytes.saturating_mul(rows);
                Sizing::new(memory, spec.batch_size, bytes, grouping, uses_workspace)?.with_deals(needs_deals)
            }
            None => sizing,
        };
        // A window of the shuffle is a matter of rows, whatever samples are made of them.
        let row_counts = selected.row_counts();
        let kept = selected.bytes().saturating_add(fetcher.heads.bytes());
        let beside = kept.saturating_add(footers).saturating_add(filters);
        sizing.check_beside(beside)?;
        let sizing = sizing.beside(beside);
        let batches = Batches { bytes: batch_bytes, grouping, uses_workspace, beside };
        let rows = selected.total();
        let order = OrderSpec::new(&spec.shuffle, &row_counts, spec.shard.world(), default_window);
        let may_cut = spec.shuffle.mixing == Mixing::Window && selected.are_rows();
        let pieces_below = if may_cut { spec.shuffle.piece_rows.map_or(u64::MAX, u64::from) } else { 0 };
        let sizing = sizing.with_rows(&row_counts, &order, pieces_below);
        if may_cut && spec.cache.is_none() && self.cache.is_none() {
            let keys = lengths.keys.iter().copied().chain(std::iter::repeat(false));
            let fields = fetcher.projection.schema().fields().iter().zip(keys);
            let dealt = fields.filter(|(_, is_key)| !is_key);
            let bits = dealt.filter_map(|(field, _)| narrow_bits(field.data_type())).max();
            fetcher.dealt_bits = bits.unwrap_or(0);
        }
        self.check_rows(rows, &order)?;
        let order = self.in_pieces(io, &mut fetcher, &selected, order, sizing.row_groups)?;
        spec.shuffle = spec.shuffle.settled(order.lanes(), default_window);
        let filter = spec.filter.as_ref().map(Filter::canonical);
        fetcher.row_cache = self.open_cache()?.map(|cache| {
            RowCache::new(cache, filter.as_deref(), denied.as_deref(), row_counts, sizing.row_groups)
        });
        let split = Split {
            rows,
            lanes: order.lanes(),
            shard: spec.shard,
            global_batch: spec.global_batch(),
            drop_last: spec.drop_last,
        };
        let order = order.with_skipped(SkippedRows::of_steps(&spec.skip_steps, &split)?);
        let sizing = sizing.settle(&fetcher, &selected, &order, split, lengths.are_known)?;
        fetcher.budget = Budget::new(sizing.row_groups);
        Ok(Settled {
            spec,
            open,
            threads,
            codecs,
            decoded,
            schema,
            fetcher,
            reading,
            selected,
            order,
            split,
            sizing,
            batches,
            needs_deals,
            lengths,
            form,
            denied,
            warning,
            left_out: left_out.into(),
        })
    }

    /// The same options as a source of a mix, with `memory` of its memory: batches have up to `rows` rows.
    pub(in crate::loader) fn divided(
        &self,
        io: &IoRuntime,
        settled: Settled,
        (memory, rows): (u64, u64),
        portion: Portion,
    ) -> Result<Settled> {
        let bytes = settled.row_bytes() * rows;
        let Settled { mut spec, mut fetcher, selected, order, split, batches, .. } = settled;
        (spec.batch_size, spec.memory) = (rows, Some(memory));
        let sizing = Sizing::new(memory, rows, bytes, batches.grouping, batches.uses_workspace)?;
        let sizing = sizing.with_deals(settled.needs_deals).beside(batches.beside);
        let order =
            self.in_pieces(io, &mut fetcher, &selected, order, sizing.row_groups)?.with_portion(portion);
        let split = Split { lanes: order.lanes(), global_batch: spec.global_batch(), ..split };
        fetcher.row_cache = fetcher.row_cache.map(|row_cache| {
            let filter = spec.filter.as_ref().map(Filter::canonical);
            let counts = selected.row_counts();
            let cache = row_cache.cache().clone();
            RowCache::new(cache, filter.as_deref(), settled.denied.as_deref(), counts, sizing.row_groups)
        });
        let sizing = sizing.settle(&fetcher, &selected, &order, split, settled.lengths.are_known)?;
        fetcher.budget = Budget::new(sizing.row_groups);
        Ok(Settled { spec, fetcher, selected, order: order.alone(), split, sizing, batches, ..settled })
    }

    /// Has row groups read in pieces: those that do not fit `memory`, where rows are delivered as they are stored, and those that
    /// are shuffled in pieces. The latter do not depend on `memory`, so that a source of a mix looks them up once.
    fn in_pieces(
        &self,
        io: &IoRuntime,
        fetcher: &mut Fetcher,
        selected: &SampleIndex,
        order: OrderSpec,
        memory: u64,
    ) -> Result<OrderSpec> {
        if !order.cuts().is_empty() && self.spec.shuffle.mixing == Mixing::Window {
            if !fetcher.pieces.is_empty() {
                return Ok(order);
            }
            let cut = order.cuts().iter().map(|(&group, cuts)| (group as usize, cuts.clone()));
            let cut = cut.map(|(group, cuts)| (group, selected.selected(group), cuts)).collect();
            let of_rows = fetcher.clone();
            let cutting = async move { select::pieces_at(&of_rows, cut).await };
            fetcher.pieces = Arc::new(io.wait_for(cutting)??);
            return Ok(order);
        }
        if self.spec.shuffle.mixing != Mixing::Stored || !selected.are_rows() {
            return Ok(order);
        }
        let largest = Budget::new(memory).largest();
        let groups = (0..selected.most().len()).filter(|&group| selected.most()[group] > 0);
        let larger = groups.filter(|&group| fetcher.group_cost(group).total() > largest);
        let larger: Vec<_> = larger.map(|group| (group, selected.selected(group))).collect();
        if larger.is_empty() {
            return Ok(order);
        }
        let of_rows = fetcher.clone();
        let cutting = async move { select::pieces(&of_rows, larger, memory).await };
        fetcher.pieces = Arc::new(io.wait_for(cutting)??);
        Ok(order.with_cuts(fetcher.pieces.cuts()))
    }

    /// The least budget if all rows were selected and each were a sample.
    fn least_of_all(&self, fetcher: &Fetcher, sizing: Sizing) -> Result<u64> {
        let spec = &self.spec;
        let samples = SampleIndex::of_rows(select::live_rows(&fetcher.catalog)?);
        let window = fetcher.catalog.window_rows(&fetcher.projection) / self.among;
        let order = OrderSpec::new(&spec.shuffle, &samples.row_counts(), spec.shard.world(), window);
        let split = Split {
            rows: samples.total(),
            lanes: order.lanes(),
            shard: spec.shard,
            global_batch: spec.global_batch(),
            drop_last: spec.drop_last,
        };
        Ok(match order.mixing {
            Mixing::Window => {
                let least = sizing.least(fetcher, &samples, &order, split);
                least.saturating_add(least / SAMPLES_SHARE)
            }
            // Rows in stored order need no window, and of an exact one a cache may keep all rows.
            Mixing::Stored | Mixing::Exact => 0,
        })
    }

    /// The cache, opened if it is not open yet.
    fn open_cache(&self) -> Result<Option<DiskCache>> {
        match (&self.cache, &self.spec.cache) {
            (Some(open), _) => Ok(Some(open.clone())),
            (None, Some(spec)) => DiskCache::open(&spec.path, spec.max_bytes).map(Some),
            (None, None) => Ok(None),
        }
    }

    /// The samples, and a warning about rows or classes that there are not. Of row groups with few of the rows `fetcher` reads the pages that hold these from then on.
    fn select(
        &self,
        io: &IoRuntime,
        fetcher: &mut Fetcher,
        deny: &Deny,
        denied: Denied,
        limit: u64,
    ) -> Result<FoundSamples> {
        let catalog = fetcher.catalog.clone();
        let mut selected = select::live_rows(&catalog)?;
        for filter in denied.filter.into_iter().chain(self.spec.filter.clone()) {
            let columns = filter.columns();
            let names: Vec<&str> = columns.iter().map(String::as_str).collect();
            let projection = Arc::new(catalog.project(&names)?);
            // The rows must be known with certainty, so no row group may be skipped.
            let costs = KnownCosts::default();
            let of_filter = Fetcher { projection, lenient: false, costs, ..fetcher.clone() };
            let live = select::live_rows(&catalog)?;
            let found =
                io.wait_for(async move { select::matching(&filter, live, &of_filter, limit).await })??;
            selected = selected.iter().zip(&found).map(|(one, other)| one.intersection(other)).collect();
        }
        let (mut selected, unknown) = deny.without_rows(&catalog, selected);
        if let Some(only) = &self.only {
            let (wanted, _) = sets_of(&catalog, only);
            let none = |rows: &RowSet| RowSet::none(rows.rows());
            let of_group = |(group, rows): (usize, &RowSet)| match wanted.get(&group) {
                Some(wanted) => rows.intersection(wanted),
                None => none(rows),
            };
            selected = selected.iter().enumerate().map(of_group).collect();
        }
        let is_whole = self.spec.filter.is_none() && deny.is_empty() && self.only.is_none();
        if !is_whole && self.spec.cache.is_none() && self.cache.is_none() {
            let (of_rows, rows) = (fetcher.clone(), selected.clone());
            let pages = io.wait_for(async move { select::pages(&of_rows, &rows).await })??;
            fetcher.pages = (!pages.is_empty()).then(|| Arc::new(pages));
        }
        let warning = (unknown > 0).then(|| {
            format!("{unknown} of the rows that `deny` lists are not in this data set: a row id holds for one root folder")
        });
        let found = self.sample_index(io, fetcher, selected, denied.digest, limit)?;
        let samples = &found.index;
        if samples.run_on() && !self.plan_only {
            let (of_heads, wanted) = (fetcher.clone(), Heads::wanted(samples));
            let pages = io.wait_for(async move { select::head_pages(&of_heads, &wanted).await })??;
            fetcher.heads = Arc::new(Heads::new(samples, &catalog, &fetcher.projection, pages)?);
        }
        Ok(FoundSamples { warning: warning.or(found.warning), ..found })
    }
}

impl Settled {
    /// The bytes of a row in a batch.
    pub(in crate::loader) fn row_bytes(&self) -> u64 {
        self.batches.bytes / self.spec.batch_size.max(1)
    }

    /// Rows of each row group that are read.
    pub(in crate::loader) fn rows(&self) -> u64 {
        self.split.rows
    }

    /// The least memory that it needs as a source of a mix.
    pub(in crate::loader) fn least(&self, rows: u64, portion: Portion) -> u64 {
        let Batches { grouping, uses_workspace, beside, .. } = self.batches;
        let bytes = self.row_bytes() * rows;
        // Large enough for any batches: the least is sought from below.
        let sizing = Sizing::new(u64::MAX / 4, rows, bytes, grouping, uses_workspace);
        let sizing = sizing.unwrap_or(self.sizing).with_deals(self.needs_deals).beside(beside);
        let order = self.order.clone().with_portion(portion);
        let world = u64::from(self.spec.shard.world());
        let split = Split { lanes: order.lanes(), global_batch: rows * world, ..self.split };
        sizing.least(&self.fetcher, &self.selected, &order, split)
    }
}
