"""Reproduce a paper's table: train, predict, score, test, and write a page with published beside measured figures.

    python tools/reproduce.py PLAN.toml --output OUTPUT [--home HOME] [--only RUN,...] [--seeds 0,1]
                              [--include TASK.toml] [--page docs/reproductions/NAME.md] [--page-only] [--device cpu]

PLAN.toml lists the runs; examples/training/jmt/plan.toml is one. OUTPUT/runs/RUN-seed-N is a run of `decabench train`,
OUTPUT/submissions/RUN-seed-N its answers and their results, for `decabench leaderboard` too. What is done is not done
again, and what was broken off goes on: start the same command as often as it takes, and several times at once, as a
process passes over what another one trains. The page has what is done so far. In a plan:

- `title`, `paper`, `suite`, `split`, `seeds`, `notes` (a list of paragraphs), `config` (a training configuration beside
  the plan) and `settings` (a table) for all runs;
- `[measures]`: name of a column to `task`, `score` and `digits`;
- `[[runs]]`: `name`, `tasks`, and optionally `row` (its row of the table; several runs may fill one), `settings`,
  `seeds`, `config`, `init` (a run of the plan to start from, with the same seed);
- `[published.ROW]`: measure to figure;
- `[[contrasts]]`: `row`, `baseline` and `measures`: what is tested, on the same texts.

A contrast is tested by the harness's own inference for pairs of systems. Answers of several seeds are pooled: each text
counts once for each seed, and texts vary together with what they were sampled in. So an interval says what other texts
would give, for these seeds; the standard deviation beside each mean says how much seeds differ.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import msgspec
import numpy as np
from filelock import FileLock, Timeout

import decabench
from decabench.scoring import (
    Sample,
    ScoredTask,
    ScoringOptions,
    compare_pairs,
    flip_signs,
    score_submission,
)

RUNS, SUBMISSIONS, LOCKS = "runs", "submissions", "locks"


@dataclass(frozen=True)
class Measure:
    """A column of the table."""

    task: str
    """The task."""
    score: str
    """Which of its scores."""
    digits: int = 1
    """The number of decimals."""


@dataclass(frozen=True)
class Run:
    """One model, trained with each seed."""

    name: str
    """Its name, which its folders begin with."""
    tasks: tuple[str, ...]
    """The tasks that it learns."""
    row: str = ""
    """Its row of the table; its name if empty."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Settings beside those of all runs."""
    seeds: tuple[int, ...] = ()
    """Seeds in place of the plan's."""
    config: str = ""
    """A training configuration in place of the plan's."""
    init: str = ""
    """The run whose weights it starts from."""

    @property
    def title(self) -> str:
        return self.row or self.name


@dataclass(frozen=True)
class Contrast:
    """Two rows to compare."""

    row: str
    """The row that should be better."""
    baseline: str
    """The row that it is compared with."""
    measures: tuple[str, ...]
    """The columns to compare, whose score is its task's headline."""


@dataclass(frozen=True)
class Plan:
    """A paper's runs and figures."""

    title: str
    """The page's title."""
    paper: str
    """The paper, as it is cited."""
    suite: str
    """The suite that results are reported on."""
    measures: dict[str, Measure]
    """The table's columns, by name."""
    runs: tuple[Run, ...]
    """The runs, in the order in which they are trained."""
    published: dict[str, dict[str, float]] = field(default_factory=dict)
    """The paper's figures: row to measure to figure."""
    contrasts: tuple[Contrast, ...] = ()
    """What is tested."""
    config: str = ""
    """The training configuration of all runs, beside the plan."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Settings of all runs."""
    seeds: tuple[int, ...] = (0,)
    """The seeds of all runs."""
    split: str = "test"
    """The split that is answered."""
    notes: tuple[str, ...] = ()
    """What a reader of the page has to know, a paragraph each."""


