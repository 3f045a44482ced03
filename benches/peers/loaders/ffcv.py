"""FFCV's Loader over .beton files: JPEG that its writer re-encodes, or arrays."""

import pixels
from cells import cells

from loaders import PHOTOGRAPHS

NEEDS = ["ffcv", "torch", "pyarrow"]
PACKAGES = ["ffcv", "torch", "numba", "numpy", "opencv-python-headless"]
ENVIRONMENT = "ffcv"
WORKLOADS = (*PHOTOGRAPHS, "w3", "w4-bytes")
READS = ".beton files; JPEG encoded anew at its writer's quality of 90"
PIXELS = "libjpeg-turbo: the whole frame decoded, area averaging by OpenCV"


class Rows:
    """The rows for the writer, which reads them one by one."""

    def __init__(self, work):
        import pyarrow.parquet as pq

        self.work, self.table = work, pq.read_table(work.files)
        self.column = self.table[work.column].combine_chunks()
        if work.kind == "lists":
            self.cells = cells(self.column, work)

    def __len__(self):
        return self.table.num_rows

    def __getitem__(self, at):
        import io

        from PIL import Image

        if self.work.kind == "lists":
            return (self.cells[at],)
        image = Image.open(io.BytesIO(self.column[at].as_py())).convert("RGB")
        return image, self.table["label"][at].as_py()


def convert(work, converted):
    import numpy as np
    from ffcv.fields import IntField, NDArrayField, RGBImageField
    from ffcv.writer import DatasetWriter

    rows = Rows(work)
    if work.kind == "lists":
        fields = {work.column: NDArrayField(np.dtype(rows.cells.dtype), work.cell)}
    else:
        fields = {work.column: RGBImageField(write_mode="jpg"), "label": IntField()}
    DatasetWriter(f"{converted}/rows.beton", fields, num_workers=1).from_indexed_dataset(rows)


def pipelines(work):
    import numpy as np
    from ffcv.fields.decoders import IntDecoder, NDArrayDecoder, RandomResizedCropRGBImageDecoder
    from ffcv.transforms import NormalizeImage, RandomHorizontalFlip, Squeeze, ToTensor, ToTorchImage

    if work.kind == "lists":
        return {work.column: [NDArrayDecoder(), ToTensor()]}
    image = [RandomResizedCropRGBImageDecoder(work.cell[:2]), RandomHorizontalFlip()]
    if work.dtype:
        mean, std = (255 * np.array(values) for values in (pixels.MEAN, pixels.STD))
        image += [NormalizeImage(mean, std, np.dtype(work.dtype).type), ToTensor(), ToTorchImage()]
    else:
        image += [ToTensor()]
    return {work.column: image, "label": [IntDecoder(), ToTensor(), Squeeze()]}


def mixed(work):
    return work.rows


def epochs(work, threads, converted):
    from ffcv.loader import Loader, OrderOption

    steps = pipelines(work)
    order = {"order": OrderOption.RANDOM, "os_cache": True, "drop_last": False}
    loader = Loader(f"{converted}/rows.beton", work.batch, num_workers=threads, pipelines=steps, **order)
    return lambda number: (dict(zip(steps, columns, strict=True)) for columns in loader)
