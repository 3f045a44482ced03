//! Samples that begin in a part and continue in later row groups, whose first rows (heads) are then read too.

use std::sync::Arc;

use forebay_arrow::array::RecordBatch;
use forebay_base::{Error, Result};

use super::{Beyond, Renew, Resident, ResidentSamples, RowNumbers, nulls};
use crate::reader::budget::Permit;
use crate::reader::fetch::Fetcher;
use crate::reader::row_cache::Kept;
use crate::samples::{EpochSamples, Head, SampleRows};
use crate::shard::Part;

impl Resident {
    /// The rows of a head (the first rows of a row group, in which samples of an earlier one continue). The
    /// samples belong to the earlier row group, so a head has no samples of its own.
    pub(crate) fn head(samples: &EpochSamples, head: Head, rows: RecordBatch) -> Self {
        let part = Part { group: head.group, start: 0, rows: head.rows };
        let numbers = RowNumbers::Part(samples.rows_of_head(head));
        Resident { numbers, samples: None, ..Resident::alone(samples, part, rows) }
    }

    /// The rows of a head whose row group was found in the cache, mapped from the cache file.
    pub(crate) fn kept_head(
        samples: &EpochSamples,
        head: Head,
        kept: &Kept,
        renewer: Arc<dyn Renew>,
    ) -> Self {
        Resident::head(samples, head, kept.rows.clone()).exchanged(kept, renewer)
    }

    /// Adds the heads in which the part's samples continue. `permit` covers all rows that the pages of the
    /// heads may hold, and is reduced to the memory that the heads take.
    pub(crate) fn with_heads(
        self,
        samples: &EpochSamples,
        heads: Vec<Resident>,
        mut permit: Option<Permit>,
    ) -> Self {
        let rows = heads.iter().map(Resident::rows).filter(|rows| !rows.is_mapped());
        let bytes: u64 = rows.map(|rows| rows.batch.get_array_memory_size() as u64).sum();
        permit.take_if(|_| bytes == 0);
        permit.iter_mut().for_each(|permit| permit.shrink(bytes));
        let mut next = samples.decoded(&self.part).rows;
        let heads = heads.into_iter().map(|head| {
            let first = next;
            next += head.part.rows;
            (first, Arc::new(head))
        });
        Resident { beyond: Beyond { heads: heads.collect(), permit }, ..self }
    }

    /// A placeholder for a head that cannot be read because of `error`. All its values are null.
    pub(crate) fn lost_head(
        fetcher: &Fetcher,
        samples: &EpochSamples,
        head: Head,
        error: Error,
    ) -> Result<Self> {
        let error = fetcher.reads.of_all_rows(head.group, error);
        Ok(Resident { lost: Some(error), ..Resident::head(samples, head, nulls(fetcher, head.rows)?) })
    }

    /// The heads that have rows of the part's samples.
    pub(crate) fn heads(&self) -> impl Iterator<Item = &Arc<Resident>> {
        self.beyond.heads.iter().map(|(_, head)| head)
    }

    /// Finds the head that has a row of a sample. Returns the number of the head and the index of the row in
    /// it; `None` if the row is in the part itself.
    pub(crate) fn in_head(&self, row: u32) -> Option<(usize, u32)> {
        let after = self.beyond.heads.partition_point(|(first, _)| *first <= row);
        let head = after.checked_sub(1)?;
        Some((head, row - self.beyond.heads[head].0))
    }

