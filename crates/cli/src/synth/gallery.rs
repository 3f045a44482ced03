//! A user's own images, which are stored unchanged.

use std::fs;
use std::path::{Path, PathBuf};

use forebay_base::{Error, Place, Result};

use crate::image_endings::IMAGE_ENDINGS;
use crate::random::Random;

/// The images of a folder, in the order in which they are written.
#[derive(Default)]
pub(crate) struct Gallery {
    images: Vec<Photo>,
    /// The number of other files in the folder.
    pub(super) others: u64,
}

struct Photo {
    path: PathBuf,
    label: u32,
}

impl Gallery {
    /// Finds the images in and below `folder`, in a random order that `seed` determines. The folders directly
    /// below it are classes, numbered in the order of their names; without any, all images are of class 0.
    pub(super) fn open(folder: &Path, seed: u64) -> Result<Self> {
        let mut gallery = Gallery::default();
        gallery.add(folder, 0)?;
        let classes = sorted(folder)?.into_iter().filter(|path| path.is_dir());
        for (class, below) in classes.enumerate() {
            gallery.add_all(&below, class as u32)?;
        }
        if gallery.images.is_empty() {
            return Err(Error::invalid("there are no images in this folder")
                .at(Place::file(folder.display().to_string()))
                .hint(format!("images are files that end in .{}", IMAGE_ENDINGS.join(", ."))));
        }
        // The images of a class are together in their folder; without shuffling, they would be together in
        // row groups.
        let mut random = Random::new(seed, 0);
        for last in (1..gallery.images.len()).rev() {
            gallery.images.swap(last, random.below(last as u32 + 1) as usize);
        }
        Ok(gallery)
    }

    pub(super) fn len(&self) -> u64 {
        self.images.len() as u64
    }

    pub(super) fn label(&self, row: u64) -> u32 {
        self.photo(row).label
    }

    /// Reads the file of row `row`, unchanged.
    pub(super) fn image(&self, row: u64) -> Result<Vec<u8>> {
        let path = &self.photo(row).path;
        fs::read(path).map_err(|error| unreadable(path, &error))
    }

    /// The image of a row. After the last image, the first one is used again.
    fn photo(&self, row: u64) -> &Photo {
        &self.images[(row % self.len()) as usize]
    }

    /// Adds the images of one folder, without those of the folders below it.
    fn add(&mut self, folder: &Path, label: u32) -> Result<()> {
        for path in sorted(folder)?.into_iter().filter(|path| !path.is_dir()) {
            match is_image(&path) {
                true => self.images.push(Photo { path, label }),
                false => self.others += 1,
            }
        }
        Ok(())
    }

    fn add_all(&mut self, folder: &Path, label: u32) -> Result<()> {
        self.add(folder, label)?;
        // Links to folders are not followed, since a link could lead back to its own folder.
        let mut below = sorted(folder)?.into_iter().filter(|path| path.is_dir() && !path.is_symlink());
        below.try_for_each(|below| self.add_all(&below, label))
    }
}

/// Lists a folder without its hidden files, sorted by name.
fn sorted(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).and_then(Iterator::collect::<std::io::Result<Vec<_>>>);
    let entries = entries.map_err(|error| unreadable(folder, &error))?;
    let shown = entries.iter().filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b"."));
    let mut paths: Vec<PathBuf> = shown.map(fs::DirEntry::path).collect();
    paths.sort();
    Ok(paths)
}

fn is_image(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    ending.is_some_and(|ending| IMAGE_ENDINGS.iter().any(|known| known.eq_ignore_ascii_case(ending)))
}

fn unreadable(path: &Path, error: &std::io::Error) -> Error {
    Error::invalid(format!("this cannot be read: {error}"))
        .at(Place::file(path.display().to_string()))
        .hint("name a folder of images with --from that this user can read")
}
