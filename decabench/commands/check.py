"""`decabench check`."""

from __future__ import annotations

from pathlib import Path

import click

from decabench.commands import _options
from decabench.commands._console import echo, is_set, note, submission_argument, write_json
from decabench.options import option


@click.command()
@submission_argument
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
    from decabench.tasks import Store, choose_tasks, home_folder, home_option, known_tasks

    known = known_tasks(include)
    names = choose_tasks(tasks, suite, include)
    given = read_id_list(ids) if ids else None
    report = check_submission(
        submission,
        given.ids if given else Store(home),
        known,
        tasks=names,
        splits=[split] if split else None,
        fingerprints=given.fingerprints if given else None,
    )
    write_json(report.to_json()) if is_set("json") else echo(report.text(), indent=2, nl=False)
    absent = {fault.file for fault in report.faults if fault.code == "no-data"}
    if absent and not is_set("json"):
        missing = dict.fromkeys(count.task for count in report.files if count.file in absent)
        place = home_option(home_folder(home))
        note(f"Prepare the missing data: decabench prepare {' '.join(missing)}{place}")
    context.exit(report.exit_code)
