"""Fixtures for imports: examples of the sample, an import into a folder, and its score."""

from __future__ import annotations

from typing import Any

import pytest

from decabench import evaluate, import_answers
from decabench.exchange import ImportSettings
from decabench.tasks import Store


@pytest.fixture
def golds(home):
    """Return a function that gives a task's first gold answers by id."""

    def read(task: str) -> dict[str, str]:
        return {row.id: row.answers[0] for row in Store(home).examples(task, "validation")}

    return read


@pytest.fixture
def examples(home):
    """Return a function that gives a task's examples in the sample."""
    return lambda task: list(Store(home).examples(task, "validation"))


@pytest.fixture
def score(home):
    """Return a function that gives the score of an import."""
    return lambda done: evaluate(done.folder, tasks=done.task, home=home).tasks[done.task].score


@pytest.fixture
def bring(home, tmp_path):
    """Return a function that imports into a folder `out`."""

    def call(source: Any, task: str, format: str = "", name: str = "theirs", **settings: Any):
        made = ImportSettings(**settings)
        return import_answers(source, task, tmp_path / "out", name, "validation", format, made, home)

    return call
