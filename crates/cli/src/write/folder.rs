//! Finds the files below a folder, and recognises their kinds by their names.

use std::fs;
use std::path::{Path, PathBuf};

use forebay_base::{Error, Result};

use super::read::{place, unreadable};
use super::sizes::plain_name;
use crate::image_endings::IMAGE_ENDINGS;
use crate::units::count;

/// A file that was found.
#[derive(Clone)]
pub(super) struct DiskFile {
    pub(super) path: PathBuf,
    /// Its path from the folder that was searched, with `/` between folders.
    pub(super) relative: String,
    pub(super) bytes: u64,
}

/// The files in and below a folder.
#[derive(Default)]
pub(super) struct FoundFiles {
    pub(super) files: Vec<DiskFile>,
    /// The number of files and folders that are passed over, since their names begin with a dot.
    hidden: u64,
}

impl FoundFiles {
    /// The remark on hidden files and folders, which are left out.
    pub(super) fn hidden_remark(&self) -> Option<String> {
        let hidden = count(self.hidden);
        let remark =
            format!("left out, since their names begin with a dot: {hidden} of the files and folders");
        (self.hidden > 0).then_some(remark)
    }
}

/// The kind of a file, recognised by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FoundKind {
    /// The index of MosaicML's shards.
    Mds,
    Tar,
    Arrow,
    Csv,
    Json,
    Image,
}

/// The file that lists the shards of an MDS folder.
pub(super) const MDS_INDEX: &str = "index.json";
/// The file endings of each kind. If a folder has files of several kinds, [`kind`] decides which of them are
/// read.
const ENDINGS: [(FoundKind, &[&str]); 5] = [
    (FoundKind::Tar, &["tar"]),
    (FoundKind::Arrow, &["arrow", "feather", "ipc"]),
    (FoundKind::Csv, &["csv", "tsv"]),
    (FoundKind::Json, &["jsonl", "ndjson", "json"]),
    (FoundKind::Image, IMAGE_ENDINGS),
];

impl FoundKind {
    pub(super) fn of_name(name: &str) -> Option<Self> {
        if name == MDS_INDEX || name.ends_with(&format!("/{MDS_INDEX}")) {
            return Some(FoundKind::Mds);
        }
        let plain = plain_name(Path::new(name));
        let ending = Path::new(&plain).extension()?.to_str()?;
        let kind = ENDINGS.iter().find(|(_, endings)| endings.contains(&ending)).map(|(kind, _)| *kind)?;
        let is_compressed = !name.to_ascii_lowercase().ends_with(&plain);
        (!is_compressed || matches!(kind, FoundKind::Csv | FoundKind::Json)).then_some(kind)
    }
}

impl FoundKind {
    /// The kind in words, in the plural.
    pub(super) fn noun(self) -> &'static str {
        match self {
            FoundKind::Mds => "shards of MDS",
            FoundKind::Tar => "tars",
            FoundKind::Arrow => "files of Arrow",
            FoundKind::Csv => "CSV",
            FoundKind::Json => "JSON",
            FoundKind::Image => "images by their names",
        }
    }
}

/// The kind of the files to read from a folder. It is images if there are no tables, or more images than
/// tables.
pub(super) fn kind(found: &[DiskFile]) -> Option<FoundKind> {
    let count = |kind| found.iter().filter(|file| FoundKind::of_name(&file.relative) == Some(kind)).count();
    if count(FoundKind::Mds) > 0 && found.iter().any(|file| file.relative.contains(".mds")) {
        return Some(FoundKind::Mds);
    }
    let images = count(FoundKind::Image);
    let tables = [FoundKind::Tar, FoundKind::Arrow, FoundKind::Csv, FoundKind::Json];
    match tables.into_iter().find(|kind| count(*kind) > 0) {
        // A few tables among images, such as a list of their licences, are not the data.
        Some(kind) if images <= count(kind) => Some(kind),
        _ if images > 0 => Some(FoundKind::Image),
        other => other,
    }
}

/// All files in and below `from` except hidden ones, in the order of their relative paths. If `from` is a
/// file, only that file.
pub(super) fn find(from: &Path) -> Result<FoundFiles> {
    let about = fs::metadata(from).map_err(|error| unreadable(from, &error))?;
    if about.is_file() {
        let relative = from.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let files = vec![DiskFile { path: from.to_owned(), relative, bytes: about.len() }];
        return Ok(FoundFiles { files, hidden: 0 });
    }
    let mut found = FoundFiles::default();
    search(from, "", &mut Vec::new(), &mut found)?;
    found.files.sort_by(|a, b| a.relative.cmp(&b.relative));
    Ok(found)
}

/// Adds the files of a folder and of the folders in it. `above` has the real paths of the folders that
/// contain it, so that a link back to one of them is not followed.
fn search(folder: &Path, prefix: &str, above: &mut Vec<PathBuf>, found: &mut FoundFiles) -> Result<()> {
    let real = folder.canonicalize().map_err(|error| unreadable(folder, &error))?;
    if above.contains(&real) {
        return Ok(());
    }
    above.push(real);
    let entries = fs::read_dir(folder).map_err(|error| unreadable(folder, &error))?;
    for entry in entries {
        let entry = entry.map_err(|error| unreadable(folder, &error))?;
        let path = entry.path();
        let name = entry.file_name();
        let Some(name) = name.to_str() else {
            return Err(Error::invalid("the name of a file is not UTF-8").at(place(&path)).hint("rename it"));
        };
        if name.starts_with('.') {
            found.hidden += 1;
            continue;
        }
        let relative = format!("{prefix}{name}");
        // A link counts as the file or folder that it leads to.
        let about = fs::metadata(&path).map_err(|error| unreadable(&path, &error))?;
        if about.is_dir() {
            search(&path, &format!("{relative}/"), above, found)?;
        } else if about.is_file() {
            found.files.push(DiskFile { path, relative, bytes: about.len() });
        }
    }
    above.pop();
    Ok(())
}
