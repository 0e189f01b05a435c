import pytest

from decabench.metrics.lfem import LogicalForm, Table

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


def test_types_are_guessed_where_none_are_given():
    table = Table(ROWS)
    assert table.types == ["text", "real", "text"]
    table.close()
