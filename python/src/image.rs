//! `forebay.Image`: the library's value as a frozen Python object.

use forebay::{Image as Spec, Layout, PixelType};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde_json::Value;

use crate::errors::IntoPython;

/// How an encoded image becomes pixels: a frozen value.
///
/// Made by :meth:`resize`, :meth:`random_resized_crop` or :meth:`center_crop` and adjusted by the other methods, each
/// of which returns a new value. Names and meanings follow torchvision; every resize is bilinear with antialiasing.
/// Pixels are ``uint8`` in RGB and NHWC unless said otherwise; floats are in [0, 1] without :meth:`normalize`.
///
/// Random operations depend on the seed of the shuffle, the epoch and the row, not on threads or ranks.
///
/// Examples
/// --------
/// >>> import forebay as fb
/// >>> train = fb.Image.random_resized_crop(224).flip().dtype("float16").layout("NCHW")
/// >>> train.shape
/// (3, 224, 224)
/// >>> val = fb.Image.center_crop(224)
#[pyclass(frozen, eq, module = "forebay", name = "Image", from_py_object)]
#[derive(Clone, PartialEq)]
pub(crate) struct Image {
    spec: Spec,
}

impl Image {
    pub(crate) fn spec(&self) -> Spec {
        self.spec.clone()
    }

    fn with(spec: Spec) -> Self {
        Image { spec }
    }
}

/// A square's side, or height and width.
#[derive(FromPyObject)]
enum Size {
    Side(u32),
    Sides(u32, u32),
}

impl From<Size> for forebay::internals::decode::Size {
    fn from(size: Size) -> Self {
        match size {
            Size::Side(side) => side.into(),
            Size::Sides(height, width) => (height, width).into(),
        }
    }
}

#[pymethods]
impl Image {
    /// The whole image, stretched to one size.
    ///
    /// Parameters
    /// ----------
    /// height, width : int
    ///     Size in pixels.
    ///
    /// Returns
    /// -------
    /// Image
    ///     The value.
    #[staticmethod]
    fn resize(height: u32, width: u32) -> Self {
        Image::with(Spec::resize(height, width))
    }

    /// A random box of the image, resized.
    ///
    /// Parameters
    /// ----------
    /// size : int or tuple of int
    ///     Side of a square, or height and width, in pixels.
    /// scale : tuple of float, optional
    ///     Range of the share of the area that the box covers. Default: (0.08, 1).
    /// ratio : tuple of float, optional
    ///     Range of width over height of the box. Default: (3/4, 4/3).
    ///
    /// Returns
    /// -------
    /// Image
    ///     The value.
    #[staticmethod]
    #[pyo3(signature = (size, *, scale=None, ratio=None))]
    fn random_resized_crop(size: Size, scale: Option<(f64, f64)>, ratio: Option<(f64, f64)>) -> Self {
        let mut spec = Spec::random_resized_crop(size);
        if let Some(scale) = scale {
            spec = spec.scale(scale);
        }
        if let Some(ratio) = ratio {
            spec = spec.ratio(ratio);
        }
        Image::with(spec)
    }

    /// The middle of the image, after its shorter side was resized.
    ///
    /// Parameters
    /// ----------
    /// size : int or tuple of int
    ///     Side of a square, or height and width, in pixels.
    /// resize : int, optional
    ///     Pixels of the shorter side before the crop. Default: 256.
    ///
    /// Returns
    /// -------
    /// Image
    ///     The value.
    #[staticmethod]
    #[pyo3(signature = (size, *, resize=None))]
    fn center_crop(size: Size, resize: Option<u32>) -> Self {
        let spec = Spec::center_crop(size);
        Image::with(match resize {
            Some(pixels) => spec.resize_shorter(pixels),
            None => spec,
        })
    }

    /// Mirrors left to right at random.
    ///
    /// Parameters
    /// ----------
    /// p : float, default 0.5
    ///     Probability.
    ///
    /// Returns
    /// -------
    /// Image
    ///     A new value.
    #[pyo3(signature = (p=0.5))]
    fn flip(&self, p: f64) -> Self {
        Image::with(self.spec().flip_with(p))
    }

    /// ``(x / 255 - mean) / std`` for each channel; needs a float type.
    ///
    /// Parameters
    /// ----------
    /// mean, std : tuple of float
    ///     One number for each of red, green and blue.
    ///
    /// Returns
    /// -------
    /// Image
    ///     A new value.
    fn normalize(&self, mean: [f32; 3], std: [f32; 3]) -> Self {
        Image::with(self.spec().normalize(mean, std))
    }

    /// Sets the type of a pixel.
    ///
    /// Parameters
    /// ----------
    /// dtype : {"uint8", "float16", "bfloat16", "float32"}
    ///     The type. Default of an image: "uint8".
    ///
    /// Returns
    /// -------
    /// Image
    ///     A new value.
    ///
    /// Raises
    /// ------
    /// InvalidError
    ///     There is no such type.
    fn dtype(&self, py: Python<'_>, dtype: &str) -> PyResult<Self> {
        let dtype: PixelType = dtype.parse::<PixelType>().or_raise(py)?;
        Ok(Image::with(self.spec().dtype(dtype)))
    }

