"""The compiled half. Only ``Batch``, ``Image`` and ``Schema`` are public, as attributes of ``forebay``."""

from collections.abc import Iterator, Mapping
from typing import Any, final

import numpy as np

from .column import Column as PublicColumn

__version__: str
__level__: str

def main(arguments: list[str]) -> int: ...
def parse_size(text: str) -> int: ...
def shown(location: str) -> str: ...

@final
class Batch(Mapping[str, Any]):
    """Rows for one step: a mapping from column name to numpy array, in the order of the schema.

    An array is a view of the batch's memory, which it keeps alive; it is made when it is first asked for, and is the
    same object from then on. It is writable, because the batch owns its memory alone. Text, binary and nested columns
    are arrays of Python objects, binary of fixed length is ``uint8``, and lists of differing lengths are
    :class:`forebay.Ragged`. A column with nulls raises :class:`forebay.NullError`; ``pyarrow.record_batch(batch)`` has
    them.
    """

    @property
    def num_rows(self) -> int:
        """Its rows."""
    @property
    def schema(self) -> Schema:
        """Names and types of its columns."""
    def column(self, name: str) -> PublicColumn:
        """A column as an object that speaks DLPack and Arrow."""
    def __getitem__(self, name: str) -> Any: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...
    def __arrow_c_schema__(self) -> object: ...

class Column:
    """What :class:`forebay.Column` is made of."""

    def __init__(self, batch: Batch, name: str) -> None: ...
    @property
    def name(self) -> str:
        """Its name."""
    @property
    def element(self) -> str | None:
        """The type of an element as numpy writes it, or "bfloat16"; ``None`` where there is no such type."""
    @property
    def null_count(self) -> int:
        """Nulls among its rows."""
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
    """Names and types of the columns of a batch; ``pyarrow.schema(schema)`` reads it."""

    @property
    def names(self) -> list[str]:
        """The names of the columns, in order."""
    def layout(self) -> list[tuple[str, str, str | None, tuple[int, ...]]]:
        """For each column its name, its kind, the type of an element, and the shape of one row.

        The kind is "dense", "ragged", "text", "bytes" or "object". The type is as numpy writes it, "bfloat16", or
        ``None`` where there is none.
        """
    def __len__(self) -> int: ...
    def __contains__(self, name: str) -> bool: ...
    def __arrow_c_schema__(self) -> object: ...

@final
class Image:
    """How an encoded image becomes pixels: a frozen value.

    Made by :meth:`resize`, :meth:`random_resized_crop` or :meth:`center_crop` and adjusted by the other methods, each
    of which returns a new one. Names and meanings follow torchvision; every resize is bilinear with antialiasing.
    Without :meth:`normalize`, floats are in [0, 1].
    """

    @staticmethod
    def resize(height: int, width: int) -> Image:
        """The whole image, stretched to ``height`` x ``width``."""
    @staticmethod
    def random_resized_crop(
        size: int | tuple[int, int],
        *,
        scale: tuple[float, float] | None = None,
        ratio: tuple[float, float] | None = None,
    ) -> Image:
        """A random box, resized to ``size``.

        Args:
            size: A square's side, or height and width.
            scale: Share of the area that the box covers. Default: (0.08, 1).
            ratio: Width over height of the box. Default: (3/4, 4/3).
        """
    @staticmethod
    def center_crop(size: int | tuple[int, int], *, resize: int | None = None) -> Image:
        """The middle of the image, once its shorter side was brought to ``resize`` (default: 256) pixels."""
    def flip(self, p: float = 0.5) -> Image:
        """Mirrored left to right with probability ``p``."""
    def normalize(self, mean: tuple[float, float, float], std: tuple[float, float, float]) -> Image:
        """``(x / 255 - mean) / std`` per channel; for float types."""
    def dtype(self, dtype: str) -> Image:
        """The number type: "uint8", "float16", "bfloat16" or "float32"."""
    def layout(self, layout: str) -> Image:
        """The order of the axes: "NHWC" or "NCHW"."""
    def grayscale(self) -> Image:
        """One channel: the luma of ITU-R 601."""
    def exif_orientation(self, apply: bool = True) -> Image:
        """Turned and mirrored as EXIF or a TIFF's own tag says. Default: off, as in torchvision."""
    def max_pixels(self, pixels: int) -> Image:
        """Most pixels that an image may have by its header; one with more is refused."""
    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape of one image."""
    def __hash__(self) -> int: ...

@final
class Loader:
    """The loader as the library has it."""

    def __init__(self, arguments: dict[str, Any]) -> None: ...
    def epoch(self, number: int | None = None, apart: bool = False) -> Epoch: ...
    def handed_over(self, step: Step) -> None: ...
    def check_process(self) -> None: ...
    def steps(self) -> int: ...
    def schema(self) -> Schema: ...
    def plan(self, epoch: int) -> tuple[str, str]: ...
    def stats(self) -> tuple[str, str, str]: ...
    def take_warning(self) -> str | None: ...
    def position(self) -> str: ...
    def restore(self, position: str) -> None: ...
    def close(self) -> None: ...

@final
class Epoch:
    """One pass over a rank's share."""

    @property
    def number(self) -> int: ...
    @property
    def skipped(self) -> Skipped: ...
    def pull(self, asks: bool = False) -> Step | None: ...
    def asks(self) -> None: ...
    def gets_nothing(self) -> None: ...
    def transforms(self) -> None: ...
    def transformed(self, bytes: int) -> None: ...
    def is_full(self) -> None: ...
    def converts(self, to_device: bool) -> None: ...
    def converted(self, copied: int | None = None) -> None: ...
    def close(self) -> None: ...

@final
class Skipped:
    """The rows that an epoch left out so far; it stays when the epoch is gone."""

    def rows(self) -> list[tuple[str | None, int | None, int | None, str | None, str]]: ...

@final
class Step:
    """A batch, and the receipt to count it by."""

    @property
    def batch(self) -> Batch: ...

@final
class Memory:
    """A block of memory that numpy views."""

    @property
    def __array_interface__(self) -> dict[str, Any]: ...
