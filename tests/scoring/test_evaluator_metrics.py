"""Scores of a task by several metrics, on one process or more."""

import contextlib
import os
import signal
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import pytest

from decabench.errors import UnknownNameError
from decabench.metrics import METRICS
from decabench.metrics.base import Item
from decabench.scoring import task_results
from decabench.scoring.task_results import find_metric, score_task, worker_pool

REFERENCES = [Item([answer], str(number)) for number, answer in enumerate(["u v", "u", "v", "w"])]
PREDICTIONS = ["u v", "u", "x", "v w"]


def test_the_first_metric_gives_the_headline():
    scores = score_task(("em", "nf1"), PREDICTIONS, REFERENCES, None)
    assert scores.headline == "em"
    assert scores.scores["em"] == 50
    assert scores.scores["nf1"] == pytest.approx(100 * (1 + 1 + 0 + 2 / 3) / 4)


def test_metrics_that_share_rows_are_counted_once():
    scores = score_task(("nf1", "em", "nem"), PREDICTIONS, REFERENCES, None)
    assert list(scores.signatures) == ["nf1"]
    assert scores.scores.keys() >= {"nf1", "em", "nem"}


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


@pytest.mark.parametrize(("jobs", "examples"), [(1, 1_000_000), (2, task_results._WORTH_A_PROCESS - 1)])
def test_no_processes_where_there_is_little_to_do(jobs, examples):
    with worker_pool(jobs, examples) as pool:
        assert pool is None


class _Here:
    """A pool that computes in this process and remembers how many examples it was sent at once."""

    def __init__(self):
        self.sent = []

    def map(self, function, *columns):
        self.sent = [len(references) for references in columns[-1]]
        return map(function, *columns)


@pytest.mark.parametrize(
    ("name", "worth", "sent"),
    [
        ("nf1", 0, [3, 1]),
        ("nf1", 60, []),  # so fast that another process costs more than it saves
        ("joint_goal_em", 0, []),  # dialogues, which only the metric knows, must stay whole
        ("pearson", 0, []),
    ],
)
def test_only_much_work_on_single_examples_is_sent_to_processes(monkeypatch, name, worth, sent):
    monkeypatch.setattr(task_results, "_CHUNK", 3)
    monkeypatch.setattr(task_results, "_PART", 2)
    monkeypatch.setattr(task_results, "_WORTH_SECONDS", worth)
    answers = [f"{number}" if name == "pearson" else f"food: {number}; {number}" for number in range(7)]
    examples = [Item([text], f"en_{number}_0", (f"{number}",)) for number, text in enumerate(answers)]
    metric, pool = METRICS[name], _Here()
    rows = task_results._compute_rows(name, metric, answers, examples, pool)
    assert pool.sent == sent
    assert list(map(tuple, rows.tolist())) == list(metric.statistics(answers, examples))


def test_rows_of_many_examples_take_no_more_memory_than_their_numbers():
    count = 60_000
    answers = [str(number % 10) for number in range(count)]
    examples = [Item((text,)) for text in answers]
    METRICS["em"].statistics(answers[:10], examples[:10])
    tracemalloc.start()
    try:
        rows = task_results._compute_rows("em", METRICS["em"], answers, examples, None)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert rows.shape == (count, 5)
    assert peak < 2 * rows.nbytes + 4_000_000  # parts, and the whole; tuples of all take 12 MB more


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
