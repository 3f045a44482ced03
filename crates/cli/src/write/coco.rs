//! Images with the annotations of COCO: one JSON file for all of them.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use forebay_base::{Error, ErrorKind, Result};
use rayon::prelude::*;
use serde::Deserialize;

use super::boxes::{AnnotatedImage, AnnotatedImages, BoxForm};
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

/// The images of a file of annotations, in its order. Classes are numbered from 0 by their identifiers.
pub(super) fn open(folder: &Path, file: &Path) -> Result<AnnotatedImages> {
    let at = || place(file);
    let damaged = |cause: String| Error::new(ErrorKind::Corrupt, cause).at(at());
    let read: Annotations = serde_json::from_slice(&read_file(file)?)
        .map_err(|error| damaged(format!("these are not annotations of COCO: {error}")))?;
    if read.images.is_empty() {
        return Err(Error::invalid("the annotations list no images")
            .at(at())
            .hint("there is nothing to write"));
    }
    let listed = read.categories.len();
    let categories: BTreeMap<u64, String> =
        read.categories.into_iter().map(|category| (category.id, category.name)).collect();
    if categories.len() != listed {
        return Err(damaged("two categories have one identifier".to_owned()));
    }
    let numbers: HashMap<u64, i64> =
        categories.keys().enumerate().map(|(number, id)| (*id, number as i64)).collect();
    let classes: Vec<String> = categories.into_values().collect();
    let mut images: Vec<AnnotatedImage> = read
        .images
        .par_iter()
        .map(|image| {
            let path = folder.join(&image.file_name);
            let about = std::fs::metadata(&path).map_err(|error| {
                unreadable(&path, &error)
                    .hint("the first argument is the folder of the images that --coco lists")
            })?;
            let name = image.file_name.clone();
            Ok(AnnotatedImage { path, name, bytes: about.len(), boxes: Vec::new(), labels: Vec::new() })
        })
        .collect::<Result<_>>()?;
    let places: HashMap<u64, usize> =
        read.images.iter().enumerate().map(|(place, image)| (image.id, place)).collect();
    if places.len() != images.len() {
        return Err(damaged("two images have one identifier".to_owned()));
    }
    let (mut crowds, mut without_box, mut segments) = (0, 0, 0);
    for annotation in &read.annotations {
        let image = places.get(&annotation.image_id).map(|place| &mut images[*place]);
        let image = image.ok_or_else(|| damaged(format!("there is no image {}", annotation.image_id)))?;
        let label = numbers.get(&annotation.category_id);
        let label =
            label.ok_or_else(|| damaged(format!("there is no category {}", annotation.category_id)))?;
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
    let left_out =
        left_out.map(|(number, noun, why)| format!("left out: {}; {why}", counted(*number, noun))).collect();
    Ok(AnnotatedImages::new(images, BoxForm::Pixels, classes, left_out))
}
