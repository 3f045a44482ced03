//! Packs: samples that join several lists of numbers, such as tokens, into one row of a fixed length.
//!
//! The lengths of the lists are read once, and decide which lists go into which pack. Whole lists are packed
//! row group by row group; split lists may continue through consecutive row groups. A pack belongs to the row
//! group in which it begins.
//!
//! ```text
//! lists       aaaaa bb cccc d        rows of 4
//! split       aaaa abbc cccd         each list follows the one before, cut where a row ends
//! best fit    cccc bbd. (and aaaaa does not fit)
//! split long  aaaa cccc abbd         a list that is too long fills rows, and its rest is packed as it is
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use forebay_base::{Error, Result};
use forebay_store::row_set::RowSet;
use serde::{Deserialize, Serialize};

use super::across::Across;
use super::lengths::NO_LENGTH;
use super::unfit::Unfit;
use super::{SampleKind, SampleRows};

/// Samples of several lists of numbers, such as the tokens of documents, one after the other in a row of
/// fixed length. A column is delivered in the shape `[packs, length]`.
///
/// Lists are packed within their row group unless [`across`](Self::across) says otherwise, and the last packs
/// of a row group are filled up. Each batch also says where the lists of a pack begin and end: `position_ids`
/// and `segment_ids`, of the packs' shape, and `cu_seqlens`, as flash attention takes it. By default only the
/// packed columns are read. If [`columns`](crate::LoaderBuilder::columns) lists other columns, each pack has
/// a list of their values, with one value for each list in the pack. Row ids are delivered in the same way.
///
/// ```
/// use forebay::samples::Pack;
///
/// # fn build(dataset: forebay::Dataset) -> forebay::Result<forebay::Loader> {
/// // Documents one after the other, cut where a row of 2,048 tokens ends.
/// dataset.loader().samples(Pack::split(["tokens"], 2_048)).batch_size(8).build()
/// # }
/// # let _ = build;
/// // Whole documents, combined so that little room is left.
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
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    split_long: bool,
    #[serde(default)]
    value: PackValue,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bos: Option<PackValue>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    eos: Option<PackValue>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lengths: Option<String>,
    /// How far split lists may continue. Positions leave the field out if it has its default.
    #[serde(default, skip_serializing_if = "Across::is_row_group")]
    across: Across,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    reshuffle: bool,
}

impl Pack {
    /// Puts lists one after the other and cuts them where a row of `length` numbers ends; the rest of a list
    /// begins the next row. The lists of several columns are packed alike, so they must have equal lengths in
    /// each row.
    pub fn split<N: Into<String>>(columns: impl IntoIterator<Item = N>, length: u32) -> Self {
        let columns = columns.into_iter().map(Into::into).collect();
        Pack {
            columns,
            length,
            split: true,
            truncate: false,
            split_long: false,
            value: PackValue::default(),
            bos: None,
            eos: None,
            lengths: None,
            across: Across::RowGroup,
            reshuffle: false,
        }
    }

    /// Packs whole lists: the longest first, each into the row where it leaves the least room.
    pub fn best_fit<N: Into<String>>(columns: impl IntoIterator<Item = N>, length: u32) -> Self {
        Pack { split: false, ..Pack::split(columns, length) }
    }

    /// Whether [`best_fit`](Self::best_fit) cuts off lists that are longer than a row. Default: false, such
    /// lists are refused, or left out where [`on_bad_row`](crate::LoaderBuilder::on_bad_row) skips bad rows.
    #[must_use]
    pub fn truncate(self, truncate: bool) -> Self {
        Pack { truncate, ..self }
    }

    /// Whether [`best_fit`](Self::best_fit) splits lists that are longer than a row: such a list fills rows
    /// of its own, and its rest is packed like a list. Default: false.
    ///
    /// ```
    /// // No list is split without need, and no number is lost.
    /// let pack = forebay::samples::Pack::best_fit(["tokens"], 2_048).split_long(true);
    /// ```
    #[must_use]
    pub fn split_long(self, split_long: bool) -> Self {
        Pack { split_long, ..self }
    }

