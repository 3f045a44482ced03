//! The data set that a user opens: its files, row groups and columns, and the store that holds the bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::ready;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Instant, SystemTime};

use bytes::Bytes;
use forebay_arrow::datatypes::{DataType, SchemaRef};
use forebay_base::{Error, ErrorKind, Result, paths};
use forebay_petastorm::Unischema;
use forebay_store::catalog::{Catalog, Differences, Projection, RowId, RowPlace};
use forebay_store::snapshot::{AsOf, TableVersion, WantedVersions};
use forebay_store::source::{
    self, FOOTERS_AT_ONCE, FileFilter, Footers, HubPart, IndexReport, KeyTypes, Opening, Store, TrafficStats,
};
use futures::{FutureExt, StreamExt, stream};
use object_store::ObjectStore;
use parquet::file::metadata::ParquetMetaData;

use super::stats::StageStats;
use super::threads::{IoRuntime, Process};
use crate::monitor::Watch;
use crate::reader::Filter;
use crate::reader::budget::Budget;
use crate::reader::fetch::{Fetched, Fetcher, Gauge};
use crate::reader::reads::Reads;
use crate::shard::{CountedFile, Part, SavedFiles};

/// A Parquet data set whose files have been found and whose footers have been read.
///
/// Cheap to clone. Loaders for training and for validation can share one, so that footers are read once.
///
/// ```no_run
/// use forebay::{Dataset, Shuffle};
///
/// let dataset = Dataset::open("data/train/")?;
/// println!("{} rows of {}", dataset.rows(), dataset.schema());
/// let loader = dataset.loader().shuffle(Shuffle::seeded(17)).batch_size(256).build()?;
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Clone)]
pub struct Dataset {
    store: Store,
    pub(super) catalog: Arc<Catalog>,
    /// The runtime that holds the stores' connections; `None` after it was released.
    io: Arc<Mutex<Option<Arc<IoRuntime>>>>,
    /// The process that opened the data set.
    process: Process,
    /// The schema that Petastorm wrote beside the files; empty until it is looked for, `None` if there is
    /// none.
    pub(super) petastorm: Arc<OnceLock<Option<Arc<Unischema>>>>,
    /// The time, files and bytes that opening the data set took.
    pub(super) opened: StageStats,
    /// The locations and options with which the data set was opened, to open it again at newer versions;
    /// `None` for a store of the user's own.
    origin: Option<Arc<DatasetOrigin>>,
}

/// The argument of [`Dataset::open`]: one location or several, as text or as paths.
///
/// ```
/// use std::path::PathBuf;
///
/// # use forebay::{Dataset, Locations, Result};
/// # fn open(_: impl Locations) {}
/// open("s3://acme/train/");
/// open(PathBuf::from("/data/train"));
/// open(["train-a/", "train-b/*.parquet"]);
/// open(vec![PathBuf::from("a.parquet"), PathBuf::from("b.parquet")]);
/// ```
pub trait Locations {
    /// The locations as text.
    ///
    /// # Errors
    /// `Invalid` for a path that is not valid UTF-8: the names of files identify a data set, so such a name
    /// is refused instead of altered.
    fn into_locations(self) -> Result<Vec<String>>;
}

impl Locations for &str {
    fn into_locations(self) -> Result<Vec<String>> {
        Ok(vec![self.to_owned()])
    }
}

impl Locations for &String {
    fn into_locations(self) -> Result<Vec<String>> {
        Ok(vec![self.clone()])
    }
}

impl Locations for String {
    fn into_locations(self) -> Result<Vec<String>> {
        Ok(vec![self])
    }
}

impl Locations for &Path {
    fn into_locations(self) -> Result<Vec<String>> {
        Ok(vec![paths::text(self)?.to_owned()])
    }
}

impl Locations for &PathBuf {
    fn into_locations(self) -> Result<Vec<String>> {
        self.as_path().into_locations()
    }
}

impl Locations for PathBuf {
    fn into_locations(self) -> Result<Vec<String>> {
        self.as_path().into_locations()
    }
}

