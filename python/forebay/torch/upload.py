"""Copies batches to a CUDA device during the training step, from the memory in which they were made.

A device copies asynchronously only from memory that is registered with its runtime. The loader decodes the
images and tensors of its batches into the same few pieces of memory, the slots. Each slot is registered when
it is first copied from, and batches are copied directly from the slots. A column outside of the slots, such
as a column of numbers, is copied through pinned memory of torch.

The loader may write to a slot again as soon as its batch is dropped, so this module keeps a batch until the
device has copied it.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import torch

if TYPE_CHECKING:
    from .._forebay import Registrar
    from ..loader import Loader

__all__: list[str] = []

#: The smallest size in bytes of a tensor for which the loader is asked whether it is in a slot. Copying a
#: smaller tensor through pinned memory is faster than asking.
MIN_ASKED_BYTES = 4096

#: The flag cudaHostRegisterPortable: memory is registered for all devices of the process.
PORTABLE = 1


class Event(Protocol):
    """A mark in a stream of the device, behind all work queued so far, such as a ``torch.cuda.Event``."""

    def query(self) -> bool:
        """Whether the device has reached the event."""

    def synchronize(self) -> None:
        """Waits until the device has reached the event."""


class Lane(Protocol):
    """A stream on which tensors are copied to a device. It is a protocol, so that tests need no device."""

    def run(self, function: Callable[[], Any]) -> Any:
        """Calls the function with this stream as the current one, and returns its result."""

    def copy(self, tensor: torch.Tensor) -> torch.Tensor:
        """Begins to copy a tensor to the device, and returns the tensor there. The source must stay unchanged
        until the copy is done."""

    def staged(self, tensor: torch.Tensor) -> torch.Tensor:
        """Returns a copy of the tensor in pinned memory, which is kept until the device has copied it."""

    def event(self) -> Event:
        """Returns an event behind all work that was queued on the stream so far."""

    def wait(self, event: Event, tensors: list[torch.Tensor]) -> None:
        """Makes the device wait for an event before it runs the training step, and keeps the memory of the
        tensors until the step is done."""


class Started(NamedTuple):
    """A batch whose copy to the device has begun: the batch on the device, all its tensors on the device, and
    the event behind the copies."""

    batch: dict[str, Any]
    moved: list[torch.Tensor]
    done: Event


class CudaRegistrar:
    """Registers memory with the CUDA runtime that torch has loaded."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._warned = False

    def register(self, address: int, size: int) -> bool:
        """Registers memory, which must be whole pages, and returns whether it was possible. The first failure
        gives a warning."""
        runtime = torch.cuda.cudart()
        with torch.cuda.device(self._device):
            code = int(runtime.cudaHostRegister(address, size, PORTABLE))
        if code == 0:
            return True
        try:
            # The runtime keeps the error code, and reports it at the next kernel launch. `torch.zeros`
            # launches a kernel here, so that the error is not reported at a launch of the user.
            torch.zeros(1, device=self._device)
        except RuntimeError as error:
            cause = str(error).partition("\n")[0]
        else:
            cause = f"error {code} of cudaHostRegister"
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"{size} bytes of a loader cannot be registered with {self._device}, so that each batch is copied once "
                f"more on the host: {cause} (raise the limit of locked memory, or pass a smaller memory= to "
                "forebay.Loader)",
                RuntimeWarning,
                stacklevel=2,
            )
        return False

    def unregister(self, address: int) -> None:
        """Ends the registration of the memory that begins at ``address``."""
        code = int(torch.cuda.cudart().cudaHostUnregister(address))
        if code != 0:
            raise RuntimeError(f"error {code} of cudaHostUnregister")


