"""`decabench evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from decabench.commands.options import (
    home_option,
    include_option,
    jobs_option,
    submission_option,
    tasks_option,
)

if TYPE_CHECKING:
    from decabench.results import Results

__all__ = ["evaluate"]


@click.command()
@submission_option
@tasks_option
@click.option(
    "--split",
    type=click.Choice(["validation", "test"]),
    default="validation",
    show_default=True,
    help="Which split to score.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Where results.json goes.  [default: results/<split> in the submission, beside an archive]",
)
@home_option
@jobs_option
@include_option
@click.pass_context
def evaluate(
    context: click.Context,
    submission: Path,
    tasks: tuple[str, ...],
    split: str,
    output: Path | None,
    home: Path | None,
    jobs: int | None,
    include: tuple[Path, ...],
) -> None:
    """Score a submission, print the table and write results.json.

    Ends with 1 where a task failed, and with 3 where the data is missing or is not the data that the submission
    was made for. A decaScore needs all ten tasks; else the sum says of how many.
    """
    from decabench.commands.options import chosen_tasks
    from decabench.evaluator import evaluate as run
    from decabench.results import write_results_file
    from decabench.runlog import started, write_run_file

    clock = started()
    results = run(submission, split, chosen_tasks(tasks, include), home, jobs, include)
    folder = output or _default_output(submission, split)
    path = write_results_file(folder, results)
    write_run_file(folder, clock)
    _print(results)
    click.echo(f"Results: {path}")
    context.exit(0 if results.ok else 1)


def _default_output(submission: Path, split: str) -> Path:
    folder = submission if submission.is_dir() else submission.parent / f"{submission.name}.results"
    return folder / "results" / split if submission.is_dir() else folder / split


def _print(results: Results) -> None:
    from rich.table import Table

    from decabench.commands.console import console, count, score

    out = console()
    out.print(f"{results.submission['name']}, {results.split}", style="bold")
    table = Table(
        "task", "metric", "score", "n", "empty", "other scores", "data", box=None, header_style="bold"
    )
    for name, task in results.tasks.items():
        if task.status == "failed":
            table.add_row(
                name,
                task.headline,
                "failed",
                "–",
                "–",
                f"{task.faults} faults: {task.reason}",
                task.data.origin,
            )
            continue
        others = ", ".join(f"{key} {value:.2f}" for key, value in task.scores.items() if key != task.headline)
        data = task.data.origin if task.data.verified else f"{task.data.origin}, not verified"
        table.add_row(name, task.headline, score(task.score), count(task.n), count(task.empty), others, data)
    out.print(table)
    total = results.total
    out.print(f"{'decaScore' if total.complete else 'Sum (no decaScore)'}: {total.text}", style="bold")
    if total.missing:
        out.print(f"No answers for: {', '.join(total.missing)}")
    if total.failed:
        out.print(f"Failed: {', '.join(total.failed)} (decabench check lists every fault)", style="red")
    for name, task in results.tasks.items():
        if task.data.note:
            out.print(f"{name}: {task.data.note}", style="dim")
