"""Variants: every rewrite takes every question, changes one thing of it, and its labels lead back to the dataset's."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterable, Sequence

import pytest

from decabench.prompts import extract, possible_labels, settle_form
from decabench.tasks import DECATHLON, TASKS
from decabench.tasks.example import SPLITS, Example
from decabench.tasks.outputs import Label, Number
from decabench.tasks.preparation import sample_sources
from decabench.tasks.task import Task
from decabench.tasks.wording import Variant, fixed, matched, wrapped
from tests.tasks.conftest import Prepared

SHORT_CASES = [
    ("sst", 1, "Is this review negative or positive?", "Is this review positive or negative?"),
    ("sst", 2, "Is this review negative or positive?", "Is this review happy or angry?"),
    ("sst", 3, "Is this review negative or positive?", "Is this review supportive or unsupportive?"),
    ("sst", 5, "Is this review negative or positive?", "Is this review angry or happy?"),
    ("sst", 6, "Is this review negative or positive?", "Is this review unsupportive or supportive?"),
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
        with pytest.raises(ValueError, match="does not match"):
            variant.rewrite("  ")


def parts(question: str, labels: Sequence[str]) -> tuple[tuple[str, ...], list[str]]:
    """Take a question apart: what is around its list of all labels and between them, and the labels, in its order."""
    either = "|".join(map(re.escape, sorted(labels, key=len, reverse=True)))
    separator = ", or |, | or "
    more = f"(?:(?:{separator})(?:{either})){{{len(labels) - 1}}}"
    found = re.fullmatch(rf"(.*?)((?:{either}){more})([^?]*\?)", question, re.DOTALL)
    assert found, f"{question!r} has no list of {labels}"
    before, listed, after = found.groups()
    return (before, *re.findall(separator, listed), after), re.split(separator, listed)


def changes(task: Task, variant: Variant, question: str) -> set[str]:
    """Return what a wording changes of a question: the words of the labels, their order, the phrasing around them."""
    labels = possible_labels(task.output, question)
    asked = variant.rewrite(question)
    phrasing, before = parts(question, labels)
    new_phrasing, after = parts(asked, tuple(variant.labels) or labels)
    assert sorted(before) == sorted(labels) and len(set(after)) == len(before)
    found = {
        "words": not set(after) & set(before),
        "order": [variant.labels.get(word, word) for word in after] != before,
        "phrasing": phrasing != new_phrasing,
    }
    assert found["words"] == bool(variant.labels)
    return {name for name, is_so in found.items() if is_so}


WITH_LABELS = [name for name, task in TASKS.items() if isinstance(task.output, Label) and task.variants]
QUESTIONS = {
    "multinli.in.out": 'Hypothesis: "neutral or not?" -- entailment, neutral, or contradiction?',
    "snli": 'Hypothesis: "entailment, neutral" -- entailment, neutral, or contradiction?',
    "sick.entailment": "entailment, neutral, or contradiction?",
    "schema": "Who or what is hurt? the Bob or Charlie?",
    "sst.fine": "Is this review very negative, negative, neutral, positive, or very positive?",
    "subj": "Is this sentence objective or subjective?",
}
REVIEW = "Is this review negative or positive?"


@pytest.mark.parametrize("name", WITH_LABELS)
def test_a_wording_changes_one_thing_and_is_retired_if_it_changes_more(name: str) -> None:
    """As in section 4.3 of the decathlon's paper, which replaces the tokens of the labels and nothing else."""
    task, question = TASKS[name], QUESTIONS.get(name, REVIEW)
    kinds = [(variant, changes(task, variant, question)) for variant in task.variants]
    assert [variant.name for variant, kind in kinds if (len(kind) == 1) is variant.retired] == []
    alone = {next(iter(kind)) for _, kind in kinds if len(kind) == 1}
    assert alone >= {"order", "phrasing", *(["words"] if task.output.names else [])}  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", [name for name in TASKS if name not in WITH_LABELS])
def test_without_labels_the_phrasing_alone_can_change(name: str) -> None:
    for variant in TASKS[name].variants:
        assert not variant.labels and not variant.retired
        if isinstance(TASKS[name].output, Number):  # and not the scale, or its direction
            asked = variant.rewrite("How related are the sentences, from 1 to 5?")
            assert re.findall(r"\d+", asked) == ["1", "5"]


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
        (
            "sick.entailment",
            "yes-maybe-no-labels",
            QUESTIONS["sick.entailment"],
            {"yes": "entailment", "Maybe, since nothing says so.": "neutral", "No": "contradiction"},
        ),
        ("mr", "angry-happy", REVIEW, {"happy": "positive", "Sentiment: angry": "negative"}),
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
    """No rewrite raises, all change one thing, no two questions fall together, every gold answer has a word."""
    questions, answers = set(), set()
    for example in examples:
        questions.add(example.question)
        answers.update(example.answers)
    for variant in task.variants:
        asked = {variant.rewrite(question) for question in questions}
        assert len(asked) == len(questions)
        assert not asked & questions
        if isinstance(task.output, Label):
            kinds = {frozenset(changes(task, variant, question)) for question in questions}
            assert [len(kind) == 1 for kind in kinds] == [not variant.retired]
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
