//! `forebay.Image`: the library's description of an image column as an immutable Python object.

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

/// Describes how to turn the images of a column into arrays of pixels. The object is immutable.
///
/// Static methods, such as :meth:`resize` and :meth:`random_resized_crop`, create an object; the other
/// methods return a changed copy. Names and parameters follow torchvision. A resize is antialiased, and
/// bilinear unless :meth:`resampling` sets another filter. The cells of the column are encoded images; with
/// :meth:`raw` they are pixels. Delivered pixels are ``uint8`` in RGB and NHWC by default; floats are from 0
/// to 1 unless :meth:`normalize` is used.
///
/// Random operations depend only on the seed of the shuffle, the epoch and the row, not on threads or ranks.
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

    /// Wraps `spec`, or raises an error if it has a mistake that no later method call can correct.
    fn with(py: Python<'_>, spec: Spec) -> PyResult<Self> {
        spec.validate_so_far().or_raise(py)?;
        Ok(Image { spec })
    }

    /// Returns this image with the automatic augmentation `augment`. Checks `interpolation` and `fill`, which
    /// are arguments of every automatic augmentation.
    fn augmented(
        &self,
        py: Python<'_>,
        augment: AutoAugment,
        interpolation: Option<Argument>,
        fill: Option<Argument>,
    ) -> PyResult<Self> {
        let augment = match interpolation {
            Some(interpolation) => augment.interpolation(interpolation_of(interpolation)?),
            None => augment,
        };
        let augment = augment.fill(fill.map_or(Ok([0; 3]), levels)?);
        Image::with(py, self.spec().auto_augment(augment))
    }
}

#[pymethods]
impl Image {
    /// Resizes the whole image to a fixed height and width, without keeping its aspect ratio.
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

    /// Crops a random box of the image and resizes it, like torchvision's ``RandomResizedCrop``.
    ///
    /// Parameters
    /// ----------
    /// size : int or tuple of int
    ///     Side of a square, or height and width, in pixels.
    /// scale : tuple of float, optional
    ///     Range of the box's area, as a fraction of the image's area. Default: (0.08, 1).
    /// ratio : tuple of float, optional
    ///     Range of the box's width divided by its height. Default: (3/4, 4/3).
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

    /// Resizes the image by its shorter side, and then crops the centre.
    ///
    /// Parameters
    /// ----------
    /// size : int or tuple of int
    ///     Side of a square, or height and width, in pixels.
    /// resize : int, optional
    ///     Length of the shorter side before the crop, in pixels. Default: 256.
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

    /// Places the whole image on a canvas of the given size, without changing its aspect ratio.
    ///
    /// A larger image is shrunk until it fits; a smaller one keeps its size unless ``resize`` is given. On a
    /// square canvas, ``resize`` has the effect of torchvision's ``Resize(resize, max_size=size)``.
    ///
    /// A column ``<column>.size`` is delivered after the stored columns. It has two ``int32`` numbers for
    /// each row: the height and width in pixels that the image has on its canvas. Boxes, points and masks of
    /// the image are moved and scaled with it.
    ///
    /// Parameters
    /// ----------
    /// size : int or tuple of int
    ///     Side of a square canvas, or height and width, in pixels.
    /// resize : int, optional
    ///     Length to which the shorter side is resized, in pixels; less if the longer side would not fit on
    ///     the canvas. Default: the image is only shrunk, if it is too large.
    /// fill : float or tuple of float, optional
    ///     Value of the canvas outside the image: one number, or one for each of three channels, in the
    ///     delivered number type. Default: 0.
    /// centered : bool, optional
    ///     Whether to centre the image on the canvas, so that it begins at ``(canvas - size) // 2`` along
    ///     both axes. Default: False, which places it in the upper left corner.
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

