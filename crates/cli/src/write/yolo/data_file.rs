//! Reads `data.yaml`, which has the names of the classes and the form of key points.

use std::path::{Path, PathBuf};

use forebay_base::{Error, ErrorKind, Result};
use yaml_rust2::{Yaml, YamlLoader};

use super::yaml_size::check_size;
use crate::units::counted;
use crate::write::read::{place, read_file, unreadable, without_mark};

/// The most key points of an object: a larger number is a typing error.
const MAX_POINTS: i64 = 10_000;
/// The file with the names of the classes is looked for in the given folder, and in this many folders above
/// it.
const MAX_FOLDERS_UP: usize = 3;

/// The content of `data.yaml`.
#[derive(Default)]
pub(super) struct DataFile {
    pub(super) names: Option<Vec<String>>,
    pub(super) points: Option<PointShape>,
    /// A remark for the user on numbers in the file that disagree.
    pub(super) remark: Option<String>,
}

/// How key points are written: each object has `points` of them, and each of these takes `numbers` numbers,
/// which are x and y, and the visibility if `numbers` is 3.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PointShape {
    pub(super) points: usize,
    pub(super) numbers: usize,
}

impl DataFile {
    /// Reads the file that [`data_file`] finds for the folder `from`. Returns empty content if it finds none.
    pub(super) fn find(from: &Path) -> Result<DataFile> {
        let Some(path) = data_file(from)? else { return Ok(DataFile::default()) };
        let text = String::from_utf8_lossy(without_mark(&read_file(&path)?)).into_owned();
        let damaged = |cause: String| Error::new(ErrorKind::Corrupt, cause).at(place(&path));
        check_size(&text).map_err(|error| error.at(place(&path)))?;
        let documents = YamlLoader::load_from_str(&text)
            .map_err(|error| damaged(format!("this is not YAML: {error}")))?;
        let document = documents.first().unwrap_or(&Yaml::BadValue);
        let names = names(&document["names"]).map_err(damaged)?;
        let points = PointShape::of_yaml(&document["kpt_shape"]).map_err(|cause| {
            damaged(cause).hint("write the number of key points, and 2 or 3 for their numbers: [17, 3]")
        })?;
        let remark = count_remark(&path, &document["nc"], names.len());
        Ok(DataFile { names: Some(names), points, remark })
    }
}

impl PointShape {
    fn of_yaml(yaml: &Yaml) -> Result<Option<PointShape>, String> {
        let numbers = match yaml {
            Yaml::BadValue | Yaml::Null => return Ok(None),
            Yaml::Array(numbers) => &numbers[..],
            _ => &[],
        };
        let number = |at: usize| numbers.get(at).and_then(Yaml::as_i64);
        match (number(0), number(1), numbers.len()) {
            (Some(points @ 1..=MAX_POINTS), Some(numbers @ 2..=3), 2) => {
                Ok(Some(PointShape { points: points as usize, numbers: numbers as usize }))
            }
            _ => Err("kpt_shape is not two numbers".to_owned()),
        }
    }
}

/// Finds the file that names the classes, in the folder `from` or the nearest folder above it that has one.
/// The file is called `data.yaml` or `data.yml`, or is the only YAML file in its folder.
fn data_file(from: &Path) -> Result<Option<PathBuf>> {
    for folder in from.ancestors().take(MAX_FOLDERS_UP + 1) {
        let mut files: Vec<PathBuf> = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(|error| unreadable(folder, &error))? {
            let path = entry.map_err(|error| unreadable(folder, &error))?.path();
            let ending = path.extension().and_then(|ending| ending.to_str());
            if matches!(ending, Some("yaml" | "yml")) && path.is_file() {
                files.push(path);
            }
        }
        let named = files.iter().find(|path| path.file_stem().is_some_and(|stem| stem == "data"));
        if let Some(path) = named.or(files.first().filter(|_| files.len() == 1)) {
            return Ok(Some(path.clone()));
        }
    }
    Ok(None)
}

/// A remark on a number of classes, `nc`, that differs from the number of names.
fn count_remark(path: &Path, count: &Yaml, names: usize) -> Option<String> {
    let count = count.as_i64().filter(|count| usize::try_from(*count) != Ok(names))?;
    let names = counted(names as u64, "name");
    Some(format!("{} has nc: {count}, and {names}: the names are taken", path.display()))
}

/// The names of the classes.
fn names(yaml: &Yaml) -> Result<Vec<String>, String> {
    let name = |name: &Yaml| match name {
        Yaml::String(name) => Ok(name.clone()),
        Yaml::Integer(number) => Ok(number.to_string()),
        Yaml::Boolean(truth) => Ok(truth.to_string()),
        _ => Err("the name of a class is not text".to_owned()),
    };
    match yaml {
        Yaml::Array(names) => names.iter().map(name).collect(),
        Yaml::Hash(names) => {
            let numbered = (0..names.len() as i64).map(|class| {
                let quoted = Yaml::String(class.to_string());
                let found = names.get(&Yaml::Integer(class)).or_else(|| names.get(&quoted));
                name(found.ok_or_else(|| format!("the class {class} has no name"))?)
            });
            numbered.collect()
        }
        _ => Err("it does not name the classes".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_points_are_a_number_of_points_and_of_their_numbers() {
        let of_text = |text: &str| PointShape::of_yaml(&YamlLoader::load_from_str(text).unwrap()[0]);
        assert_eq!(of_text("[2, 3]"), Ok(Some(PointShape { points: 2, numbers: 3 })));
        assert_eq!(of_text("~"), Ok(None));
        for text in ["3", "[2]", "[2, 4]", "[0, 3]", "[2, 3, 1]"] {
            assert!(of_text(text).is_err(), "{text}");
        }
    }
}
