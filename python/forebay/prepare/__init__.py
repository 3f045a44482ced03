"""Implements ``prepare`` of a loader: a function makes new rows once, before samples are formed from them.

:mod:`opening` opens the prepared rows of a data set, and prepares them if they are not there. The function runs in
the threads or processes of :mod:`forebay.transforms`, which :mod:`making` starts; there, :mod:`function` applies it
to rows, and :mod:`values` turns its results into types and bytes. :mod:`parts` writes these as the row groups of
files, in the folder of :mod:`folder`, which has the record of what was prepared, and the lock.

The folder has one file for each file of the source, with one prepared row for each of its rows. A row has
the same id in both:

```text
into/
├── _forebay_prepare.json        source, columns, version and function; comes last
├── day=1/part-0.parquet         a file for each file of the source
└── .forebay-unfinished/         only until all files are complete
    ├── _forebay_prepare.json    the same, of the preparation under way, and the types of the columns
    ├── lock                     held by the process that prepares
    ├── day=1/part-1.parquet     a complete file
    ├── day=1/part-2.parquet.00000-812.part    row group 0 of a file, with 812 rows
    └── day=1/part-2.parquet.tmp               not complete
```
"""

__all__: list[str] = []
