//! Reads images with COCO annotations, which are in one JSON file for all images.

mod file;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use forebay_base::{Error, ErrorKind, Result};
use forebay_image::{Instance, Size, compress_instance};
use rayon::prelude::*;

use self::file::{Annotation, Category, CocoCounts, CocoFile, Identifier, ImageEntry, Segmentation};
use super::boxes::{AnnotatedImage, AnnotatedImages, AnnotatedObject, Coordinates, ObjectForm};
use super::folder::{self, DiskFile, FoundKind};
use super::masks::{MAX_OUTLINE_COORDINATE, MaskForm, ObjectMask};
use super::odd_boxes::OddBoxes;
use super::read::{below, place, unreadable};
use crate::units::counted;

/// How many numbers a key point has: x, y and its visibility.
const POINT_NUMBERS: usize = 3;
/// The fewest numbers of an outline that covers pixels: the x and y of three points.
pub(super) const MIN_OUTLINE_NUMBERS: usize = 6;
/// The largest coordinate of a box or a key point that loaders take.
const MAX_COORDINATE: f64 = 1e30;
/// How far a box may reach beyond its image without a remark, in pixels: programs round in several ways.
const BOX_TOLERANCE: f64 = 1.0;

/// Counts the parts of annotations that are not written, by the reason.
#[derive(Default)]
struct LeftOut {
    crowds: u64,
    without_box: u64,
    /// Annotations whose box has a width or a height below 0, which loaders refuse.
    negative: u64,
    /// Outlines of fewer than three points.
    flat: u64,
    /// Written objects that have no mask.
    without_mask: u64,
}

impl LeftOut {
    /// The remarks on what is left out; masks are written if `has_masks`.
    fn remarks(&self, has_masks: bool) -> Vec<String> {
        let noted = [
            (self.crowds, "left out, since detectors are trained without them", "crowd"),
            (self.without_box, "left out, since they have no box", "annotation"),
            (self.negative, "left out, since the width or height of their box is below 0", "annotation"),
            (self.flat, "left out, since they have fewer than three points", "outline"),
            (
                if has_masks { self.without_mask } else { 0 },
                "written with masks that cover no pixel",
                "object",
            ),
        ];
        let noted = noted.iter().filter(|(number, ..)| *number > 0);
        noted.map(|(number, what, noun)| format!("{what}: {}", counted(*number, noun))).collect()
    }
}

/// The images of a file of annotations, in the order of the file. Classes are numbered from 0 in the order of
/// their identifiers.
pub(super) fn open(from: &Path, file: &Path) -> Result<AnnotatedImages> {
    let damaged = |cause: String| Error::new(ErrorKind::Corrupt, cause).at(place(file));
    let CocoFile { images: entries, annotations, categories } = CocoFile::read(file)?;
    if entries.is_empty() {
        return Err(Error::invalid("the annotations list no images")
            .at(place(file))
            .hint("there is nothing to write"));
    }
    let (classes, numbers) = numbered(categories).map_err(|error| error.at(place(file)))?;
    let mut images: Vec<AnnotatedImage> =
        entries.par_iter().map(|entry| entry.found(from)).collect::<Result<_>>()?;
    let mut places: HashMap<Identifier, usize> = HashMap::new();
    for (place, ImageEntry { id, file_name, .. }) in entries.iter().enumerate() {
        if let Some(other) = places.insert(*id, place) {
            let other = &images[other].name;
            let error = damaged(format!("the images {other} and {file_name} have one identifier, {id}"));
            return Err(error.hint("give each its own: annotations name their image by it"));
        }
    }
    check_files(&entries, &images).map_err(|error| error.at(place(file)))?;
    let (mut left_out, mut odd, mut has_masks, mut has_points) =
        (LeftOut::default(), OddBoxes::default(), false, false);
    for annotation in annotations {
        let unlisted = |cause: String| {
            damaged(format!("the annotation with the id {} {cause}", annotation.id))
                .hint("add it to the file, or remove the annotation")
        };
        let Annotation { image_id, category_id, .. } = &annotation;
        let number = *places
            .get(image_id)
            .ok_or_else(|| unlisted(format!("is of image {image_id}, which is not among the \"images\"")))?;
        let label = numbers.get(category_id).ok_or_else(|| {
            unlisted(format!("is of category {category_id}, which is not among the \"categories\""))
        })?;
        has_masks |= annotation.segmentation.is_some() && !annotation.iscrowd.0;
        has_points |= annotation.keypoints.is_some() && !annotation.iscrowd.0;
        let object = annotation.object(*label, &mut left_out).map_err(|error| error.at(place(file)))?;
        if let Some(object) = &object {
            odd.count(object.bounds.map(f64::from), entries[number].size(), BOX_TOLERANCE);
        }
        images[number].objects.extend(object);
    }
    let masks = images.iter().flat_map(|image| &image.objects).map(|object| &object.mask);
    let form = ObjectForm {
        coordinates: Coordinates::Pixels,
        masks: has_masks.then(|| MaskForm::holding(masks)),
        point_numbers: has_points.then_some(POINT_NUMBERS),
        classes,
    };
    let mut remarks = left_out.remarks(has_masks);
    remarks.extend(odd.remarks("bbox is left, top, width and height in pixels"));
    remarks.extend(unlisted_remarks(from, &images)?);
    Ok(AnnotatedImages::new(images, form, remarks))
}

