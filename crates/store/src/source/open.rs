//! Opens a data set: resolves its locations, and returns a store and a catalogue.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use forebay_base::Result;
use object_store::ObjectStore;

use super::clouds::{Address, MetadataCache, Options};
use super::footer::{self, KeptFooters};
use super::hub::HubPart;
use super::index::{self, Packing};
use super::list::{self, FileFilter, KeyTypes, none_kept};
use super::remote::Remote;
use super::store::{AllowedLocation, Store, Volume};
use super::url::{self, Target};
use crate::catalog::{Catalog, Differences, KnownColumns};
use crate::snapshot::{Snapshot, WantedVersions};

/// Opens a data set: finds its files and reads their footers.
///
/// A location is a file, a folder (searched at every depth), a URL, or a glob with `*`, `?`, `[...]` and
/// `**`. A name that exists is taken literally, whatever characters it has; percent-encoded characters in a
/// URL are never wildcards. `~/` is the user's home. The files are ordered by their path relative to the
/// folder that was opened, or to the deepest folder that all locations share; the order of the locations does
/// not matter. In folders, names that begin with `_` or `.` are skipped, and so are files that do not end in
/// `.parquet`, `.parq` or `.pq`. If no file has such a suffix, the files without any suffix are read, as
/// Spark and others can write them.
///
/// The keys of `key=value` folders below a location become columns after those of the files, unless the files
/// have columns with these names. A column has integers if all of its values are integers, else text;
/// `__HIVE_DEFAULT_PARTITION__` is null. Keys that the location itself contains (`t/day=2024-01-01`,
/// `t/day=*`) do not become columns.
///
/// The name of a table in a REST catalogue of Iceberg is `iceberg+rest://host/path/namespace.table`; the
/// catalogue says where the table is.
///
/// `options` are for object stores: credentials and settings by the names that `object_store` gives them.
///
/// Fails with `NotFound` if nothing matches; `Invalid` for a malformed location, a file that is matched
/// twice, or an unknown option; `Denied` for insufficient credentials; `Unsupported` for another scheme, an
/// encrypted file, files that differ in their columns or partition keys, a table whose format is not
/// supported, and a folder inside or above a table; `Corrupt` for a file that is damaged or not Parquet; `Io`
/// for a store that cannot be reached.
pub async fn open(locations: &[String], options: &BTreeMap<String, String>) -> Result<(Store, Catalog)> {
    open_with(locations, options, Opening::default()).await
}

/// Options for opening a data set, if the defaults of [`open`] are not right.
#[derive(Default)]
pub struct Opening {
    /// Selects the `key=value` folders, and the files of tables, that are read; all by default.
    pub filter: Option<FileFilter>,
    /// How columns that differ between files are treated.
    pub differences: Differences,
    /// The declared types of the keys of `key=value` folders.
    pub key_types: KeyTypes,
    /// The index that another process passed on.
    pub index: Option<Bytes>,
    /// Whether the footers that are read are also packed into an index, to be passed to other processes.
    pub is_packed: bool,
    /// Which versions of the tables at the locations are opened.
    pub versions: WantedVersions,
    /// The part of a folder that is laid out like a data set of the Hugging Face hub; all by default.
    pub part: HubPart,
    /// The only files that are read, by their paths relative to the folder that all locations share; all by
    /// default.
    pub files: Option<BTreeSet<String>>,
}

/// Opens a data set like [`open`], with options. If a filter leaves out folders, the footers of their files
/// are read only if the columns of all files are merged. If it leaves out files of a table, their footers are
/// never read.
///
/// Fails with `Invalid` if no file is left, and if the value of a key cannot be parsed as its declared type.
pub async fn open_with(
    locations: &[String],
    options: &BTreeMap<String, String>,
    opening: Opening,
) -> Result<(Store, Catalog)> {
    let Opening { filter, differences, key_types, index, is_packed, versions, part, files } = opening;
    #[cfg(all(feature = "iceberg", feature = "network"))]
    let (locations, options) = &super::rest::resolved(locations, options).await?;
    let options = Options::new(options);
    let (store, targets) = connect(locations, &options)?;
    let store = match index {
        Some(bytes) => store.with_handed_on(index::unpack(bytes)?),
        None => store,
    };
    let mut snapshot = list::find(&store, targets, &versions).await?;
    part.choose(&store, &mut snapshot).await?;
    if let Some(files) = &files {
        snapshot.keep(files)?;
    }
    if !options.index()? {
        snapshot.indexes.iter_mut().for_each(|place| place.found = None);
    }
    let (store, kept) = prepared(store, &mut snapshot).await?;
    key_types.check(&snapshot.files)?;
    if let Some(filter) = &filter {
        filter.of_tables(&mut snapshot.files)?;
    }
    let Some(filter) = filter.filter(|filter| filter.concerns(&snapshot.files)) else {
        return catalogue(store, &kept, snapshot, differences, &key_types, is_packed).await;
    };
    match differences {
        Differences::Refused => {
            let files = snapshot.files;
            snapshot.files = footer::kept_files(&store, &kept, files, &filter, &key_types).await?;
            catalogue(store, &kept, snapshot, differences, &key_types, is_packed).await
        }
        // The footers of all files are read, because merged columns are those of all files, including files
        // that the filter leaves out.
        Differences::Merged => {
            let (store, catalog) =
                catalogue(store, &kept, snapshot, differences, &key_types, is_packed).await?;
            match catalog.kept_by(&filter.keeps)? {
                Some(kept) if kept.files.is_empty() => Err(none_kept()),
                kept => Ok((store, kept.unwrap_or(catalog))),
            }
        }
    }
}

