"""The command line program, and the trainers of ``forebay verify --trainer``."""
