"""What tests of imports need: the examples of the sample, an import into a folder, and its score."""

from __future__ import annotations

from typing import Any

import pytest

from decabench import evaluate, import_answers
from decabench.exchange import ImportSettings
from decabench.tasks import Store


@pytest.fixture
def golds(home):
    """Id to first gold answer, by task."""

    def read(task: str) -> dict[str, str]:
        return {row.id: row.answers[0] for row in Store(home).examples(task, "validation")}

    return read


@pytest.fixture
def examples(home):
    """The examples of a task of the sample."""
    return lambda task: list(Store(home).examples(task, "validation"))


@pytest.fixture
def score(home):
    """The score of the task that a report is about."""
    return lambda done: evaluate(done.folder, tasks=done.task, home=home).tasks[done.task].score


@pytest.fixture
def bring(home, tmp_path):
    """Imports into a folder `out`."""

    def call(source: Any, task: str, format: str = "", name: str = "theirs", **settings: Any):
        made = ImportSettings(**settings)
        return import_answers(source, task, tmp_path / "out", name, "validation", format, made, home)

    return call
