"""Progress bars of rich.

Examples
--------
>>> import forebay as fb
>>> from rich.console import Console
>>> from rich.progress import Progress
>>> train = fb.Loader("data/train/", columns=["label"], batch_size=128)
>>> with Progress(console=Console(quiet=True)) as progress:
...     for batch in fb.rich.bar(train, progress=progress):
...         print(batch["label"].shape)
(128,)
(128,)
"""

from __future__ import annotations

import atexit
import time
import weakref
from collections.abc import Generator, Iterator
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from .adapters.missing import missing
from .adapters.progress import TICK, Watched
from .errors import InvalidError

try:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn
    from rich.text import Text
except ImportError as error:
    raise missing("rich", "rich", "rich", error) from error

if TYPE_CHECKING:
    from .loader import Loader

__all__ = ["StatsColumn", "bar", "warm"]

# The bars that are still shown. They are closed as soon as the interpreter begins to exit, because closing a
# bar makes rich draw it once more, which is impossible later in the exit.
_SHOWN: weakref.WeakSet[Generator[Any, None, None]] = weakref.WeakSet()


class StatsColumn(ProgressColumn):  # type: ignore[misc]
    """A column for a ``rich.progress.Progress`` of your own, with the text that :func:`bar` shows beside its
    bar."""

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[Any, tuple[float, str]] = {}

    def render(self, task: Any) -> Text:
        """The text for the loader of a task.

        Parameters
        ----------
        task : rich.progress.Task
            The task.

        Returns
        -------
        rich.text.Text
            The text; empty for a task that :func:`bar` did not add.
        """
        watched = task.fields.get("watched")
        if watched is None:
            return Text("")
        last = task.fields.get("last")
        if last is not None:
            return Text(last, style="progress.remaining")
        at, said = self._said.get(task.id, (0.0, ""))
        if time.monotonic() - at >= TICK:
            said = watched.text()
            self._said[task.id] = (time.monotonic(), said)
        return Text(said, style="progress.remaining")


def bar(
    batches: Any, *, loader: Loader | None = None, progress: Progress | None = None, description: str = ""
) -> Iterator[Any]:
    """Shows a progress bar of rich while it iterates over the batches of one epoch, like
    :func:`forebay.tqdm.bar`.

    Parameters
    ----------
    batches : Loader, Batches or iterable
        A loader, or the result of ``forebay.torch.batches`` or of a similar function.
    loader : Loader, optional
        The loader behind ``batches``, if ``batches`` is another iterable.
    progress : rich.progress.Progress, optional
        The display to which the bar is added; give it a :class:`StatsColumn`. Default: a display of its own.
    description : str, default ""
        The text before the bar.

    Returns
    -------
    iterator
        The batches.

    Raises
    ------
    InvalidError
        The loader behind ``batches`` is not known, or ``progress`` is not a ``Progress``.

    Examples
    --------
    >>> import forebay as fb
    >>> from rich.console import Console
    >>> from rich.progress import Progress
    >>> train = fb.Loader("data/train/", columns=["label"], batch_size=128)
    >>> with Progress(fb.rich.StatsColumn(), console=Console(quiet=True)) as progress:
    ...     rows = [len(batch["label"]) for batch in fb.rich.bar(train, progress=progress)]
    >>> rows
    [128, 128]
    """
    _check(progress)
    shown = _bar(Watched(batches, loader), progress, description)
    _SHOWN.add(shown)
    return shown


def _bar(watched: Watched, given: Progress | None, description: str) -> Generator[Any, None, None]:
    with _display(given) as progress:
        task = progress.add_task(description, total=watched.total, watched=watched, last=None)
        try:
            for batch in watched:
                progress.update(task, completed=watched.done)
                yield batch
        finally:
            # The text is updated once more at the end, because in a short epoch it may still be the text from
            # the beginning.
            progress.update(task, last=watched.text())


def warm(train: Loader, *, share: bool = False, progress: Progress | None = None) -> dict[str, Any]:
    """Fills the cache of a loader by :meth:`forebay.Loader.warm`, with a progress bar.

    Parameters
    ----------
    train : Loader
        A loader with a cache.
    share : bool, default False
        Whether to fill the cache only for this rank and one epoch; see :meth:`forebay.Loader.warm`.
    progress : rich.progress.Progress, optional
        The display to which the bar is added. Default: a display of its own.

    Returns
    -------
    dict
        The numbers of the cache from :meth:`forebay.Loader.stats`.

    Raises
    ------
    InvalidError
        ``train`` is not a loader, or has no cache.

    Examples
    --------
    >>> import forebay as fb
    >>> from rich.console import Console
    >>> from rich.progress import Progress
    >>> cache = fb.DiskCache("warm/", max_bytes="1GB", tier="rows")
    >>> train = fb.Loader("data/train/", cache=cache)
    >>> with Progress(console=Console(quiet=True)) as progress:
    ...     fb.rich.warm(train, progress=progress)["written"]
    8
    """
    _check(progress)
    loader = Watched(train, None).loader
    with _display(progress) as shown:
        task = shown.add_task("warming", total=None)
        return loader.warm(share=share, report=lambda done, of: shown.update(task, completed=done, total=of))


def _check(progress: Any) -> None:
    if progress is not None and not isinstance(progress, Progress):
        raise InvalidError(f"progress must be a rich.progress.Progress, got {type(progress).__qualname__}")


def _display(given: Progress | None) -> Any:
    """A context with the display for a bar: the user's, which stays open, or a new one that ends with the
    bar."""
    if given is not None:
        return nullcontext(given)
    task = TextColumn("{task.description}")
    columns = (task, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), StatsColumn())
    return Progress(*columns)


@atexit.register
def _close_all() -> None:
    for shown in list(_SHOWN):
        shown.close()
