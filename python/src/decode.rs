//! `forebay.decode_image`: encoded images to numpy arrays, without a data set.
#![allow(unsafe_code, reason = "numpy tells the memory of an array by its address")]

mod bad;
mod encoded;
mod wanted;

use std::ops::Range;
use std::slice;

use forebay::arrow::buffer::{Buffer, MutableBuffer};
use forebay::bindings::decoding_threads;
use forebay::image::{EncodedImage, PixelType, View, decode_many, decode_many_into};
use forebay::{Error, Image as Spec, LoaderSpec, Result};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::arguments::{int, refused};
use crate::arrays;
use crate::dense::{Dense, Element};
use crate::errors::{self, IntoPython};
use bad::{BadImages, OnBad, null};
use encoded::Encoded;
use wanted::{ImageKeys, WantedView, refused_rows};

/// The bytes of image files that each thread decodes between two checks for Ctrl-C, which takes about a tenth
/// of a second.
const BYTES_PER_TURN: usize = 16 << 20;

/// Decodes encoded images into numpy arrays, without a data set and without the interpreter's lock.
///
/// JPEG, PNG, WebP, GIF, BMP and TIFF. Several images are decoded on threads of forebay's own; a single
/// one on the caller's thread.
///
/// Parameters
/// ----------
/// data : bytes, list of bytes, or Arrow array
///     One encoded image or several. Several are a list, a tuple or an array of objects, in which None is
///     a null, or a column of binary values or ``struct<bytes, path>`` with Arrow's C data interface, such
///     as an array or a chunked array of pyarrow or a series of polars. An image may be a dict of
///     ``bytes`` and ``path`` too. ``bytes`` and Arrow's columns are read without a copy; other objects
///     with a buffer, such as a ``memoryview``, are copied.
/// image : Image or Views, optional
///     How the images become pixels. Default: 8-bit RGB in the size of each image, with the orientation
///     in which it is stored.
/// seed, epoch : int, default 0
///     Seed and epoch of the random draws.
/// rows : int or sequence of int, optional
///     Row number of the first image, from which the others are counted on, or a row number for each image.
///     Default: 0. Images with equal seed, epoch, row number and column get equal random draws. A loader
///     with this seed and epoch makes the same draws for the row with this number in stored order.
/// column : str, default "image"
///     Name of the column that the loader would read.
/// out : numpy.ndarray, optional
///     The array that the pixels are written to and that is returned. It must be contiguous and have the
///     shape and type of the result, which is one array.
/// threads : int, optional
///     Number of threads that decode several images. The pixels do not depend on it. Default: one for
///     each processor that the process may use.
/// on_bad_row : {"raise", "fill"} or Skip, default "raise"
///     Treatment of an image that cannot be decoded or is null, if ``data`` has several images: raise for
///     the first one; deliver pixels of 0, or an array without pixels if each image has its own size; or
///     leave it out with :class:`Skip`. The last two need ``skipped``.
/// skipped : list, optional
///     Receives the exception of each image that was left out or filled. Its ``row`` is the number of the
///     image. It must be given unless ``on_bad_row`` is ``"raise"``.
///
/// Returns
/// -------
/// numpy.ndarray, list of numpy.ndarray, or dict
///     Pixels of shape ``(H, W, C)``, or as ``image`` says; for several images ``(N, H, W, C)``. Without
///     ``image``, or with a ragged one, several images are a list of arrays, each in its own size. With
///     :class:`Views` a dict has the array of each view by its name.
///
/// Raises
/// ------
/// BadRowError
///     An image is damaged, null, or not an image. Among several, ``row`` is its number, counted from 0.
/// TooLargeError
///     An image has more pixels than :meth:`Image.max_pixels` permits.
/// InvalidError
///     An argument is not as described.
///
/// Examples
/// --------
/// >>> import forebay as fb
/// >>> import io
/// >>> from PIL import Image
/// >>> file = io.BytesIO()
/// >>> Image.new("RGB", (40, 30), (9, 90, 200)).save(file, "PNG")
/// >>> fb.decode_image(file.getvalue()).shape
/// (30, 40, 3)
/// >>> fb.decode_image([file.getvalue()] * 2, fb.Image.center_crop(16).flip(), seed=7).shape
/// (2, 16, 16, 3)
/// >>> [pixels.shape for pixels in fb.decode_image([file.getvalue()] * 2)]
/// [(30, 40, 3), (30, 40, 3)]
#[pyfunction]
#[pyo3(signature = (
    data, image=None, *, seed=0, epoch=0, rows=None, column="image", out=None, threads=None, on_bad_row=None,
    skipped=None,
))]
#[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
pub(crate) fn decode_image<'py>(
    py: Python<'py>,
    data: &Bound<'py, PyAny>,
    image: Option<&Bound<'py, PyAny>>,
    #[pyo3(from_py_with = any_seed)] seed: u64,
    #[pyo3(from_py_with = any_epoch)] epoch: u64,
    rows: Option<&Bound<'py, PyAny>>,
    column: &str,
    out: Option<&Bound<'py, PyAny>>,
    threads: Option<&Bound<'py, PyAny>>,
    on_bad_row: Option<&Bound<'py, PyAny>>,
    skipped: Option<&Bound<'py, PyList>>,
) -> PyResult<Bound<'py, PyAny>> {
    let threads = threads.map(any_threads).transpose()?;
    let on_bad = OnBad::read(on_bad_row)?;
    let keys = ImageKeys::new(seed, epoch, column, rows)?;
    let mut wanted = WantedView::read(image)?;
    let encoded = Encoded::read(data)?;
    let cells = encoded.cells();
    if let Some(rows) = rows.filter(|_| !keys.are_for(cells.len())) {
        return Err(refused_rows(rows));
    }
    check(encoded.is_batch(), on_bad, skipped.is_some(), out.is_some()).or_raise(py)?;
    let pool = match threads {
        Some(1) => None,
        threads => (cells.len() > 1).then(|| decoding_threads(threads)).transpose().or_raise(py)?,
    };
    let images = Images { cells: &cells, keys: &keys, pool: pool.as_deref() };
    let mut bad = BadImages::none(on_bad);
    let has_own_size = wanted.first().is_none_or(|wanted| wanted.image.is_ragged());
    if has_own_size && encoded.is_batch() {
        if out.is_some() {
            let error = Error::invalid("`out` for several images in their own sizes");
            return Err(error.hint("pass `image` with a size for all of them")).or_raise(py);
        }
        let list = images.own_sizes(py, wanted.first().map(|wanted| &wanted.image), &mut bad)?;
        bad.append_to(py, skipped)?;
        return Ok(list.into_any());
    }
    if has_own_size {
        let (file, key) = (cells[0].unwrap_or_default(), keys.key(0));
        let sized = match wanted.first() {
            Some(wanted) => wanted.image.sized(file, key),
            None => Spec::as_stored(file),
        };
        wanted = vec![WantedView::one(sized.or_raise(py)?)];
    }
    let count = encoded.is_batch().then_some(cells.len());
    if let Some(out) = out {
        let [wanted] = &wanted[..] else {
            return Err(Error::invalid("`out` for several views").hint("leave it out")).or_raise(py);
        };
        let address = writable(out, &wanted.shape(count), wanted.image.pixel_type())?;
        // SAFETY: numpy says that the array is writable, contiguous and of this shape and type, and `out`
        // keeps it alive.
        let slots = unsafe { slice::from_raw_parts_mut(address as *mut u8, cells.len() * wanted.bytes()) };
        images.fill(py, slice::from_ref(wanted), &mut [slots], &mut bad)?;
        bad.append_to(py, skipped)?;
        return Ok(out.clone());
    }
    let mut slots: Vec<MutableBuffer> =
        wanted.iter().map(|view| MutableBuffer::from_len_zeroed(cells.len() * view.bytes())).collect();
    let mut each: Vec<&mut [u8]> = slots.iter_mut().map(MutableBuffer::as_slice_mut).collect();
    images.fill(py, &wanted, &mut each, &mut bad)?;
    bad.append_to(py, skipped)?;
    let views = PyDict::new(py);
    for (view, mut slots) in wanted.iter().zip(slots) {
        let count = match bad.are_left_out() {
            true => Some(without(&bad, cells.len(), &mut slots, view.bytes())),
            false => count,
        };
        let array = array(py, Buffer::from(slots), view.shape(count), view.image.pixel_type())?;
        match &view.name {
            Some(name) => views.set_item(name, array)?,
            None => return Ok(array),
        }
    }
    Ok(views.into_any())
}

