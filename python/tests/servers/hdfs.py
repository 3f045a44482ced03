"""HDFS itself, from Hadoop's own jars, started by ``MiniHdfs.java``."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from . import Store
from .process import TOOLS, find

PROGRAM = Path(__file__).with_name("MiniHdfs.java")
JARS = TOOLS / "hdfs"
SERVICE = "minicluster"
# The whole cluster needs no more memory than this.
JAVA_OPTIONS = ["-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]


@contextmanager
def serve(shelf: Path, folder: Path) -> Iterator[Store]:
    if not any(JARS.glob("hadoop-client-minicluster-*.jar")):
        pytest.skip("Hadoop is not installed (tools/setup servers)")
    find("a Java compiler", "javac")
    home = folder / "hdfs"
    home.mkdir(parents=True)
    with (home / "log").open("wb") as log:
        cluster = subprocess.Popen(
            [find("Java", "java"), *JAVA_OPTIONS, "-cp", f"{JARS}/*", str(PROGRAM), str(home / "base"), str(shelf)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=home,
            text=True,
        )
    assert cluster.stdin is not None and cluster.stdout is not None
    stdin, stdout = cluster.stdin, cluster.stdout

    def fail_over() -> None:
        stdin.write("\n")
        stdin.flush()
        assert stdout.readline(), "the cluster is gone"

    try:
        ports = stdout.readline().split()
        if not ports:
            raise RuntimeError(f"HDFS does not start; it said: {(home / 'log').read_text(errors='replace')}")
        names = [f"nn{port}" for port in ports]
        addresses = {
            f"dfs.namenode.rpc-address.{SERVICE}.{name}": f"127.0.0.1:{port}"
            for name, port in zip(names, ports, strict=True)
        }
        yield Store(
            root=f"hdfs://{SERVICE}",
            options={"dfs.nameservices": SERVICE, f"dfs.ha.namenodes.{SERVICE}": ",".join(names), **addresses},
            fail_over=fail_over,
        )
    finally:
        # The cluster ends when its standard input is closed, even if this line is never reached.
        stdin.close()
        cluster.wait()


def of_one_node(store: Store, node: int = 0) -> Store:
    """Returns the same files through one name node, without a name service."""
    addresses = [value for key, value in store.options.items() if "rpc-address" in key]
    return Store(root=f"hdfs://{addresses[node]}", options={})
