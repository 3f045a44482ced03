//! Packs of tokens: lists of numbers, one after the other in rows of one length.
//!
//! The lengths of the lists are read once; which lists are in which pack is arithmetic on them, row group by row group.
//!
//! ```text
//! lists       aaaaa bb cccc d        rows of 4
//! split       aaaa abbc cccd         each list follows the one before, cut where a row ends
//! best fit    cccc bbd. (and aaaaa does not fit)
//! ```

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{SampleKind, SampleRows};
use crate::error::{Error, Result};
use crate::row_set::RowSet;

/// Samples of several lists of numbers, such as the tokens of documents, one after the other in a row of one length:
/// `[packs, length]`.
///
/// Lists are packed within their row group, whose last packs are filled up. Each batch also says where the lists of a pack begin
/// and end: `position_ids` and `segment_ids`, of the packs' shape, and `cu_seqlens`, as flash attention takes it.
///
/// ```
/// use forebay::Pack;
///
/// # fn build(dataset: forebay::Dataset) -> forebay::Result<forebay::Loader> {
/// // Documents one after the other, cut where a row of 2,048 tokens ends.
/// dataset.loader().samples(Pack::split(["tokens"], 2_048)).batch_size(8).build()
/// # }
/// # let _ = build;
/// // Whole documents, those together that leave the least room.
/// let pack = Pack::best_fit(["tokens", "labels"], 2_048).truncate(true).lengths("n_tokens");
/// assert_eq!(pack.length(), 2_048);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pack {
    columns: Vec<String>,
    length: u32,
    split: bool,
    #[serde(default)]
    truncate: bool,
    #[serde(default)]
    value: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lengths: Option<String>,
}

impl Pack {
    /// Lists one after the other, cut where a row of `length` numbers ends; the rest of a list begins the next row. The lists of
    /// several columns are packed alike, and are as long in each row.
    pub fn split<N: Into<String>>(columns: impl IntoIterator<Item = N>, length: u32) -> Self {
        let columns = columns.into_iter().map(Into::into).collect();
        Pack { columns, length, split: true, truncate: false, value: 0.0, lengths: None }
    }

    /// Whole lists: the longest first, each in the row where it leaves the least room.
    pub fn best_fit<N: Into<String>>(columns: impl IntoIterator<Item = N>, length: u32) -> Self {
        Pack { split: false, ..Pack::split(columns, length) }
    }

    /// Whether lists that are longer than a row are cut off, where they are not split. Default: false, they are an error.
    #[must_use]
    pub fn truncate(self, truncate: bool) -> Self {
        Pack { truncate, ..self }
    }

    /// The number that fills up a row. Default: 0.
    #[must_use]
    pub fn value(self, value: f64) -> Self {
        Pack { value, ..self }
    }

    /// A column of whole numbers that says how long the list of each row is: packs are then planned without reading the lists. A
    /// list of another length is a bad row. Default: the lists are read once for it.
    #[must_use]
    pub fn lengths(self, column: impl Into<String>) -> Self {
        Pack { lengths: Some(column.into()), ..self }
    }

    /// Numbers of a row.
    pub fn length(&self) -> u32 {
        self.length
    }

    pub(crate) fn columns(&self) -> &[String] {
        &self.columns
    }

    pub(crate) fn filler(&self) -> f64 {
        self.value
    }

    /// The column that says how long lists are.
    pub(crate) fn length_column(&self) -> &str {
        self.lengths.as_deref().or(self.columns.first().map(String::as_str)).unwrap_or_default()
    }

    /// The same packs, whatever is delivered of them. `stored` is the stored name of a column.
    pub(crate) fn deciding_alone(&self, stored: impl Fn(&str) -> String) -> Self {
        Pack { columns: vec![stored(self.length_column())], value: 0.0, lengths: None, ..self.clone() }
    }

    /// Refuses what can never work.
    pub(crate) fn check(&self) -> Result<()> {
        if self.columns.is_empty() {
            return Err(Error::invalid("a pack has no columns").hint("name a column of lists of numbers"));
        }
        if self.columns.iter().enumerate().any(|(at, name)| self.columns[..at].contains(name)) {
            return Err(Error::invalid("a pack has a column twice"));
        }
        if self.length == 0 || self.length > i32::MAX as u32 {
            let cause = format!("a pack has rows of {} numbers", self.length);
            return Err(Error::invalid(cause).hint("the length is from 1 to 2^31 - 1"));
        }
        Ok(())
    }

