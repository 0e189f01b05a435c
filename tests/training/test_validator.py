import pytest

pytest.importorskip("torch")

from decabench.models.family import ModelReply
from decabench.tasks.registry import TASKS
from decabench.tasks.store import Store
from decabench.training.validator import Validator, sample_validation, total_score


def test_a_sample_is_always_the_same(home):
    store = Store(home)
    whole = list(store.examples("sst", "validation"))
    some = sample_validation(store, "sst", 10, whole_units=False)
    assert len(some) == 10
    assert some == [example for example in whole if example in some] != whole[:10]
    assert some == sample_validation(store, "sst", 10, whole_units=False)
    assert set(map(repr, some)) < set(map(repr, sample_validation(store, "sst", 20, whole_units=False)))
    assert sample_validation(store, "sst", 0, whole_units=False) == whole


def test_dialogues_stay_whole(home):
    store = Store(home)
    some = sample_validation(store, "woz.en", 3, whole_units=True)
    dialogues = {example.units for example in some}
    assert len(some) >= 3
    assert some == [
        example for example in store.examples("woz.en", "validation") if example.units in dialogues
    ]


class Oracle:
    """Answers with gold, except for the pairs in `wrong`."""

    def __init__(self, store, tasks, wrong=()):
        rows = [row for task in tasks for row in store.examples(task, "validation")]
        self.known = {(row.context, row.question): row.answers[0] for row in rows}
        self.wrong = wrong

    def answer(self, task, questions):
        asked = [(question.context, question.question) for question in questions]
        texts = ["?" if pair in self.wrong else self.known[pair] for pair in asked]
        return [ModelReply(text, True, 1, 1) for text in texts]


def test_the_scores_are_the_harness_own(home):
    store, tasks = Store(home), ("sst", "woz.en", "wikisql")
    validate = Validator(store, [TASKS[name] for name in tasks], 0)
    assert validate(Oracle(store, tasks)) == dict.fromkeys(tasks, 100.0)
    rows = list(store.examples("sst", "validation"))
    wrong = {(row.context, row.question) for row in rows[: len(rows) // 4]}
    found = validate(Oracle(store, tasks, wrong))
    assert found["sst"] == pytest.approx(75.0)
    assert (total_score(found), total_score(found, "woz.en")) == (pytest.approx(275.0), 100.0)
    assert total_score({}) == 0
