//! Encodes the values of a column as integer codes while the rows of a batch are gathered.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use forebay_arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, FixedSizeListArray, GenericListArray, Int32Array,
    Int64Array, LargeListArray, OffsetSizeTrait, PrimitiveArray, UInt16Array, new_null_array,
};
use forebay_arrow::buffer::OffsetBuffer;
use forebay_arrow::datatypes::{ArrowNativeType, DataType, Field, FieldRef, Int32Type, Int64Type};
use forebay_arrow::fail::OrFail;
use forebay_arrow::names::TypeName;
use forebay_base::{Error, ErrorKind, Result};
use xxhash_rust::xxh64::xxh64;

use super::choice::{Encoding, Hash};
use super::held::{CodeValues, UncodedValues, codes, codes_by_number};
use super::items::{Item, Items};
use super::vocabulary::{Categories, Places};
use crate::batch::{Fill, Number, Selection, gather};
use crate::column::{Gather, GatheredRows, Held, RowSize};

/// Delivers the codes of a column's values instead of the values.
#[derive(Debug)]
pub(super) struct EncodeCodec {
    codes: Arc<Codes>,
    rows: RowContent,
    /// Whether values are texts or binary values of variable length. The reader can then read them as codes.
    are_texts: bool,
    /// The type of the codes that row groups in memory hold for the column; `None` if they hold its stored
    /// values.
    held: Option<DataType>,
    /// The code of a null; `None` if a null is a bad row.
    fill: Option<i64>,
    /// The number of delivered values so far that got the code for unknown values.
    unknown: AtomicU64,
}

/// Finds the code of each value, and remembers the values that have none.
#[derive(Debug)]
struct Codes {
    coder: Coder,
    data_type: DataType,
    /// The values without a code that occurred in row groups which hold codes.
    uncoded: UncodedValues,
}

/// Whether a source (an array from which rows are gathered) contains codes instead of values.
type IsHeld = bool;

/// The kind of a row: one value, or a list of values.
#[derive(Clone, Copy, Debug)]
enum RowContent {
    /// A single value.
    Values,
    /// A list of any length.
    Lists,
    /// A list of this length.
    FixedLists(i32),
}

#[derive(Debug)]
enum Coder {
    Vocabulary { places: Places, unknown: Option<i64> },
    Hash(Hash),
}

impl Coder {
    fn new(encoding: &Encoding, stored: &DataType) -> Result<Self> {
        let vocabulary = match encoding {
            Encoding::Hash(hash) => return Ok(Coder::Hash(*hash)),
            Encoding::Vocabulary(vocabulary) => vocabulary,
        };
        let values = vocabulary.values();
        let fits = match values {
            _ if *stored == DataType::Null => true,
            Categories::Texts(_) => *stored == DataType::Utf8View,
            Categories::Bytes(_) => matches!(stored, DataType::BinaryView | DataType::FixedSizeBinary(_)),
            Categories::Numbers(_) => stored.is_integer(),
            Categories::Empty => true,
        };
        if !fits {
            let cause = format!("holds {}, and the vocabulary has {}", TypeName(stored), values.kind());
            return Err(Error::invalid(cause).hint("a vocabulary has values of the type of its column"));
        }
        Ok(Coder::Vocabulary { places: Places::index(vocabulary)?, unknown: vocabulary.unknown() })
    }

    /// The code of values that are not in the vocabulary; `None` if they are bad rows, or are hashed.
    fn unknown(&self) -> Option<i64> {
        match self {
            Coder::Vocabulary { unknown, .. } => *unknown,
            Coder::Hash(_) => None,
        }
    }

    /// The code of a value that a vocabulary lists.
    fn listed(&self, item: Item<'_>) -> Option<i64> {
        match self {
            Coder::Vocabulary { places, .. } => places.get(item),
            Coder::Hash(_) => None,
        }
    }

    /// The code of a value; `None` if it is unknown and there is no code for unknown values.
    fn code(&self, item: Item<'_>) -> Option<i64> {
        match self {
            Coder::Vocabulary { places, unknown } => places.get(item).or(*unknown),
            Coder::Hash(Hash { buckets, seed, .. }) => {
                Some((item.hashed(|bytes| xxh64(bytes, *seed)) % buckets) as i64)
            }
        }
    }
}

impl Codes {
    /// The number that a row group holds for a value: its code, or a negative number if it has none.
    fn held(&self, item: Item<'_>) -> i64 {
        self.coder.code(item).unwrap_or_else(|| self.uncoded.number(item))
    }
}

impl CodeValues for Codes {
    fn data_type(&self) -> &DataType {
        &self.data_type
    }

    fn code(&self, value: &[u8]) -> i64 {
        self.held(Item::Bytes(value))
    }

    fn code_of_text(&self, value: &[u8]) -> Option<i64> {
        match self.coder.listed(Item::Bytes(value)) {
            // The value equals a text in the vocabulary, so it is UTF-8 and need not be checked.
            Some(code) => Some(code),
            None => std::str::from_utf8(value).is_ok().then(|| self.code(value)),
        }
    }
}

