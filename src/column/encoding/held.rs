//! Converts the columns of whole row groups to codes, once per row group, so that batches gather codes
//! instead of values.
//!
//! A frequent value is looked up once and then remembered. Dictionary-encoded pages are read as codes without
//! their texts ([`CodeValues`]). If the Parquet crate reads the texts, all texts from one dictionary entry
//! have equal Arrow views, so the code is remembered for the view. A value without a code becomes a negative
//! number, from which an error message finds the value again.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay_arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray, UInt16Array};
use forebay_arrow::buffer::{NullBuffer, ScalarBuffer};
use forebay_arrow::datatypes::{ArrowNativeType, DataType};
use forebay_base::Result;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use xxhash_rust::xxh64::xxh64;

use super::items::{Item, Items};
use crate::batch::{KnownViews, rows_of_numbers};

/// The largest number of distinct values without a code that are remembered, so that errors can show them.
const MAX_TOLD: usize = 1 << 16;

/// The number that stands for every further value without a code, once [`MAX_TOLD`] of them are remembered.
/// An error cannot show such a value.
const UNTOLD: i64 = -1;

/// Encodes texts or binary values for a reader that reads a column as codes.
pub(crate) trait CodeValues: fmt::Debug + Send + Sync {
    /// The type of the codes, `Int32` or `Int64`.
    fn data_type(&self) -> &DataType;

    /// Returns the code of a value, or a negative number if it has none.
    fn code(&self, value: &[u8]) -> i64;

    /// The code of a value that must be UTF-8, or a negative number if it has none; `None` if it is not
    /// UTF-8.
    fn code_of_text(&self, value: &[u8]) -> Option<i64> {
        std::str::from_utf8(value).is_ok().then(|| self.code(value))
    }
}

/// The values without a code that occurred so far, as texts for error messages.
#[derive(Debug, Default)]
pub(super) struct UncodedValues(Mutex<Told>);

/// The texts in the order in which they were added, and a table that finds the index of a text.
#[derive(Debug, Default)]
struct Told {
    texts: Vec<String>,
    places: HashTable<usize>,
}

impl Told {
    /// Returns the index of a text, which is added if it is new. Returns `None` for a new text if the
    /// table is full.
    fn place(&mut self, text: String) -> Option<usize> {
        let Told { texts, places } = self;
        let hash_at = |place: &usize| xxh64(texts[*place].as_bytes(), 0);
        let place = match places.entry(xxh64(text.as_bytes(), 0), |place| texts[*place] == text, hash_at) {
            Entry::Occupied(occupied) => return Some(*occupied.get()),
            Entry::Vacant(_) if texts.len() >= MAX_TOLD => return None,
            Entry::Vacant(vacant) => *vacant.insert(texts.len()).get(),
        };
        texts.push(text);
        Some(place)
    }
}

impl UncodedValues {
    fn lock(&self) -> MutexGuard<'_, Told> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the negative number by which row groups hold a value without a code.
    pub(super) fn number(&self, item: Item<'_>) -> i64 {
        let place = self.lock().place(item.to_string());
        place.map_or(UNTOLD, |place| UNTOLD - 1 - place as i64)
    }

    /// Returns the text of the value for which row groups hold this negative number.
    pub(super) fn text(&self, number: i64) -> String {
        let place = usize::try_from(UNTOLD - 1 - number).ok();
        let told = self.lock();
        let text = place.and_then(|place| told.texts.get(place));
        text.cloned().unwrap_or_else(|| "a value".to_owned())
    }
}

/// Converts a column's values to codes of the integer type `T`; nulls remain nulls.
pub(super) fn codes<T: ArrowPrimitiveType>(
    column: &ArrayRef,
    code: impl Fn(Item<'_>) -> i64,
) -> Result<ArrayRef> {
    let native = |item: Item<'_>| T::Native::usize_as(code(item) as usize);
    let items = Items::new(column.as_ref())?;
    let views = match column.data_type() {
        DataType::Utf8View => Some(column.as_string_view().views()),
        DataType::BinaryView => Some(column.as_binary_view().views()),
        _ => None,
    };
    let found = |row| items.get(row).map_or_else(Default::default, native);
    let mut known = KnownViews::new();
    let nulls = column.logical_nulls();
    let values: Vec<T::Native> = match (views, &nulls) {
        (Some(views), None) => {
            views.iter().enumerate().map(|(row, view)| known.get_or(*view, || found(row))).collect()
        }
        // Rows with a null are skipped first, because the view of a null can equal that of an empty value.
        (Some(views), Some(nulls)) => {
            let rows = views.iter().zip(nulls).enumerate();
            rows.map(|(row, (view, is_valid))| match is_valid {
                true => known.get_or(*view, || found(row)),
                false => T::Native::default(),
            })
            .collect()
        }
        (None, _) => (0..column.len()).map(found).collect(),
    };
    Ok(Arc::new(PrimitiveArray::<T>::new(ScalarBuffer::from(values), nulls)))
}

/// Does what [`codes`] does, for a column of which `numbers` has the number of the value in each row: each
/// distinct value is looked up once. The codes are those of the rows in `order`, if there is one.
pub(super) fn codes_by_number<T: ArrowPrimitiveType>(
    column: &ArrayRef,
    numbers: &UInt16Array,
    order: Option<&[u32]>,
    code: impl Fn(Item<'_>) -> i64,
) -> Result<ArrayRef> {
    let native = |item: Item<'_>| T::Native::usize_as(code(item) as usize);
    let items = Items::new(column.as_ref())?;
    let found = |row: Option<u32>| row.and_then(|row| items.get(row as usize)).map(native);
    let codes: Vec<T::Native> =
        rows_of_numbers(numbers).into_iter().map(|row| found(row).unwrap_or_default()).collect();
    let code_of = |number: u16| codes.get(number as usize).copied().unwrap_or_default();
    let numbers = &numbers.values()[..];
    let nulls = column.logical_nulls();
    let (values, nulls): (Vec<T::Native>, _) = match order {
        None => (numbers.iter().map(|number| code_of(*number)).collect(), nulls),
        Some(order) => {
            let is_valid =
                |nulls: &NullBuffer| order.iter().map(|row| nulls.is_valid(*row as usize)).collect();
            let values = order.iter().map(|row| code_of(numbers[*row as usize])).collect();
            (values, nulls.as_ref().map(is_valid))
        }
    };
    Ok(Arc::new(PrimitiveArray::<T>::new(ScalarBuffer::from(values), nulls)))
}
