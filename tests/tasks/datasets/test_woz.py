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


def turn(belief: list[Any], words: str = "Hello", acts: Sequence[Any] = ()) -> dict[str, Any]:
    return {"turn_idx": 0, "belief_state": belief, "system_acts": acts, "transcript": words}


def read(files: FolderFiles, *dialogues: list[dict[str, Any]]) -> list[Example]:
    content = [{"dialogue_idx": 0, "dialogue": turns} for turns in dialogues]
    write_lines(files.folder / "woz_validate_en.json", [json.dumps(content)])
    return read_form(WOZ_EN, "upstream json", "validation", files)


THAI, GREEK, SOUTH, EAST = (
    *(inform("food", kind) for kind in ("thai", "greek")),
    *(inform("area", side) for side in ("south", "east")),
)
MODERATE, PHONE = inform("price range", "moderate"), request("phone")

CHANGES: dict[str, Any] = {
    "nothing": ([[]], ["None"]),
    "informed": ([[THAI]], ["food: thai;"]),
    "requested": ([[PHONE, request("address")]], ["; phone, address"]),
    "both": ([[THAI, PHONE, SOUTH]], ["food: thai, area: south; phone"]),
    "unchanged": ([[THAI], [THAI]], ["food: thai;", "None"]),
    "one more": ([[THAI], [THAI, EAST]], ["food: thai;", "area: east;"]),
    "changed": ([[THAI], [GREEK]], ["food: thai;", "food: greek;"]),
    "taken back and given again": ([[EAST], [], [EAST]], ["area: east;", "None", "area: east;"]),
    "requests are not remembered": ([[PHONE], [PHONE]], ["; phone", "; phone"]),
}


@pytest.mark.parametrize(("beliefs", "answers"), CHANGES.values(), ids=CHANGES)
def test_answers_are_changes(files: FolderFiles, beliefs: list[list[Any]], answers: list[str]) -> None:
    examples = read(files, [turn(belief) for belief in beliefs])
    assert [example.answers for example in examples] == [(answer,) for answer in answers]


SAID: dict[str, Any] = {
    "new": ([turn([THAI], "Thai?")], ["food: thai;"]),
    "again after what is new": (
        [turn([THAI]), turn([THAI, SOUTH], "Thai food in the south")],
        ["food: thai;", "area: south, food: thai;"],
    ),
    "again with a request": (
        [turn([THAI]), turn([THAI, PHONE], "The number of the thai place?")],
        ["food: thai;", "food: thai; phone"],
    ),
    "again alone": ([turn([THAI]), turn([THAI], "Is there any Thai food?")], ["food: thai;", "food: thai;"]),
    "not again": ([turn([THAI]), turn([THAI], "Thanks!")], ["food: thai;", "None"]),
    "the beginning of a word": (
        [turn([MODERATE]), turn([MODERATE, THAI], "moderately priced thai food")],
        ["price range: moderate;", "food: thai, price range: moderate;"],
    ),
    "the middle of a word": (
        [turn([inform("price range", "expensive")]), turn([], "something inexpensive")],
        ["price range: expensive;", "None"],
    ),
    "changed": ([turn([THAI]), turn([GREEK], "not thai, greek")], ["food: thai;", "food: greek;"]),
    "the latest value": (
        [turn([THAI]), turn([GREEK]), turn([], "greek or thai")],
        ["food: thai;", "food: greek;", "food: greek;"],
    ),
    "no preference": (
        [turn([inform("area", "dontcare")]), turn([], "I dontcare")],
        ["area: dontcare;", "None"],
    ),
    "the system says it": (
        [turn([THAI]), turn([], "yes", ["area", ["food", "thai"]])],
        ["food: thai;", "None"],
    ),
    "no pattern": ([turn([inform("food", "a (b")]), turn([], "a (b")], ["food: a (b;", "food: a (b;"]),
    "a comma, which the metric reads in the same way": (
        [turn([inform("food", "fish, chips")]), turn([SOUTH], "fish, chips, south")],
        ["food: fish, chips;", "area: south, food: fish;"],
    ),
    "an empty value": ([turn([inform("food", "")]), turn([PHONE], "the phone")], ["food: ;", "; phone"]),
}


@pytest.mark.parametrize(("turns", "said"), SAID.values(), ids=SAID)
def test_changes_as_said(files: FolderFiles, turns: list[dict[str, Any]], said: list[str]) -> None:
    assert in_form(WOZ_EN, "as-said", read(files, turns)) == said
