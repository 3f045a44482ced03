"""Reads files before a measurement."""


def warm(folder):
    """Reads all files once, so that the page cache has them."""
    for file in folder.rglob("*"):
        if file.is_file():
            with open(file, "rb") as opened:
                while opened.read(1 << 24):
                    pass
