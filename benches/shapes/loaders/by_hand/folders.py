"""Reads files in folders whose names contain a key, and delivers the key as a column."""

import numpy as np
from work import FOLDER_KEY

from loaders.by_hand.rows import Rows


class Folders(Rows):
    def __init__(self, work):
        self.keys = [int(file.parent.name.removeprefix(f"{FOLDER_KEY}=")) for file in work.files]
        super().__init__(work)

    def read_file(self, file, groups):
        table = super().read_file(file, groups)
        return table.append_column(FOLDER_KEY, [np.full(len(table), self.keys[file])])
