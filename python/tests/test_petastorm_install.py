"""The package under the name petastorm, and the parts that are left out on purpose."""

from __future__ import annotations

import subprocess
import sys

import pytest

import forebay as fb
from forebay.petastorm import _refused

SCRIPT = """
import forebay.petastorm
forebay.petastorm.install()
forebay.petastorm.install()
import petastorm
from petastorm import make_batch_reader, make_reader, TransformSpec
from petastorm.codecs import ScalarCodec
from petastorm.etl.dataset_metadata import materialize_dataset
from petastorm.predicates import in_lambda
from petastorm.unischema import Unischema, UnischemaField
import petastorm.reader
import petastorm.etl.dataset_metadata as metadata
import petastorm.weighted_sampling_reader
assert petastorm is forebay.petastorm and petastorm.reader.Reader is forebay.petastorm.reader.Reader
assert metadata is forebay.petastorm.etl.dataset_metadata and petastorm.__version__
assert make_reader is forebay.petastorm.make_reader and "torch" not in __import__("sys").modules
try:
    from petastorm.nothing import x
except ImportError as error:
    assert "petastorm.nothing" in str(error)
else:
    raise AssertionError
print("done")
"""


def test_scripts_import_the_package_under_the_name_of_petastorm():
    run = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert run.returncode == 0 and run.stdout == "done\n", run.stderr


def test_petastorm_itself_is_not_replaced_once_it_is_imported(tmp_path):
    (tmp_path / "petastorm.py").write_text("")
    script = "import petastorm, forebay.petastorm; forebay.petastorm.install()"
    run = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {script}"],
        capture_output=True,
        text=True,
    )
    assert "petastorm was imported already" in run.stderr


@pytest.mark.parametrize(
    ("module", "name"), [(module, name) for module, names in _refused.NAMES.items() for name in names]
)
def test_what_is_left_out_can_be_imported_and_says_what_takes_its_place(module, name):
    thing = getattr(_refused.module(module, _refused.NAMES[module]), name)
    assert not isinstance(3, thing) if isinstance(thing, type) else callable(thing)
    with pytest.raises(fb.UnsupportedError, match=rf"{name} is not part of forebay.petastorm \(.+\)"):
        thing()
