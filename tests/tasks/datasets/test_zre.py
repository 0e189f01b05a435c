"""QA-ZRE: subjects put in, answers joined, unanswerable questions named, fold 0 alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from decabench.errors import DataError
from decabench.tasks.datasets import zre
from decabench.tasks.datasets.zre import ZRE
from decabench.tasks.example import Example
from decabench.tasks.task import Task
from tests.tasks.fixtures import FolderFiles, read_form, triples, write_lines, write_parquet

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
    path = files.folder / "relation_splits.tar.bz2" / "relation_splits" / "dev.0"
    path.parent.mkdir(parents=True)
    lines = ("\t".join([*fields, *answers]) + end for *fields, answers in ROWS)
    path.write_bytes("".join(lines).encode())


@pytest.mark.parametrize(("split", "rows"), [("train", 64), ("validation", 32), ("test", 32)])
def test_sample(sample: Callable[[Task, str], list[Example]], split: str, rows: int) -> None:
    examples = sample(ZRE, split)
    assert [example.id for example in examples] == [f"zre.{split}.{index}" for index in range(rows)]
    assert [example.answers == ("unanswerable",) for example in examples] == [False, True] * (rows // 2)
    assert not any("XXX" in example.question or example.context.endswith("\n") for example in examples)


def test_sample_starts_as_upstream_does(sample: Callable[[Task, str], list[Example]]) -> None:
    assert triples(sample(ZRE, "validation"))[0] == (
        "What city is Wilson's Sandwich Shop located in?",
        "Wilson's Sandwich Shop is a spin-off business of the Kewpee Hamburger chain located in Findlay, OH .",
        ("Findlay",),
    )


@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["lf", "crlf"])
def test_archive(files: FolderFiles, end: str) -> None:
    write_fold(files, end)
    assert triples(read_form(ZRE, "upstream archive", "validation", files)) == EXPECTED


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


def test_a_short_row_is_named(files: FolderFiles) -> None:
    write_lines(
        files.folder / "relation_splits.tar.bz2" / "relation_splits" / "dev.0",
        ["country\tWhat is XXX?\tOslo\tOslo is.", "country\tWhat is XXX?\tOslo"],
    )
    with pytest.raises(DataError, match=r"^dev\.0, line 2, has 3 fields, not 4 or more\.$"):
        read_form(ZRE, "upstream archive", "validation", files)
