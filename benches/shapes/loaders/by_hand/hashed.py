"""Turns texts into bucket numbers. Each text is hashed only once, when it first occurs."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash
from work import BUCKETS

from loaders.by_hand.rows import Rows


class Hashed(Rows):
    known, buckets = pa.array([], pa.string()), np.array([], np.int64)

    def code_of(self, texts):
        places = pc.index_in(texts, self.known)
        if places.null_count:
            new = texts.filter(places.is_null())
            hashes = (xxhash.xxh64_intdigest(text.encode()) % BUCKETS for text in new.to_pylist())
            self.buckets = np.concatenate([self.buckets, np.fromiter(hashes, np.int64)])
            self.known = pa.concat_arrays([self.known, new])
            places = pc.index_in(texts, self.known)
        return self.buckets.take(places.to_numpy())
