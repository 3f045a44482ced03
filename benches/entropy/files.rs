//! The photographs: drawn ones, and those of a folder.

use std::fmt::{self, Display};
use std::path::{Path, PathBuf};

use turbojpeg_sys as tj;

use crate::frame::Frame;
use crate::{library, photos};

/// Most files of one kind.
const MOST: usize = 64;
/// Pixels of the smallest that counts as a photograph; test images have fewer.
const LEAST: usize = 256 * 256;
/// What PNG files are encoded at.
const QUALITY: i32 = 92;

/// A baseline JPEG.
pub(crate) struct Photo(pub(crate) Vec<u8>);

pub(crate) struct Set {
    name: String,
    pub(crate) photos: Vec<Photo>,
}

impl Display for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes: usize = self.photos.iter().map(|photo| photo.0.len()).sum();
        let pixels: usize = self
            .photos
            .iter()
            .filter_map(|photo| Frame::read(&photo.0))
            .map(|frame| frame.width * frame.height)
            .sum();
        let (count, bits) = (self.photos.len(), 8.0 * bytes as f64 / pixels as f64);
        write!(f, "{}: {count} images of {} KB, {bits:.2} bits a pixel", self.name, bytes / count / 1000)
    }
}

pub(crate) fn sets(folder: Option<&str>) -> Vec<Set> {
    let drawn = (0..photos::PHOTOS).map(|seed| Photo(photos::photo(seed))).collect();
    let mut sets = vec![Set { name: "drawn, 4:2:0".into(), photos: drawn }];
    let files = folder.map(|folder| files(Path::new(folder))).unwrap_or_default();
    let jpeg: Vec<Photo> = read(&files, "jpg").map(Photo).collect();
    for chroma in ["4:2:0", "4:4:4"] {
        let of = |photo: &&Photo| {
            Frame::read(&photo.0)
                .is_some_and(|frame| frame.chroma() == chroma && frame.width * frame.height >= LEAST)
        };
        let photos = jpeg.iter().filter(of).take(MOST).map(|photo| Photo(photo.0.clone())).collect();
        sets.push(Set { name: format!("files, {chroma}"), photos });
    }
    let mut png: Vec<_> = read(&files, "png").filter_map(|png| image::load_from_memory(&png).ok()).collect();
    png.retain(|image| image.width() as usize * image.height() as usize >= LEAST);
    for (chroma, sampling) in [("4:2:0", tj::TJSAMP_TJSAMP_420), ("4:4:4", tj::TJSAMP_TJSAMP_444)] {
        let encode = |image: &image::DynamicImage| {
            let rgb = image.to_rgb8();
            Photo(library::encode(rgb.as_raw(), rgb.width(), rgb.height(), QUALITY, sampling))
        };
        let photos = png.iter().take(MOST).map(encode).collect();
        sets.push(Set { name: format!("encoded at {QUALITY}, {chroma}"), photos });
    }
    sets.retain(|set| !set.photos.is_empty());
    sets
}

fn read(files: &[PathBuf], extension: &str) -> impl Iterator<Item = Vec<u8>> {
    let of = files.iter().filter(move |file| file.extension().is_some_and(|found| found == extension));
    of.filter_map(|file| std::fs::read(file).ok())
}

/// All files below, in order.
fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return vec![] };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths.into_iter().flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}
