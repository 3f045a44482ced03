"""Batches as a ``tf.data.Dataset``.

Examples
--------
>>> import forebay as fb
>>> train = fb.Loader("data/train/", decode={"image": fb.Image.resize(32, 32)}, batch_size=64)
>>> for x, y in fb.tf.dataset(train, x="image", y="label").take(1):
...     print(x.shape, y.shape)
(64, 32, 32, 3) (64,)
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ..adapters import Batches, check_loader, pick
from ..adapters.missing import missing
from ..batch.ragged import Ragged
from ..errors import ClosedError, InvalidError, UnsupportedError

try:
    import tensorflow as tf
except ImportError as error:
    raise missing("tf", "TensorFlow", "tensorflow", error) from error

from . import distribute as tf_distribute

if TYPE_CHECKING:
    from ..loader import Loader

__all__ = ["batches", "dataset"]

#: Alignment of a tensor's memory, in bytes (EIGEN_MAX_ALIGN_BYTES).
ALIGNMENT = 64

tf_distribute.teach()


def batches(train: Loader, *, x: Any = None, y: Any = None) -> Batches[Any]:
    """The loader's batches as tensors, one epoch per iteration, for a hand-written training loop.

    Each batch is converted without ``tf.data``, and the loader's state counts the batches that the training
    step received: an interrupted run resumes at the next row. On the CPU the tensors share the batch's memory
    if its alignment permits.

    Parameters
    ----------
    train : Loader
        The loader.
    x : str, list or dict, optional
        Input columns: a name, or a list or dict of names. Default: a batch is a dict of all columns.
    y : str, list or dict, optional
        Target columns, in the same forms as ``x``. Default: no target.

    Returns
    -------
    Batches
        Iterable once per epoch, with ``len(train)`` batches, of the same types as those of :func:`dataset`.
        Unlike :func:`dataset`, this function also delivers structures, as dicts of their fields, and windows
        of text.

    Raises
    ------
    InvalidError
        ``train`` is not a :class:`forebay.Loader`, or ``y`` is given without ``x``.
    UnknownColumnError
        While iterating: ``x`` or ``y`` names a column that does not exist.
    UnsupportedError
        While iterating: a column has a type that TensorFlow does not have (leave it out with ``columns=``).

    Examples
    --------
    >>> import forebay as fb
    >>> train = fb.Loader("data/train/", columns=["label", "id"], batch_size=64)
    >>> for x, y in fb.tf.batches(train, x="id", y="label"):
    ...     print(x.shape, y.shape, train.state_dict()["row"])
    (64,) (64,) 64
    (64,) (64,) 128
    (64,) (64,) 192
    (64,) (64,) 0
    """
    check_loader(train)
    if x is None and y is not None:
        raise InvalidError("y was given without x (say which columns are the input)")

    def convert(batch: Mapping[str, Any]) -> Any:
        return tf.nest.map_structure(_leaf, _element(_Made(batch, _tensor), x, y))

    return Batches(train, convert)


def dataset(train: Loader, *, x: Any = None, y: Any = None, output_signature: Any = None) -> Any:
    """A ``tf.data.Dataset`` of one epoch; iterating over it again reads the next epoch.

    An element is a dict of tensors, or ``(x, y)`` if ``x`` says which columns are the input. Lists of
    differing lengths are ragged tensors, text and bytes are strings, times are ``int64`` in the column's
    unit.

    TensorFlow calls Python once for each batch, and shares the batch's memory if its alignment permits. The
    loader's state counts the batches that TensorFlow took, which may be a few more than the model received.
    :func:`batches` counts exactly.

    Under ``tf.distribute`` with several workers, each worker passes the data set of a loader with its own
    shard. A strategy does not divide this data set again: each worker gets the batches of its loader, which
    its replicas share. A loader without a shard, or with the shard of another worker, raises an error there.

    Parameters
    ----------
    train : Loader
        The loader.
    x : str, list or dict, optional
        Input columns: a name, or a list or dict of names. Default: an element is a dict of all columns.
    y : str, list or dict, optional
        Target columns, in the same forms as ``x``. Default: no target.
    output_signature : tf.TypeSpec or a structure of them, optional
        Types and shapes of an element. Default: the types of the loader's schema; the argument is needed if
        the loader has a transform.

    Returns
    -------
    tf.data.Dataset
        One epoch of ``len(train)`` elements.

    Raises
    ------
    InvalidError
        ``train`` is not a :class:`forebay.Loader`, ``y`` is given without ``x``, or ``output_signature`` is
        missing.
    UnknownColumnError
        ``x`` or ``y`` names no column.
    UnsupportedError
        A column has a type that TensorFlow does not have, or is a structure (leave it out with ``columns=``).

    Examples
    --------
    >>> import forebay as fb
    >>> train = fb.Loader("data/train/", columns=["label", "id"], batch_size=64)
    >>> fb.tf.dataset(train).element_spec["label"].dtype
    tf.int64
    """
    check_loader(train)
    if x is None and y is not None:
        raise InvalidError("y was given without x (say which columns are the input)")
    if output_signature is None:
        if train._functions is not None:
            raise InvalidError("the columns that a transform makes are unknown (pass output_signature=...)")
        layout = {name: column for name, *column in train.schema.layout()}
        output_signature = _element(_Made(layout, lambda name, column: _spec(name, *column)), x, y)

    def convert(batch: Mapping[str, Any]) -> Any:
        return _element(_Made(batch, _value), x, y)

    batches: Batches[Any] = Batches(train, convert)
    known = weakref.ref(batches)

    def generate() -> Iterator[Any]:
        found = known()
        if found is None:
            raise ClosedError("the tf.data.Dataset of this iterator is gone (keep it while you iterate)")
        return iter(found)

    made = tf.data.Dataset.from_generator(generate, output_signature=output_signature)
    # TensorFlow never frees `generate`, so that function has no reference to the loader. The data set keeps
    # the loader alive, and so do all data sets that are made from it.
    return tf_distribute.marked(made, batches)


class _Made(Mapping[str, Any]):
    """A mapping from names to columns that converts a column when it is accessed."""

    def __init__(self, columns: Mapping[str, Any], make: Callable[[str, Any], Any]) -> None:
        self._columns = columns
        self._make = make

    def __getitem__(self, name: str) -> Any:
        return self._make(name, self._columns[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)


def _element(batch: _Made, x: Any, y: Any) -> Any:
    if x is None:
        return dict(batch)
    # A list becomes a tuple, because TensorFlow would stack the members of a list.
    x, y = (tuple(what) if isinstance(what, list) else what for what in (x, y))
    return pick(batch, x) if y is None else (pick(batch, x), pick(batch, y))


def _tensor(name: str, value: Any) -> Any:
    """Converts a column to a tensor, and a structure to a dict of tensors."""
    if isinstance(value, dict):
        return {field: _tensor(f"{name}.{field}", values) for field, values in value.items()}
    return _leaf(_value(name, value), name)


def _leaf(value: Any, name: str | None = None) -> Any:
    """Converts a value to a tensor, if it is not one already. ``name`` is the column's name for errors; a
    value that a function in ``x`` or ``y`` returned has none."""
    if isinstance(value, tf.RaggedTensor):
        return value
    try:
        return _shared(value) if _can_be_shared(value) else tf.convert_to_tensor(value)
    except (TypeError, ValueError) as error:
        if name is None:
            raise
        raise _unsupported(name, error) from error


def _can_be_shared(value: Any) -> bool:
    """Whether TensorFlow can share the memory of an array. This must be checked, because TensorFlow aborts
    the process if shared memory is not aligned."""
    return (
        isinstance(value, np.ndarray)
        and value.dtype.kind in "biufc"
        and value.dtype.isnative
        and value.flags.c_contiguous
        and value.flags.writeable
        and value.__array_interface__["data"][0] % ALIGNMENT == 0
        and _is_on_host()
    )


def _shared(value: Any) -> Any:
    """Makes a tensor over the memory of an array; the tensor keeps the array alive."""
    return tf.experimental.dlpack.from_dlpack(value.__dlpack__())


@cache
def _is_on_host() -> bool:
    """Whether TensorFlow makes tensors in host memory, which it does only without a GPU."""
    return not tf.config.list_logical_devices("GPU")


def _value(name: str, value: Any) -> Any:
    if isinstance(value, Ragged):
        if not isinstance(value.values, np.ndarray):
            raise _unsupported(name)
        items = _leaf(_value(name, value.values), name)
        try:
            return tf.RaggedTensor.from_row_splits(items, _leaf(value.offsets), validate=False)
        except (TypeError, ValueError) as error:
            raise _unsupported(name, error) from error
    if isinstance(value, np.ndarray) and value.dtype.kind in "mM":
        return value.view(np.int64)
    if isinstance(value, np.ndarray) and value.dtype.kind == "T":
        return value.astype(object)
    return value


def _unsupported(name: str, cause: Exception | None = None) -> UnsupportedError:
    said = "" if cause is None else f": {cause}"
    return UnsupportedError(f"column {name!r} has no TensorFlow type{said} (leave it out with columns=)", column=name)


def _spec(name: str, kind: str, element: str | None, shape: tuple[int | None, ...]) -> Any:
    if kind in ("text", "bytes"):
        return tf.TensorSpec((None,), tf.string)
    if element is None:
        raise _unsupported(name)
    if element == "bfloat16":
        dtype = tf.bfloat16
    elif element[1] in "mM":
        dtype = tf.int64
    else:
        dtype = tf.as_dtype(np.dtype(element))
    if kind == "ragged":
        return tf.RaggedTensorSpec((None, None), dtype, row_splits_dtype=tf.int64)
    return tf.TensorSpec((None, *shape), dtype)
