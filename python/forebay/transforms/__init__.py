"""The user's functions of rows and of batches between the loader and the training step, on one thread or in
workers.

:mod:`functions` applies the functions to a batch in their order, and :mod:`rows` cuts a batch into rows.
:mod:`ahead` runs them on one thread, and :mod:`several` in workers: in threads, or in :mod:`processes`, to
which :mod:`dispatch` sends batches in the shared memory of :mod:`slots`. :mod:`worker` is the code that runs
in such a process. :mod:`in_order` passes the batches on to the training loop, without the rows that functions
rejected (:mod:`rejected`).
"""

__all__: list[str] = []
