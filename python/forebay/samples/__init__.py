"""Samples that are not single rows: frozen values for ``samples=``."""
