//! The `pad` option: delivers lists of numbers as rows of one length. Shorter lists are padded on one side,
//! and longer ones can be cut off.

use std::sync::Arc;

use forebay_arrow::array::{
    Array, ArrayData, ArrayRef, BooleanArray, BooleanBufferBuilder, FixedSizeListArray, LargeListArray,
    make_array,
};
use forebay_arrow::buffer::{Buffer, NullBuffer, OffsetBuffer};
use forebay_arrow::datatypes::{DataType, Field, FieldRef};
use forebay_arrow::fail::OrFail;
use forebay_arrow::names::TypeName;
use forebay_base::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use super::longest::LongestRows;
use super::padding::ListPlace;
use super::{Column, ColumnOption, Gather, GatheredRows, KeptEnd, NullOptions, PadSide, RowSize};
use crate::batch::{Fill, Selection, StoredList, stored_lists, value_bytes};

/// Lists of numbers as rows of one length, such as tokens: shape `[rows, length]`.
///
/// With a given length and no [multiple](Pad::multiple), the column has Arrow's type `FixedSizeList`.
/// Otherwise the rows of a batch are as long as its longest list, rounded up to the multiple if one is set.
/// The column is then a `LargeList`, whose type is the same in all batches.
///
/// A list that is shorter than the row is filled up at its end, or at its start if [`side`](Pad::side) says
/// so. A longer list makes a bad row, or is [cut off](Pad::truncate). A row is also bad if its list is null
/// or contains a null, unless `fill_null` gives a value: then the value replaces nulls in lists, and a list
/// that is null is read as an empty list.
///
/// ```
/// use forebay::column::Pad;
///
/// # fn build(dataset: forebay::Dataset) -> forebay::Result<forebay::Loader> {
/// let tokens = Pad::new(2_048).value(-1.0).truncate(true).mask(true);
/// // Delivers "tokens" and, as booleans, "tokens.mask".
/// dataset.loader().pad("tokens", tokens).build()
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pad {
    /// The length of every row; with a `multiple`, the largest length that a row may have. With `None`, rows
    /// are as long as the longest list of their batch.
    #[serde(default)]
    length: Option<usize>,
    /// If set, the length of rows is rounded up to a multiple of this number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    multiple: Option<usize>,
    #[serde(default)]
    value: f64,
    #[serde(default, skip_serializing_if = "is_default")]
    side: PadSide,
    #[serde(default)]
    truncate: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    keep: KeptEnd,
    #[serde(default)]
    mask: bool,
}

impl Pad {
    /// Makes rows of `length` values. Shorter lists are filled up with 0.
    pub fn new(length: usize) -> Pad {
        Pad { length: Some(length), ..Pad::default() }
    }

    /// Makes rows as long as the longest list of their batch. Shorter lists are filled up with 0. The
    /// longest list may be that of a bad row, although this row is left out of the batch.
    ///
    /// ```
    /// assert_ne!(forebay::column::Pad::longest(), forebay::column::Pad::new(2_048));
    /// ```
    pub fn longest() -> Pad {
        Pad::default()
    }

    /// Makes rows as long as the longest list of their batch, rounded up to a multiple of this number, so
    /// that batches have few different shapes. After [`Pad::new`], no row is longer than the
    /// `length` given there. Default: lengths are not rounded up.
    ///
    /// ```
    /// use forebay::column::Pad;
    ///
    /// // Rows of 64, 128, 192 and so on; of at most 2,048, to which longer lists are cut off.
    /// let (tokens, bounded) = (Pad::longest().multiple(64), Pad::new(2_048).multiple(64).truncate(true));
    /// ```
    #[must_use]
    pub fn multiple(self, multiple: usize) -> Pad {
        Pad { multiple: Some(multiple), ..self }
    }

    /// The number that fills a list up, which must be a value of the column's type. Default: 0.
    #[must_use]
    pub fn value(self, value: f64) -> Pad {
        Pad { value, ..self }
    }

