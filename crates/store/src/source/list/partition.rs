//! Reads columns from the names of folders: Hive and Spark write `key=value` folders for values that are not
//! in the files.
//!
//! The keys of the folders below a location become columns with one value in all rows of a file. A key that
//! the location itself contains (`t/day=2024-01-01/`, `t/day=*/`) does not become a column.
//!
//! Names and values are percent-decoded. A key becomes a column of 64-bit integers if all of its values are
//! integers, else a column of text. Other types, such as dates, are not guessed, but the user may declare
//! them; dates and times sort correctly as text, too.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use forebay_arrow::datatypes::{DataType, Field};
use forebay_base::{Error, Place, Result};

use super::key_types::{KeyTypes, value};
use crate::snapshot::{Constant, DataFile, Listed, PartitionKey};
use crate::source::glob::Glob;

/// The value that Hive and Spark write for null.
const NULL: &str = "__HIVE_DEFAULT_PARTITION__";

/// A function that decides, from what is known about a file before its footer is read, if the file may have
/// rows that are selected.
type KeepsFile = dyn Fn(&Listed<'_>) -> bool + Send + Sync;

/// Selects files before their footers are read: by the keys of their folders, or by their table's list of
/// files.
pub struct FileFilter {
    /// The names of the columns that the selection depends on.
    pub columns: Vec<String>,
    /// Returns false for a file that need not be read.
    pub keeps: Box<KeepsFile>,
}

impl FileFilter {
    /// Whether the selection depends on a key of the folders of one of these files.
    pub(in crate::source) fn concerns(&self, files: &[DataFile]) -> bool {
        let mut keys = files.iter().flat_map(|file| file.keys.iter());
        keys.any(|key| self.columns.contains(&key.name))
    }

    /// Removes the files that need not be read according to their tables' lists. Fails with `Invalid` if it
    /// removes all files.
    pub(in crate::source) fn of_tables(&self, files: &mut Vec<DataFile>) -> Result<()> {
        if self.columns.is_empty() {
            return Ok(());
        }
        let had_some = !files.is_empty();
        files.retain(|file| !file.is_listed() || (self.keeps)(&file.listed()));
        match had_some && files.is_empty() {
            true => Err(none_kept()),
            false => Ok(()),
        }
    }
}

/// The error for a filter that selects no file of a data set.
pub fn none_kept() -> Error {
    Error::invalid("no row is selected").hint("the filter matches no folder, and no file of a table")
}

/// Sets the keys of each file: those of the folders in its path, except keys that the glob itself contains.
pub(super) fn note_keys<'a>(
    files: &mut [DataFile],
    glob: Option<&Glob>,
    relative: impl IntoIterator<Item = &'a str>,
) {
    let mut last: (&str, Arc<[PartitionKey]>) = ("", Arc::default());
    for (file, path) in files.iter_mut().zip(relative) {
        let (folder, _) = path.rsplit_once('/').unwrap_or_default();
        // Files of the same folder are next to each other, so the keys of the last folder are used again.
        if folder != last.0 {
            let keys = folder.split('/').filter_map(key);
            let unnamed = keys.filter(|(name, _)| !glob.is_some_and(|glob| glob.spells(name)));
            last = (folder, unnamed.map(|(name, value)| PartitionKey::new(name, value)).collect());
        }
        file.keys = last.1.clone();
    }
}

