"""The command line program, and the trainers that it verifies."""
