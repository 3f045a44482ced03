//! Decodes images that a caller holds in memory, without a data set, on several threads.

use forebay_base::{Error, Place, Result};
use forebay_image::{Image, RowKey, decode_into};
use rayon::prelude::*;

use super::machine;
use super::spec::LoaderSpec;
use super::threads;

/// An encoded image and the slot for its pixels.
#[derive(Debug)]
pub struct EncodedImage<'a> {
    /// How the image becomes pixels.
    pub image: &'a Image,
    /// The bytes of the file, or raw pixels if [`Image::raw`] says so.
    pub encoded: &'a [u8],
    /// The key of the random draws.
    pub key: RowKey,
    /// Takes exactly [`Image::bytes_per_image`] bytes.
    pub slot: &'a mut [u8],
}

impl EncodedImage<'_> {
    fn decode(&mut self) -> Result<()> {
        decode_into(self.image, self.encoded, self.key, self.slot)
    }
}

/// Decodes each image into its slot, on this many threads; `None` means one for each processor that the
/// process may use.
///
/// A single image, and any number of them with one thread, are decoded on the caller's thread. The pixels do
/// not depend on the number of threads.
///
/// ```
/// use forebay::Image;
/// use forebay::image::{EncodedImage, RowKey, decode_images};
/// # let file = forebay_image::encode_jpeg(&[90; 64 * 48 * 3], 64, 48, 90)?;
/// # let files = [file.clone(), file];
///
/// let image = Image::random_resized_crop(32).flip();
/// let mut batch = vec![0; files.len() * image.bytes_per_image()];
/// let slots = batch.chunks_exact_mut(image.bytes_per_image());
/// let images = (0..).zip(files.iter().zip(slots)).map(|(number, (encoded, slot))| {
///     EncodedImage { image: &image, encoded, key: RowKey(number), slot }
/// });
/// decode_images(images.collect(), None)?;
/// # Ok::<(), forebay::Error>(())
/// ```
///
/// # Errors
/// The error of the first image that cannot be decoded, with its number as the row of the place;
/// [`Invalid`](crate::ErrorKind::Invalid) for 0 threads or more than a loader may have.
pub fn decode_images(mut images: Vec<EncodedImage<'_>>, threads: Option<usize>) -> Result<()> {
    if threads.is_some_and(|threads| !(1..=LoaderSpec::MAX_THREADS).contains(&threads)) {
        let cause = format!("threads is {}", threads.unwrap_or_default());
        let hint = format!("it is from 1 to {}; leave it out to use all processors", LoaderSpec::MAX_THREADS);
        return Err(Error::invalid(cause).hint(hint));
    }
    let threads = threads.unwrap_or_else(machine::processors).min(images.len());
    let located = |(row, image): (usize, &mut EncodedImage<'_>)| {
        image.decode().err().map(|error| error.at(Place::default().row(row as u64)))
    };
    let first = match threads {
        0 | 1 => images.iter_mut().enumerate().find_map(located),
        _ => threads::pool(threads)?
            .install(|| images.par_iter_mut().enumerate().with_max_len(1).find_map_first(located)),
    };
    first.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use forebay_base::ErrorKind;
    use forebay_image::encode_jpeg;

    use super::*;

    fn file(seed: u32) -> Vec<u8> {
        let pixels: Vec<u8> = (0..48 * 36 * 3).map(|at| ((at * 7 + seed * 31) % 251) as u8).collect();
        encode_jpeg(&pixels, 48, 36, 90).unwrap()
    }

    fn decoded(files: &[Vec<u8>], threads: Option<usize>) -> Result<Vec<u8>> {
        let image = Image::random_resized_crop(16).flip();
        let mut pixels = vec![0; files.len() * image.bytes_per_image()];
        let slots = pixels.chunks_exact_mut(image.bytes_per_image());
        let images = (5..).zip(files.iter().zip(slots)).map(|(key, (encoded, slot))| EncodedImage {
            image: &image,
            encoded,
            key: RowKey(key),
            slot,
        });
        decode_images(images.collect(), threads).map(|()| pixels)
    }

    #[test]
    fn any_number_of_threads_gives_the_pixels_of_each_image_alone() {
        let files: Vec<Vec<u8>> = (0..23).map(file).collect();
        let image = Image::random_resized_crop(16).flip();
        let alone: Vec<u8> = (5..)
            .zip(&files)
            .flat_map(|(key, file)| image.decode(file, RowKey(key)).unwrap().into_bytes())
            .collect();
        for threads in [None, Some(1), Some(2), Some(7), Some(64)] {
            assert!(decoded(&files, threads).unwrap() == alone, "{threads:?}");
        }
        assert!(decoded(&[], None).unwrap().is_empty());
    }

    #[test]
    fn the_first_bad_image_is_the_error_whatever_the_threads() {
        let mut files: Vec<Vec<u8>> = (0..40).map(file).collect();
        files[31] = b"<html>".to_vec();
        files[17] = b"<html>".to_vec();
        for threads in [1, 2, 8] {
            let error = decoded(&files, Some(threads)).unwrap_err();
            assert_eq!((error.kind(), error.place().row), (ErrorKind::BadRow, Some(17)));
        }
    }

    #[test]
    fn a_number_of_threads_that_no_loader_may_have_is_refused() {
        for threads in [0, LoaderSpec::MAX_THREADS + 1] {
            assert_eq!(decoded(&[file(1)], Some(threads)).unwrap_err().kind(), ErrorKind::Invalid);
        }
    }
}
