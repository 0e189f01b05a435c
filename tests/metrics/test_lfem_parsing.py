import pytest

from decabench.metrics.base import MetricError
from decabench.metrics.lfem import LogicalForm, parse_query

HEADER = ["Name", "No.", "No. of games", "Where abouts", "Team and year"]


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
    assert parse_query(text, HEADER) == expected


def test_of_two_columns_of_one_name_the_last_is_selected():
    assert parse_query("select a from table", ["a", "b", "A"]) == LogicalForm(2, 0, ())


def test_from_sql_lowers_values():
    gold = LogicalForm.from_sql({"sel": 1, "agg": 0, "conds": [[0, 0, "Butler CC"], [1, 1, 3.0]]})
    assert gold == LogicalForm(1, 0, ((0, 0, "butler cc"), (1, 1, "3.0")))


def test_unordered_is_a_multiset():
    one, two = (0, 0, "a"), (1, 0, "b")
    assert LogicalForm(0, 0, (one, two)).equals_unordered(LogicalForm(0, 0, (two, one)))
    assert not LogicalForm(0, 0, (one, one, two)).equals_unordered(LogicalForm(0, 0, (one, two, two)))


def test_a_gold_form_of_another_shape():
    with pytest.raises(MetricError, match="A WikiSQL form must be"):
        LogicalForm.from_sql({"select": 1})
