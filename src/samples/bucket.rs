//! Buckets: samples of several rows of similar length, so that little padding makes them equally long.
//!
//! The rows of each row group are sorted by length and cut into buckets. A bucket is a sample, so the plan
//! gives every rank the same number of buckets, however many rows these have.

use forebay_base::{Error, Result};
use forebay_store::row_set::RowSet;
use serde::{Deserialize, Serialize};

use super::lengths::NO_LENGTH;
use super::unfit::Unfit;
use super::{SampleKind, SampleRows};

/// The highest number of rows that a user may set for a bucket. A higher one is likely a mistake.
const MAX_ROWS: u32 = 1 << 20;

/// Samples of several rows of similar length, each from one row group. All ranks have the same number of
/// batches.
///
/// [`batch_size`](crate::LoaderBuilder::batch_size) counts buckets: with a batch size of 1, a batch has the
/// rows of one bucket.
///
/// ```
/// use forebay::column::Pad;
/// use forebay::samples::Bucket;
///
/// # fn build(dataset: forebay::Dataset) -> forebay::Result<forebay::Loader> {
/// // As many rows as fit into 16,384 tokens once each is padded to the longest of them.
/// let bucket = Bucket::tokens("tokens", 16_384);
/// dataset.loader().samples(bucket).batch_size(1).pad("tokens", Pad::longest()).build()
/// # }
/// # let _ = build;
/// let bucket = Bucket::rows("n_tokens", 64).max_rows(32);
/// assert_eq!(bucket, Bucket::rows("n_tokens", 32));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bucket {
    by: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rows: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tokens: Option<u64>,
    /// Whether each epoch makes different buckets. Positions leave the field out if it has its default.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    reshuffle: bool,
}

impl Bucket {
    /// Makes buckets of `rows` rows. The column `by` decides the length of each row: the length of its list
    /// or text, or a whole number that is the length.
    pub fn rows(by: impl Into<String>, rows: u32) -> Self {
        Bucket { by: by.into(), rows: Some(rows), tokens: None, reshuffle: false }
    }

    /// Makes buckets of as many rows as fit into `tokens` values once each row is padded to the longest. A
    /// longer row is refused, or left out where [`on_bad_row`](crate::LoaderBuilder::on_bad_row) skips bad
    /// rows.
    pub fn tokens(by: impl Into<String>, tokens: u64) -> Self {
        Bucket { by: by.into(), rows: None, tokens: Some(tokens), reshuffle: false }
    }

    /// The highest number of rows in a bucket. Default: any number.
    #[must_use]
    pub fn max_rows(self, rows: u32) -> Self {
        Bucket { rows: Some(rows), ..self }
    }

    /// Whether each epoch combines the rows into different buckets. Rows are then sorted by lengths that are
    /// raised at random by up to an eighth, and a ninth of the tokens of each bucket is left free for that.
    /// All epochs have the same number of buckets. The buckets of an epoch depend only on the data, the seed
    /// of the shuffle and the number of the epoch. Default: false, all epochs have the same buckets.
    ///
    /// ```
    /// let bucket = forebay::samples::Bucket::tokens("tokens", 16_384).reshuffle(true);
    /// ```
    #[must_use]
    pub fn reshuffle(self, reshuffle: bool) -> Self {
        Bucket { reshuffle, ..self }
    }

    pub(crate) fn is_reshuffled(&self) -> bool {
        self.reshuffle
    }

    /// The column that gives the length of each row.
    pub(crate) fn length_column(&self) -> &str {
        &self.by
    }

    /// Returns an error for options that can never work, whatever the data.
    pub(crate) fn check(&self) -> Result<()> {
        if self.rows == Some(0) || self.tokens == Some(0) || self.rows.is_some_and(|rows| rows > MAX_ROWS) {
            return Err(Error::invalid("a bucket's number of rows or tokens is out of range")
                .hint(format!("give 1 to {MAX_ROWS} rows, and 1 token or more")));
        }
        if self.rows.is_none() && self.tokens.is_none() {
            return Err(Error::invalid("a bucket needs a limit")
                .hint("give the largest number of `rows` or `tokens`"));
        }
        Ok(())
    }

    /// Returns the length by which a row is sorted: 0 for a row without a length. Fails if the row alone is
    /// longer than a bucket may be.
    pub(crate) fn fitting(&self, length: u32) -> Result<u32, Unfit> {
        match length {
            NO_LENGTH => Ok(0),
            length if self.tokens.is_some_and(|most| u64::from(length) > most) => Err(Unfit::TooLong(length)),
            length => Ok(length),
        }
    }

    /// The most values that a bucket may have after its rows are padded; `None` if there is no limit.
    pub(crate) fn most_tokens(&self) -> Option<u64> {
        self.tokens
    }

    /// Makes the buckets of one row group from the lengths of its selected rows. Rows marked [`NO_LENGTH`]
    /// are left out.
    pub(crate) fn of_group(&self, lengths: &[u32]) -> BucketGroup {
        let has_length = |row: &u32| lengths[*row as usize] != NO_LENGTH;
        let mut rows: Vec<u32> = (0..lengths.len() as u32).filter(has_length).collect();
        rows.sort_by_key(|row| lengths[*row as usize]);
        let ascending: Vec<u32> = rows.iter().map(|row| lengths[*row as usize]).collect();
        BucketGroup::new(rows, self.ends(&ascending, self.tokens))
    }

