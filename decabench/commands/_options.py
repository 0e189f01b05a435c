"""Options that several commands share."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, fields
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin, get_type_hints

import click
from click.core import ParameterSource

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Command = TypeVar("Command", bound=Callable[..., Any])
Decorator = Callable[[Command], Command]
Owner = TypeVar("Owner", bound="DataclassInstance")

_REST = "Options"


class _Option(click.Option):
    """An option that stores its heading in the help text."""

    def __init__(self, *arguments: Any, section: str = _REST, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.section = section


def section(title: str) -> Callable[..., Decorator[Any]]:
    """Return a decorator like `click.option` for the options under a heading."""

    def option(*names: str, **settings: Any) -> Decorator[Any]:
        return click.option(*names, cls=_Option, section=title, **settings)

    return option


def name_variables(params: Iterable[click.Parameter], prefix: str) -> None:
    """Name each option's environment variable after the option. click would name it after the function's parameter."""
    for option in params:
        if isinstance(option, click.Option):
            name = max(option.opts, key=len).lstrip("-")
            own = f"{prefix}_{name}".upper().replace("-", "_")
            option.envvar = [str(option.envvar), own] if option.envvar else own
            option.allow_from_autoenv = False


class SectionedCommand(click.Command):
    """A command whose help lists its options under headings, in the order in which the headings first occur.

    `options` returns decorators for further options when they are first needed. This lets a command take them
    from dataclass fields (`options_of`) without loading their packages each time decabench starts.
    """

    def __init__(
        self, *arguments: Any, options: Callable[[], Sequence[Decorator[Any]]] = tuple, **settings: Any
    ) -> None:
        super().__init__(*arguments, **settings)
        self._late_options: Callable[[], Sequence[Decorator[Any]]] | None = options

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return all options, first making the options that are made on demand."""
        if self._late_options is not None:

            def holder() -> None: ...

            for decorate in reversed(self._late_options()):
                decorate(holder)
            made: list[click.Parameter] = getattr(holder, "__click_params__", [])
            name_variables(made, f"DECABENCH_{self.name}")
            self.params = [*reversed(made), *self.params]
            self._late_options = None
        return super().get_params(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {_REST: []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                sections.setdefault(getattr(parameter, "section", _REST), []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


def options_of(owner: type, *names: str) -> Decorator[Any]:
    """Make a click option from each field that a dataclass declares with `decabench.predictors.option`.

    If names are given, only from the fields named. Name, type, default, range and help all come from the field.
    """
    hints = get_type_hints(owner)
    declared = [field for field in fields(owner) if "option" in field.metadata]

    def decorate(command: Any) -> Any:
        for field in reversed(declared):
            if not names or field.name in names:
                command = _option_of(field, hints[field.name])(command)
        return command

    return decorate


def _option_of(field: Field[Any], hint: Any) -> Decorator[Any]:
    info = field.metadata["option"]
    kind = next((kind for kind in get_args(hint) if kind is not type(None)), hint)
    flag = info.flag or f"--{field.name.replace('_', '-')}"
    settings: dict[str, Any] = {
        "cls": _Option,
        "section": info.section or _REST,
        "help": info.help + (f"  [default: {info.unset}]" if info.unset else ""),
    }
    if field.default is MISSING:
        settings["required"] = True
    else:
        settings["default"] = field.default
        settings["show_default"] = field.default not in (None, "", ()) and not isinstance(field.default, bool)
    if field.name == "predictor":
        settings["shell_complete"] = complete_predictor
    if kind is bool:
        settings["is_flag"] = True
    else:
        settings |= {"metavar": info.metavar, "type": _type_of(info, kind), "multiple": field.default == ()}
        settings["nargs"] = len(get_args(kind)) if get_origin(kind) is tuple else 1
    return click.option(flag, field.name, **settings)


def _type_of(info: Any, kind: Any) -> Any:
    if info.parse is not None:
        return _Parsed(info.parse)
    if info.choices:
        return _Choice(info.choices)
    if not info.bounds:
        return {int: int, float: float}.get(kind, str)
    least = info.at_least if info.above is None else info.above
    bounds = {"min": least, "max": info.at_most, "min_open": info.above is not None}
    return click.IntRange(**bounds) if kind is int else FiniteRange(**bounds)


class FiniteRange(click.FloatRange):
    """A range of numbers that excludes infinity and NaN. Comparisons alone would accept NaN."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        found = super().convert(value, param, ctx)
        if not math.isfinite(found):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return found


class _Choice(click.Choice):  # type: ignore[type-arg]  # generic in newer versions of click only
    """A choice whose error messages explain how to give several values."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and param is not None and param.multiple:
            parts = [part.strip() for part in value.split(",")]
            if len(parts) > 1 and set(parts) <= set(map(str, self.choices)):
                flag = param.opts[0]
                again = " ".join(f"{flag} {part}" for part in parts)
                self.fail(f"{value!r} is more than one value: repeat the option: {again}.", param, ctx)
        return super().convert(value, param, ctx)


class _Parsed(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions of click only
    """A type whose values are parsed by a function. The message of its ValueError is shown."""

    name = "text"

    def __init__(self, parse: Callable[[str], Any]) -> None:
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Convert text. A default value is already parsed."""
        if not isinstance(value, str):
            return value
        try:
            return self._parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def fill(owner: type[Owner], given: Mapping[str, Any], **more: Any) -> Owner:
    """Return a dataclass filled from the options that `options_of` made of its fields, and from `more`."""
    values = {field.name: given[field.name] for field in fields(owner) if "option" in field.metadata}
    return owner(**values, **more)


# Completion in the shell


def _completing(
    read: Callable[[click.Context], Iterable[str]], several: bool = False
) -> Callable[..., list[str]]:
    """With `several`, names are separated by commas and the last name is completed."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        from decabench.errors import DecabenchError

        before, comma, begun = incomplete.rpartition(",") if several else ("", "", incomplete)
        try:
            names = list(read(context))
        except (DecabenchError, OSError):  # a file of --include with faults: the command itself says so
            return []
        return [f"{before}{comma}{name}" for name in names if name.startswith(begun)]

    return complete


def _include(context: click.Context) -> Sequence[Path]:
    given: Sequence[Path] = context.params.get("include") or ()
    from_environment = os.environ.get("DECABENCH_INCLUDE", "")  # which click does not read for completion
    return given or [Path(each) for each in from_environment.split(os.pathsep) if each]


def _task_names(context: click.Context) -> Iterable[str]:
    from decabench.tasks import known_tasks

    return known_tasks(_include(context))


def _suite_names(context: click.Context) -> Iterable[str]:
    from decabench.tasks import known_suites

    return known_suites(_include(context))


complete_task = _completing(_task_names)
complete_tasks = _completing(_task_names, several=True)
complete_suite = _completing(_suite_names)
complete_metric = _completing(lambda context: import_module("decabench.metrics").METRICS)
complete_predictor = _completing(lambda context: import_module("decabench.predictors").predictor_names())

SCORED_SPLITS = ("validation", "test")

home_option = click.option(
    "--home",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Folder of prepared data.  [default: $DECABENCH_HOME, else the user's data folder]",
)
include_option = click.option(
    "--include",
    type=click.Path(path_type=Path, dir_okay=False),
    multiple=True,
    envvar="DECABENCH_INCLUDE",
    metavar="PATH",
    help="A .toml or .py file that defines a task or suite of your own; may be repeated. A .py file is "
    "executed, and so is a metric that a .toml file names as module:attribute.",
)
jobs_option = click.option(
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of processes.  [default: one per core]",
)
hidden_option = click.option(
    "--hidden",
    is_flag=True,
    help="Also show the labels of hidden splits. Use it only if no one else can read the output.",
)
log_option = click.option(
    "--log",
    type=click.Choice(["wandb", "mlflow", "tensorboard"]),
    multiple=True,
    help="Also send the numbers to this tracker (its package must be installed); may be repeated.",
)
suite_option = click.option(
    "--suite",
    metavar="NAME",
    shell_complete=complete_suite,
    help="Only the tasks in this suite (see decabench suites).",
)


def submission_argument(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the submission as an argument or as `--submission`; both fill the parameter `submission`."""
    path = click.Path(path_type=Path, exists=True)
    option = click.option(
        "--submission",
        type=path,
        metavar="PATH",
        help="The same as SUBMISSION: a folder, a .zip or a .tar.gz.",
    )
    argument = click.argument("place", metavar="[SUBMISSION]", type=path, required=False)

    @wraps(command)
    def run(*arguments: Any, place: Path | None, submission: Path | None, **settings: Any) -> Any:
        source = click.get_current_context().get_parameter_source("submission")
        if place is not None and submission is not None and source == ParameterSource.COMMANDLINE:
            raise click.UsageError("The submission is given twice: as an argument and with --submission.")
        if place is None and submission is None:
            raise click.UsageError("Which submission? Give its folder, .zip or .tar.gz.")
        return command(*arguments, submission=place or submission, **settings)

    return argument(option(run))


def tasks_option(command: Command) -> Command:
    """Add `--tasks` and `--suite`, with parameters of the same names for `chosen_tasks`."""
    text = "Only these tasks, separated by commas."
    option = click.option(
        "--tasks", metavar="NAME,…", multiple=True, shell_complete=complete_tasks, help=text
    )
    return option(suite_option(command))


def output_option(text: str, required: bool = True, metavar: str = "DIR") -> Callable[[Command], Command]:
    """Return the option `--output` for the folder that a command writes to."""
    path = click.Path(path_type=Path, file_okay=False)
    return click.option("--output", required=required, type=path, metavar=metavar, help=text)


def split_option(
    default: str | None, text: str, splits: Sequence[str] = ("train", *SCORED_SPLITS)
) -> Callable[[Command], Command]:
    """Return the option `--split` with a default and a help text."""
    choice = click.Choice(splits)
    return click.option("--split", type=choice, default=default, show_default=default is not None, help=text)


def processes(jobs: int | None) -> int:
    """Return the number of processes for `--jobs`, by default one per core."""
    return jobs or os.cpu_count() or 1


def chosen_tasks(tasks: Sequence[str], include: Sequence[Path], suite: str | None = None) -> list[str] | None:
    """Return the task names chosen by `--tasks` and `--suite`, or None for all tasks.

    If both are given, `--tasks` chooses from the suite. Raises UnknownNameError and UsageError.
    """
    from decabench.tasks import get_suite, get_task, known_suites, known_tasks

    names = [name.strip() for value in tasks for name in value.split(",") if name.strip()]
    if tasks and not names:
        raise click.UsageError("--tasks is empty: leave it out to use all tasks.")
    within = list(get_suite(suite, known_suites(include)).tasks) if suite else None
    if not names or names == ["all"]:
        return within
    known = known_tasks(include)
    chosen = [get_task(name, known).name for name in dict.fromkeys(names)]
    if within is not None and (outside := [name for name in chosen if name not in within]):
        raise click.UsageError(
            f"--tasks names {', '.join(outside)}, but the suite {suite} has only {', '.join(within)}: "
            "choose from these, or leave out --suite."
        )
    return chosen
