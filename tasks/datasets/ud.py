"""Universal Dependencies, English Web Treebank: parts of speech and dependency trees."""

from __future__ import annotations

from collections.abc import Iterator

from decabench.tasks.datasets.columns import (
    POS_QUESTION,
    POS_VARIANTS,
    TREE_QUESTION,
    TREE_VARIANTS,
    Sentence,
    conllu_sentences,
)
from decabench.tasks.example import Example
from decabench.tasks.outputs import Tags, Tree
from decabench.tasks.readers import listed_files
from decabench.tasks.task import Files, Source, Task
from decabench.tasks.wording import word_by_word

__all__ = ["UD_DEP", "UD_POS"]


def _read_pos(files: Files, split: str) -> Iterator[Example]:
    for sentence in _sentences(files, split):
        yield Example(
            sentence.id,
            POS_QUESTION,
            " ".join(sentence.forms),
            (" ".join(sentence.upos),),
            (sentence.document,),
        )


def _read_dep(files: Files, split: str) -> Iterator[Example]:
    for sentence in _sentences(files, split, has_heads=True):
        pairs = zip(sentence.heads, sentence.relations, strict=True)
        tree = " ".join(f"{head}:{relation}" for head, relation in pairs)
        meta = {"upos": " ".join(sentence.upos)}  # which words are punctuation
        yield Example(
            sentence.id, TREE_QUESTION, " ".join(sentence.forms), (tree,), (sentence.document,), meta
        )


def _sentences(files: Files, split: str, has_heads: bool = False) -> Iterator[Sentence]:
    return conllu_sentences(files.path(f"en_ewt-ud-{_UPSTREAM[split]}.conllu"), True, has_heads)


_UPSTREAM = {"train": "train", "validation": "dev", "test": "test"}
_FILES = listed_files(
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
    "Checksums and counts are of release 2.7; later ones have 12,544, 2,001 and 2,077 sentences, and differ in tags "
    "and relations."
)
_SHARED = {
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
    sources=(Source("upstream conllu", _FILES, _read_pos),),
    prompt=word_by_word(
        "You are given the numbered words of a sentence. Tag each with its part of speech, in the universal tags "
        f"{', '.join(_UPOS_TAGS)}.",
        "its tag",
    ),
    variants=POS_VARIANTS,
    notes=(
        "Universal tags (UPOS), one for each syntactic word; ranges of multiword tokens and empty nodes are left out. "
        f"{_RELEASES}"
    ),
    **_SHARED,  # type: ignore[arg-type]
)

UD_DEP = Task(
    name="ud.dep",
    title="Dependency parsing",
    output=Tree(max_tokens=1_536),
    secondary=("parsing_ud",),
    sources=(Source("upstream conllu", _FILES, _read_dep),),
    prompt=word_by_word(
        "You are given the numbered words of a sentence. Parse it in Universal Dependencies: each word has one head, "
        "which is another word or, for the root of the sentence, 0, and a relation to it, such as nsubj or nmod:poss.",
        "the number of its head and the relation, as in 4:nsubj",
    ),
    variants=TREE_VARIANTS,
    notes=(
        "`head:relation` for each syntactic word, heads counted from 1, 0 for the root, relations with their subtypes; "
        f"ranges of multiword tokens and empty nodes are left out. {_RELEASES}"
    ),
    **_SHARED,  # type: ignore[arg-type]
)
