from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from decabench.errors import DataError
from decabench.metrics import METRICS
from decabench.tasks.outputs import Label, Number, Output, Tags, Text, Tree, default_metric, describe_output
from decabench.tasks.registry import TASKS
from decabench.tasks.task import RemoteFile, Source, Task
from decabench.tasks.wording import fixed

# Tasks are values: frozen, comparable, checked when they are made, documented field by field.

SOURCE = Source("here", {"validation": (RemoteFile("a.txt"),)}, lambda files, split: iter(()))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"name": "../up"}, "Task '../up': A name must consist of lowercase letters, digits, dots, hyphens"),
        ({"metric": "nf2"}, "Task 'own': There is no metric 'nf2'. Did you mean nf1"),
        ({"secondary": ("em", "bleurt")}, "There is no metric 'bleurt'. Did you mean bleu"),
        ({"sources": ()}, "must have at least one source"),
        ({"counts": {"dev": 3}}, "A split must be one of train, validation, test, not dev."),
        ({"hidden": ("tset",)}, "not tset."),
        ({"curriculum": "medium"}, "'curriculum' must be 'easy', 'hard' or None, not 'medium'."),
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
    with pytest.raises(DataError, match=r"no metric 'x'.* must have at least one source.* not dev\."):
        Task("own", "Own", "Own", metric="x", hidden=("dev",))


def test_a_metric_of_an_installed_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "outside-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: outside\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[decabench.metrics]\ncoverage = no_such_module:X\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert replace(TASKS["sst"], metric="coverage").metric == "coverage"


# Outputs check themselves and describe valid answers.

_OUTPUTS = [
    (Text(), "nf1", "text"),
    (Text(extractive=True), "nf1", "a span of the context"),
    (Label(), "accuracy", "one of the labels that the question names"),
    (Label(("a", "b")), "accuracy", "one of a, b"),
    (Tags(), "tag_accuracy", "a tag for each token of the context"),
    (Tags("IOB2", ("B-X", "O")), "sequence_f1", "a tag (IOB2) for each token of the context: B-X, O"),
    (Tree(), "parsing", "a head and a relation for each token of the context"),
    (Number(0, 5.5), "mse", "a number from 0 to 5.5"),
]


@pytest.mark.parametrize(("output", "metric", "phrase"), _OUTPUTS)
def test_what_follows_from_an_output(output: Output, metric: str, phrase: str) -> None:
    assert default_metric(output) == metric
    assert metric in METRICS
    assert describe_output(output) == phrase
    assert output.max_tokens > 0


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Text(max_tokens=0), "'max_tokens' must be at least 1, but got 0"),
        (
            lambda: Label(("a", "b", "a")),
            "Each label must be listed only once, but a is listed more than once",
        ),
        (lambda: Label(("a", " ")), "Each label must be a non-empty string, but got 'a', ' '"),
        (lambda: Label(max_tokens=-1), "but got -1"),
        (lambda: Tags("BIO"), "There is no tagging scheme 'BIO'. Use one of plain, IOB1, IOB2, IOBES"),  # type: ignore[arg-type]
        (lambda: Tags(names=("a", "a")), "Each tag must be listed only once"),
        (lambda: Tags(names=("B PER",)), "The tag 'B PER' contains a space"),
        (lambda: Tree(("a", "a")), "Each relation must be listed only once"),
        (lambda: Number(5, 5), "A scale must go from a lower to a higher number, not from 5 to 5"),
        (lambda: Number(0, float("inf")), "not from 0 to inf"),
        (lambda: Number(0, 1, max_tokens=0), "but got 0"),
    ],
)
def test_an_output_checks_itself(make: Callable[[], Output], sentence: str) -> None:
    with pytest.raises(DataError) as caught:
        make()
    assert sentence in str(caught.value)
