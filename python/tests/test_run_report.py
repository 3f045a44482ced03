"""The page of a training run: one file, or one folder for all ranks."""

from __future__ import annotations

import json
import re
import threading
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import small

import forebay as fb


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("numbers")
    rows = 2_000
    pq.write_table(pa.table({"id": range(rows)}), folder / "numbers.parquet", row_group_size=250)
    return folder


class _Well(HTMLParser):
    """Checks that elements are closed in the order in which they were opened."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.closed = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        self.closed += 1


def read(page: str | Path) -> tuple[str, dict[str, Any]]:
    """Returns the text of a page, and the report in it."""
    text = Path(page).read_text()
    parser = _Well()
    parser.feed(text)
    assert not parser.open and parser.closed > 20
    for foreign in ["http:", "https:", "src=", "href=", "@import", "url("]:
        assert foreign not in text, "the page asks for something"
    found = re.search(r'<script type="application/json" id="report">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    return text, json.loads(found[1])


def test_a_page_has_what_the_loader_measured(numbers: Path, tmp_path: Path) -> None:
    with small(numbers, batch_size=100) as loader:
        for _ in range(2):
            for batch in loader:
                assert len(batch["id"]) == 100
        stats = loader.stats().to_dict()
        page = loader.report(tmp_path / "run.html")
    assert page == str(tmp_path / "run.html")
    text, report = read(page)
    assert str(numbers) in text
    # The advice after the semicolon is not compared: it changes while the next epoch is prepared.
    assert stats["verdict"]["sentence"].split(";")[0] in text
    assert (report["world"], report["reported"], report["rows"], report["batches"]) == (1, 1, 4_000, 40)
    assert report["waited"] == pytest.approx(stats["waits"])
    assert report["ranks"][0]["stats"]["timeline"]["buckets"] == stats["timeline"]["buckets"]
    assert sum(bin["calls"] for bin in report["next_histogram"]) == stats["next"]["count"] == 39
    for plot in ["latency", "stages"]:
        assert f'<svg id="{plot}"' in text


def test_the_timeline_has_all_that_the_loop_waited_and_worked(numbers: Path) -> None:
    with small(numbers, batch_size=100) as loader:
        for batch in loader:
            assert len(batch["id"]) == 100
        stats = loader.stats().to_dict()
        timeline = stats["timeline"]
        for stage, seconds in stats["waits"].items():
            assert sum(bucket["waits"][stage] for bucket in timeline["buckets"]) == pytest.approx(seconds, abs=1e-9)
        assert sum(bucket["consumer"] for bucket in timeline["buckets"]) == pytest.approx(stats["consumer"], abs=1e-9)
        assert sum(bucket["rows"] for bucket in timeline["buckets"]) == 2_000
        assert sum(bucket["batches"] for bucket in timeline["buckets"]) == 20
        # Trackers and Prometheus take only flat numbers.
        assert not any("timeline" in name or "histogram" in name for name in loader.metrics())
        assert "timeline" not in loader.stats().to_prometheus()


def test_a_page_can_be_made_while_an_epoch_runs_and_from_another_thread(numbers: Path, tmp_path: Path) -> None:
    with small(numbers, batch_size=100) as loader:
        page = loader.report(tmp_path / "run.html")
        assert "No batch was requested yet" in read(page)[0]
        batches = iter(loader)
        for _ in range(5):
            next(batches)
        reported = threading.Thread(target=loader.report, args=[tmp_path / "run.html"])
        reported.start()
        reported.join()
        assert read(page)[1]["rows"] == 500
        assert sum(len(batch["id"]) for batch in batches) == 1_500


def test_ranks_share_a_folder_and_the_page_has_all_that_are_there(numbers: Path, tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "today"
    ranks = [small(numbers, batch_size=100, shard=fb.Shard(rank=rank, world=2)) for rank in range(2)]
    for loader in ranks:
        assert sum(len(batch["id"]) for batch in loader) == 1_000
    page = ranks[1].report(folder)
    assert page == str(folder / "index.html")
    text, report = read(page)
    assert (report["world"], report["reported"], report["rows"]) == (2, 1, 1_000)
    assert "1 of 2 ranks have written their report" in text
    assert ranks[0].report(f"{folder}/") == page
    text, report = read(page)
    assert (report["reported"], report["rows"]) == (2, 2_000)
    assert [rank["rank"] for rank in report["ranks"]] == [0, 1]
    assert "have written" not in text and "Longest stall, rank 1" in text
    assert sorted(path.name for path in folder.iterdir()) == ["index.html", "rank-0.json", "rank-1.json"]
    # All ranks write at once, several times: the final page has the latest report of every rank.
    for _ in range(5):
        writers = [threading.Thread(target=loader.report, args=[folder]) for loader in ranks]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        assert read(page)[1]["rows"] == 2_000
    for loader in ranks:
        loader.close()


def test_reports_of_another_run_are_left_out_by_name(numbers: Path, tmp_path: Path) -> None:
    with small(numbers, batch_size=100, shard=fb.Shard(rank=2, world=3)) as loader:
        loader.report(tmp_path)
    (tmp_path / "rank-7.json").write_text("{}")
    with small(numbers, batch_size=100) as loader:
        text, report = read(loader.report(tmp_path))
    assert report["reported"] == 1
    assert "rank-2.json is of another run and is left out" in text
    assert "rank-7.json is not a report of this version and is left out" in text


def test_a_mix_has_a_page_too(numbers: Path, tmp_path: Path) -> None:
    with fb.Mix([(str(numbers), 3), (str(numbers), 1)], batch_size=100, memory="64MB") as mix:
        rows = sum(len(batch["id"]) for batch in mix)
        _, report = read(mix.report(tmp_path / "mix.html"))
    assert report["rows"] == rows > 0
    assert report["locations"] == [str(numbers), str(numbers)]


def test_a_password_in_a_url_is_not_in_the_page(tmp_path: Path, numbers: Path) -> None:
    with small(numbers, batch_size=100) as loader:
        loader._datasets[0]._urls = "https://me:secret@example.org/data.parquet"
        page = loader.report(tmp_path / "run.html")
    assert "secret" not in Path(page).read_text()


def test_what_cannot_be_written_is_refused_with_its_place(numbers: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.html").write_text("<!doctype html>\n<p>mine")
    (tmp_path / "file").write_text("")
    with small(numbers, batch_size=100) as loader:
        with pytest.raises(fb.IoError, match=r"no/such/run\.html: the report cannot be written: No such file"):
            loader.report(tmp_path / "no/such/run.html")
        with pytest.raises(fb.IoError, match=r"file/today: the report cannot be written: Not a directory"):
            loader.report(tmp_path / "file/today")
        with pytest.raises(fb.InvalidError, match=r"notes\.html: the file is not a report, and would be replaced"):
            loader.report(tmp_path / "notes.html")
        with pytest.raises(fb.InvalidError, match="to must be a path on this machine, got a URL"):
            loader.report("s3://bucket/run.html")
        with pytest.raises(fb.InvalidError, match="to"):
            loader.report(7)  # type: ignore[arg-type]
    assert (tmp_path / "notes.html").read_text() == "<!doctype html>\n<p>mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "notes.html"]
