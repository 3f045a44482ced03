"""Batches copied to a CUDA device beside the training step, from the memory that they were made in.

A device copies by itself only from memory that is registered with its runtime. The loader makes the images and tensors
of batch after batch in the same slots, so each slot is registered once, when it is first copied from, and the copy of
every batch begins right there. A column that is in no slot, such as one of numbers, goes through memory that torch
keeps for it.

A slot may be written again as soon as nobody has the batch. So a batch is kept here until the device has copied it.
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

#: To ask whether fewer bytes are in a slot takes longer than to copy them.
MIN_ASKED = 4096

#: cudaHostRegisterPortable: for all devices of the process.
PORTABLE = 1


class Event(Protocol):
    """The end of what was given to a stream until now: a ``torch.cuda.Event``."""

    def query(self) -> bool:
        """Whether it has come."""

    def synchronize(self) -> None:
        """Waits for it."""


class Lane(Protocol):
    """A stream of copies to a device."""

    def run(self, function: Callable[[], Any]) -> Any:
        """What the function returns; what it gives to the device goes to this stream."""

    def copy(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor on the device, once the copy is done. Begins the copy; its memory has to stay until then."""

    def staged(self, tensor: torch.Tensor) -> torch.Tensor:
        """A copy of the tensor in memory that the device copies from, and that stays until it has."""

    def event(self) -> Event:
        """The end of what was begun until now."""

    def wait(self, event: Event, tensors: list[torch.Tensor]) -> None:
        """Has the training step wait on the device for an event, and keeps the tensors until the step is done."""


class Started(NamedTuple):
    """A batch whose copy was begun."""

    batch: dict[str, Any]
    moved: list[torch.Tensor]
    done: Event


class CudaRegistrar:
    """Registers memory with the CUDA runtime that torch has loaded."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._warned = False

    def register(self, address: int, size: int) -> bool:
        """Registers whole pages. Whether that was possible; if not, says why, once."""
        runtime = torch.cuda.cudart()
        with torch.cuda.device(self._device):
            code = int(runtime.cudaHostRegister(address, size, PORTABLE))
        if code == 0:
            return True
        try:
            # The runtime keeps the code, and whoever launches a kernel next would get it as an error of that.
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
        """Ends the registration of the pages that begin here."""
        code = int(torch.cuda.cudart().cudaHostUnregister(address))
        if code != 0:
            raise RuntimeError(f"error {code} of cudaHostUnregister")


class CudaLane:
    """A stream of a CUDA device."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)

    def run(self, function: Callable[[], Any]) -> Any:
        """What the function returns."""
        with torch.cuda.stream(self._stream):
            return function()

    def copy(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor on the device."""
        return tensor.to(self._device, non_blocking=True)

    def staged(self, tensor: torch.Tensor) -> torch.Tensor:
        """A copy in pinned memory, which torch takes back when the copy from it is done."""
        return tensor.pin_memory()

    def event(self) -> Event:
        """The end of what was begun until now."""
        event: Event = self._stream.record_event()
        return event

    def wait(self, event: Any, tensors: list[torch.Tensor]) -> None:
        """Has the training step's stream wait for an event."""
        consumer = torch.cuda.current_stream(self._device)
        consumer.wait_event(event)
        for tensor in tensors:
            tensor.record_stream(consumer)


class Sources:
    """Memory that a device copies from. Whoever drops it waits until the copies are done."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._done: Event | None = None
        self.tensors: list[torch.Tensor] = []

    def begun(self, done: Event) -> None:
        """Notes the event after the last copy."""
        self._done = done

    def are_copied(self) -> bool:
        """Whether the device has all of them."""
        return self._done is not None and self._done.query()

    def __del__(self) -> None:
        if not self.tensors:
            return
        try:
            # An exception between the copies and their event leaves copies without one.
            (self._done or self._lane.event()).synchronize()
        except BaseException:
            # Nobody knows whether the device still copies: nobody may write there.
            LOST.append(self.tensors)
            raise


#: Memory of copies whose end is unknown.
LOST: list[list[torch.Tensor]] = []


class Upload:
    """The two halves of a copy to a device, as :class:`forebay.adapters.Batches` asks for them.

    Parameters
    ----------
    train : Loader
        The loader of the batches.
    form : callable
        From a batch, and a function of one of its tensors, to the dict of the tensors that the function returned.
    lane : Lane
        The stream of the copies.
    registrar : Registrar
        By which the loader's slots are registered.
    """

    def __init__(
        self,
        train: Loader,
        form: Callable[[Mapping[str, Any], Callable[[torch.Tensor], torch.Tensor]], dict[str, Any]],
        lane: Lane,
        registrar: Registrar,
    ) -> None:
        self._native = train._native
        self._form = form
        self._lane = lane
        self._registrar = registrar
        #: Of the batches that were begun, those that the device may still copy.
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
                # After an exception too: copies may have begun before it.
                done = self._lane.event()
                sources.begun(done)
            # Those that were converted are others than those that were copied.
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
        if tensor.nbytes < MIN_ASKED or tensor.device.type != "cpu" or not tensor.is_contiguous():
            return False
        return self._native.is_pinned(tensor.data_ptr(), self._registrar)

    def _release(self) -> None:
        while self._copying and self._copying[0].are_copied():
            self._copying.popleft().tensors.clear()
