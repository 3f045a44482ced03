//! `forebay.decode_image`: encoded images to numpy arrays, without a data set.
#![allow(unsafe_code, reason = "numpy tells the memory of an array by its address")]

use std::slice;

use forebay::arrow::buffer::{Buffer, MutableBuffer};
use forebay::image::{EncodedImage, PixelType, RowKey, decode_images};
use forebay::{Error, Image as Spec, LoaderSpec, Place, Result};
use forebay_image::decode_into;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyMemoryView, PyString, PyTuple};

use crate::arguments::{int, refused};
use crate::arrays;
use crate::dense::{Dense, Element};
use crate::errors::IntoPython;
use crate::image::Image;

/// Decodes encoded images into a numpy array, without a data set and without the interpreter's lock.
///
/// JPEG, PNG, WebP, GIF, BMP and TIFF. A list is decoded on several threads; a single image on the caller's.
///
/// Parameters
/// ----------
/// data : bytes or list of bytes
///     One encoded image, or a list of several, which become a batch. Any object that supports the buffer
///     protocol is accepted.
/// image : Image, optional
///     How the image becomes pixels. Default: 8-bit RGB in its own size, with the orientation in which it is
///     stored.
/// key : int, default 0
///     Seeds the random operations: equal keys give equal pixels. The images of a batch have the keys
///     ``key``, ``key + 1`` and so on.
/// out : numpy.ndarray, optional
///     The array that the pixels are written to and that is returned. It must be contiguous and have the
///     shape and type of the result, which is one array.
/// threads : int, optional
///     Number of threads that decode a list. They end with the call. The pixels do not depend on it. Default: one
///     for each processor that the process may use.
///
/// Returns
/// -------
/// numpy.ndarray or list of numpy.ndarray
///     Pixels of shape ``(H, W, C)``, or as ``image`` says; for several images ``(N, H, W, C)``. Without ``image``,
///     or with a ragged one, several images are a list of arrays, each in its own size.
///
/// Raises
/// ------
/// BadRowError
///     The data is damaged or not an image. In a batch, ``row`` is the number of the first such image,
///     from 0.
/// TooLargeError
///     The image has more pixels than :meth:`Image.max_pixels` permits.
/// InvalidError
///     An argument is not as described, or ``out`` is given for images in their own sizes.
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
/// >>> fb.decode_image([file.getvalue()] * 2, fb.Image.center_crop(16).flip(), key=7).shape
/// (2, 16, 16, 3)
/// >>> [pixels.shape for pixels in fb.decode_image([file.getvalue()] * 2)]
/// [(30, 40, 3), (30, 40, 3)]
#[pyfunction]
#[pyo3(signature = (data, image=None, *, key=0, out=None, threads=None))]
pub(crate) fn decode_image<'py>(
    py: Python<'py>,
    data: &Bound<'py, PyAny>,
    image: Option<&Bound<'py, PyAny>>,
    #[pyo3(from_py_with = any_key)] key: u64,
    out: Option<&Bound<'py, PyAny>>,
    threads: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let threads = threads.map(any_threads).transpose()?;
    let is_batch = data.is_instance_of::<PyList>() || data.is_instance_of::<PyTuple>();
    let files: Vec<Bound<'py, PyBytes>> = match is_batch {
        true => data.try_iter()?.map(|file| bytes(&file?)).collect::<PyResult<_>>()?,
        false => vec![bytes(data)?],
    };
    let files: Vec<&[u8]> = files.iter().map(|file| file.as_bytes()).collect();
    let spec = match image {
        Some(image) => {
            let spec =
                image.extract::<Image>().map_err(|_| refused(image, "image", "a forebay.Image"))?.spec();
            spec.validate().or_raise(py)?;
            Some(spec)
        }
        None => None,
    };
    let spec = match (spec, is_batch) {
        (Some(spec), true) if !spec.is_ragged() => Ok(spec),
        (Some(spec), false) => spec.sized(files[0], RowKey(key)),
        (None, false) => Spec::as_stored(files[0]),
        (spec, true) => {
            if out.is_some() {
                let error = Error::invalid("`out=` for a batch of images in their own sizes");
                return Err(error.hint("pass `image=` with a size for all of them")).or_raise(py);
            }
            let images = py.detach(|| own_sizes(spec.as_ref(), &files, key, threads)).or_raise(py)?;
            let images = images.into_iter().map(|(spec, pixels)| array(py, &spec, None, pixels));
            return Ok(PyList::new(py, images.collect::<PyResult<Vec<_>>>()?)?.into_any());
        }
    }
    .or_raise(py)?;
    let rows = if is_batch { Some(files.len()) } else { None };
    let count = files.len() * spec.bytes_per_image();
    let decode = |slots: &mut [u8]| match is_batch {
        true => decode(&spec, &files, key, threads, slots),
        false => decode_into(&spec, files[0], RowKey(key), slots),
    };
    if let Some(out) = out {
        let address = writable(out, &shape(&spec, rows), spec.pixel_type())?;
        // SAFETY: numpy says that the array is writable, contiguous and of this shape and type, and `out`
        // keeps it alive.
        let slots = unsafe { slice::from_raw_parts_mut(address as *mut u8, count) };
        py.detach(|| decode(slots)).or_raise(py)?;
        return Ok(out.clone());
    }
    let mut slots = MutableBuffer::from_len_zeroed(count);
    py.detach(|| decode(slots.as_slice_mut())).or_raise(py)?;
    array(py, &spec, rows, slots)
}

