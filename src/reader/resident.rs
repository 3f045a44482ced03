//! The rows of a part (a run of rows of one row group), which are in memory or mapped as long as batches are
//! made from them.

mod beyond;
mod current;

use std::fmt;
use std::sync::Arc;

use forebay_arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array};
use forebay_arrow::datatypes::{Fields, Schema};
use forebay_arrow::fail::OrFail;
use forebay_base::{Error, ErrorKind, Result};

use self::current::{CurrentRows, lock};
use super::budget::Permit;
use super::fetch::Fetcher;
use super::placed::Rows;
use super::row_cache::Kept;
use super::row_memory::Staying;
use crate::batch::{compact, is_narrow};
use crate::samples::{EpochSamples, PartRows, PartSamples, SampleRows};
use crate::shard::Part;

/// The rows of one part, with the permit for the memory that they take.
#[derive(Debug)]
pub(crate) struct Resident {
    pub(crate) part: Part,
    rows: CurrentRows,
    /// The reason why none of the rows can be delivered. All values are null then.
    pub(crate) lost: Option<Error>,
    numbers: RowNumbers,
    /// The samples of the part; `None` if each row is a sample.
    samples: Option<ResidentSamples>,
    /// The index of the part's first row in the batch of rows, which several small parts may share.
    base: u32,
    /// The part's deal, which is the order in which an epoch takes its rows: the row at each place of that
    /// order. `None` if the rows are taken as they are stored.
    deal: Option<Box<[u32]>>,
    /// Whether narrow columns (those with small values of fixed size) are already in the order of the deal.
    is_dealt: bool,
    /// The permit for the memory of the rows. The task that writes the rows to the cache shares it.
    permit: Option<Arc<Permit>>,
    /// Whether the rows are mapped except for some columns, which were copied to memory of this process.
    is_partly_owned: bool,
    beyond: Beyond,
    /// Fetches mapped rows again if another program has changed them.
    renewer: Option<Arc<dyn Renew>>,
}

impl Resident {
    /// The decoded rows of a part, with the permit for their memory.
    pub(crate) fn new(
        fetcher: &Fetcher,
        samples: &EpochSamples,
        part: Part,
        rows: RecordBatch,
        permit: Permit,
    ) -> Self {
        Resident::alone(samples, part, rows).under(fetcher, permit)
    }

    /// Adds the permit with which the part was read. The permit is reduced: it now covers only the rows, and
    /// no longer the bytes from which they were decoded.
    fn under(self, fetcher: &Fetcher, mut permit: Permit) -> Self {
        // The plan relies on the estimated size, so the permit is not reduced to the actual size of these
        // rows.
        permit.shrink(fetcher.reads.own_cost(&self.part).held);
        Resident { permit: Some(Arc::new(permit)), ..self }
    }

    /// The rows of a part, without a permit.
    pub(crate) fn alone(samples: &EpochSamples, part: Part, rows: RecordBatch) -> Self {
        Resident::among(samples, part, Rows::new(rows, None), 0)
    }

    /// The rows of a part that begin at row `base` of `rows`.
    fn among(samples: &EpochSamples, part: Part, rows: Arc<Rows>, base: u32) -> Self {
        let (rows, numbers) = (CurrentRows::new(rows), RowNumbers::Part(samples.rows_of(&part)));
        Resident {
            part,
            rows,
            lost: None,
            numbers,
            samples: samples.samples_of(&part).map(|samples| ResidentSamples::Part(samples, None)),
            base,
            deal: None,
            is_dealt: false,
            permit: None,
            is_partly_owned: false,
            beyond: Beyond::default(),
            renewer: None,
        }
    }

    /// Several parts that were decoded together, to consecutive rows of one batch.
    ///
    /// A part that is dropped returns its own memory to the budget, although the batch stays in memory until
    /// all parts are dropped. This is acceptable because only few and small parts are decoded together.
    pub(crate) fn together(
        fetcher: &Fetcher,
        samples: &EpochSamples,
        parts: Vec<(Part, Permit)>,
        rows: RecordBatch,
    ) -> Vec<Self> {
        let rows = Rows::new(rows, None);
        let mut next = 0;
        let parts = parts.into_iter().map(|(part, permit)| {
            let base = next;
            next += part.rows;
            Resident::among(samples, part, rows.clone(), base).under(fetcher, permit)
        });
        parts.collect()
    }