impl EncodeCodec {
    pub(super) fn new(encoding: &Encoding, stored: &DataType, fill: Option<&Fill>) -> Result<Self> {
        encoding.validate()?;
        let (rows, values) = match stored {
            DataType::List(item) | DataType::LargeList(item) => (RowContent::Lists, item.data_type()),
            DataType::FixedSizeList(item, length) => (RowContent::FixedLists(*length), item.data_type()),
            _ => (RowContent::Values, stored),
        };
        if !Items::are_in(values) {
            return Err(Error::invalid(format!("holds {}, not values to encode", TypeName(stored)))
                .hint("texts, binary values and integers are encoded, and lists of these"));
        }
        let coder = Coder::new(encoding, values)?;
        let fill = fill.map(|fill| {
            let code = match fill {
                Fill::Text(text) => coder.code(Item::Bytes(text.as_bytes())),
                Fill::Bytes(bytes) => coder.code(Item::Bytes(bytes)),
                Fill::Number(_) | Fill::Integer(_) => {
                    // The caller has checked that the fill is a value of the column's type.
                    let number = fill.number().and_then(Number::whole).unwrap_or_default();
                    match values {
                        // A number as the fill of fixed-length binary is repeated in each byte.
                        DataType::FixedSizeBinary(length) => {
                            let bytes = vec![number as u8; usize::try_from(*length).unwrap_or(0)];
                            coder.code(Item::Bytes(&bytes))
                        }
                        DataType::UInt64 => coder.code(Item::Unsigned(number as u64)),
                        _ => coder.code(Item::Signed(number as i64)),
                    }
                }
            };
            let unknown = || Error::invalid(format!("the vocabulary has no {fill}, which replaces nulls"));
            code.ok_or_else(|| unknown().hint("add it, or give unknown values a code"))
        });
        let fill = match (fill.transpose()?, encoding.null()) {
            (Some(_), Some(_)) => {
                return Err(Error::invalid("nulls have a code of their own, and `fill_null` replaces them")
                    .hint("leave out one of the two"));
            }
            (fill, null) => fill.or(null),
        };
        if *values == DataType::Null && fill.is_none() {
            return Err(Error::invalid("holds nulls alone (Arrow's type null), not values to encode")
                .hint("give nulls a code of their own, or leave the column out"));
        }
        let codes = Codes { coder, data_type: encoding.data_type(), uncoded: UncodedValues::default() };
        let are_views = |values: &DataType| matches!(values, DataType::Utf8View | DataType::BinaryView);
        let item = || Arc::new(Field::new("item", codes.data_type.clone(), true));
        let held = match stored {
            DataType::List(_) if are_views(values) => Some(DataType::List(item())),
            DataType::LargeList(_) if are_views(values) => Some(DataType::LargeList(item())),
            DataType::FixedSizeList(_, length) if are_views(values) => {
                Some(DataType::FixedSizeList(item(), *length))
            }
            // Lists of integers are not held as codes, because encoding an integer takes no longer than
            // gathering it.
            DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) | DataType::Null => None,
            _ => Some(codes.data_type.clone()),
        };
        Ok(EncodeCodec {
            codes: Arc::new(codes),
            rows,
            held,
            are_texts: are_views(stored),
            fill,
            unknown: AtomicU64::new(0),
        })
    }

    /// Returns the code of a value, or an error if it has none.
    fn code(&self, item: Option<Item<'_>>) -> Result<i64> {
        let Some(item) = item else { return self.null_code() };
        let code = self.codes.coder.code(item);
        if code.is_some() && code == self.codes.coder.unknown() {
            self.unknown.fetch_add(1, Relaxed);
        }
        code.ok_or_else(|| uncoded(&item))
    }

    /// Returns `number`, which a row group holds as a code, or an error if it is negative, because it then
    /// stands for a value without a code. Counts `number` if it is the code of unknown values.
    fn code_of_held(&self, number: i64) -> Result<i64> {
        if Some(number) == self.codes.coder.unknown() {
            self.unknown.fetch_add(1, Relaxed);
        }
        if number < 0 { Err(uncoded(&self.codes.uncoded.text(number))) } else { Ok(number) }
    }

    /// Encodes the selected rows one by one, from sources that contain stored values or codes.
    fn one_by_one(&self, sources: &[(Items<'_>, IsHeld)], selection: &Selection) -> GatheredRows {
        let mut codes = Vec::with_capacity(selection.len());
        let mut bad = Vec::new();
        selection.for_each(|source, row| {
            let (items, is_held) = &sources[source];
            codes.push(self.code_at(items, *is_held, row).unwrap_or_else(|error| {
                bad.push((codes.len(), error));
                0
            }));
        });
        (self.array(codes), bad)
    }

    /// Returns the code of a null, or an error if it has none.
    fn null_code(&self) -> Result<i64> {
        let bad = || Error::new(ErrorKind::BadRow, "null where a value is encoded");
        self.fill.ok_or_else(|| bad().hint("give nulls a code of their own, or a value with `fill_null`"))
    }

    /// Returns gathered codes with the code of nulls in their rows, and the errors of nulls and values
    /// without a code.
    fn checked<T: ArrowPrimitiveType<Native: Into<i64>>>(&self, codes: &PrimitiveArray<T>) -> GatheredRows {
        let values = codes.values();
        if let Some(unknown) = self.codes.coder.unknown() {
            let count = match codes.nulls() {
                None => values.iter().filter(|code| (**code).into() == unknown).count(),
                Some(_) => codes.iter().flatten().filter(|code| (*code).into() == unknown).count(),
            };
            self.unknown.fetch_add(count as u64, Relaxed);
        }
        let is_coded = values.iter().all(|code| (*code).into() >= 0);
        if is_coded && codes.null_count() == 0 {
            return (Arc::new(codes.clone()), Vec::new());
        }
        if is_coded
            && let Some(fill) = self.fill
            && let Some(nulls) = codes.nulls()
        {
            let null = T::Native::usize_as(fill as usize);
            let filled = values.iter().zip(nulls).map(|(code, is_valid)| if is_valid { *code } else { null });
            return (Arc::new(PrimitiveArray::<T>::from_iter_values(filled)), Vec::new());
        }
        let mut bad = Vec::new();
        let each = codes.iter().enumerate().map(|(row, code)| {
            let code = match code.map(Into::into) {
                None => self.null_code(),
                Some(number) if number < 0 => Err(uncoded(&self.codes.uncoded.text(number))),
                Some(code) => Ok(code),
            };
            code.unwrap_or_else(|error| {
                bad.push((row, error));
                0
            })
        });
        let codes = each.collect();
        (self.array(codes), bad)
    }

    fn array(&self, codes: Vec<i64>) -> ArrayRef {
        match self.codes.data_type {
            // The codes of a vocabulary are below 2^31, so they fit.
            DataType::Int32 => {
                Arc::new(Int32Array::from_iter_values(codes.into_iter().map(|code| code as i32)))
            }
            _ => Arc::new(Int64Array::from(codes)),
        }
    }

    /// The code of the value at an index of a source.
    fn code_at(&self, items: &Items<'_>, is_held: IsHeld, at: usize) -> Result<i64> {
        match items.get(at) {
            Some(Item::Signed(number)) if is_held => self.code_of_held(number),
            item => self.code(item),
        }
    }

    /// Encodes the items of gathered lists. A list with a bad item is a bad row, and the first bad item gives
    /// the error.
    fn lists(&self, gathered: &ArrayRef, is_held: IsHeld) -> Result<GatheredRows> {
        let lists = gathered.as_list::<i64>();
        if is_held && let Some(codes) = self.delivered_codes(gathered, lists.values()) {
            let offsets = lists.offsets().clone();
            return Ok((
                Arc::new(LargeListArray::try_new(self.item(), offsets, codes, None).or_fail()?),
                vec![],
            ));
        }
        let items = Items::new(lists.values().as_ref())?;
        let mut codes = Vec::with_capacity(lists.values().len());
        let mut lengths = Vec::with_capacity(lists.len());
        let mut bad = Vec::new();
        for row in 0..lists.len() {
            let from = codes.len();
            let offsets = lists.value_offsets();
            let mut list = offsets[row] as usize..offsets[row + 1] as usize;
            let encoded = match lists.is_valid(row) {
                true => {
                    list.try_for_each(|at| self.code_at(&items, is_held, at).map(|code| codes.push(code)))
                }
                // If nulls have a code, a null list becomes an empty list.
                false if self.fill.is_some() => Ok(()),
                false => self.code(None).map(drop),
            };
            if let Err(error) = encoded {
                codes.truncate(from);
                bad.push((row, error));
            }
            lengths.push(codes.len() - from);
        }
        let offsets = OffsetBuffer::from_lengths(lengths);
        let offsets = OffsetBuffer::new(offsets.iter().map(|offset: &i32| i64::from(*offset)).collect());
        Ok((Arc::new(LargeListArray::try_new(self.item(), offsets, self.array(codes), None).or_fail()?), bad))
    }

    /// Encodes the items of gathered lists that all have `length` items. A null list counts as a list of
    /// nulls.
    fn fixed_lists(&self, gathered: &ArrayRef, length: i32, is_held: IsHeld) -> Result<GatheredRows> {
        let lists = gathered.as_fixed_size_list();
        let of =
            |codes| FixedSizeListArray::try_new_with_length(self.item(), length, codes, None, lists.len());
        if is_held && let Some(codes) = self.delivered_codes(gathered, lists.values()) {
            return Ok((Arc::new(of(codes).or_fail()?), vec![]));
        }
        let items = Items::new(lists.values().as_ref())?;
        let mut codes = Vec::with_capacity(lists.values().len());
        let mut bad = Vec::new();
        for row in 0..lists.len() {
            let from = codes.len();
            let begin = lists.value_offset_at(row);
            let mut list = begin..begin + lists.value_length() as usize;
            let encoded = list.try_for_each(|at| {
                let code =
                    if lists.is_valid(row) { self.code_at(&items, is_held, at) } else { self.code(None) };
                code.map(|code| codes.push(code))
            });
            if let Err(error) = encoded {
                bad.push((row, error));
            }
            codes.resize(from + lists.value_length() as usize, 0);
        }
        Ok((Arc::new(of(self.array(codes)).or_fail()?), bad))
    }

    /// Returns the codes in gathered lists if all of them are valid codes, which can be delivered unchanged.
    fn delivered_codes(&self, lists: &ArrayRef, codes: &ArrayRef) -> Option<ArrayRef> {
        if lists.null_count() > 0 || codes.null_count() > 0 {
            return None;
        }
        let (codes, bad) = match self.codes.data_type {
            DataType::Int32 => self.checked(codes.as_primitive_opt::<Int32Type>()?),
            _ => self.checked(codes.as_primitive_opt::<Int64Type>()?),
        };
        bad.is_empty().then_some(codes)
    }

    /// Converts values to their codes, and values without a code to negative numbers; nulls remain nulls.
    fn codes_of(&self, values: &ArrayRef) -> Result<ArrayRef> {
        match self.codes.data_type {
            DataType::Int32 => codes::<Int32Type>(values, |item| self.codes.held(item)),
            _ => codes::<Int64Type>(values, |item| self.codes.held(item)),
        }
    }

    /// Replaces the items of lists by their codes, and items without a code by negative numbers.
    fn held_lists<O: OffsetSizeTrait>(&self, lists: &GenericListArray<O>) -> Result<ArrayRef> {
        let offsets = lists.value_offsets();
        let (first, last) = (offsets[0], offsets[lists.len()]);
        let values = lists.values().slice(first.as_usize(), (last - first).as_usize());
        let offsets = OffsetBuffer::new(offsets.iter().map(|offset| *offset - first).collect());
        let (codes, nulls) = (self.codes_of(&values)?, lists.nulls().cloned());
        Ok(Arc::new(GenericListArray::<O>::try_new(self.held_item(), offsets, codes, nulls).or_fail()?))
    }

    /// The field of the items in a list of codes that a row group holds, in which items may be null.
    fn held_item(&self) -> FieldRef {
        Arc::new(Field::new("item", self.codes.data_type.clone(), true))
    }

    /// The field of the items in a delivered list of codes, in which no item is null.
    fn item(&self) -> FieldRef {
        Arc::new(Field::new("item", self.codes.data_type.clone(), false))
    }
}

impl Gather for EncodeCodec {
    fn delivered(&self, stored: &Field) -> Result<FieldRef> {
        let data_type = match self.rows {
            RowContent::Values => self.codes.data_type.clone(),
            RowContent::Lists => DataType::LargeList(self.item()),
            RowContent::FixedLists(length) => DataType::FixedSizeList(self.item(), length),
        };
        Ok(Arc::new(Field::new(stored.name(), data_type, false)))
    }

    fn gather(&self, sources: &[&dyn Array], selection: &Selection) -> Result<GatheredRows> {
        match self.rows {
            RowContent::Values => {}
            RowContent::Lists => return self.lists(&gather(sources, selection, None)?, false),
            RowContent::FixedLists(length) => {
                return self.fixed_lists(&gather(sources, selection, None)?, length, false);
            }
        }
        let sources = sources.iter().map(|source| Ok((Items::new(*source)?, false)));
        Ok(self.one_by_one(&sources.collect::<Result<Vec<_>>>()?, selection))
    }

    fn held(&self) -> Option<&dyn Held> {
        self.held.as_ref().map(|_| self as &dyn Held)
    }

    fn size(&self) -> RowSize {
        let width = self.codes.data_type.primitive_width().unwrap_or(0) as u64;
        let bytes = match self.rows {
            RowContent::Values => Some(width),
            RowContent::Lists => None,
            RowContent::FixedLists(length) => Some(width.saturating_mul(u64::try_from(length).unwrap_or(0))),
        };
        RowSize { bytes, ..RowSize::default() }
    }

    fn unknown_values(&self) -> u64 {
        self.unknown.load(Relaxed)
    }
}

/// Row groups in memory hold the codes of the column instead of its stored values.
impl Held for EncodeCodec {
    fn data_type(&self) -> &DataType {
        self.held.as_ref().unwrap_or(&self.codes.data_type)
    }

    fn is_told_apart(&self) -> bool {
        self.are_texts
    }

    fn codes(&self) -> Option<Arc<dyn CodeValues>> {
        self.are_texts.then(|| self.codes.clone() as Arc<dyn CodeValues>)
    }

    fn hold(&self, column: ArrayRef) -> Result<ArrayRef> {
        match (column.data_type(), self.rows) {
            // The reader has read the column as codes already.
            (read, RowContent::Values) if self.are_texts && *read == self.codes.data_type => Ok(column),
            (_, RowContent::Values) => self.codes_of(&column),
            (DataType::LargeList(_), _) => self.held_lists(column.as_list::<i64>()),
            (_, RowContent::Lists) => self.held_lists(column.as_list::<i32>()),
            (_, RowContent::FixedLists(length)) => {
                let lists = column.as_fixed_size_list();
                let (codes, nulls) = (self.codes_of(lists.values())?, lists.nulls().cloned());
                let (item, rows) = (self.held_item(), lists.len());
                let held = FixedSizeListArray::try_new_with_length(item, length, codes, nulls, rows);
                Ok(Arc::new(held.or_fail()?))
            }
        }
    }

    fn hold_numbered(
        &self,
        column: &ArrayRef,
        numbers: &UInt16Array,
        order: Option<&[u32]>,
    ) -> Result<ArrayRef> {
        let code = |item: Item<'_>| self.codes.held(item);
        match self.codes.data_type {
            DataType::Int32 => codes_by_number::<Int32Type>(column, numbers, order, code),
            _ => codes_by_number::<Int64Type>(column, numbers, order, code),
        }
    }

    fn gather(&self, sources: &[&dyn Array], selection: &Selection) -> Result<GatheredRows> {
        let wanted = self.data_type();
        let is_held = |source: &dyn Array| source.data_type() == wanted;
        let has_stored = |source: &&dyn Array| !is_held(*source) && source.null_count() < source.len();
        if self.are_texts && sources.iter().any(has_stored) {
            let sources = sources.iter().map(|source| Ok((Items::new(*source)?, is_held(*source))));
            return Ok(self.one_by_one(&sources.collect::<Result<Vec<_>>>()?, selection));
        }
        let nulls = |source: &&dyn Array| match is_held(*source) {
            true => None,
            false => Some(new_null_array(wanted, source.len())),
        };
        let lost: Vec<Option<ArrayRef>> = sources.iter().map(nulls).collect();
        let held = sources.iter().zip(&lost).map(|(source, lost)| lost.as_deref().unwrap_or(*source));
        let gathered = gather(&held.collect::<Vec<_>>(), selection, None)?;
        match (self.rows, &self.codes.data_type) {
            (RowContent::Lists, _) => self.lists(&gathered, true),
            (RowContent::FixedLists(length), _) => self.fixed_lists(&gathered, length, true),
            (RowContent::Values, DataType::Int32) => Ok(self.checked(gathered.as_primitive::<Int32Type>())),
            (RowContent::Values, _) => Ok(self.checked(gathered.as_primitive::<Int64Type>())),
        }
    }
}

/// The error for a value without a code.
fn uncoded(value: &dyn fmt::Display) -> Error {
    Error::new(ErrorKind::BadRow, format!("{value} is not in the vocabulary"))
        .hint("add it, or give unknown values a code")
}

#[cfg(test)]
mod tests {
    use forebay_arrow::array::{
        BinaryViewArray, ListArray, RecordBatch, StringViewArray, UInt32Array, UInt64Array,
    };
    use forebay_arrow::buffer::NullBuffer;
    use forebay_arrow::compute::{concat, take};
    use forebay_arrow::datatypes::Int32Type;

    use super::*;
    use crate::batch::value_numbers;
    use crate::column::codec::BadValue;
    use crate::column::encoding::Vocabulary;

    fn encoded(
        encoding: &Encoding,
        column: ArrayRef,
        fill: Option<Fill>,
    ) -> (ArrayRef, Vec<(usize, String)>) {
        let field = Field::new("x", column.data_type().clone(), true);
        let codec = encoding.codec(&field, fill.as_ref()).unwrap();
        let rows = Selection::of_one((0..column.len() as u32).collect());
        let (codes, bad) = codec.gather(&[&column], &rows).unwrap();
        assert_eq!(codes.data_type(), codec.delivered(&field).unwrap().data_type());
        assert_eq!(codes.len(), column.len());
        if let Some(holding) = codec.held() {
            let unknown = codec.unknown_values();
            let held = holding.hold(column.clone()).unwrap();
            assert_eq!(held.null_count(), column.null_count());
            let many = concat(&[column.as_ref(); 9]).unwrap();
            let of_many = value_numbers(&RecordBatch::try_from_iter([("x", many.clone())]).unwrap());
            if let Some(numbers) = &of_many[0] {
                let (many, numbers) = (many.slice(1, many.len() - 1), numbers.slice(1, many.len() - 1));
                let of_numbers = holding.hold_numbered(&many, &numbers, None).unwrap();
                let order: Vec<u32> = (0..many.len() as u32).rev().collect();
                let in_order = holding.hold_numbered(&many, &numbers, Some(&order)).unwrap();
                assert_eq!(&in_order, &take(&of_numbers, &UInt32Array::from(order), None).unwrap());
                assert_eq!(&of_numbers, &holding.hold(many).unwrap());
            }
            // A row group that could not be read gives nulls of the stored type; no row of it is selected.
            let lost = new_null_array(column.data_type(), 1);
            let (of_held, bad_of_held) = holding.gather(&[&held, &lost], &rows).unwrap();
            assert_eq!(&of_held, &codes);
            let told =
                |bad: &[BadValue]| bad.iter().map(|(row, e)| (*row, e.to_string())).collect::<Vec<_>>();
            assert_eq!(told(&bad_of_held), told(&bad));
            assert_eq!(codec.unknown_values(), 2 * unknown);
            if holding.is_told_apart() {
                let half = |row: u32| (if row.is_multiple_of(2) { 0 } else { 2 }, row);
                let halves = Selection::new((0..column.len() as u32).map(half).collect());
                let (of_both, bad_of_both) = holding.gather(&[&held, &lost, &column], &halves).unwrap();
                assert_eq!((&of_both, told(&bad_of_both)), (&codes, told(&bad)));
                assert_eq!(codec.unknown_values(), 3 * unknown);
            }
        }
        (codes, bad.into_iter().map(|(row, error)| (row, error.to_string())).collect())
    }

    fn cities() -> ArrayRef {
        Arc::new(StringViewArray::from(vec![
            Some("Paris"),
            None,
            Some("Berlin"),
            Some("Rome, the eternal city"),
        ]))
    }

    #[test]
    fn a_value_has_the_code_of_its_place() {
        let vocabulary = Vocabulary::texts(["Berlin", "Paris"]);
        let (codes, bad) = encoded(&vocabulary.clone().into(), cities(), None);
        assert_eq!(
            (codes.as_primitive::<Int32Type>().value(0), codes.as_primitive::<Int32Type>().value(2)),
            (1, 0)
        );
        assert_eq!(bad.iter().map(|(row, _)| *row).collect::<Vec<_>>(), [1, 3]);
        assert!(bad[0].1.contains("fill_null"), "{bad:?}");
        assert!(bad[1].1.contains("\"Rome, the eternal city\" is not in the vocabulary"), "{bad:?}");
        let (codes, bad) = encoded(&vocabulary.with_unknown().into(), cities(), Some("Paris".into()));
        assert_eq!((codes.as_ref(), bad), (&Int32Array::from(vec![1, 1, 0, 2]) as &dyn Array, vec![]));
        let numbers: ArrayRef = Arc::new(UInt64Array::from(vec![Some(9), Some(u64::MAX), None]));
        let vocabulary = Vocabulary::numbers([-1, 9]).with_unknown();
        for (fill, code) in [(Fill::from(9.0), 1), (Fill::from(u64::MAX), 2)] {
            let (codes, bad) = encoded(&vocabulary.clone().into(), numbers.clone(), Some(fill));
            assert_eq!((codes.as_ref(), bad), (&Int32Array::from(vec![1, 2, code]) as &dyn Array, vec![]));
        }
    }

    #[test]
    fn a_null_has_a_code_of_its_own() {
        let words = || Vocabulary::texts(["Berlin", "Paris"]);
        let number = |codes: &ArrayRef, row: usize| match codes.data_type() {
            DataType::Int32 => i64::from(codes.as_primitive::<Int32Type>().value(row)),
            _ => codes.as_primitive::<Int64Type>().value(row),
        };
        for (encoding, null, bad_rows) in [
            (Encoding::from(words().with_null()), 2, vec![3]),
            (words().with_null().with_unknown().into(), 3, vec![]),
            (Vocabulary::empty().with_unknown().with_null().into(), 1, vec![]),
            (Vocabulary::texts([""; 0]).with_null().into(), 0, vec![0, 2, 3]),
            (Encoding::hash(1).with_null(), 1, vec![]),
        ] {
            let (codes, bad) = encoded(&encoding, cities(), None);
            assert_eq!(number(&codes, 1), null, "{encoding:?}");
            assert_eq!(bad.iter().map(|(row, _)| *row).collect::<Vec<_>>(), bad_rows, "{encoding:?}");
            let field = Field::new("x", DataType::Utf8View, true);
            let refused = encoding.codec(&field, Some(&"Paris".into())).unwrap_err().to_string();
            let is_listed = encoding != Encoding::from(Vocabulary::texts([""; 0]).with_null());
            assert_eq!(refused.contains("nulls have a code of their own"), is_listed, "{refused}");
        }
        let item = Arc::new(Field::new("item", DataType::Utf8View, true));
        let items = || Arc::new(StringViewArray::from(vec![Some("Paris"), None, None, Some("Berlin")]));
        let rows = NullBuffer::from(vec![true, false, true]);
        let offsets = OffsetBuffer::from_lengths([2, 0, 2]);
        let lists: ArrayRef = Arc::new(ListArray::new(item.clone(), offsets, items(), Some(rows)));
        let (codes, bad) = encoded(&words().with_null().into(), lists, None);
        assert_eq!((codes.as_list::<i64>().value_offsets(), bad), (&[0, 2, 2, 4][..], vec![]));
        let expected = Int32Array::from(vec![1, 2, 2, 0]);
        assert_eq!(codes.as_list::<i64>().values().as_ref(), &expected as &dyn Array);
        let rows = NullBuffer::from(vec![true, false]);
        let fixed: ArrayRef = Arc::new(FixedSizeListArray::new(item, 2, items(), Some(rows)));
        let (codes, bad) = encoded(&words().with_null().into(), fixed, None);
        let expected = Int32Array::from(vec![1, 2, 2, 2]);
        assert_eq!(codes.as_fixed_size_list().values().as_ref(), &expected as &dyn Array);
        assert_eq!(bad, vec![]);
    }

    /// The test covers all kinds of Arrow views: the view of a long text points to the text, the view of a
    /// short text contains it, and the view of a null looks like the view of an empty text.
    #[test]
    fn a_held_row_has_the_code_of_its_own_value() {
        let long = |at: usize| format!("a text that is too long for a view, {}", at % 5);
        let texts: Vec<Option<String>> = (0..100)
            .map(|at| match at % 4 {
                0 => Some(String::new()),
                1 => None,
                2 => Some(long(at)),
                _ => Some(format!("{}", at % 7)),
            })
            .collect();
        let words = (0..3).map(long).chain((0..7).map(|at| at.to_string()));
        let vocabulary = Vocabulary::texts(words.chain(["none".to_owned()]));
        let column: ArrayRef = Arc::new(StringViewArray::from_iter(texts));
        let (_, bad) = encoded(&vocabulary.clone().into(), column.clone(), Some("none".into()));
        assert!(bad.iter().any(|(_, error)| error.contains("\"\" is not in the vocabulary")), "{bad:?}");
        assert!(bad.iter().any(|(_, error)| error.contains("a view, 4\" is not")), "{bad:?}");
        let codec =
            Encoding::from(vocabulary.with_unknown()).codec(&Field::new("x", DataType::Utf8View, true), None);
        let codec = codec.unwrap();
        let holding = codec.held().unwrap();
        let held = holding.hold(column).unwrap();
        assert_eq!(codec.unknown_values(), 0, "counted as they are delivered");
        let rows = Selection::of_one(vec![0, 0, 4, 3]);
        let (codes, _) = holding.gather(&[&held], &rows).unwrap();
        assert_eq!(codes.as_primitive::<Int32Type>().values(), &[11, 11, 11, 6]);
        assert_eq!(codec.unknown_values(), 3);
    }

    /// The column has 30,000 long texts, of which at most 9,000 differ, so most codes are needed for several
    /// views.
    #[test]
    fn a_held_row_has_its_own_code_among_many_values() {
        let text = |at: usize| format!("a text that is too long for a view, {}", at % 9_000);
        let texts: Vec<String> = (0..30_000).map(|at| text(at * at + at / 7)).collect();
        let vocabulary = Vocabulary::texts((0..9_000).map(text));
        let column: ArrayRef = Arc::new(StringViewArray::from_iter_values(&texts));
        let codec = Encoding::from(vocabulary).codec(&Field::new("x", DataType::Utf8View, false), None);
        let held = codec.unwrap().held().unwrap().hold(column).unwrap();
        let expected = (0..30_000).map(|at: usize| ((at * at + at / 7) % 9_000) as i32);
        assert_eq!(held.as_ref(), &Int32Array::from_iter_values(expected) as &dyn Array);
    }

    #[test]
    fn bytes_that_are_not_utf_8_have_no_code_as_a_text() {
        let field = Field::new("x", DataType::Utf8View, false);
        let vocabulary = Vocabulary::texts(["a", "é"]);
        let encodings = [vocabulary.clone().into(), vocabulary.with_unknown().into(), Encoding::hash(1_000)];
        for encoding in encodings {
            let codec = encoding.codec(&field, None).unwrap();
            let codes = codec.held().unwrap().codes().unwrap();
            for text in ["", "a", "é", "another", "a text that no list has, and that is long"] {
                assert_eq!(codes.code_of_text(text.as_bytes()), Some(codes.code(text.as_bytes())), "{text}");
            }
            for bytes in
                [&b"\xff"[..], b"a\xc3", b"\xa9", b"a text that is long, and ends in the middle \xc3"]
            {
                assert_eq!(codes.code_of_text(bytes), None, "{bytes:?}");
            }
        }
    }

    #[test]
    fn lists_of_texts_are_held_as_lists_of_codes() {
        let item = Arc::new(Field::new("item", DataType::Utf8View, true));
        let words = ["b", "a", "b", "a", "b", "unknown"];
        let there = NullBuffer::from(vec![true, true, false, true]);
        let lists = ListArray::new(
            item.clone(),
            OffsetBuffer::from_lengths([2, 1, 0, 3]),
            Arc::new(StringViewArray::from_iter_values(words)),
            Some(there),
        );
        let fixed =
            FixedSizeListArray::new(item, 2, Arc::new(StringViewArray::from_iter_values(words)), None);
        let vocabulary = Vocabulary::texts(["a", "b"]);
        for encoding in [Encoding::from(vocabulary.clone()), vocabulary.with_unknown().into()] {
            for column in
                [Arc::new(lists.clone()) as ArrayRef, Arc::new(lists.slice(1, 3)), Arc::new(fixed.clone())]
            {
                let field = Field::new("x", column.data_type().clone(), true);
                let codec = encoding.codec(&field, None).unwrap();
                let held = codec.held().unwrap().hold(column.clone()).unwrap();
                assert_eq!(held.data_type(), codec.held().unwrap().data_type());
                let (_, bad) = encoded(&encoding, column.clone(), None);
                assert!(bad.iter().all(|(row, _)| *row > 0), "{bad:?}");
            }
        }
    }

    /// The expected codes must stay the same in every release, because trained models depend on them.
    #[test]
    fn buckets_never_change() {
        let texts: ArrayRef = Arc::new(StringViewArray::from(vec!["", "a", "Berlin"]));
        let bytes: ArrayRef = Arc::new(BinaryViewArray::from(vec![&b""[..], b"a", b"Berlin"]));
        let pinned = [0xEF46_DB37_51D8_E999, 0xD24E_C4F1_A98C_6E5B, xxh64(b"Berlin", 0)];
        let expected = Int64Array::from_iter_values(pinned.map(|hash: u64| (hash % 1_000_003) as i64));
        for column in [texts.clone(), bytes] {
            assert_eq!(encoded(&Encoding::hash(1_000_003), column, None).0.as_ref(), &expected as &dyn Array);
        }
        assert_ne!(
            encoded(&Encoding::hash_seeded(1_000_003, 1), texts, None).0.as_ref(),
            &expected as &dyn Array
        );
        let number = |array: ArrayRef| encoded(&Encoding::hash(1 << 40), array, None).0;
        let expected = Int64Array::from(vec![(xxh64(&[7, 0, 0, 0, 0, 0, 0, 0], 0) % (1 << 40)) as i64]);
        assert_eq!(number(Arc::new(Int32Array::from(vec![7]))).as_ref(), &expected as &dyn Array);
        assert_eq!(number(Arc::new(UInt64Array::from(vec![7]))).as_ref(), &expected as &dyn Array);
    }

    #[test]
    fn lists_are_encoded_item_by_item() {
        let item = Arc::new(Field::new("item", DataType::Utf8View, true));
        let offsets = OffsetBuffer::from_lengths([2, 0, 1, 1]);
        let words = StringViewArray::from(vec![Some("b"), Some("a"), None, Some("c")]);
        let lists: ArrayRef = Arc::new(ListArray::new(item, offsets, Arc::new(words), None));
        let vocabulary = Vocabulary::texts(["a", "b"]);
        let (codes, bad) = encoded(&vocabulary.clone().into(), lists.clone(), None);
        assert_eq!(bad.iter().map(|(row, _)| *row).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(codes.as_list::<i64>().value_offsets(), [0, 2, 2, 2, 2]);
        let (codes, bad) = encoded(&vocabulary.with_unknown().into(), lists, Some("a".into()));
        assert_eq!((codes.as_list::<i64>().value_offsets(), bad), (&[0, 2, 2, 3, 4][..], vec![]));
        assert_eq!(
            codes.as_list::<i64>().values().as_ref(),
            &Int32Array::from(vec![1, 0, 0, 2]) as &dyn Array
        );
    }

    #[test]
    fn lists_of_one_length_are_encoded_item_by_item() {
        let item = Arc::new(Field::new("item", DataType::UInt64, true));
        let numbers =
            UInt64Array::from(vec![Some(1), Some(2), None, Some(1), Some(9), Some(2), Some(1), None]);
        let there = NullBuffer::from(vec![true, true, true, false]);
        let lists: ArrayRef = Arc::new(FixedSizeListArray::new(item, 2, Arc::new(numbers), Some(there)));
        let vocabulary = Vocabulary::numbers([1, 2]);
        let (codes, bad) = encoded(&vocabulary.clone().into(), lists.clone(), None);
        assert_eq!(bad.iter().map(|(row, _)| *row).collect::<Vec<_>>(), [1, 2, 3]);
        let values = |codes: &ArrayRef| codes.as_fixed_size_list().values().clone();
        assert_eq!(values(&codes).as_ref(), &Int32Array::from(vec![0, 1, 0, 0, 0, 0, 0, 0]) as &dyn Array);
        let (codes, bad) = encoded(&vocabulary.with_unknown().into(), lists, Some(2.0.into()));
        assert!(bad.is_empty(), "{bad:?}");
        assert_eq!(values(&codes).as_ref(), &Int32Array::from(vec![0, 1, 1, 0, 2, 1, 1, 1]) as &dyn Array);
    }

    #[test]
    fn a_text_replaces_nulls_in_lists_of_one_length() {
        let item = Arc::new(Field::new("item", DataType::Utf8View, true));
        let words = StringViewArray::from(vec![Some("b"), None, Some("a"), Some("a")]);
        let there = NullBuffer::from(vec![true, false]);
        let lists: ArrayRef = Arc::new(FixedSizeListArray::new(item, 2, Arc::new(words), Some(there)));
        let (codes, bad) = encoded(&Vocabulary::texts(["a", "b"]).into(), lists, Some("b".into()));
        assert!(bad.is_empty(), "{bad:?}");
        let expected = Int32Array::from(vec![1, 1, 1, 1]);
        assert_eq!(codes.as_fixed_size_list().values().as_ref(), &expected as &dyn Array);
    }

    #[test]
    fn arrows_type_null_has_the_code_of_nulls() {
        let nulls = || new_null_array(&DataType::Null, 2);
        for (encoding, fill, code) in [
            (Encoding::from(Vocabulary::texts(["a", "b"]).with_null()), None, 2),
            (Vocabulary::numbers([7]).with_unknown().with_null().into(), None, 2),
            (Vocabulary::empty().with_null().into(), None, 0),
            (Vocabulary::texts(["a", "b"]).into(), Some(Fill::from("b")), 1),
            (Vocabulary::numbers([6, 7]).into(), Some(Fill::from(7)), 1),
        ] {
            let (codes, bad) = encoded(&encoding, nulls(), fill);
            assert_eq!((codes.as_ref(), bad), (&Int32Array::from(vec![code; 2]) as &dyn Array, vec![]));
        }
        let (codes, _) = encoded(&Encoding::hash(9).with_null(), nulls(), None);
        assert_eq!(codes.as_ref(), &Int64Array::from(vec![9, 9]) as &dyn Array);
        let item = Arc::new(Field::new("item", DataType::Null, true));
        let offsets = OffsetBuffer::from_lengths([0, 2]);
        let lists: ArrayRef = Arc::new(ListArray::new(item, offsets, nulls(), None));
        let (codes, bad) = encoded(&Vocabulary::texts(["a"]).with_null().into(), lists, None);
        assert_eq!((codes.as_list::<i64>().value_offsets(), bad), (&[0, 0, 2][..], vec![]));
        assert_eq!(codes.as_list::<i64>().values().as_ref(), &Int32Array::from(vec![1, 1]) as &dyn Array);
    }

    #[test]
    fn an_encoding_that_can_never_work_is_refused() {
        let field = |data_type: DataType| Field::new("x", data_type, true);
        let text = field(DataType::Utf8View);
        let words = || Vocabulary::texts(["a", "b"]);
        for (encoding, stored, fill, said) in [
            (Encoding::hash(0), &text, None, "0 buckets"),
            (Encoding::hash(1 << 63), &text, None, "buckets"),
            (Vocabulary::texts([""; 0]).into(), &text, None, "no values"),
            (Vocabulary::empty().into(), &text, None, "no values"),
            (words().with_null().into(), &text, Some(Fill::from("a")), "nulls have a code of their own"),
            (Vocabulary::texts(["a", "b", "a"]).into(), &text, None, "lists \"a\" twice"),
            (Vocabulary::numbers([1, 1]).into(), &field(DataType::Int8), None, "lists 1 twice"),
            (words().into(), &field(DataType::BinaryView), None, "the vocabulary has texts"),
            (Vocabulary::numbers([1]).into(), &text, None, "the vocabulary has numbers"),
            (words().into(), &field(DataType::Float32), None, "not values to encode"),
            (words().into(), &text, Some(Fill::from("c")), "no \"c\", which replaces nulls"),
            (words().into(), &text, Some(Fill::from(1.0)), "not a value of type"),
            (words().into(), &field(DataType::Null), None, "holds nulls alone"),
            (words().into(), &field(DataType::Null), Some(Fill::from("c")), "no \"c\", which replaces nulls"),
        ] {
            let refused = encoding.codec(stored, fill.as_ref()).unwrap_err();
            assert!(refused.to_string().contains(said), "{refused}");
        }
    }
}
