"""The classes and functions that all metrics are built from.

A metric never averages scores. Its `statistics` function turns every example into a row of numbers, the rows are added
up, and its `score` function turns the sums into named scores. This way, means, BLEU and corpus F1 have the same
structure, and a bootstrap resample is a weighted sum of rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any, ClassVar, Literal, NamedTuple, Protocol


class DecabenchError(Exception):
    """The base class for all errors.

    Messages say what is wrong, what was given and how to fix it. The command line prints the message without a
    traceback and exits with `exit_code`, which is 1 for problems found by validation, 2 for wrong usage, 3 for missing
    or damaged data, and 4 if a model or server failed.
    """

    exit_code: ClassVar[int] = 2


class MetricError(DecabenchError, ValueError):
    """Raised if a metric is called with input that it can't score."""


class UnknownNameError(DecabenchError, ValueError):
    """Raised if a name is unknown. The message suggests similar names or lists the known names."""


_MOST_NAMED = 20
"""The maximum number of known names to list in an UnknownNameError. Longer lists are cut, or left out if there are
similar names."""


def near_matches(name: str, known: Iterable[str], count: int = 3) -> list[str]:
    """Return the known names that are most similar to a misspelled name, ignoring case, best match first."""
    from difflib import get_close_matches

    by_folded = {other.casefold(): other for other in known}
    return [by_folded[near] for near in get_close_matches(name.casefold(), by_folded, count)]


def require_name(name: str, known: Iterable[str], kind: str) -> str:
    """Return `name` if it is known, or raise UnknownNameError. `kind` is the kind of name, such as `task`."""
    names = list(known)
    if name in names:
        return name
    near, rest = near_matches(name, names), len(names) - _MOST_NAMED
    hint = f" Did you mean {' or '.join(filter(None, (', '.join(near[:-1]), near[-1])))}?" if near else ""
    listed = ", ".join(names) if rest <= 0 else f"{', '.join(names[:_MOST_NAMED])} and {rest} more"
    known = "" if near and rest > 0 else f" Known: {listed}."
    raise UnknownNameError(f"There is no {kind} {name!r}.{hint}{known}")


REFUSED = "\x00refused"
"""A marker for an answer that a model or its server refused to give.

No file can contain this string.
"""

Row = tuple[float, ...]
"""One number for each name in `Metric.columns`."""

Totals = Mapping[str, Any]
"""Sums by column name: floats, or numpy arrays of any shape (one entry per resample)."""

Scores = dict[str, Any]
"""Scores by name.

Most are from 0 to 100, but correlations can be negative, and TER and MSE have no upper limit. Scores are floats if the
totals are floats, and arrays of the same shape if the totals are arrays.
"""


Form = Literal["span", "text", "label", "sql", "state", "tags", "tree", "number"]
"""The form of an answer: a `span` of words on a single line, a `text` of one or more lines, a `label`, a SELECT
statement (`sql`), a dialogue `state` such as `slot: value; request`, `tags` or a `tree` with an item for each word, or
a `number`."""


class Reference(Protocol):
    """The part of an example that metrics can use. `decabench.tasks.Example` implements this protocol."""

    @property
    def id(self) -> str: ...
    @property
    def answers(self) -> Sequence[str]: ...
    @property
    def units(self) -> Sequence[str]: ...
    @property
    def meta(self) -> Mapping[str, Any]: ...


Statistics = Callable[[Sequence[str], Sequence[Reference]], list[Row]]
"""Takes predictions and references of equal length, and returns one row per example, in the same order."""


class GroupState(NamedTuple):
    """The state of a group, such as a dialogue, after one of its examples.

    Some metrics compare states instead of single answers.
    """

    place: int
    """The index of the example."""
    predicted: str
    """The state according to the predictions."""
    gold: str
    """The state according to the gold answers."""


def per_example(row: Callable[[str, Reference], Row]) -> Statistics:
    """Turn a function that computes the row of one example into a metric's `statistics` function.

    The result can be pickled if `row` can.
    """
    return partial(_map_rows, row)