impl<L: Locations> Locations for Vec<L> {
    fn into_locations(self) -> Result<Vec<String>> {
        all(self)
    }
}

impl<L: Locations, const N: usize> Locations for [L; N] {
    fn into_locations(self) -> Result<Vec<String>> {
        all(self)
    }
}

impl<L: Locations + Clone> Locations for &[L] {
    fn into_locations(self) -> Result<Vec<String>> {
        all(self.iter().cloned())
    }
}

fn all(locations: impl IntoIterator<Item = impl Locations>) -> Result<Vec<String>> {
    let each = locations.into_iter().map(Locations::into_locations);
    Ok(each.collect::<Result<Vec<_>>>()?.concat())
}

/// Options for opening a data set, if the defaults of [`Dataset::open`] do not fit.
///
/// ```no_run
/// use forebay::OpenOptions;
/// use forebay::filter::col;
///
/// let recent = col("day").gt_eq("2024-05-01");
/// let dataset = OpenOptions::new().folders(recent.clone()).merge_schema(true).open("s3://acme/clicks/")?;
/// let loader = dataset.loader().filter(recent).build()?;
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "nothing is read before open()"]
pub struct OpenOptions {
    storage: BTreeMap<String, String>,
    folders: Option<Filter>,
    differences: Differences,
    partition_types: BTreeMap<String, DataType>,
    index: Option<Bytes>,
    hands_on: bool,
    versions: WantedVersions,
    part: HubPart,
    files: Option<BTreeSet<String>>,
}

impl OpenOptions {
    /// All options at their defaults.
    pub fn new() -> Self {
        OpenOptions::default()
    }

    /// Credentials and settings of the stores, by the names that `object_store` gives them. Default: those of
    /// the environment.
    pub fn storage_options(mut self, options: BTreeMap<String, String>) -> Self {
        self.storage = options;
        self
    }

    /// Opens only the files in which a filter can match rows, according to the keys of `key=value` folders
    /// and, in a table, the statistics of its log; the footers of the others are not read. The data set
    /// consists of these files, exactly as a loader with this filter sees it. The loader needs the filter
    /// too, to select rows. Default: all files.
    pub fn folders(mut self, filter: impl Into<Filter>) -> Self {
        self.folders = Some(filter.into());
        self
    }

    /// Accepts files whose columns differ. A column that a file lacks is null in its rows, and values are
    /// read as the narrowest type that holds those of all files, such as 64-bit integers for columns of 32
    /// and 64 bits. The columns of the first file come first. Default: false; a loader then refuses to read a
    /// column that differs between files in more than its encoding.
    pub fn merge_schema(mut self, merge: bool) -> Self {
        self.differences = if merge { Differences::Merged } else { Differences::Refused };
        self
    }

    /// The type of the column for a key of `key=value` folders: text, integers, 32-bit or 64-bit floats,
    /// booleans, dates, or times in microseconds without a zone. Default: 64-bit integers if all values of
    /// the key are whole numbers, else text.
    pub fn partition_type(mut self, key: impl Into<String>, data_type: DataType) -> Self {
        self.partition_types.insert(key.into(), data_type);
        self
    }

    /// Opens only the files of this split, such as `train`, if the location is a folder that is laid out like
    /// a data set of the Hugging Face hub. The front matter of its `README.md` may list the files of each
    /// split. Otherwise names decide: `train-00000-of-00005.parquet` before folders `train/` before words
    /// such as `my-train.parquet`; a folder without such names is the split `train`. Default: the files of
    /// all splits.
    ///
    /// ```no_run
    /// let photos = forebay::OpenOptions::new().split("train").open("hf://datasets/uoft-cs/cifar10")?;
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn split(mut self, split: impl Into<String>) -> Self {
        self.part.split = Some(split.into());
        self
    }

    /// Opens only the files of this configuration of a data set that is laid out as on the Hugging Face hub.
    /// The `README.md` of its folder lists the configurations; otherwise each is a folder. Default: the
    /// default configuration of the `README.md` or its only one, if [`split`](Self::split) is given; else all
    /// files.
    pub fn config(mut self, config: impl Into<String>) -> Self {
        self.part.config = Some(config.into());
        self
    }

