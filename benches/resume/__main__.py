"""Which trainers resume with each row exactly once, with forebay and with their own loader.

    python benches/resume [--trainers torch,keras] [--sources forebay] [--worlds 1,2] [--places middle]

Each case is two runs in processes of their own. The first saves checkpoints as its framework does and is
killed by SIGKILL two steps after one; the second, in one process, resumes from it and trains to the end of
two epochs. The steps note the rows that they see: those of the first run up to the checkpoint and all of the
second are counted. The runs are those of ``forebay verify --trainer``, which checks your own data set in the
same way.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from forebay.program.trainers.cases import RunError, case
from forebay.program.trainers.job import ROWS, Job
from forebay.program.trainers.registry import TRAINERS
from forebay.program.trainers.verify import row_ids

NUMBER_OF_ROWS, STEPS, EPOCHS = 240, 10, 2

#: For each place: the batches between two checkpoints, and the batches trained when the process is killed.
PLACES = {"middle": (4, 6), "border": (STEPS, STEPS + 2)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trainers", default=",".join(TRAINERS))
    parser.add_argument("--sources", default="forebay,own")
    parser.add_argument("--worlds", default="1,2")
    parser.add_argument("--places", default=",".join(PLACES))
    given = parser.parse_args()
    print("| trainer | loader | processes | checkpoint | rows |")
    print("|---|---|---|---|---|")
    for name in given.trainers.split(","):
        trainer = TRAINERS[name]
        for source in given.sources.split(","):
            for world in map(int, given.worlds.split(",")):
                for place in given.places.split(","):
                    if trainer.missing() is not None:
                        said = f"not run: {trainer.missing()}"
                    elif world > 1 and not trainer.is_distributed:
                        said = "not run: one process only"
                    else:
                        said = outcome(name, source, world, place)
                    where = "within an epoch" if place == "middle" else "after an epoch"
                    print(f"| {trainer.title} | {source} | {world} → 1 | {where} | {said} |", flush=True)


def outcome(trainer, source, world, place):
    """Describes what happened to the rows."""
    every, kill = PLACES[place]
    with tempfile.TemporaryDirectory() as name:
        data = Path(name, "rows.parquet")
        table = pa.table({"id": pa.array(range(NUMBER_OF_ROWS), pa.int64())})
        pq.write_table(table, data, row_group_size=20)
        whole = {"storage_options": {}, "split": None, "config": None}
        loader = {"columns": ["id"], **whole, "memory": None}
        ids = row_ids([str(data)], loader)
        np.save(Path(name, ROWS), ids)
        job = Job(
            trainer=trainer,
            source=source,
            folder=name,
            loader={**loader, "urls": [str(data)]},
            seed=17,
            window_rows=100,
            global_batch=NUMBER_OF_ROWS // STEPS,
            steps=STEPS,
            epochs=EPOCHS,
            every=every,
            kill=kill,
            is_border=place == "border",
            world=world,
            resumes=False,
        )
        try:
            return case(job, ids.tolist())
        except RunError as error:
            return str(error)


if __name__ == "__main__":
    main()
