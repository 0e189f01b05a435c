"""Common parts of review datasets: one question, two labels, one prompt and its other wordings."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator

from decabench.tasks.example import Example
from decabench.tasks.outputs import Label
from decabench.tasks.readers import shuffle_key
from decabench.tasks.wording import PromptTemplate, fixed, labelled_prompt

__all__ = [
    "QUESTION",
    "SENTIMENT",
    "SENTIMENT_VARIANTS",
    "in_random_order",
    "review_examples",
    "review_prompt",
    "text_units",
]

QUESTION = "Is this review negative or positive?"
"""The question about every review, as the decathlon asks it of sst."""

SENTIMENT = Label(("negative", "positive"))
"""The answers; upstream's label 0 is the first, 1 the second."""

SENTIMENT_VARIANTS = (
    fixed("order-swapped", QUESTION, "Is this review positive or negative?"),
    fixed(
        "happy-angry",
        QUESTION,
        "Is this review happy or angry?",
        {"happy": "positive", "angry": "negative"},
        retired=True,  # the order changes too
    ),
    fixed("sentiment", QUESTION, "What is the sentiment of this review, negative or positive?"),
    fixed(
        "angry-happy",
        QUESTION,
        "Is this review angry or happy?",
        {"angry": "negative", "happy": "positive"},
    ),
)
"""Other wordings of the question."""


def in_random_order(rows: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Sort (label, text) rows by a digest of the text, and of how often it came before.

    Files are often sorted by label, so that upstream's order would reveal the answers.
    """
    repeats: Counter[str] = Counter()
    keyed = []
    for label, text in rows:
        keyed.append(
            (shuffle_key("reviews", f"{text}\n{repeats[text]}" if repeats[text] else text), label, text)
        )
        repeats[text] += 1
    return [(label, text) for _, label, text in sorted(keyed)]


def review_examples(task: str, split: str, rows: Iterable[tuple[str, str]]) -> Iterator[Example]:
    """Yield an example for each (label, text), numbered in this order; its units are its text and its copy of it."""
    for index, (label, text) in enumerate(rows):
        id = f"{task}.{split}.{index}"
        yield Example(id, QUESTION, text, (label,), text_units(id, text))


def review_prompt(what: str) -> PromptTemplate:
    """Return the prompt for reviews; `what` describes a review: `a sentence of a film review`."""
    return labelled_prompt(
        "Review",
        # The labels are named by the question alone, so that its variants are not contradicted.
        instruction=(
            f"You are given {what}. Answer with exactly one of the labels that the question names, and nothing else."
        ),
        gap="\n",
    )


def text_units(id: str, text: str) -> tuple[str, str]:
    """Return the units of an example: a digest of its text, as a text may stand in a split twice, and its id."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16], id