    /// Opens only these files of the location, by their paths relative to it, such as those that
    /// [`Dataset::earlier_files`] returns. Default: all files.
    pub fn files<S: Into<String>>(mut self, paths: impl IntoIterator<Item = S>) -> Self {
        self.files = Some(paths.into_iter().map(Into::into).collect());
        self
    }

    /// The version to open, if the location is a table; for an Iceberg table, the id of a snapshot. Default:
    /// the newest.
    pub fn version(mut self, version: u64) -> Self {
        self.versions.as_of = AsOf::Version(version);
        self
    }

    /// The version of each table, if there are several. Locations are written as in [`Dataset::tables`]; a
    /// table that is not listed gets the version that the other options name. Default: none.
    pub fn versions(mut self, by_location: BTreeMap<String, u64>) -> Self {
        let version = |(location, version)| (location, AsOf::Version(version));
        self.versions.by_location = by_location.into_iter().map(version).collect();
        self
    }

    /// The version of each table as text, such as a number, a name or a time, if there are several.
    #[doc(hidden)]
    pub fn opened_as(mut self, by_location: BTreeMap<String, String>) -> Self {
        let version = |(location, text): (String, String)| (location, AsOf::version(&text));
        self.versions.by_location = by_location.into_iter().map(version).collect();
        self
    }

    /// The branch or tag of an Iceberg table to open, such as `main`.
    pub fn reference(mut self, name: &str) -> Self {
        self.versions.as_of = AsOf::Named(name.into());
        self
    }

    /// The version of the table as a user writes it: `version` is its number or name, and `time` a moment at
    /// which it was the newest. At most one of the two may be given.
    ///
    /// # Errors
    /// `Invalid` for both together, and for a text that does not name a time.
    #[doc(hidden)]
    pub fn as_of(mut self, version: Option<&str>, time: Option<&str>) -> Result<Self> {
        self.versions.as_of = AsOf::parse(version, time)?;
        Ok(self)
    }

    /// Opens the version of the table that was the newest at this time.
    ///
    /// ```no_run
    /// use std::time::{Duration, SystemTime};
    ///
    /// let yesterday = SystemTime::now() - Duration::from_secs(24 * 60 * 60);
    /// let dataset = forebay::OpenOptions::new().timestamp(yesterday).open("s3://acme/clicks/")?;
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn timestamp(mut self, time: SystemTime) -> Self {
        self.versions.as_of = AsOf::time(time);
        self
    }

    /// Uses footers that another process has read already: `bytes` is the result of its [`Dataset::index`].
    /// The files are listed as usual, but a footer in `bytes` is not read again if the address, size and
    /// version of its file match. Default: none.
    pub fn index(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.index = Some(bytes.into().into());
        self
    }

    /// Keeps the footers, when they are read, in the compact form that [`Dataset::index`] returns, so that
    /// `index` does not read them again. Default: false; `index` then uses the footers that are kept for
    /// other reasons, and reads the rest again.
    pub fn hand_on(mut self, hands_on: bool) -> Self {
        self.hands_on = hands_on;
        self
    }

    /// Finds the files and reads their footers, like [`Dataset::open`].
    ///
    /// # Errors
    /// The errors of [`Dataset::open`]; also `Invalid` for a storage option that the store does not know, if
    /// no file is left, and for keys that do not exist or have values of another type than declared;
    /// `Corrupt` for an [index](Self::index) that is damaged.
    pub fn open(self, locations: impl Locations) -> Result<Dataset> {
        let locations = locations.into_locations()?;
        if locations.is_empty() {
            return Err(Error::invalid("the list of locations is empty").hint("give a path, a URL or a glob"));
        }
        let origin = DatasetOrigin {
            locations: locations.clone(),
            options: OpenOptions { index: None, hands_on: false, ..self.clone() },
        };
        let OpenOptions {
            storage,
            folders: filter,
            differences,
            partition_types,
            index,
            hands_on,
            versions,
            part,
            files,
        } = self;
        let key_types = KeyTypes::new(partition_types)?;
        let filter = filter.map(|filter| FileFilter {
            columns: filter.columns(),
            keeps: Box::new(move |listed| filter.keeps(listed)),
        });
        let opening =
            Opening { filter, differences, key_types, index, is_packed: hands_on, versions, part, files };
        let opened = Dataset::opened(async move { source::open_with(&locations, &storage, opening).await })?;
        Ok(Dataset { origin: Some(Arc::new(origin)), ..opened })
    }
}

