//! Vocabularies: lists of values, in which the index of a value is its code.

use std::sync::Arc;

use forebay_base::{Error, Result};
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::items::Item;

/// A list of values. A value is encoded as its index in the list, from 0.
///
/// ```
/// use forebay::column::Vocabulary;
///
/// let cities = Vocabulary::texts(["Berlin", "Paris"]).with_unknown();
/// assert_eq!(cities.codes(), 3);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vocabulary {
    values: Arc<Categories>,
    #[serde(default)]
    unknown: Treatment,
    #[serde(default)]
    null: Treatment,
}

/// The values of a [`Vocabulary`], all of one kind.
///
/// ```
/// use forebay::column::{Categories, Vocabulary};
///
/// let ages = Vocabulary::numbers([7, 9]);
/// assert_eq!(ages.values(), &Categories::Numbers(vec![7, 9]));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Categories {
    /// Values for a column of text.
    Texts(Vec<String>),
    /// Values for a column of binary values.
    Bytes(Vec<Vec<u8>>),
    /// Values for a column of integers.
    Numbers(Vec<i64>),
    /// No values, for a column of any of these types.
    Empty,
}

/// The treatment of unknown values, or of nulls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Treatment {
    /// The row is a bad row.
    #[default]
    Raise,
    /// All of them have one code of their own.
    Code,
}

impl Vocabulary {
    /// A vocabulary for a column of texts.
    #[must_use]
    pub fn texts<S: Into<String>>(values: impl IntoIterator<Item = S>) -> Self {
        Vocabulary::new(Categories::Texts(values.into_iter().map(Into::into).collect()))
    }

    /// A vocabulary for a column of binary values.
    #[must_use]
    pub fn bytes<B: Into<Vec<u8>>>(values: impl IntoIterator<Item = B>) -> Self {
        Vocabulary::new(Categories::Bytes(values.into_iter().map(Into::into).collect()))
    }

    /// A vocabulary for a column of integers.
    #[must_use]
    pub fn numbers(values: impl IntoIterator<Item = i64>) -> Self {
        Vocabulary::new(Categories::Numbers(values.into_iter().collect()))
    }

    /// A vocabulary of no values, for a column of any type that can be encoded. It needs a code for unknown
    /// values or for nulls.
    #[must_use]
    pub fn empty() -> Self {
        Vocabulary::new(Categories::Empty)
    }

    fn new(values: Categories) -> Self {
        Vocabulary { values: Arc::new(values), unknown: Treatment::default(), null: Treatment::default() }
    }

    /// Gives all values that are not in the list one code, which follows the code of the last value. Default:
    /// such a value is a bad row.
    #[must_use]
    pub fn with_unknown(mut self) -> Self {
        self.unknown = Treatment::Code;
        self
    }

    /// Gives nulls one code, which is the last: it follows that of unknown values, if these have one.
    /// Default: a null is a bad row, unless it is filled.
    #[must_use]
    pub fn with_null(mut self) -> Self {
        self.null = Treatment::Code;
        self
    }

    /// The values. The index of a value is its code.
    pub fn values(&self) -> &Categories {
        &self.values
    }

    /// The number of codes, which run from 0 to this number minus 1.
    pub fn codes(&self) -> usize {
        let extra = [self.unknown, self.null].into_iter().filter(|of| *of == Treatment::Code);
        self.values.len() + extra.count()
    }

    pub(super) fn validate(&self) -> Result<()> {
        if self.codes() == 0 {
            return Err(Error::invalid("a vocabulary of no values")
                .hint("give it values, or a code for unknown values or for nulls"));
        }
        if i32::try_from(self.codes()).is_err() {
            return Err(Error::invalid("a vocabulary of more than 2^31 values").hint("use a hash"));
        }
        Ok(())
    }

    /// The code of values that are not in the list; `None` if they are bad rows.
    pub(super) fn unknown(&self) -> Option<i64> {
        (self.unknown == Treatment::Code).then(|| self.values.len() as i64)
    }

    /// The code of nulls; `None` if they have none of their own.
    pub(super) fn null(&self) -> Option<i64> {
        (self.null == Treatment::Code).then(|| self.codes() as i64 - 1)
    }
}

impl Categories {
    fn len(&self) -> usize {
        match self {
            Categories::Texts(values) => values.len(),
            Categories::Bytes(values) => values.len(),
            Categories::Numbers(values) => values.len(),
            Categories::Empty => 0,
        }
    }

    fn at(&self, place: u32) -> Item<'_> {
        match self {
            Categories::Empty => Item::Bytes(&[]),
            Categories::Texts(values) => Item::Bytes(values[place as usize].as_bytes()),
            Categories::Bytes(values) => Item::Bytes(&values[place as usize]),
            Categories::Numbers(values) => Item::Signed(values[place as usize]),
        }
    }

    pub(super) fn kind(&self) -> &'static str {
        match self {
            Categories::Texts(_) => "texts",
            Categories::Bytes(_) => "bytes",
            Categories::Numbers(_) => "numbers",
            Categories::Empty => "nothing",
        }
    }
}

/// A table that finds the index of a value. It refers to the list of values, so that no value is stored
/// twice.
#[derive(Debug)]
pub(super) struct Places {
    values: Arc<Categories>,
    table: HashTable<u32>,
}

impl Places {
    /// # Errors
    /// Fails if a value is listed twice.
    pub(super) fn index(vocabulary: &Vocabulary) -> Result<Self> {
        let values = vocabulary.values.clone();
        let mut table = HashTable::with_capacity(values.len());
        let hash_at = |place: &u32| hash(values.at(*place));
        // The cast is exact, because a vocabulary has fewer than 2^31 values.
        for place in 0..values.len() as u32 {
            let value = values.at(place);
            match table.entry(hash(value), |other| values.at(*other) == value, hash_at) {
                Entry::Occupied(_) => {
                    return Err(Error::invalid(format!("the vocabulary lists {value} twice")));
                }
                Entry::Vacant(vacant) => vacant.insert(place),
            };
        }
        Ok(Places { values, table })
    }

    pub(super) fn get(&self, item: Item<'_>) -> Option<i64> {
        let item = match item {
            Item::Unsigned(value) => Item::Signed(i64::try_from(value).ok()?),
            item => item,
        };
        let place = self.table.find(hash(item), |place| self.values.at(*place) == item)?;
        Some((*place).into())
    }
}

/// Hashes a value with XXH3, which is fast for short values.
fn hash(item: Item<'_>) -> u64 {
    item.hashed(xxh3_64)
}
