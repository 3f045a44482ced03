//! Folders that are tables of a format with its own list of live files: Delta, Iceberg, Hudi.
//!
//! Reading every Parquet file in one would bring back rows that were removed, so they are refused.

use std::path::Path;

use super::place;
use crate::error::{Error, ErrorKind, Result};

const DELTA_LOG: &str = "_delta_log";
const HUDI_FOLDER: &str = ".hoodie";
const ICEBERG_FOLDER: &str = "metadata";
const ICEBERG_SUFFIX: &str = ".metadata.json";

/// Refuses `folder` if `names`, what it holds, are those of a table.
pub(super) fn refuse<'a>(folder: &Path, names: impl Iterator<Item = &'a str>) -> Result<()> {
    for name in names {
        match name {
            DELTA_LOG => {
                return Err(refusal(
                    folder,
                    "a Delta table, which lists its live files in _delta_log",
                    "pass those files: deltalake.DeltaTable(path).file_uris()",
                ));
            }
            HUDI_FOLDER => {
                return Err(refusal(
                    folder,
                    "a Hudi table, which lists its live files in .hoodie",
                    "pass the files of its latest snapshot",
                ));
            }
            ICEBERG_FOLDER if is_iceberg(&folder.join(ICEBERG_FOLDER)) => {
                return Err(refusal(
                    folder,
                    "an Iceberg table, which lists its live files in metadata/",
                    "pass those files: [task.file.file_path for task in table.scan().plan_files()] of pyiceberg",
                ));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Refuses a folder that lies inside of a table, however deep.
pub(super) fn refuse_above(folder: &Path) -> Result<()> {
    let absolute = std::path::absolute(folder).map_err(|error| Error::from(error).at(place(folder)))?;
    for ancestor in absolute.ancestors().skip(1) {
        let present = [DELTA_LOG, HUDI_FOLDER, ICEBERG_FOLDER].into_iter();
        refuse(ancestor, present.filter(|name| ancestor.join(name).is_dir()))?;
    }
    Ok(())
}

fn is_iceberg(metadata: &Path) -> bool {
    std::fs::read_dir(metadata).is_ok_and(|items| {
        items.flatten().any(|item| item.file_name().to_string_lossy().ends_with(ICEBERG_SUFFIX))
    })
}

fn refusal(folder: &Path, what: &str, hint: &str) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format!("the folder is {what}; as a plain folder it would give removed rows"),
    )
    .at(place(folder))
    .hint(hint)
}