    /// The packs that lists of these lengths make, in one row group.
    ///
    /// # Errors
    /// A list is longer than a row: its ordinal.
    pub(crate) fn of_group(&self, lengths: Vec<u32>) -> Result<PackedGroup, usize> {
        match self.split {
            true => Ok(PackedGroup::split(lengths, self.length)),
            false => PackedGroup::best_fit(lengths, self.length, self.truncate),
        }
    }
}

/// The packs of one row group.
#[derive(Debug, Default)]
pub(crate) struct PackedGroup {
    /// Of each selected row how long its list is.
    lengths: Box<[u32]>,
    form: Form,
}

#[derive(Debug)]
enum Form {
    /// Of each pack the first row, and how much of it the packs before have. The rows follow each other.
    Split(Box<[(u32, u32)]>),
    /// The rows of all packs, pack by pack, and where each pack ends among them.
    Whole { rows: Box<[u32]>, ends: Box<[u32]> },
}

impl Default for Form {
    fn default() -> Self {
        Form::Split(Box::default())
    }
}

impl PackedGroup {
    fn split(lengths: Vec<u32>, length: u32) -> Self {
        let mut begins = Vec::new();
        // What the pack that is being filled has room for.
        let mut room = 0;
        for (row, &of_row) in (0..).zip(&lengths) {
            let mut taken = 0;
            while taken < of_row {
                if room == 0 {
                    begins.push((row, taken));
                    room = length;
                }
                let next = room.min(of_row - taken);
                taken += next;
                room -= next;
            }
        }
        PackedGroup { lengths: lengths.into(), form: Form::Split(begins.into()) }
    }

    fn best_fit(lengths: Vec<u32>, length: u32, truncate: bool) -> Result<Self, usize> {
        if !truncate && let Some(long) = lengths.iter().position(|of_row| *of_row > length) {
            return Err(long);
        }
        let mut by_length: Vec<u32> =
            (0..lengths.len() as u32).filter(|row| lengths[*row as usize] > 0).collect();
        by_length.sort_by_key(|row| std::cmp::Reverse(lengths[*row as usize]));
        // Room that packs have, and their numbers.
        let mut open: BTreeSet<(u32, u32)> = BTreeSet::new();
        let mut packs: Vec<Vec<u32>> = Vec::new();
        for row in by_length {
            let of_row = lengths[row as usize].min(length);
            let found = open.range((of_row, 0)..).next().copied();
            let (room, pack) = found.unwrap_or_else(|| {
                packs.push(Vec::new());
                (length, packs.len() as u32 - 1)
            });
            open.remove(&(room, pack));
            packs[pack as usize].push(row);
            if room > of_row {
                open.insert((room - of_row, pack));
            }
        }
        // As they are stored: the rows of a pack, and packs by their first row.
        packs.iter_mut().for_each(|rows| rows.sort_unstable());
        packs.sort_unstable();
        let mut end = 0;
        let ends = packs.iter().map(|rows| {
            end += rows.len() as u32;
            end
        });
        let ends = ends.collect();
        let rows = packs.concat().into();
        Ok(PackedGroup { lengths: lengths.into(), form: Form::Whole { rows, ends } })
    }

    fn count(&self) -> u32 {
        match &self.form {
            Form::Split(begins) => begins.len() as u32,
            Form::Whole { ends, .. } => ends.len() as u32,
        }
    }

    /// Appends the rows of a pack; returns how much of the first one belongs to packs before.
    fn rows(&self, pack: u32, rows: &mut Vec<u32>) -> u32 {
        let pack = pack as usize;
        match &self.form {
            Form::Split(begins) => {
                let (first, skipped) = begins[pack];
                let end = match begins.get(pack + 1) {
                    // It begins within a row that this one has the beginning of.
                    Some((next, taken)) => next + u32::from(*taken > 0),
                    None => self.lengths.len() as u32,
                };
                rows.extend((first..end).filter(|row| self.lengths[*row as usize] > 0));
                skipped
            }
            Form::Whole { rows: all, ends } => {
                let start = pack.checked_sub(1).map_or(0, |before| ends[before]);
                rows.extend_from_slice(&all[start as usize..ends[pack] as usize]);
                0
            }
        }
    }

    fn bytes(&self) -> u64 {
        let packs = match &self.form {
            Form::Split(begins) => size_of_val(&**begins),
            Form::Whole { rows, ends } => size_of_val(&**rows) + size_of_val(&**ends),
        };
        (size_of_val(&*self.lengths) + packs) as u64
    }
}

