"""Passes values between two processes through shared memory: arrays as they are, and all other objects
pickled.

The memory, called a slot, is an anonymous file for which only the two processes have a descriptor. It
disappears with the processes, however they end. Either process may enlarge it.
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

#: Alignment of arrays in bytes: a cache line of the processor.
ALIGNMENT_BYTES = 64

#: The smallest array, in bytes, that is put into a slot, because pickling a smaller one is cheaper.
MIN_SHARED_BYTES = 512

#: The smallest pickle, in bytes, that is put into a slot. A larger one would not fit the buffer of a pipe,
#: and the process that writes it would wait.
MIN_SHARED_PICKLE_BYTES = 16 << 10

#: A slot that has to grow to ``n`` bytes gets ``n / HEADROOM_DIVISOR`` bytes more, because the next batch may
#: be larger still. Memory that is not used is not allocated.
HEADROOM_DIVISOR = 4


class Span(NamedTuple):
    """The position of an array's bytes in a slot."""

    offset: int
    length: int
    readonly: bool


class Packed(NamedTuple):
    """Describes a value in a slot, for the process that takes it out: its pickle, and the places of its
    arrays."""

    pickled: bytes | Span
    spans: list[Span]
    size: int
    """Size of the slot's file in bytes."""


class Slot:
    """A block of memory that two processes share, and that grows as needed."""

    def __init__(self, number: int, descriptor: int) -> None:
        self.number = number
        self.descriptor = descriptor
        self._map: mmap.mmap | None = None
        # The position in the slot of each array that `empty` made, by the array's address in memory.
        self._made: dict[int, Span] = {}
        self._used = 0

    @classmethod
    def new(cls, number: int) -> Slot:
        """Creates an empty slot."""
        if hasattr(os, "memfd_create"):
            return cls(number, os.memfd_create("forebay-slot", os.MFD_CLOEXEC))
        with tempfile.TemporaryFile() as file:
            return cls(number, os.dup(file.fileno()))

    def close(self) -> None:
        """Frees the memory as soon as no array uses it."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
        self.descriptor, self._map = -1, None
        self._made = {}

    def clear(self) -> None:
        """Forgets all arrays in the slot, so that new arrays may overwrite them."""
        self._made, self._used = {}, 0

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """Makes a new array in the slot, or in ordinary memory if it is small."""
        length = int(np.dtype(dtype).itemsize * np.prod(shape, dtype=np.int64))
        if length < MIN_SHARED_BYTES:
            return np.empty(shape, dtype)
        offset = self._take(length)
        array = np.ndarray(shape, dtype, buffer=self._bytes(), offset=offset)
        self._made[array.__array_interface__["data"][0]] = Span(offset, length, False)
        return array

    def pack(self, value: Any) -> Packed:
        """Puts a value into the slot. Arrays that :meth:`empty` made are there already and are not copied."""
        spans: list[Span] = []

        def share(buffer: pickle.PickleBuffer) -> bool:
            """Whether the bytes of a buffer are pickled with the value instead of put into the slot."""
            content = np.frombuffer(buffer.raw(), np.uint8)
            if content.nbytes < MIN_SHARED_BYTES:
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
        if isinstance(pickled, bytes) and len(pickled) >= MIN_SHARED_PICKLE_BYTES:
            pickled = self._copied(np.frombuffer(pickled, np.uint8))
        return Packed(pickled, spans, 0 if self._map is None else len(self._map))

    def unpack(self, packed: Packed) -> tuple[Any, Callable[[], object]]:
        """Returns the value, whose arrays are views of the slot, and a function that returns ``None`` once
        none of these arrays is alive."""
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
        """All bytes of the slot as a new array, which lives as long as any view of it."""
        assert self._map is not None
        return np.frombuffer(self._map, np.uint8)

    def _take(self, length: int) -> int:
        offset = -(-self._used // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        self._used = offset + length
        if self._map is None or len(self._map) < self._used:
            page = mmap.PAGESIZE
            size = -(-(self._used + self._used // HEADROOM_DIVISOR) // page) * page
            size = max(size, os.fstat(self.descriptor).st_size)
            os.ftruncate(self.descriptor, size)
            # Arrays in the old, smaller mapping stay valid, because it maps the same memory.
            self._map = mmap.mmap(self.descriptor, size)
        return offset


class _Pickler(pickle.Pickler):
    """A pickler that offers the memory of arrays to ``share``, which can keep it out of the pickle."""

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
