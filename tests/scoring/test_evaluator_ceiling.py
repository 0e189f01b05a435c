"""How many answers came to be in which way, and whether a cut context still has the gold answer, worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from decabench.metrics.base import Item
from decabench.scoring.task_results import context_ceiling, count_answers, is_reachable
from decabench.submission.answers import read_lines
from decabench.tasks.builtin_suites import DECATHLON
from decabench.tasks.registry import TASKS

CONTEXT = "The house of the Broncos stands in Denver, near Levi's Stadium."


def written(folder: Path, *lines: dict[str, Any]) -> Path:
    path = folder / "sst.validation.jsonl"
    rows = [{"id": str(number), "answer": "x", **line} for number, line in enumerate(lines)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        ({}, {}),
        ({"raw": "I say x", "rule": "marker+label"}, {}),
        ({"rule": "label+unparseable"}, {"unparseable": 1}),
        ({"rule": "unparseable"}, {"unparseable": 1}),
        ({"rule": "reasoning+unparseable+relabelled"}, {"unparseable": 1}),
        ({"finish": "length"}, {"truncated": 1}),
        ({"finish": "length", "rule": "reasoning+unparseable"}, {"unparseable": 1, "truncated": 1}),
        ({"rule": "reasoning+reasoning-only+unparseable"}, {"unparseable": 1, "reasoning_only": 1}),
        (
            {"finish": "length", "rule": "reasoning+cut-in-reasoning+unparseable"},
            {"unparseable": 1, "cut_in_reasoning": 1, "truncated": 1},
        ),
        ({"rule": "template+tool-call+unparseable"}, {"unparseable": 1, "tool_call": 1, "template": 1}),
        ({"finish": "refused"}, {"refused": 1}),
        ({"rule": "refused"}, {"refused": 1}),
        ({"finish": "refused", "rule": "refused"}, {"refused": 1}),
        ({"context_kept": [0, 9]}, {"context_cut": 1}),
        ({"rule": "not-unparseable"}, {}),
    ],
)
def test_counts(tmp_path: Path, line: dict[str, Any], counts: dict[str, int]) -> None:
    found, kept = count_answers(read_lines(written(tmp_path, {}, line)))
    assert found == counts
    assert kept == ({"1": (0, 9)} if "context_kept" in line else {})


@pytest.mark.parametrize(
    ("golds", "kept", "reachable"),
    [
        (("Denver",), (0, len(CONTEXT)), True),
        (("Denver",), (0, CONTEXT.index("Denver")), False),
        (("Denver",), (0, CONTEXT.index("Denver") + 6), True),
        (("Denver",), (CONTEXT.index("Denver"), len(CONTEXT)), True),
        (("denver",), (0, 45), True),
        (("house  of\nthe",), (0, 16), True),
        (("Denver", "house"), (0, 12), True),
        (("Stadium", "Denver"), (0, 12), False),
        (("he",), (0, 20), True),
        (("Boston",), (0, 4), True),
        (("Boston", "Denver"), (0, 4), False),
        (("unanswerable",), (0, 0), True),
        (("house, Broncos",), (0, 25), True),
        (("house, Denver",), (0, 25), False),
        (("Levi's Stadium.",), (0, 25), False),
    ],
)
def test_is_reachable(golds: tuple[str, ...], kept: tuple[int, int], reachable: bool) -> None:
    assert is_reachable(golds, CONTEXT, kept) is reachable


def test_a_word_inside_another_is_not_it() -> None:
    assert not is_reachable(("use",), "A house of no use", (0, 8))


ITEMS = [
    Item((gold,), id_, id_) for id_, gold in (("a", "Denver"), ("b", "house"), ("c", "near"), ("d", "in"))
]
ROWS = [{"id": id_, "context": CONTEXT} for id_ in "abcd"]


def test_ceiling() -> None:
    assert context_ceiling({"a": (0, 12), "b": (0, 12)}, ITEMS, ROWS) == 75.0


def test_what_was_not_scored_does_not_count() -> None:
    assert context_ceiling({"a": (0, 12)}, ITEMS[:2], ROWS) == 50.0
    assert context_ceiling({"a": (0, 12)}, ITEMS[1:], ROWS) == 100.0


def test_which_tasks_have_spans() -> None:
    assert {name for name in DECATHLON.tasks if TASKS[name].extractive} == {"squad", "srl", "zre"}
