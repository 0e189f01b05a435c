"""Plans: the runs, figures and contrasts of a paper, read from TOML."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import mean
from typing import Annotated, Any, Literal

import msgspec

from decabench.errors import DataError, DecabenchError
from decabench.scoring import find_metric
from decabench.tasks import Suite, Task, get_task, known_tasks, select_suite
from papers.records import RECORDS, Records

WEIGHTS = Path(__file__).resolve().parent / "weights"
RUNS, SUBMISSIONS, LOCKS, BOARDS = "runs", "submissions", "locks", "boards"

FIGURE = re.compile(r"\{\{(?P<name>.+?): (?P<measure>[^{}:]+)\}\}")
"""Matches a placeholder in a summary: a row's name or a contrast's title, then a measure."""


Seed = Annotated[int, msgspec.Meta(ge=0)]


class Measure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table column: a score on a task or a suite."""

    task: str = ""
    """The task."""
    score: str = ""
    """The name of one of the task's scores. By default, the task's main score."""
    digits: int = 1
    """The number of decimals."""
    suite: str = ""
    """A suite to use instead of a task. The main scores of its tasks are combined as in the suite (sum or mean)."""
    split: Literal["", "train", "validation", "test"] = ""
    """The task's split, if different from the plan's split."""
    remark: str = ""
    """A short note on the published figures: `recalled`, or the name of other data (`PTB`)."""

    def key_of(self, task: str) -> str:
        """Return the key for a task's scores. Splits other than the plan's have separate keys."""
        return key_of(task, self.split)


