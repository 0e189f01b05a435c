"""Two submissions on the same examples: differences, intervals, paired tests, and the examples that flipped."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from decabench.errors import SubmissionError
from decabench.scoring.evaluator import Scored, Scoring, score_submission
from decabench.scoring.results import partial_text
from decabench.scoring.significance import (
    RESAMPLES,
    SHUFFLES,
    Difference,
    Sample,
    examples_for_one_point,
    holm,
    paired_test,
    summed,
)
from decabench.tasks import DECATHLON, Store, home_folder

__all__ = ["Compared", "Comparison", "Flip", "Pair", "compare"]

FORMAT = "decabench.comparison/1"


@dataclass(frozen=True)
class Flip:
    """An example that B has worse than A."""

    id: str
    """Its id."""
    loss: float
    """Points of the task's score that this one example costs."""
    question: str
    """What was asked."""
    context: str
    """What it was asked of."""
    gold: tuple[str, ...]
    """All references."""
    a: str
    """A's answer."""
    b: str
    """B's answer."""


@dataclass(frozen=True)
class Compared:
    """B against A on one task, or on all ten together."""

    a: float
    """A's score."""
    b: float
    """B's score."""
    difference: float
    """B minus A, in points."""
    interval: tuple[float, float]
    """Its 95 % interval: a paired bootstrap over groups."""
    p: float
    """Two-sided, approximate randomization."""
    p_holm: float
    """Corrected for the number of tasks (Holm); the same as `p` for the sum."""
    examples: int
    """How many it rests on."""
    examples_for_one_point: int | None
    """How many would show a difference of one point with a power of 80 %; None where they never differ."""
    a_wins: int = 0
    """Examples on which A is better."""
    b_wins: int = 0
    """Examples on which B is better."""
    worst: tuple[Flip, ...] = ()
    """The examples that cost B most."""


@dataclass(frozen=True)
class Comparison:
    """What `decabench compare` found."""

    a: str
    """A's name."""
    b: str
    """B's name."""
    split: str
    """On which split."""
    tasks: Mapping[str, Compared]
    """By task, those that both have."""
    decascore: Compared | None
    """The sum of the ten; None unless both have all of them."""
    not_compared: Mapping[str, str]
    """Task to why it was left out."""
    seed: int
    """Of the resamples and shuffles."""
    resamples: int = RESAMPLES
    """For intervals."""
    shuffles: int = SHUFFLES
    """For p values."""
    format: str = FORMAT
    """The format of the JSON."""

    def to_json(self) -> str:
        """Canonical JSON."""
        return json.dumps(asdict(self), ensure_ascii=False, indent=1, sort_keys=True) + "\n"


@dataclass(frozen=True)
class Pair:
    """What to compare and how."""

    a: Path
    """The submission to compare with."""
    b: Path
    """The submission that is judged."""
    split: str = "validation"
    """On which split."""
    tasks: Sequence[str] | None = None
    """Only these tasks."""
    home: Path | None = None
    """Where the data is prepared."""
    include: Sequence[Path] = ()
    """Files that define tasks."""
    seed: int = 0
    """Of the resamples and shuffles."""
    jobs: int = 1
    """Processes and threads."""
    flips: int = 5
    """How many of the worst regressions of a task to show."""


def compare(pair: Pair) -> Comparison:
    """Compares B with A. Raises SubmissionError where they have no task in common, and as `evaluate` does."""
    scoring = Scoring(pair.split, pair.tasks, pair.home, pair.jobs, pair.include)
    results_a, scored_a = score_submission(pair.a, scoring)
    results_b, scored_b = score_submission(pair.b, scoring)
    left_out = _left_out(scored_a, scored_b)
    common = [task for task in scored_a if task in scored_b and task not in left_out]
    if not common:
        why = "".join(f" {task}: {reason}." for task, reason in left_out.items())
        raise SubmissionError(
            f"{pair.a.name} and {pair.b.name} have no scored task of {pair.split} in common.{why}"
        )
    tests = {task: _tested(scored_a[task].sample, scored_b[task].sample, pair) for task in common}
    corrected = holm({task: test.p for task, test in tests.items()})
    compared = {
        task: _with_flips(
            _compared(_score(scored_a[task]), _score(scored_b[task]), tests[task], corrected[task]),
            task,
            pair,
            scored_a,
            scored_b,
        )
        for task in common
    }
    return Comparison(
        a=str(results_a.submission["name"]),
        b=str(results_b.submission["name"]),
        split=pair.split,
        tasks=compared,
        decascore=_decascore(results_a.decascore, results_b.decascore, tests),
        not_compared=left_out,
        seed=pair.seed,
    )


