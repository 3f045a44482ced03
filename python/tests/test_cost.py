"""What rows cost: columns and arithmetic on them, in ``balance=`` and in buckets."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import forebay as fb

ROWS = 4_096


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows of two lists, one of them null in some rows, and a number of images."""
    draws = np.random.default_rng(3)
    prompts = [None if draws.random() < 0.05 else [1] * int(draws.integers(1, 40)) for _ in range(ROWS)]
    answers = [[2] * int(draws.lognormal(3, 0.7)) for _ in range(ROWS)]
    table = pa.table(
        {
            "id": range(ROWS),
            "prompt": pa.array(prompts, pa.list_(pa.int32())),
            "answer": pa.array(answers, pa.list_(pa.int32())),
            "images": pa.array(draws.integers(0, 5, ROWS)),
        }
    )
    path = tmp_path_factory.mktemp("costs") / "pairs.parquet"
    pq.write_table(table, path, row_group_size=1_024)
    return path


def rows_of(path: Path) -> list[dict[str, int]]:
    """The lengths and numbers of each row; a null counts as 0."""
    rows = pq.read_table(path).to_pylist()
    return [{"prompt": len(row["prompt"] or []), "answer": len(row["answer"]), "images": row["images"]} for row in rows]


PROMPT, ANSWER, IMAGES = fb.col("prompt"), fb.col("answer"), fb.col("images")

#: A cost, the same as a function of lengths and numbers, and whether it grows with each of several columns.
COSTS: list[tuple[Any, Callable[[int, int, int], float], bool]] = [
    ("answer", lambda prompt, answer, images: answer, False),
    (PROMPT + ANSWER, lambda prompt, answer, images: prompt + answer, True),
    (ANSWER * ANSWER / 50, lambda prompt, answer, images: answer * answer / 50, False),
    (2 * PROMPT + 9 * IMAGES + ANSWER, lambda prompt, answer, images: 2 * prompt + 9 * images + answer, True),
    (ANSWER - PROMPT + 40, lambda prompt, answer, images: answer - prompt + 40, False),
]


