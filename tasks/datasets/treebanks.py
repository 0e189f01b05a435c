"""Part-of-speech tagging and dependency parsing: the English Web Treebank and your copy of the Penn Treebank."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from decabench.errors import DataError
from decabench.tasks.datasets.columns import (
    FORM,
    POS_QUESTION,
    POS_VARIANTS,
    TREE_QUESTION,
    TREE_VARIANTS,
    UPOS,
    XPOS,
    Sentence,
    conllu_sentences,
)
from decabench.tasks.example import Example
from decabench.tasks.outputs import Tags, Tree
from decabench.tasks.readers import listed_files, open_text
from decabench.tasks.task import Files, Reader, RemoteFile, Source, Task
from decabench.tasks.wording import word_by_word

# Universal Dependencies, English Web Treebank: parts of speech and dependency trees.


def _read_ud_pos(files: Files, split: str) -> Iterator[Example]:
    for sentence in _ud_sentences(files, split):
        words, tags = sentence.joined(FORM), sentence.joined(UPOS)
        yield Example(sentence.id, POS_QUESTION, words, (tags,), (sentence.document,))


def _read_ud_dep(files: Files, split: str) -> Iterator[Example]:
    for sentence in _ud_sentences(files, split):
        words, meta = sentence.joined(FORM), {"upos": sentence.joined(UPOS)}  # to recognize punctuation
        yield Example(sentence.id, TREE_QUESTION, words, (sentence.tree,), (sentence.document,), meta)


def _ud_sentences(files: Files, split: str) -> Iterator[Sentence]:
    return conllu_sentences(files.path(f"en_ewt-ud-{_UD_UPSTREAM[split]}.conllu"))


_UD_UPSTREAM = {"train": "train", "validation": "dev", "test": "test"}
_UD_FILES = listed_files(
    "https://raw.githubusercontent.com/UniversalDependencies/UD_English-EWT/r2.7",
    """
    train      4e45f7b6f6d4e8d33e0ba7090fc37f2385a91711edb20d456d3fb5f45ac0fc28 13_469_758 en_ewt-ud-train.conllu
    validation 57703dcd3b04c32dda6cb7c2a9d836daf65c2b9141a670163693d230b46559c8 1_711_407  en_ewt-ud-dev.conllu
    test       25ef2d6fe772b8f05be374e093693f14284ccdd870fc27a9295f7e5a0fc3253a 1_712_757  en_ewt-ud-test.conllu
    """,
)

_UPOS_TAGS = (
    *("ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM"),
    *("PART", "PRON", "PROPN", "PUNCT", "SCONJ", "SYM", "VERB", "X"),
)
_RELEASES = (
    "Checksums and counts are for release 2.7. Later releases have 12,544, 2,001 and 2,077 sentences, and differ in "
    "tags and relations."
)
_UD_SHARED = {
    "dataset": "Universal Dependencies, English Web Treebank 2.7",
    "counts": {"train": 12_543, "validation": 2_002, "test": 2_077},
    "licence": "CC BY-SA 4.0",
    "citation": "Silveira et al. 2014, A Gold Standard Dependency Corpus for English",
    "homepage": "https://universaldependencies.org/treebanks/en_ewt/",
    "unit_names": ("document",),
    "shared_folder": "ud_ewt",
}

UD_POS = Task(
    name="ud.pos",
    title="Part-of-speech tagging",
    output=Tags(names=_UPOS_TAGS, max_tokens=1_024),
    secondary=(),
    sources=(Source("upstream conllu", _UD_FILES, _read_ud_pos),),
    prompt=word_by_word(
        "You are given the numbered words of a sentence. Tag each with its part of speech, in the universal tags "
        f"{', '.join(_UPOS_TAGS)}.",
        "its tag",
    ),
    variants=POS_VARIANTS,
    notes=(
        "The tags are universal (UPOS), one for each syntactic word. Lines for multiword tokens and empty nodes are "
        f"left out. {_RELEASES}"
    ),
    **_UD_SHARED,  # type: ignore[arg-type]
)

UD_DEP = Task(
    name="ud.dep",
    title="Dependency parsing",
    output=Tree(max_tokens=1_536),
    secondary=("parsing_ud",),
    sources=(Source("upstream conllu", _UD_FILES, _read_ud_dep),),
    prompt=word_by_word(
        "You are given the numbered words of a sentence. Parse it in Universal Dependencies: each word has one head, "
        "which is another word or, for the root of the sentence, 0, and a relation to it, such as nsubj or nmod:poss.",
        "the number of its head and the relation, as in 4:nsubj",
    ),
    variants=TREE_VARIANTS,
    notes=(
        "Each syntactic word has a `head:relation`. Heads are counted from 1, 0 is the root, and relations include "
        f"their subtypes. Lines for multiword tokens and empty nodes are left out. {_RELEASES}"
    ),
    **_UD_SHARED,  # type: ignore[arg-type]
)


# The Penn Treebank, Wall Street Journal: parts of speech and dependency trees, from your own files.

_POS_SECTIONS = {"train": range(19), "validation": range(19, 22), "test": range(22, 25)}
_DEP_SECTIONS = {"train": range(2, 22), "validation": range(22, 23), "test": range(23, 24)}

_TOKEN = re.compile(r"[()]|[^\s()]+")


def _bracketed(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the words and tags of each bracketed tree, such as `( (S (NP (DT The) …`, without traces (`-NONE-`)."""
    depth, words, tags = 0, list[str](), list[str]()
    latest: list[str] = []
    with open_text(path) as file:
        for token in (token for line in file for token in _TOKEN.findall(line)):
            if token == "(":
                depth, latest = depth + 1, []
            elif token == ")":
                if len(latest) == 2 and latest[0] != "-NONE-":
                    tags.append(latest[0])
                    words.append(latest[1])
                depth, latest = depth - 1, []
                if depth == 0 and words:
                    yield " ".join(words), " ".join(tags)
                    words, tags = [], []
            else:
                latest.append(token)
    if depth:
        raise DataError(
            f"{path.name} has different numbers of opening and closing brackets. Use a complete copy."
        )


