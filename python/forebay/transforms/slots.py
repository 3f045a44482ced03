"""Memory that two processes share, and values in it: arrays as they are, all else pickled beside them.

A slot is an anonymous file, known to nobody but the two processes by its descriptor: nothing is left of it when they
are gone, however they end. Either side may enlarge it.
"""

from __future__ import annotations

import io
import mmap
import os
import pickle
import sys
import tempfile
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .rows import is_tensor

__all__: list[str] = []

#: Arrays begin at multiples of this, a line of the processor's cache.
ALIGNMENT = 64

#: Arrays of fewer bytes are pickled: sharing them costs more.
MIN_SHARED = 512

#: What is pickled goes into the slot as well from so many bytes on: a pipe holds little, and who writes more waits.
MIN_SHARED_PICKLE = 16 << 10

#: A slot that is too small becomes larger than asked for by one part in so many, as the next batch may be larger still.
#: Memory that is not used is not taken.
HEADROOM = 4


class Span(NamedTuple):
    """Where the bytes of an array are in a slot."""

    offset: int
    length: int
    readonly: bool


class Packed(NamedTuple):
    """A value that was put into a slot."""

    pickled: bytes | Span
    spans: list[Span]
    size: int
    """Bytes of the slot's file."""


class Slot:
    """Shared memory of a size that grows as needed."""

    def __init__(self, number: int, descriptor: int) -> None:
        self.number = number
        self.descriptor = descriptor
        self._map: mmap.mmap | None = None
        # Where arrays begin that were made in the slot, by their address.
        self._made: dict[int, Span] = {}
        self._used = 0

    @classmethod
    def new(cls, number: int) -> Slot:
        """An empty one."""
        if hasattr(os, "memfd_create"):
            return cls(number, os.memfd_create("forebay-slot", os.MFD_CLOEXEC))
        with tempfile.TemporaryFile() as file:
            return cls(number, os.dup(file.fileno()))

    def close(self) -> None:
        """Gives the memory back as soon as no array is in it."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
        self.descriptor, self._map = -1, None
        self._made = {}

    def clear(self) -> None:
        """Forgets what is in it."""
        self._made, self._used = {}, 0

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """A new array in the slot."""
        length = int(np.dtype(dtype).itemsize * np.prod(shape, dtype=np.int64))
        if length < MIN_SHARED:
            return np.empty(shape, dtype)
        offset = self._take(length)
        array = np.ndarray(shape, dtype, buffer=self._bytes(), offset=offset)
        self._made[array.__array_interface__["data"][0]] = Span(offset, length, False)
        return array

    def pack(self, value: Any) -> Packed:
        """Copies a value into the slot; what was made in it is not copied."""
        spans: list[Span] = []

        def share(buffer: pickle.PickleBuffer) -> bool:
            """Whether the bytes are pickled with the rest."""
            content = np.frombuffer(buffer.raw(), np.uint8)
            if content.nbytes < MIN_SHARED:
                return True
            made = self._made.get(content.__array_interface__["data"][0])
            if made is not None and made.length == content.nbytes:
                spans.append(made)
                return False
            spans.append(self._copied(content))
            return False

        file = io.BytesIO()
        _Pickler(file, share).dump(value)
        pickled: bytes | Span = file.getvalue()
        if isinstance(pickled, bytes) and len(pickled) >= MIN_SHARED_PICKLE:
            pickled = self._copied(np.frombuffer(pickled, np.uint8))
        return Packed(pickled, spans, 0 if self._map is None else len(self._map))

    def unpack(self, packed: Packed) -> tuple[Any, Callable[[], object]]:
        """The value, whose arrays are views of the slot; and whether one of them still is, as a weak reference."""
        pickled, spans, _ = packed
        if isinstance(pickled, bytes) and not spans:
            return pickle.loads(pickled), lambda: None
        if self._map is None or len(self._map) < packed.size:
            self._map = mmap.mmap(self.descriptor, packed.size)
        lease = self._bytes()
        whole = memoryview(lease)
        buffers = [whole[offset : offset + length] for offset, length, _ in spans]
        buffers = [view.toreadonly() if span.readonly else view for view, span in zip(buffers, spans, strict=True)]
        if isinstance(pickled, Span):
            return pickle.loads(whole[pickled.offset : pickled.offset + pickled.length], buffers=buffers), weakref.ref(
                lease
            )
        return pickle.loads(pickled, buffers=buffers), weakref.ref(lease)

    def _copied(self, content: Any) -> Span:
        offset = self._take(content.nbytes)
        np.copyto(self._bytes()[offset : offset + content.nbytes], content)
        return Span(offset, content.nbytes, not content.flags.writeable)

    def _bytes(self) -> Any:
        """All bytes as a new array, which lives as long as anything that views it."""
        assert self._map is not None
        return np.frombuffer(self._map, np.uint8)

    def _take(self, length: int) -> int:
        offset = -(-self._used // ALIGNMENT) * ALIGNMENT
        self._used = offset + length
        if self._map is None or len(self._map) < self._used:
            page = mmap.PAGESIZE
            size = -(-(self._used + self._used // HEADROOM) // page) * page
            size = max(size, os.fstat(self.descriptor).st_size)
            os.ftruncate(self.descriptor, size)
            # Arrays in the smaller mapping stay valid: it is the same memory.
            self._map = mmap.mmap(self.descriptor, size)
        return offset


class _Pickler(pickle.Pickler):
    """Pickles arrays by their memory where that can be shared."""

    def __init__(self, file: io.BytesIO, share: Callable[[pickle.PickleBuffer], bool]) -> None:
        super().__init__(file, protocol=5, buffer_callback=share)

    def reducer_override(self, value: Any) -> Any:
        if type(value) is np.ndarray:
            if value.dtype.hasobject or value.flags.c_contiguous or value.flags.f_contiguous:
                return NotImplemented
            return np.ascontiguousarray(value).__reduce_ex__(5)
        if is_tensor(value) and type(value) is sys.modules["torch"].Tensor:
            try:
                return _tensor, (value.numpy(),)
            except (TypeError, RuntimeError):
                return NotImplemented
        return NotImplemented


def _tensor(array: Any) -> Any:
    import torch

    return torch.from_numpy(array)
