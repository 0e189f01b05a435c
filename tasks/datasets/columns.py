"""Questions and readers shared by the tagged and parsed corpora, including a CoNLL-U reader."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from decabench.tasks.readers import Record, column_blocks, one_token
from decabench.tasks.wording import fixed

POS_QUESTION = "What are the part-of-speech tags?"
TREE_QUESTION = "What are the heads and relations?"

POS_VARIANTS = (
    fixed("each-word", POS_QUESTION, "What is the part of speech of each word?"),
    fixed("tag", POS_QUESTION, "Tag each word with its part of speech."),
    fixed("word-classes", POS_QUESTION, "Which word classes do the words belong to?"),
)
TREE_VARIANTS = (
    fixed("parse", TREE_QUESTION, "What is the dependency parse of the sentence?"),
    fixed("each-word", TREE_QUESTION, "What is the head of each word, and its relation to it?"),
    fixed("depends", TREE_QUESTION, "Which word does each word depend on, and how?"),
)


def joined(block: Sequence[Record], column: int) -> str:
    """Return the cells of a column, one for each word of a sentence, joined by spaces."""
    return " ".join(one_token(record, column) for record in block)


def held_out(blocks: Iterable[list[Record]], split: str) -> list[list[Record]]:
    """Return the blocks of a split, given all blocks in the split's file.

    Validation is the last tenth of the training file.
    """
    found = list(blocks)  # a few thousand sentences
    kept = len(found) - len(found) // 10
    return {"train": found[:kept], "validation": found[kept:]}.get(split, found)


# CoNLL-U

FORM, UPOS, XPOS = 1, 3, 4
"""The indexes of the columns for words, universal part-of-speech tags and the treebank's own tags."""

_ID, _HEAD, _DEPREL = 0, 6, 7
_HEAD_NUMBER = re.compile(r"0|[1-9][0-9]{0,5}")


@dataclass(frozen=True)
class Sentence:
    """A sentence of a CoNLL-U file."""

    id: str
    """The `sent_id`, or an empty string if the file has none."""
    document: str
    """The most recent `newdoc id`, or an empty string if there is none."""
    words: list[Record]
    """The syntactic words, without multiword tokens (`5-6`) and empty nodes (`8.1`)."""

    def joined(self, column: int) -> str:
        """Return the cells of a column, such as `UPOS`, joined by spaces."""
        return joined(self.words, column)

    @property
    def tree(self) -> str:
        """A `head:relation` pair for each word, joined by spaces. Raises DataError for a head that doesn't exist."""
        for word in self.words:
            head: str = word.value[_HEAD]
            if not (_HEAD_NUMBER.fullmatch(head) and int(head) <= len(self.words)):
                raise word.fault(f"the head must be a number from 0 to {len(self.words)}, not {head[:20]!r}")
        return " ".join(f"{word.value[_HEAD]}:{one_token(word, _DEPREL)}" for word in self.words)


def conllu_sentences(path: Path) -> Iterator[Sentence]:
    """Yield the sentences of a CoNLL-U file, or of a CoNLL-X file, which has the same columns.

    Raises DataError, naming the line, if the words of a sentence are not numbered from 1.
    """
    document = ""
    for block in column_blocks(path, 10, "\t", comment="#"):
        comments = [record.value[0] for record in block if len(record.value) == 1]
        document = _named(comments, "# newdoc id = ") or document
        words = [record for record in block if len(record.value) > 1 and record.value[_ID].isdecimal()]
        if not words or [word.value[_ID] for word in words] != [str(at + 1) for at in range(len(words))]:
            raise block[0].fault(
                "the words of the sentence that begins here must be numbered consecutively from 1"
            )
        yield Sentence(_named(comments, "# sent_id = "), document, words)


def _named(comments: list[str], start: str) -> str:
    return next(
        (comment.removeprefix(start).strip() for comment in comments if comment.startswith(start)), ""
    )
