//! The options of a loader as one value. Rust, Python and the command-line program all fill it, and a loader
//! returns it.
//!
//! Each option is a field of [`LoaderSpec`]. The methods of the builder, the keywords of Python and the flags
//! of the program set these fields, and `build` reads them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use forebay_base::sizes;
use serde::{Deserialize, Serialize};

use super::bad_rows::OnBadRow;
use super::deny::Deny;
use crate::cache::Tier;
use crate::column::{ColumnSpec, Given, Stack, read_options, write_options};
use crate::reader::Filter;
use crate::samples::{RowCost, Samples};
use crate::shard::{OrderSpec, Shard, Shuffle, Split, Stop};

/// The options of a [`Loader`](crate::Loader), with the names that they have in Python.
///
/// [`LoaderBuilder`](crate::LoaderBuilder) sets them one by one, or all at once with
/// [`spec`](crate::LoaderBuilder::spec). [`Loader::spec`](crate::Loader::spec) returns them with the defaults
/// filled in. Options that are left out of a serialised spec have their defaults; an unknown name is refused.
///
/// In a [mix](crate::Loader::mix), each source has its own spec with the options that concern its data set,
/// and the spec of the loader has all other options.
///
/// ```
/// let text = r#"{
///     "batch_size": 64,
///     "memory": "4GiB",
///     "shuffle": {"seed": 17},
///     "cache": {"path": "/nvme", "max_bytes": "1TB"}
/// }"#;
/// let spec: forebay::LoaderSpec = serde_json::from_str(text)?;
/// assert_eq!((spec.batch_size, spec.memory), (64, Some(4 << 30)));
/// assert_eq!(spec.shuffle, forebay::Shuffle::seeded(17));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct LoaderSpec {
    /// The columns to read, in the order of delivery, or patterns of their names. Default: all.
    pub columns: Option<Vec<String>>,
    /// The structures whose fields are delivered as columns, or patterns of their names. Default: none.
    #[serde(skip_serializing_if = "Flatten::is_none")]
    pub flatten: Flatten,
    /// The delivered names of columns that are renamed, by their stored names, or by patterns with one `*`
    /// that the delivered name has too. Default: none.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub rename: BTreeMap<String, String>,
    /// The options of each column, by its delivered name or by a pattern of names. A serialised spec groups
    /// them by option, under the options' names in Python.
    #[serde(flatten, deserialize_with = "read_options", serialize_with = "write_options")]
    pub by_column: BTreeMap<String, ColumnSpec>,
    /// The stacks: groups of columns that are delivered as one column with this name, after all other
    /// columns. Default: none.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub stack: BTreeMap<String, Stack>,
    /// The columns, or patterns of their names, for which a second column is delivered: a mask that says
    /// which values are not null. Default: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub null_mask: Vec<String>,
    /// Whether batches have a column `row_id` with the id of each row, which is the same in every run.
    /// Default: false.
    #[serde(skip_serializing_if = "is_false")]
    pub row_id: bool,
    /// Whether batches have a column `row_mask`, which is false for repeated rows. Default: false.
    #[serde(skip_serializing_if = "is_false")]
    pub row_mask: bool,
    /// The rows to read. Default: all.
    pub filter: Option<Filter>,
    /// Rows that are left out of every epoch. Default: none.
    #[serde(skip_serializing_if = "Deny::is_empty")]
    pub deny: Deny,
    /// Rows that are no longer delivered once the run reaches a step: pairs of a step and the rows that are
    /// denied from then on. The order of all other rows stays the same. Default: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny_from: Vec<(u64, Deny)>,
    /// Ranges of steps that are skipped, each as its first step and the step after its last. Steps are
    /// counted through all epochs. Default: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skip_steps: Vec<(u64, u64)>,
    /// The definition of a sample. Default: a row.
    #[serde(skip_serializing_if = "Samples::are_rows")]
    pub samples: Samples,
    /// The number of this process, and the number of processes that share the rows. Default: one process that
    /// gets all rows.
    pub shard: Shard,
    /// The order of rows. Default: as stored.
    pub shuffle: Shuffle,
    /// Up to four costs of a row. In each step, the batches of all ranks then cost about the same by each of
    /// them. Default: none; costs are ignored.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub balance: Vec<RowCost>,
    /// The number of samples in a batch of one rank; a sample is a row by default. Default:
    /// [`BATCH_SIZE`](Self::BATCH_SIZE), 32.
    pub batch_size: u64,
    /// The number of rows in a step over all ranks, used instead of `batch_size`. The batches of the ranks
    /// then differ by at most one row, and `batch_size` becomes the most rows that one rank gets. Default:
    /// `batch_size` rows for each rank.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub global_batch_size: Option<u64>,
    /// Whether the last rows of an epoch are left out if they do not fill a batch on every rank. Default:
    /// false; the last batch is shorter.
    pub drop_last: bool,
    /// The number of epochs of the run. Default: unknown.
    pub epochs: Option<u64>,
    /// The budget in bytes for all requests, row groups and batches in memory; written as a number or as
    /// `"4GiB"`. Default: 4 GiB, or half of the memory of the machine or container if that is less.
    #[serde(deserialize_with = "sizes::deserialize_optional")]
    pub memory: Option<u64>,
    /// The number of threads that decode. Default: the processors that this process may use.
    pub threads: Option<usize>,
    /// The policy for rows that cannot be delivered. Default: raise.
    pub on_bad_row: OnBadRow,
    /// The cache of decoded rows on local disk. Default: none.
    pub cache: Option<CacheSpec>,
    /// The file to which a timeline of the loader's work is written. Default: none.
    pub trace: Option<PathBuf>,
    /// In a mix, changes of the sources' weights during the run. Each entry has the step from which it
    /// applies, and one weight for each source. Default: the weights never change.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub schedule: Vec<(u64, Vec<f64>)>,
    /// In a mix, the cost by which weights count, such as tokens: one for all sources, or one for each.
    /// Default: none; weights count samples.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub by: Vec<RowCost>,
    /// In a mix, the seed with which the source of each row is drawn at random. Default: sources are not
    /// drawn; each step has the exact share of each source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub random_shares: Option<u64>,
    /// The condition that ends an epoch of a mix. Default: the epoch ends with the first source that ends.
    #[serde(skip_serializing_if = "is_default")]
    pub stop: Stop,
    /// Whether a source of a mix starts over if it ends before the epoch does. Default: true.
    #[serde(skip_serializing_if = "is_true")]
    pub repeat: bool,
    /// In a mix whose epochs end with the last source, the most passes over each source in an epoch; `None`
    /// for a source without a limit. Default: no limits.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub max_passes: Vec<Option<u64>>,
    /// Whether batches of a mix have a column `source` with the number of the source of each row. Default:
    /// false.
    #[serde(skip_serializing_if = "is_false")]
    pub source: bool,
}

