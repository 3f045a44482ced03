//! `forebay.Image`: the library's value as a frozen Python object.

mod arguments;
mod code;

use arguments::{
    Argument, amount, bits, channels, count, extent, filter, interpolation_of, level_of, levels,
    named_extent, named_side, named_truth, number, padding_mode_of, padding_of, pixel_layout, pixel_type,
    pixels, policy_of, probability, range, raw_of, several, sides, text, truth, value_of_each, whole_number,
};
use forebay::Image as Spec;
use forebay::image::{AutoAugment, Interpolation, Layout, PixelType, Resampling, Size};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arguments::{float, int, numbers, refused};
use crate::errors::IntoPython;

/// Describes how an image becomes pixels. It is a frozen value.
///
/// :meth:`resize`, :meth:`random_resized_crop`, :meth:`center_crop` and :meth:`fit` make one; the other
/// methods adjust it, and each returns a new value. Names and meanings follow torchvision; a resize is
/// antialiased, and bilinear without :meth:`resampling`. Cells are encoded images, or pixels with
/// :meth:`raw`. Pixels are ``uint8`` in RGB and NHWC by default; floats are in [0, 1] without
/// :meth:`normalize`.
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

    /// The value of `spec`, unless it can never work, whatever methods follow.
    fn with(py: Python<'_>, spec: Spec) -> PyResult<Self> {
        spec.validate_so_far().or_raise(py)?;
        Ok(Image { spec })
    }

    /// This value with an automatic augmentation.
    fn augmented(
        &self,
        py: Python<'_>,
        augment: AutoAugment,
        (interpolation, fill): (Option<Argument>, Option<Argument>),
    ) -> PyResult<Self> {
        let interpolation = interpolation.map_or(Ok(Interpolation::default()), interpolation_of)?;
        let augment = augment.interpolation(interpolation).fill(fill.map_or(Ok([0; 3]), levels)?);
        Image::with(py, self.spec().auto_augment(augment))
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
    ///
    /// Raises
    /// ------
    /// InvalidError
    ///     A side is not an int from 1 to 65535.
    #[staticmethod]
    fn resize(py: Python<'_>, height: Argument, width: Argument) -> PyResult<Self> {
        Image::with(py, Spec::resize(named_side(height, "height")?, named_side(width, "width")?))
    }

    /// A random box of the image, resized.
    ///
    /// Parameters
    /// ----------
    /// size : int or tuple of int
    ///     Side of a square, or height and width, in pixels.
    /// scale : tuple of float, optional
    ///     Range of the box's share of the area. Default: (0.08, 1).
    /// ratio : tuple of float, optional
    ///     Range of width over height of the box. Default: (3/4, 4/3).
    ///
    /// Returns
    /// -------
    /// Image
    ///     The value.
    ///
    /// Raises
    /// ------
    /// InvalidError
    ///     A side is not an int from 1 to 65535, or a range is not two finite numbers above 0, the smaller
    ///     one first.
    #[staticmethod]
    #[pyo3(signature = (size, *, scale=None, ratio=None))]
    fn random_resized_crop(
        py: Python<'_>,
        #[pyo3(from_py_with = extent)] size: Size,
        scale: Option<Argument>,
        ratio: Option<Argument>,
    ) -> PyResult<Self> {
        let mut spec = Spec::random_resized_crop(size);
        if let Some(scale) = scale {
            spec = spec.scale(range(scale, "scale")?);
        }
        if let Some(ratio) = ratio {
            spec = spec.ratio(range(ratio, "ratio")?);
        }
        Image::with(py, spec)
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
    ///
    /// Raises
    /// ------
    /// InvalidError
    ///     A side is not an int from 1 to 65535, or ``size`` is larger than ``resize``.
    #[staticmethod]
    #[pyo3(signature = (size, *, resize=None))]
    fn center_crop(
        py: Python<'_>,
        #[pyo3(from_py_with = extent)] size: Size,
        resize: Option<Argument>,
    ) -> PyResult<Self> {
        let spec = Spec::center_crop(size);
        Image::with(
            py,
            match resize {
                Some(pixels) => spec.resize_shorter(named_side(pixels, "resize")?),
                None => spec,
            },
        )
    }

    /// The whole image in its own shape, on a canvas of the given size.
    ///
    /// A larger image is shrunk until it fits; a smaller one keeps its size unless ``resize`` is given. With
    /// a square canvas, ``resize`` is torchvision's ``Resize(resize, max_size=size)``.
    ///
    /// A column ``<column>.size`` is delivered after the stored ones: two ``int32`` numbers for each row, the
    /// height and width of the image on its canvas in pixels. Boxes, points and masks are moved and scaled
    /// with the image.
    ///
    /// Parameters
    /// ----------
    /// size : int or tuple of int
    ///     Side of a square canvas, or height and width, in pixels.
    /// resize : int, optional
    ///     Length of the shorter side in pixels, if the longer one then fits. Default: the image's own.
    /// fill : float or tuple of float, optional
    ///     Value of the canvas where the image does not cover it, or a value for each of three channels, in
    ///     the delivered number type. Default: 0.
    /// centered : bool, optional
    ///     Whether the image is in the middle of the canvas: it begins at ``(canvas - size) // 2`` along both
    ///     axes. Default: in the upper left corner.
    ///
    /// Returns
    /// -------
    /// Image
    ///     The value.
    ///
    /// Raises
    /// ------
    /// InvalidError
    ///     A side is not an int from 1 to 65535, ``fill`` is neither a finite number nor three of them, or
    ///     ``centered`` is neither ``True`` nor ``False``.
    #[staticmethod]
    #[pyo3(signature = (size, *, resize=None, fill=None, centered=None))]
    fn fit(
        py: Python<'_>,
        #[pyo3(from_py_with = extent)] size: Size,
        resize: Option<Argument>,
        fill: Option<Argument>,
        centered: Option<Argument>,
    ) -> PyResult<Self> {
        let mut spec = Spec::fit(size);
        if let Some(pixels) = resize {
            spec = spec.resize_shorter(named_side(pixels, "resize")?);
        }
        if let Some(fill) = fill {
            spec = spec.fill(value_of_each(fill, "fill")?);
        }
        if let Some(centered) = centered
            && named_truth(centered, "centered")?
        {
            spec = spec.centered();
        }
        Image::with(py, spec)
    }

    /// A random box of the image, which is not resized: torchvision's ``RandomCrop``.
    ///
    /// The image may be padded first. An image that is smaller than the crop is padded on both sides by what
    /// it lacks, as with ``pad_if_needed=True``. Flips mirror the crop with its padding.
    ///
    /// Parameters
    /// ----------
    /// size : int or tuple of int
    ///     Side of a square, or height and width, in pixels.
    /// padding : int or tuple of int, optional
    ///     Pixels on each side; left and right, then top and bottom; or left, top, right and bottom. Default:
    ///     0.
    /// fill : float or tuple of float, optional
    ///     Value of the padding, or a value for each of three channels, in the delivered number type.
    ///     Default: 0.
    /// padding_mode : {"constant", "edge", "reflect", "symmetric"}, optional
    ///     The content of the padding: ``fill``, or the image's last pixel, or the image mirrored without or
    ///     with its last pixel. Default: "constant".
    ///
    /// Returns
    /// -------
    /// Image
    ///     The value.
    ///
    /// Raises
    /// ------
    /// InvalidError
    ///     A side is not an int from 1 to 65535, ``padding`` is not 1, 2 or 4 ints, constant padding is as
    ///     large as the crop, or ``fill`` is given with another mode.
    ///
    /// Examples
    /// --------
    /// >>> import forebay as fb
    /// >>> cifar = fb.Image.random_crop(32, padding=4, padding_mode="reflect").flip()
    #[staticmethod]
    #[pyo3(signature = (size, *, padding=None, fill=None, padding_mode=None))]
    fn random_crop(
        py: Python<'_>,
        #[pyo3(from_py_with = extent)] size: Size,
        padding: Option<Argument>,
        fill: Option<Argument>,
        padding_mode: Option<Argument>,
    ) -> PyResult<Self> {
        let mut spec = Spec::random_crop(size);
        if let Some(padding) = padding {
            spec = spec.padding(padding_of(padding)?);
        }
        if let Some(fill) = fill {
            spec = spec.fill(value_of_each(fill, "fill")?);
        }
        if let Some(mode) = padding_mode {
            spec = spec.padding_mode(padding_mode_of(mode)?);
        }
        Image::with(py, spec)
    }

    /// The whole image in a random size on a canvas: torchvision's ``RandomShortestSize``, padded.
    ///
    /// The shorter side has a length that is drawn from ``min_size``, or less if the longer one then has no
    /// room. A column ``<column>.size`` is delivered as for :meth:`fit`; :meth:`ragged` removes the canvas.
    ///
    /// Parameters
    /// ----------
    /// min_size : int or iterable of int
    ///     Lengths of the shorter side in pixels, from which one is drawn.
    /// max_size : int or tuple of int
    ///     Side of a square canvas, or height and width, in pixels.
    /// fill : float or tuple of float, optional
    ///     Value of the canvas where the image does not cover it, as for :meth:`fit`. Default: 0.
    /// centered : bool, optional
    ///     Whether the image is in the middle of the canvas. Default: in the upper left corner.
    ///
    /// Returns
    /// -------
    /// Image
    ///     The value.
    ///
    /// Raises
    /// ------
    /// InvalidError
    ///     A side is not an int from 1 to 65535, there is no length to draw, or ``fill`` or ``centered`` is
    ///     not what :meth:`fit` takes.
    ///
    /// Examples
    /// --------
    /// >>> import forebay as fb
    /// >>> detection = fb.Image.random_shortest_size(range(480, 801, 32), 1333).flip()
    #[staticmethod]
    #[pyo3(signature = (min_size, max_size, *, fill=None, centered=None))]
    fn random_shortest_size(
        py: Python<'_>,
        min_size: Argument,
        max_size: Argument,
        fill: Option<Argument>,
        centered: Option<Argument>,
    ) -> PyResult<Self> {
        let mut spec =
            Spec::random_shortest_size(sides(min_size, "min_size")?, named_extent(max_size, "max_size")?);
        if let Some(fill) = fill {
            spec = spec.fill(value_of_each(fill, "fill")?);
        }
        if let Some(centered) = centered
            && named_truth(centered, "centered")?
        {
            spec = spec.centered();
        }
        Image::with(py, spec)
    }

    /// The image scaled at random on a canvas: large-scale jitter, with torchvision's ``ScaleJitter``.
    ///
    /// The scale is drawn from ``scale_range``, times the largest scale with which the whole image fits. An
    /// image that is then larger than the canvas is cropped at random; a smaller one is in the upper left
    /// corner. A column ``<column>.size`` is delivered as for :meth:`fit`.
    ///
    /// Parameters
    /// ----------
    /// size : int or tuple of int
    ///     Side of a square canvas, or height and width, in pixels.
    /// scale_range : tuple of float, optional
    ///     Range of the scale. Default: (0.1, 2).
    /// fill : float or tuple of float, optional
    ///     Value of the canvas where the image does not cover it, as for :meth:`fit`. Default: 0.
    ///
    /// Returns
    /// -------
    /// Image
    ///     The value.
    ///
    /// Raises
    /// ------
    /// InvalidError
    ///     A side is not an int from 1 to 65535, ``scale_range`` is not two finite numbers above 0, the
    ///     smaller one first, or ``fill`` is neither a finite number nor three of them.
    ///
    /// Examples
    /// --------
    /// >>> import forebay as fb
    /// >>> jitter = fb.Image.scale_jitter(1024, scale_range=(0.5, 1.5)).flip()
    #[staticmethod]
    #[pyo3(signature = (size, *, scale_range=None, fill=None))]
    fn scale_jitter(
        py: Python<'_>,
        #[pyo3(from_py_with = extent)] size: Size,
        scale_range: Option<Argument>,
        fill: Option<Argument>,
    ) -> PyResult<Self> {
        let mut spec = Spec::scale_jitter(size);
        if let Some(scale) = scale_range {
            spec = spec.scale(range(scale, "scale_range")?);
        }
        if let Some(fill) = fill {
            spec = spec.fill(value_of_each(fill, "fill")?);
        }
        Image::with(py, spec)
    }

    /// A random box around boxes of the image, resized: torchvision's ``RandomIoUCrop`` and ``Resize``.
    ///
    /// The random box holds the centres of one or more of the image's boxes, and has with one of these at
    /// least an intersection over union that is drawn from ``sampler_options``. If 1 is drawn, or the image
    /// has no boxes, the whole image is shown.
    ///
    /// Parameters
    /// ----------
    /// size : int or tuple of int
    ///     Side of a square, or height and width, in pixels.
    /// boxes : str
    ///     The column of boxes, for which ``decode`` has :class:`Boxes` of this image.
    /// min_scale, max_scale : float, optional
    ///     Range of the random box's sides, as shares of the image's sides. Default: 0.3 and 1.
    /// min_aspect_ratio, max_aspect_ratio : float, optional
    ///     Range of width over height. Default: 0.5 and 2.
    /// sampler_options : iterable of float, optional
    ///     The least overlaps. Default: 0, 0.1, 0.3, 0.5, 0.7, 0.9 and 1.
    /// trials : int, optional
    ///     The number of boxes that are tried for a least overlap, before another overlap is drawn. Default:
    ///     40.
    ///
    /// Returns
    /// -------
    /// Image
    ///     The value.
    ///
    /// Raises
    /// ------
    /// InvalidError
    ///     A side is not an int from 1 to 65535, a range does not have the smaller number first, both above
    ///     0, a scale is above 1, there is no overlap to draw, or ``trials`` is not from 1 to 10,000.
    ///
    /// Examples
    /// --------
    /// >>> import forebay as fb
    /// >>> decode = {
    /// ...     "image": fb.Image.random_iou_crop(300, boxes="objects.bbox").flip(),
    /// ...     "objects.bbox": fb.Boxes(of="image", format="xywh", min_visible=0.25),
    /// ... }
    #[staticmethod]
    #[pyo3(signature = (
        size,
        *,
        boxes,
        min_scale=None,
        max_scale=None,
        min_aspect_ratio=None,
        max_aspect_ratio=None,
        sampler_options=None,
        trials=None
    ))]
    #[expect(clippy::too_many_arguments, reason = "they are torchvision's, by keyword")]
    fn random_iou_crop(
        py: Python<'_>,
        #[pyo3(from_py_with = extent)] size: Size,
        boxes: Argument,
        min_scale: Option<Argument>,
        max_scale: Option<Argument>,
        min_aspect_ratio: Option<Argument>,
        max_aspect_ratio: Option<Argument>,
        sampler_options: Option<Argument>,
        trials: Option<Argument>,
    ) -> PyResult<Self> {
        let mut spec = Spec::random_iou_crop(size, text(boxes, "boxes")?);
        if min_scale.is_some() || max_scale.is_some() {
            spec = spec.scale((number(min_scale, "min_scale", 0.3)?, number(max_scale, "max_scale", 1.0)?));
        }
        if min_aspect_ratio.is_some() || max_aspect_ratio.is_some() {
            let least = number(min_aspect_ratio, "min_aspect_ratio", 0.5)?;
            spec = spec.ratio((least, number(max_aspect_ratio, "max_aspect_ratio", 2.0)?));
        }
        if let Some(options) = sampler_options {
            spec = spec.sampler_options(several(options, "sampler_options")?);
        }
        if let Some(trials) = trials {
            spec = spec.trials(whole_number(trials, "trials")?);
        }
        Image::with(py, spec)
    }

    /// Delivers each image of :meth:`fit` in its own size, without a canvas.
    ///
    /// The size of :meth:`fit` is then the largest size of an image, and a batch takes the memory of images
    /// of that size while it is made. The column is a :class:`Ragged`: ``batch["image"][i]`` is a view of
    /// shape ``(height, width, channels)``, and all pixels of the batch are one array. The layout is "NHWC".
    ///
    /// Returns
    /// -------
    /// Image
    ///     A new value.
    ///
    /// Raises
    /// ------
    /// InvalidError
    ///     The image is not one of :meth:`fit`, or ``fill`` or ``centered`` is given.
    fn ragged(&self, py: Python<'_>) -> PyResult<Self> {
        Image::with(py, self.spec().ragged())
    }

    /// Takes raw pixels from the cells instead of encoded images.
    ///
    /// A cell has the levels of an image of 8 bits without a header: as bytes, or as a list of ``uint8``.
    /// Everything else works as for encoded images: a row gets the same draws, and the same pixels as if the
    /// levels were stored as PNG. A cell of another length is a bad row.
    ///
    /// Parameters
    /// ----------
    /// shape : tuple of int
    ///     Height, width and channels; without channels there is one. With 1 or 2 channels the first is grey,
    ///     with 3 or 4 the first three are red, green and blue.
    /// layout : {"NHWC", "NCHW"}, optional
    ///     The order of the levels in a cell. With "NCHW" the channels are first in ``shape``. Default:
    ///     "NHWC".
    ///
    /// Returns
    /// -------
    /// Image
    ///     A new value.
    ///
    /// Raises
    /// ------
    /// InvalidError
    ///     ``shape`` is not two or three ints, a side is not from 1 to 65535, channels are not from 1 to 4,
    ///     or there is no such order.
    ///
    /// Examples
    /// --------
    /// >>> import forebay as fb
    /// >>> notebook = fb.Image.resize(299, 299).raw((299, 299, 3)).dtype("float32").layout("NCHW")
    /// >>> cifar = fb.Image.random_resized_crop(32).flip().raw((3, 32, 32), layout="NCHW")
    #[pyo3(signature = (shape, *, layout=None))]
    fn raw(&self, py: Python<'_>, shape: Argument, layout: Option<Argument>) -> PyResult<Self> {
        let layout = layout.map_or(Ok(Layout::default()), pixel_layout)?;
        Image::with(py, self.spec().raw(raw_of(shape, layout)?))
    }

    /// Sets the filter of the resize.
    ///
    /// Each filter is Pillow's of this name, antialiased; torchvision and timm call it ``interpolation``.
    ///
    /// Parameters
    /// ----------
    /// filter : {"bilinear", "bicubic", "lanczos"}
    ///     The filter. Default of an image: "bilinear", which is the fastest.
    ///
    /// Returns
    /// -------
    /// Image
    ///     A new value.
    ///
    /// Raises
    /// ------
    /// InvalidError
    ///     There is no such filter.
    ///
    /// Examples
    /// --------
    /// >>> import forebay as fb
    /// >>> clip = fb.Image.center_crop(224, resize=224).resampling("bicubic")
    fn resampling(&self, #[pyo3(from_py_with = filter)] filter: Resampling) -> Self {
        Image { spec: self.spec().resampling(filter) }
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
    ///
    /// Raises
    /// ------
    /// InvalidError
    ///     ``p`` is not a number from 0 to 1.
    #[pyo3(signature = (p=0.5))]
    fn flip(&self, #[pyo3(from_py_with = probability)] p: f64) -> Self {
        Image { spec: self.spec().flip_with(p) }
    }

    /// Mirrors top to bottom at random. It does not change which crops and flips are drawn.
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
    ///
    /// Raises
    /// ------
    /// InvalidError
    ///     ``p`` is not a number from 0 to 1.
    #[pyo3(signature = (p=0.5))]
    fn vertical_flip(&self, #[pyo3(from_py_with = probability)] p: f64) -> Self {
        Image { spec: self.spec().vertical_flip_with(p) }
    }

    /// Rotates the image about its centre by a random angle, counter-clockwise, like torchvision's
    /// ``RandomRotation``.
    ///
    /// The rotation comes after the flips. Places to which no pixel is moved are filled, and pixels that are
    /// moved out of the image are lost. It does not change which crops and flips are drawn.
    ///
    /// Parameters
    /// ----------
    /// degrees : float or tuple of float
    ///     Range of the angle; one number stands for the range from ``-degrees`` to ``degrees``.
    /// interpolation : {"nearest", "bilinear"}, optional
    ///     How pixels are interpolated. Default: "nearest".
    /// fill : int or tuple of int, optional
    ///     Value from 0 to 255 of all channels, or of each of three, before :meth:`normalize`. Default: 0.
    ///
    /// Returns
    /// -------
    /// Image
    ///     A new value.
    ///
    /// Raises
    /// ------
    /// InvalidError
    ///     ``degrees`` is neither a finite number of at least 0 nor two, the smaller one first,
    ///     ``interpolation`` is unknown, or ``fill`` is neither an int from 0 to 255 nor three of them.
    #[pyo3(signature = (degrees, interpolation=None, fill=None))]
    fn random_rotation(
        &self,
        py: Python<'_>,
        degrees: Argument,
        interpolation: Option<Argument>,
        fill: Option<Argument>,
    ) -> PyResult<Self> {
        let both = || numbers(degrees, |[low, high]| low <= high && low.is_finite() && high.is_finite());
        let angles = float(degrees)
            .filter(|most| *most >= 0.0 && most.is_finite())
            .map(|most| (-most, most))
            .or_else(|| both().map(|[low, high]| (low, high)))
            .ok_or_else(|| {
                refused(degrees, "degrees", "a finite number of at least 0, or two, the smaller one first")
            })?;
        let interpolation = interpolation.map_or(Ok(Interpolation::default()), interpolation_of)?;
        let fill = fill.map_or(Ok([0; 3]), levels)?;
        Image::with(py, self.spec().random_rotation_with(angles, interpolation, fill))
    }

    /// Changes brightness, contrast, saturation and hue in random order, like torchvision's ``ColorJitter``.
    ///
    /// Each factor is drawn from ``max(0, 1 - amount)`` to ``1 + amount``; an amount of 0 changes nothing.
    ///
    /// Parameters
    /// ----------
    /// brightness, contrast, saturation : float, optional
    ///     The amount by which each may change. Default: 0.
    /// hue : float, optional
    ///     The largest rotation of the hue as a fraction of a full turn, from 0 to 0.5. Default: 0.
    /// p : float, optional
    ///     Probability. Default: 1.
    ///
    /// Returns
    /// -------
    /// Image
    ///     A new value.
    ///
    /// Raises
    /// ------
    /// InvalidError
    ///     An amount is not a finite number of at least 0, ``hue`` is above 0.5, or ``p`` is not a number
    ///     from 0 to 1.
    #[pyo3(signature = (brightness=None, contrast=None, saturation=None, hue=None, *, p=None))]
    fn color_jitter(
        &self,
        py: Python<'_>,
        brightness: Option<Argument>,
        contrast: Option<Argument>,
        saturation: Option<Argument>,
        hue: Option<Argument>,
        p: Option<Argument>,
    ) -> PyResult<Self> {
        let brightness = amount(brightness, "brightness")?;
        let contrast = amount(contrast, "contrast")?;
        let saturation = amount(saturation, "saturation")?;
        let hue = match hue {
            None => 0.0,
            Some(hue) => float(hue)
                .filter(|turns| (0.0..=0.5).contains(turns))
                .ok_or_else(|| refused(hue, "hue", "a number from 0 to 0.5"))?,
        };
        let p = p.map_or(Ok(1.0), probability)?;
        Image::with(py, self.spec().color_jitter_with(p, brightness, contrast, saturation, hue))
    }

    /// Makes the image grey at random, with the same number of channels, like torchvision's
    /// ``RandomGrayscale``.
    ///
    /// Parameters
    /// ----------
    /// p : float, default 0.1
    ///     Probability.
    ///
    /// Returns
    /// -------
    /// Image
    ///     A new value.
    ///
    /// Raises
    /// ------
    /// InvalidError
    ///     ``p`` is not a number from 0 to 1.
    #[pyo3(signature = (p=0.1))]
    fn random_grayscale(&self, #[pyo3(from_py_with = probability)] p: f64) -> Self {
        Image { spec: self.spec().random_grayscale(p) }
    }

    /// Blurs by a Gaussian, like torchvision's ``GaussianBlur``.
    ///
    /// Parameters
    /// ----------
    /// kernel_size : int
    ///     Side of the kernel in pixels: an odd number.
    /// sigma : tuple of float, optional
    ///     Range of the standard deviation. Default: (0.1, 2).
    /// p : float, optional
    ///     Probability. Default: 1.
    ///
    /// Returns
    /// -------
    /// Image
    ///     A new value.
    ///
    /// Raises
    /// ------
    /// InvalidError
    ///     ``kernel_size`` is not an odd int whose half is shorter than the image's sides, ``sigma`` is not
    ///     two finite numbers above 0, the smaller one first, or ``p`` is not a number from 0 to 1.
    #[pyo3(signature = (kernel_size, sigma=None, *, p=None))]
    fn gaussian_blur(
        &self,
        py: Python<'_>,
        kernel_size: Argument,
        sigma: Option<Argument>,
        p: Option<Argument>,
    ) -> PyResult<Self> {
        let p = p.map_or(Ok(1.0), probability)?;
        let sigma = sigma.map_or(Ok(SIGMA), |sigma| range(sigma, "sigma"))?;
        Image::with(py, self.spec().gaussian_blur_with(p, named_side(kernel_size, "kernel_size")?, sigma))
    }

    /// Overwrites a random box, like torchvision's ``RandomErasing``. It comes last, after :meth:`normalize`.
    ///
    /// Parameters
    /// ----------
    /// p : float, optional
    ///     Probability. Default: 0.5.
    /// scale : tuple of float, optional
    ///     Range of the box's share of the area. Default: (0.02, 0.33).
    /// ratio : tuple of float, optional
    ///     Range of height over width of the box. Default: (0.3, 3.3).
    /// value : float or tuple of float, optional
    ///     The value of all channels, or of each of three, in the delivered number type. Default: 0.
    ///
    /// Returns
    /// -------
    /// Image
    ///     A new value.
    ///
    /// Raises
    /// ------
    /// InvalidError
    ///     ``p`` is not a number from 0 to 1, a range is not two finite numbers above 0, the smaller one
    ///     first, a share is above 1, or ``value`` is neither a finite number nor three of them.
    #[pyo3(signature = (p=None, scale=None, ratio=None, value=None))]
    fn random_erasing(
        &self,
        py: Python<'_>,
        p: Option<Argument>,
        scale: Option<Argument>,
        ratio: Option<Argument>,
        value: Option<Argument>,
    ) -> PyResult<Self> {
        let p = p.map_or(Ok(0.5), probability)?;
        let scale = scale.map_or(Ok(ERASED), |scale| range(scale, "scale"))?;
        let ratio = ratio.map_or(Ok(ERASED_RATIO), |ratio| range(ratio, "ratio"))?;
        let value = match value {
            None => [0.0; 3],
            Some(value) => value_of_each(value, "value")?,
        };
        Image::with(py, self.spec().random_erasing_with(p, scale, ratio, value))
    }

    /// Changes the image by a pair of operations that was learned, like torchvision's ``AutoAugment``.
    ///
    /// One of the policy's 25 pairs is drawn for each image. Operations come after flips and rotation and
    /// before :meth:`color_jitter`. Some of them move pixels, so boxes, points, masks and images cannot
    /// follow an image with an automatic augmentation, and :meth:`emit_geometry` is refused. It takes the
    /// place of an earlier :meth:`rand_augment` or :meth:`trivial_augment_wide`.
    ///
    /// Parameters
    /// ----------
    /// policy : {"imagenet", "cifar10", "svhn"}, optional
    ///     The data set on which the policy was learned. Default: "imagenet".
    /// interpolation : {"nearest", "bilinear"}, optional
    ///     How pixels that move are interpolated. Default: "nearest".
    /// fill : int or tuple of int, optional
    ///     Value from 0 to 255 of all channels, or of each of three, outside the image. Default: 0.
    ///
    /// Returns
    /// -------
    /// Image
    ///     A new value.
    ///
    /// Raises
    /// ------
    /// InvalidError
    ///     ``policy`` or ``interpolation`` is unknown, or ``fill`` is neither an int from 0 to 255 nor three
    ///     of them.
    #[pyo3(signature = (policy=None, *, interpolation=None, fill=None))]
    fn auto_augment(
        &self,
        py: Python<'_>,
        policy: Option<Argument>,
        interpolation: Option<Argument>,
        fill: Option<Argument>,
    ) -> PyResult<Self> {
        let augment = policy.map_or(Ok(AutoAugment::imagenet()), policy_of)?;
        self.augmented(py, augment, (interpolation, fill))
    }

    /// Changes the image by random operations of one magnitude, like torchvision's ``RandAugment``.
    ///
    /// Otherwise it is like :meth:`auto_augment`.
    ///
    /// Parameters
    /// ----------
    /// num_ops : int, optional
    ///     The number of operations. Default: 2.
    /// magnitude : int, optional
    ///     The magnitude, from 0. Default: 9.
    /// num_magnitude_bins : int, optional
    ///     The number of magnitudes. Default: 31.
    /// interpolation : {"nearest", "bilinear"}, optional
    ///     How pixels that move are interpolated. Default: "nearest".
    /// fill : int or tuple of int, optional
    ///     Value from 0 to 255 of all channels, or of each of three, outside the image. Default: 0.
    ///
    /// Returns
    /// -------
    /// Image
    ///     A new value.
    ///
    /// Raises
    /// ------
    /// InvalidError
    ///     ``num_ops`` is not an int from 0 to 100, ``num_magnitude_bins`` not one from 2 to 1000,
    ///     ``magnitude`` not one below that, or the others are refused by :meth:`auto_augment`.
    ///
    /// Examples
    /// --------
    /// >>> import forebay as fb
    /// >>> train = fb.Image.random_resized_crop(224).flip().rand_augment(2, 9)
    #[pyo3(signature = (num_ops=None, magnitude=None, num_magnitude_bins=None, *, interpolation=None, fill=None))]
    fn rand_augment(
        &self,
        py: Python<'_>,
        num_ops: Option<Argument>,
        magnitude: Option<Argument>,
        num_magnitude_bins: Option<Argument>,
        interpolation: Option<Argument>,
        fill: Option<Argument>,
    ) -> PyResult<Self> {
        let augment = AutoAugment::rand(count(num_ops, "num_ops", 2)?, count(magnitude, "magnitude", 9)?);
        let augment = augment.num_magnitude_bins(count(num_magnitude_bins, "num_magnitude_bins", BINS)?);
        self.augmented(py, augment, (interpolation, fill))
    }

    /// Changes the image by one random operation of any magnitude, like torchvision's
    /// ``TrivialAugmentWide``.
    ///
    /// Otherwise it is like :meth:`auto_augment`.
    ///
    /// Parameters
    /// ----------
    /// num_magnitude_bins : int, optional
    ///     The number of magnitudes. Default: 31.
    /// interpolation : {"nearest", "bilinear"}, optional
    ///     How pixels that move are interpolated. Default: "nearest".
    /// fill : int or tuple of int, optional
    ///     Value from 0 to 255 of all channels, or of each of three, outside the image. Default: 0.
    ///
    /// Returns
    /// -------
    /// Image
    ///     A new value.
    ///
    /// Raises
    /// ------
    /// InvalidError
    ///     ``num_magnitude_bins`` is not an int from 2 to 1000, or the others are refused by
    ///     :meth:`auto_augment`.
    #[pyo3(signature = (num_magnitude_bins=None, *, interpolation=None, fill=None))]
    fn trivial_augment_wide(
        &self,
        py: Python<'_>,
        num_magnitude_bins: Option<Argument>,
        interpolation: Option<Argument>,
        fill: Option<Argument>,
    ) -> PyResult<Self> {
        let bins = count(num_magnitude_bins, "num_magnitude_bins", BINS)?;
        self.augmented(py, AutoAugment::trivial_wide().num_magnitude_bins(bins), (interpolation, fill))
    }

    /// Inverts all levels at random, like torchvision's ``RandomInvert``.
    ///
    /// Single operations come after :meth:`gaussian_blur`, in the order invert, posterize, solarize,
    /// sharpness, autocontrast and equalize.
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
    ///
    /// Raises
    /// ------
    /// InvalidError
    ///     ``p`` is not a number from 0 to 1.
    #[pyo3(signature = (p=0.5))]
    fn random_invert(&self, #[pyo3(from_py_with = probability)] p: f64) -> Self {
        Image { spec: self.spec().random_invert(p) }
    }

    /// Keeps the highest bits of each level at random, like torchvision's ``RandomPosterize``.
    ///
    /// Single operations come after :meth:`gaussian_blur`, in the order invert, posterize, solarize,
    /// sharpness, autocontrast and equalize.
    ///
    /// Parameters
    /// ----------
    /// bits : int
    ///     The number of bits that are kept, from 0 to 8.
    /// p : float, default 0.5
    ///     Probability.
    ///
    /// Returns
    /// -------
    /// Image
    ///     A new value.
    ///
    /// Raises
    /// ------
    /// InvalidError
    ///     ``bits`` is not an int from 0 to 8, or ``p`` is not a number from 0 to 1.
    #[pyo3(signature = (bits, p=0.5))]
    fn random_posterize(
        &self,
        py: Python<'_>,
        bits: Argument,
        #[pyo3(from_py_with = probability)] p: f64,
    ) -> PyResult<Self> {
        Image::with(
            py,
            self.spec().random_posterize(
                int(bits, 0..=8).ok_or_else(|| refused(bits, "bits", "an int from 0 to 8"))? as u8,
                p,
            ),
        )
    }

    /// Inverts high levels at random, like torchvision's ``RandomSolarize``.
    ///
    /// Single operations come after :meth:`gaussian_blur`, in the order invert, posterize, solarize,
    /// sharpness, autocontrast and equalize.
    ///
    /// Parameters
    /// ----------
    /// threshold : float
    ///     The level from which levels are inverted, from 0 to 255.
    /// p : float, default 0.5
    ///     Probability.
    ///
    /// Returns
    /// -------
    /// Image
    ///     A new value.
    ///
    /// Raises
    /// ------
    /// InvalidError
    ///     ``threshold`` is not a number from 0 to 255, or ``p`` is not a number from 0 to 1.
    #[pyo3(signature = (threshold, p=0.5))]
    fn random_solarize(
        &self,
        py: Python<'_>,
        threshold: Argument,
        #[pyo3(from_py_with = probability)] p: f64,
    ) -> PyResult<Self> {
        Image::with(py, self.spec().random_solarize(level_of(threshold, "threshold")?, p))
    }

    /// Sharpens or blurs at random, like torchvision's ``RandomAdjustSharpness``.
    ///
    /// Single operations come after :meth:`gaussian_blur`, in the order invert, posterize, solarize,
    /// sharpness, autocontrast and equalize.
    ///
    /// Parameters
    /// ----------
    /// factor : float
    ///     0 blurs, 1 changes nothing, and a larger number sharpens.
    /// p : float, default 0.5
    ///     Probability.
    ///
    /// Returns
    /// -------
    /// Image
    ///     A new value.
    ///
    /// Raises
    /// ------
    /// InvalidError
    ///     ``factor`` is not a finite number of at least 0, or ``p`` is not a number from 0 to 1.
    #[pyo3(signature = (factor, p=0.5))]
    fn random_adjust_sharpness(
        &self,
        py: Python<'_>,
        factor: Argument,
        #[pyo3(from_py_with = probability)] p: f64,
    ) -> PyResult<Self> {
        Image::with(py, self.spec().random_adjust_sharpness(amount(Some(factor), "factor")?, p))
    }

    /// Stretches the levels of each channel to the whole range at random, like torchvision's
    /// ``RandomAutocontrast``.
    ///
    /// Single operations come after :meth:`gaussian_blur`, in the order invert, posterize, solarize,
    /// sharpness, autocontrast and equalize.
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
    ///
    /// Raises
    /// ------
    /// InvalidError
    ///     ``p`` is not a number from 0 to 1.
    #[pyo3(signature = (p=0.5))]
    fn random_autocontrast(&self, #[pyo3(from_py_with = probability)] p: f64) -> Self {
        Image { spec: self.spec().random_autocontrast(p) }
    }

    /// Equalizes the histogram of each channel at random, like torchvision's ``RandomEqualize``.
    ///
    /// Single operations come after :meth:`gaussian_blur`, in the order invert, posterize, solarize,
    /// sharpness, autocontrast and equalize.
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
    ///
    /// Raises
    /// ------
    /// InvalidError
    ///     ``p`` is not a number from 0 to 1.
    #[pyo3(signature = (p=0.5))]
    fn random_equalize(&self, #[pyo3(from_py_with = probability)] p: f64) -> Self {
        Image { spec: self.spec().random_equalize(p) }
    }

    /// Computes ``(x / 255 - mean) / std`` for each channel; needs a float type.
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
    ///
    /// Raises
    /// ------
    /// InvalidError
    ///     One of them is not three finite numbers, or a number of ``std`` is not above 0.
    fn normalize(&self, py: Python<'_>, mean: Argument, std: Argument) -> PyResult<Self> {
        let mean = channels(mean, "mean", "three finite numbers", |_| true)?;
        let std = channels(std, "std", "three finite numbers above 0", |std| std > 0.0)?;
        Image::with(py, self.spec().normalize(mean, std))
    }

    /// Sets the number type of pixels.
    ///
    /// Parameters
    /// ----------
    /// dtype : {"uint8", "uint16", "float16", "bfloat16", "float32"} or numpy.dtype
    ///     The type, by name or as ``numpy.float32``. Without this method: "uint8". "uint16" keeps all bits
    ///     of 16-bit files and multiplies the levels of 8-bit files by 257; every other type takes the high
    ///     byte of 16-bit files, unless :meth:`bit_depth` says otherwise.
    ///
    /// Returns
    /// -------
    /// Image
    ///     A new value.
    ///
    /// Raises
    /// ------
    /// InvalidError
    ///     The type is unknown.
    fn dtype(&self, #[pyo3(from_py_with = pixel_type)] dtype: PixelType) -> Self {
        Image { spec: self.spec().dtype(dtype) }
    }

    /// Sets how many bits of a channel are used for files of more than 8 bits, before they become floats.
    ///
    /// Parameters
    /// ----------
    /// bits : {8, 16}
    ///     The number of bits. With 16, the floats of such files are ``x / 65535``. Without this method: 16
    ///     with dtype "uint16", 8 with any other.
    ///
    /// Returns
    /// -------
    /// Image
    ///     A new value.
    ///
    /// Raises
    /// ------
    /// InvalidError
    ///     ``bits`` is neither 8 nor 16.
    fn bit_depth(&self, #[pyo3(from_py_with = bits)] bits: u8) -> Self {
        Image { spec: self.spec().bit_depth(bits) }
    }

    /// Sets the order of the axes.
    ///
    /// Parameters
    /// ----------
    /// layout : {"NHWC", "NCHW"}
    ///     The order. Without this method: "NHWC".
    ///
    /// Returns
    /// -------
    /// Image
    ///     A new value.
    ///
    /// Raises
    /// ------
    /// InvalidError
    ///     The order is unknown.
    fn layout(&self, #[pyo3(from_py_with = pixel_layout)] layout: Layout) -> Self {
        Image { spec: self.spec().layout(layout) }
    }

    /// Delivers one channel instead of three: the luma of ITU-R 601.
    ///
    /// Returns
    /// -------
    /// Image
    ///     A new value.
    fn grayscale(&self) -> Self {
        Image { spec: self.spec().grayscale() }
    }

    /// Rotates and mirrors the image as its EXIF data or TIFF tag says.
    ///
    /// Parameters
    /// ----------
    /// apply : bool, default True
    ///     Whether to apply the orientation. Without this method it is not applied, as in torchvision.
    ///
    /// Returns
    /// -------
    /// Image
    ///     A new value.
    ///
    /// Raises
    /// ------
    /// InvalidError
    ///     ``apply`` is neither ``True`` nor ``False``.
    #[pyo3(signature = (apply=true))]
    fn exif_orientation(&self, #[pyo3(from_py_with = truth)] apply: bool) -> Self {
        Image { spec: self.spec().exif_orientation(apply) }
    }

    /// Limits the number of pixels that an image may have by its header; a larger image is a bad row.
    ///
    /// Parameters
    /// ----------
    /// pixels : int
    ///     The limit of height times width.
    ///
    /// Returns
    /// -------
    /// Image
    ///     A new value.
    ///
    /// Raises
    /// ------
    /// InvalidError
    ///     ``pixels`` is not an int of at least 1 that fits 64 bits.
    fn max_pixels(&self, #[pyo3(from_py_with = pixels)] pixels: u64) -> Self {
        Image { spec: self.spec().max_pixels(pixels) }
    }

    /// Delivers one more column, ``<column>.geometry``, which says how each image was cropped and mirrored.
    ///
    /// The column comes after the stored ones and has eight ``float32`` numbers for each row: top, left,
    /// height and width of the part that is shown, in pixels of the image before cropping; 1 if it is
    /// mirrored left to right, otherwise 0; 1 if it is mirrored top to bottom, otherwise 0; and height and
    /// width of the whole image. With :meth:`random_rotation`, a ninth number is the angle of rotation in
    /// degrees, counter-clockwise. With :meth:`exif_orientation`, all numbers refer to the image after it was
    /// oriented. The part of a centre crop need not begin at a whole pixel.
    ///
    /// Returns
    /// -------
    /// Image
    ///     A new value.
    fn emit_geometry(&self) -> Self {
        Image { spec: self.spec().emit_geometry() }
    }

    /// Shows the same part as the image in another column of the same row, with the same mirroring and
    /// rotation.
    ///
    /// Without this method, the images of two columns are cropped, mirrored and changed in colour
    /// independently. The part is a share of the width and height, so a depth map of half the size has the
    /// same crop. Size, colours, number type and layout are this image's own. Values that are drawn for both
    /// images, such as the factors of a :meth:`color_jitter` that both have, are equal. The crop, flips and
    /// rotation may be left out here, and must not differ.
    ///
    /// Parameters
    /// ----------
    /// image : str
    ///     The column of the other image, which must be decoded too.
    ///
    /// Returns
    /// -------
    /// Image
    ///     A new value.
    ///
    /// Examples
    /// --------
    /// >>> import forebay as fb
    /// >>> decode = {
    /// ...     "image": fb.Image.random_resized_crop(224).flip(),
    /// ...     "depth": fb.Image.resize(112, 112).grayscale().of("image"),
    /// ... }
    fn of(&self, image: Argument) -> PyResult<Self> {
        let column: String =
            image.extract().map_err(|_| refused(image, "of", "the name of a column of images"))?;
        Ok(Image { spec: self.spec().of(column) })
    }

    /// Shape of one image, in the order of the axes.
    #[getter]
    fn shape(&self) -> (usize, usize, usize) {
        let [first, second, third] = self.spec.shape();
        (first, second, third)
    }

    /// The value of a `_canonical` text, for unpickling.
    #[staticmethod]
    fn _from_canonical(canonical: &str) -> PyResult<Self> {
        serde_json::from_str(canonical)
            .map(|spec| Image { spec })
            .map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// One line of JSON, which is the same for equal values.
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

    /// The value as Python code.
    fn __repr__(&self) -> PyResult<String> {
        code::python(&self.spec)
    }
}

/// The default number of magnitudes of an automatic augmentation, as in torchvision.
const BINS: u32 = 31;
/// The default range of a blur's standard deviation in pixels, as in torchvision.
const SIGMA: (f64, f64) = (0.1, 2.0);
/// The default ranges of the erased box's share of the area and of its height over width, as in torchvision.
const ERASED: (f64, f64) = (0.02, 0.33);
const ERASED_RATIO: (f64, f64) = (0.3, 3.3);