    /// The rows of a part whose row group is kept in memory between epochs, which needs no permit.
    pub(crate) fn staying(samples: &EpochSamples, part: Part, group: &Staying) -> Self {
        let base = group.base + samples.decoded(&part).start;
        Resident::among(samples, part, group.rows.clone(), base)
    }

    /// The rows of a part whose row group was found in the cache. If the rows are mapped, `renewer` fetches
    /// them again when another program has changed them.
    pub(crate) fn kept(
        fetcher: &Fetcher,
        samples: &EpochSamples,
        part: Part,
        kept: &Kept,
        permit: Permit,
        renewer: Arc<dyn Renew>,
    ) -> Self {
        Resident::new(fetcher, samples, part, kept.rows.clone(), permit).exchanged(kept, renewer)
    }

    /// The same rows, but read from the cache entry `kept`.
    pub(crate) fn exchanged(self, kept: &Kept, renewer: Arc<dyn Renew>) -> Self {
        let rows = Rows::new(self.cut(&kept.rows), kept.mapped.clone());
        let renewer = rows.is_mapped().then_some(renewer);
        Resident { rows: CurrentRows::new(rows), renewer, ..self }
    }

    /// The same rows with a deal, the order in which an epoch takes them. `is_dealt` says that narrow columns
    /// are in that order already.
    pub(crate) fn dealt(self, deal: Option<Box<[u32]>>, is_dealt: bool) -> Self {
        match self.samples {
            // If samples are not rows, the deal is an order of samples.
            Some(ResidentSamples::Part(samples, _)) => {
                Resident { samples: Some(ResidentSamples::Part(samples, deal)), ..self }
            }
            _ => Resident { is_dealt: is_dealt && deal.is_some(), deal, ..self },
        }
    }

    /// Cuts the rows of this part from all selected rows of its row group.
    fn cut(&self, rows: &RecordBatch) -> RecordBatch {
        match self.samples {
            Some(_) => rows.clone(),
            None => rows.slice(self.part.start as usize, self.part.rows as usize),
        }
    }

    /// Appends the rows of the sample at a place of the deal. If each row is a sample, this is the place
    /// itself.
    pub(crate) fn rows_of_sample(&self, place: u32, rows: &mut SampleRows) {
        match &self.samples {
            None => rows.rows.push(place),
            Some(ResidentSamples::Part(samples, deal)) => {
                samples.rows(deal.as_ref().map_or(place, |deal| deal[place as usize]), rows);
            }
            Some(ResidentSamples::Taken(taken)) => {
                let taken = &taken[place as usize];
                rows.rows.extend_from_slice(&taken.rows);
                rows.lengths.extend_from_slice(&taken.lengths);
                rows.repeats.extend_from_slice(&taken.repeats);
                rows.skipped.extend_from_slice(&taken.skipped);
            }
        }
    }

    /// Whether the part has samples that are not rows.
    pub(crate) fn has_samples(&self) -> bool {
        self.samples.is_some()
    }

    /// Drops the deal if narrow columns are already in its order. Columns in stored order cannot be read
    /// afterwards, because only the deal says where their rows are.
    pub(crate) fn without_deal(self) -> Self {
        let deal = self.deal.filter(|_| !self.is_dealt);
        Resident { deal, ..self }
    }

    /// The index within the part of the row at a place of the deal.
    fn row_of_part(&self, place: u32) -> u32 {
        self.deal.as_ref().map_or(place, |deal| deal[place as usize])
    }

    /// The index in the batch of rows of the row at a place of the deal.
    pub(crate) fn row_at(&self, place: u32) -> u32 {
        self.base + self.row_of_part(place)
    }

    /// Returns the two parts of [`row_at`](Self::row_at), for callers that look up many places: the index of
    /// the part's first row in the batch, and the deal, if there is one.
    pub(crate) fn rows_at(&self) -> (u32, Option<&[u32]>) {
        (self.base, self.deal.as_deref())
    }

    /// Returns the two parts of [`dealt_row_at`](Self::dealt_row_at), for callers that look up many places:
    /// the index of the part's first row in narrow columns, and the deal, unless these columns are in its
    /// order already.
    pub(crate) fn dealt_rows_at(&self) -> (u32, Option<&[u32]>) {
        if self.is_dealt { (self.base, None) } else { self.rows_at() }
    }

