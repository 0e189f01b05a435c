"""The workflows of examples/workflows do what they say: their commands run as they are, on the sample."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.processes import with_decabench
from tests.sources import ROOT

yaml = pytest.importorskip("yaml")
FOLDER = ROOT / "examples" / "workflows"

pytestmark = pytest.mark.slow


def read(name: str) -> Any:
    return yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with `decabench` on the path."""
    for name, value in with_decabench(tmp_path).items():
        monkeypatch.setenv(name, value)
    (tmp_path / "repository").mkdir()
    return tmp_path / "repository"


def run(repository: Path, script: str, variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a script as GitHub Actions runs one: bash that stops at the first error."""
    return subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", script],
        cwd=repository,
        env={**os.environ, "DECABENCH_PREPARE_SAMPLE": "1", **variables},
        capture_output=True,
        text=True,
    )


def scripts(job: Any) -> list[str]:
    """The commands of a job, but for the installation."""
    found = [step["run"] for step in job["steps"] if "run" in step]
    assert "--requirement .decabench/locks/base.txt" in found[0]
    return found[1:]


@pytest.mark.parametrize("name", ["public-board.yml", "regression-gate.yml"])
def test_actions_are_named_by_commit(name: str) -> None:
    jobs = read(name)["jobs"].values()
    used = [step["uses"] for job in jobs for step in job["steps"] if "uses" in step]
    assert len(used) > 3
    assert not [one for one in used if not re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40}", one)]


@pytest.mark.parametrize(("candidate", "code"), [("first-choice", 0), ("copy-context", 1)])
def test_the_gate_lets_through_what_is_as_good(repository: Path, candidate: str, code: int) -> None:
    workflow = read("regression-gate.yml")
    variables = {**workflow["env"], "PREDICTOR": "first-choice"}
    steps = scripts(workflow["jobs"]["compare"])
    first = "\n".join(steps[:2]).replace("--output candidate", "--output baseline")
    assert run(repository, first, variables).returncode == 0
    *before, last = steps
    done = run(repository, "\n".join(before), {**variables, "PREDICTOR": candidate})
    assert done.returncode == 0, done.stderr
    done = run(repository, last, variables)
    assert done.returncode == code, done.stdout + done.stderr
    assert (repository / "comparison.html").exists()


def test_the_board_scores_every_submission_itself(repository: Path) -> None:
    workflow = read("public-board.yml")
    variables = workflow["env"]
    prepare, check, build = scripts(workflow["jobs"]["build"])
    page = (ROOT / "docs" / "how-to" / "public-board.md").read_text(encoding="utf-8")
    (repository / "suite.toml").write_text(page.partition("```toml\n")[2].partition("```")[0])
    assert run(repository, prepare, variables).returncode == 0
    for name in ("majority", "first-choice"):
        command = f"decabench predict --predictor {name} --suite pair --output submissions/{name}"
        assert run(repository, command, variables).returncode == 0
    forged = repository / "submissions" / "majority" / "results" / "validation"
    forged.mkdir(parents=True)
    (forged / "results.json").write_text('{"score": 990}')
    done = run(repository, f"{check}\n", variables)
    assert done.returncode == 0, done.stdout + done.stderr
    done = run(repository, build, variables)
    assert "Results: 2 verified; " in done.stdout
    assert (repository / "site" / "index.html").exists()
    answers = repository / "submissions" / "majority" / "predictions" / "sst.validation.jsonl"
    answers.write_text(answers.read_text() + '{"id": "nobody", "answer": ""}\n')
    done = run(repository, check, variables)
    assert done.returncode == 1
    assert "unknown-id" in done.stdout + done.stderr


def test_pull_requests_of_strangers_get_no_rights() -> None:
    for path in FOLDER.glob("*.yml"):
        workflow = read(path.name)
        triggers = workflow[True]  # YAML reads the key `on` as true
        assert "pull_request_target" not in triggers
        assert workflow["permissions"] == {"contents": "read"}
        assert all(
            "permissions" not in job or job.get("if") == "github.event_name == 'push'"
            for job in workflow["jobs"].values()
        )
