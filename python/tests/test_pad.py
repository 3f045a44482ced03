"""Lists that are padded in the batch's own memory."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import forebay as fb

ROWS = 300


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tokens") / "t.parquet"
    draws = np.random.default_rng(3)
    lists = [draws.integers(-1000, 1000, draws.integers(0, 12)).tolist() for _ in range(ROWS)]
    columns: dict[str, Any] = {"id": range(ROWS)}
    for name, item in (("i64", pa.int64()), ("i16", pa.int16()), ("f32", pa.float32())):
        columns[name] = pa.array(lists, pa.list_(item))
    columns["u8"] = pa.array([[abs(x) % 256 for x in row] for row in lists], pa.large_list(pa.uint8()))
    holes = [None if at % 50 == 7 else [None if x % 97 == 0 else x for x in row] for at, row in enumerate(lists)]
    columns["holes"] = pa.array(holes, pa.list_(pa.int32()))
    columns["text"] = [["a"]] * ROWS
    pq.write_table(pa.table(columns), path, row_group_size=70)
    return path


def by_hand(
    lists: list[list[Any] | None],
    length: int,
    value: Any,
    dtype: Any,
    fill: Any = None,
    side: str = "right",
    keep: str = "first",
) -> tuple[Any, Any]:
    rows, mask = np.full((len(lists), length), value, dtype), np.zeros((len(lists), length), bool)
    for at, items in enumerate(lists):
        whole = [fill if item is None else item for item in (items or [])]
        kept = whole[:length] if keep == "first" else whole[max(len(whole) - length, 0) :]
        place = slice(0, len(kept)) if side == "right" else slice(length - len(kept), length)
        rows[at, place], mask[at, place] = kept, True
    return rows, mask


@pytest.mark.parametrize("keep", ["first", "last"])
@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize(("length", "multiple"), [(5, None), (8, 4), (8, 1), (None, 4), (None, None)])
def test_lists_are_padded_on_a_side_and_cut_off_at_an_end(
    tokens: Path, length: int | None, multiple: int | None, side: Any, keep: Any
) -> None:
    names = {"i64": -1, "u8": 255}
    cut = {"truncate": True, "keep": keep} if length else {}
    pad = {
        name: fb.Pad(length, multiple=multiple, value=value, side=side, mask=True, **cut) for name, value in names.items()
    }
    stored = pq.read_table(tokens)
    widths = set()
    with fb.Loader(tokens, columns=["id", *names], pad=pad, batch_size=3, shuffle=fb.Shuffle(seed=1)) as loader:
        is_fixed = multiple is None and length is not None
        assert ("i64", "dense", "<i8", (length if is_fixed else None,)) in loader.schema.layout()
        for batch in loader:
            for name, value in names.items():
                lists = stored[name].take(batch["id"]).to_pylist()
                width = max(map(len, lists))
                if multiple:
                    width = -(-width // multiple) * multiple
                width = length if is_fixed else min(width, length or width)
                rows, mask = by_hand(lists, width, value, batch[name].dtype, side=side, keep=keep)
                assert batch[name].tolist() == rows.tolist() and batch[f"{name}.mask"].tolist() == mask.tolist()
                widths.add(width)
    assert multiple is None or widths <= set(range(0, 13, multiple))


def test_a_batch_whose_length_is_rounded_up_is_weighed_as_it_is_delivered(tmp_path: Path) -> None:
    """Padding makes rows of one number into rows of 4 MiB, and the memory limit counts the padded size."""
    pq.write_table(pa.table({"x": pa.array([[1]] * 64, pa.list_(pa.int64()))}), tmp_path / "t.parquet")
    pad = {"x": fb.Pad(multiple=1 << 19)}
    with pytest.raises(fb.TooLargeError, match="memory"):
        list(fb.Loader(tmp_path, pad=pad, batch_size=64, memory="256MiB"))
    batch = next(iter(fb.Loader(tmp_path, pad=pad, batch_size=2, memory="256MiB")))
    assert batch["x"].shape == (2, 1 << 19) and batch["x"][:, 0].tolist() == [1, 1] and batch["x"].sum() == 2


@pytest.mark.parametrize("length", [1, 5, 12, 40])
def test_rows_are_those_made_by_hand(tokens: Path, tmp_path: Path, length: int) -> None:
    names = {"i64": -1, "i16": 7, "f32": 0.5, "u8": 255}
    pad = {name: fb.Pad(length, value=value, truncate=True, mask=True) for name, value in names.items()}
    stored = pq.read_table(tokens)
    cache = fb.DiskCache(tmp_path / "cache", max_bytes="1GiB", tier="rows")
    shuffle = fb.Shuffle(seed=1, window_rows=100)
    for extra in ({}, {"cache": cache}, {"cache": cache}, {"filter": fb.col("id") % 3 == 0}):
        with fb.Loader(tokens, columns=["id", *names], pad=pad, batch_size=32, shuffle=shuffle, **extra) as loader:
            assert loader.schema.names == ["id", *names, *(f"{name}.mask" for name in sorted(names))]
            for batch in loader:
                for name, value in names.items():
                    lists = stored[name].take(batch["id"]).to_pylist()
                    rows, mask = by_hand(lists, length, value, batch[name].dtype)
                    assert batch[name].dtype == stored[name].type.value_type.to_pandas_dtype()
                    assert np.array_equal(batch[name], rows) and batch[name].flags.writeable
                    assert batch[f"{name}.mask"].dtype == bool and np.array_equal(batch[f"{name}.mask"], mask)


def test_nulls_are_bad_rows_or_filled(tokens: Path) -> None:
    stored = pq.read_table(tokens)["holes"].to_pylist()
    pad = {"holes": fb.Pad(6, truncate=True, mask=True)}
    with fb.Loader(tokens, columns=["id", "holes"], pad=pad, on_bad_row=fb.Skip(at_most=ROWS)) as loader:
        batches = [(batch["id"], batch["holes"]) for batch in loader]
        want = [row for row, items in enumerate(stored) if items is not None and None not in items[:6]]
        assert np.concatenate([ids for ids, _ in batches]).tolist() == want
        assert all("null" in bad.cause for bad in loader.skipped()) and len(loader.skipped()) == ROWS - len(want)
    with fb.Loader(tokens, columns=["holes"], pad=pad, fill_null={"holes": 9}, batch_size=ROWS) as loader:
        (batch,) = loader
        rows, mask = by_hand(stored, 6, 0, np.int32, fill=9)
        assert np.array_equal(batch["holes"], rows) and np.array_equal(batch["holes.mask"], mask)
    with fb.Loader(tokens, columns=["holes"], pad=pad) as loader, pytest.raises(fb.BadRowError, match="row 7"):
        list(loader)


def test_lists_that_are_too_long_are_bad_rows_unless_they_are_cut_off(tokens: Path) -> None:
    with fb.Loader(tokens, columns=["i64"], pad={"i64": fb.Pad(3)}) as loader:
        with pytest.raises(fb.BadRowError, match="which is padded to 3.*truncate"):
            list(loader)


def test_resume_ranks_and_copies_have_the_same_rows(tokens: Path) -> None:
    def loader(**options: Any) -> fb.Loader:
        pad = {"i16": fb.Pad(8, truncate=True, mask=True)}
        shuffle = fb.Shuffle(seed=5, window_rows=90, lanes=2)
        return fb.Loader(tokens, columns=["id", "i16"], pad=pad, batch_size=25, shuffle=shuffle, **options)

    with loader() as whole:
        want = {
            int(row): items.tolist() for batch in whole for row, items in zip(batch["id"], batch["i16"], strict=True)
        }
        assert "pad={'i16': forebay.Pad(8, truncate=True, mask=True)}" in repr(whole)
        assert whole.spec["pad"] == {"i16": {"length": 8, "value": 0.0, "truncate": True, "mask": True}}
    found = {}
    for rank in range(2):
        with loader(shard=fb.Shard(rank=rank, world=2)) as first:
            epoch = iter(first)
            batches = [next(epoch), next(epoch)]
            state = first.state_dict()
        with pickle.loads(pickle.dumps(loader(shard=fb.Shard(rank=rank, world=2)))) as second:
            second.load_state_dict(state)
            for batch in [*batches, *second]:
                found |= {int(row): items.tolist() for row, items in zip(batch["id"], batch["i16"], strict=True)}
    assert found == want


def test_what_can_never_be_padded_is_refused(tokens: Path) -> None:
    for pad, said in (
        ({"text": fb.Pad(3)}, "lists of numbers are padded"),
        ({"id": fb.Pad(3)}, "not padded"),
        ({"u8": fb.Pad(3, value=-1)}, "-1"),
        ({"i16": fb.Pad(3, value=0.5)}, "0.5"),
        ({"u8": fb.Pad(4, multiple=2, value=-1)}, "-1"),
        ({"i16": 3}, "must be a forebay.Pad"),
    ):
        with pytest.raises(fb.InvalidError, match=said):
            fb.Loader(tokens, columns=["id", "u8", "i16", "text"], pad=pad)
    with pytest.raises(fb.InvalidError, match="among the columns to read"):
        fb.Loader(tokens, columns=["id"], pad={"i16": fb.Pad(3)})
    for options, said in (
        ({"length": 0}, "length must be at least 1"),
        ({"multiple": 0}, "multiple must be at least 1"),
        ({"length": 70, "multiple": 16}, r"length must be a multiple of multiple=16, got 70 \(pass 64, for example\)"),
        ({"side": "both"}, "side must be 'right' or 'left', got 'both'"),
        ({"keep": "middle"}, "keep must be 'first' or 'last', got 'middle'"),
        ({"length": 4, "keep": "last"}, "keep='last' is for lists that are cut off"),
    ):
        with pytest.raises(fb.InvalidError, match=said):
            fb.Pad(**options)  # type: ignore[arg-type]
    with pytest.raises(fb.InvalidError, match="must be a number"):
        fb.Pad(2, value="x")  # type: ignore[arg-type]
    for value in (2**53 + 1, np.int64(-(2**53) - 1), 10**400):
        for make in (lambda value: fb.Pad(2, value=value), lambda value: fb.Pack("i64", 2, value=value)):
            with pytest.raises(fb.InvalidError, match="value has more digits than a float64 holds, got"):
                make(value)
    assert fb.Pad(2, value=2**60).value == fb.Pack("i64", 2, value=2**60).value == 1 << 60


@pytest.mark.parametrize("how", ["stored", "shuffled", "cached", "skipped", "small"])
def test_rows_as_long_as_the_longest_of_their_batch(tokens: Path, tmp_path: Path, how: str) -> None:
    names = {"i64": -1, "i16": 7, "f32": 0.5, "u8": 255}
    pad = {name: fb.Pad(value=value, mask=name != "f32") for name, value in names.items()}
    extra: dict[str, Any] = {
        "stored": {"batch_size": 7},
        "shuffled": {"batch_size": 32, "shuffle": fb.Shuffle(seed=1)},
        "cached": {"batch_size": 32, "cache": fb.DiskCache(tmp_path / "cache", max_bytes="1GiB", tier="rows")},
        "skipped": {"batch_size": 32, "columns": ["id", *names, "holes"], "on_bad_row": fb.Skip(at_most=200)},
        "small": {"batch_size": 1},
    }[how]
    if how == "skipped":
        pad["holes"] = fb.Pad(mask=True)
    stored = pq.read_table(tokens)
    with fb.Loader(tokens, **{"columns": ["id", *names], **extra}, pad=pad) as loader:
        assert ("i16", "dense", "<i2", (None,)) in loader.schema.layout()
        assert "i16: int16[?] not null" in repr(loader.schema)
        for _ in range(2):
            lengths = set()
            for batch in loader:
                for name, value in names.items():
                    lists = stored[name].take(batch["id"]).to_pylist()
                    longest = batch[name].shape[1]
                    assert longest == max(map(len, lists)) or how == "skipped"
                    rows, mask = by_hand(lists, longest, value, batch[name].dtype)
                    assert np.array_equal(batch[name], rows) and batch[name].flags.writeable
                    if name != "f32":
                        assert np.array_equal(batch[f"{name}.mask"], mask)
                    record = batch.to_arrow()
                    assert record[name].to_pylist() == rows.tolist()
                    lengths.add(longest)
            assert len(lengths) > 1 or how in ("shuffled", "cached", "skipped")
    again = pickle.loads(pickle.dumps(pad["i16"]))
    assert again == pad["i16"] and repr(again) == "forebay.Pad(value=7, mask=True)"
    many = fb.Pad(64, multiple=8, value=-1, side="left", truncate=True, keep="last", mask=True)
    assert repr(many) == "forebay.Pad(64, multiple=8, value=-1, side='left', truncate=True, keep='last', mask=True)"
    with fb.Loader(tokens, columns=["i16"], pad={"i16": many}) as loader:
        options = {"length": 64, "multiple": 8, "value": -1.0, "side": "left", "truncate": True, "keep": "last", "mask": True}
        assert loader.spec["pad"] == {"i16": options}
    with pytest.raises(fb.InvalidError, match="truncate=True needs a length"):
        fb.Pad(truncate=True)
