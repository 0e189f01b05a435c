"""The normalized score reads standard SQL, and never reads a query that the model didn't write."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from decabench.metrics.base import Item, evaluate
from decabench.metrics.lfem import (
    AGGREGATORS,
    LFEM,
    LFEM_NORMALISED,
    OPERATORS,
    LogicalForm,
    _bare,
    read_normalised,
)
from decabench.tasks.store import Store
from tests.tasks.conftest import Prepared, prepared, shared

__all__ = ["prepared", "shared"]

HEADER = ["Name", "Home team", "Goals", "No.", "Where from", "Max"]
SQL = {"sel": 0, "agg": 3, "conds": [[1, 0, "Real Madrid"], [2, 1, 3]]}
GOLD = "SELECT COUNT Name FROM table WHERE Home team = Real Madrid AND Goals > 3"


def both(prediction: str, sql: dict[str, object] = SQL, gold: str = GOLD) -> tuple[float, float]:
    item = Item([gold], meta={"sql": sql, "header": HEADER})
    return tuple(float(evaluate(metric, [prediction], [item])) for metric in (LFEM, LFEM_NORMALISED))  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("prediction", "expected"),
    [
        (GOLD, (100, 100)),
        ("SELECT COUNT(Name) FROM table WHERE Home team = Real Madrid AND Goals > 3", (0, 100)),
        ("select count(name) from table where home team = 'real madrid' and goals > 3;", (0, 100)),
        ('SELECT COUNT("Name") FROM "table" WHERE "Home team" = \'Real Madrid\' AND "Goals" > 3', (0, 100)),
        ("SELECT COUNT(`Name`) FROM `table` WHERE `Home team`='Real Madrid' AND `Goals`>'3'", (0, 100)),
        ('SELECT COUNT([Name]) FROM [table] WHERE [Home team] = "Real Madrid" AND [Goals] > 3', (0, 100)),
        ("SELECT  COUNT ( Name )  FROM table\nWHERE (Home team = 'Real Madrid') AND (Goals > 3)", (0, 100)),
        # Another query
        ("SELECT COUNT(*) FROM table WHERE Home team = 'Real Madrid' AND Goals > 3", (0, 0)),
        ("SELECT Name FROM table WHERE Home team = 'Real Madrid' AND Goals > 3", (0, 0)),
        ("SELECT COUNT(Name) FROM table WHERE Home team = 'Real Madrid'", (0, 0)),
        ("SELECT COUNT(Name) FROM table WHERE Home team = 'Real Madrid' AND Goals < 3", (0, 0)),
        ("SELECT COUNT(Name) FROM table WHERE Home team = 'Real' AND Goals > 3", (0, 0)),
        ("SELECT COUNT(Name) FROM table WHERE Goals > 3 AND Home team = 'Real Madrid'", (0, 0)),
        ("SELECT COUNT(Name) FROM table WHERE Home team = 'Real Madrid' OR Goals > 3", (0, 0)),
        ("SELECT MAX(Name) FROM table WHERE Home team = 'Real Madrid' AND Goals > 3", (0, 0)),
        ("SELECT COUNT(Name) FROM table WHERE Home team = 'Real Madrid' AND Goals > 3 LIMIT 1", (0, 0)),
        ("SELECT COUNT(Name) FROM table JOIN other WHERE Home team = 'Real Madrid' AND Goals > 3", (0, 0)),
        ("SELECT COUNT(Home_team) FROM table WHERE Home team = 'Real Madrid' AND Goals > 3", (0, 0)),
        ("", (0, 0)),
        ("SELECT", (0, 0)),
    ],
)
def test_strict_and_normalised_side_by_side(prediction: str, expected: tuple[float, float]) -> None:
    assert both(prediction) == expected


@pytest.mark.parametrize(
    ("prediction", "sql"),
    [
        ('SELECT "Where from" FROM table', {"sel": 4, "agg": 0, "conds": []}),
        ("SELECT MAX(Max) FROM table WHERE \"No.\" = '7'", {"sel": 5, "agg": 1, "conds": [[3, 0, 7]]}),
        (
            "SELECT Name FROM t WHERE Home team = Butler CC (KS)",
            {"sel": 0, "agg": 0, "conds": [[1, 0, "Butler CC (KS)"]]},
        ),
        (
            "SELECT Name FROM t WHERE (Goals < 4) AND No. = (a)",
            {"sel": 0, "agg": 0, "conds": [[2, 2, 4], [3, 0, "(a)"]]},
        ),
        ('SELECT "Max" FROM table', {"sel": 5, "agg": 0, "conds": []}),
        (
            "SELECT Name FROM t WHERE \"Name\" = 'O''Neil and sons'",
            {"sel": 0, "agg": 0, "conds": [[0, 0, "O'Neil and sons"]]},
        ),
        ('SELECT Name FROM t WHERE Name = "the end"', {"sel": 0, "agg": 0, "conds": [[0, 0, '"The End"']]}),
    ],
)
def test_awkward_columns_and_values(prediction: str, sql: dict[str, object]) -> None:
    assert both(prediction, sql, "SELECT x FROM y")[1] == 100


def test_long_queries_take_no_time() -> None:
    import time

    begun = time.process_time()
    for text in (
        "name = " * 2_000,
        "and " * 4_000,
        "select name from t where " + "name = a and " * 600,
        "(" * 9_000,
    ):
        for start in ("", "select count(name) from table where name = x and "):
            both(start + text)
    assert time.process_time() - begun < 5


def as_databases_take_it(sql: dict[str, object], header: list[str]) -> str:
    """Return the gold query in standard SQL, with quoted columns and values and with aggregators as functions."""
    column = f'"{header[sql["sel"]]}"'  # type: ignore[index]
    aggregator = AGGREGATORS[sql["agg"]].upper()  # type: ignore[index]
    tests = [
        f"\"{header[column]}\" {OPERATORS[operator]} '{str(value).replace(chr(39), chr(39) * 2)}'"
        for column, operator, value in sql["conds"]  # type: ignore[attr-defined]
    ]
    where = f" WHERE {' AND '.join(tests)}" if tests else ""
    return f"SELECT {f'{aggregator}({column})' if aggregator else column} FROM table{where};"


def share(store: Store, split: str) -> tuple[float, float]:
    examples = list(store.examples("wikisql", split))
    texts = [as_databases_take_it(dict(example.meta["sql"]), example.meta["header"]) for example in examples]
    golds = [example.answers[0] for example in examples]
    assert float(evaluate(LFEM_NORMALISED, golds, examples)) == 100
    return float(evaluate(LFEM, texts, examples)), float(evaluate(LFEM_NORMALISED, texts, examples))


def test_gold_queries_of_the_sample_in_standard_sql(home: Path) -> None:
    strict, normalised = share(Store(home), "validation")
    assert strict == 0 and normalised == 100


@pytest.mark.heavy
@pytest.mark.mirror
def test_gold_queries_of_the_real_data_in_standard_sql(prepared: Prepared) -> None:
    strict, normalised = share(prepared.store, "validation")
    assert strict == 0 and normalised > 99.9


def read_by_patterns(text: str, header: list[str]) -> LogicalForm | None:
    """Parse a query with two regular expressions that contain all column names, an independent form of the grammar."""
    line, names = " ".join(text.lower().split()), [" ".join(name.lower().split()) for name in header]
    longest_first = sorted(filter(None, names), key=len, reverse=True)
    column = rf"[\"'`\[]?(?P<column>{'|'.join(map(re.escape, longest_first)) or '(?!)'})[\"'`\]]?"
    aggregator = f"(?P<aggregator>{'|'.join(filter(None, AGGREGATORS))})"
    tail = r" from [\"'`\[]?[\w.]+[\"'`\]]?(?: where (?P<conditions>.+?))?(?: ?;)?"
    kinds = (column, rf"{aggregator} ?\( ?{column} ?\)", f"{aggregator} {column}")
    found = next((match for kind in kinds if (match := re.fullmatch(f"select {kind}{tail}", line))), None)
    if found is None:
        return None
    condition = re.compile(
        rf"(?P<open>\()?{column} ?(?P<operator>==|[=<>]| op ) ?(?P<value>.+?)(?(open)\))"
        rf"(?: and (?=\(?{column.replace('(?P<column>', '(?:')} ?(?:[=<>]|op ))|$)"
    )
    parts, position, conditions = found.groupdict(), 0, []
    rest = parts["conditions"] or ""
    while position < len(rest):
        match = condition.match(rest, position)
        if match is None:
            return None
        operator = OPERATORS.index({"==": "=", " op ": "op"}.get(match["operator"], match["operator"]))
        conditions.append((last_of(names, match["column"]), operator, _bare(match["value"])))
        position = match.end()
    kind = AGGREGATORS.index(parts.get("aggregator") or "")
    return LogicalForm(last_of(names, parts["column"]), kind, tuple(conditions))


def last_of(names: list[str], name: str) -> int:
    return max(at for at, other in enumerate(names) if other == name)


def test_queries_are_read_as_by_patterns_of_all_columns() -> None:
    drawn = random.Random(17)
    columns = ["a b", "a = b", "name and", "No. (x)", "", *"a (a) b and max op 'q' [b] a".split()]
    pieces = [
        "a and b",
        *"select from table where and max count op = == < > ( ) ; ' \" [ ] ` x 7 SUM(".split(),
    ]
    read = 0
    for _ in range(1_000):
        header = drawn.sample(columns, drawn.randint(0, 5))
        words = drawn.choices([*pieces, *header, *header], k=drawn.randint(0, 9))
        glue = drawn.choice((" ", "", "  "))
        some = [drawn.choice((name, f'"{name}"', f"({name})", f"[{name}]")) for name in header or ["a"]]
        text = glue.join(words)
        if drawn.random() < 0.8:
            kind = drawn.choice(("", "max ", "count(", "avg ( "))
            close = drawn.choice((")", " )", "")) if "(" in kind else ""
            text = f"select {kind}{drawn.choice(some)}{close} from {drawn.choice(('table', '[t.x]'))}"
            operators = (" = ", "=", " op ", "==", " <", "op ")
            if drawn.random() < 0.8:
                tests = [
                    f"{drawn.choice(('', '('))}{drawn.choice(some)}{drawn.choice(operators)}"
                    f"{drawn.choice(('7', 'x and b', ' ', *words))}{drawn.choice(('', ')'))}"
                    for _ in range(drawn.randint(1, 3))
                ]
                text += f" where {' and '.join(tests)}{drawn.choice(('', ';', ' ;', ' and '))}"
        expected = read_by_patterns(text, header)
        assert read_normalised(text, header) == expected, (text, header)
        read += expected is not None
    assert read > 150
