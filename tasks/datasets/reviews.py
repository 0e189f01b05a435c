"""What datasets of reviews share: one question, two labels, one prompt and its other wordings."""

from __future__ import annotations

import hashlib

from decabench.tasks.outputs import Label
from decabench.tasks.wording import PromptTemplate, fixed

__all__ = ["QUESTION", "SENTIMENT", "SENTIMENT_VARIANTS", "review_prompt", "text_units"]

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
    ),
    fixed("sentiment", QUESTION, "What is the sentiment of this review, negative or positive?"),
)
"""Other wordings of the question."""


def review_prompt(what: str) -> PromptTemplate:
    """Return the prompt for reviews; `what` says what one is: `a sentence of a film review`."""
    return PromptTemplate(
        # The labels are named by the question alone, so that its variants are not contradicted.
        instruction=(
            f"You are given {what}. Answer with exactly one of the labels that the question names, and nothing else."
        ),
        input="Review: {context}\nQuestion: {question}",
        answer="Answer:",
        stop=("\n\n", "\nReview:", "\nQuestion:"),
    )


def text_units(id: str, text: str) -> tuple[str, str]:
    """Return the units of an example: a digest of its text, as a text may stand in a split twice, and its id."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16], id
