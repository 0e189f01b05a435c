"""What an answer of a dialogue was compared with, and where it went wrong."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from decabench.metrics import METRICS, Item
from decabench.scoring import find_courses

GOLD = ("food: thai;", "area: north;", "none", "price: low;")


@pytest.mark.parametrize(
    ("answers", "parted"),
    [
        (GOLD, (None, None, None, None)),
        (("none", *GOLD[1:]), (0, 0, 0, 0)),
        (("food: thai;", "area: south;", *GOLD[2:]), (None, 1, 1, 1)),
        (("none", "food: thai, area: north;", *GOLD[2:]), (0, None, None, None)),  # made up for
        (
            ("none", "food: thai, area: north;", "area: east;", "price: low;"),
            (0, None, 2, 2),
        ),  # and wrong again
    ],
)
def test_a_course_says_since_when_states_differ(answers: Sequence[str], parted: Sequence[int | None]) -> None:
    """Two dialogues with the same answers, their turns in turn: neither knows of the other."""
    turns = [
        Item([gold], id=f"{name}_{number}") for number, gold in enumerate(GOLD) for name in ("en_1", "en_2")
    ]
    found = find_courses(METRICS["joint_goal_em"], [each for each in answers for _ in range(2)], turns)
    for dialogue in (0, 1):
        places = range(dialogue, 8, 2)
        assert [found[place].before for place in places] == [tuple(places[:at]) for at in range(4)]
        ours = [found[place].parted for place in places]
        assert ours == [None if at is None else places[at] for at in parted]
        assert all((found[at].predicted == found[at].gold) == (found[at].parted is None) for at in places)


@pytest.mark.parametrize("metric", ["nf1", "dialogue_f1", "pearson"])
def test_other_metrics_compare_answers_as_they_stand(metric: str) -> None:
    assert find_courses(METRICS[metric], ["1"], [Item(["1"], id="en_0_0")]) == {}
