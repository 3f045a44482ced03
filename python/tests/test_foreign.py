"""Data of other projects is delivered as their own readers deliver it, or refused."""

from __future__ import annotations

import datetime
import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import forebay as fb

#: The largest difference of a pixel between two JPEG decoders that both conform to the standard.
JPEG = 2


@pytest.fixture(scope="module")
def cells(foreign: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Path]]:
    """The photographs of the BCCD data set in one Parquet file, each as a structure of bytes and path, as Hugging Face
    stores them."""
    photographs = sorted((foreign / "bccd").rglob("*.jpg"))
    if not photographs:
        pytest.skip("FOREBAY_TEST_DATA has no bccd")
    folder = tmp_path_factory.mktemp("bccd")
    images = [{"bytes": photograph.read_bytes(), "path": photograph.name} for photograph in photographs]
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    table = pa.table({"image": pa.array(images, kind), "id": pa.array(range(len(images)), pa.int64())})
    pq.write_table(table, folder / "bccd.parquet", row_group_size=50)
    return folder, photographs


def test_photographs_decode_as_pillow_decodes_them(cells: tuple[Path, list[Path]]) -> None:
    Image = pytest.importorskip("PIL.Image")
    folder, photographs = cells
    seen = 0
    decode = {"image": fb.Image.resize(480, 640)}
    with fb.Loader(folder, decode=decode, batch_size=16, shuffle=fb.Shuffle(seed=1, window_rows=100)) as loader:
        for batch in loader:
            for pixels, row in zip(batch["image"], batch["id"], strict=True):
                want = np.asarray(Image.open(photographs[row]).convert("RGB"))
                assert want.shape == (480, 640, 3)
                assert np.abs(pixels.astype(int) - want).max() <= JPEG, photographs[row].name
                seen += 1
    assert seen == len(photographs)


def test_crops_are_those_of_pillow(cells: tuple[Path, list[Path]]) -> None:
    Image = pytest.importorskip("PIL.Image")
    folder, photographs = cells

    def middle(image: object) -> np.ndarray:
        width, height = image.size  # type: ignore[attr-defined]
        scale = 256 / min(width, height)
        image = image.resize((round(width * scale), round(height * scale)), Image.BILINEAR)  # type: ignore[attr-defined]
        left, top = round((image.width - 224) / 2), round((image.height - 224) / 2)
        return np.asarray(image.crop((left, top, left + 224, top + 224)))

    cases = {
        "resize": (fb.Image.resize(224, 224), lambda image: np.asarray(image.resize((224, 224), Image.BILINEAR))),
        "center_crop": (fb.Image.center_crop(224), middle),
    }
    for name, (spec, want) in cases.items():
        with fb.Loader(folder, decode={"image": spec}, batch_size=32) as loader:
            for batch in loader:
                for pixels, row in zip(batch["image"], batch["id"], strict=True):
                    expected = want(Image.open(photographs[row]).convert("RGB"))
                    assert np.abs(pixels.astype(int) - expected).mean() < 1, f"{name}: {photographs[row].name}"


def test_parquet_files_give_the_rows_of_pyarrow_or_are_refused(foreign: Path) -> None:
    files = sorted((foreign / "parquet-testing").rglob("*.parquet"))
    files += sorted((foreign / "petastorm-legacy").rglob("*.parquet"))
    # pyarrow's times overflow in this file.
    files = [file for file in files if file.name != "int96_from_spark.parquet"]
    if not files:
        pytest.skip("FOREBAY_TEST_DATA has no parquet-testing")
    read, refused = 0, 0
    wrong: list[str] = []
    for file in files:
        try:
            got = rows(file)
        except fb.InternalError:
            raise
        except fb.ForebayError as error:
            assert str(error)
            refused += 1
            continue
        try:
            # Only this file is read: pyarrow would add columns from the names of the folders above.
            want = pq.ParquetFile(file).read()
        except (pa.ArrowException, OSError):
            # forebay reads a file that pyarrow cannot read; the Rust tests list such files by name.
            read += 1
            continue
        for name, values in got.items():
            stored = listed(want[name])
            if not same(values, stored):
                wrong.append(f"{file.name}, column {name}: {str(values)[:80]} for {str(stored)[:80]}")
        read += 1
    print(f"{read} files read, {refused} refused")
    assert not wrong, "\n".join(wrong)
    assert read > len(files) / 2


