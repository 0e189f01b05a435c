"""Compare submissions on the same examples, with differences, intervals, paired tests and regressions."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, combinations
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from decabench.errors import SubmissionError
from decabench.scoring.evaluator import ScoringOptions, restricted, score_submission, shown_ids
from decabench.scoring.pairs import (
    LEVEL,
    RESAMPLES,
    FlippedTask,
    PairTests,
    compare_pairs,
    examples_for_one_point,
    flip_signs,
    holm,
)
from decabench.scoring.results import (
    Results,
    hidden_decimals,
    model_of,
    plain_record,
    score_digits,
    show_html,
    show_lines,
)
from decabench.scoring.significance import Sample, SampledUnits, show_difference, show_p
from decabench.scoring.task_results import ScoredTask, ids_of
from decabench.tasks import DECATHLON, Store, Suite, select_suite

FORMAT = "decabench.comparison/1"
LINEUP_FORMAT = "decabench.lineup/1"

_OMITTED: Mapping[str, object] = {
    **dict.fromkeys(("level", "of", "units", "within")),
    "fixed": 0,
    "hidden": False,
    "higher_is_better": True,
    "same": False,
}
"""Fields to leave out of the JSON if they have these values."""

_NOTHING = 1e-9
"""Changes of less than this many points are treated as rounding errors."""

_MOST_ROWS = 1_000_000
"""The maximum number of rows to compute when swapping answers one at a time. Each row takes a few
microseconds.
"""


@dataclass(frozen=True)
class Flip:
    """An example on which B is worse than A."""

    id: str
    """The example's id."""
    loss: float
    """The number of points that the task's score loses if A's answer is replaced with B's."""
    question: str
    """The question."""
    context: str
    """The context of the question."""
    gold: tuple[str, ...]
    """All references."""
    a: str
    """A's answer."""
    b: str
    """B's answer."""


@dataclass(frozen=True)
class Compared:
    """A comparison of B with A on one task or a whole suite."""

    a: float
    """A's score."""
    b: float
    """B's score."""
    difference: float
    """B minus A in points. `gain` tells whether B is better."""
    interval: tuple[float, float] | None
    """The 95% interval of the difference, which excludes 0 if `p` is below 0.05; None if the interval would be
    unbounded, or if `same` is True."""
    p: float | None
    """The two-sided p-value of the difference; None if there is only one unit."""
    p_holm: float | None
    """`p` corrected for the number of tasks (Holm); None for a suite, which is one test."""
    examples: int
    """The number of compared examples."""
    examples_for_one_point: int | None
    """The number of examples needed to detect a difference of one point with 80% power; None if `same` is True, or if
    there is only one unit."""
    a_wins: int | None = 0
    """The number of examples on which A is better; None for a suite, or for rank metrics with many examples."""
    b_wins: int | None = 0
    """The number of examples on which B is better; None in the same cases as `a_wins`."""
    worst: tuple[Flip, ...] = ()
    """The examples on which B loses the most points."""
    higher_is_better: bool = True
    """Whether higher scores are better; False for error measures such as MSE."""
    units: SampledUnits | None = None
    """The resampled units, as in `TaskResult.units`; None for a suite."""
    same: bool = False
    """Whether A and B are equal on every sampled unit, so that no difference can be estimated."""
    digits: int = 2
    """The number of decimal places to print: 2, or 3 if the scale is narrow or unbounded."""
    hidden: bool = False
    """Whether the task's labels are hidden, so that no example is shown."""
    of: int | None = None
    """The number of examples in the split if only some of them were answered; for a suite, the sum over its tasks."""

    @property
    def gain(self) -> float:
        """The points by which B is better than A; negative if B is worse."""
        return self.difference if self.higher_is_better else -self.difference


