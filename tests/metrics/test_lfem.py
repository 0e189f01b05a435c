"""Logical form exact match: scores, queries as decaNLP reads them, and execution."""

import pytest

from decabench.metrics import lfem
from decabench.metrics.base import MetricError
from decabench.metrics.lfem import LogicalForm, Table, parse_query

SQL = {"sel": 0, "agg": 0, "conds": [[1, 0, "X"], [2, 1, 3]]}
TABLE = {"sql": SQL, "header": ["Name", "Team", "Goals"]}
ANSWER = "SELECT Name FROM table WHERE Team = X AND Goals > 3"


@pytest.mark.parametrize(
    ("prediction", "expected"),
    [  # (lfem, lfem_unordered, lfem_corrected)
        (ANSWER, (100, 100, 100)),
        ("select name from table where team = x and goals > 3", (100, 100, 100)),
        ("select name from table where goals > 3 and team = x", (0, 100, 0)),
        ("select name from table where team = x", (0, 0, 0)),
        ("select max name from table where team = x and goals > 3", (0, 0, 0)),
        ("name", (0, 0, 0)),
        ("", (0, 0, 0)),
    ],
)
def test_lfem(prediction, expected):
    details = lfem([prediction], [ANSWER], tables=[TABLE]).details
    assert tuple(details[name] for name in ("lfem", "lfem_unordered", "lfem_corrected")) == expected
    assert "execution" not in details


def test_a_gold_query_that_cannot_be_read_back_is_right_when_repeated():
    table = {"sql": {"sel": 0, "agg": 0, "conds": []}, "header": ["Where from"]}
    answer = "SELECT Where from FROM table"
    details = lfem([answer.lower()], [answer], tables=[table]).details
    assert (details["lfem"], details["lfem_corrected"]) == (0, 100)


def test_execution_counts_where_there_are_rows():
    rows = {"rows": [["Ann", "X", 4], ["Bob", "Y", 5]], "types": ["text", "text", "real"]}
    predictions = [
        "select name from table where goals < 5",
        "select name from table where team = y",
        "nothing",
    ]
    details = lfem(predictions, [ANSWER] * 3, tables=[TABLE | rows, TABLE | rows, TABLE]).details
    assert details["lfem"] == 0 and details["execution"] == 50


def test_the_forms_of_references():
    gold = {**TABLE, "answer": ANSWER, "table": {"id": "1-2", "header": TABLE["header"]}}
    assert lfem([ANSWER], [[gold]]) == lfem([ANSWER], [gold]) == lfem([ANSWER], [ANSWER], tables=[TABLE])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([ANSWER], [ANSWER]), "Without tables="),
        (([ANSWER], [ANSWER], [{"sql": SQL}]), "requires meta\\['header'\\]"),
        (([ANSWER], [ANSWER], [{"header": ["a"]}]), "requires meta\\['sql'\\]"),
        (([ANSWER], [ANSWER], []), "'meta' must have one value per example, but has 0 instead of 1"),
    ],
)
def test_errors(arguments, message):
    with pytest.raises(MetricError, match=message):
        lfem(*arguments)


COLUMNS = ["Name", "No.", "No. of games", "Where abouts", "Team and year"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [  # by hand from decaNLP 2018's to_lf; None where it raises
        ("SELECT Name FROM table", LogicalForm(0, 0, ())),
        ("select max no. from table where name = smith", LogicalForm(1, 1, ((0, 0, "smith"),))),
        ("select count name from table where no. of games > 3", LogicalForm(0, 3, ((2, 1, "3"),))),
        (
            "select name from table where no. = 3 and no. of games < 5",
            LogicalForm(0, 0, ((1, 0, "3"), (2, 2, "5"))),
        ),
        (
            "select name from table where team and year = jets and 1990",
            LogicalForm(0, 0, ((4, 0, "jets and 1990"),)),
        ),
        ("select name from table where no. = name of it", LogicalForm(0, 0, ((1, 0, "name of it"),))),
        ("select name from table where no. = a = b", LogicalForm(0, 0, ((1, 0, "a = b"),))),
        ("select where abouts from table", None),  # `where` splits the column's name
        ("select name from table where", LogicalForm(0, 0, ())),
        ("select name from table where no. =", LogicalForm(0, 0, ((1, 0),))),
        ("select median no. from table", None),
        ("select max goals from table", LogicalForm(None, 1, ())),
        ("select name from table where goals = 3", None),
        ("select name", None),
        ("", None),
    ],
)
def test_parse_query(text, expected):
    assert parse_query(text, COLUMNS) == expected


def test_of_two_columns_of_one_name_the_last_is_selected():
    assert parse_query("select a from table", ["a", "b", "A"]) == LogicalForm(2, 0, ())


def test_a_gold_form_of_another_shape():
    with pytest.raises(MetricError, match="A WikiSQL form must"):
        LogicalForm.from_sql({"select": 1})


ROWS = [["Ann", 3, "1,000"], ["Bob", 5.5, "2,000"], ["ann", 4, "x"]]
TYPES = ["text", "real", "real"]


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        (LogicalForm(0, 0, ()), ["ann", "bob", "ann"]),
        (LogicalForm(1, 0, ((0, 0, "ann"),)), [3, 4]),
        (LogicalForm(1, 1, ((0, 0, "ann"),)), [4]),
        (LogicalForm(0, 3, ((1, 1, "3"),)), [2]),
        (LogicalForm(0, 0, ((1, 1, "about 5 games"),)), ["bob"]),  # the first number in the text
        (LogicalForm(0, 0, ((2, 0, "1,000"),)), ["ann"]),
        (
            LogicalForm(1, 0, ((1, 1, "3"), (1, 2, "5"))),
            [],
        ),  # DBEngine keeps a column's last value: > 5 and < 5
        (LogicalForm(1, 4, ((0, 0, "nobody"),)), [None]),
        (LogicalForm(None, 0, ()), None),
        (LogicalForm(7, 0, ()), None),
        (LogicalForm(0, 0, ((9, 0, "x"),)), None),
        (LogicalForm(0, 0, ((1, 0, "none"),)), None),  # no number for a real column
        (LogicalForm(0, 0, ((0, 3, "x"),)), None),  # OP is no operator
        (LogicalForm(0, 0, ((0, 0),)), None),
    ],
)
def test_run(form, expected):
    table = Table(ROWS, TYPES)
    assert table.run(form) == expected
    table.close()
