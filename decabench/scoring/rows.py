"""Statistics rows for many examples at once, on several processes where that pays, always in the same order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass

from decabench.errors import UnknownNameError, require_name
from decabench.metrics import METRICS, Metric, Reference, Row, score_rows
from decabench.plugins import load_entry_point, load_object, plugin_names
from decabench.workers import process_pool

__all__ = ["GROUP", "TaskScores", "find_metric", "score_task", "workers"]

GROUP = "decabench.metrics"
"""The entry-point group of packages that bring metrics."""

_CHUNK = 500
_WORTH_A_PROCESS = 2_000  # examples of a slow metric that take longer than starting processes


@dataclass(frozen=True)
class TaskScores:
    """All scores of one task."""

    headline: str
    """Which of them is the task's."""
    scores: Mapping[str, float]
    """By name, 0-100."""
    signatures: Mapping[str, str]
    """Metric name to signature."""
    rows: Sequence[Row]
    """The headline metric's statistics, one row an example."""


def find_metric(name: str) -> Metric:
    """A metric of ours, of an installed package, or `package.module:object`. Raises UnknownNameError."""
    if name in METRICS:
        return METRICS[name]
    if ":" in name:
        metric = load_object(name)
    else:
        points = plugin_names(GROUP)
        metric = load_entry_point(points[require_name(name, (*METRICS, *points), "metric")])
    if not isinstance(metric, Metric):
        raise UnknownNameError(f"{name!r} names {metric!r:.100}, which is no decabench.metrics.Metric.")
    return metric


@contextmanager
def workers(jobs: int, examples: int) -> Iterator[Executor | None]:
    """A pool of processes where there is enough to do, else None."""
    if jobs < 2 or examples < _WORTH_A_PROCESS:
        yield None
        return
    with process_pool(jobs) as pool:
        yield pool


def score_task(
    metrics: Sequence[str], predictions: Sequence[str], references: Sequence[Reference], pool: Executor | None
) -> TaskScores:
    """Scores by the first metric, which gives the headline, and by the others, which add what it lacks."""
    scores: dict[str, float] = {}
    signatures: dict[str, str] = {}
    headline_rows: list[Row] = []
    for name in metrics:
        metric = find_metric(name)
        if metric.headline in scores:
            continue  # em, nem and nf1 come from the same rows
        rows = _rows(metric, name, predictions, references, pool)
        headline_rows = headline_rows or rows
        scores = {**score_rows(metric, rows).details, **scores}
        signatures[name] = metric.full_signature
    return TaskScores(find_metric(metrics[0]).headline, scores, signatures, headline_rows)


def _rows(
    metric: Metric,
    name: str,
    predictions: Sequence[str],
    references: Sequence[Reference],
    pool: Executor | None,
) -> list[Row]:
    if pool is None:
        return metric.statistics(predictions, references)
    cuts = list(_cuts(metric, references))
    parts = pool.map(
        _statistics,
        [name] * len(cuts),
        [list(predictions[start:end]) for start, end in cuts],
        [list(references[start:end]) for start, end in cuts],
    )
    return [row for part in parts for row in part]


def _statistics(name: str, predictions: list[str], references: list[Reference]) -> list[Row]:
    return find_metric(name).statistics(predictions, references)


def _cuts(metric: Metric, references: Sequence[Reference]) -> Iterator[tuple[int, int]]:
    """Slices that the metric may be given alone: groups that state accumulates over are not cut."""
    if metric.scope != "example":
        # Groups may be interleaved, and corpus metrics need everything: neither is slow.
        yield 0, len(references)
        return
    for start in range(0, len(references), _CHUNK):
        yield start, min(start + _CHUNK, len(references))
