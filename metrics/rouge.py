"""ROUGE in three variants: ROUGE-1.5.5 scores averaged over examples, the averages printed by its Perl
script, and the scores of the rouge-score package.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, Literal

from .base import (
    Metric,
    MetricError,
    Reference,
    Row,
    Score,
    Scores,
    Totals,
    evaluate,
    items,
    per_example,
    percent,
)

_KINDS = ("rouge1", "rouge2", "rougeL")
_PARTS = ("precision", "recall", "f")


def _row(prediction: str, reference: Reference, separator: str) -> Row:
    """Return an example's row: a count of 1, then the precision, recall and F of each kind of ROUGE.

    Hits and units are first summed over the references (`-f A`).
    """
    from . import _rouge155 as perl  # slow to import

    values: Row = (1.0,)
    pooled: Sequence[tuple[int, ...]]
    pooled, *others = perl.count(prediction, reference.answers, separator)
    for counts in others:
        pooled = [tuple(map(sum, zip(*kinds, strict=True))) for kinds in zip(pooled, counts, strict=True)]
    for hits, left, right in pooled:
        values += perl.precision_recall_f1(hits, left, right)
    return values


def _score(totals: Totals) -> Scores:
    scores = {kind: percent(totals[f"{kind}_f"], totals["n"]) for kind in _KINDS}
    scores["rouge"] = (scores["rouge1"] + scores["rouge2"] + scores["rougeL"]) / 3
    for kind in _KINDS:
        for part in ("precision", "recall"):
            scores[f"{kind}_{part}"] = percent(totals[f"{kind}_{part}"], totals["n"])
    return scores


ROUGE = Metric(
    name="rouge",
    definition="Mean of the ROUGE-1, ROUGE-2 and summary-level ROUGE-L F-scores, averaged over examples.",
    source="Lin 2004, ROUGE-1.5.5 -m -n 2; decaNLP 2018",
    signature="rouge|scorer:1.5.5|stem:porter+wordnet2.0|sentences:period|refs:pooled|round:5|v:1",
    columns=("n", *(f"{kind}_{part}" for kind in _KINDS for part in _PARTS)),
    headline="rouge",
    statistics=per_example(partial(_row, separator=".")),
    score=_score,
    reads="text",
)

ROUGE_LINES = replace(
    ROUGE,
    name="rouge_lines",
    definition="Like rouge, but for texts with one sentence per line.",
    source="Lin 2004, ROUGE-1.5.5 -m -n 2; See et al. 2017",
    signature=ROUGE.signature.replace("rouge|", "rouge_lines|").replace("sentences:period", "sentences:line"),
    statistics=per_example(partial(_row, separator="\n")),
)


def rouge(
    predictions: Iterable[str], references: Iterable[Any], sentences: Literal[".", "\n"] = "."
) -> Score:
    """Compute ROUGE, 0-100, as the mean of ROUGE-1, ROUGE-2 and ROUGE-L (Lin 2004, ROUGE-1.5.5 -m -n 2).

    Each of them is the mean over examples of F = 2PR / (P + R), where P = hits / units of the candidate and R = hits /
    units of the reference. Hits are clipped n-grams or, for ROUGE-L, tokens on the longest common subsequence of a
    reference sentence with any candidate sentence. Hits and units are first summed over an example's references, which
    is the script's default (`-f A`).

    `sentences` is the character that ends a sentence, "." as in decaNLP 2018 or "\\n". `details` has rouge, rouge1,
    rouge2, rougeL, and the precision and recall of each kind. Raises MetricError if `sentences` is invalid, if the
    numbers of predictions and references differ, or if an example has no reference.
    """
    metric = _choose_by_sentences(sentences, ROUGE, ROUGE_LINES)
    return evaluate(metric, predictions, items(references))


def _choose_by_sentences(sentences: str, by_period: Metric, by_line: Metric) -> Metric:
    if sentences not in (".", "\n"):
        raise MetricError(
            f"'sentences' is the character that ends a sentence. It must be '.' or '\\n', not {sentences!r}."
        )
    return by_period if sentences == "." else by_line


_RESAMPLES = 1000


@lru_cache(maxsize=4)
def resampling_weights(count: int) -> tuple[float, ...]:
    """Return the weight of each example: the mean number of times the Perl script draws it per resample.

    There are 1,000 resamples. Resample k draws `count` examples with Perl's generator (drand48:
    x -> 0x5DEECE66D x + 11 mod 2^48), seeded with k, from the example numbers 1, 2, 3, ... sorted as
    strings.
    """
    drawn = [0] * count
    scale = count / (1 << 48)
    for seed in range(_RESAMPLES):
        state = (seed << 16) + 0x330E
        for _ in range(count):
            state = (state * 0x5DEECE66D + 11) & 0xFFFFFFFFFFFF
            drawn[int(state * scale)] += 1
    weights = [0.0] * count
    for times, index in zip(drawn, sorted(range(count), key=lambda index: str(index + 1)), strict=True):
        weights[index] = times / _RESAMPLES
    return tuple(weights)


def _weighted_statistics(
    metric: Metric, predictions: Sequence[str], references: Sequence[Reference]
) -> list[Row]:
    """Multiply rows, including `n`, by their weights, which add up to the number of rows."""
    rows = metric.statistics(predictions, references)
    weights = resampling_weights(len(rows))
    return [tuple(weight * value for value in row) for row, weight in zip(rows, weights, strict=True)]


ROUGE_PERL = replace(
    ROUGE,
    name="rouge_perl",
    definition="ROUGE as printed by the Perl script: the mean over its 1,000 resamples instead of over the examples.",
    source="Lin 2004, ROUGE-1.5.5.pl -c 95 -r 1000 -m -n 2",
    signature=ROUGE.signature.replace("rouge|", "rouge_perl|").replace("|v:", "|average:resamples1000|v:"),
    statistics=partial(_weighted_statistics, ROUGE),
    scope="corpus",
)

ROUGE_PERL_LINES = replace(
    ROUGE_PERL,
    name="rouge_perl_lines",
    definition="Like rouge_perl, but for texts with one sentence per line.",
    signature=ROUGE_PERL.signature.replace("perl|", "perl_lines|").replace(
        "sentences:period", "sentences:line"
    ),
    statistics=partial(_weighted_statistics, ROUGE_LINES),
)


def rouge_perl(
    predictions: Iterable[str], references: Iterable[Any], sentences: Literal[".", "\n"] = "."
) -> Score:
    """Compute ROUGE, 0-100, with the averages that `ROUGE-1.5.5.pl -c 95 -r 1000 -m -n 2` prints (Lin 2004).

    The F of each example is the same as in `rouge`, but the script averages over 1,000 bootstrap resamples with fixed
    seeds instead of over the examples. The resulting noise (standard deviation 0.011 for 1,000 examples, 0.004 for
    11,490) is always the same and depends on the order of the examples. Every digit is reproduced, but prefer `rouge`
    for comparing systems. Raises the same errors as `rouge`.
    """
    metric = _choose_by_sentences(sentences, ROUGE_PERL, ROUGE_PERL_LINES)
    return evaluate(metric, predictions, items(references))


_PACKAGE_KINDS = ("rouge1", "rouge2", "rougeLsum")
"""rouge-score's names for ROUGE-1, ROUGE-2 and ROUGE-L. Its rougeLsum is the summary-level ROUGE-L."""


