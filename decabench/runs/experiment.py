"""Run everything from data preparation to comparison: `decabench run FILE`, or `decabench.run` in Python.

The file contains the commands' options by name, in `[prepare]`, `[predict]`, `[evaluate]` and `[compare]`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_origin, get_type_hints

from decabench.errors import DataError, DecabenchError, UnknownNameError, require_name
from decabench.files import write_file
from decabench.options import OptionInfo
from decabench.plugins import add_module_folder
from decabench.predictors import PREDICTORS, Header, ModelOptions
from decabench.runs.ask import Progress
from decabench.runs.estimate import Estimate, estimate_run
from decabench.runs.plan import Plan, Prompts, Run, Selection, make_run, plan_run
from decabench.runs.write import Report, occupied_by, run_plan
from decabench.scoring import (
    Comparison,
    Results,
    ScoringOptions,
    compare,
    score_submission,
)
from decabench.submission import CheckReport, check_submission
from decabench.tables import convert_setting, read_settings, read_toml
from decabench.tasks import (
    SPLITS,
    Request,
    Store,
    Suite,
    Task,
    get_task,
    home_folder,
    known_tasks,
    prepare_all,
    select_suite,
    tasks_with_split,
)
from decabench.text import with_full_stop

RUN_TOML = "run.toml"
"""The file in a submission folder that contains the run's settings."""

HIDDEN = "(not kept)"
"""The text that replaces the values of HTTP headers in `run.toml`."""


@dataclass(frozen=True)
class PrepareSettings:
    """Options of `decabench prepare`."""

    mirror: str | None = None
    """A folder or URL with a copy of the data."""
    sample: bool = False
    """Whether to use the bundled sample instead of the full data."""
    force: bool = False
    """Whether to prepare the data even if it is up to date."""


@dataclass(frozen=True)
class EvaluateSettings:
    """Options of `decabench evaluate` that affect scores."""

    answers: Literal["extracted", "raw"] = "extracted"
    """Whether to score the extracted answers or the raw output."""


@dataclass(frozen=True)
class CompareSettings:
    """Options of `decabench compare` that affect its output."""

    seed: int = 0
    """The random seed for resampling."""
    flips: int = 3
    """The number of worst regressions to show for each task."""


@dataclass(frozen=True)
class Experiment:
    """Settings of a run: the predictor, the questions and the baselines."""

    predictor: str
    """The predictor, as in `decabench predict --predictor`."""
    output: Path
    """The submission folder."""
    tasks: tuple[str, ...] = ()
    """Task names; by default, all tasks of the suite that have the split."""
    suite: str | None = None
    """The suite to report results for; by default the decathlon."""
    split: str = "validation"
    """The split to answer and score."""
    baselines: tuple[str, ...] = ()
    """Submissions to compare with, or names of baselines such as `majority`, which are also run."""
    home: Path | None = None
    """The folder with prepared data."""
    include: tuple[Path, ...] = ()
    """Files that define tasks or suites."""
    jobs: int | None = None
    """The number of processes; by default one per core."""
    force: bool = False
    """Whether to replace another predictor's submission in the folder."""
    board: Path | None = None
    """The folder to write a leaderboard to, by `decabench run` only. It lists all submissions next to `output`."""
    log: tuple[str, ...] = ()
    """Trackers to send scores to, such as `wandb` or `mlflow`."""
    prepare: PrepareSettings = field(default_factory=PrepareSettings)
    """Options for preparing the data."""
    predict: Mapping[str, Any] = field(default_factory=dict)
    """Values for fields of Run, Selection, Prompts or ModelOptions."""
    evaluate: EvaluateSettings = field(default_factory=EvaluateSettings)
    """Options for scoring the answers."""
    compare: CompareSettings = field(default_factory=CompareSettings)
    """Options for comparing the answers with the baselines."""
    source: Mapping[str, Any] = field(default_factory=dict)
    """The settings to store in `run.toml`, with overrides applied and secret header values hidden."""


