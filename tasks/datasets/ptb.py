"""The Penn Treebank, Wall Street Journal: parts of speech and dependency trees, from your own files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
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
from decabench.tasks.task import Files, Reader, RemoteFile, Source, Task
from decabench.tasks.wording import word_by_word

__all__ = ["PTB_DEP", "PTB_POS"]

_POS_SECTIONS = {"train": range(19), "validation": range(19, 22), "test": range(22, 25)}
_DEP_SECTIONS = {"train": range(2, 22), "validation": range(22, 23), "test": range(23, 24)}

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


def _read_columns(files: Files, split: str) -> Iterator[Example]:
    for section in _POS_SECTIONS[split]:
        for index, sentence in enumerate(conllu_sentences(files.path(f"wsj_{section:02}.conllu"))):
            yield _tagged(section, index, sentence.forms, sentence.xpos)


def _read_brackets(files: Files, split: str) -> Iterator[Example]:
    for section in _POS_SECTIONS[split]:
        for index, (words, tags) in enumerate(_bracketed(files.path(f"wsj_{section:02}.mrg"))):
            yield _tagged(section, index, words, tags)


def _tagged(section: int, index: int, words: Sequence[str], tags: Sequence[str]) -> Example:
    id = f"wsj_{section:02}.{index}"
    return Example(id, POS_QUESTION, " ".join(words), (" ".join(tags),), (f"wsj_{section:02}", id))


def _read_trees(files: Files, split: str) -> Iterator[Example]:
    for section in _DEP_SECTIONS[split]:
        path = files.path(f"wsj_{section:02}.conllu")
        for index, sentence in enumerate(conllu_sentences(path, has_heads=True)):
            id, pairs = f"wsj_{section:02}.{index}", zip(sentence.heads, sentence.relations, strict=True)
            tree = " ".join(f"{head}:{relation}" for head, relation in pairs)
            meta = {"pos": " ".join(sentence.xpos)}  # which words are punctuation
            yield Example(
                id, TREE_QUESTION, " ".join(sentence.forms), (tree,), (f"wsj_{section:02}", id), meta
            )


def _source(name: str, suffix: str, sections: Mapping[str, range], read: Reader) -> Source:
    files = {
        split: tuple(RemoteFile(f"wsj_{section:02}{suffix}") for section in numbers)
        for split, numbers in sections.items()
    }
    return Source(name, files, read)


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
        _source("sections in conllu", ".conllu", _POS_SECTIONS, _read_columns),
        _source("bracketed sections", ".mrg", _POS_SECTIONS, _read_brackets),
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
    sources=(_source("sections in conllu", ".conllu", _DEP_SECTIONS, _read_trees),),
    prompt=word_by_word(
        "You are given the numbered words of a sentence. Parse it in Stanford dependencies: each word has one head, "
        "which is another word or, for the root of the sentence, 0, and a relation to it, such as nsubj or dobj.",
        "the number of its head and the relation, as in 4:nsubj",
    ),
    variants=TREE_VARIANTS,
    notes=(
        "Sections 2-21, 22 and 23, as the Joint Many-Task paper has them, which converts with version 3.3.0 of the "
        "Stanford converter. Files of your own in a folder `ptb` of a mirror, one a section: wsj_02.conllu."
    ),
    **_SHARED,  # type: ignore[arg-type]
)
