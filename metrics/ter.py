"""Translation edit rate, computed from sums of sacrebleu's edit counts."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .base import Metric, Reference, Row, Scores, Totals, percent, where
from .bleu import load_scorer

_SHORT = 150
"""The number of words up to which an answer is always compared with shifts."""


def _statistics(predictions: Sequence[str], references: Sequence[Reference]) -> list[Row]:
    """Return the smallest number of edits and the mean reference length, in words, of each segment.

    sacrebleu takes a minute for an answer of 2,000 words, so one submission could block a leaderboard. Answers that
    have more than 150 words and are more than twice as long as their longest reference are compared without shifts,
    which takes milliseconds. Their rate is above 100 either way.
    """
    scorer = load_scorer("TER")()
    rows: list[Row] = []
    for text, reference in zip(predictions, references, strict=True):
        words, *others = (answer.lower().split() for answer in (text, *reference.answers))
        if len(words) > max(_SHORT, 2 * max(map(len, others))):
            length = sum(map(len, others)) / len(others)
            rows.append((float(min(_edit_distance(words, other) for other in others)), length))
        else:
            segment = scorer.sentence_score(text, list(reference.answers))
            rows.append((float(segment.num_edits), float(segment.ref_length)))
    return rows


def _edit_distance(words: list[str], reference: list[str]) -> int:
    """Count insertions, deletions and substitutions, using Myers' algorithm (1999) as described by Hyyrö (2003).

    Bit i of an integer represents word i of the reference, so each word of the answer takes only a few operations.
    """
    if not reference:
        return len(words)
    places: dict[str, int] = {}
    for at, word in enumerate(reference):
        places[word] = places.get(word, 0) | 1 << at
    last, mask = 1 << len(reference) - 1, (1 << len(reference)) - 1
    # `more` and `less` mark where a column's value is one more, or one less, than the value above.
    distance, more, less = len(reference), mask, 0
    for word in words:
        same = places.get(word, 0)
        diagonal = (((same & more) + more) ^ more) | same | less
        right_more, right_less = less | ~(diagonal | more) & mask, diagonal & more
        distance += bool(right_more & last) - bool(right_less & last)
        right_more = right_more << 1 | 1
        more = (right_less << 1 | ~(diagonal | right_more)) & mask
        less = right_more & diagonal & mask
    return distance


def _score(totals: Totals) -> Scores:
    edits, length = totals["edits"], totals["reference_length"]
    # If all references are empty, sacrebleu returns 100 for any number of edits above 0.
    return {"ter": where(length > 0, percent(edits, length), where(edits > 0, 100.0, 0.0))}


ter = Metric(
    name="ter",
    definition="Insertions, deletions, substitutions and shifts of words, divided by the number of reference words.",
    about="""Translation edit rate, 0 and up, lower is better (Snover et al. 2006): 100 * edits / reference words.

    An edit inserts, deletes or replaces a word, or shifts a block of words; case is ignored. If there are several
    references, the smallest number of edits is divided by their mean length. Answers with more than 150 words and more
    than twice as many words as their longest reference are compared without shifts. sacrebleu counts the edits, and
    the signature ends with its version.

    Raises MetricError if sacrebleu is not installed, if the numbers of predictions and references differ, or if an
    example has no reference.
    """,
    source="Snover et al. 2006; sacrebleu (Post 2018)",
    signature="ter|case:lower|tok:tercom|norm:no|punct:yes|asian:no|refs:fewest,mean|shifts:to max(150,2*ref)|v:2",
    columns=("edits", "reference_length"),
    headline="ter",
    statistics=_statistics,
    score=_score,
    range=(0.0, math.inf),
    higher_is_better=False,
    packages=("sacrebleu",),
    reads="text",
)