class _Setting(NamedTuple):
    field: str
    """The name of the dataclass field that holds the setting."""
    hint: Any
    """The field's type."""
    parse: Callable[[str], Any] | None = None
    """The option's parser, if it has one."""

    def read(self, value: Any, name: str) -> Any:
        try:
            if self.parse is None or value is None:
                return convert_setting(value, self.hint, name)
            if get_origin(self.hint) is tuple:  # an option that can be repeated
                return tuple(
                    self.parse(str(each)) for each in (value if isinstance(value, list) else [value])
                )
            return self.parse(str(value))
        except ValueError as error:
            raise DecabenchError(f"{name}: {error}") from error


_TABLES = {"prepare": PrepareSettings, "evaluate": EvaluateSettings, "compare": CompareSettings}
_PLAIN = {
    "predictor": str,
    "output": str,
    "tasks": tuple[str, ...] | str,
    "suite": str | None,
    "split": str,
    "baselines": tuple[str, ...] | str,
    "home": str | None,
    "include": tuple[str, ...] | str,
    "jobs": int | None,
    "force": bool,
    "board": str | None,
    "log": tuple[str, ...] | str,
}
"""Top-level settings and their types."""
_NEEDED = {
    "predictor": "specify the model to run, such as hf:NAME or majority",
    "output": "specify the folder for the submission",
}


@cache
def _known() -> Mapping[str, _Setting]:
    """Return all settings by their full names, such as `split`, `prepare.mirror` or `predict.limit`."""
    found = {name: _Setting(name, hint) for name, hint in _PLAIN.items()}
    for owner in (Run, Selection, Prompts, ModelOptions):
        hints = get_type_hints(owner)
        for declared in fields(owner):
            info: OptionInfo | None = declared.metadata.get("option")
            if info is not None and declared.name != "predictor":
                flag = info.flag.partition("/")[0].removeprefix("--") or declared.name
                own = _Setting(declared.name, hints[declared.name], info.parse)
                found[f"predict.{_field_name(flag)}"] = own
    for table, settings in _TABLES.items():
        found |= {f"{table}.{name}": _Setting(name, hint) for name, hint in get_type_hints(settings).items()}
    return found


def find_setting(name: str) -> str:
    """Return the full name of a setting, such as `predict.limit` for `limit`.

    The result is empty if the setting is unknown.
    """
    key = _field_name(name)
    return next((full for full in _known() if full.rpartition(".")[2] == key), "")


def _find(name: str) -> _Setting:
    if name in _known():
        return _known()[name]
    table, _, last = name.rpartition(".")
    names = [full.rpartition(".")[2] for full in _known() if full.rpartition(".")[0] == table]
    is_plural = table and last.removesuffix("s") in names  # prepare.samples, although predict has samples
    if (elsewhere := find_setting(last)) and not is_plural:
        above, _, key = elsewhere.rpartition(".")
        place = f"in the table [{above}]" if above else "above all tables"
        there = f"as '{key}' {place}" if key != name else place
        raise DecabenchError(f"'{name}' must be given {there}, or as --set {elsewhere}=VALUE")
    tables = () if table else (*_TABLES, "predict")
    return _known()[require_name(last, (*names, *tables), f"[{table}] setting" if table else "setting")]


