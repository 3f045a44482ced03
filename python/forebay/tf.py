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
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .adapters import Batches, check_loader, pick
from .errors import ClosedError, InvalidError, UnsupportedError
from .frameworks import missing
from .ragged import Ragged

try:
    import tensorflow as tf
except ImportError as error:
    raise missing("tf", "TensorFlow", "tensorflow", error) from error

if TYPE_CHECKING:
    from .loader import Loader

__all__ = ["batches", "dataset"]


def batches(train: Loader, *, x: Any = None, y: Any = None) -> Batches[Any]:
    """The loader's batches as tensors, one epoch per iteration, for a training loop of one's own.

    Each batch is one conversion without ``tf.data``, and the loader's state counts those that the training step received:
    a run that is interrupted resumes at the next row.

    Parameters
    ----------
    train : Loader
        The loader.
    x : str, list or dict, optional
        Input columns: a name, or a list or dict of names. Default: a batch is a dict of all columns.
    y : str, list or dict, optional
        Target columns, likewise. Default: no target.

    Returns
    -------
    Batches
        Iterable once per epoch, with ``len(train)`` batches, of the types that :func:`dataset` has.

    Raises
    ------
    InvalidError
        ``train`` is not a :class:`forebay.Loader`, or ``y`` is given without ``x``.

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
        return tf.nest.map_structure(_tensor, _element({name: _value(batch[name]) for name in batch}, x, y))

    return Batches(train, convert)


def dataset(train: Loader, *, x: Any = None, y: Any = None, output_signature: Any = None) -> Any:
    """A ``tf.data.Dataset`` of one epoch; iterating over it again reads the next one.

    An element is a dict of tensors, or ``(x, y)`` if ``x`` says which columns are the input. Lists of differing lengths
    are ragged tensors, text and bytes are strings, times are ``int64`` in the column's unit.

    The loader's state counts what TensorFlow took, which may be a few batches more than the model got. :func:`batches`
    counts exactly.

    Parameters
    ----------
    train : Loader
        The loader.
    x : str, list or dict, optional
        Input columns: a name, or a list or dict of names. Default: an element is a dict of all columns.
    y : str, list or dict, optional
        Target columns, likewise. Default: no target.
    output_signature : tf.TypeSpec or a structure of them, optional
        Types and shapes of an element. Default: from the loader's schema; needed if the loader has a transform.

    Returns
    -------
    tf.data.Dataset
        One epoch of ``len(train)`` elements.

    Raises
    ------
    InvalidError
        ``train`` is not a :class:`forebay.Loader`, ``y`` is given without ``x``, or ``output_signature`` is missing.
    UnsupportedError
        A column has a type that TensorFlow does not have (leave it out with ``columns=``).

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
            raise InvalidError("the columns that a transform makes are not known (pass output_signature=...)")
        output_signature = _element(_signature(train), x, y)

    def convert(batch: Mapping[str, Any]) -> Any:
        return _element({name: _value(batch[name]) for name in batch}, x, y)

    batches: Batches[Any] = Batches(train, convert)
    known = weakref.ref(batches)

    def generate() -> Iterator[Any]:
        found = known()
        if found is None:
            raise ClosedError("the tf.data.Dataset of this iterator is gone (keep it while you iterate)")
        return iter(found)

    made = tf.data.Dataset.from_generator(generate, output_signature=output_signature)
    # TensorFlow never forgets the function. The data set, and those that are made of it, keep the loader instead.
    made._forebay_batches = batches
    return made


def _element(batch: dict[str, Any], x: Any, y: Any) -> Any:
    if x is None:
        return batch
    # TensorFlow would stack the members of a list.
    x, y = (tuple(what) if isinstance(what, list) else what for what in (x, y))
    return pick(batch, x) if y is None else (pick(batch, x), pick(batch, y))


def _tensor(value: Any) -> Any:
    return value if isinstance(value, tf.RaggedTensor) else tf.convert_to_tensor(value)


def _value(value: Any) -> Any:
    if isinstance(value, Ragged):
        return tf.RaggedTensor.from_row_splits(value.values, value.offsets, validate=False)
    if isinstance(value, np.ndarray) and value.dtype.kind in "mM":
        return value.view(np.int64)
    if isinstance(value, np.ndarray) and value.dtype.kind == "T":
        return value.astype(object)
    return value


def _signature(train: Loader) -> dict[str, Any]:
    return {column[0]: _spec(*column) for column in train.schema.layout()}


def _spec(name: str, kind: str, element: str | None, shape: tuple[int | None, ...]) -> Any:
    if kind in ("text", "bytes"):
        return tf.TensorSpec((None,), tf.string)
    if element is None:
        raise UnsupportedError(f"column {name!r} has no TensorFlow type (leave it out with columns=)")
    if element == "bfloat16":
        dtype = tf.bfloat16
    elif element[1] in "mM":
        dtype = tf.int64
    else:
        dtype = tf.as_dtype(np.dtype(element))
    if kind == "ragged":
        return tf.RaggedTensorSpec((None, None), dtype, row_splits_dtype=tf.int64)
    return tf.TensorSpec((None, *shape), dtype)
