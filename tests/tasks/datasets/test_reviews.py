"""What datasets of reviews share is what the decathlon asks of sst."""

from __future__ import annotations

import pytest

from decabench.prompts import extract
from decabench.tasks.datasets.sst import SST_FINE


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("very negative", "very negative"),
        ("Very Positive.", "very positive"),
        ("The review is positive.", "positive"),
        ("Answer: negative\n\nReview: next", "negative"),
        ("neutral", "neutral"),
    ],
)
def test_labels_that_are_parts_of_others_are_told_apart(text: str, label: str) -> None:
    form = SST_FINE.answer_form
    question = "Is this review very negative, negative, neutral, positive, or very positive?"
    assert extract(text, form, question).answer == label