@dataclass(frozen=True)
class Comparison:
    """The result of comparing two submissions."""

    a: str
    """A's name."""
    b: str
    """B's name."""
    split: str
    """The split."""
    tasks: Mapping[str, Compared]
    """The comparisons by task, for tasks scored in both submissions."""
    total: Compared | None
    """The comparison of the suite's total; None unless all of its tasks are scored in both submissions."""
    not_compared: Mapping[str, str]
    """The reasons why tasks were left out, by task."""
    seed: int
    """The seed for resampling."""
    suite: Suite = DECATHLON
    """The suite whose total is compared."""
    resamples: int = RESAMPLES
    """The number of resamples behind intervals and p-values."""
    a_path: str = ""
    """The path of submission A."""
    b_path: str = ""
    """The path of submission B."""
    on_sample: bool = False
    """Whether any task was scored on the bundled sample."""

    @property
    def labels(self) -> tuple[str, str]:
        """The names of A and B, with their paths if the names are the same."""
        if self.a != self.b or not (self.a_path and self.b_path):
            return self.a, self.b
        return f"{self.a} ({self.a_path})", f"{self.b} ({self.b_path})"

    def __repr__(self) -> str:
        return show_lines(self._title, [row[:5] for row in self.rows()])

    def _repr_html_(self) -> str:
        return show_html(self._title, self.HEADINGS, self.rows())

    @property
    def _title(self) -> str:
        a, b = self.labels
        return f"A {a}, B {b}, {self.split}"

    HEADINGS: ClassVar[Sequence[str]] = (
        *("task", "A", "B", "B - A", "95%", "p", "p (Holm)"),
        *("A wins", "B wins", "examples", "n for 1 point"),
    )

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yield a row of cells for each task and for the total. The columns are named in `HEADINGS`."""
        partial = " (partial)" if self.total and self.total.of else ""
        total = {f"{self.suite.total_name}{partial}": self.total} if self.total else {}
        for name, one in {**self.tasks, **total}.items():
            counts = (one.a_wins, one.b_wins, one.examples, one.examples_for_one_point)
            shown = ["–" if count is None else f"{count:,}" for count in counts]
            is_total = one is self.total
            yield (
                name if one.higher_is_better else f"{name} ↓",
                *(f"{value:.{one.digits}f}" for value in (one.a, one.b)),
                f"{one.difference:+.{one.digits}f}",
                show_difference(one.interval, one.same, one.digits),
                show_p(one.p),
                "" if is_total else show_p(one.p_holm),
                *(("", "") if is_total else shown[:2]),
                *shown[2:],
            )

    def describe_subsets(self) -> str:
        """Return a sentence about tasks that were compared on only some examples, or an empty string."""
        parts = [f"{name} {one.examples:,} of {one.of:,}" for name, one in self.tasks.items() if one.of]
        return f"Compared only on the answered examples: {', '.join(parts)}." if parts else ""

    def describe_correction(self) -> str:
        """Explain why some intervals exclude 0 although the corrected p-value is not below 0.05.

        Returns an empty string if there are no such intervals.
        """
        tested = [one for one in self.tasks.values() if one.p is not None]
        apart = [
            name
            for name, one in self.tasks.items()
            if one.p is not None and one.p < LEVEL and one.interval and one.p_holm and one.p_holm >= LEVEL
        ]
        if not apart:
            return ""
        chance = 100 * (1 - (1 - LEVEL) ** len(tested))
        subject = "the interval excludes" if len(apart) == 1 else "the intervals exclude"
        return (
            f"{', '.join(apart)}: {subject} 0, but p (Holm) is not below {LEVEL:g}. This is not a contradiction: "
            "the interval and p are for a single task, while p (Holm) is corrected for the number of tasks. "
            f"Among {len(tested)} independent tasks with no real difference, at least one interval excludes 0 "
            f"in up to {chance:.0f}% of comparisons."
        )

    def to_json(self) -> str:
        """Return canonical JSON."""
        content = {**plain_record(self, _OMITTED), "format": FORMAT, "suite": self.suite.name}
        if self.suite == DECATHLON:
            content["decascore"] = content.pop("total")
            del content["suite"]
        return json.dumps(content, ensure_ascii=False, indent=1, sort_keys=True) + "\n"


def compare(
    a: str | Path,
    b: str | Path,
    split: str = "validation",
    tasks: str | Sequence[str] | None = None,
    home: str | Path | None = None,
    jobs: int = 1,
    include: Sequence[str | Path] = (),
    suite: str | Suite | None = None,
    seed: int = 0,
    flips: int = 5,
) -> Comparison:
    """Compare submission B with submission A on the prepared data.

    `flips` is the number of worst regressions to return for each task. The parameters from `split` to `suite` are the
    same as in `evaluate`. Raises SubmissionError if no task is scored in both submissions, and the same errors as
    `evaluate`.
    """
    names = [tasks] if isinstance(tasks, str) else tasks
    options = ScoringOptions(split, names, home, jobs, include, suite=select_suite(suite, include))
    (results_a, results_b), (scored_a, scored_b), left_out = _score_all([a, b], "AB", options)
    common = list(scored_a)
    flipped = {task: flip_signs([_sample(scored_a[task]), _sample(scored_b[task])], seed) for task in common}
    tests = {task: compare_pairs([flipped[task]]) for task in common}
    corrected = _correct(tests)
    return Comparison(
        a=str(results_a.submission["name"]),
        b=str(results_b.submission["name"]),
        split=options.split,
        tasks={
            task: replace(
                _compare_task(scored_a[task], scored_b[task], tests[task], options, flips),
                p_holm=corrected.get((task, 0, 1)),
            )
            for task in common
        },
        total=_compare_totals(options.suite, scored_a, scored_b, flipped),
        not_compared=left_out,
        seed=seed,
        suite=options.suite,
        a_path=str(a),
        b_path=str(b),
        on_sample=any(results_a.tasks[task].data.origin == "sample" for task in common),
    )


def _score_all(
    submissions: Sequence[str | Path], names: Sequence[str], options: ScoringOptions
) -> tuple[list[Results], list[dict[str, ScoredTask]], dict[str, str]]:
    found = [score_submission(path, options) for path in submissions]
    matched, left_out = match_tasks([scored for _, scored in found], names)
    if not matched[0]:
        given = [Path(path).name for path in submissions]
        why = "".join(f" {task}: {reason}." for task, reason in left_out.items())
        raise SubmissionError(
            f"{', '.join(given[:-1])} and {given[-1]} have no scored {options.split} task in common.{why}"
        )
    return [results for results, _ in found], matched, left_out


def match_tasks(
    scored: Sequence[Mapping[str, ScoredTask]], names: Sequence[str]
) -> tuple[list[dict[str, ScoredTask]], dict[str, str]]:
    """Return the tasks of each submission that can be compared, and the reasons why other tasks were left out.

    All submissions must have answered the same examples. If a run is limited, full runs are rescored on the
    examples of that run.
    """
    same: list[dict[str, ScoredTask]] = [{} for _ in scored]
    reasons: dict[str, str] = {}
    for task in dict.fromkeys(chain.from_iterable(scored)):
        for name, each in zip(names, scored, strict=True):
            if task not in each:
                reasons[task] = f"{name} has no answers"
            elif each[task].sample is None:
                reasons[task] = f"{name} failed: {each[task].result.reason}"
        if task in reasons:
            continue
        found = [each[task] for each in scored]
        if any(each.result.partial for each in found):
            ids = [ids_of(each.references) for each in found]
            common = set(ids[0]).intersection(*ids)
            fewest = min(range(len(ids)), key=lambda at: len(ids[at]))
            if len(common) < len(ids[fewest]):
                other = next(at for at, each in enumerate(ids) if not {*ids[fewest]} <= {*each})
                listed = []
                for here, there in sorted([(fewest, other), (other, fewest)]):
                    known = {*ids[there]}
                    only = [id_ for id_ in ids[here] if id_ not in known]
                    listed.append(f"{len(only):,} only in {names[here]} ({shown_ids(only)})")
                reasons[task] = (
                    f"the submissions answered different examples ({', '.join(listed)}); use the same --sample and "
                    "--sample-seed, or the same --ids"
                )
                continue
            found = [restricted(one, own, common) for one, own in zip(found, ids, strict=True)]
        for kept, one in zip(same, found, strict=True):
            kept[task] = one
    return same, reasons


def _sample(scored: ScoredTask) -> Sample:
    assert scored.sample is not None  # tasks that failed were left out
    return scored.sample


def _compare_task(
    a: ScoredTask, b: ScoredTask, test: PairTests, options: ScoringOptions, flips: int
) -> Compared:
    gains = example_gains(a, b)
    order: Any = () if gains is None else np.argsort(gains, kind="stable")[:flips]
    hidden = a.hidden or b.hidden
    losses = [
        (int(index), float(-gains[index])) for index in order if gains[index] < -_NOTHING and not hidden
    ]
    prompts = Store(options.home).prompts(_sample(a).name, options.split) if losses else {}
    return replace(
        _compared(a.result.score or 0.0, b.result.score or 0.0, test, [_sample(a)] if hidden else []),
        a_wins=None if gains is None else int(np.sum(gains < -_NOTHING)),
        b_wins=None if gains is None else int(np.sum(gains > _NOTHING)),
        worst=tuple(
            Flip(
                id=item.id,
                loss=round(loss, 6),
                question=prompts[item.id][0],
                context=prompts[item.id][1],
                gold=tuple(item.answers),
                a=a.predictions[index],
                b=b.predictions[index],
            )
            for index, loss in losses
            for item in (a.references[index],)
        ),
        higher_is_better=_sample(a).metric.higher_is_better,
        units=a.result.units or b.result.units,
        digits=score_digits(_sample(a).name, a.result.metric, least=2),
        hidden=hidden,
        of=a.result.data.rows if a.result.partial else None,
    )


def example_gains(a: ScoredTask, b: ScoredTask) -> Any:
    """Return how many points A's score gains if a single answer is replaced by B's, for each example.

    The array has shape (examples,), and is positive where B's answer is better. If the rows of
    examples depend on each other, as with ranks, every replacement is scored separately. Returns None
    if that would take too long.
    """
    metric, rows_a = _sample(a).metric, np.asarray(a.rows, dtype=float)
    total = rows_a.sum(axis=0)
    if metric.depends_on_others:
        swaps = [index for index, answer in enumerate(a.predictions) if answer != b.predictions[index]]
        if len(swaps) * len(rows_a) > _MOST_ROWS:
            return None
        totals = np.tile(total, (len(rows_a), 1))
        answers = list(a.predictions)
        for index in swaps:
            answers[index] = b.predictions[index]
            totals[index] = np.asarray(metric.statistics(answers, a.references), dtype=float).sum(axis=0)
            answers[index] = a.predictions[index]
    else:
        totals = total + (np.asarray(b.rows, dtype=float) - rows_a)
    gains = _sample(a).headline(totals) - _sample(a).headline(total)
    return gains if metric.higher_is_better else -gains


def _compare_totals(
    suite: Suite, a: Mapping[str, ScoredTask], b: Mapping[str, ScoredTask], flipped: Mapping[str, FlippedTask]
) -> Compared | None:
    total_a, total_b = (
        suite.combine({task: one.result.score for task, one in each.items() if one.result.score is not None})
        for each in (a, b)
    )
    if total_a is None or total_b is None:
        return None
    ours = [a[task] for task in suite.tasks]
    test = compare_pairs([flipped[task] for task in suite.tasks], suite.total)
    return replace(
        _compared(total_a, total_b, test, [_sample(each) for each in ours if each.hidden]),
        a_wins=None,  # examples have no score in a total
        b_wins=None,
        higher_is_better=any(_sample(each).metric.higher_is_better for each in ours),
        digits=max(2, *(score_digits(task, a[task].result.metric) for task in suite.tasks)),
        of=sum(each.result.data.rows for each in ours) if any(each.result.partial for each in ours) else None,
    )


def _compared(a: float, b: float, test: PairTests, hidden: Sequence[Sample]) -> Compared:
    """Summarize a test of B against A. If labels are hidden, numbers are rounded like the scores."""
    interval = test.interval(0, 1)
    is_tested = test.is_tested(0, 1)
    decimals = min((hidden_decimals(sample.metric.range, a, b) for sample in hidden), default=None)
    difference, ends = float(test.differences[0, 1]), interval.ends if interval else None
    needed = examples_for_one_point(test, 0, 1) if is_tested else None
    if decimals is not None:
        difference = round(difference, decimals)
        ends = ends and (round(ends[0], decimals), round(ends[1], decimals))
        needed = needed and round(needed, 2 - len(str(needed)))
    return Compared(
        a=a,
        b=b,
        difference=difference,
        interval=ends,
        p=float(test.p[0, 1]) if is_tested else None,
        p_holm=None,
        examples=test.examples,
        examples_for_one_point=needed,
        same=is_tested and test.is_same(0, 1),
    )


# More than two submissions


@dataclass(frozen=True)
class LineupRow:
    """The scores of one model, averaged over its runs."""

    name: str
    """The name of the model's first run."""
    paths: tuple[str, ...]
    """The paths of the submissions, one for each run."""
    scores: Mapping[str, float]
    """The mean scores over all runs, by task and for the suite's total."""
    spread: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """The lowest and highest score, by task and for the suite's total, if there are several runs."""


