"""Options of a loader: frozen values that compare, hash and pickle, and exist only if they are valid."""