    /// Copies the samples at the given places of the deal to memory of their own, as [`detach`](Self::detach)
    /// copies rows. The copies have the given order.
    pub(crate) fn detach_samples(&self, places: &[u32]) -> Result<Resident> {
        let mut samples: Vec<SampleRows> = places.iter().map(|_| SampleRows::default()).collect();
        for (&place, sample) in places.iter().zip(&mut samples) {
            self.rows_of_sample(place, sample);
        }
        // `wanted[0]` lists rows of the part, and each further list the rows of one head, in the order in
        // which the samples have them.
        let mut wanted: Vec<Vec<u32>> = vec![Vec::new(); 1 + self.beyond.heads.len()];
        for row in samples.iter_mut().flat_map(|sample| &mut sample.rows) {
            let (of, own) = self.in_head(*row).map_or((0, *row), |(head, row)| (1 + head, row));
            wanted[of].push(own);
        }
        let heads = self.heads().zip(&wanted[1..]).map(|(head, rows)| {
            // Mapped heads take no memory, so they are not copied.
            let is_mapped = head.rows().is_mapped();
            Ok(if is_mapped { head.clone() } else { Arc::new(head.detach(rows)?) })
        });
        let heads = heads.collect::<Result<Vec<_>>>()?;
        let mut next = wanted[0].len() as u32;
        let firsts = heads.iter().map(|head| {
            let rows =
                if head.rows().is_mapped() { head.part.rows } else { head.rows().batch.num_rows() as u32 };
            next += rows;
            next - rows
        });
        let firsts: Vec<u32> = firsts.collect();
        let mut taken = vec![0; wanted.len()];
        for row in samples.iter_mut().flat_map(|sample| &mut sample.rows) {
            let of = self.in_head(*row);
            let count = &mut taken[of.map_or(0, |(head, _)| 1 + head)];
            *row = match of {
                None => *count,
                Some((head, row)) if heads[head].rows().is_mapped() => firsts[head] + row,
                Some((head, _)) => firsts[head] + *count,
            };
            *count += 1;
        }
        let beyond = Beyond { heads: firsts.into_iter().zip(heads).collect(), permit: None };
        let samples = Some(ResidentSamples::Taken(samples.into()));
        Ok(Resident { samples, beyond, ..self.detach(&wanted[0])? })
    }
}

#[cfg(test)]
mod tests {
    use forebay_arrow::array::{AsArray, Int64Array};
    use forebay_arrow::datatypes::{DataType, Field, Int64Type, Schema};
    use forebay_store::row_set::RowSet;

    use super::*;
    use crate::samples::{Across, SampleIndex, SequenceStarts, Stretches, Window, Windows};

    /// A batch with one row for each number in `rows`, whose value is the number.
    fn numbered(rows: std::ops::Range<i64>) -> RecordBatch {
        let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
        RecordBatch::try_new(schema, vec![Arc::new(Int64Array::from_iter_values(rows))]).unwrap()
    }

    #[test]
    fn samples_that_are_detached_keep_the_rows_of_other_row_groups() {
        // The row groups have 5, 1 and 9 rows. Windows of 4 rows begin with rows 0 to 4 of the first row
        // group, and continue with up to 3 rows after it.
        let sets = vec![RowSet::all(5), RowSet::all(1), RowSet::all(9)];
        let window = Window::rows(4).across(Across::File);
        let mut starts = SequenceStarts::new(&window);
        sets.iter().for_each(|rows| starts.push(rows, &Stretches::new(rows.count() as usize), None));
        let samples =
            SampleIndex::of_kind(Arc::new(Windows::new(&window, starts.finish())), sets).of_epoch(0);
        let part = Part { group: 0, start: 1, rows: 4 };
        let heads: Vec<Head> = samples.heads(0).collect();
        let rows = [5..6, 6..8];
        let of_head =
            |(head, rows): (&Head, std::ops::Range<i64>)| Resident::head(&samples, *head, numbered(rows));
        let heads: Vec<Resident> = heads.iter().zip(rows).map(of_head).collect();
        let resident = Resident::alone(&samples, part, numbered(0..5)).with_heads(&samples, heads, None);
        let rows_of = |resident: &Resident, sample: u32| {
            let mut rows = SampleRows::default();
            resident.rows_of_sample(sample, &mut rows);
            let number = |row: &u32| {
                let (of, row) = match resident.in_head(*row) {
                    Some((head, row)) => (&**resident.heads().nth(head).unwrap(), row),
                    None => (resident, *row),
                };
                let first = [0, 5, 6][of.part.group as usize];
                let number = of.rows().batch.column(0).as_primitive::<Int64Type>().value(row as usize);
                assert_eq!(first + of.row_in_group(row) as i64, number);
                number
            };
            rows.rows.iter().map(number).collect::<Vec<_>>()
        };
        for sample in 0..4 {
            let first = i64::from(sample) + 1;
            assert_eq!(rows_of(&resident, sample), (first..first + 4).collect::<Vec<_>>());
        }
        let detached = resident.detach_samples(&[3, 0, 2]).unwrap();
        assert_eq!(rows_of(&detached, 0), [4, 5, 6, 7]);
        assert_eq!(rows_of(&detached, 1), [1, 2, 3, 4]);
        assert_eq!(rows_of(&detached, 2), [3, 4, 5, 6]);
        let again = detached.detach_samples(&[2]).unwrap();
        assert_eq!(rows_of(&again, 0), [3, 4, 5, 6]);
        assert_eq!(again.rows().batch.num_rows(), 2, "no more than it needs");
    }
}