/// The files of a data set in the form in which positions are compared: each with its relative path and a
/// hash of its content.
pub(super) fn counted_files(catalog: &Catalog) -> impl Iterator<Item = CountedFile<'_>> {
    catalog.files.iter().map(|file| CountedFile { path: &file.relative, content: file.content_hash() })
}

/// The locations and options that opened a data set.
struct DatasetOrigin {
    locations: Vec<String>,
    options: OpenOptions,
}

impl Dataset {
    /// Finds the files of a path, URL or glob, or of a list of them, and reads their footers.
    ///
    /// A folder is searched at every depth for `*.parquet`; names that begin with `_` or `.` are skipped.
    /// `~/` is the user's home folder. The files are ordered by their paths, whatever the order of the
    /// locations. The keys of `key=value` folders below a location are columns, unless the files hold columns
    /// of those names. The folder of a Delta or Iceberg table is opened as that table at its newest version;
    /// a metadata file of an Iceberg table opens the table too.
    ///
    /// # Errors
    /// `NotFound` if nothing matches; `Invalid` for a malformed location or a path that is not valid UTF-8;
    /// `Denied`; `Unsupported` for an encrypted file, the folder of a Hudi or Lance table, one above or
    /// inside a table, and a table with features that are not supported; `Corrupt` for a file that is damaged
    /// or not Parquet; `Io` for a store that cannot be reached.
    pub fn open(locations: impl Locations) -> Result<Self> {
        Dataset::open_with_options(locations, &BTreeMap::new())
    }

    /// Opens a data set like [`open`](Self::open), with options for the stores: credentials and settings, by
    /// the names that `object_store` gives them.
    ///
    /// ```no_run
    /// use std::collections::BTreeMap;
    ///
    /// let options = BTreeMap::from([("region".to_owned(), "eu-central-1".to_owned())]);
    /// let dataset = forebay::Dataset::open_with_options("s3://acme/train/", &options)?;
    /// # Ok::<(), forebay::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`open`](Self::open); also `Invalid` for an option that the store does not know.
    pub fn open_with_options(locations: impl Locations, options: &BTreeMap<String, String>) -> Result<Self> {
        OpenOptions::new().storage_options(options.clone()).open(locations)
    }

    /// Opens a data set like [`open`](Self::open), in any store of the `object_store` crate. `prefix` is a
    /// folder, the path of a file, or a glob within it.
    ///
    /// ```no_run
    /// use std::sync::Arc;
    ///
    /// use forebay::Dataset;
    /// use forebay::object_store::memory::InMemory;
    ///
    /// let dataset = Dataset::from_store(Arc::new(InMemory::new()), "imagenet/train")?;
    /// # Ok::<(), forebay::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`open`](Self::open).
    pub fn from_store(store: Arc<dyn ObjectStore>, prefix: &str) -> Result<Self> {
        let prefix = prefix.to_string();
        Dataset::opened(async move { source::from_store(store, &prefix).await })
    }

    fn opened(opening: impl Future<Output = Result<(Store, Catalog)>> + Send + 'static) -> Result<Self> {
        let io = IoRuntime::start()?;
        let began = Instant::now();
        let (store, catalog) = io.wait_for(opening)??;
        let opened = StageStats {
            items: catalog.files.len() as u64,
            bytes: store.traffic().bytes_needed,
            working: began.elapsed().as_secs_f64(),
            ..StageStats::default()
        };
        let process = io.process();
        Ok(Dataset {
            store,
            catalog: Arc::new(catalog),
            io: Arc::new(Mutex::new(Some(io))),
            process,
            petastorm: Arc::default(),
            opened,
            origin: None,
        })
    }

