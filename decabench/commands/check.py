"""`decabench check`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from decabench.commands._console import echo
from decabench.commands._options import home_option, include_option, submission_option, tasks_option

if TYPE_CHECKING:
    from collections.abc import Iterable

    from decabench.submission import IdList
    from decabench.tasks import Store, Task

__all__ = ["check"]


@click.command()
@submission_option
@tasks_option
@click.option("--split", type=click.Choice(["train", "validation", "test"]), help="Check only this split.")
@click.option(
    "--ids",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Id list from `prepare --export-ids`, to check without prepared data.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
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
    as_json: bool,
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
    id_list = read_id_list(ids) if ids else _prepared(Store(home_folder(home)), names or known)
    report = check_submission(
        submission,
        id_list.ids,
        known,
        tasks=names,
        splits=[split] if split else None,
        fingerprints=id_list.fingerprints,
        words=None
        if ids
        else _WordsOnRequest(Store(home_folder(home)), [known[name] for name in names or known]),
    )
    echo(report.to_json() if as_json else report.text(), nl=False)
    context.exit(report.exit_code)


def _prepared(store: Store, tasks: Iterable[str]) -> IdList:
    from decabench.submission import IdList

    records = {(task, split): record for task in tasks for split, record in store.records(task).items()}
    fingerprints = {pair: record.fingerprint for pair, record in records.items()}
    return IdList(_IdsOnRequest(store, tuple(records)), fingerprints)


class _WordsOnRequest(Mapping[tuple[str, str], Mapping[str, int]]):
    """The number of words by id, of the prepared splits of tasks with an item for each word; read on request."""

    def __init__(self, store: Store, tasks: Iterable[Task]) -> None:
        from decabench.tasks import Tags, Tree

        tagged = [task.name for task in tasks if isinstance(task.output, Tags | Tree)]
        self.store = store
        self.splits = tuple((name, split) for name in tagged for split in store.records(name))

    def __getitem__(self, split: tuple[str, str]) -> Mapping[str, int]:
        if split not in self.splits:
            raise KeyError(split)
        rows = self.store.read(*split, ("id", "context"))
        return {row["id"]: len(row["context"].split()) for row in rows}

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self.splits)

    def __len__(self) -> int:
        return len(self.splits)


class _IdsOnRequest(Mapping[tuple[str, str], tuple[str, ...]]):
    """The ids of prepared splits, read on request: a submission rarely answers the training data."""

    def __init__(self, store: Store, splits: tuple[tuple[str, str], ...]) -> None:
        self.store = store
        self.splits = splits

    def __getitem__(self, split: tuple[str, str]) -> tuple[str, ...]:
        if split not in self.splits:
            raise KeyError(split)
        return tuple(self.store.ids(*split))

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self.splits)

    def __len__(self) -> int:
        return len(self.splits)
