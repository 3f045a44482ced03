//! Builds a loader: checks the user's options, and fills in the open ones.

mod casts;
mod checked;
mod checks;
pub(super) mod columns;
mod decodings;
mod following;
mod mix;
mod mixing;
mod null_masks;
mod options;
mod ordered;
mod patterns;
mod places;
mod plain;
mod projection;
mod renames;
pub(super) mod rewind;
mod samples;
mod selected;
mod settle;
mod start;
mod vectors;

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_store::catalog::RowId;

use super::dataset::Dataset;
use super::spec::LoaderSpec;
use crate::cache::{DiskCache, Tier};
use crate::column::{Decoder, Decoding};

/// The options of a [`Loader`](crate::Loader). [`Dataset::loader`] creates a builder with every option at its
/// default, and [`Loader::mix`](crate::Loader::mix) one of several sources.
///
/// ```no_run
/// use forebay::{Dataset, DiskCache, Image, OnBadRow, Shard, Shuffle};
///
/// let loader = Dataset::open("s3://acme/train/")?
///     .loader()
///     .columns(["image", "label"])
///     .decode("image", Image::random_resized_crop(224).flip())
///     .fill_null("label", -1.0)
///     .shuffle(Shuffle::seeded(17).lanes(8))
///     .shard(Shard::new(0, 8)?)
///     .batch_size(256)
///     .drop_last(true)
///     .epochs(90)
///     .memory(8 << 30)
///     .cache(DiskCache::open("/nvme/forebay", 500_000_000_000)?)
///     .on_bad_row(OnBadRow::skip(100))
///     .build()?;
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is read before build()"]
pub struct LoaderBuilder {
    /// What it reads; of a mix, what its first source reads.
    dataset: Dataset,
    /// The sources of a mix, and their weights.
    mixed: Vec<(LoaderBuilder, f64)>,
    spec: LoaderSpec,
    /// The user's decoders, which a spec cannot hold.
    decoders: Vec<(String, Arc<dyn Decoder>)>,
    /// How the schema beside the files has columns decoded of which the user does not say it, by the names
    /// that are delivered: known once the options are settled.
    decodings: BTreeMap<String, Decoding>,
    /// The cache of the spec, if it is open already.
    cache: Option<DiskCache>,
    /// The tier of the cache, which may be set later.
    tier: Tier,
    /// Whether batches say which rows of the data set they hold.
    numbered: bool,
    /// The rows to read, and no others.
    only: Option<Vec<RowId>>,
    /// Whether nothing will be read, so that it does not matter what is delivered.
    plan_only: bool,
    /// Which source of a mix it is.
    source: u64,
    /// Among how many sources of a mix the memory of the default window is divided.
    among: u64,
}

impl Dataset {
    /// A builder of a loader over this data set, with all options at their defaults.
    pub fn loader(&self) -> LoaderBuilder {
        LoaderBuilder::new(self.clone())
    }
}

impl LoaderBuilder {
    fn new(dataset: Dataset) -> Self {
        LoaderBuilder {
            dataset,
            mixed: Vec::new(),
            spec: LoaderSpec::default(),
            decoders: Vec::new(),
            decodings: BTreeMap::new(),
            cache: None,
            tier: Tier::default(),
            numbered: false,
            only: None,
            plan_only: false,
            source: 0,
            among: 1,
        }
    }

    /// Has each receipt say which rows of the data set its batch holds, for functions of one row in another language.
    pub fn numbered(mut self, numbered: bool) -> Self {
        self.numbered = numbered;
        self
    }

    /// For what the plan says alone: nothing will be read, and it does not matter which columns would be.
    pub(crate) fn plan_only(mut self) -> Self {
        self.plan_only = true;
        self
    }

    /// Reads these rows and no others.
    pub fn only_rows(mut self, ids: impl IntoIterator<Item = RowId>) -> Self {
        self.only = Some(ids.into_iter().collect());
        self
    }
}
