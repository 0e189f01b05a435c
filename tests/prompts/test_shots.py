"""Worked examples come only from the training split, are the same everywhere, and are never evaluated."""

from __future__ import annotations

import hashlib
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from decabench.errors import MissingDataError
from decabench.prompts.shots import LONGEST, SHARED_CONTEXT, select_shots
from decabench.tasks.example import Example
from decabench.tasks.registry import TASKS
from decabench.tasks.store import Store
from tests.tasks.fixtures import SAMPLED

TASK = TASKS["squad"]


def example(number: int, answer: str = "", context: str = "", question: str = "") -> Example:
    return Example(
        f"t{number}",
        question or f"Question {number}?",
        context or f"The context of number {number}.",
        (answer or f"answer {number}", "another"),
        (f"g{number}",),
    )


TRAINING = [example(number) for number in range(50)]


def ids(examples: list[Example], n: int, seed: int = 0) -> list[str]:
    return [shot.id for shot in select_shots(TASK, examples, [], n, seed)]


def test_the_draw_is_by_the_sha256_of_seed_task_and_id() -> None:
    def digest(id: str) -> str:
        return hashlib.sha256(f"7\0squad\0{id}".encode()).hexdigest()

    assert ids(TRAINING, 5, seed=7) == sorted((example.id for example in TRAINING), key=digest)[:5]


def test_the_order_of_the_data_does_not_count_and_the_seed_does() -> None:
    assert ids(TRAINING, 5) == ids(TRAINING[::-1], 5)
    assert len({tuple(ids(TRAINING, 5, seed)) for seed in range(5)}) == 5


def test_a_shot_has_the_first_answer() -> None:
    (shot,) = select_shots(TASK, TRAINING[:1], [], 1)
    assert (shot.question, shot.context, shot.answer) == (
        "Question 0?",
        "The context of number 0.",
        "answer 0",
    )


def test_no_shots_read_nothing() -> None:
    def unread() -> Iterator[Example]:
        raise MissingDataError("train is not prepared")
        yield

    assert select_shots(TASK, unread(), [], 0) == ()
    with pytest.raises(MissingDataError, match="train is not prepared"):
        select_shots(TASK, unread(), [], 1)


def test_what_is_evaluated_is_never_shown() -> None:
    """Regardless of case and spacing."""
    evaluated = [
        (item.question.upper().replace(" ", "\n "), f" {item.context.lower()}") for item in TRAINING[:47]
    ]
    found = select_shots(TASK, TRAINING, evaluated, 3)
    assert {shot.id for shot in found} == {"t47", "t48", "t49"}
    with pytest.raises(
        MissingDataError, match=r"squad: 4 shots .* only 3 training examples .*\(47 are .*Use fewer"
    ):
        select_shots(TASK, TRAINING, evaluated, 4)


def test_another_question_of_an_evaluated_context_is_not_shown_either() -> None:
    paragraph = "A paragraph of the data. " * 4
    training = [example(1, context=paragraph), example(2)]
    found = select_shots(TASK, training, [("Another?", paragraph), ("x", "y")], 1)
    assert [shot.id for shot in found] == ["t2"]


def test_a_short_context_may_be_shared() -> None:
    """`Yes.` is no leak."""
    short = "y" * (SHARED_CONTEXT - 1)
    assert select_shots(TASK, [example(1, context=short)], [("Another?", short), ("x", "z")], 1)


def test_one_context_for_all_is_no_leak() -> None:
    table = "One table for all the questions of a task. " * 9
    assert select_shots(TASK, [example(1, context=table)], [("Another?", table)], 1)


def test_labels_are_shown_in_turn() -> None:
    training = [example(number, "rare" if number % 10 == 0 else "common") for number in range(50)]
    for seed in range(5):
        shown = Counter(shot.answer for shot in select_shots(TASK, training, [], 4, seed))
        assert shown == {"rare": 2, "common": 2}
    assert Counter(shot.answer for shot in select_shots(TASK, training, [], 20)) == {"rare": 5, "common": 15}


def test_answers_that_are_no_labels_are_not_evened_out() -> None:
    training = [example(number, f"answer {number}" if number < 20 else "common") for number in range(400)]
    assert Counter(shot.answer for shot in select_shots(TASK, training, [], 10))["common"] > 6


def test_long_ones_only_where_there_are_too_few_short() -> None:
    long = [example(number, context="w " * LONGEST + str(number)) for number in range(100, 110)]
    longer = [example(number, context="w " * 2 * LONGEST + str(number)) for number in range(200, 210)]
    assert all(id in {item.id for item in TRAINING} for id in ids([*longer, *long, *TRAINING], 50))
    few = set(ids([*longer, *long, *TRAINING], 55))
    assert len(few & {item.id for item in long}) == 5 and not few & {item.id for item in longer}


def test_memory_does_not_grow_with_the_training_split() -> None:
    def stream(count: int) -> Iterator[Example]:
        return (example(number, context=f"{number} " * 200) for number in range(count))

    def peak(count: int) -> int:
        tracemalloc.start()
        select_shots(TASK, stream(count), [], 5)
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return used

    peak(100)
    assert peak(3_000) < 3 * peak(300)


@pytest.mark.parametrize("task", [name for name in SAMPLED if "train" in TASKS[name].counts])
def test_the_sample(home: Path, task: str) -> None:
    store = Store(home)
    for split in set(store.records(task)) - {"train"}:
        evaluated = [
            (" ".join(row["question"].lower().split()), " ".join(row["context"].lower().split()))
            for row in store.read(task, split)
        ]
        shots = select_shots(TASKS[task], store.examples(task, "train"), evaluated, 3)
        training = {row["id"]: row for row in store.read(task, "train")}
        assert len({shot.id for shot in shots}) == 3
        for shot in shots:
            assert (training[shot.id]["question"], training[shot.id]["context"]) == (
                shot.question,
                shot.context,
            )
            assert training[shot.id]["answers"][0] == shot.answer
            assert (
                " ".join(shot.question.lower().split()),
                " ".join(shot.context.lower().split()),
            ) not in evaluated


def test_each_task_draws_its_own() -> None:
    other = replace(TASK, name="other")
    assert ids(TRAINING, 5) != [shot.id for shot in select_shots(other, TRAINING, [], 5)]
