//! Buckets: samples of several rows of similar length, so that little padding makes them equally long.
//!
//! The rows of each row group are sorted by length and cut into buckets. A bucket is a sample, so the plan
//! gives every rank the same number of buckets, however many rows these have.

use forebay_base::{Error, Result};
use forebay_store::row_set::RowSet;
use serde::{Deserialize, Serialize};

use super::cost::RowCost;
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
    cost: RowCost,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rows: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    multiple: Option<u32>,
    /// Whether each epoch makes different buckets. Positions leave the field out if it has its default.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    reshuffle: bool,
}

impl Bucket {
    /// Makes buckets of `rows` rows of similar cost. A [`RowCost`] is a column, which stands for the length
    /// of its list or text or for its whole number, or arithmetic on columns.
    pub fn rows(cost: impl Into<RowCost>, rows: u32) -> Self {
        Bucket { cost: cost.into(), rows: Some(rows), tokens: None, multiple: None, reshuffle: false }
    }

    /// Makes buckets of as many rows as cost at most `tokens` once each row is padded to the longest: the
    /// number of rows, times the cost of the most expensive row. If the cost is a sum or product of several
    /// columns, each column counts with its longest value, because each is padded by itself. A row that costs
    /// more is refused, or left out where [`on_bad_row`](crate::LoaderBuilder::on_bad_row) skips bad rows.
    pub fn tokens(cost: impl Into<RowCost>, tokens: u64) -> Self {
        Bucket { cost: cost.into(), rows: None, tokens: Some(tokens), multiple: None, reshuffle: false }
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

    /// Counts each length as the next multiple of this number, so that the limit holds if rows are padded to
    /// [a multiple](crate::column::Pad::multiple), which gives few shapes. In a cost of several columns,
    /// numbers count as they are. Default: 1.
    ///
    /// ```
    /// let bucket = forebay::samples::Bucket::tokens("tokens", 16_384).multiple(64);
    /// ```
    #[must_use]
    pub fn multiple(self, multiple: u32) -> Self {
        Bucket { multiple: (multiple != 1).then_some(multiple), ..self }
    }

    pub(crate) fn is_reshuffled(&self) -> bool {
        self.reshuffle
    }

    /// The cost of a row.
    pub(crate) fn cost(&self) -> &RowCost {
        &self.cost
    }

    /// Returns the cost of each row as a whole number, rounded up. For each column of the cost, `lengths` has
    /// the lengths or numbers of the rows, with [multiples](Self::rounded) where they are lengths.
    ///
    /// # Errors
    /// Fails if a cost is not a number from 0 to 2^32 - 2. The error comes with the index of the row.
    pub(crate) fn costs(&self, lengths: &[&[u32]]) -> Result<Vec<u32>, (usize, Error)> {
        let whole = |(row, cost): (usize, f64)| match cost.ceil() {
            cost if cost < f64::from(NO_LENGTH) => Ok(cost as u32),
            cost => {
                let error = Error::invalid(format!("the cost {} is {cost}, over 2^32 - 2", self.cost));
                Err((row, error.hint("divide the cost by a number, and the limit by the same")))
            }
        };
        self.cost.of_rows(lengths)?.into_iter().enumerate().map(whole).collect()
    }

    /// Raises lengths to the next multiple.
    pub(crate) fn rounded(&self, lengths: &mut [u32]) {
        let Some(multiple) = self.multiple else { return };
        let known = lengths.iter_mut().filter(|length| **length != NO_LENGTH);
        known.for_each(|length| {
            *length = length.div_ceil(multiple).saturating_mul(multiple).min(NO_LENGTH - 1)
        });
    }

    /// The number to whose multiples lengths are raised, if it is not 1.
    pub(crate) fn padded_to(&self) -> Option<u32> {
        self.multiple
    }

    /// Whether the limit counts the longest value of each column, and not of the most expensive row.
    pub(crate) fn is_joint(&self) -> bool {
        self.tokens.is_some() && self.cost.columns().len() > 1 && self.cost.grows()
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
        if self.multiple == Some(0) {
            return Err(
                Error::invalid("lengths cannot be multiples of 0").hint("give a `multiple` from 1 on")
            );
        }
        if self.reshuffle && self.is_joint() {
            let cause = "`reshuffle` was given, but the limit of `tokens` is for a cost of several columns";
            return Err(Error::invalid(cause).hint("leave out one of them, or limit the number of `rows`"));
        }
        self.cost.check()
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

    /// Makes the buckets of one row group from the [costs](Self::costs) of its selected rows. Rows marked
    /// [`NO_LENGTH`] are left out. `columns` has the lengths and numbers of each column, and may be empty
    /// unless the limit [counts each column](Self::is_joint).
    pub(crate) fn of_group(&self, costs: &[u32], columns: &[&[u32]]) -> BucketGroup {
        let has_cost = |row: &u32| costs[*row as usize] != NO_LENGTH;
        let mut rows: Vec<u32> = (0..costs.len() as u32).filter(has_cost).collect();
        rows.sort_by_key(|row| costs[*row as usize]);
        let ends = match self.is_joint() {
            true => {
                let mut joint = Joint::new(self, columns);
                let cost = |begins: bool, at: usize| joint.with(begins, rows[at]);
                self.ends(rows.len(), self.tokens, cost)
            }
            // Rows ascend in cost, so each row is the most expensive of its bucket so far.
            false => self.ends(rows.len(), self.tokens, |_, at| costs[rows[at] as usize].into()),
        };
        BucketGroup::new(rows, ends)
    }

    /// Cuts `rows` rows into buckets that cost at most `tokens` after padding. `cost` returns the cost of the
    /// most expensive row of a bucket once it has a further row: its arguments are whether the bucket begins
    /// with this row, and the row. Returns, for each bucket, the index after its last row.
    pub(super) fn ends(
        &self,
        rows: usize,
        tokens: Option<u64>,
        mut cost: impl FnMut(bool, usize) -> u64,
    ) -> Vec<u32> {
        let (mut ends, mut start) = (Vec::new(), 0);
        for at in 0..rows {
            let count = at - start;
            let most = cost(count == 0, at);
            let is_full = self.rows.is_some_and(|most| count == most as usize)
                || tokens.is_some_and(|tokens| count > 0 && most.saturating_mul(count as u64 + 1) > tokens);
            if is_full {
                ends.push(at as u32);
                start = at;
                cost(true, at);
            }
        }
        if rows > 0 {
            ends.push(rows as u32);
        }
        ends
    }
}

/// The cost of a row that is as long in each column as the longest row of a bucket.
struct Joint<'a> {
    cost: &'a RowCost,
    names: Vec<&'a str>,
    columns: &'a [&'a [u32]],
    longest: Vec<u32>,
}