/// Refuses two entries of one file: each would get a row of its own, with a part of the objects.
fn check_files(entries: &[ImageEntry], images: &[AnnotatedImage]) -> Result<()> {
    let mut known: HashMap<&Path, Identifier> = HashMap::new();
    for (ImageEntry { id, file_name, .. }, image) in entries.iter().zip(images) {
        if let Some(other) = known.insert(&image.path, *id) {
            let cause =
                format!("the images with the identifiers {other} and {id} have one file, {file_name}");
            return Err(Error::new(ErrorKind::Corrupt, cause)
                .hint("list each file once, and give its annotations that identifier"));
        }
    }
    Ok(())
}

/// The names of the categories in the order of their identifiers, and the class number of each category.
fn numbered(categories: Vec<Category>) -> Result<(Vec<String>, HashMap<Identifier, i64>)> {
    let mut named: BTreeMap<Identifier, String> = BTreeMap::new();
    for Category { id, name } in categories {
        if let Some(other) = named.insert(id, name.clone()) {
            let cause = format!("the categories {other:?} and {name:?} have one identifier, {id}");
            return Err(Error::new(ErrorKind::Corrupt, cause)
                .hint("give each its own: annotations name their category by it"));
        }
    }
    let numbers = named.keys().enumerate().map(|(number, id)| (*id, number as i64)).collect();
    Ok((named.into_values().collect(), numbers))
}

impl ImageEntry {
    /// The image without its objects, if its file exists.
    fn found(&self, from: &Path) -> Result<AnnotatedImage> {
        let path = below(from, &self.file_name).ok_or_else(|| {
            let cause = format!("file_name {:?} leads out of the folder of the images", self.file_name);
            Error::new(ErrorKind::Corrupt, cause)
                .hint("give paths below that folder, or name a folder above as the first argument")
        })?;
        let about = std::fs::metadata(&path).map_err(|error| {
            unreadable(&path, &error).hint("the first argument is the folder of the images that --coco lists")
        })?;
        Ok(AnnotatedImage { path, name: self.file_name.clone(), bytes: about.len(), objects: Vec::new() })
    }
}

