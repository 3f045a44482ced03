//! Builds a loader: checks the user's options, and fills in the options that the user left open.

mod after;
mod casts;
mod checked;
mod checks;
pub(super) mod columns;
mod costs;
mod decodings;
mod following;
mod mix;
mod mixing;
mod names;
mod null_masks;
mod options;
mod ordered;
mod patterns;
mod places;
mod plain;
mod projection;
mod read_again;
mod renames;
pub(super) mod rewind;
mod samples;
mod selected;
mod settle;
mod stacks;
mod start;
mod trial;
mod vectors;
mod views;

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_store::catalog::RowId;

use super::dataset::Dataset;
use super::spec::LoaderSpec;
use crate::cache::{DiskCache, Tier};
use crate::column::{Decoder, Decoding};
use crate::samples::RowCost;
use crate::shard::Position;

/// The options of a [`Loader`](crate::Loader). [`Dataset::loader`] creates a builder with every option at its
/// default, and [`Loader::mix`](crate::Loader::mix) creates one for several sources.
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
    /// The data set to read; in a mix, the data set of the first source.
    dataset: Dataset,
    /// The sources of a mix, with their weights.
    mixed: Vec<(LoaderBuilder, f64)>,
    spec: LoaderSpec,
    /// The user's decoders by column, which a spec cannot hold.
    decoders: Vec<(String, Arc<dyn Decoder>)>,
    /// The decodings that a schema of Petastorm beside the files gives, by the delivered names of columns. It
    /// covers only columns about which the user says nothing. Empty before the schema is read.
    decodings: BTreeMap<String, Decoding>,
    /// The cache that the spec describes, if it is open already.
    cache: Option<DiskCache>,
    /// The tier of the cache. It is kept here because the user may set it before the cache.
    tier: Tier,
    /// Whether the receipt of a batch says which rows of the data set the batch holds.
    numbered: bool,
    /// The only rows to read, if the user listed them.
    only: Option<Vec<RowId>>,
    /// The position (the beginning of an epoch of another loader) after which this loader continues.
    after: Option<Arc<Position>>,
    /// Whether only the plan is wanted. Nothing is read then, so the delivered columns do not matter.
    plan_only: bool,
    /// The index of this source in its mix; 0 without a mix.
    source: u64,
    /// The number of sources in the mix, which share the memory of the default window; 1 without a mix.
    among: u64,
    /// The cost by which the mix weighs this source.
    weighed_by: Option<RowCost>,
}

impl Dataset {
    /// Creates a builder of a loader over this data set, with all options at their defaults.
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
            after: None,
            plan_only: false,
            source: 0,
            among: 1,
            weighed_by: None,
        }
    }

    /// Makes the receipt of each batch say which rows of the data set the batch holds. Bindings to other
    /// languages need this for user functions that take single rows.
    pub fn numbered(mut self, numbered: bool) -> Self {
        self.numbered = numbered;
        self
    }

    /// Makes the loader serve only for its plan. Nothing is read then, so the delivered columns do not
    /// matter.
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