    /// Whether narrow columns are already in the order of the deal.
    pub(crate) fn is_dealt(&self) -> bool {
        self.is_dealt
    }

    /// The index, in narrow columns, of the row at a place of the deal.
    pub(crate) fn dealt_row_at(&self, place: u32) -> u32 {
        if self.is_dealt { self.base + place } else { self.row_at(place) }
    }

    /// Replaces mapped columns by copies that `make` makes of them in memory of this process. The permit is
    /// reduced to the bytes of the copies. Returns whether columns were replaced: none are if `make` returns
    /// `None`, if there is no permit, if it is shared or too small, or if another program has changed the
    /// rows.
    pub(crate) fn with_copies(
        mut self,
        make: impl FnOnce(&RecordBatch) -> Result<Option<Copies>>,
    ) -> Result<(Self, bool)> {
        let rows = self.rows();
        let (Some(entry), Some(permit)) = (&rows.mapped, self.permit.as_mut().and_then(Arc::get_mut)) else {
            return Ok((self, false));
        };
        let Some(copies) = make(&rows.batch)? else { return Ok((self, false)) };
        if !rows.is_intact() || copies.bytes > permit.bytes() {
            return Ok((self, false));
        }
        permit.shrink(copies.bytes);
        let mapped = (!copies.are_all).then(|| entry.clone());
        self.renewer.take_if(|_| copies.are_all);
        self.rows = CurrentRows::new(Rows::new(copies.rows, mapped));
        self.is_partly_owned = true;
        Ok((self, true))
    }

    /// Drops the permit if all columns are mapped, because they take no memory of this process.
    pub(crate) fn at_hand(mut self) -> Self {
        let is_mapped = matches!(self.rows, CurrentRows::Mapped(_));
        self.permit.take_if(|_| is_mapped && !self.is_partly_owned);
        self
    }

    /// The rows as they are at present. Mapped rows may be replaced later.
    pub(crate) fn rows(&self) -> Arc<Rows> {
        self.rows.with(Arc::clone)
    }

    /// Applies `look` to the rows as they are at present.
    pub(crate) fn with_rows<T>(&self, look: impl FnOnce(&Arc<Rows>) -> T) -> T {
        self.rows.with(look)
    }

    /// Copies the rows at the given places of the deal to memory of their own. Called when another program
    /// has changed the mapped rows in `changed`, so the rows are fetched again. Later batches take the rows
    /// from a new cache entry, or from memory if the budget permits it.
    pub(crate) fn renewed(&self, changed: &Arc<Rows>, wanted: &[u32]) -> Result<Resident> {
        let (Some(renewer), CurrentRows::Mapped(rows)) = (&self.renewer, &self.rows) else {
            return Err(Error::new(ErrorKind::Internal, "rows in memory of their own were changed"));
        };
        // Other threads that find the same change wait here, so that only one thread fetches the rows.
        let mut rows = lock(rows);
        if !Arc::ptr_eq(&rows, changed) && !rows.is_mapped() {
            drop(rows);
            return self.detach(wanted);
        }
        let (resident, kept) = renewer.renew(self.part)?;
        let in_order = |batch: RecordBatch| match &self.deal {
            Some(deal) if self.is_dealt => renewer.dealt(&batch, deal),
            _ => Ok(batch),
        };
        if resident.lost.is_none() {
            if let Some(kept) = kept.filter(|kept| kept.mapped.is_some()) {
                *rows = Rows::new(in_order(self.cut(&kept.rows))?, kept.mapped);
            } else if let Some(permit) = renewer.room(self.part) {
                let batch = in_order(resident.rows().batch.clone())?;
                *rows = Arc::new(Rows { batch, mapped: None, permit: Some(permit) });
            }
        }
        let wanted: Vec<u32> = wanted.iter().map(|&place| self.row_at(place)).collect();
        resident.detach(&wanted)
    }

    /// The permit for the memory that the rows take.
    pub(crate) fn memory(&self) -> Option<Arc<Permit>> {
        self.permit.clone()
    }

    /// The bytes of the budget that are returned when this value is dropped.
    pub(crate) fn permitted(&self) -> u64 {
        let renewed = self.with_rows(|rows| rows.permit.as_ref().map_or(0, Permit::bytes));
        let of_heads = self.beyond.permit.as_ref().map_or(0, Permit::bytes);
        renewed + of_heads + self.permit.as_ref().map_or(0, |permit| permit.bytes())
    }