    /// The number that fills up a row: one for all columns, or one for each named column and 0 for the
    /// others. Default: 0.
    ///
    /// ```
    /// let columns = ["input_ids", "labels"];
    /// let pack = forebay::samples::Pack::best_fit(columns, 2_048).value([("labels", -100.0)]);
    /// ```
    #[must_use]
    pub fn value(self, value: impl Into<PackValue>) -> Self {
        Pack { value: value.into(), ..self }
    }

    /// A number to put before each list, such as the id of the token BOS: one number for all columns, or one
    /// for each column. It counts in the length of a pack, and is in the pack in which the list begins. An
    /// empty list gets no such number. Default: no number.
    ///
    /// ```
    /// let columns = ["input_ids", "labels"];
    /// let bos = [("input_ids", 1.0), ("labels", -100.0)];
    /// let pack = forebay::samples::Pack::split(columns, 2_048).bos(bos);
    /// ```
    #[must_use]
    pub fn bos(self, bos: impl Into<PackValue>) -> Self {
        Pack { bos: Some(bos.into()), ..self }
    }

    /// A number to put after each list, such as the id of the token EOS: one number for all columns, or one
    /// for each column. It counts in the length of a pack, and is in the pack in which the list ends. A list
    /// that is empty or [cut off](Self::truncate) gets no such number. Default: no number.
    ///
    /// ```
    /// let pack = forebay::samples::Pack::split(["input_ids", "labels"], 2_048).eos(2.0);
    /// ```
    #[must_use]
    pub fn eos(self, eos: impl Into<PackValue>) -> Self {
        Pack { eos: Some(eos.into()), ..self }
    }

    /// A column of whole numbers with the length of the list in each row, without [`bos`](Self::bos) and
    /// [`eos`](Self::eos), so that packs are planned without reading the lists. A row whose list has another
    /// length is a bad row. Default: the lists are read once for their lengths.
    #[must_use]
    pub fn lengths(self, column: impl Into<String>) -> Self {
        Pack { lengths: Some(column.into()), ..self }
    }

    /// How far split lists are joined in stored order. Only the last pack of the joined lists is filled up.
    /// Default: to the end of their row group.
    ///
    /// The first lists of a row group are then read twice: with their own row group, and with the row group
    /// before, whose packs continue in them.
    #[must_use]
    pub fn across(self, across: Across) -> Self {
        Pack { across, ..self }
    }

    /// Whether each epoch combines the lists of a row group into different packs. Split lists are then joined
    /// in random order, and whole lists are packed with other lists. All epochs have the same number of
    /// packs. The packs of an epoch depend only on the data, the seed of the shuffle and the number of the
    /// epoch. Default: false, all epochs have the same packs.
    ///
    /// ```
    /// let pack = forebay::samples::Pack::best_fit(["tokens"], 2_048).reshuffle(true);
    /// ```
    #[must_use]
    pub fn reshuffle(self, reshuffle: bool) -> Self {
        Pack { reshuffle, ..self }
    }

    /// The number of values in a pack, which is delivered as one row.
    pub fn length(&self) -> u32 {
        self.length
    }

    pub(crate) fn columns(&self) -> &[String] {
        &self.columns
    }

    pub(crate) fn across_borders(&self) -> Across {
        self.across
    }

    pub(crate) fn is_split(&self) -> bool {
        self.split
    }

    pub(crate) fn is_reshuffled(&self) -> bool {
        self.reshuffle
    }

    /// The number that fills up the packs of a column.
    pub(crate) fn value_of(&self, column: &str) -> f64 {
        self.value.for_column(column).unwrap_or(0.0)
    }

    /// The numbers before and after each list of a column.
    pub(crate) fn marks_of(&self, column: &str) -> PackMarks {
        let of_column = |mark: &Option<PackValue>| mark.as_ref().and_then(|mark| mark.for_column(column));
        PackMarks { bos: of_column(&self.bos), eos: of_column(&self.eos) }
    }

    /// The number of values that are put before and after each list: none, one or two.
    fn marks(&self) -> u32 {
        u32::from(self.bos.is_some()) + u32::from(self.eos.is_some())
    }

    /// The column that gives the lengths of the lists.
    pub(crate) fn length_column(&self) -> &str {
        self.lengths.as_deref().or(self.columns.first().map(String::as_str)).unwrap_or_default()
    }