def read_plan(path: Path) -> Plan:
    """Read a plan, and check that its names refer to each other. Ends the script if it has a fault."""
    try:
        plan = msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), Plan)
    except (OSError, ValueError) as error:
        sys.exit(f"{path} is not a plan ({error}).")
    rows, names = {run.title for run in plan.runs}, [run.name for run in plan.runs]
    wrong = [f"row {row!r} of published" for row in plan.published if row not in rows]
    wrong += [
        f"measure {name!r}" for own in plan.published.values() for name in own if name not in plan.measures
    ]
    for contrast in plan.contrasts:
        wrong += [
            f"row {row!r} of a contrast" for row in (contrast.row, contrast.baseline) if row not in rows
        ]
        wrong += [
            f"measure {name!r} of a contrast" for name in contrast.measures if name not in plan.measures
        ]
    wrong += [f"init {run.init!r} of {run.name}" for run in plan.runs if run.init and run.init not in names]
    wrong += [f"a second run {name!r}" for name in dict.fromkeys(names) if names.count(name) > 1]
    if wrong:
        sys.exit(f"{path} has no such thing, or has it twice: {', '.join(wrong)}.")
    return plan


@dataclass(frozen=True)
class Place:
    """Where data and results are, and how to train."""

    plan: Path
    """The plan's file."""
    output: Path
    """The folder of runs and submissions."""
    home: Path | None
    """The folder of prepared data."""
    include: tuple[Path, ...]
    """Files that define tasks."""
    device: str
    """The device."""

    def run(self, name: str, seed: int) -> Path:
        return self.output / RUNS / f"{name}-seed-{seed}"

    def submission(self, name: str, seed: int) -> Path:
        return self.output / SUBMISSIONS / f"{name}-seed-{seed}"

    def results(self, plan: Plan, name: str, seed: int) -> Path:
        folder = plan.split if plan.suite == "decathlon" else f"{plan.split}-{plan.suite}"
        return self.submission(name, seed) / "results" / folder / "results.json"


def complete(plan: Plan, run: Run, seed: int, place: Place) -> None:
    """Train, answer and score one run, unless another process trains it or it is done."""
    results = place.results(plan, run.name, seed)
    lock = place.output / LOCKS / f"{run.name}-seed-{seed}"
    lock.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(lock, timeout=0):
            if results.exists():
                return
            print(f"{run.name}, seed {seed}", flush=True)
            config = run.config or plan.config
            decabench.train(
                place.run(run.name, seed),
                run.tasks,
                settings={**plan.settings, **run.settings, "seed": seed},
                config=place.plan.parent / config if config else None,
                init=place.run(run.init, seed) if run.init else "",
                home=place.home,
                device=place.device,
                resume=True,
                include=place.include,
                report=lambda text: print(f"  {text}", flush=True),
            )
            asked = [task for task in run.tasks if any(each.task == task for each in plan.measures.values())]
            decabench.predict(
                f"trained:{place.run(run.name, seed)}",
                place.submission(run.name, seed),
                asked,
                plan.split,
                place.home,
                place.include,
            )
            data = [option for path in place.include for option in ("--include", path)]
            data += ["--home", place.home] if place.home else []
            chosen = [
                "--submission",
                place.submission(run.name, seed),
                "--split",
                plan.split,
                "--suite",
                plan.suite,
            ]
            command = [sys.executable, "-m", "decabench", "evaluate", *chosen, *data]
            subprocess.run(list(map(str, command)), check=True, stdout=subprocess.DEVNULL)
    except Timeout:
        print(f"{run.name}, seed {seed}: another process trains it", flush=True)


def score(plan: Plan, run: Run, seed: int, place: Place) -> Any:
    """Score a run's answers: the results, and what each task's score is based on."""
    options = ScoringOptions(plan.split, None, place.home, 1, place.include)
    return score_submission(place.submission(run.name, seed), options)


Scored = Mapping[str, Mapping[str, list[ScoredTask]]]
"""Row to task to what its score is based on, one for each seed that is done."""


def read_scores(plan: Plan, place: Place) -> Scored:
    """Score all submissions that are done."""
    found: dict[str, dict[str, list[ScoredTask]]] = {}
    for run in plan.runs:
        for seed in run.seeds or plan.seeds:
            if place.results(plan, run.name, seed).exists():
                _, tasks = score(plan, run, seed, place)
                for task, own in tasks.items():
                    found.setdefault(run.title, {}).setdefault(task, []).append(own)
    return found


