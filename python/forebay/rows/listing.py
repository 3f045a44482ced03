"""Adds rows to a file that lists rows to leave out."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable

from ..errors import InvalidError, IoError
from .deny import Denied

__all__: list[str] = []


def add_to_list(path: str, rows: Iterable[tuple[int, str]]) -> None:
    """Adds rows, each a row id and a remark, to a list in a file. Rows that are in the list already keep
    their lines."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise InvalidError(
            f"{path} is not a file: rows cannot be added to it (name one, or one that does not exist yet)"
        )
    if path.lower().endswith(".parquet"):
        raise InvalidError(
            f"{path}: a list of rows is text, and a file of this name would be read as Parquet (name it .txt)"
        )
    try:
        # Reading the list raises an error if the file is something else, which is then not overwritten.
        listed = set(Denied.of(path).rows)
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:
        listed, text = set(), '# Rows that a forebay.Loader leaves out: deny="<this file>"\n'
    if text and not text.endswith("\n"):
        text += "\n"
    for row_id, remark in rows:
        if row_id not in listed:
            text += f"{row_id}  # {' '.join(remark.split())}\n"
            listed.add(row_id)
    # The new list is written beside the old one and renamed, so that a loader never reads half of a list. If
    # `path` is a symbolic link, the file that it points to is replaced.
    target = os.path.realpath(path)
    beside = f"{target}.{os.getpid()}.new"
    try:
        with open(beside, "w", encoding="utf-8") as file:
            file.write(text)
        with contextlib.suppress(FileNotFoundError):
            shutil.copymode(target, beside)
        os.replace(beside, target)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.remove(beside)
        raise IoError(
            f"{path}: the list could not be written: {error.strerror} (name a file in a folder that can be written to)"
        ) from None
