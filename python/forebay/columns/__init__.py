"""How columns are decoded, padded and filled: frozen values for the options of a loader."""
