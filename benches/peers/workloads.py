"""The task of every contestant: the data, the batches, and how many rows are mixed."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

INPUTS = [f"I{at}" for at in range(1, 14)]  # the nullable float32 columns of a table


@dataclass(frozen=True)
class Workload:
    """One workload. Contestants read `folder` and give batches as dicts of arrays by column."""

    name: str
    title: str
    kind: str  # "images", "table" or "lists"
    data: str  # name of the data set; workloads may share one
    synth: tuple[str, ...]  # how `forebay synth` makes it
    batch: int
    mixed: int  # rows that are held at once to mix them, by all that can be told how many
    unit: str
    column: str = "image"  # the column whose cells are looked at
    cell: tuple[int, ...] = ()  # shape of one of its cells; of images as height, width, channels
    dtype: str | None = None  # number type of normalised pixels; None delivers what is stored
    crops: bool = False  # random resized crop and flip, or the image as it is
    per_row: int = 1  # units in a row
    photographs: dict | None = None  # how real photographs are encoded, which photographs.py does
    folder: Path = field(default=Path())  # where its Parquet files are
    rows: int = 0  # rows in them

    @property
    def files(self) -> list[str]:
        """The paths of the Parquet files, sorted."""
        return sorted(str(file) for file in self.folder.glob("*.parquet"))


PHOTOGRAPHS = {
    "kind": "images",
    "data": "w1",
    "synth": ("--rows", "6000", "--image", "500x375"),
    "batch": 256,
    "mixed": 1_000,
    "unit": "images/s",
    "cell": (224, 224, 3),
    "crops": True,
}
TINY = {"kind": "images", "batch": 128, "mixed": 10_000, "unit": "images/s"}


def real(name, words, **settings):
    """Returns a workload that does the same as w1, but on real photographs."""
    title = f"photographs as JPEG of 500x375, {words}; otherwise as w1"
    how = {**PHOTOGRAPHS, "data": name, "synth": (), "photographs": settings}
    return Workload(name, title, **how)


def tiny(data, side):
    """Returns the settings of a workload of square PNGs. They are in several files, because the workers of some
    contestants each take whole files."""
    synth = ("--rows", "50000", "--rows-per-file", "10000", "--png", "--image", f"{side}x{side}")
    return {"data": data, "synth": synth, "cell": (side, side, 3)}


def raw(name, form):
    """Returns a workload whose rows are raw pixels, which raw.py makes from the images of w4."""
    how = {"data": name, "synth": (), "cell": (3_072,), **TINY, "kind": "lists"}
    return Workload(name, f"the pixels of w4 as {form}, batches of 128", **how)


WORKLOADS = {
    work.name: work
    for work in (
        Workload("w1", "JPEG of about 500x375, random resized crop 224 and flip, uint8 batches of 256", **PHOTOGRAPHS),
        Workload("w1-float", "the same, normalised, float32, channels first", **PHOTOGRAPHS, dtype="float32"),
        Workload("w1-float16", "the same, normalised, float16, channels first", **PHOTOGRAPHS, dtype="float16"),
        real("w1-q75", "quality 75", quality=75),
        real("w1-q85", "quality 85", quality=85),
        real("w1-q95", "quality 95", quality=95),
        real("w1-444", "quality 85, 4:4:4", quality=85, sampling="4:4:4"),
        real("w1-grey", "quality 85, grey", quality=85, grey=True),
        real("w1-progressive", "quality 85, progressive", quality=85, progressive=True),
        Workload(
            "w2",
            "a label, 13 nullable float32 and 26 int32 a row, shuffled batches of 8,192 as a dict of arrays",
            kind="table",
            data="w2",
            synth=("--rows", "4000000", "--table"),
            batch=8_192,
            mixed=400_000,
            unit="rows/s",
            column="label",
        ),
        Workload(
            "w3",
            "token lists, list<int32> of 2,048, batches of 16",
            kind="lists",
            data="w3",
            synth=("--rows", "50000", "--rows-per-file", "10000", "--tokens", "2048"),
            batch=16,
            mixed=4_000,
            unit="tokens/s",
            column="tokens",
            cell=(2_048,),
            per_row=2_048,
        ),
        Workload("w4", "PNG of 32x32, decoded, batches of 128", **TINY, **tiny("w4", 32)),
        Workload("w4m", "PNG of 28x28, decoded, batches of 128", **TINY, **tiny("w4m", 28)),
        raw("w4-raw", "lists of 3,072 uint8 of fixed size"),
        raw("w4-bytes", "binary of 3,072 bytes"),
    )
}
