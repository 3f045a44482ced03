//! Row groups in plan order: from parts of a plan to their rows.
//!
//! ```text
//! parts ─ budget ─ fetch ─► bytes ║ rows ─► Resident
//!          async            async ║ sync, on the loader's pool
//! ```
//!
//! [`fetch`] is the last async file: it waits for the budget and for the store. [`rows`] is the first one that works:
//! it turns bytes into Arrow arrays. [`shelf`] is where rows come from that were kept before. Which rows of a row group are wanted at all is the job of [`select`] and
//! [`filter`].

pub(crate) mod budget;
pub(crate) mod fetch;
pub mod filter;
mod pages;
pub mod rows;
pub(crate) mod select;
pub(crate) mod shelf;

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, StructArray, UInt32Array, new_null_array,
};
use arrow::datatypes::{DataType, Fields, Schema};

use crate::error::{Error, Result};
use crate::shard::Part;

pub use filter::Filter;

use budget::{ALONE_BEYOND, Permit};
use fetch::{Chunks, Fetcher};
use select::Selected;
use shelf::Kept;

/// The rows of one part, in memory, with the permit that covers them.
#[derive(Debug)]
pub(crate) struct Resident {
    pub(crate) part: Part,
    pub(crate) rows: RecordBatch,
    /// Why none of the rows can be delivered; they are nulls then.
    pub(crate) lost: Option<Error>,
    numbers: Numbers,
    /// Shared with who writes the rows to disk.
    permit: Option<Arc<Permit>>,
    /// Whether the rows take no memory of this process, so that the permit is for the way here alone.
    mapped: bool,
}

/// Which row of its row group each row is.
#[derive(Clone, Debug)]
enum Numbers {
    /// Consecutive rows from this one on.
    From(u64),
    /// These rows.
    Listed(Arc<[u32]>),
}

impl Numbers {
    fn of(part: &Part, selected: &Selected) -> Self {
        match selected.listed(part) {
            Some(listed) => Numbers::Listed(listed.into()),
            None => Numbers::From(u64::from(part.start)),
        }
    }
}

/// Decodes what was fetched. The bytes that its rows may take are bounded by `limit`, and a little more for a row group that
/// passes alone.
pub(crate) fn read(
    fetcher: &Fetcher,
    selected: &Selected,
    part: &Part,
    chunks: Chunks,
    limit: u64,
) -> Result<RecordBatch> {
    let Fetcher { catalog, projection, .. } = fetcher;
    let group = &catalog.groups[part.group as usize];
    let selection = selected.of_part(part, group.rows);
    let limit = limit_for(limit);
    rows::read_part(catalog, projection, part.group as usize, selection.as_ref(), chunks, limit)
}

/// The bytes that a row group may decode to under a budget of `limit`.
fn limit_for(limit: u64) -> u64 {
    limit.saturating_add(ALONE_BEYOND)
}

impl Resident {
    /// The rows that a part was decoded to.
    pub(crate) fn new(
        fetcher: &Fetcher,
        selected: &Selected,
        part: Part,
        rows: RecordBatch,
        mut permit: Permit,
    ) -> Self {
        // The plan counts on the estimate, not on what this row group happens to take.
        permit.shrink(fetcher.held(part.group as usize));
        let permit = Some(Arc::new(permit));
        Resident { part, rows, lost: None, numbers: Numbers::of(&part, selected), permit, mapped: false }
    }

    /// The rows that were kept of a part's row group.
    pub(crate) fn kept(
        fetcher: &Fetcher,
        selected: &Selected,
        part: Part,
        kept: &Kept,
        permit: Permit,
    ) -> Self {
        Resident {
            mapped: kept.mapped,
            ..Resident::new(fetcher, selected, part, cut(&kept.rows, &part), permit)
        }
    }

    /// The same rows, from the cache.
    pub(crate) fn exchanged(self, kept: &Kept) -> Self {
        Resident { rows: cut(&kept.rows, &self.part), mapped: kept.mapped, ..self }
    }

    /// The rows where they are used: memory that they do not take is given back.
    pub(crate) fn at_hand(mut self) -> Self {
        self.permit.take_if(|_| self.mapped);
        self
    }

    /// What the rows take of the budget.
    pub(crate) fn memory(&self) -> Option<Arc<Permit>> {
        self.permit.clone()
    }

    /// The bytes of the budget that come back when it is let go.
    pub(crate) fn permitted(&self) -> u64 {
        self.permit.as_ref().map_or(0, |permit| permit.bytes())
    }

    /// In the place of a part that cannot be read.
    pub(crate) fn lost(fetcher: &Fetcher, selected: &Selected, part: Part, error: Error) -> Result<Self> {
        let fields = fetcher.projection.schema().fields().iter();
        let fields: Fields = fields.map(|field| field.as_ref().clone().with_nullable(true)).collect();
        let rows = part.rows as usize;
        let nulls = fields.iter().map(|field| new_null_array(field.data_type(), rows)).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let rows = RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), nulls, &options)?;
        Ok(Resident {
            part,
            rows,
            lost: Some(error),
            numbers: Numbers::of(&part, selected),
            permit: None,
            mapped: false,
        })
    }

    /// The ordinal of a row in its row group.
    pub(crate) fn row_in_group(&self, row: u32) -> u64 {
        match &self.numbers {
            Numbers::From(first) => first + u64::from(row),
            Numbers::Listed(rows) => u64::from(rows[row as usize]),
        }
    }

    /// The given rows in memory of their own, so that the row group's can be given back.
    pub(crate) fn detach(&self, rows: &[u32]) -> Result<Resident> {
        let taken = arrow::compute::take_record_batch(&self.rows, &UInt32Array::from(rows.to_vec()))?;
        let columns = taken.columns().iter().map(compact).collect::<Result<Vec<_>>>()?;
        let numbers = rows.iter().map(|&row| self.row_in_group(row) as u32).collect::<Vec<_>>();
        let numbers = Numbers::Listed(numbers.into());
        let rows = RecordBatch::try_new(taken.schema(), columns)?;
        let (part, lost) = (self.part, self.lost.clone());
        Ok(Resident { part, rows, lost, numbers, permit: None, mapped: false })
    }
}

/// The rows of a part, of all that are selected of its row group.
pub(crate) fn cut(rows: &RecordBatch, part: &Part) -> RecordBatch {
    rows.slice(part.start as usize, part.rows as usize)
}

/// Copies what views point at, so that they stop pinning whole pages.
fn compact(array: &ArrayRef) -> Result<ArrayRef> {
    Ok(match array.data_type() {
        DataType::Utf8View => Arc::new(array.as_string_view().gc()),
        DataType::BinaryView => Arc::new(array.as_binary_view().gc()),
        DataType::Struct(fields) => {
            let columns = array.as_struct().columns().iter().map(compact).collect::<Result<Vec<_>>>()?;
            Arc::new(StructArray::try_new(fields.clone(), columns, array.nulls().cloned())?)
        }
        _ => array.clone(),
    })
}
