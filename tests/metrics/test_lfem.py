import pytest

from decabench.metrics import lfem
from decabench.metrics.base import MetricError

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
        (([ANSWER], [ANSWER], [{"sql": SQL}]), "needs meta\\['header'\\]"),
        (([ANSWER], [ANSWER], [{"header": ["a"]}]), "needs meta\\['sql'\\]"),
        (([ANSWER], [ANSWER], []), "1 examples but 0 values of meta"),
    ],
)
def test_errors(arguments, message):
    with pytest.raises(MetricError, match=message):
        lfem(*arguments)