    /// Returns a copy that keeps only the options that decide which lists are in which pack. `stored` maps
    /// the name of a column to its stored name.
    pub(crate) fn deciding_alone(&self, stored: impl Fn(&str) -> String) -> Self {
        Pack {
            columns: vec![stored(self.length_column())],
            value: PackValue::default(),
            bos: self.bos.as_ref().map(|_| PackValue::default()),
            eos: self.eos.as_ref().map(|_| PackValue::default()),
            lengths: None,
            ..self.clone()
        }
    }

    /// Returns an error for options that can never work, whatever the data.
    pub(crate) fn check(&self) -> Result<()> {
        if self.columns.is_empty() {
            return Err(Error::invalid("a pack needs a column").hint("name a column of lists of numbers"));
        }
        if self.columns.iter().enumerate().any(|(at, name)| self.columns[..at].contains(name)) {
            return Err(Error::invalid("a pack lists a column twice"));
        }
        self.check_numbers("value", Some(&self.value))?;
        for (option, numbers) in [("bos", self.bos.as_ref()), ("eos", self.eos.as_ref())] {
            self.check_numbers(option, numbers)?;
            if let Some(numbers) = numbers
                && let Some(name) = self.columns.iter().find(|name| numbers.for_column(name).is_none())
            {
                let cause = format!("a pack has no `{option}` for {name:?}, but for other columns");
                return Err(Error::invalid(cause).hint("lists are packed alike: give each column a number"));
            }
        }
        if self.length == 0 || self.length > i32::MAX as u32 {
            let cause = format!("the length of a pack is {}", self.length);
            return Err(Error::invalid(cause).hint("give a length from 1 to 2^31 - 1"));
        }
        if self.truncate && (self.split || self.split_long) {
            let cause = "`truncate` cuts off lists that are longer than a pack, but they are split";
            return Err(Error::invalid(cause).hint("leave out `truncate`, or keep lists whole"));
        }
        if self.split && self.split_long {
            return Err(Error::invalid("`split_long` is given, but all lists are split")
                .hint("leave it out, or pack whole lists"));
        }
        if !self.split && !self.across.is_row_group() {
            let cause = "packs of whole lists are made of one row group each, and `across` is set";
            return Err(Error::invalid(cause).hint(
                "split lists, or leave `across` out: large row groups leave little room in best-fit packs",
            ));
        }
        if self.reshuffle && !self.across.is_row_group() {
            let cause =
                "packs that each epoch makes anew are made of one row group each, and `across` is set";
            return Err(Error::invalid(cause).hint(
                "leave out `across` or `reshuffle`: in random order, any rows of the next row group may follow",
            ));
        }
        Ok(())
    }

    /// Fails if an option has numbers for columns that are not packed.
    fn check_numbers(&self, option: &str, numbers: Option<&PackValue>) -> Result<()> {
        let Some(PackValue::Columns(numbers)) = numbers else { return Ok(()) };
        match numbers.keys().find(|name| !self.columns.contains(name)) {
            None => Ok(()),
            Some(name) => Err(Error::invalid(format!(
                "`{option}` of a pack has a number for {name:?}, which is not packed"
            ))
            .hint(format!("its columns are {}", self.columns.join(", ")))),
        }
    }

    /// The number of values that a list takes in packs, or the reason why it cannot be packed.
    pub(crate) fn fitting(&self, length: u32) -> Result<u32, Unfit> {
        let may_be_longer = self.split || self.split_long || self.truncate;
        match length {
            NO_LENGTH => Err(Unfit::NoLength),
            0 => Ok(0),
            length => match length.checked_add(self.marks()) {
                Some(marked) if marked <= self.length || may_be_longer => Ok(marked),
                _ => Err(Unfit::TooLong(length)),
            },
        }
    }

    /// The cause of the error for a list that is too long for a pack.
    pub(crate) fn too_long(&self, length: u32) -> String {
        let marks = match (&self.bos, &self.eos) {
            (None, None) => "",
            (Some(_), None) => " with bos",
            (None, Some(_)) => " with eos",
            (Some(_), Some(_)) => " with bos and eos",
        };
        format!("a list of {length} values{marks} does not fit a pack of {}", self.length)
    }

