"""The folders of written DataFrames, accessed through Spark's file systems."""

from __future__ import annotations

import os
import re
import uuid
from typing import Any

from ..errors import IoError
from .errors import told

__all__: list[str] = []

#: The name of the file that Spark adds to a folder when all other files in it are complete.
COMPLETE = "_SUCCESS"

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


class Folder:
    """The folder for the DataFrames with one name. Each call that writes a DataFrame makes a subfolder in it.

    Parameters
    ----------
    session : pyspark.sql.SparkSession
        The session, which has the settings of the file systems.
    cache_url : str
        The folder of all data sets.
    name : str
        The name of this folder.
    form : str
        The hash of the columns and the options for writing. Subfolders whose names begin with another hash
        are other data sets.
    """

    def __init__(self, session: Any, cache_url: str, name: str, form: str) -> None:
        self._hadoop = session._jvm.org.apache.hadoop.fs
        settings = session._jsparkSession.sessionState().newHadoopConf()
        self._is_local = not _URL.match(cache_url)
        if self._is_local:
            cache_url = f"file://{os.path.abspath(cache_url)}"
        elif cache_url.startswith("s3:") and settings.get("fs.s3.impl") is None:
            # Hadoop's connector for S3 only knows the scheme s3a; forebay reads URLs of both schemes.
            cache_url = f"s3a:{cache_url[3:]}"
        self._at = f"{cache_url.rstrip('/')}/{name}"
        self._form = form
        path = self._hadoop.Path(self._at)
        self._files = path.getFileSystem(settings)

    def complete(self) -> str | None:
        """The URL of the subfolder that was completed first; ``None`` if there is none."""
        at = self._hadoop.Path(self._at)
        if not self._files.exists(at):
            return None
        found = []
        for status in self._files.listStatus(at):
            sign = self._hadoop.Path(status.getPath(), COMPLETE)
            own = status.getPath().getName()
            if own.startswith(self._form) and status.isDirectory() and self._files.exists(sign):
                found.append((self._files.getFileStatus(sign).getModificationTime(), own))
        return self.url(f"{self._at}/{min(found)[1]}") if found else None

    def make(self) -> None:
        """Creates the folder if it does not exist."""
        place = f"{self._at}: the folder cannot be made"
        move = "cache_url must be a folder that Spark may write to"
        file = self.url(self._at)
        with told(place, move, file):
            if not self._files.mkdirs(self._hadoop.Path(self._at)):
                raise IoError(f"{place}: the file system refuses it ({move})", file=file)

    def new(self) -> str:
        """The path of a new subfolder, to which no other call writes."""
        return f"{self._at}/{self._form}-{uuid.uuid4().hex}"

    def url(self, folder: str) -> str:
        """Converts the path of a subfolder to the path or URL by which forebay opens it."""
        return folder.removeprefix("file://") if self._is_local else folder

    def remove(self, folder: str) -> None:
        """Removes a subfolder, and then the folder itself if it is empty."""
        self._files.delete(self._hadoop.Path(folder), True)
        at = self._hadoop.Path(self._at)
        if self._files.exists(at) and not len(self._files.listStatus(at)):
            self._files.delete(at, True)

    def remove_complete(self, url: str) -> None:
        """Removes a subfolder by the URL that :meth:`complete` or :meth:`url` returned."""
        self.remove(f"file://{url}" if self._is_local else url)
