import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

NAMES = ("prepare", "predict", "evaluate", "leaderboard")
STATED = r"(\d+) files for `evaluate`,\s(\d+) for `predict`,\s(\d+) for `prepare`,\s(\d+) for `leaderboard`,\s(\d+)"


@pytest.fixture(scope="module")
def walks():
    command = [sys.executable, str(ROOT / "tools" / "walk.py"), "--json", *NAMES]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def limits():
    spec = importlib.util.spec_from_file_location("walk", ROOT / "tools" / "walk.py")
    walk = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(walk)
    return walk.LIMITS


@pytest.mark.parametrize("name", NAMES)
def test_a_walk_is_short(walks, limits, name):
    assert 5 < len(walks[name]) <= limits[name], walks[name]


def test_the_page_states_the_limits_of_the_tool(limits):
    stated = re.search(STATED, (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"))
    assert stated is not None
    numbers = dict(zip(limits, map(int, stated.groups()), strict=True))
    assert numbers == limits


def test_a_walk_has_what_ran(walks):
    assert "decabench/scoring/evaluator.py" in walks["evaluate"]
    assert "decabench/scoring/evaluator.py" not in walks["prepare"]
    assert "tasks/datasets/squad.py" not in walks["evaluate"]  # its module runs, and none of its functions
