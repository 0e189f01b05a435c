"""Variants: every rewrite takes every question, keeps what it asks, and its labels lead back to the dataset's."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable

import pytest

from decabench.tasks import DECATHLON, TASKS
from decabench.tasks.example import SPLITS, Example
from decabench.tasks.preparation import sample_sources
from decabench.tasks.task import Task
from decabench.tasks.wording import Variant, fixed, matched, wrapped
from tests.tasks.conftest import Prepared

SHORT_CASES = [
    ("sst", 1, "Is this review negative or positive?", "Is this review positive or negative?"),
    ("sst", 2, "Is this review negative or positive?", "Is this review happy or angry?"),
    ("sst", 3, "Is this review negative or positive?", "Is this review supportive or unsupportive?"),
    (
        "multinli.in.out",
        1,
        'Hypothesis: "He said "no" -- twice" -- entailment, neutral, or contradiction?',
        'Hypothesis: "He said "no" -- twice" -- contradiction, neutral, or entailment?',
    ),
    ("schema", 1, "Who is hurt? Bob or Charlie?", "Who is hurt? Charlie or Bob?"),
    ("schema", 1, "Who or what began? a fish or scientists?", "Who or what began? scientists or a fish?"),
    (
        "schema",
        1,
        "Who was victorious Yakutsk or Kamchatka?",
        "Who was victorious Kamchatka or Yakutsk?",
    ),
    ("squad", 2, "What is {question}?", "According to the text: What is {question}?"),
    (
        "srl",
        1,
        "what has experienced something?",
        "Answer with words of the context: what has experienced something?",
    ),
    (
        "zre",
        1,
        "Which river?",
        "Answer with words of the context, or with unanswerable: Which river?",
    ),
]


@pytest.mark.parametrize(("task", "number", "question", "asked"), SHORT_CASES)
def test_rewrites(task: str, number: int, question: str, asked: str) -> None:
    assert TASKS[task].variants[number - 1].rewrite(question) == asked


@pytest.mark.parametrize("task", [name for name, task in TASKS.items() if task.variants])
def test_there_are_some_with_names_of_their_own(task: str) -> None:
    names = [variant.name for variant in TASKS[task].variants]
    assert len(names) >= (3 if task in DECATHLON.tasks else 2)
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("task", TASKS)
def test_they_can_be_sent_to_another_process(task: str) -> None:
    assert pickle.loads(pickle.dumps(TASKS[task].variants)) == TASKS[task].variants


@pytest.mark.parametrize("task", ["sst", "multinli.in.out", "iwslt.en.de", "schema", "woz.en"])
def test_another_question_is_refused(task: str) -> None:
    for variant in TASKS[task].variants:
        with pytest.raises(ValueError, match="question"):
            variant.rewrite("Something else altogether")


@pytest.mark.parametrize("task", ["squad", "srl", "zre"])
def test_an_empty_question_is_refused(task: str) -> None:
    for variant in TASKS[task].variants:
        with pytest.raises(ValueError, match="empty"):
            variant.rewrite("  ")


@pytest.mark.parametrize(
    ("answer", "label"),
    [
        ("happy", "positive"),
        (" Angry\n", "negative"),
        ("HAPPY", "positive"),
        ("positive", "positive"),
        ("happy, I think", "happy, I think"),
        ("", ""),
    ],
)
def test_relabel(answer: str, label: str) -> None:
    assert TASKS["sst"].variants[1].relabel(answer) == label


def test_without_labels_every_answer_stays() -> None:
    assert Variant("same", str.upper).relabel(" Happy ") == " Happy "


def test_labels_that_change_places_are_mapped_once() -> None:
    swapped = Variant("swapped", str.upper, {"yes": "no", "no": "yes"})
    assert [swapped.relabel(word) for word in ("yes", "no")] == ["no", "yes"]


def test_helpers_refuse_templates_that_lose_a_part() -> None:
    with pytest.raises(ValueError, match=r"must have \{question\}"):
        wrapped("lost", "Answer this")
    with pytest.raises(ValueError, match=r"must have \{question\}"):
        wrapped("more", "{question} {context}")
    with pytest.raises(ValueError, match="must use the parts a, b"):
        matched("lost", "(?P<a>.*) or (?P<b>.*)", "{a}?")


def test_braces_of_a_question_are_text() -> None:
    both = matched("both", r"(?P<a>.*) or (?P<b>.*)", "{b} or {a}")
    assert both.rewrite("{b} or {x}") == "{x} or {b}"
    assert fixed("other", "{q}", "{z}").rewrite("{q}") == "{z}"


def assert_all_are_taken(task: Task, examples: Iterable[Example]) -> None:
    """No rewrite raises, no two questions fall together, and every gold answer can be said in its words."""
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


@pytest.mark.mirror
@pytest.mark.slow
@pytest.mark.parametrize("task", DECATHLON.tasks)
def test_on_the_real_data(task: str, prepared: Prepared) -> None:
    splits = [split for split in SPLITS if split in prepared.store.records(task)]
    assert splits
    columns = ("question", "answers")
    assert_all_are_taken(
        TASKS[task],
        (
            Example("", row["question"], "", tuple(row["answers"]), ("",))
            for split in splits
            for row in prepared.store.read(task, split, columns)
        ),
    )
