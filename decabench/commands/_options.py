"""Click options, made from the parameters of commands and the fields of dataclasses."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import MISSING, Field, fields
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import click

from decabench.options import OptionInfo, option

Command = TypeVar("Command", bound=Callable[..., Any])
Decorator = Callable[[Command], Command]

# Declaring options


def with_options(command: Command) -> Command:
    """Add an option for each parameter whose default is an `option(…)`."""
    hints = get_type_hints(command)
    for name, parameter in reversed(list(signature(command).parameters.items())):
        if isinstance(parameter.default, Field):
            command = click_option(name, hints[name], parameter.default)(command)
    return command


def options_of(owner: type, *names: str) -> Decorator[Any]:
    """Return a decorator that adds an option for each dataclass field declared with `option(…)`.

    If names are given, only the fields with these names are used.
    """
    hints = get_type_hints(owner)

    def decorate(command: Any) -> Any:
        for field in reversed(fields(owner)):
            if "option" in field.metadata and (not names or field.name in names):
                command = click_option(field.name, hints[field.name], field)(command)
        return command

    return decorate


def click_option(name: str, hint: Any, declared: Field[Any]) -> Decorator[Any]:
    """Return a decorator that adds the click option for a field or parameter.

    A `bool` is a flag, and an option whose type is `tuple[…, ...]` can be repeated.
    """
    info: OptionInfo = declared.metadata["option"]
    default, parts = declared.default, get_args(hint)
    kind = (
        hint
        if get_origin(hint) is Literal
        else next((part for part in parts if part is not type(None)), hint)
    )
    is_plain = default is None or default is False or default in ("", ()) or callable(default)
    settings: dict[str, Any] = {
        "cls": SectionedOption,
        "section": info.section or _REST,
        "help": info.help + (f"  [default: {info.unset}]" if info.unset else ""),
        "shell_complete": info.complete or (complete_predictor if name == "predictor" else None),
        "envvar": info.variable,
        "required": default is MISSING,
    }
    if default is not MISSING:
        settings |= {"default": default, "show_default": not is_plain}
    if kind is bool:
        settings["is_flag"] = True
    else:
        is_repeated = Ellipsis in parts
        type_ = _type_of(info, kind, is_repeated)
        metavar = info.metavar or _PLACEHOLDERS.get(type_.name)
        settings |= {"metavar": metavar, "type": type_, "multiple": is_repeated}
        settings["nargs"] = len(get_args(kind)) if get_origin(kind) is tuple and not info.parse else 1
    return click.option(info.flag or f"--{name.replace('_', '-')}", name, **settings)


_PLACEHOLDERS = {"directory": "DIR", "integer range": "N", "float range": "X"}
"""Placeholders for option values in help texts, by the name of the click type.

Other types use click's own placeholders.
"""


def _type_of(info: OptionInfo, kind: Any, is_repeated: bool) -> Any:
    if info.type is not None:
        return info.type
    if info.parse is not None:
        return _Parsed(info.parse)
    if choices := info.choices or (get_args(kind) if get_origin(kind) is Literal else ()):
        return _RepeatedChoice(choices) if is_repeated else click.Choice(choices)
    least = info.at_least if info.above is None else info.above
    if least is None and info.at_most is None:
        return {int: click.INT, float: click.FLOAT}.get(kind, click.STRING)
    bounds: Any = {"min": least, "max": info.at_most, "min_open": info.above is not None}
    return click.IntRange(**bounds) if kind is int else _FiniteRange(**bounds)


class _FiniteRange(click.FloatRange):
    """A range of finite numbers. `click.FloatRange` alone would accept NaN."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        found = super().convert(value, param, ctx)
        if not math.isfinite(found):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return found


