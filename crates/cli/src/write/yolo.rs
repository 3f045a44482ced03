//! Reads images with YOLO annotations: a text file for each image, with a line for each box.
//!
//! The annotations of `images/train/a.jpg` are in `labels/train/a.txt`, or beside the image where its path
//! has no folder `images`. A line has the class, and the middle and the size of the box as shares of the
//! image.

use std::path::{Path, PathBuf};

use forebay_base::{Error, ErrorKind, Place, Result};
use rayon::prelude::*;
use yaml_rust2::{Yaml, YamlLoader};

use super::boxes::{AnnotatedImage, AnnotatedImages, BoxForm};
use super::folder::{self, FoundKind};
use super::read::{place, read_file, unreadable};
use crate::units::counted;

/// The largest share that is accepted: programs round shares to a little above 1.
const MAX_SHARE: f32 = 1.001;
/// The number of folders above the given one that are searched for the file with the names of the classes.
const MAX_FOLDERS_UP: usize = 3;

/// A line of annotations.
#[derive(Clone, Debug, PartialEq)]
struct RelativeBox {
    class: i64,
    /// The number of the line, from 1.
    line: usize,
    /// The centre, the width and the height of the box, as shares of the image's width and height.
    shares: [f32; 4],
}

/// The images of a folder with their annotations.
pub(super) fn open(from: &Path) -> Result<AnnotatedImages> {
    let found = folder::find(from)?;
    let mut remarks: Vec<String> = found.hidden_remark().into_iter().collect();
    let mut found = found.files;
    found.retain(|file| FoundKind::of_name(&file.relative) == Some(FoundKind::Image));
    if found.is_empty() {
        let error = Error::invalid("the folder holds no images").at(place(from));
        return Err(error.hint("name the folder of the images, such as yolo/images/train"));
    }
    let read: Vec<Option<Vec<RelativeBox>>> =
        found.par_iter().map(|image| annotations(&labels_of(&image.path))).collect::<Result<_>>()?;
    let unlabelled = read.iter().filter(|boxes| boxes.is_none()).count();
    if unlabelled == found.len() {
        let error = Error::new(ErrorKind::NotFound, "no image has a file of annotations");
        let wanted = labels_of(&found[0].path);
        return Err(error.at(place(from)).hint(format!("those of the first would be {}", wanted.display())));
    }
    let names = names(from)?;
    let has_names = names.is_some();
    let most = read.iter().flatten().flatten().map(|labelled| labelled.class).max().unwrap_or(-1);
    let classes = names.unwrap_or_else(|| (0..=most).map(|class| class.to_string()).collect());
    for (image, boxes) in found.iter().zip(&read) {
        let unnamed = boxes.iter().flatten().find(|labelled| labelled.class >= classes.len() as i64);
        if let Some(RelativeBox { class, line, .. }) = unnamed {
            let last = classes.len() as i64 - 1;
            let cause = format!("line {line} has the class {class}, and the names are those of 0 to {last}");
            return Err(Error::new(ErrorKind::Corrupt, cause)
                .at(place(&labels_of(&image.path)))
                .hint("name the class in data.yaml, or mend the line"));
        }
    }
    let images = found.into_iter().zip(read).map(|(file, boxes)| {
        let boxes = boxes.unwrap_or_default();
        AnnotatedImage {
            path: file.path,
            name: file.relative,
            bytes: file.bytes,
            labels: boxes.iter().map(|labelled| labelled.class).collect(),
            boxes: boxes.into_iter().map(|labelled| labelled.shares).collect(),
        }
    });
    if unlabelled > 0 {
        remarks.push(format!(
            "without a file of annotations, and so without boxes: {}",
            counted(unlabelled as u64, "image")
        ));
    }
    if !has_names {
        remarks.push("classes have no names: there is no data.yaml at the images or above them".to_owned());
    }
    Ok(AnnotatedImages::new(images.collect(), BoxForm::Shares, classes, remarks))
}

