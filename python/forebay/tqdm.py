"""Progress bars of tqdm, in a terminal or a notebook.

Examples
--------
>>> import forebay as fb
>>> train = fb.Loader("data/train/", columns=["label"], batch_size=64)
>>> for batch in fb.tqdm.bar(train, disable=True):
...     print(batch["label"].shape)
(64,)
(64,)
(64,)
(64,)
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .adapters.missing import missing
from .adapters.progress import TICK, Watched

try:
    from tqdm.auto import tqdm
except ImportError as error:
    raise missing("tqdm", "tqdm", "tqdm", error) from error

if TYPE_CHECKING:
    from .loader import Loader

__all__ = ["bar", "warm"]


def bar(batches: Any, *, loader: Loader | None = None, **options: Any) -> Iterator[Any]:
    """Shows a progress bar while it iterates over the batches of one epoch: the steps, the rows per second,
    and the share of time that the loop waited.

    The bar begins at the position of a resumed epoch, and counts the batches that the training loop took.
    Beside the bar is the stage that the loop waited for longest in the last ten seconds, as in
    :meth:`forebay.Loader.stats`. While an epoch fills a cache, the number of row groups in the cache is shown
    too. The bar is also updated while the loop waits.

    Parameters
    ----------
    batches : Loader, Batches or iterable
        A loader, or the result of ``forebay.torch.batches`` or of a similar function.
    loader : Loader, optional
        The loader behind ``batches``, if ``batches`` is another iterable.
    **options
        Options of ``tqdm``, such as ``desc``, ``leave``, ``disable`` or ``file``. ``total`` cannot be given:
        the loader determines it.

    Returns
    -------
    iterator
        The batches.

    Raises
    ------
    InvalidError
        The loader behind ``batches`` is not known.
    TypeError
        ``total`` was given.

    Examples
    --------
    >>> import forebay as fb
    >>> train = fb.Loader("data/train/", columns=["label"], batch_size=128)
    >>> for epoch in range(2):
    ...     for batch in fb.tqdm.bar(train, desc=f"epoch {epoch}", disable=True):
    ...         pass
    """
    if "total" in options:
        raise TypeError("total is the number of batches of the loader's epoch (leave total= out)")
    return _bar(Watched(batches, loader), {"unit": "step", **options})


def _bar(watched: Watched, options: dict[str, Any]) -> Iterator[Any]:
    shown = tqdm(total=watched.total, **options)
    ended = threading.Event()
    # A thread updates the text, so that it also changes while the loop waits for a batch.
    ticker = threading.Thread(target=_tick, args=(shown, watched, ended), name="forebay-bar", daemon=True)
    if not shown.disable:
        ticker.start()
    try:
        for batch in watched:
            shown.update(watched.done - shown.n)
            yield batch
    finally:
        ended.set()
        if ticker.is_alive():
            ticker.join()
        if not shown.disable:
            shown.set_postfix_str(watched.text(), refresh=False)
        shown.close()


def _tick(shown: Any, watched: Watched, ended: threading.Event) -> None:
    while not ended.wait(TICK):
        shown.set_postfix_str(watched.text())


def warm(train: Loader, *, share: bool = False, **options: Any) -> dict[str, Any]:
    """Fills the cache of a loader by :meth:`forebay.Loader.warm`, with a progress bar.

    Parameters
    ----------
    train : Loader
        A loader with a cache.
    share : bool, default False
        Whether to fill the cache only for this rank and one epoch; see :meth:`forebay.Loader.warm`.
    **options
        Options of ``tqdm``.

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
    >>> cache = fb.DiskCache("warmed/", max_bytes="1GB", tier="rows")
    >>> train = fb.Loader("data/train/", cache=cache)
    >>> fb.tqdm.warm(train, disable=True)["written"]
    8
    """
    loader = Watched(train, None).loader
    with tqdm(**{"unit": "row group", "desc": "warming", **options}) as shown:

        def report(done: int, of: int) -> None:
            shown.total = of
            shown.update(done - shown.n)

        return loader.warm(share=share, report=report)
