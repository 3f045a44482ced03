//! Looks up single files and folders of the local disk.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use forebay_arrow::fail::Foreign;
use forebay_base::error::nearest;
use forebay_base::paths;
use forebay_base::{Error, ErrorKind, Result};

use crate::snapshot::{DataFile, Pin};
use crate::source::list::names::empty;
use crate::source::local::{object_path, place, version_at};
use crate::source::shown::shown;
use crate::source::tables::FoundFile;

/// The number of names in a folder that are compared with the name of a missing file, to suggest one.
const NAMES_COMPARED: usize = 10_000;

/// Looks up the file at a path.
pub(in crate::source::list) fn file(path: PathBuf, volume: usize) -> Result<DataFile> {
    let metadata = look(&path)?;
    Ok(DataFile { volume, ..entry(path, &metadata)? })
}

/// Lists the files directly in a folder. There are none if the folder does not exist.
pub(in crate::source::list) fn files_in(folder: &Path) -> Result<Vec<FoundFile>> {
    let failed = |error: io::Error| error.into_error().at(place(folder));
    let listed = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        listed => listed.map_err(failed)?,
    };
    let absolute = absolute(folder)?;
    let mut found = Vec::new();
    for item in listed {
        let item = item.map_err(failed)?;
        let path = absolute.join(item.file_name());
        let (Ok(name), Ok(about)) = (item.file_name().into_string(), fs::metadata(&path)) else { continue };
        if about.is_file() {
            let modified = about.mtime() * 1_000 + about.mtime_nsec() / 1_000_000;
            let version = version_at(&path, &about);
            let pin = Pin { path: object_path(&path)?, size: about.len(), version };
            found.push(FoundFile { name, modified, pin });
        }
    }
    Ok(found)
}

/// The metadata of the file at a path. If the path is a link, the file that it leads to counts.
pub(in crate::source::list) fn look(path: &Path) -> Result<fs::Metadata> {
    fs::metadata(path).map_err(|error| {
        let missing = match fs::read_link(path) {
            Ok(target) if error.kind() == io::ErrorKind::NotFound => {
                let cause =
                    format!("this symbolic link points to {}, which does not exist", target.display());
                Error::new(ErrorKind::NotFound, cause).hint("repair or remove the link")
            }
            _ if error.kind() == io::ErrorKind::NotFound => error.into_error().hint(near(path)),
            _ => error.into_error(),
        };
        missing.at(place(path))
    })
}

/// The hint for a path that does not exist: a similar name if there is one, otherwise how to check the path.
fn near(path: &Path) -> String {
    let there = path.ancestors().skip(1).find(|folder| folder.as_os_str().is_empty() || folder.is_dir());
    let there = there.unwrap_or(path);
    let listed = fs::read_dir(if there.as_os_str().is_empty() { Path::new(".") } else { there });
    let names = listed.into_iter().flatten().take(NAMES_COMPARED).flatten();
    let names: BTreeSet<String> = names.filter_map(|item| item.file_name().into_string().ok()).collect();
    let missing = path.strip_prefix(there).ok().and_then(|rest| rest.components().next());
    let missing = missing.map_or_else(String::new, |name| name.as_os_str().to_string_lossy().into_owned());
    match nearest(&missing, names.iter().map(String::as_str)) {
        Some(name) => format!("did you mean {}?", shown(&there.join(name).to_string_lossy())),
        None if path.is_relative() => match std::env::current_dir() {
            Ok(folder) => format!("a relative path starts at {}", folder.display()),
            Err(_) => "the working directory was deleted: give the absolute path".to_owned(),
        },
        None => "check the path on this machine".to_owned(),
    }
}

pub(in crate::source::list) fn entry(shown: PathBuf, metadata: &fs::Metadata) -> Result<DataFile> {
    if !metadata.is_file() {
        let what = kind_of(metadata.file_type());
        return Err(Error::invalid(format!("{what}, not a regular file"))
            .at(place(&shown))
            .hint("a data set is read more than once: copy it to a file"));
    }
    if metadata.len() == 0 {
        return Err(empty(place(&shown)));
    }
    let absolute = absolute(&shown)?;
    let pin =
        Pin { path: object_path(&absolute)?, size: metadata.len(), version: version_at(&absolute, metadata) };
    let (shown, whole) = (shown.to_string_lossy().into(), absolute.to_string_lossy().into_owned());
    Ok(DataFile::plain(shown, whole, 0, pin))
}

/// The name, for a message, of an item that is neither a file nor a folder.
fn kind_of(kind: fs::FileType) -> &'static str {
    match kind {
        kind if kind.is_fifo() => "a pipe",
        kind if kind.is_socket() => "a socket",
        _ => "a device",
    }
}

pub(in crate::source::list) fn absolute(path: &Path) -> Result<PathBuf> {
    let absolute = paths::absolute(path).map_err(|error| error.at(place(path)))?;
    // A path with `..` is resolved, so that `a/../b` and `b` are the same file. In other paths links are not
    // resolved, because the user may want the name of a link rather than that of its target.
    let mut plain = PathBuf::new();
    for component in absolute.components() {
        match component {
            std::path::Component::ParentDir => return canonical(path),
            other => plain.push(other),
        }
    }
    Ok(plain)
}

pub(in crate::source::list) fn canonical(path: &Path) -> Result<PathBuf> {
    fs::canonicalize(path).map_err(|error| error.into_error().at(place(path)))
}
