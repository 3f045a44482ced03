"""Python without its global lock: forebay does not turn it on, and threads read at the same time."""

import subprocess
import sys
import sysconfig

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytestmark = pytest.mark.skipif(
    not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this Python has its global lock"
)

NUMBERS = """
import sys, threading
import forebay as fb
from forebay import _forebay
assert not sys._is_gil_enabled(), "an import turned the lock on"
orders = []
def read():
    with fb.Loader(sys.argv[1], batch_size=64, shuffle=fb.Shuffle(seed=1)) as train:
        orders.append([batch["x"].tolist() for batch in train])
threads = [threading.Thread(target=read) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert orders == [orders[0]] * 4
assert sorted(sum(orders[0], [])) == list(range(10_000))
assert not sys._is_gil_enabled()
"""


def test_no_import_turns_the_lock_on(tmp_path):
    pq.write_table(pa.table({"x": range(10_000)}), tmp_path / "0.parquet", row_group_size=100)
    command = [sys.executable, "-W", "error", "-c", NUMBERS, str(tmp_path / "0.parquet")]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
