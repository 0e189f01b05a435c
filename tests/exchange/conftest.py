"""What tests of imports need: the gold answers of the sample, and an import into a folder."""

from __future__ import annotations

from typing import Any

import pytest

from decabench import import_answers
from decabench.exchange import ImportSettings
from decabench.tasks import Store


@pytest.fixture
def golds(home):
    """Id to first gold answer, by task."""

    def read(task: str) -> dict[str, str]:
        return {row.id: row.answers[0] for row in Store(home).examples(task, "validation")}

    return read


@pytest.fixture
def bring(home, tmp_path):
    """Imports into a folder `out`."""

    def call(source: Any, task: str, format: str = "", name: str = "theirs", **settings: Any):
        made = ImportSettings(**settings)
        return import_answers(source, task, tmp_path / "out", name, "validation", format, made, home)

    return call
