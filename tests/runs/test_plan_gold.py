"""Nothing that a predictor is handed leads to the answers of the split that it predicts."""

from __future__ import annotations

import functools
import json
import pickle
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from decabench.errors import DecabenchError, MissingDataError
from decabench.predictors import OracleSetting, Setting, make_backend
from decabench.predictors.protocol import ModelOptions
from decabench.runs.plan import Run, plan_run
from decabench.runs.write import predict
from decabench.tasks import TASKS, Example, Question, Store, Task, known_tasks
from decabench.tasks.preparation import Request, prepare_task

LEAVES = (str, bytes, int, float, bool, type(None), type, types.ModuleType)


def parts(value: Any) -> Iterator[Any]:
    """What an object holds: fields, items, arguments, bound objects and the variables of its generators."""
    if isinstance(value, Mapping):
        yield from value.keys()
        yield from value.values()
    elif isinstance(value, (tuple, list, set, frozenset)):
        yield from value
    elif isinstance(value, functools.partial):
        yield from (value.func, value.args, value.keywords)
    elif isinstance(value, types.GeneratorType):
        yield from (value.gi_frame.f_locals if value.gi_frame else {}).values()
    elif isinstance(value, types.MethodType):
        yield value.__self__
    elif isinstance(value, types.FunctionType):
        yield from (cell.cell_contents for cell in value.__closure__ or ())
        yield from value.__defaults__ or ()
    else:
        yield from getattr(value, "__dict__", {}).values()
        yield from (getattr(value, name) for name in public_slots(value))


def public_slots(value: Any) -> list[str]:
    return [name for name in getattr(type(value), "__slots__", ()) if not name.startswith("_")]


def everything(*values: Any) -> list[Any]:
    """All that can be reached from some objects without importing anything."""
    found: dict[int, Any] = {}
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        if id(value) not in found:
            found[id(value)] = value
            if not isinstance(value, LEAVES):
                waiting.extend(parts(value))
    return list(found.values())


def forbidden(home: Path, *values: Any) -> list[Any]:
    """What leads to the answers of the validation split: the store, a source's reader, or any path to prepared data."""
    return [
        value
        for value in everything(*values)
        if isinstance(value, (Store, Example, Run))
        or isinstance(value, Path)
        or (isinstance(value, (str, bytes)) and str(home) in str(value))
        or type(value).__name__ in ("Source", "RemoteFile", "Journal", "Plan", "PlannedTask")
    ]


class Thief:
    """Looks at all that it is handed."""

    seen: ClassVar[list[Any]] = []

    def __init__(self, setting: Setting) -> None:
        self.seen.append(setting)

    def predict(self, questions: Any) -> list[str]:
        self.seen.append(questions)
        return ["" for _ in questions]


class StreamingThief:
    """The same, with all questions at once."""

    seen: ClassVar[list[Any]] = []

    def __init__(self, setting: Setting) -> None:
        self.seen.append(setting)

    def stream(self, questions: Any) -> Iterator[tuple[str, str]]:
        self.seen.append(questions)
        for question in questions:
            self.seen.append(question)
            yield question.id, ""


@pytest.mark.parametrize("thief", [Thief, StreamingThief])
def test_nothing_that_is_handed_over_leads_to_gold(
    home: Path, submit: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, thief: Any
) -> None:
    module = types.ModuleType("thieves")
    module.Thief = thief  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "thieves", module)
    thief.seen.clear()
    tasks = ("sst", "wikisql", "woz.en")
    submit("thieves:Thief", tasks, "stolen")
    settings = [value for value in thief.seen if isinstance(value, Setting)]
    assert [setting.task.name for setting in settings] == list(tasks)
    assert all(type(setting) is Setting and not hasattr(setting, "gold_answers") for setting in settings)
    assert any(isinstance(value, Question) for value in everything(*thief.seen))
    assert forbidden(home, *thief.seen) == []
    for setting in settings:
        assert forbidden(home, setting.training_answers(), setting.training_examples()) == []
        golds = [row["answers"][0] for row in Store(home).read(setting.task.name, "validation")]
        assert list(setting.training_answers()) != golds


