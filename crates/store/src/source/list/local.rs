//! Finds the files of a location on the local disk.

pub(super) mod file;

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use forebay_arrow::fail::Foreign;
use forebay_base::{Error, ErrorKind, Result};

use super::location::{FoundTable, Location};
use super::names::{COMMON_METADATA, chosen, has_suffix, is_hidden, nothing};
use super::partition::note_keys;
use crate::snapshot::{DataFile, FileVersion, IndexPlace, MetadataFile, Pin, Snapshot};
use crate::source::glob::{Glob, Reach};
use crate::source::index;
use crate::source::local::{object_path, place, version_at};
use crate::source::tables::{self, TableRoot};
use crate::source::url::Target;
use file::{absolute, canonical, entry, file, look};

/// Finds the files of a target (a parsed location), or the table that the target is.
pub(super) fn find(target: &Target, volume: usize) -> Result<Location> {
    let mut snapshot = match target {
        Target::Path(path) => {
            let kind = look(path)?;
            match kind.is_dir() {
                true => {
                    tables::refuse_above(path)?;
                    if let Some(format) = tables::of_folder(path) {
                        return Ok(Location::table(format, TableRoot::Folder(path.clone())));
                    }
                    folder(path)?
                }
                false => match table_of(path)? {
                    Some(table) => return Ok(Location::Table(table)),
                    None => Snapshot::of_file(entry(path.clone(), &kind)?),
                },
            }
        }
        Target::Glob(glob) => matching(glob)?,
        Target::Remote(_) => {
            return Err(Error::new(ErrorKind::Internal, "a remote target on the local disk"));
        }
    };
    snapshot.files.iter_mut().for_each(|file| file.volume = volume);
    snapshot.indexes.iter_mut().for_each(|place| place.volume = volume);
    snapshot.common_metadata.iter_mut().for_each(|file| file.volume = volume);
    Ok(Location::Files(snapshot))
}

/// The table that is opened by the path of one of its metadata files; `None` for any other path.
fn table_of(path: &Path) -> Result<Option<FoundTable>> {
    let absolute = absolute(path)?;
    let opened = absolute.to_str().and_then(tables::opened_by);
    Ok(opened.map(|(format, folder, name)| {
        let root = TableRoot::Folder(PathBuf::from(if folder.is_empty() { "/" } else { folder }));
        FoundTable { format, root, opened: Some(name.to_owned()) }
    }))
}

/// Finds the Parquet files below a folder, at every depth.
fn folder(root: &Path) -> Result<Snapshot> {
    let FoundFiles { files, .. } = files_below(root, None)?;
    let chosen = chosen(&files, |seen| seen.name());
    if chosen.is_empty() {
        let names: BTreeSet<&str> = files.iter().map(|seen| seen.name()).collect();
        return Err(nothing(place(root), "the folder holds no Parquet file", names));
    }
    snapshot(root, None, &chosen)
}

/// Finds the files that a glob matches, and the Parquet files in folders that it matches.
fn matching(glob: &Glob) -> Result<Snapshot> {
    let base = glob.base();
    if !base.is_dir() {
        return Err(Error::new(ErrorKind::NotFound, "the glob starts at a folder that does not exist")
            .at(place(base)));
    }
    let FoundFiles { files, passed } = files_below(base, Some(glob))?;
    let chosen = files.iter().filter(|seen| match glob.reach(&seen.relative) {
        Reach::Whole => glob.names_a_suffix() || has_suffix(seen.name()),
        Reach::Folder(_) => has_suffix(seen.name()),
        Reach::No => false,
    });
    let chosen: Vec<&SeenPath> = chosen.collect();
    if chosen.is_empty() {
        let names = files.iter().map(|seen| &*seen.relative).chain(passed.iter().map(String::as_str));
        let names: BTreeSet<&str> = names.collect();
        return Err(nothing(place(base), "the glob matches no Parquet file below this folder", names));
    }
    let snapshot = snapshot(base, Some(glob), &chosen)?;
    let folders: HashSet<Option<&Path>> =
        snapshot.files.iter().map(|file| Path::new(&file.whole).parent()).collect();
    // `refuse_above` checks the folders above a path. The path passed is one in the folder, so that the
    // folder itself is checked, too.
    folders.into_iter().flatten().try_for_each(|folder| tables::refuse_above(&folder.join("file")))?;
    Ok(snapshot)
}

/// The snapshot of the files that were chosen below the folder `base`.
fn snapshot(base: &Path, glob: Option<&Glob>, chosen: &[&SeenPath]) -> Result<Snapshot> {
    let mut files: Vec<DataFile> =
        chosen.iter().map(|seen| file(base.join(&*seen.relative), 0)).collect::<Result<_>>()?;
    note_keys(&mut files, glob, chosen.iter().map(|seen| &*seen.relative));
    let folder = absolute(base)?;
    let root = folder.to_string_lossy().trim_end_matches('/').to_string();
    let indexes = vec![index(&folder, &root, glob.is_none())?];
    let common = pinned(&folder.join(COMMON_METADATA))?;
    let common_metadata = common.map(|pin| MetadataFile { volume: 0, pin }).into_iter().collect();
    Ok(Snapshot { root, files, indexes, common_metadata, ..Snapshot::default() })
}

