from __future__ import annotations

import sys
from pathlib import Path

import pyte
import pytest

from decabench.commands._console import Bars, Lines
from decabench.runs import Tally
from tests.processes import in_terminal


def tally(**changes):
    return Tally(**{"task": "sst", "total": 100, "answered": 40, "seconds": 20.0, **changes})


def test_a_log_gets_a_line_a_task_and_one_a_minute(capsys, monkeypatch):
    clock = iter([0.0, 59.9, 60.0, 61.0])
    monkeypatch.setattr("decabench.commands._console.time.monotonic", lambda: next(clock))
    lines = Lines()
    lines.begin(tally(answered=0, resumed=7))
    for _ in range(3):
        lines.update(tally())  # 60 examples remain, at half a second each
    lines.end(tally(failed=2, resumed=58))
    lines.end(tally(answered=0, resumed=100))  # no question was sent
    assert capsys.readouterr().err.splitlines() == [
        "sst: 7 of 100 answers are already in the journal",
        "sst: 40 of 100, 2.0 examples/s, 0:00:30 left",
        "sst: 100 of 100, 2.0 examples/s, 2 failed",
    ]


def test_a_line_counts_whole_batches(capsys, monkeypatch):
    """Each batch of 32 takes 70 seconds, so a line after its first answer would announce almost two hours."""
    now = [0.0]
    monkeypatch.setattr("decabench.commands._console.time.monotonic", lambda: now[0])
    lines = Lines()
    lines.begin(tally(answered=0, seconds=0.0))
    for answered in range(1, 66):
        now[0] = 70.0 * ((answered + 31) // 32)
        lines.update(tally(answered=answered, seconds=now[0]))
    assert capsys.readouterr().err.splitlines() == [
        "sst: 32 of 100, 0.5 examples/s, 0:02:29 left",
        "sst: 64 of 100, 0.5 examples/s, 0:01:19 left",
    ]


def test_a_bar_says_whose_it_is(capsys, monkeypatch):
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("COLUMNS", "120")
    bars = Bars()
    with bars.show("majority"):
        bars.begin(tally(answered=0))
        bars.update(tally())
        bars.end(tally(answered=100))
    shown = capsys.readouterr().err
    assert "majority: sst" in shown and "100/100" in shown and "5.0 examples/s" in shown


def screen(command: list[str], columns: int, folder: Path) -> tuple[list[str], str]:
    """Run a command in a terminal. Return its lines, including those that scrolled away, and all of its output."""
    code, written = in_terminal(command, columns, folder)
    assert code == 0, written.decode()
    shown = pyte.HistoryScreen(columns, 24, history=1_000)
    pyte.ByteStream(shown).feed(written)
    above = ["".join(row[at].data for at in range(columns)).rstrip() for row in shown.history.top]
    return [*above, *(line.rstrip() for line in shown.display)], written.decode()


SLOW = """
import time

class Slow:
    def predict(self, questions):
        time.sleep(0.15)
        return [question.question.rstrip("?").split()[-1] for question in questions]
"""


@pytest.mark.parametrize(
    "columns", [80, *(pytest.param(columns, marks=pytest.mark.heavy) for columns in (60, 100, 200))]
)
def test_the_last_screen_of_a_run(home: Path, tmp_path: Path, columns: int) -> None:
    (tmp_path / "slow_model.py").write_text(SLOW)
    (tmp_path / "run.toml").write_text(
        f'predictor = "slow_model:Slow"\noutput = "tour/slow"\nhome = "{home}"\n'
        'tasks = ["sst", "schema"]\nbaselines = ["majority"]\n[predict]\nbatch-size = 16\nname = "slow"\n'
    )
    lines, written = screen([sys.executable, "-m", "decabench", "run", "run.toml"], columns, tmp_path)
    text = "\n".join(lines)
    assert "━" in written and "slow: sst" in written  # bars were drawn
    assert "━" not in text and "0:00" not in text and "Comparison" not in text
    assert lines[0] == "slow against majority, validation"
    heading = lines[1].split()
    assert heading[:2] == ["task", "metric" if columns > 80 else "score"] and "difference" in heading
    assert [line.split()[0] for line in lines[2:4]] == ["sst", "schema"]
    assert (
        "Wrong answers" in lines and sum(line.startswith(("All scores", "More wrong")) for line in lines) == 2
    )