def read_experiment(
    source: str | Path | Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | Sequence[str] = (),
) -> Experiment:
    """Read an experiment from a TOML file or mapping, and override some of its settings.

    `settings` is a mapping from names to values, or a list of strings such as `predict.limit=20`,
    whose values are TOML or plain text. All faults are reported together. Paths are relative to the
    working directory. A predictor's module is also looked up in the file's folder. Raises
    DecabenchError if the file can't be read or a setting is missing or invalid.
    """
    content: dict[str, Any]
    if isinstance(source, str | Path):
        content, place = _read_file(Path(source)), f"{source}: "
    else:
        content, place = _plain(dict(source or {})), ""
    for path, value in read_settings(settings, "predict.limit=20"):
        _change(content, path, _plain(value))
    faults: list[str] = []
    given: dict[str, dict[str, Any]] = {name: {} for name in ("", *_TABLES, "predict")}
    for name, shown, value in _flat(content, faults):
        with _collected(faults):
            setting = _find(name)
            given[name.rpartition(".")[0]][setting.field] = setting.read(value, shown)
    own, headers = given[""], given["predict"].get("header", ())
    for name, advice in _NEEDED.items():
        if not own.get(name) and not any(fault.startswith((name, f"'{name}'")) for fault in faults):
            faults.append(f"'{name}' is missing: {advice}")
    faults += [
        f"predict.header: the value of {header.name} is secret and was not stored, so it must be specified again"
        for header in headers
        if header.value == HIDDEN
    ]
    faults += [
        f"'{name}' contains a line break or another control character (in TOML, double any backslashes, or use "
        "single quotes)"
        for name in ("output", "home", "board")
        if re.search(r"[\x00-\x1f]", str(own.get(name) or ""))
    ]
    with _collected(faults):
        require_name(own.get("split", "validation"), SPLITS, "split")
    if faults:
        raise DecabenchError(f"{place}{with_full_stop('; '.join(fault.rstrip('.') for fault in faults))}")
    for name in ("tasks", "baselines", "include", "log"):
        value = own.get(name, ())
        names = value.split(",") if isinstance(value, str) else value
        own[name] = tuple(stripped for each in names if (stripped := each.strip()))
    own["include"] = tuple(map(Path, own["include"]))
    for name in ("output", "home", "board"):
        own[name] = Path(own[name]) if own.get(name) else None
    tables = {name: made(**given[name]) for name, made in _TABLES.items()}
    return Experiment(**own, **tables, predict=given["predict"], source=_storable(content, headers))


def _read_file(path: Path) -> dict[str, Any]:
    content = read_toml(path, DecabenchError)
    add_module_folder(path.parent)
    return content


def read_experiments(
    source: str | Path | Mapping[str, Any] | None = None, settings: Mapping[str, Any] | Sequence[str] = ()
) -> list[Experiment]:
    """Read one or more experiments from a file.

    Each `[[models]]` table defines an experiment and overrides the file's settings. A table with
    `seeds` defines an experiment for each seed. Results are written to subfolders of the file's
    `output` folder, named after the model and seed, unless the table has its own `output`. Raises
    DecabenchError if the file can't be read, a setting is invalid, or several models would write to the
    same folder.
    """
    content = _read_file(Path(source)) if isinstance(source, str | Path) else dict(source or {})
    models = content.pop("models", None)
    if models is None:
        return [read_experiment(source, settings)]
    if not isinstance(models, list) or not models or not all(isinstance(model, Mapping) for model in models):
        raise DecabenchError("'models' must be a list of tables. Write [[models]] above each table.")
    for table in (content, *models):
        if not isinstance(predict := table.get("predict", {}), Mapping):
            raise DecabenchError(f"'predict' is {predict!r}, but must be a table.")
        if not isinstance(seeds := table.get("seeds", []), list):
            raise DecabenchError(f"'seeds' is {seeds!r}, but must be a list of numbers, such as [0, 1, 2].")
    runs = [(model, seed) for model in models for seed in model.get("seeds", [None])]
    found = []
    for model, seed in runs:
        one = {**content, **{key: value for key, value in model.items() if key not in ("predict", "seeds")}}
        one["predict"] = {**content.get("predict", {}), **model.get("predict", {})}
        if seed is not None:
            one["predict"]["seed"] = seed
        base = read_experiment(one, settings)
        name = base.predict.get("name") or base.predict.get("model") or base.predictor
        folder = re.sub(r"[^\w.-]+", "-", str(name)).strip("-.") + ("" if seed is None else f"-seed{seed}")
        output = str(base.output) if "output" in model else str(base.output / folder)
        found.append(replace(base, output=Path(output), source={**base.source, "output": output}))
    folders = [experiment.output for experiment in found]
    if repeated := sorted({str(folder) for folder in folders if folders.count(folder) > 1}):
        raise DecabenchError(
            f"Several models would write to {', '.join(repeated)}. Set a different predict.name or output for each "
            "model."
        )
    return found


