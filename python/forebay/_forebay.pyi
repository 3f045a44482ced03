"""The compiled half. Only ``Batch``, ``Image`` and ``Schema`` are public, as attributes of ``forebay``."""

from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Mapping, Sequence, ValuesView
from typing import Any, Literal, Protocol, final

import numpy as np

from .batch.column import Column as PublicColumn
from .choices import (
    Across,
    BoxFormat,
    CacheTier,
    ClipLayout,
    ColumnKind,
    FilterOperator,
    Frames,
    FrameSampling,
    Interpolation,
    KeptEnd,
    MaskType,
    Mixing,
    PaddingMode,
    PadSide,
    PixelLayout,
    PixelType,
    Resampling,
    TensorFormat,
    TensorType,
)

class Registrar(Protocol):
    """Registers the memory of the loader's slots with a device, and ends the registration."""

    def register(self, address: int, size: int) -> bool:
        """Registers whole pages, and returns whether the device accepted them."""

    def unregister(self, address: int) -> None:
        """Ends the registration of the pages that begin at this address. May be called on any thread."""

__version__: str
__level__: str
ACROSS: tuple[Across, ...]
FRAMES: tuple[Frames, ...]
BOX_FORMATS: tuple[BoxFormat, ...]
CACHE_TIERS: tuple[CacheTier, ...]
CLIP_LAYOUTS: tuple[ClipLayout, ...]
FRAME_SAMPLINGS: tuple[FrameSampling, ...]
FILTER_OPERATORS: tuple[FilterOperator, ...]
INTERPOLATIONS: tuple[Interpolation, ...]
KEPT_ENDS: tuple[KeptEnd, ...]
MASK_TYPES: tuple[MaskType, ...]
MIXINGS: tuple[Mixing, ...]
PAD_SIDES: tuple[PadSide, ...]
PADDING_MODES: tuple[PaddingMode, ...]
PIXEL_LAYOUTS: tuple[PixelLayout, ...]
PIXEL_TYPES: tuple[PixelType, ...]
RESAMPLINGS: tuple[Resampling, ...]
TENSOR_FORMATS: tuple[TensorFormat, ...]
TENSOR_TYPES: tuple[TensorType, ...]

def arrow_schema(schema: Schema, masks: list[tuple[str, str]]) -> object: ...
def arrow_stream(schema: Schema, begin: Callable[[], Iterator[Any]], masks: list[tuple[str, str]]) -> object: ...
def main(arguments: list[str], again: list[str]) -> int: ...
def write_row_group(path: str, rows: list[MadeRows], about: list[tuple[str, str]]) -> None: ...
def join_row_groups(parts: list[str], path: str) -> None: ...
def parse_size(text: str) -> int: ...
def matching_names(name: str, names: list[str]) -> list[str]: ...
def shown(location: str) -> str: ...
def denied_rows(location: str) -> str: ...
def denied_values(column: str, location: str) -> str: ...
def blend_with_previous(
    images: np.ndarray[Any, Any], blended: np.ndarray[Any, Any], own: float, other: float
) -> None: ...
def shard_of_mesh(rank: int, axes: list[tuple[str, int]], data: list[str]) -> tuple[int, int]: ...
def store_options(location: str, settings: dict[str, str]) -> dict[str, str]: ...
def petastorm_schema(
    url: str, store_options: dict[str, str]
) -> tuple[str, list[tuple[str, str, tuple[int | None, ...], tuple[Any, ...] | None, bool]]] | None: ...
def decode_image(
    data: Any,
    image: Any = None,
    *,
    seed: int = 0,
    epoch: int = 0,
    rows: int | Sequence[int] | np.ndarray[Any, Any] | None = None,
    column: str = "image",
    out: np.ndarray[Any, Any] | None = None,
    threads: int | None = None,
    on_bad_row: Any = "raise",
    skipped: list[Any] | None = None,
) -> Any:
    """Decodes encoded images into numpy arrays, without a data set and without the interpreter's lock.

    JPEG, PNG, WebP, GIF, BMP and TIFF. Several images are decoded on threads of forebay's own; a single
    one on the caller's thread.

    Parameters
    ----------
    data : bytes, list of bytes, or Arrow array
        One encoded image or several. Several are a list, a tuple or an array of objects, in which None is
        a null, or a column of binary values or ``struct<bytes, path>`` with Arrow's C data interface, such
        as an array or a chunked array of pyarrow or a series of polars. An image may be a dict of
        ``bytes`` and ``path`` too. ``bytes`` and Arrow's columns are read without a copy; other objects
        with a buffer, such as a ``memoryview``, are copied.
    image : Image or Views, optional
        How the images become pixels. Default: 8-bit RGB in the size of each image, with the orientation
        in which it is stored.
    seed, epoch : int, default 0
        Seed and epoch of the random draws.
    rows : int or sequence of int, optional
        Row number of the first image, from which the others are counted on, or a row number for each image.
        Default: 0. Images with equal seed, epoch, row number and column get equal random draws. A loader
        with this seed and epoch makes the same draws for the row with this number in stored order.
    column : str, default "image"
        Name of the column that the loader would read.
    out : numpy.ndarray, optional
        The array that the pixels are written to and that is returned. It must be contiguous and have the
        shape and type of the result, which is one array.
    threads : int, optional
        Number of threads that decode several images. The pixels do not depend on it. Default: one for
        each processor that the process may use.
    on_bad_row : {"raise", "fill"} or Skip, default "raise"
        Treatment of an image that cannot be decoded or is null, if ``data`` has several images: raise for
        the first one; deliver pixels of 0, or an array without pixels if each image has its own size; or
        leave it out with :class:`Skip`. The last two need ``skipped``.
    skipped : list, optional
        Receives the exception of each image that was left out or filled. Its ``row`` is the number of the
        image. It must be given unless ``on_bad_row`` is ``"raise"``.

    Returns
    -------
    numpy.ndarray, list of numpy.ndarray, or dict
        Pixels of shape ``(H, W, C)``, or as ``image`` says; for several images ``(N, H, W, C)``. Without
        ``image``, or with a ragged one, several images are a list of arrays, each in its own size. With
        :class:`Views` a dict has the array of each view by its name.

    Raises
    ------
    BadRowError
        An image is damaged, null, or not an image. Among several, ``row`` is its number, counted from 0.
    TooLargeError
        An image has more pixels than :meth:`Image.max_pixels` permits.
    InvalidError
        An argument is not as described.

    Examples
    --------
    >>> import forebay as fb
    >>> import io
    >>> from PIL import Image
    >>> file = io.BytesIO()
    >>> Image.new("RGB", (40, 30), (9, 90, 200)).save(file, "PNG")
    >>> fb.decode_image(file.getvalue()).shape
    (30, 40, 3)
    >>> fb.decode_image([file.getvalue()] * 2, fb.Image.center_crop(16).flip(), seed=7).shape
    (2, 16, 16, 3)
    >>> [pixels.shape for pixels in fb.decode_image([file.getvalue()] * 2)]
    [(30, 40, 3), (30, 40, 3)]
    """

