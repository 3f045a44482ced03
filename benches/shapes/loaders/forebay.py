"""forebay."""

from work import CONTENT

NEEDS = ["forebay", "pyarrow"]
PACKAGES = ["forebay", "numpy"]


def built():
    """What its code is built for; pyarrow and numpy choose theirs on the machine."""
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
        )
        kinds = {name: kind for name, kind, *_ in self.loader.schema.layout()}
        self.columns = {"ragged": ragged, "bytes": binary}.get(kinds.get(CONTENT), dict)

    def epoch(self, number):
        return map(self.columns, self.loader)

    def held(self):
        return self.loader.plan().to_dict()["pool"]


def ragged(batch):
    column = batch[CONTENT]
    return {CONTENT: (column.values, column.offsets)}


def binary(batch):
    """Its bytes as Arrow has them: an object of Python for each cell would cost both contestants the same."""
    import numpy as np
    import pyarrow as pa

    column = pa.array(batch.column(CONTENT))
    _, offsets, values = column.buffers()
    return {CONTENT: (np.frombuffer(values, np.uint8), np.frombuffer(offsets, np.int64))}
