//! The names of classes that Hugging Face's `datasets` declares in the metadata of Parquet files.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use forebay_base::error::listed;
use forebay_base::{Error, Place};
use serde_json::{Map, Value};
use xxhash_rust::xxh3::xxh3_64;

/// The key of the metadata in which `datasets` describes columns.
const METADATA: &str = "huggingface";
/// The most names of classes that a message shows of each file.
const NAMES_SHOWN: usize = 4;
/// How deep features are followed into lists and structures: deeper than columns that can be read.
const DEEPEST: usize = 64;

/// The names of classes by column; the fields of structures are separated by dots.
pub(crate) type DeclaredClasses = BTreeMap<String, Vec<String>>;

/// The names of the classes in the columns of a data set, as its files declare them.
#[derive(Clone, Debug, Default)]
pub struct ClassNames {
    /// The names by column, each with the file that declares them.
    by_column: BTreeMap<String, (Arc<str>, Vec<String>)>,
    /// The columns for which files declare other names, each with the error for it.
    refused: BTreeMap<String, Error>,
}

impl ClassNames {
    /// The names by column; the class `i` has the name `i`. Columns whose files disagree are left out.
    pub fn by_column(&self) -> impl Iterator<Item = (&str, &[String])> {
        let agreed = self.by_column.iter().filter(|(column, _)| !self.refused.contains_key(*column));
        agreed.map(|(column, (_, names))| (column.as_str(), names.as_slice()))
    }

    /// The columns whose files disagree on the names, each with an error that names two of the files.
    pub fn refused(&self) -> impl Iterator<Item = (&str, &Error)> {
        self.refused.iter().map(|(column, error)| (column.as_str(), error))
    }

    /// Adds the names that a file declares. They must be those of the files before it, except that the longer
    /// of two lists is used if it only has more classes at its end.
    pub(crate) fn add(&mut self, file: &Arc<str>, declared: &DeclaredClasses) {
        for (column, names) in declared {
            let Some((first, known)) = self.by_column.get_mut(column) else {
                self.by_column.insert(column.clone(), (file.clone(), names.clone()));
                continue;
            };
            if known.starts_with(names) {
                continue;
            }
            if names.starts_with(known) {
                (*first, *known) = (file.clone(), names.clone());
                continue;
            }
            self.refused.entry(column.clone()).or_insert_with(|| {
                let at = known.iter().zip(names).position(|(known, other)| known != other).unwrap_or(0);
                let cause = format!(
                    "class {at} is {:?}, and {:?} in {first} (classes {} and {})",
                    names[at],
                    known[at],
                    quoted(names),
                    quoted(known)
                );
                let hint = "open the files with the same classes, or write them with the same ClassLabel";
                Error::invalid(cause).hint(hint).at(Place::file(file.clone()).column(column.as_str()))
            });
        }
    }
}

/// The declarations that were parsed so far. Most files of a data set have the same one, and share it.
#[derive(Debug, Default)]
pub(crate) struct KnownClasses(Mutex<ParsedNames>);

#[derive(Debug, Default)]
struct ParsedNames {
    /// The declarations by the hash of the metadata that have them.
    of_texts: HashMap<u64, Arc<DeclaredClasses>>,
    /// Equal declarations share memory even if the rest of their metadata differs.
    shared: HashSet<Arc<DeclaredClasses>>,
}

impl KnownClasses {
    /// The names that the metadata of a file declares; `None` if there are none. Metadata that cannot be read
    /// declares nothing.
    pub(crate) fn of<'a>(
        &self,
        metadata: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Option<Arc<DeclaredClasses>> {
        let (_, text) = metadata.into_iter().find(|(key, _)| *key == METADATA)?;
        let hash = xxh3_64(text.as_bytes());
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(classes) = known.of_texts.get(&hash) {
            return Some(classes.clone());
        }
        let mut classes = DeclaredClasses::new();
        let mut all: Value = serde_json::from_str(text).unwrap_or_default();
        if let Some(Value::Object(features)) = all.pointer_mut("/info/features").map(Value::take) {
            of_fields("", &features, DEEPEST, &mut classes);
        }
        let classes = known.shared.get(&classes).cloned().unwrap_or_else(|| classes.into());
        known.shared.insert(classes.clone());
        known.of_texts.insert(hash, classes.clone());
        Some(classes)
    }
}