/// The cache of a [`LoaderSpec`]: a folder, and the way it is used.
///
/// ```
/// use forebay::{CacheSpec, LoaderSpec, Tier};
///
/// let mut cache = CacheSpec::new("/nvme/forebay", 200_000_000_000);
/// cache.tier = Tier::Pixels;
/// let mut spec = LoaderSpec::default();
/// spec.cache = Some(cache);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct CacheSpec {
    /// The folder; several loaders and processes may share it.
    pub path: PathBuf,
    /// The most bytes that the folder may hold; written as a number or as `"200GB"`.
    #[serde(deserialize_with = "sizes::deserialize")]
    pub max_bytes: u64,
    /// The form in which images are kept. Default: [`Tier::Auto`].
    #[serde(default)]
    pub tier: Tier,
}

/// The structures whose fields are delivered as columns.
///
/// ```
/// use forebay::Flatten;
///
/// assert_eq!(Flatten::from(true), Flatten::All(true));
/// assert_eq!(Flatten::from(["meta"]), Flatten::Columns(vec!["meta".to_owned()]));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Flatten {
    /// Flattens all structures that are read if true, and none if false.
    All(bool),
    /// Flattens the structures in these columns.
    Columns(Vec<String>),
}

impl Flatten {
    fn is_none(&self) -> bool {
        matches!(self, Flatten::All(false)) || matches!(self, Flatten::Columns(names) if names.is_empty())
    }
}

