"""The compiled module is chosen by the level of the processor, such as x86-64-v3."""

import os
import platform
import struct
import subprocess
import sys

import pytest

from forebay import _forebay, _level

V3 = "cx16 lahf_lm popcnt pni sse4_1 sse4_2 ssse3 avx avx2 bmi1 bmi2 f16c fma abm movbe xsave".split()  # noqa: SIM905


@pytest.mark.parametrize(
    ("has", "levels"), [([], []), (V3[:-1], []), (V3, ["x86-64-v3"]), ([*V3, "avx512f"], ["x86-64-v3"])]
)
def test_a_level_needs_all_of_its_flags(has, levels):
    assert _level.fitting(set(has)) == levels


def test_the_highest_level_that_is_there_is_taken(tmp_path):
    levels = ["higher", "x86-64-v3"]
    assert _level.library(tmp_path, levels, None) is None
    third = tmp_path / "_forebay.x86-64-v3.so"
    third.touch()
    assert _level.library(tmp_path, levels, None) == third
    assert _level.library(tmp_path, [], None) is None
    higher = tmp_path / "_forebay.higher.so"
    higher.touch()
    assert _level.library(tmp_path, levels, None) == higher
    assert _level.library(tmp_path, levels, "x86-64-v3") == third
    assert _level.library(tmp_path, levels, "x86-64") is None
    with pytest.raises(ImportError, match="use one of x86-64, x86-64-v3"):
        _level.library(tmp_path, ["x86-64-v3"], "higher")


def level(**environment):
    """Runs a new interpreter that prints the processor level of the compiled module that it loads."""
    command = [sys.executable, "-c", "from forebay import _forebay; print(_forebay.__level__, _forebay.__name__)"]
    return subprocess.run(command, env=os.environ | environment, capture_output=True, text=True)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="levels are those of x86-64")
def test_another_level_can_be_asked_for():
    asked = level(FOREBAY_LEVEL="x86-64")
    assert asked.stdout.split() == ["x86-64", "forebay._forebay"], asked.stderr
    refused = level(FOREBAY_LEVEL="x86-64-v9")
    assert "ImportError: FOREBAY_LEVEL=x86-64-v9 is not for this processor or not in this package" in refused.stderr
    assert level(FOREBAY_LEVEL="").returncode == 0


@pytest.mark.skipif(platform.machine() != "x86_64", reason="levels are those of x86-64")
def test_a_level_that_the_package_carries_runs():
    asked = level(FOREBAY_LEVEL="x86-64-v3")
    if asked.returncode and "not in this package" in asked.stderr:
        pytest.skip("x86-64-v3: not for this processor, or not a wheel that `make dist` made")
    assert asked.stdout.split() == ["x86-64-v3", "forebay._forebay"], asked.stderr


def dynamic_entries(elf):
    """Returns the tags and values of a shared library's dynamic section, for 64-bit little-endian ELF."""
    (headers,) = struct.unpack_from("<Q", elf, 32)
    size, count = struct.unpack_from("<HH", elf, 54)
    for at in range(headers, headers + size * count, size):
        kind, _, offset, _, _, length, _, _ = struct.unpack_from("<IIQQQQQQ", elf, at)
        if kind == 2:
            return dict(struct.iter_unpack("<qQ", elf[offset : offset + length]))
    return {}


@pytest.mark.skipif(sys.platform != "linux" or sys.byteorder != "little", reason="of shared libraries on Linux")
def test_the_compiled_half_leaves_static_memory_of_threads_to_others():
    """A process has about 1.6 kB of static thread-local memory for all libraries that are loaded late, and
    torch and scikit-learn need their share."""
    with open(_forebay.__file__, "rb") as file:
        entries = dynamic_entries(file.read())
    assert entries, "no dynamic section"
    flags, static_tls = entries.get(30, 0), 0x10
    assert not flags & static_tls
