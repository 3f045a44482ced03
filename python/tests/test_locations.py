"""The locations that ``Loader(urls)`` takes, and its refusals of other iterables."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import forebay as fb


class DataFrame:
    """Imitates a pandas DataFrame: iterating over it yields the names of its columns."""

    columns = ("a", "b")

    def __iter__(self) -> Any:
        return iter(self.columns)


TABLE = pa.table({"a": [1]})

REFUSED: list[tuple[str, Callable[[], Any], str]] = [
    ("weights", lambda: {"a": 0.7, "b": 0.3}, r"forebay\.Mix\(\[\(location, weight\)"),
    ("pyarrow", lambda: TABLE, "a table in memory"),
    ("record batch", lambda: TABLE.to_batches()[0], "a table in memory"),
    ("data frame", DataFrame, "a table in memory, a .*DataFrame"),
    ("bytes", lambda: b"/data", "must be text, got bytes"),
    ("numbers", lambda: np.arange(3), r"urls\[0\] must be a str or a path, got int64"),
    ("a list of tables", lambda: [TABLE], r"urls\[0\] must be a str or a path, got Table"),
    ("none", lambda: None, "urls must be locations, got NoneType"),
    ("a number", lambda: 3, "urls must be locations, got int"),
    ("a set", lambda: {"a", "b"}, "must be a path or a list of paths"),
    ("an open file", lambda: io.BytesIO(b"PAR1"), "an open file"),
    ("text with a path of bytes", lambda: ["a", b"b"], r"urls\[1\] must be a str or a path, got bytes"),
    ("a class", lambda: DataFrame, "must be locations"),
]


@pytest.mark.parametrize(("make", "says"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_what_is_no_location_is_refused_with_the_next_move(make: Callable[[], Any], says: str) -> None:
    with pytest.raises(fb.ForebayError, match=says) as caught:
        fb.Loader(make())
    assert isinstance(caught.value, (fb.InvalidError, fb.UnsupportedError))
    assert "(" in str(caught.value)


def test_paths_are_taken_in_every_form(tmp_path: Path) -> None:
    for name in "ab":
        pq.write_table(pa.table({"id": [ord(name)]}), tmp_path / f"{name}.parquet")
    paths = sorted(tmp_path.iterdir())
    texts = [str(path) for path in paths]
    for urls in (
        tmp_path,
        str(tmp_path),
        paths,
        texts,
        tuple(paths),
        iter(texts),
        np.array(texts),
        dict.fromkeys(texts).keys(),
    ):
        with fb.Loader(urls, batch_size=4) as loader:
            assert next(iter(loader))["id"].tolist() == [97, 98]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"columns": {"id"}}, "must have an order"),
        ({"columns": {"id": 1}}, "got dict"),
        ({"columns": 3}, "got int"),
        ({"columns": ["id", 3]}, "list of names, got 3 in it"),
        ({"decode": "image"}, "decode must be a dict with str as keys, got str"),
        ({"decode": fb.Image.resize(8, 8)}, "decode must be a dict"),
        ({"fill_null": 0.0}, "fill_null must be a dict"),
        ({"fill_null": {"id": None}}, "must be a number, str or bytes"),
        ({"fill_null": {"id": 1 << 2000}}, r"from -2\*\*63 to 2\*\*64 - 1"),
        ({"fill_null": {"id": 1 << 63}}, "9223372036854775808 is not a value of type int64"),
        ({"fill_null": {"id": 1e300}}, "fill_null value 1e300 is not a value of type int64"),
        ({"fill_null": {"id": "x"}}, "not a value of type int64"),
        ({"fill_null": {"id": np.datetime64("2020-01-01")}}, "in the column's unit"),
        ({"storage_options": ["hunter2"]}, "storage_options must be a dict"),
        ({"drop_last": "no"}, "must be True or False"),
        ({"drop_last": None}, "drop_last must be True or False, got None"),
        ({"drop_last": np.array([1, 2])}, "drop_last must be True or False"),
        ({"filter": ("id", "<", 3)}, r"got one term \(pass \[\('id', '<', 3\)\]\)"),
        ({"batch_size": 1 << 70}, "64 bits"),
        ({"memory": 1 << 70}, "64 bits"),
        ({"memory": True}, "memory must be a size"),
        ({"memory": "4 parsecs"}, "write '12GB' or '12g'"),
        ({"transform": 3}, "transform must be callable, got int"),
        ({"threads": 1 << 70}, "64 bits"),
    ],
)
def test_an_argument_of_another_kind_is_refused_by_its_name(plain: Path, arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(fb.InvalidError, match=says) as caught:
        fb.Loader(plain, **arguments)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("path", ["", " ", "s3://ann:hunter2@b/x", "https:/ann:hunter2@h", "file:///x", 3])
def test_what_is_written_goes_to_a_path_of_this_machine(path: Any) -> None:
    for made in (lambda: fb.DiskCache(path, max_bytes="1GB"), lambda: fb.Loader("no/such", trace=path)):
        with pytest.raises(fb.InvalidError, match=r"path|trace") as caught:
            made()
        assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("https:/ann:hunter2@host/x.parquet", {}),
        ("s3://key:hunter2@bucket/x", {}),
        ("ftp://ann:hunter2@host/x", {}),
        ("no/such", {"hunter2": "hunter2"}),
        ("s3://bucket/x", {"aws_secret_access_key": "hunter2"}),
        ("s3://bucket/x", {"hunter2": "x"}),
        ("s3://bucket/x", ["hunter2"]),
        (b"https://ann:hunter2@host/x", {}),
        ([b"https://ann:hunter2@host/x"], {}),
        (["https://ann:hunter2@host/\udce9"], {}),
    ],
)
@pytest.mark.parametrize("door", [fb.Dataset, fb.Loader])
def test_no_error_shows_a_secret(door: Any, url: Any, options: Any) -> None:
    with pytest.raises(fb.ForebayError) as caught:
        door(url, storage_options=options)
    error: BaseException | None = caught.value
    while error is not None:
        assert "hunter2" not in f"{error} {error!r} {error.args} {vars(error)}"
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