@final
class Batch(Mapping[str, Any]):
    """Rows for one step: a mapping from column name to numpy array, in the order of the schema.

    An array is made when it is first read, and is the same object from then on. It is a view of the batch's
    memory, which it keeps alive. It is writable, because nothing else uses that memory. In a batch of ``N``
    rows:

    - numbers and booleans have shape ``(N,)`` and their own type,
    - decoded images have shape ``(N, H, W, C)`` or ``(N, C, H, W)``,
    - lists of fixed length and binary of fixed length have shape ``(N, k)``; binary is ``uint8``,
    - other lists are :class:`Ragged`, whose items are any of these again; a map is a list of its entries, and
      a vector of Spark ML, dense or sparse, is the list of all its values,
    - arrays in which several dimensions differ from row to row are a :class:`Ragged` that returns each row as
      an array,
    - a structure is a dict of its fields, each of them any of these again,
    - times are ``datetime64`` or ``timedelta64``,
    - text, other binary and decimals are arrays of Python objects, copied one by one; text that is decoded as
      :class:`Text` has numpy's ``StringDType``, and text that is decoded as :class:`Json` is the objects that
      it describes.

    Only loaders make batches; the class cannot be called. :meth:`to_arrow` converts a batch without a copy.

    Examples
    --------
    >>> import forebay as fb
    >>> batch = fb.Dataset("data/train/").sample(4)
    >>> list(batch)
    ['image', 'label', 'id']
    >>> batch["label"]
    array([0, 1, 2, 3])
    """

    def _repr_html_(self) -> str: ...
    @property
    def num_rows(self) -> int:
        """Number of rows in the batch. ``len(batch)`` is the number of columns, as for any mapping."""
    @property
    def schema(self) -> Schema:
        """Names and types of the columns."""
    def column(self, name: str) -> PublicColumn:
        """One column as an object that supports DLPack and Arrow.

        Parameters
        ----------
        name : str
            Name of the column.

        Returns
        -------
        Column
            The column, over the batch's memory.

        Raises
        ------
        UnknownColumnError
            The batch has no such column.
        """
    def to_arrow(self) -> Any:
        """The batch as Arrow, without a copy: nulls, text and nested values as they are stored.

        Returns
        -------
        pyarrow.RecordBatch
            A record batch over the batch's memory, which it keeps alive. Needs pyarrow; other packages that
            read Arrow take the batch itself.

        Examples
        --------
        >>> import forebay as fb
        >>> fb.Dataset("data/train/").sample(4, columns=["label"]).to_arrow().column("label").to_pylist()
        [0, 1, 2, 3]
        """
    def __getitem__(self, name: str) -> Any:
        """The array of a column.

        Raises
        ------
        UnknownColumnError
            The batch has no such column.
        NullError
            The column has nulls, which its array has no place for.
        """
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...
    def __contains__(self, name: object) -> bool: ...
    def keys(self) -> KeysView[str]:
        """Names of the columns."""
    def values(self) -> ValuesView[Any]:
        """Arrays of the columns."""
    def items(self) -> ItemsView[str, Any]:
        """Names and arrays of the columns."""
    def get(self, name: str, default: Any = None) -> Any:
        """The array of a column, or ``default`` if there is no such column."""
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...
    def __arrow_c_schema__(self) -> object: ...
    def _records(self, name: str) -> list[Any] | None: ...
    def _objects(self, name: str) -> list[Any]: ...

class CategoryCounts:
    def __init__(self, column: str) -> None: ...
    def add(self, batch: Batch) -> None: ...
    def values(self, at_least: int, at_most: int | None) -> tuple[str, ...] | tuple[bytes, ...] | tuple[int, ...]: ...

