from __future__ import annotations

import json
from pathlib import Path

import pytest

from decabench.tasks.datasets.conll import (
    CONLL2000,
    CONLL2003,
    CONLL2003_ENTITIES,
    EN_POS,
    ONTONOTES,
    ONTONOTES_ENTITIES,
)
from tests.tasks.conftest import shared
from tests.tasks.fixtures import FolderFiles, read_form, write_lines

__all__ = ["shared"]


# CoNLL-2000 and CoNLL-2003: tags as published, documents, and files that can be rebuilt.

SENTENCES = [[f"w{number} NN B-NP", "# # I-NP", ""] for number in range(20)]


def test_the_last_tenth_validates(files: FolderFiles) -> None:
    lines = [line for sentence in SENTENCES for line in sentence]
    for name in ("train.txt", "test.txt"):
        write_lines(files.folder / name, lines)
    for task in (CONLL2000, EN_POS):
        found = {
            split: read_form(task, "nltk zip", split, files) for split in ("train", "validation", "test")
        }
        assert {split: len(rows) for split, rows in found.items()} == {
            "train": 18,
            "validation": 2,
            "test": 20,
        }
        assert found["validation"][0].context == "w18 #"


NEWS = [
    "-DOCSTART- -X- O O",
    "",
    "U.N. NNP I-NP I-ORG",
    "official NN I-NP O",
    "Jo NNP I-NP I-PER",
    "Wu NNP I-NP I-PER",
    "Al NNP B-NP B-PER",
    "",
    "-DOCSTART- -X- O O",
    "",
    "Rain NN I-NP O",
    "",
]


def test_entities_and_documents(files: FolderFiles) -> None:
    write_lines(files.folder / "eng.testa", NEWS)
    first, second = read_form(CONLL2003, "upstream text", "validation", files)
    assert (first.context, first.answers) == ("U.N. official Jo Wu Al", ("I-ORG O I-PER I-PER B-PER",))
    assert (first.units, second.units) == (("validation-1",), ("validation-2",))
    assert first.meta == {"pos": "NNP NN NNP NNP NNP", "chunks": "I-NP I-NP I-NP I-NP B-NP"}
    asked = read_form(CONLL2003_ENTITIES, "upstream text", "validation", files)
    assert [(example.question, example.answers[0]) for example in asked] == [
        ("Which entities are persons?", "Jo Wu, Al"),
        ("Which entities are locations?", "None"),
        ("Which entities are organizations?", "U.N."),
        ("Which entities are miscellaneous?", "None"),
        *(
            (f"Which entities are {kind}?", "None")
            for kind in ("persons", "locations", "organizations", "miscellaneous")
        ),
    ]
    assert asked[0].id == "conll2003.validation.0.PER"
    assert asked[0].units == ("validation-1", "conll2003.validation.0")


@pytest.mark.mirror
def test_gold_is_that_of_the_official_cases(shared: Path) -> None:
    lines = (shared / "conformance" / "conll2000.chunk.jsonl").read_text(encoding="utf-8").splitlines()
    examples = read_form(CONLL2000, "upstream text", "test", FolderFiles(shared / "mirror" / "conll2000"))
    assert [json.loads(line)["gold"] for line in lines] == [example.answers[0] for example in examples]


# OntoNotes in the columns of CoNLL-2012: brackets become tags, and questions by type.

NAME = "development.english.v4_gold_conll"


def row(word: str, entity: str) -> str:
    return f"bc/cctv/00/cctv_0000   0   3   {word}   NNP   (TOP*   -   -   -   Speaker#1   {entity}   -"


COLUMNS = [
    "#begin document (bc/cctv/00/cctv_0000); part 000",
    row("Jo", "(PERSON*"),
    row("Wu", "*)"),
    row("and", "*"),
    row("Al", "(PERSON)"),
    row("#1", "(GPE)"),
    "",
    row("No", "*"),
    "",
    "#end document",
    "#begin document (bc/cctv/00/cctv_0000); part 001",
    row("Today", "(DATE)"),
    "#end document",
]


def test_tags(files: FolderFiles) -> None:
    write_lines(files.folder / NAME, COLUMNS)
    examples = read_form(ONTONOTES, "conll columns", "validation", files)
    assert [(example.id, example.context, example.answers[0]) for example in examples] == [
        ("ontonotes.validation.0", "Jo Wu and Al #1", "B-PERSON I-PERSON O B-PERSON B-GPE"),
        ("ontonotes.validation.1", "No", "O"),
        ("ontonotes.validation.2", "Today", "B-DATE"),
    ]
    assert [example.units for example in examples] == [
        ("(bc/cctv/00/cctv_0000); part 000",),
        ("(bc/cctv/00/cctv_0000); part 000",),
        ("(bc/cctv/00/cctv_0000); part 001",),
    ]


def test_questions_by_type_are_decanlps(files: FolderFiles) -> None:
    write_lines(files.folder / NAME, COLUMNS)
    examples = read_form(ONTONOTES_ENTITIES, "conll columns", "validation", files)
    assert len(examples) == 3 * 18
    answers = {example.question: example.answers[0] for example in examples[:18]}
    assert answers["Which entities are persons?"] == "Jo Wu, Al"
    assert answers["Which entities are geopolitical?"] == "#1"
    assert answers["Which entities are artworks?"] == "None"
