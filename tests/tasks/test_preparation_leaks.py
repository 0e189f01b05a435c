"""Neither the ids of examples nor their order tell the answers: a predictor gets both."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import fields

import pytest

from decabench.tasks.example import Example, Question
from decabench.tasks.outputs import Label
from decabench.tasks.registry import TASKS
from decabench.tasks.store import Store
from decabench.tasks.task import Task
from tests.tasks.conftest import PreparedSuites
from tests.tasks.fixtures import SAMPLED
from tests.tasks.leaks import leaks

LABELLED = [name for name, task in TASKS.items() if isinstance(task.output, Label)]
OTHERS = ["squad2", "sick.relatedness", "conll2003.entities"]
"""Tasks of which a part of the answer is like a label."""

KNOWN = {
    (
        "snli",
        "label before",
    ): "three hypotheses stand together, written for three labels, as their premise shows"
}


def label_of(example: Example) -> str:
    """The label, or what there is of one: whether there is an answer, a rounded number."""
    answer = example.answers[0]
    if answer in ("unanswerable", "None"):
        return "none"
    try:
        return str(round(float(answer)))
    except ValueError:
        return answer


def found_in(task: str, examples: Sequence[Example]) -> dict[str, tuple[float, float]]:
    labels = [label_of(example) for example in examples]
    if not isinstance(TASKS[task].output, Label) and task != "sick.relatedness":
        labels = [label if label == "none" else "some" for label in labels]
    rules = leaks([example.id for example in examples], labels)
    return {rule: accuracy for rule, accuracy in rules.items() if (task, rule) not in KNOWN}


def test_a_question_has_no_more_than_its_texts_and_an_id() -> None:
    assert {field.name for field in fields(Question)} == {"id", "question", "context"}


@pytest.mark.parametrize(
    ("ids", "labels", "rule"),
    [
        ([f"t.{n}" for n in range(400)], ["ab"[n // 200] for n in range(400)], "place"),
        ([f"t.{n}" for n in range(400)], ["ab"[n // 20 % 2] for n in range(400)], "label before"),
        ([f"{n}{'ab'[n * n % 7 % 2]}" for n in range(400)], None, "character 1 from the end"),
        ([f"{'56' if n * n % 7 % 2 else '5a'}{n * 7919:09}" for n in range(400)], None, "character 2"),
    ],
)
def test_rules_find_what_is_there(ids: list[str], labels: list[str] | None, rule: str) -> None:
    labels = labels or ["ab"[n * n % 7 % 2] for n in range(400)]
    assert rule in leaks(ids, labels)


def test_rules_find_nothing_in_random_labels() -> None:
    """Of 200 files of 400 examples, at most one is suspected by any rule."""
    suspected = 0
    for seed in range(200):
        labels = random.Random(seed).choices("ab", k=400)
        suspected += bool(leaks([f"t.{n}" for n in range(400)], labels))
    assert suspected <= 1


@pytest.mark.parametrize("name", [name for name in SAMPLED if name in (*LABELLED, *OTHERS)])
def test_the_sample(sample: Callable[[Task, str], list[Example]], name: str) -> None:
    for split in TASKS[name].counts:
        if split not in TASKS[name].hidden:
            assert found_in(name, sample(TASKS[name], split)) == {}, split


def _check(store: Store, name: str) -> None:
    for split in store.records(name):
        assert found_in(name, list(store.examples(name, split))) == {}, split


@pytest.mark.mirror
@pytest.mark.parametrize("name", [*LABELLED, *OTHERS])
def test_the_real_data(prepared_suites: PreparedSuites, name: str) -> None:
    """The decathlon's among them: sst, and MultiNLI, whose mirror has ids that tell nothing."""
    if name not in prepared_suites.names:
        pytest.skip(f"the mirror, or the suites that are prepared, have no {name}")
    _check(prepared_suites.store, name)
