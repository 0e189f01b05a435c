"""The Penn Treebank, Wall Street Journal: parts of speech and dependency trees, from your own files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from pathlib import Path

from decabench.errors import DataError
from decabench.tasks.datasets.columns import (
    POS_QUESTION,
    POS_VARIANTS,
    TREE_QUESTION,
    TREE_VARIANTS,
    conllu_sentences,
)
from decabench.tasks.example import Example
from decabench.tasks.outputs import Tags, Tree
from decabench.tasks.readers import open_text
from decabench.tasks.task import Files, RemoteFile, Source, Task
from decabench.tasks.wording import word_by_word

__all__ = ["PTB_DEP", "PTB_POS"]

_POS_SECTIONS = {"train": range(19), "validation": range(19, 22), "test": range(22, 25)}
_DEP_SECTIONS = {"train": range(2, 22), "validation": range(22, 23), "test": range(23, 24)}

_Rows = Iterator[tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]]
"""(words, tags, `head:relation` items) of each sentence of a section; no items where a file has none."""


def _columns(files: Files, section: int) -> _Rows:
    for sentence in conllu_sentences(files.path(f"wsj_{section:02}.conllu")):
        pairs = zip(sentence.heads, sentence.relations, strict=True)
        yield sentence.forms, sentence.xpos, tuple(f"{head}:{relation}" for head, relation in pairs)


_ITEM = re.compile(r"(?:0|[1-9][0-9]{0,5}):\S+")


def _check_items(items: Sequence[str], place: str) -> None:
    """Check that all items are `head:relation`. Raises DataError."""
    for item in items:
        if not _ITEM.fullmatch(item) or int(item.partition(":")[0]) > len(items):
            raise DataError(
                f"{place}: each item must be head:relation, with a head from 0 to {len(items)}, not {item[:40]!r}."
            )


def _brackets(files: Files, section: int) -> _Rows:
    for words, tags in _bracketed(files.path(f"wsj_{section:02}.mrg")):
        yield words, tags, ()


def _brackets_and_heads(files: Files, section: int) -> _Rows:
    name = f"wsj_{section:02}.heads"
    with open_text(files.path(name)) as file:
        trees = _bracketed(files.path(f"wsj_{section:02}.mrg"))
        for number, (tree, line) in enumerate(zip_longest(trees, file), 1):
            if tree is None or line is None:
                raise DataError(f"{name} must have one line for each sentence of wsj_{section:02}.mrg.")
            words, tags = tree
            items = tuple(line.split())
            if len(items) != len(words):
                raise DataError(f"{name}, line {number}: it has {len(items)} heads for {len(words)} words.")
            yield words, tags, items


_TOKEN = re.compile(r"[()]|[^\s()]+")


def _bracketed(path: Path) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Yield the words and tags of bracketed trees, `( (S (NP (DT The) …` , without traces (`-NONE-`)."""
    depth, words, tags = 0, list[str](), list[str]()
    latest: list[str] = []
    with open_text(path) as file:
        for line in file:
            for token in _TOKEN.findall(line):
                if token == "(":
                    depth, latest = depth + 1, []
                elif token == ")":
                    if len(latest) == 2 and latest[0] != "-NONE-":
                        tags.append(latest[0])
                        words.append(latest[1])
                    depth, latest = depth - 1, []
                    if depth == 0 and words:
                        yield tuple(words), tuple(tags)
                        words, tags = [], []
                else:
                    latest.append(token)
    if depth:
        raise DataError(f"{path.name}: {abs(depth)} brackets are not closed or were never opened.")


# The tasks

_Ask = Callable[[tuple[str, ...], tuple[str, ...]], tuple[str, str, dict[str, str]]]
"""(tags, items) -> question, answer and meta."""


def _ask_tags(tags: tuple[str, ...], _: tuple[str, ...]) -> tuple[str, str, dict[str, str]]:
    return POS_QUESTION, " ".join(tags), {}


