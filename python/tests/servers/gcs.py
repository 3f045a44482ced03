"""Two servers for ``gs://``, because neither of them is enough alone.

fake-gcs-server keeps objects with generations, as Google does. But it returns every list in one page, ignores
If-Match, and answers 500 for a missing bucket. Google's XML interface equals that of S3 in everything that is
read here, so moto answers those requests.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from . import Store, s3
from .process import TOOLS, files, find, free_port, post, running


def options(endpoint: str) -> dict[str, str]:
    return {"google_base_url": endpoint, "google_skip_signature": "true"}


@contextmanager
def serve(shelf: Path, folder: Path) -> Iterator[Store]:
    program = find("fake-gcs-server", "fake-gcs-server", TOOLS / "bin")
    port = free_port()
    endpoint = f"http://127.0.0.1:{port}"
    address = ["-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-public-host", f"127.0.0.1:{port}"]
    with running([program, *address, "-backend", "memory", "-log-level", "error"], port, folder / "gcs"):
        post(f"{endpoint}/storage/v1/b?project=forebay", json.dumps({"name": s3.BUCKET}).encode())
        for name, path in files(shelf):
            where = f"{endpoint}/upload/storage/v1/b/{s3.BUCKET}/o?uploadType=media&name={quote(name, safe='')}"
            post(where, path.read_bytes())
        yield Store(root=f"gs://{s3.BUCKET}", options=options(endpoint))


@contextmanager
def serve_by_moto(shelf: Path, folder: Path) -> Iterator[Store]:
    with s3.moto(folder) as endpoint:
        s3.upload(endpoint, shelf)
        yield Store(root=f"gs://{s3.BUCKET}", options=options(endpoint), missing=["gs://no-such-bucket/data"])