/// Adds the names of the classes in each field, whose name begins with `before`.
fn of_fields(before: &str, fields: &Map<String, Value>, depth: usize, classes: &mut DeclaredClasses) {
    for (name, feature) in fields {
        of_feature(format!("{before}{name}"), feature, depth, classes);
    }
}

fn of_feature(name: String, mut feature: &Value, depth: usize, classes: &mut DeclaredClasses) {
    // Older files write a list of one feature for a column of lists.
    while let Some([item]) = feature.as_array().map(Vec::as_slice) {
        feature = item;
    }
    let (Some(fields), Some(depth)) = (feature.as_object(), depth.checked_sub(1)) else { return };
    match (fields.get("_type").and_then(Value::as_str), fields.get("names").and_then(Value::as_array)) {
        (Some("ClassLabel"), Some(names)) => {
            let text = |name: &Value| name.as_str().map_or_else(|| name.to_string(), str::to_owned);
            classes.insert(name, names.iter().map(text).collect());
        }
        (Some(_), _) => {
            if let Some(item) = fields.get("feature") {
                of_feature(name, item, depth, classes);
            }
        }
        (None, _) => of_fields(&format!("{name}."), fields, depth, classes),
    }
}

fn quoted(names: &[String]) -> String {
    listed(names.iter().map(|name| format!("{name:?}")), NAMES_SHOWN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared(features: &str) -> Arc<DeclaredClasses> {
        let text = format!(r#"{{"info": {{"features": {features}}}}}"#);
        KnownClasses::default().of([("other", "1"), (METADATA, text.as_str())]).unwrap()
    }

    fn label(names: &str) -> String {
        format!(r#"{{"label": {{"names": {names}, "_type": "ClassLabel"}}}}"#)
    }

    #[test]
    fn the_names_of_all_files_are_used_and_more_classes_may_be_appended() {
        let mut names = ClassNames::default();
        for (file, classes) in [("a", r#"["x", "y"]"#), ("b", r#"["x"]"#), ("c", r#"["x", "y", "z"]"#)] {
            names.add(&file.into(), &declared(&label(classes)));
        }
        names.add(&"d".into(), &declared(r#"{"kind": [{"names": ["k"], "_type": "ClassLabel"}]}"#));
        let all: Vec<_> = names.by_column().collect();
        let expected = [("kind", vec!["k"]), ("label", vec!["x", "y", "z"])];
        assert_eq!(all.len(), 2);
        for ((column, names), (of, expected)) in all.into_iter().zip(expected) {
            assert!(column == of && names.iter().eq(&expected), "{column}: {names:?}");
        }
        assert_eq!(names.refused().count(), 0);
    }

    #[test]
    fn a_class_that_files_name_differently_is_refused_with_both_files() {
        let mut names = ClassNames::default();
        names.add(&"a".into(), &declared(&label(r#"["cat", "dog"]"#)));
        names.add(&"b".into(), &declared(&label(r#"["cat", "cow", "dog"]"#)));
        assert_eq!(names.by_column().count(), 0);
        let (column, error) = names.refused().next().unwrap();
        assert_eq!(column, "label");
        assert_eq!(
            error.to_string(),
            "b, column \"label\": class 1 is \"cow\", and \"dog\" in a (classes \"cat\", \"cow\", \"dog\" and \
             \"cat\", \"dog\") (open the files with the same classes, or write them with the same ClassLabel)"
        );
    }

    #[test]
    fn metadata_that_cannot_be_read_declares_nothing() {
        let deep = format!("{}1{}", r#"{"a":"#.repeat(100), "}".repeat(100));
        for features in ["1", "[]", r#"{"a": 1, "b": {"_type": 3}}"#, &deep] {
            assert!(declared(features).is_empty(), "{features}");
        }
        let known = KnownClasses::default();
        for other in
            ["[", "[]", "5", "\"\"", "true", r#"{"info":5}"#, r#"{"info":[]}"#, r#"{"info":{"features":5}}"#]
        {
            assert!(known.of([(METADATA, other)]).unwrap().is_empty(), "{other}");
        }
        assert!(known.of([("other", "{}")]).is_none());
    }
}
