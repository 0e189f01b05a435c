from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'decabench[train]'")

import numpy as np
from safetensors.torch import load_file, save_file

from decabench.errors import DataError, DecabenchError
from decabench.models.checkpoint import Checkpoint, TrainedModel, batch_by_length
from decabench.models.portable import export_checkpoint
from decabench.tasks import TASKS, Question, Store
from decabench.training.loop import run_training
from decabench.training.planning import TrainingRun
from decabench.training.resume import RunState
from tests.models.conftest import TEXTS
from tests.training.conftest import TINY, change_record, flip

EXAMPLES = (TASKS["sst"], TASKS["schema"])


@pytest.fixture(scope="module")
def run_folder(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint") / "run"
    config = replace(
        TINY, steps=1, checkpoint_every=1, validate_every=1, train_examples=4, validation_examples=1
    )
    tasks = {task.name: task for task in EXAMPLES}
    run_training(TrainingRun(config, tasks, Store(home), folder, "cpu", report=lambda text: None))
    return folder


@pytest.fixture
def saved(run_folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(Checkpoint.open(run_folder).folder, tmp_path / "copy"))


@pytest.fixture
def folder(saved: Path) -> Path:
    change_record(saved, lambda record: record.pop("files"))
    return saved


@pytest.mark.parametrize("name", ["model.safetensors", "vocabulary.json"])
def test_one_changed_bit_is_seen_before_anything_is_answered_trained_or_exported(
    saved: Path, name: str, home: Path, tmp_path: Path
) -> None:
    flip(saved / name)
    fault = rf"{name} has changed since it was saved: its digest is sha256:.*says sha256:.*unmodified copy"
    with pytest.raises(DataError, match=fault):
        Checkpoint.open(saved).load("cpu")
    with pytest.raises(DataError, match=fault):
        export_checkpoint(Checkpoint.open(saved), tmp_path / "export")
    assert not (tmp_path / "export").exists()
    started = replace(TINY, steps=1, tasks=("sst",), init=str(saved))
    with pytest.raises(DataError, match=fault):
        run_training(TrainingRun(started, {"sst": TASKS["sst"]}, Store(home), tmp_path / "run", "cpu"))


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        ("config", ..., "`config`"),
        ("config.model", ..., "`model`"),
        ("config.model.name", 3, "its model has no name"),
        ("config.model.name", "no", "no"),
        ("config.model.dimension", -8, "Expected `int` >= 2"),
        ("config.model.new", 1, "no setting 'new'"),
        ("files", ["model.safetensors"], "Expected `object | null`"),
        ("config.model.layers", 1_000_000, "Expected `int` <= 1000"),
        ("step", {}, "Expected `int`"),
        ("format", "decabench.checkpoint/9", "its format is 'decabench.checkpoint/9'"),
    ],
)
def test_damaged_records(folder: Path, path: str, value: Any, reason: str) -> None:
    def change(record: dict[str, Any]) -> None:
        *above, key = path.split(".")
        for name in above:
            record = record[name]
        if value is ...:
            del record[key]
        else:
            record[key] = value

    change_record(folder, change)
    with pytest.raises(DataError) as caught:
        Checkpoint.open(folder)
    assert str(folder / "checkpoint.json") in str(caught.value)
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "[" * 2000,
        "\xff",
    ],
)
def test_records_that_are_no_records(folder: Path, text: str) -> None:
    (folder / "checkpoint.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(DataError, match=r"checkpoint\.json can't be read"):
        Checkpoint.open(folder)


def test_a_network_far_larger_than_the_weights_next_to_it(home: Path, folder: Path, tmp_path: Path) -> None:
    change_record(folder, lambda record: record["config"]["model"].update(dimension=10))
    with pytest.raises(DataError, match="match checkpoint"):
        Checkpoint.open(folder).load("cpu")
    change_record(folder, lambda record: record["config"]["model"].update(dimension=10**7))
    with pytest.raises(DecabenchError, match="too large for this machine"):
        Checkpoint.open(folder).load("cpu")
    config = replace(TINY, init=str(folder), model=Checkpoint.open(folder).config)
    run = TrainingRun(config, {task.name: task for task in EXAMPLES}, Store(home), tmp_path / "run", "cpu")
    with pytest.raises(DecabenchError, match="too large for this machine"):
        run_training(run)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers(folder: Path, value: float) -> None:
    weights = load_file(folder / "model.safetensors")
    name = max(weights)
    weights[name].view(-1)[0] = value
    save_file(weights, folder / "model.safetensors")
    with pytest.raises(DataError, match="not a finite number") as caught:
        Checkpoint.open(folder).load("cpu")
    assert name in str(caught.value)


@pytest.mark.parametrize("name", ["model.safetensors", "vocabulary.json"])
@pytest.mark.parametrize("content", [b"", b"{}", b"\xff" * 100, b"\x08\0\0\0\0\0\0\0{       ", b"[" * 3000])
def test_other_files(folder: Path, name: str, content: bytes) -> None:
    (folder / name).write_bytes(content)
    with pytest.raises(DataError, match=name):
        Checkpoint.open(folder).load("cpu")


@pytest.mark.parametrize(
    "state",
    [
        ...,
        None,
        [],
        {"best": "x"},
        {"positions": {"sst": [1]}},
        {"positions": {"sst": [0, -1]}},
        {"stale": 0.5},
    ],
)
def test_states(folder: Path, state: Any) -> None:
    def change(record: dict[str, Any]) -> None:
        record["state"] = {**record["state"], **state} if isinstance(state, dict) else state
        if state is ...:
            del record["state"]

    change_record(folder, change)
    reason = "Expected `object" if state == [] else "can't be resumed"
    with pytest.raises(DataError, match=reason):
        RunState.of(Checkpoint.open(folder))


@pytest.mark.parametrize("name", ["vocabulary.json", "model.safetensors"])
def test_a_copy_that_lacks_a_file(saved: Path, folder: Path, name: str) -> None:
    (folder / name).unlink()
    for use in (Checkpoint.digest, Checkpoint.load, Checkpoint.check_files):
        with pytest.raises(DataError, match=f"does not contain {name}. Use a complete copy"):
            use(Checkpoint.open(folder))


TASK = TASKS["squad"]
ASKED = [Question(str(at), question, context) for at, (question, context, _) in enumerate(TEXTS)]


@pytest.mark.parametrize("name", ["mqan", "s2s"])
def test_batches_and_order_do_not_matter(kit, name):
    made = kit(name).trained()
    whole = made.answer(TASK, ASKED, limit=6)
    assert made.answer(TASK, ASKED, limit=6, batch_tokens=1) == whole
    assert made.answer(TASK, ASKED[::-1], limit=6)[::-1] == whole
    assert [reply.said for reply in whole if not reply.finished] == [6] * sum(not r.finished for r in whole)
    wide = made.answer(TASK, ASKED, limit=6, beam=2)
    assert len(wide) == len(ASKED)
    assert made.answer(TASK, ASKED, limit=6, beam=2, batch_tokens=1) == wide
    assert made.answer(TASK, ASKED, limit=6, beam=1) == whole
    assert made.answer(TASK, []) == []


@pytest.mark.parametrize(("beam", "sizes"), [(1, [4]), (2, [2, 2]), (4, [1, 1, 1, 1])])
def test_hypotheses_count_as_rows(kit, monkeypatch, beam, sizes):
    made, seen = kit("mqan").trained(), []
    whole = TrainedModel.make_batch
    monkeypatch.setattr(
        TrainedModel,
        "make_batch",
        lambda self, task, items: seen.append(len(items)) or whole(self, task, items),
    )
    asked = [Question("", "x", "one two three")] * 4  # of three and five tokens
    made.answer(TASK, asked, limit=2, batch_tokens=32, beam=beam)
    assert seen == sizes


def test_batches_by_length():
    batches = list(batch_by_length(np.array([6, 14, 7, 13, 8]), 30))
    assert sorted(row for batch in batches for row in batch) == [0, 1, 2, 3, 4]
    assert batches == [[1, 3], [4, 2, 0]]


def test_what_a_cut_keeps(kit):
    text = "One two, three four"
    made = kit("mqan").trained()
    for limit, kept in ((3, "One two,"), (5, None)):
        cut = replace(made, cut_context={"squad": limit})
        (reply,) = cut.answer(TASK, [Question("", "what?", text)], limit=1)
        assert (reply.context_kept and text[: reply.context_kept].strip()) == kept
    (reply,) = made.answer(TASK, [Question("", "what?", text)], limit=1)
    assert reply.context_kept is None
