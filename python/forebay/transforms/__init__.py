"""Runs the user's functions of rows and batches (``transform=``, ``transform_rows=`` and ``collate=``) on the
loader's batches, on one thread or in several workers.

:mod:`functions` applies the functions to a batch in their order, and :mod:`rows` cuts a batch into rows.
:mod:`ahead` runs the functions on one thread. :mod:`several` runs them in workers, which are threads or
:mod:`processes`; :mod:`dispatch` sends batches to processes in the shared memory of :mod:`slots`, and
:mod:`worker` is the code that runs in such a process. :mod:`in_order` passes the batches on to the training
loop, without the rows that the functions rejected (:mod:`rejected`).
"""

__all__: list[str] = []