/// Decodes each file into its slot.
fn decode(spec: &Spec, files: &[&[u8]], key: u64, threads: Option<usize>, slots: &mut [u8]) -> Result<()> {
    let slots = slots.chunks_exact_mut(spec.bytes_per_image());
    let images = keys(key).zip(files.iter().zip(slots));
    let images = images.map(|(key, (encoded, slot))| EncodedImage { image: spec, encoded, key, slot });
    decode_images(images.collect(), threads)
}

/// Decodes each file in its own size, into memory of its own.
fn own_sizes(
    spec: Option<&Spec>,
    files: &[&[u8]],
    key: u64,
    threads: Option<usize>,
) -> Result<Vec<(Spec, MutableBuffer)>> {
    let mut sized = Vec::with_capacity(files.len());
    // Images before one without a readable header are decoded, so that the error is that of the first bad one.
    let mut unread = None;
    for (row, (key, file)) in (0..).zip(keys(key).zip(files)) {
        match spec.map_or_else(|| Spec::as_stored(file), |spec| spec.sized(file, key)) {
            Ok(spec) => {
                let pixels = MutableBuffer::from_len_zeroed(spec.bytes_per_image());
                sized.push((spec, pixels));
            }
            Err(error) => {
                unread = Some(error.at(Place::default().row(row)));
                break;
            }
        }
    }
    let images = keys(key).zip(files).zip(&mut sized).map(|((key, encoded), (image, pixels))| EncodedImage {
        image,
        encoded,
        key,
        slot: pixels.as_slice_mut(),
    });
    decode_images(images.collect(), threads)?;
    unread.map_or(Ok(sized), Err)
}

/// The key of each image, from that of the first one.
fn keys(first: u64) -> impl Iterator<Item = RowKey> {
    (0..).map(move |row| RowKey(first.wrapping_add(row)))
}

fn shape(spec: &Spec, rows: Option<usize>) -> Vec<usize> {
    rows.into_iter().chain(spec.shape()).collect()
}

fn array<'py>(
    py: Python<'py>,
    spec: &Spec,
    rows: Option<usize>,
    pixels: MutableBuffer,
) -> PyResult<Bound<'py, PyAny>> {
    let (shape, element) = (shape(spec, rows), element(spec.pixel_type()));
    arrays::view(py, Dense { buffer: Buffer::from(pixels), shape, element })
}

fn any_threads(value: &Bound<'_, PyAny>) -> PyResult<usize> {
    let most = LoaderSpec::MAX_THREADS;
    let threads = int(value, 1..=most as u64);
    let threads = threads.and_then(|threads| usize::try_from(threads).ok());
    threads.ok_or_else(|| refused(value, "threads", &format!("an int from 1 to {most}")))
}

fn any_key(value: &Bound<'_, PyAny>) -> PyResult<u64> {
    int(value, 0..=u64::MAX).ok_or_else(|| refused(value, "key", "an int from 0 to 2**64 - 1"))
}

/// The bytes of a file, which must not change while they are decoded: `bytes` as they are, or a copy of any
/// other object.
fn bytes<'py>(file: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    if let Ok(bytes) = file.cast::<PyBytes>() {
        return Ok(bytes.clone());
    }
    let wanted = "the bytes of an encoded image, or a list of them";
    if file.is_instance_of::<PyString>() {
        return Err(refused(file, "data", &format!("{wanted}, not a path")));
    }
    let view = PyMemoryView::from(file).map_err(|_| refused(file, "data", wanted))?;
    Ok(view.call_method0("tobytes")?.cast_into::<PyBytes>()?)
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

/// The address of an array that can take numbers of this shape and type.
fn writable(out: &Bound<'_, PyAny>, shape: &[usize], dtype: PixelType) -> PyResult<usize> {
    let wanted = || format!("a writable and contiguous array of the shape {shape:?} and the type {dtype}");
    let read = || -> PyResult<Option<usize>> {
        let interface = out.getattr("__array_interface__")?;
        let (address, is_read_only): (usize, bool) = interface.get_item("data")?.extract()?;
        let fits = !is_read_only
            && interface.get_item("strides")?.is_none()
            && interface.get_item("shape")?.extract::<Vec<usize>>()? == shape
            && out.getattr("dtype")?.getattr("name")?.extract::<String>()? == dtype.name();
        Ok(fits.then_some(address))
    };
    match read() {
        Ok(Some(address)) => Ok(address),
        _ => Err(refused(out, "out", &wanted())),
    }
}
