"""`decabench check`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from decabench.commands._console import echo, folded, is_set, note, write_json
from decabench.commands._options import home_option, include_option, submission_argument, tasks_option

if TYPE_CHECKING:
    from collections.abc import Iterable

    from decabench.submission import IdList
    from decabench.tasks import Store, Task

__all__ = ["check"]


@click.command()
@submission_argument
@tasks_option
@click.option("--split", type=click.Choice(["train", "validation", "test"]), help="Check only this split.")
@click.option(
    "--ids",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Id list from `prepare --export-ids`, to check without prepared data.",
)
@home_option
@include_option
@click.pass_context
def check(
    context: click.Context,
    submission: Path,
    tasks: tuple[str, ...],
    suite: str | None,
    split: str | None,
    ids: Path | None,
    home: Path | None,
    include: tuple[Path, ...],
) -> None:
    """Report every fault in a submission, with file, line and code. No labels are needed.

    Exits with 1 if there are faults, and with 3 if the only fault is that the data for some file is not prepared.
    """
    from decabench.commands._options import chosen_tasks
    from decabench.submission import check_submission, read_id_list
    from decabench.tasks import Store, home_folder, known_tasks

    known = known_tasks(include)
    names = chosen_tasks(tasks, include, suite)
    store = Store(home_folder(home))
    id_list = read_id_list(ids) if ids else _prepared(store, names or known)
    report = check_submission(
        submission,
        id_list.ids,
        known,
        tasks=names,
        splits=[split] if split else None,
        fingerprints=id_list.fingerprints,
        words=None if ids else _words(store, [known[name] for name in names or known]),
        store=None if ids else store,
    )
    write_json(report.to_json()) if is_set("json") else echo(folded(report.text(), indent=2), nl=False)
    absent = {fault.file for fault in report.faults if fault.code == "no-data"}
    if absent and not is_set("json"):
        missing = dict.fromkeys(count.task for count in report.files if count.file in absent)
        note(f"Prepare what is missing: decabench prepare {' '.join(missing)}")
    context.exit(report.exit_code)


def _prepared(store: Store, tasks: Iterable[str]) -> IdList:
    from decabench.submission import IdList

    records = {(task, split): record for task in tasks for split, record in store.records(task).items()}
    fingerprints = {pair: record.stated for pair, record in records.items()}
    return IdList(_OnRequest(tuple(records), lambda pair: tuple(store.ids(*pair))), fingerprints)


def _words(store: Store, tasks: Iterable[Task]) -> Mapping[tuple[str, str], Mapping[str, int]]:
    """Return the number of words by id, of the prepared splits of tasks with an item for each word."""
    from decabench.tasks import Tags, Tree

    def count(pair: tuple[str, str]) -> Mapping[str, int]:
        return {row["id"]: len(row["context"].split()) for row in store.read(*pair, ("id", "context"))}

    tagged = [task.name for task in tasks if isinstance(task.output, Tags | Tree)]
    return _OnRequest(tuple((name, split) for name in tagged for split in store.records(name)), count)


Read = TypeVar("Read")


class _OnRequest(Mapping[tuple[str, str], Read]):
    """What is known of prepared splits, read when it is asked for: a submission rarely answers the training data."""

    def __init__(self, splits: tuple[tuple[str, str], ...], read: Callable[[tuple[str, str]], Read]) -> None:
        self.splits = splits
        self.read = read

    def __getitem__(self, split: tuple[str, str]) -> Read:
        if split not in self.splits:
            raise KeyError(split)
        return self.read(split)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self.splits)

    def __len__(self) -> int:
        return len(self.splits)
