"""What lines tell of their answers, and whether a cut context still has the gold answer: cases worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from decabench.metrics.base import Item
from decabench.scoring.evaluator import Told, ceiling, is_reachable, told_of
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
        ({"finish": "refused"}, {"refused": 1}),
        ({"rule": "refused"}, {"refused": 1}),
        ({"finish": "refused", "rule": "refused"}, {"refused": 1}),
        ({"context_kept": [0, 9]}, {"context_cut": 1}),
        ({"rule": "not-unparseable"}, {}),
    ],
)
def test_counts(tmp_path: Path, line: dict[str, Any], counts: dict[str, int]) -> None:
    told = told_of(written(tmp_path, {}, line))
    assert told.counts == counts
    assert told.kept == ({"1": (0, 9)} if "context_kept" in line else {})


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
    told = Told({"context_cut": 2}, {"a": (0, 12), "b": (0, 12)})
    assert ceiling(TASKS["squad"], told, ITEMS, ROWS) == 75.0


def test_what_was_not_scored_does_not_count() -> None:
    told = Told({"context_cut": 1}, {"a": (0, 12)})
    assert ceiling(TASKS["zre"], told, ITEMS[:2], ROWS) == 50.0


@pytest.mark.parametrize("task", ["sst", "wikisql", "cnn_dailymail"])
def test_only_tasks_with_spans_have_one(task: str) -> None:
    assert ceiling(TASKS[task], Told({}, {"a": (0, 1)}), ITEMS, ROWS) is None


def test_without_a_cut_there_is_none() -> None:
    assert ceiling(TASKS["squad"], Told({}, {}), ITEMS, ROWS) is None


def test_which_tasks_have_spans() -> None:
    assert {name for name, task in TASKS.items() if task.extractive} == {"squad", "srl", "zre"}
