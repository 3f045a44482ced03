"""Uploads to a simulated device. Each slot of host memory is registered with it once, and it copies late, so that
a slot that is written again too early shows."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import subprocess
import sys
import textwrap
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from conftest import PATIENCE, until

import forebay as fb
from forebay.adapters import Batches

torch = pytest.importorskip("torch")
upload = pytest.importorskip("forebay.torch.upload")

#: An epoch is eight batches of 1.6 MB.
SIDE, BATCH, EPOCHS = 128, 32, 6
IMAGE = fb.Image.resize(SIDE, SIDE)


def loader(folder: Path, **more: Any) -> fb.Loader:
    return fb.Loader(folder, decode={"image": IMAGE}, batch_size=BATCH, shuffle=fb.Shuffle(seed=3), **more)


class Recorder:
    """A driver that records what is registered, and refuses what a real one would refuse."""

    def __init__(self, works: bool = True) -> None:
        self.works = works
        self.registered: dict[int, int] = {}
        self.log: list[tuple[str, int]] = []
        self.faults: list[str] = []
        self.lane: LateLane | None = None
        self._lock = threading.Lock()

    def register(self, address: int, size: int) -> bool:
        with self._lock:
            self.log.append(("register", address))
            if any(address < at + bytes and at < address + size for at, bytes in self.registered.items()):
                self.faults.append(f"{address:#x} overlaps")
            if address % 4096 or size % 4096:
                self.faults.append(f"{address:#x} of {size} bytes are not whole pages")
            if self.works:
                self.registered[address] = size
            return self.works

    def unregister(self, address: int) -> None:
        with self._lock:
            self.log.append(("unregister", address))
            size = self.registered.pop(address, None)
            if size is None:
                self.faults.append(f"{address:#x} is not registered")
            elif self.lane is not None and self.lane.copies_from(address, size):
                self.faults.append(f"{address:#x} is being copied")

    def count(self, what: str) -> int:
        return sum(entry[0] == what for entry in self.log)


class LateEvent:
    """An event whose copies happen after its lane has answered ``queries`` queries about any of its events."""

    def __init__(self, copies: list[tuple[Any, Any]], lane: LateLane) -> None:
        self.copies = copies
        self._lane = lane
        self._due = lane.asked + lane.queries

    def query(self) -> bool:
        self._lane.asked += 1
        if self._lane.asked > self._due:
            self.synchronize()
        return not self.copies

    def synchronize(self) -> None:
        for source, target in self.copies:
            target.copy_(torch.frombuffer((CHARS * source[1]).from_address(source[0]), dtype=torch.uint8))
        self.copies.clear()


CHARS = ctypes.c_char


class LateLane:
    """A stream whose copies happen late: after its events have answered ``queries`` more queries. It does not
    keep the source memory alive."""

    def __init__(self, queries: int = 0) -> None:
        self.queries = queries
        self.asked = 0
        self.staged_bytes = 0
        self.direct_bytes = 0
        self.events: list[LateEvent] = []
        self._begun: list[tuple[Any, Any]] = []
        self._staged: list[Any] = []

    def run(self, function: Callable[[], Any]) -> Any:
        return function()

    def copy(self, tensor: Any) -> Any:
        if any(tensor is staged for staged in self._staged):
            return tensor.clone()
        self.direct_bytes += tensor.nbytes
        target = torch.zeros(tensor.shape, dtype=tensor.dtype)
        self._begun.append(((tensor.data_ptr(), tensor.nbytes), target.view(-1).view(torch.uint8)))
        return target

    def staged(self, tensor: Any) -> Any:
        self.staged_bytes += tensor.nbytes
        self._staged = [tensor.clone()]
        return self._staged[0]

    def event(self) -> LateEvent:
        event = LateEvent(self._begun, self)
        self._begun = []
        self.events.append(event)
        return event

    def wait(self, event: LateEvent, tensors: list[Any]) -> None:
        pass

    def copies_from(self, address: int, size: int) -> bool:
        begun = [copy for event in self.events for copy in event.copies] + self._begun
        return any(address <= source[0] < address + size for source, _ in begun)


def uploads(
    train: fb.Loader, lane: LateLane, registrar: Recorder, ahead: int = 1, form: Any = None
) -> tuple[Any, Batches[Any]]:
    registrar.lane = lane
    begun = upload.Upload(train, form or fb.torch._Form.of(train, None, False), lane, registrar)
    return begun, Batches(train, begun.start, ahead=ahead, finish=begun.finish)


def settle() -> None:
    """Frees Python objects that threads of Rust have dropped, which happens at the next call into Rust."""
    gc.collect()
    fb.Image.resize(8, 8)


def settles(holds: Callable[[], object]) -> bool:
    """Returns whether a condition holds once the threads of Rust have dropped their objects."""

    def look() -> object:
        settle()
        return holds()

    return until(look)


@pytest.mark.parametrize(("queries", "ahead"), [(0, 0), (1, 1), (15, 3)])
def test_slots_are_registered_once_and_never_written_while_they_are_copied(photos: Path, queries: int, ahead: int) -> None:
    lane, registrar = LateLane(queries), Recorder()
    with loader(photos) as train, loader(photos) as again:
        begun, batches = uploads(train, lane, registrar, ahead)
        delivered = [batch for _ in range(EPOCHS) for batch in batches]
        expected = [batch for _ in range(EPOCHS) for batch in again]
        for event in lane.events:
            event.synchronize()
        for batch, one in zip(delivered, expected, strict=True):
            np.testing.assert_array_equal(batch["image"].numpy(), one["image"])
            np.testing.assert_array_equal(batch["label"].numpy(), one["label"])
        assert registrar.faults == []
        # A slot cannot be reused while its copy is pending, so several slots may be registered.
        assert 1 <= registrar.count("register") < len(delivered)
        assert lane.direct_bytes == len(delivered) * BATCH * SIDE * SIDE * 3
        assert lane.staged_bytes == len(delivered) * BATCH * 16, "the columns of numbers"
    del begun, batches, train
    assert settles(lambda: not registrar.registered) and registrar.faults == []
    assert registrar.count("unregister") == registrar.count("register")


def test_an_epoch_that_is_left_waits_for_its_copies_before_slots_go(photos: Path) -> None:
    lane, registrar = LateLane(queries=1_000), Recorder()
    with loader(photos) as train:
        begun, batches = uploads(train, lane, registrar)
        for _ in batches:
            break
        assert any(event.copies for event in lane.events)
    del begun, batches, train
    assert settles(lambda: not registrar.registered) and registrar.faults == []
    assert not any(event.copies for event in lane.events)


def test_an_exception_between_the_copies_of_a_batch_keeps_their_memory_until_they_are_done(photos: Path) -> None:
    lane, registrar = LateLane(queries=2), Recorder()
    with loader(photos) as train:
        tensors = fb.torch._Form.of(train, None, False)

        def form(batch: Any, move: Any) -> Any:
            tensors(batch, move)
            raise ValueError("no")

        begun, batches = uploads(train, lane, registrar, form=form)
        with pytest.raises(ValueError, match="no"):
            list(batches)
        assert len(lane.events) == 1 and lane.events[0].copies
        # Each later batch calls `_release`. Its third call finds that the copies are done.
        assert [begun._release() for _ in range(3)] and not begun._copying
        assert not lane.events[0].copies
    del begun, batches, train
    assert settles(lambda: not registrar.registered) and registrar.faults == []


def test_what_cannot_be_registered_is_copied_once_more_and_tried_once(photos: Path) -> None:
    lane, registrar = LateLane(), Recorder(works=False)
    with loader(photos) as train, loader(photos) as again:
        _, batches = uploads(train, lane, registrar)
        for _ in range(2):
            for batch, expected in zip(batches, again, strict=True):
                np.testing.assert_array_equal(batch["image"].numpy(), expected["image"])
        addresses = [address for _, address in registrar.log]
        assert len(addresses) == len(set(addresses)) >= 1
        assert lane.direct_bytes == 0
    settle()
    assert registrar.count("unregister") == 0


def test_a_batch_that_outlives_its_loader_keeps_its_registration(photos: Path) -> None:
    registrar = Recorder()
    with loader(photos) as train:
        kept = next(iter(train))["image"]
        assert train._native.is_pinned(kept.ctypes.data, registrar)
        assert not train._native.is_pinned(np.zeros(2_000_000, np.uint8).ctypes.data, registrar)
    del train
    assert settles(lambda: len(registrar.registered) == 1)
    del kept
    assert settles(lambda: not registrar.registered) and registrar.faults == []


def test_slots_of_a_mix_and_of_several_loaders_never_overlap(photos: Path) -> None:
    lane, registrar = LateLane(1), Recorder()
    source = fb.Loader(photos, decode={"image": IMAGE})
    with fb.Mix([(source, 0.5), (source, 0.5)], batch_size=BATCH) as mix, loader(photos) as train:
        _, mixed = uploads(mix, lane, registrar)
        _, plain = uploads(train, lane, registrar)
        for batch, _ in zip(mixed, plain, strict=False):
            assert batch["image"].shape == (BATCH, SIDE, SIDE, 3)
    assert registrar.faults == []


class Runtime:
    """A CUDA runtime that registers nothing."""

    def __init__(self, code: int) -> None:
        self.code = code
        self.asked: list[tuple[int, ...]] = []

    def cudaHostRegister(self, *asked: int) -> int:
        self.asked.append(asked)
        return self.code

    def cudaHostUnregister(self, *asked: int) -> int:
        self.asked.append(asked)
        return self.code


@pytest.mark.parametrize("stale", [True, False])
def test_a_refusal_of_the_runtime_is_cleared_and_said_once(monkeypatch: pytest.MonkeyPatch, stale: bool) -> None:
    runtime, device, cleared = Runtime(code=2), SimpleNamespace(), []

    def zeros(*_: Any, device: Any = None) -> None:
        cleared.append(device)
        if stale:
            raise RuntimeError("CUDA error: out of memory\nwith many more lines")

    monkeypatch.setattr(torch, "zeros", zeros)
    monkeypatch.setattr(torch.cuda, "cudart", lambda: runtime)
    monkeypatch.setattr(torch.cuda, "device", lambda _: contextlib.nullcontext())
    registrar = upload.CudaRegistrar(device)
    cause = "CUDA error: out of memory" if stale else "error 2 of cudaHostRegister"
    with pytest.warns(RuntimeWarning, match=rf"cannot be registered .* once more on the host: {cause} \(raise"):
        assert registrar.register(4096, 8192) is False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert registrar.register(16384, 8192) is False
    assert runtime.asked == [(4096, 8192, 1), (16384, 8192, 1)] and cleared == [device, device]
    with pytest.raises(RuntimeError, match="error 2 of cudaHostUnregister"):
        registrar.unregister(4096)
    runtime.code = 0
    assert registrar.register(4096, 8192) is True and len(cleared) == 2
    registrar.unregister(4096)


def test_the_end_of_the_interpreter_leaves_registered_slots_alone(photos: Path) -> None:
    script = f"""
        import sys
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        import forebay as fb
        from test_torch_upload import LateLane, Recorder, loader, uploads
        train = loader({str(photos)!r})
        registrar, lane = Recorder(), LateLane(1_000)
        begun, batches = uploads(train, lane, registrar)
        epoch = iter(batches)
        kept = next(epoch), next(iter(loader({str(photos)!r})))
        assert registrar.registered
        print("done")
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "done\n", "")