impl Default for Flatten {
    fn default() -> Self {
        Flatten::All(false)
    }
}

impl From<bool> for Flatten {
    fn from(all: bool) -> Self {
        Flatten::All(all)
    }
}

impl From<Vec<String>> for Flatten {
    fn from(columns: Vec<String>) -> Self {
        Flatten::Columns(columns)
    }
}

impl<S: Into<String>, const N: usize> From<[S; N]> for Flatten {
    fn from(columns: [S; N]) -> Self {
        Flatten::Columns(columns.into_iter().map(Into::into).collect())
    }
}

fn is_false(flag: &bool) -> bool {
    !flag
}

fn is_true(flag: &bool) -> bool {
    *flag
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl LoaderSpec {
    /// The default number of rows in a batch, in Rust, in Python and in the command-line program.
    pub const BATCH_SIZE: u64 = 32;
    /// The largest allowed value of [`threads`](Self::threads). No machine has more processors, so more
    /// threads would only cost memory.
    pub const MAX_THREADS: usize = 1024;

    /// Returns the options of a column, or of the columns that a pattern matches, to be changed.
    pub fn column(&mut self, name: impl Into<String>) -> &mut ColumnSpec {
        self.by_column.entry(name.into()).or_default()
    }

    /// The stored name of the column that is delivered under the name `name`.
    pub(super) fn stored_name<'a>(&'a self, name: &'a str) -> &'a str {
        let renamed = self.rename.iter().find(|(_, new)| *new == name);
        renamed.map_or(name, |(stored, _)| stored)
    }

    /// The columns, or patterns of their names, for which an option is set, with its value.
    pub(super) fn with_option<'a, V>(
        &'a self,
        option: fn(&'a ColumnSpec) -> Option<&'a V>,
    ) -> impl Iterator<Item = (&'a str, &'a V)> {
        self.by_column.iter().filter_map(move |(name, column)| Some((name.as_str(), option(column)?)))
    }

    /// All options that are set for columns or patterns, each with the column's name or the pattern, grouped
    /// by option.
    pub(super) fn options_of_columns(&self) -> Vec<(&str, Given<'_>)> {
        let columns = self.by_column.iter();
        let given =
            columns.flat_map(|(name, column)| column.given().into_iter().map(|given| (name.as_str(), given)));
        let mut given: Vec<_> = given.collect();
        given.sort_by_key(|(_, given)| given.place);
        given
    }

    /// The most rows that a batch of one rank may have.
    pub(super) fn most_of_a_rank(&self) -> u64 {
        self.global_batch_size.map_or(self.batch_size, |rows| rows.div_ceil(self.shard.world().into()))
    }

    /// The number of rows in a full step, over all ranks.
    pub(super) fn global_batch(&self) -> u64 {
        self.global_batch_size.unwrap_or_else(|| self.batch_size.saturating_mul(self.shard.world().into()))
    }

    /// How the ranks share the samples of an order.
    pub(super) fn split(&self, samples: u64, order: &OrderSpec) -> Split {
        Split {
            rows: samples,
            lanes: order.lanes(),
            shard: self.shard,
            global_batch: self.global_batch(),
            drop_last: self.drop_last,
        }
    }
}

impl Default for LoaderSpec {
    fn default() -> Self {
        LoaderSpec {
            columns: None,
            flatten: Flatten::default(),
            rename: BTreeMap::new(),
            by_column: BTreeMap::new(),
            stack: BTreeMap::new(),
            null_mask: Vec::new(),
            row_id: false,
            row_mask: false,
            filter: None,
            deny: Deny::default(),
            deny_from: Vec::new(),
            skip_steps: Vec::new(),
            samples: Samples::default(),
            shard: Shard::default(),
            shuffle: Shuffle::default(),
            balance: Vec::new(),
            batch_size: LoaderSpec::BATCH_SIZE,
            global_batch_size: None,
            drop_last: false,
            epochs: None,
            memory: None,
            threads: None,
            on_bad_row: OnBadRow::default(),
            cache: None,
            trace: None,
            schedule: Vec::new(),
            by: Vec::new(),
            random_shares: None,
            stop: Stop::default(),
            repeat: true,
            max_passes: Vec::new(),
            source: false,
        }
    }
}

impl CacheSpec {
    /// Describes a cache in the folder `path` of up to `max_bytes` bytes, with the default tier.
    pub fn new(path: impl Into<PathBuf>, max_bytes: u64) -> Self {
        CacheSpec { path: path.into(), max_bytes, tier: Tier::default() }
    }
}

#[cfg(test)]
mod tests {
    use forebay_arrow::datatypes::DataType;
    use forebay_image::Image;
    use forebay_store::catalog::RowId;

    use super::*;
    use crate::column::{
        BoxFormat, Boxes, Encoding, Fill, Keypoints, Mask, Pad, Tensor, TextFormat, Vocabulary,
    };
    use crate::samples::Window;

    fn read(text: &str) -> Result<LoaderSpec, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn a_spec_is_read_as_it_was_written() {
        let mut spec = LoaderSpec::default();
        assert_eq!(read("{}").unwrap(), spec);
        spec.columns = Some(vec!["image".into(), "label".into()]);
        spec.flatten = ["meta"].into();
        spec.rename.insert("img".into(), "image".into());
        spec.column("x*").cast = Some(DataType::Float16.into());
        spec.column("flag").cast = Some(DataType::Boolean.into());
        spec.column("image").decode = Some(Image::random_resized_crop(224).flip());
        let boxes = Boxes::following("image").format(BoxFormat::Xywh).min_visible(0.1).along(["label"]);
        spec.column("boxes").follow = Some(boxes.into());
        spec.column("joints").follow = Some(Keypoints::following("image").numbers(3).into());
        spec.column("mask").follow = Some(Mask::following("image").into());
        spec.column("matrix").tensors = Some(Tensor::new(DataType::Float32, [2, 3]).big_endian());
        spec.column("caption").texts = Some(TextFormat::Plain);
        spec.column("meta").texts = Some(TextFormat::Json);
        spec.column("city").encode = Some(Vocabulary::texts(["Berlin", "Paris"]).with_unknown().into());
        spec.column("number").encode = Some(Vocabulary::numbers([i64::MIN, 7]).into());
        spec.column("bytes").encode = Some(Vocabulary::bytes([[0, 255]]).with_null().into());
        spec.column("empty").encode = Some(Vocabulary::empty().with_unknown().into());
        spec.column("item").encode = Some(Encoding::hash(7).with_null());
        spec.column("user").encode = Some(Encoding::hash_seeded(1000, u64::MAX));
        spec.column("tokens").pad = Some(Pad::new(2_048).value(-1.0).truncate(true).mask(true));
        let fills = [
            ("number", Fill::from(0.1)),
            ("infinite", f64::NEG_INFINITY.into()),
            ("text", "é".into()),
            ("bytes", vec![0, 255].into()),
        ];
        for (name, fill) in fills {
            spec.column(name).fill_null = Some(fill);
        }
        spec.null_mask = vec!["text".into(), "number*".into()];
        (spec.row_id, spec.row_mask) = (true, true);
        spec.deny = Deny::rows([RowId::new(3)]).and(Deny::values("url", ["a"]));
        spec.skip_steps = vec![(4_000, 4_010)];
        spec.samples = Window::rows(4).by("time").gap(0.5).into();
        spec.shard = Shard::new(3, 8).unwrap();
        spec.shuffle = Shuffle::exact(u64::MAX).lanes(16);
        (spec.batch_size, spec.drop_last, spec.epochs) = (64, true, Some(90));
        (spec.memory, spec.threads) = (Some(4 << 30), Some(8));
        spec.on_bad_row = OnBadRow::skip(3);
        spec.cache = Some(CacheSpec { tier: Tier::Pixels, ..CacheSpec::new("/nvme", 1 << 40) });
        spec.trace = Some("trace.json".into());
        let text = serde_json::to_string(&spec).unwrap();
        assert_eq!(read(&text).unwrap(), spec, "{text}");
    }

    #[test]
    fn options_are_written_as_people_write_them() {
        let spec =
            read(r#"{"memory": "4g", "on_bad_row": "raise", "fill_null": {"x": 0, "s": ""}}"#).unwrap();
        assert_eq!((spec.memory, spec.on_bad_row), (Some(4_000_000_000), OnBadRow::Raise));
        assert_eq!(spec.by_column["x"].fill_null, Some(Fill::from(0.0)));
        assert_eq!(read(r#"{"flatten": true}"#).unwrap().flatten, Flatten::All(true));
        let shuffle = |text: &str| read(&format!(r#"{{"shuffle": {text}}}"#)).unwrap().shuffle;
        assert_eq!(shuffle(r#"{"seed": 17, "window_rows": 5}"#), Shuffle::seeded(17).window_rows(5));
        assert_eq!(shuffle(r#"{"mixing": "exact", "seed": 17}"#), Shuffle::exact(17));
        assert_eq!(shuffle(r#"{"mixing": "stored"}"#), Shuffle::stored());
    }

    #[test]
    fn what_is_said_of_columns_is_written_option_by_option() {
        let mut spec = LoaderSpec::default();
        let written = |spec: &LoaderSpec| serde_json::to_string(spec).unwrap();
        assert!(written(&spec).starts_with(r#"{"columns":null,"decode":{},"fill_null":{},"filter":null,"#));
        spec.rename.insert("b".into(), "x".into());
        spec.column("x").fill_null = Some(1.0.into());
        spec.column("x").cast = Some(DataType::Float16.into());
        spec.column("t").pad = Some(Pad::new(3));
        spec.column("a").texts = Some(TextFormat::Json);
        spec.column("a").fill_null = Some("{}".into());
        spec.null_mask = vec!["x".into()];
        let options = concat!(
            r#"{"columns":null,"rename":{"b":"x"},"cast":{"x":"float16"},"decode":{},"texts":{"a":"json"},"#,
            r#""pad":{"t":{"length":3,"value":0.0,"truncate":false,"mask":false}},"fill_null":{"a":"{}","x":1.0},"#,
            r#""null_mask":["x"],"filter":null,"#,
        );
        let text = written(&spec);
        assert!(text.starts_with(options), "{text}");
    }

    #[test]
    fn a_spec_that_cannot_be_meant_is_refused() {
        for (text, said) in [
            (r#"{"batchsize": 64}"#, "batchsize"),
            (r#"{"memory": "much"}"#, "not a size"),
            (r#"{"memory": -1}"#, "a size"),
            (r#"{"flatten": 1}"#, "Flatten"),
            (r#"{"cast": {"x": "float33"}}"#, "not one of bool, int8"),
            (r#"{"shard": {"rank": 8, "world": 8}}"#, "outside a world"),
            (r#"{"shuffle": {"seed": 1, "mixing": "some"}}"#, "some"),
            (r#"{"fill_null": {"x": {"number": "much"}}}"#, "much"),
            (r#"{"pad": {"t": {"length": -1}}}"#, r#"pad["t"]: invalid value"#),
            (r#"{"pad": 3}"#, "a value of `pad` for each column"),
            (r#"{"cache": {"path": "/nvme"}}"#, "max_bytes"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
