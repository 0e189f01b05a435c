"""`decabench analyze`."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import click

from decabench.commands import _options
from decabench.commands._console import report
from decabench.options import REQUIRED, option


@click.command()
@click.argument("analysis", metavar="ANALYSIS")
@click.argument("checkpoint", type=_options.EXISTING_FOLDER)
@_options.with_options
def analyze(
    analysis: str,
    checkpoint: Path,
    output: Path = option(REQUIRED, "Folder for the figures and their numbers.", type=_options.FOLDER),
    tasks: tuple[str, ...] = _options.TASKS,
    suite: str | None = _options.SUITE,
    task: str | None = option(
        None,
        "Task that contains the example, for an analysis of one example.",
        metavar="NAME",
        complete=_options.complete_task,
    ),
    id: str = option("", "Id of the example, for use with --task.", unset="the first example"),
    examples: int = option(200, "Number of examples per task.", at_least=1),
    split: _options.Split = option("validation", "Split to take the examples from."),
    device: str = _options.DEVICE,
    home: Path | None = _options.HOME,
    include: tuple[Path, ...] = _options.INCLUDE,
) -> None:
    """Analyze where a trained model's answers come from and what the model attends to.

    ANALYSIS is one of the analyses for the model's family. MQAN has two: "pointers" counts how often answers come
    from the vocabulary, the context and the question (Figure 3 of the paper). It covers all tasks that the model
    was trained on, unless you choose some with --tasks or --suite. "attention" shows what the model attends to
    while it answers one example (Figures 6 and 7), and requires --task. To use your own decabench.models.Analysis,
    specify it as package.module:object.

    \b
    decabench analyze pointers run --output figures
    decabench analyze attention run --task squad --output figures
    """
    from decabench.errors import DataError, require_torch

    require_torch()
    from decabench.models import Checkpoint, find_analysis
    from decabench.tasks import Store, choose_tasks, get_task, known_tasks

    saved, known = Checkpoint.open(checkpoint), known_tasks(include)
    found = find_analysis(saved, analysis)
    if found.single and not task:
        raise click.UsageError(f"{analysis} analyzes a single example. Use --task to choose a task.")
    if not found.single and (task or id):
        raise click.UsageError(f"{analysis} analyzes whole tasks. Use --tasks instead of --task and --id.")
    names = [task] if task else choose_tasks(tasks, suite, include) or saved.record.config["tasks"]
    saved.check_tasks([get_task(name, known) for name in names])
    store, sample = Store(home), {}
    for name in names:
        if store.hides(known[name], split):
            raise DataError(f"The {split} labels for {name} are hidden. Choose another split with --split.")
        rows = (row for row in store.examples(name, split) if not id or row.id == id)
        sample[name] = (known[name], list(islice(rows, 1 if found.single else examples)))
        if not sample[name][1]:
            like = next((f". Ids look like {row.id!r}" for row in store.examples(name, split)), "")
            raise DataError(f"The {split} split of {name} has no example {id!r}{like}.")
    report(*found.run(saved.load(device), sample, output))