    /// The side on which lists are filled up. Default: right, after the list.
    #[must_use]
    pub fn side(self, side: PadSide) -> Pad {
        Pad { side, ..self }
    }

    /// Whether longer lists are cut off to `length` values. Default: false, which makes them bad rows.
    #[must_use]
    pub fn truncate(self, truncate: bool) -> Pad {
        Pad { truncate, ..self }
    }

    /// Sets which values of a list are kept when the list is [cut off](Self::truncate). Default: the first
    /// values.
    #[must_use]
    pub fn keep(self, keep: KeptEnd) -> Pad {
        Pad { keep, ..self }
    }

    /// Whether a second column, `<name>.mask`, says which values belong to the list, as booleans of the same
    /// shape. It comes after the stored columns. Default: false.
    #[must_use]
    pub fn mask(self, mask: bool) -> Pad {
        Pad { mask, ..self }
    }

    /// Whether the mask is delivered in a second column.
    pub(crate) fn has_mask(&self) -> bool {
        self.mask
    }

    /// The length of a row, if it is the same in all batches.
    pub(super) fn length(&self) -> Option<usize> {
        self.length.filter(|_| self.multiple.is_none())
    }

    /// The number that fills a list up.
    pub(super) fn filler(&self) -> f64 {
        self.value
    }

    pub(super) fn truncates(&self) -> bool {
        self.truncate
    }

    /// The name of the mask column.
    pub(crate) fn mask_name(column: &str) -> String {
        format!("{column}.mask")
    }

    /// Computes where a list of `length` values lies in a padded row of `row` values.
    pub(super) fn place(&self, length: usize, row: usize) -> ListPlace {
        ListPlace::new(length, row, self.side, self.keep)
    }

    /// Returns an error for options that can never work, whatever the data.
    pub(super) fn check(&self) -> Result<()> {
        let Pad { length, multiple, truncate, keep, .. } = *self;
        if length.is_some_and(|length| length == 0 || i32::try_from(length).is_err()) {
            let cause = format!("rows of {} values", length.unwrap_or(0));
            return Err(Error::invalid(cause).hint("the length is from 1 to 2^31 - 1"));
        }
        if multiple.is_some_and(|multiple| multiple == 0 || i32::try_from(multiple).is_err()) {
            let cause = format!("rows of a multiple of {} values", multiple.unwrap_or(0));
            return Err(Error::invalid(cause).hint("give a `multiple` from 1 to 2^31 - 1"));
        }
        if let (Some(length), Some(multiple)) = (length, multiple)
            && length % multiple != 0
        {
            let cause = format!("rows of at most {length} values, which is not a multiple of {multiple}");
            let below = length - length % multiple;
            let fitting = if below > 0 { below } else { multiple };
            return Err(Error::invalid(cause).hint(format!("give the length {fitting}, for example")));
        }
        if truncate && length.is_none() {
            return Err(Error::invalid("`truncate` is given without a length")
                .hint("give a length, or leave out `truncate`"));
        }
        if !truncate && keep != KeptEnd::First {
            return Err(Error::invalid("`keep` is given without `truncate`").hint(
                "only lists that are cut off are not kept whole: give `truncate`, or leave out `keep`",
            ));
        }
        Ok(())
    }

    /// The field of the delivered column, whose values have the type `item`.
    fn delivered(&self, name: &str, item: &DataType) -> Field {
        let item = Arc::new(Field::new("item", item.clone(), false));
        match self.length() {
            Some(length) => Field::new(name, DataType::FixedSizeList(item, length as i32), false),
            None => {
                let rows = LongestRows::new(self.value, self.side, self.multiple.unwrap_or(1));
                Field::new(name, DataType::LargeList(item), false).with_metadata(rows.metadata())
            }
        }
    }

