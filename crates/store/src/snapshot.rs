//! A snapshot: the files of a location at one moment, and all that the location says about them, before any
//! of the files is read.
//!
//! A snapshot is made by listing a folder, a glob or a list of files, or from a table's own list of its
//! current files. Such a list may say more about a file than its address: deleted rows, columns that are
//! constant in it, its schema, its number of rows. The snapshots of several locations are united into one. A
//! catalogue is made from it by reading the footers of the files.
//!
//! ```text
//! folder, glob, list ─ listing ──────────┐
//!                                        ├─► Snapshot ─ union ─► Snapshot ─ footers ─► Catalog
//! table ─ its list of live files ────────┘
//! ```

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use forebay_arrow::array::ArrayRef;
use forebay_arrow::datatypes::{FieldRef, SchemaRef};
use forebay_base::{Error, ErrorKind, Place, Result};
use xxhash_rust::xxh3::Xxh3;

use crate::row_set::RowSet;

mod statistics;
mod table;

/// The size in bytes up to which a file of a table is planned as one row group. Writers usually begin a
/// second row group at this size.
const MOST_BYTES_AS_ONE: u64 = 128 << 20;

/// The number of hashed bytes of a run of deleted rows: four for its start and four for its end. This number
/// itself is hashed before each run.
const RUN_BYTES: u128 = 8;

/// The number of bytes after which runs of deleted rows are passed to the hash function.
const HASHED_AT_ONCE: usize = 4096;

pub use statistics::{FileStatistics, Listed, ListedBounds, TableStatistics};
#[cfg(feature = "delta")]
pub(crate) use table::time_shown;
pub use table::{AsOf, ColumnName, ColumnNames, FoundBy, TableVersion, WantedVersions};

/// The files of a location, and everything that is known about them before they are read.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// The absolute path or URL of the folder that the files' relative paths start from.
    pub root: String,
    /// The files, in the order of the listing or of the table's list.
    pub files: Vec<DataFile>,
    /// Texts that identify the rows, in addition to the files, constants and deleted rows. They become a part
    /// of the data set's fingerprint.
    pub identities: Vec<Arc<str>>,
    /// For each folder that was opened, the index: a file in it that may have the footers of its files.
    pub indexes: Vec<IndexPlace>,
    /// The files `_common_metadata` of the folders that were opened.
    pub common_metadata: Vec<MetadataFile>,
    /// A message for each location that has files of several splits, such as `train` and `test`.
    pub splits: Vec<String>,
    /// The tables that were opened, each at a version.
    pub tables: Vec<TableVersion>,
}

/// The index of a folder: a file in it that may have the footers of the files below it.
#[derive(Clone, Debug)]
pub struct IndexPlace {
    /// The folder, as an absolute path or URL.
    pub root: String,
    /// The index of the volume (the local disk, or one object store) that the folder is in.
    pub volume: usize,
    /// The path of the index file in the volume.
    pub path: object_store::path::Path,
    /// The path, size and version of the index file, if it exists.
    pub found: Option<Pin>,
    /// Whether all files of the folder were opened. Only then may the index be written.
    pub is_whole: bool,
}

/// A file `_common_metadata`: a Parquet file without rows, whose footer describes all files of a folder.
#[derive(Clone, Debug)]
pub struct MetadataFile {
    /// The index of the volume (the local disk, or one object store) that the file is in.
    pub volume: usize,
    /// The path, size and version of the file.
    pub pin: Pin,
}

