"""How many files a command crosses: the walks that ARCHITECTURE.md describes stay short."""

import json
import subprocess
import sys

import pytest

from tests.tasks.commands import ROOT

LIMITS = {"prepare": 17, "predict": 23, "evaluate": 24}


@pytest.fixture(scope="module")
def walks():
    command = [sys.executable, str(ROOT / "tools" / "walk.py"), "--json", *LIMITS]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return {walk["name"]: walk for walk in json.loads(done.stdout)}


@pytest.mark.parametrize("name", LIMITS)
def test_a_walk_is_short(walks, name):
    assert 5 < len(walks[name]["files"]) <= LIMITS[name], walks[name]["files"]


def test_a_walk_has_what_ran(walks):
    assert "decabench/scoring/evaluator.py" in walks["evaluate"]["files"]
    assert "decabench/scoring/evaluator.py" not in walks["prepare"]["files"]
    assert (
        "tasks/datasets/squad.py" not in walks["evaluate"]["files"]
    )  # its module runs, and none of its functions