class Run(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A model to train with each seed."""

    name: Annotated[str, msgspec.Meta(pattern=r"^\w[\w.+-]*$")]
    """The run's name. The names of its folders begin with it."""
    tasks: tuple[str, ...] = ()
    """The tasks to train on. By default, all tasks of the suite."""
    omit: tuple[str, ...] = ()
    """The suite's tasks to leave out of training."""
    row: str = ""
    """The run's row in the tables. By default, its name."""
    settings: dict[str, Any] = {}
    """Additional settings on top of the plan's."""
    seeds: tuple[Seed, ...] = ()
    """Seeds to use instead of the plan's."""
    config: str = ""
    """A training configuration to use instead of the plan's."""
    init: str = ""
    """The run whose weights are the starting point."""
    checkpoint: str = ""
    """A folder of `papers/weights` to start from.

    With `init`, the folder contains the weights of that run's first seed. For other seeds, that run is
    trained first.
    """
    suite: str = ""
    """The suite that the run is reported on, if different from the plan's."""

    @property
    def title(self) -> str:
        return self.row or self.name


class Baseline(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An untrained row: an existing submission that is the same for every seed."""

    row: str
    """The row's name in the tables."""
    submission: str
    """The submission's folder, next to the plan. Answers that don't match the prepared data raise an error."""


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of published and measured figures."""

    title: str
    """The heading."""
    measures: tuple[str, ...]
    """The measures in the columns."""
    rows: tuple[str, ...] = ()
    """The rows. By default, all rows with a run for any of the measures' tasks."""
    text: str = ""
    """A paragraph above the table."""
    transposed: bool = False
    """Whether measures are rows instead of columns, for tables with many measures.

    Published figures are left out of a transposed table.
    """
    development: bool = False
    """Whether the published figures are for development sets."""


class Contrast(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A comparison of two rows."""

    row: str
    """The row that is expected to be better."""
    baseline: tuple[str, ...]
    """The row to compare with, or several rows whose mean is used."""
    measures: tuple[str, ...]
    """The measures to compare."""
    claimed: float | None = None
    """The difference stated in the paper's text, if there is only one measure. If lower is better, an improvement is
    negative."""
    development: bool = False
    """Whether the published difference is for development sets."""
    remark: str = ""
    """A note on the published difference, if different from the measure's remark."""

    def __post_init__(self) -> None:
        if not self.baseline or len(set(self.baseline)) < len(self.baseline):
            raise ValueError(
                f"a contrast of {self.row!r} must have at least one baseline, and list each baseline only "
                "once"
            )
        if self.claimed is not None and len(self.measures) != 1:
            raise ValueError(
                f"a contrast of {self.row!r} has a claimed difference, which needs exactly one measure, "
                f"not {', '.join(self.measures) or 'none'}: make a separate contrast for it"
            )

    @property
    def title(self) -> str:
        """The names of the row and its baseline."""
        return contrast_title(self.row, self.baseline)


def contrast_title(row: str, baseline: Sequence[str]) -> str:
    """Return the title of a comparison, such as `A over B` or `A over the mean of B and C`."""
    *first, last = baseline
    return f"{row} over the mean of {', '.join(first)} and {last}" if first else f"{row} over {last}"


class Count(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A parameter count that the paper works out as an example, and our modules that should have the same count."""

    name: str
    """The name of the counted part."""
    printed: int
    """The number printed in the paper."""
    modules: dict[str, tuple[int, ...]]
    """Maps each class (`package.module:Class`) to the arguments to build it with. The parameters of all classes are
    added up."""
    remark: str = ""
    """Why the two numbers differ."""


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The runs and figures of a paper."""

    title: str
    """The page's title."""
    paper: str
    """The paper's citation."""
    suite: str
    """The suite that results are reported on."""
    measures: dict[str, Measure]
    """The columns of the tables, by name."""
    runs: tuple[Run, ...]
    """The runs, in training order."""
    baselines: tuple[Baseline, ...] = ()
    """Untrained rows."""
    tables: tuple[Table, ...] = ()
    """The tables. By default, a single table with all measures."""
    published: dict[str, dict[str, float]] = {}
    """The paper's figures, by row and measure."""
    development: dict[str, dict[str, float]] = {}
    """The paper's figures for development sets, by row and measure, if it reports no other figures."""
    parameters: dict[str, int] = {}
    """The paper's parameter counts, by row."""
    parameters_remark: str = ""
    """A short note on the parameter counts, for example `recalled`."""
    contrasts: tuple[Contrast, ...] = ()
    """The contrasts to test."""
    counts: tuple[Count, ...] = ()
    """Worked examples of parameter counts."""
    costs: str = ""
    """The measure to show next to weights and training minutes, if any."""
    unplotted: tuple[str, ...] = ()
    """Rows left out of the plot of costs, such as a row that failed to learn and would hide other differences."""
    config: str = ""
    """The training configuration for all runs, a file next to the plan."""
    settings: dict[str, Any] = {}
    """The settings for all runs."""
    seeds: tuple[Seed, ...] = (0,)
    """The seeds for all runs."""
    split: Literal["train", "validation", "test"] = "test"
    """The split to answer. Measures can use other splits."""
    overlap: tuple[str, ...] = ()
    """Training splits to check for overlap. Suites are also scored without the texts that occur in these splits of any
    of their tasks."""
    overlap_by: Literal["exact", "normalised"] = "exact"
    """How to compare texts: exactly (`exact`), or ignoring case, spaces and punctuation (`normalised`)."""
    summary: tuple[str, ...] = ()
    """The findings, one per entry, with the placeholders `{{ROW: MEASURE}}` and `{{ROW over BASELINE: MEASURE}}`."""
    differs: str = ""
    """A paragraph on how data, models and training differ from the paper's."""
    notes: tuple[str, ...] = ()
    """Notes for the details page, one paragraph each."""
    link: str = ""
    """The paper's URL."""
    before: tuple[str, ...] = ()
    """Commands to run before the first training."""

    def published_figure(
        self, row: str, name: str, development: bool, include: Sequence[Path] = ()
    ) -> float | None:
        """Return the paper's figure for a row, or None.

        For a suite's mean, the tasks' figures are averaged if all are published.
        """
        own = (self.development if development else self.published).get(row, {})
        measure = self.measures[name]
        if name in own or not measure.suite:
            return own.get(name)
        suite = suite_of(measure.suite, tuple(include))
        single = {
            one.task: own[key]
            for key, one in self.measures.items()
            if one.task and not one.split and key in own and _is_headline(one, tuple(include))
        }
        known = [single[task] for task in suite.tasks if task in single]
        return mean(known) if suite.total == "mean" and len(known) == len(suite.tasks) else None

    def seeds_of(self, run: Run) -> tuple[int, ...]:
        return run.seeds or self.seeds

    def origin_of(self, run: Run) -> Run | None:
        """Return the run whose weights a run starts from, if any."""
        return next((one for one in self.runs if one.name == run.init), None)

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits to answer, starting with the plan's split."""
        return tuple(dict.fromkeys([self.split, *(one.split for one in self.measures.values() if one.split)]))

    def splits_of(self, run: Run) -> tuple[str, ...]:
        """Return the splits that a run answers: the plan's split, and the splits that measures of its tasks use."""
        own = {one.split for one in self.measures.values() if one.task in run.tasks}
        return tuple(split for split in self.splits if split == self.split or split in own)

    def runs_of(self, row: str) -> list[Run]:
        return [run for run in self.runs if run.title == row]

    @property
    def trained_rows(self) -> list[str]:
        return list(dict.fromkeys(run.title for run in self.runs))

    @property
    def rows(self) -> list[str]:
        return [*(baseline.row for baseline in self.baselines), *self.trained_rows]

    def rows_of(self, table: Table, include: Sequence[Path] = ()) -> list[str]:
        """Return a table's rows: the rows that it names or, by default, all rows with a run for any of its tasks."""
        tasks = {task for name in table.measures for task in tasks_of(self.measures[name], include)}
        found = [row for row in self.trained_rows if any(tasks & set(run.tasks) for run in self.runs_of(row))]
        return list(table.rows) or [*(baseline.row for baseline in self.baselines), *found]


@dataclass(frozen=True)
class Place:
    """The location of data and results, and the device for training."""

    plan: Path
    """The plan's file."""
    output: Path
    """The folder of runs and submissions."""
    home: Path | None
    """The folder of prepared data."""
    include: tuple[Path, ...]
    """Files that define tasks."""
    device: str
    """The device for training."""
    records: Path = RECORDS
    """The folder of records."""

    @property
    def archive(self) -> Records:
        """The plan's records, which are named after the plan's folder."""
        return Records(self.records, self.plan.parent.name)

    def lock(self, name: str) -> Path:
        """Return the lock file for writing files with this name, creating its folder if necessary."""
        lock = self.output / LOCKS / name
        lock.parent.mkdir(parents=True, exist_ok=True)
        return lock


@dataclass(frozen=True)
class SeededRun:
    """A run of a plan with one of its seeds."""

    plan: Plan
    """The plan."""
    run: Run
    """The run."""
    seed: int
    """The seed."""
    place: Place
    """The location of the run's files."""

    @property
    def name(self) -> str:
        """The name of the run's folders and record."""
        return f"{self.run.name}-seed-{self.seed}"

    @property
    def title(self) -> str:
        """The run's name in messages."""
        return f"{self.run.name}, seed {self.seed}"

    @property
    def folder(self) -> Path:
        """The folder with the run's training."""
        return self.place.output / RUNS / self.name

    @property
    def submission(self) -> Path:
        """The folder with the run's answers and results."""
        return self.place.output / SUBMISSIONS / self.name

    @property
    def lock(self) -> Path:
        """The lock file for training the run."""
        return self.place.lock(self.name)

    @property
    def suite(self) -> str:
        """The suite that the run is scored on."""
        return self.run.suite or self.plan.suite

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that the run answers, starting with the plan's split."""
        return self.plan.splits_of(self.run)

    def results(self, split: str = "") -> Path:
        """Return the path of the results on a split, by default the plan's split.

        A run is done if it has results on the plan's split.
        """
        return results_file(self.submission, self.suite, split or self.plan.split)

    @property
    def is_scored(self) -> bool:
        """Whether the run has results on the plan's split."""
        return self.results().exists()

    @property
    def checkpoint(self) -> str:
        """The folder of `papers/weights` that the run starts from, if any."""
        first = self.plan.origin_of(self.run)
        return self.run.checkpoint if first is None or self.seed == self.plan.seeds_of(first)[0] else ""

    @property
    def first(self) -> SeededRun | None:
        """The run whose weights this run starts from, if any."""
        origin = None if self.checkpoint else self.plan.origin_of(self.run)
        return None if origin is None else SeededRun(self.plan, origin, self.seed, self.place)

    @property
    def origin(self) -> Path | str:
        """The checkpoint or run folder that the run starts from. Empty for random weights."""
        if self.checkpoint:
            return WEIGHTS / self.checkpoint
        return self.first.folder if self.first else ""


def seeded_runs(
    plan: Plan, place: Place, runs: Iterable[Run] | None = None, seeds: Collection[int] = ()
) -> list[SeededRun]:
    """Return the plan's runs with each of their seeds, or only a selection."""
    return [
        SeededRun(plan, run, seed, place)
        for run in (plan.runs if runs is None else runs)
        for seed in plan.seeds_of(run)
        if not seeds or seed in seeds
    ]


def results_file(submission: Path, suite: str, split: str) -> Path:
    """Return the path that `decabench evaluate` writes a submission's results to."""
    return submission / "results" / (split if suite == "decathlon" else f"{split}-{suite}") / "results.json"


@cache
def suite_of(name: str, include: tuple[Path, ...] = ()) -> Suite:
    """Return a suite by name. Cached, because every lookup searches installed packages."""
    return select_suite(name, include)


@cache
def task_of(name: str, include: tuple[Path, ...] = ()) -> Task:
    """Return a task by name."""
    return get_task(name, known_tasks(include))


def _is_headline(measure: Measure, include: tuple[Path, ...]) -> bool:
    return measure.score in ("", find_metric(task_of(measure.task, include).metric).headline)


def key_of(task: str, split: str) -> str:
    """Return the key for a task's scores. `split` is empty for the plan's own split."""
    return f"{task}.{split}" if split else task


def measured_tasks(plan: Plan, split: str, include: Sequence[Path] = ()) -> set[str]:
    """Return the tasks measured on a split, alone or as part of a suite."""
    measures = (one for one in plan.measures.values() if (one.split or plan.split) == split)
    return {task for measure in measures for task in tasks_of(measure, include)}


def tasks_of(measure: Measure, include: Sequence[Path] = ()) -> tuple[str, ...]:
    """Return a measure's tasks, in the order of its suite."""
    return suite_of(measure.suite, tuple(include)).tasks if measure.suite else (measure.task,)


def read_plan(path: Path, include: Sequence[Path] = ()) -> Plan:
    """Read a plan, and check that all names in it are defined. Raises DataError if the plan is not valid."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        lists = content.pop("lists", {})
        runs = [made for run in content["runs"] for _, made in _expand("", run, lists)]
        content["runs"] = [_with_tasks(run, content["suite"], include) for run in _alike(runs)]
        measures = [pair for name, own in content["measures"].items() for pair in _expand(name, own, lists)]
        content["measures"] = dict(measures)
        if len(measures) > len(content["measures"]):
            raise ValueError("two measures have the same name: if you use 'each', put {} in the name")
        content["summary"] = [" ".join(text.split()) for text in content.get("summary", ())]
        for table in content.get("tables", ()):
            table |= {key: _listed(table[key], lists) for key in ("measures", "rows") if key in table}
        for contrast in content.get("contrasts", ()):
            contrast["measures"] = _listed(contrast["measures"], lists)
            if isinstance(contrast["baseline"], str):
                contrast["baseline"] = [contrast["baseline"]]
        plan = msgspec.convert(content, Plan)
        for measure in plan.measures.values():
            for task in tasks_of(measure, include):
                task_of(task, tuple(include))
        for suite in {plan.suite, *(run.suite for run in plan.runs if run.suite)}:
            suite_of(suite, tuple(include))
        if wrong := list(_faults(plan)):
            raise ValueError("; ".join(wrong))
    except KeyError as error:
        advice = (
            " Use a training configuration with `decabench train --config`."
            if error.args[0] == "runs"
            else ""
        )
        raise DataError(
            f"{path} is not a valid plan: it or one of its runs lacks {error.args[0]}.{advice}"
        ) from None
    except (OSError, ValueError, TypeError, AttributeError, DecabenchError) as error:
        raise DataError(f"{path} is not a valid plan: {str(error).rstrip('.')}.") from None
    return plan


def _expand(name: str, table: Mapping[str, Any], lists: Mapping[str, list[Any]]) -> Iterator[tuple[str, Any]]:
    """Yield a table's name and content.

    If the table has the key `each`, it is repeated for every member of the list given there. In each copy, `{}` is
    replaced by the member.
    """
    own = dict(table)
    each = own.pop("each", None)
    for member in ["{}"] if each is None else _listed(each, lists):
        yield _fill(name, member), _fill(own, member)


def _fill(value: Any, member: Any) -> Any:
    """Replace `{}` in all texts of a value. A text that consists only of `{}` becomes the member itself."""
    if isinstance(value, str):
        return member if value == "{}" else value.replace("{}", str(member))
    if isinstance(value, list):
        return [_fill(one, member) for one in value]
    if isinstance(value, dict):
        return {_fill(key, member): _fill(one, member) for key, one in value.items()}
    return value


def _listed(names: str | list[Any], lists: Mapping[str, list[Any]]) -> list[Any]:
    if not isinstance(names, str):
        return names
    if names not in lists:
        raise ValueError(
            f"there is no list {names!r}; the lists are {', '.join(lists) or 'none'}. Write a single name as "
            f"a list, too: [{names!r}]"
        )
    return lists[names]


def _alike(runs: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield each run with `like` resolved.

    With `like`, a run copies everything but the name and row from an earlier run, and adds its own settings.
    """
    known = dict[str, dict[str, Any]]()
    for run in runs:
        own = dict(run)
        if (other := own.pop("like", None)) is not None:
            if other not in known:
                raise ValueError(f"{own.get('name')} is like {other!r}, which is not an earlier run")
            base = {key: value for key, value in known[other].items() if key not in ("name", "row")}
            own = base | own | {"settings": {**base.get("settings", {}), **own.get("settings", {})}}
        known[own["name"]] = own
        yield own


def _with_tasks(run: dict[str, Any], suite: str, include: Sequence[Path]) -> dict[str, Any]:
    tasks = run.get("tasks") or suite_of(run.get("suite") or suite, tuple(include)).tasks
    if strange := set(run.get("omit", ())) - set(tasks):
        raise ValueError(f"{run['name']} omits tasks that it does not have: {', '.join(sorted(strange))}")
    return {**run, "tasks": [task for task in tasks if task not in run.get("omit", ())]}


def _faults(plan: Plan) -> Iterator[str]:
    rows, names = set(plan.rows), [run.name for run in plan.runs]
    figures = (*plan.published.values(), *plan.development.values())
    used_rows = [*plan.published, *plan.development, *plan.parameters, *plan.unplotted]
    used_rows += [row for one in plan.contrasts for row in (one.row, *one.baseline)]
    used_rows += [row for table in plan.tables for row in table.rows]
    used = [*filter(None, [plan.costs]), *(name for own in figures for name in own)]
    used += [name for contrast in plan.contrasts for name in contrast.measures]
    used += [name for table in plan.tables for name in table.measures]
    yield from (f"row {row!r} is not defined" for row in dict.fromkeys(used_rows) if row not in rows)
    yield from (
        f"measure {name!r} is not defined" for name in dict.fromkeys(used) if name not in plan.measures
    )
    compared = {(contrast.title, name) for contrast in plan.contrasts for name in contrast.measures}
    for found in (found for text in plan.summary for found in FIGURE.finditer(text)):
        name, measure = found["name"], found["measure"]
        if (name, measure) not in compared and not (name in rows and measure in plan.measures):
            yield f"the summary contains {found[0]}, but there is no such row or contrast with this measure"
    for name, measure in plan.measures.items():
        if bool(measure.task) == bool(measure.suite):
            yield f"measure {name!r} needs either a task or a suite"
        if measure.suite and (measure.score or measure.split):
            yield (
                f"measure {name!r} can't set a score or split, because its suite combines headlines of the plan's "
                "split"
            )
    yield from (
        f"{run.name} starts from {run.init!r}, which is not a run"
        for run in plan.runs
        if run.init and run.init not in names
    )
    for run in plan.runs:
        seeds = plan.seeds_of(run)
        if len(set(seeds)) < len(seeds):
            yield f"the seeds {list(seeds)} of {run.name} contain the same seed twice"
        if run.checkpoint and not run.init and len(seeds) > 1:
            yield (
                f"the seeds {list(seeds)} of {run.name} would all start from {run.checkpoint!r} (set init to its run, "
                "or use only one seed)"
            )
    yield from (f"run {name!r} is defined twice" for name in dict.fromkeys(names) if names.count(name) > 1)
    yield from (f"row {one.row!r} is defined twice" for one in plan.baselines if plan.rows.count(one.row) > 1)
    for row in rows:
        for seed in {seed for run in plan.runs_of(row) for seed in plan.seeds_of(run)}:
            tasks = [task for run in plan.runs_of(row) if seed in plan.seeds_of(run) for task in run.tasks]
            yield from (
                f"row {row!r} has two runs for {task}" for task in set(tasks) if tasks.count(task) > 1
            )