/// A Parquet file that will be read.
#[derive(Clone, Debug)]
pub struct DataFile {
    /// The path or URL of the file as the user would write it.
    pub shown: Arc<str>,
    /// The absolute path or URL of the file. No two files have the same.
    pub whole: String,
    /// The path of the file relative to the folder that all locations share, with `/` as the separator;
    /// [`Snapshot::union`] sets it.
    pub relative: String,
    /// The index of the volume (the local disk, or one object store) that the file is in.
    pub volume: usize,
    /// The path, size and version of the file.
    pub pin: Pin,
    /// The last bytes of the file, if the request that found the file returned them.
    pub tail: Option<Bytes>,
    /// The keys of the `key=value` folders that the file is in, except those that the opened location itself
    /// contains. A key becomes a constant column, unless the files have a column with its name.
    pub keys: Arc<[PartitionKey]>,
    /// Columns that have one value in all rows of the file, such as partition values. A constant replaces a
    /// stored column of the same name.
    pub constants: Arc<[Constant]>,
    /// Columns with a default value. If the file does not have the column, it becomes a constant column with
    /// this value.
    pub defaults: Arc<[Constant]>,
    /// The deleted rows of the file, as numbers from the start of the file.
    pub deleted: Option<RowSet>,
    /// The columns in order; `None` if they are the stored columns, followed by the constants. A column that
    /// the file does not have is null, and a stored column of a narrower type is widened.
    pub schema: Option<SchemaRef>,
    /// For the columns of a table, the names and numbers by which they are found in the file.
    pub names: Option<Arc<ColumnNames>>,
    /// The number of rows in the file, including deleted ones, if it is known before the footer is read. The
    /// footer must have the same number.
    pub rows: Option<u64>,
    /// Whether the list of a table says that the file has a single row group.
    pub has_one_row_group: bool,
    /// Statistics about the file's values, from the table's list of files. Filters skip the file if these
    /// rule it out.
    pub statistics: Option<FileStatistics>,
    /// The ids of the file's rows, if the table gives ids to rows.
    pub tracked: Option<TrackedIds>,
}

/// The ids of a file's rows, in a table that gives ids to rows.
#[derive(Clone, Debug)]
pub struct TrackedIds {
    /// The id of the file's first row. The ids of the others are consecutive, unless the file stores ids.
    pub first: i64,
    /// How to find the column in which a file may store ids. It is the only column in this value.
    pub column: Arc<ColumnNames>,
}

impl DataFile {
    /// A file of which only the path, the size and the version are known.
    pub fn plain(shown: Arc<str>, whole: String, volume: usize, pin: Pin) -> Self {
        DataFile {
            shown,
            whole,
            relative: String::new(),
            volume,
            pin,
            tail: None,
            keys: Arc::default(),
            constants: Arc::default(),
            defaults: Arc::default(),
            deleted: None,
            schema: None,
            names: None,
            rows: None,
            has_one_row_group: false,
            statistics: None,
            tracked: None,
        }
    }

    /// A hash of the file's constants and deleted rows; `None` if it has neither.
    pub fn table_hash(&self) -> Option<u64> {
        if self.constants.is_empty() && self.deleted.is_none() {
            return None;
        }
        let mut hash = Xxh3::new();
        let mut part = |bytes: &[u8]| {
            hash.update(&(bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        for Constant { field, value } in &*self.constants {
            part(field.name().as_bytes());
            part(field.data_type().to_string().as_bytes());
            part(format!("{value:?}").as_bytes());
        }
        let mut bytes = Vec::with_capacity(HASHED_AT_ONCE);
        for run in self.deleted.iter().flat_map(|deleted| deleted.runs(0..deleted.count())) {
            let part = RUN_BYTES | u128::from(run.start) << 64 | u128::from(run.end) << 96;
            bytes.extend_from_slice(&part.to_le_bytes());
            if bytes.len() >= HASHED_AT_ONCE {
                hash.update(&bytes);
                bytes.clear();
            }
        }
        hash.update(&bytes);
        Some(hash.digest())
    }

    /// Whether the table's list of files says anything about the values in the file's rows.
    pub(crate) fn is_listed(&self) -> bool {
        self.keys.is_empty() && (!self.constants.is_empty() || self.statistics.is_some())
    }

    /// Everything that is known about the file's rows before its footer is read.
    pub(crate) fn listed(&self) -> Listed<'_> {
        Listed { constants: &self.constants, statistics: self.statistics.as_ref() }
    }

    /// Whether the file is planned as one row group before its footer is read. The table's list of files
    /// alone decides that. A file is not planned like this if columns have defaults, because only the footer
    /// shows which columns the file does not have.
    pub fn is_declared(&self) -> bool {
        let is_small = self.has_one_row_group || self.pin.size <= MOST_BYTES_AS_ONE;
        let are_few = self.rows.is_some_and(|rows| u32::try_from(rows).is_ok());
        is_small && are_few && self.schema.is_some() && self.defaults.is_empty()
    }

    /// The path of the file as a place in error messages.
    pub fn place(&self) -> Place {
        Place::file(self.shown.clone())
    }
}

/// A file at one version: a read fails if the file has changed since it was opened.
#[derive(Clone, Debug)]
pub struct Pin {
    /// The path of the file in its volume.
    pub path: object_store::path::Path,
    /// The size of the file in bytes.
    pub size: u64,
    /// Distinguishes this version of the file from others.
    pub version: FileVersion,
}

/// Distinguishes one version of a file from other versions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FileVersion {
    /// The time of the last change, in nanoseconds since 1970.
    Modified(i128),
    /// The times of a local file. Programs can set the time of the last change of the content, but not the
    /// time of the last change of any kind, which the file system sets.
    Local {
        /// The time of the last change of the content, in nanoseconds since 1970.
        modified: i128,
        /// The time of the last change of the file or its attributes, such as a rename, a new link or a new
        /// owner.
        changed: i128,
        /// The number of the file in its file system (inode). It distinguishes files that were written at the
        /// same time, within the precision of the clock. It is 0 if the file system does not keep these
        /// numbers.
        inode: u64,
    },
    /// The tag (ETag) that the store gives to the content.
    ETag(Arc<str>),
    /// The version of the table that the file belongs to. Files of a table need no other mark, because a
    /// table never writes two files with the same name.
    OfTable(TableMark),
}

/// The version of a table that a file belongs to, with the words that the table's format uses for versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TableMark {
    /// The number of the version.
    pub version: u64,
    /// The words that messages use for a version of the table.
    pub words: &'static VersionWords,
}

