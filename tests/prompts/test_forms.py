"""Numbers and lists in a form that scores as wrong, held against what the metrics themselves read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from decabench.metrics import METRICS, Item, Reference, Row, evaluate
from decabench.prompts import takes_for
from decabench.prompts.forms import find_number_form, forms_of
from decabench.tasks import Number, Tags, Text, Tree

SCALE = Number(1, 5)
TAGS = ("DET", "NOUN", "VERB")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("three", ("3", "a word")),
        ("Three.", ("3", "a word")),
        ("It is three", ("3", "a word in a sentence")),
        ("3,5", ("3.5", "a decimal comma")),
        ("3 out of 5", ("3", "text around the number")),
        ("Score: 4.2", ("4.2", "text around the number")),
        ("3.", ("3", "another spelling")),
        ("", None),
        ("no idea", None),
        ("one or two", None),
        ("3 or 4", None),
    ],
)
def test_numbers_in_other_forms(text: str, found: tuple[str, str] | None) -> None:
    assert find_number_form(text) == found


@pytest.mark.parametrize("metric", ["relatedness", "pearson", "mse", "em"])
@pytest.mark.parametrize("text", ["3", "3.0", "three", "3,0", "3 points", " 3 ", "3.", "3e0", "٣"])
def test_a_number_is_reported_only_if_it_scores_worse(metric: str, text: str) -> None:
    """What is counted is what the metric itself scores as another answer than the number."""
    gold = ["3", "1", "5", "2"]
    references = [Item((answer,)) for answer in gold]
    forms = forms_of(SCALE, METRICS[metric])
    assert forms is not None
    forms.add("line 1", text, "3")
    right = evaluate(METRICS[metric], ["3", "1", "5", "2"], references).details
    given = evaluate(METRICS[metric], [text, "1", "5", "2"], references).details
    if forms.forms:
        assert given != right
    elif find_number_form(text) is not None:
        assert given == right


HUGE = "9" * 400


@pytest.mark.parametrize("metric", ["relatedness", "pearson", "spearman", "mse", "em", "parsing", "lfem"])
@pytest.mark.parametrize(
    "text",
    [HUGE, f"-{HUGE}", f"{HUGE} points", f"3,{HUGE}", "1," + "000," * 200 + "000", "inf", "nan", "1e400"],
)
def test_an_answer_is_no_gold_answer(metric: str, text: str) -> None:
    """A number that the metric cannot read stopped the report of a whole submission, and the gold was blamed for it."""
    forms = forms_of(SCALE, METRICS[metric])
    assert forms is not None
    for gold in ("", "3"):
        forms.add("line 1", text, gold)
    assert forms.answers == 2 and len(forms.describe_forms()) < 400


def test_a_metric_that_needs_more_than_the_answer_says_nothing_of_forms() -> None:
    def rows(predictions: Sequence[str], references: Sequence[Reference]) -> list[Row]:
        return [(float(reference.meta["weight"]),) for reference in references]

    weighed = replace(METRICS["mse"], name="weighed", statistics=rows)
    forms = forms_of(SCALE, weighed)
    assert forms is not None
    forms.add("line 1", "three")
    assert forms.describe_forms() == ""
    assert takes_for(weighed)("Positive.", "positive")


def test_the_sentence_about_numbers() -> None:
    forms = forms_of(SCALE, METRICS["relatedness"])
    assert forms is not None and forms.describe_forms() == ""
    for number, text in enumerate(["three", "four", "3,5", "4.0", "2 out of 5", "?"], 1):
        forms.add(f"line {number}", text)
    said = forms.describe_forms()
    assert said.startswith("4 of 6 answers are numbers in another form, which counts as wrong: a word (2), ")
    assert "line 1 has 'three' for '3': write the number alone" in said


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("DET NOUN VERB", ""),
        ("DET, NOUN, VERB", "commas"),
        ('["DET", "NOUN", "VERB"]', "JSON"),
        ("DET\nNOUN\nVERB", ""),  # any space separates
        ("1. DET\n2. NOUN\n3. VERB", "one a line"),
        ("DET XYZ VERB", ""),  # a wrong tag, not another form
        ("no tags here", ""),
        ("", ""),
    ],
)
def test_lists_in_other_forms(text: str, form: str) -> None:
    forms = forms_of(Tags("plain", TAGS), METRICS["tag_accuracy"])
    assert forms is not None
    forms.add("line 1", text)
    assert list(forms.forms) == ([form] if form else [])
    if form:
        assert "for 'DET NOUN VERB': write the items alone" in forms.describe_forms()
        references = [Item(("DET NOUN VERB",))]
        assert float(evaluate(METRICS["tag_accuracy"], [text], references)) < 100


def test_heads_with_commas() -> None:
    forms = forms_of(Tree(("det", "root")), METRICS["parsing"])
    assert forms is not None
    forms.add("line 1", "2:det, 0:root")
    assert forms.forms == {"commas": 1}


def test_free_text_has_no_form() -> None:
    assert forms_of(Text(), METRICS["nf1"]) is None