    /// A placeholder for a part that cannot be read because of `error`. All its values are null.
    pub(crate) fn lost(fetcher: &Fetcher, samples: &EpochSamples, part: Part, error: Error) -> Result<Self> {
        let rows = nulls(fetcher, samples.decoded(&part).rows)?;
        let error = fetcher.reads.of_all_rows(part.group, error);
        Ok(Resident { lost: Some(error), ..Resident::alone(samples, part, rows) })
    }

    /// The ordinal, in its row group, of the row at a place of the deal.
    pub(crate) fn row_in_group(&self, place: u32) -> u64 {
        let row = self.row_of_part(place);
        u64::from(match &self.numbers {
            RowNumbers::Part(rows) => rows.row_in_group(row),
            RowNumbers::Taken(rows) => rows[row as usize],
        })
    }

    /// Copies the rows at the given places of the deal to memory of their own, so that the memory of the row
    /// group can be released. Mapped rows need no such copy, because they take no memory.
    pub(crate) fn detach(&self, wanted: &[u32]) -> Result<Resident> {
        let rows = self.rows();
        let stored = UInt32Array::from_iter_values(wanted.iter().map(|&place| self.row_at(place)));
        let dealt = UInt32Array::from_iter_values(wanted.iter().map(|&place| self.dealt_row_at(place)));
        let take = |column: &ArrayRef| {
            let rows = if is_narrow(column.data_type()) { &dealt } else { &stored };
            compact(&forebay_arrow::compute::take(column, rows, None).or_fail()?)
        };
        let columns = rows.batch.columns().iter().map(take).collect::<Result<Vec<_>>>()?;
        let numbers = wanted.iter().map(|&place| self.row_in_group(place) as u32).collect::<Vec<_>>();
        let options = RecordBatchOptions::new().with_row_count(Some(wanted.len()));
        let rows = RecordBatch::try_new_with_options(rows.batch.schema(), columns, &options).or_fail()?;
        Ok(Resident {
            part: self.part,
            rows: CurrentRows::new(Rows::new(rows, None)),
            lost: self.lost.clone(),
            numbers: RowNumbers::Taken(numbers.into()),
            samples: None,
            base: 0,
            deal: None,
            is_dealt: false,
            permit: None,
            is_partly_owned: false,
            beyond: Beyond::default(),
            renewer: None,
        })
    }
}

/// The ordinals of rows in their row group.
#[derive(Clone, Debug)]
enum RowNumbers {
    /// The rows are those of a part, in stored order.
    Part(PartRows),
    /// The rows are a few that were copied from a part, in any order. The numbers are their ordinals.
    Taken(Arc<[u32]>),
}

/// The rows of each sample of a part.
#[derive(Debug)]
enum ResidentSamples {
    /// The samples of the plan, and the deal: the sample at each place of the order in which an epoch takes
    /// them.
    Part(PartSamples, Option<Box<[u32]>>),
    /// A few samples that were copied from a part. The rows of each are indices into the copied rows.
    Taken(Box<[SampleRows]>),
}

/// The rows of later row groups in which samples of a part continue.
#[derive(Debug, Default)]
struct Beyond {
    /// The heads (first rows) of these row groups. Each has the index of its first row, where indices
    /// continue after the last row of the part.
    heads: Box<[(u32, Arc<Resident>)]>,
    /// The permit for the heads that are in memory.
    permit: Option<Permit>,
}

/// Fetches the rows of a part again, after another program changed their cache file while they were used.
pub(crate) trait Renew: fmt::Debug + Send + Sync {
    /// Fetches the rows into private memory, without a permit. Also returns their new cache entry, if they
    /// were cached again. Waits for the store if necessary.
    fn renew(&self, part: Part) -> Result<(Resident, Option<Kept>)>;

    /// Copies columns of the rows to memory, as they were copied when the part was read: narrow ones in the
    /// order of `deal`.
    fn dealt(&self, rows: &RecordBatch, deal: &[u32]) -> Result<RecordBatch>;

    /// A permit for the memory of rows that were not cached again; `None` if there is not enough memory.
    fn room(&self, part: Part) -> Option<Permit>;
}

/// Rows of which some columns were copied to memory of this process.
pub(crate) struct Copies {
    pub(crate) rows: RecordBatch,
    /// The bytes of the copied columns.
    pub(crate) bytes: u64,
    /// Whether all columns were copied.
    pub(crate) are_all: bool,
}

