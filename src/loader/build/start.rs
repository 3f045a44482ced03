//! Starts a loader with checked options, or describes what it would read.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};

use forebay_base::promise::Promise;
use forebay_base::{Result, paths};
use forebay_image::Workspace;
use forebay_store::source::none_kept;
use rayon::ThreadPool;

use super::LoaderBuilder;
use super::columns::Delivered;
use super::settle::Settled;
use crate::column::{CacheForm, Codec};
use crate::loader::buffer_pool::BufferPool;
use crate::loader::collate::{Collator, StackBlocks, held_schema};
use crate::loader::handle::Loader;
use crate::loader::lengths::Lengths;
use crate::loader::pipe::{Engine, Means};
use crate::loader::plan::RankPlan;
use crate::loader::rewind::LastAsked;
use crate::loader::source::Source;
use crate::loader::sources::Sources;
use crate::loader::threads::{self, IoRuntime};
use crate::loader::tiers::Tiers;
use crate::monitor::{Monitor, Trace};
use crate::reader::Filter;
use crate::reader::coded::CodedColumns;
use crate::shard::row_key;

impl LoaderBuilder {
    /// Checks everything, scans the filter's columns if there is a filter, and starts the loader's threads.
    ///
    /// # Errors
    /// Fails for a column that does not exist or has an unsupported type, a number that is out of range, a
    /// filter that selects nothing, a window or a row group that does not fit into the memory, and a trace
    /// that cannot be written. For a mix also: an option that the mix or its sources do not have, weights
    /// that cannot be used, columns of one name with different types, and an epoch without a step or an end.
    pub fn build(self) -> Result<Loader> {
        if self.is_mix() {
            return self.begins_after(self.mix()?.start()?);
        }
        self.check_after(None)?;
        let this = self.of_kept_files()?;
        let (io, store) = this.dataset.here()?;
        let settled = this.settle(&io, store)?;
        let monitor = monitor(&settled.spec.trace, settled.threads)?;
        let pool = threads::pool(settled.threads)?;
        let source = this.clone().start(settled, io, pool, monitor, 0);
        this.begins_after(Loader { sources: Sources::one(source) })
    }