/// Refuses arguments of `decode_image` that cannot be combined.
fn check(is_batch: bool, on_bad: OnBad, is_listed: bool, has_out: bool) -> Result<()> {
    match on_bad {
        OnBad::Raise => Ok(()),
        _ if !is_batch => {
            Err(Error::invalid("on_bad_row for a single image").hint("pass a list, or catch the exception"))
        }
        _ if !is_listed => Err(Error::invalid("on_bad_row without skipped")
            .hint("pass a list as `skipped`, which receives the exception of each bad image")),
        OnBad::Skip { .. } if has_out => {
            Err(Error::invalid("`out` with images that may be left out").hint("pass on_bad_row=\"fill\""))
        }
        _ => Ok(()),
    }
}

/// The images of one call, and the threads that decode them.
struct Images<'a> {
    cells: &'a [Option<&'a [u8]>],
    keys: &'a ImageKeys,
    pool: Option<&'a rayon::ThreadPool>,
}

impl Images<'_> {
    /// Decodes all images. `slots` has for each of the `wanted` views the memory of all images; the memory of
    /// an image that cannot be decoded becomes 0.
    fn fill(
        &self,
        py: Python<'_>,
        wanted: &[WantedView],
        slots: &mut [&mut [u8]],
        bad: &mut BadImages,
    ) -> PyResult<()> {
        for turn in self.turns() {
            let parts = slots.iter_mut().zip(wanted);
            let mut parts: Vec<_> = parts
                .map(|(slots, view)| {
                    let part = &mut slots[turn.start * view.bytes()..turn.end * view.bytes()];
                    part.chunks_exact_mut(view.bytes())
                })
                .collect();
            let (mut images, mut numbers, mut found) = (Vec::new(), Vec::new(), Vec::new());
            for number in turn {
                let slots: Vec<&mut [u8]> = parts.iter_mut().filter_map(Iterator::next).collect();
                match self.cells[number] {
                    Some(encoded) => {
                        images.push(EncodedImage::new(encoded, self.views(number, wanted, slots)));
                        numbers.push(number);
                    }
                    None => found.push((number, null())),
                }
            }
            let undecoded = py.detach(|| decode_many_into(self.pool, images));
            found.extend(undecoded.into_iter().map(|(at, error)| (numbers[at], error)));
            bad.extend(found).or_raise(py)?;
            py.check_signals()?;
        }
        for (slots, view) in slots.iter_mut().zip(wanted) {
            bad.numbers().for_each(|number| slots[number * view.bytes()..][..view.bytes()].fill(0));
        }
        Ok(())
    }

    /// The views to make of one image. `slots` has the memory of this image in each of the `wanted` views.
    fn views<'a>(&self, number: usize, wanted: &'a [WantedView], slots: Vec<&'a mut [u8]>) -> Vec<View<'a>> {
        let key = self.keys.key(number);
        let each = wanted.iter().zip(slots).flat_map(|(view, slot)| {
            let images = (0..).zip(slot.chunks_exact_mut(view.image.bytes_per_image()));
            images.map(move |(number, slot)| View::new(&view.image, view.key(key, number), slot))
        });
        each.collect()
    }

    /// Decodes all images in their own sizes.
    fn own_sizes<'py>(
        &self,
        py: Python<'py>,
        image: Option<&Spec>,
        bad: &mut BadImages,
    ) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for turn in self.turns() {
            let numbers: Vec<usize> = turn.clone().filter(|number| self.cells[*number].is_some()).collect();
            let files: Vec<&[u8]> = numbers.iter().filter_map(|number| self.cells[*number]).collect();
            let key = |at: usize| self.keys.key(numbers[at]);
            let decoded = py.detach(|| decode_many(self.pool, &files, image, key));
            let mut decoded = numbers.iter().copied().zip(decoded).peekable();
            let (mut found, mut pixels) = (Vec::new(), Vec::new());
            for number in turn {
                let (one, error) = match decoded.next_if(|(at, _)| *at == number) {
                    Some((_, Ok(one))) => (Some(one), None),
                    Some((_, Err(error))) => (None, Some(error)),
                    None => (None, Some(null())),
                };
                found.extend(error.map(|error| (number, error)));
                pixels.push((number, one));
            }
            bad.extend(found).or_raise(py)?;
            for (number, one) in pixels {
                let dtype = image.map_or(PixelType::U8, Spec::pixel_type);
                match one {
                    Some(one) => {
                        let shape = one.shape().to_vec();
                        list.append(array(py, Buffer::from_vec(one.into_bytes()), shape, dtype)?)?;
                    }
                    None if bad.are_left_out() && bad.has(number) => {}
                    None => {
                        let channels = image.map_or(3, Spec::channels);
                        let none = Buffer::from_vec(Vec::<u8>::new());
                        list.append(array(py, none, vec![0, 0, channels], dtype)?)?;
                    }
                }
            }
            py.check_signals()?;
        }
        Ok(list)
    }

    /// Divides the images into ranges. Each range is decoded without a check for Ctrl-C.
    fn turns(&self) -> Vec<Range<usize>> {
        let most = BYTES_PER_TURN * self.pool.map_or(1, rayon::ThreadPool::current_num_threads);
        let (mut turns, mut start, mut bytes) = (Vec::new(), 0, 0);
        for (number, cell) in self.cells.iter().enumerate() {
            bytes += cell.map_or(0, <[u8]>::len);
            if bytes >= most || number + 1 == self.cells.len() {
                turns.push(start..number + 1);
                (start, bytes) = (number + 1, 0);
            }
        }
        turns
    }
}

