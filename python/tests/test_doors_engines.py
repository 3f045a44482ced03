"""The same checks as in `test_doors` for the engines that start their own processes: Ray Train and Spark.

The loop in the training process ends in each way, and Ctrl-C in the driver ends its wait for that process. When
the driver has exited, none of its processes and files are left.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import PATIENCE, until

#: An environment variable that all processes of a driver have.
MARK = "FOREBAY_TEST_DOOR"

HEAD = """
    import os, pickle, signal, sys, threading, time
    from pathlib import Path
    import forebay as fb
    from loop_ends import Ends, Mine

    data, folder = sys.argv[1], Path(sys.argv[2])

    def interrupt_once(sign, group=False):
        "Sends Ctrl-C once a file is there: to this process, or to all of the terminal's."
        def wait():
            while not sign.exists():
                time.sleep(0.05)
            os.killpg(0, signal.SIGINT) if group else os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=wait, daemon=True).start()
"""

RAY = """
    import ray, ray.train
    from ray.train import RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer

    def train_function():
        ends = Ends(data, data, fb.torch.batches, shard=fb.ray.shard())
        # Ray has shared memory of its own open, and handles signals in another thread.
        ends.counts_memory = False
        ends.run(interrupts=False)
        # A checkpoint that cannot be saved leaves nothing in the temporary folder.
        with ends.loader() as train:
            def refuse(checkpoint):
                raise Mine
            for batch in fb.torch.batches(train):
                try:
                    fb.ray.report({}, train, refuse)
                except Mine:
                    break
            del batch
        ends.nothing_left()
        (folder / "ended").touch()
        # These epochs go on until Ctrl-C ends the training in the middle of one.
        while True:
            for batch in fb.torch.batches(ends.loader()):
                (folder / "trains").touch()
                time.sleep(0.05)

    def build():
        return fb.Loader(data, columns=["id"], cache=fb.DiskCache(folder / "cache", max_bytes="1GB", tier="rows"), threads=1)

    def build_slowly():
        (folder / "warms").touch()
        time.sleep(3_600)
        return build()

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)

    # Ctrl-C in the driver ends the filling of caches on all nodes.
    interrupt_once(folder / "warms")
    began = time.monotonic()
    try:
        fb.ray.warm(build_slowly)
        raise AssertionError("it was warmed")
    except KeyboardInterrupt:
        assert time.monotonic() - began < 600
    (node,) = fb.ray.warm(build)
    assert node["written"] == node["misses"] > 0, node

    # Ctrl-C also ends the training, and Ray's own handler then ends the program.
    interrupt_once(folder / "trains")
    scaling, run = ScalingConfig(num_workers=1), RunConfig(name="run", storage_path=str(folder))
    try:
        TorchTrainer(train_function, scaling_config=scaling, run_config=run).fit()
        raise AssertionError("training ended")
    except (KeyboardInterrupt, SystemExit):
        assert (folder / "ended").exists()
    print("ended well", flush=True)

    # The driver exits in the middle of an epoch.
    train = build()
    stream = iter(train)
    next(stream)
