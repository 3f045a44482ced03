//! Which files a data set consists of, and in which order.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::glob::{Glob, Reach};
use super::store::version;
use super::url::Target;
use super::{place, tables};
use crate::catalog::FileVersion;
use crate::error::{Error, ErrorKind, Result};

/// The suffix by which files in a folder are known.
const SUFFIX: &str = ".parquet";

/// How many of the names in a folder without Parquet the message lists.
const NAMES_SHOWN: usize = 5;

/// A file that is to be read.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// Its path as the user would write it.
    pub(super) shown: PathBuf,
    /// Its path relative to what all locations share, with `/`.
    pub(super) relative: String,
    /// Its absolute path.
    pub(super) absolute: PathBuf,
    /// Bytes.
    pub(super) size: u64,
    pub(super) version: FileVersion,
}

/// Finds the files of all targets, ordered by relative path.
pub(super) fn find(targets: &[Target]) -> Result<Vec<Found>> {
    let mut found = Vec::new();
    let mut roots = Vec::new();
    for target in targets {
        match target {
            Target::Path(path) => {
                let kind = fs::metadata(path).map_err(|error| Error::from(error).at(place(path)))?;
                if kind.is_dir() {
                    roots.push(absolute(path)?);
                    found.extend(folder(path)?);
                } else {
                    let file = entry(path.clone(), &kind)?;
                    roots.push(parent(&file.absolute));
                    found.push(file);
                }
            }
            Target::Glob(base, glob) => {
                roots.push(absolute(base)?);
                found.extend(matching(base, glob)?);
            }
        }
    }
    if found.is_empty() {
        return Err(Error::new(ErrorKind::NotFound, "no location is given"));
    }
    let shared = common(&roots);
    for file in &mut found {
        file.relative = slashed(file.absolute.strip_prefix(&shared).unwrap_or(&file.absolute));
    }
    found.sort_unstable_by(|a, b| a.relative.cmp(&b.relative));
    let mut seen = HashSet::new();
    match found.iter().find(|file| !seen.insert(file.absolute.as_path())) {
        Some(twice) => Err(Error::invalid("the file is matched by two locations").at(place(&twice.shown))),
        None => Ok(found),
    }
}

/// The Parquet files below a folder.
fn folder(root: &Path) -> Result<Vec<Found>> {
    tables::refuse_above(root)?;
    let walk = Walk::below(root, Tables::Refused)?;
    let (parquet, other): (Vec<&Seen>, Vec<&Seen>) =
        walk.files.iter().partition(|seen| has_suffix(&seen.name));
    let chosen = if parquet.is_empty() {
        // Spark's own tools, and others, can write part files without any suffix.
        other.iter().filter(|seen| !seen.name.contains('.')).copied().collect()
    } else {
        parquet
    };
    if chosen.is_empty() {
        let names: BTreeSet<&str> = walk.files.iter().map(|seen| seen.name.as_str()).collect();
        return Err(nothing(root, "the folder holds no Parquet file", names));
    }
    chosen.into_iter().map(Seen::found).collect()
}

/// The files that a glob reaches: those that it matches, and the Parquet files of folders that it matches.
fn matching(base: &Path, glob: &Glob) -> Result<Vec<Found>> {
    if !base.is_dir() {
        return Err(Error::new(ErrorKind::NotFound, "the glob starts at a folder that does not exist")
            .at(place(base)));
    }
    // A table that lies beside what is matched is nobody's business.
    let walk = Walk::below(base, Tables::Passed)?;
    let chosen = walk.files.iter().filter(|seen| match glob.reach(&seen.relative) {
        Reach::Whole => glob.names_a_suffix() || has_suffix(&seen.name),
        Reach::Folder(_) => has_suffix(&seen.name),
        Reach::No => false,
    });
    let chosen: Vec<Found> = chosen.map(Seen::found).collect::<Result<_>>()?;
    if chosen.is_empty() {
        let names: BTreeSet<&str> = walk.files.iter().map(|seen| seen.relative.as_str()).collect();
        return Err(nothing(base, "the glob matches no Parquet file below this folder", names));
    }
    let folders: HashSet<Option<&Path>> = chosen.iter().map(|file| file.absolute.parent()).collect();
    // A path below the folder, since the folder itself may be the table.
    folders.into_iter().flatten().try_for_each(|folder| tables::refuse_above(&folder.join("file")))?;
    Ok(chosen)
}

fn nothing(root: &Path, cause: &str, names: BTreeSet<&str>) -> Error {
    let error = Error::new(ErrorKind::NotFound, cause).at(place(root));
    let listed: Vec<&str> = names.iter().take(NAMES_SHOWN).copied().collect();
    match names.len().saturating_sub(NAMES_SHOWN) {
        _ if names.is_empty() => error.hint("it is empty"),
        0 => error.hint(format!("it has {}", listed.join(", "))),
        more => error.hint(format!("it has {} and {more} more", listed.join(", "))),
    }
}

