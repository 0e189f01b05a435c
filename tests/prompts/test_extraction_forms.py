"""Structured answers are recognized, and other texts are not mistaken for them."""

from __future__ import annotations

import pytest

from decabench.prompts.extraction import extract
from decabench.prompts.labels import options
from decabench.prompts.messages import make_prompting
from decabench.prompts.prose import find_label
from decabench.prompts.templates import load_template
from decabench.tasks import TASKS

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
        ("**Positive.**", "positive"),
        ("The positive", "positive"),
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
    "raw",
    [
        "[]",
        "N/A",
        '{"persons": []}',
        "No persons are mentioned.",
        "The sentence does not mention any persons.",
    ],
)
def test_sentences_that_say_there_are_no_entities(raw: str) -> None:
    form = make_prompting(TASKS["conll2003.entities"], load_template("default")).form
    assert extract(raw, form, "Which entities are persons?", context="AP said .").answer == "None"


@pytest.mark.parametrize(
    ("raw", "answer"),
    [
        ("No Doubt", "No Doubt"),
        ("No Angels", "No Angels"),
        ("AP and Reuters", "AP and Reuters"),
    ],
)
def test_entities_that_are_named(raw: str, answer: str) -> None:
    form = make_prompting(TASKS["conll2003.entities"], load_template("default")).form
    assert extract(raw, form, "Which entities are persons?", context="AP said .").answer == answer


LETTERS = ("A", "B", "C", "D")


@pytest.mark.parametrize(
    ("text", "labels", "label"),
    [
        # OpenCompass and lm-eval took the first letter
        ("A dog", LETTERS, None),
        ("A 4-year-old child", LETTERS, None),
        ("A", LETTERS, "A"),
        ("A, because a dog is one", LETTERS, "A"),
        ("A and C", LETTERS, None),
        # the options again, before the answer
        ("A. Paris\nB. Rome\nC. Bonn\n\nThe best is C", LETTERS, None),
        ("A. Paris\nB. Rome\nC. Bonn\n\nThe best is C, therefore C.", LETTERS, None),
        ("A. Paris\nIt lies on the Seine.", LETTERS, "A"),
        # numbers
        ("-1", ("0", "1"), None),
        ("\u22121", ("0", "1"), None),
        ("-1", ("-1", "0", "1"), "-1"),
        ("- 1", ("0", "1"), "1"),
        ("3.5", ("3", "4"), None),
        ("3,000", ("3", "4"), None),
        ("3/4", ("3", "4"), None),
        ("3.0", ("3", "4"), "3"),
        ("3. It is fair.", ("3", "4"), "3"),
    ],
)
def test_labels_that_are_letters_or_numbers(text: str, labels: tuple[str, ...], label: str | None) -> None:
    assert find_label(text, labels) == label