    /// The number of values in each row of a batch with these lists.
    fn row(&self, lists: &[Option<StoredList>]) -> usize {
        self.length().unwrap_or_else(|| {
            let longest = lists.iter().flatten().map(StoredList::len).max().unwrap_or(0);
            let rounded = longest.next_multiple_of(self.multiple.unwrap_or(1));
            rounded.min(self.length.unwrap_or(usize::MAX))
        })
    }

    /// Makes the delivered column from the values of all rows, one row after the other, each of `row` values.
    fn rows(&self, values: ArrayRef, rows: usize, row: usize) -> Result<ArrayRef> {
        match self.delivered("", values.data_type()).data_type() {
            DataType::FixedSizeList(item, length) => {
                Ok(Arc::new(FixedSizeListArray::try_new(item.clone(), *length, values, None).or_fail()?))
            }
            DataType::LargeList(item) => {
                let offsets = OffsetBuffer::from_repeated_length(row, rows);
                Ok(Arc::new(LargeListArray::try_new(item.clone(), offsets, values, None).or_fail()?))
            }
            _ => Err(Error::new(ErrorKind::Internal, "rows of another type")),
        }
    }
}

impl ColumnOption for Pad {
    fn column(&self, stored: &Field, nulls: NullOptions<'_>) -> Result<Option<Column>> {
        Column::gathered(PadCodec::new(self, stored, nulls.fill)?, stored).map(Some)
    }
}

/// Whether an option has its default value, and is therefore left out when a spec is serialized.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Formats a number for an error message: a whole number below 2^127 is written with all its digits.
fn digits(number: f64) -> String {
    match number.fract() == 0.0 && number.abs() < 2f64.powi(i128::BITS as i32 - 1) {
        true => (number as i128).to_string(),
        false => format!("{number:?}"),
    }
}

/// The type of the numbers in a list type; `None` if `stored` is not a list, or is a list of other values.
fn item_of(stored: &DataType) -> Option<&DataType> {
    let (DataType::List(item) | DataType::LargeList(item)) = stored else { return None };
    Some(item.data_type()).filter(|item| item.primitive_width().is_some())
}

/// Delivers padded lists.
#[derive(Debug)]
pub(crate) struct PadCodec {
    pub(crate) pad: Pad,
    pub(crate) fill: Option<Fill>,
    size: RowSize,
}

impl PadCodec {
    /// Fails with `Invalid` for a column that does not hold lists of numbers.
    pub(crate) fn new(pad: &Pad, stored: &Field, fill: Option<&Fill>) -> Result<Self> {
        pad.check()?;
        let Some(item) = item_of(stored.data_type()) else {
            return Err(Error::invalid(format!(
                "holds {}, which is not padded",
                TypeName(stored.data_type())
            ))
            .hint("lists of numbers are padded; those of one length need not be"));
        };
        value_bytes(item, pad.value).map_err(|_| {
            let cause = format!("lists of {} cannot be padded with {}", TypeName(item), digits(pad.value));
            Error::invalid(cause).hint("give a `value` of that type")
        })?;
        if let Some(fill) = fill {
            fill.check(stored.data_type())?;
        }
        let bytes_of = |length: usize| length.saturating_mul(item.primitive_width().unwrap_or(0)) as u64;
        let size = RowSize {
            // A row has at most the given length, also if it is rounded up to a `multiple`.
            bytes: pad.length.map(bytes_of),
            is_to_longest: pad.length.is_none(),
            added: bytes_of(pad.multiple.map_or(0, |multiple| multiple - 1)),
            ..RowSize::default()
        };
        Ok(PadCodec { pad: pad.clone(), fill: fill.cloned(), size })
    }

