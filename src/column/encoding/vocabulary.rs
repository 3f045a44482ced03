//! Lists of values, and the place of each.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use forebay_base::{Error, Result};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh64::xxh64;

use super::items::Item;

/// Values with their codes: each is encoded as its place in the list, from 0.
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
    values: Categories,
    #[serde(default)]
    unknown: Unknown,
}

/// The values of a [`Vocabulary`], of one kind.
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
    /// For columns of text.
    Texts(Vec<String>),
    /// For columns of binary values.
    Bytes(Vec<Vec<u8>>),
    /// For columns of integers.
    Numbers(Vec<i64>),
}

/// What becomes of a value that is not in the list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Unknown {
    /// A bad row.
    #[default]
    Raise,
    /// The code after the last.
    Code,
}

impl Vocabulary {
    /// Of a column of texts.
    #[must_use]
    pub fn texts<S: Into<String>>(values: impl IntoIterator<Item = S>) -> Self {
        Vocabulary::new(Categories::Texts(values.into_iter().map(Into::into).collect()))
    }

    /// Of a column of binary values.
    #[must_use]
    pub fn bytes<B: Into<Vec<u8>>>(values: impl IntoIterator<Item = B>) -> Self {
        Vocabulary::new(Categories::Bytes(values.into_iter().map(Into::into).collect()))
    }

    /// Of a column of integers.
    #[must_use]
    pub fn numbers(values: impl IntoIterator<Item = i64>) -> Self {
        Vocabulary::new(Categories::Numbers(values.into_iter().collect()))
    }

    fn new(values: Categories) -> Self {
        Vocabulary { values, unknown: Unknown::default() }
    }

    /// Gives all values that are not in the list one code, the one after the last. Default: a row with one is a bad row.
    #[must_use]
    pub fn with_unknown(mut self) -> Self {
        self.unknown = Unknown::Code;
        self
    }

    /// The values, each at the place of its code.
    pub fn values(&self) -> &Categories {
        &self.values
    }

    /// How many codes there are: codes are below.
    pub fn codes(&self) -> usize {
        self.values.len() + usize::from(self.unknown == Unknown::Code)
    }

    pub(super) fn validate(&self) -> Result<()> {
        if self.values.len() == 0 {
            return Err(Error::invalid("a vocabulary of no values"));
        }
        if i32::try_from(self.codes()).is_err() {
            return Err(Error::invalid("a vocabulary of more than 2^31 values").hint("use a hash"));
        }
        Ok(())
    }

    /// The code for values that are not in the list.
    pub(super) fn unknown(&self) -> Option<i64> {
        (self.unknown == Unknown::Code).then(|| self.values.len() as i64)
    }
}

impl Categories {
    fn len(&self) -> usize {
        match self {
            Categories::Texts(values) => values.len(),
            Categories::Bytes(values) => values.len(),
            Categories::Numbers(values) => values.len(),
        }
    }

    pub(super) fn kind(&self) -> &'static str {
        match self {
            Categories::Texts(_) => "texts",
            Categories::Bytes(_) => "bytes",
            Categories::Numbers(_) => "numbers",
        }
    }
}

/// The place of each value.
#[derive(Debug)]
pub(super) enum Places {
    Bytes(HashMap<Box<[u8]>, i64, BuildHasherDefault<Xxh64>>),
    Numbers(HashMap<i64, i64, BuildHasherDefault<Xxh64>>),
}

impl Places {
    /// # Errors
    /// A value is listed twice.
    pub(super) fn of(values: &Categories) -> Result<Self> {
        let twice = |value: String| Error::invalid(format!("the vocabulary lists {value} twice"));
        let mut bytes = HashMap::default();
        let mut add = |value: &[u8], place: usize| match bytes.insert(value.into(), place as i64) {
            Some(_) => Err(twice(Item::Bytes(value).to_string())),
            None => Ok(()),
        };
        match values {
            Categories::Texts(values) => {
                values.iter().enumerate().try_for_each(|(place, value)| add(value.as_bytes(), place))?;
            }
            Categories::Bytes(values) => {
                values.iter().enumerate().try_for_each(|(place, value)| add(value, place))?;
            }
            Categories::Numbers(values) => {
                let mut numbers = HashMap::default();
                for (place, value) in values.iter().enumerate() {
                    if numbers.insert(*value, place as i64).is_some() {
                        return Err(twice(value.to_string()));
                    }
                }
                return Ok(Places::Numbers(numbers));
            }
        }
        Ok(Places::Bytes(bytes))
    }

    pub(super) fn get(&self, item: Item<'_>) -> Option<i64> {
        match (self, item) {
            (Places::Bytes(places), Item::Bytes(value)) => places.get(value).copied(),
            (Places::Numbers(places), Item::Signed(value)) => places.get(&value).copied(),
            (Places::Numbers(places), Item::Unsigned(value)) => {
                places.get(&i64::try_from(value).ok()?).copied()
            }
            _ => None,
        }
    }
}

/// Short values are hashed in one go.
#[derive(Debug, Default)]
pub(super) struct Xxh64(u64);

impl Hasher for Xxh64 {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxh64(bytes, self.0);
    }

    /// The length of the bytes that follow.
    fn write_usize(&mut self, length: usize) {
        self.0 ^= length as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
