"""`decabench export`: results, tasks, weights."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from decabench.commands._console import (
    choice_option,
    echo,
    file_option,
    home_option,
    include_option,
    is_set,
    note,
    number_option,
    output_option,
    report,
    split_option,
    suite_option,
)


@click.group()
def export() -> None:
    """Write results, tasks or a trained model for other programs and machines."""


@export.command()
@click.argument("checkpoint", type=click.Path(path_type=Path, exists=True, file_okay=False))
@output_option("New folder for the copy.")
@number_option(
    "--words",
    20_000,
    "Include this many words from the top of each vector file, in addition to the model's vocabulary.",
    least=0,
)
@click.option(
    "--named-vectors",
    is_flag=True,
    help="Leave out the word vectors and list their packages, which must be installed to use the copy.",
)
@click.option("--full", is_flag=True, help="Keep the weights in float32. The file is twice as large.")
def weights(checkpoint: Path, output: Path, words: int, named_vectors: bool, full: bool) -> None:
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
@click.argument("submissions", type=click.Path(path_type=Path, exists=True), nargs=-1, required=True)
@choice_option(
    "--format",
    ["markdown", "latex", "model-index"],
    "Write a table, or the model-index of a Hugging Face model card.",
    parameter="form",
)
@split_option("validation", "Export results for this split.")
@file_option("--output", text="File to write.  [default: standard output]", exists=False)
@click.option(
    "--push",
    metavar="OWNER/NAME",
    help="Add the results to this model's card on the hub. Requires --format model-index and HF_TOKEN.",
)
def results(
    submissions: tuple[Path, ...], form: str, split: str, output: Path | None, push: str | None
) -> None:
    """Write results as a Markdown or LaTeX table, or for a Hugging Face model card, with their intervals.

    SUBMISSIONS are results.json files, or folders that decabench evaluate has scored. Several submissions are shown
    side by side if they were scored on the same data with the same metrics. Scores are copied from the files. To score
    the answers again, use decabench verify.
    """
    from decabench.exchange import export_results, find_results, push_card
    from decabench.files import write_file

    if push is not None and form != "model-index":
        raise click.UsageError("--push updates a model card, so --format model-index is required.")
    results = [find_results(path, split) for path in submissions]
    names = [str(each.submission["name"]) for each in results]
    if len(set(names)) < len(names):  # the same model in several runs
        results = [
            replace(each, submission={**each.submission, "name": f"{name} ({path})"})
            if names.count(name) > 1
            else each
            for each, name, path in zip(results, names, submissions, strict=True)
        ]
    text = export_results(results, form)
    if output is not None:
        write_file(output, text, option="--output")
    address = None if push is None else push_card(text, push)
    result = address or (text.rstrip("\n") if output is None else f"{output}: {form}")
    report(result) if is_set("json") else echo(result)


@export.command()
@click.argument("names", metavar="[TASK]...", nargs=-1)
@suite_option
@click.option(
    "--for",
    "harness",
    type=click.Choice(["lm-eval", "inspect"]),
    required=True,
    help="Write tasks for this harness.",
)
@output_option("Folder for the tasks.")
@split_option("validation", "Export this split.")
@number_option("--shots", 0, "Put this many worked examples from the training split in each prompt.", least=0)
@number_option("--seed", 0, "Random seed for choosing the worked examples.", least=0)
@click.option(
    "--chat",
    is_flag=True,
    help="For lm-eval, support chat models, whose answers may begin after an empty line.",
)
@home_option
@include_option
def tasks(
    names: tuple[str, ...],
    suite: str | None,
    harness: str,
    output: Path,
    split: str,
    shots: int,
    seed: int,
    chat: bool,
    home: Path | None,
    include: tuple[Path, ...],
) -> None:
    """Write tasks for another harness, with decabench's data, prompts and scorers.

    The folder's README.md explains how to run them. Decabench must be installed alongside the harness. For the same
    answers, the harness then gives the same scores as decabench evaluate.
    """
    from decabench.exchange import export_tasks
    from decabench.tasks import available_splits, known_tasks, select_suite

    if bool(names) == (suite is not None):
        raise click.UsageError("Specify either task names or --suite.")
    if chat and harness != "lm-eval":
        raise click.UsageError(
            "--chat is only for lm-eval, because Inspect always uses the chat format. Omit --chat."
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
