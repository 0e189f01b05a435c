"""`decabench import`: turn answers from another program into a submission."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from decabench.commands._console import (
    echo,
    file_option,
    folded,
    home_option,
    include_option,
    is_set,
    output_option,
    split_option,
    write_json,
)

if TYPE_CHECKING:
    from decabench.exchange import RefusedImportError

_ONLY = {
    "filter_name": ("--filter", ("lm-eval",)),
    "scorer": ("--scorer", ("inspect",)),
    "epoch": ("--epoch", ("inspect",)),
    "delimiter": ("--delimiter", ("csv",)),
    "answer": ("--answer", ("csv",)),
    "id_": ("--id", ("csv", "lm-eval")),
}
"""Parameters that apply only to some formats, each with its command-line option and the names of the formats."""


@click.command("import")
@click.argument("format", type=click.Choice(["squad", "csv", "text", "lm-eval", "inspect"]), metavar="FORMAT")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--task", required=True, metavar="NAME", help="Task that the answers belong to.")
@split_option("validation", "Split that the answers belong to.")
@output_option("Folder for the submission. Several tasks can be imported into the same folder.")
@click.option(
    "--name", default="", metavar="TEXT", help="Name of the submission.  [default: the folder's name]"
)
@click.option(
    "--note",
    default="",
    metavar="TEXT",
    help="Store this note in the submission, for example to say where the answers come from.",
)
@click.option(
    "--id",
    "id_",
    metavar="NAME",
    help="For CSV input, the column with the ids. For lm-eval, the field of doc with the ids.  [default: id]",
)
@click.option(
    "--answer", metavar="NAME", help="For CSV input, the column with the answers.  [default: answer]"
)
@click.option(
    "--delimiter",
    metavar="CHAR",
    help="For CSV input, the delimiter between columns.  [default: a comma; a tab for .tsv]",
)
@click.option("--filter", "filter_name", metavar="NAME", help="For lm-eval, use this filter's answers.")
@click.option(
    "--scorer",
    metavar="NAME",
    help="For inspect, use this scorer's answers.  [default: those of the scorer 'choice', or else the completions]",
)
@click.option("--epoch", type=click.IntRange(min=1), metavar="N", help="For inspect, use this epoch.")
@click.option(
    "--in-order",
    is_flag=True,
    help="Match rows by order instead of by id, as is always done for the text format. The texts of the rows must "
    "match the examples.",
)
@click.option(
    "--extract/--no-extract",
    default=None,
    help="Extract the answer from the model's text.  [default: for lm-eval and inspect]",
)
@click.option(
    "--reasoning-tags",
    multiple=True,
    nargs=2,
    metavar="OPEN CLOSE",
    help="Recognize these additional tags around a model's reasoning. Can be repeated.",
)
@click.option(
    "--label",
    "labels",
    multiple=True,
    metavar="FILE=DATASET",
    help="Replace a label in the file with the dataset's label, such as 1=positive. Can be repeated.",
)
@click.option("--ignore-unknown", is_flag=True, help="Leave out rows whose id is not in the split.")
@click.option(
    "--partial", is_flag=True, help="Declare a limited run, in which only some examples were answered."
)
@click.option("--force", is_flag=True, help="Replace an earlier import of the split.")
@file_option("--report", text="Write every faulty row to this file, one JSON object per line.", exists=False)
@home_option
@include_option
@click.pass_context
def import_(
    context: click.Context,
    format: str,
    file: Path,
    task: str,
    split: str,
    output: Path,
    name: str,
    note: str,
    id_: str | None,
    answer: str | None,
    delimiter: str | None,
    filter_name: str | None,
    scorer: str | None,
    epoch: int | None,
    in_order: bool,
    extract: bool | None,
    reasoning_tags: tuple[tuple[str, str], ...],
    labels: tuple[str, ...],
    ignore_unknown: bool,
    partial: bool,
    force: bool,
    report: Path | None,
    home: Path | None,
    include: tuple[Path, ...],
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
    for parameter, (flag, formats) in _ONLY.items():
        if given[parameter] is not None and format not in formats:
            raise click.UsageError(f"{flag} is only for {' and '.join(formats)}, but the format is {format}.")
    places = Places(
        id_ or "id",
        answer or "answer",
        delimiter or "",
        filter_name or scorer or "",
        epoch or 0,
    )
    settings = ImportSettings(
        places, in_order, extract, _read_labels(labels), ignore_unknown, partial, force, note, reasoning_tags
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
    echo(folded(done.words))
    echo(folded(done.check.text(), indent=2), nl=False)
    if not labels and any(fault.code == "no-label" for fault in done.check.warnings):
        echo(
            folded(
                "If the file uses different words for the labels, import the answers again with --force, and add "
                "--label FILE=DATASET for each label, such as --label 1=positive."
            )
        )
    if done.removed:
        echo(folded(f"Removed results whose answers have changed: {', '.join(done.removed)}."))
    missing = done.examples - done.imported
    if missing and not partial:
        examples = "1 example has" if missing == 1 else f"{missing:,} examples have"
        echo(
            folded(
                f"{examples} no answer, so evaluate would mark {task} as failed. Import all answers "
                "with --force, or declare a limited run with --force --partial."
            )
        )
    elif not is_set("quiet"):
        echo(f"Score it: decabench evaluate {output}{f' --split {split}' if split == 'test' else ''}")
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