/// The present size and version of a file; `None` if it does not exist.
pub(super) fn pinned(file: &Path) -> Result<Option<Pin>> {
    let Some(about) = fs::metadata(file).ok().filter(fs::Metadata::is_file) else { return Ok(None) };
    Ok(Some(Pin { path: object_path(file)?, size: about.len(), version: version_at(file, &about) }))
}

/// The index of a folder: its path, and its version if it exists.
fn index(folder: &Path, root: &str, is_whole: bool) -> Result<IndexPlace> {
    let file = folder.join(index::NAME);
    let (path, found) = (object_path(&file)?, pinned(&file)?);
    Ok(IndexPlace { root: root.to_owned(), volume: 0, path, found, is_whole })
}

/// A file that was found. Only its path below the searched folder is stored, because there may be many files.
struct SeenPath {
    relative: Box<str>,
}

impl SeenPath {
    fn name(&self) -> &str {
        self.relative.rsplit_once('/').map_or(&*self.relative, |(_, name)| name)
    }
}

/// The result of a search below a folder.
#[derive(Default)]
struct FoundFiles {
    files: Vec<SeenPath>,
    /// The files and folders that the glob cannot match, as paths below the searched folder. Folders end in
    /// `/`; they were not searched.
    passed: Vec<String>,
}

/// Finds all files below `root` that are not hidden, or only those that `glob` may match. Links to folders
/// are followed, except those to a folder that they are in, and those to a folder that another link has led
/// to.
///
/// Without a `glob`, folders of tables are refused. With a `glob`, the caller must check the folders of the
/// files that it chooses.
fn files_below(root: &Path, glob: Option<&Glob>) -> Result<FoundFiles> {
    let mut found = FoundFiles::default();
    let mut entered = HashSet::new();
    let mut folders = vec![(root.to_path_buf(), String::new())];
    while let Some((folder, prefix)) = folders.pop() {
        let mut names = BTreeMap::new();
        for item in fs::read_dir(&folder).map_err(|error| error.into_error().at(place(&folder)))? {
            let item = item.map_err(|error| error.into_error().at(place(&folder)))?;
            let name = item.file_name().into_string().map_err(|name| {
                Error::invalid(format!("the name {name:?} is not UTF-8")).at(place(&folder)).hint("rename it")
            })?;
            names.insert(name, item);
        }
        if glob.is_none() {
            tables::refuse(&folder, names.keys().map(String::as_str))?;
        }
        for (name, item) in names {
            if is_hidden(&name) {
                continue;
            }
            let path = folder.join(&name);
            let relative = format!("{prefix}{name}");
            let kind = item.file_type().map_err(|error| error.into_error().at(place(&path)))?;
            if glob.is_some_and(|glob| !glob.may_reach_below(&relative)) {
                found.passed.push(if kind.is_dir() { relative + "/" } else { relative });
                continue;
            }
            let is_link = kind.is_symlink();
            let is_dir = if is_link { look(&path)?.is_dir() } else { kind.is_dir() };
            if !is_dir {
                found.files.push(SeenPath { relative: relative.into() });
                continue;
            }
            if is_link {
                let target = canonical(&path)?;
                let leads_up = canonical(&folder)?.starts_with(&target);
                if leads_up || !entered.insert(target) {
                    continue;
                }
            }
            folders.push((path, relative + "/"));
        }
    }
    Ok(found)
}

/// Refuses files that are the same file under several names because of symbolic links, since their rows would
/// be delivered twice. Hard links count as different files.
pub(super) fn refuse_twins(files: &[DataFile]) -> Result<()> {
    let mut seen: HashMap<(u64, i128), (&DataFile, Option<PathBuf>)> = HashMap::new();
    let resolved = |file: &DataFile| canonical(Path::new(&file.whole));
    for file in files {
        let FileVersion::Local { changed, inode: inode @ 1.., .. } = file.pin.version else { continue };
        // Files of different file systems may have the same inode, so their resolved paths are compared.
        let mut first = match seen.entry((inode, changed)) {
            Entry::Occupied(first) => first,
            Entry::Vacant(place) => {
                place.insert((file, None));
                continue;
            }
        };
        let (first, known) = first.get_mut();
        if known.is_none() {
            *known = Some(resolved(first)?);
        }
        if *known == Some(resolved(file)?) {
            let cause = format!("it is {} by another name: its rows would be delivered twice", first.shown);
            let hint = "leave the link out; to draw rows more often, mix data sets with weights";
            return Err(Error::invalid(cause).at(file.place()).hint(hint));
        }
    }
    Ok(())
}
