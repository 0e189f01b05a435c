"""From outcomes to lines."""

import pytest

from decabench.predictors.protocol import Answer
from decabench.runs.write import make_line
from decabench.tasks.example import Question
from decabench.tasks.registry import TASKS
from decabench.tasks.wording import AnswerForm

QUESTION = Question("1", "Is this review negative or positive?", "Fine.")


def test_a_text_as_it_is():
    assert make_line(QUESTION, Answer(" Positive.\n")) == {"id": "1", "answer": " Positive.\n"}


def test_what_is_known_of_it_is_said():
    answer = Answer("x", "length", (0, 3), 5, 6)
    assert make_line(QUESTION, answer) == {
        "id": "1",
        "answer": "x",
        "finish": "length",
        "context_kept": [0, 3],
    }


@pytest.mark.parametrize("form", [None, AnswerForm(kind="label", labels=("negative", "positive"))])
@pytest.mark.parametrize("text", ["", "positive", "I can't help."])
def test_a_refused_answer_is_never_right(form, text):
    """A filter stops an answer anywhere, also behind a word that would have been right."""
    line = make_line(QUESTION, Answer(text, "refused"), form)
    raw = {"raw": text} if text else {}
    assert line == {"id": "1", "answer": "", **raw, "rule": "refused", "finish": "refused"}


def test_an_extracted_answer_keeps_its_text():
    form = AnswerForm(kind="label", labels=("negative", "positive"))
    line = make_line(QUESTION, Answer("<think>Hm.</think>\nIt is Positive!"), form)
    assert (line["answer"], line["raw"]) == ("positive", "<think>Hm.</think>\nIt is Positive!")
    assert "label" in line["rule"] and "reasoning" in line["rule"]


def test_a_variants_label_becomes_the_datasets():
    (variant,) = (variant for variant in TASKS["sst"].variants if variant.name == "angry-happy")
    line = make_line(QUESTION, Answer("Happy"), None, variant)
    assert line == {"id": "1", "answer": "positive", "raw": "Happy", "rule": "relabelled"}


def test_tags_are_aligned_with_the_words():
    question = Question("1", "What are the part-of-speech tags?", "Fine , 2 of them")
    line = make_line(
        question,
        Answer("1 Fine ADJ\n2 , PUNCT\n4 of ADP\n5 them OTHER"),
        AnswerForm("tags", ("ADJ", "ADP", "PUNCT")),
    )
    assert (line["answer"], line["rule"]) == ("ADJ PUNCT _ ADP OTHER", "tags")


@pytest.mark.parametrize(("finish", "rule"), [("stop", "reasoning-only"), ("length", "cut-in-reasoning")])
def test_reasoning_that_arrives_apart_is_no_answer_either(finish, rule):
    line = make_line(
        QUESTION, Answer("", finish, reasoning="It is positive."), AnswerForm("label", ("positive",))
    )
    assert (line["answer"], line["rule"]) == ("", f"reasoning+{rule}+unparseable")
    alone = make_line(
        QUESTION, Answer("positive", finish, reasoning="It is."), AnswerForm("label", ("positive",))
    )
    assert (alone["answer"], alone["rule"]) == ("positive", "as-is")