def _left_out(a: Mapping[str, Scored], b: Mapping[str, Scored]) -> dict[str, str]:
    reasons = {}
    for task in sorted({*a, *b}):
        for name, scored in (("A", a), ("B", b)):
            if task not in scored:
                reasons[task] = f"{name} has no answers"
            elif scored[task].sample is None:
                reasons[task] = f"{name} failed: {scored[task].result.reason}"
            elif scored[task].result.status == "partial":
                reasons[task] = f"{name} is of a limited run ({partial_text(scored[task].result)})"
    return reasons


def _tested(a: Sample | None, b: Sample | None, pair: Pair) -> Difference:
    assert a is not None and b is not None  # those without were left out
    return paired_test(a, b, seed=pair.seed, jobs=pair.jobs)


def _score(scored: Scored) -> float:
    return scored.result.score or 0.0


def _compared(a: float, b: float, test: Difference, p_holm: float) -> Compared:
    return Compared(
        a=a,
        b=b,
        difference=test.difference,
        interval=test.interval.ends,
        p=test.p,
        p_holm=p_holm,
        examples=test.examples,
        examples_for_one_point=examples_for_one_point(test),
    )


def _decascore(a: float | None, b: float | None, tests: Mapping[str, Difference]) -> Compared | None:
    if a is None or b is None:
        return None
    test = summed([tests[task] for task in DECATHLON.tasks])
    return _compared(a, b, test, test.p)


def influence(a: Scored, b: Scored) -> Any:
    """By example, how many points A's score would gain with B's answer to that example alone, (examples,).

    It is defined for corpus metrics too, where an example has no score of its own.
    """
    import numpy as np

    assert a.sample is not None
    rows_a, rows_b = np.asarray(a.rows, dtype=float), np.asarray(b.rows, dtype=float)
    total = rows_a.sum(axis=0)
    return a.sample.headline(total + (rows_b - rows_a)) - a.sample.headline(total)


def _with_flips(
    compared: Compared, task: str, pair: Pair, scored_a: Mapping[str, Scored], scored_b: Mapping[str, Scored]
) -> Compared:
    import numpy as np

    a, b = scored_a[task], scored_b[task]
    gains = influence(a, b)
    worst = [
        int(index) for index in np.argsort(gains, kind="stable")[: pair.flips] if gains[index] < -_NOTHING
    ]
    texts = _texts(task, {a.references[index].id for index in worst}, pair)
    flips = tuple(
        Flip(
            id=(id := a.references[index].id),
            loss=round(float(-gains[index]), 6),
            question=texts[id][0],
            context=texts[id][1],
            gold=tuple(a.references[index].answers),
            a=a.predictions[index],
            b=b.predictions[index],
        )
        for index in worst
    )
    return replace(
        compared,
        a_wins=int(np.sum(gains < -_NOTHING)),
        b_wins=int(np.sum(gains > _NOTHING)),
        worst=flips,
    )


_NOTHING = 1e-9


def _texts(task: str, ids: set[str], pair: Pair) -> dict[str, tuple[str, str]]:
    if not ids:
        return {}
    rows = Store(home_folder(pair.home)).read(task, pair.split, ("id", "question", "context"))
    return {row["id"]: (row["question"], row["context"]) for row in rows if row["id"] in ids}
