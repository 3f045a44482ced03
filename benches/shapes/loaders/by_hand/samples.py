"""Delivers samples of several rows. The samples of a pool of row groups are permuted together."""

from itertools import pairwise

import numpy as np
from work import BUCKET, PACK, WINDOW

from loaders.by_hand.lists import items, joined, padded
from loaders.by_hand.rows import Rows


class Samples(Rows):
    def epoch(self, number):
        """Yields whole batches; the samples of a pool that do not fill a batch begin the next pool's first batch."""
        random, rest, missing = np.random.default_rng(number), None, 0
        for pool in [*self.pools(number)[1:], self.pools(number + 1)[0]]:
            tables = self.coming.result()
            self.coming = self.ask(pool)
            samples, gather = self.sampled(tables)
            order = random.permutation(samples)
            if rest:
                yield together(rest, gather(order[:missing]))
                order = order[missing:]
            whole = len(order) // self.work.batch * self.work.batch
            yield from map(gather, self.steps(order[:whole]))
            rest = gather(order[whole:]) if whole < len(order) else None
            missing = self.work.batch - len(order) + whole

    def read(self, pool):
        """Reads row groups one by one, because a sample never spans two of them."""
        return [self.read_file(self.groups[at][0], [self.groups[at][1]]) for at in sorted(pool)]


def together(first, second):
    """Joins two parts of a batch."""
    return {name: both(first[name], second[name]) for name in first}


def both(first, second):
    if not isinstance(first, tuple):
        return np.concatenate([first, second])
    (values, ends), (others, later) = first, second
    return np.concatenate([values, others]), np.concatenate([ends, ends[-1] + later[1:]])


class Windows(Samples):
    step = 1  # rows between the beginnings of two windows

    def sampled(self, tables):
        names = tables[0].column_names
        columns = {name: np.concatenate([table[name].to_numpy() for table in tables]) for name in names}
        ends = np.cumsum([0, *map(len, tables)])
        begins = np.concatenate([np.arange(at, end - WINDOW + 1, self.step) for at, end in pairwise(ends)])
        views = {name: overlapping(column) for name, column in columns.items()}

        def gather(chosen):
            rows = begins[chosen]
            return {name: view[rows].view(columns[name].dtype).reshape(-1, WINDOW) for name, view in views.items()}

        return len(begins), gather


def overlapping(column):
    """Views a column as overlapping windows, one from each row on; each is a single item that numpy copies whole."""
    count, size = len(column) - WINDOW + 1, column.itemsize
    return np.ndarray(count, f"V{WINDOW * size}", column, strides=(size,))


class WindowsApart(Samples):
    """Delivers windows that share no rows: it reshapes a column into a matrix with one window a line."""

    def sampled(self, tables):
        whole = [len(table) // WINDOW * WINDOW for table in tables]
        columns = {
            name: np.concatenate([table[name].to_numpy()[:rows] for table, rows in zip(tables, whole, strict=True)])
            for name in tables[0].column_names
        }
        cells = {name: column.reshape(-1, WINDOW) for name, column in columns.items()}
        return sum(whole) // WINDOW, lambda chosen: {name: cell.take(chosen, axis=0) for name, cell in cells.items()}


class Packs(Samples):
    columns_read = ("tokens",)

    def sampled(self, tables):
        parts = [packed(joined(table["tokens"])) for table in tables]
        whole = {name: np.concatenate([part[name] for part in parts]) for name in ("tokens", "position_ids")}
        whole["segment_ids"] = np.concatenate([part["segment_ids"] for part in parts])
        borders = np.concatenate([part["borders"] for part in parts])
        first = np.cumsum([0, *(count for part in parts for count in part["counts"])])

        def gather(chosen):
            places, ends = items(first, chosen)
            found = {name: array.take(chosen, axis=0) for name, array in whole.items()}
            return found | {"cu_seqlens": (borders.take(places), ends)}

        return len(whole["tokens"]), gather


def packed(lists):
    """Joins the lists of a row group into packs of fixed length, with the places where lists begin in each pack."""
    offsets = lists.offsets.to_numpy()
    tokens, end = lists.values.to_numpy()[offsets[0] : offsets[-1]], offsets[-1] - offsets[0]
    packs = -(-end // PACK)
    filled = np.zeros(packs * PACK, tokens.dtype)
    filled[:end] = tokens
    starts = np.union1d(offsets[:-1] - offsets[0], np.arange(0, end, PACK)).astype(np.int32)
    lengths = np.diff(starts, append=packs * PACK if end % PACK == 0 else end).astype(np.int32)
    of_pack = starts // PACK
    first = np.searchsorted(of_pack, np.arange(packs + 1)).astype(np.int32)
    segments = np.zeros(packs * PACK, np.int32)
    segments[:end] = np.repeat(np.arange(1, len(starts) + 1, dtype=np.int32) - first[of_pack], lengths)
    positions = np.arange(packs * PACK, dtype=np.int32)
    positions[:end] -= np.repeat(starts, lengths)
    positions[end:] -= end
    # The borders of a pack are the beginnings of its lists, the beginning of its padding if any, and its end.
    inside = starts - of_pack * PACK
    borders = [np.append(inside[begin:to], PACK) for begin, to in pairwise(first)]
    if end % PACK:
        borders[-1] = np.insert(borders[-1], -1, end % PACK)
    return {
        "tokens": filled.reshape(packs, PACK),
        "position_ids": positions.reshape(packs, PACK),
        "segment_ids": segments.reshape(packs, PACK),
        "borders": np.concatenate(borders).astype(np.int32),
        "counts": [len(border) for border in borders],
    }


class Buckets(Samples):
    """Delivers lists of similar length, padded to the longest; a batch is as large as its size limit allows."""

    def sampled(self, tables):
        found = []
        for table in tables:
            column, lengths = joined(table["tokens"]), table["n"].to_numpy()
            order = np.argsort(lengths, kind="stable")
            values, offsets = column.values.to_numpy(), column.offsets.to_numpy()
            found += [(values, offsets, lengths, order[at:end]) for at, end in pairwise(cuts(lengths[order]))]

        def gather(chosen):
            values, offsets, lengths, rows = found[chosen[0]]
            counts = lengths[rows]
            return {"n": counts, "tokens": padded(values, offsets[rows], counts, counts[-1])}

        return len(found), gather


def cuts(lengths):
    """Returns where buckets begin and end in rows that are sorted by length."""
    found, begin = [0], 0
    for at, length in enumerate(lengths.tolist()):
        if length * (at + 1 - begin) > BUCKET:
            found.append(at)
            begin = at
    return [*found, len(lengths)]