def _map_rows(
    row: Callable[[str, Reference], Row], predictions: Sequence[str], references: Sequence[Reference]
) -> list[Row]:
    return [row(text, reference) for text, reference in zip(predictions, references, strict=True)]


@dataclass(frozen=True, slots=True)
class Item:
    """A minimal `Reference`, for calls without a dataset."""

    answers: Sequence[str]
    """All references; never empty."""
    id: str = ""
    """The example's id. Only metrics for dialogues need it."""
    units: Sequence[str] = ()
    """The example's sampling units, outermost first, such as its article and paragraph."""
    meta: Mapping[str, Any] = field(default_factory=dict)
    """Data for structured metrics, such as the table and the logical form."""


@dataclass(frozen=True)
class Metric:
    """A metric: two pure functions, and a description of the scores that they compute."""

    name: str
    """The metric's name in the registry."""
    definition: str
    """A description of the metric in one sentence."""
    source: str
    """The paper or official scorer that the metric reproduces."""
    signature: str
    """All settings that can affect a score, such as `nf1|case:lower|norm:squad1|refs:max|empty:0|v:1`."""
    columns: tuple[str, ...]
    """The names of the numbers in a row."""
    headline: str
    """The name of the metric's main score."""
    statistics: Statistics
    """Takes predictions and references of equal length, and returns one row per example, in the same order."""
    score: Callable[[Totals], Scores]
    """Takes the sums of columns, as floats or arrays, and returns scores by name."""
    reads: Form = "span"
    """The form of answers that the metric expects. Prompts ask language models for this form."""
    scope: Literal["example", "group", "corpus"] = "example"
    """The examples that must be passed to `statistics` together: a single example, whole innermost units (`group`, such
    as dialogues), or all examples (`corpus`)."""
    range: tuple[float, float] = (0.0, 100.0)
    """The lowest and highest possible values of the main score."""
    higher_is_better: bool = True
    """Whether a higher main score is better; False for errors such as MSE."""
    influence: Callable[[Any], Any] | None = None
    """Takes the rows as an array, and returns how much each example changes the main score, to first order. Needed
    only if rows depend on other examples, as ranks do, because adding up such rows doesn't score a resample
    correctly.
    """
    empty_may_be_right: bool = False
    """Whether an empty answer can be right. If so, refused answers are passed as REFUSED, which is never right."""
    packages: tuple[str, ...] = ()
    """The PyPI names of the packages that `statistics` uses. Their versions are part of the full signature."""
    depends_on_others: bool = False
    """Whether an example's contribution to the main score depends on other predictions, as it does for ranks."""
    class_columns: tuple[str, ...] = ()
    """The names of the columns that are added for each class in the gold answers. For the class `dt`, the
    column `gold` is named `gold:dt`.
    """
    find_classes: Callable[[Sequence[Reference]], Sequence[str]] | None = None
    """Takes all references, and returns their classes. None if the columns don't depend on the data. Requires the scope
    `corpus`."""
    states: Callable[[Sequence[str], Sequence[Reference]], Iterable[Sequence[GroupState]]] | None = None
    """Takes predictions and references, and yields a list of states for each group in order, with the
    state after each of its examples. None if the metric compares single answers. States explain why an
    answer that equals the gold answer can count as wrong.
    """
    find_fault: Callable[[Reference], str] | None = None
    """Takes a reference, and returns why its first answer would change if it were parsed and written back,
    or an empty string if it would stay the same. The text completes a sentence that begins with
    `It has`. Used to check gold answers. None for metrics that don't parse answers.
    """

    about: str = ""
    """The formula and the treatment of special cases."""

    def __post_init__(self) -> None:
        text = "\n".join(line.strip() for line in self.about.splitlines())
        object.__setattr__(self, "__doc__", text or self.definition)

    def __call__(
        self, predictions: Iterable[str], references: Iterable[Any], **columns: Iterable[Any]
    ) -> Score:
        """Score predictions against references.

        For `references` and `columns`, see `items`. Raises MetricError if there are no examples, if the numbers of
        predictions and references differ, if an example has no reference, and in the cases listed in `about`.
        """
        return evaluate(self, predictions, items(references, **columns))

    def for_data(self, references: Sequence[Reference]) -> Metric:
        """Return the metric with columns for all classes in these examples."""
        return self if self.find_classes is None else self._for_classes(self.find_classes(references))

    def for_columns(self, names: Iterable[str]) -> Metric:
        """Return the metric for rows with these columns, such as the rows of a statistics file."""
        if self.find_classes is None:
            return self
        first = f"{self.class_columns[0]}:"
        return self._for_classes([name.removeprefix(first) for name in names if name.startswith(first)])

    def _for_classes(self, classes: Sequence[str]) -> Metric:
        added = (f"{column}:{label}" for label in classes for column in self.class_columns)
        return replace(self, columns=(*self.columns, *added), find_classes=None)

    @property
    def full_signature(self) -> str:
        """The signature followed by the installed versions of `packages`, as in `…|sacrebleu:2.6.0`."""
        return "|".join([self.signature, *(f"{name}:{_installed_version(name)}" for name in self.packages)])


