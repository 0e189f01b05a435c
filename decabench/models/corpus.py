"""The training text of prepared tasks as one row of word numbers, for vectors that are trained on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from decabench.errors import MissingDataError
from decabench.models.lexicon import SPECIALS, Ids, Lexicon
from decabench.tasks.store import Store

__all__ = ["Corpus", "read_corpus", "training_texts"]


@dataclass(frozen=True)
class Corpus:
    """Text as numbers."""

    lexicon: Lexicon
    """Its words."""
    text: Ids
    """Every text in order, between <init> and <eos>."""

    @property
    def size(self) -> int:
        """How many tokens it has."""
        return int((self.text >= len(SPECIALS)).sum())

    @property
    def distinct(self) -> int:
        """How many different tokens it has."""
        return len(self.lexicon) - len(SPECIALS)


def training_texts(store: Store, task: str, examples: int | None = None) -> Iterator[str]:
    """Contexts, questions and answers of the first `examples`, or all. What stands in a row of examples comes once."""
    before: dict[str, object] = {}
    for row in islice(store.read(task, "train", ("context", "question", "answers")), examples):
        for column in ("context", "question"):
            if row[column] != before.get(column):
                yield row[column]
        yield from dict.fromkeys(row["answers"])
        before = row


def read_corpus(
    store: Store,
    tasks: Sequence[str],
    examples: int | None = None,
    report: Callable[[str], None] = lambda task: None,
) -> Corpus:
    """The lower-cased tokens of the tasks' training text; `report` hears of each task before it is read.

    Raises MissingDataError where a task is not prepared or has no text.
    """
    lexicon = Lexicon()
    texts: list[Ids] = []
    for task in tasks:
        report(task)
        texts += map(lexicon.encode, training_texts(store, task, examples))
    corpus = Corpus(lexicon, np.concatenate(texts) if texts else np.zeros(0, dtype=np.int32))
    if not corpus.size:
        raise MissingDataError(f"There is no training text in {', '.join(tasks)}: name other tasks.")
    return corpus
