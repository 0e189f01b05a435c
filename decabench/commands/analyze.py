"""`decabench analyze`."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import click

from decabench.commands._console import (
    chosen_tasks,
    complete_task,
    home_option,
    include_option,
    number_option,
    output_option,
    report,
    split_option,
    tasks_option,
)


@click.command()
@click.argument("analysis", metavar="ANALYSIS")
@click.argument("checkpoint", type=click.Path(path_type=Path, exists=True, file_okay=False))
@output_option("Folder for the figures and their numbers.")
@tasks_option
@click.option(
    "--task",
    metavar="NAME",
    shell_complete=complete_task,
    help="Task that contains the example, for an analysis of one example.",
)
@click.option(
    "--id",
    "example",
    default="",
    help="Id of the example, for use with --task.  [default: the first example]",
)
@number_option("--examples", 200, "Number of examples per task.")
@split_option("validation", "Split to take the examples from.")
@click.option("--device", default="auto", show_default=True, help="Device: auto, cpu, cuda, cuda:1 or mps.")
@home_option
@include_option
def analyze(
    analysis: str,
    checkpoint: Path,
    output: Path,
    tasks: tuple[str, ...],
    suite: str | None,
    task: str | None,
    example: str,
    examples: int,
    split: str,
    device: str,
    home: Path | None,
    include: tuple[Path, ...],
) -> None:
    """Analyze where a trained model's answers come from and what the model attends to.

    ANALYSIS is one of the analyses for the model's family. MQAN has two. pointers counts how often answers come
    from the vocabulary, the context and the question (Figure 3 of the paper). It covers all tasks that the model
    was trained on, unless you choose some with --tasks or --suite. attention shows what the model attends to
    while it answers one example (Figures 6 and 7), and requires --task. To use your own decabench.models.Analysis,
    specify it as package.module:object.

    \b
    decabench analyze pointers run --output figures
    decabench analyze attention run --task squad --output figures
    """
    from decabench.errors import DataError, require_torch

    require_torch()
    from decabench.models import Checkpoint, find_analysis
    from decabench.tasks import Store, get_task, known_tasks

    saved, known = Checkpoint.open(checkpoint), known_tasks(include)
    found = find_analysis(saved, analysis)
    if found.single and not task:
        raise click.UsageError(f"{analysis} analyzes a single example. Use --task to choose a task.")
    if not found.single and (task or example):
        raise click.UsageError(f"{analysis} analyzes whole tasks. Use --tasks instead of --task and --id.")
    names = [task] if task else chosen_tasks(tasks, include, suite) or saved.record.config["tasks"]
    saved.check_tasks([get_task(name, known) for name in names])
    store, sample = Store(home), {}
    for name in names:
        if store.hides(known[name], split):
            raise DataError(f"The {split} labels for {name} are hidden. Choose another split with --split.")
        rows = (row for row in store.examples(name, split) if not example or row.id == example)
        sample[name] = (known[name], list(islice(rows, 1 if found.single else examples)))
        if not sample[name][1]:
            like = next((f". Ids look like {row.id!r}" for row in store.examples(name, split)), "")
            raise DataError(f"The {split} split of {name} has no example {example!r}{like}.")
    report(*found.run(saved.load(device), sample, output))