impl RelativeBox {
    fn of_line(line: usize, text: &str) -> Option<Self> {
        let mut words = text.split_ascii_whitespace();
        let class = words.next()?.parse().ok().filter(|class| *class >= 0)?;
        let mut shares = [0.0; 4];
        for share in &mut shares {
            *share = words.next()?.parse().ok().filter(|share| (0.0..=MAX_SHARE).contains(share))?;
        }
        // One more number is allowed, because some programs add the confidence of the detection.
        (words.count() <= 1).then_some(RelativeBox { class, line, shares })
    }
}

/// The file of an image's annotations.
fn labels_of(image: &Path) -> PathBuf {
    let parts: Vec<_> = image.components().collect();
    let images = parts.iter().rposition(|part| part.as_os_str() == "images");
    let moved: PathBuf = parts
        .iter()
        .enumerate()
        .map(
            |(place, part)| {
                if Some(place) == images { Path::new("labels").as_os_str() } else { part.as_os_str() }
            },
        )
        .collect();
    moved.with_extension("txt")
}

/// The boxes of a file of annotations; `None` if the file does not exist.
fn annotations(path: &Path) -> Result<Option<Vec<RelativeBox>>> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(path, &error)),
    };
    let lines =
        text.trim_start_matches('\u{feff}').lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let boxes = lines.map(|(number, line)| {
        RelativeBox::of_line(number + 1, line).ok_or_else(|| {
            let cause =
                format!("line {} is not a class and four shares of the image, from 0 to 1", number + 1);
            let error = Error::new(ErrorKind::Unsupported, cause).at(Place::file(path.display().to_string()));
            error.hint("outlines and key points of YOLO are not read")
        })
    });
    boxes.collect::<Result<_>>().map(Some)
}

/// The file that names the classes: `data.yaml`, or else the only file of YAML in a folder.
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

/// The names of the classes, from a file in the folder of the images or a few folders above it.
fn names(from: &Path) -> Result<Option<Vec<String>>> {
    let Some(path) = data_file(from)? else { return Ok(None) };
    let text = String::from_utf8_lossy(&read_file(&path)?).into_owned();
    let damaged = |cause: String| Error::new(ErrorKind::Corrupt, cause).at(place(&path));
    let documents =
        YamlLoader::load_from_str(&text).map_err(|error| damaged(format!("this is not YAML: {error}")))?;
    let named = documents.first().map(|document| &document["names"]);
    let name = |name: &Yaml| match name {
        Yaml::String(name) => Ok(name.clone()),
        Yaml::Integer(number) => Ok(number.to_string()),
        Yaml::Boolean(truth) => Ok(truth.to_string()),
        _ => Err(damaged("the name of a class is not text".to_owned())),
    };
    match named {
        Some(Yaml::Array(names)) => names.iter().map(name).collect::<Result<_>>().map(Some),
        Some(Yaml::Hash(names)) => {
            let numbered = (0..names.len() as i64).map(|class| {
                let quoted = Yaml::String(class.to_string());
                let found = names.get(&Yaml::Integer(class)).or_else(|| names.get(&quoted));
                name(found.ok_or_else(|| damaged(format!("the class {class} has no name")))?)
            });
            numbered.collect::<Result<_>>().map(Some)
        }
        _ => Err(damaged("it does not name the classes".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_class_and_four_shares() {
        let half = RelativeBox::of_line(1, "3 0.5 0.25 0.5 0.5").unwrap();
        assert_eq!((half.class, half.shares), (3, [0.5, 0.25, 0.5, 0.5]));
        assert_eq!(RelativeBox::of_line(1, "3 0.5 0.25 0.5 0.5 0.99"), Some(half));
        for line in ["", "x 0 0 1 1", "-1 0 0 1 1", "1 0 0 1", "1 0 0 1 nan", "1 0 0 1 1 0 0 1"] {
            assert_eq!(RelativeBox::of_line(1, line), None, "{line}");
        }
    }

    #[test]
    fn annotations_are_in_the_folder_beside_that_of_the_images() {
        let labels = |path: &str| labels_of(Path::new(path)).display().to_string();
        assert_eq!(labels("/images/x/images/train/a.b.jpg"), "/images/x/labels/train/a.b.txt");
        assert_eq!(labels("train/a.jpg"), "train/a.txt");
    }
}
