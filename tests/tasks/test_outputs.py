"""Outputs check themselves, and say what an answer is."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from decabench.errors import DataError
from decabench.metrics import METRICS
from decabench.tasks.outputs import Label, Number, Output, Tags, Text, Tree, default_metric, describe_output

OUTPUTS = [
    (Text(), "nf1", "text"),
    (Text(extractive=True), "nf1", "a span of the context"),
    (Label(), "accuracy", "one of the labels that the question names"),
    (Label(("a", "b")), "accuracy", "one of a, b"),
    (Tags(), "tag_accuracy", "a tag for each token of the context"),
    (Tags("IOB2", ("B-X", "O")), "sequence_f1", "a tag (IOB2) for each token of the context: B-X, O"),
    (Tree(), "parsing", "a head and a relation for each token of the context"),
    (Number(0, 5.5), "mse", "a number from 0 to 5.5"),
]


@pytest.mark.parametrize(("output", "metric", "phrase"), OUTPUTS)
def test_what_follows_from_an_output(output: Output, metric: str, phrase: str) -> None:
    assert default_metric(output) == metric
    assert metric in METRICS
    assert describe_output(output) == phrase
    assert output.max_tokens > 0


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Text(max_tokens=0), "max_tokens is 0: give 1 or more"),
        (lambda: Label(("a", "b", "a")), "Each label may be named only once; a is named more than once"),
        (lambda: Label(("a", " ")), "Each label must be a non-empty string; given 'a', ' '"),
        (lambda: Label(max_tokens=-1), "max_tokens is -1"),
        (lambda: Tags("BIO"), "There is no tagging scheme 'BIO': use one of plain, IOB1, IOB2, IOBES"),  # type: ignore[arg-type]
        (lambda: Tags(names=("a", "a")), "Each tag may be named only once"),
        (lambda: Tags(names=("B PER",)), "A tag cannot hold a space, as 'B PER' does"),
        (lambda: Tree(("a", "a")), "Each relation may be named only once"),
        (lambda: Number(5, 5), "A scale must go from a lower to a higher number, not from 5 to 5"),
        (lambda: Number(0, float("inf")), "not from 0 to inf"),
        (lambda: Number(0, 1, max_tokens=0), "max_tokens is 0"),
    ],
)
def test_an_output_checks_itself(make: Callable[[], Output], sentence: str) -> None:
    with pytest.raises(DataError) as caught:
        make()
    assert sentence in str(caught.value)
