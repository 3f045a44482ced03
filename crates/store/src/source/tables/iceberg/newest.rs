//! Finds the newest metadata file of an Iceberg table by the listing of its folder, without a catalogue.

use forebay_base::{Error, ErrorKind, Place, Result};

use crate::source::tables::{FoundFile, TableFolder};

/// The name of the folder with the metadata files, inside the folder of the table.
pub(super) const FOLDER: &str = "metadata";

/// The suffix of the names of metadata files.
pub(super) const SUFFIX: &str = ".metadata.json";

/// The hint: a file with the number or the name of the newest metadata file.
const HINT: &str = "version-hint.text";

/// A longer hint (in bytes) is ignored.
const LONGEST_HINT: u64 = 1_024;

/// Returns the name of the newest metadata file. With a hint, it is the file that the hint names, or a later
/// one if the hint is out of date. Without a hint, it is the file with the highest number.
pub(super) async fn name(table: &TableFolder<'_>) -> Result<String> {
    let found = table.list(FOLDER).await?;
    let newest = match found.iter().find(|file| file.name == HINT && file.pin.size <= LONGEST_HINT) {
        Some(hint) => {
            let bytes = table.bytes(&hint.pin).await?;
            hinted(&found, String::from_utf8_lossy(&bytes).trim())
        }
        None => None,
    };
    if let Some(newest) = newest.or_else(|| numbered(&found)) {
        warn_of_twins(table, &found, newest);
        return Ok(newest.name.clone());
    }
    let folder = format!("{}/{}", table.location()?, FOLDER);
    Err(Error::new(ErrorKind::NotFound, "the table has no metadata").at(Place::file(folder)))
}

/// The newest metadata file according to a hint. A writer may have stopped before it updated the hint. So if
/// the hint is a number, the file with the next number is taken if there is one, and so on.
fn hinted<'a>(found: &'a [FoundFile], hint: &str) -> Option<&'a FoundFile> {
    let of = |number: u64| {
        let plain = format!("v{number}.");
        found.iter().find(|file| file.name.starts_with(&plain) && file.name.ends_with(SUFFIX))
    };
    let Ok(mut number) = hint.parse::<u64>() else {
        return found.iter().find(|file| file.name == hint || file.name == format!("{hint}{SUFFIX}"));
    };
    let mut newest = of(number)?;
    while let Some(later) = number.checked_add(1).and_then(of) {
        (newest, number) = (later, number + 1);
    }
    Some(newest)
}

/// The metadata file with the highest number; if several have it, the one that was modified last.
fn numbered(found: &[FoundFile]) -> Option<&FoundFile> {
    let all = found.iter().filter_map(|file| Some((number(&file.name)?, file)));
    all.max_by_key(|(number, file)| (*number, file.modified)).map(|(_, file)| file)
}

/// The number in the name of a metadata file, such as `v3.metadata.json` or `00003-….metadata.json`.
fn number(name: &str) -> Option<u64> {
    let number = match name.strip_prefix('v') {
        Some(rest) => rest.split_once('.')?.0,
        None => name.split_once('-')?.0,
    };
    number.parse().ok().filter(|_| name.ends_with(SUFFIX))
}

/// Warns if another metadata file has the same number as the newest, because only a catalogue knows which of
/// the two is current.
fn warn_of_twins(table: &TableFolder<'_>, found: &[FoundFile], newest: &FoundFile) {
    let of = number(&newest.name);
    let mut others = found.iter().filter(|file| number(&file.name) == of && file.name != newest.name);
    if let Some(other) = others.next().filter(|_| of.is_some()) {
        table.warn(format!(
            "the table has two newest files of metadata, {} and {}, of which the one that was written last is read; its \
             catalogue knows which of them is current: open the table through it, or by the path of the file",
            newest.name, other.name
        ));
    }
}

#[cfg(test)]
mod tests {
    use object_store::path::Path;

    use super::*;
    use crate::snapshot::{FileVersion, Pin};

    fn files(names: &[&str]) -> Vec<FoundFile> {
        let file = |(modified, name): (i64, &&str)| {
            let pin = Pin { path: Path::from(*name), size: 1, version: FileVersion::Modified(0) };
            FoundFile { name: (*name).to_owned(), modified, pin }
        };
        (0..).zip(names).map(file).collect()
    }

    #[test]
    fn the_newest_metadata_is_that_of_the_hint_or_a_later_one() {
        let found =
            files(&["v1.metadata.json", "v2.gz.metadata.json", "v3.metadata.json", "v5.metadata.json"]);
        let of = |hint| hinted(&found, hint).map(|file| file.name.as_str());
        assert_eq!(of("1"), Some("v3.metadata.json"));
        assert_eq!(of("5"), Some("v5.metadata.json"));
        assert_eq!(of("v2.gz.metadata.json"), Some("v2.gz.metadata.json"));
        assert_eq!((of("9"), of("x")), (None, None));
    }

    #[test]
    fn without_a_hint_the_highest_number_is_the_newest() {
        let found = files(&[
            "00009-b.metadata.json",
            "00010-a.metadata.json",
            "00010-b.metadata.json",
            "00011-c.avro",
        ]);
        assert_eq!(numbered(&found).unwrap().name, "00010-b.metadata.json");
        assert_eq!(numbered(&files(&["x.metadata.json"])).map(|file| &file.name), None);
    }
}