    /// The reason why `list` cannot be delivered as a row of `row` values; `None` if it can.
    fn refusal(&self, list: Option<&StoredList>, nulls: &[Option<&NullBuffer>], row: usize) -> Option<Error> {
        let bad = |cause: String, hint: &str| Some(Error::new(ErrorKind::BadRow, cause).hint(hint));
        let Some(list) = list else {
            return match self.fill {
                Some(_) => None,
                None => bad("null where a list is padded".into(), "give a value with `fill_null`"),
            };
        };
        if list.len() > row && !self.pad.truncate {
            let cause = format!("a list of {} values, which is padded to {row}", list.len());
            return bad(cause, "pad to more values, or cut lists off with `truncate`");
        }
        let nulls = nulls[list.source].filter(|_| self.fill.is_none())?;
        let place = self.pad.place(list.len(), row);
        match nulls.slice(list.from + place.from, place.count).null_count() {
            0 => None,
            _ => bad("null in a list that is padded".into(), "give a value with `fill_null`"),
        }
    }

    /// The values of all lists, padded to rows of this length.
    fn padded(
        &self,
        values: &[&ArrayRef],
        lists: &[Option<StoredList>],
        row: usize,
        item: &DataType,
    ) -> Result<Buffer> {
        let filler = value_bytes(item, self.pad.value)?;
        let of_null = self.fill.as_ref().and_then(Fill::number);
        let of_null = of_null.map(|value| value_bytes(item, value)).transpose()?;
        let width = filler.len();
        let padding = filler.repeat(row);
        let stored: Vec<ArrayData> = values.iter().map(|values| values.to_data()).collect();
        let mut rows = Vec::with_capacity(lists.len() * padding.len());
        for list in lists {
            let begin = rows.len();
            if let Some(list) = list {
                let place = self.pad.place(list.len(), row);
                rows.extend_from_slice(&padding[..place.before * width]);
                let data = &stored[list.source];
                let from = list.from + place.from;
                let bytes = &data.buffers()[0].as_slice()[(data.offset() + from) * width..];
                let first = rows.len();
                rows.extend_from_slice(&bytes[..place.count * width]);
                if let (Some(nulls), Some(value)) = (data.nulls(), &of_null) {
                    for at in (0..place.count).filter(|at| nulls.is_null(from + at)) {
                        rows[first + at * width..][..width].copy_from_slice(value);
                    }
                }
            }
            rows.extend_from_slice(&padding[rows.len() - begin..]);
        }
        Ok(Buffer::from_vec(rows))
    }
}

impl Gather for PadCodec {
    fn delivered(&self, stored: &Field) -> Result<FieldRef> {
        let item = item_of(stored.data_type()).unwrap_or(&DataType::Null);
        Ok(Arc::new(self.pad.delivered(stored.name(), item)))
    }

    fn gather(&self, sources: &[&dyn Array], selection: &Selection) -> Result<GatheredRows> {
        let (values, lists) = stored_lists(sources, selection)?;
        let item = sources.first().and_then(|source| item_of(source.data_type())).unwrap_or(&DataType::Null);
        let row = self.pad.row(&lists);
        let nulls: Vec<Option<&NullBuffer>> = values.iter().map(|values| values.nulls()).collect();
        let refused = lists.iter().enumerate();
        let refused = refused.filter_map(|(at, list)| Some((at, self.refusal(list.as_ref(), &nulls, row)?)));
        let refused = refused.collect();
        let data = ArrayData::builder(item.clone())
            .len(lists.len() * row)
            .add_buffer(self.padded(&values, &lists, row, item)?)
            // The buffer was allocated for bytes, so it may not be aligned for the type of the numbers. If it
            // is not, `align_buffers` copies it to one that is.
            .align_buffers(true)
            .build()
            .or_fail()?;
        Ok((self.pad.rows(make_array(data), lists.len(), row)?, refused))
    }

    fn size(&self) -> RowSize {
        self.size
    }
}

/// Delivers the mask of padded lists, which says which values belong to the lists.
#[derive(Debug)]
pub(crate) struct PadMaskCodec {
    pub(crate) pad: Pad,
    pub(crate) name: String,
}

