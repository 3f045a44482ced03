//! Numbers the values of a column of texts or bytes in which values repeat: rows with equal values have the
//! same number. Work on values is then done once for each distinct value, and each row needs only its number.

use std::sync::Arc;

use forebay_arrow::array::{Array, AsArray, GenericByteViewArray, RecordBatch, UInt16Array};
use forebay_arrow::buffer::ScalarBuffer;
use forebay_arrow::datatypes::{BinaryViewType, ByteViewType, DataType, StringViewType};
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use xxhash_rust::xxh3::xxh3_64;

use super::bytes::value;
use super::known_views::KnownViews;

/// The bytes of a number.
pub(crate) const NUMBER_BYTES: u64 = size_of::<u16>() as u64;
/// The largest number of distinct values of a column that is numbered.
const MAX_DISTINCT: usize = 1 << 16;
/// On average, a value of a column must occur at least this number of times.
const MIN_REPEATS: usize = 4;
/// After this number of rows, and each time that twice as many were numbered, it is checked whether values
/// repeat at all.
const FIRST_CHECKED: usize = 4096;
/// Values do not repeat if more than this share of the rows so far have a new one. Among the first rows of a
/// column, most values may be new though all repeat later.
const MAX_NEW_SHARE: f64 = 0.875;

/// For each column, the numbers of the values in its rows; `None` for columns without numbers.
pub(crate) type ValueNumbers = Arc<[Option<UInt16Array>]>;

/// Whether columns of this type are numbered if their values repeat.
pub(crate) fn may_be_numbered(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8View | DataType::BinaryView)
}

/// The numbers of the values in all columns.
pub(crate) fn value_numbers(rows: &RecordBatch) -> ValueNumbers {
    let numbers = rows.columns().iter().map(|column| match column.data_type() {
        DataType::Utf8View => numbered::<StringViewType>(column.as_string_view()),
        DataType::BinaryView => numbered::<BinaryViewType>(column.as_binary_view()),
        _ => None,
    });
    numbers.collect()
}

/// The number of the value in each row; all nulls have one number too. `None` if values seldom repeat.
fn numbered<T: ByteViewType>(column: &GenericByteViewArray<T>) -> Option<UInt16Array> {
    let mut known = KnownViews::new();
    // A row with each value, in the order of the numbers.
    let mut rows: Vec<u32> = Vec::new();
    let mut places: HashTable<u16> = HashTable::new();
    let mut null = None;
    let mut numbers: Vec<u16> = Vec::with_capacity(column.len());
    let mut checked = FIRST_CHECKED;
    let most = MAX_DISTINCT.min(column.len() / MIN_REPEATS);
    for (row, view) in column.views().iter().enumerate() {
        if row == checked {
            if rows.len() as f64 > MAX_NEW_SHARE * row as f64 {
                return None;
            }
            checked *= 2;
        }
        let new = |rows: &mut Vec<u32>| {
            rows.push(row as u32);
            (rows.len() - 1) as u16
        };
        let number = match column.is_null(row) {
            true => *null.get_or_insert_with(|| new(&mut rows)),
            // Equal texts may have different views, because long texts lie at different places.
            false => known.get_or(*view, || {
                let text = value(column, row);
                let of = |number: &u16| value(column, rows[*number as usize] as usize);
                let is_it = |number: &u16| of(number) == text;
                match places.entry(xxh3_64(text), is_it, |number| xxh3_64(of(number))) {
                    Entry::Occupied(occupied) => *occupied.get(),
                    Entry::Vacant(vacant) => *vacant.insert(new(&mut rows)).get(),
                }
            }),
        };
        if rows.len() > most {
            return None;
        }
        numbers.push(number);
    }
    Some(UInt16Array::new(ScalarBuffer::from(numbers), None))
}

/// For each number, the first row that has it, if there is one. Other processes may change memory-mapped
/// numbers at any time, so a number may be beyond the end of this list later.
pub(crate) fn rows_of_numbers(numbers: &UInt16Array) -> Vec<Option<u32>> {
    let numbers = numbers.values();
    let most = numbers.iter().copied().max().map_or(0, |most| most as usize + 1);
    let mut rows = vec![u32::MAX; most];
    for (row, number) in numbers.iter().enumerate().rev() {
        if let Some(of) = rows.get_mut(*number as usize) {
            *of = row as u32;
        }
    }
    rows.into_iter().map(|row| (row != u32::MAX).then_some(row)).collect()
}

/// A part of the rows of each column's numbers.
pub(crate) fn cut_numbers(numbers: &ValueNumbers, start: usize, rows: usize) -> ValueNumbers {
    let cut = |numbers: &UInt16Array| numbers.slice(start, rows);
    numbers.iter().map(|numbers| numbers.as_ref().map(cut)).collect()
}

#[cfg(test)]
mod tests {
    use forebay_arrow::array::{ArrayRef, BinaryViewArray, Int32Array, StringViewArray};

    use super::*;

    fn numbers_of(column: ArrayRef) -> Option<UInt16Array> {
        value_numbers(&RecordBatch::try_from_iter([("x", column)]).unwrap())[0].clone()
    }

    /// Long texts in different places, short ones in their views, empty ones and nulls, whose views look
    /// alike.
    #[test]
    fn rows_have_equal_numbers_where_they_have_equal_values() {
        let text = |at: usize| match at * at % 11 {
            0 => None,
            1 => Some(String::new()),
            kind => Some(format!("{}{kind}", "long ".repeat(kind % 4 * 3))),
        };
        let texts: Vec<Option<String>> = (0..3_000).map(text).collect();
        let bytes = texts.iter().map(|text| text.as_ref().map(String::as_bytes));
        let columns: [ArrayRef; 2] = [
            Arc::new(StringViewArray::from_iter(texts.iter().map(Option::as_deref))),
            Arc::new(BinaryViewArray::from_iter(bytes)),
        ];
        for column in columns {
            let numbers = numbers_of(column).unwrap();
            let rows = rows_of_numbers(&numbers);
            let mut distinct = texts.clone();
            distinct.sort();
            distinct.dedup();
            assert_eq!(rows.len(), distinct.len());
            for (row, number) in numbers.values().iter().enumerate() {
                let other = rows[*number as usize].unwrap() as usize;
                assert_eq!((&texts[row], numbers.value(other)), (&texts[other], *number));
            }
            // A part may lack some values.
            let part = cut_numbers(&[Some(numbers.clone())].into(), 7, 3)[0].clone().unwrap();
            let found: Vec<u32> = rows_of_numbers(&part).into_iter().flatten().collect();
            assert!(found.len() <= 3 && found.iter().all(|row| *row < 3), "{found:?}");
        }
    }

    #[test]
    fn values_that_seldom_repeat_are_not_numbered() {
        let column = |distinct: usize, rows: usize| -> ArrayRef {
            let text = |row: usize| format!("a text that is too long for a view, {}", row % distinct);
            Arc::new(StringViewArray::from_iter_values((0..rows).map(text)))
        };
        assert!(numbers_of(column(500, 2_000)).is_some());
        assert!(numbers_of(column(501, 2_000)).is_none());
        assert!(numbers_of(column(5_000, 20_000)).is_none(), "the first 4,096 are all different");
        assert!(numbers_of(column(1, 0)).is_some_and(|numbers| rows_of_numbers(&numbers).is_empty()));
        assert!(numbers_of(Arc::new(Int32Array::from(vec![7; 100]))).is_none());
    }
}
