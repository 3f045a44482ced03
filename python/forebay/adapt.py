"""What the modules for frameworks share: epochs of converted batches, counted when they are handed over."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from .column import Column
from .errors import InvalidError
from .loader import Loader

if TYPE_CHECKING:
    from . import _forebay

__all__ = ["Batches"]

T = TypeVar("T")


class Batches(Generic[T]):
    """A loader's batches in a framework's own type: iterable once per epoch, with a length.

    A framework that copies to a device does so ``ahead`` batches before the training step asks, and has a ``finish``
    for the moment when it does; the loader's state still counts only what the training step got. ``copied`` tells the
    bytes of a converted batch that went to a device, for ``stats()``; without it nothing is copied to one.
    """

    def __init__(
        self,
        loader: Loader,
        convert: Callable[[Any], Any],
        *,
        ahead: int = 0,
        finish: Callable[[Any], T] = lambda converted: converted,
        copied: Callable[[Any], int] | None = None,
    ) -> None:
        self.loader = checked(loader)
        self._convert = convert
        self._finish = finish
        self._ahead = ahead
        self._copied = copied

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[T]:
        """The next epoch."""
        return self._walk(None)

    def epoch(self, number: int) -> Iterator[T]:
        """The epoch with this number."""
        return self._walk(number)

    def _walk(self, number: int | None) -> Iterator[T]:
        epoch = iter(self.loader) if number is None else self.loader.epoch(number)
        native = epoch._native
        waiting: deque[tuple[Any, Any]] = deque()
        failure: Exception | None = None
        more = True
        try:
            while more or waiting:
                native.asks()
                while more and len(waiting) <= self._ahead:
                    try:
                        pulled = epoch._pull()
                        more = pulled is not None
                        if pulled is not None:
                            waiting.append((pulled, self._converted(native, pulled.batch)))
                    except Exception as error:
                        # It belongs to its own batch: those before it are handed over first.
                        failure, more = error, False
                if waiting:
                    pulled, converted = waiting.popleft()
                    finished = self._finish(converted)
                    epoch._hand_over(pulled)
                    yield finished
            if failure is not None:
                raise failure
        finally:
            epoch._gets_nothing()
            epoch.close()

    def _converted(self, native: _forebay.Epoch, batch: Any) -> Any:
        native.converts(self._copied is not None)
        copied = None
        try:
            converted = self._convert(batch)
            copied = self._copied and self._copied(converted)
            return converted
        finally:
            native.converted(copied)

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.{type(self).__name__} of {self.loader!r}>"


def checked(train: Any) -> Loader:
    """The loader, or the error that it is none."""
    if not isinstance(train, Loader):
        # Its text is not repeated: a URL may hold a password.
        raise InvalidError(f"a {type(train).__qualname__} is no forebay.Loader (pass forebay.Loader(...))")
    return train


def columns(batch: Mapping[str, Any]) -> Iterator[tuple[str, Any, Column | None]]:
    """Name, array, and where the batch is the loader's own also the column, of each entry."""
    column = getattr(batch, "column", None)
    for name in batch:
        yield name, batch[name], None if column is None else column(name)


def pick(batch: Mapping[str, Any], what: Any) -> Any:
    """The entries that a name, a list of names, a dict of names or a function selects."""
    if isinstance(what, str):
        return batch[what]
    if callable(what):
        try:
            return what(batch)
        except StopIteration as error:
            # It would end the epoch as if all rows had come.
            raise RuntimeError("the function that picks columns raised StopIteration") from error
    if isinstance(what, Mapping):
        return {key: pick(batch, one) for key, one in what.items()}
    return type(what)(pick(batch, one) for one in what)


def missing(module: str, framework: str, install: str) -> ImportError:
    """The error of a module whose framework is not installed."""
    return ImportError(f"forebay.{module} needs {framework}, which is not installed (pip install {install})")
