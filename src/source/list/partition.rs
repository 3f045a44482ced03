//! Folders that are named `key=value`, as Hive and Spark write them: the keys are columns that no file holds.
//!
//! They are not read as columns, and must not vanish silently. A user who spells them out in the location
//! (`t/day=2024-01-01/`, `t/day=*/`) knows of them; one who names the folder above them may not.

use std::collections::BTreeMap;

use crate::catalog::Catalog;
use crate::error::{Error, ErrorKind, Place, Result};
use crate::snapshot::UnreadKeys;
use crate::source::glob::Glob;

/// The keys in the paths of files below `base`, without those that `glob` spells out.
pub(super) fn unread_keys<'a>(
    base: &str,
    glob: Option<&Glob>,
    relative: impl IntoIterator<Item = &'a str>,
) -> UnreadKeys {
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    let mut last = "";
    for path in relative {
        let (folder, _) = path.rsplit_once('/').unwrap_or_default();
        // Files of one folder come one after the other.
        if folder == std::mem::replace(&mut last, folder) {
            continue;
        }
        for key in folder.split('/').filter_map(key) {
            if glob.is_some_and(|glob| glob.spells(key)) {
                continue;
            }
            match found.get(key) {
                Some(first) if first.as_str() <= folder => {}
                _ => _ = found.insert(key.to_owned(), folder.to_owned()),
            }
        }
    }
    UnreadKeys { found, base: base.trim_end_matches('/').to_owned() }
}

/// Refuses keys that are not columns of the data set either.
pub(in crate::source) fn refuse_lost(keys: &UnreadKeys, catalog: &Catalog) -> Result<()> {
    let is_lost = |key: &&String| catalog.schema.column_with_name(key).is_none();
    let lost: Vec<&str> = keys.found.keys().filter(is_lost).map(String::as_str).collect();
    let Some(folder) = lost.first().and_then(|key| keys.found.get(*key)) else { return Ok(()) };
    let named: Vec<String> = folder.split('/').map(any_value).collect();
    let cause = format!(
        "its folders are partitions ({folder}), and partition keys are not read as columns: {} would be lost",
        lost.join(", "),
    );
    let hint = format!(
        "to read the files without them, write the folders out, as in {}/{}/*.parquet; to keep them, write them \
         into the files as columns",
        keys.base,
        named.join("/"),
    );
    Err(Error::new(ErrorKind::Unsupported, cause).at(Place::file(keys.base.as_str())).hint(hint))
}

/// The key of a folder's name, if it has one.
fn key(name: &str) -> Option<&str> {
    name.split_once('=').map(|(key, _)| key).filter(|key| !key.is_empty())
}

/// The pattern for all folders with the key of this one.
fn any_value(name: &str) -> String {
    key(name).map_or_else(|| name.to_owned(), |key| format!("{key}=*"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn keys(glob: Option<&str>, paths: &[&str]) -> Vec<String> {
        let glob = glob.and_then(|glob| Glob::split(Path::new(glob)));
        unread_keys("t", glob.as_ref(), paths.iter().copied()).found.into_keys().collect()
    }

    #[test]
    fn keys_are_those_of_folders_that_the_location_does_not_name() {
        let paths = ["day=1/hour=2/a.parquet", "day=1/hour=3/a=b.parquet", "x/=3/c.parquet", "d.parquet"];
        assert_eq!(keys(None, &paths), ["day", "hour"]);
        assert_eq!(keys(Some("day=*/**"), &paths), ["hour"]);
        assert_eq!(keys(Some("day=[1]/hour=[12]/*"), &paths), [""; 0]);
        assert_eq!(keys(Some("*/*/*.parquet"), &paths), ["day", "hour"]);
        assert_eq!(keys(None, &["a.parquet"]), [""; 0]);
    }
}
