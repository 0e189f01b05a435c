"""Several submissions side by side: a row for each model, with the spread over its runs, and tests of all
pairs."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any

from decabench.errors import SubmissionError
from decabench.files import canonical_json
from decabench.scoring.comparison import match_tasks
from decabench.scoring.evaluator import score_submission
from decabench.scoring.ledger import ScoredTask
from decabench.scoring.pairs import FlippedTask, compare_pairs, flip_signs, holm
from decabench.scoring.results import Results, plain_record, score_digits
from decabench.scoring.significance import Sample
from decabench.scoring.task_results import ScoringOptions
from decabench.tasks import DECATHLON, Suite, select_suite

FORMAT = "decabench.lineup/1"


@dataclass(frozen=True)
class LineupRow:
    """A model, which may have been run several times."""

    name: str
    """Its name, taken from its first run."""
    paths: tuple[str, ...]
    """The submissions, one for each run."""
    scores: Mapping[str, float]
    """The mean over its runs, for each task and for the suite's total."""
    spread: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """The lowest and the highest of several runs."""


@dataclass(frozen=True)
class ComparedPair:
    """Two rows compared on one task, or in the total."""

    a: int
    """The number of the first row, from 0."""
    b: int
    """The number of the second row."""
    difference: float
    """b minus a."""
    interval: tuple[float, float] | None
    """The 95 % interval of the difference, over examples; None without bounds."""
    p: float | None
    """Its two-sided p-value; None if there is a single unit."""
    p_holm: float | None
    """`p` corrected for all pairs and tasks by Holm's method; for a total, for all pairs."""


@dataclass(frozen=True)
class Lineup:
    """The result of `decabench compare` with more than two submissions."""

    split: str
    """The split."""
    rows: Sequence[LineupRow]
    """The models, best first."""
    pairs: Mapping[str, Sequence[ComparedPair]]
    """All pairs of rows, for each task and for the suite's total."""
    examples: Mapping[str, int]
    """The number of compared examples, by task."""
    of: Mapping[str, int]
    """The number of examples in the split, for tasks where only some were answered."""
    digits: Mapping[str, int]
    """The number of decimals to print, by task."""
    not_compared: Mapping[str, str]
    """Task to the reason why it was left out."""
    seed: int
    """The seed for resampling."""
    suite: Suite = DECATHLON
    """The suite of the total."""

    def to_json(self) -> str:
        """Return canonical JSON."""
        content = {**plain_record(self, {}), "format": FORMAT, "suite": self.suite.name}
        return json.dumps(content, ensure_ascii=False, indent=1, sort_keys=True) + "\n"


_OF_A_RUN = frozenset(
    {
        "decabench",
        "extraction",
        "fingerprint",
        "prompts",
        "reasoning_tags",
        "seed",
        "served_by",
        "usage",
        "variant",
    }
)
"""The parts of a predictor's record that may differ between runs of the same model."""


def _model(results: Results, path: str) -> str:
    """Return what identifies a submission's model: its predictor, ignoring seeds, prompts and wordings."""
    predictor = dict(results.submission.get("predictor") or {})
    if "backend" not in predictor:
        return path
    kept: dict[str, Any] = {key: value for key, value in predictor.items() if key not in _OF_A_RUN}
    backend = {key: value for key, value in dict(kept["backend"]).items() if key not in ("decabench", "seed")}
    return canonical_json({**kept, "backend": backend})


def _mean(samples: Sequence[Sample]) -> Sample:
    """Return a sample whose score and effects are averaged over several runs on the same examples."""
    import numpy as np

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
    """Compare all pairs of several submissions.

    Runs of one model share a row; with `each`, every run has its own.

    The other parameters are those of `compare`. Raises SubmissionError if no task is scored in all submissions,
    and the errors of `evaluate`.
    """
    names = [tasks] if isinstance(tasks, str) else tasks
    options = ScoringOptions(split, names, home, jobs, include, suite=select_suite(suite, include))
    paths = [str(path) for path in submissions]
    results, scored = zip(*(score_submission(path, options) for path in paths), strict=True)
    matched, left_out = match_tasks(scored, [Path(path).name for path in paths])
    common = list(matched[0])
    if not common:
        why = "".join(f" {task}: {reason}." for task, reason in left_out.items())
        raise SubmissionError(f"No task of {split} is scored in all {len(paths)} submissions.{why}")
    groups: dict[str, list[int]] = {}
    for at, (path, found) in enumerate(zip(paths, results, strict=True)):
        groups.setdefault(path if each else _model(found, path), []).append(at)
    total = options.suite.total_name
    rows = {
        key: _row(str(results[members[0]].submission["name"]), [paths[at] for at in members],
                  [_scores(matched[at], options.suite) for at in members])
        for key, members in groups.items()
    }  # fmt: skip
    has_total = all(total in row.scores for row in rows.values())
    first = total if has_total else common[0]
    falls = has_total or _sample(matched[0][first]).metric.higher_is_better
    ordered = sorted(rows, key=lambda key: rows[key].scores[first], reverse=falls)
    flipped = {
        task: flip_signs([_mean([_sample(matched[at][task]) for at in groups[key]]) for key in ordered], seed)
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


def _sample(scored: ScoredTask) -> Sample:
    assert scored.sample is not None  # tasks that failed were left out
    return scored.sample


def _scores(scored: Mapping[str, ScoredTask], suite: Suite) -> dict[str, float]:
    scores = {task: each.result.score or 0.0 for task, each in scored.items()}
    total = suite.combine(scores)
    return scores if total is None else {**scores, suite.total_name: total}


def _row(name: str, paths: Sequence[str], runs: Sequence[Mapping[str, float]]) -> LineupRow:
    means = {task: math.fsum(run[task] for run in runs) / len(runs) for task in runs[0]}
    ends = {task: (min(run[task] for run in runs), max(run[task] for run in runs)) for task in runs[0]}
    return LineupRow(name, tuple(paths), means, ends if len(runs) > 1 else {})


def _pairs(flipped: Mapping[str, FlippedTask], suite: Suite | None) -> dict[str, list[ComparedPair]]:
    """Test all pairs on each task, and in the total if there is a suite."""
    tests = {task: compare_pairs([each]) for task, each in flipped.items()}
    families = [tests]
    if suite is not None and suite.total != "none":
        families.append(
            {suite.total_name: compare_pairs([flipped[task] for task in suite.tasks], suite.total)}
        )
    found: dict[str, list[ComparedPair]] = {}
    for family in families:
        count = len(next(iter(family.values())).p)
        keys = [(name, a, b) for name in family for a, b in combinations(range(count), 2)]
        names = {str(at): key for at, key in enumerate(keys) if family[key[0]].is_tested(*key[1:])}
        p = {at: float(family[name].p[a, b]) for at, (name, a, b) in names.items()}
        corrected = {names[at]: value for at, value in holm(p).items()}
        for name, a, b in keys:
            test = family[name]
            interval = test.interval(a, b)
            pair = ComparedPair(
                a,
                b,
                float(test.differences[a, b]),
                interval.ends if interval else None,
                float(test.p[a, b]) if (name, a, b) in corrected else None,
                corrected.get((name, a, b)),
            )
            found.setdefault(name, []).append(pair)
    return found
