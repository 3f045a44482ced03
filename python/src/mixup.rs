//! The sum of images that `forebay.MixUp` makes.
#![allow(unsafe_code, reason = "numpy tells the memory of an array by its address")]

use std::slice;

use forebay::Error;
use forebay::image::PixelType;
use forebay_image::blend;
use pyo3::prelude::*;

use crate::arrays::address;
use crate::errors::IntoPython;

/// Blends each image of a batch with the image before it, and the first one with the last: a pixel becomes
/// `own` times itself plus `other` times that of the other image, rounded half to even.
///
/// # Errors
/// `images` and `blended` are not two contiguous arrays of uint8 with one shape.
#[pyfunction]
pub(crate) fn blend_with_previous(
    py: Python<'_>,
    images: &Bound<'_, PyAny>,
    blended: &Bound<'_, PyAny>,
    own: f32,
    other: f32,
) -> PyResult<()> {
    let shape: Vec<usize> = images.getattr("shape")?.extract()?;
    let from = address(images, &shape, PixelType::U8.name(), false)?;
    let to = address(blended, &shape, PixelType::U8.name(), true)?;
    let (count, bytes) = (shape.first().copied().unwrap_or_default(), shape.iter().product::<usize>());
    let (Some(from), Some(to)) = (from, to) else { return Err(refused()).or_raise(py) };
    if from.abs_diff(to) < bytes {
        return Err(refused()).or_raise(py);
    }
    let Some(each) = bytes.checked_div(count).filter(|each| *each > 0) else { return Ok(()) };
    // SAFETY: numpy says that the array is contiguous and of this shape and type, and `images` keeps it
    // alive.
    let images = unsafe { slice::from_raw_parts(from as *const u8, bytes) };
    // SAFETY: numpy says that the array is also writable, `blended` keeps it alive, and it does not overlap
    // the other one.
    let blended = unsafe { slice::from_raw_parts_mut(to as *mut u8, bytes) };
    py.detach(|| {
        let before = images.chunks_exact(each).cycle().skip(count - 1);
        for ((blended, own_image), before) in
            blended.chunks_exact_mut(each).zip(images.chunks_exact(each)).zip(before)
        {
            blend(own_image, before, [own, other], blended);
        }
    });
    Ok(())
}

fn refused() -> Error {
    Error::invalid("the arrays of a blend are two contiguous arrays of uint8 with one shape")
}
