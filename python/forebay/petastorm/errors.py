"""The exceptions of Petastorm, under the names that Petastorm gives them."""

from __future__ import annotations

from ..errors import UnsupportedError

__all__ = ["DecodeFieldError", "NoDataAvailableError", "PetastormMetadataError", "PetastormMetadataGenerationError"]


class NoDataAvailableError(Exception):
    """There are fewer rows, or fewer row groups, than shards."""


class PetastormMetadataError(Exception):
    """The data set has no schema of Petastorm, or one that cannot be read."""


class PetastormMetadataGenerationError(Exception):
    """The schema of a data set could not be written."""


class DecodeFieldError(RuntimeError):
    """A value cannot be decoded by the codec of its field."""


def refused(name: str, instead: str) -> UnsupportedError:
    """The error for a name that this package leaves out on purpose."""
    return UnsupportedError(f"{name} is not part of forebay.petastorm ({instead})")
