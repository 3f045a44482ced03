//! Folders that are tables of a format with its own list of live files: Delta, Iceberg, Hudi.
//!
//! Reading every Parquet file in one would bring back rows that were removed, so they are refused.

use std::path::Path;

use super::local::place;
use crate::error::{Error, ErrorKind, Place, Result};

const DELTA_LOG: &str = "_delta_log";
const HUDI_FOLDER: &str = ".hoodie";
const ICEBERG_FOLDER: &str = "metadata";
const ICEBERG_SUFFIX: &str = ".metadata.json";

/// A table format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Table {
    Delta,
    Hudi,
    Iceberg,
}

impl Table {
    pub(super) const ALL: [Table; 3] = [Table::Delta, Table::Hudi, Table::Iceberg];

    /// The folder that a table of this format keeps its list in.
    pub(super) fn folder(self) -> &'static str {
        match self {
            Table::Delta => DELTA_LOG,
            Table::Hudi => HUDI_FOLDER,
            Table::Iceberg => ICEBERG_FOLDER,
        }
    }

    /// Whether a file of this name in that folder is the sign of such a table.
    pub(super) fn is_sign(self, name: &str) -> bool {
        self != Table::Iceberg || name.ends_with(ICEBERG_SUFFIX)
    }

    /// The table that a path with `/` shows: its folder, with a `/` at the end, and its format.
    pub(super) fn shown_by(path: &str) -> Option<(&str, Table)> {
        let (folders, name) = path.rsplit_once('/')?;
        let mut at = 0;
        for (depth, folder) in folders.split('/').enumerate() {
            let start = if depth == 0 { 0 } else { at + 1 };
            at = start + folder.len();
            let found = Table::ALL.into_iter().find(|table| folder == table.folder() && table.is_sign(name));
            if let Some(table) = found {
                return Some((&path[..start], table));
            }
        }
        None
    }

    /// The refusal to read such a table's folder as a plain one.
    pub(super) fn refusal(self, folder: Place) -> Error {
        let (what, hint) = match self {
            Table::Delta => (
                "a Delta table, which lists its live files in _delta_log",
                "pass those files: deltalake.DeltaTable(path).file_uris()",
            ),
            Table::Hudi => (
                "a Hudi table, which lists its live files in .hoodie",
                "pass the files of its latest snapshot",
            ),
            Table::Iceberg => (
                "an Iceberg table, which lists its live files in metadata/",
                "pass those files: [task.file.file_path for task in table.scan().plan_files()] of pyiceberg",
            ),
        };
        let cause = format!("the folder is {what}; as a plain folder it would give removed rows");
        Error::new(ErrorKind::Unsupported, cause).at(folder).hint(hint)
    }
}

/// Refuses a local `folder` if `names`, what it holds, are those of a table.
pub(super) fn refuse<'a>(folder: &Path, mut names: impl Iterator<Item = &'a str>) -> Result<()> {
    let found = names.find_map(|name| Table::ALL.into_iter().find(|table| is_table(folder, name, *table)));
    match found {
        Some(table) => Err(table.refusal(place(folder))),
        None => Ok(()),
    }
}

/// Refuses a local folder that lies inside of a table, however deep.
pub(super) fn refuse_above(folder: &Path) -> Result<()> {
    let absolute = std::path::absolute(folder).map_err(|error| Error::from(error).at(place(folder)))?;
    for ancestor in absolute.ancestors().skip(1) {
        let present = Table::ALL.into_iter().map(Table::folder);
        refuse(ancestor, present.filter(|name| ancestor.join(name).is_dir()))?;
    }
    Ok(())
}

fn is_table(folder: &Path, name: &str, table: Table) -> bool {
    name == table.folder()
        && (table != Table::Iceberg
            || std::fs::read_dir(folder.join(name)).is_ok_and(|items| {
                items.flatten().any(|item| table.is_sign(&item.file_name().to_string_lossy()))
            }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_shows_in_the_paths_of_its_files() {
        let shown = Table::shown_by;
        assert_eq!(shown("t/_delta_log/00.json"), Some(("t/", Table::Delta)));
        assert_eq!(shown("_delta_log/_last_checkpoint"), Some(("", Table::Delta)));
        assert_eq!(shown("a/b/.hoodie/x/y"), Some(("a/b/", Table::Hudi)));
        assert_eq!(shown("t/metadata/v1.metadata.json"), Some(("t/", Table::Iceberg)));
        assert_eq!(shown("t/metadata/notes.txt"), None);
        assert_eq!(shown("t/_delta_log"), None);
        assert_eq!(shown("a.parquet"), None);
    }
}
