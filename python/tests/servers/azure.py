"""Azurite, Microsoft's emulator of Azure's blob storage. It checks signatures."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from . import CANARY, Store
from .process import TOOLS, files, find, free_port, running

# The account that every Azurite has; its key is public.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
CONTAINER = "forebay"


@contextmanager
def serve(shelf: Path, folder: Path) -> Iterator[Store]:
    blob = pytest.importorskip("azure.storage.blob", reason="azure-storage-blob is not installed")
    program = find("Azurite", "azurite-blob", TOOLS / "azurite" / "node_modules" / ".bin")
    port = free_port()
    quiet = ["--silent", "--disableTelemetry", "--skipApiVersionCheck", "--inMemoryPersistence"]
    with running([program, "--blobPort", str(port), *quiet], port, folder / "azurite"):
        endpoint = f"http://127.0.0.1:{port}/{ACCOUNT}"
        service = blob.BlobServiceClient(endpoint, credential={"account_name": ACCOUNT, "account_key": KEY})
        container = service.create_container(CONTAINER)
        for name, path in files(shelf):
            container.upload_blob(name, path.read_bytes())
        options = {
            "azure_storage_account_name": ACCOUNT,
            "azure_storage_account_key": KEY,
            "azure_endpoint": endpoint,
        }
        yield Store(
            root=f"az://{CONTAINER}",
            options=options,
            wrong={**options, "azure_storage_account_key": base64.b64encode(CANARY.encode()).decode()},
            missing=["az://no-such-container/data"],
        )
