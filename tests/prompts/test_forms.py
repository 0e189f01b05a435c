"""Numbers, lists and states in a form that scores as wrong, compared with what the metrics themselves read."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from decabench.metrics import METRICS, Item, evaluate
from decabench.prompts import GivenAnswers
from decabench.prompts.forms import describe_forms
from decabench.tasks import Number, Output, Tags, Text, Tree

SCALE = Number(1, 5)
TAGS = ("DET", "NOUN", "VERB")


def described(output: Output, metric: str, texts: list[str], golds: list[str] | None = None) -> str:
    references = golds and [Item((gold,)) for gold in golds]
    places = [f"line {number}" for number in range(1, len(texts) + 1)]
    given = GivenAnswers(output, METRICS[metric], places, texts, references or None)
    return ". ".join(sentence for _, sentence in describe_forms(given))


@pytest.mark.parametrize("metric", ["relatedness", "pearson", "mse", "em"])
@pytest.mark.parametrize(
    "text", ["3", "3.0", "3,0", "3 points", " 3 ", "3.", "3e0", "٣", "3 out of 5", "three"]
)
def test_a_number_is_reported_only_if_it_scores_worse(metric: str, text: str) -> None:
    """What is counted is what the metric itself scores as another answer than the number."""
    references = [Item((answer,)) for answer in ("3", "1", "5", "2")]
    right = evaluate(METRICS[metric], ["3", "1", "5", "2"], references).details
    given = evaluate(METRICS[metric], [text, "1", "5", "2"], references).details
    if described(SCALE, metric, [text], ["3"]):
        assert given != right


def test_the_sentence_about_numbers() -> None:
    assert described(SCALE, "relatedness", ["3.5", "4"]) == ""
    assert described(SCALE, "relatedness", ["3,5", "4.0", "2 points", "?"]) == (
        "2 of 4 answers are numbers in a form that scores as wrong. For example, line 1 has '3,5' instead of '3.5'. "
        "Write only the number. 1 of 4 answers can't be read as a number. For example, line 4 has '?'. "
        "Write only the number"
    )


@pytest.mark.parametrize(
    ("text", "is_other"),
    [
        ("DET NOUN VERB", False),
        ("DET, NOUN, VERB", True),
        ('["DET", "NOUN", "VERB"]', True),
        ("DET\nNOUN\nVERB", False),  # any space separates
        ("1. DET\n2. NOUN\n3. VERB", True),
        ("DET NOUN VERB XYZ VERB", False),  # a wrong tag, not another form
    ],
)
def test_lists_in_other_forms(text: str, is_other: bool) -> None:
    said = described(Tags("plain", TAGS), "tag_accuracy", [text])
    assert ("instead of 'DET NOUN VERB'. Write only the tags" in said) is is_other and bool(said) is is_other
    if is_other:
        assert float(evaluate(METRICS["tag_accuracy"], [text], [Item(("DET NOUN VERB",))])) < 100


@pytest.mark.parametrize("text", ["DT NN", "no tags here", "the_DET cat_NN sat_NN"])
def test_tags_of_another_tag_set(text: str) -> None:
    said = described(Tags(names=TAGS), "tag_accuracy", [text] * 3)
    assert said.startswith("3 of 3 answers can't be read as a list of the task's tags (DET, NOUN, VERB)")


def test_trees() -> None:
    assert described(Tree(), "parsing", ["2:nsubj 0:root 2:obj"]) == ""
    said = described(Tree(), "parsing", ["nsubj root of nothing"])
    assert said.startswith("1 of 1 answers can't be read as a list of heads and relations")


@pytest.mark.parametrize("metric", ["joint_goal_em", "dialogue_f1"])
def test_states(metric: str) -> None:
    texts = ["None", "food: thai;", "time: 3:30, food: thai;", "no change", "", "; phone", "food: thai"]
    said = described(Text(), metric, texts)
    assert said.startswith(
        "1 of 7 answers is a state in a form that scores as wrong. For example, line 7 has 'food: thai' instead of "
        "'food: thai;'"
    )
    assert (
        "2 of 7 answers can't be read as a state. For example, line 3 has 'time: 3:30, food: thai;'" in said
    )


@pytest.mark.parametrize(
    ("write", "is_other"),
    [
        (lambda gold: gold, False),
        (lambda gold: f"{gold.removesuffix(';')}, area: none;", True),
        (lambda gold: gold.replace("food", "cuisine"), True),
        (lambda gold: gold.replace("thai", "chinese"), False),
    ],
)
def test_slots_and_values_that_no_gold_answer_has(write: Callable[[str], str], is_other: bool) -> None:
    golds = ["food: thai, area: south;"] * 20
    said = described(Text(), "joint_goal_em", list(map(write, golds)), golds)
    assert said.startswith("20 of 20 answers can't be read as a state (area, food)") is is_other
    assert bool(said) is is_other


def test_answers_like_those_of_the_data_are_not_reported() -> None:
    golds = ["parking: yes;"] * 20
    assert described(Text(), "joint_goal_em", golds, golds) == ""
