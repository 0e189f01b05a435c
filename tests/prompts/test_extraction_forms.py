"""Answers with a structure are recognised, and nothing else is taken for one."""

from __future__ import annotations

import pytest

from decabench.prompts.labels import find_label, options
from decabench.prompts.sql import find_sql
from decabench.prompts.states import find_state

NLI = 'Hypothesis: "x" -- entailment, neutral, or contradiction?'
SST = "Is this review negative or positive?"
WHO = "Who is hurt? Bob or Charlie?"


@pytest.mark.parametrize(
    ("question", "found"),
    [
        (NLI, ("entailment", "neutral", "contradiction")),
        (SST, ("negative", "positive")),
        (WHO, ("Bob", "Charlie")),
        ("You can see the garden through what? gap or wall?", ("gap", "wall")),
        ("What is the sentiment of this review, negative or positive?", ("negative", "positive")),
        ("Bob or Charlie: Who is hurt? Bob or Charlie?", ("Bob", "Charlie")),
        ("What is the summary?", ()),
        ("", ()),
    ],
)
def test_what_a_question_lets_choose_from(question: str, found: tuple[str, ...]) -> None:
    assert options(question) == found


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("positive", "positive"),
        ("**Positive.**", "positive"),
        ("The positive", "positive"),
        ("positive, it is not negative", "positive"),
        ("not positive", None),
        ("positive or negative", None),
        ("on the positive side\non the negative side", None),
        ("", None),
    ],
)
def test_a_label(text: str, label: str | None) -> None:
    assert find_label(text, ("negative", "positive")) == label
    assert find_label(text, ()) is None


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("```\nSELECT a\n# why\nFROM t;\n```", "SELECT a FROM t"),
        ('The query is "SELECT a FROM t".', "SELECT a FROM t"),
        ('"SELECT a FROM t"', "SELECT a FROM t"),
        ("**SELECT a FROM t;**", "SELECT a FROM t"),
        ("SELECT a\n\nFROM t", "SELECT a"),
        ("Choose a.", None),
    ],
)
def test_a_query(text: str, query: str | None) -> None:
    assert find_sql(text) == query


@pytest.mark.parametrize(
    ("text", "change"),
    [
        ("food: thai\nrequests: phone", "food: thai; phone"),
        ("food: thai\nThat is all.", "food: thai;"),
        ("food: thai\nThat is all.\narea: south", None),  # never half
        ("n/a", "None"),
        ("food: one two three four five six seven", None),
        ("price: cheap", None),
    ],
)
def test_a_change_of_state(text: str, change: str | None) -> None:
    assert find_state(text, ("food", "area", "phone")) == change