impl<'a> Joint<'a> {
    fn new(bucket: &'a Bucket, columns: &'a [&'a [u32]]) -> Self {
        Joint { cost: &bucket.cost, names: bucket.cost.columns(), columns, longest: vec![0; columns.len()] }
    }

    /// The cost once the bucket has a further row, with which it may begin.
    fn with(&mut self, begins: bool, row: u32) -> u64 {
        if begins {
            self.longest.fill(0);
        }
        for (longest, column) in self.longest.iter_mut().zip(self.columns) {
            let length = column[row as usize];
            *longest = (*longest).max(if length == NO_LENGTH { 0 } else { length });
        }
        self.cost.of_row(&self.names, &self.longest).map_or(u64::MAX, |cost| cost.ceil() as u64)
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
    use proptest::prelude::*;

    use super::*;
    use crate::operand::col;

    fn buckets(bucket: &Bucket, lengths: &[u32]) -> Vec<Vec<u32>> {
        let group = bucket.of_group(lengths, &[]);
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
        assert!(serde_json::from_str::<Bucket>(r#"{"cost": "x"}"#).unwrap().check().is_err());
    }

    #[test]
    fn lengths_count_as_multiples() {
        let bucket = Bucket::tokens("x", 64).multiple(16);
        let mut lengths = [1, 16, 17, 0, NO_LENGTH, u32::MAX - 1];
        bucket.rounded(&mut lengths);
        assert_eq!(lengths, [16, 16, 32, 0, NO_LENGTH, u32::MAX - 1]);
        assert_eq!(buckets(&bucket, &lengths[..4]), [vec![0, 1, 3], vec![2]], "three rows of 16, one of 32");
        assert_eq!(Bucket::tokens("x", 64).multiple(1), Bucket::tokens("x", 64));
        assert!(Bucket::tokens("x", 64).multiple(0).check().is_err());
    }

    /// A cost of two columns, as the bucket computes it and as a function.
    type TwoForms = (RowCost, fn(f64, f64) -> f64);

    fn costs() -> [TwoForms; 5] {
        [
            ((col("a") + col("b")).into(), |a, b| a + b),
            ((col("a") * col("a") + col("b") * 3).into(), |a, b| a * a + 3.0 * b),
            (((col("a") + col("b")) / 3).into(), |a, b| (a + b) / 3.0),
            ((col("a") * 2 - col("b") + 60).into(), |a, b| 2.0 * a - b + 60.0),
            ((col("a") * col("a")).into(), |a, _| a * a),
        ]
    }

    proptest! {
        /// The model sorts rows by cost, and adds them one after the other while all rows, each as long as
        /// the longest in each column, stay within the limit.
        #[test]
        fn buckets_are_those_of_a_plain_model(
            rows in prop::collection::vec((prop::option::weighted(0.9, 0_u32..40), 0_u32..40), 0..60),
            which in 0_usize..5,
            (tokens, most) in (1_u64..3_000, prop::option::of(1_u32..9)),
            multiple in prop::option::of(1_u32..9),
        ) {
            let (cost, of) = costs()[which].clone();
            let bucket = Bucket::tokens(cost, tokens).multiple(multiple.unwrap_or(1));
            let bucket = most.map_or(bucket.clone(), |most| bucket.max_rows(most));
            let has_b = which < 4;
            let mut columns = vec![rows.iter().map(|row| row.0.unwrap_or(NO_LENGTH)).collect::<Vec<_>>()];
            columns.extend(has_b.then(|| rows.iter().map(|row| row.1).collect::<Vec<_>>()));
            columns.iter_mut().for_each(|column| bucket.rounded(column));
            let columns: Vec<&[u32]> = columns.iter().map(Vec::as_slice).collect();
            let mut found = bucket.costs(&columns).unwrap();
            found.iter_mut().for_each(|cost| *cost = bucket.fitting(*cost).unwrap_or(NO_LENGTH));
            let group = bucket.of_group(&found, &columns);
            let found: Vec<Vec<u32>> =
                (0..group.ends.len() as u32).map(|at| group.rows_of(at).to_vec()).collect();

            let up = |length: u32| f64::from(length.div_ceil(multiple.unwrap_or(1)) * multiple.unwrap_or(1));
            let longest = |rows_in: &[usize], has: fn(&(Option<u32>, u32)) -> u32| {
                rows_in.iter().map(|row| up(has(&rows[*row]))).fold(0.0, f64::max)
            };
            let of_row = |row: usize| of(up(rows[row].0.unwrap_or(0)), up(rows[row].1)).ceil();
            // In sums and products, both columns count with their longest values.
            let padded = |rows_in: &[usize]| match which {
                3 => rows_in.iter().map(|row| of_row(*row)).fold(0.0, f64::max),
                _ => of(longest(rows_in, |row| row.0.unwrap_or(0)), longest(rows_in, |row| row.1)).ceil(),
            };
            let mut sorted: Vec<usize> = (0..rows.len()).filter(|row| of_row(*row) <= tokens as f64).collect();
            sorted.sort_by(|a, b| of_row(*a).total_cmp(&of_row(*b)));
            let mut model: Vec<Vec<usize>> = Vec::new();
            for row in sorted {
                let fits = model.last().is_some_and(|last| {
                    let with = [&last[..], &[row]].concat();
                    padded(&with) * with.len() as f64 <= tokens as f64
                        && most.is_none_or(|most| with.len() <= most as usize)
                });
                match model.last_mut().filter(|_| fits) {
                    Some(last) => last.push(row),
                    None => model.push(vec![row]),
                }
            }
            let model: Vec<Vec<u32>> = model
                .into_iter()
                .map(|mut rows| {
                    rows.sort_unstable();
                    rows.into_iter().map(|row| row as u32).collect()
                })
                .collect();
            prop_assert_eq!(found, model);
        }
    }
}