class CudaLane:
    """The :class:`Lane` of a CUDA device, with a stream of its own."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)

    def run(self, function: Callable[[], Any]) -> Any:
        """Calls the function with this stream as the current one."""
        with torch.cuda.stream(self._stream):
            return function()

    def copy(self, tensor: torch.Tensor) -> torch.Tensor:
        """Begins to copy a tensor to the device."""
        return tensor.to(self._device, non_blocking=True)

    def staged(self, tensor: torch.Tensor) -> torch.Tensor:
        """Copies a tensor to pinned memory, which torch reuses after the device has copied it."""
        return tensor.pin_memory()

    def event(self) -> Event:
        """Returns an event behind all work that was queued on the stream so far."""
        event: Event = self._stream.record_event()
        return event

    def wait(self, event: Any, tensors: list[torch.Tensor]) -> None:
        """Makes the stream of the training step wait for an event, and keeps the memory of the tensors."""
        consumer = torch.cuda.current_stream(self._device)
        consumer.wait_event(event)
        for tensor in tensors:
            tensor.record_stream(consumer)


class Sources:
    """The tensors of a batch from which a device copies. Dropping this object waits until the copies are
    done."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._done: Event | None = None
        self.tensors: list[torch.Tensor] = []

    def begun(self, done: Event) -> None:
        """Notes the event behind the last copy from these tensors."""
        self._done = done

    def are_copied(self) -> bool:
        """Whether all copies are done."""
        return self._done is not None and self._done.query()

    def __del__(self) -> None:
        if not self.tensors:
            return
        try:
            # If an exception came before `_done` was set, a new event is made, which is behind all copies.
            (self._done or self._lane.event()).synchronize()
        except BaseException:
            # The device may still be copying, so the memory is never freed.
            LOST.append(self.tensors)
            raise


#: Tensors that are kept for ever, because the device may still be copying from them.
LOST: list[list[torch.Tensor]] = []


class Upload:
    """Copies batches to a device in two halves: :meth:`start` is the ``convert`` and :meth:`finish` the
    ``finish`` of :class:`forebay.adapters.Batches`.

    Parameters
    ----------
    train : Loader
        The loader of the batches.
    form : callable
        Takes a batch and a function that moves one tensor, and returns a dict of the moved tensors.
    lane : Lane
        The stream of the copies.
    registrar : Registrar
        Registers the loader's slots with the device.
    """

    def __init__(
        self,
        train: Loader,
        form: Callable[[Mapping[str, Any], Callable[[torch.Tensor], torch.Tensor]], dict[str, Any]],
        lane: Lane,
        registrar: Registrar,
    ) -> None:
        self._train = train
        self._form = form
        self._lane = lane
        self._registrar = registrar
        #: The tensors of each batch that the device may still be copying.
        self._copying: deque[Sources] = deque()

    def start(self, batch: Mapping[str, Any]) -> Started:
        """Begins to copy a batch to the device."""
        self._release()
        sources = Sources(self._lane)
        self._copying.append(sources)
        moved: list[torch.Tensor] = []

        def move(tensor: torch.Tensor) -> torch.Tensor:
            if self._is_pinned(tensor):
                sources.tensors.append(tensor)
            elif tensor.device.type == "cpu":
                tensor = self._lane.staged(tensor)
            moved.append(self._lane.copy(tensor))
            return moved[-1]

        def run() -> Started:
            try:
                uploaded = self._form(batch, move)
            finally:
                # Copies may have begun before an exception, so the event is recorded after an exception too.
                done = self._lane.event()
                sources.begun(done)
            # If a conversion on the device made new tensors, their memory must be kept as well.
            values = (value for value in uploaded.values() if isinstance(value, torch.Tensor))
            moved.extend(value for value in values if not value.is_nested)
            return Started(uploaded, moved, done)

        started: Started = self._lane.run(run)
        return started

    def finish(self, started: Started) -> dict[str, Any]:
        """Makes the device wait for the copy before it runs the training step, and returns the batch."""
        self._lane.wait(started.done, started.moved)
        self._release()
        return started.batch

    def _is_pinned(self, tensor: torch.Tensor) -> bool:
        if tensor.nbytes < MIN_ASKED_BYTES or tensor.device.type != "cpu" or not tensor.is_contiguous():
            return False
        return self._train._native.is_pinned(tensor.data_ptr(), self._registrar)

    def _release(self) -> None:
        while self._copying and self._copying[0].are_copied():
            self._copying.popleft().tensors.clear()
