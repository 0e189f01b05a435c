from __future__ import annotations

from typing import Any

import pytest

from decabench.errors import DataError
from decabench.tasks.datasets.wikisql import WIKISQL
from decabench.tasks.example import Example
from tests.tasks.fixtures import FolderFiles, read_form, write_jsonl

HEADER = ["Player", "No.", "School/Club  Team"]
TABLE = {
    "id": "1-1",
    "header": HEADER,
    "types": ["text", "real", "text"],
    "rows": [["Bo", 5.0, "Oslo"], ["Liv", 7.5, "Ås"]],
}


def entry(table: str = "1-1", **sql: Any) -> dict[str, Any]:
    return {
        "phase": 1,
        "table_id": table,
        "question": "Who  plays?",
        "sql": {"sel": 0, "conds": [], "agg": 0, **sql},
    }


def read(
    files: FolderFiles, entries: list[Any], tables: list[Any], split: str = "validation"
) -> list[Example]:
    name = {"train": "train", "validation": "dev", "test": "test"}[split]
    folder = files.folder
    write_jsonl(folder / f"{name}.jsonl", entries)
    write_jsonl(folder / f"{name}.tables.jsonl", tables)
    return read_form(WIKISQL, "upstream archive", split, files)


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        ({}, "SELECT Player FROM table"),
        ({"agg": 1, "sel": 1}, "SELECT MAX No. FROM table"),
        ({"agg": 3}, "SELECT COUNT Player FROM table"),
        (
            {"conds": [[2, 0, 'Ås  (N), "it\'s"']]},
            'SELECT Player FROM table WHERE School/Club Team = Ås (N), "it\'s"',
        ),
        ({"conds": [[1, 1, 5]]}, "SELECT Player FROM table WHERE No. > 5"),
        ({"conds": [[0, 0, "200\u2009mhz\u2003"]]}, "SELECT Player FROM table WHERE Player = 200 mhz"),
        ({"conds": [[1, 3, "x"]]}, "SELECT Player FROM table WHERE No. OP x"),
        (
            {"sel": 2, "conds": [[1, 1, 3], [0, 0, "Bo AND Liv"], [1, 2, 9]]},
            "SELECT School/Club Team FROM table WHERE No. > 3 AND Player = Bo AND Liv AND No. < 9",
        ),
    ],
)
def test_query_as_text(files: FolderFiles, sql: dict[str, Any], text: str) -> None:
    (example,) = read(files, [entry(**sql)], [TABLE])
    assert example.answers == (text,)
    assert example.meta["sql"] == entry(**sql)["sql"]


@pytest.mark.parametrize(
    ("split", "rows", "kept"),
    [
        ("train", TABLE["rows"], False),
        ("validation", TABLE["rows"], True),
        ("test", TABLE["rows"], True),
        ("test", [], False),
    ],
)
def test_rows_are_kept_for_evaluation(files: FolderFiles, split: str, rows: Any, kept: bool) -> None:
    (example,) = read(files, [entry()], [{**TABLE, "rows": rows}], split)
    assert example.meta == {
        "sql": {"sel": 0, "conds": [], "agg": 0},
        "header": HEADER,
        "types": ["text", "real", "text"],
        **({"rows": TABLE["rows"]} if kept else {}),
    }


def test_a_table_that_is_not_there(files: FolderFiles) -> None:
    with pytest.raises(DataError, match=r"dev\.tables\.jsonl has no table '2-7'"):
        read(files, [entry("2-7")], [TABLE])


CENTRE, FIVE, OSLO = [0, 0, "Centre"], [1, 1, 5], [2, 0, "Oslo"]
PLAYER, NUMBER, CLUB = "Player = Centre", "No. > 5", "School/Club Team = Oslo"


@pytest.mark.parametrize(
    ("question", "conditions", "asked"),
    [
        ("Which centre plays for Oslo?", [OSLO, CENTRE], [PLAYER, CLUB]),
        ("Who of OSLO has 5 or more?", [FIVE, OSLO], [CLUB, NUMBER]),
        # A whole word is preferred to a part of one.
        ("Of the 15 of Oslo, which have 5?", [FIVE, OSLO], [CLUB, NUMBER]),
        ("Who plays for Oslo?", [FIVE, CENTRE, OSLO], [CLUB, NUMBER, PLAYER]),  # what is not there stays last
        ("Oslo -- or 5?", [FIVE, OSLO], [CLUB, NUMBER]),  # as between the key words and the question
    ],
)
def test_conditions_as_asked(
    files: FolderFiles, question: str, conditions: list[Any], asked: list[str]
) -> None:
    line = {**entry(conds=conditions, agg=3), "question": question}
    (example,) = read(files, [line], [TABLE], "train")
    written = WIKISQL.target_forms["as-asked"](example, ())
    assert written == f"SELECT COUNT Player FROM table WHERE {' AND '.join(asked)}"
    assert sorted(written.split()) == sorted(example.answers[0].split())