    /// The most lists of a row group that a pack can have, in whatever order they are packed.
    pub(crate) fn most_rows(&self, lengths: &[u32]) -> u32 {
        let lists = lengths.iter().filter(|length| **length > 0).count();
        let mut rests: Vec<u32> = self.rests(lengths).into_iter().filter(|rest| *rest > 0).collect();
        rests.sort_unstable();
        let mut room = self.length;
        let whole = rests.iter().take_while(|rest| {
            let fits = **rest <= room;
            room = room.saturating_sub(**rest);
            fits
        });
        // A split pack may have the end of one more list, and the beginning of another.
        let most = whole.count() + if self.split { 2 } else { 1 };
        most.min(lists) as u32
    }

    /// The number of values of each list that are packed together with other lists: what is left of a list
    /// after the packs that it fills alone.
    pub(super) fn rests(&self, lengths: &[u32]) -> Vec<u32> {
        let rest = |length: &u32| match self.split_long && *length > self.length {
            true => length % self.length,
            false => (*length).min(self.length),
        };
        lengths.iter().map(rest).collect()
    }

    /// The number of packs that lists of a row group fill alone, because they are longer than a pack and are
    /// split.
    pub(super) fn filled_alone(&self, lengths: &[u32]) -> u32 {
        let long = lengths.iter().filter(|length| self.split_long && **length > self.length);
        long.map(|length| length / self.length).sum()
    }

    /// Packs the lists of a row group by best fit.
    fn best_fit_of(&self, lengths: Vec<u32>) -> PackedGroup {
        let rests = self.rests(&lengths);
        let mut by_length: Vec<u32> =
            (0..lengths.len() as u32).filter(|row| rests[*row as usize] > 0).collect();
        by_length.sort_by_key(|row| std::cmp::Reverse(rests[*row as usize]));
        let packs = placed(&rests, by_length, self.length);
        self.whole(lengths, &rests, packs)
    }

    /// Makes the packs of a row group. `packs` lists, for each pack, the rows whose remaining values
    /// ([`rests`](Self::rests)) share it. Packs that a long list fills alone are added.
    pub(super) fn whole(&self, lengths: Vec<u32>, rests: &[u32], packs: Vec<Vec<u32>>) -> PackedGroup {
        let skipped = |row: u32| match self.split_long {
            true => lengths[row as usize] - rests[row as usize],
            false => 0,
        };
        let of_pack = |rows: Vec<u32>| rows.into_iter().map(|row| (row, skipped(row))).collect::<Vec<_>>();
        let mut packs: Vec<Vec<(u32, u32)>> = packs.into_iter().map(of_pack).collect();
        if self.split_long {
            let long = (0..).zip(&lengths).filter(|(_, length)| **length > self.length);
            packs.extend(long.flat_map(|(row, length)| {
                (0..length / self.length).map(move |piece| vec![(row, piece * self.length)])
            }));
        }
        // The rows of a pack come in stored order, and packs in the order of their first rows.
        packs.iter_mut().for_each(|rows| rows.sort_unstable());
        packs.sort_unstable();
        let mut end = 0;
        let ends = packs.iter().map(|rows| {
            end += rows.len() as u32;
            end
        });
        let ends = ends.collect();
        let (rows, skipped): (Vec<u32>, Vec<u32>) = packs.into_iter().flatten().unzip();
        let skipped = if skipped.iter().any(|values| *values > 0) { skipped } else { Vec::new() };
        let lengths = rows.iter().map(|row| lengths[*row as usize]).collect();
        PackedGroup { lengths, form: PackBorders::Whole { rows: rows.into(), ends, skipped: skipped.into() } }
    }

    /// Makes the packs of consecutive row groups. `lengths` has the lengths of their lists.
    pub(crate) fn of_sequence(&self, lengths: Vec<Vec<u32>>) -> Vec<PackedGroup> {
        match self.split {
            true => split(lengths, self.length),
            false => lengths.into_iter().map(|lengths| self.best_fit_of(lengths)).collect(),
        }
    }
}

/// The number that fills up the rows of a [`Pack`], as [`Pack::value`] describes, or that stands before or
/// after each list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum PackValue {
    /// The number for all columns.
    All(f64),
    /// The numbers for the named columns; the other columns have 0.
    Columns(BTreeMap<String, f64>),
}

