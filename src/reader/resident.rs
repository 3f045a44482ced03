//! The rows of a part in memory, for as long as batches are made from them.

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
use crate::batch::{compact, is_narrow};
use crate::samples::{EpochSamples, PartRows, PartSamples, SampleRows};
use crate::shard::Part;

/// The rows of one part in memory, with the permit that covers them.
#[derive(Debug)]
pub(crate) struct Resident {
    pub(crate) part: Part,
    rows: CurrentRows,
    /// The reason why none of the rows can be delivered; the rows are nulls then.
    pub(crate) lost: Option<Error>,
    numbers: RowNumbers,
    /// The samples of the part, if a sample is not a row.
    samples: Option<ResidentSamples>,
    /// The index of the part's first row among the rows in memory, which several small parts share.
    base: u32,
    /// The part's deal, which is the order in which an epoch takes its rows: the row at each place; `None` if
    /// row and place are the same.
    deal: Option<Box<[u32]>>,
    /// Whether narrow columns are in the order of the deal.
    is_dealt: bool,
    /// The permit, which is shared with the task that writes the rows to disk.
    permit: Option<Arc<Permit>>,
    /// Whether some columns of mapped rows were copied to memory of this process.
    is_partly_owned: bool,
    beyond: Beyond,
    /// Fetches mapped rows again if they were changed.
    renewer: Option<Arc<dyn Renew>>,
}

impl Resident {
    /// The rows to which a part was decoded.
    pub(crate) fn new(
        fetcher: &Fetcher,
        samples: &EpochSamples,
        part: Part,
        rows: RecordBatch,
        permit: Permit,
    ) -> Self {
        Resident::alone(samples, part, rows).under(fetcher, permit)
    }

    /// The rows with a permit, which from now on covers the rows instead of the bytes from which they were
    /// read.
    fn under(self, fetcher: &Fetcher, mut permit: Permit) -> Self {
        // The plan relies on the estimate, not on the actual bytes of this row group.
        permit.shrink(fetcher.reads.own_cost(&self.part).held);
        Resident { permit: Some(Arc::new(permit)), ..self }
    }

    /// The rows of a part, for which no permit is held.
    pub(crate) fn alone(samples: &EpochSamples, part: Part, rows: RecordBatch) -> Self {
        Resident::among(samples, part, (Rows::new(rows, None), 0))
    }

