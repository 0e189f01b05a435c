"""What rows of statistics can hold: no answer gives others, so that forged ones are found without the answers.

Each limit follows from the metric's code and holds for any answer and any references (tests/leaderboard/odd_answers.py
makes some of both). A new metric needs an entry in LIMITS.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from decabench.metrics import Metric

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

__all__ = ["LIMITS", "RowLimits", "Sum", "find_impossible_rows"]

Sum = str | tuple[str | float, ...]
"""A column, or several columns and numbers that are added."""


@dataclass(frozen=True)
class RowLimits:
    """What holds for every row of a metric's statistics, whatever was answered."""

    at_most: tuple[tuple[Sum, Sum], ...]
    """(what never exceeds, what)."""
    fractions: tuple[str, ...] | None = ()
    """The columns that may have other than whole numbers; None if all may."""
    one: str = "n"
    """The column that is 1 for every example; empty if there is none."""
    signed: bool = False
    """Whether numbers may be negative."""
    products: tuple[tuple[str, str, str], ...] = ()
    """(column, the two columns whose product it is)."""
    slack: float = 1e-6
    """How far rounding may carry a number beyond another."""


def _shares(*columns: str) -> tuple[tuple[Sum, Sum], ...]:
    return tuple((column, "n") for column in columns)


def _falling(names: Sequence[str]) -> Iterator[tuple[Sum, Sum]]:
    """Yield what holds for counts of n-grams, of rising n, in one text: each is one less than the one before, or 0."""
    for longer, shorter in zip(names[1:], names, strict=False):
        yield longer, shorter
        yield shorter, (longer, 1)


def _bleu_limits() -> Iterator[tuple[Sum, Sum]]:
    for prefix in ("", "cased_"):
        totals = [f"{prefix}total{order}" for order in (1, 2, 3, 4)]
        yield from ((f"{prefix}right{order}", f"{prefix}total{order}") for order in (1, 2, 3, 4))
        yield from _falling(totals)
        yield totals[0], f"{prefix}system_length"
        yield f"{prefix}system_length", totals[0]


def _chrf_limits(words: int) -> Iterator[tuple[Sum, Sum]]:
    for kind, orders in (("char", range(1, 7)), ("word", range(1, words + 1))):
        for side in ("predicted", "gold"):
            yield from ((f"{kind}{order}_right", f"{kind}{order}_{side}") for order in orders)
        yield from _falling([f"{kind}{order}_gold" for order in orders])
        for side in ("predicted", "right"):  # where the reference has no n-grams, none are counted
            names = [f"{kind}{order}_{side}" for order in orders]
            yield from zip(names[1:], names, strict=False)


_ROUGE_COLUMNS = tuple(
    f"{kind}_{part}" for kind in ("rouge1", "rouge2", "rougeL") for part in ("precision", "recall", "f")
)


def _rouge_limits() -> Iterator[tuple[Sum, Sum]]:
    """Yield what holds of P, R and F = 2PR / (P + R), of one reference, the best of several, or all together."""
    yield from _shares(*_ROUGE_COLUMNS)
    for kind in ("rouge1", "rouge2", "rougeL"):
        precision, recall, f = (f"{kind}_{part}" for part in ("precision", "recall", "f"))
        yield from (((f, f), (precision, recall)), (f, (precision, precision)), (f, (recall, recall)))
    yield "rougeL_f", "rouge1_f"


