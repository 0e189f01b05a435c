"""Scores of what is done, and contrasts between rows by the harness's own inference for pairs of systems.

Answers of several seeds are pooled: the score is the mean of theirs, what each text adds to it is averaged over them,
and texts vary together with what they were sampled in. The error that other texts would cause is that of the harness's
inference for pairs; other seeds would cause another, the standard deviation of the difference over seeds. A contrast's
interval and p have both. A suite's mean is tested as on a board: tasks are sampled independently.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import mean, stdev

import numpy as np

from decabench.errors import DataError
from decabench.metrics import Metric
from decabench.scoring import (
    PairTests,
    Sample,
    ScoredTask,
    ScoringOptions,
    compare_pairs,
    find_metric,
    flip_signs,
    score_submission,
    score_task,
    student_p,
    student_t,
)
from decabench.tasks import Store, find_overlap, home_folder
from reproduction.plan import Contrast, Measure, Place, Plan, Run, suite_of, task_of, tasks_of

Scored = Mapping[str, Mapping[str, Mapping[int, ScoredTask]]]
"""Row to task to seed to what its score is based on."""

LeftOut = Mapping[str, Collection[str]]
"""Task to the ids of examples to leave out."""


class NotTestedError(Exception):
    """Why there is no test of a score."""


def score_run(plan: Plan, run: Run, seed: int, place: Place) -> Mapping[str, ScoredTask]:
    """Score a run's answers: what each task's score is based on."""
    options = ScoringOptions(plan.split, None, place.home, 1, place.include)
    return score_submission(place.submission(run.name, seed), options)[1]


def read_scores(plan: Plan, place: Place) -> Scored:
    """Score all submissions that are done. Ends with DataError if one has a task that failed."""
    found: dict[str, dict[str, dict[int, ScoredTask]]] = {}
    for run in plan.runs:
        for seed in plan.seeds_of(run):
            if place.results(plan, run, seed).exists():
                for task, own in score_run(plan, run, seed, place).items():
                    if own.sample is None:
                        raise DataError(
                            f"{task} of {run.name}, seed {seed}, has no score: {own.result.reason}"
                        )
                    found.setdefault(run.title, {}).setdefault(task, {})[seed] = own
    return found


def find_left_out(plan: Plan, place: Place) -> LeftOut:
    """Find the examples of suites to leave out: their text stands in a split to learn from, of any of the tasks."""
    if not plan.overlap:
        return {}
    found: dict[str, set[str]] = {}
    suites = dict.fromkeys(measure.suite for measure in plan.measures.values() if measure.suite)
    store = Store(home_folder(place.home))
    for suite in suites:
        tasks = suite_of(suite, place.include).tasks
        for one in find_overlap(store, tasks, (plan.split,), plan.overlap):
            found.setdefault(one.task, set()).update(one.exact)
    return found


def values(
    scored: Scored, row: str, measure: Measure, place: Place, left_out: LeftOut | None = None
) -> dict[int, float]:
    """Return a measure's figures by seed, without the examples to leave out: seeds with all of its tasks done."""
    tasks = tasks_of(measure, place.include)
    found = {}
    for seed in _common_seeds(scored, [row], tasks):
        scores = {}
        for task in tasks:
            own = scored[row][task][seed]
            name = measure.score if measure.score and not measure.suite else own.result.headline
            if name not in own.result.scores:
                names = ", ".join(own.result.scores)
                raise DataError(f"There is no score {name!r} of {task} in row {row}: {names}.")
            unwanted = (left_out or {}).get(task, ())
            scores[task] = (
                make_sample(own, name, unwanted, place).score if unwanted else own.result.scores[name]
            )
        found[seed] = _combine(measure, scores, place)
    return found


def _combine(measure: Measure, scores: Mapping[str, float], place: Place) -> float:
    """Combine the scores of a measure's tasks: of a suite, by its sum or mean."""
    if not measure.suite:
        return scores[measure.task]
    total = suite_of(measure.suite, place.include).combine(scores)
    if total is None:
        raise DataError(f"The suite {measure.suite} has no total: measure its tasks one by one.")
    return total


def _common_seeds(scored: Scored, rows: Sequence[str], tasks: Sequence[str]) -> list[int]:
    """Return the seeds for which all tasks of all rows are done."""
    done = [set(scored.get(row, {}).get(task, {})) for row in rows for task in tasks]
    return sorted(set.intersection(*done)) if done else []


def progress(scored: Scored, row: str, measure: Measure, place: Place) -> tuple[int, int]:
    """Return how many of a measure's tasks are done with some seed, and how many there are."""
    tasks = tasks_of(measure, place.include)
    return sum(task in scored.get(row, {}) for task in tasks), len(tasks)


@dataclass(frozen=True)
class SeedTest:
    """What other texts and other seeds would give."""

    low: float
    """The lower end of the 95 % interval of the difference."""
    high: float
    """Its upper end."""
    p: float
    """The two-sided p of no difference."""


