"""`decabench export`: results, tasks, weights."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

import click

from decabench.commands import _options
from decabench.commands._console import echo, is_set, note, report
from decabench.options import REQUIRED, option


@click.group()
def export() -> None:
    """Export results, tasks or a trained model to other programs and machines."""


@export.command()
@click.argument("checkpoint", type=_options.EXISTING_FOLDER)
@_options.with_options
def weights(
    checkpoint: Path,
    output: Path = option(REQUIRED, "New folder for the copy.", type=_options.FOLDER),
    words: int = option(
        20_000,
        "Include this many words from the top of each vector file, in addition to the model's vocabulary.",
        at_least=0,
    ),
    named_vectors: bool = option(
        False,
        "Leave out the word vectors and list their packages, which must be installed to use the copy.",
    ),
    full: bool = option(False, "Keep the weights in float32, which doubles the size of the file."),
) -> None:
    """Write a self-contained copy of a trained model, with its word vectors.

    CHECKPOINT is a checkpoint or a run's folder. For a run, the best checkpoint is exported. Unless --named-vectors is
    used, the copy requires no other files. To use it, run decabench predict --predictor trained:DIR.
    """
    from decabench.errors import require_torch

    require_torch()
    from decabench.models import Checkpoint, export_checkpoint

    made = export_checkpoint(Checkpoint.open(checkpoint), output, words, not full, not named_vectors)
    vectors = "without its vectors" if named_vectors else f"with vectors for {made.words:,} words"
    report(f"{output}: {made.size / 1e6:.1f} MB, {vectors}.")


@export.command()
@click.argument("submissions", type=_options.EXISTING, nargs=-1, required=True)
@_options.with_options
def results(
    submissions: tuple[Path, ...],
    format: Literal["markdown", "latex", "model-index"] = option(
        "markdown", "Write a table, or the model-index of a Hugging Face model card."
    ),
    split: _options.Split = option("validation", "Export results for this split."),
    output: Path | None = option(None, "File to write.", type=_options.FILE, unset="standard output"),
    push: str | None = option(
        None,
        "Add the results to this model's card on the Hugging Face Hub. Requires --format model-index and HF_TOKEN.",
        metavar="OWNER/NAME",
    ),
) -> None:
    """Write results as a Markdown or LaTeX table, or for a Hugging Face model card, with their intervals.

    SUBMISSIONS are results.json files, or folders that decabench evaluate has scored. Several submissions are shown
    side by side if they were scored on the same data with the same metrics. Runs that differ only in their seeds share
    a column, with their mean, lowest and highest score. Scores are copied from the files. To score the answers again,
    use decabench verify.
    """
    from decabench.exchange import export_results, find_results, group_seeds, push_card
    from decabench.files import write_file

    if push is not None and format != "model-index":
        raise click.UsageError("--push updates a model card, so --format model-index is required.")
    results = [find_results(path, split) for path in submissions]
    groups = group_seeds(results)
    names = [str(results[runs[0]].submission["name"]) for runs in groups]
    for runs, name in zip(groups, names, strict=True):
        if names.count(name) > 1:  # the same model in several runs
            for at in runs:
                named = {**results[at].submission, "name": f"{name} ({submissions[at]})"}
                results[at] = replace(results[at], submission=named)
    text = export_results(results, format)
    if output is not None:
        write_file(output, text, option="--output")
    address = None if push is None else push_card(text, push)
    result = address or (text.rstrip("\n") if output is None else f"{output}: {format}")
    report(result) if is_set("json") else echo(result, wrap=False)


@export.command()
@click.argument("names", metavar="[TASK]...", nargs=-1)
@_options.with_options
def tasks(
    names: tuple[str, ...],
    suite: str | None = _options.SUITE,
    harness: Literal["lm-eval", "inspect"] = option(
        REQUIRED, "Write tasks for this harness.", flag="--for", variable="DECABENCH_EXPORT_TASKS_FOR"
    ),
    output: Path = option(REQUIRED, "Folder for the tasks.", type=_options.FOLDER),
    split: _options.Split = option("validation", "Export this split."),
    shots: int = option(
        0, "Put this many worked examples from the training split in each prompt.", at_least=0
    ),
    seed: int = option(0, "Random seed for choosing the worked examples.", at_least=0),
    chat: bool = option(
        False, "For lm-eval, write tasks for chat models, whose answers may begin after an empty line."
    ),
    home: Path | None = _options.HOME,
    include: tuple[Path, ...] = _options.INCLUDE,
) -> None:
    """Write tasks for another harness, with decabench's data, prompts and scorers.

    The folder's README.md explains how to run the tasks. decabench must be installed alongside the
    harness. The harness then gives the same scores as decabench evaluate for the same answers.
    """
    from decabench.exchange import export_tasks
    from decabench.tasks import available_splits, known_tasks, select_suite

    if bool(names) == (suite is not None):
        raise click.UsageError("Specify either task names or --suite.")
    if chat and harness != "lm-eval":
        raise click.UsageError(
            "--chat is only for lm-eval, because Inspect always uses the chat format. Leave out --chat."
        )
    chosen = tuple(name.strip() for given in names for name in given.split(",") if name.strip())
    if suite is not None:
        known = known_tasks(include)
        chosen = tuple(
            name for name in select_suite(suite, include).tasks if split in available_splits(known[name])
        )
    made = export_tasks(chosen, output, harness, split, shots, seed, home, include, chat)
    report(*map(str, made))
    note(f"To run the tasks, see {output / 'README.md'}")
