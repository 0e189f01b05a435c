"""A predictor that takes its process with it: one sentence, exit 4, and a run that can be continued."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.sources import ROOT

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="watched on Linux only")

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
ENDS = {
    "os._exit(7)": "The predictor, or a library that it uses, ended the whole process with exit code 7:",
    "os._exit(0)": "The predictor, or a library that it uses, ended the whole process with exit code 0:",
    "ctypes.string_at(0)": "was ended by SIGSEGV, a fault in compiled code:",
    "os.abort()": "was ended by SIGABRT, a library gave up:",
    "os.kill(os.getpid(), signal.SIGKILL)": "was ended by SIGKILL, perhaps for lack of memory:",
}


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


@pytest.mark.parametrize("end", ENDS)
def test_a_sudden_end_is_a_sentence(tmp_path: Path, home: Path, end: str) -> None:
    with start(tmp_path, home, end) as process:
        _, said = process.communicate(timeout=60)
    assert process.returncode == 4, said
    assert ENDS[end] in said
    assert said.rstrip().endswith("run the same command again to continue; the answers so far are kept.")
    assert said.count("Error: ") == 1 and "Traceback" not in said
    in_compiled_code = end in (
        "ctypes.string_at(0)",
        "os.abort()",
    )  # Python can still say which line called it
    assert (str(tmp_path / "model.py") in said) == in_compiled_code


def test_the_run_is_continued(tmp_path: Path, home: Path) -> None:
    with start(tmp_path, home, "os._exit(7)") as process:
        process.communicate(timeout=60)
    (tmp_path / "good").touch()
    with start(tmp_path, home, "os._exit(7)") as process:
        _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert len((tmp_path / "out" / "predictions" / "sst.validation.jsonl").read_text().splitlines()) == 32


def test_errors_and_exits_stay_as_they_are(tmp_path: Path, home: Path) -> None:
    with start(tmp_path, home, "sys.exit(3)") as process:
        _, said = process.communicate(timeout=60)
    assert "The predictor failed on sst after 8 answers (SystemExit: 3)" in said
    assert process.returncode in (2, 4)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM), (signal.SIGKILL, -9)]
)
def test_a_signal_ends_both(tmp_path: Path, home: Path, number: int, code: int) -> None:
    end = f"open({str(tmp_path / 'begun')!r}, 'w').write(str(os.getpid())) and time.sleep(600)"
    with start(tmp_path, home, end) as process:
        deadline = time.monotonic() + 60
        while not (tmp_path / "begun").exists() or not (tmp_path / "begun").read_text():
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.05)
        child = int((tmp_path / "begun").read_text())
        process.send_signal(number)
        _, said = process.communicate(timeout=30)
    assert process.returncode == code, said
    deadline = time.monotonic() + 10
    while is_alive(child):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
