"""What a metric is: statistics that add up, and a score of their sums.

A metric never averages scores. It turns every example into a row of numbers (`statistics`), the rows are
summed, and `score` turns sums into named scores. So an average, BLEU and corpus F1 have one shape, and a
bootstrap resample is a weighted sum of rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol

__all__ = [
    "DecabenchError",
    "Item",
    "Metric",
    "MetricError",
    "Reference",
    "Row",
    "Score",
    "Scores",
    "Totals",
    "evaluate",
    "items",
    "score_rows",
]

# ---- errors


class DecabenchError(Exception):
    """One sentence: what was wrong, what was given, what to do.

    The command line prints it without a traceback and ends with `exit_code`:
    1 the thing checked has faults, 2 wrong usage, 3 data missing or damaged.
    """

    exit_code: ClassVar[int] = 2


class MetricError(DecabenchError, ValueError):
    """A metric was called with something it cannot score."""


# ---- base

Row = tuple[float, ...]
"""One number for each of `Metric.columns`."""

Totals = Mapping[str, Any]
"""Column name to its sum: a float, or a numpy array of any shape (one entry a resample)."""

Scores = dict[str, Any]
"""Score name to its value, 0-100: floats for float totals, arrays for array totals."""


class Reference(Protocol):
    """What a metric may see of an example. `decabench.tasks.Example` is one."""

    @property
    def id(self) -> str: ...
    @property
    def answers(self) -> Sequence[str]: ...
    @property
    def group(self) -> str: ...
    @property
    def meta(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Item:
    """The plainest `Reference`, for calls without a dataset."""

    answers: Sequence[str]
    """All references; never empty."""
    id: str = ""
    """The example's name, where the metric needs one (dialogue turns)."""
    group: str = ""
    """What the example was sampled with (its dialogue, paragraph or document)."""
    meta: Mapping[str, Any] = field(default_factory=dict)
    """What a structured metric needs: the table and the logical form."""


@dataclass(frozen=True)
class Metric:
    """A metric as a value: two pure functions and what one must know to read their numbers."""

    name: str
    """Its name in the registry."""
    definition: str
    """One sentence that says what is counted."""
    source: str
    """The paper or official scorer that it reproduces."""
    signature: str
    """Every setting that decides a digit, e.g. `nf1|case:lower|norm:squad1|refs:max|empty:0|v:1`."""
    columns: tuple[str, ...]
    """Names of the numbers in a row."""
    headline: str
    """The score that stands for the metric: a key of what `score` returns."""
    statistics: Callable[[Sequence[str], Sequence[Reference]], list[Row]]
    """(predictions, references) of equal length -> one row an example, in the same order."""
    score: Callable[[Totals], Scores]
    """Sums of columns -> named scores; works on floats and on arrays alike."""
    scope: Literal["example", "group", "corpus"] = "example"
    """What must be given to `statistics` in one call: any slice, whole groups (dialogues), or everything."""
    range: tuple[float, float] = (0.0, 100.0)
    """Lowest and highest possible headline."""
    higher_is_better: bool = True
    """False for errors such as MSE."""
    packages: tuple[str, ...] = ()
    """Distributions that do the counting, by their names on PyPI: their versions end the full signature."""

    @property
    def full_signature(self) -> str:
        """The signature with the installed version of each of `packages`, e.g. `...|sacrebleu:2.6.0`.

        It is what a result records. Read on request: finding versions takes longer than importing us.
        """
        return "|".join([self.signature, *(f"{name}:{_installed_version(name)}" for name in self.packages)])


@dataclass(frozen=True)
class Score:
    """The result of a convenience call: `float(score)` is the headline."""

    name: str
    """The headline's name."""
    value: float
    """The headline, 0-100 unless the metric's range says otherwise."""
    details: Mapping[str, float]
    """Every score by name, the headline included."""
    n: int
    """How many examples were scored."""
    signature: str
    """The metric's full signature."""

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        return f"{self.name} {self.value:.2f} (n={self.n}, {self.signature})"


def items(references: Sequence[Any], **columns: Sequence[Any]) -> list[Item]:
    """Items from one list of strings an example (a bare string is a single reference).

    `columns` may give `id`, `group` and `meta`, one value an example.
    Raises MetricError for an empty list of references, a non-string, or columns of another length.
    """
    if isinstance(references, str):
        raise MetricError("References are one list of strings an example; given a single string.")
    for name, values in columns.items():
        if len(values) != len(references):
            raise MetricError(
                f"{len(references)} examples but {len(values)} values of {name}: give one each."
            )
    made = []
    for index, answers in enumerate(references):
        answers = [answers] if isinstance(answers, str) else answers
        if not _is_texts(answers):
            raise MetricError(
                f"References are one non-empty list of strings an example; number {index} is {answers!r}."
            )
        made.append(Item(list(answers), **{name: values[index] for name, values in columns.items()}))
    return made


def _is_texts(answers: Any) -> bool:
    """Whether this is a non-empty sequence of strings (a numpy array or a tuple too)."""
    if not hasattr(answers, "__iter__") or not hasattr(answers, "__len__"):
        return False
    return len(answers) > 0 and all(isinstance(answer, str) for answer in answers)


def evaluate(metric: Metric, predictions: Sequence[str], references: Sequence[Reference]) -> Score:
    """Statistics, sum and score in one call. Raises MetricError for no or unequal numbers of examples."""
    if isinstance(predictions, str) or not all(isinstance(text, str) for text in predictions):
        raise MetricError(f"Predictions are a list of strings; {metric.name} was given something else.")
    if len(predictions) != len(references):
        raise MetricError(f"{len(predictions)} predictions for {len(references)} examples: give one each.")
    if not predictions:
        raise MetricError(f"{metric.name} of no examples is undefined: give at least one.")
    return score_rows(metric, metric.statistics(predictions, references))


def score_rows(metric: Metric, rows: Sequence[Row]) -> Score:
    """The score of rows. Sums are rounded once (`math.fsum`), so order and splitting never change a digit."""
    totals = {
        name: math.fsum(column) for name, column in zip(metric.columns, zip(*rows, strict=True), strict=True)
    }
    scores = {name: float(value) for name, value in metric.score(totals).items()}
    return Score(metric.headline, scores[metric.headline], scores, len(rows), metric.full_signature)


def _installed_version(package: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return "missing"
