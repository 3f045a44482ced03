//! Folders that are tables of a format with its own list of live files: Delta, Iceberg, Hudi, Lance.
//!
//! Reading every Parquet file in one would bring back rows that were removed. Even its live files alone are not the table:
//! rows can be deleted and columns renamed outside of them, and partition keys lie in the list. So they are refused, and
//! what is advised gives the table's rows whatever it makes use of. Files that are named one by one are read as they are.

use std::path::Path;

use super::local::place;
use crate::error::{Error, ErrorKind, Foreign, Place, Result};

const DELTA_LOG: &str = "_delta_log";
const HUDI_FOLDER: &str = ".hoodie";
const ICEBERG_FOLDER: &str = "metadata";
const ICEBERG_SUFFIX: &str = ".metadata.json";
const LANCE_FOLDER: &str = "_versions";
const LANCE_SUFFIX: &str = ".manifest";

/// A table format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Table {
    Delta,
    Hudi,
    Iceberg,
    Lance,
}

impl Table {
    const ALL: [Table; 4] = [Table::Delta, Table::Hudi, Table::Iceberg, Table::Lance];

    /// The formats whose tables hold Parquet, so that a folder in one could be read by mistake.
    pub(super) const OF_PARQUET: [Table; 3] = [Table::Delta, Table::Hudi, Table::Iceberg];

    /// The folder that a table of this format keeps its list in.
    pub(super) fn folder(self) -> &'static str {
        match self {
            Table::Delta => DELTA_LOG,
            Table::Hudi => HUDI_FOLDER,
            Table::Iceberg => ICEBERG_FOLDER,
            Table::Lance => LANCE_FOLDER,
        }
    }

    /// Whether a file of this name in that folder is the sign of such a table.
    pub(super) fn is_sign(self, name: &str) -> bool {
        match self {
            Table::Delta | Table::Hudi => true,
            Table::Iceberg => name.ends_with(ICEBERG_SUFFIX),
            Table::Lance => name.ends_with(LANCE_SUFFIX),
        }
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
        let (name, list) = match self {
            Table::Delta => ("Delta", "_delta_log"),
            Table::Hudi => ("Hudi", ".hoodie"),
            Table::Iceberg => ("Iceberg", "metadata"),
            Table::Lance => ("Lance", "_versions"),
        };
        let cause = format!("this is the folder of a {name} table: which rows it has is written in {list}");
        let hint = format!(
            "write the table's rows to plain Parquet with an engine that reads {name}, such as Spark, and open that"
        );
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
    let absolute = std::path::absolute(folder).map_err(|error| error.into_error().at(place(folder)))?;
    for ancestor in absolute.ancestors().skip(1) {
        let present = Table::OF_PARQUET.into_iter().map(Table::folder);
        refuse(ancestor, present.filter(|name| ancestor.join(name).is_dir()))?;
    }
    Ok(())
}

fn is_table(folder: &Path, name: &str, table: Table) -> bool {
    let has_sign = || {
        std::fs::read_dir(folder.join(name))
            .is_ok_and(|items| items.flatten().any(|item| table.is_sign(&item.file_name().to_string_lossy())))
    };
    // The first two are known by the folder alone, empty or not.
    name == table.folder() && (matches!(table, Table::Delta | Table::Hudi) || has_sign())
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
        assert_eq!(shown("t/_versions/1.manifest"), Some(("t/", Table::Lance)));
        assert_eq!(shown("t/_delta_log"), None);
        assert_eq!(shown("a.parquet"), None);
    }
}
