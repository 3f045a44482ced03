"""The Trainer of Transformers: a run that is interrupted and resumed takes the same steps as one that is not."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import ids, small

import forebay as fb

transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")
torch = pytest.importorskip("torch")

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")


class Interrupted(Exception):
    pass


class Model(torch.nn.Module):  # type: ignore[misc]
    """Records the rows of each batch that it is trained with."""

    def __init__(self, stop: int = sys.maxsize) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.stop = stop
        self.rows: list[list[int]] = []

    def forward(self, id: Any, labels: Any = None) -> Any:
        if self.training:
            if len(self.rows) == self.stop:
                raise Interrupted
            self.rows.append(id.tolist())
        out = self.layer(id[:, None].float())
        return {"loss": out.mean(), "logits": out}


def loader(where: Path, **arguments: Any) -> fb.Loader:
    return small(where, columns=["id"], **arguments)


def run(
    where: Path, folder: Path, stop: int = sys.maxsize, resume: str | None = None, **options: Any
) -> tuple[list[list[int]], Any]:
    model = Model(stop)
    arguments = {
        "num_train_epochs": 3,
        "save_strategy": "steps",
        "save_steps": 1,
        "report_to": [],
        "disable_tqdm": True,
        "use_cpu": True,
        "learning_rate": 0.0,
        "logging_strategy": "no",
        **options,
    }
    trainer = fb.hf.Trainer(model, transformers.TrainingArguments(folder, **arguments), train_dataset=loader(where))
    try:
        trainer.train(resume_from_checkpoint=resume)
    except Interrupted:
        assert stop < sys.maxsize
    return model.rows, trainer


def latest(folder: Path) -> tuple[str, dict[str, Any]]:
    path = max(folder.glob("checkpoint-*"), key=lambda path: int(path.name.split("-")[1]))
    return str(path), json.loads((path / "trainer_state.json").read_text())


@pytest.mark.parametrize(
    ("options", "stops"),
    [
        ({}, (1, 7, 15, 16, 17, 33)),
        ({"save_strategy": "epoch"}, (17, 33)),
        ({"gradient_accumulation_steps": 3}, (8, 16, 17, 20)),
        ({"save_steps": 4, "restore_callback_states_from_checkpoint": True}, (7, 18)),
    ],
    ids=str,
)
def test_a_resumed_run_takes_the_steps_that_were_left(
    plain: Path, tmp_path: Path, options: dict[str, Any], stops: tuple[int, ...]
) -> None:
    want, whole = run(plain, tmp_path / "whole", **{**options, "save_strategy": "no"})
    with loader(plain) as again:
        assert want == [rows for epoch in range(3) for rows in ids(again.epoch(epoch))]
    accumulated = options.get("gradient_accumulation_steps", 1)
    for stop in stops:
        folder = tmp_path / str(stop)
        got, _ = run(plain, folder, stop, **options)
        if not any(folder.glob("checkpoint-*")):
            continue
        checkpoint, state = latest(folder)
        epochs, steps = divmod(state["global_step"], -(-16 // accumulated))
        trained = epochs * 16 + steps * accumulated
        rest, trainer = run(plain, folder, resume=checkpoint, **options)
        assert got[:trained] + rest == want, stop
        assert trainer.state.global_step == whole.state.global_step
        assert trainer.state.epoch == whole.state.epoch


def test_what_is_saved_when_a_step_begins_is_the_step_before(plain: Path, tmp_path: Path) -> None:
    """When a step begins, its batches were already taken from the loader. A Trainer that gets SIGTERM saves here."""

    class Saves(transformers.TrainerCallback):  # type: ignore[misc]
        def on_step_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            if state.global_step == 4:
                trainer._save_checkpoint(model, None)

    model = Model(5)
    arguments = transformers.TrainingArguments(
        tmp_path, save_strategy="no", report_to=[], disable_tqdm=True, use_cpu=True, logging_strategy="no"
    )
    trainer = fb.hf.Trainer(model, arguments, train_dataset=loader(plain), callbacks=[Saves()])
    with pytest.raises(Interrupted):
        trainer.train()
    assert latest(tmp_path)[1]["stateful_callbacks"]["forebay"]["attributes"]["train"]["row"] == 4 * 64


def test_evaluation_reads_a_whole_epoch_each_time(plain: Path, tmp_path: Path) -> None:
    arguments = transformers.TrainingArguments(
        tmp_path, report_to=[], disable_tqdm=True, use_cpu=True, save_strategy="no", label_names=["id"]
    )
    with loader(plain, batch_size=300) as val:
        trainer = fb.hf.Trainer(Model(), arguments, eval_dataset={"one": val})
        for _ in range(2):
            found = trainer.predict(val)
            assert sorted(found.label_ids.tolist()) == list(range(1000))
        assert "eval_one_loss" in trainer.evaluate()
        assert trainer.num_examples(trainer.get_eval_dataloader("one")) == 1000


def test_another_global_batch_is_refused(plain: Path, tmp_path: Path) -> None:
    run(plain, tmp_path, 5)
    checkpoint, _ = latest(tmp_path)

    def resume(**options: Any) -> list[list[int]]:
        model = Model()
        arguments = transformers.TrainingArguments(
            tmp_path, report_to=[], disable_tqdm=True, use_cpu=True, save_strategy="no", **options
        )
        train = loader(plain, batch_size=100)
        fb.hf.Trainer(model, arguments, train_dataset=train).train(resume_from_checkpoint=checkpoint)
        return model.rows

    with pytest.raises(fb.StateMismatchError, match=r"16 batches to an epoch, but there are 10 now \(keep"):
        resume()
    # The run delivers the rest of the epoch, and then the next one.
    rest = resume(ignore_data_skip=True, num_train_epochs=2)
    assert [len(rows) for rows in rest[:8]] == [100] * 6 + [80, 100]


def test_a_checkpoint_without_a_position_is_refused(plain: Path, tmp_path: Path) -> None:
    run(plain, tmp_path, 5)
    checkpoint, state = latest(tmp_path)
    del state["stateful_callbacks"]["forebay"]
    Path(checkpoint, "trainer_state.json").write_text(json.dumps(state))
    with pytest.raises(fb.StateMismatchError, match=r"the checkpoint has no position of a forebay.Loader"):
        run(plain, tmp_path, resume=checkpoint)


def test_other_data_sets_are_treated_as_ever(plain: Path, tmp_path: Path) -> None:
    arguments = transformers.TrainingArguments(
        tmp_path, num_train_epochs=1, report_to=[], disable_tqdm=True, use_cpu=True, per_device_train_batch_size=4
    )
    rows = [{"id": torch.tensor(row)} for row in range(10)]
    model = Model()
    fb.hf.Trainer(model, arguments, train_dataset=rows, eval_dataset=rows).train()
    assert sorted(row for rows in model.rows for row in rows) == list(range(10))
