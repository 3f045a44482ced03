"""The accounting of tools/soak finds missing rows, repeated rows and growing memory."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"


@pytest.fixture(scope="module")
def soak() -> ModuleType:
    sys.path.insert(0, str(TOOLS))
    try:
        loader = importlib.machinery.SourceFileLoader("soak", str(TOOLS / "soak"))
        spec = importlib.util.spec_from_loader("soak", loader)
        assert spec
        module = importlib.util.module_from_spec(spec)
        sys.modules["soak"] = module
        loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(TOOLS))


def line(epoch: int, row: int, ids: range | list[int], **state: Any) -> dict[str, Any]:
    return {"epoch": epoch, "ids": list(ids), "state": {"epoch": epoch, "row": row, **state}}


def test_rows_count_up_to_the_last_state_that_all_ranks_reached(soak: ModuleType) -> None:
    account, rows = soak.Account(), soak.soak_rank.ROWS
    half = rows // 2
    ahead, behind = [line(0, half, range(0, half, 2)), line(0, rows, range(half, rows, 2))], [line(0, half, range(1, half, 2))]
    assert account.add([ahead, behind]) == {"epoch": 0, "row": half}
    assert len(account.rows) == half and account.again == rows // 4
    assert account.add([[line(0, rows, range(half, rows)), line(1, 1, [0])]]) == {"epoch": 1, "row": 1}
    assert account.epochs == 1 and account.add([[], [line(1, 2, [1])]]) is None


def test_a_row_that_comes_twice_or_never_is_found(soak: ModuleType) -> None:
    rows = soak.soak_rank.ROWS
    with pytest.raises(soak.Failed, match="1 rows came twice, as epoch 0 row 7"):
        soak.Account().add([[line(0, rows, [*range(rows), 7])]])
    with pytest.raises(soak.Failed, match=f"epoch 0 has {rows - 1} rows of {rows}"):
        soak.Account().add([[line(0, rows, range(1, rows)), line(1, 1, [0])]])
    account = soak.Account()
    account.add([[line(0, rows, range(rows)), line(1, 1, [0])]])
    with pytest.raises(soak.Failed, match="epoch 0 has 1 rows"):
        account.add([[line(0, rows, [3]), line(1, 2, [1])]])


def test_states_that_differ_between_ranks_are_found(soak: ModuleType) -> None:
    with pytest.raises(soak.Failed, match="different states"):
        soak.Account().add([[line(0, 2, [0], step=1)], [line(0, 2, [1], step=2)]])


def test_memory_that_grows_is_told_from_memory_that_goes_up_and_down(soak: ModuleType) -> None:
    def samples(per_second: float) -> list[dict[str, float]]:
        return [{"at": at, "bytes": (80 + 20 * (at % 3)) * soak.MIB + per_second * at} for at in range(600)]

    assert soak.slope(samples(0)) == 0
    assert soak.slope(samples(soak.MIB / 100)) == pytest.approx(6, rel=0.01)
    assert soak.slope(samples(0)[:20]) is None
