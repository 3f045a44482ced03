"""The contestant forebay."""

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
        import forebay as fb

        self.loader = fb.Loader(
            work.folder,
            batch_size=work.batch,
            threads=work.threads,
            drop_last=True,
            shuffle=fb.Shuffle(seed=1, window_rows=work.window),
            fill_null=work.fills or None,
            encode=encoded(work),
            filter=None if work.below is None else fb.col(KEY) < work.below,
            cache=cache(work),
        )
        if work.cached:
            self.loader.warm()
        kinds = {name: kind for name, kind, *_ in self.loader.schema.layout()}
        self.columns = {"ragged": ragged, "bytes": binary}.get(kinds.get(CONTENT), dict)

    def epoch(self, number):
        return map(self.columns, self.loader)

    def held(self):
        return self.loader.plan().to_dict()["pool"]


def encoded(work):
    """Returns a vocabulary for each column of text, if there is one."""
    import forebay as fb

    if not work.vocabulary:
        return None
    vocabulary = fb.Vocabulary(work.vocabulary)
    layout = fb.Dataset(work.folder).schema.layout()
    return {name: vocabulary for name, kind, *_ in layout if kind == "text"}


def cache(work):
    """Returns a cache on the disk of the files, if the work asks for one."""
    import forebay as fb

    return fb.DiskCache(work.folder.with_suffix(".rows"), max_bytes="16GB", tier="rows") if work.cached else None


def ragged(batch):
    column = batch[CONTENT]
    return {CONTENT: (column.values, column.offsets)}


def binary(batch):
    """Returns binary cells as Arrow holds them: a Python object for each cell would cost both contestants the
    same."""
    import numpy as np
    import pyarrow as pa

    column = pa.array(batch.column(CONTENT))
    _, offsets, values = column.buffers()
    return {CONTENT: (np.frombuffer(values, np.uint8), np.frombuffer(offsets, np.int64))}