@pytest.mark.skipif(torch.cuda.is_available(), reason="a CUDA device")
@pytest.mark.parametrize("device", ["cuda", "cuda:0", torch.device("cuda")])
def test_a_device_that_there_is_not_is_refused_at_once(photos: Path, device: str | torch.device) -> None:
    with fb.Loader(photos, columns=["label"]) as train, pytest.raises(fb.InvalidError, match="torch finds no CUDA device"):
        fb.torch.batches(train, device=device)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_cuda_device_copies_from_the_slots_themselves(photos: Path) -> None:
    class Counting(upload.CudaLane):  # type: ignore[misc]
        staged_bytes = 0

        def staged(self, tensor: Any) -> Any:
            Counting.staged_bytes += tensor.nbytes
            return super().staged(tensor)

        def copy(self, tensor: Any) -> Any:
            assert tensor.is_pinned()
            return super().copy(tensor)

    device = torch.device("cuda")
    with loader(photos) as train, loader(photos) as again:
        begun = upload.Upload(
            train, fb.torch._Form.of(train, None, False), Counting(device), upload.CudaRegistrar(device)
        )
        batches = Batches(train, begun.start, ahead=2, finish=begun.finish)
        for _ in range(5):
            for batch, expected in zip(batches, again, strict=True):
                np.testing.assert_array_equal(batch["image"].cpu().numpy(), expected["image"])
        assert Counting.staged_bytes == 5 * 256 * 16, "the columns of numbers alone"
