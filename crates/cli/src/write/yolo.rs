//! Reads images with YOLO annotations: a text file for each image, with a line for each box.
//!
//! The annotations of `images/train/a.jpg` are in `labels/train/a.txt`, or beside the image where its path
//! has no folder `images`. All coordinates are shares of the image. A line has one of these forms:
//!
//! ```text
//! class  x y w h             the middle and the size of a box
//! class  x y x y x y …       an outline of three or more points
//! class  x y w h  x y v …    a box and as many key points as `kpt_shape` of data.yaml says
//! ```

mod data_file;
mod yaml_size;

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use forebay_base::{Error, ErrorKind, Place, Result};
use rayon::prelude::*;

use self::data_file::{DataFile, PointShape};
use super::boxes::{AnnotatedImage, AnnotatedImages, AnnotatedObject, Coordinates, ObjectForm};
use super::coco::MIN_OUTLINE_NUMBERS;
use super::folder::{self, DiskFile, FoundKind};
use super::masks::{MaskForm, ObjectMask};
use super::odd_boxes::OddBoxes;
use super::read::{place, unreadable};
use crate::units::counted;

/// The largest coordinate that is accepted, as a share of the image's side. It exceeds 1 a little, because
/// some programs round coordinates up.
const MAX_SHARE: f64 = 1.001;
/// How far a box may reach beyond its image without a remark, as a share of the image's side.
const BOX_TOLERANCE: f64 = MAX_SHARE - 1.0;
/// A box is written as this many numbers: `x` and `y` of its middle, its width and its height.
const BOX_NUMBERS: usize = 4;

/// A line of annotations.
#[derive(Clone, Debug, PartialEq)]
struct YoloLine {
    class: i64,
    /// The number of the line, from 1.
    number: usize,
    /// The box of the object: `x` and `y` of its middle, its width and its height, as shares of the image.
    bounds: [f64; BOX_NUMBERS],
    /// The points `x, y, x, y, ...` around the object, if the line has them.
    outline: Vec<f64>,
    /// The coordinates of the object's key points, one point after the other; empty if it has none.
    points: Vec<f64>,
}

/// The images of a folder with their annotations.
pub(super) fn open(from: &Path) -> Result<AnnotatedImages> {
    // `data.yaml` and the labels are found by the names of the folders above, which a relative path lacks.
    let from = &std::path::absolute(from).map_err(|error| unreadable(from, &error))?;
    let found = folder::find(from)?;
    let mut remarks: Vec<String> = found.hidden_remark().into_iter().collect();
    let mut found = found.files;
    found.retain(|file| FoundKind::of_name(&file.relative) == Some(FoundKind::Image));
    if found.is_empty() {
        let error = Error::invalid("the folder holds no images").at(place(from));
        return Err(error.hint("name the folder of the images, such as yolo/images/train"));
    }
    let DataFile { names, points, remark } = DataFile::find(from)?;
    remarks.extend(remark);
    let read: Vec<Option<Vec<YoloLine>>> =
        found.par_iter().map(|image| annotations(&labels_of(&image.path), points)).collect::<Result<_>>()?;
    let unlabelled = read.iter().filter(|lines| lines.is_none()).count();
    if unlabelled == found.len() {
        let error = Error::new(ErrorKind::NotFound, "no image has a file of annotations");
        let wanted = labels_of(&found[0].path);
        return Err(error.at(place(from)).hint(format!("those of the first would be {}", wanted.display())));
    }
    let has_names = names.is_some();
    let most = read.iter().flatten().flatten().map(|line| line.class).max().unwrap_or(-1);
    let classes = names.unwrap_or_else(|| (0..=most).map(|class| class.to_string()).collect());
    check_named(&found, &read, classes.len())?;
    let has_outlines = check_outlines(&found, &read)?;
    remarks.extend(points_remark(lines(&found, &read).map(|(_, line)| line)));
    remarks.extend(orphans_remark(&found, points)?);
    let mut odd = OddBoxes::default();
    for (_, line) in lines(&found, &read) {
        let [x, y, width, height] = line.bounds;
        let sides = [x - width / 2.0, y - height / 2.0, width, height];
        odd.count(sides, Some([1.0, 1.0]), BOX_TOLERANCE);
    }
    remarks.extend(odd.remarks("a line has the middle, the width and the height of its box, as shares"));
    let form = ObjectForm {
        coordinates: Coordinates::Shares,
        masks: has_outlines.then_some(MaskForm::Outlines),
        point_numbers: points.map(|shape| shape.numbers),
        classes,
    };
    let images = found.into_iter().zip(read).map(|(file, lines)| AnnotatedImage {
        path: file.path,
        name: file.relative,
        bytes: file.bytes,
        objects: lines.unwrap_or_default().into_iter().map(YoloLine::object).collect(),
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
    Ok(AnnotatedImages::new(images.collect(), form, remarks))
}

/// All lines, each with the file of its image.
fn lines<'a>(
    found: &'a [DiskFile],
    read: &'a [Option<Vec<YoloLine>>],
) -> impl Iterator<Item = (&'a DiskFile, &'a YoloLine)> {
    found.iter().zip(read).flat_map(|(image, lines)| lines.iter().flatten().map(move |line| (image, line)))
}

/// Refuses a line with a class that has no name.
fn check_named(found: &[DiskFile], read: &[Option<Vec<YoloLine>>], classes: usize) -> Result<()> {
    let unnamed = lines(found, read).find(|(_, line)| line.class >= classes as i64);
    let Some((image, YoloLine { class, number, .. })) = unnamed else { return Ok(()) };
    let last = classes as i64 - 1;
    let cause = format!("line {number} has the class {class}, and the names are those of 0 to {last}");
    Err(Error::new(ErrorKind::Corrupt, cause)
        .at(place(&labels_of(&image.path)))
        .hint("name the class in data.yaml, or mend the line"))
}

/// Whether the lines have outlines. Returns an error if some lines have outlines and others only boxes.
fn check_outlines(found: &[DiskFile], read: &[Option<Vec<YoloLine>>]) -> Result<bool> {
    let first = |has: bool| lines(found, read).find(|(_, line)| line.outline.is_empty() != has);
    match (first(true), first(false)) {
        (None, _) => Ok(false),
        (Some(_), None) => Ok(true),
        (Some((outlined, YoloLine { number: other, .. })), Some((image, YoloLine { number, .. }))) => {
            let other_file = labels_of(&outlined.path);
            let cause = format!(
                "line {number} has only a box, and line {other} of {} has an outline",
                other_file.display()
            );
            Err(Error::invalid(cause)
                .at(place(&labels_of(&image.path)))
                .hint("give each object an outline, or write boxes and outlines as two data sets"))
        }
    }
}

/// A remark on outlines that may be boxes with key points: those of people have as many numbers in each line,
/// while outlines differ.
fn points_remark<'a>(mut lines: impl Iterator<Item = &'a YoloLine>) -> Option<String> {
    let count = lines.next()?.outline.len();
    if count == 0 || !lines.all(|line| line.outline.len() == count) {
        return None;
    }
    let numbers = count - BOX_NUMBERS;
    let with_visibility = numbers.is_multiple_of(3).then(|| format!(" or [{}, 3]", numbers / 3));
    Some(format!(
        "each line is read as an outline of {} points: if it is a box with key points, add their kpt_shape to \
         data.yaml, such as [{}, 2]{}, and write them to another folder",
        count / 2,
        numbers / 2,
        with_visibility.unwrap_or_default(),
    ))
}

