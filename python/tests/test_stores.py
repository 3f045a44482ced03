"""One data set on every kind of store: the rows and their order do not depend on the store."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import PATIENCE
from servers import CANARY, Store, azure, gcs, hdfs, https, hub, s3

import forebay as fb

ROWS = 2_000
# The files of the data set, in the order in which a folder is read.
FILES = [
    "day=2024-01-01/part a.parquet",
    "day=2024-01-01/part-b+c.parquet",
    "day=2024-01-02/región/日本.parquet",
    "part-0.parquet",
]
WORLD = 2
# Seconds within which an error must be reported. Another test covers a store that does not answer.
PROMPTLY = 60

SERVE = {
    "s3": s3.serve,
    "gs": gcs.serve,
    "gs on moto": gcs.serve_by_moto,
    "az": azure.serve,
    "https": https.serve,
    "hdfs": hdfs.serve,
    "hf": hub.serve,
}
LISTING = [name for name in SERVE if name != "https"]
CHECKING = ["s3", "az", "hf"]


def jpeg(row: int) -> bytes:
    from PIL import Image

    pixels = np.random.default_rng(row).integers(0, 255, (4, 6, 3), dtype=np.uint8)
    encoded = io.BytesIO()
    Image.fromarray(pixels).resize((48, 32)).save(encoded, "JPEG")
    return encoded.getvalue()


@pytest.fixture(scope="session")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Writes the data set ``data``, with nested folders and files to ignore, and the Delta table ``delta``."""
    shelf = tmp_path_factory.mktemp("shelf")
    rng = np.random.default_rng(5)
    pictures = [jpeg(row) for row in range(50)]
    values = rng.standard_normal(ROWS)
    table = pa.table(
        {
            "id": pa.array(range(ROWS), pa.int64()),
            "value": pa.array([None if row % 7 == 0 else values[row] for row in range(ROWS)], pa.float64()),
            "name": pa.array([f"row {row} ü" for row in range(ROWS)], pa.string()),
            "image": pa.array([pictures[row % len(pictures)] for row in range(ROWS)], pa.binary()),
            # The files store the key of the folder names as a column, too, so that it also exists when
            # only one of these folders is opened.
            "day": pa.array(["2024-01-01"] * ROWS, pa.string()),
        }
    )
    share = ROWS // len(FILES)
    for number, name in enumerate(FILES):
        file = shelf / "data" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table.slice(number * share, share), file, row_group_size=120)
    (shelf / "data" / "_SUCCESS").touch()
    (shelf / "data" / "_hidden.parquet").write_bytes(b"not Parquet at all")
    (shelf / "delta" / "_delta_log").mkdir(parents=True)
    (shelf / "delta" / "_delta_log" / "00000000000000000000.json").write_text("{}\n")
    pq.write_table(table.slice(0, 10), shelf / "delta" / "part-0.parquet")
    return shelf


@pytest.fixture(scope="session")
def start(shelf: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Store]]:
    """Starts the named server once."""
    running: dict[str, Store] = {}
    with ExitStack() as stack:

        def start(name: str) -> Store:
            if name not in running:
                running[name] = stack.enter_context(SERVE[name](shelf, tmp_path_factory.mktemp("server")))
            return running[name]

        yield start


@pytest.fixture(params=SERVE)
def store(request: pytest.FixtureRequest, start: Callable[[str], Store], monkeypatch: pytest.MonkeyPatch) -> Store:
    store = start(request.param)
    for name, value in store.environment.items():
        monkeypatch.setenv(name, value)
    return store


def on(*names: str) -> pytest.MarkDecorator:
    """Runs a test on some of the stores."""
    return pytest.mark.parametrize("store", names, indirect=True)


def whole(store: Store) -> str | list[str]:
    """Returns the location of the data set: its folder, or its files."""
    return store.url("data") if store.lists else [store.url(f"data/{name}") for name in FILES]


def loader(where: object, options: dict[str, str] | None = None, **arguments: object) -> fb.Loader:
    wanted: dict[str, object] = {
        "batch_size": 64,
        "shuffle": fb.Shuffle(seed=17, window_rows=300, lanes=WORLD),
        "decode": {"image": fb.Image.random_resized_crop(16).flip()},
        "threads": 2,
        "storage_options": options,
    }
    return fb.Loader(where, **{**wanted, **arguments})  # type: ignore[arg-type]


def digest(batch: fb.Batch) -> str:
    """Returns a hash of everything in a batch: names, types, nulls and bytes."""
    found = hashlib.sha256()
    record = pa.record_batch(batch)
    found.update(str(record.schema).encode())
    found.update(repr([column.to_pylist() for column in record.columns]).encode())
    return found.hexdigest()


def two_epochs(where: object, options: dict[str, str] | None = None) -> list[str]:
    """Returns the hashes of the batches of two epochs, first those of rank 0 and then those of rank 1."""
    given = []
    for rank in range(WORLD):
        with loader(where, options, shard=fb.Shard(rank=rank, world=WORLD)) as share:
            given += [digest(batch) for _ in range(2) for batch in share]
    return given


@pytest.fixture(scope="session")
def local_epochs(shelf: Path) -> list[str]:
    return two_epochs(shelf / "data")


def test_every_store_delivers_what_the_local_folder_does(store: Store, local_epochs: list[str]) -> None:
    assert two_epochs(whole(store), store.options) == local_epochs


