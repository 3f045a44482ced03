"""Counts the instructions of the hot loops with callgrind: the count is the same on every run, however busy
the machine is.

    cargo bench --bench instructions --no-run
    python benches/instructions.py [--save] [LOOP ...]

Each loop runs a few rounds and then more: the difference is what the rounds cost without the start-up. The
script prints the change against `benches/instructions.json`, which `--save` writes anew. An increase of two
per cent or more makes the exit status 1. Counts depend on the compiler and on the instructions that valgrind
supports, so compare them on one machine.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

# For each loop: its unit of work, the units per round, and the two numbers of rounds to run.
LOOPS = {
    "jpeg-crop": ("image", 1, (4, 36)),
    "jpeg-crop-float": ("image", 1, (4, 36)),
    "jpeg-dino": ("image", 1, (2, 18)),
    "jpeg-simclr": ("image", 1, (2, 34)),
    "png-tiny": ("image", 1, (50, 450)),
    "parquet-rows": ("row", 100_000, (1, 3)),
    # The table has 1,000 columns: the first of these two loops reads all of them, the second reads three.
    "parquet-wide": ("row", 1_000, (1, 5)),
    "parquet-few": ("row", 1_000, (2, 22)),
    "gather-stored": ("row", 8_192, (2, 22)),
    "gather-shuffled": ("row", 8_192, (2, 22)),
    "plan-epoch": ("row", 12_500, (2, 12)),
}
SAVED = Path(__file__).with_suffix(".json")
NOTABLE = 0.02


def program():
    """Returns the newest build of the bench."""
    folder = Path(os.environ.get("CARGO_TARGET_DIR", "target")) / "release" / "deps"
    built = [path for path in folder.glob("instructions-*") if path.suffix == "" and os.access(path, os.X_OK)]
    if not built:
        sys.exit("not built: cargo bench --bench instructions --no-run")
    return max(built, key=lambda path: path.stat().st_mtime)


def count(bench, loop, rounds):
    with tempfile.NamedTemporaryFile() as out:
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out.name}", str(bench), loop, str(rounds)]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    return int(re.search(r"Collected : (\d+)", said)[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--save", action="store_true")
    parser.add_argument("loops", nargs="*", metavar="LOOP")
    options = parser.parse_args()
    saved = json.loads(SAVED.read_text()) if SAVED.exists() else {}
    bench, grown = program(), False
    for loop in options.loops or LOOPS:
        unit, items, (few, more) = LOOPS[loop]
        each = (count(bench, loop, more) - count(bench, loop, few)) / ((more - few) * items)
        before = saved.get(loop)
        change = "" if before is None else f"   {each / before - 1:+.1%}"
        grown |= before is not None and each > before * (1 + NOTABLE)
        print(f"{loop:16} {each:14,.1f} instructions for each {unit}{change}", flush=True)
        saved[loop] = round(each, 1)
    if options.save:
        SAVED.write_text(json.dumps(saved, indent=4) + "\n")
    return 1 if grown and not options.save else 0


if __name__ == "__main__":
    sys.exit(main())
