from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from decabench.tasks.datasets.woz import WOZ_EN
from decabench.tasks.example import Example
from tests.tasks.fixtures import FolderFiles, in_form, read_form, write_lines


def inform(slot: str, value: str) -> dict[str, Any]:
    return {"act": "inform", "slots": [[slot, value]]}


def request(slot: str) -> dict[str, Any]:
    return {"act": "request", "slots": [["slot", slot]]}


def turn(belief: list[Any], acts: Sequence[Any] = (), words: str = "Hello") -> dict[str, Any]:
    return {"turn_idx": 0, "belief_state": belief, "system_acts": acts, "transcript": words}


def read(files: FolderFiles, *dialogues: list[dict[str, Any]]) -> list[Example]:
    content = [{"dialogue_idx": 0, "dialogue": turns} for turns in dialogues]
    write_lines(files.folder / "woz_validate_en.json", [json.dumps(content)])
    return read_form(WOZ_EN, "upstream json", "validation", files)


@pytest.mark.parametrize(
    ("beliefs", "answers"),
    [
        ([[]], ["None"]),
        ([[inform("food", "thai")]], ["food: thai;"]),
        ([[request("phone"), request("address")]], ["; phone, address"]),
        (
            [[inform("food", "thai"), request("phone"), inform("area", "south")]],
            ["food: thai, area: south; phone"],
        ),
        ([[inform("food", "thai")], [inform("food", "thai")]], ["food: thai;", "None"]),
        (
            [[inform("food", "thai")], [inform("food", "thai"), inform("area", "east")]],
            ["food: thai;", "area: east;"],
        ),
        ([[inform("food", "thai")], [inform("food", "greek")]], ["food: thai;", "food: greek;"]),
        ([[inform("area", "east")], [], [inform("area", "east")]], ["area: east;", "None", "area: east;"]),
        ([[request("phone")], [request("phone")]], ["; phone", "; phone"]),
    ],
    ids=[
        "nothing",
        "informed",
        "requested",
        "both",
        "unchanged",
        "one more",
        "changed",
        "taken back and given again",
        "requests are not remembered",
    ],
)
def test_answers_are_changes(files: FolderFiles, beliefs: list[list[Any]], answers: list[str]) -> None:
    examples = read(files, [turn(belief) for belief in beliefs])
    assert [example.answers for example in examples] == [(answer,) for answer in answers]


THAI, SOUTH = inform("food", "thai"), inform("area", "south")
MODERATE = inform("price range", "moderate")


@pytest.mark.parametrize(
    ("turns", "said"),
    [
        ([turn([THAI], words="Thai?")], ["food: thai;"]),
        (
            [turn([THAI]), turn([THAI, SOUTH], words="Thai food in the south")],
            ["food: thai;", "area: south, food: thai;"],
        ),
        (
            [turn([THAI]), turn([THAI, request("phone")], words="The number of the thai place?")],
            ["food: thai;", "food: thai; phone"],
        ),
        ([turn([THAI]), turn([THAI], words="Is there any Thai food?")], ["food: thai;", "food: thai;"]),
        ([turn([THAI]), turn([THAI], words="Thanks!")], ["food: thai;", "None"]),
        (
            [turn([MODERATE]), turn([MODERATE, THAI], words="moderately priced thai food")],
            ["price range: moderate;", "food: thai, price range: moderate;"],
        ),
        (
            [turn([inform("price range", "expensive")]), turn([], words="something inexpensive")],
            ["price range: expensive;", "None"],
        ),
        (
            [turn([THAI]), turn([inform("food", "greek")], words="not thai, greek")],
            ["food: thai;", "food: greek;"],
        ),
        (
            [turn([THAI]), turn([inform("food", "greek")]), turn([], words="greek or thai")],
            ["food: thai;", "food: greek;", "food: greek;"],
        ),
        ([turn([inform("area", "dontcare")]), turn([], words="I dontcare")], ["area: dontcare;", "None"]),
        ([turn([THAI]), turn([], ["area", ["food", "thai"]], "yes")], ["food: thai;", "None"]),
        ([turn([inform("food", "a (b")]), turn([], words="a (b")], ["food: a (b;", "food: a (b;"]),
        (
            [turn([inform("food", "fish, chips")]), turn([SOUTH], words="fish, chips, south")],
            ["food: fish, chips;", "area: south, food: fish;"],
        ),
        ([turn([inform("food", "")]), turn([request("phone")], words="the phone")], ["food: ;", "; phone"]),
    ],
    ids=[
        "new",
        "again after what is new",
        "again with a request",
        "again alone",
        "not again",
        "the beginning of a word",
        "the middle of a word",
        "changed",
        "the latest value",
        "no preference",
        "the system says it",
        "no pattern",
        "a comma, which the metric reads in the same way",
        "an empty value",
    ],
)
def test_changes_as_said(files: FolderFiles, turns: list[dict[str, Any]], said: list[str]) -> None:
    assert in_form(WOZ_EN, "as-said", read(files, turns)) == said
