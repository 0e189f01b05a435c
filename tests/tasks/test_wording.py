from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from decabench.prompts import extract, settle_form
from decabench.tasks import TASKS
from decabench.tasks.example import Example
from decabench.tasks.preparation import sample_sources
from decabench.tasks.task import Task
from decabench.tasks.wording import matched, wrapped

SHORT_CASES = [
    ("sst", 1, "Is this review negative or positive?", "Is this review positive or negative?"),
    ("sst", 2, "Is this review negative or positive?", "Is this review happy or angry?"),
    ("sst", 5, "Is this review negative or positive?", "Is this review angry or happy?"),
    (
        "multinli.in.out",
        1,
        'Hypothesis: "He said "no" -- twice" -- entailment, neutral, or contradiction?',
        'Hypothesis: "He said "no" -- twice" -- contradiction, neutral, or entailment?',
    ),
    (
        "multinli.in.out",
        5,
        'Hypothesis: "It is neutral, or contradiction?" -- entailment, neutral, or contradiction?',
        'Hypothesis: "It is neutral, or contradiction?" -- yes, maybe, or no?',
    ),
    ("schema", 1, "Who is hurt? Bob or Charlie?", "Who is hurt? Charlie or Bob?"),
    ("schema", 1, "Who was victorious Yakutsk or Kamchatka?", "Who was victorious Kamchatka or Yakutsk?"),
    ("squad", 2, "What is {question}?", "According to the text: What is {question}?"),
    ("zre", 1, "Which river?", "Answer with words of the context, or with unanswerable: Which river?"),
]


@pytest.mark.parametrize(("task", "number", "question", "asked"), SHORT_CASES)
def test_rewrites(task: str, number: int, question: str, asked: str) -> None:
    assert TASKS[task].variants[number - 1].rewrite(question) == asked


QUESTIONS = {
    "multinli.in.out": 'Hypothesis: "neutral or not?" -- entailment, neutral, or contradiction?',
    "snli": 'Hypothesis: "entailment, neutral" -- entailment, neutral, or contradiction?',
    "sick.entailment": "entailment, neutral, or contradiction?",
    "schema": "Who or what is hurt? the Bob or Charlie?",
    "sst.fine": "Is this review very negative, negative, neutral, positive, or very positive?",
    "subj": "Is this sentence objective or subjective?",
}
REVIEW = "Is this review negative or positive?"


@pytest.mark.parametrize(
    ("task", "name", "question", "replies"),
    [
        (
            "sst",
            "angry-happy",
            REVIEW,
            {"Angry": "negative", "**happy**": "positive", "Answer: angry.": "negative"},
        ),
        (
            "sst",
            "unsupportive-supportive",
            REVIEW,
            {"unsupportive": "negative", "The review is supportive.": "positive"},
        ),
        (
            "sst.fine",
            "terrible-great",
            QUESTIONS["sst.fine"],
            {
                "Good.": "positive",
                "great": "very positive",
                "It is terrible": "very negative",
                "Okay": "neutral",
            },
        ),
        (
            "snli",
            "yes-maybe-no-labels",
            QUESTIONS["snli"],
            {"Yes.": "entailment", "Maybe": "neutral", "Answer: no": "contradiction"},
        ),
    ],
)
def test_answers_in_the_words_of_a_wording_are_read_as_the_labels(
    task: str, name: str, question: str, replies: dict[str, str]
) -> None:
    (variant,) = [each for each in TASKS[task].variants if each.name == name]
    form = settle_form(TASKS[task].answer_form, TASKS[task].output, variant.words)
    for reply, label in replies.items():
        assert variant.relabel(extract(reply, form, variant.rewrite(question)).answer) == label
    both = " or ".join(variant.labels)
    assert extract(both, form, variant.rewrite(question)).rule.endswith("unparseable")


def test_helpers_refuse_templates_that_lose_a_part() -> None:
    with pytest.raises(ValueError, match=r"must contain \{question\}"):
        wrapped("lost", "Answer this")
    with pytest.raises(ValueError, match=r"must contain \{question\}"):
        wrapped("more", "{question} {context}")
    with pytest.raises(ValueError, match="must use exactly the groups of the pattern: a, b"):
        matched("lost", "(?P<a>.*) or (?P<b>.*)", "{a}?")


def assert_all_are_taken(task: Task, examples: Iterable[Example]) -> None:
    """Check that rewrites don't fail, change one thing, keep questions distinct, and map every gold answer."""
    questions, answers = set(), set()
    for example in examples:
        questions.add(example.question)
        answers.update(example.answers)
    for variant in task.variants:
        asked = {variant.rewrite(question) for question in questions}
        assert len(asked) == len(questions)
        assert not asked & questions
        if variant.labels:
            assert {variant.relabel(word) for word in variant.labels} == answers
            assert set(variant.labels.values()) == answers
            assert all(word in question for word in variant.labels for question in asked)


@pytest.mark.parametrize("task", [name for name in TASKS if TASKS[name].files_folder in sample_sources()])
def test_on_the_sample(task: str, sample: Callable[[Task, str], list[Example]]) -> None:
    split = "validation" if "validation" in TASKS[task].counts else "test"
    assert_all_are_taken(TASKS[task], sample(TASKS[task], split))