def _ask_tree(tags: tuple[str, ...], items: tuple[str, ...]) -> tuple[str, str, dict[str, str]]:
    return TREE_QUESTION, " ".join(items), {"pos": " ".join(tags)}  # which words are punctuation


def _read(
    rows: Callable[[Files, int], _Rows],
    sections: Mapping[str, range],
    ask: _Ask,
    files: Files,
    split: str,
) -> Iterator[Example]:
    for section in sections[split]:
        name = f"wsj_{section:02}"
        for index, (words, tags, items) in enumerate(rows(files, section)):
            question, answer, meta = ask(tags, items)
            id = f"{name}.{index}"
            if ask is _ask_tree:
                _check_items(items, id)
            yield Example(id, question, " ".join(words), (answer,), (name, id), meta)


def _source(
    name: str,
    suffixes: tuple[str, ...],
    rows: Callable[[Files, int], _Rows],
    sections: Mapping[str, range],
    ask: _Ask,
) -> Source:
    files = {
        split: tuple(RemoteFile(f"wsj_{section:02}{suffix}") for section in numbers for suffix in suffixes)
        for split, numbers in sections.items()
    }
    return Source(name, files, partial(_read, rows, sections, ask))


_SHARED = {
    "dataset": "Penn Treebank, Wall Street Journal",
    "licence": "Linguistic Data Consortium (LDC99T42), not to be passed on: for people who have it",
    "citation": "Marcus et al. 1993, Building a Large Annotated Corpus of English: The Penn Treebank",
    "homepage": "https://catalog.ldc.upenn.edu/LDC99T42",
    "unit_names": ("section", "sentence"),
    "withhold_texts": True,
    "shared_folder": "ptb",
}

PTB_POS = Task(
    name="ptb.pos",
    title="Part-of-speech tagging, Penn Treebank",
    output=Tags(max_tokens=1_024),
    secondary=(),
    counts={"train": 38_219, "validation": 5_527, "test": 5_462},
    sources=(
        _source("sections in conllu", (".conllu",), _columns, _POS_SECTIONS, _ask_tags),
        _source("bracketed sections", (".mrg",), _brackets, _POS_SECTIONS, _ask_tags),
    ),
    prompt=word_by_word(
        "You are given the numbered words of a sentence. Tag each with its part of speech, in the tags of the Penn "
        "Treebank.",
        "its tag, such as NNP",
    ),
    variants=POS_VARIANTS,
    notes=(
        "Sections 0-18, 19-21 and 22-24. Files of your own in a folder `ptb` of a mirror, one a section: wsj_00.conllu "
        "(or CoNLL-X under that name; tags in column 5), or bracketed trees as wsj_00.mrg, whose traces are left out."
    ),
    **_SHARED,  # type: ignore[arg-type]
)

PTB_DEP = Task(
    name="ptb.dep",
    title="Dependency parsing, Penn Treebank",
    output=Tree(max_tokens=1_536),
    secondary=("parsing_ud",),
    counts={"train": 39_832, "validation": 1_700, "test": 2_416},
    sources=(
        _source("sections in conllu", (".conllu",), _columns, _DEP_SECTIONS, _ask_tree),
        _source("brackets and heads", (".mrg", ".heads"), _brackets_and_heads, _DEP_SECTIONS, _ask_tree),
    ),
    prompt=word_by_word(
        "You are given the numbered words of a sentence. Parse it in Stanford dependencies: each word has one head, "
        "which is another word or, for the root of the sentence, 0, and a relation to it, such as nsubj or dobj.",
        "the number of its head and the relation, as in 4:nsubj",
    ),
    variants=TREE_VARIANTS,
    notes=(
        "Sections 2-21, 22 and 23, as the Joint Many-Task paper has them, which converts with version 3.3.0 of the "
        "Stanford converter. Files of your own in a folder `ptb` of a mirror, one a section: wsj_02.conllu, or "
        "bracketed trees as wsj_02.mrg with a line of `head:relation` items for each sentence in wsj_02.heads."
    ),
    **_SHARED,  # type: ignore[arg-type]
)
