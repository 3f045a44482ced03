"""A hub of data sets in this process, which speaks the protocol of huggingface.co.

Its files are on another host, as on the real hub: a request for a file is redirected there, and must not
carry the token, which would give it away.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, quote, unquote, urlsplit

from . import CANARY, Store
from .process import files

DATASET = "forebay/shelf"
REVISION = "0123456789abcdef0123456789abcdef01234567"
TOKEN = "hf_theRightOne"
# The page size is small, so that a list has several pages.
PAGE = 3


@contextmanager
def serve(shelf: Path, folder: Path) -> Iterator[Store]:
    content = {name: path.read_bytes() for name, path in files(shelf)}
    with ExitStack() as stack:
        far = stack.enter_context(listening(far_handler(content)))
        hub = stack.enter_context(listening(hub_handler(content, far)))
        options = {"hf_endpoint": hub, "hf_token": TOKEN}
        yield Store(
            root=f"hf://datasets/{DATASET}",
            options=options,
            wrong={**options, "hf_token": f"hf_{CANARY}"},
            missing=["hf://datasets/forebay/no-such-data-set/data"],
        )


@contextmanager
def listening(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Python writes the head and the body separately, which costs 40 ms if the system waits for more to send.
    wbufsize = -1

    def log_message(self, format: str, *arguments: object) -> None:
        pass

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_HEAD(self) -> None:
        self.do_GET()


def hub_handler(content: dict[str, bytes], far: str) -> type[Handler]:
    class Hub(Handler):
        def do_GET(self) -> None:
            url = urlsplit(self.path)
            path = unquote(url.path)
            if self.headers["Authorization"] != f"Bearer {TOKEN}":
                self.answer(401, b'{"error":"Invalid username or password."}')
            elif path == f"/api/datasets/{DATASET}/revision/main":
                self.answer(200, json.dumps({"id": DATASET, "sha": REVISION}).encode())
            elif path.startswith(tree := f"/api/datasets/{DATASET}/tree/{REVISION}"):
                self.list(path[len(tree) :].strip("/"), parse_qs(url.query))
            elif (name := path.removeprefix(f"/datasets/{DATASET}/resolve/{REVISION}/")) in content:
                found = content[name]
                where = f"{far}/{quote(name)}"
                self.answer(
                    302, Location=where, X_Repo_Commit=REVISION, X_Linked_Size=str(len(found)), X_Linked_ETag=tag(found)
                )
            else:
                self.answer(404, b'{"error":"Not found"}', X_Error_Code="EntryNotFound")

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["paths"]
            if self.headers["Authorization"] != f"Bearer {TOKEN}":
                self.answer(401, b'{"error":"Invalid username or password."}')
            elif self.path == f"/api/datasets/{DATASET}/paths-info/{REVISION}":
                found = [entry(path, content[path]) for path in asked if path in content]
                self.answer(200, json.dumps(found).encode(), Content_Type="application/json")
            else:
                self.answer(404, b'{"error":"Not found"}', X_Error_Code="EntryNotFound")

        def list(self, folder: str, query: dict[str, list[str]]) -> None:
            below = f"{folder}/" if folder else ""
            deep = query.get("recursive", ["false"])[0] in ("true", "1", "True")
            entries = {}
            for name, found in content.items():
                if name.startswith(below):
                    steps = name[len(below) :].split("/")
                    for depth in range(1, len(steps) if deep else min(len(steps), 2)):
                        path = below + "/".join(steps[:depth])
                        entries[path] = {"type": "directory", "oid": "0", "size": 0, "path": path}
                    if deep or len(steps) == 1:
                        entries[name] = entry(name, found)
            if not entries:
                self.answer(404, b'{"error":"Not found"}', X_Error_Code="EntryNotFound")
                return
            start = int(query.get("cursor", ["0"])[0])
            page = [entries[path] for path in sorted(entries)][start : start + PAGE]
            headers = {}
            if start + PAGE < len(entries):
                kept = "".join(f"{key}={value[0]}&" for key, value in query.items() if key != "cursor")
                here = f"http://{self.headers['Host']}{urlsplit(self.path).path}"
                headers["Link"] = f'<{here}?{kept}cursor={start + PAGE}>; rel="next"'
            self.answer(200, json.dumps(page).encode(), Content_Type="application/json", **headers)

    return Hub


def far_handler(content: dict[str, bytes]) -> type[Handler]:
    class Far(Handler):
        def do_GET(self) -> None:
            if self.headers["Authorization"]:
                self.answer(400, b"a token that was not meant for this host")
                return
            found = content[unquote(self.path).removeprefix("/")]
            asked = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers["Range"] or "")
            if not asked:
                self.answer(200, found, ETag=tag(found))
                return
            first, last = asked.groups()
            start = int(first) if first else max(len(found) - int(last), 0)
            end = min(int(last) + 1, len(found)) if first and last else len(found)
            if start >= end:
                self.answer(416, Content_Range=f"bytes */{len(found)}")
                return
            part = f"bytes {start}-{end - 1}/{len(found)}"
            self.answer(206, found[start:end], ETag=tag(found), Content_Range=part)

    return Far


def entry(name: str, found: bytes) -> dict[str, object]:
    lfs = {"oid": tag(found).strip('"'), "size": len(found), "pointerSize": 130}
    return {"type": "file", "oid": "0", "size": len(found), "lfs": lfs, "path": name}


def tag(found: bytes) -> str:
    return f'"{hashlib.sha256(found).hexdigest()}"'