class _RepeatedChoice(click.Choice):  # type: ignore[type-arg]  # generic in newer versions of click only
    """A choice whose error messages explain how to give several values."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        parts = [part.strip() for part in str(value).split(",")]
        if param is not None and len(parts) > 1 and set(parts) <= set(map(str, self.choices)):
            again = " ".join(f"{param.opts[0]} {part}" for part in parts)
            self.fail(
                f"{value!r} contains more than one value. Repeat the option for each value: {again}.",
                param,
                ctx,
            )
        return super().convert(value, param, ctx)


class _Parsed(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions of click only
    """A parameter type whose values are parsed by a function. The message of a ValueError is shown to the user."""

    name = "text"

    def __init__(self, parse: Callable[[str], Any]) -> None:
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse a string. Other values are defaults, which are already parsed."""
        if not isinstance(value, str):
            return value
        try:
            return self._parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


_REST = "Options"


class SectionedOption(click.Option):
    """An option that the help lists under the heading `section`."""

    def __init__(self, *arguments: Any, section: str = _REST, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.section = section


class SectionedCommand(click.Command):
    """A command whose help groups its options under headings.

    Options without a section come first, under `Options`. The other headings follow in the order in which they first
    occur.
    """

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {_REST: []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                sections.setdefault(getattr(parameter, "section", _REST), []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


# Shell completion


def _completing(
    read: Callable[[click.Context], Iterable[str]], several: bool = False
) -> Callable[..., list[str]]:
    """Return a shell completion function for the names that `read` returns.

    With `several`, the value is a comma-separated list whose last name is completed.
    """

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        from decabench.errors import DecabenchError

        before, comma, begun = incomplete.rpartition(",") if several else ("", "", incomplete)
        try:
            names = list(read(context))
        except (DecabenchError, OSError):  # the command itself will report an invalid --include file
            return []
        return [f"{before}{comma}{name}" for name in names if name.startswith(begun)]

    return complete


def _include(context: click.Context) -> Sequence[Path]:
    given: Sequence[Path] = context.params.get("include") or ()
    from_environment = os.environ.get("DECABENCH_INCLUDE", "")  # click ignores it during completion
    return given or [Path(each) for each in from_environment.split(os.pathsep) if each]


def _task_names(context: click.Context) -> Iterable[str]:
    from decabench.tasks import known_tasks

    return known_tasks(_include(context))


def _suite_names(context: click.Context) -> Iterable[str]:
    from decabench.tasks import known_suites

    return known_suites(_include(context))


complete_task = _completing(_task_names)
complete_suite = _completing(_suite_names)
complete_metric = _completing(lambda context: import_module("decabench.metrics").METRICS)
complete_predictor = _completing(lambda context: import_module("decabench.predictors").predictor_names())

# Shared types and options

Answers = Literal["extracted", "raw"]
ScoredSplit = Literal["validation", "test"]
Split = Literal["train", "validation", "test"]

FILE = click.Path(path_type=Path, dir_okay=False)
FOLDER = click.Path(path_type=Path, file_okay=False)
EXISTING = click.Path(path_type=Path, exists=True)
EXISTING_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
EXISTING_FOLDER = click.Path(path_type=Path, exists=True, file_okay=False)

HOME = option(
    None,
    "Folder with the prepared data.",
    type=FOLDER,
    unset="$DECABENCH_HOME, or else the user's data folder",
)
INCLUDE = option(
    (),
    "A .toml or .py file that defines a task or suite of your own. Can be repeated. Such files can run code: "
    "a .py file is executed, and a .toml file can import a metric (module:attribute).",
    type=FILE,
    metavar="PATH",
    variable="DECABENCH_INCLUDE",
)
TASKS = option(
    (),
    "Use only these tasks, separated by commas.",
    metavar="NAME,…",
    complete=_completing(_task_names, several=True),
)
SUITE = option(
    None, "Use only the tasks in this suite (see decabench suites).", metavar="NAME", complete=complete_suite
)
JOBS = option(os.cpu_count, "Number of processes.", at_least=1, unset="one per core")
HIDDEN = option(
    False,
    "Also show hidden labels, and messages that may quote them. Use this option only if no one else can "
    "read the output.",
)
LOG = option(
    (),
    "Also log to this tracker, whose package must be installed. Can be repeated.",
    choices=("wandb", "mlflow", "tensorboard"),
)
ANSWERS = option("extracted", "Whether to score the extracted answers or the model's whole output.")
DEVICE = option("auto", "Device: auto, cpu, cuda, cuda:1 or mps.")
