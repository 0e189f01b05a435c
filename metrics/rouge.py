"""The corpus averages that ROUGE-1.5.5.pl prints, which are means over its own bootstrap resamples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, Literal

from . import _rouge155 as perl
from ._numeric import percent
from .base import Metric, MetricError, Reference, Row, Score, Scores, Totals, evaluate, items

__all__ = [
    "ROUGE",
    "ROUGE_LINES",
    "ROUGE_PERL",
    "ROUGE_PERL_LINES",
    "ROUGE_SCORE",
    "rouge",
    "rouge_perl",
    "rouge_score",
]

# ---- rouge

KINDS = ("rouge1", "rouge2", "rougeL")
PARTS = ("precision", "recall", "f")
COLUMNS = ("n", *(f"{kind}_{part}" for kind in KINDS for part in PARTS))

Counts = tuple[int, int, int]
"""Hits, units of the candidate, units of the reference."""


def longest_common(candidate: perl.Sentences, reference: perl.Sentences) -> Counts:
    _, left, right = perl.overlap(candidate, reference, 1)
    return (perl.lcs_hits(candidate, reference), left, right)


COUNTERS: tuple[Callable[[perl.Sentences, perl.Sentences], Counts], ...] = (
    partial(perl.overlap, order=1),
    partial(perl.overlap, order=2),
    longest_common,
)


def row(prediction: str, answers: Sequence[str], separator: str) -> Row:
    """One example's P, R and F of each kind. Counts of several references are summed first (`-f A`)."""
    candidate = perl.sentence_tokens(prediction, separator)
    references = [perl.sentence_tokens(answer, separator) for answer in answers]
    values = [1.0]
    for counter in COUNTERS:
        counts = [counter(candidate, reference) for reference in references]
        hits, left, right = map(sum, zip(*counts, strict=True))
        values.extend(perl.precision_recall_f1(hits, left, right))
    return tuple(values)


def statistics(
    predictions: Sequence[str], references: Sequence[Reference], separator: str = "."
) -> list[Row]:
    pairs = zip(predictions, references, strict=True)
    return [row(text, reference.answers, separator) for text, reference in pairs]


def score(totals: Totals) -> Scores:
    scores = {kind: percent(totals[f"{kind}_f"], totals["n"]) for kind in KINDS}
    scores["rouge"] = (scores["rouge1"] + scores["rouge2"] + scores["rougeL"]) / 3
    for kind in KINDS:
        for part in ("precision", "recall"):
            scores[f"{kind}_{part}"] = percent(totals[f"{kind}_{part}"], totals["n"])
    return scores


ROUGE = Metric(
    name="rouge",
    definition="Mean of the F of ROUGE-1, ROUGE-2 and summary-level ROUGE-L, averaged over examples.",
    source="Lin 2004, ROUGE-1.5.5 -m -n 2; decaNLP 2018",
    signature="rouge|scorer:1.5.5|stem:porter+wordnet2.0|sentences:period|refs:pooled|round:5|v:1",
    columns=COLUMNS,
    headline="rouge",
    statistics=statistics,
    score=score,
)

ROUGE_LINES = replace(
    ROUGE,
    name="rouge_lines",
    definition="The same for texts that have one sentence a line.",
    source="Lin 2004, ROUGE-1.5.5 -m -n 2; See et al. 2017",
    signature=ROUGE.signature.replace("rouge|", "rouge_lines|").replace("sentences:period", "sentences:line"),
    statistics=partial(statistics, separator="\n"),
)


def check_sentences(separator: str) -> None:
    if separator not in (".", "\n"):
        raise MetricError(f"Sentences end at '.' or at a line's end; sentences={separator!r} is neither.")


def rouge(
    predictions: Sequence[str], references: Sequence[Any], sentences: Literal[".", "\n"] = "."
) -> Score:
    """ROUGE, 0-100: the mean of ROUGE-1, ROUGE-2 and ROUGE-L F, as ROUGE-1.5.5 -m -n 2 has them.

    F = 2PR / (P + R) an example, of clipped n-grams, or of the union of longest common subsequences of each
    reference sentence with every candidate sentence; P over the candidate's units, R over the reference's.
    The corpus score is the mean of F. `sentences` says what ends one: "." as in decaNLP 2018, or "\\n".
    Several references are pooled: hits and units are summed over them before P and R, ROUGE's default `-f A`.
    `details` has rouge1, rouge2, rougeL, rouge, and precisions and recalls.
    Raises MetricError for another `sentences`, unequal numbers or an example without a reference.
    """
    check_sentences(sentences)
    return evaluate(ROUGE if sentences == "." else ROUGE_LINES, predictions, items(references))


# ---- rouge_package

TYPES = ("rouge1", "rouge2", "rougeLsum")
"""The package's names for our three kinds: rougeLsum is the summary-level one."""


def statistics__rouge_package(predictions: Sequence[str], references: Sequence[Reference]) -> list[Row]:
    try:
        from rouge_score.rouge_scorer import RougeScorer
    except ImportError:
        raise MetricError(
            "rouge_score needs rouge-score, which is not installed: pip install rouge-score==0.1.2"
        ) from None
    scorer = RougeScorer(list(TYPES), use_stemmer=True)
    return [
        row__rouge_package(scorer, text, reference.answers)
        for text, reference in zip(predictions, references, strict=True)
    ]


def row__rouge_package(scorer: Any, prediction: str, answers: Sequence[str]) -> Row:
    found = scorer.score_multi(list(answers), prediction)
    values = [1.0]
    for kind in TYPES:
        values.extend(map(float, (found[kind].precision, found[kind].recall, found[kind].fmeasure)))
    return tuple(values)


ROUGE_SCORE = Metric(
    name="rouge_score",
    definition="Mean of the F of rouge1, rouge2 and rougeLsum of rouge-score, averaged over examples.",
    source="google-research/rouge, PyPI rouge-score 0.1.2",
    signature="rouge_score|stem:nltk-porter|sentences:line|refs:max|v:1",
    columns=COLUMNS,
    headline="rouge",
    statistics=statistics__rouge_package,
    score=score,
    packages=("rouge-score",),
)


def rouge_score(predictions: Sequence[str], references: Sequence[Any]) -> Score:
    """ROUGE, 0-100, by the package rouge-score (0.1.2): rouge1, rouge2 and rougeLsum F with its stemmer.

    It is not ROUGE-1.5.5 (other tokens, no list of irregular forms): on 11,490 real summaries it gives
    39.26 / 17.23 / 36.17 where that has 39.53 / 17.28 / 36.38, which `rouge` reproduces. One sentence a line;
    the best of several references. `details` names rougeLsum `rougeL`, as `rouge` does.
    Raises MetricError where it is not installed, for unequal numbers or an example without a reference.
    """
    return evaluate(ROUGE_SCORE, predictions, items(references))


# ---- rouge_perl

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


def statistics__rouge_perl(
    metric: Metric, predictions: Sequence[str], references: Sequence[Reference]
) -> list[Row]:
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
    statistics=partial(statistics__rouge_perl, ROUGE),
    scope="corpus",
)

ROUGE_PERL_LINES = replace(
    ROUGE_PERL,
    name="rouge_perl_lines",
    definition="The same for texts that have one sentence a line.",
    signature=ROUGE_PERL.signature.replace("perl|", "perl_lines|").replace(
        "sentences:period", "sentences:line"
    ),
    statistics=partial(statistics__rouge_perl, ROUGE_LINES),
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