impl PackValue {
    /// Returns the number for a column; `None` if there are numbers for named columns and none for this one.
    fn for_column(&self, column: &str) -> Option<f64> {
        match self {
            PackValue::All(value) => Some(*value),
            PackValue::Columns(values) => values.get(column).copied(),
        }
    }
}

impl Default for PackValue {
    fn default() -> Self {
        PackValue::All(0.0)
    }
}

impl From<f64> for PackValue {
    fn from(value: f64) -> Self {
        PackValue::All(value)
    }
}

impl<N: Into<String>, const C: usize> From<[(N, f64); C]> for PackValue {
    fn from(values: [(N, f64); C]) -> Self {
        PackValue::Columns(values.into_iter().map(|(name, value)| (name.into(), value)).collect())
    }
}

/// The numbers before and after each list of a column.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct PackMarks {
    pub(crate) bos: Option<f64>,
    pub(crate) eos: Option<f64>,
}

impl PackMarks {
    /// The number of marks that a list gets: none, one or two.
    pub(crate) fn count(&self) -> usize {
        usize::from(self.bos.is_some()) + usize::from(self.eos.is_some())
    }
}

/// The packs of one row group.
#[derive(Debug, Default)]
pub(crate) struct PackedGroup {
    /// The lengths of lists, including the numbers before and after them: of each selected row, or, if lists
    /// are not cut, of each row in the order of the packs.
    lengths: Box<[u32]>,
    form: PackBorders,
}

#[derive(Debug)]
enum PackBorders {
    /// Consecutive lists, cut at the end of each pack. For each pack, `begins` has its first row, and the
    /// number of values of that row's list that are in earlier packs. The last pack ends before the row
    /// `end`. Rows of later row groups are numbered after those of this one.
    Split { begins: Box<[(u32, u32)]>, end: u32 },
    /// Lists that are not cut, except those that are longer than a pack. `rows` has the rows of all packs,
    /// pack by pack, and `ends` has the end of each pack as an index into `rows`. For each of `rows`,
    /// `skipped` has the number of values of its list that are in earlier packs; it is empty if no list is
    /// cut.
    Whole { rows: Box<[u32]>, ends: Box<[u32]>, skipped: Box<[u32]> },
}

impl Default for PackBorders {
    fn default() -> Self {
        PackBorders::Split { begins: Box::default(), end: 0 }
    }
}

impl PackedGroup {
    fn count(&self) -> u32 {
        match &self.form {
            PackBorders::Split { begins, .. } => begins.len() as u32,
            PackBorders::Whole { ends, .. } => ends.len() as u32,
        }
    }

    /// The most rows from the first to the last row of a pack, including empty lists between others.
    fn largest(&self) -> u32 {
        match &self.form {
            PackBorders::Split { begins, end } => {
                let next = begins.iter().skip(1).map(|(row, taken)| row + u32::from(*taken > 0));
                let ends = next.chain([*end]);
                begins.iter().zip(ends).map(|((first, _), end)| end - first).max().unwrap_or(0)
            }
            PackBorders::Whole { ends, .. } => {
                let begins = [0].into_iter().chain(ends.iter().copied());
                begins.zip(ends).map(|(begin, end)| end - begin).max().unwrap_or(0)
            }
        }
    }

    /// The number of rows that the last pack has in later row groups.
    fn beyond(&self) -> u32 {
        match &self.form {
            PackBorders::Split { end, .. } => end.saturating_sub(self.lengths.len() as u32),
            PackBorders::Whole { .. } => 0,
        }
    }

    fn bytes(&self) -> u64 {
        let packs = match &self.form {
            PackBorders::Split { begins, .. } => size_of_val(&**begins),
            PackBorders::Whole { rows, ends, skipped } => {
                size_of_val(&**rows) + size_of_val(&**ends) + size_of_val(&**skipped)
            }
        };
        (size_of_val(&*self.lengths) + packs) as u64
    }
}

