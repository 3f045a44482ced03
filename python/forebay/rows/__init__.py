"""Rows by their number: where they are stored, and which are left out."""