/// A remark on files of annotations in the folders of the images' annotations that belong to no image. Other
/// texts, such as a list of the classes, are not annotations.
fn orphans_remark(found: &[DiskFile], shape: Option<PointShape>) -> Result<Option<String>> {
    let known: HashSet<PathBuf> = found.iter().map(|image| labels_of(&image.path)).collect();
    let folders: BTreeSet<&Path> = known.iter().filter_map(|file| file.parent()).collect();
    let mut orphans: Vec<PathBuf> = Vec::new();
    for folder in folders.into_iter().filter(|folder| folder.is_dir()) {
        for entry in std::fs::read_dir(folder).map_err(|error| unreadable(folder, &error))? {
            let path = entry.map_err(|error| unreadable(folder, &error))?.path();
            let is_text = path.extension().is_some_and(|ending| ending == "txt") && path.is_file();
            if is_text && !known.contains(&path) && annotations(&path, shape).is_ok_and(has_lines) {
                orphans.push(path);
            }
        }
    }
    let Some(first) = orphans.iter().min() else { return Ok(None) };
    let number = counted(orphans.len() as u64, "file");
    Ok(Some(format!(
        "left out, since there is no image for their annotations: {number}, such as {}",
        first.display()
    )))
}

fn has_lines(lines: Option<Vec<YoloLine>>) -> bool {
    lines.is_some_and(|lines| !lines.is_empty())
}

impl YoloLine {
    /// Parses a line, which has key points if their shape is given.
    fn of_text(number: usize, text: &str, shape: Option<PointShape>) -> Option<Self> {
        let mut words = text.split_ascii_whitespace();
        let class = words.next()?.parse().ok().filter(|class| *class >= 0)?;
        let numbers: Vec<f64> = words.map(|word| word.parse().ok()).collect::<Option<_>>()?;
        let is_share = |share: &f64| (0.0..=MAX_SHARE).contains(share);
        let line = |bounds, outline, points| Some(YoloLine { class, number, bounds, outline, points });
        if let Some(PointShape { points: count, numbers: width }) = shape {
            let (bounds, points) = numbers.split_first_chunk::<BOX_NUMBERS>()?;
            let is_point = |point: &[f64]| {
                let (coordinates, others) = point.split_at(2);
                // The visibility is written as a float of 32 bits.
                coordinates.iter().all(is_share) && others.iter().all(|number| (*number as f32).is_finite())
            };
            let fits = points.len() == count * width && points.chunks(width).all(is_point);
            return if fits && bounds.iter().all(is_share) {
                line(*bounds, Vec::new(), points.to_vec())
            } else {
                None
            };
        }
        match numbers.len() {
            // A fifth number from 0 to 1 is ignored: it is the confidence that some programs add to a box.
            4 | 5 if numbers[BOX_NUMBERS..].iter().all(is_share) => {
                let (bounds, _) = numbers.split_first_chunk::<BOX_NUMBERS>()?;
                if bounds.iter().all(is_share) { line(*bounds, Vec::new(), Vec::new()) } else { None }
            }
            MIN_OUTLINE_NUMBERS.. if numbers.len().is_multiple_of(2) && numbers.iter().all(is_share) => {
                line(around(&numbers), numbers, Vec::new())
            }
            _ => None,
        }
    }