    /// Crops a random box of the image without resizing it, like torchvision's ``RandomCrop``.
    ///
    /// ``padding`` is added to the image first. If the image is then smaller than the crop, both sides are
    /// padded by the number of missing pixels, as with ``pad_if_needed=True``. Flips mirror the crop with its
    /// padding.
    ///
    /// Parameters
    /// ----------
    /// size : int or tuple of int
    ///     Side of a square, or height and width, in pixels.
    /// padding : int or tuple of int, optional
    ///     Pixels of padding: one int for all sides, two for the left and right and for the top and bottom,
    ///     or four for left, top, right and bottom. Default: 0.
    /// fill : float or tuple of float, optional
    ///     Value of constant padding: one number, or one for each of three channels, in the delivered number
    ///     type. Default: 0.
    /// padding_mode : {"constant", "edge", "reflect", "symmetric"}, optional
    ///     The content of the padding: ``fill``, the outermost pixels repeated, or the image mirrored without
    ///     or with its outermost pixels. Default: "constant".
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

    /// Resizes the whole image to a random size on a canvas, like torchvision's ``RandomShortestSize`` with
    /// padding.
    ///
    /// The length of the shorter side is drawn from ``min_size``; the image is made smaller if it would not
    /// fit on the canvas. A column ``<column>.size`` is delivered as for :meth:`fit`; :meth:`ragged` removes
    /// the canvas.
    ///
    /// Parameters
    /// ----------
    /// min_size : int or iterable of int
    ///     Lengths of the shorter side in pixels, from which one is drawn.
    /// max_size : int or tuple of int
    ///     Side of a square canvas, or height and width, in pixels.
    /// fill : float or tuple of float, optional
    ///     Value of the canvas outside the image, as for :meth:`fit`. Default: 0.
    /// centered : bool, optional
    ///     Whether to centre the image on the canvas. Default: False, which places it in the upper left
    ///     corner.
    ///
    /// Returns
    /// -------
    /// Image
    ///     The value.
    ///
    /// Raises
    /// ------
    /// InvalidError
    ///     A side is not an int from 1 to 65535, ``min_size`` is empty, or ``fill`` or ``centered`` is not
    ///     valid for :meth:`fit`.
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

    /// Scales the image at random on a canvas: large-scale jitter, like torchvision's ``ScaleJitter``.
    ///
    /// The image is scaled by a number drawn from ``scale_range``, times the largest scale at which the whole
    /// image fits on the canvas. If the scaled image is larger than the canvas, it is cropped at random; if
    /// it is smaller, it is placed in the upper left corner. A column ``<column>.size`` is delivered as for
    /// :meth:`fit`.
    ///
    /// Parameters
    /// ----------
    /// size : int or tuple of int
    ///     Side of a square canvas, or height and width, in pixels.
    /// scale_range : tuple of float, optional
    ///     Range of the random scale. Default: (0.1, 2).
    /// fill : float or tuple of float, optional
    ///     Value of the canvas outside the image, as for :meth:`fit`. Default: 0.
    ///
    /// Returns
    /// -------
    /// Image
    ///     The value.
    ///
    /// Raises
    /// ------
    /// InvalidError
    ///     A side is not an int from 1 to 65535, ``scale_range`` is not two finite numbers above 0 in
    ///     ascending order, or ``fill`` is neither a finite number nor three of them.
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

    /// Crops a random region around annotated boxes, and resizes it: torchvision's ``RandomIoUCrop`` and
    /// ``Resize``.
    ///
    /// The region contains the centre of at least one of the image's boxes, and overlaps such a box with at
    /// least a minimum intersection over union (IoU), which is drawn from ``sampler_options``. If 1 is drawn,
    /// or the image has no boxes, the whole image is taken.
    ///
    /// Parameters
    /// ----------
    /// size : int or tuple of int
    ///     Side of a square, or height and width, in pixels.
    /// boxes : str
    ///     The column of boxes, which ``decode`` must map to :class:`Boxes` of this image.
    /// min_scale, max_scale : float, optional
    ///     Range of the region's sides, as fractions of the image's sides. Default: 0.3 and 1.
    /// min_aspect_ratio, max_aspect_ratio : float, optional
    ///     Range of the region's width divided by its height. Default: 0.5 and 2.
    /// sampler_options : iterable of float, optional
    ///     The minimum overlaps (IoU) from which one is drawn. Default: 0, 0.1, 0.3, 0.5, 0.7, 0.9 and 1.
    /// trials : int, optional
    ///     The number of random regions that are tried for one minimum overlap, before another overlap is
    ///     drawn. Default: 40.
    ///
    /// Returns
    /// -------
    /// Image
    ///     The value.
    ///
    /// Raises
    /// ------
    /// InvalidError
    ///     A side is not an int from 1 to 65535; a range is not two numbers above 0 in ascending order; a
    ///     scale is above 1; ``sampler_options`` is empty; or ``trials`` is not from 1 to 10,000.
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

