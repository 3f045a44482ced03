"""What one sample is, where it is not a row: frozen values for ``samples=``."""