@dataclass(frozen=True)
class ComparedPair:
    """A comparison of two rows on one task or in the total."""

    a: int
    """The index of the first row in `Lineup.rows`."""
    b: int
    """The index of the second row."""
    difference: float
    """The second row's score minus the first row's score."""
    interval: tuple[float, float] | None
    """The 95% interval of the difference; None if it would be unbounded, or if the rows don't differ on any unit."""
    p: float | None
    """The two-sided p-value of the difference; None if there is only one unit."""
    p_holm: float | None
    """`p` corrected by Holm's method for all pairs and tasks or, for a total, for all pairs."""


@dataclass(frozen=True)
class Lineup:
    """The result of comparing more than two submissions."""

    split: str
    """The split."""
    rows: Sequence[LineupRow]
    """The models, best first."""
    pairs: Mapping[str, Sequence[ComparedPair]]
    """All pairs of rows, for each task and for the suite's total."""
    examples: Mapping[str, int]
    """The number of compared examples, by task."""
    of: Mapping[str, int]
    """The number of examples in the split, for tasks with answers to only some of the examples."""
    digits: Mapping[str, int]
    """The number of decimal places to print, by task."""
    not_compared: Mapping[str, str]
    """The reasons why tasks were left out, by task."""
    seed: int
    """The seed for resampling."""
    suite: Suite = DECATHLON
    """The suite whose total is compared."""

    @property
    def labels(self) -> list[str]:
        """The names of the models, numbered from 1.

        If several models have the same name, each name is followed by the path of the model's first run.
        """
        names = Counter(row.name for row in self.rows)
        return [
            f"{number} {row.name}{f' ({row.paths[0]})' if names[row.name] > 1 else ''}"
            for number, row in enumerate(self.rows, 1)
        ]

    def to_json(self) -> str:
        """Return canonical JSON."""
        content = {**plain_record(self, {}), "format": LINEUP_FORMAT, "suite": self.suite.name}
        return json.dumps(content, ensure_ascii=False, indent=1, sort_keys=True) + "\n"