impl Gather for PadMaskCodec {
    fn delivered(&self, _: &Field) -> Result<FieldRef> {
        Ok(Arc::new(self.pad.delivered(&self.name, &DataType::Boolean)))
    }

    /// Reports no bad rows, since the codec of the lists already reports them.
    fn gather(&self, sources: &[&dyn Array], selection: &Selection) -> Result<GatheredRows> {
        let (_, lists) = stored_lists(sources, selection)?;
        let row = self.pad.row(&lists);
        let mut own = BooleanBufferBuilder::new(lists.len() * row);
        for list in &lists {
            let place = self.pad.place(list.as_ref().map_or(0, StoredList::len), row);
            own.append_n(place.before, false);
            own.append_n(place.count, true);
            own.append_n(row - place.before - place.count, false);
        }
        let values: ArrayRef = Arc::new(BooleanArray::new(own.finish(), None));
        Ok((self.pad.rows(values, lists.len(), row)?, Vec::new()))
    }

    fn size(&self) -> RowSize {
        RowSize { bytes: self.pad.length.map(|length| length as u64), ..RowSize::default() }
    }

    fn may_refuse(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use forebay_arrow::array::{AsArray, Int16Array, ListArray};
    use forebay_arrow::datatypes::Int16Type;
    use proptest::prelude::*;

    use super::*;

    type Lists = Vec<Option<Vec<Option<i16>>>>;

    fn list_of(item: DataType) -> Field {
        Field::new("t", DataType::List(Arc::new(Field::new("item", item, true))), true)
    }

    fn delivered(pad: &Pad, fill: Option<Fill>, lists: Lists) -> (Vec<i16>, Vec<bool>, Vec<(usize, String)>) {
        let column = ListArray::from_iter_primitive::<Int16Type, _, _>(lists);
        let field = Field::new("t", column.data_type().clone(), true);
        let codec = PadCodec::new(pad, &field, fill.as_ref()).unwrap();
        let rows = Selection::new((0..column.len() as u32).map(|row| (0, row)).collect());
        let (array, refused) = codec.gather(&[&column], &rows).unwrap();
        assert_eq!(array.data_type(), codec.delivered(&field).unwrap().data_type());
        let values = array.as_fixed_size_list().values().clone();
        let values: &Int16Array = values.as_primitive();
        let mask = PadMaskCodec { pad: pad.clone(), name: Pad::mask_name("t") };
        let (own, _) = mask.gather(&[&column], &rows).unwrap();
        assert_eq!(own.data_type(), mask.delivered(&field).unwrap().data_type());
        let own = own.as_fixed_size_list().values().as_boolean().values().iter().collect();
        let refused = refused.into_iter().map(|(row, error)| (row, error.to_string())).collect();
        (values.values().to_vec(), own, refused)
    }

    #[test]
    fn lists_are_filled_up_and_cut_off() {
        let lists = || vec![Some(vec![Some(1), Some(2), Some(3)]), Some(vec![]), Some(vec![Some(4)])];
        let (values, own, refused) = delivered(&Pad::new(2).value(-1.0).truncate(true), None, lists());
        assert_eq!(values, [1, 2, -1, -1, 4, -1]);
        assert_eq!(own, [true, true, false, false, true, false]);
        assert!(refused.is_empty());
        let (values, _, refused) = delivered(&Pad::new(2), None, lists());
        assert_eq!(&values[2..], [0, 0, 4, 0]);
        assert_eq!(refused.len(), 1);
        assert!(refused[0].1.contains("a list of 3 values, which is padded to 2"), "{refused:?}");
    }

    #[test]
    fn lists_are_as_long_as_the_longest_of_their_batch() {
        let lists = ListArray::from_iter_primitive::<Int16Type, _, _>(vec![
            Some(vec![Some(1)]),
            None,
            Some(vec![Some(2), Some(3)]),
            Some(vec![]),
        ]);
        let field = Field::new("t", lists.data_type().clone(), true);
        let pad = Pad::longest().value(9.0);
        let codec = PadCodec::new(&pad, &field, Some(&0.0.into())).unwrap();
        let mask = PadMaskCodec { pad: pad.clone(), name: Pad::mask_name("t") };
        let gathered = |rows: &[u32]| {
            let rows = Selection::new(rows.iter().map(|row| (0, *row)).collect());
            let (values, refused) = codec.gather(&[&lists], &rows).unwrap();
            assert!(refused.is_empty(), "{refused:?}");
            assert_eq!(values.data_type(), codec.delivered(&field).unwrap().data_type());
            let (own, _) = mask.gather(&[&lists], &rows).unwrap();
            assert_eq!(own.data_type(), mask.delivered(&field).unwrap().data_type());
            let values = values.as_list::<i64>().clone();
            let numbers: &Int16Array = values.values().as_primitive();
            let own: Vec<bool> = own.as_list::<i64>().values().as_boolean().values().iter().collect();
            (values.value_offsets().to_vec(), numbers.values().to_vec(), own)
        };
        let (offsets, values, own) = gathered(&[0, 1, 2]);
        assert_eq!((offsets, values), (vec![0, 2, 4, 6], vec![1, 9, 9, 9, 2, 3]));
        assert_eq!(own, [true, false, false, false, true, true]);
        assert_eq!(gathered(&[3, 3]), (vec![0, 0, 0], vec![], vec![]));
        assert_eq!(gathered(&[0]).1, [1]);
    }

    #[test]
    fn a_length_is_rounded_up_to_a_multiple_and_no_further_than_the_largest() {
        let batch = |lengths: &[usize]| -> Vec<Option<StoredList>> {
            lengths.iter().map(|length| Some(StoredList { source: 0, from: 7, to: 7 + length })).collect()
        };
        let (rounded, bounded) = (Pad::longest().multiple(4), Pad::new(8).multiple(4).truncate(true));
        for (lengths, of_rounded, of_bounded) in
            [([0, 0], 0, 0), ([1, 3], 4, 4), ([4, 2], 4, 4), ([5, 1], 8, 8), ([2, 9], 12, 8)]
        {
            let lists = batch(&lengths);
            assert_eq!((rounded.row(&lists), bounded.row(&lists)), (of_rounded, of_bounded), "{lengths:?}");
        }
        assert_eq!((bounded.length(), Pad::new(8).length()), (None, Some(8)));
        let field = list_of(DataType::Int16);
        let size = |pad: &Pad| PadCodec::new(pad, &field, None).unwrap().size();
        let to_longest = RowSize { is_to_longest: true, ..RowSize::default() };
        assert_eq!(size(&rounded), RowSize { added: 6, ..to_longest });
        assert_eq!((size(&bounded).bytes, size(&Pad::longest())), (Some(16), to_longest));
    }

    #[test]
    fn a_value_that_a_list_cannot_have_is_shown_as_it_was_given() {
        let field = Field::new(
            "t",
            ListArray::from_iter_primitive::<Int16Type, _, _>(Lists::new()).data_type().clone(),
            true,
        );
        let refused =
            |value: f64| PadCodec::new(&Pad::new(2).value(value), &field, None).unwrap_err().to_string();
        let long = refused(2f64.powi(70));
        assert!(long.contains("cannot be padded with 1180591620717411303424 (give a value"), "{long}");
        assert!(refused(1.5).contains("with 1.5 ("), "{}", refused(1.5));
        assert!(refused(1e300).contains("with 1e300 ("), "{}", refused(1e300));
    }

    #[test]
    fn nulls_are_bad_rows_unless_they_are_cut_off_or_filled() {
        let lists = || vec![None, Some(vec![Some(1), None]), Some(vec![Some(1), Some(2), None])];
        let pad = Pad::new(2).truncate(true);
        let (_, own, refused) = delivered(&pad, None, lists());
        assert_eq!(refused.iter().map(|(row, _)| *row).collect::<Vec<_>>(), [0, 1]);
        assert!(refused.iter().all(|(_, error)| error.contains("fill_null")), "{refused:?}");
        assert_eq!(own[..2], [false, false]);
        let (values, _, refused) = delivered(&pad, Some(7.0.into()), lists());
        assert_eq!((values, refused.len()), (vec![0, 0, 1, 7, 1, 2], 0));
        let last = pad.keep(KeptEnd::Last).side(PadSide::Left);
        let (values, own, refused) = delivered(&last, None, lists());
        assert_eq!(refused.iter().map(|(row, _)| *row).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!((&own[..2], &values[..2]), (&[false, false][..], &[0, 0][..]));
        let (values, _, refused) = delivered(&last, Some(7.0.into()), lists());
        assert_eq!((values, refused.len()), (vec![0, 0, 1, 7, 2, 7], 0));
    }

    proptest! {
        /// The test compares rows and masks with those that a simple reference implementation makes.
        #[test]
        fn rows_are_those_of_a_plain_model(
            lengths in prop::collection::vec(0usize..9, 1..6),
            length in 1usize..9,
            is_left: bool,
            is_last: bool,
        ) {
            let lists: Vec<Vec<i16>> = lengths.iter().map(|length| (1..=*length as i16).collect()).collect();
            let side = if is_left { PadSide::Left } else { PadSide::Right };
            let keep = if is_last { KeptEnd::Last } else { KeptEnd::First };
            let pad = Pad::new(length).value(-1.0).truncate(true).side(side).keep(keep);
            let stored = lists.iter().map(|list| Some(list.iter().copied().map(Some).collect())).collect();
            let (values, own, _) = delivered(&pad, None, stored);
            let mut expected = Vec::new();
            for mut list in lists {
                while list.len() > length {
                    list.remove(if is_last { 0 } else { list.len() - 1 });
                }
                while list.len() < length {
                    list.insert(if is_left { 0 } else { list.len() }, -1);
                }
                expected.extend(list);
            }
            prop_assert_eq!(expected.iter().map(|number| *number != -1).collect::<Vec<_>>(), own);
            prop_assert_eq!(values, expected);
        }
    }

    #[test]
    fn what_can_never_be_padded_is_refused() {
        let list = list_of;
        let refused = |pad: Pad, field: &Field| {
            let codec = PadCodec::new(&pad, field, None).and_then(|codec| codec.delivered(field));
            codec.unwrap_err().to_string()
        };
        assert!(refused(Pad::new(0), &list(DataType::Int16)).contains("from 1 to"));
        assert!(refused(Pad::longest().truncate(true), &list(DataType::Int16)).contains("give a length"));
        assert!(refused(Pad::longest().multiple(0), &list(DataType::Int16)).contains("from 1 to 2^31"));
        let odd = refused(Pad::new(70).multiple(16), &list(DataType::Int16));
        assert!(
            odd.contains("at most 70 values, which is not a multiple of 16 (give the length 64"),
            "{odd}"
        );
        let kept = refused(Pad::new(2).keep(KeptEnd::Last), &list(DataType::Int16));
        assert!(kept.contains("`keep` is given without `truncate`"), "{kept}");
        assert!(refused(Pad::new(2).value(0.5), &list(DataType::Int16)).contains("0.5"));
        assert!(refused(Pad::new(2).value(-1.0), &list(DataType::UInt8)).contains("-1"));
        assert!(refused(Pad::new(2), &list(DataType::Utf8View)).contains("lists of numbers are padded"));
        assert!(refused(Pad::new(2), &list(DataType::Boolean)).contains("lists of numbers are padded"));
        assert!(refused(Pad::new(2), &Field::new("t", DataType::Int16, true)).contains("not padded"));
    }
}
