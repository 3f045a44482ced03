//! Decides by name which files of a folder are read, and makes the error if there are none.

use std::collections::BTreeSet;

use forebay_base::error::listed;
use forebay_base::{Error, ErrorKind, Place};

use crate::source::other_formats::OtherFormat;
use crate::source::remote::no_footer;

/// The name of a file without rows that has the common metadata of a folder's files.
pub(in crate::source) const COMMON_METADATA: &str = "_common_metadata";

/// The suffix of Parquet files.
pub(super) const SUFFIX: &str = ".parquet";

/// The suffixes of files that are read in a folder. Dask and fastparquet write `.parq`.
const SUFFIXES: [&str; 3] = [SUFFIX, ".parq", ".pq"];

/// The end of the names of empty objects with which Hadoop marks folders in object stores.
const FOLDER_MARK: &str = "_$folder$";

/// The number of names that the message about a folder without Parquet files lists.
const NAMES_SHOWN: usize = 5;

/// Chooses the files of a folder that are read: those with a suffix of Parquet files. If there are none, it
/// chooses the files without any suffix.
pub(super) fn chosen<T>(files: &[T], name: impl Fn(&T) -> &str) -> Vec<&T> {
    let parquet: Vec<&T> = files.iter().filter(|file| has_suffix(name(file))).collect();
    match parquet.is_empty() {
        // Some programs, such as Spark's own tools, write part files without a suffix.
        true => files.iter().filter(|file| !name(file).contains('.')).collect(),
        false => parquet,
    }
}

/// Whether a file or folder is ignored because it is not data. Spark, Hive, Hadoop and editors use such
/// names: `_SUCCESS`, `_metadata`, `.part-0.crc`, `train_$folder$`.
pub(super) fn is_hidden(name: &str) -> bool {
    // A folder such as `_key=3` is data: its key is a column whose name begins with an underscore.
    name.starts_with('.') || (name.starts_with('_') && !name.contains('=')) || name.ends_with(FOLDER_MARK)
}

pub(super) fn has_suffix(name: &str) -> bool {
    SUFFIXES.iter().any(|suffix| {
        let stem = name.len().saturating_sub(suffix.len());
        stem > 0 && name.is_char_boundary(stem) && name[stem..].eq_ignore_ascii_case(suffix)
    })
}

pub(super) fn nothing(place: Place, cause: &str, names: BTreeSet<&str>) -> Error {
    let error = Error::new(ErrorKind::NotFound, cause).at(place);
    let error = error.hint(match names.is_empty() {
        true => "it is empty, but for files whose names begin with _ or .".to_owned(),
        false => format!("it has {}", listed(&names, NAMES_SHOWN)),
    });
    match names.iter().find_map(|name| OtherFormat::of_name(name)) {
        Some(format) => error.hint_also(format.hint()),
        None => error,
    }
}

pub(super) fn empty(place: Place) -> Error {
    no_footer().at(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_not_data_are_passed_over() {
        for name in [
            "_SUCCESS",
            "_metadata",
            "_common_metadata",
            ".part-0.parquet.crc",
            "_temporary",
            ".git",
            "x_$folder$",
        ] {
            assert!(is_hidden(name), "{name}");
        }
        for name in ["part-0.parquet", "year=2024", "_key=3", "a_b"] {
            assert!(!is_hidden(name), "{name}");
        }
    }

    #[test]
    fn a_suffix_is_known_in_any_case_and_a_bare_one_is_none() {
        for name in ["a.parquet", "A.PARQUET", "é.parquet", "part.0.parq", "a.pq"] {
            assert!(has_suffix(name), "{name}");
        }
        for name in [".parquet", "a.parquet.crc", "parquet", ".pq", "pq", "é", ""] {
            assert!(!has_suffix(name), "{name}");
        }
    }
}
