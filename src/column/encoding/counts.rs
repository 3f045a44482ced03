//! Counts how often each value of a column occurs, to choose the values of its vocabulary.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};

use forebay_arrow::array::{Array, AsArray};
use forebay_arrow::datatypes::DataType;
use forebay_arrow::names::TypeName;
use forebay_base::{Error, Result};
use xxhash_rust::xxh64::xxh64;

use super::Vocabulary;
use super::items::{Item, Items};

/// Counts the values of a column, from which a [`Vocabulary`] of the frequent values can be made.
///
/// Nulls are not counted. Each distinct value is stored once.
///
/// ```
/// use std::sync::Arc;
///
/// use forebay::column::CategoryCounts;
/// use forebay::arrow::array::StringViewArray;
///
/// let mut counts = CategoryCounts::new();
/// counts.add(&StringViewArray::from(vec![Some("Rome"), None, Some("Paris"), Some("Rome")]))?;
/// let cities = counts.vocabulary(1, None)?;
/// assert_eq!(cities, forebay::column::Vocabulary::texts(["Rome", "Paris"]));
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct CategoryCounts(Option<Counts>);

#[derive(Clone, Debug)]
enum Counts {
    Texts(Each<Box<[u8]>>),
    Bytes(Each<Box<[u8]>>),
    Numbers(Each<i64>),
}

type Each<V> = HashMap<V, u64, BuildHasherDefault<Xxh64>>;

impl CategoryCounts {
    /// Creates an empty count.
    #[must_use]
    pub fn new() -> Self {
        CategoryCounts::default()
    }

    /// Adds the values of an array: texts, binary values or integers, or the items of lists of these.
    ///
    /// # Errors
    /// `Invalid` for an array of another type, for values of another kind than in earlier arrays, and for an
    /// integer of 2^63 or more.
    pub fn add(&mut self, array: &dyn Array) -> Result<()> {
        match array.data_type() {
            DataType::List(_) => {
                let lists = array.as_list::<i32>();
                self.add_lists(array, lists.values(), |row| lists.value_offsets()[row] as usize)
            }
            DataType::LargeList(_) => {
                let lists = array.as_list::<i64>();
                self.add_lists(array, lists.values(), |row| lists.value_offsets()[row] as usize)
            }
            DataType::FixedSizeList(_, length) => {
                let length = usize::try_from(*length).unwrap_or(0);
                self.add_lists(array, array.as_fixed_size_list().values(), |row| row * length)
            }
            _ => self.add_items(array, std::iter::once(0..array.len())),
        }
    }

    /// Counts the items of all lists that are not null. A null list may have items in the array too, which
    /// are skipped.
    fn add_lists(
        &mut self,
        lists: &dyn Array,
        items: &dyn Array,
        starts: impl Fn(usize) -> usize,
    ) -> Result<()> {
        let rows = (0..lists.len()).filter(|row| lists.is_valid(*row));
        self.add_items(items, rows.map(|row| starts(row)..starts(row + 1)))
    }

    fn add_items(
        &mut self,
        array: &dyn Array,
        ranges: impl Iterator<Item = std::ops::Range<usize>>,
    ) -> Result<()> {
        // Nulls alone do not decide the kind of the values.
        if *array.data_type() == DataType::Null {
            return Ok(());
        }
        let items = Items::new(array).map_err(|_| {
            let cause = format!("holds {}, which has no categories", TypeName(array.data_type()));
            Error::invalid(cause).hint("texts, binary values and integers have, and lists of these")
        })?;
        let counts = self.0.get_or_insert_with(|| match array.data_type() {
            DataType::Utf8View | DataType::LargeUtf8 => Counts::Texts(Each::default()),
            other if other.is_integer() => Counts::Numbers(Each::default()),
            _ => Counts::Bytes(Each::default()),
        });
        for item in ranges.flatten().filter_map(|at| items.get(at)) {
            let is_text = matches!(array.data_type(), DataType::Utf8View | DataType::LargeUtf8);
            match (&mut *counts, item) {
                (Counts::Texts(each), Item::Bytes(value)) if is_text => count(each, value),
                (Counts::Bytes(each), Item::Bytes(value)) if !is_text => count(each, value),
                (Counts::Numbers(each), Item::Signed(value)) => *each.entry(value).or_default() += 1,
                (Counts::Numbers(each), Item::Unsigned(value)) => {
                    let value = i64::try_from(value).map_err(|_| {
                        Error::invalid(format!("{value} is beyond 2^63 - 1, the largest category"))
                            .hint("use a hash")
                    })?;
                    *each.entry(value).or_default() += 1;
                }
                _ => return Err(Error::invalid("values of another kind than those before them")),
            }
        }
        Ok(())
    }

    /// Makes a vocabulary of the values that occurred `at_least` times or more. The most frequent value comes
    /// first; equally frequent values are in ascending order. If `at_most` is given, only the first `at_most`
    /// of these values are taken. If no value occurred often enough, the vocabulary has none, and it needs a
    /// code for unknown values or for nulls.
    ///
    /// # Errors
    /// `Invalid` for a text that is not UTF-8.
    pub fn vocabulary(self, at_least: u64, at_most: Option<usize>) -> Result<Vocabulary> {
        let text = |value: Box<[u8]>| {
            String::from_utf8(value.into_vec()).map_err(|_| Error::invalid("a text that is not UTF-8"))
        };
        Ok(match self.0 {
            Some(Counts::Texts(each)) => {
                let values = frequent(each, at_least, at_most).into_iter().map(text);
                Vocabulary::texts(values.collect::<Result<Vec<_>>>()?)
            }
            Some(Counts::Bytes(each)) => Vocabulary::bytes(frequent(each, at_least, at_most)),
            Some(Counts::Numbers(each)) => Vocabulary::numbers(frequent(each, at_least, at_most)),
            None => Vocabulary::empty(),
        })
    }
}

