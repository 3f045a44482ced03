"""Runs each task with forebay's own loader."""

import row_functions
import work as settings
from work import CONTENT, KEY

NEEDS = ["forebay", "pyarrow"]
PACKAGES = ["forebay", "numpy"]


def built():
    """Returns the processor features that forebay's code is built for; pyarrow and numpy choose theirs on the
    machine."""
    from forebay import _forebay

    return {"forebay for": _forebay.__level__}


class Loader:
    def __init__(self, work):
        task = TASKS[work.task]
        self.loader, self.plan = task.opened(work)
        if work.tier:
            self.loader.warm()
        self.columns = task.columns or plain(self.loader)

    def epoch(self, number):
        return map(self.columns, self.loader)

    def held(self):
        return self.plan.to_dict()["pool"]


class Task:
    """One task as a user writes it: the loader's options, and a function that takes the columns from a batch."""

    def __init__(self, options=None, columns=None):
        self.options, self.columns = options, columns

    def opened(self, work):
        """Returns the loader and its plan, which knows how many row groups it mixes."""
        loader = self.over(work, work.folder, batch_size=work.batch, threads=work.threads, drop_last=True)
        return loader, loader.plan()

    def over(self, work, folder, **how):
        import forebay as fb

        how |= {"shuffle": fb.Shuffle(seed=1, window_rows=work.window), "cache": cache(work)}
        return fb.Loader(folder, **how | (self.options(fb, work) if self.options else {}))


class Mixed(Task):
    """A mix of tables, each with a window of its own."""

    def opened(self, work):
        import forebay as fb

        sources = [self.over(work, work.folder / str(at)) for at in range(len(settings.SHARES))]
        mix = fb.Mix(list(zip(sources, settings.SHARES)), batch_size=work.batch, threads=work.threads, drop_last=True)
        plan = sources[0].plan()
        for source in sources:
            source.close()
        return mix, plan


def rows(fb, work):
    texts = fb.Vocabulary(work.vocabulary) if work.vocabulary else None
    return {
        "fill_null": work.fills or None,
        "encode": texts and dict.fromkeys(text_columns(fb, work), texts),
        "filter": None if work.below is None else fb.col(KEY) < work.below,
    }


def text_columns(fb, work):
    return [name for name, kind, *_ in fb.Dataset(work.folder).schema.layout() if kind == "text"]


def hashed(fb, work):
    return {"encode": dict.fromkeys(text_columns(fb, work), fb.Hash(settings.BUCKETS))}


def photographs(fb, work):
    image = fb.Image.random_resized_crop(settings.SIDE).flip()
    return {"decode": {"image": image}} | function(row_functions.brightened, fb, work)


def function(of_row, fb, work):
    """Returns the options that run ``of_row`` on each row, if the work asks for it."""
    if not work.workers:
        return {}
    workers = {
        "own": 0,
        "threads": fb.Workers(work.threads, threads=True),
        "processes": work.threads,
        "unseeded": fb.Workers(work.threads, threads=False, seeded=False),
    }
    return {"transform_rows": of_row, "transform_workers": workers[work.workers]}


def cache(work):
    """Returns a cache in a folder beside the files, if the work asks for one."""
    import forebay as fb

    return work.tier and fb.DiskCache(work.folder.with_suffix(f".{work.tier}"), max_bytes="16GB", tier=work.tier)


def plain(loader):
    kinds = {name: kind for name, kind, *_ in loader.schema.layout()}
    return {"ragged": ragged, "bytes": binary}.get(kinds.get(CONTENT), dict)


def ragged(batch):
    column = batch[CONTENT]
    return {CONTENT: (column.values, column.offsets)}


def binary(batch):
    """Returns the values and offsets of binary cells from Arrow. Neither contestant makes a Python object for each
    cell, because that would cost both the same."""
    return {CONTENT: values_and_offsets(batch.column(CONTENT))}


def values_and_offsets(column):
    import numpy as np
    import pyarrow as pa

    column = pa.array(column)
    nested = pa.types.is_large_list(column.type)
    _, offsets, values = (column.values if nested else column).buffers()
    found = np.frombuffer(values, np.uint8), np.frombuffer(offsets, np.int64)
    return (*found, column.offsets.to_numpy()) if nested else found


def structures(batch):
    outer = batch["s"]
    inner = outer["t"]
    return {"y": batch["y"]} | {name: column for name, column in outer.items() if name != "t"} | inner


def flat(batch):
    return {name.rsplit(".", 1)[-1]: column for name, column in batch.items()}


def objects(batch):
    boxes = batch["objects"]
    return {"id": batch["id"]} | {name: (values, boxes.offsets) for name, values in boxes.values.items()}


def captions(batch):
    return {"id": batch["id"], "captions": values_and_offsets(batch.column("captions"))}


def texts(batch):
    return {"id": batch["id"], "captions": batch["captions"].tolist()}


def packs(batch):
    borders = batch["cu_seqlens"]
    return {**batch, "cu_seqlens": (borders.values, borders.offsets)}


TASKS = {
    "rows": Task(rows),
    "hash": Task(hashed),
    "structures": Task(columns=structures),
    "flat": Task(lambda fb, work: {"flatten": True}, flat),
    "objects": Task(columns=objects),
    "captions": Task(columns=captions),
    "texts": Task(columns=texts),
    "folders": Task(),
    "cast": Task(lambda fb, work: {"cast": {"f*": "float32", "i*": "int32"}}),
    "matrix": Task(lambda fb, work: {"stack": {"x": fb.Stack(["f*"])}}),
    "masks": Task(lambda fb, work: {"fill_null": dict.fromkeys(work.fills, 0), "null_mask": ["*"]}),
    "pad": Task(lambda fb, work: {"pad": {"tokens": fb.Pad(settings.PADDED, truncate=True, mask=True)}}),
    "pad to longest": Task(lambda fb, work: {"pad": {"tokens": fb.Pad()}}),
    "windows": Task(lambda fb, work: {"samples": fb.Window(settings.WINDOW)}),
    "windows apart": Task(lambda fb, work: {"samples": fb.Window(settings.WINDOW, overlap=False)}),
    "packs": Task(lambda fb, work: {"samples": fb.Pack("tokens", settings.PACK)}, packs),
    "buckets": Task(
        lambda fb, work: {
            "samples": fb.Bucket("tokens", tokens=settings.BUCKET),
            "pad": {"tokens": fb.Pad()},
        }
    ),
    "mix": Mixed(),
    "photographs": Task(photographs),
    "function": Task(lambda fb, work: function(row_functions.normalised, fb, work)),
}
