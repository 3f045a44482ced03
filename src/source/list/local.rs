//! The files of the local disk.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::partition::Keys;
use super::{Found, Listing, chosen, empty, has_suffix, is_hidden, nothing};
use crate::error::{Error, ErrorKind, Foreign, Result};
use crate::source::glob::{Glob, Reach};
use crate::source::local::{object_path, place, version};
use crate::source::remote::Pin;
use crate::source::tables;
use crate::source::url::Target;

/// The files of a target.
pub(super) fn find(target: &Target, volume: usize) -> Result<Listing> {
    let mut listing = match target {
        Target::Path(path) => {
            let kind = fs::metadata(path).map_err(|error| error.into_error().at(place(path)))?;
            match kind.is_dir() {
                true => folder(path)?,
                false => Listing::of_file(entry(path.clone(), &kind)?),
            }
        }
        Target::Glob(glob) => matching(glob)?,
        Target::Remote(_) => {
            return Err(Error::new(ErrorKind::Internal, "a remote target on the local disk"));
        }
    };
    listing.files.iter_mut().for_each(|file| file.volume = volume);
    Ok(listing)
}

/// The Parquet files below a folder.
fn folder(root: &Path) -> Result<Listing> {
    tables::refuse_above(root)?;
    let walk = FolderWalk::below(root, Tables::Refused)?;
    let chosen = chosen(&walk.files, |seen| &seen.name);
    if chosen.is_empty() {
        let names: BTreeSet<&str> = walk.files.iter().map(|seen| seen.name.as_str()).collect();
        return Err(nothing(place(root), "the folder holds no Parquet file", names));
    }
    listing(root, None, &chosen)
}

/// The files that a glob reaches: those that it matches, and the Parquet files of folders that it matches.
fn matching(glob: &Glob) -> Result<Listing> {
    let base = glob.base();
    if !base.is_dir() {
        return Err(Error::new(ErrorKind::NotFound, "the glob starts at a folder that does not exist")
            .at(place(base)));
    }
    // A table that lies beside what is matched is nobody's business.
    let walk = FolderWalk::below(base, Tables::Passed)?;
    let chosen = walk.files.iter().filter(|seen| match glob.reach(&seen.relative) {
        Reach::Whole => glob.names_a_suffix() || has_suffix(&seen.name),
        Reach::Folder(_) => has_suffix(&seen.name),
        Reach::No => false,
    });
    let chosen: Vec<&Seen> = chosen.collect();
    if chosen.is_empty() {
        let names: BTreeSet<&str> = walk.files.iter().map(|seen| seen.relative.as_str()).collect();
        return Err(nothing(place(base), "the glob matches no Parquet file below this folder", names));
    }
    let listing = listing(base, Some(glob), &chosen)?;
    let folders: HashSet<Option<&Path>> =
        listing.files.iter().map(|file| Path::new(&file.whole).parent()).collect();
    // A path below the folder, since the folder itself may be the table.
    folders.into_iter().flatten().try_for_each(|folder| tables::refuse_above(&folder.join("file")))?;
    Ok(listing)
}

/// The files that were chosen below a folder.
fn listing(base: &Path, glob: Option<&Glob>, chosen: &[&Seen]) -> Result<Listing> {
    Ok(Listing {
        root: absolute(base)?.to_string_lossy().trim_end_matches('/').to_string(),
        keys: Keys::of(&base.to_string_lossy(), glob, chosen.iter().map(|seen| seen.relative.as_str())),
        files: chosen.iter().map(|seen| seen.found()).collect::<Result<_>>()?,
    })
}

/// What a walk does about the folders of tables.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tables {
    Refused,
    Passed,
}

/// The files below a folder that are not passed over by their names.
struct FolderWalk {
    files: Vec<Seen>,
}

struct Seen {
    path: PathBuf,
    relative: String,
    name: String,
}

impl Seen {
    fn found(&self) -> Result<Found> {
        let metadata = fs::metadata(&self.path).map_err(|error| error.into_error().at(place(&self.path)))?;
        entry(self.path.clone(), &metadata)
    }
}

impl FolderWalk {
    /// Walks all folders below `root`, links included; a link that leads back up is not followed again.
    fn below(root: &Path, tables: Tables) -> Result<FolderWalk> {
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
        Ok(FolderWalk { files })
    }
}

fn entry(shown: PathBuf, metadata: &fs::Metadata) -> Result<Found> {
    if !metadata.is_file() {
        return Err(Error::invalid("neither a file nor a folder").at(place(&shown)));
    }
    if metadata.len() == 0 {
        return Err(empty(place(&shown)));
    }
    let absolute = absolute(&shown)?;
    let pin = Pin { path: object_path(&absolute)?, size: metadata.len(), version: version(metadata) };
    let (shown, whole) = (shown.to_string_lossy().into(), absolute.to_string_lossy().into_owned());
    Ok(Found { shown, whole, relative: String::new(), volume: 0, pin, tail: None })
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
