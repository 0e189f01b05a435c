"""Macro-F1 and Matthews correlation of labels, macro-F1 of tags, and confusion counts.

Only the labels or tags in the gold answers are classes, so the number of columns doesn't depend on predictions. Any
other prediction is wrong and has no class. For each class, a row counts how often it is gold, how often it is
predicted, and how often it is both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from .base import (
    Metric,
    MetricError,
    Reference,
    Row,
    Scores,
    Totals,
    bounded,
    fold_label,
    percent,
    ratio,
    where,
)
from .tagging import MISSING, count_faults

_Pair = tuple[str, str]
"""A pair of strings: the gold class and the prediction."""

_CLASS_COLUMNS = ("gold", "predicted", "right")


def _label_pairs(prediction: str, reference: Reference) -> list[_Pair]:
    """Return a single pair. The gold class is the reference that equals the prediction, or else the first reference."""
    predicted, answers = fold_label(prediction), [fold_label(answer) for answer in reference.answers]
    return [(predicted if predicted in answers else answers[0], predicted)]


def _tag_pairs(prediction: str, reference: Reference) -> list[_Pair]:
    """Return a pair for each gold tag of the first reference, with an empty string for a missing tag."""
    gold, predicted = reference.answers[0].lower().split(), prediction.lower().split()
    predicted += [""] * (len(gold) - len(predicted))
    return list(zip(gold, predicted, strict=False))


MOST_CLASSES = 1_000
"""The maximum number of classes. Memory use can grow with the square of their number."""


def _labels(references: Sequence[Reference]) -> list[str]:
    return _bound({fold_label(answer) for reference in references for answer in reference.answers}, "labels")


def _tags(references: Sequence[Reference]) -> list[str]:
    return _bound({tag for reference in references for tag in reference.answers[0].lower().split()}, "tags")


def _bound(classes: Collection[str], kind: str) -> list[str]:
    if len(classes) > MOST_CLASSES:
        instead = "tag_accuracy" if kind == "tags" else "accuracy"
        raise MetricError(
            f"The gold answers have {len(classes):,} different {kind}, but this metric allows at most "
            f"{MOST_CLASSES:,}. Use {instead} instead."
        )
    return sorted(classes)


def _count(pairs: Sequence[_Pair], classes: Sequence[str]) -> Row:
    """Return the number of pairs, the number of right pairs, and counts for each class.

    A class is counted when it is gold, when it is predicted, and when it is both.
    """
    gold = Counter(theirs for theirs, _ in pairs)
    predicted = Counter(ours for _, ours in pairs)
    both = Counter(ours for theirs, ours in pairs if ours == theirs)
    counts = [(gold[label], predicted[label], both[label]) for label in classes]
    return tuple(map(float, (len(pairs), both.total(), *(count for row in counts for count in row))))


def _label_statistics(predictions: Sequence[str], references: Sequence[Reference]) -> list[Row]:
    classes = _labels(references)
    return [
        _count(_label_pairs(text, reference), classes)
        for text, reference in zip(predictions, references, strict=True)
    ]


def _tag_statistics(predictions: Sequence[str], references: Sequence[Reference]) -> list[Row]:
    classes, rows = _tags(references), []
    known = frozenset(classes)
    for text, reference in zip(predictions, references, strict=True):
        counts = _count(_tag_pairs(text, reference), classes)
        faults = count_faults(text, reference.answers[0], known)
        forms = (float(faults.missing), float(faults.extra), float(faults.unknown))
        rows.append((*counts[:2], *forms, *counts[2:]))
    return rows


def _by_class(totals: Totals) -> Iterator[tuple[Any, Any, Any]]:
    for label in (name.partition(":")[2] for name in totals if name.startswith("gold:")):
        gold, predicted, right = (totals[f"{column}:{label}"] for column in _CLASS_COLUMNS)
        yield gold, predicted, right


def _mean_f1(totals: Totals) -> tuple[Any, Any]:
    """Return the mean F1 over the gold classes, and the mean F1 weighted by their frequency."""
    summed, weighted, classes, examples = 0.0, 0.0, 0.0, 0.0
    for gold, predicted, right in _by_class(totals):
        found, occurs = ratio(2 * right, gold + predicted), where(gold > 0, 1.0, 0.0)
        summed, weighted = summed + occurs * found, weighted + gold * found
        classes, examples = classes + occurs, examples + gold
    return bounded(percent(summed, classes)), bounded(percent(weighted, examples))


def _matthews(totals: Totals) -> Any:
    """Compute 100 times the Matthews correlation R_K (Gorodkin 2004).

    Predictions that name no class are treated as one additional class.
    """
    n, others = totals["n"], totals["n"]
    agreeing, gold_squares, predicted_squares = 0.0, 0.0, 0.0
    for gold, predicted, _ in _by_class(totals):
        others = others - predicted
        agreeing = agreeing + gold * predicted
        gold_squares, predicted_squares = gold_squares + gold**2, predicted_squares + predicted**2
    predicted_squares = predicted_squares + others**2
    spread = (n * n - gold_squares) * (n * n - predicted_squares)
    covariance = n * totals["right"] - agreeing
    return bounded(percent(covariance, where(spread > 0, spread, 0.0) ** 0.5), -100.0)


def _label_score(totals: Totals) -> Scores:
    macro, weighted = _mean_f1(totals)
    return {
        "macro_f1": macro,
        "weighted_f1": weighted,
        "mcc": _matthews(totals),
        "accuracy": percent(totals["right"], totals["n"]),
    }


def _tag_class_score(totals: Totals) -> Scores:
    macro, weighted = _mean_f1(totals)
    n = totals["n"]
    return {
        "tag_macro_f1": macro,
        "tag_weighted_f1": weighted,
        "tag_accuracy": percent(totals["right"], n),
        "tags_missing": percent(totals["missing"], n),
        "tags_extra": percent(totals["extra"], n),
        "tags_unknown": percent(totals["unknown"], n),
    }


macro_f1 = Metric(
    name="macro_f1",
    definition="Mean F1 over the gold labels.",
    about="""Macro-F1 of labels, 0-100: the mean over the gold labels of 100 * 2 both / (gold + predicted).

    gold, predicted and both are the numbers of examples for which the label is gold, predicted, or both. Labels are
    compared as in `accuracy`. A prediction that isn't a gold label of any example is wrong, but has no F1 of its own.
    scikit-learn would include an F1 of 0 for it, unless you pass the gold labels as `labels`. `details` also has
    weighted_f1 (weighted by the frequency of the gold labels), mcc and accuracy.

    Raises MetricError if the numbers of predictions and references differ, if an example has no reference, or if there
    are more than 1,000 classes.
    """,
    source="scikit-learn, f1_score with the labels of the gold answers",
    signature="macro_f1|case:lower|space:squeezed|refs:any|classes:gold|zero:0|v:1",
    columns=("n", "right"),
    headline="macro_f1",
    statistics=_label_statistics,
    score=_label_score,
    scope="corpus",
    class_columns=_CLASS_COLUMNS,
    find_classes=_labels,
)

mcc = replace(
    macro_f1,
    name="mcc",
    definition="Matthews correlation between predicted and gold labels, for any number of classes, times 100.",
    about="""Matthews correlation of labels times 100, -100 to 100, for two or more classes (Gorodkin 2004).

    It is 0 if all predictions or all gold labels are the same. Predictions that aren't a gold label of any example
    count as one additional class. `details` and errors are the same as for `macro_f1`.
    """,
    source="Matthews 1975; Gorodkin 2004; scikit-learn, matthews_corrcoef",
    signature="mcc|scale:100|case:lower|space:squeezed|refs:any|classes:gold,other|zero:0|v:1",
    headline="mcc",
    range=(-100.0, 100.0),
)

tag_macro_f1 = replace(
    macro_f1,
    name="tag_macro_f1",
    definition="Mean F1 over the gold tags, with the tokens of all sequences counted together.",
    about="""Macro-F1 of tags, 0-100: the mean over the gold tags of 100 * 2 both / (gold + predicted), over all tokens.

    Tags are compared as in `tag_accuracy`. `details` also has tag_weighted_f1 and tag_accuracy, and three percentages
    of the gold tags: tags_missing (`_` counts as missing), tags_extra, and tags_unknown (tags that don't occur in any
    gold answer).

    Raises MetricError if the numbers of predictions and references differ, if an example has no reference, or if there
    are more than 1,000 classes.
    """,
    source="scikit-learn, f1_score with the tags of the gold answers",
    signature="tag_macro_f1|case:lower|split:space|missing:wrong|extra:ignored|refs:first|classes:gold|zero:0|v:1",
    columns=("n", "right", "missing", "extra", "unknown"),
    headline="tag_macro_f1",
    statistics=_tag_statistics,
    score=_tag_class_score,
    find_classes=_tags,
    reads="tags",
)


def confusions(
    predictions: Iterable[str], references: Iterable[Reference], tags: bool = False
) -> Counter[_Pair]:
    """Count (gold, predicted) pairs of labels, or of tags if `tags` is set.

    Labels and tags are lowercased. A missing tag is counted as `_`.
    """
    pairs = _tag_pairs if tags else _label_pairs
    counts: Counter[_Pair] = Counter()
    for text, reference in zip(predictions, references, strict=True):
        counts.update(
            (theirs, ours or MISSING) if tags else (theirs, ours) for theirs, ours in pairs(text, reference)
        )
    return counts