/// The words that a table format uses for a version of a table.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct VersionWords {
    /// The noun, such as "snapshot".
    pub noun: &'static str,
    /// The advice for a user if a file of the version does not exist any more.
    pub when_gone: &'static str,
}

impl TableMark {
    /// The error for a file of the table that does not exist any more.
    pub fn gone(&self) -> Error {
        let cause = format!("{self} of the table has this file, and it is gone");
        Error::new(ErrorKind::NotFound, cause).hint(self.words.when_gone)
    }
}

impl fmt::Display for TableMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.words.noun, self.version)
    }
}

impl FileVersion {
    /// Whether two versions of a file have the same content, as far as a reader can know: a rename, a new
    /// link or a new owner does not count as a change.
    pub fn is_content_of(&self, other: &FileVersion) -> bool {
        match (self, other) {
            (
                FileVersion::Local { modified: one, inode: its, .. },
                FileVersion::Local { modified: other, inode: others, .. },
            ) => one == other && (its == others || *its == 0 || *others == 0),
            (FileVersion::OfTable(_), _) | (_, FileVersion::OfTable(_)) => true,
            (one, other) => one == other,
        }
    }

    /// The version as text, with everything that distinguishes it, for keys of data that outlives the
    /// process. If a file is replaced by another one with the same size and modification time, the text is
    /// different.
    pub fn for_keys(&self) -> String {
        match self {
            FileVersion::Local { changed, inode, .. } => format!("{self} ctime:{changed} inode:{inode}"),
            other => other.to_string(),
        }
    }
}

impl fmt::Display for FileVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileVersion::Modified(nanoseconds) => write!(f, "mtime:{nanoseconds}"),
            FileVersion::Local { modified, .. } => write!(f, "mtime:{modified}"),
            FileVersion::ETag(tag) => write!(f, "etag:{tag}"),
            FileVersion::OfTable(_) => f.write_str("of a table"),
        }
    }
}

/// A column with the same value in all rows of a file.
#[derive(Clone, Debug)]
pub struct Constant {
    /// The field as it is delivered, so strings and binary values have view types.
    pub field: FieldRef,
    /// The value, as an array of one row.
    pub value: ArrayRef,
}

/// The key and the value of a `key=value` folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionKey {
    /// The name of the key.
    pub name: String,
    /// The value as text; `None` for null.
    pub value: Option<String>,
}

impl Snapshot {
    /// The snapshot of a single file that the user named.
    pub fn of_file(file: DataFile) -> Self {
        Snapshot { root: parent(&file.whole), files: vec![file], ..Snapshot::default() }
    }