@dataclass(frozen=True)
class Tested:
    """A contrast on one measure, of the seeds for which all of its rows are done."""

    difference: float
    """The row's figure minus the baseline's, of pooled seeds."""
    test: PairTests | None
    """The test over texts, for these seeds; None if there is none."""
    by_seed: Mapping[int, float]
    """The difference for each seed."""
    examples: int
    """The number of texts, each counted once."""
    remark: str = ""
    """Why there is no test."""

    @property
    def over_seeds(self) -> SeedTest | None:
        """The test over texts and seeds; None for a single seed, which does not say how much seeds differ.

        The variance of the pooled difference is that over texts plus that over seeds by their number. Degrees of
        freedom are Satterthwaite's: those of the seeds, and of the texts without end.
        """
        if self.test is None or len(self.by_seed) < 2:
            return None
        seeds = stdev(self.by_seed.values()) ** 2 / len(self.by_seed)
        variance = float(self.test.errors[0, 1]) ** 2 + seeds
        if not variance > 0:
            return None
        freedom = (len(self.by_seed) - 1) * (variance / seeds) ** 2 if seeds else math.inf
        error = math.sqrt(variance)
        reach = student_t(freedom) * error
        p = student_p(self.difference / error, freedom)
        return SeedTest(self.difference - reach, self.difference + reach, p)


def compare_rows(
    contrast: Contrast, measure: Measure, scored: Scored, place: Place, left_out: LeftOut | None = None
) -> Tested | None:
    """Test a contrast on one measure, without the examples to leave out; None if no seed is done for all its rows."""
    tasks = tasks_of(measure, place.include)
    sides = (contrast.baseline, (contrast.row,))
    seeds = _common_seeds(scored, (*contrast.baseline, contrast.row), tasks)
    if not seeds:
        return None
    score = "" if measure.suite else measure.score
    try:
        samples = {
            (row, task, seed): make_sample(
                scored[row][task][seed], score, (left_out or {}).get(task, ()), place
            )
            for row in (*contrast.baseline, contrast.row)
            for task in tasks
            for seed in seeds
        }
    except NotTestedError as error:
        theirs, ours = ([values(scored, row, measure, place) for row in rows] for rows in sides)
        gains = {seed: mean(one[seed] for one in ours) - mean(one[seed] for one in theirs) for seed in seeds}
        return Tested(mean(gains.values()), None, gains, 0, str(error))
    pooled = [
        [average([average([samples[row, task, seed] for seed in seeds]) for row in rows]) for task in tasks]
        for rows in sides
    ]

    def figure(rows: Sequence[str], seed: int) -> float:
        scores = {task: mean(samples[row, task, seed].score for row in rows) for task in tasks}
        return _combine(measure, scores, place)

    combination = suite_of(measure.suite, place.include).total if measure.suite else "sum"
    if combination == "none":
        raise DataError(f"The suite {measure.suite} has no total: contrast its tasks one by one.")
    test = compare_pairs([flip_signs(pair) for pair in zip(*pooled, strict=True)], combination)
    return Tested(
        difference=float(test.differences[0, 1]),
        test=test,
        by_seed={seed: figure(sides[1], seed) - figure(sides[0], seed) for seed in seeds},
        examples=sum(sample.examples for sample in pooled[0]),
    )


def average(samples: Sequence[Sample]) -> Sample:
    """Average several answers to the same texts: the score is the mean of theirs, and so is what each unit adds to it.

    Statistics themselves are not averaged: those of a correlation are on another scale for each model.
    """
    first = samples[0]
    if len(samples) == 1:
        return first
    effects = np.mean([sample.effects for sample in samples], axis=0)
    parts = first.sizes / first.examples * mean(sample.score for sample in samples) + effects
    headline = first.metric.headline
    metric = replace(first.metric, columns=("part",), score=lambda totals: {headline: totals["part"]})
    return replace(first, metric=metric, rows=parts[:, None], influence=effects)


def make_sample(scored: ScoredTask, score: str, left_out: Collection[str], place: Place) -> Sample:
    """Return the statistics of a score, the task's headline if empty, without some examples.

    Raises NotTestedError for a score that the statistics cannot be resampled for.
    """
    assert scored.sample is not None
    if not left_out and score in ("", scored.result.headline):
        return scored.sample
    kept = [at for at, item in enumerate(scored.references) if item.id not in left_out]
    references = [scored.references[at] for at in kept]
    name, metric = _find_metric_of(score or scored.result.headline, scored, place)
    answers = [scored.predictions[at] for at in kept]
    rows = score_task((name,), answers, references, None).statistics[name]
    made = metric.for_data(references)
    return Sample.of(made, rows, [item.units for item in references], scored.sample.name)


def _find_metric_of(score: str, scored: ScoredTask, place: Place) -> tuple[str, Metric]:
    """Return the metric, of those of a task, that has a score, with that score as its headline, and its name."""
    task = task_of(scored.sample.name if scored.sample else "", place.include)
    for name in (task.metric, *task.secondary):
        if find_metric(name).headline == score:
            return name, find_metric(name)
    for name in (task.metric, *task.secondary):
        metric = find_metric(name)
        rows = score_task((name,), scored.predictions[:1], scored.references[:1], None)
        if score not in rows.scores:
            continue
        if metric.influence is not None:
            raise NotTestedError(f"{score} is no function of sums of the statistics of {name}")
        percents = metric.range == (0.0, 100.0)
        return name, replace(
            metric, headline=score, range=metric.range if percents else (-math.inf, math.inf)
        )
    raise NotTestedError(f"no metric of {task.name} has {score}")
