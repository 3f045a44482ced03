"""The code that a skilled user writes: pyarrow reads row groups in random order, a few are permuted together,
and threads decode."""

import pixels
from cells import cells

from loaders import PHOTOGRAPHS

NEEDS = ["pyarrow", "cv2", "numpy"]
PACKAGES = ["pyarrow", "opencv-python-headless", "numpy"]
ENVIRONMENT = "main"
WORKLOADS = (*PHOTOGRAPHS, "w1-float16", "w2", "w3", "w4", "w4m", "w4-raw", "w4-bytes")
READS = "Parquet"
PIXELS = pixels.SENTENCE
AHEAD = 2  # batches that are decoded while one is used
SLICE = 16  # images that a thread takes at a time


def row_groups(work):
    import pyarrow.parquet as pq

    return [(file, group) for file in work.files for group in range(pq.ParquetFile(file).num_row_groups)]


def held(work, groups):
    """Returns how many row groups are permuted together."""
    return min(groups, max(1, int(work.mixed * groups / work.rows + 0.5)))


def mixed(work):
    groups = len(row_groups(work))
    return work.rows * held(work, groups) // groups


def epochs(work, threads):
    from concurrent.futures import ThreadPoolExecutor

    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    pa.set_cpu_count(threads)
    groups = row_groups(work)
    together = held(work, len(groups))
    decoders = ThreadPoolExecutor(threads)
    decode = pixels.Pixels(work) if work.kind == "images" else None

    def read(chosen):
        return [pq.ParquetFile(file, memory_map=True).read_row_group(group) for file, group in chosen]

    def pools(number):
        """Yields tables, each with its rows in random order. The rows that do not fill a batch go into the next
        table."""
        random = np.random.default_rng(number)
        order = [groups[at] for at in random.permutation(len(groups))]
        blocks = [order[at : at + together] for at in range(0, len(order), together)]
        rest = []
        with ThreadPoolExecutor(1) as reader:
            coming = reader.submit(read, blocks[0])
            for at in range(len(blocks)):
                table = pa.concat_tables(rest + coming.result()).combine_chunks()
                last = at + 1 == len(blocks)
                if not last:
                    coming = reader.submit(read, blocks[at + 1])
                rows = random.permutation(table.num_rows)
                whole = len(rows) if last else len(rows) // work.batch * work.batch
                yield table, rows[:whole]
                rest = [table.take(rows[whole:])]

    def slices(rows):
        return [rows[at : at + work.batch] for at in range(0, len(rows), work.batch)]

    def table_batches(table, rows):
        # numpy releases the interpreter's lock while it gathers, so the threads gather columns at the same time.
        gathered = decoders.map(lambda name: table[name].to_numpy().take(rows), table.column_names)
        columns = dict(zip(table.column_names, gathered))
        for at in range(0, len(rows), work.batch):
            yield {name: column[at : at + work.batch] for name, column in columns.items()}

    def list_batches(table, rows):
        columns = {name: table[name].to_numpy() for name in table.column_names if name != work.column}
        columns[work.column] = cells(table[work.column].chunk(0), work)
        for chosen in slices(rows):
            yield {name: column.take(chosen, axis=0) for name, column in columns.items()}

    def image_batches(table, rows):
        blobs, labels = table["image"].chunk(0), table["label"].to_numpy()

        def fill(out, at, chosen):
            for place, row in enumerate(chosen, at):
                out[place] = decode(blobs[int(row)].as_buffer())

        def begin(chosen):
            out = np.empty((len(chosen), *decode.shape), work.dtype or np.uint8)
            parts = [decoders.submit(fill, out, at, chosen[at : at + SLICE]) for at in range(0, len(chosen), SLICE)]
            return chosen, out, parts

        waiting = slices(rows)
        begun = [begin(chosen) for chosen in waiting[:AHEAD]]
        for at in range(len(waiting)):
            chosen, out, parts = begun.pop(0)
            if at + AHEAD < len(waiting):
                begun.append(begin(waiting[at + AHEAD]))
            for part in parts:
                part.result()
            yield {"image": out, "label": labels[chosen]}

    batches = {"table": table_batches, "lists": list_batches, "images": image_batches}[work.kind]

    def epoch(number):
        for table, rows in pools(number):
            yield from batches(table, rows)

    return epoch
