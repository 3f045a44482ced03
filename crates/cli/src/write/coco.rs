//! Reads images with COCO annotations, which are in one JSON file for all images.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use forebay_base::{Error, ErrorKind, Result};
use rayon::prelude::*;
use serde::Deserialize;

use super::boxes::{AnnotatedImage, AnnotatedImages, BoxForm};
use super::folder::{self, DiskFile, FoundKind};
use super::read::{place, read_file, unreadable};
use crate::units::counted;

#[derive(Deserialize)]
struct Annotations {
    images: Vec<ImageEntry>,
    #[serde(default)]
    annotations: Vec<Annotation>,
    #[serde(default)]
    categories: Vec<Category>,
}

#[derive(Deserialize)]
struct ImageEntry {
    id: u64,
    file_name: String,
}

#[derive(Deserialize)]
struct Annotation {
    #[serde(default)]
    id: serde_json::Value,
    image_id: u64,
    category_id: u64,
    bbox: Option<[f32; 4]>,
    #[serde(default)]
    iscrowd: u8,
    segmentation: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
struct Category {
    id: u64,
    name: String,
}

/// Opens the images that an annotation file lists, in its order. Classes get numbers from 0 in the order of
/// their identifiers.
pub(super) fn open(from: &Path, file: &Path) -> Result<AnnotatedImages> {
    let at = || place(file);
    let damaged = |cause: String| Error::new(ErrorKind::Corrupt, cause).at(at());
    let read: Annotations = serde_json::from_slice(&read_file(file)?)
        .map_err(|error| damaged(format!("these are not annotations of COCO: {error}")))?;
    if read.images.is_empty() {
        return Err(Error::invalid("the annotations list no images")
            .at(at())
            .hint("there is nothing to write"));
    }
    let mut categories: BTreeMap<u64, String> = BTreeMap::new();
    for Category { id, name } in read.categories {
        if let Some(other) = categories.insert(id, name.clone()) {
            let error = damaged(format!("the categories {other:?} and {name:?} have one identifier, {id}"));
            return Err(error.hint("give each its own: annotations name their category by it"));
        }
    }
    let numbers: HashMap<u64, i64> =
        categories.keys().enumerate().map(|(number, id)| (*id, number as i64)).collect();
    let classes: Vec<String> = categories.into_values().collect();
    let mut images: Vec<AnnotatedImage> = read
        .images
        .par_iter()
        .map(|image| {
            let path = from.join(&image.file_name);
            let about = std::fs::metadata(&path).map_err(|error| {
                unreadable(&path, &error)
                    .hint("the first argument is the folder of the images that --coco lists")
            })?;
            let name = image.file_name.clone();
            Ok(AnnotatedImage { path, name, bytes: about.len(), boxes: Vec::new(), labels: Vec::new() })
        })
        .collect::<Result<_>>()?;
    let mut places: HashMap<u64, usize> = HashMap::new();
    for (place, ImageEntry { id, file_name }) in read.images.iter().enumerate() {
        if let Some(other) = places.insert(*id, place) {
            let other = &images[other].name;
            let error = damaged(format!("the images {other} and {file_name} have one identifier, {id}"));
            return Err(error.hint("give each its own: annotations name their image by it"));
        }
    }
    let (mut crowds, mut without_box, mut segments) = (0, 0, 0);
    for annotation in &read.annotations {
        let Annotation { id, image_id, category_id, .. } = annotation;
        let unlisted = |cause: String| {
            damaged(format!("the annotation with the id {id} {cause}"))
                .hint("add it to the file, or remove the annotation")
        };
        let image = places.get(image_id).map(|place| &mut images[*place]);
        let image = image
            .ok_or_else(|| unlisted(format!("is of image {image_id}, which is not among the \"images\"")))?;
        let label = numbers.get(category_id).ok_or_else(|| {
            unlisted(format!("is of category {category_id}, which is not among the \"categories\""))
        })?;
        segments += u64::from(annotation.segmentation.is_some());
        match annotation.bbox {
            _ if annotation.iscrowd != 0 => crowds += 1,
            None => without_box += 1,
            Some(pixels) => {
                image.boxes.push(pixels);
                image.labels.push(*label);
            }
        }
    }
    let left_out = [
        (crowds, "crowd", "detectors are trained without them"),
        (without_box, "annotation without a box", "there is nothing to write of them"),
        (segments, "outline", "boxes and classes are written"),
    ];
    let left_out = left_out.iter().filter(|(number, ..)| *number > 0);
    let left_out = left_out.map(|(number, noun, why)| format!("left out: {}; {why}", counted(*number, noun)));
    let found = folder::find(from)?;
    let listed: HashSet<&Path> = images.iter().map(|image| image.path.as_path()).collect();
    let is_unlisted = |file: &&DiskFile| {
        FoundKind::of_name(&file.relative) == Some(FoundKind::Image) && !listed.contains(file.path.as_path())
    };
    let unlisted = found.files.iter().filter(is_unlisted).count() as u64;
    let unlisted = (unlisted > 0)
        .then(|| format!("left out, since the annotations do not list them: {}", counted(unlisted, "image")));
    let remarks = left_out.chain(unlisted).chain(found.hidden_remark()).collect();
    Ok(AnnotatedImages::new(images, BoxForm::Pixels, classes, remarks))
}
