"""`decabench prepare`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from decabench.commands._options import (
    home_option,
    include_option,
    jobs_option,
    processes,
    split_option,
    suite_option,
)

if TYPE_CHECKING:
    from decabench.tasks import Outcome, Task

__all__ = ["prepare"]


@click.command()
@click.argument("tasks", nargs=-1, metavar="[TASK]…")
@suite_option
@split_option(None, "Only this split.  [default: all that are public]")
@click.option(
    "--mirror", metavar="DIR_OR_URL", help="Take upstream's files from here instead of the internet."
)
@click.option(
    "--sample", is_flag=True, help="Prepare the small sample that comes with decabench; no network."
)
@home_option
@click.option("--force", is_flag=True, help="Download and prepare again, even where nothing has changed.")
@jobs_option
@click.option(
    "--export-ids",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Also write the ids of what is prepared, for `decabench check` without data.",
)
@include_option
@click.pass_context
def prepare(
    context: click.Context,
    tasks: tuple[str, ...],
    suite: str | None,
    split: str | None,
    mirror: str | None,
    sample: bool,
    home: Path | None,
    force: bool,
    jobs: int | None,
    export_ids: Path | None,
    include: tuple[Path, ...],
) -> None:
    """Turn the datasets' own files into examples on disk.

    TASK… are task names; all ten are prepared where none is given. What is there already is left alone.
    """
    from decabench.commands._options import chosen_tasks
    from decabench.tasks import DECATHLON, Request, home_folder, known_tasks

    if export_ids and not export_ids.name.endswith((".json", ".json.gz")):
        raise click.UsageError(f"--export-ids writes .json or .json.gz, not {export_ids.name}.")
    if mirror and sample:
        raise click.UsageError("--mirror and --sample exclude each other: give one.")
    if mirror and not mirror.startswith(("http://", "https://")) and not Path(mirror).expanduser().is_dir():
        raise click.UsageError(f"--mirror takes a folder or an http(s) address; there is no folder {mirror}.")
    known = known_tasks(include)
    names = chosen_tasks(tasks, include, suite)
    chosen = [known[name] for name in names or (*DECATHLON.tasks, *(set(known) - set(DECATHLON.tasks)))]
    request = Request(home_folder(home), split, mirror, sample, force, progress=sys.stderr.isatty())
    outcomes = _run(chosen, request, jobs, include, named=bool(tasks) and names is not None)
    if export_ids:
        _export(export_ids, request.home, outcomes)
    context.exit(max((outcome.exit_code for outcome in outcomes), default=0))


def _run(
    chosen: list[Task], request: object, jobs: int | None, include: tuple[Path, ...], named: bool
) -> list[Outcome]:
    from decabench.commands._console import console
    from decabench.tasks import Request, prepare_all, requested_splits

    assert isinstance(request, Request)
    err = console(stderr=True)
    if not named:  # `prepare --split test` means every task that has a public test split
        for task in [task for task in chosen if not requested_splits(task, request)]:
            err.print(f"{task.name}: no public {request.split} split, left out")
            chosen.remove(task)
    what = chosen[0].name if len(chosen) == 1 else f"{len(chosen)} tasks"
    err.print(f"Preparing {what} in {request.home}, data from {request.place}")
    outcomes = prepare_all(chosen, request, processes(jobs), include, _report)
    _print_table(chosen, outcomes)
    return outcomes


def _report(outcome: Outcome) -> None:
    from decabench.commands._console import console

    if outcome.error:
        console(stderr=True).print(f"Error: {outcome.task}: {outcome.error}", style="red")
    elif not outcome.was_ready:
        rows = ", ".join(f"{split} {record.rows:,}" for split, record in outcome.records.items())
        console(stderr=True).print(f"  {outcome.task}: {rows}")


def _print_table(tasks: list[Task], outcomes: list[Outcome]) -> None:
    from rich.table import Table

    from decabench.commands._console import console, count
    from decabench.tasks import SPLITS

    table = Table("task", *SPLITS, "of published", "data", "state", box=None, header_style="bold")
    notes = []
    for task, outcome in zip(tasks, outcomes, strict=True):
        records = outcome.records
        published = " / ".join(count(task.counts.get(split)) for split in SPLITS)
        data = sorted({_origin(record) for record in records.values()})
        state = "failed" if outcome.error else "was ready" if outcome.was_ready else "prepared"
        rows = [count(records[split].rows) if split in records else "–" for split in SPLITS]
        table.add_row(task.name, *rows, published, ", ".join(data), state)
        notes += sorted({f"{task.name}: {record.note}" for record in records.values() if record.note})
    out = console()
    out.print(table)
    for note in notes:
        out.print(note, style="dim")


def _origin(record: object) -> str:
    from decabench.tasks import SplitRecord

    assert isinstance(record, SplitRecord)
    if record.origin in ("sample", "user"):
        return record.origin
    return f"{record.origin}, {'checksums verified' if record.verified else 'checksums not verified'}"


def _export(path: Path, home: Path, outcomes: list[Outcome]) -> None:
    from decabench.commands._console import console
    from decabench.submission import write_id_list
    from decabench.tasks import Store

    store = Store(home)
    splits = [(outcome.task, split) for outcome in outcomes for split in outcome.records]
    write_id_list(
        path,
        {key: store.ids(*key) for key in splits},
        {key: store.record(*key).fingerprint for key in splits},
    )
    console().print(f"Wrote the ids of {len(splits)} splits to {path}.")
