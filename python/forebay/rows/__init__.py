"""Rows by their number: their places in the files, and the rows that are left out."""
