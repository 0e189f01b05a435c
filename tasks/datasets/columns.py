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


def words_of(block: Sequence[Record], column: int) -> tuple[str, ...]:
    """Return the column's values for all words of a sentence."""
    return tuple(one_token(record, column) for record in block)


def held_out(blocks: Iterable[list[Record]], split: str) -> list[list[Record]]:
    """Return the blocks of a split, given its file's blocks. Validation is the last tenth of the training file."""
    found = list(blocks)  # a few thousand sentences
    kept = len(found) - len(found) // 10
    return {"train": found[:kept], "validation": found[kept:]}.get(split, found)


# CoNLL-U

_ID, _FORM, _UPOS, _XPOS, _HEAD, _DEPREL = 0, 1, 3, 4, 6, 7


@dataclass(frozen=True)
class Sentence:
    """The syntactic words of a sentence, without multiword tokens (`5-6`) or empty nodes (`8.1`)."""

    id: str
    """The `sent_id`, or an empty string if the file has none."""
    document: str
    """The most recent `newdoc id`, or an empty string if there is none."""
    forms: tuple[str, ...]
    """The words (column 2)."""
    upos: tuple[str, ...]
    """The universal part-of-speech tags (column 4)."""
    xpos: tuple[str, ...]
    """The treebank's own part-of-speech tags (column 5)."""
    heads: tuple[str, ...]
    """The numbers of the words' heads (column 7)."""
    relations: tuple[str, ...]
    """The relations to the heads (column 8)."""

    @property
    def text(self) -> str:
        """The words, joined by spaces."""
        return " ".join(self.forms)

    @property
    def tree(self) -> str:
        """A `head:relation` pair for each word, joined by spaces."""
        pairs = zip(self.heads, self.relations, strict=True)
        return " ".join(f"{head}:{relation}" for head, relation in pairs)


def conllu_sentences(path: Path, has_ids: bool = False, has_heads: bool = False) -> Iterator[Sentence]:
    """Yield the sentences of a CoNLL-U file, or of a CoNLL-X file, which has the same columns.

    With `has_ids`, every sentence must have a `sent_id`. With `has_heads`, no head can be `_`. Raises DataError, naming
    the line, if the file has a fault.
    """
    document = ""
    for block in column_blocks(path, 10, "\t", comment="#"):
        comments = [record.value[0] for record in block if len(record.value) == 1]
        document = _named(comments, "# newdoc id = ") or document
        words = [record for record in block if len(record.value) > 1 and record.value[_ID].isdecimal()]
        if not words:
            raise block[0].fault("the sentence has no words")
        for number, word in enumerate(words, 1):
            if word.value[_ID] != str(number):
                raise word.fault(f"the word must have the number {number}, not {word.value[_ID][:20]!r}")
        id = _named(comments, "# sent_id = ")
        if has_ids and not id:
            raise block[0].fault("the sentence that begins here must have a comment `# sent_id = …`")
        yield Sentence(
            id=id,
            document=document,
            forms=words_of(words, _FORM),
            upos=words_of(words, _UPOS),
            xpos=words_of(words, _XPOS),
            heads=tuple(_head(word, len(words), has_heads) for word in words),
            relations=words_of(words, _DEPREL),
        )


def _named(comments: list[str], start: str) -> str:
    return next(
        (comment.removeprefix(start).strip() for comment in comments if comment.startswith(start)), ""
    )


_HEAD_NUMBER = re.compile(r"0|[1-9][0-9]{0,5}")


def _head(word: Record, words: int, is_needed: bool) -> str:
    head: str = word.value[_HEAD]
    is_open = head == "_" and not is_needed
    if not is_open and not (_HEAD_NUMBER.fullmatch(head) and int(head) <= words):
        raise word.fault(f"the head must be from 0 to {words}, the number of words, not {head[:20]!r}")
    return head
