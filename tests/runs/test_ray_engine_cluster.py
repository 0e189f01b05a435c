"""Clusters that a run starts or joins: no process is left over, and a lost machine costs little."""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from textwrap import dedent

import psutil
import pytest

pytest.importorskip("ray")

from decabench.predictors.protocol import ModelOptions
from decabench.runs.plan import Run, plan_run
from decabench.runs.ray_engine import connected, require_ray
from decabench.runs.write import predict, run_plan
from decabench.tasks.registry import TASKS
from decabench.tasks.store import Store

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.xdist_group("ray"),  # one cluster at a time
]

ROOT = Path(__file__).parents[2]

SLOWLY = """
    import time


    class Slowly:
        def predict(self, questions):
            time.sleep(0.05 * len(questions))
            return [question.id for question in questions]


    slowly = Slowly()
"""


@pytest.fixture
def theirs(tmp_path, monkeypatch):
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "slow_on_ray.py").write_text(dedent(SLOWLY))
    monkeypatch.syspath_prepend(tmp_path / "theirs")
    yield tmp_path / "theirs"
    sys.modules.pop("slow_on_ray", None)


@pytest.fixture
def start(theirs, home, tmp_path):
    """The command in a session of its own; what it leaves is ended."""
    started = []

    def make():
        options = "predict --predictor slow_on_ray:slowly --tasks sst,schema --engine ray --workers 2 --batch-size 4 "
        process = subprocess.Popen(
            [
                *(sys.executable, "-c", "from decabench.cli import main; main()"),
                *f"{options} --home {home} --output {tmp_path / 's'}".split(),
            ],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (ROOT, theirs)))},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield make
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def wait_for(condition, seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


def lines(folder):
    return sum(len(path.read_text().splitlines()) - 1 for path in folder.glob("journal/*.jsonl"))


def names(processes):
    """Return the names of the processes that are still running."""
    found = []
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            if process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.name())
    return found


def predictions(folder):
    return {path.name: path.read_bytes() for path in (folder / "predictions").iterdir()}


def some_answers(process, folder):
    wait_for(lambda: process.poll() is not None or lines(folder) >= 8)
    assert process.poll() is None, process.communicate()[0]
    return psutil.Process(process.pid).children(recursive=True)


def test_a_killed_run_leaves_no_process_and_goes_on(start, home, tmp_path, theirs):
    process = start()
    children = some_answers(process, tmp_path / "s")
    assert len(children) > 4
    process.kill()
    process.wait()
    kept = lines(tmp_path / "s")
    wait_for(lambda: not any(name.startswith("ray::Worker") for name in names(children)), 60)
    assert not (tmp_path / "s" / "submission.toml").exists()
    again = start()
    output, _ = again.communicate(timeout=240)
    assert again.returncode == 0, output
    assert f"sst: {min(kept, 32)} of 32 answers are already in the journal" in output
    tasks = [TASKS["sst"], TASKS["schema"]]
    local = predict("slow_on_ray:slowly", tmp_path / "local", tasks, home=home)
    assert predictions(tmp_path / "s") == predictions(local)
    wait_for(lambda: not names(children))  # Ray's own agents look for their parent once a minute


def test_control_c_leaves_no_process(start, tmp_path):
    process = start()
    children = some_answers(process, tmp_path / "s")
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to every process of the group
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in output
    wait_for(lambda: not names(children), 30)
    assert lines(tmp_path / "s") >= 8


def test_a_machine_that_is_lost(home, tmp_path, theirs):
    """Two machines, one worker on each; one machine goes, and the other does its part."""
    require_ray()
    from ray.cluster_utils import Cluster

    def run(**changes):
        given = {"date": "2026-01-31", "output": tmp_path / "s", "options": ModelOptions(batch_size=4)}
        return Run(
            "slow_on_ray:slowly", [TASKS["schema"]], "validation", store=Store(home), **{**given, **changes}
        )

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        with connected(cluster.address, None):  # before the second comes: this process belongs to the head
            second = cluster.add_node(num_cpus=1)
            lost = []

            def lose():
                wait_for(lambda: lines(tmp_path / "s") >= 8)
                lost.append(lines(tmp_path / "s"))
                cluster.remove_node(second)

            thread = threading.Thread(target=lose)
            thread.start()
            remote = run_plan(plan_run(run(engine="ray", workers=2))).folder
            thread.join()
    finally:
        cluster.shutdown()
    assert 8 <= lost[0] < 82
    local = run_plan(plan_run(run(output=tmp_path / "local"))).folder
    assert predictions(remote) == predictions(local)