    fn object(self) -> AnnotatedObject {
        let outlines = if self.outline.is_empty() { Vec::new() } else { vec![self.outline] };
        AnnotatedObject {
            bounds: self.bounds.map(|share| share as f32),
            label: self.class,
            mask: ObjectMask::Outlines(outlines),
            points: self.points.into_iter().map(|number| number as f32).collect(),
        }
    }
}

/// The middle and the size of the box around an outline.
fn around(outline: &[f64]) -> [f64; BOX_NUMBERS] {
    let side = |first: usize| {
        let along = outline.iter().skip(first).step_by(2);
        let (least, most) =
            along.fold((f64::MAX, f64::MIN), |(least, most), at| (least.min(*at), most.max(*at)));
        ((least + most) / 2.0, most - least)
    };
    let ((x, width), (y, height)) = (side(0), side(1));
    [x, y, width, height]
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

/// The lines of a file of annotations; `None` if the file does not exist.
fn annotations(path: &Path, shape: Option<PointShape>) -> Result<Option<Vec<YoloLine>>> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(path, &error)),
    };
    let lines =
        text.trim_start_matches('\u{feff}').lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let lines = lines.map(|(at, line)| {
        YoloLine::of_text(at + 1, line, shape).ok_or_else(|| {
            let (form, hint) = match shape {
                Some(PointShape { points, numbers }) => (
                    format!("a class, a box and {points} key points of {numbers} numbers each"),
                    "the number of points and of their numbers is kpt_shape of data.yaml",
                ),
                None => (
                    "a class and a box of four shares, or an outline of three or more points".to_owned(),
                    "key points need their kpt_shape in data.yaml",
                ),
            };
            let cause = format!("line {} is not {form}, in shares of the image from 0 to 1", at + 1);
            Error::new(ErrorKind::Corrupt, cause).at(Place::file(path.display().to_string())).hint(hint)
        })
    });
    lines.collect::<Result<_>>().map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_class_and_a_box_or_an_outline() {
        let half = YoloLine::of_text(1, "3 0.5 0.25 0.5 0.5", None).unwrap();
        assert_eq!((half.class, half.bounds), (3, [0.5, 0.25, 0.5, 0.5]));
        assert_eq!(YoloLine::of_text(1, "3 0.5 0.25 0.5 0.5 0.99", None), Some(half));
        let outlined = YoloLine::of_text(2, "0 0.25 0.5 0.75 0.5 0.5 1", None).unwrap();
        assert_eq!(outlined.bounds, [0.5, 0.75, 0.5, 0.5]);
        assert_eq!(outlined.outline, [0.25, 0.5, 0.75, 0.5, 0.5, 1.0]);
        for line in
            ["", "x 0 0 1 1", "-1 0 0 1 1", "1 0 0 1", "1 0 0 1 nan", "1 0 0 1 1 0 0 1", "1 0 0 1 1 2 0"]
        {
            assert_eq!(YoloLine::of_text(1, line, None), None, "{line}");
        }
    }

    #[test]
    fn a_line_has_as_many_key_points_as_the_data_file_says() {
        let shape = Some(PointShape { points: 2, numbers: 3 });
        let line = YoloLine::of_text(1, "1 0.5 0.5 0.5 0.5 0.25 0.5 2 0 0 0", shape).unwrap();
        assert_eq!((line.bounds, line.outline.len()), ([0.5; 4], 0));
        assert_eq!(line.points, [0.25, 0.5, 2.0, 0.0, 0.0, 0.0]);
        for line in ["1 0.5 0.5 0.5 0.5", "1 0.5 0.5 0.5 0.5 0 0 0", "1 0.5 0.5 0.5 0.5 2 0 0 0 0 0"] {
            assert_eq!(YoloLine::of_text(1, line, shape), None, "{line}");
        }
    }

    #[test]
    fn annotations_are_in_the_folder_beside_that_of_the_images() {
        let labels = |path: &str| labels_of(Path::new(path)).display().to_string();
        assert_eq!(labels("/images/x/images/train/a.b.jpg"), "/images/x/labels/train/a.b.txt");
        assert_eq!(labels("train/a.jpg"), "train/a.txt");
    }
}