def test_a_run_that_began_on_local_files_goes_on_from_a_store(store: Store, shelf: Path) -> None:
    with loader(shelf / "data") as local, loader(whole(store), store.options) as remote:
        epoch = iter(local)
        for _ in range(11):
            next(epoch)
        remote.load_state_dict(local.state_dict())
        tail = [digest(batch) for batch in epoch]
        assert len(tail) == len(local) - 11
        assert [digest(batch) for batch in remote] == tail
        assert remote.state_dict() == local.state_dict()


def ids(where: object, store: Store) -> list[int]:
    with fb.Loader(where, columns=["id"], batch_size=300, storage_options=store.options) as stored:  # type: ignore[arg-type]
        return [row for batch in stored for row in batch["id"].tolist()]


@on(*LISTING)
def test_a_glob_chooses_files_on_a_store(store: Store) -> None:
    for pattern, files in [
        ("data/*.parquet", [3]),
        ("data/day=*/*.parquet", [0, 1]),
        ("data/**/*.parquet", [0, 1, 2, 3]),
        ("data/day=2024-01-0[2-9]/**", [2]),
    ]:
        want = [row for file in files for row in range(500 * file, 500 * file + 500)]
        assert ids(f"{store.root}/{pattern}", store) == want, pattern
    with pytest.raises(fb.NotFoundError):
        ids(f"{store.root}/data/*.csv", store)


def test_a_file_is_named_by_its_url(store: Store) -> None:
    for number, name in enumerate(FILES):
        assert ids(store.url(f"data/{name}"), store) == list(range(500 * number, 500 * number + 500))
    # A name can also be written without escaping.
    assert ids(f"{store.root}/data/{FILES[2]}", store) == list(range(1000, 1500))


def test_what_is_not_there_is_said_at_once(store: Store) -> None:
    absent = [store.url("data/none.parquet"), *store.missing]
    for url in [*absent, store.url("none"), store.url("none/")] if store.lists else absent:
        started = time.monotonic()
        with pytest.raises(fb.NotFoundError) as error:
            ids(url, store)
        assert time.monotonic() - started < PROMPTLY
        assert url.split("/")[-1] in str(error.value)


@on("https")
def test_a_folder_of_a_server_that_lists_nothing_is_refused(store: Store) -> None:
    for url in (store.url("data/"), store.root + "/data/*.parquet"):
        with pytest.raises(fb.UnsupportedError, match="list"):
            ids(url, store)


@on("https")
def test_a_certificate_that_nobody_vouches_for_is_refused(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    with pytest.raises(fb.IoError, match="certificate"):
        ids(whole(store), store)


@on(*CHECKING)
def test_a_wrong_secret_is_refused_and_not_repeated(store: Store) -> None:
    assert store.wrong is not None
    secrets = [CANARY, *(value for name, value in store.wrong.items() if value != store.options[name])]
    started = time.monotonic()
    with pytest.raises(fb.ForebayError) as error:
        fb.Loader(whole(store), storage_options=store.wrong)
    assert time.monotonic() - started < PROMPTLY
    assert not isinstance(error.value, fb.NotFoundError)
    said = str(error.value) + repr(error.value) + "".join(traceback.format_exception_only(error.type, error.value))
    assert not [secret for secret in secrets if secret in said]
    with loader(whole(store), store.options) as right:
        assert not [value for value in store.options.values() if value in secrets_of(store) and value in repr(right)]


def secrets_of(store: Store) -> list[str]:
    assert store.wrong is not None
    return [store.options[name] for name, value in store.wrong.items() if value != store.options[name]]


@on(*LISTING)
def test_a_table_whose_log_says_nothing_is_refused_on_a_store(store: Store) -> None:
    with pytest.raises(fb.CorruptError, match="the log lacks the protocol"):
        ids(store.url("delta"), store)


@on("hdfs")
def test_an_epoch_goes_on_while_the_name_nodes_change_places(store: Store, shelf: Path) -> None:
    assert store.fail_over is not None
    with loader(shelf / "data") as local:
        want = [digest(batch) for batch in local]
    with loader(whole(store), store.options) as remote:
        given = []
        for number, batch in enumerate(remote):
            given.append(digest(batch))
            if number % 10 == 5:
                store.fail_over()
    assert given == want


@on("hdfs")
def test_hadoops_own_files_configure_hdfs(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    properties = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>" for name, value in store.options.items()
    )
    (tmp_path / "core-site.xml").write_text("<configuration></configuration>")
    (tmp_path / "hdfs-site.xml").write_text(f"<configuration>{properties}</configuration>")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    with fb.Loader(store.url("data"), columns=["id"]) as stored:
        assert sum(len(batch["id"]) for batch in stored) == ROWS


@on("s3")
def test_the_program_is_told_of_a_store_by_the_environment(store: Store) -> None:
    """The names of options are those of the environment variables, in lower case."""
    environment = {name.upper(): value for name, value in store.options.items()}
    told = subprocess.run(
        [Path(sys.executable).with_name("forebay"), "inspect", store.url("data")],
        capture_output=True,
        env={**os.environ, **environment},
        text=True,
        timeout=PATIENCE,
    )
    assert told.returncode == 0, told.stderr
    assert f"{ROWS:,}" in told.stdout
    assert store.options["aws_secret_access_key"] not in told.stdout + told.stderr
