"""The decoding, padding and filling of columns: frozen values for the options of a loader."""
