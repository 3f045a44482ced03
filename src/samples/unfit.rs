//! Selected rows that cannot be in a sample: bad rows that are known before anything is planned.

use forebay_base::{Error, ErrorKind};

use super::Samples;
use super::lengths::NO_LENGTH;

/// The reason why a row cannot be in a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// The row has no list, or the length of its list is null.
    NoLength,
    /// The row is longer than a sample; the number is its length.
    TooLong(u32),
}

/// A selected row that cannot be in a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnfitRow {
    pub(crate) group: usize,
    /// The ordinal of the row among the selected rows of its row group.
    pub(crate) row: u32,
    pub(crate) why: Unfit,
}

impl Samples {
    /// Changes each length to the number of values that its row takes in a sample. A row that cannot be in a
    /// sample gets a length that leaves it out: 0 in packs, otherwise [`NO_LENGTH`]. Returns these rows in
    /// order.
    pub(crate) fn without_unfit<'a>(
        &'a self,
        lengths: &'a mut [Vec<u32>],
    ) -> impl Iterator<Item = UnfitRow> + 'a {
        let rows = lengths
            .iter_mut()
            .enumerate()
            .flat_map(|(group, lengths)| (0..).zip(lengths).map(move |(row, length)| (group, row, length)));
        rows.filter_map(|(group, row, length)| {
            let (fitting, left_out) = match self {
                Samples::Packs(pack) => (pack.fitting(*length), 0),
                Samples::Buckets(bucket) => (bucket.fitting(*length), NO_LENGTH),
                Samples::Rows | Samples::Windows(_) | Samples::Weighted(_) => (Ok(*length), NO_LENGTH),
            };
            *length = fitting.unwrap_or(left_out);
            fitting.err().map(|why| UnfitRow { group, row, why })
        })
    }

    /// The error for a row that does not fit.
    pub(crate) fn refusal(&self, why: Unfit) -> Error {
        match (why, self) {
            (Unfit::TooLong(length), Samples::Packs(pack)) => {
                let cause = pack.too_long(length);
                Error::new(ErrorKind::BadRow, cause)
                    .hint("use longer packs, split long lists, or cut them off with `truncate`")
            }
            (Unfit::TooLong(length), Samples::Buckets(bucket)) => {
                let most = bucket.most_tokens().unwrap_or(0);
                let row = match (bucket.cost().column(), bucket.padded_to()) {
                    (None, _) => format!("a row that costs {length}"),
                    (Some(_), None) => format!("a row of {length} values"),
                    (Some(_), Some(multiple)) => {
                        format!("a row of {length} values, once padded to a multiple of {multiple},")
                    }
                };
                Error::new(ErrorKind::BadRow, format!("{row} does not fit a bucket of {most}"))
                    .hint("give buckets more `tokens`, or leave longer rows out with `filter` or `deny`")
            }
            (Unfit::TooLong(_) | Unfit::NoLength, _) => {
                let error = Error::new(ErrorKind::BadRow, "null where a list is packed");
                error.hint("write an empty list, or leave such rows out with `deny`")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Bucket, Pack};
    use super::*;

    /// An unfit row: its row group, the row within it, and the reason.
    type Found = (usize, u32, Unfit);

    fn unfit(samples: Samples, mut lengths: [Vec<u32>; 2]) -> (Vec<Found>, [Vec<u32>; 2]) {
        let rows = samples.without_unfit(&mut lengths).map(|it| (it.group, it.row, it.why)).collect();
        (rows, lengths)
    }

    #[test]
    fn rows_that_no_sample_holds_are_taken_out_in_order() {
        let lengths = [vec![3, NO_LENGTH], vec![9, 0]];
        let (null, long) = ((0, 1, Unfit::NoLength), (1, 0, Unfit::TooLong(9)));
        let cut = [vec![3, 0], vec![9, 0]];
        assert_eq!(unfit(Pack::split(["x"], 4).into(), lengths.clone()), (vec![null], cut.clone()));
        assert_eq!(unfit(Pack::best_fit(["x"], 4).truncate(true).into(), lengths.clone()), (vec![null], cut));
        let whole = unfit(Pack::best_fit(["x"], 4).into(), lengths.clone());
        assert_eq!(whole, (vec![null, long], [vec![3, 0], vec![0, 0]]));
        let buckets = unfit(Bucket::tokens("x", 4).into(), lengths);
        assert_eq!(buckets, (vec![long], [vec![3, 0], vec![NO_LENGTH, 0]]));
    }
}