    /// Closes the data set's connections and ends its threads as soon as no loader uses them. A loader that
    /// is built later opens new ones.
    pub fn release(&self) {
        // In a forked child, the threads belong to the parent, and one of them may hold the lock for ever.
        if self.process.check().is_ok() {
            let io = self.io.lock().unwrap_or_else(PoisonError::into_inner).take();
            drop(io);
        }
    }

    /// The I/O threads and the store for use in this process. A forked child cannot use its parent's, so it
    /// gets new ones.
    pub(super) fn here(&self) -> Result<(Arc<IoRuntime>, Store)> {
        if self.process.check().is_ok() {
            let io = self.io.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some(io) = io {
                return Ok((io, self.store.clone()));
            }
        }
        let (io, store) = (IoRuntime::start()?, self.store.clone());
        let store = io.wait_for(async move { store.connect_again() })??;
        Ok((io, store))
    }

    /// The number of rows in all files, without those that a table has deleted.
    pub fn rows(&self) -> u64 {
        self.catalog.live_rows()
    }

    /// All stored columns, with the metadata of the first file if its footer was read when the data set was
    /// opened. Text and binary columns have Arrow's view types, and dictionaries the type of their values;
    /// [`Loader::schema`](super::Loader::schema) has the columns that a loader delivers.
    pub fn schema(&self) -> SchemaRef {
        self.catalog.schema.clone()
    }

    /// The place where a row is stored; `None` for an id that belongs to no row of this data set. For a table
    /// that tracks row ids, the first call reads the ids from its files.
    ///
    /// # Errors
    /// A file of such a table cannot be read, or two of its rows have one id.
    pub fn row(&self, id: RowId) -> Result<Option<RowPlace>> {
        if !self.catalog.has_row_ids() {
            let (io, store) = self.here()?;
            read_row_ids(&io, &store, &self.catalog)?;
        }
        let found = self.catalog.find_row(id);
        Ok(found.map(|(group, row)| self.catalog.row_place(group, row)))
    }

    /// Whether some files store the ids of their rows. Such ids need not be consecutive.
    ///
    /// # Errors
    /// The errors of [`row`](Self::row).
    #[doc(hidden)]
    pub fn stores_row_ids(&self) -> Result<bool> {
        self.row(RowId::new(0))?;
        Ok(self.catalog.stores_row_ids())
    }