class Column:
    """Base class of :class:`forebay.Column`, which adds the buffer protocol."""

    def __init__(self, batch: Batch, name: str) -> None: ...
    @property
    def name(self) -> str:
        """Name of the column."""
    @property
    def element(self) -> str | None:
        """Type of an element as numpy writes it, or "bfloat16"; ``None`` if the column is not one block of
        memory.
        """
    @property
    def null_count(self) -> int:
        """Number of nulls in the column."""
    def __len__(self) -> int: ...
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]: ...
    def __dlpack__(
        self,
        *,
        stream: None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...
    def __arrow_c_schema__(self) -> object: ...

@final
class Schema:
    """Names and types of columns; ``pyarrow.schema(schema)`` converts it.

    Examples
    --------
    >>> import forebay as fb
    >>> fb.Loader("data/train/", decode={"image": fb.Image.resize(32, 48)}).schema
    image: uint8[32, 48, 3] not null
    label: int64
    id: int64
    """

    def _repr_html_(self) -> str: ...
    @property
    def names(self) -> list[str]:
        """Names of the columns, in order."""
    def layout(self) -> list[tuple[str, ColumnKind, str | None, tuple[int | None, ...]]]:
        """How each column is delivered in a batch.

        Returns
        -------
        list of tuple
            For each column its name, its kind ("dense", "ragged", "struct", "text", "bytes" or "object"), the
            type of an element as numpy writes it or "bfloat16" (``None`` if elements have no such type), and
            the shape of one row, with ``None`` for a side that differs from batch to batch.

        Examples
        --------
        >>> import forebay as fb
        >>> fb.Loader("data/train/", columns=["label", "image"]).schema.layout()
        [('label', 'dense', '<i8', ()), ('image', 'bytes', None, ())]
        """
    def __len__(self) -> int: ...
    def __contains__(self, name: str) -> bool: ...
    def __arrow_c_schema__(self) -> object: ...

@final
class Image:
    """Describes how to turn the images of a column into arrays of pixels. The object is immutable.

    Static methods, such as :meth:`resize` and :meth:`random_resized_crop`, create an object; the other
    methods return a changed copy. Names and parameters follow torchvision. A resize is antialiased, and
    bilinear unless :meth:`resampling` sets another filter. The cells of the column are encoded images; with
    :meth:`raw` they are pixels. Delivered pixels are ``uint8`` in RGB and NHWC by default; floats are from 0
    to 1 unless :meth:`normalize` is used.

    Random operations depend only on the seed of the shuffle, the epoch and the row, not on threads or ranks.

    Examples
    --------
    >>> import forebay as fb
    >>> train = fb.Image.random_resized_crop(224).flip().dtype("float16").layout("NCHW")
    >>> train.shape
    (3, 224, 224)
    >>> val = fb.Image.center_crop(224)
    """

    @staticmethod
    def resize(height: int, width: int) -> Image:
        """Resizes the whole image to a fixed height and width, without keeping its aspect ratio.

        Parameters
        ----------
        height, width : int
            Size in pixels.

        Returns
        -------
        Image
            The value.

        Raises
        ------
        InvalidError
            A side is not an int from 1 to 65535.
        """
    @staticmethod
    def random_resized_crop(
        size: int | tuple[int, int],
        *,
        scale: tuple[float, float] | None = None,
        ratio: tuple[float, float] | None = None,
    ) -> Image:
        """Crops a random box of the image and resizes it, like torchvision's ``RandomResizedCrop``.

        Parameters
        ----------
        size : int or tuple of int
            Side of a square, or height and width, in pixels.
        scale : tuple of float, optional
            Range of the box's area, as a fraction of the image's area. Default: (0.08, 1).
        ratio : tuple of float, optional
            Range of the box's width divided by its height. Default: (3/4, 4/3).

        Returns
        -------
        Image
            The value.

        Raises
        ------
        InvalidError
            A side is not an int from 1 to 65535, or a range is not two finite numbers above 0, the smaller
            one first.
        """
    @staticmethod
    def center_crop(size: int | tuple[int, int], *, resize: int | None = None) -> Image:
        """Resizes the image by its shorter side, and then crops the centre.

        Parameters
        ----------
        size : int or tuple of int
            Side of a square, or height and width, in pixels.
        resize : int, optional
            Length of the shorter side before the crop, in pixels. Default: 256.

        Returns
        -------
        Image
            The value.

        Raises
        ------
        InvalidError
            A side is not an int from 1 to 65535, or ``size`` is larger than ``resize``.
        """
    @staticmethod
    def fit(
        size: int | tuple[int, int],
        *,
        resize: int | None = None,
        fill: float | tuple[float, float, float] | None = None,
        centered: bool | None = None,
    ) -> Image:
        """Places the whole image on a canvas of the given size, without changing its aspect ratio.

        A larger image is shrunk until it fits; a smaller one keeps its size unless ``resize`` is given. On a
        square canvas, ``resize`` has the effect of torchvision's ``Resize(resize, max_size=size)``.

        A column ``<column>.size`` is delivered after the stored columns. It has two ``int32`` numbers for
        each row: the height and width in pixels that the image has on its canvas. Boxes, points and masks of
        the image are moved and scaled with it.

        Parameters
        ----------
        size : int or tuple of int
            Side of a square canvas, or height and width, in pixels.
        resize : int, optional
            Length to which the shorter side is resized, in pixels; less if the longer side would not fit on
            the canvas. Default: the image is only shrunk, if it is too large.
        fill : float or tuple of float, optional
            Value of the canvas outside the image: one number, or one for each of three channels, in the
            delivered number type. Default: 0.
        centered : bool, optional
            Whether to centre the image on the canvas, so that it begins at ``(canvas - size) // 2`` along
            both axes. Default: False, which places it in the upper left corner.

        Returns
        -------
        Image
            The value.

        Raises
        ------
        InvalidError
            A side is not an int from 1 to 65535, ``fill`` is neither a finite number nor three of them, or
            ``centered`` is neither ``True`` nor ``False``.
        """
    @staticmethod
    def random_crop(
        size: int | tuple[int, int],
        *,
        padding: int | tuple[int, int] | tuple[int, int, int, int] | None = None,
        fill: float | tuple[float, float, float] | None = None,
        padding_mode: PaddingMode | None = None,
    ) -> Image:
        """Crops a random box of the image without resizing it, like torchvision's ``RandomCrop``.

        ``padding`` is added to the image first. If the image is then smaller than the crop, both sides are
        padded by the number of missing pixels, as with ``pad_if_needed=True``. Flips mirror the crop with its
        padding.

        Parameters
        ----------
        size : int or tuple of int
            Side of a square, or height and width, in pixels.
        padding : int or tuple of int, optional
            Pixels of padding: one int for all sides, two for the left and right and for the top and bottom,
            or four for left, top, right and bottom. Default: 0.
        fill : float or tuple of float, optional
            Value of constant padding: one number, or one for each of three channels, in the delivered number
            type. Default: 0.
        padding_mode : {"constant", "edge", "reflect", "symmetric"}, optional
            The content of the padding: ``fill``, the outermost pixels repeated, or the image mirrored without
            or with its outermost pixels. Default: "constant".

        Returns
        -------
        Image
            The value.

        Raises
        ------
        InvalidError
            A side is not an int from 1 to 65535, ``padding`` is not 1, 2 or 4 ints, constant padding is as
            large as the crop, or ``fill`` is given with another mode.

        Examples
        --------
        >>> import forebay as fb
        >>> cifar = fb.Image.random_crop(32, padding=4, padding_mode="reflect").flip()
        """
    @staticmethod
    def random_shortest_size(
        min_size: int | Iterable[int],
        max_size: int | tuple[int, int],
        *,
        fill: float | tuple[float, float, float] | None = None,
        centered: bool | None = None,
    ) -> Image:
        """Resizes the whole image to a random size on a canvas, like torchvision's ``RandomShortestSize`` with
        padding.

        The length of the shorter side is drawn from ``min_size``; the image is made smaller if it would not
        fit on the canvas. A column ``<column>.size`` is delivered as for :meth:`fit`; :meth:`ragged` removes
        the canvas.

        Parameters
        ----------
        min_size : int or iterable of int
            Lengths of the shorter side in pixels, from which one is drawn.
        max_size : int or tuple of int
            Side of a square canvas, or height and width, in pixels.
        fill : float or tuple of float, optional
            Value of the canvas outside the image, as for :meth:`fit`. Default: 0.
        centered : bool, optional
            Whether to centre the image on the canvas. Default: False, which places it in the upper left
            corner.

        Returns
        -------
        Image
            The value.

        Raises
        ------
        InvalidError
            A side is not an int from 1 to 65535, ``min_size`` is empty, or ``fill`` or ``centered`` is not
            valid for :meth:`fit`.

        Examples
        --------
        >>> import forebay as fb
        >>> detection = fb.Image.random_shortest_size(range(480, 801, 32), 1333).flip()
        """
    @staticmethod
    def scale_jitter(
        size: int | tuple[int, int],
        *,
        scale_range: tuple[float, float] | None = None,
        fill: float | tuple[float, float, float] | None = None,
    ) -> Image:
        """Scales the image at random on a canvas: large-scale jitter, like torchvision's ``ScaleJitter``.

        The image is scaled by a number drawn from ``scale_range``, times the largest scale at which the whole
        image fits on the canvas. If the scaled image is larger than the canvas, it is cropped at random; if
        it is smaller, it is placed in the upper left corner. A column ``<column>.size`` is delivered as for
        :meth:`fit`.

        Parameters
        ----------
        size : int or tuple of int
            Side of a square canvas, or height and width, in pixels.
        scale_range : tuple of float, optional
            Range of the random scale. Default: (0.1, 2).
        fill : float or tuple of float, optional
            Value of the canvas outside the image, as for :meth:`fit`. Default: 0.

        Returns
        -------
        Image
            The value.

        Raises
        ------
        InvalidError
            A side is not an int from 1 to 65535, ``scale_range`` is not two finite numbers above 0 in
            ascending order, or ``fill`` is neither a finite number nor three of them.

        Examples
        --------
        >>> import forebay as fb
        >>> jitter = fb.Image.scale_jitter(1024, scale_range=(0.5, 1.5)).flip()
        """
    @staticmethod
    def random_iou_crop(
        size: int | tuple[int, int],
        *,
        boxes: str,
        min_scale: float | None = None,
        max_scale: float | None = None,
        min_aspect_ratio: float | None = None,
        max_aspect_ratio: float | None = None,
        sampler_options: Iterable[float] | None = None,
        trials: int | None = None,
    ) -> Image:
        """Crops a random region around annotated boxes, and resizes it: torchvision's ``RandomIoUCrop`` and
        ``Resize``.

        The region contains the centre of at least one of the image's boxes, and overlaps such a box with at
        least a minimum intersection over union (IoU), which is drawn from ``sampler_options``. If 1 is drawn,
        or the image has no boxes, the whole image is taken.

        Parameters
        ----------
        size : int or tuple of int
            Side of a square, or height and width, in pixels.
        boxes : str
            The column of boxes, which ``decode`` must map to :class:`Boxes` of this image.
        min_scale, max_scale : float, optional
            Range of the region's sides, as fractions of the image's sides. Default: 0.3 and 1.
        min_aspect_ratio, max_aspect_ratio : float, optional
            Range of the region's width divided by its height. Default: 0.5 and 2.
        sampler_options : iterable of float, optional
            The minimum overlaps (IoU) from which one is drawn. Default: 0, 0.1, 0.3, 0.5, 0.7, 0.9 and 1.
        trials : int, optional
            The number of random regions that are tried for one minimum overlap, before another overlap is
            drawn. Default: 40.

        Returns
        -------
        Image
            The value.

        Raises
        ------
        InvalidError
            A side is not an int from 1 to 65535; a range is not two numbers above 0 in ascending order; a
            scale is above 1; ``sampler_options`` is empty; or ``trials`` is not from 1 to 10,000.

        Examples
        --------
        >>> import forebay as fb
        >>> decode = {
        ...     "image": fb.Image.random_iou_crop(300, boxes="objects.bbox").flip(),
        ...     "objects.bbox": fb.Boxes(of="image", format="xywh", min_visible=0.25),
        ... }
        """
    def ragged(self) -> Image:
        """Delivers each image of :meth:`fit` or :meth:`random_shortest_size` in its own size, without a canvas.

        The size of the canvas is then the largest size of an image. While a batch is made, each of its images
        takes the memory of that size. The column is a :class:`Ragged`: ``batch["image"][i]`` is a view of
        shape ``(height, width, channels)``, and all pixels of the batch are one array. The layout is "NHWC".

        Returns
        -------
        Image
            A new value.

        Raises
        ------
        InvalidError
            The image was not created by :meth:`fit` or :meth:`random_shortest_size`, or ``fill`` or
            ``centered`` is given.
        """
    def raw(self, shape: tuple[int, int] | tuple[int, int, int], *, layout: PixelLayout | None = None) -> Image:
        """Reads raw pixels from the cells of the column instead of encoded images.

        A cell contains the 8-bit pixel values of an image without a header, as bytes or as a list of
        ``uint8``. All operations give the same pixels, and the same random draws, as if the cell contained
        these values as a PNG file. A cell of another length is a bad row.

        Parameters
        ----------
        shape : tuple of int
            Height, width and channels; two ints stand for one channel. With 1 or 2 channels the first is
            grey, with 3 or 4 the first three are red, green and blue.
        layout : {"NHWC", "NCHW"}, optional
            The order of the pixel values in a cell. With "NCHW", ``shape`` begins with the channels. Default:
            "NHWC".

        Returns
        -------
        Image
            A new value.

        Raises
        ------
        InvalidError
            ``shape`` is not two or three ints, a side is not from 1 to 65535, channels are not from 1 to 4,
            or ``layout`` is unknown.

        Examples
        --------
        >>> import forebay as fb
        >>> notebook = fb.Image.resize(299, 299).raw((299, 299, 3)).dtype("float32").layout("NCHW")
        >>> cifar = fb.Image.random_resized_crop(32).flip().raw((3, 32, 32), layout="NCHW")
        """
    def resampling(self, filter: Resampling) -> Image:
        """Sets the filter with which images are resized.

        The filters are those of Pillow with the same names, antialiased; torchvision and timm call this
        parameter ``interpolation``.

        Parameters
        ----------
        filter : {"bilinear", "bicubic", "lanczos"}
            The filter. Without this method: "bilinear", which is the fastest.

        Returns
        -------
        Image
            A new value.

        Raises
        ------
        InvalidError
            The filter is unknown.

        Examples
        --------
        >>> import forebay as fb
        >>> clip = fb.Image.center_crop(224, resize=224).resampling("bicubic")
        """
    def flip(self, p: float = 0.5) -> Image:
        """Mirrors the image left to right with probability ``p``.

        Parameters
        ----------
        p : float, default 0.5
            Probability.

        Returns
        -------
        Image
            A new value.

        Raises
        ------
        InvalidError
            ``p`` is not a number from 0 to 1.
        """
    def vertical_flip(self, p: float = 0.5) -> Image:
        """Mirrors the image top to bottom with probability ``p``. Adding this does not change which crops and
        left-right flips are drawn.

        Parameters
        ----------
        p : float, default 0.5
            Probability.

        Returns
        -------
        Image
            A new value.

        Raises
        ------
        InvalidError
            ``p`` is not a number from 0 to 1.
        """
    def random_rotation(
        self,
        degrees: float | tuple[float, float],
        interpolation: Interpolation | None = None,
        fill: int | tuple[int, int, int] | None = None,
    ) -> Image:
        """Rotates the image about its centre by a random angle, counter-clockwise, like torchvision's
        ``RandomRotation``.

        The rotation is applied after the flips and keeps the image's size: uncovered corners are filled, and
        pixels that are rotated out of the image are lost. Adding it does not change which crops and flips are
        drawn.

        Parameters
        ----------
        degrees : float or tuple of float
            Range of the angle; one number means the range from ``-degrees`` to ``degrees``.
        interpolation : {"nearest", "bilinear"}, optional
            How pixels are interpolated. Default: "nearest".
        fill : int or tuple of int, optional
            Value of uncovered pixels from 0 to 255: one int, or one for each of three channels, before
            :meth:`normalize`. Default: 0.

        Returns
        -------
        Image
            A new value.

        Raises
        ------
        InvalidError
            ``degrees`` is neither a finite number of at least 0 nor two numbers in ascending order;
            ``interpolation`` is unknown; or ``fill`` is neither an int from 0 to 255 nor three of them.
        """
    def color_jitter(
        self,
        brightness: float | None = None,
        contrast: float | None = None,
        saturation: float | None = None,
        hue: float | None = None,
        *,
        p: float | None = None,
    ) -> Image:
        """Changes brightness, contrast, saturation and hue in random order, like torchvision's ``ColorJitter``.

        Each factor is drawn from ``max(0, 1 - amount)`` to ``1 + amount``; an amount of 0 changes nothing.

        Parameters
        ----------
        brightness, contrast, saturation : float, optional
            The amount by which each may change. Default: 0.
        hue : float, optional
            The largest rotation of the hue as a fraction of a full turn, from 0 to 0.5. Default: 0.
        p : float, optional
            Probability. Default: 1.

        Returns
        -------
        Image
            A new value.

        Raises
        ------
        InvalidError
            An amount is not a finite number of at least 0, ``hue`` is above 0.5, or ``p`` is not a number
            from 0 to 1.
        """
    def random_grayscale(self, p: float = 0.1) -> Image:
        """Makes the image grey with probability ``p`` and keeps the number of channels, like torchvision's
        ``RandomGrayscale``.

        Parameters
        ----------
        p : float, default 0.1
            Probability.

        Returns
        -------
        Image
            A new value.

        Raises
        ------
        InvalidError
            ``p`` is not a number from 0 to 1.
        """
    def gaussian_blur(
        self, kernel_size: int, sigma: tuple[float, float] | None = None, *, p: float | None = None
    ) -> Image:
        """Blurs the image with a Gaussian kernel, like torchvision's ``GaussianBlur``.

        Parameters
        ----------
        kernel_size : int
            Side of the kernel in pixels: an odd number.
        sigma : tuple of float, optional
            Range of the standard deviation. Default: (0.1, 2).
        p : float, optional
            Probability. Default: 1.

        Returns
        -------
        Image
            A new value.

        Raises
        ------
        InvalidError
            ``kernel_size`` is not an odd int whose half is shorter than the image's sides; ``sigma`` is not
            two finite numbers above 0 in ascending order; or ``p`` is not a number from 0 to 1.
        """
    def random_erasing(
        self,
        p: float | None = None,
        scale: tuple[float, float] | None = None,
        ratio: tuple[float, float] | None = None,
        value: float | tuple[float, float, float] | None = None,
    ) -> Image:
        """Overwrites a random box of the image, like torchvision's ``RandomErasing``. This is the last
        operation, after :meth:`normalize`.

        Parameters
        ----------
        p : float, optional
            Probability. Default: 0.5.
        scale : tuple of float, optional
            Range of the box's area, as a fraction of the image's area. Default: (0.02, 0.33).
        ratio : tuple of float, optional
            Range of the box's height divided by its width. Default: (0.3, 3.3).
        value : float or tuple of float, optional
            The value that is written: one number, or one for each of three channels, in the delivered number
            type. Default: 0.

        Returns
        -------
        Image
            A new value.

        Raises
        ------
        InvalidError
            ``p`` is not a number from 0 to 1; ``scale`` or ``ratio`` is not two finite numbers above 0 in
            ascending order; ``scale`` goes above 1; or ``value`` is neither a finite number nor three of
            them.
        """
    def auto_augment(
        self,
        policy: Literal["imagenet", "cifar10", "svhn"] | None = None,
        *,
        interpolation: Interpolation | None = None,
        fill: int | tuple[int, int, int] | None = None,
    ) -> Image:
        """Applies a random pair of operations from a learned policy, like torchvision's ``AutoAugment``.

        One of the policy's 25 pairs is drawn for each image, and applied after flips and rotation and before
        :meth:`color_jitter`. Some operations move pixels, so other columns (boxes, points, masks and images)
        cannot follow such an image, and :meth:`emit_geometry` is refused. So is a second automatic
        augmentation: :meth:`rand_augment`, :meth:`trivial_augment_wide` or :meth:`aug_mix`.

        Parameters
        ----------
        policy : {"imagenet", "cifar10", "svhn"}, optional
            The data set on which the policy was learned. Default: "imagenet".
        interpolation : {"nearest", "bilinear"}, optional
            How pixels are interpolated by operations that move them. Default: "nearest".
        fill : int or tuple of int, optional
            Value from 0 to 255 for pixels that an operation leaves uncovered: one int, or one for each of
            three channels. Default: 0.

        Returns
        -------
        Image
            A new value.

        Raises
        ------
        InvalidError
            ``policy`` or ``interpolation`` is unknown, or ``fill`` is neither an int from 0 to 255 nor three
            of them.
        """
    def rand_augment(
        self,
        num_ops: int | None = None,
        magnitude: int | None = None,
        num_magnitude_bins: int | None = None,
        *,
        interpolation: Interpolation | None = None,
        fill: int | tuple[int, int, int] | None = None,
    ) -> Image:
        """Applies random operations of one magnitude, like torchvision's ``RandAugment``.

        The operations are applied at the same point, and with the same restrictions, as those of
        :meth:`auto_augment`.

        Parameters
        ----------
        num_ops : int, optional
            The number of operations for each image. Default: 2.
        magnitude : int, optional
            The magnitude of the operations, an int below ``num_magnitude_bins``. Default: 9.
        num_magnitude_bins : int, optional
            The number of magnitudes that an operation can have. Default: 31.
        interpolation : {"nearest", "bilinear"}, optional
            How pixels are interpolated by operations that move them. Default: "nearest".
        fill : int or tuple of int, optional
            Value from 0 to 255 for pixels that an operation leaves uncovered: one int, or one for each of
            three channels. Default: 0.

        Returns
        -------
        Image
            A new value.

        Raises
        ------
        InvalidError
            ``num_ops`` is not an int from 0 to 100, ``num_magnitude_bins`` is not an int from 2 to 1000,
            ``magnitude`` is not an int from 0 to ``num_magnitude_bins - 1``, or another parameter is not
            valid for :meth:`auto_augment`.

        Examples
        --------
        >>> import forebay as fb
        >>> train = fb.Image.random_resized_crop(224).flip().rand_augment(2, 9)
        """
    def trivial_augment_wide(
        self,
        num_magnitude_bins: int | None = None,
        *,
        interpolation: Interpolation | None = None,
        fill: int | tuple[int, int, int] | None = None,
    ) -> Image:
        """Applies one random operation of a random magnitude, like torchvision's ``TrivialAugmentWide``.

        The operations are applied at the same point, and with the same restrictions, as those of
        :meth:`auto_augment`.

        Parameters
        ----------
        num_magnitude_bins : int, optional
            The number of magnitudes that an operation can have. Default: 31.
        interpolation : {"nearest", "bilinear"}, optional
            How pixels are interpolated by operations that move them. Default: "nearest".
        fill : int or tuple of int, optional
            Value from 0 to 255 for pixels that an operation leaves uncovered: one int, or one for each of
            three channels. Default: 0.

        Returns
        -------
        Image
            A new value.

        Raises
        ------
        InvalidError
            ``num_magnitude_bins`` is not an int from 2 to 1000, or another parameter is not valid for
            :meth:`auto_augment`.
        """
    def aug_mix(
        self,
        severity: int | None = None,
        mixture_width: int | None = None,
        chain_depth: int | None = None,
        alpha: float | None = None,
        all_ops: bool | None = None,
        *,
        interpolation: Interpolation | None = None,
        fill: int | tuple[int, int, int] | None = None,
    ) -> Image:
        """Mixes the image with chains of random operations on it, like torchvision's ``AugMix``.

        The result is the sum of the image and of the results of all chains, with random weights that are 1
        together. It is computed at the same point, and with the same restrictions, as the operations of
        :meth:`auto_augment`.

        Parameters
        ----------
        severity : int, optional
            Magnitudes are drawn from the weakest ``severity`` of ten. Default: 3.
        mixture_width : int, optional
            The number of chains. Default: 3.
        chain_depth : int, optional
            The number of operations in each chain; -1 draws one to three for each chain. Default: -1.
        alpha : float, optional
            The chains' shares follow ``Dirichlet(alpha, ...)``, and the share of all of them
            ``Beta(alpha, alpha)``. Default: 1.0.
        all_ops : bool, optional
            Whether brightness, colour, contrast and sharpness are drawn too. Default: True.
        interpolation : {"nearest", "bilinear"}, optional
            How pixels are interpolated by operations that move them. Default: "bilinear".
        fill : int or tuple of int, optional
            Value from 0 to 255 for pixels that an operation leaves uncovered: one int, or one for each of
            three channels. Default: 0.

        Returns
        -------
        Image
            A new value.

        Raises
        ------
        InvalidError
            ``severity`` is not an int from 1 to 10, ``mixture_width`` is not an int from 1 to 100,
            ``chain_depth`` is neither -1 nor such an int, ``alpha`` is not a number from 0.05 to 1000,
            ``all_ops`` is not a bool, or another parameter is not valid for :meth:`auto_augment`.

        Examples
        --------
        >>> import forebay as fb
        >>> train = fb.Image.random_resized_crop(224).flip().aug_mix(severity=3)
        """
    def random_invert(self, p: float = 0.5) -> Image:
        """Inverts all pixel values with probability ``p``, like torchvision's ``RandomInvert``.

        This operation and similar ones are applied after :meth:`gaussian_blur`, in the order invert,
        posterize, solarize, sharpness, autocontrast and equalize.

        Parameters
        ----------
        p : float, default 0.5
            Probability.

        Returns
        -------
        Image
            A new value.

        Raises
        ------
        InvalidError
            ``p`` is not a number from 0 to 1.
        """
    def random_posterize(self, bits: int, p: float = 0.5) -> Image:
        """Keeps only the highest bits of each pixel value with probability ``p``, like torchvision's
        ``RandomPosterize``.

        This operation and similar ones are applied after :meth:`gaussian_blur`, in the order invert,
        posterize, solarize, sharpness, autocontrast and equalize.

        Parameters
        ----------
        bits : int
            The number of bits that are kept, from 0 to 8.
        p : float, default 0.5
            Probability.

        Returns
        -------
        Image
            A new value.

        Raises
        ------
        InvalidError
            ``bits`` is not an int from 0 to 8, or ``p`` is not a number from 0 to 1.
        """
    def random_solarize(self, threshold: float, p: float = 0.5) -> Image:
        """Inverts high pixel values with probability ``p``, like torchvision's ``RandomSolarize``.

        This operation and similar ones are applied after :meth:`gaussian_blur`, in the order invert,
        posterize, solarize, sharpness, autocontrast and equalize.

        Parameters
        ----------
        threshold : float
            Pixel values of at least this number are inverted; from 0 to 255.
        p : float, default 0.5
            Probability.

        Returns
        -------
        Image
            A new value.

        Raises
        ------
        InvalidError
            ``threshold`` is not a number from 0 to 255, or ``p`` is not a number from 0 to 1.
        """
    def random_adjust_sharpness(self, factor: float, p: float = 0.5) -> Image:
        """Sharpens or blurs the image with probability ``p``, like torchvision's ``RandomAdjustSharpness``.

        This operation and similar ones are applied after :meth:`gaussian_blur`, in the order invert,
        posterize, solarize, sharpness, autocontrast and equalize.

        Parameters
        ----------
        factor : float
            0 blurs, 1 changes nothing, and a larger number sharpens.
        p : float, default 0.5
            Probability.

        Returns
        -------
        Image
            A new value.

        Raises
        ------
        InvalidError
            ``factor`` is not a finite number of at least 0, or ``p`` is not a number from 0 to 1.
        """
    def random_autocontrast(self, p: float = 0.5) -> Image:
        """Stretches the values of each channel to the full range with probability ``p``, like torchvision's
        ``RandomAutocontrast``.

        This operation and similar ones are applied after :meth:`gaussian_blur`, in the order invert,
        posterize, solarize, sharpness, autocontrast and equalize.

        Parameters
        ----------
        p : float, default 0.5
            Probability.

        Returns
        -------
        Image
            A new value.

        Raises
        ------
        InvalidError
            ``p`` is not a number from 0 to 1.
        """
    def random_equalize(self, p: float = 0.5) -> Image:
        """Equalizes the histogram of each channel with probability ``p``, like torchvision's ``RandomEqualize``.

        This operation and similar ones are applied after :meth:`gaussian_blur`, in the order invert,
        posterize, solarize, sharpness, autocontrast and equalize.

        Parameters
        ----------
        p : float, default 0.5
            Probability.

        Returns
        -------
        Image
            A new value.

        Raises
        ------
        InvalidError
            ``p`` is not a number from 0 to 1.
        """
    def normalize(self, mean: tuple[float, float, float], std: tuple[float, float, float]) -> Image:
        """Computes ``(x / 255 - mean) / std`` for each channel; needs a float type.

        Parameters
        ----------
        mean, std : tuple of float
            One number for each of red, green and blue.

        Returns
        -------
        Image
            A new value.

        Raises
        ------
        InvalidError
            ``mean`` or ``std`` is not three finite numbers, or a number of ``std`` is not above 0.
        """
    def dtype(self, dtype: PixelType | np.dtype[Any] | type[Any]) -> Image:
        """Sets the number type of pixels.

        Parameters
        ----------
        dtype : {"uint8", "uint16", "float16", "bfloat16", "float32"} or numpy.dtype
            The type, by name or as ``numpy.float32``. Without this method: "uint8". "uint16" keeps all bits
            of 16-bit files and multiplies the values of 8-bit files by 257; every other type takes the high
            byte of 16-bit files, unless :meth:`bit_depth` says otherwise.

        Returns
        -------
        Image
            A new value.

        Raises
        ------
        InvalidError
            The type is unknown.
        """
    def bit_depth(self, bits: Literal[8, 16]) -> Image:
        """Sets how many bits per channel are read from files that have more than 8.

        Parameters
        ----------
        bits : {8, 16}
            The number of bits. With 16, the floats of such files are ``x / 65535``. Without this method: 16
            with dtype "uint16", 8 with any other.

        Returns
        -------
        Image
            A new value.

        Raises
        ------
        InvalidError
            ``bits`` is neither 8 nor 16.
        """
    def layout(self, layout: PixelLayout) -> Image:
        """Sets the order of the axes.

        Parameters
        ----------
        layout : {"NHWC", "NCHW"}
            The order. Without this method: "NHWC".

        Returns
        -------
        Image
            A new value.

        Raises
        ------
        InvalidError
            The order is unknown.
        """
    def grayscale(self) -> Image:
        """Delivers one channel instead of three: the luma of ITU-R 601.

        Returns
        -------
        Image
            A new value.
        """
    def exif_orientation(self, apply: bool = True) -> Image:
        """Rotates and mirrors the image as its EXIF data or TIFF tag says.

        Parameters
        ----------
        apply : bool, default True
            Whether to apply the orientation. Without this method it is not applied, as in torchvision.

        Returns
        -------
        Image
            A new value.

        Raises
        ------
        InvalidError
            ``apply`` is neither ``True`` nor ``False``.
        """
    def max_pixels(self, pixels: int) -> Image:
        """Limits the number of pixels of an image. A row whose image header states more is a bad row.

        Parameters
        ----------
        pixels : int
            The largest product of height and width.

        Returns
        -------
        Image
            A new value.

        Raises
        ------
        InvalidError
            ``pixels`` is not an int of at least 1 that fits 64 bits.
        """
    def emit_geometry(self) -> Image:
        """Delivers a further column, ``<column>.geometry``, which says how each image was cropped and mirrored.

        The column follows the stored columns and has eight ``float32`` numbers for each row: top, left,
        height and width of the crop, in pixels of the image before cropping; 1 if it is mirrored left to
        right, otherwise 0; 1 if it is mirrored top to bottom, otherwise 0; and height and width of the whole
        image. With :meth:`random_rotation`, a ninth number is the angle of rotation in degrees,
        counter-clockwise. With :meth:`exif_orientation`, all numbers refer to the image after it was
        oriented. A centre crop may begin at a fraction of a pixel.

        Returns
        -------
        Image
            A new value.
        """
    def of(self, image: str) -> Image:
        """Crops, mirrors and rotates the image in the same way as the image in another column of the row.

        Without this method, the images of two columns are cropped, mirrored and changed in colour
        independently. The crop is a fraction of the width and height, so a depth map of half the size has the
        same crop. Size, colours, number type and layout are set for each image separately. If both images
        have an operation such as :meth:`color_jitter`, its random factors are the same for both. The crop,
        flips and rotation may be left out here; if given, they must be the same as the other image's.

        Parameters
        ----------
        image : str
            The column of the other image, which must be decoded too.

        Returns
        -------
        Image
            A new value.

        Examples
        --------
        >>> import forebay as fb
        >>> decode = {
        ...     "image": fb.Image.random_resized_crop(224).flip(),
        ...     "depth": fb.Image.resize(112, 112).grayscale().of("image"),
        ... }
        """
    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of one image, in the order of the axes."""
    def __hash__(self) -> int: ...

@final
class Dataset:
    """The compiled half of :class:`forebay.Dataset`."""

    def __init__(
        self,
        urls: list[str],
        storage_options: dict[str, str],
        filter: str | None = None,
        merge_schema: bool = False,
        partition_types: dict[str, str] = ...,
        index: bytes | None = None,
        hand_on: bool = False,
        version: str | None = None,
        timestamp: str | None = None,
        versions: dict[str, str] = ...,
        split: str | None = None,
        config: str | None = None,
        only: list[str] | None = None,
    ) -> None: ...
    def paths(self) -> list[str]: ...
    def earlier_files(self, saved: str) -> list[str] | None: ...
    def version(self) -> int | None: ...
    def tables(self) -> list[tuple[str, str, str]]: ...
    def newest_versions(self) -> dict[str, int] | None: ...
    def index(self) -> bytes: ...
    def locations(self) -> list[str]: ...
    def release(self) -> None: ...
    def write_index(self) -> str: ...
    def take_warning(self) -> str | None: ...
    def rows(self) -> int: ...
    def files(self) -> int: ...
    def row_groups(self) -> int: ...
    def layout(self) -> list[tuple[str, list[int]]]: ...
    def schema(self) -> Schema: ...
    def metadata(self) -> dict[str, str]: ...
    def classes(self) -> tuple[dict[str, list[str]], dict[str, str]]: ...
    def row(self, id: int) -> tuple[str, int, int, int] | None: ...
    def stores_row_ids(self) -> bool: ...
    def fingerprint(self) -> str: ...

@final
class MadeRows:
    """Some rows of a part that is written."""

    def __init__(self, columns: list[tuple[str, tuple[str, bytes | None, Any]]]) -> None: ...
    def slice(self, start: int, stop: int) -> MadeRows: ...

@final
class Loader:
    """The compiled half of :class:`forebay.Loader`."""

    def __init__(
        self,
        sources: list[tuple[Dataset, dict[str, Any], str | None, float]],
        mix: dict[str, Any] | None = None,
        numbered: bool = False,
        after: str | None = None,
    ) -> None: ...
    def row_keys(self, step: Step) -> tuple[bytes, bytes]: ...
    def batch_key(self, step: Step) -> int: ...
    def step_key(self, step: Step) -> int: ...
    def row_place(self, row: int) -> tuple[str, int, int] | None: ...
    def set_weights(self, weights: list[float], step: int | None) -> None: ...
    def mean_costs(self) -> list[float] | None: ...
    def which(
        self, step: int | None = None, epoch: int | None = None, rank: int | None = None
    ) -> list[tuple[int, tuple[str, int, int, int]]]: ...
    def spec(self) -> tuple[str, list[str]]: ...
    def epoch(self, number: int | None = None, apart: bool = False) -> Epoch: ...
    def read_again(self, number: int) -> Epoch: ...
    def upcoming(self) -> tuple[int, int]: ...
    def handed_over(self, step: Step) -> None: ...
    def check_process(self) -> None: ...
    def steps(self) -> int: ...
    def schema(self) -> Schema: ...
    def plan(self, epoch: int) -> tuple[str, str]: ...
    def stats(self) -> tuple[str, str, str]: ...
    def totals(self) -> str: ...
    def report(self, to: str, locations: list[str]) -> str: ...
    def take_warning(self) -> str | None: ...
    def position(self) -> str: ...
    def beginning(self, epoch: int) -> str: ...
    def warm(self, share: bool = False, report: Callable[[int, int], object] | None = None) -> str: ...
    def restore(self, position: str) -> None: ...
    def is_pinned(self, address: int, registrar: Registrar) -> bool: ...
    def close(self) -> None: ...

@final
class Epoch:
    """One pass over the rows of a rank."""

    @property
    def number(self) -> int: ...
    @property
    def is_whole(self) -> bool: ...
    @property
    def skipped(self) -> Skipped: ...
    def pull(self, asks: bool = False) -> Step | None: ...
    def settle(self, step: Step, rejected: Sequence[tuple[int, str]]) -> Step: ...
    def repeats(self, rows: int) -> None: ...
    def check_open(self) -> None: ...
    def asks(self) -> None: ...
    def gets_nothing(self) -> None: ...
    def transforms(self) -> None: ...
    def transformed(self, bytes: int) -> None: ...
    def is_full(self) -> None: ...
    def transform_begins(self) -> None: ...
    def transform_ends(self) -> None: ...
    def awaits_transform(self, awaits: bool) -> None: ...
    def converts(self, to_device: bool) -> None: ...
    def converted(self, copied: int | None = None) -> None: ...
    def close(self, reason: Reason) -> None: ...

@final
class Reason:
    """The reason for which an epoch is closed before its end."""

    Left: Reason
    Superseded: Reason
    Restored: Reason
    Closed: Reason

@final
class Skipped:
    """The rows that an epoch skipped so far. The list remains when the epoch is gone."""

    def rows(self) -> list[tuple[str | None, int | None, int | None, str | None, str, int]]: ...

@final
class Step:
    """A batch, and the receipt by which the loader counts it as handed over."""

    @property
    def batch(self) -> Batch: ...
    def without_batch(self) -> Step: ...
    @property
    def is_last(self) -> bool: ...

@final
class Memory:
    """A block of memory that an array views."""
