"""The real data of all suites but the decathlon: its tasks are proven."""

from __future__ import annotations

import pytest

from decabench.scoring import prove_task
from decabench.tasks.registry import TASKS
from tests.tasks.conftest import PreparedSuites
from tests.tasks.test_fingerprints import recorded

pytestmark = pytest.mark.mirror


@pytest.mark.parametrize("task", sorted({task for task, _ in recorded("mirror")}))
def test_proven(prepared_suites: PreparedSuites, task: str) -> None:
    for split in {"validation", "test"} & prepared_suites.store.records(task).keys():
        checks = prove_task(TASKS[task], split, prepared_suites.store)
        assert [check.name for check in checks if not check.passed] == [], split
