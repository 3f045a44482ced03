//! [`Encoding`]: the option that delivers the values of a column as integer codes.

use forebay_arrow::datatypes::DataType;
use forebay_base::{Error, Result};
use serde::{Deserialize, Serialize};

use super::vocabulary::{Treatment, Vocabulary};

/// How the values of a column become integer codes.
///
/// Pass it to a loader with [`LoaderBuilder::encode`](crate::LoaderBuilder::encode). The column holds texts,
/// binary values or integers, or lists of these, whose items are encoded one by one. Filters and the row
/// cache see the values as they are stored.
///
/// A null is a bad row, unless nulls have [a code of their own](Encoding::with_null), or the column has a
/// [`fill_null`](crate::LoaderBuilder::fill_null): a null then has the code of that value.
///
/// ```no_run
/// use forebay::Dataset;
/// use forebay::column::{Encoding, Vocabulary};
///
/// let loader = Dataset::open("data/")?
///     .loader()
///     .encode("city", Vocabulary::texts(["Berlin", "Paris"]))
///     .encode("user", Encoding::hash(1 << 20))
///     .build()?;
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Encoding {
    /// The code is the index of the value in a list of known values, as `Int32`.
    Vocabulary(Vocabulary),
    /// The code is the number of a bucket, a hash of the value, as `Int64`.
    Hash(Hash),
}

/// The buckets of [`Encoding::hash`].
///
/// The bucket of a value is its xxHash64 with the seed, modulo the number of buckets. The hash covers the
/// bytes of a text or binary value, or the eight bytes of an integer in little-endian order. The bucket is
/// the same in every release and on every machine.
///
/// ```
/// use forebay::column::Encoding;
///
/// let Encoding::Hash(hash) = Encoding::hash_seeded(1000, 7) else { unreachable!() };
/// assert_eq!((hash.buckets(), hash.seed()), (1000, 7));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hash {
    pub(super) buckets: u64,
    #[serde(default)]
    pub(super) seed: u64,
    #[serde(default)]
    null: Treatment,
}

impl Hash {
    /// The number of buckets; the codes of values go from 0 to this number minus 1.
    pub fn buckets(&self) -> u64 {
        self.buckets
    }

    /// The seed of the hash, which decides which values share a bucket.
    pub fn seed(&self) -> u64 {
        self.seed
    }
}

impl Encoding {
    /// Codes that are hashes with the seed 0, from 0 to `buckets - 1`. Every value has a code, and different
    /// values may share one.
    #[must_use]
    pub fn hash(buckets: u64) -> Self {
        Encoding::hash_seeded(buckets, 0)
    }

    /// Codes that are hashes with another seed, which changes the values that share a code.
    #[must_use]
    pub fn hash_seeded(buckets: u64, seed: u64) -> Self {
        Encoding::Hash(Hash { buckets, seed, null: Treatment::default() })
    }

    /// Gives nulls a code of their own, which is the last. In a vocabulary it follows the code of unknown
    /// values, or else that of the last value; with a hash it is the number of buckets. Default: a null is a
    /// bad row, unless it is filled.
    ///
    /// A null inside a list has this code. A null list becomes an empty list, or a list of this code if all
    /// lists have one length.
    ///
    /// ```
    /// use forebay::column::{Encoding, Vocabulary};
    ///
    /// let cities = Vocabulary::texts(["Berlin", "Paris"]);
    /// let encoding = Encoding::from(cities.clone()).with_null();
    /// assert_eq!(encoding, cities.with_null().into());
    /// ```
    #[must_use]
    pub fn with_null(self) -> Self {
        match self {
            Encoding::Vocabulary(vocabulary) => Encoding::Vocabulary(vocabulary.with_null()),
            Encoding::Hash(hash) => Encoding::Hash(Hash { null: Treatment::Code, ..hash }),
        }
    }

    /// The code of nulls; `None` if they have none of their own.
    pub(super) fn null(&self) -> Option<i64> {
        match self {
            Encoding::Vocabulary(vocabulary) => vocabulary.null(),
            // The cast is exact, because a hash has fewer than 2^63 buckets.
            Encoding::Hash(hash) => (hash.null == Treatment::Code).then_some(hash.buckets as i64),
        }
    }

    /// The type of a code.
    pub(super) fn data_type(&self) -> DataType {
        match self {
            Encoding::Vocabulary(_) => DataType::Int32,
            Encoding::Hash(_) => DataType::Int64,
        }
    }

    /// Refuses an encoding that can never work.
    pub(super) fn validate(&self) -> Result<()> {
        match self {
            Encoding::Vocabulary(vocabulary) => vocabulary.validate(),
            Encoding::Hash(Hash { buckets, .. }) => match i64::try_from(*buckets) {
                Ok(1..) => Ok(()),
                _ => Err(Error::invalid(format!("a hash of {buckets} buckets")).hint("give 1 to 2^63 - 1")),
            },
        }
    }
}

impl From<Vocabulary> for Encoding {
    fn from(vocabulary: Vocabulary) -> Self {
        Encoding::Vocabulary(vocabulary)
    }
}
