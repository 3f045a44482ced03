//! Checks and converts the arguments of `forebay.Image`'s methods.

use forebay::Image as Spec;
use forebay::image::{
    AutoAugment, Interpolation, Layout, Padding, PaddingMode, PixelType, Raw, Resampling, Size,
};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::arguments::{float, int, items, numbers, refused};
use crate::errors::IntoPython;

pub(super) type Argument<'a, 'py> = &'a Bound<'py, PyAny>;

/// Reads the length of a side in pixels; `None` if it is not an int in the allowed range.
pub(super) fn side(value: Argument) -> Option<u32> {
    int(value, 1..=u64::from(Spec::MAX_SIDE)).map(|side| side as u32)
}

/// Reads the length of a side in pixels, or returns an error that names the argument.
pub(super) fn named_side(value: Argument, name: &str) -> PyResult<u32> {
    side(value).ok_or_else(|| refused(value, name, &format!("an int from 1 to {}", Spec::MAX_SIDE)))
}

/// Reads the argument `size`: the side of a square, or a height and a width.
pub(super) fn extent(value: Argument) -> PyResult<Size> {
    named_extent(value, "size")
}

/// Like [`extent`], for an argument of another name.
pub(super) fn named_extent(value: Argument, name: &str) -> PyResult<Size> {
    let both = || {
        let [height, width] = items(value)?;
        Some(Size::from((side(&height)?, side(&width)?)))
    };
    side(value).map(Size::from).or_else(both).ok_or_else(|| {
        refused(value, name, &format!("an int from 1 to {}, or a height and a width of them", Spec::MAX_SIDE))
    })
}

/// Reads one length of a side in pixels, or several lengths from which one is drawn at random.
pub(super) fn sides(value: Argument, name: &str) -> PyResult<Vec<u32>> {
    if let Some(side) = side(value) {
        return Ok(vec![side]);
    }
    let wanted = || refused(value, name, &format!("an int from 1 to {}, or several of them", Spec::MAX_SIDE));
    let each = value.try_iter().map_err(|_| wanted())?;
    each.map(|item| side(&item?).ok_or_else(wanted)).collect()
}

/// Reads a string, or returns an error that names the argument.
pub(super) fn text(value: Argument, name: &str) -> PyResult<String> {
    value.extract().map_err(|_| refused(value, name, "a str"))
}

/// Reads a finite number, or takes the default if the argument is missing.
pub(super) fn number(value: Option<Argument>, name: &str, default: f64) -> PyResult<f64> {
    let Some(value) = value else { return Ok(default) };
    float(value).filter(|number| number.is_finite()).ok_or_else(|| refused(value, name, "a finite number"))
}

/// Reads an unsigned int that fits 32 bits.
pub(super) fn whole_number(value: Argument, name: &str) -> PyResult<u32> {
    let number = int(value, 0..=u64::from(u32::MAX)).map(|number| number as u32);
    number.ok_or_else(|| refused(value, name, "an int of at least 0"))
}

/// Reads the numbers of an iterable.
pub(super) fn several(value: Argument, name: &str) -> PyResult<Vec<f64>> {
    let wanted = || refused(value, name, "several numbers");
    let each = value.try_iter().map_err(|_| wanted())?;
    each.map(|item| float(&item?).ok_or_else(wanted)).collect()
}

/// Reads `padding` in pixels: one int for all sides, two for across and down, or four for left, top, right
/// and bottom.
pub(super) fn padding_of(value: Argument) -> PyResult<Padding> {
    let whole = |value: Argument| int(value, 0..=u64::from(Spec::MAX_SIDE)).map(|pixels| pixels as u32);
    let two = || {
        let [across, down] = items(value)?;
        Some(Padding::from((whole(&across)?, whole(&down)?)))
    };
    let four = || {
        let [left, top, right, bottom] = items(value)?;
        Some(Padding::from((whole(&left)?, whole(&top)?, whole(&right)?, whole(&bottom)?)))
    };
    let padding = whole(value).map(Padding::from).or_else(two).or_else(four);
    padding.ok_or_else(|| refused(value, "padding", "an int of at least 0, or two or four of them"))
}