/// The packs of a data set.
#[derive(Debug)]
pub(crate) struct Packs(pub(crate) Vec<PackedGroup>);

impl SampleKind for Packs {
    fn count(&self, group: usize) -> u32 {
        self.0[group].count()
    }

    fn rows(&self, group: usize, sample: u32, _: &RowSet, rows: &mut SampleRows) {
        let (group, before) = (&self.0[group], rows.rows.len());
        rows.skipped = group.rows(sample, &mut rows.rows);
        rows.lengths.extend(rows.rows[before..].iter().map(|row| group.lengths[*row as usize]));
    }

    fn bytes(&self) -> u64 {
        self.0.iter().map(PackedGroup::bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn packs(pack: &Pack, lengths: &[u32]) -> Vec<(Vec<u32>, u32)> {
        let group = pack.of_group(lengths.to_vec()).unwrap();
        let of_pack = |pack| {
            let mut rows = Vec::new();
            let skipped = group.rows(pack, &mut rows);
            (rows, skipped)
        };
        (0..group.count()).map(of_pack).collect()
    }

    #[test]
    fn lists_are_split_where_a_row_ends() {
        let pack = Pack::split(["x"], 4);
        assert_eq!(packs(&pack, &[5, 2, 4, 1]), [(vec![0], 0), (vec![0, 1, 2], 4), (vec![2, 3], 1)]);
        assert_eq!(packs(&pack, &[4, 0, 9]), [(vec![0], 0), (vec![2], 0), (vec![2], 4), (vec![2], 8)]);
        assert_eq!(packs(&pack, &[0, 0]), []);
    }

    #[test]
    fn whole_lists_are_put_where_they_leave_the_least_room() {
        let pack = Pack::best_fit(["x"], 4);
        assert_eq!(packs(&pack, &[1, 2, 4, 1]), [(vec![0, 1, 3], 0), (vec![2], 0)]);
        assert_eq!(packs(&pack, &[3, 2, 2, 1, 0]), [(vec![0, 3], 0), (vec![1, 2], 0)]);
        assert_eq!(pack.of_group(vec![4, 5]).unwrap_err(), 1);
        assert_eq!(packs(&pack.truncate(true), &[5, 1]), [(vec![0], 0), (vec![1], 0)]);
    }

    proptest! {
        /// Each number of each list is in one pack, in the order of the lists.
        #[test]
        fn split_packs_have_each_number_once(lengths in prop::collection::vec(0u32..40, 0..60), length in 1u32..30) {
            let mut numbers = Vec::new();
            let packs = packs(&Pack::split(["x"], length), &lengths);
            for (at, (rows, skipped)) in packs.iter().enumerate() {
                let mut of_pack: Vec<(u32, u32)> = Vec::new();
                for (place, row) in rows.iter().enumerate() {
                    let from = if place == 0 { *skipped } else { 0 };
                    of_pack.extend((from..lengths[*row as usize]).map(|number| (*row, number)));
                }
                prop_assert!(of_pack.len() >= length as usize || at + 1 == packs.len());
                of_pack.truncate(length as usize);
                numbers.extend(of_pack);
            }
            let all: Vec<(u32, u32)> =
                (0..).zip(&lengths).flat_map(|(row, of_row)| (0..*of_row).map(move |number| (row, number))).collect();
            prop_assert_eq!(numbers, all);
        }

        /// Each list is in one pack, none is too full, and no two packs could be one.
        #[test]
        fn whole_packs_have_each_list_once(lengths in prop::collection::vec(0u32..20, 0..60)) {
            let packs = packs(&Pack::best_fit(["x"], 20), &lengths);
            let full = |(rows, _): &(Vec<u32>, u32)| rows.iter().map(|row| lengths[*row as usize]).sum::<u32>();
            prop_assert!(packs.iter().all(|pack| full(pack) <= 20));
            let mut rows: Vec<u32> = packs.iter().flat_map(|(rows, _)| rows.clone()).collect();
            rows.sort_unstable();
            let some: Vec<u32> = (0..lengths.len() as u32).filter(|row| lengths[*row as usize] > 0).collect();
            prop_assert_eq!(rows, some);
            let mut fullness: Vec<u32> = packs.iter().map(full).collect();
            fullness.sort_unstable();
            prop_assert!(fullness.len() < 2 || fullness[0] + fullness[1] > 20);
        }
    }
}