impl Annotation {
    /// The object as it is written; `None` if it is left out.
    fn object(self, label: i64, left_out: &mut LeftOut) -> Result<Option<AnnotatedObject>> {
        let bounds = match self.bbox {
            _ if self.iscrowd.0 => {
                left_out.crowds += 1;
                return Ok(None);
            }
            None => {
                left_out.without_box += 1;
                return Ok(None);
            }
            Some([_, _, width, height]) if width < 0.0 || height < 0.0 => {
                left_out.negative += 1;
                return Ok(None);
            }
            Some(bounds) => bounds,
        };
        let about = |error: Error| error.about(&format!("the annotation with the id {}", self.id));
        check_coordinates("bbox", &bounds, MAX_COORDINATE).map_err(about)?;
        let points = self.keypoints.unwrap_or_default();
        check_coordinates("keypoints", &points, MAX_COORDINATE).map_err(about)?;
        let mask = match points.len().is_multiple_of(POINT_NUMBERS) {
            true => {
                self.segmentation.map_or(Ok(ObjectMask::NONE), |segmentation| segmentation.mask(left_out))
            }
            false => {
                let cause = format!("{} numbers as keypoints, which are three for each", points.len());
                Err(Error::new(ErrorKind::Corrupt, cause).hint("write x, y and the visibility of each"))
            }
        };
        let mask = mask.map_err(about)?;
        left_out.without_mask += u64::from(mask == ObjectMask::NONE);
        Ok(Some(AnnotatedObject { bounds, label, mask, points }))
    }
}

impl Segmentation {
    fn mask(self, left_out: &mut LeftOut) -> Result<ObjectMask> {
        match self {
            Segmentation::Outlines(mut outlines) => {
                if let Some(odd) = outlines.iter().find(|outline| !outline.len().is_multiple_of(2)) {
                    let cause = format!("an outline of {} numbers, which are two for each point", odd.len());
                    return Err(Error::new(ErrorKind::Corrupt, cause).hint("write x and y of each point"));
                }
                let before = outlines.len();
                for (at, outline) in outlines.iter().enumerate() {
                    check_coordinates(&format!("segmentation[{at}]"), outline, MAX_OUTLINE_COORDINATE)?;
                }
                outlines.retain(|outline| outline.len() >= MIN_OUTLINE_NUMBERS);
                left_out.flat += (before - outlines.len()) as u64;
                Ok(ObjectMask::Outlines(outlines))
            }
            Segmentation::Runs { counts, size: [height, width] } => {
                let size = Size { height, width };
                let counts = match &counts {
                    CocoCounts::Numbers(counts) => compress_instance(Instance::Counts(counts), size),
                    CocoCounts::Text(text) => compress_instance(Instance::Text(text.as_bytes()), size),
                };
                counts.map(|counts| ObjectMask::Runs { counts, size })
            }
        }
    }
}

/// Refuses a number that is not finite, or farther from 0 than `most`: loaders would refuse its row. `key` is
/// the key of the numbers in the annotation.
fn check_coordinates<N: Copy + Into<f64>>(key: &str, numbers: &[N], most: f64) -> Result<()> {
    let is_far = |number: &N| !(-most..=most).contains(&(*number).into());
    let Some(at) = numbers.iter().position(is_far) else { return Ok(()) };
    let cause = format!("{key}: number {at} is {:?}", numbers[at].into());
    Err(Error::new(ErrorKind::Corrupt, cause).hint(format!("coordinates are from -{most:?} to {most:?}")))
}

/// Remarks on the images of the folder that the annotations do not list, and on hidden files.
fn unlisted_remarks(from: &Path, images: &[AnnotatedImage]) -> Result<Vec<String>> {
    let found = folder::find(from)?;
    let listed: HashSet<&Path> = images.iter().map(|image| image.path.as_path()).collect();
    let is_unlisted = |file: &&DiskFile| {
        FoundKind::of_name(&file.relative) == Some(FoundKind::Image) && !listed.contains(file.path.as_path())
    };
    let unlisted = found.files.iter().filter(is_unlisted).count() as u64;
    let remark = (unlisted > 0)
        .then(|| format!("left out, since the annotations do not list them: {}", counted(unlisted, "image")));
    Ok(remark.into_iter().chain(found.hidden_remark()).collect())
}
