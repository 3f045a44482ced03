"""Arguments as other loaders take them: the errors say how to pass them to forebay."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import PATIENCE, small

import forebay as fb


@pytest.mark.parametrize(
    ("keyword", "says"),
    [
        ("num_workers", "threads=.*transform_workers="),
        ("workers", "threads=.*transform_workers="),
        ("schema_fields", "pass columns="),
        ("cur_shard", r"shard=forebay\.Shard"),
        ("num_epochs", "pass epochs="),
        ("predicate", "pass filter="),
        ("pin_memory", r"forebay\.torch\.batches"),
    ],
)
def test_a_keyword_of_another_loader_is_answered_with_ours(plain: Path, keyword: str, says: str) -> None:
    with pytest.raises(TypeError, match=rf"forebay\.Loader\(\) has no option {keyword} .*{says}"):
        fb.Loader(plain, **{keyword: 1})
    with pytest.raises(TypeError, match=rf"forebay\.Mix\(\) has no option {keyword} "):
        fb.Mix([(plain, 1)], **{keyword: 1})


@pytest.mark.parametrize(
    ("keyword", "meant"), [("batchsize", "batch_size"), ("colums", "columns"), ("shufle", "shuffle"), ("treads", "threads")]
)
def test_a_misspelt_keyword_is_answered_with_the_nearest(plain: Path, keyword: str, meant: str) -> None:
    with pytest.raises(TypeError, match=rf"forebay\.Loader\(\) has no option {keyword} \(did you mean {meant}=\?\)"):
        fb.Loader(plain, **{keyword: 1})
    with pytest.raises(TypeError, match="unexpected keyword argument 'zebra'"):
        fb.Loader(plain, zebra=1)  # type: ignore[call-arg]


@pytest.mark.parametrize("keyword", ["row_mask", "filter", "columns", "cache"])
def test_an_option_of_the_sources_is_sent_to_their_loaders(plain: Path, keyword: str) -> None:
    with pytest.raises(TypeError, match=rf"Mix\(\) has no option {keyword} \(pass {keyword}= to the loaders of the sources"):
        fb.Mix([(plain, 1)], **{keyword: None})  # type: ignore[arg-type]


def test_a_null_mask_that_is_no_list_is_told_what_one_is(plain: Path) -> None:
    with pytest.raises(fb.InvalidError, match=r'null_mask must be a list of names, got True \(pass \["name"\]'):
        fb.Loader(plain, null_mask=True)  # type: ignore[arg-type]


def test_a_function_as_filter_is_called_one(plain: Path) -> None:
    with pytest.raises(fb.InvalidError, match=r"filter is a function.*fb\.col"):
        fb.Loader(plain, filter=lambda row: row["id"] > 3)  # type: ignore[arg-type]


def test_places_are_denied(plain: Path) -> None:
    with small(plain) as loader:
        places = loader.which(1)
    for deny in (places, [places], [places[0], places]):
        with small(plain, deny=deny) as loader:
            assert loader.num_rows == 1_000 - len(places)
    with small(plain, deny=places[0]) as loader:
        assert loader.num_rows == 999
    bad = fb.SkippedRow("a", 0, 1, "x", "why", int(places[0].row_id))
    with small(plain, deny=[bad]) as loader:
        assert loader.num_rows == 999
    with pytest.raises(fb.InvalidError, match="which has no row id"):
        small(plain, deny=[fb.SkippedRow("a", 0, 1, "x", "why")])


@pytest.fixture
def columns(tmp_path: Path) -> Path:
    path = tmp_path / "columns.parquet"
    table = {"I1": pa.array([1.0, None]), "I2": pa.array([None, 2.0]), "C1": ["a", "b"], "C2": ["c", "a"]}
    pq.write_table(pa.table({**table, "L1": [[1], [2, 3]]}), path)
    return path


def test_patterns_name_columns_in_options_by_column(columns: Path) -> None:
    options: dict[str, Any] = {
        "fill_null": {"I*": 0.5, "I2": 7.0},
        "encode": {"C[0-9]": fb.Vocabulary(["a", "b", "c"])},
        "pad": {"L?": fb.Pad(3)},
    }
    with fb.Loader(columns, **options) as loader:
        batch = next(iter(loader))
        assert loader.spec["fill_null"].keys() == {"I*", "I2"}
    assert (batch["I1"].tolist(), batch["I2"].tolist()) == ([1.0, 0.5], [7.0, 2.0])
    assert (batch["C1"].tolist(), batch["C2"].tolist()) == ([0, 1], [2, 0])
    assert batch["L1"].tolist() == [[1, 0, 0], [2, 3, 0]]
    with fb.Loader(columns, columns=["C*"], decode={"*": fb.Text()}) as loader:
        assert next(iter(loader))["C2"].tolist() == ["c", "a"]


def test_patterns_that_match_nothing_or_differ_are_refused(columns: Path) -> None:
    with pytest.raises(fb.UnknownColumnError, match=r'fill_null: no column that is read matches "Q\*"'):
        fb.Loader(columns, fill_null={"Q*": 0.0})
    with pytest.raises(fb.InvalidError, match=r'encode: both "\*1" and "C\*" match it, and they differ'):
        fb.Loader(columns, columns=["C*"], encode={"C*": fb.Hash(10), "*1": fb.Hash(11)})


def test_a_batch_is_not_one_array(columns: Path) -> None:
    with fb.Loader(columns) as loader:
        batch = next(iter(loader))
    with pytest.raises(TypeError, match=r"several columns.*batch\.to_arrow\(\)"):
        np.asarray(batch)
    pandas = pytest.importorskip("pandas")
    with pytest.raises(TypeError, match="several columns"):
        pandas.DataFrame(batch)


def test_a_notebook_shows_tables_that_scroll_and_name_no_colours(columns: Path) -> None:
    with fb.Loader(columns, columns=["C1"], rename={"C1": "<b>"}) as loader, fb.Mix([(columns, 1)]) as mix:
        batch = next(iter(loader))
        for shown in (loader, fb.Dataset(columns), loader.plan(), loader.schema, batch, mix, mix.plan()):
            html = shown._repr_html_()
            assert "overflow-x:auto" in html and "<script" not in html and "color" not in html
        assert "&lt;b&gt;" in batch._repr_html_() and "<b>&lt;" not in loader.schema._repr_html_()


def test_the_package_lists_what_it_has() -> None:
    assert {"torch", "keras", "tqdm", "Loader"} <= set(dir(fb))
    assert not {"Any", "Mapping", "annotations", "importlib"} & set(dir(fb))


def test_a_program_from_standard_input_is_told_why_it_has_no_processes(plain: Path) -> None:
    code = f"import forebay as fb\ndef f(row): return dict(row)\nfb.Loader({str(plain)!r}, transform_rows=f, transform_workers=1)"
    done = subprocess.run([sys.executable, "-"], input=code, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 1 and "standard input (save the program as a file" in done.stderr
