//! The files of the local disk.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::partition::unread_keys;
use super::{Location, chosen, empty, has_suffix, is_hidden, nothing};
use crate::error::{Error, ErrorKind, Foreign, Result};
use crate::snapshot::{DataFile, Pin, Snapshot};
use crate::source::glob::{Glob, Reach};
use crate::source::local::{object_path, place, version};
use crate::source::tables::{self, TableRoot};
use crate::source::url::Target;

/// The files of a target, or the table that it is.
pub(super) fn find(target: &Target, volume: usize) -> Result<Location> {
    let mut snapshot = match target {
        Target::Path(path) => {
            let kind = fs::metadata(path).map_err(|error| error.into_error().at(place(path)))?;
            match kind.is_dir() {
                true => {
                    tables::refuse_above(path)?;
                    if let Some(format) = tables::of_folder(path) {
                        return Ok(Location::Table(format, TableRoot::Folder(path.clone())));
                    }
                    folder(path)?
                }
                false => Snapshot::of_file(entry(path.clone(), &kind)?),
            }
        }
        Target::Glob(glob) => matching(glob)?,
        Target::Remote(_) => {
            return Err(Error::new(ErrorKind::Internal, "a remote target on the local disk"));
        }
    };
    snapshot.files.iter_mut().for_each(|file| file.volume = volume);
    Ok(Location::Files(snapshot))
}

/// The file at a path.
pub(super) fn file(path: PathBuf, volume: usize) -> Result<DataFile> {
    let metadata = fs::metadata(&path).map_err(|error| error.into_error().at(place(&path)))?;
    Ok(DataFile { volume, ..entry(path, &metadata)? })
}

/// The Parquet files below a folder.
fn folder(root: &Path) -> Result<Snapshot> {
    let files = files_below(root, Tables::Refused)?;
    let chosen = chosen(&files, |seen| &seen.name);
    if chosen.is_empty() {
        let names: BTreeSet<&str> = files.iter().map(|seen| seen.name.as_str()).collect();
        return Err(nothing(place(root), "the folder holds no Parquet file", names));
    }
    snapshot(root, None, &chosen)
}

/// The files that a glob reaches: those that it matches, and the Parquet files of folders that it matches.
fn matching(glob: &Glob) -> Result<Snapshot> {
    let base = glob.base();
    if !base.is_dir() {
        return Err(Error::new(ErrorKind::NotFound, "the glob starts at a folder that does not exist")
            .at(place(base)));
    }
    // A table that lies beside what is matched is nobody's business.
    let files = files_below(base, Tables::Passed)?;
    let chosen = files.iter().filter(|seen| match glob.reach(&seen.relative) {
        Reach::Whole => glob.names_a_suffix() || has_suffix(&seen.name),
        Reach::Folder(_) => has_suffix(&seen.name),
        Reach::No => false,
    });
    let chosen: Vec<&Seen> = chosen.collect();
    if chosen.is_empty() {
        let names: BTreeSet<&str> = files.iter().map(|seen| seen.relative.as_str()).collect();
        return Err(nothing(place(base), "the glob matches no Parquet file below this folder", names));
    }
    let snapshot = snapshot(base, Some(glob), &chosen)?;
    let folders: HashSet<Option<&Path>> =
        snapshot.files.iter().map(|file| Path::new(&file.whole).parent()).collect();
    // A path below the folder, since the folder itself may be the table.
    folders.into_iter().flatten().try_for_each(|folder| tables::refuse_above(&folder.join("file")))?;
    Ok(snapshot)
}

/// The files that were chosen below a folder.
fn snapshot(base: &Path, glob: Option<&Glob>, chosen: &[&Seen]) -> Result<Snapshot> {
    let relative = chosen.iter().map(|seen| seen.relative.as_str());
    Ok(Snapshot {
        root: absolute(base)?.to_string_lossy().trim_end_matches('/').to_string(),
        unread_keys: vec![unread_keys(&base.to_string_lossy(), glob, relative)],
        files: chosen.iter().map(|seen| file(seen.path.clone(), 0)).collect::<Result<_>>()?,
        ..Snapshot::default()
    })
}

/// What a search does about the folders of tables.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tables {
    Refused,
    Passed,
}

/// A file below a folder.
struct Seen {
    path: PathBuf,
    relative: String,
    name: String,
}

/// The files below `root` that are not passed over by their names, in all folders and links; a link that leads back up is
/// not followed again.
fn files_below(root: &Path, tables: Tables) -> Result<Vec<Seen>> {
    let mut files = Vec::new();
    let mut entered = HashSet::from([canonical(root)?]);
    let mut folders = vec![(root.to_path_buf(), String::new())];
    while let Some((folder, prefix)) = folders.pop() {
        let mut names = BTreeMap::new();
        for item in fs::read_dir(&folder).map_err(|error| error.into_error().at(place(&folder)))? {
            let item = item.map_err(|error| error.into_error().at(place(&folder)))?;
            let name = item.file_name().into_string().map_err(|name| {
                Error::invalid(format!("the name {name:?} is not UTF-8")).at(place(&folder))
            })?;
            names.insert(name, item);
        }
        if tables == Tables::Refused {
            tables::refuse(&folder, names.keys().map(String::as_str))?;
        }
        for (name, item) in names {
            if is_hidden(&name) {
                continue;
            }
            let path = folder.join(&name);
            let relative = format!("{prefix}{name}");
            let kind = item.file_type().map_err(|error| error.into_error().at(place(&path)))?;
            let (is_dir, is_link) = if kind.is_symlink() {
                let target = fs::metadata(&path).map_err(|error| error.into_error().at(place(&path)))?;
                (target.is_dir(), true)
            } else {
                (kind.is_dir(), false)
            };
            if !is_dir {
                files.push(Seen { path, relative, name });
            } else if !is_link || entered.insert(canonical(&path)?) {
                folders.push((path, format!("{relative}/")));
            }
        }
    }
    Ok(files)
}
fn entry(shown: PathBuf, metadata: &fs::Metadata) -> Result<DataFile> {
    if !metadata.is_file() {
        return Err(Error::invalid("neither a file nor a folder").at(place(&shown)));
    }
    if metadata.len() == 0 {
        return Err(empty(place(&shown)));
    }
    let absolute = absolute(&shown)?;
    let pin = Pin { path: object_path(&absolute)?, size: metadata.len(), version: version(metadata) };
    let (shown, whole) = (shown.to_string_lossy().into(), absolute.to_string_lossy().into_owned());
    Ok(DataFile::plain(shown, whole, 0, pin))
}

fn absolute(path: &Path) -> Result<PathBuf> {
    let absolute = std::path::absolute(path).map_err(|error| error.into_error().at(place(path)))?;
    // `a/../b` and `b` must be one file; links stay as they are, for they may be what a user means.
    let mut plain = PathBuf::new();
    for component in absolute.components() {
        match component {
            std::path::Component::ParentDir => return canonical(path),
            other => plain.push(other),
        }
    }
    Ok(plain)
}

fn canonical(path: &Path) -> Result<PathBuf> {
    fs::canonicalize(path).map_err(|error| error.into_error().at(place(path)))
}
