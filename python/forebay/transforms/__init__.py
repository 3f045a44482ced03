"""The user's own functions between the loader and the training step: of rows, of batches, on one thread or in workers.

:mod:`functions` has the order in which a batch goes through them, and :mod:`rows` cuts it into rows. Where they run is
in :mod:`ahead`, one thread, and :mod:`several`, the workers: threads, or :mod:`processes` that :mod:`dispatch` sends
batches to, in the shared memory of :mod:`slots`. :mod:`worker` is the other end, in the process. :mod:`in_order` gives
the batches to the training loop, without the rows that functions rejected (:mod:`rejected`).
"""

__all__: list[str] = []