_WORDS = RowLimits(
    (
        *_shares("nf1", "nf1_empty_match", "em", "nem"),
        ("em", "nem"),
        ("nem", "nf1_empty_match"),
        ("nf1", "nf1_empty_match"),
    ),
    fractions=("nf1", "nf1_empty_match"),
)
_ROUGE_SCORE = RowLimits(tuple(_rouge_limits()), fractions=_ROUGE_COLUMNS)
_ROUGE = replace(
    _ROUGE_SCORE,
    at_most=(
        *_ROUGE_SCORE.at_most,
        ("rougeL_precision", "rouge1_precision"),
        ("rougeL_recall", "rouge1_recall"),
    ),
    slack=3e-5,  # P, R and F are rounded to five digits
)
_WEIGHTED_ROUGE = replace(
    _ROUGE, fractions=None, one="", at_most=(*_ROUGE.at_most, ("n", (1.5,)), ((0.5,), "n"))
)
_MOMENTS = ("x", "y", "xx", "yy", "xy")
_PRODUCTS = (("xx", "x", "x"), ("yy", "y", "y"), ("xy", "x", "y"))
_PEARSON = RowLimits(_shares("unreadable"), fractions=_MOMENTS, signed=True, products=_PRODUCTS)
LIMITS: Mapping[str, RowLimits] = {
    "nf1": _WORDS,
    "em": _WORDS,
    "nem": _WORDS,
    "accuracy": RowLimits(_shares("right")),
    "squad2": RowLimits(
        (
            ("answer_exact", "answer_f1"),
            ("answer_f1", "answerable"),
            (("answerable", "no_answer_right"), "n"),
        ),
        fractions=("answer_f1",),
    ),
    "rouge": _ROUGE,
    "rouge_lines": _ROUGE,
    "rouge_score": _ROUGE_SCORE,
    "rouge_perl": _WEIGHTED_ROUGE,
    "rouge_perl_lines": _WEIGHTED_ROUGE,
    "bleu": RowLimits(tuple(_bleu_limits()), one=""),
    "chrf2": RowLimits(tuple(_chrf_limits(0)), one=""),
    "chrf_plus_plus": RowLimits(tuple(_chrf_limits(2)), one=""),
    "ter": RowLimits((), fractions=("reference_length",), one=""),
    "corpus_f1": RowLimits(
        (
            ("right", "answered"),
            ("right", "answerable"),
            ("right_any", "answered"),
            ("right_any", "answerable_any"),
            ("answered", "n"),
            ("answerable", "answerable_any"),
            ("answerable_any", "n"),
        )
    ),
    "joint_goal_em": RowLimits(
        (
            *_shares("joint_goal", "turn_goal", "turn_request_corrected"),
            ("turn_request", "turn_request_corrected"),
        )
    ),
    "dialogue_f1": RowLimits(
        (
            *(
                (f"{kind}_right", f"{kind}_{side}")
                for kind in ("slot", "request", "state")
                for side in ("predicted", "gold")
            ),
            *((f"slot_{side}", f"state_{side}") for side in ("right", "predicted", "gold")),
        ),
        one="",
    ),
    "lfem": RowLimits(
        (
            *_shares("lfem_unordered", "lfem_corrected", "n_executed"),
            ("lfem", "lfem_unordered"),
            ("lfem", "lfem_corrected"),
            ("executed_right", "n_executed"),
            (("lfem", "n_executed"), ("executed_right", 1)),
        )
    ),
    "lfem_normalised": RowLimits(_shares("lfem_normalised")),
    "macro_f1": RowLimits(_shares("right")),
    "mcc": RowLimits(_shares("right")),
    "tag_macro_f1": RowLimits(((("right", "missing", "unknown"), "n"),), one=""),
    "tag_accuracy": RowLimits((("right", "tags"),), one=""),
    "sequence_f1": RowLimits(
        (("right", "predicted"), ("right", "gold"), ("gold", "tags"), ("tags_right", "tags")), one=""
    ),
    "parsing_ud": RowLimits(
        (
            ("uas", "words"),
            ("las", "uas"),
            ("content_gold", "words"),
            ("content_predicted", "words"),
            ("content_right", "content_gold"),
            ("content_right", "content_predicted"),
            ("content_right", "las"),
            ("kept", "words"),
            ("uas_kept", "kept"),
            ("uas_kept", "uas"),
            ("las_kept", "uas_kept"),
            ("las_kept", "las"),
            (("uas", "kept"), ("uas_kept", "words")),
            (("las", "kept"), ("las_kept", "words")),
        ),
        one="",
    ),
    "parsing": RowLimits((("uas", "tokens"), ("las", "uas")), one=""),
    "pearson": _PEARSON,
    "spearman": replace(_PEARSON, signed=False),
    "mse": RowLimits(_shares("unreadable"), fractions=("squares",)),
    "relatedness": RowLimits(
        _shares("unreadable"),
        fractions=("squares", *_MOMENTS, *(f"rank_{name}" for name in _MOMENTS)),
        signed=True,
        products=(*_PRODUCTS, *((f"rank_{of}", f"rank_{a}", f"rank_{b}") for of, a, b in _PRODUCTS)),
    ),
}
"""Per metric, what no answer could make of a row; metrics of other packages are not limited."""


def _class_limits(metric: Metric) -> Iterator[tuple[Sum, Sum]]:
    """Yield what holds for the columns of each class: what is right is gold and predicted; and for their sums."""
    classes = [column.removeprefix("gold:") for column in metric.columns if column.startswith("gold:")]
    if not classes:
        return
    for label in classes:
        yield from ((f"right:{label}", f"{other}:{label}") for other in ("gold", "predicted"))
    gold, predicted, right = (
        tuple(f"{kind}:{label}" for label in classes) for kind in ("gold", "predicted", "right")
    )
    yield from ((gold, "n"), ("n", gold), (predicted, "n"), (right, "right"), ("right", right))


def find_impossible_rows(metric: Metric, rows: Array) -> str:
    """Return what is wrong with rows that the metric could not have made of any answer; empty if nothing is."""
    import numpy as np

    if not np.isfinite(rows).all():
        return "some numbers are not finite"
    limits = LIMITS.get(metric.name)
    if limits is None:
        return ""
    columns = dict(zip(metric.columns, rows.T, strict=True))
    if not limits.signed and (rows < 0).any():
        name = next(name for name, values in columns.items() if (values < 0).any())
        return f"{name} is negative in {int((columns[name] < 0).sum()):,} rows"
    if limits.one in columns and (columns[limits.one] != 1).any():
        return f"{limits.one} is not 1 in every row"
    whole = () if limits.fractions is None else [name for name in columns if name not in limits.fractions]
    for name in whole:
        if broken := int((columns[name] != np.floor(columns[name])).sum()):
            return f"{name} is no whole number in {broken:,} rows"
    for left, right in (*limits.at_most, *_class_limits(metric)):
        if beyond := int((_add(columns, left) > _add(columns, right) + limits.slack).sum()):
            return f"{_describe(left)} exceeds {_describe(right)} in {beyond:,} rows"
    for name, left, right in limits.products:
        with np.errstate(over="ignore"):
            product = columns[left] * columns[right]
            is_right = np.isfinite(product) & (abs(columns[name] - product) <= 1e-9 * abs(product))
        if wrong := int((~is_right).sum()):
            return f"{name} is not {left} times {right} in {wrong:,} rows"
    return ""


def _add(columns: Mapping[str, Array], terms: Sum) -> Any:
    """Add up columns and numbers."""
    if isinstance(terms, str):
        return columns[terms]
    return sum(columns[term] if isinstance(term, str) else term for term in terms)


def _describe(terms: Sum) -> str:
    """Name a column or a sum; one of many columns by its first and last."""
    if isinstance(terms, str):
        return terms
    names = [str(term) if isinstance(term, str) else f"{term:g}" for term in terms]
    return " + ".join(names if len(names) < 5 else [names[0], "…", names[-1]])
