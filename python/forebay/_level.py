"""Chooses the build of the compiled library ``forebay._forebay`` that suits this processor.

A wheel for x86-64 may carry two builds of the library: one for every x86-64 processor, and one for
level 3 of the x86-64 psABI, whose wider instructions scan tables about 1.5 times as fast. The second build is
loaded if the processor has its instructions, before anything imports ``forebay._forebay``.

The environment variable ``FOREBAY_LEVEL`` chooses another level; ``x86-64`` names the build that runs on
every processor.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import platform
import sys
from pathlib import Path

__all__: list[str] = []

# The processor flags that a level requires, named as in /proc/cpuinfo; higher levels come first.
# https://gitlab.com/x86-psABIs/x86-64-ABI
_LEVELS = {
    "x86-64-v3": "cx16 lahf_lm popcnt pni sse4_1 sse4_2 ssse3 avx avx2 bmi1 bmi2 f16c fma abm movbe xsave",
}


def flags() -> set[str]:
    """The flags that the processor reports in /proc/cpuinfo; an empty set on a system without that file."""
    if platform.machine() != "x86_64":
        return set()
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as lines:
            return set(next((line for line in lines if line.startswith("flags")), "").split())
    except OSError:
        return set()


def fitting(has: set[str]) -> list[str]:
    """The levels of the x86-64 psABI that a processor with the flags ``has`` can run, the highest first."""
    return [level for level, asks in _LEVELS.items() if has.issuperset(asks.split())]


def library(folder: Path, levels: list[str], wanted: str | None) -> Path | None:
    """The path in ``folder`` of the library for the ``wanted`` level. Without ``wanted``, it is the library
    for the first of ``levels`` that has one. ``None`` means the library for all processors, which Python
    imports by itself.

    Raises:
        ImportError: The processor does not have the ``wanted`` level, or the package has no library for it.
    """
    paths = {level: folder / f"_forebay.{level}.so" for level in levels}
    found = {level: path for level, path in paths.items() if path.exists()}
    if wanted is None:
        return next(iter(found.values()), None)
    if wanted == "x86-64":
        return None
    if wanted in found:
        return found[wanted]
    possible = ", ".join(["x86-64", *found])
    raise ImportError(
        f"FOREBAY_LEVEL={wanted} is not for this processor or not in this package (use one of {possible})"
    )


def _load(name: str) -> None:
    """Imports the library of the best level as module ``name``. Without a library for a level it does
    nothing: Python then imports the library for all processors."""
    wanted = os.environ.get("FOREBAY_LEVEL") or None
    path = library(Path(__file__).parent, fitting(flags()), wanted)
    if path is None:
        return
    loader = importlib.machinery.ExtensionFileLoader(name, str(path))
    spec = importlib.util.spec_from_loader(name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    sys.modules[name] = module


_load(f"{__package__}._forebay")