def _read_columns(files: Files, split: str) -> Iterator[Example]:
    for section in _POS_SECTIONS[split]:
        for index, sentence in enumerate(conllu_sentences(files.path(f"wsj_{section:02}.conllu"))):
            yield _tagged(section, index, sentence.joined(FORM), sentence.joined(XPOS))


def _read_brackets(files: Files, split: str) -> Iterator[Example]:
    for section in _POS_SECTIONS[split]:
        for index, (words, tags) in enumerate(_bracketed(files.path(f"wsj_{section:02}.mrg"))):
            yield _tagged(section, index, words, tags)


def _tagged(section: int, index: int, words: str, tags: str) -> Example:
    id = f"wsj_{section:02}.{index}"
    return Example(id, POS_QUESTION, words, (tags,), (f"wsj_{section:02}", id))


def _read_trees(files: Files, split: str) -> Iterator[Example]:
    for section in _DEP_SECTIONS[split]:
        name = f"wsj_{section:02}"
        for index, sentence in enumerate(conllu_sentences(files.path(f"{name}.conllu"))):
            words, meta = sentence.joined(FORM), {"pos": sentence.joined(XPOS)}  # to recognize punctuation
            id = f"{name}.{index}"
            yield Example(id, TREE_QUESTION, words, (sentence.tree,), (name, id), meta)


def _ptb_source(name: str, suffix: str, sections: Mapping[str, range], read: Reader) -> Source:
    files = {
        split: tuple(RemoteFile(f"wsj_{section:02}{suffix}") for section in numbers)
        for split, numbers in sections.items()
    }
    return Source(name, files, read)


_PTB_SHARED = {
    "dataset": "Penn Treebank, Wall Street Journal",
    "licence": "Linguistic Data Consortium (LDC99T42); may not be redistributed, so you need your own copy",
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
        _ptb_source("sections in conllu", ".conllu", _POS_SECTIONS, _read_columns),
        _ptb_source("bracketed sections", ".mrg", _POS_SECTIONS, _read_brackets),
    ),
    prompt=word_by_word(
        "You are given the numbered words of a sentence. Tag each with its part of speech, in the tags of the Penn "
        "Treebank.",
        "its tag, such as NNP",
    ),
    variants=POS_VARIANTS,
    notes=(
        "Train, validation and test are sections 0-18, 19-21 and 22-24. Put your own files into the folder `ptb` of a "
        "mirror, one per section: either CoNLL-U or CoNLL-X with tags in column 5, named like wsj_00.conllu, or "
        "bracketed trees, named like wsj_00.mrg. Traces are left out."
    ),
    **_PTB_SHARED,  # type: ignore[arg-type]
)

PTB_DEP = Task(
    name="ptb.dep",
    title="Dependency parsing, Penn Treebank",
    output=Tree(max_tokens=1_536),
    secondary=("parsing_ud",),
    counts={"train": 39_832, "validation": 1_700, "test": 2_416},
    sources=(_ptb_source("sections in conllu", ".conllu", _DEP_SECTIONS, _read_trees),),
    prompt=word_by_word(
        "You are given the numbered words of a sentence. Parse it in Stanford dependencies: each word has one head, "
        "which is another word or, for the root of the sentence, 0, and a relation to it, such as nsubj or dobj.",
        "the number of its head and the relation, as in 4:nsubj",
    ),
    variants=TREE_VARIANTS,
    notes=(
        "Train, validation and test are sections 2-21, 22 and 23, as in the Joint Many-Task paper, which converts "
        "trees with the Stanford converter 3.3.0. Put your own files into the folder `ptb` of a mirror, one per "
        "section, named like wsj_02.conllu."
    ),
    **_PTB_SHARED,  # type: ignore[arg-type]
)
