"""The corpus averages that ROUGE-1.5.5.pl prints, which are means over its own bootstrap resamples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, Literal

from .base import Metric, Reference, Row, Score, evaluate, items
from .rouge import ROUGE, ROUGE_LINES, check_sentences

__all__ = ["ROUGE_PERL", "ROUGE_PERL_LINES", "rouge_perl"]

RESAMPLES = 1000


@lru_cache(maxsize=4)
def resampling_weights(count: int) -> tuple[float, ...]:
    """How often an example is drawn in a resample, on average over the 1,000: near 1, and fixed.

    Resample k draws `count` examples with Perl's generator (drand48: x -> 0x5DEECE66D x + 11 mod 2^48) seeded
    with k, from the list of example numbers 1, 2, 3, ... sorted as strings.
    """
    drawn = [0] * count
    scale = count / (1 << 48)
    for seed in range(RESAMPLES):
        state = (seed << 16) + 0x330E
        for _ in range(count):
            state = (state * 0x5DEECE66D + 11) & 0xFFFFFFFFFFFF
            drawn[int(state * scale)] += 1
    weights = [0.0] * count
    for times, index in zip(drawn, sorted(range(count), key=lambda index: str(index + 1)), strict=True):
        weights[index] = times / RESAMPLES
    return tuple(weights)


def statistics(metric: Metric, predictions: Sequence[str], references: Sequence[Reference]) -> list[Row]:
    rows = metric.statistics(predictions, references)
    weights = resampling_weights(len(rows))
    return [
        (1.0, *(weight * value for value in values))
        for (_, *values), weight in zip(rows, weights, strict=True)
    ]


ROUGE_PERL = replace(
    ROUGE,
    name="rouge_perl",
    definition="ROUGE as the Perl script prints it: the mean of its 1,000 resamples, not of the examples.",
    source="Lin 2004, ROUGE-1.5.5.pl -c 95 -r 1000 -m -n 2",
    signature=ROUGE.signature.replace("rouge|", "rouge_perl|").replace("|v:", "|average:resamples1000|v:"),
    statistics=partial(statistics, ROUGE),
    scope="corpus",
)

ROUGE_PERL_LINES = replace(
    ROUGE_PERL,
    name="rouge_perl_lines",
    definition="The same for texts that have one sentence a line.",
    signature=ROUGE_PERL.signature.replace("perl|", "perl_lines|").replace(
        "sentences:period", "sentences:line"
    ),
    statistics=partial(statistics, ROUGE_LINES),
)


def rouge_perl(
    predictions: Sequence[str], references: Sequence[Any], sentences: Literal[".", "\n"] = "."
) -> Score:
    """ROUGE, 0-100, with the corpus averages that `ROUGE-1.5.5.pl -c 95 -r 1000 -m -n 2` prints.

    Example by example it is `rouge`. The script prints no plain mean: it averages over 1,000 resamples, which
    it seeds, so that its noise (about 0.01 on 1,000 examples, 0.004 on 11,490) is the same every time, and
    depends on the order of the examples. This has its every digit; to compare systems, `rouge` is better.
    Raises MetricError as `rouge` does.
    """
    check_sentences(sentences)
    return evaluate(ROUGE_PERL if sentences == "." else ROUGE_PERL_LINES, predictions, items(references))