/// Counts an occurrence of a value. The value is copied only at its first occurrence.
fn count(each: &mut Each<Box<[u8]>>, value: &[u8]) {
    match each.get_mut(value) {
        Some(count) => *count += 1,
        None => {
            each.insert(value.into(), 1);
        }
    }
}

fn frequent<V: Ord + Hash + Clone>(each: Each<V>, at_least: u64, at_most: Option<usize>) -> Vec<V> {
    let mut values: Vec<(Reverse<u64>, V)> = each
        .into_iter()
        .filter(|(_, count)| *count >= at_least)
        .map(|(value, count)| (Reverse(count), value))
        .collect();
    values.sort_unstable();
    values.truncate(at_most.unwrap_or(usize::MAX));
    values.into_iter().map(|(_, value)| value).collect()
}

/// A hasher with xxHash, which is fast for short values.
#[derive(Debug, Default)]
struct Xxh64(u64);

impl Hasher for Xxh64 {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxh64(bytes, self.0);
    }

    /// Mixes the length of the value into the hash, before the value's bytes.
    fn write_usize(&mut self, length: usize) {
        self.0 ^= length as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use forebay_arrow::array::{
        ArrayRef, BinaryViewArray, Float64Array, Int32Array, LargeListArray, LargeStringArray, UInt64Array,
    };
    use forebay_arrow::buffer::NullBuffer;
    use forebay_arrow::datatypes::Int32Type;

    use super::*;

    fn counted(arrays: &[&dyn Array]) -> CategoryCounts {
        let mut counts = CategoryCounts::new();
        arrays.iter().for_each(|array| counts.add(*array).unwrap());
        counts
    }

    #[test]
    fn the_most_frequent_come_first_and_nulls_do_not_count() {
        let numbers = Int32Array::from(vec![Some(2), None, Some(-1), Some(2), None, None, Some(7)]);
        assert_eq!(counted(&[&numbers]).vocabulary(1, None).unwrap(), Vocabulary::numbers([2, -1, 7]));
        assert_eq!(counted(&[&numbers, &numbers]).vocabulary(3, None).unwrap(), Vocabulary::numbers([2]));
        assert_eq!(counted(&[&numbers]).vocabulary(1, Some(2)).unwrap(), Vocabulary::numbers([2, -1]));
        let texts = LargeStringArray::from(vec!["b", "a", "é"]);
        assert_eq!(counted(&[&texts]).vocabulary(1, None).unwrap(), Vocabulary::texts(["a", "b", "é"]));
        let bytes = BinaryViewArray::from(vec![Some(&b"\xff"[..]), None]);
        assert_eq!(counted(&[&bytes]).vocabulary(1, None).unwrap(), Vocabulary::bytes([b"\xff"]));
    }

    #[test]
    fn the_items_of_lists_count() {
        let lists = LargeListArray::from_iter_primitive::<Int32Type, _, _>([
            Some(vec![Some(3), None, Some(3)]),
            None,
            Some(vec![]),
            Some(vec![Some(1)]),
        ]);
        assert_eq!(counted(&[&lists]).vocabulary(1, None).unwrap(), Vocabulary::numbers([3, 1]));
        assert_eq!(counted(&[&lists.slice(3, 1)]).vocabulary(1, None).unwrap(), Vocabulary::numbers([1]));
        // A null list may have items in its place, which are not of the data.
        let (field, offsets, items, _) = lists.into_parts();
        let nulls = NullBuffer::from(vec![false, true, true, true]);
        let hidden = LargeListArray::new(field, offsets, items, Some(nulls));
        assert_eq!(counted(&[&hidden]).vocabulary(1, None).unwrap(), Vocabulary::numbers([1]));
    }

    #[test]
    fn what_has_no_categories_is_refused() {
        let arrays: [(ArrayRef, &str); 3] = [
            (Arc::new(Float64Array::from(vec![0.5])), "holds float64, which has no categories"),
            (Arc::new(UInt64Array::from(vec![u64::MAX])), "beyond 2^63 - 1"),
            (Arc::new(LargeStringArray::from(vec!["a"])), "another kind"),
        ];
        for (array, said) in arrays {
            let mut counts = counted(&[&Int32Array::from(vec![1])]);
            let error = counts.add(&array).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn a_vocabulary_of_rare_values_is_empty() {
        assert_eq!(CategoryCounts::new().vocabulary(1, None).unwrap(), Vocabulary::empty());
        let texts = LargeStringArray::from(vec!["a", "b"]);
        assert_eq!(counted(&[&texts]).vocabulary(2, None).unwrap(), Vocabulary::texts([""; 0]));
        let nulls = Int32Array::from(vec![None, None]);
        assert_eq!(counted(&[&nulls]).vocabulary(1, None).unwrap().codes(), 0);
    }
}
