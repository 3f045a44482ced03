"""Filters, which choose the rows to read: expressions, lists of terms, and expressions of pyarrow and
Polars."""
