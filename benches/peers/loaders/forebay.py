"""forebay, with a window of the size that the workload names."""

import pixels
from workloads import INPUTS

from loaders import PHOTOGRAPHS

NEEDS = ["forebay"]
PACKAGES = ["forebay", "numpy"]
ENVIRONMENT = None
WORKLOADS = (*PHOTOGRAPHS, "w1-float16", "w2", "w3", "w4", "w4m", "w4-raw", "w4-bytes")
READS = "Parquet"
PIXELS = "libjpeg-turbo, the crop alone, at a smaller scale where that suffices; bilinear with antialiasing"


def image(work):
    import forebay as fb

    height, width, _ = work.cell
    how = fb.Image.random_resized_crop((height, width)).flip() if work.crops else fb.Image.resize(height, width)
    if work.dtype:
        how = how.normalize(pixels.MEAN, pixels.STD).dtype(work.dtype).layout("NCHW")
    return how


def opened(work, threads=None, memory=None):
    import forebay as fb

    return fb.Loader(
        work.folder,
        decode={work.column: image(work)} if work.kind == "images" else None,
        batch_size=work.batch,
        threads=threads,
        shuffle=fb.Shuffle(seed=1, window_rows=work.mixed),
        fill_null=dict.fromkeys(INPUTS, float("nan")) if work.kind == "table" else None,
        memory=memory,
    )


def mixed(work):
    plan = opened(work).plan().to_dict()
    return work.rows * plan["pool"] // plan["row_groups"]


def epochs(work, threads, memory=None):
    import forebay as fb

    loader = opened(work, threads, memory)

    def arrays(batch):
        columns = dict(batch)
        if isinstance(columns[work.column], fb.Ragged):
            columns[work.column] = columns[work.column].values.reshape(-1, *work.cell)
        return columns

    return lambda number: map(arrays, loader)