@pytest.mark.parametrize("kind", ["training_answers", "training_examples"])
def test_no_attribute_of_training_data_leads_to_a_file(home: Path, tmp_path: Path, kind: str) -> None:
    """The file of the split that is asked lies beside that of the training split."""
    run = Run("majority", [TASKS["sst"]], "validation", tmp_path / "out", Store(home))
    (planned,) = plan_run(run).tasks
    handed = getattr(planned.setting, kind)
    for each in (handed, pickle.loads(pickle.dumps(handed))):
        stream = each()
        first = next(stream)
        answer = first if kind == "training_answers" else first[1]
        assert answer in ("positive", "negative") and len(list(stream)) > 1
        for name in dir(each):
            value = getattr(each, name)
            assert not isinstance(value, Path) and "parquet" not in repr(value), name
        assert forbidden(home, each, each()) == []


def test_training_examples_are_those_of_the_data_in_its_order(home: Path, tmp_path: Path) -> None:
    run = Run("majority", [TASKS["schema"]], "validation", tmp_path / "out", Store(home))
    (planned,) = plan_run(run).tasks
    pairs = [
        (Question(example.id, example.question, example.context), example.answers[0])
        for example in Store(home).examples("schema", "train")
    ]
    assert list(planned.setting.training_examples()) == pairs
    assert list(planned.setting.training_answers()) == [answer for _, answer in pairs]


def test_a_task_of_ones_own_does_not_lead_to_its_file(
    own_task: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, home = own_task(["one", "two"]), tmp_path / "home"
    known = known_tasks([file])
    prepare_task(known["own"], Request(home, progress=False))
    run = Run("majority", [known["own"]], "validation", tmp_path / "out", Store(home))
    (planned,) = plan_run(run).tasks
    assert forbidden(home, known["own"])  # the walk finds the way that there was
    assert forbidden(home, planned.setting) == []
    assert planned.setting.task.name == "own" and planned.setting.task.metric == "em"
    copied: Setting = pickle.loads(
        pickle.dumps(plan_run(replace_task(run, TASKS["sst"], home)).tasks[0].setting)
    )
    assert forbidden(home, copied) == []


def replace_task(run: Run, task: Task, home: Path) -> Run:
    import dataclasses

    prepare_task(task, Request(home, sample=True, progress=False))
    return dataclasses.replace(run, tasks=[task])


def test_the_answers_of_the_training_split_are_not_handed_out_when_it_is_asked(
    home: Path, tmp_path: Path
) -> None:
    run = Run("majority", [TASKS["sst"]], "train", tmp_path / "out", Store(home))
    (planned,) = plan_run(run).tasks
    for handed in (planned.setting.training_answers, planned.setting.training_examples):
        with pytest.raises(MissingDataError, match="are what is asked"):
            list(handed())


def test_the_oracle_alone_is_handed_gold(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run("oracle", [TASKS["sst"]], "validation", tmp_path / "out", Store(home))
    (planned,) = plan_run(run).tasks
    assert isinstance(planned.setting, OracleSetting) and len(planned.setting.gold_answers()) == 32
    (other,) = plan_run(Run("majority", [TASKS["sst"]], "validation", tmp_path / "out", Store(home))).tasks
    with make_backend("oracle", ModelOptions()).open() as make:
        with pytest.raises(DecabenchError, match="runs by its own name only"):
            make(other.setting)
    for reference in ("decabench.predictors.baselines:oracle", "decabench.predictors:oracle"):
        with pytest.raises(DecabenchError, match="runs by its own name only"):
            predict(reference, tmp_path / "out", ["sst"], home=home)


def test_a_program_is_not_told_where_the_data_is(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DECABENCH_HOME", str(home))
    monkeypatch.setenv("KEPT", "1")
    program = tmp_path / "program.py"
    program.write_text(
        "import json, os, sys\n"
        "for line in sys.stdin:\n"
        "    row = json.loads(line)\n"
        "    answer = json.dumps([sorted(row), [k for k in os.environ if k in ('DECABENCH_HOME', 'KEPT')]])\n"
        "    print(json.dumps({'id': row['id'], 'answer': answer}), flush=True)\n"
    )
    folder = predict(f"command:{sys.executable} {program}", tmp_path / "out", ["sst"], home=home)
    lines = (folder / "predictions" / "sst.validation.jsonl").read_text().splitlines()
    told = {json.loads(line)["answer"] for line in lines}
    assert told == {json.dumps([["context", "id", "question", "split", "task"], ["KEPT"]])}
