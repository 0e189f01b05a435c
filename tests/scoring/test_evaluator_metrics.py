"""Scores of a task by several metrics, on one process or more."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from decabench.errors import UnknownNameError
from decabench.metrics import METRICS
from decabench.metrics.base import Item
from decabench.scoring.task_results import find_metric, score_task

REFERENCES = [Item([answer], str(number)) for number, answer in enumerate(["u v", "u", "v", "w"])]
PREDICTIONS = ["u v", "u", "x", "v w"]


def test_the_first_metric_gives_the_headline():
    scores = score_task(("em", "nf1"), PREDICTIONS, REFERENCES, None)
    assert scores.headline == "em"
    assert scores.scores["em"] == 50
    assert scores.scores["nf1"] == pytest.approx(100 * (1 + 1 + 0 + 2 / 3) / 4)


def test_another_metric_adds_and_never_replaces():
    scores = score_task(("em", "accuracy"), PREDICTIONS, REFERENCES, None)
    alone = score_task(("em",), PREDICTIONS, REFERENCES, None)
    assert scores.scores.items() >= alone.scores.items()
    assert "accuracy" in scores.scores
    assert list(scores.signatures) == ["em", "accuracy"]


def test_signatures_name_the_versions_that_counted():
    signature = score_task(("bleu",), PREDICTIONS, REFERENCES, None).signatures["bleu"]
    assert signature == METRICS["bleu"].full_signature
    assert signature.rpartition(":")[2] != "missing"


def test_find_metric():
    assert find_metric("nf1") is METRICS["nf1"]
    assert find_metric("decabench.metrics.nf1:nf1") is METRICS["nf1"]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("nf11", "Did you mean nf1"),
        ("no_such_package:metric", "install its package, or run this in the folder of its file"),
        ("json:dumps", "which is not a decabench.metrics.Metric"),
    ],
)
def test_metrics_that_are_none(name, sentence):
    with pytest.raises(UnknownNameError, match=sentence):
        find_metric(name)


@pytest.mark.slow
def test_interrupted_workers_are_silent():
    """Ctrl-C reaches every process of a terminal, the ones that are just starting too: only the parent speaks.

    The parent only sleeps: in about one of 150 runs the signal came while it asked a future, whose lock Python then
    leaves taken, so that the pool never ends. A second Ctrl-C ends it.
    """
    code = (
        "import time\n"
        "from decabench.scoring.task_results import worker_pool\n"
        "if __name__ == '__main__':\n"
        "    try:\n"
        "        with worker_pool(2, 1_000_000) as pool:\n"
        "            waiting = [pool.submit(time.sleep, 60) for _ in range(4)]\n"
        "            print('begun', flush=True)\n"
        "            time.sleep(60)\n"
        "    except KeyboardInterrupt:\n"
        "        print('interrupted')\n"
    )
    for wait in (0.0, 0.5):
        process = subprocess.Popen(
            [sys.executable, "-c", code],
            cwd=Path(__file__).parents[2],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert process.stdout.readline() == "begun\n"
        try:
            time.sleep(wait)
            os.killpg(process.pid, signal.SIGINT)
            out, err = process.communicate(timeout=20)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        assert (out, err) == ("interrupted\n", "")