@dataclass(frozen=True)
class Score:
    """The scores of a set of predictions. `float(score)` returns the main score."""

    name: str
    """The name of the main score."""
    value: float
    """The value of the main score, 0-100 unless the metric has another range."""
    details: Mapping[str, float]
    """Every score by name, including the main score."""
    n: int
    """The number of examples scored."""
    signature: str
    """The metric's full signature."""

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        return f"{self.name} {self.value:.2f} (n={self.n}, {self.signature})"


def items(references: Iterable[Any], **columns: Iterable[Any]) -> list[Item]:
    """Return an item for each example, given a list of references or a single reference for each example.

    `columns` can contain `id`, `units` and `meta`, with one value per example. Raises MetricError if
    references are empty or not strings, or if a column doesn't have exactly one value per example.
    """
    listed = _as_list(references, "References must be one list of strings per example")
    # Convert to lists, because a pandas Series is indexed by label.
    values_of = {name: list(values) for name, values in columns.items()}
    for name, values in values_of.items():
        if len(values) != len(listed):
            raise MetricError(
                f"{name!r} must have one value per example, but has {len(values)} instead of {len(listed)}."
            )
    made = []
    for index, answers in enumerate(listed):
        answers = [answers] if isinstance(answers, str) else answers
        if not _are_texts(answers):
            raise MetricError(
                "References must be one non-empty list of strings per example; the value at index "
                f"{index} is {show_value(answers)}."
            )
        made.append(Item(list(answers), **{name: values[index] for name, values in values_of.items()}))
    return made


def _as_list(values: Any, wanted: str) -> list[Any]:
    """Return values as a list.

    Raises MetricError for strings, unordered containers, data frames and values that aren't iterable.
    """
    is_unordered = isinstance(values, str | Mapping | Set) or hasattr(values, "columns")
    if is_unordered or not isinstance(values, Iterable):
        kind = "a single string" if isinstance(values, str) else f"a value of type {type(values).__name__}"
        raise MetricError(f"{wanted}, but got {kind}.")
    return list(values)


def _are_texts(answers: Any) -> bool:
    if not hasattr(answers, "__iter__") or not hasattr(answers, "__len__"):
        return False
    return len(answers) > 0 and all(isinstance(answer, str) for answer in answers)


def evaluate(metric: Metric, predictions: Iterable[str], references: Sequence[Reference]) -> Score:
    """Score predictions against references.

    Raises MetricError if there are no examples, if the numbers of predictions and references differ, if a prediction
    isn't a string, or if the metric can't score the gold answers.
    """
    wanted = f"{metric.name} requires a list of strings as predictions, one per example"
    texts = _as_list(predictions, wanted)
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise MetricError(f"{wanted}, but item {index} is {show_value(text)}.")
    if len(texts) != len(references):
        raise MetricError(
            f"There must be one prediction per example, but got {len(texts)} instead of {len(references)}."
        )
    if not texts:
        raise MetricError(f"{metric.name} can't be computed without examples. Pass at least one example.")
    return score_rows(metric.for_data(references), metric.statistics(texts, references))


