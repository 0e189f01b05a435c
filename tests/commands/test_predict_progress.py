"""What a person is told while a run goes on."""

import pytest

from decabench.commands.predict import Bar, Lines, format_speed
from decabench.runs.ask import Tally


def tally(**changes):
    return Tally(**{"task": "sst", "total": 100, "answered": 40, "seconds": 20.0, **changes})


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "2.0 examples/s"),
        ({"prompt_tokens": 3000, "completion_tokens": 1000}, "2.0 examples/s, 200 tokens/s"),
        ({"resumed": 50}, "2.0 examples/s"),  # what the journal had took this run no time
        ({"answered": 0}, ""),
        ({"seconds": 0.0}, ""),
    ],
)
def test_speed(changes, text):
    assert format_speed(tally(**changes)) == text


def test_a_log_gets_a_line_a_task(capsys):
    with Lines() as lines:
        lines.begin(tally(answered=0, resumed=7))
        lines.update(tally())
        lines.end(tally(failed=2, resumed=58))
    assert capsys.readouterr().err.splitlines() == [
        "sst: 7 of 100 answers are in the journal",
        "sst: 100 of 100, 2.0 examples/s, 2 failed",
    ]


def test_a_line_without_an_answer_has_no_empty_part(capsys):
    lines = Lines()
    lines.end(tally(total=2, answered=0, failed=2))
    assert capsys.readouterr().err == "sst: 2 of 2, 2 failed\n"


def test_and_a_line_a_minute(capsys, monkeypatch):
    clock = iter([0.0, 59.9, 60.0, 61.0])
    monkeypatch.setattr("decabench.commands.predict.time.monotonic", lambda: next(clock))
    lines = Lines()
    lines.begin(tally(answered=0))
    for _ in range(3):
        lines.update(tally())
    # 60 examples are left, at half a second each.
    assert capsys.readouterr().err == "sst: 40 of 100, 2.0 examples/s, 0:00:30 left\n"


def test_a_task_that_was_answered_before_says_no_more(capsys):
    lines = Lines()
    lines.end(tally(answered=0, resumed=100))
    assert capsys.readouterr().err == ""


def test_a_bar_on_a_terminal(capsys, monkeypatch):
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("COLUMNS", "120")
    with Bar() as bar:
        bar.begin(tally(answered=0))
        bar.update(tally())
        bar.end(tally(answered=100))
    shown = capsys.readouterr().err
    assert "sst" in shown and "100/100" in shown and "5.0 examples/s" in shown
