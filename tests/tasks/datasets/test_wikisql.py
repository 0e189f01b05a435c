"""WikiSQL: queries as text in upstream's own words, the logical form beside them."""

from __future__ import annotations

from typing import Any

import pytest

from decabench.errors import DataError
from decabench.tasks.datasets.wikisql import WIKISQL
from decabench.tasks.example import Example
from tests.tasks.fixtures import FolderFiles, read_form, write_jsonl

KEY_WORDS = (
    "MAX, MIN, COUNT, SUM, AVG, =, >, <, OP, SELECT, WHERE, AND, COL, TABLE, CAPTION, PAGE, SECTION, OP, "
    "COND, QUESTION, AGG, AGGOPS, CONDOPS-- "
)
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
        ({"agg": 2, "sel": 1}, "SELECT MIN No. FROM table"),
        ({"agg": 3}, "SELECT COUNT Player FROM table"),
        ({"agg": 4, "sel": 1}, "SELECT SUM No. FROM table"),
        ({"agg": 5, "sel": 1}, "SELECT AVG No. FROM table"),
        (
            {"conds": [[2, 0, 'Ås  (N), "it\'s"']]},
            'SELECT Player FROM table WHERE School/Club Team = Ås (N), "it\'s"',
        ),
        ({"conds": [[1, 1, 5]]}, "SELECT Player FROM table WHERE No. > 5"),
        ({"conds": [[0, 0, "200\u2009mhz\u2003"]]}, "SELECT Player FROM table WHERE Player = 200 mhz"),
        ({"conds": [[1, 2, 5.0]]}, "SELECT Player FROM table WHERE No. < 5.0"),
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


def test_context_keeps_upstreams_words(files: FolderFiles) -> None:
    (example,) = read(files, [entry()], [TABLE])
    assert example.context == (
        f"The table has columns Player, No., School/Club  Team and key words {KEY_WORDS}Who  plays?"
    )


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


def test_tables_in_any_order(files: FolderFiles) -> None:
    tables = [{**TABLE, "id": f"1-{number}", "header": [f"Höhe {number}"]} for number in range(4)]
    names = ["1-2", "1-0", "1-0", "1-3", "1-2"]
    examples = read(files, [entry(name) for name in names], tables)
    assert [example.meta["header"] for example in examples] == [[f"Höhe {name[2:]}"] for name in names]
    assert [example.units[0] for example in examples] == names


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
        ("The 15th of Oslo?", [OSLO, FIVE], [NUMBER, CLUB]),
        ("Of the 50 of Oslo, which have 5?", [FIVE, OSLO], [CLUB, NUMBER]),
        ("Who plays for Oslo?", [FIVE, CENTRE, OSLO], [CLUB, NUMBER, PLAYER]),  # what is not there stays last
        ("Oslo -- or 5?", [FIVE, OSLO], [CLUB, NUMBER]),  # as between the key words and the question
        ("A.b (c of 5?", [FIVE, [2, 0, "a.b (c"]], ["School/Club Team = a.b (c", NUMBER]),
        ("Oslo or Oslo?", [OSLO, [0, 0, "Oslo"]], [CLUB, "Player = Oslo"]),
        ("Who is 5?", [FIVE], [NUMBER]),
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


def test_a_query_without_conditions_stays_as_it_is(files: FolderFiles) -> None:
    (example,) = read(files, [entry(sel=1)], [TABLE], "train")
    assert WIKISQL.target_forms["as-asked"](example, ()) == example.answers[0] == "SELECT No. FROM table"
