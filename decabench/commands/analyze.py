"""`decabench analyze`."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import click

from decabench.commands._options import home_option, include_option, output_option, split_option, tasks_option

__all__ = ["analyze"]

Command = TypeVar("Command", bound=Callable[..., Any])


@click.group()
def analyze() -> None:
    """Look into a trained model: what it points at, and where it looks."""


def _shared(command: Command) -> Command:
    for option in (
        include_option,
        home_option,
        click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1, mps."),
        output_option("Where the figures and their numbers go."),
        split_option("validation", "Which split to answer."),
        click.argument("checkpoint", type=click.Path(path_type=Path, exists=True, file_okay=False)),
    ):
        command = option(command)
    return command


@analyze.command()
@_shared
@tasks_option
@click.option("--examples", type=click.IntRange(min=1), default=200, show_default=True, help="Of each task.")
def pointers(
    checkpoint: Path,
    split: str,
    output: Path,
    device: str,
    home: Path | None,
    include: tuple[Path, ...],
    tasks: tuple[str, ...],
    suite: str | None,
    examples: int,
) -> None:
    """How often answers come from the vocabulary, the context and the question (Figure 3 of the paper).

    Without --tasks or --suite: those that the model was trained on.
    """
    from decabench.commands._options import chosen_tasks
    from decabench.models import Saved
    from decabench.tasks import Store, home_folder
    from decabench.training import pointing, write_pointing

    saved = Saved.open(checkpoint)
    answerer, store = saved.load(device), Store(home_folder(home))
    found = {}
    for task in chosen_tasks(tasks, include, suite) or saved.record["config"]["tasks"]:
        sample = list(islice(store.examples(task, split), examples))
        found[task] = pointing(answerer, sample, saved.cut_context.get(task))
        shares = ", ".join(f"{source} {share:.1%}" for source, share in found[task].chosen.items())
        click.echo(f"{task}: {shares} of {found[task].words:,} words")
    for path in write_pointing(output, found):
        click.echo(f"Wrote {path}.")


@analyze.command()
@_shared
@click.option("--task", required=True, help="The example's task.")
@click.option("--id", default="", help="The example's id.  [default: the first]")
def attention(
    checkpoint: Path,
    split: str,
    output: Path,
    device: str,
    home: Path | None,
    include: tuple[Path, ...],
    task: str,
    id: str,
) -> None:
    """Where the model looks as it answers one example (Figures 6 and 7 of the paper)."""
    from decabench.errors import require_name
    from decabench.models import Saved
    from decabench.tasks import Store, home_folder, known_tasks
    from decabench.training import attention_map, find_example, write_attention

    name = require_name(task, known_tasks(include), "task")
    examples = Store(home_folder(home)).examples(name, split)
    example = find_example(list(examples) if id else [next(examples)], id)
    saved = Saved.open(checkpoint)
    found = attention_map(saved.load(device), example, saved.cut_context.get(name))
    click.echo(f"{example.question}\n{''.join(found.answer).strip()}")
    for path in write_attention(output, found):
        click.echo(f"Wrote {path}.")