/// Packs rows by best fit: takes them in `order`, puts each into the pack where it leaves the least room, and
/// returns the rows of each pack. `lengths` has the length of each row, and `length` is the length of a pack.
pub(super) fn placed(lengths: &[u32], order: impl IntoIterator<Item = u32>, length: u32) -> Vec<Vec<u32>> {
    // Pairs of the room that is left in a pack and the pack's number.
    let mut open: BTreeSet<(u32, u32)> = BTreeSet::new();
    let mut packs: Vec<Vec<u32>> = Vec::new();
    for row in order {
        let of_row = lengths[row as usize];
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
    packs
}

/// Packs lists one after the other through consecutive row groups.
fn split(lengths: Vec<Vec<u32>>, length: u32) -> Vec<PackedGroup> {
    let mut begins: Vec<Vec<(u32, u32)>> = vec![Vec::new(); lengths.len()];
    let mut ends = vec![0; lengths.len()];
    // The room that is left in the pack being filled, and the row group in which that pack begins.
    let (mut room, mut home) = (0, 0);
    // The number of rows from the beginning of that row group to the beginning of the present one.
    let mut before = 0;
    for (group, of_group) in lengths.iter().enumerate() {
        for (row, &of_row) in (0..).zip(of_group) {
            let mut taken = 0;
            while taken < of_row {
                if room == 0 {
                    begins[group].push((row, taken));
                    (room, home, before) = (length, group, 0);
                }
                let next = room.min(of_row - taken);
                taken += next;
                room -= next;
                ends[home] = before + row + 1;
            }
        }
        before += of_group.len() as u32;
    }
    let forms =
        begins.into_iter().zip(ends).map(|(begins, end)| PackBorders::Split { begins: begins.into(), end });
    lengths
        .into_iter()
        .zip(forms)
        .map(|(lengths, form)| PackedGroup { lengths: lengths.into(), form })
        .collect()
}

/// The packs of a data set.
#[derive(Debug)]
pub(crate) struct Packs(pub(crate) Vec<PackedGroup>);

impl Packs {
    /// The most rows that a pack of any row group has.
    pub(crate) fn largest(&self) -> u32 {
        self.0.iter().map(PackedGroup::largest).max().unwrap_or(0)
    }

    /// Appends the rows in `ordinals` whose lists are not empty, with their lengths. Ordinals count from the
    /// first row of `group` through the row groups after it.
    fn some(&self, group: usize, ordinals: Range<u32>, rows: &mut SampleRows) {
        let mut groups = self.0[group..].iter();
        let (mut lengths, mut first) = (groups.next().map_or(&[][..], |group| &*group.lengths), 0);
        for ordinal in ordinals {
            while (ordinal - first) as usize >= lengths.len() {
                let Some(next) = groups.next() else { return };
                first += lengths.len() as u32;
                lengths = &next.lengths;
            }
            let length = lengths[(ordinal - first) as usize];
            if length > 0 {
                rows.rows.push(ordinal);
                rows.lengths.push(length);
            }
        }
    }
}

impl SampleKind for Packs {
    fn count(&self, group: usize) -> u32 {
        self.0[group].count()
    }

    fn beyond(&self, group: usize, _: &RowSet) -> u32 {
        self.0[group].beyond()
    }

    fn rows(&self, group: usize, sample: u32, _: &RowSet, rows: &mut SampleRows) {
        let (of_group, pack) = (&self.0[group], sample as usize);
        match &of_group.form {
            PackBorders::Split { begins, end } => {
                let (first, skipped) = begins[pack];
                let end = match begins.get(pack + 1) {
                    // If the next pack begins in the middle of a list, the row of this list is also in this
                    // pack.
                    Some((next, taken)) => next + u32::from(*taken > 0),
                    None => *end,
                };
                rows.skipped.push(skipped);
                self.some(group, first..end, rows);
            }
            PackBorders::Whole { rows: all, ends, skipped } => {
                let start = pack.checked_sub(1).map_or(0, |before| ends[before]);
                let range = start as usize..ends[pack] as usize;
                rows.skipped.extend_from_slice(skipped.get(range.clone()).unwrap_or_default());
                rows.lengths.extend_from_slice(&of_group.lengths[range.clone()]);
                rows.rows.extend_from_slice(&all[range]);
            }
        }
    }

    fn bytes(&self) -> u64 {
        self.0.iter().map(PackedGroup::bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns, for each pack, its rows, numbered over all row groups, and the number of values of its first
    /// row that are in earlier packs.
    fn packs_across(pack: &Pack, groups: &[Vec<u32>]) -> Vec<(Vec<u32>, u32)> {
        let packs = Packs(pack.of_sequence(groups.to_vec()));
        let (mut first, mut found) = (0, Vec::new());
        for (group, lengths) in groups.iter().enumerate() {
            let own = lengths.len() as u32;
            for pack in 0..packs.count(group) {
                let mut rows = SampleRows::default();
                packs.rows(group, pack, &RowSet::all(own), &mut rows);
                assert!(rows.rows.iter().all(|row| *row < own + packs.beyond(group, &RowSet::all(own))));
                let all: Vec<u32> = groups[group..].concat();
                assert!(
                    rows.rows.iter().zip(&rows.lengths).all(|(row, length)| all[*row as usize] == *length)
                );
                assert!(rows.rows.len() as u32 <= packs.largest());
                let skipped = rows.skipped.first().copied().unwrap_or(0);
                found.push((rows.rows.into_iter().map(|row| first + row).collect(), skipped));
            }
            first += own;
        }
        found
    }

    fn packs(pack: &Pack, lengths: &[u32]) -> Vec<(Vec<u32>, u32)> {
        packs_across(pack, &[lengths.to_vec()])
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
        assert_eq!(packs(&pack.clone().truncate(true), &[5, 1]), [(vec![0], 0), (vec![1], 0)]);
        let long = pack.split_long(true);
        assert_eq!(
            packs(&long, &[1, 9, 2, 4]),
            [(vec![0, 1, 2], 0), (vec![1], 0), (vec![1], 4), (vec![3], 0)]
        );
        assert_eq!(packs(&long, &[8]), [(vec![0], 0), (vec![0], 4)]);
    }

    #[test]
    fn each_column_is_filled_up_with_its_own_value() {
        let pack = Pack::split(["ids", "labels"], 4).value([("labels", -100.0)]);
        assert_eq!((pack.value_of("ids"), pack.value_of("labels")), (0.0, -100.0));
        pack.check().unwrap();
        let read = |value: &str| {
            let text =
                format!(r#"{{"columns": ["ids", "labels"], "length": 4, "split": true, "value": {value}}}"#);
            serde_json::from_str::<Pack>(&text)
        };
        assert_eq!(read(r#"{"labels": -100}"#).unwrap(), pack);
        assert_eq!(read("7").unwrap().value_of("ids"), 7.0);
        assert!(read(r#""7""#).is_err());
        let said = read(r#"{"label": -100}"#).unwrap().check().unwrap_err().to_string();
        assert!(said.contains(r#""label", which is not packed (its columns are ids, labels)"#), "{said}");
    }

    #[test]
    fn numbers_before_and_after_a_list_count_in_its_length() {
        let pack = Pack::best_fit(["x"], 8);
        let marked = pack.clone().bos(1.0).eos(2.0);
        let lengths = [0, 1, 6, 7, NO_LENGTH];
        let fitting = |pack: &Pack| lengths.map(|length| pack.fitting(length));
        let null = Err(Unfit::NoLength);
        assert_eq!(fitting(&pack.clone().eos(2.0)), [Ok(0), Ok(2), Ok(7), Ok(8), null]);
        assert_eq!(fitting(&marked), [Ok(0), Ok(3), Ok(8), Err(Unfit::TooLong(7)), null]);
        assert_eq!(fitting(&marked.clone().truncate(true)), [Ok(0), Ok(3), Ok(8), Ok(9), null]);
        assert_eq!(marked.fitting(NO_LENGTH - 1), Err(Unfit::TooLong(NO_LENGTH - 1)));
        assert_eq!(marked.too_long(7), "a list of 7 values with bos and eos does not fit a pack of 8");
        assert_eq!(pack.too_long(9), "a list of 9 values does not fit a pack of 8");
        let of_columns = Pack::split(["ids", "labels"], 4).eos([("ids", 2.0), ("labels", -100.0)]);
        of_columns.check().unwrap();
        assert_eq!(of_columns.marks_of("labels"), PackMarks { bos: None, eos: Some(-100.0) });
        let position = |pack: &Pack| pack.deciding_alone(str::to_owned);
        assert_eq!(
            position(&of_columns),
            position(&of_columns.clone().eos(3.0)),
            "the number decides nothing"
        );
        assert_ne!(position(&of_columns), position(&Pack::split(["ids", "labels"], 4)));
        let said = |pack: Pack| pack.check().unwrap_err().to_string();
        let some = said(Pack::split(["ids", "labels"], 4).bos([("ids", 1.0)]));
        assert!(some.contains(r#"no `bos` for "labels""#), "{some}");
        assert!(
            said(Pack::split(["ids"], 4).eos([("id", 1.0)]))
                .contains("`eos` of a pack has a number for \"id\", which is not")
        );
    }

    #[test]
    fn a_pack_has_from_one_to_two_billion_values() {
        for (length, is_good) in [(0, false), (1, true), (i32::MAX as u32, true), (1 << 31, false)] {
            assert_eq!(Pack::split(["x"], length).check().is_ok(), is_good, "a pack of {length}");
        }
    }

    #[test]
    fn lists_run_on_in_the_row_groups_after_theirs() {
        let pack = Pack::split(["x"], 4).across(Across::File);
        let groups = [vec![5, 2], vec![], vec![0, 1], vec![7, 0]];
        let expected = [(vec![0], 0), (vec![0, 1, 3], 4), (vec![4], 0), (vec![4], 4)];
        assert_eq!(packs_across(&pack, &groups), expected);
        let packs = Packs(pack.of_sequence(groups.to_vec()));
        let beyond: Vec<u32> = (0..4).map(|group| packs.beyond(group, &RowSet::all(2))).collect();
        assert_eq!(beyond, [2, 0, 0, 0], "two rows of the row groups after the first");
        for refused in [
            Pack::best_fit(["x"], 4).across(Across::File),
            Pack::split(["x"], 4).across(Across::File).reshuffle(true),
            Pack::split(["x"], 4).split_long(true),
            Pack::best_fit(["x"], 4).split_long(true).truncate(true),
            Pack::split(["x"], 4).truncate(true),
        ] {
            assert!(refused.check().is_err(), "{refused:?}");
        }
        pack.check().unwrap();
    }

    proptest! {
        #[test]
        fn packs_do_not_depend_on_where_row_groups_end(
            groups in prop::collection::vec(prop::collection::vec(0u32..40, 0..9), 1..12),
            length in 1u32..60,
        ) {
            let pack = Pack::split(["x"], length);
            prop_assert_eq!(packs_across(&pack, &groups), packs(&pack, &groups.concat()));
        }

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

        /// Each value of each list is in one pack, and only lists that are longer than a pack are in several.
        #[test]
        fn only_long_lists_are_split(lengths in prop::collection::vec(0u32..50, 0..40), length in 1u32..20) {
            let pack = Pack::best_fit(["x"], length).split_long(true);
            let group = Packs(pack.of_sequence(vec![lengths.clone()]));
            let (mut found, mut packs_of) = (vec![BTreeSet::new(); lengths.len()], vec![0; lengths.len()]);
            for at in 0..group.count(0) {
                let mut rows = SampleRows::default();
                group.rows(0, at, &RowSet::all(lengths.len() as u32), &mut rows);
                prop_assert!(rows.rows.len() as u32 <= group.largest());
                prop_assert!(rows.rows.len() as u32 <= pack.most_rows(&lengths));
                let mut room = length;
                for (place, row) in rows.rows.iter().enumerate() {
                    let of_row = lengths[*row as usize];
                    let from = rows.skipped.get(place).copied().unwrap_or(0);
                    let to = of_row.min(from + room);
                    prop_assert!(from < to && (from..to).all(|value| found[*row as usize].insert(value)));
                    packs_of[*row as usize] += 1;
                    room -= to - from;
                }
            }
            for ((found, packs), of_row) in found.iter().zip(packs_of).zip(&lengths) {
                prop_assert_eq!((found.len() as u32, packs), (*of_row, of_row.div_ceil(length)));
            }
        }

        /// Each list is in one pack, no pack is too full, and no two packs fit into one.
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