"""

SPARK = """
    from pyspark.ml.torch.distributor import TorchDistributor
    from pyspark.sql import SparkSession, functions

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    cache = folder / "cache"

    def leftovers():
        "What is in the cache beside complete data sets."
        return [str(at) for at in cache.glob("*/*") if not (at / "_SUCCESS").exists()] + [
            str(at) for at in cache.glob("*") if not any(at.iterdir())
        ]

    def written(name=None, how=None):
        frame = spark.read.parquet(data).select("id")
        return fb.spark.dataset(frame if how is None else frame.select(functions.udf(how, "long")("id").alias("id")), cache, name=name)

    # This loop runs in the driver, over the files that Spark wrote.
    Ends(written, str(cache), fb.torch.batches).run()

    # This loop runs in the process of a distributor. The data set arrives pickled, because an open one has
    # threads.
    def ending(pickled, folder):
        shard = fb.Shard.from_env()
        ends = Ends(lambda: pickle.loads(pickled), str(folder / "cache"), fb.torch.batches, shard=shard)
        ends.run()
        # The process ends in the middle of an epoch.
        ending.stream = iter(fb.torch.batches(ends.loader()))
        next(ending.stream)
        return "ended"

    pickled = pickle.dumps(written())
    assert TorchDistributor(num_processes=1, local_mode=True, use_gpu=False).run(ending, pickled, folder) == "ended"

    # The plan raises an exception.
    def fails(row):
        raise ValueError("a row that cannot be")
    try:
        written("failing", fails)
        raise AssertionError("it was written")
    except Exception as error:
        assert "a row that cannot be" in str(error), error
    assert not leftovers(), leftovers()

    # Two calls at once share one data set.
    both = []
    threads = [threading.Thread(target=lambda: both.append(written("both"))) for _ in range(2)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert repr(both[0]) == repr(both[1])
    assert len(list(cache.glob("both/*"))) == 1 and not leftovers(), leftovers()

    # Ctrl-C is pressed while Spark writes.
    def waits(row):
        (folder / "writes").touch()
        time.sleep(0.05)
        return row
    interrupt_once(folder / "writes")
    try:
        written("slow", waits)
        raise AssertionError("it was written")
    except KeyboardInterrupt:
        pass
    assert not leftovers(), leftovers()
    assert written("slow").num_rows == 1000

    # Ctrl-C is pressed in the terminal while a distributor trains.
    def endless(pickled, folder):
        with fb.Loader(pickle.loads(pickled), columns=["id"], batch_size=50, shard=fb.Shard.from_env()) as train:
            while True:
                for batch in fb.torch.batches(train):
                    (folder / "trains").touch()
                    time.sleep(0.05)

    interrupt_once(folder / "trains", group=True)
    try:
        TorchDistributor(num_processes=2, local_mode=True, use_gpu=False).run(endless, pickled, folder)
        raise AssertionError("training ended")
    except KeyboardInterrupt:
        pass
    print("ended well", flush=True)

    # The driver exits in the middle of an epoch.
    train = fb.Loader(written(), columns=["id"], batch_size=50)
    stream = iter(fb.torch.batches(train))
    next(stream)
"""

#: For each engine: the required packages, the required programs, and the script of the driver.
ENGINES = {"ray": (["ray", "torch"], [], RAY), "spark": (["pyspark", "torch"], ["java"], SPARK)}


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A folder for temporary files, whose name is short enough for the sockets that Ray has there."""
    with tempfile.TemporaryDirectory(prefix="fb-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("engine", ENGINES)
def test_nothing_is_left_of_an_engine(engine: str, tmp_path: Path, temporary: Path) -> None:
    packages, programs, script = ENGINES[engine]
    for package in packages:
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"no {program} for {engine}")
    data = tmp_path / "ids.parquet"
    pq.write_table(pa.table({"id": pa.array(range(1_000), pa.int64())}), data, row_group_size=100)
    mark = f"{os.getpid()}-{engine}"
    environ = {**os.environ, MARK: mark, "TMPDIR": str(temporary), "CUDA_VISIBLE_DEVICES": ""}
    environ |= {"PYSPARK_PYTHON": sys.executable, "RAY_TRAIN_ENABLE_STATE_TRACKING": "0"}
    # The script imports `loop_ends` from this folder.
    environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(Path(__file__).parent), os.environ.get("PYTHONPATH")]))
    before = shared()
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(HEAD) + textwrap.dedent(script)]
    # The output goes to a file, because reading a pipe would wait for the engine's own processes.
    with (tmp_path / "said").open("w") as said:
        process = subprocess.Popen(
            [*command, str(data), str(tmp_path)], stdout=said, stderr=said, env=environ, start_new_session=True
        )
        try:
            code = process.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            code = None
            for pid in marked(mark):
                os.kill(pid, signal.SIGKILL)
            process.wait()
    text = (tmp_path / "said").read_text()
    assert code == 0, f"{code or 'no end'}: {text[-5000:]}"
    assert "ended well\n" in text, text[-5000:]
    assert "Fatal Python error" not in text, text
    assert until(lambda: not marked(mark)), marked(mark)
    assert not list(temporary.rglob("*forebay*")), sorted(temporary.rglob("*forebay*"))
    # Segments of tests that run at the same time come and go.
    assert until(lambda: not shared() - before), shared() - before


def shared() -> set[str]:
    """Returns the names of the memory that forebay's processes share."""
    return {name for name in os.listdir("/dev/shm") if "forebay" in name}


def marked(mark: str) -> dict[int, str]:
    """Returns the remaining processes of a driver, with their command lines."""
    found = {}
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and f"{MARK}={mark}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:200]
        except OSError:  # it ended, or is another user's
            continue
    return found
