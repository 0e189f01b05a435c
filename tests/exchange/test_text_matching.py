"""Texts find their example however another program wrote them, and only theirs."""

from __future__ import annotations

import html
import random
import re
from typing import Any

import pytest

from decabench.exchange.text_matching import ExampleTexts, TextMatcher
from decabench.tasks import DECATHLON, Store


def tokenized(text: str) -> str:
    """As the Penn Treebank does it."""
    text = text.replace("(", " -LRB- ").replace(")", " -RRB- ").replace("n't", " n't")
    return re.sub(r"([.,!?;:\"])", r" \1 ", text).lower()


PROMPT = "Read the text and answer the question about it.\n\nText: {}\nQuestion: {}\nAnswer:"
FORMS: dict[str, Any] = {
    "columns": lambda example: [example.question, example.context],
    "beside others": lambda example: [
        example.context,
        "validation",
        example.question,
        "https://example.org/a",
    ],
    "prompt": lambda example: [PROMPT.format(example.context, example.question)],
    "tokenized": lambda example: [tokenized(example.context), tokenized(example.question)],
    "tokenized prompt": lambda example: [PROMPT.format(tokenized(example.context), example.question)],
    "escaped": lambda example: [html.escape(example.context), html.escape(example.question)],
    "cut": lambda example: [example.context[:300], example.question],
    "shouted": lambda example: [re.sub(r"[^\w\s]", "", f"{example.context} {example.question}").upper()],
}


@pytest.fixture
def split(home):
    """The texts of a task's examples."""

    def read(task: str) -> list[ExampleTexts]:
        examples = Store(home).examples(task, "validation")
        return [ExampleTexts(example.question, example.context, example.answers) for example in examples]

    return read


def compare(matcher: TextMatcher, rows: list[list[str]], places: list[int]) -> list[int]:
    """The rows that differ from their examples."""
    words = matcher.read(dict(enumerate(rows)))
    return [each.row for each in matcher.compare(words, dict(enumerate(places))).differences]


@pytest.mark.parametrize("task", DECATHLON.tasks)
@pytest.mark.parametrize("form", FORMS)
def test_texts_are_those_of_their_example_and_of_no_other(split, task, form):
    examples = split(task)
    matcher, size = TextMatcher(examples), len(examples)
    rows = [FORMS[form](example) for example in examples]
    assert compare(matcher, rows, list(range(size))) == []
    texts = [example[:2] for example in examples]
    shuffled = random.Random(1).sample(range(size), size)
    as_text = sorted(range(size), key=str)
    two = [1, 0, *range(2, size)] if texts[0] != texts[1] else []
    for order in [[*range(1, size), 0], shuffled, as_text, two]:
        differ = [row for row, place in enumerate(order) if texts[row] != texts[place]]
        assert set(compare(matcher, rows, order)) <= set(differ)
        assert (compare(matcher, rows, order) != []) == (differ != [])
    found = matcher.find(matcher.read(dict(enumerate(rows))))
    assert all(row in places or not places for row, places in found.items())
    assert sum(len(places) == 1 for places in found.values()) > 0.7 * size or form == "cut"


@pytest.mark.parametrize("task", DECATHLON.tasks)
def test_texts_of_another_split_are_those_of_no_example(split, task):
    examples = split(task)
    half = len(examples) // 2
    matcher = TextMatcher(examples[:half])
    others = [
        example
        for example in examples[half:]
        if example.context not in {each.context for each in examples[:half]}
    ]
    rows = [[example.question, example.context] for example in others[:half]]
    assert len(compare(matcher, rows, list(range(len(rows))))) > 0.8 * len(rows)


def test_questions_tell_examples_of_one_paragraph_apart(split):
    """Prompts of SQuAD: the paragraph alone would fit a quarter of the examples in a wrong order."""
    examples = split("squad")
    rows = [[f"{example.context}\n{example.question}"] for example in examples]
    following = [
        at + 1 if at + 1 < len(examples) and examples[at].context == examples[at + 1].context else at
        for at in range(len(examples))
    ]
    differ = [row for row, place in enumerate(following) if row != place]
    assert len(differ) > 20
    assert compare(TextMatcher(examples), rows, following) == differ


def test_texts_without_spaces_or_with_accents():
    contexts = [
        "天气很好我们去公园。",
        "他昨天买了一本新书。",
        "Café brûlé à la crème",
        "Un été à Paris, déjà vu",
    ]
    matcher = TextMatcher([ExampleTexts("?", context) for context in contexts])
    rows = [
        ["天气很好 我们去公园"],
        ["他昨天买了一本 新书。"],
        ["cafe brule a la creme"],
        ["un ete a paris deja vu"],
    ]
    assert compare(matcher, rows, [0, 1, 2, 3]) == []
    assert compare(matcher, rows, [1, 0, 3, 2]) == [0, 1, 2, 3]