pub(super) fn padding_mode_of(value: Argument) -> PyResult<PaddingMode> {
    match value.cast::<PyString>() {
        Ok(name) => name.to_str()?.parse::<PaddingMode>().or_raise(value.py()),
        Err(_) => Err(refused(value, "padding_mode", &one_of(&PaddingMode::ALL.map(PaddingMode::name)))),
    }
}

/// Reads a range: two numbers above 0, the smaller one first.
pub(super) fn range(value: Argument, name: &str) -> PyResult<(f64, f64)> {
    numbers(value, |[least, most]| *least > 0.0 && least <= most && most.is_finite())
        .map(|[least, most]| (least, most))
        .ok_or_else(|| refused(value, name, "two finite numbers above 0, the smaller one first"))
}

/// Reads three numbers, one for each channel, as 32-bit floats. `fits` must be true for each of them; the
/// error message says that the argument must be `wanted`.
pub(super) fn channels(
    value: Argument,
    name: &str,
    wanted: &str,
    fits: impl Fn(f32) -> bool,
) -> PyResult<[f32; 3]> {
    numbers(value, |numbers| {
        numbers.iter().all(|number| (*number as f32).is_finite() && fits(*number as f32))
    })
    .map(|numbers| numbers.map(|number| number as f32))
    .ok_or_else(|| refused(value, name, wanted))
}

/// Reads a number for each channel, or one number for all channels.
pub(super) fn value_of_each(value: Argument, name: &str) -> PyResult<[f32; 3]> {
    match float(value).filter(|number| (*number as f32).is_finite()) {
        Some(number) => Ok([number as f32; 3]),
        None => channels(value, name, "a finite number or three of them", |_| true),
    }
}

/// Reads the amount of a change, such as of brightness; 0 if the argument is missing.
pub(super) fn amount(value: Option<Argument>, name: &str) -> PyResult<f64> {
    let Some(value) = value else { return Ok(0.0) };
    let amount = float(value).filter(|amount| *amount >= 0.0 && amount.is_finite());
    amount.ok_or_else(|| refused(value, name, "a finite number of at least 0"))
}

pub(super) fn probability(value: Argument) -> PyResult<f64> {
    let probability = float(value).filter(|p| (0.0..=1.0).contains(p));
    probability.ok_or_else(|| refused(value, "p", "a number from 0 to 1"))
}

pub(super) fn truth(value: Argument) -> PyResult<bool> {
    named_truth(value, "apply")
}

pub(super) fn named_truth(value: Argument, name: &str) -> PyResult<bool> {
    value.extract().map_err(|_| refused(value, name, "True or False"))
}

pub(super) fn pixels(value: Argument) -> PyResult<u64> {
    int(value, 1..=u64::MAX).ok_or_else(|| refused(value, "pixels", "an int of at least 1 that fits 64 bits"))
}

pub(super) fn pixel_type(value: Argument) -> PyResult<PixelType> {
    match value.cast::<PyString>() {
        Ok(name) => name.to_str()?.parse::<PixelType>().or_raise(value.py()),
        Err(_) => numpy_type(value)
            .ok_or_else(|| refused(value, "dtype", &one_of(&PixelType::ALL.map(PixelType::name)))),
    }
}

/// The pixel type for an argument that `numpy.dtype` accepts, such as `numpy.float32` or a type of
/// `ml_dtypes`.
pub(super) fn numpy_type(value: Argument) -> Option<PixelType> {
    let py = value.py();
    if value.is_none() {
        return None; // which numpy takes for float64
    }
    let dtype = py.import(intern!(py, "numpy")).ok()?.call_method1(intern!(py, "dtype"), (value,)).ok()?;
    dtype.getattr(intern!(py, "name")).ok()?.extract::<String>().ok()?.parse().ok()
}

pub(super) fn bits(value: Argument) -> PyResult<u8> {
    match int(value, 8..=16) {
        Some(bits @ (8 | 16)) => Ok(bits as u8),
        _ => Err(refused(value, "bits", "8 or 16")),
    }
}