def score_rows(metric: Metric, rows: Sequence[Row]) -> Score:
    """Sum rows and score the sums. `math.fsum` rounds only once, so the order of rows never affects scores."""
    columns: Iterable[Iterable[float]]
    if hasattr(rows, "T"):  # an array
        columns = (column.tolist() for column in rows.T)
    else:
        columns = zip(*rows, strict=True)
    totals = {name: math.fsum(column) for name, column in zip(metric.columns, columns, strict=True)}
    scores = {name: float(value) for name, value in metric.score(totals).items()}
    return Score(metric.headline, scores[metric.headline], scores, len(rows), metric.full_signature)


@cache  # reading a version is slow
def _installed_version(package: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return "missing"


def fold_label(text: str) -> str:
    """Lowercase a label and collapse its spaces, to compare it with other labels."""
    return " ".join(text.lower().split())


def require_gold(references: Sequence[Reference], find_fault: Callable[[Reference], str]) -> None:
    """Raise MetricError if gold answers have faults.

    The message describes the first faulty example and gives the total number of faulty answers.
    """
    found = [(index, fault) for index, reference in enumerate(references) if (fault := find_fault(reference))]
    if not found:
        return
    index, fault = found[0]
    which = references[index].id or f"number {index}"
    more = f" In total, {len(found):,} gold answers have faults." if len(found) > 1 else ""
    answer = show_value(references[index].answers[0])
    raise MetricError(
        f"The gold answer {answer} in example {which} can't be scored because it has {fault}.{more}"
    )


def show_value(value: Any, most: int = 80) -> str:
    """Return the repr of a value for messages, shortened to `most` characters."""
    text = repr(value[: most + 1] if isinstance(value, str) else value)
    return text if len(text) <= most else f"{text[:most]}…"


# Arithmetic on floats and numpy arrays, so that the same formula scores one sum or a thousand resamples. numpy is
# imported only for arrays.


def is_scalar(value: Any) -> bool:
    """Return whether a value is a plain number, including numpy's float64, and not an array."""
    return isinstance(value, int | float)


def where(condition: Any, yes: Any, no: Any) -> Any:
    """Return `yes` where the condition is true, and `no` elsewhere."""
    if isinstance(condition, bool):
        return yes if condition else no
    import numpy

    return numpy.where(condition, yes, no)


def ratio(part: Any, whole: Any) -> Any:
    """Return part / whole, or 0 where whole is 0."""
    if is_scalar(whole) and is_scalar(part):
        return part / whole if whole else 0.0
    import numpy

    part, whole = numpy.asarray(part, float), numpy.asarray(whole, float)
    return numpy.divide(part, whole, out=numpy.zeros(numpy.broadcast(part, whole).shape), where=whole != 0)


def percent(part: Any, whole: Any) -> Any:
    """Return 100 * part / whole, or 0 where whole is 0."""
    return 100 * ratio(part, whole)


def f1(precision: Any, recall: Any) -> Any:
    """Return the harmonic mean 2PR / (P + R), or 0 where both are 0."""
    return ratio(2 * (precision * recall), precision + recall)


def logarithm(value: Any, at_zero: float) -> Any:
    """Return the natural logarithm, or `at_zero` where the value is 0."""
    if is_scalar(value):
        return math.log(value) if value else at_zero
    import numpy

    return numpy.log(value, out=numpy.full(numpy.shape(value), at_zero), where=value != 0)


def exponential(value: Any) -> Any:
    """Return e to the power of the value."""
    if is_scalar(value):
        return math.exp(value)
    import numpy

    return numpy.exp(value)


def bounded(value: Any, low: float = 0.0, high: float = 100.0) -> Any:
    """Limit a value to its range, because rounding errors can take it slightly outside."""
    if is_scalar(value):
        return min(max(value, low), high)
    import numpy

    return numpy.clip(value, low, high)


def any_nonzero(value: Any) -> bool:
    """Return whether a float or any element of an array is not 0."""
    return bool(value) if is_scalar(value) else bool(value.any())