/// A batch of `rows` rows in which every value is null.
fn nulls(fetcher: &Fetcher, rows: u32) -> Result<RecordBatch> {
    let fields = fetcher.reads.projection.schema().fields().iter();
    let fields: Fields = fields.map(|field| field.as_ref().clone().with_nullable(true)).collect();
    let nulls = fields.iter().map(|field| new_null_array(field.data_type(), rows as usize)).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows as usize));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), nulls, &options).or_fail()
}

#[cfg(test)]
mod tests {
    use forebay_arrow::array::{AsArray, Int64Array};
    use forebay_arrow::datatypes::{DataType, Field, Int64Type};
    use forebay_store::row_set::RowSet;

    use super::*;
    use crate::cache::{CLAIM_PATIENCE, Claim, DiskCache, Key};
    use crate::reader::budget::Budget;
    use crate::samples::SampleIndex;

    #[test]
    fn copies_of_mapped_columns_take_their_bytes_of_the_permit() {
        let folder = tempfile::tempdir().unwrap();
        let cache = DiskCache::open(folder.path(), 1 << 30).unwrap();
        let column = |add: i64| -> ArrayRef { Arc::new(Int64Array::from_iter_values(add..add + 1000)) };
        let rows = |add: i64| RecordBatch::try_from_iter([("x", column(add))]).unwrap();
        let key = Key::new("file", 1, "v", 0, "all", &rows(0).schema());
        let Claim::Mine(guard) = cache.claim(&key, CLAIM_PATIENCE) else { panic!("it is ours") };
        let entry = guard.exchange(&rows(0)).expect("there is room");
        assert!(entry.is_mapped());
        let samples = SampleIndex::of_rows(vec![RowSet::all(1000)]).of_epoch(0);
        let budget = Budget::new(1 << 20);
        let mapped = || Resident {
            rows: CurrentRows::new(Rows::new(entry.read(), Some(entry.clone()))),
            permit: budget.take(64 << 10).map(Arc::new),
            ..Resident::alone(&samples, Part { group: 0, start: 0, rows: 1000 }, rows(0))
        };
        let alone = mapped().at_hand();
        assert_eq!(budget.used(), 0, "mapped rows take none");
        assert_eq!(alone.rows().batch, rows(0));
        let copies = |bytes, are_all| Ok(Some(Copies { rows: rows(7), bytes, are_all }));
        for are_all in [false, true] {
            let made = mapped().with_copies(|rows_of| {
                assert_eq!(rows_of, &rows(0));
                copies(8000, are_all)
            });
            let (made, is_made) = made.unwrap();
            let made = made.at_hand();
            assert_eq!((is_made, made.rows().batch.clone(), budget.used()), (true, rows(7), 8192));
            assert_eq!(made.rows().is_mapped(), !are_all, "other columns are");
        }
        let (too_much, is_made) = mapped().with_copies(|_| copies(1 << 20, true)).unwrap();
        let too_much = too_much.at_hand();
        assert_eq!((is_made, too_much.rows().batch.clone(), budget.used()), (false, rows(0), 0));
    }

    #[test]
    fn rows_that_are_detached_keep_their_place_in_the_row_group() {
        let samples = SampleIndex::of_rows(vec![RowSet::all(10)]).of_epoch(0);
        let part = Part { group: 0, start: 3, rows: 5 };
        let schema = Arc::new(Schema::new(vec![Field::new("place", DataType::Int64, false)]));
        let places: ArrayRef = Arc::new(Int64Array::from_iter_values(3..8));
        let resident = Resident::alone(&samples, part, RecordBatch::try_new(schema, vec![places]).unwrap());
        let detached = resident.detach(&[4, 0, 2]).unwrap();
        let again = detached.detach(&[2, 0]).unwrap();
        for (resident, expected) in
            [(&resident, vec![3, 4, 5, 6, 7]), (&detached, vec![7, 3, 5]), (&again, vec![5, 7])]
        {
            let places = resident.rows().batch.column(0).as_primitive::<Int64Type>().values().to_vec();
            assert_eq!(places, expected);
            for (row, place) in expected.into_iter().enumerate() {
                assert_eq!(resident.row_in_group(row as u32), place as u64);
            }
        }
    }
}