    /// Sets the order of the axes.
    ///
    /// Parameters
    /// ----------
    /// layout : {"NHWC", "NCHW"}
    ///     The order. Default of an image: "NHWC".
    ///
    /// Returns
    /// -------
    /// Image
    ///     A new value.
    ///
    /// Raises
    /// ------
    /// InvalidError
    ///     There is no such order.
    fn layout(&self, py: Python<'_>, layout: &str) -> PyResult<Self> {
        let layout: Layout = layout.parse::<Layout>().or_raise(py)?;
        Ok(Image::with(self.spec().layout(layout)))
    }

    /// One channel instead of three: the luma of ITU-R 601.
    ///
    /// Returns
    /// -------
    /// Image
    ///     A new value.
    fn grayscale(&self) -> Self {
        Image::with(self.spec().grayscale())
    }

    /// Turns and mirrors as EXIF or the tag of a TIFF says.
    ///
    /// Parameters
    /// ----------
    /// apply : bool, default True
    ///     Whether to. Default of an image: not, as in torchvision.
    ///
    /// Returns
    /// -------
    /// Image
    ///     A new value.
    #[pyo3(signature = (apply=true))]
    fn exif_orientation(&self, apply: bool) -> Self {
        Image::with(self.spec().exif_orientation(apply))
    }

    /// Limits the pixels that an image may have by its header; one with more is a bad row.
    ///
    /// Parameters
    /// ----------
    /// pixels : int
    ///     Height times width.
    ///
    /// Returns
    /// -------
    /// Image
    ///     A new value.
    fn max_pixels(&self, pixels: u64) -> Self {
        Image::with(self.spec().max_pixels(pixels))
    }

    /// Shape of one image, in the order of the axes.
    #[getter]
    fn shape(&self) -> (usize, usize, usize) {
        let [first, second, third] = self.spec.shape();
        (first, second, third)
    }

    /// The value that `_canonical` was taken from: what unpickling calls.
    #[staticmethod]
    fn _from_canonical(canonical: &str) -> PyResult<Self> {
        serde_json::from_str(canonical)
            .map(Image::with)
            .map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// One line of JSON, the same for equal values.
    fn _canonical(&self) -> String {
        self.spec.canonical()
    }

    fn __hash__(&self) -> u64 {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        self.spec.canonical().hash(&mut hasher);
        hasher.finish()
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        Ok((slf.get_type().getattr("_from_canonical")?, (slf.get()._canonical(),)))
    }

    /// As one would write it.
    fn __repr__(&self) -> PyResult<String> {
        let spec: Value =
            serde_json::to_value(&self.spec).map_err(|e| PyValueError::new_err(e.to_string()))?;
        let pair = |value: &Value| format!("({}, {})", value[0], value[1]);
        // As they were written: the library holds them in 32 bits, whose digits in 64 bits nobody would recognise.
        let single = |value: &Value| value.as_f64().unwrap_or(f64::NAN) as f32;
        let triple = |value: &Value| {
            format!("({:?}, {:?}, {:?})", single(&value[0]), single(&value[1]), single(&value[2]))
        };
        let (height, width) = (&spec["size"]["height"], &spec["size"]["width"]);
        let size = if height == width { height.to_string() } else { format!("({height}, {width})") };
        let mut code = String::from("forebay.Image.");
        match spec["framing"].as_str() {
            Some("resize") => code.push_str(&format!("resize({height}, {width})")),
            Some("center_crop") => {
                code.push_str(&format!("center_crop({size}"));
                if !spec["shorter"].is_null() {
                    code.push_str(&format!(", resize={}", spec["shorter"]));
                }
                code.push(')');
            }
            framing => {
                code.push_str(&format!("{}({size}", framing.unwrap_or("?")));
                for name in ["scale", "ratio"] {
                    if !spec[name].is_null() {
                        code.push_str(&format!(", {name}={}", pair(&spec[name])));
                    }
                }
                code.push(')');
            }
        }
        let defaults = serde_json::to_value(Spec::resize(1, 1)).unwrap_or_default();
        let differs = |name: &str| spec[name] != defaults[name];
        if differs("flip") {
            code.push_str(&format!(".flip({})", spec["flip"]));
        }
        if differs("grayscale") {
            code.push_str(".grayscale()");
        }
        if !spec["normalize"].is_null() {
            let normalize = &spec["normalize"];
            code.push_str(&format!(
                ".normalize({}, {})",
                triple(&normalize["mean"]),
                triple(&normalize["std"])
            ));
        }
        for name in ["dtype", "layout"] {
            if differs(name) {
                code.push_str(&format!(".{name}({})", spec[name]));
            }
        }
        if differs("exif_orientation") {
            code.push_str(".exif_orientation()");
        }
        if differs("max_pixels") {
            code.push_str(&format!(".max_pixels({})", spec["max_pixels"]));
        }
        Ok(code)
    }
}
