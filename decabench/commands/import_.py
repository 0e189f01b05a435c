"""`decabench import`: turn answers from another program into a submission."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from decabench.commands import _options
from decabench.commands._console import echo, is_set, write_json
from decabench.options import REQUIRED, option

if TYPE_CHECKING:
    from decabench.exchange import RefusedImportError

_ONLY = {
    "filter": ("lm-eval",),
    "scorer": ("inspect",),
    "epoch": ("inspect",),
    "delimiter": ("csv",),
    "answer": ("csv",),
    "id": ("csv", "lm-eval"),
}
"""Options that apply only to some formats, with the names of the formats."""


@click.command("import")
@click.argument("format", type=click.Choice(["squad", "csv", "text", "lm-eval", "inspect"]), metavar="FORMAT")
@click.argument("file", type=_options.EXISTING_FILE)
@_options.with_options
@click.pass_context
def import_(
    context: click.Context,
    format: str,
    file: Path,
    task: str = option(REQUIRED, "Task that the answers belong to.", metavar="NAME"),
    split: _options.Split = option("validation", "Split that the answers belong to."),
    output: Path = option(
        REQUIRED,
        "Folder for the submission. Several tasks can be imported into the same folder.",
        type=_options.FOLDER,
    ),
    name: str = option("", "Name of the submission.", metavar="TEXT", unset="the folder's name"),
    note: str = option(
        "",
        "Store this note in the submission, for example to say where the answers come from.",
        metavar="TEXT",
    ),
    id: str | None = option(
        None,
        "For CSV input, the column with the ids. For lm-eval, the field of 'doc' with the ids.",
        metavar="NAME",
        unset="id",
    ),
    answer: str | None = option(
        None, "For CSV input, the column with the answers.", metavar="NAME", unset="answer"
    ),
    delimiter: str | None = option(
        None,
        "For CSV input, the delimiter between columns.",
        metavar="CHAR",
        unset="a comma; a tab for .tsv",
    ),
    filter: str | None = option(None, "For lm-eval, use this filter's answers.", metavar="NAME"),
    scorer: str | None = option(
        None,
        "For inspect, use this scorer's answers.",
        metavar="NAME",
        unset="those of the scorer 'choice', or else the completions",
    ),
    epoch: int | None = option(None, "For inspect, use this epoch.", at_least=1),
    in_order: bool = option(
        False,
        "Match rows by order instead of by id. The text format always does this. Any texts in the rows must match "
        "the examples.",
    ),
    extract: bool | None = option(
        None,
        "Extract the answer from the model's text.",
        flag="--extract/--no-extract",
        unset="for lm-eval and inspect",
    ),
    reasoning_tags: tuple[tuple[str, str], ...] = option(
        (),
        "Recognize these additional tags around a model's reasoning. Can be repeated.",
        metavar="OPEN CLOSE",
    ),
    label: tuple[str, ...] = option(
        (),
        "Replace a label in the file with the dataset's label, such as 1=positive. Can be repeated.",
        metavar="FILE=DATASET",
    ),
    ignore_unknown: bool = option(False, "Leave out rows that match no example of the split."),
    partial: bool = option(False, "Declare a limited run, in which only some examples were answered."),
    force: bool = option(False, "Replace an earlier import of the split."),
    report: Path | None = option(
        None,
        "Write every faulty row to this file, one JSON object per line.",
        type=_options.FILE,
    ),
    home: Path | None = _options.HOME,
    include: tuple[Path, ...] = _options.INCLUDE,
) -> None:
    """Create a submission from another program's answers, and check it.

    \b
    squad     predictions JSON for the official scorers: {"<id>": "<answer>", ...}
    csv       a table with a column of ids and a column of answers
    text      one answer per line, in the order of the data
    lm-eval   samples_*.jsonl, written by lm-eval with --log_samples
    inspect   an Inspect log, .eval or .json; requires the package inspect-ai

    Rows are matched by id, or by their texts if the ids are unknown. The texts must match the examples. If any row does
    not answer exactly one example, nothing is written and every such row is reported. Exits with 1 in that case, and
    also if examples have no answer.
    """
    from decabench.exchange import ImportSettings, Places, RefusedImportError, import_answers

    given = context.params
    for flag, formats in _ONLY.items():
        if given[flag] is not None and format not in formats:
            raise click.UsageError(
                f"--{flag} is only for {' and '.join(formats)}, but the format is {format}."
            )
    places = Places(
        id or "id",
        answer or "answer",
        delimiter or "",
        filter or scorer or "",
        epoch or 0,
    )
    settings = ImportSettings(
        places, in_order, extract, _read_labels(label), ignore_unknown, partial, force, note, reasoning_tags
    )
    try:
        done = import_answers(file, task, output, _name(name, output), split, format, settings, home, include)
    except RefusedImportError as error:
        if report is not None:
            _write_report(report, error)
        raise
    if is_set("json"):
        write_json(done.check.to_json())
        context.exit(done.check.exit_code)
    echo(done.words)
    echo(done.check.text(), indent=2, nl=False)
    if not label and any(fault.code == "no-label" for fault in done.check.warnings):
        echo(
            "If the file uses different words for the labels, import the answers again with --force, and add "
            "--label FILE=DATASET for each label, such as --label 1=positive."
        )
    if done.removed:
        echo(f"Removed results whose answers have changed: {', '.join(done.removed)}.")
    missing = done.examples - done.imported
    if missing and not partial:
        examples = "1 example has" if missing == 1 else f"{missing:,} examples have"
        echo(
            f"{examples} no answer, so evaluate would mark {task} as failed. Import all answers "
            "with --force, or declare a limited run with --force --partial."
        )
    elif not is_set("quiet"):
        also = f" --split {split}" if split == "test" else ""
        echo(f"Score it: decabench evaluate {output}{also}", wrap=False)
    context.exit(done.check.exit_code)


def _name(given: str, output: Path) -> str:
    """Return the submission's name, or an empty string to keep the name from an earlier import."""
    return given or ("" if (output / "submission.toml").exists() else output.resolve().name)


def _read_labels(labels: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for label in labels:
        theirs, equals, ours = label.rpartition("=")
        if not equals or not ours:
            raise click.UsageError(
                f"--label must have the form FILE=DATASET, such as 1=positive, but got {label!r}."
            )
        if theirs in found:
            raise click.UsageError(f"--label lists {theirs!r} more than once. List each label only once.")
        found[theirs] = ours
    return found


def _write_report(path: Path, error: RefusedImportError) -> None:
    import json
    from dataclasses import asdict

    from decabench.files import atomic_file

    with atomic_file(path, option="--report") as file:
        for fault in error.faults:
            file.write(json.dumps(asdict(fault), ensure_ascii=False).encode("utf-8", "replace") + b"\n")