/// What a walk does about the folders of tables.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tables {
    Refused,
    Passed,
}

/// The files below a folder that are not passed over by their names.
struct Walk {
    files: Vec<Seen>,
}

struct Seen {
    path: PathBuf,
    relative: String,
    name: String,
}

impl Seen {
    fn found(&self) -> Result<Found> {
        let metadata = fs::metadata(&self.path).map_err(|error| Error::from(error).at(place(&self.path)))?;
        entry(self.path.clone(), &metadata)
    }
}

impl Walk {
    /// Walks all folders below `root`, links included; a link that leads back up is not followed again.
    fn below(root: &Path, tables: Tables) -> Result<Walk> {
        let mut files = Vec::new();
        let mut entered = HashSet::from([canonical(root)?]);
        let mut folders = vec![(root.to_path_buf(), String::new())];
        while let Some((folder, prefix)) = folders.pop() {
            let mut names = BTreeMap::new();
            for item in fs::read_dir(&folder).map_err(|error| Error::from(error).at(place(&folder)))? {
                let item = item.map_err(|error| Error::from(error).at(place(&folder)))?;
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
                let kind = item.file_type().map_err(|error| Error::from(error).at(place(&path)))?;
                let (is_dir, is_link) = if kind.is_symlink() {
                    let target = fs::metadata(&path).map_err(|error| Error::from(error).at(place(&path)))?;
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
        Ok(Walk { files })
    }
}

/// Names that Spark, Hive, Hadoop and editors give to what is not data: `_SUCCESS`, `_metadata`, `.part-0.crc`.
fn is_hidden(name: &str) -> bool {
    // A Hive folder of a column whose name begins with an underscore is data: `_key=3`.
    name.starts_with('.') || (name.starts_with('_') && !name.contains('='))
}

fn has_suffix(name: &str) -> bool {
    name.len() > SUFFIX.len() && name.is_char_boundary(name.len() - SUFFIX.len()) && {
        name[name.len() - SUFFIX.len()..].eq_ignore_ascii_case(SUFFIX)
    }
}

fn entry(shown: PathBuf, metadata: &fs::Metadata) -> Result<Found> {
    if !metadata.is_file() {
        return Err(Error::invalid("neither a file nor a folder").at(place(&shown)));
    }
    if metadata.len() == 0 {
        return Err(
            Error::new(ErrorKind::Corrupt, "the file is empty, not even a footer is there").at(place(&shown))
        );
    }
    let absolute = absolute(&shown)?;
    Ok(Found { relative: String::new(), absolute, size: metadata.len(), version: version(metadata)?, shown })
}

fn absolute(path: &Path) -> Result<PathBuf> {
    let absolute = std::path::absolute(path).map_err(|error| Error::from(error).at(place(path)))?;
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
    fs::canonicalize(path).map_err(|error| Error::from(error).at(place(path)))
}

fn parent(path: &Path) -> PathBuf {
    path.parent().unwrap_or(path).to_path_buf()
}

/// The deepest folder that all of them lie in.
fn common(folders: &[PathBuf]) -> PathBuf {
    let Some((first, rest)) = folders.split_first() else {
        return PathBuf::new();
    };
    first
        .ancestors()
        .find(|candidate| rest.iter().all(|folder| folder.starts_with(candidate)))
        .map_or_else(PathBuf::new, Path::to_path_buf)
}

fn slashed(path: &Path) -> String {
    path.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_not_data_are_passed_over() {
        for name in ["_SUCCESS", "_metadata", "_common_metadata", ".part-0.parquet.crc", "_temporary", ".git"]
        {
            assert!(is_hidden(name), "{name}");
        }
        for name in ["part-0.parquet", "year=2024", "_key=3", "a_b"] {
            assert!(!is_hidden(name), "{name}");
        }
    }

    #[test]
    fn the_suffix_is_known_in_any_case_and_a_bare_suffix_is_none() {
        assert!(has_suffix("a.parquet") && has_suffix("A.PARQUET") && has_suffix("é.parquet"));
        assert!(!has_suffix(".parquet") && !has_suffix("a.parquet.crc") && !has_suffix("parquet"));
    }

    #[test]
    fn the_common_folder_of_one_is_itself() {
        assert_eq!(common(&["/a/b".into()]), PathBuf::from("/a/b"));
        assert_eq!(common(&["/a/b".into(), "/a/c/d".into()]), PathBuf::from("/a"));
        assert_eq!(common(&["/a/b".into(), "/a/b/d".into()]), PathBuf::from("/a/b"));
    }
}
