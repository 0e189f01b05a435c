"""Tasks are values: frozen, comparable, checked when they are made, documented field by field."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from decabench.errors import DataError
from decabench.tasks.outputs import Label, Number, Output, Tags, Text, Tree
from decabench.tasks.registry import TASKS
from decabench.tasks.task import RemoteFile, Source, Task
from decabench.tasks.wording import fixed

SOURCE = Source("here", {"validation": (RemoteFile("a.txt"),)}, lambda files, split: iter(()))


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
