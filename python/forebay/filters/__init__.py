"""Which rows are read: expressions, lists of terms, and expressions of pyarrow and Polars."""
