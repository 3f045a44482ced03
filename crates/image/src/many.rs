//! Decodes many images, on the threads of a pool or on the caller's thread.

use forebay_base::{Error, Result};
use rayon::ThreadPool;
use rayon::prelude::*;

use super::decode::{View, decode_views};
use super::draws::RowKey;
use super::owned::{Pixels, decode_owned};
use super::spec::{DEFAULT_MAX_PIXELS, Image};
use super::workspace::Workspace;

/// An encoded image, and the views (crops or sizes of it) that it is decoded into; usually there is one view.
#[derive(Debug)]
pub struct EncodedImage<'a> {
    encoded: &'a [u8],
    views: Vec<View<'a>>,
}

impl<'a> EncodedImage<'a> {
    /// An image that is decoded from the bytes `encoded` into the slot of each view.
    pub fn new(encoded: &'a [u8], views: Vec<View<'a>>) -> Self {
        EncodedImage { encoded, views }
    }
}

/// Decodes many images, each into memory of its own.
///
/// `image` is the spec, as for [`Image::decode`]; without a spec, each image has its own size, as in
/// [`decode`](crate::decode). `key` returns the key of an image, which decides its random draws, for the
/// image's index in `encoded`. The threads of `pool` decode; without a pool, the caller's thread does. The
/// pixels do not depend on the number of threads. Images that need much memory while they are decoded wait
/// for each other: together they take no more than [`Image::max_pixels`] allows for one, beside the results.
///
/// ```
/// use forebay_image::{Image, RowKey, decode_many, encode_jpeg};
/// # let file = encode_jpeg(&[90; 64 * 48 * 3], 64, 48, 90)?;
/// # let files = [&file[..], &file, b"<html>"];
///
/// let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build()?;
/// let train = Image::random_resized_crop(32).flip();
/// for pixels in decode_many(Some(&pool), &files, Some(&train), |number| RowKey(number as u64)) {
///     match pixels {
///         Ok(pixels) => println!("{:?}", pixels.shape()),
///         Err(error) => println!("{error}"),
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Each image has its own result, with the errors of [`Image::decode`].
pub fn decode_many<E: AsRef<[u8]> + Sync>(
    pool: Option<&ThreadPool>,
    encoded: &[E],
    image: Option<&Image>,
    key: impl Fn(usize) -> RowKey + Sync,
) -> Vec<Result<Pixels>> {
    let workspace = workspace(pool, image.map_or(DEFAULT_MAX_PIXELS, |image| image.max_pixels));
    let each =
        |(number, encoded): (usize, &E)| decode_owned(&workspace, image, encoded.as_ref(), key(number));
    match pool {
        Some(pool) => pool.install(|| encoded.par_iter().enumerate().with_max_len(1).map(each).collect()),
        None => encoded.iter().enumerate().map(each).collect(),
    }
}

/// Decodes many images into their slots. Returns the index and the error of each image that cannot be
/// decoded, in ascending order. Threads and memory are those of [`decode_many`].
///
/// ```
/// use forebay_image::{EncodedImage, Image, RowKey, View, decode_many_into, encode_jpeg};
/// # let file = encode_jpeg(&[90; 64 * 48 * 3], 64, 48, 90)?;
/// # let files = [file.clone(), file];
///
/// let train = Image::random_resized_crop(32).flip();
/// let mut batch = vec![0; files.len() * train.bytes_per_image()];
/// let slots = batch.chunks_exact_mut(train.bytes_per_image());
/// let images = (0..).zip(files.iter().zip(slots)).map(|(number, (file, slot))| {
///     EncodedImage::new(file, vec![View::new(&train, RowKey(number), slot)])
/// });
/// assert!(decode_many_into(None, images.collect()).is_empty());
/// # Ok::<(), forebay_image::Error>(())
/// ```
pub fn decode_many_into(pool: Option<&ThreadPool>, mut images: Vec<EncodedImage<'_>>) -> Vec<(usize, Error)> {
    let views = images.iter().flat_map(|image| &image.views);
    let workspace = workspace(pool, views.map(View::max_pixels).max().unwrap_or(DEFAULT_MAX_PIXELS));
    let each = |(number, image): (usize, &mut EncodedImage<'_>)| {
        let decoded = decode_views(&workspace, image.encoded, &mut image.views);
        decoded.err().map(|error| (number, error))
    };
    match pool {
        Some(pool) => {
            pool.install(|| images.par_iter_mut().enumerate().with_max_len(1).filter_map(each).collect())
        }
        None => images.iter_mut().enumerate().filter_map(each).collect(),
    }
}

