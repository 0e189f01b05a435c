"""From outcomes to lines."""

from decabench.predictors.protocol import Answer, Failure
from decabench.runs.write import prediction, predictions
from decabench.tasks.example import Question
from decabench.tasks.registry import TASKS
from decabench.tasks.wording import AnswerForm

QUESTION = Question("1", "Is this review negative or positive?", "Fine.")


def test_a_text_as_it_is():
    assert prediction(QUESTION, Answer(" Positive.\n"), None, None) == {"id": "1", "answer": " Positive.\n"}


def test_what_is_known_of_it_is_said():
    answer = Answer("x", "length", (0, 3), 5, 6)
    assert prediction(QUESTION, answer, None, None) == {
        "id": "1",
        "answer": "x",
        "finish": "length",
        "context_kept": [0, 3],
    }


def test_an_extracted_answer_keeps_its_text():
    form = AnswerForm(kind="label", labels=("negative", "positive"))
    line = prediction(QUESTION, Answer("<think>Hm.</think>\nIt is Positive!"), form, None)
    assert (line["answer"], line["raw"]) == ("positive", "<think>Hm.</think>\nIt is Positive!")
    assert "label" in line["rule"] and "reasoning" in line["rule"]


def test_a_text_that_is_its_own_answer_is_not_written_twice():
    form = AnswerForm(kind="label", labels=("negative", "positive"))
    assert prediction(QUESTION, Answer("positive"), form, None).keys() == {"id", "answer", "rule"}


def test_a_variants_label_becomes_the_datasets():
    (variant,) = (variant for variant in TASKS["sst"].variants if "happy" in variant.labels)
    line = prediction(QUESTION, Answer("Happy"), None, variant.relabel)
    assert line == {"id": "1", "answer": "positive", "raw": "Happy", "rule": "relabelled"}


def test_lines_stand_in_the_order_of_the_questions_and_failures_have_none():
    questions = [Question(id_, "q", "c") for id_ in "abc"]
    outcomes = {"c": Answer("3"), "b": Failure("no"), "a": Answer("1"), "other": Answer("4")}
    assert list(predictions(questions, outcomes, None, None)) == [
        {"id": "a", "answer": "1"},
        {"id": "c", "answer": "3"},
    ]
