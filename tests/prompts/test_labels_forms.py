"""Labels in another form: the intended label, the fault, and the metric's score."""

from __future__ import annotations

import time

import pytest

from decabench.metrics import METRICS
from decabench.prompts import GivenAnswers, describe_answers
from decabench.prompts.forms import count_forms, find_label_form
from decabench.prompts.labels import match_label
from decabench.prompts.prose import find_label
from decabench.tasks import Label

LABELS = ("positive", "negative")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("positive", ("positive", "")),
        ("Positive", ("positive", "different case or spacing")),
        (" positive", ("positive", "different case or spacing")),
        ("\u201cpositive.\u201d", ("positive", "extra punctuation or an article")),
        ("**negative**", ("negative", "extra punctuation or an article")),
        ("The review is positive.", ("positive", "a sentence around the label")),
        ("not positive", None),
        ("1", None),
        ("", None),
        ("...", None),
    ],
)
def test_which_label_is_meant(text: str, found: tuple[str, str] | None) -> None:
    assert find_label_form(text, LABELS) == found


@pytest.mark.parametrize(
    ("metric", "text", "taken"),
    [
        ("em", "Positive", True),
        ("em", "positive.", False),
        ("em", " positive", False),
        ("accuracy", " positive", True),
        ("accuracy", '"positive"', False),
        ("macro_f1", "Positive", True),
        ("macro_f1", "positive.", False),
    ],
)
def test_only_what_the_metric_counts_as_wrong_is_amiss(metric: str, text: str, taken: bool) -> None:
    forms = count_forms(GivenAnswers(Label(LABELS), METRICS[metric], ["line 1"], [text]))
    assert forms is not None and bool(forms.describe()) is not taken and not forms.strays


def test_counts_and_the_first_example() -> None:
    texts = ["positive", "Positive.", "negative.", '"negative"', "bad"]
    given = GivenAnswers(Label(LABELS), METRICS["em"], [f"line {at}" for at in range(1, 6)], texts)
    assert list(describe_answers(given)) == [
        (
            "label-form",
            "3 of 5 answers are labels in a form that scores as wrong: extra punctuation or an article (3). "
            "For example, line 2 has 'Positive.' instead of 'positive'. Write only the label",
        ),
        (
            "no-label",
            "1 of 5 answers gives none of the labels (positive, negative). For example, line 5 has 'bad'",
        ),
    ]


@pytest.mark.parametrize(
    "labels",
    [("-1", "0", "1"), ("C", "C++", "C#"), ("B", "B+", "B-")],
    ids=["signs", "C", "marks"],
)
@pytest.mark.parametrize(
    "written",
    ["{}", "{}.", "**{}**", "Answer: {}", "The answer is {}.", '"{}"', "- {}", "It is {}, because of this."],
)
def test_labels_that_differ_by_a_sign_or_marks_are_told_apart(labels: tuple[str, ...], written: str) -> None:
    """Before, a perfect model's answers were changed to the last of several similar labels."""
    for label in labels:
        assert find_label(written.format(label), labels) == label
        assert find_label(written.format(label.upper()), labels) == label


def test_labels_that_are_alike_but_for_an_article_count_letter_by_letter() -> None:
    labels = ("an A", "the A", "B")
    assert [find_label(text, labels) for text in ("an A", "the A", "A", "B.")] == ["an A", "the A", None, "B"]
    for text in ("\u22121", "It is \u22121.", "\u22121, because it is bad"):  # the minus sign of typesetters
        assert find_label(text, ("-1", "0", "1")) == "-1"
    assert match_label("\u22121", ("-1", "1")) == "-1"
    assert find_label("It is the A Team.", ("The A Team", "X")) == "The A Team"


@pytest.mark.parametrize("text", ['"' * 5000 + "x", "*" * 5000, "isn't good " * 9000, "good bad " * 9000])
def test_a_long_run_of_marks_or_labels_is_read_in_a_moment(text: str) -> None:
    """Before, 5,000 asterisks kept `check` and `evaluate` busy for minutes. Measured in CPU time."""
    start = time.process_time()
    assert find_label_form(text, ("good", "bad")) is None
    assert time.process_time() - start < 10