def values(scored: Scored, row: str, measure: Measure) -> list[float]:
    """List a measure's figures, one for each seed."""
    results = [each.result for each in scored.get(row, {}).get(measure.task, [])]
    for result in results:
        if measure.score not in result.scores:
            names = ", ".join(result.scores) or result.reason
            sys.exit(f"There is no score {measure.score!r} of {measure.task} in row {row}: {names}.")
    return [result.scores[measure.score] for result in results]


def show(figures: Sequence[float], digits: int) -> str:
    """Format a mean and, of several figures, their standard deviation."""
    if not figures:
        return "–"
    spread = f" ± {stdev(figures):.{digits}f} ({len(figures)})" if len(figures) > 1 else " (1)"
    return f"{mean(figures):.{digits}f}{spread}"


def pool(scored: Sequence[ScoredTask]) -> Sample:
    """Add the statistics of several seeds up, unit by unit."""
    samples = [each.sample for each in scored if each.sample is not None]
    first = samples[0]
    influence = None if first.influence is None else np.mean([each.influence for each in samples], axis=0)
    return replace(first, rows=np.sum([each.rows for each in samples], axis=0), influence=influence)


def results_table(plan: Plan, scored: Scored) -> Iterator[str]:
    """Yield the lines of the table of published and measured figures."""
    names = list(plan.measures)
    yield "| | " + " | ".join(f"{name}, paper | here" for name in names) + " |"
    yield "|---" * (2 * len(names) + 1) + "|"
    for row in dict.fromkeys(run.title for run in plan.runs):
        cells = []
        for name, measure in plan.measures.items():
            published = plan.published.get(row, {}).get(name)
            cells.append("–" if published is None else f"{published:.{measure.digits}f}")
            cells.append(show(values(scored, row, measure), measure.digits))
        yield f"| {row} | " + " | ".join(cells) + " |"


def contrast_table(plan: Plan, scored: Scored) -> Iterator[str]:
    """Yield the lines of the table of contrasts."""
    yield "| | measure | paper | here | 95 % interval | p | seeds |"
    yield "|---|---|---|---|---|---|---|"
    for contrast in plan.contrasts:
        for name in contrast.measures:
            measure = plan.measures[name]
            title = f"{contrast.row} over {contrast.baseline}"
            given = [plan.published.get(row, {}).get(name) for row in (contrast.baseline, contrast.row)]
            paper = "–" if None in given else f"{given[1] - given[0]:+.{measure.digits}f}"  # type: ignore[operator]
            pair = [scored.get(row, {}).get(measure.task, []) for row in (contrast.baseline, contrast.row)]
            if not all(pair):
                yield f"| {title} | {name} | {paper} | – | – | – | – |"
                continue
            headline = pair[0][0].result.headline
            seeds = " and ".join(str(len(own)) for own in reversed(pair))
            if measure.score != headline:  # the inference is that of the task's headline
                one, two = (mean(values(scored, row, measure)) for row in (contrast.baseline, contrast.row))
                yield f"| {title} | {name} | {paper} | {two - one:+.{measure.digits}f} | not tested | – | {seeds} |"
                continue
            test = compare_pairs([flip_signs([pool(own) for own in pair])])
            interval = test.interval(0, 1)
            ends = (
                "–"
                if interval is None
                else " to ".join(f"{end:+.{measure.digits}f}" for end in interval.ends)
            )
            p = f"{test.p[0, 1]:.4f}" if test.is_tested(0, 1) else "–"
            difference = f"{test.differences[0, 1]:+.{measure.digits}f}"
            yield f"| {title} | {name} | {paper} | {difference} | {ends} | {p} | {seeds} |"