    /// The files, row groups and columns of the data set.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Reads the footer of each file, in the order of the files, and calls `add` with `sum`, the catalog, the
    /// index of the file and its footer. Returns the final `sum`.
    ///
    /// # Errors
    /// A file has changed, no longer exists, or cannot be read.
    pub fn fold_footers<T: Send + 'static>(
        &self,
        mut sum: T,
        add: impl Fn(&mut T, &Catalog, usize, &ParquetMetaData) + Send + Sync + 'static,
    ) -> Result<T> {
        let (io, store) = self.here()?;
        let catalog = self.catalog.clone();
        let reading = async move {
            let footers = Footers::open(&store, &catalog).await?;
            let reads = (0..catalog.files.len()).map(|file| footers.read(file).boxed());
            let mut read = stream::iter(reads).buffered(FOOTERS_AT_ONCE).enumerate();
            while let Some((file, footer)) = read.next().await {
                add(&mut sum, &catalog, file, &footer?);
            }
            Ok(sum)
        };
        io.wait_for(reading)?
    }

    /// Writes the index of each folder that was opened: the footers of its files in one file,
    /// `_forebay_index`, beside them. Opening the folder then reads no other footers, except those of files
    /// that were added or changed since.
    ///
    /// Footers that are in an existing index or in the metadata cache are not read again. The file is
    /// replaced atomically; other readers ignore files of this name.
    ///
    /// ```no_run
    /// let dataset = forebay::Dataset::open("s3://acme/train/")?;
    /// for index in dataset.write_index()? {
    ///     println!("{}: {} files in {} bytes", index.location, index.files, index.bytes);
    /// }
    /// # Ok::<(), forebay::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Invalid` if files or a glob were opened, and no folder; `Denied` or `Io` if the folder cannot be
    /// written to; `DatasetChanged` if a file was changed since it was opened, and its footer has to be read
    /// for the index.
    pub fn write_index(&self) -> Result<Vec<IndexReport>> {
        let (io, store) = self.here()?;
        let catalog = self.catalog.clone();
        io.wait_for(async move { source::write_indexes(&store, &catalog).await })?
    }

    /// Packs the footers of all files into bytes, for [`OpenOptions::index`] in other processes: they still
    /// list the files, but need not read these footers. A file takes about 100 bytes, more if it has many
    /// columns or row groups.
    ///
    /// ```no_run
    /// use forebay::{Dataset, OpenOptions};
    ///
    /// // In one process, which sends the bytes to the others:
    /// let bytes = OpenOptions::new().hand_on(true).open("s3://acme/train/")?.index()?;
    /// // In each of them:
    /// let dataset = OpenOptions::new().index(bytes).open("s3://acme/train/")?;
    /// # Ok::<(), forebay::Error>(())
    /// ```
    ///
    /// # Errors
    /// A footer was not kept and cannot be read again; `DatasetChanged` if its file was changed; `TooLarge`
    /// for more than 2 GiB.
    pub fn index(&self) -> Result<Vec<u8>> {
        let (io, store) = self.here()?;
        let catalog = self.catalog.clone();
        let bytes = io.wait_for(async move { source::pack(&store, &catalog).await })??;
        Ok(bytes.into())
    }

    /// The tables among the locations, each at the version that was opened; empty if all are folders of plain
    /// files.
    ///
    /// ```no_run
    /// let dataset = forebay::Dataset::open("s3://acme/clicks/")?;
    /// for table in dataset.tables() {
    ///     println!("{} table {} at version {}", table.format, table.location, table.version);
    /// }
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn tables(&self) -> &[TableVersion] {
        &self.catalog.tables
    }

    /// Opens each table of the data set again at its newest version; `None` if the open versions are the
    /// newest, or the data set has no table. Call it between two epochs, to include data that was committed
    /// meanwhile. All ranks must use the same versions: call it on one rank, and open its
    /// [versions](OpenOptions::versions) on the others.
    ///
    /// ```no_run
    /// use forebay::{Dataset, Shuffle};
    ///
    /// let mut clicks = Dataset::open("s3://acme/clicks/")?;
    /// let built = |clicks: &Dataset| clicks.loader().shuffle(Shuffle::seeded(17)).build();
    /// let mut loader = built(&clicks)?;
    /// for number in 0..10 {
    ///     if let Some(newer) = clicks.newest()? {
    ///         clicks = newer;
    ///         loader = built(&clicks)?;
    ///     }
    ///     for batch in loader.epoch(number) {
    ///         let batch = batch?;
    ///     }
    /// }
    /// # Ok::<(), forebay::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`open`](Self::open).
    pub fn newest(&self) -> Result<Option<Self>> {
        let Some(newest) = self.newest_versions()? else { return Ok(None) };
        let Some(DatasetOrigin { locations, options }) = self.origin.as_deref() else { return Ok(None) };
        let options = OpenOptions { versions: AsOf::Newest.into(), ..options.clone() };
        options.versions(newest).open(locations.clone()).map(Some)
    }

    /// The newest version of each table by its location; `None` if the open versions are the newest, or the
    /// data set has no table.
    #[doc(hidden)]
    pub fn newest_versions(&self) -> Result<Option<BTreeMap<String, u64>>> {
        let Some(origin) = self.origin.clone().filter(|_| !self.tables().is_empty()) else { return Ok(None) };
        let (io, _) = self.here()?;
        let newest = async move { source::newest_versions(&origin.locations, &origin.options.storage).await };
        let newest: Vec<u64> = io.wait_for(newest)??.into_iter().flatten().collect();
        if newest.len() != self.tables().len() {
            let cause = "a table that was opened is a folder of plain files now";
            return Err(
                Error::new(ErrorKind::DatasetChanged, cause).hint("restore its log, or open it again")
            );
        }
        let tables = self.tables().iter();
        if tables.clone().map(|table| table.version).eq(newest.iter().copied()) {
            return Ok(None);
        }
        Ok(Some(tables.map(|table| table.location.to_string()).zip(newest).collect()))
    }

    /// The paths, relative to the location, of the files with which a position was saved, if files were only
    /// added since. [`OpenOptions::files`] opens these, so that the position can be restored. `None` if files
    /// were changed or removed, or if more files were added than the position can tell apart, about 20; any
    /// number is found if their paths come after all others.
    pub fn earlier_files(&self, saved: &SavedFiles) -> Option<Vec<String>> {
        let files: Vec<CountedFile<'_>> = counted_files(&self.catalog).collect();
        let earlier = saved.earlier(&files)?;
        Some(earlier.into_iter().map(|at| files[at].path.to_owned()).collect())
    }

    /// A warning that was not returned before: the reason why a folder's index is not used. A loader's
    /// `take_warning` may return it instead.
    pub fn take_warning(&self) -> Option<String> {
        self.store.take_warning()
    }

    /// The requests to the stores so far.
    pub fn traffic(&self) -> TrafficStats {
        self.store.traffic()
    }

    /// Reads the projected columns of row groups as a loader does, and discards the bytes, to measure the
    /// storage alone. Calls `done` with the index of each row group. Returns the number of bytes that the
    /// columns take.
    ///
    /// # Errors
    /// A file has changed, no longer exists, or cannot be read.
    pub fn fetch(
        &self,
        groups: Range<usize>,
        projection: &Projection,
        done: impl Fn(usize) + Send + Sync + 'static,
    ) -> Result<u64> {
        let (io, store) = self.here()?;
        let fetcher = Fetcher {
            reads: Reads::whole(store, self.catalog.clone(), Arc::new(projection.clone())),
            budget: Budget::new(u64::MAX),
            lenient: false,
            pages: None,
        };
        let whole = |group: usize| Part { group: group as u32, start: 0, rows: 0 };
        let reading = async move {
            fetcher.reads.store.read_sample(&fetcher.reads.catalog).await?;
            let sum = Arc::new(Mutex::new(Ok(0)));
            let counted = sum.clone();
            let count = async move |fetched: Result<Vec<(Part, u64)>>| {
                let mut sum = counted.lock().unwrap_or_else(PoisonError::into_inner);
                match (fetched, &mut *sum) {
                    (Ok(parts), Ok(sum)) => parts.into_iter().for_each(|(part, bytes)| {
                        *sum += bytes;
                        done(part.group as usize);
                    }),
                    (Err(error), sum) => *sum = Err(error),
                    (Ok(_), Err(_)) => {}
                }
                sum.is_ok()
            };
            let weigh = |fetched: Vec<Fetched>| {
                let weighed = fetched.iter().map(|fetched| (fetched.part, fetched.found.bytes()));
                ready(weighed.collect::<Vec<_>>())
            };
            let gauge = Arc::new(Gauge::new(Watch::unread()));
            fetcher.run(stream::iter(groups.map(whole)), gauge, weigh, count).await;
            sum.lock().unwrap_or_else(PoisonError::into_inner).clone()
        };
        io.wait_for(reading)?
    }
}

/// Reads the row ids that the files store, unless they were read before.
pub(super) fn read_row_ids(io: &IoRuntime, store: &Store, catalog: &Arc<Catalog>) -> Result<()> {
    if catalog.has_row_ids() {
        return Ok(());
    }
    let (store, catalog) = (store.clone(), catalog.clone());
    io.wait_for(async move { store.read_row_ids(&catalog).await })?
}

impl fmt::Debug for Dataset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dataset")
            .field("files", &self.catalog.files.len())
            .field("rows", &self.catalog.rows())
            .field("fingerprint", &self.catalog.fingerprint.to_string())
            .finish()
    }
}

#[cfg(test)]
mod tests;