/// Makes constant columns from the keys of the files' folders. A key for which `is_stored` is true is left
/// out, because the files have a column with its name. `types` are the declared types of keys.
///
/// Fails with `Invalid` if the path of a file has a key twice, or if a value cannot be parsed as its key's
/// declared type.
pub(in crate::source) fn settle<'a>(
    files: impl Iterator<Item = &'a mut DataFile>,
    types: &KeyTypes,
    is_stored: impl Fn(&str) -> bool,
) -> Result<()> {
    // Files that already have constants are skipped, because an earlier call of this function, for all files,
    // has made them.
    let open = |file: &&mut DataFile| !file.keys.is_empty() && file.constants.is_empty();
    let files: Vec<&mut DataFile> = files.filter(open).collect();
    let mut values: HashMap<&str, BTreeSet<Option<&str>>> = HashMap::new();
    let keys: Vec<Arc<[PartitionKey]>> = files.iter().map(|file| file.keys.clone()).collect();
    for key in keys.iter().flat_map(|keys| keys.iter()).filter(|key| !is_stored(&key.name)) {
        values.entry(&key.name).or_default().insert(key.value.as_deref());
    }
    let fields: HashMap<&str, Arc<Field>> =
        values.iter().map(|(name, values)| (*name, Arc::new(field(name, values, types)))).collect();
    let mut known: HashMap<*const PartitionKey, Arc<[Constant]>> = HashMap::new();
    for (file, keys) in files.into_iter().zip(&keys) {
        if let Some(at) = (1..keys.len()).find(|at| keys[..*at].iter().any(|key| key.name == keys[*at].name))
        {
            let cause = format!("two folders of its path have the key {:?}", keys[at].name);
            return Err(Error::invalid(cause).at(Place::file(file.shown.clone())).hint("rename one of them"));
        }
        let constants = match known.entry(keys.as_ptr()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => {
                let of_key = |key: &PartitionKey| {
                    let place = || Place::file(file.shown.clone()).column(key.name.as_str());
                    let made = constant(fields.get(key.name.as_str())?, key.value.as_deref());
                    Some(made.map_err(|error| error.at(place())))
                };
                unknown.insert(keys.iter().filter_map(of_key).collect::<Result<_>>()?)
            }
        };
        if !constants.is_empty() {
            file.constants = constants.clone();
        }
    }
    Ok(())
}

/// The field of the column that a key with these values becomes.
fn field(name: &str, values: &BTreeSet<Option<&str>>, types: &KeyTypes) -> Field {
    if let Some(declared) = types.get(name) {
        return Field::new(name, declared.clone(), values.contains(&None));
    }
    let mut there = values.iter().flatten().peekable();
    let are_numbers = there.peek().is_some() && there.all(|value| number(value).is_some());
    let data_type = if are_numbers { DataType::Int64 } else { DataType::Utf8View };
    Field::new(name, data_type, values.contains(&None))
}

fn constant(field: &Arc<Field>, text: Option<&str>) -> Result<Constant> {
    Ok(Constant { field: field.clone(), value: value(field.data_type(), text)? })
}

/// Parses a whole number, with or without leading zeros.
fn number(value: &str) -> Option<i64> {
    value
        .strip_prefix('-')
        .unwrap_or(value)
        .bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| value.parse().ok())?
}

/// Splits the name of a `key=value` folder; `None` for other folders.
fn key(name: &str) -> Option<(&str, &str)> {
    name.split_once('=').filter(|(key, _)| !key.is_empty())
}

impl PartitionKey {
    fn new(name: &str, value: &str) -> Self {
        PartitionKey { name: decoded(name), value: (value != NULL).then(|| decoded(value)) }
    }
}