def test_times_of_96_bits_that_spark_wrote_are_read_to_the_year_290000(foreign: Path) -> None:
    file = foreign / "parquet-testing" / "data" / "int96_from_spark.parquet"
    if not file.exists():
        pytest.skip("FOREBAY_TEST_DATA has no parquet-testing")
    coerced = pq.read_table(file, coerce_int96_timestamp_unit="us")["a"].cast(pa.int64()).to_pylist()
    last = 9_089_380_393_200_000_000
    with fb.Loader(file, batch_size=6) as loader:
        got = pa.record_batch(next(iter(loader)))["a"].cast(pa.int64()).to_pylist()
    assert got == [*coerced[:5], last]
    # The Gregorian calendar repeats every 400 years.
    start = datetime.date(2000, 1, 1).toordinal()
    days, rest = divmod(last, 86_400_000_000)
    periods, day = divmod(days + datetime.date(1970, 1, 1).toordinal() - start, 146_097)
    date = datetime.date.fromordinal(start + day)
    assert (date.year + 400 * periods, date.month, date.day, rest) == (290_000, 12, 30, 82_800_000_000)


def test_a_petastorm_data_set_is_read_as_a_whole(foreign: Path) -> None:
    folders = sorted((foreign / "petastorm-legacy").glob("*"))
    if not folders:
        pytest.skip("FOREBAY_TEST_DATA has no petastorm-legacy")
    for folder in folders:
        want = sum(pq.ParquetFile(file).metadata.num_rows for file in folder.rglob("*.parquet"))
        with fb.Loader(folder / "partition_key=*", columns=["id"]) as loader:
            ids = [row for batch in loader for row in batch["id"].tolist()]
        assert len(ids) == want > 0
        assert len(set(ids)) == len(ids)
        # The folders of this data set are named `partition_key=...`, which makes the key a column.
        with fb.Loader(folder, columns=["id", "partition_key"]) as loader:
            keys = {row: key for batch in loader for row, key in zip(batch["id"], batch["partition_key"], strict=True)}
        stored = ds.dataset(folder, partitioning="hive", exclude_invalid_files=True)
        rows = stored.to_table(columns=["id", "partition_key"]).to_pylist()
        assert keys == {row["id"]: row["partition_key"] for row in rows}


def rows(file: Path) -> dict[str, list[object]]:
    """Returns all values of a file through forebay, including nulls; columns of types that are not supported
    are left out."""
    names = pq_names(file)
    while True:
        try:
            with fb.Loader(file, columns=names, batch_size=1000) as loader:
                tables = [pa.record_batch(batch) for batch in loader]
            break
        except fb.UnsupportedError as error:
            if names is None or error.column not in names or len(names) == 1:
                raise
            names = [name for name in names if name != error.column]
    table = pa.Table.from_batches(tables)
    return {name: listed(table[name]) for name in table.column_names}


def listed(column: pa.ChunkedArray) -> list[object]:
    """Returns the values as Python objects, with numbers in place of times that Python cannot represent."""
    try:
        return column.to_pylist()
    except OverflowError:
        return column.cast(numbers(column.type)).to_pylist()


def numbers(kind: pa.DataType) -> pa.DataType:
    """Returns a type with numbers in place of times."""
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(numbers(field.type)) for field in kind])
    return pa.int64() if pa.types.is_timestamp(kind) else kind


def pq_names(file: Path) -> list[str] | None:
    try:
        return list(pq.ParquetFile(file).schema_arrow.names)
    except (pa.ArrowException, OSError):
        return None


def same(got: object, want: object) -> bool:
    """Whether two values are equal; NaN equals itself, and the form in which times are shown does not matter."""
    if isinstance(got, float) and isinstance(want, float):
        return got == want or (math.isnan(got) and math.isnan(want))
    if isinstance(got, (list, tuple)) and isinstance(want, (list, tuple)):
        return len(got) == len(want) and all(map(same, got, want))
    if isinstance(got, dict) and isinstance(want, dict):
        return got.keys() == want.keys() and all(same(got[key], want[key]) for key in got)
    return got == want
