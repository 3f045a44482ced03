//! The list of known table formats, and functions that recognise tables by folders and paths.

use std::path::Path;
use std::sync::{PoisonError, RwLock};

use forebay_base::{Result, paths};

use super::format::{TableFormat, refusal};
use super::refused;
use crate::source::local::place;

/// The built-in table formats, which take precedence over [registered](register_table_format) ones.
const OWN: [&dyn TableFormat; 4] = [DELTA, &refused::HUDI, ICEBERG, &refused::LANCE];

#[cfg(feature = "delta")]
const DELTA: &dyn TableFormat = &super::delta::Delta;
#[cfg(not(feature = "delta"))]
const DELTA: &dyn TableFormat = &refused::DELTA;

#[cfg(feature = "iceberg")]
const ICEBERG: &dyn TableFormat = &super::iceberg::Iceberg;
#[cfg(not(feature = "iceberg"))]
const ICEBERG: &dyn TableFormat = &refused::ICEBERG;

/// The formats that were registered in this process, in order.
static REGISTERED: RwLock<Vec<&dyn TableFormat>> = RwLock::new(Vec::new());

/// Registers a table format for all data sets that this process opens from now on. A folder is a table of the
/// first format whose [sign](TableFormat::sign) it has. A format is ignored if one with the same sign is
/// registered.
pub fn register_table_format(format: &'static dyn TableFormat) {
    let mut registered = REGISTERED.write().unwrap_or_else(PoisonError::into_inner);
    let sign = format.sign();
    if !registered.iter().any(|known| known.sign() == sign) {
        registered.push(format);
    }
}

/// The first format for which `fits` returns `true`: built-in formats first, then registered ones.
fn find(mut fits: impl FnMut(&dyn TableFormat) -> bool) -> Option<&'static dyn TableFormat> {
    let own = OWN.into_iter().find(|format| fits(*format));
    own.or_else(|| {
        let registered = REGISTERED.read().unwrap_or_else(PoisonError::into_inner);
        registered.iter().copied().find(|format| fits(*format))
    })
}

/// The formats whose tables consist of Parquet files.
pub(in crate::source) fn of_parquet() -> impl Iterator<Item = &'static dyn TableFormat> {
    let registered = REGISTERED.read().unwrap_or_else(PoisonError::into_inner).clone();
    OWN.into_iter().chain(registered).filter(|format| format.sign().holds_parquet)
}

/// Recognises a table by the path of a file in its metadata folder. Returns the table's folder, with a `/` at
/// the end, and its format. The separator in `path` is `/`.
pub(in crate::source) fn shown_by(path: &str) -> Option<(&str, &'static dyn TableFormat)> {
    let (folders, name) = path.rsplit_once('/')?;
    let mut at = 0;
    for (depth, folder) in folders.split('/').enumerate() {
        let start = if depth == 0 { 0 } else { at + 1 };
        at = start + folder.len();
        let is_shown =
            |format: &dyn TableFormat| folder == format.sign().folder && format.sign().is_file(name);
        if let Some(format) = find(is_shown) {
            return Some((&path[..start], format));
        }
    }
    None
}

/// Recognises the path of a metadata file that a user can open to select a table. Returns the format, the
/// table's folder without a `/` at the end, and the name of the file.
pub(in crate::source) fn opened_by(path: &str) -> Option<(&'static dyn TableFormat, &str, &str)> {
    let (list, name) = path.rsplit_once('/')?;
    let (folder, list) = list.rsplit_once('/').unwrap_or(("", list));
    let is_it = |format: &dyn TableFormat| {
        format.opens_by_file() && format.sign().folder == list && format.sign().is_file(name)
    };
    find(is_it).map(|format| (format, folder, name))
}

/// Whether `name` is the name of a metadata folder of some format, so that its parent may be a table.
pub(in crate::source) fn is_sign(name: &str) -> bool {
    find(|format| format.sign().folder == name).is_some()
}

/// The table format of a local folder; `None` if the folder is not a table.
pub(in crate::source) fn of_folder(folder: &Path) -> Option<&'static dyn TableFormat> {
    find(|format| {
        let sign = format.sign();
        folder.join(sign.folder).exists() && sign.is_at(folder, sign.folder)
    })
}

/// Fails if a local folder is a table: one of its entries `names` is the sign of a table format.
pub(in crate::source) fn refuse<'a>(folder: &Path, mut names: impl Iterator<Item = &'a str>) -> Result<()> {
    match names.find_map(|name| find(|format| format.sign().is_at(folder, name))) {
        Some(format) => Err(refusal(format, place(folder))),
        None => Ok(()),
    }
}

/// Fails if a local folder is inside the folder of a table, at any depth.
pub(in crate::source) fn refuse_above(folder: &Path) -> Result<()> {
    let absolute = paths::absolute(folder).map_err(|error| error.at(place(folder)))?;
    for ancestor in absolute.ancestors().skip(1) {
        let present = of_parquet().map(|format| format.sign().folder);
        refuse(ancestor, present.filter(|name| ancestor.join(name).is_dir()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use forebay_base::Place;

    use super::*;

    #[test]
    fn a_table_is_refused_by_the_name_of_its_format() {
        let refused = |format: &dyn TableFormat| refusal(format, Place::default()).cause().to_owned();
        assert!(refused(ICEBERG).starts_with("this is the folder of an Iceberg table: "));
        assert!(refused(DELTA).starts_with("this is the folder of a Delta table: "));
    }

    #[test]
    fn a_table_shows_in_the_paths_of_its_files() {
        let shown = |path| shown_by(path).map(|(folder, format)| (folder, format.sign().format));
        assert_eq!(shown("t/_delta_log/00.json"), Some(("t/", "Delta")));
        assert_eq!(shown("_delta_log/_last_checkpoint"), Some(("", "Delta")));
        assert_eq!(shown("a/b/.hoodie/x/y"), Some(("a/b/", "Hudi")));
        assert_eq!(shown("t/metadata/v1.metadata.json"), Some(("t/", "Iceberg")));
        assert_eq!(shown("t/metadata/notes.txt"), None);
        assert_eq!(shown("t/_versions/1.manifest"), Some(("t/", "Lance")));
        assert_eq!(shown("t/_delta_log"), None);
        assert_eq!(shown("a.parquet"), None);
    }
}
