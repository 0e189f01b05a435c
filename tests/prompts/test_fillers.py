"""Placeholders for missing answers are reported, unless they are valid answers for the task."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from decabench.metrics import METRICS, Item
from decabench.prompts import GivenAnswers, describe_format
from decabench.tasks import TASKS, AnswerForm, Label, Text

GOLDS = ["Paris", "Rome", "in 1945", "the Nile", "Ada Lovelace", "green", "two", "a bridge", "Bonn", "iron"]
ELSEWHERE = "are placeholders for missing values. Answer these examples again"
NO_ANSWER = "say that there is no answer in words that the metric doesn't recognize. Write unanswerable"


def describe(texts: list[str], golds: list[str] | None, metric: str = "nf1", **fields: Any) -> str:
    references = golds and [Item((gold,), id=str(at)) for at, gold in enumerate(golds)]
    places = [f"line {at + 1}" for at in range(len(texts))]
    return describe_format(
        replace(GivenAnswers(Text(), METRICS[metric], places, texts, references or None), **fields)
    )


@pytest.mark.parametrize(
    "word",
    [
        *("nan", "NaN", "-nan", "None", "none.", "null", "NULL", "(null)", "<NA>", "NA", "N/A", "#N/A", "n/a", "NaT"),
        *("undefined", "nil", "'nan'", " nan ", r"\N", "[object Object]", "#VALUE!", "#DIV/0!"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("known", [True, False])
def test_words_for_a_missing_value_are_named_with_their_count(word: str, known: bool) -> None:
    texts = [word if at in (3, 7) else gold for at, gold in enumerate(GOLDS)]
    said = describe(texts, GOLDS if known else None)
    assert said.startswith("2 of 10 answers (") and ELSEWHERE in said and "line 4" in said


@pytest.mark.parametrize(
    "text",
    [
        "Error: Request timed out.",
        "openai.RateLimitError: Error code: 429",
        "API error (500)",
        "Traceback (most recent call last):\n  File 1",
        "I'm sorry, but I can't help with that.",
    ],
)
def test_error_messages_and_refusals_are_named(text: str) -> None:
    texts = [text if at in (3, 7) else gold for at, gold in enumerate(GOLDS)]
    assert "are error messages or refusals instead of answers" in describe(texts, GOLDS)
    assert describe(texts, texts) == ""  # all of them are right
    assert describe(["trial and error", "a TypeError", *GOLDS[2:]], GOLDS) == ""


@pytest.mark.parametrize("word", ["[]", "{}", "--", '""'])
def test_empty_lists_are_no_answers(word: str) -> None:
    assert ELSEWHERE in describe([word, word, *GOLDS[2:]], GOLDS)
    assert describe([word, word, *GOLDS[2:]], [word, *GOLDS[1:]]) == ""


def test_several_words_and_their_number() -> None:
    texts = ["nan", "nan", "null", *GOLDS[3:]]
    assert describe(texts, GOLDS).startswith(
        "3 of 10 answers ('nan' (2), 'null' (1)) are placeholders for missing values"
    )
    assert describe(["nan", *GOLDS[1:]], GOLDS) == ""  # one may be an answer
    assert describe(["nan"] * 2 + GOLDS * 30, ["x"] * 2 + GOLDS * 30) == ""  # as may few of many
    assert "10 of 10 answers ('nan') are" in describe(["nan"] * 10, GOLDS)


@pytest.mark.parametrize(
    ("texts", "golds", "fields"),
    [
        (["None", "none"], ["None", "Paris"], {}),  # the gold answer of other examples
        (["nan", "nan"], ["Nan Goldin", "Nan"], {}),
        (["none", "none"], None, {"output": Label(("none", "some"))}),
        (["None", "None"], None, {"metric": "joint_goal_em", "read_form": lambda: AnswerForm("state")}),
        (["None", "None"], None, {"read_form": lambda: TASKS["woz.en"].answer_form}),
        (["None", "None"], None, {"read_form": lambda: AnswerForm("span", ("None",))}),
        (["Nantes", "Nanking"], ["x", "y"], {}),
        (["no answer", "unknown"], ["x", "y"], {}),  # answers, where every question has one
        (["unanswerable", "Unanswerable."], ["x", "y"], {"metric": "squad2"}),
        (["-", ""], ["x", "y"], {"metric": "squad2"}),
        (["unanswerable", "unanswerable"], None, {"metric": "corpus_f1"}),
        (["No answer", "No answer"], ["No Answer", "y"], {"metric": "squad2"}),
        (["No country", "Nonesuch"], ["x", "y"], {"metric": "squad2"}),
        (["The name is not given up lightly", "No man's land"], ["x", "y"], {"metric": "squad2"}),
    ],
)
def test_words_of_the_task_are_answers(
    texts: list[str], golds: list[str] | None, fields: dict[str, Any]
) -> None:
    assert describe(texts, golds, **fields) == ""


@pytest.mark.parametrize("metric", ["squad2", "corpus_f1"])
@pytest.mark.parametrize(
    "text",
    [
        *("N/A", "n/a", "none", "None", "nan", "null", "no answer", "No answer.", "<no answer>", "no_answer"),
        *("NoAnswer", "CANNOTANSWER", "unknown", "not answerable", "The question is unanswerable.", "I don't know"),
        *("not found", "The passage does not mention it.", "Cannot be answered"),
        *("not in the passage", "No answer found", "It is unanswerable", "impossible to answer"),
        "Unanswerable question",
    ],
)  # fmt: skip
def test_other_words_for_unanswerable_are_named(text: str, metric: str) -> None:
    golds = ["unanswerable", *GOLDS]
    texts = [text, text, *GOLDS[1:]]
    said = describe(texts, golds, metric)
    assert said.startswith(f"2 of 11 answers ({text!r}) {NO_ANSWER}")
    # Only the task's own word is right where there is no answer.
    scored = [
        METRICS[metric].statistics([each, "x"], [Item(("unanswerable",)), Item(("x",))])
        for each in (text, "")
    ]
    assert metric == "corpus_f1" or scored[0] != scored[1]


@pytest.mark.parametrize(
    ("texts", "golds", "count"),
    [
        (["Par\ufffd", *GOLDS[1:]], GOLDS, 1),
        (["\ufffd\ufffdtre", "Rom\ufffd", *GOLDS[2:]], GOLDS, 2),
        (["\ufffd", *GOLDS[1:]], None, 1),
        (["Par\ufffd", *GOLDS[1:]], ["Par\ufffd", *GOLDS[1:]], 0),  # the data have it
    ],
)
def test_replacement_characters_are_named(texts: list[str], golds: list[str] | None, count: int) -> None:
    said = describe(texts, golds)
    assert (
        re.match(rf"{count} of 10 answers \w+ the replacement character U\+FFFD", said) if count else not said
    )
