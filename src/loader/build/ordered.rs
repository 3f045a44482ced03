//! The third step of building a loader: puts the samples in an order, and sets up the reads of row groups for
//! it.

use std::sync::Arc;

use forebay_arrow::datatypes::{DataType, Field};
use forebay_base::Result;

use super::LoaderBuilder;
use super::checked::Checked;
use super::selected::Selected;
use crate::batch::narrow_bits;
use crate::cache::DiskCache;
use crate::loader::sizing::Sizing;
use crate::loader::threads::IoRuntime;
use crate::reader::Filter;
use crate::reader::budget::Budget;
use crate::reader::pieces::Pieces;
use crate::reader::reads::Reads;
use crate::reader::row_cache::RowCache;
use crate::reader::select;
use crate::samples::SampleIndex;
use crate::shard::{Mixing, OrderSpec, SkippedRows, Split};

/// The order of the samples, before the memory is divided for it.
pub(super) struct Ordered {
    pub(super) order: OrderSpec,
    pub(super) split: Split,
    /// The settings for reading row groups, or pieces of them, from the store or a cache.
    pub(super) reads: Reads,
    /// The division of the memory, in which the row groups and the lists that mix a window do not have
    /// separate shares yet.
    pub(super) sizing: Sizing,
}

impl LoaderBuilder {
    /// Puts the samples into an order.
    pub(super) fn ordered(&self, io: &IoRuntime, checked: &Checked, selected: &Selected) -> Result<Ordered> {
        let Checked { spec, denied, .. } = checked;
        let Selected { samples, costs, heads, sizing, .. } = selected;
        // The window of a shuffle counts rows, even if samples have several rows.
        let row_counts = samples.row_counts();
        let lanes = self.default_lanes(samples.total());
        let order = OrderSpec::new(&spec.shuffle, &row_counts, lanes, checked.default_window);
        let order = order.with_costs(costs.clone());
        let may_cut = spec.shuffle.mixing == Mixing::Window && samples.are_rows();
        let pieces_below = if may_cut { spec.shuffle.piece_rows.map_or(u64::MAX, u64::from) } else { 0 };
        let sizing = sizing.with_rows(&row_counts, &order, pieces_below);
        self.check_rows(samples.total(), &order)?;
        let (order, pieces) = self.in_pieces(io, &checked.reads, samples, order, sizing.row_groups)?;
        let filter = spec.filter.as_ref().map(Filter::canonical);
        let row_cache = self.open_cache()?.map(|cache| {
            let denied = denied.digest.as_deref();
            RowCache::new(cache, filter.as_deref(), denied, row_counts, sizing.row_groups)
        });
        let split = spec.split(samples.total(), &order);
        let order = order.with_skipped(SkippedRows::of_steps(&spec.skip_steps, &split)?);
        let dealt_bits = if may_cut && !self.keeps_rows() { dealt_bits(checked) } else { 0 };
        let (dealt_bits, block_bits) = match may_keep_chunks(&checked.reads) {
            true => (dealt_bits.max(checked.columns.block_bits()), 0),
            false => (dealt_bits, checked.columns.block_bits()),
        };
        let (heads, reads) = (heads.clone(), checked.reads.clone());
        let reads = Reads { row_cache, pieces, heads, dealt_bits, block_bits, ..reads };
        Ok(Ordered { order, split, reads, sizing })
    }

    /// Finds the row groups that are read in pieces. In stored order, these are row groups that do not fit
    /// `memory`; with a shuffle, they are those that are shuffled in pieces. The latter do not depend on
    /// `memory`, so a source of a mix finds them only once.
    pub(super) fn in_pieces(
        &self,
        io: &IoRuntime,
        reads: &Reads,
        selected: &SampleIndex,
        order: OrderSpec,
        memory: u64,
    ) -> Result<(OrderSpec, Arc<Pieces>)> {
        let known = reads.pieces.clone();
        if !order.cuts().is_empty() && self.spec.shuffle.mixing == Mixing::Window {
            if !known.is_empty() {
                return Ok((order, known));
            }
            let cut = order.cuts().iter().map(|(&group, cuts)| (group as usize, cuts.clone()));
            let cut = cut.map(|(group, cuts)| (group, selected.selected(group), cuts)).collect();
            let of_rows = reads.clone();
            let pieces = io.wait_for(async move { select::pieces_at(&of_rows, cut).await })??;
            return Ok((order, Arc::new(pieces)));
        }
        if self.spec.shuffle.mixing != Mixing::Stored || !selected.are_rows() {
            return Ok((order, known));
        }
        let largest = Budget::new(memory).largest();
        let groups = (0..selected.most().len()).filter(|&group| selected.most()[group] > 0);
        let larger = groups.filter(|&group| reads.group_cost(group).total() > largest);
        let larger: Vec<_> = larger.map(|group| (group, selected.selected(group))).collect();
        if larger.is_empty() {
            return Ok((order, known));
        }
        let of_rows = reads.clone();
        let pieces = io.wait_for(async move { select::pieces(&of_rows, larger, memory).await })??;
        Ok((order.with_cuts(pieces.cuts()), Arc::new(pieces)))
    }

    /// Opens the cache of the options, unless it is open already.
    pub(super) fn open_cache(&self) -> Result<Option<DiskCache>> {
        match (&self.cache, &self.spec.cache) {
            (Some(open), _) => Ok(Some(open.clone())),
            (None, Some(spec)) => DiskCache::open(&spec.path, spec.max_bytes).map(Some),
            (None, None) => Ok(None),
        }
    }
}

/// The number of bits of a row in the widest narrow column. Narrow columns are those that are copied into
/// their shuffled order.
fn dealt_bits(checked: &Checked) -> u64 {
    let fields = checked.reads.projection.schema().fields();
    let dealt = fields.iter().zip(checked.columns.lengths.keys()).filter(|(_, is_key)| !is_key);
    dealt.filter_map(|(field, _)| narrow_bits(field.data_type())).max().unwrap_or(0)
}

/// Whether decoded rows may use the memory of column chunks, so that these are not freed after decoding.
fn may_keep_chunks(reads: &Reads) -> bool {
    let is_of_cells = |field: &&Field| matches!(field.data_type(), DataType::FixedSizeBinary(_));
    reads.projection.keeps_bytes() || reads.projection.schema().flattened_fields().iter().any(is_of_cells)
}
