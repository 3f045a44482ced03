"""A REST catalogue of Iceberg for tests: it serves the tables of pyiceberg's SQL catalogue behind a login.

    python iceberg_rest.py ROOT

Prints its port.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError

root = sys.argv[1]
catalog = SqlCatalog("c", uri=f"sqlite:///{root}/catalog.db", warehouse=f"file://{root}")


class Handler(BaseHTTPRequestHandler):
    def reply(self, status: int, body: dict) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def refuse(self, status: int, message: str) -> None:
        self.reply(status, {"error": {"message": message, "type": "x", "code": status}})

    def do_POST(self) -> None:
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        wanted = {
            "grant_type": ["client_credentials"],
            "client_id": ["ann"],
            "client_secret": ["s:1 %"],
            "scope": ["catalog"],
        }
        if self.path != "/api/v1/oauth/tokens" or form != wanted:
            return self.refuse(401, "no such client")
        return self.reply(200, {"access_token": "the-token", "token_type": "bearer"})

    def do_GET(self) -> None:
        if self.headers["Authorization"] != "Bearer the-token":
            return self.refuse(401, "no token")
        url = urlsplit(self.path)
        if url.path == "/api/v1/config":
            return self.reply(
                200, {"defaults": {}, "overrides": {"prefix": f"of/{parse_qs(url.query)['warehouse'][0]}"}}
            )
        parts = url.path.removeprefix("/api/v1/of/main/namespaces/").split("/")
        if self.headers["X-Iceberg-Access-Delegation"] != "vended-credentials" or len(parts) != 3:
            return self.refuse(400, "malformed")
        try:
            table = catalog.load_table((*unquote(parts[0]).split("\x1f"), unquote(parts[2])))
        except NoSuchTableError as error:
            return self.refuse(404, str(error))
        config = {"s3.access-key-id": "unused"}
        return self.reply(200, {"metadata-location": table.metadata_location, "config": config, "metadata": {}})

    def log_message(self, *_: object) -> None:
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
