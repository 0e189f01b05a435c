"""`decabench suites`: list, show."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from decabench.commands import _options
from decabench.commands._console import TableColumn, console, echo, is_set, print_json, print_table

if TYPE_CHECKING:
    from decabench.tasks import PublishedRow, Suite


@click.group(invoke_without_command=True)
@_options.with_options
@click.pass_context
def suites(
    context: click.Context,
    home: Path | None = _options.HOME,
    include: tuple[Path, ...] = _options.INCLUDE,
) -> None:
    """List the suites, which are groups of tasks, and how their scores are combined."""
    if context.invoked_subcommand is not None:
        return
    from decabench.tasks import known_suites

    found = known_suites(include).values()
    if is_set("json"):
        from decabench.commands._documents import SuiteDescription

        print_json(
            {
                suite.name: SuiteDescription.from_value(suite, prepared=_prepared(suite, home))
                for suite in found
            }
        )
        return
    for suite in found:
        echo(f"{suite.name}: {suite.title}", bold=True)
        echo(f"  tasks     {', '.join(suite.tasks)}", indent=12)
        echo(f"  prepared  {len(_prepared(suite, home))} of {len(suite.tasks)}")
        echo(f"  total     {_total(suite)}\n")


@suites.command()
@click.argument("name", shell_complete=_options.complete_suite)
@_options.with_options
def show(name: str, home: Path | None = _options.HOME, include: tuple[Path, ...] = _options.INCLUDE) -> None:
    """Show the tasks in a suite, their metrics, and published scores."""
    from decabench.tasks import get_suite, known_suites, known_tasks

    suite, tasks, out = get_suite(name, known_suites(include)), known_tasks(include), console()
    prepared = _prepared(suite, home)
    if is_set("json"):
        from decabench.commands._documents import SuiteDocument, SuiteTask

        described = {task: SuiteTask(tasks[task].metric, task in prepared) for task in suite.tasks}
        print_json(SuiteDocument.from_value(suite, tasks=described))
        return
    out.print(f"{suite.name}: {suite.title}", style="bold")
    if suite.description:
        out.print(suite.description)
    out.print(f"Total: {_total(suite)}\n")
    columns = [
        TableColumn("task"),
        TableColumn("metric"),
        TableColumn("dataset", rank=1, is_text=True),
        TableColumn("prepared"),
    ]
    rows = [
        [task.name, task.metric, task.dataset, "yes" if task.name in prepared else "no"]
        for task in (tasks[name] for name in suite.tasks)
    ]
    print_table(out, columns, rows, more="run decabench tasks show NAME")
    if suite.published:
        out.print("\nPublished scores, which decabench has not verified", style="bold")
        for row in suite.published:
            echo(_sentence(row, suite), indent=2)
        for line in filter(None, (suite.source, suite.source_url, *suite.notes)):
            out.print(line, style="dim")


def _prepared(suite: Suite, home: Path | None) -> list[str]:
    from decabench.tasks import Store

    store = Store(home)
    return [task for task in suite.tasks if store.readable_records(task)]


def _total(suite: Suite) -> str:
    words = {"sum": "the sum of the task scores", "mean": "the mean of the task scores", "none": "none"}
    return words[suite.total] if suite.total == "none" else f"{suite.total_name}, {words[suite.total]}"


def _sentence(row: PublishedRow, suite: Suite) -> str:
    """Return a line such as `MQAN, joint: squad 70.8, …; decaScore 562.7`."""
    scores = ", ".join(f"{task} {row.scores[task]}" for task in suite.tasks if task in row.scores)
    name = f"{row.name}, {row.training}" if row.training else row.name
    total = "" if row.total is None else f"; {suite.total_name} {row.total}"
    return f"{name}: {scores}{total}{f' ({row.source})' if row.source else ''}"
