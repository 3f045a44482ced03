"""Small data sets, made once per session."""

from __future__ import annotations

import importlib.util
import io
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import forebay as fb

ROWS = 1_000
# The most bytes that the tests have on disk at a time.
WRITTEN = 3 << 30
# The seconds after which a program counts as hanging: no program of the tests takes so long, even on a busy
# machine.
PATIENCE = 1800
# The seconds in which even a busy machine completes work that an idle one completes at once.
SOON = 120
# A function for scripts: the most memory that the process has had, in bytes. The number of `getrusage` begins with
# the memory of the process that started this one.
PEAK = """
def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM:"))
"""

# Every process starts its own Ray cluster, and never joins one that another program has started on this
# machine or left behind.
os.environ["RAY_ADDRESS"] = "local"


@pytest.hookimpl(tryfirst=True)
def pytest_configure() -> None:
    """Lets Ctrl-C reach the programs of tests. Programs inherit that it is ignored, as it is in the background."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_sessionstart() -> None:
    """Puts the files of the tests on a disk where a cache has room.

    A cache leaves a tenth of a disk and 1 GiB free. It would keep nothing on a fuller disk, and the disks of
    build machines are often full. Memory is used instead if there is enough.
    """
    folder, memory = tempfile.gettempdir(), "/dev/shm"
    if room(folder) < WRITTEN <= room(memory):
        os.environ["TMPDIR"] = tempfile.tempdir = memory
    elif room(folder) < 1 << 30:
        pytest.exit(f"a cache leaves a tenth of the disk free, and {folder} has no more: make room there", 3)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fails a run in which a test says that other people's files are absent, although they are there."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or "FOREBAY_TEST_DATA" not in os.environ:
        return
    absent = [report for report in reporter.stats.get("skipped", []) if "FOREBAY_TEST_DATA" in str(report.longrepr)]
    if absent:
        reporter.ensure_newline()
        reporter.write_line(f"{len(absent)} tests miss files in FOREBAY_TEST_DATA", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def room(folder: str) -> int:
    """Returns the bytes that caches may fill in a folder.

    Blocks that are reserved for the superuser do not count as part of the disk, as in the cache itself.
    """
    try:
        disk = os.statvfs(folder)
    except OSError:
        return 0
    size = (disk.f_blocks - disk.f_bfree + disk.f_bavail) * disk.f_frsize
    return disk.f_bavail * disk.f_frsize - max(size // 10, 1 << 30)


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    """A Spark session with two local workers, for tests that need PySpark."""
    sql = pytest.importorskip("pyspark.sql")
    setup = sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = setup.config("spark.driver.host", "127.0.0.1").config("spark.sql.shuffle.partitions", "2").getOrCreate()
    yield session
    session.stop()


@pytest.fixture(scope="session")
def table() -> pa.Table:
    """Returns one column of every kind that a batch can have; ``id`` is the number of the row."""
    rng = np.random.default_rng(7)
    rows = range(ROWS)
    return pa.table(
        {
            "id": pa.array(rows, pa.int64()),
            "u8": pa.array((i % 256 for i in rows), pa.uint8()),
            "f16": pa.array(rng.random(ROWS).astype(np.float16)),
            "f32": pa.array(rng.random(ROWS).astype(np.float32)),
            "f64": pa.array(rng.standard_normal(ROWS)),
            "flag": pa.array((i % 3 == 0 for i in rows), pa.bool_()),
            "when": pa.array(rows, pa.timestamp("us")),
            "day": pa.array(rows, pa.date32()),
            "span": pa.array(rows, pa.duration("ms")),
            "name": pa.array((f"row {i}" for i in rows), pa.string()),
            "blob": pa.array((bytes([i % 256]) * (i % 4) for i in rows), pa.binary()),
            "words": pa.array((list(range(i % 5)) for i in rows), pa.list_(pa.int32())),
            "pairs": pa.array(([i, i + 1] for i in rows), pa.list_(pa.int64())),
            "vector": pa.array(([i, i / 2, -i] for i in rows), pa.list_(pa.float32(), 3)),
            "cell": pa.array((bytes([i % 256, 255 - i % 256]) for i in rows), pa.binary(2)),
        }
    )


@pytest.fixture(scope="session")
def plain(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The table in three files of several row groups each."""
    folder = tmp_path_factory.mktemp("plain")
    for part, start in enumerate(range(0, ROWS, 400)):
        pq.write_table(table.slice(start, 400), folder / f"part-{part}.parquet", row_group_size=90)
    return folder


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures that a small network can tell apart: four classes, by where the bright square is."""
    folder = tmp_path_factory.mktemp("photos")
    write_photos(folder, 256)
    return folder


@pytest.fixture(scope="session")
def documented(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the data sets ``data/train`` and ``data/val`` of the examples in docstrings."""
    folder = tmp_path_factory.mktemp("documented")
    for name, rows in (("train", 256), ("val", 64)):
        (folder / "data" / name).mkdir(parents=True)
        write_photos(folder / "data" / name, rows)
    return folder