/// Moves the pixels of all images that were decoded to the front of `slots`, cuts off the rest, and returns
/// the number of these images.
fn without(bad: &BadImages, count: usize, slots: &mut MutableBuffer, bytes: usize) -> usize {
    let mut kept = 0;
    for number in (0..count).filter(|number| !bad.has(*number)) {
        slots.as_slice_mut().copy_within(number * bytes..(number + 1) * bytes, kept * bytes);
        kept += 1;
    }
    slots.truncate(kept * bytes);
    kept
}

fn array(py: Python<'_>, buffer: Buffer, shape: Vec<usize>, dtype: PixelType) -> PyResult<Bound<'_, PyAny>> {
    arrays::view(py, Dense { buffer, shape, element: element(dtype) })
}

fn any_seed(value: &Bound<'_, PyAny>) -> PyResult<u64> {
    int(value, 0..=u64::MAX).ok_or_else(|| refused(value, "seed", "an int from 0 to 2**64 - 1"))
}

fn any_epoch(value: &Bound<'_, PyAny>) -> PyResult<u64> {
    int(value, 0..=u64::MAX).ok_or_else(|| refused(value, "epoch", "an int from 0 to 2**64 - 1"))
}

fn any_threads(value: &Bound<'_, PyAny>) -> PyResult<usize> {
    let most = LoaderSpec::MAX_THREADS;
    let threads = int(value, 1..=most as u64).and_then(|threads| usize::try_from(threads).ok());
    threads.ok_or_else(|| refused(value, "threads", &format!("an int from 1 to {most}")))
}

fn element(dtype: PixelType) -> Element {
    match dtype {
        PixelType::U8 => Element::UInt(1),
        PixelType::U16 => Element::UInt(2),
        PixelType::F16 => Element::Float(2),
        PixelType::BF16 => Element::BFloat16,
        PixelType::F32 => Element::Float(4),
    }
}

/// Returns the address of the array `out`, or an error if it cannot take pixels of this shape and type.
fn writable(out: &Bound<'_, PyAny>, shape: &[usize], dtype: PixelType) -> PyResult<usize> {
    match arrays::address(out, shape, dtype.name(), true) {
        Ok(Some(address)) => Ok(address),
        _ => Err(refused_out(out, shape, dtype)),
    }
}

/// The error for an `out` that cannot take pixels of this shape and type.
fn refused_out(out: &Bound<'_, PyAny>, shape: &[usize], dtype: PixelType) -> PyErr {
    let wanted = format!("a writable and contiguous array of the shape {shape:?} and the type {dtype}");
    let given = || -> PyResult<String> {
        let (shape, dtype) = (out.getattr("shape")?.extract::<Vec<usize>>()?, out.getattr("dtype")?);
        let flag = |name: &str| out.getattr("flags")?.getattr(name)?.is_truthy();
        let kind = match (flag("writeable")?, flag("c_contiguous")?) {
            (false, _) => "a read-only array",
            (_, false) => "a strided array",
            _ => "an array",
        };
        Ok(format!("{kind} of the shape {shape:?} and the type {dtype}"))
    };
    match given() {
        Ok(given) => errors::raise(out.py(), &Error::invalid(format!("out must be {wanted}, got {given}"))),
        Err(_) => refused(out, "out", &wanted),
    }
}
