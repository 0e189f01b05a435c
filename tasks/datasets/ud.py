"""Universal Dependencies, English Web Treebank: parts of speech and dependency trees."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from decabench.tasks.example import Example
from decabench.tasks.outputs import Tags, Tree
from decabench.tasks.readers import Record, column_blocks, one_token
from decabench.tasks.task import Files, RemoteFile, Source, Task
from decabench.tasks.wording import fixed, word_by_word

__all__ = [
    "POS_QUESTION",
    "POS_VARIANTS",
    "TREE_QUESTION",
    "TREE_VARIANTS",
    "UD_DEP",
    "UD_POS",
    "Sentence",
    "conllu_sentences",
]

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

_ID, _FORM, _UPOS, _XPOS, _HEAD, _DEPREL = 0, 1, 3, 4, 6, 7


@dataclass(frozen=True)
class Sentence:
    """The syntactic words of a sentence, without ranges of multiword tokens (`5-6`) and empty nodes (`8.1`)."""

    id: str
    """`sent_id`; empty if the file gives none."""
    document: str
    """The latest `newdoc id`; empty if there was none."""
    forms: tuple[str, ...]
    """Column 2."""
    upos: tuple[str, ...]
    """Column 4."""
    xpos: tuple[str, ...]
    """Column 5."""
    heads: tuple[str, ...]
    """Column 7."""
    relations: tuple[str, ...]
    """Column 8."""


def conllu_sentences(path: Path) -> Iterator[Sentence]:
    """Yield the sentences of a CoNLL-U file (or a CoNLL-X file, which has the same columns). Raises DataError."""
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
        yield Sentence(
            id=_named(comments, "# sent_id = "),
            document=document,
            **{
                name: tuple(one_token(word, column) for word in words)
                for name, column in (("forms", _FORM), ("upos", _UPOS), ("xpos", _XPOS))
            },
            heads=tuple(_head(word, len(words)) for word in words),
            relations=tuple(one_token(word, _DEPREL) for word in words),
        )


def _named(comments: list[str], start: str) -> str:
    return next(
        (comment.removeprefix(start).strip() for comment in comments if comment.startswith(start)), ""
    )


def _head(word: Record, words: int) -> str:
    head: str = word.value[_HEAD]
    if head != "_" and not (head.isdecimal() and int(head) <= words):
        raise word.fault(f"the head must be from 0 to {words}, the number of words, not {head[:20]!r}")
    return head


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
    for sentence in _sentences(files, split):
        pairs = zip(sentence.heads, sentence.relations, strict=True)
        tree = " ".join(f"{head}:{relation}" for head, relation in pairs)
        meta = {"upos": " ".join(sentence.upos)}  # which words are punctuation
        yield Example(
            sentence.id, TREE_QUESTION, " ".join(sentence.forms), (tree,), (sentence.document,), meta
        )


def _sentences(files: Files, split: str) -> Iterator[Sentence]:
    return conllu_sentences(files.path(f"en_ewt-ud-{_UPSTREAM[split]}.conllu"))


_UPSTREAM = {"train": "train", "validation": "dev", "test": "test"}
_RELEASE = "https://raw.githubusercontent.com/UniversalDependencies/UD_English-EWT/r2.7"


def _file(split: str, sha256: str, size: int) -> tuple[RemoteFile, ...]:
    name = f"en_ewt-ud-{_UPSTREAM[split]}.conllu"
    return (RemoteFile(name, (f"{_RELEASE}/{name}",), sha256, size),)


_FILES = {
    "train": _file("train", "4e45f7b6f6d4e8d33e0ba7090fc37f2385a91711edb20d456d3fb5f45ac0fc28", 13_469_758),
    "validation": _file(
        "validation", "57703dcd3b04c32dda6cb7c2a9d836daf65c2b9141a670163693d230b46559c8", 1_711_407
    ),
    "test": _file("test", "25ef2d6fe772b8f05be374e093693f14284ccdd870fc27a9295f7e5a0fc3253a", 1_712_757),
}

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
