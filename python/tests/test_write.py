"""``forebay write`` writes images, archives and tables on disk as Parquet."""

from __future__ import annotations

import base64
import gzip
import io
import json
import signal
import struct
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from conftest import there
from PIL import Image
from servers import s3

import forebay as fb

CLASSES = ["cat", "dog", "eel"]


def start(*words: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "forebay", "write", *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def write(*words: object) -> dict[str, Any]:
    """The report of a run that succeeds."""
    process = start(*words, "--json", "-")
    out, err = process.communicate()
    assert process.returncode == 0, err
    report: dict[str, Any] = json.loads(out)
    return report


def refused(*words: object) -> str:
    """Returns the error of a run that is refused, which is one line."""
    process = start(*words)
    out, err = process.communicate()
    assert process.returncode == 2, (out, err)
    assert len(err.strip().splitlines()) == 1, err
    return err


def picture(number: int, form: str = "JPEG", size: tuple[int, int] = (48, 32)) -> bytes:
    pixels = np.random.default_rng(number).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, form)
    return file.getvalue()


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Writes sixty images in three folders, one of which has a subfolder, and a file that is not an image."""
    folder = tmp_path_factory.mktemp("photos")
    for number in range(60):
        name = CLASSES[number % 3]
        path = folder / name / ("more" if number > 50 and name == "eel" else "") / f"{number}.{'png' if number % 2 else 'jpg'}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture(number, "PNG" if number % 2 else "JPEG"))
    (folder / "README.txt").write_text("sixty images")
    return folder


def test_folders_are_classes(photos: Path, tmp_path: Path) -> None:
    report = write(photos, tmp_path / "out")
    assert (report["rows"], report["classes"], report["columns"]) == (60, CLASSES, ["image", "label", "path"])
    table = pq.read_table(tmp_path / "out")
    paths = table["path"].to_pylist()
    assert paths == sorted(paths)
    for image, label, path in zip(table["image"].to_pylist(), table["label"].to_pylist(), paths, strict=True):
        assert image == (photos / path).read_bytes()
        assert CLASSES[label] == path.split("/")[0]
    batch = next(iter(fb.Loader(tmp_path / "out", decode={"image": fb.Image.resize(16, 16)}, batch_size=20)))
    assert batch["image"].shape == (20, 16, 16, 3)


def test_the_names_of_classes_are_where_hugging_face_finds_them(photos: Path, tmp_path: Path) -> None:
    write(photos, tmp_path / "out")
    [file] = (tmp_path / "out").glob("*.parquet")
    features = json.loads(pq.read_schema(file).metadata[b"huggingface"])["info"]["features"]
    assert features["label"] == {"names": CLASSES, "_type": "ClassLabel"}
    assert features["image"] == {"_type": "Image"}
    datasets = pytest.importorskip("datasets")
    read = datasets.load_dataset("parquet", data_files=str(file), split="train", cache_dir=str(tmp_path / "cache"))
    assert read.features["label"].names == CLASSES
    assert read[0]["image"].size == (48, 32)


def test_rows_are_mixed_once_by_a_seed(photos: Path, tmp_path: Path) -> None:
    def order(name: str, *words: object) -> list[str]:
        write(photos, tmp_path / name, *words)
        paths: list[str] = pq.read_table(tmp_path / name, columns=["path"])["path"].to_pylist()
        return paths

    first = order("a", "--shuffle", 7)
    assert first == order("b", "--shuffle", 7, "--threads", 1)
    assert first != order("c", "--shuffle") != order("d")
    assert sorted(first) == order("e")


def test_images_are_laid_out_to_be_read_row_by_row(photos: Path, tmp_path: Path) -> None:
    write(photos, tmp_path / "out", "--row-group-bytes", "20KB")
    files = sorted((tmp_path / "out").glob("*.parquet"))
    footers = [pq.ParquetFile(file).metadata for file in files]
    groups = [footer.row_group(group) for footer in footers for group in range(footer.num_row_groups)]
    assert len(groups) > 5
    for group in groups:
        image = group.column(0)
        assert image.compression == "UNCOMPRESSED"
        assert not image.has_dictionary_page
        assert image.has_offset_index
    assert sum(group.num_rows for group in groups) == 60
    advice = subprocess.run(
        [sys.executable, "-m", "forebay", "inspect", str(tmp_path / "out"), "--json", "-"],
        capture_output=True, text=True, check=True,
    )
    [advice_on_size] = json.loads(advice.stdout)["advice"]
    assert "tiny" in advice_on_size


def test_an_interrupted_run_goes_on(photos: Path, tmp_path: Path) -> None:
    words = (photos, tmp_path / "out", "--shuffle", "3", "--row-group-bytes", "1KB")
    whole = (photos, tmp_path / "whole", *words[2:])
    write(*whole)
    wanted = {file.name: file.read_bytes() for file in (tmp_path / "whole").glob("*.parquet")}
    assert len(wanted) > 3
    killed = 0
    for cut in range(20):
        out = tmp_path / f"out{cut}"
        hidden = out / ".forebay-unfinished"
        process = start(photos, out, *words[2:])
        # The run is killed once this number of files exists, complete or not.
        while process.poll() is None and len(there(hidden, "part-*")) < cut % len(wanted):
            time.sleep(0.0005)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        killed += process.returncode == -signal.SIGKILL
        # Files in the output folder are complete, because files move there only when all of them are.
        assert all(file.read_bytes() == wanted[file.name] for file in out.glob("*.parquet"))
        report = write(photos, out, *words[2:])
        assert report["rows"] == 60
        assert {file.name: file.read_bytes() for file in out.glob("*.parquet")} == wanted
        assert not hidden.exists()
    assert killed > 0


def test_a_complete_run_is_not_repeated_and_not_mixed_with_another(photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = write(photos, out)
    before = {file: file.stat().st_mtime_ns for file in out.iterdir()}
    again = write(photos, out)
    assert again["files_before"] == first["files"] == again["files"]
    assert (again["rows"], again["bytes"]) == (first["rows"], first["bytes"])
    assert {file: file.stat().st_mtime_ns for file in out.iterdir()} == before
    error = refused(photos, out, "--shuffle")
    assert "another run: without --shuffle, and not with --shuffle 0" in error and "name another folder" in error
    error = refused(photos, out, "--row-group-bytes", "2KB")
    assert "without --row-group-bytes, and not with --row-group-bytes 2000" in error
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("the user's own")
    assert "not empty" in refused(photos, tmp_path / "other")
    assert "inside" in refused(photos, photos / "out")


def test_a_file_that_cannot_be_read_stops_the_run(photos: Path, tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    (folder / "a.jpg").write_bytes(picture(1))
    (folder / "gone.jpg").symlink_to(tmp_path / "nowhere.jpg")
    assert "gone.jpg" in refused(folder, tmp_path / "out")


def tar_of(path: Path, members: list[tuple[str, bytes]]) -> None:
    with tarfile.open(path, "w") as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))


def test_tars_have_a_column_for_each_ending(tmp_path: Path) -> None:
    shards = tmp_path / "shards"
    shards.mkdir()
    for shard in range(3):
        members: list[tuple[str, bytes]] = [("__meta__.json", b"{}"), ("README", b"no row")]
        for row in range(10):
            number = shard * 10 + row
            # In a tar, a name of more than a hundred characters needs a second header.
            key = f"set/{'long' * (30 if row == 4 else 1)}{number:03}"
            members.append((f"{key}.{'JPG' if row % 2 else 'png'}", picture(number, "JPEG" if row % 2 else "PNG")))
            members.append((f"{key}.cls", f"{row % 3}\n".encode()))
            if row % 5:
                members.append((f"{key}.json", json.dumps({"number": number}).encode()))
            members.append((f"{key}.seg.npy", bytes([number])))
        tar_of(shards / f"{shard}.tar", members)
    report = write(shards, tmp_path / "out")
    assert report["rows"] == 30
    assert sorted(report["columns"]) == ["__key__", "cls", "image", "json", "seg_npy"]
    rows = pq.read_table(tmp_path / "out").to_pylist()
    for number, row in enumerate(rows):
        assert row["__key__"].endswith(f"{number:03}")
        assert row["image"] == picture(number, "JPEG" if number % 2 else "PNG")
        assert (row["cls"], row["seg_npy"]) == (number % 10 % 3, bytes([number]))
        assert row["json"] == (json.dumps({"number": number}) if number % 5 else None)
    mixed = pq.read_table(tmp_path / "out2") if write(shards, tmp_path / "out2", "--shuffle", 5) else None
    assert mixed is not None and sorted(mixed["__key__"].to_pylist()) == sorted(row["__key__"] for row in rows)


def test_damaged_tars_are_refused(tmp_path: Path) -> None:
    whole = tmp_path / "whole.tar"
    tar_of(whole, [("a.jpg", picture(1)), ("b.jpg", picture(2))])
    cut = tmp_path / "cut.tar"
    cut.write_bytes(whole.read_bytes()[:1_000])
    assert "cut.tar" in refused(cut, tmp_path / "out")
    twice = tmp_path / "twice.tar"
    tar_of(twice, [("a.jpg", b"1"), ("a.jpg", b"2")])
    assert "two files .jpg" in refused(twice, tmp_path / "out")
    words = tmp_path / "words.tar"
    tar_of(words, [("a.cls", b"cat")])
    error = refused(words, tmp_path / "out")
    assert "whole number" in error and "--text cls writes" in error
    write(words, tmp_path / "out", "--text", "cls")
    assert pq.read_table(tmp_path / "out")["cls"].to_pylist() == ["cat"]
    assert 'no column "label"' in refused(words, tmp_path / "out2", "--text", "label")


def test_tars_are_read_whole_or_refused(tmp_path: Path) -> None:
    two = tmp_path / "two.tar"
    parts = []
    for name in ("a", "b"):
        tar_of(tmp_path / "one.tar", [(f"{name}.jpg", name.encode()), (f"./{name}.cls", b"1"), ("README", b"")])
        parts.append((tmp_path / "one.tar").read_bytes())
    two.write_bytes(b"".join(parts))
    process = start(two, tmp_path / "two")
    assert "2 files" in process.communicate()[1]
    wanted = [{"__key__": name, "cls": 1, "image": name.encode()} for name in ("a", "b")]
    assert sorted(pq.read_table(tmp_path / "two").to_pylist(), key=lambda row: row["__key__"]) == wanted

    def tar(name: str, *infos: tarfile.TarInfo) -> Path:
        with tarfile.open(tmp_path / name, "w") as file:
            for info in infos:
                file.addfile(info, io.BytesIO(b"x" * info.size))
        return tmp_path / name

    def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
        info = tarfile.TarInfo(name)
        info.type, info.linkname, info.size = kind, link, 3 if kind == tarfile.REGTYPE else 0
        return info

    linked = tar("linked.tar", member("a.jpg"), member("b.jpg", tarfile.LNKTYPE, "a.jpg"))
    write(linked, tmp_path / "linked")
    assert pq.read_table(tmp_path / "linked")["image"].to_pylist() == [b"xxx", b"xxx"]
    for name, words, infos in [
        ("soft", "symbolic link", [member("a.jpg"), member("b.jpg", tarfile.SYMTYPE, "a.jpg")]),
        ("apart", "not together", [member("a.jpg"), member("b.jpg"), member("a.cls")]),
        ("columns", "second column a_b", [member("0.a_b"), member("0.a.b")]),
        ("key", "second column __key__", [member("0.__key__")]),
    ]:
        assert words in refused(tar(f"{name}.tar", *infos), tmp_path / "out")
    sparse = member("a.bin")
    sparse.pax_headers = {"GNU.sparse.major": "1"}
    with tarfile.open(tmp_path / "sparse.tar", "w", format=tarfile.PAX_FORMAT) as file:
        file.addfile(sparse, io.BytesIO(b"xxx"))
    assert "sparse" in refused(tmp_path / "sparse.tar", tmp_path / "out")
    latin = tmp_path / "latin.tar"
    latin.write_bytes((tar("plain.tar", member("e.jpg"))).read_bytes().replace(b"e.jpg", b"\xe9.jpg"))
    assert refused(latin, tmp_path / "out")


def test_a_row_of_a_tar_with_two_images_is_told(tmp_path: Path) -> None:
    tar_of(tmp_path / "two.tar", [("a.jpg", b"1"), ("b.jpg", b"2"), ("b.png", b"3")])
    process = start(tmp_path / "two.tar", tmp_path / "out")
    _, err = process.communicate()
    assert process.returncode == 0 and "no column image, but one for each ending: b in two.tar has jpg and png" in err
    assert pq.read_schema(next((tmp_path / "out").glob("*.parquet"))).names == ["__key__", "jpg", "png"]


def test_a_quotation_that_is_not_closed_swallows_no_rows(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('a,b\n1,"x\n2,y\n')
    assert "not closed" in refused(tmp_path / "a.csv", tmp_path / "out")
    (tmp_path / "b.csv").write_text(",a\n0,9007199254740993\n1,0.5\n2,-0\n")
    write(tmp_path / "b.csv", tmp_path / "b")
    assert pq.read_table(tmp_path / "b").to_pydict() == {"Unnamed: 0": [0, 1, 2], "a": ["9007199254740993", "0.5", "-0"]}
    (tmp_path / "c.csv").write_text("a;b\n1;2,5\n")
    assert "line 2 has 2 fields" in refused(tmp_path / "c.csv", tmp_path / "out")


def test_other_files_and_links_are_told(photos: Path, tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    for name in CLASSES:
        (folder / name).symlink_to(photos / name)
    (folder / "cat2").mkdir()
    (folder / "cat2" / "empty.jpg").touch()
    (folder / "cat2" / "loop").symlink_to(folder)
    (folder / "list.txt").touch()
    (folder / "cat2" / "._mac.jpg").touch()
    (folder / ".hidden").mkdir()
    (folder / ".hidden" / "h.jpg").touch()
    process = start(folder, tmp_path / "out", "--shuffle")
    out, err = process.communicate()
    assert process.returncode == 0 and "61 rows" in out
    assert "1 file" in err and "hold nothing: 1 image" in err
    assert "begin with a dot: 2 of the files and folders" in err
    again, _ = start(folder, tmp_path / "out", "--shuffle").communicate()
    assert "1 file had been completed before" in again


def test_two_runs_do_not_write_into_one_folder(photos: Path, tmp_path: Path) -> None:
    runs = [start(photos, tmp_path / "out", "--row-group-bytes", "1KB") for _ in range(4)]
    ends = [(run.communicate()[1], run.returncode) for run in runs]
    assert any(code == 0 for _, code in ends)
    assert all(code == 0 or "another process" in err or "not empty" in err for err, code in ends), ends
    assert len(pq.read_table(tmp_path / "out")) == 60


def test_csv_has_the_types_of_its_fields(tmp_path: Path) -> None:
    source = tmp_path / "tables"
    source.mkdir()
    (source / "a.csv").write_text('\ufeffid,price,zip,note,on\n1,2.5,00123,"a, ""b""\nc",true\n2,,99999,,False\n')
    with gzip.open(source / "b.csv.gz", "wt") as file:
        file.write("price,id,zip,note,on\n7,3,1,x,true\n")
    report = write(source, tmp_path / "out")
    assert (report["rows"], report["columns"]) == (3, ["id", "price", "zip", "note", "on"])
    table = pq.read_table(tmp_path / "out")
    assert table.schema.field("id") == pa.field("id", pa.int64(), nullable=False)
    assert table.schema.field("price") == pa.field("price", pa.float64())
    assert table.to_pylist() == [
        {"id": 1, "price": 2.5, "zip": "00123", "note": 'a, "b"\nc', "on": True},
        {"id": 2, "price": None, "zip": "99999", "note": "", "on": False},
        {"id": 3, "price": 7.0, "zip": "1", "note": "x", "on": True},
    ]
    write(source, tmp_path / "texts", "--text", "id")
    assert pq.read_table(tmp_path / "texts")["id"].to_pylist() == ["1", "2", "3"]
    (source / "c.csv.gz").write_text("id,price\n1,2\n")
    assert "if it is not compressed, remove .gz from its name" in refused(source, tmp_path / "out2")
    (source / "c.csv.gz").unlink()
    (source / "c.csv").write_text("id,price\n1,2,3\n")
    assert "c.csv" in refused(source, tmp_path / "out2")
    (source / "c.csv").write_text("id,id\n1,2\n")
    assert 'the name "id"' in refused(source, tmp_path / "out2")
    (source / "c.csv").write_text("id\n")
    assert write(source, tmp_path / "out2")["rows"] == 3


def test_a_table_names_the_files_of_its_images(photos: Path, tmp_path: Path) -> None:
    names = sorted(str(path.relative_to(photos)) for path in photos.glob("*/*.jpg"))
    table = photos.parent / "list.tsv"
    table.write_text("file\tlabel\n" + "".join(f"{photos / name}\t{number}\n" for number, name in enumerate(names)))
    write(table, tmp_path / "out", "--files", "file")
    rows = pq.read_table(tmp_path / "out").to_pylist()
    assert rows == [{"file": (photos / name).read_bytes(), "label": number} for number, name in enumerate(names)]
    with table.open("a") as file:
        file.write("nowhere.jpg\t5\n")
    error = refused(table, tmp_path / "out2", "--files", "file")
    assert "nowhere.jpg" in error and "row" in error
    for text, words in [
        ("https://user:hunter2@acme.org/a.jpg", "--files reads files of this machine, and this is https://***@acme.org/a.jpg (copy"),
        ("data:image/png;base64,AAAA", "name the column in --base64"),
        ("file:///nowhere/a.jpg", 'the path "file:///nowhere/a.jpg" leads out of the folder of the table'),
        ("/etc/passwd", 'the path "/etc/passwd" leads out of the folder of the table (move the table'),
        (f"{photos.name}/../../x.jpg", "leads out of the folder"),
        (f"file://{photos}/nowhere.jpg", "this cannot be read: No such file"),
    ]:
        table.write_text(f"file\tlabel\n{text}\t1\n")
        error = refused(table, tmp_path / "out2", "--files", "file")
        assert words in error and 'row 0, column "file"' in error and "hunter2" not in error
    table.write_text(f"file\tlabel\nfile://{photos / names[0]}\t1\n")
    write(table, tmp_path / "out4", "--files", "file")
    assert pq.read_table(tmp_path / "out4")["file"].to_pylist() == [(photos / names[0]).read_bytes()]
    lines = photos.parent / "list.jsonl"
    lines.write_text(json.dumps({"file": f"{photos.name}/{names[1]}"}) + "\n")
    write(lines, tmp_path / "out5", "--files", "file")
    assert pq.read_table(tmp_path / "out5")["file"].to_pylist() == [(photos / names[1]).read_bytes()]
    lines.write_text(json.dumps({"file": "../secret"}) + "\n")
    assert 'row 0, column "file": the path "../secret" leads out' in refused(lines, tmp_path / "out6", "--files", "file")
    assert "two of --files" in refused(table, tmp_path / "out3", "--files", "file", "--text", "file")
    assert 'no column "files"' in refused(table, tmp_path / "out3", "--files", "files")


def test_json_lines_are_rows(tmp_path: Path) -> None:
    lines = [
        {"id": 1, "boxes": [{"box": [1, 2.5], "label": "cat"}], "text": "é"},
        {"id": 2, "boxes": [], "text": None, "more": True},
        {"id": 3, "boxes": [{"box": [3], "score": 0.5}, {}]},
    ]
    source = tmp_path / "rows.jsonl"
    source.write_text("\n".join(map(json.dumps, lines)) + "\n\n", encoding="utf-8")
    write(source, tmp_path / "out")
    table = pq.read_table(tmp_path / "out")
    assert table.column_names == ["boxes", "id", "more", "text"]
    assert table.to_pylist() == [
        {"id": 1, "boxes": [{"box": [1.0, 2.5], "label": "cat", "score": None}], "text": "é", "more": None},
        {"id": 2, "boxes": [], "text": None, "more": True},
        {"id": 3, "boxes": [{"box": [3.0], "label": None, "score": 0.5}, {"box": None, "label": None, "score": None}],
         "text": None, "more": None},
    ]
    listed = tmp_path / "rows.json"
    listed.write_text(json.dumps(lines, indent=2))
    write(listed, tmp_path / "out2")
    assert pq.read_table(tmp_path / "out2").equals(table)


def test_whole_numbers_of_64_bits_are_uint64_beside_small_ones(tmp_path: Path) -> None:
    most = 2**64 - 1
    for number, pair in enumerate([(1, most), (most, 1)]):
        source = tmp_path / f"{number}.jsonl"
        source.write_text("".join(json.dumps({"h": value, "l": [value, 7]}) + "\n" for value in pair))
        table = tmp_path / f"{number}.csv"
        table.write_text("h\n" + "".join(f"{value}\n" for value in pair))
        for name in (source, table):
            write(name, tmp_path / f"out-{name.name}")
            read = pq.read_table(tmp_path / f"out-{name.name}")
            assert read.schema.field("h").type == pa.uint64() and read["h"].to_pylist() == list(pair)
        assert pq.read_table(tmp_path / f"out-{source.name}")["l"].to_pylist() == [[value, 7] for value in pair]


def test_json_that_is_no_table_is_refused_with_its_place(tmp_path: Path) -> None:
    source = tmp_path / "rows.jsonl"
    source.write_text('{"a": 1}\n{"a": "x"}\n')
    error = refused(source, tmp_path / "out")
    assert "text here and a whole number before" in error and "--text a" in error
    write(source, tmp_path / "out", "--text", "a")
    assert pq.read_table(tmp_path / "out")["a"].to_pylist() == ["1", "x"]
    source.write_text('{"a": 1}\n{"a": \n')
    assert "line 2" in refused(source, tmp_path / "out2")
    source.write_text('{"a": [-1]}\n{"a": [9223372036854775808]}\n')
    error = refused(source, tmp_path / "out2")
    assert "a[] is a whole number of 2^63 or more here and a whole number below 0 before" in error and "--text a" in error
    for text, column, words in [
        ('{"a": NaN}', 7, "Python's json writes and JSON does not have, write null"),
        ('{"b": 1, "a": [-Infinity]}', 17, "Python's json writes and JSON does not have, write null"),
        ('{"a": "\\ud800"}', 13, "write both halves"),
        ('{"a": "\\udc00 x"}', 13, "write both halves"),
        ('{"a": "\\ud83d\\n"}', 15, "write both halves"),
    ]:
        source.write_text(f'{{"a": 1}}\n\n{text}\n')
        error = refused(source, tmp_path / "out2")
        at_column = [f"at column {near} " in error for near in (column, column + 1)]
        assert "line 3" in error and any(at_column) and words in error, error
        (tmp_path / "one.json").write_text(f"[{text}]")
        error = refused(tmp_path / "one.json", tmp_path / "out2")
        assert "at line 1 column" in error and words in error, error
    deep = "[" * 60 + "1" + "]" * 60
    source.write_text(f'{{"a": {deep}}}\n')
    assert "levels deep" in refused(source, tmp_path / "out2")
    source.write_text("{}\n{}\n")
    assert "no columns" in refused(source, tmp_path / "out2")
    source.write_text('\ufeff{"a": {}}\n')
    write(source, tmp_path / "empty")
    assert pq.read_table(tmp_path / "empty").to_pylist() == [{"a": "{}"}]
    (tmp_path / "one.json").write_text('[{"a": 1}, 2]')
    assert "objects" in refused(tmp_path / "one.json", tmp_path / "out2")


def test_base64_is_bytes(tmp_path: Path) -> None:
    cells = [base64.b64encode(picture(0)).decode(), "data:image/png;base64," + base64.b64encode(picture(1, "PNG")).decode(), None]
    source = tmp_path / "rows.jsonl"
    source.write_text("".join(json.dumps({"image": cell}) + "\n" for cell in cells))
    write(source, tmp_path / "out", "--base64", "image")
    assert pq.read_table(tmp_path / "out")["image"].to_pylist() == [picture(0), picture(1, "PNG"), None]
    source.write_text('{"image": "no base64!"}\n')
    error = refused(source, tmp_path / "out2", "--base64", "image")
    assert "base64" in error and 'column "image"' in error
    # The corrected table differs from the first, which is accepted because the failed run completed no file.
    source.write_text('{"image": "AAAA"}\n')
    assert write(source, tmp_path / "out2", "--base64", "image")["rows"] == 1


@pytest.mark.parametrize("form", ["file", "lz4", "stream"])
def test_files_of_arrow_keep_their_columns(form: str, table: pa.Table, tmp_path: Path) -> None:
    source = tmp_path / "data"
    source.mkdir()
    table = table.replace_schema_metadata({"huggingface": "{}"})
    for number in range(2):
        half = table.slice(number * len(table) // 2, len(table) // 2)
        path = source / f"data-{number}.arrow"
        if form == "stream":
            with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
                writer.write_table(half, max_chunksize=100)
        else:
            pyarrow.feather.write_feather(half, path, compression="lz4" if form == "lz4" else "uncompressed")
    write(source, tmp_path / "out")
    read = pq.read_table(tmp_path / "out")
    assert read.equals(table)
    assert read.schema.metadata[b"huggingface"] == b"{}"
    assert "loaders shuffle" in refused(source, tmp_path / "out2", "--shuffle")
    if form == "stream":
        cut = (source / "data-1.arrow").read_bytes()[:-8]
        (tmp_path / "cut.arrow").write_bytes(cut)
        assert "no end" in refused(tmp_path / "cut.arrow", tmp_path / "out2")
    (source / "data-2.arrow").write_bytes(b"ARROW1\0\0 and nothing else")
    assert "data-2.arrow" in refused(source, tmp_path / "out2")


def test_arrow_that_parquet_has_no_place_for(tmp_path: Path) -> None:
    def file(name: str, table: pa.Table) -> Path:
        pyarrow.feather.write_feather(table, tmp_path / name, compression="uncompressed")
        return tmp_path / name

    moments = [0, None, 1_700_000_000]
    times = pa.table(
        {
            "second": pa.array(moments, pa.timestamp("s", "UTC")),
            "day": pa.array([0, 86_400_000, None], pa.date64()),
            "time": pa.array([1, 2, None], pa.time32("s")),
        }
    )
    write(file("times.arrow", times), tmp_path / "times")
    read = pq.read_table(tmp_path / "times")
    assert read["second"].type == pa.timestamp("ms", "UTC")
    assert read.to_pydict() == times.to_pydict()
    union = pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])])
    with pa.OSFile(str(tmp_path / "union.arrow"), "wb") as out, pa.ipc.new_file(out, pa.schema([("u", union.type)])) as writer:
        writer.write_batch(pa.record_batch([union], ["u"]))
    assert 'column "u"' in refused(tmp_path / "union.arrow", tmp_path / "out")
    assert "no place" in refused(file("fixed.arrow", pa.table({"f": pa.array([b""], pa.binary(0))})), tmp_path / "out")
    assert "no rows" in refused(file("none.arrow", pa.table({"a": pa.array([], pa.int64())})), tmp_path / "out")
    whole = file("times.arrow", times).read_bytes()
    rng = np.random.default_rng(5)
    for _ in range(40):
        damaged = bytearray(whole)
        for place in rng.integers(8, len(whole), 6):
            damaged[place] = rng.integers(256)
        (tmp_path / "damaged.arrow").write_bytes(damaged)
        process = start(tmp_path / "damaged.arrow", tmp_path / "damaged")
        _, err = process.communicate()
        assert process.returncode in (0, 2) and "panicked" not in err, err
        subprocess.run(["rm", "-rf", tmp_path / "damaged"], check=True)


def mds(folder: Path, columns: list[tuple[str, str, int | None]], rows: list[list[bytes]], compression: str | None) -> None:
    """Writes shards in the format that MosaicML describes. A column is a name, an encoding and a size."""
    folder.mkdir()
    shards = []
    for number, first in enumerate(range(0, len(rows), 7)):
        samples = []
        for values in rows[first : first + 7]:
            sizes = [len(value) for value, (_, _, size) in zip(values, columns, strict=True) if size is None]
            samples.append(struct.pack(f"<{len(sizes)}I", *sizes) + b"".join(values))
        form = json.dumps({"format": "mds"}).encode()
        head = 4 + 4 * (len(samples) + 1) + len(form)
        ends = np.cumsum([head, *map(len, samples)]).astype("<u4")
        raw = struct.pack("<I", len(samples)) + ends.tobytes() + form + b"".join(samples)
        shard: dict[str, Any] = {
            "column_names": [name for name, _, _ in columns], "column_encodings": [encoding for _, encoding, _ in columns],
            "column_sizes": [size for _, _, size in columns], "compression": compression,
            "format": "mds", "hashes": [], "samples": len(samples), "size_limit": 1 << 26, "version": 2,
            "raw_data": {"basename": f"shard.{number:05}.mds", "bytes": len(raw), "hashes": {}}, "zip_data": None,
        }
        if compression:
            packed = pa.compress(raw, codec="zstd", asbytes=True)
            shard["zip_data"] = {"basename": f"shard.{number:05}.mds.zstd", "bytes": len(packed), "hashes": {}}
            (folder / shard["zip_data"]["basename"]).write_bytes(packed)
        else:
            (folder / shard["raw_data"]["basename"]).write_bytes(raw)
        shards.append(shard)
    (folder / "index.json").write_text(json.dumps({"version": 2, "shards": shards}))


@pytest.mark.parametrize("compression", [None, "zstd"])
def test_shards_of_mosaicml_are_rows(compression: str | None, tmp_path: Path) -> None:
    rows = [
        {"image": picture(number), "label": -number, "text": "é" * number, "vector": np.full((2, 3), number, np.float32)}
        for number in range(20)
    ]
    source = tmp_path / "shards"
    columns = [("image", "jpeg", None), ("label", "int", 8), ("text", "str", None), ("vector", "ndarray:float32:2,3", 24)]
    values = [
        [row["image"], struct.pack("<q", row["label"]), row["text"].encode(), row["vector"].tobytes()] for row in rows
    ]
    mds(source, columns, values, compression)
    report = write(source, tmp_path / "out")
    assert (report["rows"], report["columns"]) == (20, ["image", "label", "text", "vector"])
    read = pq.read_table(tmp_path / "out").to_pylist()
    for row, wanted in zip(read, rows, strict=True):
        assert (row["image"], row["label"], row["text"]) == (wanted["image"], wanted["label"], wanted["text"])
        assert row["vector"] == wanted["vector"].ravel().tolist()
    shard = next(source.glob("shard.00001*"))
    shard.write_bytes(shard.read_bytes()[:-1])
    assert "shard.00001" in refused(source, tmp_path / "out2")
    shard.unlink()
    assert "missing" in refused(source, tmp_path / "out2")


def test_every_encoding_of_mosaicml_has_a_column(tmp_path: Path) -> None:
    def sized(*parts: bytes) -> bytes:
        return struct.pack(f"<{len(parts) + 1}I", len(parts), *map(len, parts)) + b"".join(parts)

    def pil(pixels: np.ndarray[Any, Any], mode: str) -> bytes:
        return struct.pack("<III", pixels.shape[1], pixels.shape[0], len(mode)) + mode.encode() + pixels.tobytes()

    images = [picture(1), picture(2)]
    pixels = np.random.default_rng(3).integers(0, 256, (5, 4, 3), np.uint8)
    half = np.array([[0.5, -2, 65504]], np.float16)
    long = np.arange(600, dtype=np.int32).reshape(2, 300)
    columns: list[tuple[str, str, int | None, bytes]] = [
        ("half", "float16", 2, half[0, :1].tobytes()),
        ("halves", "ndarray:float16:1,3", 6, half.tobytes()),
        ("images", "list[jpeg]", None, bytes(4) + sized(*images)),
        ("jpegs", "jpeg_array", None, sized(*images[:1])),
        ("pil", "pil", None, pil(pixels, "RGB")),
        ("pils", "list[pil]", None, bytes(4) + sized(pil(pixels[..., 0], "L"), pil(pixels, "RGB"))),
        ("typed", "ndarray:float16", None, bytes([2 << 2, 1, 3]) + half.tobytes()),
        ("any", "ndarray", None, bytes([33, 2 << 2 | 1]) + struct.pack("<HH", 2, 300) + long.tobytes()),
    ]
    form = [(name, encoding, size) for name, encoding, size, _ in columns]
    mds(tmp_path / "shards", form, [[value for *_, value in columns]] * 9, None)
    write(tmp_path / "shards", tmp_path / "out")
    table = pq.read_table(tmp_path / "out")
    assert table.schema.field("half").type == pa.float16()
    row = table.to_pylist()[8]
    assert (row["half"], row["halves"]) == (0.5, [0.5, -2, 65504])
    assert (row["images"], row["jpegs"]) == (images, images[:1])
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(row["pil"]))), pixels)
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(row["pils"][0]))), pixels[..., 0])
    for name, wanted in [("typed", half), ("any", long)]:
        read = np.load(io.BytesIO(row[name]))
        assert read.dtype == wanted.dtype
        np.testing.assert_array_equal(read, wanted)
    decode: dict[str, Any] = {
        "any": fb.Tensor("int32", (2, 300), format="npy"),
        "typed": fb.Tensor("float16", (1, 3), format="npy"),
        "images": fb.Clip(fb.Image.resize(8, 8), frames=2),
        "pil": fb.Image.resize(8, 8),
    }
    batch = next(iter(fb.Loader(tmp_path / "out", columns=list(decode), decode=decode, batch_size=9)))
    assert batch["images"].shape == (9, 2, 8, 8, 3)
    np.testing.assert_array_equal(batch["any"][4], long)
    np.testing.assert_array_equal(batch["typed"][4], half)
    mds(tmp_path / "pickles", [("a", "pkl", None)], [[b"x"]], None)
    assert 'column "a"' in (error := refused(tmp_path / "pickles", tmp_path / "out2")) and "a pickle can run any program" in error
    mds(tmp_path / "modes", [("a", "pil", None)], [[pil(pixels, "RGB")], [pil(pixels[..., 0], "P")]], None)
    error = refused(tmp_path / "modes", tmp_path / "out2")
    assert 'row 1, column "a"' in error and 'in the mode "P"' in error and "shard.00000.mds" in error


def test_coco_gives_boxes_and_classes(photos: Path, tmp_path: Path) -> None:
    names = sorted(str(path.relative_to(photos)) for path in photos.glob("*/*.jpg"))[:6]
    annotations = {
        "images": [{"id": 100 - number, "file_name": name, "width": 48, "height": 32} for number, name in enumerate(names)],
        "categories": [{"id": 90, "name": "kite"}, {"id": 7, "name": "train"}],
        "annotations": [
            {"id": 1, "image_id": 100, "category_id": 90, "bbox": [1, 2, 3.5, 4], "area": 14, "iscrowd": 0},
            {"id": 2, "image_id": 98, "category_id": 7, "bbox": [5, 6, 7, 8], "area": 56, "iscrowd": 0},
            {"id": 3, "image_id": 100, "category_id": 7, "bbox": [9, 9, 2, 2], "area": 4, "iscrowd": 0},
            {"id": 4, "image_id": 99, "category_id": 7, "bbox": [0, 0, 48, 32], "area": 9, "iscrowd": 1,
             "segmentation": {"counts": [1, 2], "size": [32, 48]}},
        ],
    }
    file = tmp_path / "instances.json"
    file.write_text(json.dumps(annotations))
    process = start(photos, tmp_path / "out", "--coco", file)
    _, err = process.communicate()
    assert process.returncode == 0 and "left out, since detectors are trained without them: 1 crowd" in err
    assert "do not list them: 54 images" in err
    table = pq.read_table(tmp_path / "out")
    assert table["boxes"].to_pylist()[:3] == [[[1, 2, 3.5, 4], [9, 9, 2, 2]], [], [[5, 6, 7, 8]]]
    assert table["labels"].to_pylist()[:3] == [[1, 0], [], [0]]
    features = json.loads(table.schema.metadata[b"huggingface"])["info"]["features"]
    assert features["labels"]["feature"]["names"] == ["train", "kite"]
    decode = {"image": fb.Image.resize(64, 96), "boxes": fb.Boxes(of="image", format="xywh")}
    [batch] = fb.Loader(tmp_path / "out", decode=decode, batch_size=6, shuffle=None)
    np.testing.assert_allclose(batch["boxes"][0], [[2, 4, 7, 8], [18, 18, 4, 4]])
    annotations["categories"].append({"id": 7, "name": "again"})
    file.write_text(json.dumps(annotations))
    assert 'the categories "train" and "again" have one identifier, 7' in refused(photos, tmp_path / "out2", "--coco", file)
    annotations["categories"].pop()
    for key, noun, where in [("category_id", "category", "categories"), ("image_id", "image", "images")]:
        before = annotations["annotations"][1][key]
        annotations["annotations"][1][key] = 555
        file.write_text(json.dumps(annotations))
        sentence = f'the annotation with the id 2 is of {noun} 555, which is not among the "{where}" (add it'
        assert sentence in refused(photos, tmp_path / "out2", "--coco", file)
        annotations["annotations"][1][key] = before
    annotations["images"][3]["id"] = 100
    file.write_text(json.dumps(annotations))
    assert f"the images {names[0]} and {names[3]} have one identifier, 100" in refused(photos, tmp_path / "out2", "--coco", file)
    assert "no file" in (error := refused(tmp_path, tmp_path / "out2", "--coco", file)).lower() or "No such file" in error


@pytest.mark.parametrize("names", ["names: [kite, train]", "path: x\nnames:\n  0: kite\n  1: 'train'\n", "names:\n- kite\n- train", "names: {'0': kite, '1': train}"])
def test_yolo_gives_boxes_in_pixels(names: str, tmp_path: Path) -> None:
    images, labels = tmp_path / "set/images/train", tmp_path / "set/labels/train"
    images.mkdir(parents=True)
    labels.mkdir(parents=True)
    for number in range(3):
        (images / f"{number}.jpg").write_bytes(picture(number, size=(200, 100)))
    # The EXIF orientation turns this image by a quarter, so that it is shown as 100 by 200.
    turned = io.BytesIO()
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.open(io.BytesIO(picture(0, size=(200, 100)))).save(turned, "JPEG", exif=exif)
    (images / "3.jpg").write_bytes(turned.getvalue())
    (labels / "0.txt").write_text("1 0.5 0.5 0.5 0.5\n0 0.25 0.5 0.1 0.2\n")
    (labels / "1.txt").write_text("")
    (labels / "3.txt").write_text("0 0.5 0.5 0.5 0.5\n")
    (tmp_path / "set" / ("coco8.yaml" if "path" in names else "data.yaml")).write_text(names)
    process = start(images, tmp_path / "out", "--yolo")
    _, err = process.communicate()
    assert process.returncode == 0, err
    assert "1 image" in err
    table = pq.read_table(tmp_path / "out")
    np.testing.assert_allclose(table["boxes"].to_pylist()[0], [[50, 25, 100, 50], [40, 40, 20, 20]], atol=1e-4)
    assert table["labels"].to_pylist() == [[1, 0], [], [], [0]]
    np.testing.assert_allclose(table["boxes"].to_pylist()[3], [[25, 50, 50, 100]], atol=1e-4)
    (labels / "2.txt").write_text("0 0.1 0.1 0.2 0.2 0.3 0.3 0.4\n")
    error = refused(images, tmp_path / "out2", "--yolo")
    assert "2.txt" in error and "line 1" in error
    (labels / "2.txt").write_text("\n2 0.1 0.1 0.2 0.2\n")
    error = refused(images, tmp_path / "out2", "--yolo")
    assert "2.txt: line 2 has the class 2, and the names are those of 0 to 1" in error
    (labels / "2.txt").write_text("1 20 20 10 10\n")
    assert "from 0 to 1" in refused(images, tmp_path / "out2", "--yolo")


def test_a_folder_without_such_files_is_refused(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "holds no files" in refused(tmp_path / "empty", tmp_path / "out")
    (tmp_path / "empty" / "a.doc").write_text("x")
    assert "a.doc" in refused(tmp_path / "empty", tmp_path / "out")
    assert "No such file" in refused(tmp_path / "nowhere", tmp_path / "out")
    assert "--base64 names columns" in refused(photos, tmp_path / "out", "--base64", "image")


def test_the_error_of_a_loader_names_the_command(photos: Path, tmp_path: Path) -> None:
    with pytest.raises(fb.ForebayError, match="forebay write"):
        fb.Loader(photos)
    (tmp_path / "rows.csv").write_text("a\n1\n")
    with pytest.raises(fb.ForebayError, match="forebay write"):
        fb.Loader(tmp_path / "rows.csv")


def test_files_are_sent_to_a_store(photos: Path, tmp_path: Path) -> None:
    with s3.serve(photos, tmp_path) as store:
        out = store.root + "/written"
        options = [word for key, value in store.options.items() for word in ("-o", f"{key}={value}")]
        words = (photos, out, "--row-group-bytes", "2KB", *options)
        report = write(*words)
        assert report["rows"] == 60 and report["files"] > 1
        again = write(*words)
        assert again["files_before"] == again["files"] == report["files"]
        assert again["bytes"] == report["bytes"]
        assert "another run" in refused(*words, "--shuffle")
        batch = next(iter(fb.Loader(out, batch_size=60, shuffle=None, storage_options=store.options)))
        wanted = sorted(str(path.relative_to(photos)) for path in photos.glob("**/*.*g"))
        assert list(batch["path"]) == wanted
