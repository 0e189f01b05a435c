from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from decabench.workers import process_pool
from tests.processes import is_running, wait_until
from tests.sources import ROOT


def hears_ctrl_c(seconds: float) -> tuple[int, bool]:
    """Return (process id, whether Ctrl-C would reach the process)."""
    time.sleep(seconds)
    return os.getpid(), signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="this system has no signal masks")
def test_ctrl_c_does_not_reach_workers() -> None:
    with process_pool(2) as pool:
        first = pool.submit(hears_ctrl_c, 1.0)
        found = [first.result(), *pool.map(hears_ctrl_c, [0.5] * 4)]
    assert len({process for process, _ in found}) == 2
    assert not any(heard for _, heard in found)
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def work_and_clean_up(folder: Path, seconds: float = 60.0) -> None:
    (folder / f"begun.{os.getpid()}").touch()
    try:
        time.sleep(seconds)
    finally:
        (folder / f"ended.{os.getpid()}").touch()


def test_workers_clean_up_where_the_block_fails(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt), process_pool(2) as pool:
        for _ in range(4):  # two of them wait
            pool.submit(work_and_clean_up, tmp_path)
        while len(list(tmp_path.glob("begun.*"))) < 2:
            assert time.monotonic() - started < 30
            time.sleep(0.02)
        raise KeyboardInterrupt
    while len(list(tmp_path.glob("ended.*"))) < 2:
        assert time.monotonic() - started < 30
        time.sleep(0.02)
    assert len(list(tmp_path.glob("begun.*"))) == 2
    assert capfd.readouterr() == ("", "")


PARENT = """
import sys, time
from pathlib import Path
from decabench.workers import process_pool
from tests.test_workers import work_and_clean_up
if __name__ == "__main__":
    with process_pool(2) as pool:
        for _ in range(2):
            pool.submit(work_and_clean_up, Path(sys.argv[1]), float(sys.argv[2]))
        time.sleep(60)
"""


@pytest.mark.parametrize("seconds", [0.5, 60.0], ids=["idle", "at work"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_workers_end_after_their_parent(tmp_path: Path, number: int, seconds: float) -> None:
    (tmp_path / "parent.py").write_text(PARENT)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    parent = subprocess.Popen(
        [sys.executable, tmp_path / "parent.py", tmp_path, str(seconds)], env=environment
    )
    wait_until(lambda: len(list(tmp_path.glob("begun.*" if seconds > 1 else "ended.*"))) == 2)
    parent.send_signal(number)
    parent.wait(60)
    wait_until(lambda: len(list(tmp_path.glob("ended.*"))) == 2)  # they have cleaned up
    workers = [int(path.suffix[1:]) for path in tmp_path.glob("begun.*")]
    wait_until(lambda: not any(map(is_running, workers)))


def test_an_error_of_a_worker_is_the_result() -> None:
    with process_pool(1) as pool, pytest.raises(ValueError, match="invalid literal"):
        pool.submit(int, "x").result()
