"""Options of a loader: frozen dataclasses that compare, hash and pickle, and check their values when
created."""
