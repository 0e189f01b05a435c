from __future__ import annotations

import pytest

from decabench.tasks.datasets import zre
from decabench.tasks.datasets.zre import ZRE
from tests.tasks.fixtures import FolderFiles, read_form, triples, write_parquet

ROWS = [
    ("country", "Is XXX in XXX's land?", "Oslo", "Oslo is in Norway .", ["Norway"]),
    ("child", "Who are the children of XXX?", "Anna Ek", "Anna Ek has Bo and Liv .", ["Bo", "Liv"]),
    ("spouse", "Who married XXX?", "Anna Ek", "Anna Ek has Bo and Liv .", []),
]
EXPECTED = [
    ("Is Oslo in Oslo's land?", "Oslo is in Norway .", ("Norway",)),
    ("Who are the children of Anna Ek?", "Anna Ek has Bo and Liv .", ("Bo, Liv",)),
    ("Who married Anna Ek?", "Anna Ek has Bo and Liv .", ("unanswerable",)),
]


def write_fold(files: FolderFiles, end: str = "\n") -> None:
    path = files.folder / "dev.0"
    path.parent.mkdir(parents=True)
    lines = ("\t".join([*fields, *answers]) + end for *fields, answers in ROWS)
    path.write_bytes("".join(lines).encode())


def test_parquet_is_like_the_archive(files: FolderFiles) -> None:
    write_fold(files)
    keys = ("relation", "question", "subject", "context", "answers")
    table = [dict(zip(keys, row, strict=True)) for row in ROWS]
    write_parquet(files.folder / "data" / "validation-00000-of-00001.parquet", table)
    archive = read_form(ZRE, "upstream archive", "validation", files)
    assert read_form(ZRE, "hub parquet", "validation", files) == archive


def test_parquet_ends_with_the_first_fold(files: FolderFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(zre._FOLD, "validation", 2)
    keys = ("relation", "question", "subject", "context", "answers")
    table = [dict(zip(keys, row, strict=True)) for row in ROWS]
    write_parquet(files.folder / "data" / "validation-00000-of-00001.parquet", table)
    assert triples(read_form(ZRE, "hub parquet", "validation", files)) == EXPECTED[:2]


def test_units_are_relations_and_their_sentences(files: FolderFiles) -> None:
    write_fold(files)
    first, second, third = read_form(ZRE, "upstream archive", "validation", files)
    assert [example.units[0] for example in (first, second, third)] == ["country", "child", "spouse"]
    assert second.units[1] == third.units[1] != first.units[1]
