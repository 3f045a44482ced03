"""Real servers for the tests, each on a free loopback port, with files of its own in a temporary folder.

Each server has a module with a context manager ``serve`` that starts it, copies a folder of files onto it and
yields a :class:`Store`. Tests of a server that is not installed are skipped with its name. ``tools/setup
servers`` installs what can be installed.

======== ======================================= ==============================
module   server                                  speaks for
======== ======================================= ==============================
s3       moto                                    ``s3://``
gcs      fake-gcs-server, and moto once more     ``gs://``
azure    Azurite                                 ``az://``, ``abfss://``
https    nginx behind a certificate of our own   ``https://``
hdfs     Hadoop's name nodes and a data node     ``hdfs://``
hub      a hub in this process                   ``hf://``
======== ======================================= ==============================
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import quote

__all__ = ["CANARY", "Store"]

# A word that no message may repeat: every wrong secret contains it.
CANARY = "hunter2canary"


@dataclass(frozen=True)
class Store:
    """A folder of files on a running server, as a user would name it."""

    root: str
    """The URL of the folder, without a slash at its end."""
    options: dict[str, str]
    """The ``storage_options`` with which the folder is opened."""
    wrong: dict[str, str] | None = None
    """The options with a secret that the server refuses, if it refuses any."""
    missing: list[str] = field(default_factory=list)
    """URLs of files and folders that do not exist, beside some that do."""
    environment: dict[str, str] = field(default_factory=dict)
    """Environment variables that must be set as well."""
    lists: bool = True
    """Whether the server can list its files."""
    fail_over: Callable[[], None] | None = None
    """Makes another node take over, if the server has several."""

    def url(self, name: str) -> str:
        """Returns the URL of a file by its name in the folder."""
        return f"{self.root}/{quote(name)}"