def mean_sample(samples: Sequence[Sample]) -> Sample:
    """Return a sample with the mean score and mean effects of several runs' samples.

    All samples must have the same units.
    """
    if len(samples) == 1:
        return samples[0]
    found = replace(samples[0])
    vars(found).update(
        score=math.fsum(each.score for each in samples) / len(samples),
        effects=np.mean([each.effects for each in samples], axis=0),
    )
    return found


def compare_all(
    submissions: Sequence[str | Path],
    split: str = "validation",
    tasks: str | Sequence[str] | None = None,
    home: str | Path | None = None,
    jobs: int = 1,
    include: Sequence[str | Path] = (),
    suite: str | Suite | None = None,
    seed: int = 0,
    each: bool = False,
) -> Lineup:
    """Compare several submissions, pair by pair.

    Runs of the same model share a row unless `each` is set. The other parameters are the same as in `compare`. Raises
    SubmissionError if no task is scored in all submissions.
    """
    names = [tasks] if isinstance(tasks, str) else tasks
    options = ScoringOptions(split, names, home, jobs, include, suite=select_suite(suite, include))
    paths = [str(path) for path in submissions]
    results, matched, left_out = _score_all(paths, [Path(path).name for path in paths], options)
    common = list(matched[0])
    groups: dict[str, list[int]] = {}
    for at, (path, found) in enumerate(zip(paths, results, strict=True)):
        model = None if each else model_of(found.submission.get("predictor"))
        groups.setdefault(path if model is None else model, []).append(at)
    total = options.suite.total_name
    scores = [_scores(scored, options.suite) for scored in matched]
    rows = {}
    for key, members in groups.items():
        by_task = {task: [scores[at][task] for at in members] for task in scores[members[0]]}
        rows[key] = LineupRow(
            str(results[members[0]].submission["name"]),
            tuple(paths[at] for at in members),
            {task: math.fsum(runs) / len(runs) for task, runs in by_task.items()},
            {task: (min(runs), max(runs)) for task, runs in by_task.items() if len(runs) > 1},
        )
    has_total = all(total in row.scores for row in rows.values())
    first = total if has_total else common[0]
    falls = has_total or _sample(matched[0][first]).metric.higher_is_better
    ordered = sorted(rows, key=lambda key: rows[key].scores[first], reverse=falls)
    flipped = {
        task: flip_signs(
            [mean_sample([_sample(matched[at][task]) for at in groups[key]]) for key in ordered], seed
        )
        for task in common
    }
    return Lineup(
        split,
        [rows[key] for key in ordered],
        _pairs(flipped, options.suite if has_total else None),
        {task: len(matched[0][task].rows) for task in common},
        {task: one.result.data.rows for task, one in matched[0].items() if one.result.partial},
        {task: score_digits(task, one.result.metric, least=2) for task, one in matched[0].items()},
        left_out,
        seed,
        options.suite,
    )