    /// Delivers each image of :meth:`fit` or :meth:`random_shortest_size` in its own size, without a canvas.
    ///
    /// The size of the canvas is then the largest size of an image. While a batch is made, each of its images
    /// takes the memory of that size. The column is a :class:`Ragged`: ``batch["image"][i]`` is a view of
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
    ///     The image was not created by :meth:`fit` or :meth:`random_shortest_size`, or ``fill`` or
    ///     ``centered`` is given.
    fn ragged(&self, py: Python<'_>) -> PyResult<Self> {
        Image::with(py, self.spec().ragged())
    }

    /// Reads raw pixels from the cells of the column instead of encoded images.
    ///
    /// A cell contains the 8-bit pixel values of an image without a header, as bytes or as a list of
    /// ``uint8``. All operations give the same pixels, and the same random draws, as if the cell contained
    /// these values as a PNG file. A cell of another length is a bad row.
    ///
    /// Parameters
    /// ----------
    /// shape : tuple of int
    ///     Height, width and channels; two ints stand for one channel. With 1 or 2 channels the first is
    ///     grey, with 3 or 4 the first three are red, green and blue.
    /// layout : {"NHWC", "NCHW"}, optional
    ///     The order of the pixel values in a cell. With "NCHW", ``shape`` begins with the channels. Default:
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
    ///     or ``layout`` is unknown.
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

    /// Sets the filter with which images are resized.
    ///
    /// The filters are those of Pillow with the same names, antialiased; torchvision and timm call this
    /// parameter ``interpolation``.
    ///
    /// Parameters
    /// ----------
    /// filter : {"bilinear", "bicubic", "lanczos"}
    ///     The filter. Without this method: "bilinear", which is the fastest.
    ///
    /// Returns
    /// -------
    /// Image
    ///     A new value.
    ///
    /// Raises
    /// ------
    /// InvalidError
    ///     The filter is unknown.
    ///
    /// Examples
    /// --------
    /// >>> import forebay as fb
    /// >>> clip = fb.Image.center_crop(224, resize=224).resampling("bicubic")
    fn resampling(&self, #[pyo3(from_py_with = filter)] filter: Resampling) -> Self {
        Image { spec: self.spec().resampling(filter) }
    }

    /// Mirrors the image left to right with probability ``p``.
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

    /// Mirrors the image top to bottom with probability ``p``. Adding this does not change which crops and
    /// left-right flips are drawn.
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
    /// The rotation is applied after the flips and keeps the image's size: uncovered corners are filled, and
    /// pixels that are rotated out of the image are lost. Adding it does not change which crops and flips are
    /// drawn.
    ///
    /// Parameters
    /// ----------
    /// degrees : float or tuple of float
    ///     Range of the angle; one number means the range from ``-degrees`` to ``degrees``.
    /// interpolation : {"nearest", "bilinear"}, optional
    ///     How pixels are interpolated. Default: "nearest".
    /// fill : int or tuple of int, optional
    ///     Value of uncovered pixels from 0 to 255: one int, or one for each of three channels, before
    ///     :meth:`normalize`. Default: 0.
    ///
    /// Returns
    /// -------
    /// Image
    ///     A new value.
    ///
    /// Raises
    /// ------
    /// InvalidError
    ///     ``degrees`` is neither a finite number of at least 0 nor two numbers in ascending order;
    ///     ``interpolation`` is unknown; or ``fill`` is neither an int from 0 to 255 nor three of them.
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

    /// Makes the image grey with probability ``p`` and keeps the number of channels, like torchvision's
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

    /// Blurs the image with a Gaussian kernel, like torchvision's ``GaussianBlur``.
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
    ///     ``kernel_size`` is not an odd int whose half is shorter than the image's sides; ``sigma`` is not
    ///     two finite numbers above 0 in ascending order; or ``p`` is not a number from 0 to 1.
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

