"""The loops that a skilled user writes, one for each task."""

import importlib
import resource

NEEDS = ["pyarrow", "numpy"]
PACKAGES = ["pyarrow", "numpy"]
# The module and the class of each task.
TASKS = {
    "rows": ("rows", "Rows"),
    "hash": ("hashed", "Hashed"),
    "structures": ("forms", "Flat"),
    "flat": ("forms", "Flat"),
    "cast": ("forms", "Cast"),
    "matrix": ("forms", "Matrix"),
    "masks": ("forms", "Masks"),
    "pad": ("lists", "Padded"),
    "pad to longest": ("lists", "PaddedToLongest"),
    "objects": ("lists", "Objects"),
    "captions": ("lists", "Captions"),
    "texts": ("lists", "Texts"),
    "folders": ("folders", "Folders"),
    "windows": ("samples", "Windows"),
    "windows apart": ("samples", "WindowsApart"),
    "packs": ("samples", "Packs"),
    "buckets": ("samples", "Buckets"),
    "mix": ("mixed", "Mixed"),
    "photographs": ("photographs", "Photographs"),
    "function": ("functions", "Processes"),
}
# The same for tasks that keep decoded rows on disk, by tier of the cache.
KEPT = {"rows": ("kept", "Arrays"), "pixels": ("photographs", "Pixels")}


def built():
    return {}


def Loader(work):
    """Opens the files for a task."""
    import pyarrow as pa

    pa.set_cpu_count(work.threads)
    # Thousands of files may be open at once, so the limit is raised.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    module, name = KEPT.get(work.tier) or TASKS[work.task]
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)(work)