def write_photos(folder: Path, rows: int) -> None:
    """Pictures of four classes in one file, 32 to a row group."""
    from PIL import Image

    rng = np.random.default_rng(11)
    images, labels = [], []
    for row in range(rows):
        label = row % 4
        pixels = rng.integers(0, 80, (32, 40, 3), dtype=np.uint8)
        top, left = 16 * (label // 2), 20 * (label % 2)
        pixels[top : top + 16, left : left + 20] += 150
        encoded = io.BytesIO()
        Image.fromarray(pixels).save(encoded, "JPEG", quality=90)
        images.append(encoded.getvalue())
        labels.append(label)
    table = pa.table(
        {
            "image": pa.array(images, pa.binary()),
            "label": pa.array(labels, pa.int64()),
            "id": pa.array(range(rows), pa.int64()),
        }
    )
    pq.write_table(table, folder / "photos.parquet", row_group_size=32)


@pytest.fixture(scope="session")
def foreign() -> Path:
    """The folder with data of other projects, if it is available."""
    beside = Path(__file__).resolve().parents[3] / "shared" / "data"
    folder = Path(os.environ.get("FOREBAY_TEST_DATA", beside))
    if not folder.is_dir():
        pytest.skip(f"no foreign data: set FOREBAY_TEST_DATA, or put it at {beside}")
    return folder


def until(holds: Callable[[], object], seconds: float = SOON) -> bool:
    """Waits until a condition holds, and returns whether it did within these seconds."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def there(folder: Path, pattern: str) -> list[Path]:
    """Returns the files of a folder that match a pattern. Another process may remove the folder meanwhile."""
    try:
        return list(folder.glob(pattern))
    except FileNotFoundError:
        return []


def quickest(attempt: Callable[[], float], limit: float, tries: int = 5) -> float:
    """Returns the seconds of the quickest attempt, and makes no further attempt after one below the limit.

    Other programs can slow down some of the attempts, but a wait in the tested code slows down all of them.
    """
    best = float("inf")
    for _ in range(tries):
        best = min(best, attempt())
        if best < limit:
            break
    return best


def alive(process: int) -> bool:
    """Returns whether a process is running. One that has ended, but whose parent has not noticed, is not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def ids(batches: object) -> list[list[int]]:
    """Returns the row numbers of each batch."""
    return [batch["id"].tolist() for batch in batches]  # type: ignore[attr-defined]


def planned_batches(ranks: list[fb.Loader], epoch: int) -> Iterator[fb.Batch]:
    """Returns the batches of an epoch, rank by rank, and checks that each has the rows that the plan names,
    in their order."""
    assert len({len(loader) for loader in ranks}) == 1
    for loader in ranks:
        for step, batch in enumerate(loader.epoch(epoch)):
            places = loader.which(step, epoch=epoch)
            assert [place.row_id for place in places] == batch["row_id"].ravel().tolist()
            yield batch


def row_groups(root: Path) -> Iterator[list[dict[str, Any]]]:
    """Yields the rows of each row group of the files in a folder, in the order of a data set."""
    for path in sorted(root.glob("*.parquet")):
        file = pq.ParquetFile(path)
        for group in range(file.num_row_groups):
            yield file.read_row_group(group).to_pylist()


def need_keras(backend: str) -> None:
    """Skips the test if Keras or its backend is not installed. Nothing is imported, because a process cannot
    change the backend of Keras."""
    for package in ("keras", backend):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")


def with_keras(backend: str, script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Runs a script with this Keras backend in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env={**os.environ, "KERAS_BACKEND": backend, "JAX_PLATFORMS": "cpu"},
    )


def png(pixels: np.ndarray[Any, Any], **options: Any) -> bytes:
    """Returns the PNG that Pillow writes for an image of 8 bits."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG", **options)
    return file.getvalue()


def small(where: Path, **arguments: object) -> fb.Loader:
    """Makes a loader with the options of most tests."""
    options: dict[str, object] = {"batch_size": 64, "shuffle": fb.Shuffle(seed=17, window_rows=200), "threads": 2}
    return fb.Loader(where, **{**options, **arguments})  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``photos``, ``held-out`` and ``clicks``, as the README and the examples expect."""
    folder = tmp_path_factory.mktemp("drawn")
    for name, rows, seed in (("photos", 400, 0), ("held-out", 100, 1)):
        assert fb.main(["synth", str(folder / name), "--rows", str(rows), "--seed", str(seed)]) == 0
    assert fb.main(["synth", str(folder / "clicks"), "--rows", "4000", "--table"]) == 0
    return folder
