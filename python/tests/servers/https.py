"""nginx with a certificate that is signed by an authority of the test's own. It lists nothing."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from . import Store
from .process import find, free_port, running

# nginx runs as one process of the user who runs the tests, so that it may read the same files.
CONFIGURATION = """
daemon off;
master_process off;
pid nginx.pid;
error_log stderr;
events {}
http {
    access_log off;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    server {
        listen 127.0.0.1:%d ssl;
        ssl_certificate certificate.pem;
        ssl_certificate_key certificate.pem;
        root files;
        autoindex off;
    }
}
"""


@contextmanager
def serve(shelf: Path, folder: Path) -> Iterator[Store]:
    trustme = pytest.importorskip("trustme", reason="trustme is not installed")
    program = find("nginx", "nginx")
    home = folder / "nginx"
    shutil.copytree(shelf, home / "files")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(home / "authority.pem"))
    certificate = authority.issue_cert("127.0.0.1", "localhost")
    certificate.private_key_and_cert_chain_pem.write_to_path(str(home / "certificate.pem"))
    port = free_port()
    (home / "nginx.conf").write_text(CONFIGURATION % port)
    with running([program, "-e", "stderr", "-p", str(home), "-c", "nginx.conf"], port, home):
        yield Store(
            root=f"https://localhost:{port}",
            options={},
            environment={"SSL_CERT_FILE": str(home / "authority.pem")},
            lists=False,
        )
