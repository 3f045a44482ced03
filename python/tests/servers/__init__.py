"""Real servers for the tests, each on loopback, on a free port, with files of its own in a temporary folder.

One module per server, each with a context manager ``serve`` that starts it, puts a folder of files on it and yields a
:class:`Store`; what is not installed is skipped by name. ``tools/setup servers`` installs what can be installed.

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

# What no message may repeat: every secret that is not the right one has this word in it.
CANARY = "hunter2canary"


@dataclass(frozen=True)
class Store:
    """A folder of files on a running server, as a user would name it."""

    root: str
    """The URL of the folder, without a slash at its end."""
    options: dict[str, str]
    """``storage_options``."""
    wrong: dict[str, str] | None = None
    """The same with a secret that the server refuses, if it refuses any."""
    missing: list[str] = field(default_factory=list)
    """URLs of what is not there, beside files of the folder that are not."""
    environment: dict[str, str] = field(default_factory=dict)
    """What has to be set in the environment too."""
    lists: bool = True
    """Whether the server can say which files it has."""
    fail_over: Callable[[], None] | None = None
    """Makes another node take over, where there is one."""

    def url(self, name: str) -> str:
        """The URL of a file by its name in the folder."""
        return f"{self.root}/{quote(name)}"