def _package_statistics(predictions: Sequence[str], references: Sequence[Reference]) -> list[Row]:
    try:
        from rouge_score.rouge_scorer import RougeScorer
    except ImportError:
        raise MetricError(
            "rouge_score requires rouge-score, which is not installed. Run pip install 'decabench[rouge]', "
            "or pip install rouge-score==0.1.2."
        ) from None
    scorer = RougeScorer(list(_PACKAGE_KINDS), use_stemmer=True)
    rows = []
    for text, reference in zip(predictions, references, strict=True):
        found = scorer.score_multi(list(reference.answers), text)
        figures = (found[kind] for kind in _PACKAGE_KINDS)
        rows.append((1.0, *(float(part) for kind in figures for part in kind)))
    return rows


rouge_score = Metric(
    name="rouge_score",
    definition="Mean of the rouge1, rouge2 and rougeLsum F-scores of the rouge-score package, averaged over examples.",
    about="""ROUGE, 0-100, from the rouge-score package (0.1.2): the mean of the rouge1, rouge2 and rougeLsum F-scores.

    Words are stemmed. It differs from ROUGE-1.5.5, because it tokenizes differently and has no list of irregular forms.
    For 11,490 real summaries, it gives 39.26 / 17.23 / 36.17, while ROUGE-1.5.5 and `rouge_lines` give 39.53 / 17.28 /
    36.38. It expects one sentence per line, and uses the best of several references. `details` has rougeLsum as
    `rougeL`.

    Raises MetricError if the package is not installed, if the numbers of predictions and references differ, or if an
    example has no reference.
    """,
    source="google-research/rouge, PyPI rouge-score 0.1.2",
    signature="rouge_score|stem:nltk-porter|sentences:line|refs:max|v:1",
    columns=ROUGE.columns,
    headline="rouge",
    statistics=_package_statistics,
    score=_score,
    packages=("rouge-score",),
    reads="text",
)