/// Decodes escapes such as `%41` in a name. The name is unchanged if the result is not UTF-8.
fn decoded(name: &str) -> String {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let code = after.get(..2).filter(|_| byte == b'%').and_then(|code| std::str::from_utf8(code).ok());
        match code.filter(|code| code.bytes().all(|digit| digit.is_ascii_hexdigit())) {
            Some(code) => {
                bytes.push(u8::from_str_radix(code, 16).unwrap_or(byte));
                rest = &after[2..];
            }
            None => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| name.to_owned())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use forebay_arrow::array::AsArray;
    use forebay_arrow::datatypes::{Int64Type, TimeUnit};

    use crate::snapshot::{FileVersion, Pin};

    use super::*;

    fn files(glob: Option<&str>, paths: &[&str]) -> Vec<DataFile> {
        let pin = Pin { path: "p".into(), size: 1, version: FileVersion::Modified(0) };
        let file = |path: &&str| DataFile::plain((*path).into(), (*path).into(), 0, pin.clone());
        let mut files: Vec<DataFile> = paths.iter().map(file).collect();
        let glob = glob.and_then(|glob| Glob::split(Path::new(glob)));
        note_keys(&mut files, glob.as_ref(), paths.iter().copied());
        files
    }

    fn keys(glob: Option<&str>, paths: &[&str]) -> Vec<String> {
        let files = files(glob, paths);
        let keys: BTreeSet<&str> =
            files.iter().flat_map(|file| file.keys.iter()).map(|key| key.name.as_str()).collect();
        keys.into_iter().map(String::from).collect()
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

    #[test]
    fn values_are_numbers_if_all_are_else_texts_and_null_where_hive_says_so() {
        let paths = [
            "n=07/t=7/at=12%3A00%20%25/x=a/f",
            "n=-12/t=7b/at=%zz%4/x=b/f",
            "n=__HIVE_DEFAULT_PARTITION__/t=/at=%ff/x=c/f",
            "n=9223372036854775807/t=__HIVE_DEFAULT_PARTITION__/at=y/x=d/f",
        ];
        let mut files = files(None, &paths);
        settle(files.iter_mut(), &KeyTypes::default(), |name| name == "x").unwrap();
        let column = |at: usize| files.iter().map(|file| file.constants[at].clone()).collect::<Vec<_>>();
        let numbers: Vec<Option<i64>> =
            column(0).iter().map(|n| n.value.as_primitive::<Int64Type>().iter().next().unwrap()).collect();
        assert_eq!(numbers, [Some(7), Some(-12), None, Some(i64::MAX)]);
        assert!(column(0).iter().all(|n| n.field.is_nullable()));
        let texts = |at| -> Vec<Option<String>> {
            let texts = column(at);
            let texts =
                texts.iter().map(|t| t.value.as_string_view().iter().next().unwrap().map(String::from));
            texts.collect()
        };
        assert_eq!(texts(1), [Some("7"), Some("7b"), Some(""), None].map(|text| text.map(String::from)));
        assert_eq!(texts(2).into_iter().flatten().collect::<Vec<_>>(), ["12:00 %", "%zz%4", "%ff", "y"]);
        assert!(!column(2)[0].field.is_nullable() && files[0].constants.len() == 3);
        let mut beyond = self::files(None, &["n=9223372036854775808/f", "n=1/f"]);
        settle(beyond.iter_mut(), &KeyTypes::default(), |_| false).unwrap();
        assert_eq!(beyond[1].constants[0].field.data_type(), &DataType::Utf8View);
        let mut twice = self::files(None, &["n=1/n=2/f"]);
        assert!(
            settle(twice.iter_mut(), &KeyTypes::default(), |_| false)
                .unwrap_err()
                .to_string()
                .contains("the key \"n\"")
        );
    }

    #[test]
    fn declared_keys_have_their_types_or_are_refused() {
        let paths = [
            "d=2024-05-17/n=7/b=true/f=1e3/t=2024-05-17 01:02:03.5/x",
            "d=__HIVE_DEFAULT_PARTITION__/n=-8/b=FALSE/f=-0/t=2024-05-17/x",
        ];
        let types = |types: &[(&str, DataType)]| {
            KeyTypes::new(types.iter().map(|(name, of)| ((*name).to_owned(), of.clone())).collect())
        };
        let time = DataType::Timestamp(TimeUnit::Microsecond, None);
        let all = [
            ("d", DataType::Date32),
            ("n", DataType::Int8),
            ("b", DataType::Boolean),
            ("f", DataType::Float32),
            ("t", time),
        ];
        let mut files = files(None, &paths);
        settle(files.iter_mut(), &types(&all).unwrap(), |_| false).unwrap();
        let found: Vec<String> = files
            .iter()
            .flat_map(|file| file.constants.iter())
            .map(|constant| format!("{:?}", constant.value).replace(char::is_whitespace, ""))
            .collect();
        for (at, shown) in [
            "[2024-05-17,]",
            "[7,]",
            "[true,]",
            "[1000.0,]",
            "[2024-05-17T01:02:03.500,]",
            "[null,]",
            "[-8,]",
            "[false,]",
            "[-0.0,]",
            "[2024-05-17T00:00:00,]",
        ]
        .iter()
        .enumerate()
        {
            assert!(found[at].ends_with(shown), "{}", found[at]);
        }
        // Only the first key is null in a folder. A column of it must be nullable in all files.
        for file in &files {
            let nullable: Vec<bool> = file.constants.iter().map(|it| it.field.is_nullable()).collect();
            assert_eq!(nullable, [true, false, false, false, false]);
        }
        for (key, data_type) in [
            ("n", DataType::UInt8),
            ("d", DataType::Int32),
            ("b", DataType::Date32),
            ("f", DataType::Int64),
            ("t", DataType::Date32),
        ] {
            let mut files = self::files(None, &paths);
            let error =
                settle(files.iter_mut(), &types(&[(key, data_type)]).unwrap(), |_| false).unwrap_err();
            let error = error.to_string();
            assert!(
                error.contains(&format!("column {key:?}")) && error.contains("is not a value"),
                "{error}"
            );
        }
        assert!(types(&[("d", DataType::Date64)]).unwrap_err().to_string().contains("holds no date64"));
        let unknown = types(&[("e", DataType::Date32)]).unwrap().check(&files).unwrap_err().to_string();
        assert!(unknown.contains("in no folder's name"), "{unknown}");
    }
}