    /// Leaves only the files at these paths, which are relative to the root.
    ///
    /// Fails with `NotFound` if there is no file at one of them.
    pub(crate) fn keep(&mut self, only: &BTreeSet<String>) -> Result<()> {
        self.files.retain(|file| only.contains(&file.relative));
        self.indexes.iter_mut().for_each(|index| index.is_whole = false);
        let found: HashSet<&str> = self.files.iter().map(|file| file.relative.as_str()).collect();
        match only.iter().find(|path| !found.contains(path.as_str())) {
            Some(missing) => {
                Err(Error::new(ErrorKind::NotFound, "the file is not among those of the location")
                    .at(Place::file(format!("{}/{missing}", self.root))))
            }
            None => Ok(()),
        }
    }

    /// Unites several snapshots. Files are ordered by their paths relative to the deepest folder that
    /// contains all of them.
    ///
    /// Fails with `NotFound` if there are no files, and with `Invalid` if two snapshots have the same file.
    pub fn union(snapshots: Vec<Snapshot>) -> Result<Self> {
        let (mut roots, mut all) = (Vec::new(), Snapshot::default());
        for snapshot in snapshots {
            roots.push(snapshot.root);
            match all.files.is_empty() {
                true => all.files = snapshot.files,
                false => all.files.extend(snapshot.files),
            }
            all.identities.extend(snapshot.identities);
            all.indexes.extend(snapshot.indexes);
            all.common_metadata.extend(snapshot.common_metadata);
            all.splits.extend(snapshot.splits);
            all.tables.extend(snapshot.tables);
        }
        if all.files.is_empty() && all.tables.is_empty() {
            return Err(Error::new(ErrorKind::NotFound, "no location is given"));
        }
        all.root = common(&roots).to_string();
        for file in &mut all.files {
            let below = file.whole.strip_prefix(&all.root).unwrap_or(&file.whole);
            file.relative = below.trim_start_matches('/').to_string();
        }
        all.files.sort_unstable_by(|a, b| a.relative.cmp(&b.relative));
        let mut seen = HashSet::new();
        match all.files.iter().find(|file| !seen.insert(file.whole.as_str())) {
            Some(twice) => Err(Error::invalid("the file is matched by two locations")
                .hint("leave one of them out, or give locations that do not overlap")
                .at(twice.place())),
            None => Ok(all),
        }
    }
}

/// The folder that a path or URL is in.
fn parent(whole: &str) -> String {
    whole.rsplit_once('/').map_or("", |(folder, _)| folder).to_string()
}

/// The deepest folder that contains all `folders`.
fn common(folders: &[String]) -> &str {
    let Some((first, rest)) = folders.split_first() else { return "" };
    let lies_in = |folder: &str, outer: &str| {
        folder.strip_prefix(outer).is_some_and(|below| below.is_empty() || below.starts_with('/'))
    };
    let borders = first.char_indices().filter(|(_, c)| *c == '/').map(|(at, _)| at);
    let mut outer: Vec<usize> = std::iter::once(0).chain(borders).chain([first.len()]).collect();
    outer.reverse();
    let shared = outer.into_iter().map(|end| &first[..end]);
    shared.into_iter().find(|outer| rest.iter().all(|folder| lies_in(folder, outer))).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files with the same modification time, as after two quick writes, are told apart by their inodes.
    /// Another `changed`, as after a rename, does not mean other content.
    #[test]
    fn local_files_of_the_same_times_are_told_apart() {
        let of = |inode, changed| FileVersion::Local { modified: 1, changed, inode };
        assert_ne!(of(7, 1).for_keys(), of(8, 1).for_keys());
        assert!(!of(7, 1).is_content_of(&of(8, 1)), "a copy with its time");
        assert!(of(7, 1).is_content_of(&of(7, 2)), "while it is read, a file may be linked and renamed");
        assert!(of(7, 1).is_content_of(&of(0, 1)), "where files are numbered anew each time");
    }

    #[test]
    fn the_common_folder_of_one_is_itself() {
        let shared = |folders: &[&str]| {
            let folders: Vec<String> = folders.iter().map(ToString::to_string).collect();
            common(&folders).to_string()
        };
        assert_eq!(shared(&["/a/b"]), "/a/b");
        assert_eq!(shared(&["/a/b", "/a/c/d"]), "/a");
        assert_eq!(shared(&["/a/b", "/a/b/d"]), "/a/b");
        assert_eq!(shared(&["/a/b", "/a/bc"]), "/a");
        assert_eq!(shared(&["s3://acme/x", "s3://acme/y"]), "s3://acme");
        assert_eq!(shared(&["/a", "s3://acme/y"]), "");
    }
}
