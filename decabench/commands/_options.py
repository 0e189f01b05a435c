"""Options that several commands share."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from decabench.tasks import Suite

__all__ = [
    "SectionedCommand",
    "chosen_suite",
    "chosen_tasks",
    "home_option",
    "include_option",
    "jobs_option",
    "output_option",
    "processes",
    "require_torch",
    "section",
    "split_option",
    "submission_option",
    "suite_option",
    "tasks_option",
]

# ---- sections

Command = TypeVar("Command", bound=Callable[..., Any])

_REST = "Options"


class _Option(click.Option):
    """An option that says under which heading it stands."""

    def __init__(self, *arguments: Any, section: str, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.section = section


def section(title: str) -> Callable[..., Callable[[Command], Command]]:
    """`click.option` for the options under one heading."""

    def option(*names: str, **settings: Any) -> Callable[[Command], Command]:
        return click.option(*names, cls=_Option, section=title, **settings)

    return option


class SectionedCommand(click.Command):
    """A command whose help lists its options heading by heading, in the order in which they are first used."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the lists."""
        sections: dict[str, list[tuple[str, str]]] = {_REST: []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                sections.setdefault(getattr(parameter, "section", _REST), []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


# ---- options

SPLIT = click.Choice(["train", "validation", "test"])

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
    help="A .toml or .py file that defines a task or suite of your own; may be repeated. A .py file is run.",
)
jobs_option = click.option(
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Processes at once.  [default: one a core]",
)
suite_option = click.option(
    "--suite", metavar="NAME", help="Only the tasks of this suite (decabench suites lists them)."
)
submission_option = click.option(
    "--submission",
    required=True,
    type=click.Path(path_type=Path, exists=True),
    metavar="PATH",
    help="A folder, a .zip or a .tar.gz.",
)


def tasks_option(command: Command) -> Command:
    """`--tasks` and `--suite`, as parameters `tasks` and `suite`: `chosen_tasks` takes both."""
    text = "Only these tasks, separated by commas."
    return click.option("--tasks", metavar="NAME,…", multiple=True, help=text)(suite_option(command))


def output_option(text: str, required: bool = True, metavar: str = "DIR") -> Callable[[Command], Command]:
    """`--output` with a help text: the folder that a command fills."""
    path = click.Path(path_type=Path, file_okay=False)
    return click.option("--output", required=required, type=path, metavar=metavar, help=text)


def split_option(default: str | None, text: str) -> Callable[[Command], Command]:
    """`--split` with a default and a help text."""
    return click.option("--split", type=SPLIT, default=default, show_default=default is not None, help=text)


def processes(jobs: int | None) -> int:
    """What `--jobs` means: one a core where it is not given."""
    return jobs or os.cpu_count() or 1


def chosen_tasks(tasks: Sequence[str], include: Sequence[Path], suite: str | None = None) -> list[str] | None:
    """Return the names that `--tasks` and `--suite` choose; None where neither does, or all are meant.

    With both, --tasks chooses within the suite. Raises UnknownNameError, UsageError.
    """
    from decabench.errors import require_name
    from decabench.tasks import get_suite, known_suites, known_tasks

    names = [name.strip() for value in tasks for name in value.split(",") if name.strip()]
    if tasks and not names:
        raise click.UsageError("--tasks names no task: leave it out for all.")
    within = list(get_suite(suite, known_suites(include)).tasks) if suite else None
    if not names or names == ["all"]:
        return within
    known = known_tasks(include)
    chosen = [require_name(name, known, "task") for name in dict.fromkeys(names)]
    if within is not None and (outside := [name for name in chosen if name not in within]):
        raise click.UsageError(
            f"--tasks names {', '.join(outside)}, and the suite {suite} has only {', '.join(within)}: "
            "choose among these, or leave --suite out."
        )
    return chosen


def chosen_suite(suite: str | None, include: Sequence[Path]) -> Suite:
    """Return the suite that `--suite` names, by default the decathlon. Raises UnknownNameError."""
    from decabench.tasks import DECATHLON, get_suite, known_suites

    return get_suite(suite, known_suites(include)) if suite else DECATHLON


def require_torch() -> None:
    """Raises ClickException where the extra that trains is not installed."""
    from importlib.util import find_spec

    if missing := [name for name in ("torch", "safetensors") if find_spec(name) is None]:
        raise click.ClickException(f"{' and '.join(missing)} not installed: pip install 'decabench[train]'.")