    /// Cuts rows into buckets of at most `tokens` values after padding. `lengths` has the ascending lengths
    /// of the rows. Returns, for each bucket, the index after its last row.
    pub(super) fn ends(&self, lengths: &[u32], tokens: Option<u64>) -> Vec<u32> {
        let (mut ends, mut start) = (Vec::new(), 0);
        for (at, length) in lengths.iter().enumerate() {
            let count = at - start;
            // Rows ascend in length, so this row is the longest of its bucket.
            let longest = u64::from(*length);
            let is_full = self.rows.is_some_and(|most| count == most as usize)
                || tokens.is_some_and(|most| count > 0 && longest.saturating_mul(count as u64 + 1) > most);
            if is_full {
                ends.push(at as u32);
                start = at;
            }
        }
        if !lengths.is_empty() {
            ends.push(lengths.len() as u32);
        }
        ends
    }
}

/// The buckets of one row group.
#[derive(Debug, Default)]
pub(crate) struct BucketGroup {
    /// The rows of all buckets, bucket by bucket.
    rows: Box<[u32]>,
    /// The end of each bucket as an index into `rows`.
    ends: Box<[u32]>,
}

impl BucketGroup {
    /// Makes buckets from `rows`, which has the rows bucket by bucket. `ends` has the end of each bucket as
    /// an index into `rows`.
    pub(super) fn new(mut rows: Vec<u32>, ends: Vec<u32>) -> Self {
        // Within a bucket, rows come in the order in which they are stored.
        let mut from = 0;
        for &end in &ends {
            rows[from..end as usize].sort_unstable();
            from = end as usize;
        }
        BucketGroup { rows: rows.into(), ends: ends.into() }
    }

    fn rows_of(&self, bucket: u32) -> &[u32] {
        let bucket = bucket as usize;
        let start = bucket.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.rows[start as usize..self.ends[bucket] as usize]
    }

    /// The number of rows in the largest bucket.
    fn largest(&self) -> usize {
        (0..self.ends.len() as u32).map(|bucket| self.rows_of(bucket).len()).max().unwrap_or(0)
    }
}

/// The buckets of a data set.
#[derive(Debug)]
pub(crate) struct Buckets(pub(crate) Vec<BucketGroup>);

impl Buckets {
    /// The number of rows in the largest bucket of all row groups.
    pub(crate) fn largest(&self) -> usize {
        self.0.iter().map(BucketGroup::largest).max().unwrap_or(0)
    }
}

impl SampleKind for Buckets {
    fn count(&self, group: usize) -> u32 {
        self.0[group].ends.len() as u32
    }

    fn rows(&self, group: usize, sample: u32, _: &RowSet, rows: &mut SampleRows) {
        rows.rows.extend_from_slice(self.0[group].rows_of(sample));
    }

    fn bytes(&self) -> u64 {
        self.0.iter().map(|group| (size_of_val(&*group.rows) + size_of_val(&*group.ends)) as u64).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buckets(bucket: &Bucket, lengths: &[u32]) -> Vec<Vec<u32>> {
        let group = bucket.of_group(lengths);
        (0..group.ends.len() as u32).map(|at| group.rows_of(at).to_vec()).collect()
    }

    #[test]
    fn rows_of_similar_length_are_together() {
        let lengths = [9, 1, 5, 2, 8, 1];
        assert_eq!(buckets(&Bucket::rows("x", 2), &lengths), [[1, 5], [2, 3], [0, 4]]);
        assert_eq!(buckets(&Bucket::rows("x", 4), &lengths), [vec![1, 2, 3, 5], vec![0, 4]]);
        assert_eq!(buckets(&Bucket::tokens("x", 10), &lengths), [vec![1, 3, 5], vec![2], vec![4], vec![0]]);
        assert_eq!(buckets(&Bucket::tokens("x", 10).max_rows(2), &lengths)[0], [1, 5]);
        assert_eq!(buckets(&Bucket::tokens("x", 10), &[5, 5, 5, 10]), [vec![0, 1], vec![2], vec![3]], "full");
        assert_eq!(buckets(&Bucket::tokens("x", 3), &[1, NO_LENGTH, 1]), [[0, 2]], "one is left out");
        assert_eq!(buckets(&Bucket::rows("x", 3), &[]), [[0; 0]; 0]);
    }

    #[test]
    fn a_row_that_no_bucket_holds_is_not_taken_for_a_shorter_one() {
        let bucket = Bucket::tokens("x", 10);
        assert_eq!(bucket.fitting(10), Ok(10));
        assert_eq!(bucket.fitting(11), Err(Unfit::TooLong(11)));
        assert_eq!((bucket.fitting(NO_LENGTH), Bucket::rows("x", 2).fitting(11)), (Ok(0), Ok(11)));
    }

    #[test]
    fn a_bucket_that_can_never_be_is_refused() {
        for bucket in [Bucket::rows("x", 0), Bucket::tokens("x", 0), Bucket::rows("x", u32::MAX)] {
            assert!(bucket.check().is_err());
        }
        assert!(serde_json::from_str::<Bucket>(r#"{"by": "x"}"#).unwrap().check().is_err());
    }
}
