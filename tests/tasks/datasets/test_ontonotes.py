"""OntoNotes in the columns of CoNLL-2012: brackets become tags, and questions by type."""

from __future__ import annotations

import pytest

from decabench.errors import DataError
from decabench.tasks.datasets.ontonotes import ONTONOTES, ONTONOTES_ENTITIES
from tests.tasks.fixtures import FolderFiles, read_form, write_lines

NAME = "development.english.v4_gold_conll"


def row(word: str, entity: str) -> str:
    return f"bc/cctv/00/cctv_0000   0   3   {word}   NNP   (TOP*   -   -   -   Speaker#1   {entity}   -"


LINES = [
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
    write_lines(files.folder / NAME, LINES)
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
    """Eighteen types; the plurals, the commas and `None` as in decaNLP's text/torchtext/datasets/generic.py."""
    write_lines(files.folder / NAME, LINES)
    examples = read_form(ONTONOTES_ENTITIES, "conll columns", "validation", files)
    assert len(examples) == 3 * 18
    answers = {example.question: example.answers[0] for example in examples[:18]}
    assert answers["Which entities are persons?"] == "Jo Wu, Al"
    assert answers["Which entities are geopolitical?"] == "#1"
    assert answers["Which entities are artworks?"] == "None"


def test_an_unknown_type(files: FolderFiles) -> None:
    write_lines(files.folder / NAME, [LINES[0], row("Jo", "(HUMAN)")])
    with pytest.raises(
        DataError, match=rf"{NAME}, line 2: column 11 must name a type of entity, not '\(HUMAN\)'"
    ):
        read_form(ONTONOTES, "conll columns", "validation", files)
