"""The suite of taggers."""

from __future__ import annotations

from decabench.tasks import SUITES, TASKS
from decabench.tasks.suite import check_suite
from decabench.tasks.suites.sequence_labelling import TAGGING


def test_tasks() -> None:
    assert SUITES["tagging"] is TAGGING
    check_suite(TAGGING, TASKS)
    assert {TASKS[name].metric for name in TAGGING.tasks} == {"tag_accuracy", "sequence_f1", "nf1"}


def test_texts_that_may_not_be_passed_on() -> None:
    assert [name for name in TAGGING.tasks if not TASKS[name].withhold_texts] == ["ud.pos"]
    assert [name for name in TAGGING.tasks if not TASKS[name].redistributable] == [
        "conll2003.entities",
        "ontonotes.entities",
    ]
