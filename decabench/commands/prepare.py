"""`decabench prepare`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from decabench.commands import _options
from decabench.commands._console import (
    TableColumn,
    console,
    describe_origin,
    echo,
    format_count,
    is_chatty,
    is_set,
    note,
    print_field,
    print_json,
    print_table,
)
from decabench.options import option

if TYPE_CHECKING:
    from collections.abc import Mapping

    from decabench.commands._documents import PreparedTask
    from decabench.tasks import Preparation, Task


@click.command()
@click.argument("tasks", nargs=-1, metavar="[TASK]…", shell_complete=_options.complete_task)
@_options.with_options
@click.pass_context
def prepare(
    context: click.Context,
    tasks: tuple[str, ...],
    suite: str | None = _options.SUITE,
    split: _options.Split | None = option(None, "Prepare only this split.", unset="all public splits"),
    mirror: str | None = option(
        None,
        "Get the published files from this folder or URL instead of their original sources.",
        metavar="DIR_OR_URL",
    ),
    sample: bool = option(False, "Prepare the small sample bundled with decabench, offline."),
    home: Path | None = _options.HOME,
    force: bool = option(False, "Download and prepare again, even if nothing has changed."),
    jobs: int = _options.JOBS,
    export_ids: Path | None = option(
        None,
        "Also write the ids of the prepared examples to this file, so that `decabench check` can run without data.",
        type=_options.FILE,
    ),
    hidden: bool = _options.HIDDEN,
    include: tuple[Path, ...] = _options.INCLUDE,
) -> None:
    """Convert the datasets' published files to examples on disk.

    TASK… lists the tasks to prepare, by default all tasks of the decathlon and your own. Data that is
    up to date is skipped, even if it was prepared from a mirror that you don't specify this time. A
    split that has changed is rebuilt; if it came from a mirror, specify the mirror again. --force
    rebuilds everything.
    """
    from decabench.tasks import (
        DECATHLON,
        Request,
        available_splits,
        choose_tasks,
        describe_absent,
        home_folder,
        known_tasks,
        prepare_all,
        requested_splits,
    )

    if export_ids and not export_ids.name.endswith((".json", ".json.gz")):
        raise click.UsageError(
            f"--export-ids requires a name that ends in .json or .json.gz, but got {export_ids.name}."
        )
    request = Request(home_folder(home), split, mirror, sample, force, is_chatty(), hidden)
    request.require_place()
    known = known_tasks(include)
    names = choose_tasks(tasks, suite, include)
    own = [name for name, task in known.items() if task.origin == "user"]
    chosen = [known[name] for name in names or (*DECATHLON.tasks, *own)]
    skipped = []
    if not tasks or names is None:  # `prepare --split test` means every task that has a public test split
        for task in [task for task in chosen if not requested_splits(task, request)]:
            note(f"{task.name}: no public {request.split} split, skipped")
            skipped.append(task.name)
            chosen.remove(task)
    for task in [task for task in chosen if task.folder is not None]:
        for absent in (each for each in task.hidden if each not in available_splits(task)):
            note(f"{describe_absent(task, absent)}.")
    what = chosen[0].name if len(chosen) == 1 else f"{len(chosen)} tasks"
    source = f" with data from {request.place}" if request.origin != "upstream" else ""
    note(f"Preparing {what} in {request.home}{source}")
    preparations = prepare_all(chosen, request, jobs, include, _report)
    requested = {task.name: requested_splits(task, request) for task in chosen}
    if not is_set("json"):
        _print_table(chosen, preparations, requested)
    if failed := [each.task for each in preparations if each.error]:
        done = f"Prepared: {len(preparations) - len(failed)} of {len(preparations)} tasks"
        note(f"{done}. Not prepared, or only partly: {', '.join(failed)} (see above).")
    written = _export_ids(export_ids, request.home, preparations) if export_ids else None
    if is_set("json"):
        from decabench.commands._documents import PreparationDocument

        print_json(
            PreparationDocument(
                home=str(request.home),
                tasks=[_document(each, requested[each.task]) for each in preparations],
                skipped=skipped,
                ids=written,
            )
        )
    context.exit(max((preparation.exit_code for preparation in preparations), default=0))


def _document(found: Preparation, requested: tuple[str, ...]) -> PreparedTask:
    from decabench.commands._documents import PreparedSplit, PreparedTask

    return PreparedTask.from_value(
        found,
        state=_state(found),
        splits={split: PreparedSplit.from_value(record) for split, record in found.records.items()},
        missing=[split for split in requested if split not in found.records],
    )


def _state(found: Preparation) -> Literal["was ready", "prepared", "partly", "failed"]:
    if found.error:
        return "partly" if found.records else "failed"
    return "was ready" if found.was_ready else "prepared"


def _report(preparation: Preparation) -> None:
    for split in preparation.altered:  # with --quiet too, because the data was changed by hand
        record = preparation.records.get(split)
        places = {"user": "local files", "mirror": "the mirror", "sample": "the sample"}
        origin = "" if record is None else places.get(record.origin, record.origin)
        outcome = f", so it was prepared again from {origin}" if origin else ""
        sentence = f"{preparation.task}: {split} has been changed or deleted since it was prepared{outcome}."
        echo(sentence, err=True)
    if preparation.error:
        error = f"Error: {preparation.task}: {preparation.error}"
        console(stderr=True).print(error, style="red")
    elif not preparation.was_ready:
        rows = ", ".join(f"{split} {record.rows:,}" for split, record in preparation.records.items())
        note(f"  {preparation.task}: {rows}")


def _print_table(
    tasks: list[Task], preparations: list[Preparation], requested: Mapping[str, tuple[str, ...]]
) -> None:
    from decabench.tasks import SPLITS, describe_missing

    out = console()
    columns = [
        TableColumn("task"),
        *(TableColumn(split) for split in SPLITS),
        TableColumn("published", rank=1),
        TableColumn("data", rank=1),
        TableColumn("state", is_text=True),
    ]
    table = []
    origins: dict[str, list[str]] = {}
    notes = []
    for task, preparation in zip(tasks, preparations, strict=True):
        records = preparation.records
        published = " / ".join(format_count(task.counts.get(split)) for split in SPLITS)
        data = sorted({describe_origin(record) for record in records.values()})
        for origin in data:
            splits = [split for split, record in records.items() if describe_origin(record) == origin]
            origins.setdefault(origin, []).append(
                task.name if len(data) == 1 else f"{task.name} ({', '.join(splits)})"
            )
        state: str = _state(preparation)
        if state == "partly":
            state = f"partly, {len(records)} of {len(requested[task.name])} splits"
        rows = [format_count(records[split].rows) if split in records else "–" for split in SPLITS]
        table.append([task.name, *rows, published, ", ".join(data), state])
        notes += sorted({f"{task.name}: {record.note}" for record in records.values() if record.note})
        missing = (describe_missing(task, split, record) for split, record in records.items())
        notes += [f"{task.name}: {sentence}" for sentence in missing if sentence]
        bare = [split for split, record in records.items() if not record.labelled]
        notes += [f"{task.name}: {split} has questions but no labels" for split in bare]
    if not print_table(out, columns, table, more=""):
        for origin, names in origins.items():
            print_field(out, "data", origin if len(origins) == 1 else f"{origin}: {', '.join(names)}")
    for sentence in notes:
        out.print(sentence, style="dim")


def _export_ids(path: Path, home: Path, preparations: list[Preparation]) -> str | None:
    """Write the ids of the prepared splits, and return the path.

    Returns None without writing if no split was prepared, or if the file exists and a task failed,
    because the new list would lack some ids.
    """
    from decabench.submission import write_id_list
    from decabench.tasks import Store

    store = Store(home)
    splits = [(preparation.task, split) for preparation in preparations for split in preparation.records]
    if not splits or (path.exists() and any(each.error for each in preparations)):
        kept = f"{path} is unchanged" if path.exists() else f"{path} was not written"
        console(stderr=True).print(f"{kept}, because not all data was prepared (see above).")
        return None
    write_id_list(
        path,
        {key: store.ids(*key) for key in splits},
        {key: store.record(*key).stated for key in splits},
    )
    counted = "1 split" if len(splits) == 1 else f"{len(splits)} splits"
    console().print(f"Wrote the ids of {counted} to {path}.")
    return str(path)