def buckets(rows: list[dict[str, int]], cost: int, tokens: int, most: int | None, multiple: int) -> list[list[int]]:
    """The plain model: rows of a row group by cost, each added to the bucket while all of its rows, padded to the
    longest, stay within the limit."""
    _, of, is_joint = COSTS[cost]

    def up(length: int) -> int:
        return -(-length // multiple) * multiple

    def of_row(row: dict[str, int]) -> int:
        return int(np.ceil(of(up(row["prompt"]), up(row["answer"]), row["images"])))

    def padded(members: list[int]) -> int:
        if not is_joint:
            return max(of_row(rows[at]) for at in members)
        return of_row({name: max(rows[at][name] for at in members) for name in rows[0]})

    found: list[list[int]] = []
    for start in range(0, len(rows), 1_024):
        of_group: list[list[int]] = []
        fitting = [at for at in range(start, start + 1_024) if of_row(rows[at]) <= tokens]
        for at in sorted(fitting, key=lambda at: of_row(rows[at])):
            grown = [*of_group[-1], at] if of_group else []
            if grown and padded(grown) * len(grown) <= tokens and (most is None or len(grown) <= most):
                of_group[-1] = grown
            else:
                of_group.append([at])
        found += of_group
    return sorted(sorted(members) for members in found)


@pytest.mark.parametrize("cost", range(len(COSTS)))
def test_buckets_are_those_of_a_plain_model_on_any_world(pairs: Path, cost: int) -> None:
    rows, draw = rows_of(pairs), random.Random(cost)
    for _ in range(3):
        tokens, multiple = draw.randint(150, 2_000), draw.choice([1, 4, 16])
        most = draw.choice([None, draw.randint(1, 30)])
        sample = fb.Bucket(COSTS[cost][0], tokens=tokens, rows=most, multiple=multiple)
        world, found = draw.randint(1, 3), []
        for rank in range(world):
            with fb.Loader(
                pairs,
                columns=["id", "prompt", "answer"],
                samples=sample,
                pad={name: fb.Pad(multiple=multiple) for name in ("prompt", "answer")},
                fill_null={"prompt": 0},
                shuffle=fb.Shuffle(seed=5, lanes=2),
                shard=fb.Shard(rank=rank, world=world),
                on_bad_row=fb.Skip(at_most=ROWS),
            ) as train:
                for batch in train:
                    found.append(sorted(batch["id"].tolist()))
                    if cost == 1:
                        assert batch["prompt"].size + batch["answer"].size <= tokens
                padding = train.stats().to_dict()["padded_rows"]
            # A rank without a bucket of its own in the last step repeats one.
            found = found[: len(found) - (1 if padding else 0)]
        assert sorted(found) == buckets(rows, cost, tokens, most, multiple)


def test_ranks_share_two_costs_and_resume_on_another_world(pairs: Path) -> None:
    rows = rows_of(pairs)
    balance = [ANSWER * ANSWER, PROMPT + 10 * IMAGES]

    def loaders(world: int, **options: Any) -> list[fb.Loader]:
        return [
            fb.Loader(
                pairs,
                columns=["id"],
                global_batch_size=64,
                shuffle=fb.Shuffle(seed=5, window_rows=2_048, lanes=4),
                shard=fb.Shard(rank=rank, world=world),
                **options,
            )
            for rank in range(world)
        ]

    def steps(ranks: list[fb.Loader]) -> list[list[list[int]]]:
        return [[batch["id"].tolist() for batch in step] for step in zip(*ranks, strict=True)]

    def unevenness(found: list[list[list[int]]]) -> list[float]:
        costs = [lambda row: row["answer"] ** 2, lambda row: row["prompt"] + 10 * row["images"]]
        ratios = []
        for cost in costs:
            each = [[sum(cost(rows[at]) for at in batch) for batch in step] for step in found]
            ratios.append(sum(max(step) * len(step) / sum(step) for step in each) / len(each))
        return ratios

    even, plain = steps(loaders(4, balance=balance)), unevenness(steps(loaders(4)))
    assert sorted(row for step in even for batch in step for row in batch) == list(range(ROWS))
    assert plain[0] > 1.5 and plain[1] > 1.08
    first, second = unevenness(even)
    assert first - 1 < 0.3 * (plain[0] - 1) and second - 1 < 0.3 * (plain[1] - 1), (first, second, plain)
    together = [sorted(sum(step, [])) for step in even]
    assert [sorted(sum(step, [])) for step in steps(loaders(3, balance=balance))] == together

    begun = loaders(4, balance=balance)
    iterators = [iter(rank) for rank in begun]
    for _ in range(20):
        for iterator in iterators:
            next(iterator)
    state = begun[0].state_dict()
    assert state["order"]["balance"] == ['"answer" * "answer"', '"prompt" + (10 * "images")']
    resumed = loaders(2, balance=balance)
    for rank in resumed:
        rank.load_state_dict(state)
    assert [sorted(sum(step, [])) for step in steps(resumed)] == together[20:]
    with pytest.raises(fb.StateMismatchError, match='saved with balance "answer" \\* "answer", '):
        loaders(1, balance=[ANSWER])[0].load_state_dict(state)


def test_a_bucket_with_an_expression_is_a_value() -> None:
    bucket = fb.Bucket(PROMPT + ANSWER, tokens=64, multiple=8)
    assert repr(bucket) == "forebay.Bucket(fb.col('prompt') + fb.col('answer'), tokens=64, multiple=8)"
    same = fb.Bucket(fb.col("prompt") + fb.col("answer"), tokens=64, multiple=8)
    assert bucket == same == pickle.loads(pickle.dumps(bucket)) and hash(bucket) == hash(same)
    assert bucket != fb.Bucket(PROMPT, tokens=64, multiple=8) and bucket != "x"
    assert fb.Bucket(fb.col("prompt"), rows=2)._spec()["buckets"]["cost"] == {"column": "prompt"}


def test_costs_that_can_never_work_are_refused(pairs: Path) -> None:
    for make, match in [
        (lambda: fb.Bucket(5, rows=2), "cost must be the name of a column or an expression of columns, got 5"),
        (lambda: fb.Bucket(PROMPT > 3, rows=2), "cost must be a number of each row, got the condition"),
        (lambda: fb.Bucket("prompt", rows=2, multiple=0), "multiple must be"),
        (lambda: fb.Loader(pairs, balance=[], shuffle=fb.Shuffle(seed=1)), "balance names no column .*leave balance out"),
        (lambda: fb.Mix([(pairs, 1)], by=[], batch_size=2), "by names no column"),
        (lambda: fb.Loader(pairs, balance=3, shuffle=fb.Shuffle(seed=1)), "balance must be a column"),
        (lambda: fb.Loader(pairs, balance={PROMPT.__repr__(): 1}, shuffle=fb.Shuffle(seed=1)), "got dict"),
        (lambda: fb.Loader(pairs, balance=[PROMPT, 3], shuffle=fb.Shuffle(seed=1)), "balance must be the name"),
        (
            lambda: fb.Loader(pairs, balance=IMAGES - 4, shuffle=fb.Shuffle(seed=1)),
            r'row group 0, row \d+, column "images": the cost "images" - 4 is -\d',
        ),
        (
            lambda: fb.Loader(pairs, samples=fb.Bucket(PROMPT + ANSWER, tokens=64, reshuffle=True)),
            "the limit of `tokens` is for a cost of several columns",
        ),
        (
            lambda: fb.Loader(pairs, samples=fb.Bucket(ANSWER * ANSWER * 100, tokens=64)),
            r"a row that costs \d+ does not fit a bucket of 64",
        ),
        (
            lambda: fb.Loader(pairs, samples=fb.Bucket("answer", tokens=40, multiple=32)),
            r"a row of \d+ values, once padded to a multiple of 32, does not fit a bucket of 40",
        ),
    ]:
        with pytest.raises((fb.InvalidError, fb.BadRowError), match=match):
            make()
