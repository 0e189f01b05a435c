"""Scores by metrics: the statistics of answers, in one process or several, and their sums."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

from decabench.errors import UnknownNameError, require_name
from decabench.metrics import METRICS, REFUSED, Item, Metric, Reference, Row, score_rows
from decabench.plugins import load_entry_point, load_object, plugin_names
from decabench.scoring.ledger import Deferred
from decabench.tasks import METRIC_GROUP, References, number_units
from decabench.workers import process_pool

__all__ = ["TaskScores", "find_metric", "ids_of", "score_task", "select", "unit_numbers", "worker_pool"]

Example = TypeVar("Example", bound=Reference)

_CHUNK = 500
_WORTH_SECONDS = 8.0
"""So much work of a metric is worth starting processes, each of which takes a second before it does any."""
_WORTH_A_PROCESS = 2_000
"""So many examples of a slow metric take longer than starting processes."""


@dataclass(frozen=True)
class TaskScores:
    """All scores of one task."""

    headline: str
    """Which of them is the task's."""
    scores: Mapping[str, float]
    """By name; 0–100, unless the metric has another range."""
    signatures: Mapping[str, str]
    """Metric name to signature."""
    statistics: Mapping[str, Any]
    """Metric name to its statistics, (examples, columns); the headline's metric is the first."""

    @property
    def rows(self) -> Any:
        """The headline metric's statistics."""
        return next(iter(self.statistics.values()))

    @classmethod
    def of_rows(cls, statistics: Mapping[str, Any], references: Sequence[Reference]) -> TaskScores:
        """Score rows by metric name: the first metric's scores, and what the others have beyond them."""
        metrics = {name: find_metric(name).for_data(references) for name in statistics}
        scores: dict[str, float] = {}
        for name, rows in statistics.items():
            scores = {**score_rows(metrics[name], rows).details, **scores}
        signatures = {name: metric.full_signature for name, metric in metrics.items()}
        return cls(next(iter(metrics.values())).headline, scores, signatures, statistics)

    def of_part(
        self, kept: Sequence[int], predictions: Sequence[str], references: Sequence[Reference]
    ) -> TaskScores:
        """Return the scores of some examples alone, given their places and all examples.

        Rows of corpus metrics depend on the other examples, as ranks and classes do, and are computed anew; those of
        all other metrics are as they were. A dialogue's turns follow from those before, which were answered.
        """
        answers, rest = [predictions[at] for at in kept], select(references, kept)
        statistics = {}
        for name, rows in self.statistics.items():
            metric = find_metric(name)
            anew = metric.scope == "corpus"
            statistics[name] = _to_array(metric.statistics(answers, rest)) if anew else rows[kept]
        return TaskScores.of_rows(statistics, rest)


def find_metric(name: str) -> Metric:
    """Return a metric of ours, of an installed package, or `package.module:object`. Raises UnknownNameError."""
    if name in METRICS:
        return METRICS[name]
    if ":" in name:
        metric = load_object(name)
    else:
        points = plugin_names(METRIC_GROUP)
        metric = load_entry_point(points[require_name(name, (*METRICS, *points), "metric")])
    if not isinstance(metric, Metric):
        raise UnknownNameError(f"{name!r} names {metric!r:.100}, which is not a decabench.metrics.Metric.")
    return metric


def score_task(
    metrics: Sequence[str],
    predictions: Sequence[str],
    references: Sequence[Reference],
    pool: Executor | None,
    refused: Sequence[int] = (),
) -> TaskScores:
    """Score by the first metric, which gives the headline, and add the other metrics' further scores.

    `refused` are the places of refused answers, which are wrong even where an empty answer is right.
    """
    statistics: dict[str, Any] = {}
    known: set[str] = set()
    for name in metrics:
        metric = find_metric(name).for_data(references)
        if metric.headline in known:
            continue  # em, nem and nf1 come from the same rows
        texts = predictions
        if refused and metric.empty_may_be_right:
            texts = list(predictions)
            for at in refused:
                texts[at] = REFUSED
        statistics[name] = rows = _compute_rows(name, metric, texts, references, pool)
        known |= score_rows(metric, rows[:1]).details.keys()
    return TaskScores.of_rows(statistics, references)


def _compute_rows(
    name: str,
    metric: Metric,
    predictions: Sequence[str],
    references: Sequence[Reference],
    pool: Executor | None,
) -> Any:
    """Compute the statistics, in other processes where that takes less time than sending them the examples."""
    import numpy as np

    if metric.scope != "example":
        return _to_array(metric.statistics(predictions, references))
    if pool is None:
        return np.concatenate([*_parts_of_rows(metric, predictions, references)])
    begun = time.process_time()
    rows = list(metric.statistics(predictions[:_CHUNK], references[:_CHUNK]))
    left = max(len(references) - _CHUNK, 0)
    if (time.process_time() - begun) / _CHUNK * left < _WORTH_SECONDS:
        rest = _parts_of_rows(metric, predictions[_CHUNK:], references[_CHUNK:])
        return np.concatenate([_to_array(rows), *rest])
    starts = range(_CHUNK, len(references), _CHUNK)
    parts = pool.map(
        _statistics,
        [name] * len(starts),
        [list(predictions[start : start + _CHUNK]) for start in starts],
        [list(references[start : start + _CHUNK]) for start in starts],
    )
    return _to_array(rows + [row for part in parts for row in part])


_PART = 10_000
"""So many examples are scored before their rows become an array: tuples take four times as much memory."""


def _parts_of_rows(
    metric: Metric, predictions: Sequence[str], references: Sequence[Reference]
) -> Iterator[Any]:
    """Yield the statistics of examples that can be scored apart from each other."""
    items = iter(references)
    for start in range(0, len(predictions), _PART):
        part = predictions[start : start + _PART]
        yield _to_array(metric.statistics(part, list(islice(items, len(part)))))


def _to_array(rows: Sequence[Row]) -> Any:
    import numpy as np

    return np.asarray(rows, dtype=float)


def _statistics(name: str, predictions: list[str], references: list[Reference]) -> Sequence[Row]:
    return find_metric(name).statistics(predictions, references)


@contextmanager
def worker_pool(jobs: int, examples: int) -> Iterator[Executor | None]:
    """Provide a pool of processes, or None if there is too little to do for them."""
    if jobs < 2 or examples < _WORTH_A_PROCESS:
        yield None
        return
    with process_pool(jobs) as pool:
        yield pool


def ids_of(references: Sequence[Item]) -> list[str]:
    """Return the ids of references, without making an item for each if they are in columns."""
    while isinstance(references, Deferred):
        references = references.values
    return references.ids if isinstance(references, References) else [item.id for item in references]


def unit_numbers(references: Sequence[Item]) -> Any:
    if isinstance(references, References):
        return references.unit_numbers()
    return number_units([item.units for item in references])


def select(references: Sequence[Example], places: Sequence[int]) -> Sequence[Example]:
    """Return the references at some places, which are in order."""
    if len(places) == len(references):
        return references
    wanted = set(places)
    return [item for at, item in enumerate(references) if at in wanted]
