"""Scores of completed runs, and contrasts between rows.

The score of a row with several seeds is the mean of their scores, and the effect of each text is averaged
over the seeds. Intervals and p values account for two sources of error. The error from the choice of
texts is computed with the paired inference of `decabench compare`. The error from the choice of seeds is
the variance from seed to seed. Two or three seeds give a poor estimate of the variance, so it is pooled
over the rows of a kind, unless these rows seem to vary differently. Rows with one model for all tasks are
one kind, and rows whose figure is the mean of several models are the other kind.

Rows don't have to use the same seeds, because a seed has no meaning across architectures. A suite's mean
is tested as on a board, with tasks sampled independently.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import mean, variance

import numpy as np
from scipy.optimize import brentq
from scipy.stats import bartlett, norm
from scipy.stats import t as student

from decabench.errors import DataError
from decabench.metrics import Metric
from decabench.scoring import (
    PairTests,
    ReadAnswers,
    Sample,
    ScoredTask,
    ScoringOptions,
    compare_pairs,
    find_metric,
    flip_signs,
    numbers_agree,
    read_results_file,
    read_statistics,
    score_submission,
    score_task,
    statistics_path,
)
from decabench.submission import open_submission
from decabench.tasks import TASKS, Store, find_overlap, number_units
from papers.plan import (
    Contrast,
    Measure,
    Place,
    Plan,
    SeededRun,
    key_of,
    measured_tasks,
    seeded_runs,
    suite_of,
    task_of,
    tasks_of,
)

Scored = Mapping[str, Mapping[str, Mapping[int, ScoredTask]]]
"""The scored tasks by row, task (`TASK.SPLIT` for a split other than the plan's) and seed."""

LeftOut = Mapping[str, Collection[str]]
"""The ids of examples to leave out, by task."""


FIXED = -1
"""The seed number of untrained rows."""

LEAST_FREEDOM = 2
"""The minimum degrees of freedom. With fewer, seeds would seem to have no effect if two of them happened to agree."""

UNLIKE = 0.05
"""The p value of Bartlett's test below which rows count as varying differently over seeds."""

LEAST_VARIANCE = 1e-18
"""Figures with a smaller variance count as equal, because of rounding errors."""

CONFIDENCE = 0.95


class NotTestedError(Exception):
    """Raised, with the reason, if a score can't be tested."""


def score_run(one: SeededRun) -> Mapping[str, ScoredTask]:
    """Score a run's answers on all splits that have results.

    If a record leaves out answers, their scores are read from its results and checked against their
    statistics.
    """
    found = dict[str, ScoredTask]()
    for split in one.splits:
        results = one.results(split)
        if results.exists():
            other = "" if split == one.plan.split else split
            withheld = _read_withheld(one.submission, results, split)
            found |= {key_of(task, other): own for task, own in withheld.items()}
            found |= _score(one.submission, split, one.plan, one.place)
    return found


def _read_withheld(folder: Path, results: Path, split: str) -> Mapping[str, ScoredTask]:
    """Return the scores of the tasks whose answers are withheld, computed from the record's statistics.

    Tasks without statistics are left out, as in older records. Raises DataError if the statistics don't match the
    results.
    """
    found = dict[str, ScoredTask]()
    with open_submission(folder) as opened:
        for task, result in read_results_file(results).tasks.items():
            if (task, split) in opened.files or not statistics_path(results.parent, task).is_file():
                continue
            try:
                path = statistics_path(results.parent, task)
                metric, units, rows = read_statistics(path, find_metric(result.metric))
            except DataError as error:
                raise DataError(f"{task} of {folder.name}: {error}") from None
            sample = Sample.of_levels(metric, rows, units, task)
            if sample.examples != result.n or not numbers_agree(result.score, sample.score):
                raise DataError(
                    f"{task} of {folder.name}: the score is {result.score} on {result.n:,} examples, but its "
                    f"statistics give {sample.score:.4f} on {sample.examples:,}. Restore the record."
                )
            found[task] = ScoredTask(TASKS[task], result, sample)
    return found


def _score(
    folder: Path, split: str, plan: Plan, place: Place, tasks: Sequence[str] | None = None
) -> Mapping[str, ScoredTask]:
    options = ScoringOptions(split, tasks, place.home, 1, place.include)
    other = "" if split == plan.split else split
    return {key_of(task, other): own for task, own in score_submission(folder, options)[1].items()}


def read_scores(plan: Plan, place: Place) -> Scored:
    """Score all completed submissions. Raises DataError if a task in one of them failed."""
    found: dict[str, dict[str, dict[int, ScoredTask]]] = {}

    def keep(row: str, name: str, seed: int, scored: Mapping[str, ScoredTask]) -> None:
        for task, own in scored.items():
            if own.sample is None:
                raise DataError(f"{task} of {name} has no score: {own.result.reason}")
            found.setdefault(row, {}).setdefault(task, {})[seed] = own

    for one in seeded_runs(plan, place):
        if one.is_scored:
            keep(one.run.title, f"{one.title},", one.seed, score_run(one))
    for baseline in plan.baselines:
        folder = place.plan.parent / baseline.submission
        with open_submission(folder) as opened:
            files = list(opened.files)
        for split in plan.splits:
            measured = measured_tasks(plan, split, place.include)
            answered = [task for task, own in files if own == split and task in measured]
            if answered:
                keep(baseline.row, baseline.submission, FIXED, _score(folder, split, plan, place, answered))
    return found


def find_left_out(plan: Plan, place: Place) -> LeftOut:
    """Return the examples to leave out because their text also occurs in a training split of any task."""
    if not plan.overlap:
        return {}
    found: dict[str, set[str]] = {}
    suites = dict.fromkeys(measure.suite for measure in plan.measures.values() if measure.suite)
    store = Store(place.home)
    for suite in suites:
        tasks = suite_of(suite, place.include).tasks
        for one in find_overlap(store, tasks, (plan.split,), plan.overlap):
            found.setdefault(one.task, set()).update(
                one.exact if plan.overlap_by == "exact" else one.normalised
            )
    return found


def leave_out(scored: Scored, left_out: LeftOut) -> Scored:
    """Return the scores without some examples. A task without remaining examples is dropped.

    References, answers, statistics and the main score cover the remaining examples; everything else stays the same.
    Raises DataError if examples have to be left out but their answers are not available.
    """

    def reduce(own: ScoredTask, unwanted: Collection[str]) -> ScoredTask | None:
        if not own.predictions and unwanted:
            name = own.sample.name if own.sample else ""
            raise DataError(
                f"The answers to {name} are withheld, but the plan leaves out some of its examples because of "
                "overlap. Make the page on the machine that has the answers."
            )
        kept = [at for at, item in enumerate(own.references) if item.id not in unwanted]
        if len(kept) == len(own.references):
            return own
        if not kept:
            return None
        left = ReadAnswers([own.references[at] for at in kept], [own.predictions[at] for at in kept])
        less = replace(own, read=lambda: left)
        sample = _make_sample(less, own.result.metric, find_metric(own.result.metric))
        scores = {own.result.headline: sample.score}
        return replace(less, sample=sample, result=replace(own.result, scores=scores))

    found: dict[str, dict[str, dict[int, ScoredTask]]] = {}
    for row, tasks in scored.items():
        for task, seeds in tasks.items():
            for seed, own in seeds.items():
                if less := reduce(own, left_out.get(task, ())):
                    found.setdefault(row, {}).setdefault(task, {})[seed] = less
    return found


def values(scored: Scored, row: str, measure: Measure, place: Place) -> dict[int, float]:
    """Return a row's figures on a measure, by seed, for the seeds with results on all of the measure's tasks."""
    tasks = tasks_of(measure, place.include)
    found = {}
    for seed in _seeds_of(scored, row, measure, place):
        scores = {}
        for task in tasks:
            own = scored[row][measure.key_of(task)][seed]
            name = measure.score if measure.score and not measure.suite else own.result.headline
            if name not in own.result.scores:
                names = ", ".join(own.result.scores)
                raise DataError(f"{task} has no score {name!r} in row {row}: choose from {names}.")
            scores[task] = own.result.scores[name]
        found[seed] = combine(measure, scores, place)
    return found


def combine(measure: Measure, scores: Mapping[str, float], place: Place) -> float:
    """Combine the scores of a measure's tasks, using the suite's sum or mean."""
    if not measure.suite:
        return scores[measure.task]
    total = suite_of(measure.suite, place.include).combine(scores)
    if total is None:
        raise DataError(f"The suite {measure.suite} has no total. Measure its tasks separately.")
    return total


def _seeds_of(scored: Scored, row: str, measure: Measure, place: Place) -> list[int]:
    keys = [measure.key_of(task) for task in tasks_of(measure, place.include)]
    return sorted(set.intersection(*(set(scored.get(row, {}).get(key, {})) for key in keys)))


def progress(scored: Scored, row: str, measure: Measure, place: Place) -> tuple[int, int]:
    """Return how many of a measure's tasks are scored for a row, and how many there are.

    If seeds differ, the first number is that of the seed with the most scores.
    """
    tasks = tasks_of(measure, place.include)
    done = [seed for task in tasks for seed in scored.get(row, {}).get(measure.key_of(task), {})]
    return max(map(done.count, done), default=0), len(tasks)


@dataclass(frozen=True)
class Spread:
    """The variation of a figure between seeds."""

    variance: float
    """The variance over a row's seeds, pooled over rows."""
    freedom: int
    """The degrees of freedom of the variance."""


_UNKNOWN = Spread(math.nan, 0)


def seed_spread(figures: Iterable[Collection[float]]) -> Spread | None:
    """Return the pooled variance over seeds, given each row's figures, or None if no row has two seeds."""
    several = [own for own in figures if len(own) > 1]
    freedom = sum(len(own) - 1 for own in several)
    if not freedom:
        return None
    return Spread(sum((len(own) - 1) * variance(own) for own in several) / freedom, freedom)


def kinds_of_rows(plan: Plan, measure: Measure, place: Place) -> dict[bool, list[str]]:
    """Return the trained rows in two groups.

    The key True is for rows whose figure comes from several models per seed, and False for all other rows. Models that
    start from the same weights are not independent, and count as one.
    """
    tasks, found = set(tasks_of(measure, place.include)), dict[bool, list[str]]()
    for row in plan.trained_rows:
        models = {
            run.init or run.checkpoint or run.name for run in plan.runs_of(row) if tasks & set(run.tasks)
        }
        found.setdefault(len(models) > 1, []).append(row)
    return found


def vary_unlike(figures: Iterable[Collection[float]]) -> bool:
    """Return whether rows seem to vary differently over seeds, by Bartlett's test (1937).

    Only rows with several seeds are tested. Rows whose seeds all have the same figure are left out, because the
    test doesn't allow a variance of 0.
    """
    several = [list(own) for own in figures if len(own) > 1 and variance(own) > LEAST_VARIANCE]
    return len(several) > 1 and float(bartlett(*several).pvalue) < UNLIKE


def spread_over_seeds(plan: Plan, scored: Scored, measure: Measure, place: Place) -> dict[str, Spread]:
    """Return each row's spread over seeds, if known, pooled over the rows of a kind.

    If too few rows of a kind have several seeds, the variance is pooled over all rows. If the rows of a
    kind vary differently, their variances are not pooled: see `own_spreads`.
    """
    figures = {row: list(values(scored, row, measure, place).values()) for row in plan.trained_rows}
    every, found = seed_spread(figures.values()), dict[str, Spread]()
    for rows in kinds_of_rows(plan, measure, place).values():
        of_kind = {row: figures[row] for row in rows}
        if vary_unlike(of_kind.values()):
            found |= own_spreads(of_kind)
            continue
        pooled = seed_spread(of_kind.values())
        if pooled is None or pooled.freedom < LEAST_FREEDOM:
            pooled = every
        if pooled is not None:
            found |= dict.fromkeys(rows, pooled)
    return found


def own_spreads(figures: Mapping[str, Collection[float]]) -> dict[str, Spread]:
    """Return the spread of each row, given the figures of rows that vary differently.

    A row with too few seeds, or whose seeds are all equal, gets the spread of the most variable row,
    because pooling would assume equal variances, which the test has rejected. If its own few seeds vary even
    more, its spread is unknown.
    """
    own = {row: seed_spread([its]) for row, its in figures.items()}
    enough = {
        row: spread
        for row, spread in own.items()
        if spread is not None and spread.freedom >= LEAST_FREEDOM and spread.variance > LEAST_VARIANCE
    }
    if not enough:
        return {}
    most = max(enough.values(), key=lambda spread: spread.variance)
    found = dict[str, Spread]()
    for row, spread in own.items():
        if row in enough:
            found[row] = enough[row]
        elif spread is None or spread.variance <= most.variance:
            found[row] = most
    return found


@dataclass(frozen=True)
class SeedTest:
    """The result of a test over texts and seeds."""

    low: float
    """The lower end of the 95% interval of the difference."""
    high: float
    """The upper end of the 95% interval of the difference."""
    p: float
    """The two-sided p value for the hypothesis that there is no difference."""


@dataclass(frozen=True)
class Tested:
    """The result of a contrast on one measure, over all seeds that are done."""

    difference: float
    """The row's figure minus the baseline's, each as a mean over seeds."""
    test: PairTests | None
    """The test over texts for the trained models, or None if the score can't be tested."""
    by_seed: Mapping[int, float]
    """The difference for each seed that all rows share."""
    seeds: Mapping[str, int]
    """The number of seeds of each row."""
    models: Mapping[str, float]
    """Maps each trained row to the factor by which its variance over seeds enters the variance of the difference. The
    factor is 1 / (n² seeds) for one of n baselines, and 1 / seeds for the row that is compared with them."""
    examples: int
    """The number of texts, counting each text once."""
    units: int
    """The number of sampling units: texts, or groups of texts."""
    effective: float
    """The effective number of units, as if all units had the same size."""
    spreads: Mapping[str, Spread]
    """The variation between seeds, for each row where it is known."""
    remark: str = ""
    """Why there is no test. Empty if there is a test."""

    @cached_property  # the search for p is slow, and tables, summaries and verdicts all need it
    def over_seeds(self) -> SeedTest | None:
        """The test over texts and seeds. None without a test, or if the variation over seeds is unknown.

        The interval's half-width is the root of the sum of squares of the half-widths over texts and over
        the seeds of each kind of row, each from Student's t with its own degrees of freedom (Zou and
        Donner 2008). The interval is therefore never narrower than any of these, at any level.
        Satterthwaite's common degrees of freedom would produce small p values too often if a variance
        comes from few seeds and happens to be small.
        """
        reach = self._reach()
        if reach is None:
            return None
        if any(self.spreads.get(row, _UNKNOWN).freedom < LEAST_FREEDOM for row in self.models):
            return None
        models: dict[Spread, float] = {}  # rows of the same kind share a spread
        for row, weight in self.models.items():
            models[self.spreads[row]] = models.get(self.spreads[row], 0.0) + weight
        normal = norm.isf((1 - CONFIDENCE) / 2)
        parts = [((reach / normal) ** 2, math.inf)]
        parts += [(kind.variance * weight, kind.freedom) for kind, weight in models.items()]
        if not sum(part for part, _ in parts) > 0:
            return None
        half = _reach_at(1 - CONFIDENCE, parts)
        return SeedTest(self.difference - half, self.difference + half, _p_of(abs(self.difference), parts))

    @property
    def over_texts(self) -> tuple[float, float] | None:
        """The 95% interval over texts for the trained models, or None without a test."""
        texts = self.test.interval(0, 1) if self.test else None
        return texts.ends if texts else None

    def _reach(self) -> float | None:
        if self.test is None:
            return None
        if (texts := self.test.interval(0, 1)) is None:
            return 0.0 if self.test.is_same(0, 1) else None
        return max(texts.high - self.difference, self.difference - texts.low)


def _reach_at(alpha: float, parts: Sequence[tuple[float, float]]) -> float:
    """Return the half-width of the 1 - `alpha` interval, given variances and their degrees of freedom."""
    return math.sqrt(sum(part * student.isf(alpha / 2, freedom) ** 2 for part, freedom in parts if part))


def _p_of(size: float, parts: Sequence[tuple[float, float]]) -> float:
    least = 1e-12
    if size >= _reach_at(least, parts):
        return least
    return float(brentq(lambda alpha: _reach_at(alpha, parts) - size, least, 1.0))


def compare_rows(
    contrast: Contrast,
    measure: Measure,
    scored: Scored,
    place: Place,
    spreads: Mapping[str, Spread] | None = None,
) -> Tested | None:
    """Test a contrast on one measure, including the variation over seeds.

    Returns None if a row has no completed seed.
    """
    tasks = tasks_of(measure, place.include)
    sides = (contrast.baseline, (contrast.row,))
    rows = (*contrast.baseline, contrast.row)
    seeds = {row: _seeds_of(scored, row, measure, place) for row in rows}
    if not all(seeds.values()):
        return None
    figures = {row: values(scored, row, measure, place) for row in rows}
    trained = [set(own) for own in seeds.values() if own != [FIXED]]
    shared = set.intersection(*trained) if trained else set()
    gains = {
        seed: _figure_at(figures[contrast.row], seed)
        - mean(_figure_at(figures[row], seed) for row in contrast.baseline)
        for seed in sorted(shared)
    }
    difference = mean(figures[contrast.row].values()) - mean(
        mean(figures[row].values()) for row in contrast.baseline
    )
    models = {
        row: len(side) ** -2 / len(seeds[row]) for side in sides for row in side if seeds[row] != [FIXED]
    }
    counts = {row: len(own) for row, own in seeds.items() if own != [FIXED]}
    score = "" if measure.suite else measure.score
    try:
        samples = {
            (row, task): average(
                [make_sample(scored[row][measure.key_of(task)][seed], score, place) for seed in seeds[row]]
            )
            for row in rows
            for task in tasks
        }
    except NotTestedError as error:
        return Tested(difference, None, gains, counts, models, 0, 0, 0.0, spreads or {}, str(error))
    combination = suite_of(measure.suite, place.include).total if measure.suite else "sum"
    if combination == "none":
        raise DataError(f"The suite {measure.suite} has no total. Contrast its tasks separately.")
    pairs = [[average([samples[row, task] for row in side]) for side in sides] for task in tasks]
    return Tested(
        difference=difference,
        test=compare_pairs([flip_signs(pair) for pair in pairs], combination),
        by_seed=gains,
        seeds=counts,
        models=models,
        examples=sum(pair[0].examples for pair in pairs),
        units=sum(len(pair[0].sizes) for pair in pairs),
        effective=sum(pair[0].effective for pair in pairs),
        spreads=spreads or {},
    )


def _figure_at(figures: Mapping[int, float], seed: int) -> float:
    return figures[seed] if seed in figures else figures[FIXED]


def average(samples: Sequence[Sample]) -> Sample:
    """Average several sets of answers to the same texts: their scores, and each unit's contribution.

    The statistics themselves are not averaged, because a correlation's statistics have a different scale
    for each model.
    """
    first = samples[0]
    if len(samples) == 1:
        return first
    effects = np.mean([sample.effects for sample in samples], axis=0)
    parts = first.sizes / first.examples * mean(sample.score for sample in samples) + effects
    headline = first.metric.headline
    metric = replace(first.metric, columns=("part",), score=lambda totals: {headline: totals["part"]})
    return replace(first, metric=metric, rows=parts[:, None], influence=effects)


def make_sample(scored: ScoredTask, score: str, place: Place) -> Sample:
    """Return the statistics of a score, by default the task's main score.

    Raises NotTestedError for a score whose statistics can't be resampled.
    """
    assert scored.sample is not None
    if score in ("", scored.result.headline):
        return scored.sample
    return _make_sample(scored, *_find_metric_of(score, scored, place))


def _make_sample(scored: ScoredTask, name: str, metric: Metric) -> Sample:
    """Return the statistics of the metric called `name`.

    `metric` is this metric, or a copy of it with another main score.
    """
    assert scored.sample is not None
    references = scored.references
    rows = score_task((name,), scored.predictions, references, None).statistics[name]
    units = number_units([item.units for item in references])
    return Sample.of_levels(metric.for_data(references), rows, units, scored.sample.name)


def _find_metric_of(score: str, scored: ScoredTask, place: Place) -> tuple[str, Metric]:
    task = task_of(scored.sample.name if scored.sample else "", place.include)
    if not scored.predictions:
        raise NotTestedError(f"the answers behind {score} are withheld")
    for name in task.metrics:
        if find_metric(name).headline == score:
            return name, find_metric(name)
    for name in task.metrics:
        metric = find_metric(name)
        rows = score_task((name,), scored.predictions[:1], scored.references[:1], None)
        if score not in rows.scores:
            continue
        if metric.influence is not None:
            raise NotTestedError(f"{score} cannot be computed from sums of {name}'s statistics")
        percents = metric.range == (0.0, 100.0)
        return name, replace(
            metric, headline=score, range=metric.range if percents else (-math.inf, math.inf)
        )
    raise NotTestedError(f"no metric of {task.name} has {score}")
