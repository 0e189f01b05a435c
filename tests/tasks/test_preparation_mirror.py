"""The real data of the decathlon: its answers equal those of the official scorers' cases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from decabench.scoring import prove_task
from decabench.tasks.example import Example
from decabench.tasks.registry import TASKS
from tests.tasks.conftest import Prepared

pytestmark = pytest.mark.mirror


def examples(prepared: Prepared, task: str, split: str = "validation") -> list[Example]:
    return list(prepared.store.examples(task, split))


def gold(shared: Path, task: str) -> list[Any]:
    """The references of the cases for a task, in order."""
    lines = (shared / "conformance" / f"{task}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["gold"] for line in lines]


@pytest.mark.parametrize("task", ["srl", "sst", "schema", "zre", "iwslt.en.de"])
def test_answers_of_the_official_cases(prepared: Prepared, shared: Path, task: str) -> None:
    references = [answers if isinstance(answers, list) else [answers] for answers in gold(shared, task)]
    found = [list(example.answers) for example in examples(prepared, task)]
    if task == "iwslt.en.de":
        assert found == references  # cased
    else:
        assert [[answer.lower() for answer in answers] for answers in found] == references


def test_woz_answers_of_the_official_cases(prepared: Prepared, shared: Path) -> None:
    found = [[[example.id, example.answers[0].lower()]] for example in examples(prepared, "woz.en")]
    assert found == gold(shared, "woz.en")


def test_wikisql_answers_of_the_official_cases(prepared: Prepared, shared: Path) -> None:
    found = [
        (example.answers[0], example.meta["sql"], example.meta["header"])
        for example in examples(prepared, "wikisql")
    ]
    cases = [case for (case,) in gold(shared, "wikisql")]
    assert found == [(case["answer"], case["sql"], case["header"]) for case in cases]


def test_queries_that_are_not_read_as_their_form(prepared: Prepared) -> None:
    """Three gold queries of WikiSQL's test set, which the 2018 parser denies their score, are named."""
    checks = prove_task(TASKS["wikisql"], "test", prepared.store)
    assert [check for check in checks if not check.passed] == []
    (said,) = [check.detail for check in checks if check.name.startswith("gold answers survive")]
    assert said == (
        "15,875 of 15,878; known exceptions of the published data, right by lfem_corrected: "
        "wikisql.test.8862, wikisql.test.8865, wikisql.test.8866"
    )
