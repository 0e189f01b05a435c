"""`decabench check`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from decabench.commands import _options
from decabench.commands._console import echo, folded, is_set, note, write_json
from decabench.options import option

if TYPE_CHECKING:
    from collections.abc import Iterable

    from decabench.submission import IdList
    from decabench.tasks import Store


@click.command()
@_options.submission_argument
@_options.with_options
@click.pass_context
def check(
    context: click.Context,
    submission: Path,
    tasks: tuple[str, ...] = _options.TASKS,
    suite: str | None = _options.SUITE,
    split: _options.Split | None = option(None, "Check only this split."),
    ids: Path | None = option(
        None,
        "Use this id list from `prepare --export-ids` instead of prepared data.",
        type=_options.EXISTING_FILE,
    ),
    home: Path | None = _options.HOME,
    include: tuple[Path, ...] = _options.INCLUDE,
) -> None:
    """Report every fault in a submission, with its file, line and code. Labels aren't needed.

    Exits with 1 if there are faults, and with 3 if the only faults are files whose data is not prepared.
    """
    from decabench.submission import check_submission, read_id_list
    from decabench.tasks import Store, choose_tasks, known_tasks

    known = known_tasks(include)
    names = choose_tasks(tasks, suite, include)
    store = Store(home)
    id_list = read_id_list(ids) if ids else _prepared(store, names or known)
    report = check_submission(
        submission,
        id_list.ids,
        known,
        tasks=names,
        splits=[split] if split else None,
        fingerprints=id_list.fingerprints,
        store=None if ids else store,
    )
    write_json(report.to_json()) if is_set("json") else echo(folded(report.text(), indent=2), nl=False)
    absent = {fault.file for fault in report.faults if fault.code == "no-data"}
    if absent and not is_set("json"):
        missing = dict.fromkeys(count.task for count in report.files if count.file in absent)
        note(f"Prepare the missing data: decabench prepare {' '.join(missing)}")
    context.exit(report.exit_code)


def _prepared(store: Store, tasks: Iterable[str]) -> IdList:
    from decabench.submission import IdList

    records = {(task, split): record for task in tasks for split, record in store.records(task).items()}
    fingerprints = {pair: record.stated for pair, record in records.items()}
    return IdList(_OnRequest(tuple(records), store), fingerprints)


class _OnRequest(Mapping[tuple[str, str], tuple[str, ...]]):
    """The ids of prepared splits. Each split is read on first use, since few submissions answer every split."""

    def __init__(self, splits: tuple[tuple[str, str], ...], store: Store) -> None:
        self.splits = splits
        self.store = store

    def __getitem__(self, split: tuple[str, str]) -> tuple[str, ...]:
        if split not in self.splits:
            raise KeyError(split)
        return tuple(self.store.ids(*split))

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self.splits)

    def __len__(self) -> int:
        return len(self.splits)