def _flat(content: Mapping[str, Any], faults: list[str]) -> Iterator[tuple[str, str, Any]]:
    for key, value in content.items():
        name = _field_name(key)
        if name not in (*_TABLES, "predict"):
            yield name, key, value
        elif isinstance(value, Mapping):
            yield from (
                (f"{name}.{_field_name(each)}", f"{name}.{each}", inner) for each, inner in value.items()
            )
        else:
            faults.append(f"'{name}' is {value!r}, but must be a table, [{name}]")


def _field_name(key: str) -> str:
    return key.replace("-", "_")


def _change(content: dict[str, Any], path: str, value: Any) -> None:
    *above, name = path.split(".")
    table = content
    for at, each in enumerate(above, start=1):
        inner = table.get(each)
        if inner is not None and not isinstance(inner, Mapping):  # don't print it, since it may be secret
            raise DecabenchError(f"{path} can't be set: {'.'.join(above[:at])} is a value, not a table.")
        table[each] = dict(inner or {})
        table = table[each]
    table[name] = value


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(map(_plain, value), key=str)
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return str(value) if isinstance(value, Path) else value


def _storable(content: Mapping[str, Any], headers: Sequence[Header]) -> dict[str, Any]:
    """Return the settings to store with a submission.

    Header values are removed unless they refer to an environment variable.
    """
    import tomli_w

    def without_unset(value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        return {key: without_unset(each) for key, each in value.items() if each is not None}

    kept: dict[str, Any] = without_unset(content)
    if headers:
        kept["predict"]["header"] = [
            f"{each.name}: {each.value if each.value.startswith('env:') else HIDDEN}" for each in headers
        ]
    try:
        tomli_w.dumps(kept).encode()
    except (TypeError, ValueError) as error:
        raise DecabenchError(
            f"The settings can't be stored in {RUN_TOML} ({error}). Use only strings, numbers, lists and "
            "tables."
        ) from error
    return kept


@contextmanager
def _collected(faults: list[str]) -> Iterator[None]:
    try:
        yield
    except DecabenchError as error:
        faults.append(str(error))


@dataclass(frozen=True)
class Outcome:
    """The results of an experiment: the submission, its scores and the comparisons with baselines."""

    folder: Path
    """The submission folder."""
    report: Report
    """The report of the model's run."""
    check: CheckReport
    """Faults found in the submission."""
    results: Results
    """The scores."""
    comparisons: Mapping[str, Comparison] = field(default_factory=dict)
    """Comparisons by baseline. The model is B in each of them."""
    not_compared: Mapping[str, str] = field(default_factory=dict)
    """Baselines without a comparison, and the reason for each."""

    @property
    def exit_code(self) -> int:
        """4 if any examples failed, 1 if anything else is wrong, and 0 otherwise."""
        if self.report.failed:
            return 4
        return 0 if self.results.ok and not self.check.exit_code and not self.not_compared else 1


@dataclass(frozen=True)
class Forecast:
    """A preview of an experiment, before it runs."""

    missing: Mapping[str, tuple[str, ...]]
    """Splits that must be prepared, by task."""
    estimates: Sequence[Estimate]
    """Estimates for each task and wording. Empty if data is missing."""


def run(
    experiment: str | Path | Experiment | None = None,
    *,
    progress: Progress | None = None,
    **settings: Any,
) -> Outcome:
    """Prepare data, run a model, and check, score and compare its answers, like `decabench run`.

    `experiment` is an optional TOML file. Settings have the same names as in the file, with mappings for
    tables: `run(predictor="majority", tasks=["sst"], output="runs/majority", predict={"limit": 20},
    baselines=["random"])`.

    Raises DecabenchError or a subclass if a setting is invalid, or if a step other than a comparison fails.
    Earlier answers are kept in the folder's journal.
    """
    if isinstance(experiment, Experiment):
        if settings:
            raise DecabenchError("Settings can't be added to an Experiment. Use dataclasses.replace instead.")
        return run_experiment(experiment, progress)
    return run_experiment(read_experiment(experiment, settings), progress)


def run_experiment(
    experiment: Experiment,
    progress: Progress | None = None,
    say: Callable[[str], None] = lambda step: None,
    record: Callable[[Plan, Report], None] = lambda plan, report: None,
) -> Outcome:
    """Run an experiment, skipping completed steps.

    `say` is called with the name of each step. `record` is called after the model has answered, before the
    answers are scored. Raises DecabenchError if a step other than a comparison fails.
    """
    import tomli_w

    suite, tasks = _chosen(experiment)
    trackers = None
    if experiment.log:
        from decabench.exchange import make_trackers, track_results

        trackers = make_trackers(experiment.log)
    names = [task.name for task in tasks]
    say(f"Data: {names[0] if len(names) == 1 else f'{len(names)} tasks'}, {experiment.split}")
    _prepare(experiment, tasks)
    plan = plan_run(_run_of(experiment, tasks))
    _refuse_occupied(plan, experiment.force)
    name = plan.submission_info().name  # for openai:URL, this contains the model's name
    say(f"Answers: {experiment.predictor}{f' ({name})' * (name not in experiment.predictor)}")
    report = run_plan(plan, progress)
    record(plan, report)
    write_file(experiment.output / RUN_TOML, tomli_w.dumps(experiment.source))
    store, known = Store(experiment.home), known_tasks(experiment.include)
    checked = check_submission(experiment.output, store, known, tasks=names, splits=[experiment.split])
    say("Scores")
    results, folder = _score(experiment, experiment.output, names, suite)
    if trackers is not None:
        track_results(trackers, results, folder)
    comparisons: dict[str, Comparison] = {}
    not_compared: dict[str, str] = {}
    for baseline in experiment.baselines:
        say(f"Comparison with {baseline}")
        try:
            comparisons[baseline] = _compare(experiment, baseline, tasks, suite, progress)
        except DecabenchError as error:  # still show a summary of answers and scores
            not_compared[baseline] = str(error)
    return Outcome(experiment.output, report, checked, results, comparisons, not_compared)


def forecast(experiment: Experiment) -> Forecast:
    """Return the splits to prepare and the estimates for an experiment, without writing anything.

    Raises DecabenchError if the experiment can't be run.
    """
    _, tasks = _chosen(experiment)
    request = replace(_request(experiment), force=False)
    missing = {task.name: absent for task in tasks if (absent := request.absent_splits(task))}
    if missing:
        request.require_place()
    if any(experiment.split in splits for splits in missing.values()):
        return Forecast(missing, ())
    plan = plan_run(_run_of(experiment, tasks))
    _refuse_occupied(plan, experiment.force)
    return Forecast(missing, estimate_run(plan))


def _jobs(experiment: Experiment) -> int:
    return experiment.jobs or os.cpu_count() or 1


def _chosen(experiment: Experiment) -> tuple[Suite, list[Task]]:
    """Return the suite and the tasks, after checking the names and paths in the experiment."""
    _require_places(experiment)
    suite, known = select_suite(experiment.suite, experiment.include), known_tasks(experiment.include)
    if not experiment.tasks:
        with_split = [known[name] for name in tasks_with_split(suite.tasks, experiment.split, known)]
        if not with_split:
            raise DecabenchError(
                f"No task in {suite.name} has a public {experiment.split} split. Choose another split."
            )
        return suite, with_split
    tasks = [get_task(name, known) for name in dict.fromkeys(experiment.tasks)]
    outside = [task.name for task in tasks if task.name not in suite.tasks]
    if outside and experiment.suite:
        raise DecabenchError(
            f"The setting 'tasks' lists {', '.join(outside)}, but the suite {suite.name} has only "
            f"{', '.join(suite.tasks)}. Choose from these tasks, or leave out 'suite'."
        )
    return suite, tasks


def _require_places(experiment: Experiment) -> None:
    if experiment.board is not None and experiment.board.exists() and not experiment.board.is_dir():
        raise DecabenchError(
            f"'board' is {experiment.board}, which is a file. Specify a folder for the board instead."
        )
    for baseline in experiment.baselines:
        if not Path(baseline).exists() and baseline not in PREDICTORS:
            try:
                require_name(baseline, PREDICTORS, "baseline or submission")
            except UnknownNameError as error:
                raise DecabenchError(
                    f"{error} Specify a submission's folder or a baseline's name."
                ) from error


def _prepare(experiment: Experiment, tasks: Sequence[Task]) -> None:
    request = _request(experiment)
    waiting = [task for task in tasks if request.force or request.absent_splits(task)]
    done = prepare_all(waiting, request, _jobs(experiment), experiment.include)
    known = {task.name: task for task in tasks}
    again = replace(request, force=False)
    failed = {each.task: each for each in done if experiment.split in again.absent_splits(known[each.task])}
    if failed:
        reasons = "; ".join(
            f"{name}: {(each.error or 'the task has no such split').rstrip('.')}"
            for name, each in failed.items()
        )
        which = tasks[0].name if len(tasks) == 1 else f"{len(failed)} of {len(tasks)} tasks"
        raise DataError(f"The run did not start, because data is missing for {which}. {reasons}.")


def _request(experiment: Experiment) -> Request:
    settings = experiment.prepare
    home = home_folder(experiment.home)
    return Request(home, None, settings.mirror, settings.sample, settings.force, progress=False)


def require_settings(experiment: Experiment) -> None:
    """Check an experiment's settings before any model answers. Raises DecabenchError if a setting is wrong."""
    _, tasks = _chosen(experiment)
    _ = _run_of(experiment, tasks).tariff


def _run_of(
    experiment: Experiment, tasks: Sequence[Task], predictor: str = "", output: Path | None = None
) -> Run:
    given = experiment.predict
    if predictor:  # a baseline answers the same questions
        names = {each.name for each in fields(Selection)}
        given = {name: value for name, value in given.items() if name in names}
    return make_run(
        **given,
        predictor=predictor or experiment.predictor,
        tasks=list(tasks),
        split=experiment.split,
        output=output or experiment.output,
        store=Store(experiment.home),
    )


def _refuse_occupied(plan: Plan, force: bool) -> None:
    occupant = occupied_by(plan)
    if occupant and not force:
        raise DecabenchError(
            f"{plan.run.output} {occupant}. Choose another folder, or set force = true to replace this folder's "
            "contents."
        )


def _score(
    experiment: Experiment, submission: Path, names: Sequence[str], suite: Suite
) -> tuple[Results, Path]:
    options = ScoringOptions(
        experiment.split,
        names,
        experiment.home,
        _jobs(experiment),
        experiment.include,
        experiment.evaluate.answers,
        suite,
    )
    results, _ = score_submission(submission, options)
    return results, results.write().parent


def _compare(
    experiment: Experiment, baseline: str, tasks: Sequence[Task], suite: Suite, progress: Progress | None
) -> Comparison:
    path, names = Path(baseline), [task.name for task in tasks]
    if not path.exists():
        path = experiment.output.with_name(f"{experiment.output.name}.baselines") / baseline
        run_plan(plan_run(_run_of(experiment, tasks, baseline, path)), progress)
        _score(experiment, path, names, suite)
    return compare(
        path,
        experiment.output,
        experiment.split,
        names,
        experiment.home,
        _jobs(experiment),
        experiment.include,
        suite,
        experiment.compare.seed,
        experiment.compare.flips,
    )