/// The newest version of the table at each location; `None` for a location with plain files. No data file is
/// read.
///
/// Fails like [`open`].
pub async fn newest_versions(
    locations: &[String],
    options: &BTreeMap<String, String>,
) -> Result<Vec<Option<u64>>> {
    #[cfg(all(feature = "iceberg", feature = "network"))]
    let (locations, options) = &super::rest::resolved(locations, options).await?;
    let (store, targets) = connect(locations, &Options::new(options))?;
    let mut newest = Vec::with_capacity(targets.len());
    for (volume, target) in targets {
        newest.push(list::newest_version(&store, volume, target).await?);
    }
    Ok(newest)
}

/// Connects to the stores of all locations, and of the locations that the options allow. Returns them as one
/// store with several volumes. For each location, also returns the index of its volume, and its target (the
/// parsed location).
pub(super) fn connect(locations: &[String], options: &Options) -> Result<(Store, Vec<(usize, Target)>)> {
    options.check()?;
    let traffic = Arc::default();
    let mut volumes: Vec<(Option<Address>, Volume)> = Vec::new();
    let mut targets = Vec::with_capacity(locations.len());
    let allowed = options.allowed_locations().map(url::absolute).collect::<Result<Vec<_>>>()?;
    for location in locations.iter().chain(&allowed) {
        let target = url::parse(location)?;
        let known = volumes.iter().position(|(address, _)| match (address, &target) {
            (Some(address), Target::Remote(other)) => address.same_store(other),
            (None, Target::Path(_) | Target::Glob(_)) => true,
            _ => false,
        });
        let volume = match (known, &target) {
            (Some(volume), _) => volume,
            (None, Target::Remote(address)) => {
                let remote = Remote::connect(address, options, Arc::clone(&traffic))?;
                volumes.push((Some(address.clone()), Volume::Remote(remote)));
                volumes.len() - 1
            }
            (None, _) => {
                volumes.push((None, Volume::Local));
                volumes.len() - 1
            }
        };
        targets.push((volume, target));
    }
    if volumes.iter().all(|(address, _)| address.is_none()) {
        options.refuse_theirs()?;
    }
    let of_allowed = targets.split_off(locations.len());
    let of_allowed = of_allowed.into_iter().zip(allowed);
    let allowed = of_allowed.map(|((volume, _), location)| AllowedLocation { volume, location });
    let volumes = volumes.into_iter().map(|(_, volume)| volume).collect();
    let store = Store::new(volumes, traffic, options.metadata_cache()?);
    Ok((store.with_allowed(allowed.collect()), targets))
}

/// Opens a data set like [`open`], in a store whose client the caller provides. `prefix` is a key, a folder
/// or a glob.
pub async fn from_store(client: Arc<dyn ObjectStore>, prefix: &str) -> Result<(Store, Catalog)> {
    let traffic = Arc::default();
    let remote = Remote::of_user(client, Arc::clone(&traffic));
    // Footers are not kept on local disk: without a URL, the store cannot be recognised in a later run.
    let store = Store::new(vec![Volume::Remote(remote)], traffic, Some(MetadataCache::Off));
    let mut snapshot = list::find_in(&store, 0, prefix.trim_start_matches('/')).await?;
    let (store, kept) = prepared(store, &mut snapshot).await?;
    catalogue(store, &kept, snapshot, Differences::Refused, &KeyTypes::default(), false).await
}

/// Moves the indexes and common metadata of the folders from the snapshot to the store, and loads the footers
/// that are kept for the files.
async fn prepared(store: Store, snapshot: &mut Snapshot) -> Result<(Store, KeptFooters)> {
    snapshot.splits.iter().for_each(|splits| store.warn(splits.clone()));
    let store = store.with_indexes(std::mem::take(&mut snapshot.indexes));
    let store = store.with_common_metadata(std::mem::take(&mut snapshot.common_metadata));
    let first = snapshot.files.first().map(|file| (file.whole.clone(), file.relative.clone()));
    let files = snapshot.files.iter().map(|file| (file.whole.clone(), file.pin.clone()));
    let kept = KeptFooters::load(&store, first, files).await?;
    Ok((store, kept))
}

async fn catalogue(
    store: Store,
    kept: &KeptFooters,
    snapshot: Snapshot,
    differences: Differences,
    types: &KeyTypes,
    is_packed: bool,
) -> Result<(Store, Catalog)> {
    let known = Arc::new(KnownColumns::default());
    let mut packing = is_packed.then(Packing::default);
    let files = footer::read_all(&store, kept, snapshot.files, &known, packing.as_mut()).await?;
    let of_table = snapshot.tables.first().map(|table| table.schema.clone());
    let mut catalog = footer::assemble(files, known, &snapshot.identities, differences, types, of_table)?;
    catalog.splits = snapshot.splits.into();
    catalog.tables = snapshot.tables.into();
    let store = match packing {
        Some(packing) => store.with_handed_on(packing.index()?),
        None => store,
    };
    Ok((store, catalog))
}