/// Reads a whole number, or takes the default if the argument is missing.
pub(super) fn count(value: Option<Argument>, name: &str, default: u32) -> PyResult<u32> {
    let Some(value) = value else { return Ok(default) };
    let count = int(value, 0..=u64::from(u32::MAX)).map(|number| number as u32);
    count.ok_or_else(|| refused(value, name, "an int of at least 0"))
}

/// Reads a pixel value from 0 to 255, which may have a fraction.
pub(super) fn level_of(value: Argument, name: &str) -> PyResult<f64> {
    let level = float(value).filter(|level| (0.0..=255.0).contains(level));
    level.ok_or_else(|| refused(value, name, "a number from 0 to 255"))
}

/// Finds the learned policy of automatic augmentation by its name.
pub(super) fn policy_of(value: Argument) -> PyResult<AutoAugment> {
    let name = value.cast::<PyString>().ok().and_then(|name| name.to_str().ok());
    match name {
        Some("imagenet") => Ok(AutoAugment::imagenet()),
        Some("cifar10") => Ok(AutoAugment::cifar10()),
        Some("svhn") => Ok(AutoAugment::svhn()),
        _ => Err(refused(value, "policy", &one_of(&["imagenet", "cifar10", "svhn"]))),
    }
}

pub(super) fn interpolation_of(value: Argument) -> PyResult<Interpolation> {
    match value.cast::<PyString>() {
        Ok(name) => name.to_str()?.parse::<Interpolation>().or_raise(value.py()),
        Err(_) => Err(refused(value, "interpolation", &one_of(&Interpolation::ALL.map(Interpolation::name)))),
    }
}

pub(super) fn filter(value: Argument) -> PyResult<Resampling> {
    match value.cast::<PyString>() {
        Ok(name) => name.to_str()?.parse::<Resampling>().or_raise(value.py()),
        Err(_) => Err(refused(value, "filter", &one_of(&Resampling::ALL.map(Resampling::name)))),
    }
}

/// Reads the shape of raw pixels: a height and a width, with channels after them (before them if `layout` is
/// NCHW). A shape of two ints has one channel.
pub(super) fn raw_of(value: Argument, layout: Layout) -> PyResult<Raw> {
    let whole = |value: Argument| int(value, 0..=u64::from(u32::MAX)).map(|number| number as u32);
    let grey = || {
        let [height, width] = items(value)?;
        Some(((whole(&height)?, whole(&width)?), 1))
    };
    let several = || {
        let [first, second, third] = items(value)?;
        let [first, second, third] = [whole(&first)?, whole(&second)?, whole(&third)?];
        Some(match layout {
            Layout::Nhwc => ((first, second), third),
            Layout::Nchw => ((second, third), first),
        })
    };
    let wanted = match layout {
        Layout::Nhwc => "a height, a width and channels, as ints",
        Layout::Nchw => "channels, a height and a width, as ints",
    };
    let (size, channels) = several().or_else(grey).ok_or_else(|| refused(value, "shape", wanted))?;
    Ok(Raw::new(size, channels).layout(layout))
}

/// Reads the argument `fill`: a pixel value for each channel, or one for all channels.
pub(super) fn levels(value: Argument) -> PyResult<[u8; 3]> {
    let level = |value: Argument| int(value, 0..=u64::from(u8::MAX)).map(|level| level as u8);
    let each = || {
        let [red, green, blue] = items(value)?;
        Some([level(&red)?, level(&green)?, level(&blue)?])
    };
    let fill = level(value).map(|level| [level; 3]).or_else(each);
    fill.ok_or_else(|| refused(value, "fill", "an int from 0 to 255, or three of them"))
}

pub(super) fn pixel_layout(value: Argument) -> PyResult<Layout> {
    match value.cast::<PyString>() {
        Ok(name) => name.to_str()?.parse::<Layout>().or_raise(value.py()),
        Err(_) => Err(refused(value, "layout", &one_of(&Layout::ALL.map(Layout::name)))),
    }
}

/// Joins names as in a sentence: `'a', 'b' or 'c'`.
pub(super) fn one_of(names: &[&str]) -> String {
    let quoted: Vec<_> = names.iter().map(|name| format!("'{name}'")).collect();
    match quoted.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => quoted.join(""),
    }
}