    /// Overwrites a random box of the image, like torchvision's ``RandomErasing``. This is the last
    /// operation, after :meth:`normalize`.
    ///
    /// Parameters
    /// ----------
    /// p : float, optional
    ///     Probability. Default: 0.5.
    /// scale : tuple of float, optional
    ///     Range of the box's area, as a fraction of the image's area. Default: (0.02, 0.33).
    /// ratio : tuple of float, optional
    ///     Range of the box's height divided by its width. Default: (0.3, 3.3).
    /// value : float or tuple of float, optional
    ///     The value that is written: one number, or one for each of three channels, in the delivered number
    ///     type. Default: 0.
    ///
    /// Returns
    /// -------
    /// Image
    ///     A new value.
    ///
    /// Raises
    /// ------
    /// InvalidError
    ///     ``p`` is not a number from 0 to 1; ``scale`` or ``ratio`` is not two finite numbers above 0 in
    ///     ascending order; ``scale`` goes above 1; or ``value`` is neither a finite number nor three of
    ///     them.
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

    /// Applies a random pair of operations from a learned policy, like torchvision's ``AutoAugment``.
    ///
    /// One of the policy's 25 pairs is drawn for each image, and applied after flips and rotation and before
    /// :meth:`color_jitter`. Some operations move pixels, so other columns (boxes, points, masks and images)
    /// cannot follow such an image, and :meth:`emit_geometry` is refused. So is a second automatic
    /// augmentation: :meth:`rand_augment`, :meth:`trivial_augment_wide` or :meth:`aug_mix`.
    ///
    /// Parameters
    /// ----------
    /// policy : {"imagenet", "cifar10", "svhn"}, optional
    ///     The data set on which the policy was learned. Default: "imagenet".
    /// interpolation : {"nearest", "bilinear"}, optional
    ///     How pixels are interpolated by operations that move them. Default: "nearest".
    /// fill : int or tuple of int, optional
    ///     Value from 0 to 255 for pixels that an operation leaves uncovered: one int, or one for each of
    ///     three channels. Default: 0.
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
        self.augmented(py, augment, interpolation, fill)
    }

    /// Applies random operations of one magnitude, like torchvision's ``RandAugment``.
    ///
    /// The operations are applied at the same point, and with the same restrictions, as those of
    /// :meth:`auto_augment`.
    ///
    /// Parameters
    /// ----------
    /// num_ops : int, optional
    ///     The number of operations for each image. Default: 2.
    /// magnitude : int, optional
    ///     The magnitude of the operations, an int below ``num_magnitude_bins``. Default: 9.
    /// num_magnitude_bins : int, optional
    ///     The number of magnitudes that an operation can have. Default: 31.
    /// interpolation : {"nearest", "bilinear"}, optional
    ///     How pixels are interpolated by operations that move them. Default: "nearest".
    /// fill : int or tuple of int, optional
    ///     Value from 0 to 255 for pixels that an operation leaves uncovered: one int, or one for each of
    ///     three channels. Default: 0.
    ///
    /// Returns
    /// -------
    /// Image
    ///     A new value.
    ///
    /// Raises
    /// ------
    /// InvalidError
    ///     ``num_ops`` is not an int from 0 to 100, ``num_magnitude_bins`` is not an int from 2 to 1000,
    ///     ``magnitude`` is not an int from 0 to ``num_magnitude_bins - 1``, or another parameter is not
    ///     valid for :meth:`auto_augment`.
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
        self.augmented(py, augment, interpolation, fill)
    }

    /// Applies one random operation of a random magnitude, like torchvision's ``TrivialAugmentWide``.
    ///
    /// The operations are applied at the same point, and with the same restrictions, as those of
    /// :meth:`auto_augment`.
    ///
    /// Parameters
    /// ----------
    /// num_magnitude_bins : int, optional
    ///     The number of magnitudes that an operation can have. Default: 31.
    /// interpolation : {"nearest", "bilinear"}, optional
    ///     How pixels are interpolated by operations that move them. Default: "nearest".
    /// fill : int or tuple of int, optional
    ///     Value from 0 to 255 for pixels that an operation leaves uncovered: one int, or one for each of
    ///     three channels. Default: 0.
    ///
    /// Returns
    /// -------
    /// Image
    ///     A new value.
    ///
    /// Raises
    /// ------
    /// InvalidError
    ///     ``num_magnitude_bins`` is not an int from 2 to 1000, or another parameter is not valid for
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
        self.augmented(py, AutoAugment::trivial_wide().num_magnitude_bins(bins), interpolation, fill)
    }

    /// Mixes the image with chains of random operations on it, like torchvision's ``AugMix``.
    ///
    /// The result is the sum of the image and of the results of all chains, with random weights that are 1
    /// together. It is computed at the same point, and with the same restrictions, as the operations of
    /// :meth:`auto_augment`.
    ///
    /// Parameters
    /// ----------
    /// severity : int, optional
    ///     Magnitudes are drawn from the weakest ``severity`` of ten. Default: 3.
    /// mixture_width : int, optional
    ///     The number of chains. Default: 3.
    /// chain_depth : int, optional
    ///     The number of operations in each chain; -1 draws one to three for each chain. Default: -1.
    /// alpha : float, optional
    ///     The chains' shares follow ``Dirichlet(alpha, ...)``, and the share of all of them
    ///     ``Beta(alpha, alpha)``. Default: 1.0.
    /// all_ops : bool, optional
    ///     Whether brightness, colour, contrast and sharpness are drawn too. Default: True.
    /// interpolation : {"nearest", "bilinear"}, optional
    ///     How pixels are interpolated by operations that move them. Default: "bilinear".
    /// fill : int or tuple of int, optional
    ///     Value from 0 to 255 for pixels that an operation leaves uncovered: one int, or one for each of
    ///     three channels. Default: 0.
    ///
    /// Returns
    /// -------
    /// Image
    ///     A new value.
    ///
    /// Raises
    /// ------
    /// InvalidError
    ///     ``severity`` is not an int from 1 to 10, ``mixture_width`` is not an int from 1 to 100,
    ///     ``chain_depth`` is neither -1 nor such an int, ``alpha`` is not a number from 0.05 to 1000,
    ///     ``all_ops`` is not a bool, or another parameter is not valid for :meth:`auto_augment`.
    ///
    /// Examples
    /// --------
    /// >>> import forebay as fb
    /// >>> train = fb.Image.random_resized_crop(224).flip().aug_mix(severity=3)
    #[pyo3(signature = (
        severity=None, mixture_width=None, chain_depth=None, alpha=None, all_ops=None, *, interpolation=None,
        fill=None,
    ))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn aug_mix(
        &self,
        py: Python<'_>,
        severity: Option<Argument>,
        mixture_width: Option<Argument>,
        chain_depth: Option<Argument>,
        alpha: Option<Argument>,
        all_ops: Option<Argument>,
        interpolation: Option<Argument>,
        fill: Option<Argument>,
    ) -> PyResult<Self> {
        let [severity, width] =
            [(severity, "severity"), (mixture_width, "mixture_width")].map(|(it, name)| count(it, name, 3));
        let all_ops = all_ops.map_or(Ok(true), |value| named_truth(value, "all_ops"))?;
        let augment = AutoAugment::aug_mix(severity?, width?).all_ops(all_ops);
        let mut augment = augment.interpolation(Interpolation::Bilinear);
        if let Some(depth) = chain_depth.filter(|depth| !depth.eq(-1).unwrap_or(false)) {
            let depth_of = int(depth, 0..=u64::from(u32::MAX)).map(|number| number as u32);
            let number =
                depth_of.ok_or_else(|| refused(depth, "chain_depth", "-1 or an int of at least 1"))?;
            augment = augment.chain_depth(number);
        }
        if let Some(alpha) = alpha {
            let number = float(alpha).ok_or_else(|| refused(alpha, "alpha", "a number from 0.05 to 1000"))?;
            augment = augment.alpha(number);
        }
        self.augmented(py, augment, interpolation, fill)
    }

    /// Inverts all pixel values with probability ``p``, like torchvision's ``RandomInvert``.
    ///
    /// This operation and similar ones are applied after :meth:`gaussian_blur`, in the order invert,
    /// posterize, solarize, sharpness, autocontrast and equalize.
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

    /// Keeps only the highest bits of each pixel value with probability ``p``, like torchvision's
    /// ``RandomPosterize``.
    ///
    /// This operation and similar ones are applied after :meth:`gaussian_blur`, in the order invert,
    /// posterize, solarize, sharpness, autocontrast and equalize.
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

    /// Inverts high pixel values with probability ``p``, like torchvision's ``RandomSolarize``.
    ///
    /// This operation and similar ones are applied after :meth:`gaussian_blur`, in the order invert,
    /// posterize, solarize, sharpness, autocontrast and equalize.
    ///
    /// Parameters
    /// ----------
    /// threshold : float
    ///     Pixel values of at least this number are inverted; from 0 to 255.
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

    /// Sharpens or blurs the image with probability ``p``, like torchvision's ``RandomAdjustSharpness``.
    ///
    /// This operation and similar ones are applied after :meth:`gaussian_blur`, in the order invert,
    /// posterize, solarize, sharpness, autocontrast and equalize.
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

    /// Stretches the values of each channel to the full range with probability ``p``, like torchvision's
    /// ``RandomAutocontrast``.
    ///
    /// This operation and similar ones are applied after :meth:`gaussian_blur`, in the order invert,
    /// posterize, solarize, sharpness, autocontrast and equalize.
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

    /// Equalizes the histogram of each channel with probability ``p``, like torchvision's ``RandomEqualize``.
    ///
    /// This operation and similar ones are applied after :meth:`gaussian_blur`, in the order invert,
    /// posterize, solarize, sharpness, autocontrast and equalize.
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
    ///     ``mean`` or ``std`` is not three finite numbers, or a number of ``std`` is not above 0.
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
    ///     of 16-bit files and multiplies the values of 8-bit files by 257; every other type takes the high
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

    /// Sets how many bits per channel are read from files that have more than 8.
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

    /// Limits the number of pixels of an image. A row whose image header states more is a bad row.
    ///
    /// Parameters
    /// ----------
    /// pixels : int
    ///     The largest product of height and width.
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

    /// Delivers a further column, ``<column>.geometry``, which says how each image was cropped and mirrored.
    ///
    /// The column follows the stored columns and has eight ``float32`` numbers for each row: top, left,
    /// height and width of the crop, in pixels of the image before cropping; 1 if it is mirrored left to
    /// right, otherwise 0; 1 if it is mirrored top to bottom, otherwise 0; and height and width of the whole
    /// image. With :meth:`random_rotation`, a ninth number is the angle of rotation in degrees,
    /// counter-clockwise. With :meth:`exif_orientation`, all numbers refer to the image after it was
    /// oriented. A centre crop may begin at a fraction of a pixel.
    ///
    /// Returns
    /// -------
    /// Image
    ///     A new value.
    fn emit_geometry(&self) -> Self {
        Image { spec: self.spec().emit_geometry() }
    }

    /// Crops, mirrors and rotates the image in the same way as the image in another column of the row.
    ///
    /// Without this method, the images of two columns are cropped, mirrored and changed in colour
    /// independently. The crop is a fraction of the width and height, so a depth map of half the size has the
    /// same crop. Size, colours, number type and layout are set for each image separately. If both images
    /// have an operation such as :meth:`color_jitter`, its random factors are the same for both. The crop,
    /// flips and rotation may be left out here; if given, they must be the same as the other image's.
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
        Ok(Image { spec: self.spec().following(column) })
    }

    /// Shape of one image, in the order of the axes.
    #[getter]
    fn shape(&self) -> (usize, usize, usize) {
        let [first, second, third] = self.spec.shape();
        (first, second, third)
    }

    /// Restores an image from the text that `_canonical` returned, for unpickling.
    #[staticmethod]
    fn _from_canonical(canonical: &str) -> PyResult<Self> {
        serde_json::from_str(canonical)
            .map(|spec| Image { spec })
            .map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// The image as one line of JSON, which is the same for equal images.
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

    /// The Python code that creates an equal image.
    fn __repr__(&self) -> PyResult<String> {
        code::python(&self.spec)
    }
}

/// The default number of magnitudes of an automatic augmentation, as in torchvision.
const BINS: u32 = 31;
/// The default range of a blur's standard deviation in pixels, as in torchvision.
const SIGMA: (f64, f64) = (0.1, 2.0);
/// The default range of the erased box's area as a fraction of the image's area, as in torchvision. The
/// constant below it is the range of the box's height divided by its width.
const ERASED: (f64, f64) = (0.02, 0.33);
const ERASED_RATIO: (f64, f64) = (0.3, 3.3);