/// The memory budget for decoding images of at most `max_pixels`, on the threads of `pool` or on the caller's
/// thread.
fn workspace(pool: Option<&ThreadPool>, max_pixels: u64) -> Workspace {
    Workspace::of_images(max_pixels, pool.map_or(1, ThreadPool::current_num_threads))
}

#[cfg(test)]
mod tests {
    use forebay_base::ErrorKind;
    use rayon::ThreadPoolBuilder;

    use super::*;
    use crate::{decode, encode_jpeg};

    fn file(seed: u32) -> Vec<u8> {
        let (width, height) = (40 + seed, 36);
        let pixels: Vec<u8> = (0..width * height * 3).map(|at| ((at * 7 + seed * 31) % 251) as u8).collect();
        encode_jpeg(&pixels, width, height, 90).unwrap()
    }

    fn pools() -> Vec<Option<ThreadPool>> {
        let pool = |threads| Some(ThreadPoolBuilder::new().num_threads(threads).build().unwrap());
        vec![None, pool(1), pool(2), pool(7)]
    }

    #[test]
    fn any_number_of_threads_gives_the_pixels_of_each_image_alone() {
        let files: Vec<Vec<u8>> = (0..23).map(file).collect();
        let (image, small) = (Image::random_resized_crop(16).flip(), Image::center_crop(8).resize_shorter(9));
        let key = |number| RowKey(number as u64 + 5);
        for pool in pools() {
            let (mut first, mut second) = (vec![0; 23 * 16 * 16 * 3], vec![0; 23 * 8 * 8 * 3]);
            let slots = first.chunks_exact_mut(16 * 16 * 3).zip(second.chunks_exact_mut(8 * 8 * 3));
            let images = files.iter().zip(slots).enumerate().map(|(number, (file, (first, second)))| {
                let views =
                    vec![View::new(&image, key(number), first), View::new(&small, key(number), second)];
                EncodedImage::new(file, views)
            });
            assert!(decode_many_into(pool.as_ref(), images.collect()).is_empty());
            let own = decode_many(pool.as_ref(), &files, Some(&image), key);
            let stored = decode_many(pool.as_ref(), &files, None, key);
            for (number, file) in files.iter().enumerate() {
                let alone = image.decode(file, key(number)).unwrap();
                let slot = |bytes: &[u8], each: usize| bytes[number * each..(number + 1) * each].to_vec();
                assert!(slot(&first, 16 * 16 * 3) == alone.bytes());
                assert!(slot(&second, 8 * 8 * 3) == small.decode(file, key(number)).unwrap().bytes());
                assert!(own[number].as_ref().unwrap() == &alone);
                assert!(stored[number].as_ref().unwrap() == &decode(file).unwrap());
            }
        }
    }

    #[test]
    fn each_bad_image_is_named_and_the_others_are_decoded() {
        let mut files: Vec<Vec<u8>> = (0..40).map(file).collect();
        files[31] = b"<html>".to_vec();
        files[17].truncate(90);
        let image = Image::resize(8, 8);
        for pool in pools() {
            let mut slots = vec![0; 40 * 8 * 8 * 3];
            let images = files.iter().zip(slots.chunks_exact_mut(8 * 8 * 3));
            let images =
                images.map(|(file, slot)| EncodedImage::new(file, vec![View::new(&image, RowKey(0), slot)]));
            let bad = decode_many_into(pool.as_ref(), images.collect());
            assert_eq!(bad.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [17, 31]);
            assert!(bad.iter().all(|(_, error)| error.kind() == ErrorKind::BadRow));
            let own = decode_many(pool.as_ref(), &files, None, |_| RowKey(0));
            assert!(
                own.iter()
                    .enumerate()
                    .all(|(number, found)| found.is_err() == (number == 17 || number == 31))
            );
        }
    }
}
