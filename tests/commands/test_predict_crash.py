"""A predictor that takes its process with it: the run can be continued."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sources import ROOT

MODEL = """
import ctypes, os, signal, sys, time

class Model:
    def __init__(self, setting):
        self.asked = 0

    def predict(self, questions):
        self.asked += 1
        if self.asked == 2 and not os.path.exists({marker!r}):
            {end}
        return ["positive"] * len(questions)
"""


def start(tmp_path: Path, home: Path, end: str) -> subprocess.Popen[str]:
    model = tmp_path / "model.py"
    model.write_text(MODEL.format(end=end, marker=str(tmp_path / "good")))
    options = ["--predictor", "model:Model", "--tasks", "sst", "--batch-size", "8"]
    line = ["predict", *options, "--home", str(home), "--output", str(tmp_path / "out")]
    return subprocess.Popen(
        [sys.executable, "-m", "decabench", *line],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        start_new_session=True,
    )


@pytest.mark.parametrize("end", ["os._exit(7)", "ctypes.string_at(0)"])
def test_the_run_is_continued(tmp_path: Path, home: Path, end: str) -> None:
    with start(tmp_path, home, end) as process:
        process.communicate(timeout=60)
    assert process.returncode
    (tmp_path / "good").touch()
    with start(tmp_path, home, end) as process:
        _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert len((tmp_path / "out" / "predictions" / "sst.validation.jsonl").read_text().splitlines()) == 32


def test_errors_and_exits_stay_as_they_are(tmp_path: Path, home: Path) -> None:
    with start(tmp_path, home, "sys.exit(3)") as process:
        _, said = process.communicate(timeout=60)
    assert "The predictor failed on sst after 8 answers (SystemExit: 3)" in said
    assert process.returncode in (2, 4)
