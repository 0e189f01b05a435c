"""Tasks are values: frozen, comparable, checked when they are made, documented field by field."""

from __future__ import annotations

import ast
import inspect
import sys
from dataclasses import FrozenInstanceError, fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from decabench.errors import DataError
from decabench.tasks.example import Example, Question
from decabench.tasks.outputs import Label, Number, Output, Tags, Text, Tree
from decabench.tasks.registry import TASKS
from decabench.tasks.suite import PublishedRow, Suite
from decabench.tasks.suites.decathlon import DECATHLON
from decabench.tasks.task import ContextLimit, RemoteFile, Source, Task, context_limits
from decabench.tasks.wording import AnswerForm, PromptTemplate, Variant, fixed

VALUES = [
    *(Task, Source, RemoteFile, ContextLimit, Example, Question, Suite, PublishedRow),
    *(Text, Label, Tags, Tree, Number, PromptTemplate, AnswerForm, Variant),
]
SOURCE = Source("here", {"validation": (RemoteFile("a.txt"),)}, lambda files, split: iter(()))


def test_a_task_does_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        TASKS["sst"].name = "other"  # type: ignore[misc]
    assert replace(TASKS["sst"]) == TASKS["sst"]
    assert replace(TASKS["sst"], version=2) != TASKS["sst"]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: value.__name__)
def test_every_field_is_documented(value: type) -> None:
    module = ast.parse(inspect.getsource(sys.modules[value.__module__]))
    (body,) = [
        node.body for node in module.body if isinstance(node, ast.ClassDef) and node.name == value.__name__
    ]
    documented = {
        field.target.id
        for field, line in pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant)
    }
    assert documented == {field.name for field in fields(value)}


@pytest.mark.parametrize(
    ("output", "metric"),
    [
        (Text(), "nf1"),
        (Label(), "accuracy"),
        (Tags(), "tag_accuracy"),
        (Tags("IOBES"), "sequence_f1"),
        (Tree(), "parsing"),
        (Number(0, 1), "mse"),
    ],
)
def test_the_metric_follows_from_the_output(output: Output, metric: str) -> None:
    made = Task("own", "Own", "Own", sources=(SOURCE,), output=output)
    assert (made.metric, made.licence, made.secondary) == (metric, "not stated", ("nf1",))
    assert replace(made, metric="em").metric == "em"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"name": "../up"}, "Task '../up': A name must consist of lower-case letters, digits, dots, - and _"),
        ({"metric": "nf2"}, "Task 'own': There is no metric 'nf2'. Did you mean nf1"),
        ({"target_forms": {"": str}}, "A target form must be named by a text, not ''"),
        ({"target_forms": {"short": "em"}}, "The target form short must be a function (example, earlier), not 'em'"),
        ({"secondary": ("em", "bleurt")}, "There is no metric 'bleurt'. Did you mean bleu"),
        ({"sources": ()}, "It has no source"),
        ({"counts": {"dev": 3}}, "The splits are train, validation, test, not dev."),
        ({"hidden": ("tset",)}, "not tset."),
        ({"curriculum": "medium"}, "Its curriculum must be easy, hard or None, not 'medium'."),
        ({"variants": (fixed("a", "q", "p"), fixed("a", "q", "r"))}, "a is used more than once"),
        (
            {"output": Label(("yes", "no")), "variants": (fixed("a", "q", "p", {"oui": "yes", "non": "nein"}),)},
            "The variant a maps words to nein, but the labels are yes, no.",
        ),
    ],
)  # fmt: skip
def test_a_task_checks_itself(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(DataError) as caught:
        Task(**{"name": "own", "title": "Own", "dataset": "Own", "sources": (SOURCE,), **changes})
    assert sentence in str(caught.value)


def test_all_faults_are_raised_together() -> None:
    with pytest.raises(DataError, match=r"no metric 'x'.* It has no source.* not dev\."):
        Task("own", "Own", "Own", metric="x", hidden=("dev",))


def test_a_metric_from_elsewhere_is_not_loaded() -> None:
    assert replace(TASKS["sst"], metric="no_such_package:METRIC").metric == "no_such_package:METRIC"


def test_a_metric_of_an_installed_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "outside-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: outside\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[decabench.metrics]\ncoverage = no_such_module:X\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert replace(TASKS["sst"], metric="coverage").metric == "coverage"


def test_context_limits() -> None:
    assert context_limits(decathlon().values(), "skip") == {"squad": 400}
    assert context_limits(decathlon().values(), "cut") == {"cnn_dailymail": 400}
    with pytest.raises(DataError, match="The limit for a context must be 1 token or more, not 0"):
        ContextLimit(0, "cut")
    with pytest.raises(DataError, match="give 'skip' or 'cut', not 'drop'"):
        ContextLimit(9, "drop")  # type: ignore[arg-type]


def decathlon() -> dict[str, Task]:
    return {name: TASKS[name] for name in DECATHLON.tasks}


def names(fact: str, value: Any) -> list[str]:
    return [name for name, task in decathlon().items() if getattr(task, fact) == value]


def test_facts() -> None:
    """What used to be lists of names elsewhere."""
    assert names("redistributable", False) == ["iwslt.en.de", "cnn_dailymail"]
    assert names("withhold_texts", True) == ["iwslt.en.de", "cnn_dailymail", "sst"]
    assert names("extractive", True) == ["squad", "srl", "zre"]
    assert names("curriculum", "easy") == ["sst", "srl", "zre", "woz.en", "wikisql", "schema"]
    assert names("curriculum", "hard") == ["squad"]
    assert {name: task.unit_names for name, task in decathlon().items()} == {
        "squad": ("article", "paragraph"),
        "iwslt.en.de": ("talk",),
        "cnn_dailymail": ("document",),
        "multinli.in.out": ("premise", "prompt"),
        "sst": ("sentence",),
        "srl": ("sentence",),
        "zre": ("relation", "sentence"),
        "woz.en": ("dialogue",),
        "wikisql": ("table",),
        "schema": ("schema",),
    }
    assert all(task.unit_names for task in TASKS.values())
    assert all(task.curriculum is None for name, task in TASKS.items() if name not in DECATHLON.tasks)
