"""OntoNotes 5, English named entities, from your own files in the columns of CoNLL-2012."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from decabench.tasks.datasets.conll import (
    BY_TYPE_VARIANTS,
    ENTITIES_PROMPT,
    ENTITIES_QUESTION,
    ENTITIES_VARIANTS,
    ask_for_entities,
)
from decabench.tasks.example import Example
from decabench.tasks.outputs import Tags, Text
from decabench.tasks.readers import Record, open_text
from decabench.tasks.task import Files, Reader, RemoteFile, Source, Task
from decabench.tasks.wording import word_by_word

__all__ = ["ONTONOTES", "ONTONOTES_ENTITIES"]

_PLURALS = {  # of decaNLP
    "PERSON": "persons",
    "NORP": "political",
    "FAC": "facilities",
    "ORG": "organizations",
    "GPE": "geopolitical",
    "LOC": "locations",
    "PRODUCT": "products",
    "EVENT": "events",
    "WORK_OF_ART": "artworks",
    "LAW": "legal",
    "LANGUAGE": "languages",
    "DATE": "dates",
    "TIME": "times",
    "PERCENT": "percentages",
    "MONEY": "monetary",
    "QUANTITY": "quantitative",
    "ORDINAL": "ordinal",
    "CARDINAL": "cardinal",
}

_WORD, _ENTITY, _COLUMNS = 3, 10, 12

_Sentence = tuple[str, str, tuple[str, ...], tuple[str, ...]]
"""(id, document, words, IOB2 tags)"""


def _sentences(path: Path, split: str) -> Iterator[_Sentence]:
    """Yield the sentences of a file of CoNLL-2012 documents (`*_gold_conll`, one after another)."""
    document, rows, index = "", list[Record](), 0
    with open_text(path, newline="\n") as file:
        for number, line in enumerate(file, 1):
            cells = line.split()
            if line.startswith("#begin document"):
                document = line.removeprefix("#begin document").strip()
            elif cells and not line.startswith("#"):
                rows.append(_row(cells, path.name, number))
                continue
            if rows:
                yield f"ontonotes.{split}.{index}", document, *_tagged(rows)
                rows, index = [], index + 1
    if rows:
        yield f"ontonotes.{split}.{index}", document, *_tagged(rows)


def _row(cells: list[str], name: str, number: int) -> Record:
    row = Record(cells, name, "line", number)
    if len(cells) < _COLUMNS:
        raise row.fault(f"it has {len(cells)} columns, but each line must have {_COLUMNS} or more")
    return row


def _tagged(rows: list[Record]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return words and IOB2 tags; the column has `(PERSON*` where an entity begins and `*)` where it ends."""
    tags, inside = [], ""
    for row in rows:
        cell: str = row.value[_ENTITY]
        begins = cell.startswith("(")
        if begins:
            inside = cell.strip("(*)")
            if inside not in _PLURALS:
                raise row.fault(f"column {_ENTITY + 1} must name a type of entity, not {cell[:40]!r}")
        tags.append(f"{'B' if begins else 'I'}-{inside}" if inside else "O")
        if cell.endswith(")"):
            inside = ""
    return tuple(row.value[_WORD] for row in rows), tuple(tags)


def _read_tags(files: Files, split: str) -> Iterator[Example]:
    for id, document, words, tags in _sentences(files.path(_NAMES[split]), split):
        yield Example(id, ENTITIES_QUESTION, " ".join(words), (" ".join(tags),), (document,))


def _read_entities(files: Files, split: str) -> Iterator[Example]:
    return ask_for_entities(_sentences(files.path(_NAMES[split]), split), _PLURALS)


_NAMES = {
    "train": "train.english.v4_gold_conll",
    "validation": "development.english.v4_gold_conll",
    "test": "test.english.v4_gold_conll",
}


def _sources(read: Reader) -> tuple[Source, ...]:
    return (Source("conll columns", {split: (RemoteFile(name),) for split, name in _NAMES.items()}, read),)


_COUNTS = {"train": 75_187, "validation": 9_603, "test": 9_479}
_SHARED = {
    "dataset": "OntoNotes 5, English",
    "licence": "Linguistic Data Consortium (LDC2013T19), not to be passed on: for people who have it",
    "citation": "Pradhan et al. 2013, Towards Robust Linguistic Analysis using OntoNotes",
    "homepage": "https://catalog.ldc.upenn.edu/LDC2013T19",
    "withhold_texts": True,
    "shared_folder": "ontonotes",
}
_FILES = (
    "Files of your own in a folder `ontonotes` of a mirror: the documents of each part in the columns of CoNLL-2012, "
    "one after another, as train.english.v4_gold_conll, development.english.v4_gold_conll and "
    "test.english.v4_gold_conll."
)

ONTONOTES = Task(
    name="ontonotes",
    title="Named-entity recognition, OntoNotes",
    output=Tags("IOB2", ("O", *(f"{begin}-{kind}" for kind in _PLURALS for begin in "BI")), max_tokens=1_536),
    secondary=(),
    counts=_COUNTS,
    sources=_sources(_read_tags),
    unit_names=("document",),
    prompt=word_by_word(
        "You are given the numbered words of a sentence. Tag the first word of a named entity with B- and the kind of "
        "the entity, its other words with I- and the kind, and all other words with O. The kinds are "
        f"{', '.join(_PLURALS)}.",
        "its tag, such as B-PERSON",
    ),
    variants=ENTITIES_VARIANTS,
    notes=f"Tags are IOB2, made from the brackets of column 11. {_FILES}",
    **_SHARED,  # type: ignore[arg-type]
)

ONTONOTES_ENTITIES = Task(
    name="ontonotes.entities",
    title="Named entities by type, OntoNotes",
    output=Text(max_tokens=192),
    metric="nf1",
    secondary=("em",),
    gold_score="em",  # nF1 takes an entity such as `AN` for an article
    counts={split: len(_PLURALS) * count for split, count in _COUNTS.items()},
    sources=_sources(_read_entities),
    question_varies=True,
    unit_names=("document", "sentence"),
    prompt=ENTITIES_PROMPT,
    variants=BY_TYPE_VARIANTS,
    redistributable=False,  # the answers are words of the text
    notes=(
        "A question for each sentence and type, `Which entities are persons?`, as decaNLP asks them, but of "
        f"CoNLL-2012's tokens and not of the text that decaNLP cleans; `None` if there is no such entity. {_FILES}"
    ),
    **_SHARED,  # type: ignore[arg-type]
)
