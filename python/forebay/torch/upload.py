"""Copies batches to a CUDA device during the training step, from the memory in which they were made.

A device copies asynchronously only from memory that is registered with its runtime. The loader makes the
images and tensors of its batches in the same few slots, so each slot is registered when it is first copied
from, and batches are copied directly from the slots. A column outside of the slots, such as a column of
numbers, is copied through pinned memory of torch.

A slot may be written again as soon as its batch is dropped, so this module keeps a batch until the device has
copied it.
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

#: The smallest tensor, in bytes, for which the loader is asked whether it is in a slot: a smaller one is
#: copied faster.
MIN_ASKED_BYTES = 4096

#: The flag cudaHostRegisterPortable: memory is registered for all devices of the process.
PORTABLE = 1


class Event(Protocol):
    """The end of all work that was queued on a stream so far, such as a ``torch.cuda.Event``."""

    def query(self) -> bool:
        """Whether the device has reached the event."""

    def synchronize(self) -> None:
        """Waits until the device has reached the event."""


class Lane(Protocol):
    """A stream of copies to a device."""

    def run(self, function: Callable[[], Any]) -> Any:
        """Calls the function with this stream as the current one, and returns its result."""

    def copy(self, tensor: torch.Tensor) -> torch.Tensor:
        """Begins to copy a tensor to the device, and returns the tensor there. The source must stay unchanged
        until the copy is done."""

    def staged(self, tensor: torch.Tensor) -> torch.Tensor:
        """A copy of the tensor in pinned memory, which is kept until the device has copied it."""

    def event(self) -> Event:
        """An event after all work that was queued so far."""

    def wait(self, event: Event, tensors: list[torch.Tensor]) -> None:
        """Makes the training step wait for an event on the device, and keeps the memory of the tensors until
        the step is done."""


class Started(NamedTuple):
    """A batch whose copy has begun."""

    batch: dict[str, Any]
    moved: list[torch.Tensor]
    done: Event


class CudaRegistrar:
    """Registers memory with the CUDA runtime that torch has loaded."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._warned = False

    def register(self, address: int, size: int) -> bool:
        """Registers whole pages, and returns whether this was possible. The first failure is shown as a
        warning."""
        runtime = torch.cuda.cudart()
        with torch.cuda.device(self._device):
            code = int(runtime.cudaHostRegister(address, size, PORTABLE))
        if code == 0:
            return True
        try:
            # The runtime keeps the error code, and would report it at the next kernel launch.
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
        """Ends the registration of the pages that begin at ``address``."""
        code = int(torch.cuda.cudart().cudaHostUnregister(address))
        if code != 0:
            raise RuntimeError(f"error {code} of cudaHostUnregister")


class CudaLane:
    """A stream of a CUDA device."""

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
        """A copy in pinned memory, which torch reuses when the device has copied it."""
        return tensor.pin_memory()

    def event(self) -> Event:
        """An event after all work that was queued so far."""
        event: Event = self._stream.record_event()
        return event

    def wait(self, event: Any, tensors: list[torch.Tensor]) -> None:
        """Makes the stream of the training step wait for an event."""
        consumer = torch.cuda.current_stream(self._device)
        consumer.wait_event(event)
        for tensor in tensors:
            tensor.record_stream(consumer)


class Sources:
    """Tensors from which a device copies. Dropping this object waits until the copies are done."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._done: Event | None = None
        self.tensors: list[torch.Tensor] = []

    def begun(self, done: Event) -> None:
        """Notes the event after the last of these copies."""
        self._done = done

    def are_copied(self) -> bool:
        """Whether all copies are done."""
        return self._done is not None and self._done.query()

    def __del__(self) -> None:
        if not self.tensors:
            return
        try:
            # After an exception between the copies and their event, a new event covers them.
            (self._done or self._lane.event()).synchronize()
        except BaseException:
            # The device may still be copying, so the memory is never freed.
            LOST.append(self.tensors)
            raise


#: Sources of copies whose end is unknown.
LOST: list[list[torch.Tensor]] = []


class Upload:
    """The two halves of a copy to a device, as :class:`forebay.adapters.Batches` asks for them.

    Parameters
    ----------
    train : Loader
        The loader of the batches.
    form : callable
        Takes a batch and a function of one tensor, and returns a dict of the function's results for each
        tensor.
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
        #: The sources of batches that the device may still be copying.
        self._copying: deque[Sources] = deque()

    def start(self, batch: Mapping[str, Any]) -> Started:
        """Begins to copy a batch."""
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
                # The event is needed after an exception too, because copies may have begun before it.
                done = self._lane.event()
                sources.begun(done)
            # A conversion on the device makes new tensors, which have to be kept too.
            values = (value for value in uploaded.values() if isinstance(value, torch.Tensor))
            moved.extend(value for value in values if not value.is_nested)
            return Started(uploaded, moved, done)

        started: Started = self._lane.run(run)
        return started

    def finish(self, started: Started) -> dict[str, Any]:
        """Makes the training step wait for the copy, on the device."""
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
