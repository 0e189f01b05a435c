from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from decabench.tasks import Store, find_overlap
from decabench.tasks.example import Example
from decabench.tasks.overlap import Overlap, normalise


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "home")


@pytest.fixture
def add(store: Store) -> Callable[..., None]:
    """Write a split of a task with these contexts."""
    from decabench.tasks.registry import TASKS
    from decabench.tasks.store import SplitRecord

    def write(task: str, split: str, contexts: Iterable[str], question: str = "Q?") -> None:
        examples = [
            Example(f"{task}.{split}.{at}", question, text, ("a",), (f"{at}",))
            for at, text in enumerate(contexts)
        ]
        rows, fingerprint, units = store.write(task, split, examples)
        records = store.records(task)
        record = SplitRecord(rows, fingerprint, "mirror", "x", False, (), 1, units_digest=units)
        store.write_records(TASKS[task], {**records, split: record})

    return write


def counts(found: Iterable[Overlap]) -> dict[tuple[str, str, str], tuple[int, int, int]]:
    return {
        (one.task, one.split, one.source): (len(one.exact), len(one.normalised), one.examples)
        for one in found
    }


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Do n't !", "don't"),
        ("No movement, no yuks.", "no movement , no yuks . "),
        ("CAF\u00c9 au lait", "cafe\u0301 au lait"),
        ("stra\u00dfe", "STRASSE"),
        ("\ufb01ne", "fine"),
        ("a_b", "a b"),
    ],
)
def test_texts_that_are_alike(one: str, other: str) -> None:
    assert normalise(one) == normalise(other) != ""


@pytest.mark.parametrize(
    ("one", "other"),
    [("a b c", "a c b"), ("\u0915\u093f", "\u0915\u0940"), ("3.5", "3.6"), ("caf\u00e9", "cafe")],
)
def test_texts_that_are_not(one: str, other: str) -> None:
    assert normalise(one) != normalise(other)


def test_within_and_across(store: Store, add: Callable[..., None]) -> None:
    add("sst", "train", ["Good film.", "Bad film.", "Twice", "Twice"])
    add("sst", "validation", ["Good film.", "good  FILM", "New", "Twice"])
    add("sst", "test", ["Other"])
    add("subj", "train", ["other !", "Bad film."])
    add("subj", "test", ["Nothing"])
    found = list(find_overlap(store, ["sst", "subj", "mr"]))
    assert counts(found) == {
        ("sst", "validation", "sst"): (2, 3, 4),
        ("sst", "test", "sst"): (0, 0, 1),
        ("sst", "test", "subj"): (0, 1, 1),
        ("subj", "test", "subj"): (0, 0, 1),
    }
    assert found[0].exact == ("sst.validation.0", "sst.validation.3")
    assert found[0].normalised == ("sst.validation.0", "sst.validation.1", "sst.validation.3")


def test_questions_with_their_contexts(store: Store, add: Callable[..., None]) -> None:
    add("squad", "train", ["a", "b"], "Who?")
    add("squad", "validation", ["a", "b"], "Where?")
    add("schema", "train", ["a"], "where")
    assert counts(find_overlap(store, ["squad"])) == {("squad", "validation", "squad"): (2, 2, 2)}
    assert counts(find_overlap(store, ["squad", "schema"], compare="example")) == {
        ("squad", "validation", "squad"): (0, 0, 2),
        ("squad", "validation", "schema"): (0, 1, 2),
    }
