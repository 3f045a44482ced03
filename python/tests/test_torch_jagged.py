"""Codes of several columns as torchrec's KeyedJaggedTensor takes them."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import forebay as fb

torch = pytest.importorskip("torch")


def model(rows: dict[str, list[Any]]) -> tuple[list[str], list[int], list[int]]:
    """The layout that torchrec documents: key by key, and row by row within each key."""
    values, lengths = [], []
    for column in rows.values():
        for value in column:
            codes = value if isinstance(value, list) else [value]
            values += codes
            lengths.append(len(codes))
    return list(rows), values, lengths


def plain(found: Any) -> tuple[list[str], list[int], list[int]]:
    return found.keys, found.values.tolist(), found.lengths.tolist()


@pytest.mark.parametrize("as_tensors", [True, False])
def test_lists_and_numbers_are_laid_out_key_by_key(tmp_path: Path, as_tensors: bool) -> None:
    draw = random.Random(3)
    for case in range(12):
        count = draw.randint(1, 40)
        stored = {
            "C1": [draw.randint(0, 99) for _ in range(count)],
            "C2": [draw.randint(0, 99) for _ in range(count)],
            "seen": [[draw.randint(0, 99) for _ in range(draw.randint(0, 4))] for _ in range(count)],
            "bought": [[draw.randint(0, 99) for _ in range(draw.randint(0, 2))] for _ in range(count)],
            "pair": [[draw.randint(0, 99), draw.randint(0, 99)] for _ in range(count)],
        }
        types = {"C1": pa.int32(), "C2": pa.int64(), "pair": pa.list_(pa.int64(), 2)}
        arrays = {name: pa.array(of, types.get(name, pa.list_(pa.int64()))) for name, of in stored.items()}
        path = tmp_path / f"{case}.parquet"
        pq.write_table(pa.table(arrays), path, row_group_size=9)
        at = 0
        with fb.Loader(path, batch_size=7) as train:
            for batch in fb.torch.batches(train) if as_tensors else train:
                rows = len(batch["C1"])
                names = ["seen", "C*", "pair", "bought"]
                wanted = {name: stored[name][at : at + rows] for name in ("seen", "C1", "C2", "pair", "bought")}
                found = fb.torch.keyed_jagged(batch, names)
                assert plain(found) == model(wanted)
                assert found.values.dtype == found.lengths.dtype == torch.int64
                at += rows
        assert at == count


def test_the_columns_of_a_stack_have_keys_of_their_own(tmp_path: Path) -> None:
    stored = {f"C{at}": [10 * at + row for row in range(20)] for at in range(3)}
    path = tmp_path / "c.parquet"
    pq.write_table(pa.table(stored), path)
    names = list(stored)
    with fb.Loader(path, stack={"codes": fb.Stack(["C*"])}, batch_size=20) as train:
        batch = next(iter(fb.torch.batches(train)))
        assert plain(fb.torch.keyed_jagged(batch, "codes", keys={"codes": names})) == model(stored)
        lists = [list(row) for row in zip(*stored.values(), strict=True)]
        assert plain(fb.torch.keyed_jagged(batch, "codes")) == model({"codes": lists}), "lists of one length"


def test_a_pattern_adds_only_columns_that_are_not_named() -> None:
    batch = {"a1": np.array([1]), "a2": np.array([2]), "b": np.array([3])}
    for columns, keys in [
        (["a2", "a*"], ["a2", "a1"]),
        (["a*", "a2"], ["a1", "a2"]),
        (["a2", "a1", "a*"], ["a2", "a1"]),
        (["a*", "b", "a1", "a2"], ["b", "a1", "a2"]),
        (["a*", "*1", "b*"], ["a1", "a2", "b"]),
    ]:
        assert fb.torch.keyed_jagged(batch, columns).keys == keys


def test_rows_that_were_cut_from_lists_give_their_codes_alone() -> None:
    seen = fb.Ragged(np.array([1, 2, 3, 4, 5]), np.array([0, 2, 3, 5]))
    stored = [[1, 2], [3], [4, 5]]
    for rows in (slice(1, None), slice(None, 2), slice(1, 2), slice(2, 2)):
        assert plain(fb.torch.keyed_jagged({"seen": seen[rows]}, "seen")) == model({"seen": stored[rows]})


def test_what_gives_no_codes_is_refused() -> None:
    ragged = fb.Ragged(np.array([1, 2, 3]), np.array([0, 2, 3]))
    batch = {
        "a": np.array([1, 2]),
        "b": np.array([1, 2, 3]),
        "x": np.array([0.5, 1.5]),
        "text": np.array(["p", "q"], dtype=object),
        "m": np.array([[1, 2], [3, 4]]),
        "r": ragged,
    }
    for columns, keys, match in [
        ([], None, "columns names no column"),
        (["x"], None, "column 'x' is not of integers"),
        ({"m": 1}, None, "columns must be a list of names"),
        ("text", None, "column 'text' is not of integers or lists of integers"),
        (["a", "b"], None, "'a' has 2 rows, and 'b' has 3"),
        (["m"], {"m": ["p"]}, "keys has 1 names for 'm', which has shape"),
        (["r"], {"r": ["p"]}, "which has lists of differing lengths"),
        (["a", "m", "a"], None, "columns names 'a' twice"),
        (["a*", "a*"], None, r"columns names 'a\*' twice"),
        (["m", "a"], {"m": ["a", "c"]}, "two columns have the key 'a'"),
        (["a"], {"m": ["p", "q"]}, "keys names 'm', which is not among columns"),
    ]:
        with pytest.raises(fb.InvalidError, match=match):
            fb.torch.keyed_jagged(batch, columns, keys=keys)
    with pytest.raises(fb.UnknownColumnError, match="the batch has no column 'C\\*'"):
        fb.torch.keyed_jagged(batch, "C*")
    with pytest.raises(fb.InvalidError, match=r"column 'x' has type torch.float64"):
        fb.torch.keyed_jagged({"x": torch.tensor([0.5], dtype=torch.float64)}, "x")
    for tensor in (torch.tensor([True]), torch.tensor([1j])):
        with pytest.raises(fb.InvalidError, match=r"column 'x' has type torch\.(bool|complex64), and codes are integers"):
            fb.torch.keyed_jagged({"x": tensor}, "x")
    pairs = fb.Ragged(np.zeros((3, 2), np.int64), np.array([0, 2, 3]))
    for column, shape in ((np.zeros((2, 3, 4), np.int64), "(2, 3, 4)"), (pairs, "(3, 2)")):
        with pytest.raises(fb.InvalidError, match=f"column 'x' has shape {re.escape(shape)} .codes are numbers or lists"):
            fb.torch.keyed_jagged({"x": column}, "x")
    with pytest.raises(fb.InvalidError, match=r"keys has 1 names for 'x', which has shape \(2, 1, 4\)"):
        fb.torch.keyed_jagged({"x": np.zeros((2, 1, 4), np.int64)}, "x", keys={"x": ["p"]})
    codes = torch.arange(10).reshape(2, 5)
    cut = torch.nested.narrow(codes, 1, torch.tensor([1, 0]), torch.tensor([2, 3]), layout=torch.jagged)
    for nested in [cut, torch.nested.nested_tensor([codes[0], codes[1, :2]])]:
        with pytest.raises(fb.InvalidError, match="column 'x' is a nested tensor that is strided or was cut"):
            fb.torch.keyed_jagged({"x": nested}, "x")


def test_torchrec_takes_it() -> None:
    torchrec = pytest.importorskip("torchrec")
    seen = fb.Ragged(np.array([7, 8, 9]), np.array([0, 2, 3]))
    found = fb.torch.keyed_jagged({"city": np.array([3, 4]), "seen": seen}, ["city", "seen"])
    features = torchrec.KeyedJaggedTensor.from_lengths_sync(*found)
    assert features["seen"].values().tolist() == [7, 8, 9] and features["seen"].lengths().tolist() == [2, 1]
    assert features["city"].values().tolist() == [3, 4]
