"""Answers are kept in the order of the data, and lines with more than an answer as they were read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from decabench.submission import AlignedAnswers, read_lines

IDS = [f"id-{at}" for at in range(6)]


def aligned(path: Path, lines: list[dict[str, Any]], ids: list[str] = IDS) -> AlignedAnswers:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return AlignedAnswers.read(read_lines(path), ids)


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4, 5], [5, 3, 4, 0, 2, 1], [1, 0, 2, 3, 5, 4]])
def test_answers_are_in_the_order_of_the_data(tmp_path: Path, order: list[int]) -> None:
    found = aligned(tmp_path / "a.jsonl", [{"id": IDS[at], "answer": f"answer {at}"} for at in order])
    assert found.places == range(6) and not found.details
    assert found.texts("extracted") == found.texts("raw") == [f"answer {at}" for at in range(6)]


def test_a_limited_run_answers_some(tmp_path: Path) -> None:
    lines = [{"id": IDS[at], "answer": f"answer {at}", "rule": "label"} for at in (4, 1, 3)]
    found = aligned(tmp_path / "a.jsonl", lines)
    assert found.places == [1, 3, 4]
    assert found.answers == ["answer 1", "answer 3", "answer 4"]
    assert [found.details[place].id for place in range(3)] == ["id-1", "id-3", "id-4"]


def test_a_line_with_more_than_an_answer_is_kept(tmp_path: Path) -> None:
    lines = [{"id": id_, "answer": "yes"} for id_ in IDS]
    lines[1] |= {"raw": "Yes!", "rule": "marker+label"}
    lines[3] |= {"finish": "length"}
    lines[4] |= {"context_kept": [0, 7]}
    lines[5] |= {"answer": ""}
    found = aligned(tmp_path / "a.jsonl", lines)
    assert found.texts("extracted") == ["yes"] * 5 + [""]
    assert found.texts("raw") == ["yes", "Yes!", "yes", "yes", "yes", ""]
    assert sorted(found.details) == [1, 3, 4]
    assert found.details[1].rule == "marker+label" and found.details[1].answer == "yes"
    assert found.details[3].finish == "length" and found.details[4].context_kept == (0, 7)