def run_table(plan: Plan, place: Place) -> Iterator[str]:
    """Yield the lines of the table of what was trained, with what effort."""
    yield "| run | tasks | settings | seeds done | steps | minutes a seed |"
    yield "|---|---|---|---|---|---|"
    for run in plan.runs:
        seeds = run.seeds or plan.seeds
        done = [seed for seed in seeds if place.results(plan, run.name, seed).exists()]
        logs = [list(read_log(place.run(run.name, seed) / "train.csv")) for seed in done]
        steps = str(len(logs[0])) if logs else "–"
        minutes = (
            f"{mean(sum(float(row['seconds']) for row in log) for log in logs) / 60:.0f}" if logs else "–"
        )
        own = ", ".join(f"`{key}={value}`" for key, value in run.settings.items())
        yield (
            f"| {run.name} | {', '.join(run.tasks)} | {own} | {len(done)} of {len(seeds)} | {steps} | {minutes} |"
        )


def read_log(path: Path) -> Iterator[dict[str, str]]:
    """Yield the rows of a run's log."""
    with path.open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def plot_scores(plan: Plan, place: Place, path: Path) -> bool:
    """Plot the validation scores of all runs by step, a panel a task; return whether there are any."""
    from matplotlib.figure import Figure

    tasks = list(dict.fromkeys(measure.task for measure in plan.measures.values()))
    lines: dict[str, dict[str, list[list[tuple[int, float]]]]] = {task: {} for task in tasks}
    for run in plan.runs:
        for seed in run.seeds or plan.seeds:
            log = place.run(run.name, seed) / "validation.csv"
            for task in run.tasks if log.exists() else ():
                points = [
                    (int(row["step"]), float(row["score"])) for row in read_log(log) if row["task"] == task
                ]
                if points and task in lines:
                    lines[task].setdefault(run.title, []).append(points)
    shown = [task for task in tasks if lines[task]]
    if not shown:
        return False
    figure = Figure(figsize=(4 * len(shown), 3.2), layout="constrained")
    for at, task in enumerate(shown, 1):
        axes = figure.add_subplot(1, len(shown), at, title=task, xlabel="step")
        for number, (row, curves) in enumerate(lines[task].items()):
            for index, points in enumerate(curves):
                axes.plot(
                    *zip(*points, strict=True),
                    color=f"C{number}",
                    linewidth=1,
                    label=row if index == 0 else None,
                )
        axes.legend(fontsize="x-small")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, metadata={"Software": None})
    return True


def write_page(plan: Plan, place: Place, page: Path) -> None:
    """Write the page of what is done so far, and its plot beside it."""
    scored = read_scores(plan, place)
    picture = page.with_suffix(".png")
    has_picture = plot_scores(plan, place, picture)
    parts = [
        f"# {plan.title}",
        f"{plan.paper}. Scores of the {plan.split} split: mean ± standard deviation (number of seeds).",
        "\n".join(results_table(plan, scored)),
        *plan.notes,
    ]
    if plan.contrasts:
        parts += [
            "## Contrasts",
            "Paired tests on the same texts, with the answers of all seeds pooled: intervals and p say what other "
            "texts would give, for these seeds. A seed more or less moves a mean by what stands beside it above.",
            "\n".join(contrast_table(plan, scored)),
        ]
    parts += ["## Runs", "\n".join(run_table(plan, place))]
    if has_picture:
        parts.append(f"![Validation scores of each task, by step]({picture.name})")
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("plan", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--home", type=Path)
    parser.add_argument("--only", default="", help="names of runs, separated by commas")
    parser.add_argument("--seeds", default="", help="seeds, separated by commas, in place of the plan's")
    parser.add_argument("--include", type=Path, action="append", default=[])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--page", type=Path)
    parser.add_argument("--page-only", action="store_true", help="train nothing")
    given = parser.parse_args(arguments)
    plan = read_plan(given.plan)
    place = Place(given.plan, given.output, given.home, tuple(given.include), given.device)
    only = [name for name in given.only.split(",") if name]
    if unknown := set(only) - {run.name for run in plan.runs}:
        parser.error(f"there is no run {', '.join(sorted(unknown))}")
    seeds = [int(seed) for seed in given.seeds.split(",") if seed]
    for run in () if given.page_only else plan.runs:
        for seed in seeds or run.seeds or plan.seeds:
            if not only or run.name in only:
                complete(plan, run, seed, place)
    if given.page is not None:
        write_page(plan, place, given.page)


if __name__ == "__main__":
    main()
