"""tools/learning_curves.py: what it averages, and what it says of runs that it cannot read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "learning_curves.py"


def make_run(folder: Path, losses: dict[str, list[float]]) -> Path:
    """Write the train.csv of a run whose tasks take turns."""
    folder.mkdir()
    rows = [
        f"0,{task},{loss}"
        for step in zip(*losses.values(), strict=True)
        for task, loss in zip(losses, step, strict=True)
    ]
    (folder / "train.csv").write_text("\n".join(["step,task,loss", *rows]) + "\n")
    return folder


def call(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, TOOL, *map(str, arguments)], capture_output=True, text=True)


def test_the_mean_of_two_runs_over_a_window(tmp_path: Path) -> None:
    first = make_run(tmp_path / "a", {"sst": [4.0, 2.0, 0.0], "squad": [9.0, 9.0, 9.0]})
    second = make_run(tmp_path / "b", {"sst": [2.0, 4.0, 2.0], "squad": [9.0, 9.0, 9.0]})
    done = call(
        f"both={first},{second}", f"one={first}", "--task", "sst", "--window", "2", "--steps", "1,3,4"
    )
    assert done.stdout.splitlines()[2:] == ["| 1 | 3.000 | 4.000 |", "| 3 | 2.000 | 1.000 |", "| 4 | – | – |"]


FAULTS = [
    ("{run}", "is not NAME=RUN"),
    ("a={run}/x", "has no train.csv"),
    ("a={run}", "has no steps of zre; it has sst."),
]


@pytest.mark.parametrize(("group", "message"), FAULTS)
def test_faults_are_named(tmp_path: Path, group: str, message: str) -> None:
    run = make_run(tmp_path / "run", {"sst": [1.0]})
    done = call(group.format(run=run), "--task", "zre")
    assert done.returncode and message in done.stderr and "Traceback" not in done.stderr
