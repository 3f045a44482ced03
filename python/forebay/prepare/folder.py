"""The folder of prepared rows: the record of what was prepared, the files, and the lock."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import logging
import multiprocessing
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from typing import Any

from ..errors import CorruptError, DeniedError, ForebayError, InvalidError, IoError

__all__: list[str] = []

_LOG = logging.getLogger("forebay")

#: The file name of the record. Readers of data sets ignore it, because it begins with an underscore.
RECORD = "_forebay_prepare.json"

#: The folder for all files until the last one is complete. Readers of data sets ignore it, because its name
#: begins with a dot.
HIDDEN = ".forebay-unfinished"

_LOCK = "lock"

#: Seconds between two attempts to take the lock of another process.
WAIT_SECONDS = 0.1

#: The entries of a record that determine the prepared rows.
FACTS = ("source", "columns", "version", "function")

#: For each kind of error of the disk: the error to raise instead, and the folder that its message advises.
_MOVES = (
    (PermissionError, DeniedError, "that this user can write to"),
    ((NotADirectoryError, FileExistsError), InvalidError, "that is not a file, nor in one"),
    (OSError, IoError, "on a disk that has room"),
)


class Folder:
    """A folder of prepared rows, complete or not."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._hidden = os.path.join(path, HIDDEN)

    def record(self) -> dict[str, Any] | None:
        """The record of the complete rows; ``None`` if they are not complete."""
        return self._read(os.path.join(self.path, RECORD))

    def check(self, record: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
        """Refuses rows that were prepared from something else than ``wanted``."""
        differing = [name for name in FACTS if record.get(name) != wanted[name]]
        if not differing:
            return
        told = [_difference(name, record.get(name), wanted[name]) for name in differing]
        raise InvalidError(
            f"{self.path}: the folder has rows that were prepared from something else: {'; '.join(told)} (pass the "
            "same as then, name another folder with into=, or remove this one to prepare it again)"
        )

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps other processes from the folder. Waits while another one prepares it, and says so once."""
        if getattr(multiprocessing.process.current_process(), "_inheriting", False):
            raise InvalidError(
                "a worker process imports the program, which prepares rows while it is imported (put the code that "
                'the program runs under if __name__ == "__main__":)'
            )
        is_told = False
        while True:
            with self.errors():
                descriptor = self._lock_file()
            try:
                while not _take(descriptor):
                    if not is_told:
                        _LOG.warning("%s: another process prepares these rows, and this one waits for it", self.path)
                        is_told = True
                    time.sleep(WAIT_SECONDS)
                # The other process may have finished and removed the lock file. Its lock is then worthless.
                if self._is_lock(descriptor):
                    yield
                    return
            finally:
                os.close(descriptor)

    def begin(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """Begins a preparation, or continues one: returns its record. The lock must be held."""
        record = self._read(os.path.join(self._hidden, RECORD))
        others = sorted(set(os.listdir(self.path)) - {HIDDEN})
        if record is not None and not others and _is_other_version(record, wanted):
            _LOG.warning(
                "%s: version %r was not prepared to the end; its rows are removed, and version %r is prepared",
                self.path,
                record["version"],
                wanted["version"],
            )
            for path in self._parts():
                os.remove(path)
        if record is not None and (others or self._parts()):
            self.check(record, wanted)
        else:
            if others:
                self.clear()
                raise InvalidError(
                    f"{self.path}: the folder is not empty: it has {others[0]!r} (name a folder with into= that is "
                    "empty or does not exist)"
                )
            record = {**wanted, "types": None}
            self.keep(record)
        for path in self._files():
            if path.endswith(".tmp"):
                os.remove(path)
        return record

    def keep(self, record: Mapping[str, Any]) -> None:
        """Writes the record of the preparation under way."""
        path = os.path.join(self._hidden, RECORD)
        with open(f"{path}.tmp", "w", encoding="utf-8") as file:
            json.dump(record, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        os.replace(f"{path}.tmp", path)

    def is_complete(self, file: str) -> bool:
        """Whether a file has all its rows."""
        return os.path.exists(os.path.join(self._hidden, file)) or os.path.exists(os.path.join(self.path, file))

    def parts(self, file: str) -> list[tuple[str, int]]:
        """The finished row groups of a file that is not complete, each with its path and its rows."""
        folder, name = os.path.split(os.path.join(self._hidden, file))
        begin, found = f"{name}.", []
        for other in os.listdir(folder) if os.path.isdir(folder) else ():
            number, _, rest = other.removeprefix(begin).partition("-")
            if other.startswith(begin) and other.endswith(".part") and number.isdecimal():
                found.append((int(number), int(rest.removesuffix(".part")), os.path.join(folder, other)))
        found.sort()
        return [(path, rows) for at, (number, rows, path) in enumerate(found) if number == at]

    def unfinished(self, file: str) -> str:
        """The path for a file while it is written."""
        path = os.path.join(self._hidden, f"{file}.tmp")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def finish_part(self, file: str, number: int, rows: int) -> str:
        """Gives the file of a written row group its final name, and returns its path."""
        path = os.path.join(self._hidden, f"{file}.{number:05}-{rows}.part")
        os.replace(self.unfinished(file), path)
        return path

    def finish_file(self, file: str) -> None:
        """Gives a written file its final name, and removes the files of its row groups."""
        parts = self.parts(file)
        os.replace(self.unfinished(file), os.path.join(self._hidden, file))
        for path, _ in parts:
            os.remove(path)

    def finish(self, record: Mapping[str, Any], files: list[str]) -> None:
        """Moves all files out of the hidden folder, and then the record, which shows they are complete."""
        self.keep(record)
        for file in [*files, RECORD]:
            shown, hidden = os.path.join(self.path, file), os.path.join(self._hidden, file)
            os.makedirs(os.path.dirname(shown), exist_ok=True)
            if os.path.exists(hidden):
                os.replace(hidden, shown)
        self.clear()

    def clear(self) -> None:
        """Removes what is left of a preparation that has ended."""
        shutil.rmtree(self._hidden, ignore_errors=True)

    @contextlib.contextmanager
    def errors(self) -> Iterator[None]:
        """Turns errors of the disk into errors of this package."""
        try:
            yield
        except OSError as error:
            if isinstance(error, ForebayError):
                raise
            kind, move = next((kind, move) for of, kind, move in _MOVES if isinstance(error, of))
            place = error.filename or self.path
            raise kind(f"{place}: {error.strerror} (name a folder with into= {move})") from None

    def _read(self, path: str) -> dict[str, Any] | None:
        if not os.path.exists(path):
            return None
        try:
            with self.errors(), open(path, encoding="utf-8") as file:
                record = json.load(file)
        except ValueError:
            record = None
        if not isinstance(record, dict):
            raise CorruptError(f"{path}: the record of the preparation is damaged (remove the folder to prepare again)")
        return record

    def _lock_file(self) -> int:
        while True:
            os.makedirs(self._hidden, exist_ok=True)
            # A process that has just finished may have removed the folder.
            with contextlib.suppress(FileNotFoundError):
                return os.open(os.path.join(self._hidden, _LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)

    def _is_lock(self, descriptor: int) -> bool:
        try:
            found = os.stat(os.path.join(self._hidden, _LOCK))
        except FileNotFoundError:
            return False
        held = os.fstat(descriptor)
        return (found.st_dev, found.st_ino) == (held.st_dev, held.st_ino)

    def _files(self) -> list[str]:
        return [os.path.join(folder, name) for folder, _, names in os.walk(self._hidden) for name in names]

    def _parts(self) -> list[str]:
        """The files and row groups that are finished."""
        own = {os.path.join(self._hidden, name) for name in (RECORD, _LOCK)}
        return [path for path in self._files() if path not in own and not path.endswith(".tmp")]


def _is_other_version(record: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether a record is of another version of the function for the same rows and columns."""
    are_same = all(record.get(name) == wanted[name] for name in ("source", "columns"))
    return are_same and record.get("version") != wanted["version"]


def _take(descriptor: int) -> bool:
    """Locks an open file; returns False if another process has it locked. The lock ends with this process."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        # Some file systems have no locks. There the file counts as locked.
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL):
            raise
    return True


def _difference(name: str, there: Any, here: Any) -> str:
    """One difference for a message. The order of columns counts, since the function gets them in this order."""
    is_order = isinstance(there, list) and isinstance(here, list) and sorted(there) == sorted(here)
    return f"{name}{' in the order' if is_order else ''} {_shown(there)} there, {_shown(here)} here"


def _shown(fact: Any) -> str:
    return ", ".join(map(str, fact)) if isinstance(fact, list) else str(fact)