    /// Starts a loader of one data set, or a source of a mix, on a pool of threads. `first_number` is the
    /// number of rows in the data sets of the sources before it.
    pub(super) fn start(
        self,
        settled: Settled,
        io: Arc<IoRuntime>,
        pool: Arc<ThreadPool>,
        monitor: Arc<Monitor>,
        first_number: u64,
    ) -> Source {
        let Settled { spec, threads, columns, mut fetcher, selected, order, sizing, .. } = settled;
        let Delivered { codecs, decoded, all, schema, form, lengths, .. } = columns;
        let stacks = codecs.iter().filter(|codec| matches!(codec, Codec::Stack(_))).count();
        let promise = Promise::new(sizing.promised());
        let means = Means { io, pool, _reading: settled.reading, _promise: promise };
        let engine = Engine::start(means, fetcher.reads.row_cache.clone());
        let tiers = fetcher.reads.row_cache.as_ref().zip(spec.cache.as_ref()).map(|(row_cache, cache)| {
            // If the cache's files cannot be mapped, their rows are read into memory. The memory is planned
            // for cells as they are stored, so the cache keeps no other form.
            let forms = match row_cache.cache().is_mapped() {
                true => CacheForm::all(&codecs, fetcher.reads.projection.schema()),
                false => Vec::new(),
            };
            Arc::new(Tiers::new(cache.tier, forms, decoded as u64, &fetcher.reads))
        });
        let is_cached = fetcher.reads.row_cache.is_some();
        let beside_rows = form.beside_rows();
        let held = match form.is_rows() {
            true => held_schema(fetcher.reads.projection.schema(), &codecs, &lengths.keys, is_cached),
            false => None,
        };
        // A cache keeps the stored values, so columns are read as codes only without a cache.
        if held.is_some() && !is_cached {
            let columns = codecs.iter().zip(&lengths.keys);
            let codes = columns.map(|(codec, is_key)| codec.held().filter(|_| !is_key)?.codes());
            fetcher.reads.coded = CodedColumns::new(codes.collect()).map(Arc::new);
        }
        let largest = self.dataset.catalog.groups.iter().map(|group| group.rows).max().unwrap_or(0);
        let stay = fetcher.reads.row_memory.is_some();
        let stored = held.as_ref().unwrap_or(fetcher.reads.projection.schema());
        let blocks = StackBlocks::new(&codecs, stored, |block| stay || block.is_quickly_made(largest));
        let collator = Collator {
            held,
            blocks,
            is_cached,
            tags: self.tags(&codecs, &fetcher.reads.projection),
            catalog: self.dataset.catalog.clone(),
            codecs,
            all,
            schema,
            form,
            group: sizing.group,
            on_bad_row: spec.on_bad_row,
            needs_deals: settled.batches.needs_deals,
            numbered: self.numbered,
            row_id: spec.row_id,
            row_mask: spec.row_mask,
            keys: lengths.keys,
            buffers: BufferPool::new((sizing.ahead + 3) * (decoded + stacks)),
            workspace: Workspace::of_loader(sizing.memory, threads),
            monitor: monitor.clone(),
            seed: augmentation_seed(spec.shuffle.seed(), self.source),
            lengths: Lengths {
                columns: lengths.columns,
                to_longest: lengths.to_longest,
                expanded: lengths.expanded,
                by_cell: lengths.by_cell,
                others: lengths.others,
                beside_rows,
                largest: sizing.largest_batch(),
                of_a_sample: spec.samples.rows_of_each(),
            },
        };
        Source {
            engine,
            fetcher,
            selected: Arc::new(selected),
            collator: Arc::new(collator),
            monitor,
            opened: self.dataset.opened,
            sizing,
            asked: LastAsked::default(),
            order: Mutex::new(order),
            open: settled.open,
            rows: settled.split.rows,
            left_out: settled.left_out,
            filter: spec.filter.as_ref().map(Filter::canonical),
            denied: settled.denied,
            withheld: settled.withheld,
            files: OnceLock::new(),
            warning: Mutex::new(settled.warning),
            spec,
            tiers,
            unkept: settled.unkept,
            first_number,
            joint: None,
        }
    }

    /// Describes what this rank would read in an epoch, like [`Loader::plan`] of the loader that
    /// [`build`](Self::build) makes. No threads are started. The plan needs footers alone; but with a filter,
    /// the filter's columns are read, and with a cache of [`Tier::Auto`](crate::Tier::Auto), a row group may
    /// be read for a measurement.
    ///
    /// # Errors
    /// The errors of [`build`](Self::build), except that no trace is written.
    pub fn plan(&self, epoch: u64) -> Result<RankPlan> {
        if self.is_mix() {
            return self.mix()?.plan(epoch);
        }
        let this = self.clone().of_kept_files()?;
        let (io, store) = this.dataset.here()?;
        Ok(this.settle(&io, store)?.planned().plan(epoch))
    }

    /// Leaves out the files that, by the filter, have no matching rows.
    pub(super) fn of_kept_files(mut self) -> Result<Self> {
        if let Some(filter) = &self.spec.filter {
            let catalog = &self.dataset.catalog;
            filter.validate(catalog)?;
            if let Some(kept) = catalog.kept_by(|listed| filter.keeps(listed))? {
                if kept.files.is_empty() {
                    return Err(none_kept());
                }
                self.dataset.catalog = Arc::new(kept);
            }
        }
        self.spec.samples.check()?;
        self.name_columns_of_patterns()?;
        Ok(self)
    }
}

/// The seed of the random draws for rows, such as crops. It differs between the sources of a mix, so that
/// rows with the same index in two sources do not get the same crops.
fn augmentation_seed(seed: u64, source: u64) -> u64 {
    if source == 0 { seed } else { row_key(seed, u64::MAX, source) }
}

/// Creates the record of the loader's activity, with a timeline if `trace` names a file for it.
pub(super) fn monitor(trace: &Option<PathBuf>, threads: usize) -> Result<Arc<Monitor>> {
    let trace = trace.as_ref().map(paths::local).transpose()?;
    Ok(Monitor::new(threads, trace.as_deref().map(Trace::create).transpose()?))
}