    /// The rows of a part that are among other rows, from row `base` on.
    fn among(samples: &EpochSamples, part: Part, (rows, base): (Arc<Rows>, u32)) -> Self {
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

    /// Parts that were decoded together, to consecutive rows.
    ///
    /// Each part returns its own memory to the budget, although all of them keep the rows alive. The parts
    /// are few and small, otherwise they would not be together.
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
            Resident::among(samples, part, (rows.clone(), base)).under(fetcher, permit)
        });
        parts.collect()
    }

    /// The rows of a part among those that stay in memory, which need no permit: its first decoded row is row
    /// `base` of them.
    pub(crate) fn staying(samples: &EpochSamples, part: Part, (rows, base): (Arc<Rows>, u32)) -> Self {
        let base = base + samples.decoded(&part).start;
        Resident::among(samples, part, (rows, base))
    }

    /// The cached rows of a part's row group; `renewer` fetches them again if they are mapped and changed.
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

    /// The same rows, read from the cache.
    pub(crate) fn exchanged(self, kept: &Kept, renewer: Arc<dyn Renew>) -> Self {
        let rows = Rows::new(self.cut(&kept.rows), kept.mapped.clone());
        let renewer = rows.is_mapped().then_some(renewer);
        Resident { rows: CurrentRows::new(rows), renewer, ..self }
    }

    /// The same rows, which are now picked by places in a deal. If `is_dealt`, narrow columns are in that
    /// order, and all others as stored.
    pub(crate) fn dealt(self, deal: Option<Box<[u32]>>, is_dealt: bool) -> Self {
        match self.samples {
            // Samples are dealt, not rows.
            Some(ResidentSamples::Part(samples, _)) => {
                Resident { samples: Some(ResidentSamples::Part(samples, deal)), ..self }
            }
            _ => Resident { is_dealt: is_dealt && deal.is_some(), deal, ..self },
        }
    }

    /// The rows of this part, cut from all selected rows of its row group.
    fn cut(&self, rows: &RecordBatch) -> RecordBatch {
        match self.samples {
            Some(_) => rows.clone(),
            None => rows.slice(self.part.start as usize, self.part.rows as usize),
        }
    }

    /// Appends the rows of the sample at a place of the deal, if a sample is not a row.
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

    /// The same rows without the deal, if it is applied already: no column needs the stored order any more.
    pub(crate) fn without_deal(self) -> Self {
        let deal = self.deal.filter(|_| !self.is_dealt);
        Resident { deal, ..self }
    }

    /// The row of the part at a place of the deal.
    fn row_of_part(&self, place: u32) -> u32 {
        self.deal.as_ref().map_or(place, |deal| deal[place as usize])
    }

    /// The index, among the rows in memory, of the row at a place of the deal.
    pub(crate) fn row_at(&self, place: u32) -> u32 {
        self.base + self.row_of_part(place)
    }

    /// Gives [`row_at`](Self::row_at) for many places: the index of the part's first row among the rows in
    /// memory, and the row at each place of the deal, if row and place differ.
    pub(crate) fn rows_at(&self) -> (u32, Option<&[u32]>) {
        (self.base, self.deal.as_deref())
    }

    /// Gives [`dealt_row_at`](Self::dealt_row_at) for many places: the index of the part's first row in
    /// narrow columns, and the row at each place of the deal, if row and place differ there.
    pub(crate) fn dealt_rows_at(&self) -> (u32, Option<&[u32]>) {
        if self.is_dealt { (self.base, None) } else { self.rows_at() }
    }

    /// Whether narrow columns are in the order of the deal.
    pub(crate) fn is_dealt(&self) -> bool {
        self.is_dealt
    }

    /// The index in narrow columns of the row at a place of the deal.
    pub(crate) fn dealt_row_at(&self, place: u32) -> u32 {
        if self.is_dealt { self.base + place } else { self.row_at(place) }
    }

    /// The same rows with columns that are made from mapped ones, in memory of this process. The permit then
    /// covers the bytes that these columns take. Unchanged if nothing is made, if there is no permit or
    /// another holder of it, or if the rows were changed meanwhile.
    pub(crate) fn with_columns(
        mut self,
        make: impl FnOnce(&RecordBatch) -> Result<Option<(RecordBatch, u64)>>,
    ) -> Result<Self> {
        let rows = self.rows();
        let (Some(entry), Some(permit)) = (&rows.mapped, self.permit.as_mut().and_then(Arc::get_mut)) else {
            return Ok(self);
        };
        match make(&rows.batch)? {
            Some((batch, bytes)) if rows.is_intact() && bytes <= permit.bytes() => {
                permit.shrink(bytes);
                self.rows = CurrentRows::new(Rows::new(batch, Some(entry.clone())));
                self.is_partly_owned = true;
            }
            _ => {}
        }
        Ok(self)
    }

    /// The same rows, without their permit if they are mapped and so take no memory.
    pub(crate) fn at_hand(mut self) -> Self {
        let is_mapped = matches!(self.rows, CurrentRows::Mapped(_));
        self.permit.take_if(|_| is_mapped && !self.is_partly_owned);
        self
    }

    /// The rows in their present place.
    pub(crate) fn rows(&self) -> Arc<Rows> {
        self.rows.with(Arc::clone)
    }

    /// Applies `look` to the rows in their present place.
    pub(crate) fn with_rows<T>(&self, look: impl FnOnce(&Arc<Rows>) -> T) -> T {
        self.rows.with(look)
    }

    /// Copies the rows at the given places to memory of their own, after the rows in `changed` turned out to
    /// be changed. Later requests for rows get them from the new cache entry, or from memory if there is
    /// enough.
    pub(crate) fn renewed(&self, changed: &Arc<Rows>, wanted: &[u32]) -> Result<Resident> {
        let (Some(renewer), CurrentRows::Mapped(rows)) = (&self.renewer, &self.rows) else {
            return Err(Error::new(ErrorKind::Internal, "rows in memory of their own were changed"));
        };
        // Other threads that find the same change wait here, so that only one fetches.
        let mut rows = lock(rows);
        if !Arc::ptr_eq(&rows, changed) && !rows.is_mapped() {
            drop(rows);
            return self.detach(wanted);
        }
        let (resident, kept) = renewer.renew(self.part)?;
        if resident.lost.is_none() {
            if let Some(kept) = kept.filter(|kept| kept.mapped.is_some()) {
                *rows = Rows::new(self.cut(&kept.rows), kept.mapped);
            } else if let Some(permit) = renewer.room(self.part) {
                let batch = resident.rows().batch.clone();
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

    /// A placeholder for a part that cannot be read.
    pub(crate) fn lost(fetcher: &Fetcher, samples: &EpochSamples, part: Part, error: Error) -> Result<Self> {
        let rows = nulls(fetcher, samples.decoded(&part).rows)?;
        let error = fetcher.reads.of_all_rows(part.group, error);
        Ok(Resident { lost: Some(error), ..Resident::alone(samples, part, rows) })
    }

    /// The ordinal in its row group of the row at a place of the deal.
    pub(crate) fn row_in_group(&self, place: u32) -> u64 {
        let row = self.row_of_part(place);
        u64::from(match &self.numbers {
            RowNumbers::Part(rows) => rows.row_in_group(row),
            RowNumbers::Taken(rows) => rows[row as usize],
        })
    }

    /// Copies the rows at the given places to memory of their own, so that the memory of the row group can be
    /// returned. Mapped rows take no memory, so they are not copied.
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
    /// The rows of a part.
    Part(PartRows),
    /// A few rows that were taken from a part, in any order.
    Taken(Arc<[u32]>),
}

/// The rows of each sample of a part.
#[derive(Debug)]
enum ResidentSamples {
    /// The planned samples, and the sample at each place of the part's deal.
    Part(PartSamples, Option<Box<[u32]>>),
    /// A few samples that were taken from a part. Each has its rows as indices into the rows of all of them.
    Taken(Box<[SampleRows]>),
}

/// The rows of other row groups in which samples continue.
#[derive(Debug, Default)]
struct Beyond {
    /// The heads of the row groups, each with the index of its first row, counted on from the rows of the
    /// part.
    heads: Box<[(u32, Arc<Resident>)]>,
    /// The permit for the heads that are in memory.
    permit: Option<Permit>,
}

/// Fetches the rows of a part again, after their entry in the cache was changed while they were used.
pub(crate) trait Renew: fmt::Debug + Send + Sync {
    /// Fetches the rows into private memory, without a permit, and returns their new entry if they were
    /// cached again. Waits for the store if necessary.
    fn renew(&self, part: Part) -> Result<(Resident, Option<Kept>)>;

    /// A permit for rows that are not cached, if there is enough memory.
    fn room(&self, part: Part) -> Option<Permit>;
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
    fn columns_that_are_made_of_mapped_rows_take_their_bytes_of_the_permit() {
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
        let made = mapped().with_columns(|rows_of| {
            assert_eq!(rows_of, &rows(0));
            Ok(Some((rows(7), 8000)))
        });
        let made = made.unwrap().at_hand();
        assert_eq!((made.rows().batch.clone(), budget.used()), (rows(7), 8192));
        assert!(made.rows().is_mapped(), "other columns may be");
        drop(made);
        let too_much = mapped().with_columns(|_| Ok(Some((rows(7), 1 << 20)))).unwrap().at_hand();
        assert_eq!((too_much.rows().batch.clone(), budget.used()), (rows(0), 0));
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