def _scores(scored: Mapping[str, ScoredTask], suite: Suite) -> dict[str, float]:
    scores = {task: each.result.score or 0.0 for task, each in scored.items()}
    total = suite.combine(scores)
    return scores if total is None else {**scores, suite.total_name: total}


def _pairs(flipped: Mapping[str, FlippedTask], suite: Suite | None) -> dict[str, list[ComparedPair]]:
    families = [{task: compare_pairs([each]) for task, each in flipped.items()}]
    if suite is not None and suite.total != "none":
        total = compare_pairs([flipped[task] for task in suite.tasks], suite.total)
        families.append({suite.total_name: total})
    found: dict[str, list[ComparedPair]] = {}
    for family in families:
        corrected = _correct(family)
        for name, test in family.items():
            for a, b in combinations(range(len(test.p)), 2):
                interval = test.interval(a, b)
                pair = ComparedPair(
                    a,
                    b,
                    float(test.differences[a, b]),
                    interval.ends if interval else None,
                    float(test.p[a, b]) if test.is_tested(a, b) else None,
                    corrected.get((name, a, b)),
                )
                found.setdefault(name, []).append(pair)
    return found


def _correct(tests: Mapping[str, PairTests]) -> dict[tuple[str, int, int], float]:
    """Return the corrected p-value of every tested pair, by (name of the task or total, a, b).

    Holm's method is applied to all pairs in all of `tests` together.
    """
    return holm(
        {
            (name, a, b): float(test.p[a, b])
            for name, test in tests.items()
            for a, b in combinations(range(len(test.p)), 2)
            if test.is_tested(a, b)
        }
    )
