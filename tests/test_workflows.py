from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
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
    """Run a script like GitHub Actions, with bash that stops at the first error."""
    return subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", script],
        cwd=repository,
        env={**os.environ, "DECABENCH_PREPARE_SAMPLE": "1", **variables},
        capture_output=True,
        text=True,
    )


def scripts(job: Any) -> list[str]:
    """Return the commands of a job, except the installation."""
    found = [step["run"] for step in job["steps"] if "run" in step]
    assert "--requirement .decabench/locks/base.txt" in found[0]
    return found[1:]


@pytest.mark.parametrize("name", ["public-board.yml", "hidden-board.yml", "regression-gate.yml"])
def test_actions_are_named_by_commit(name: str) -> None:
    jobs = read(name)["jobs"].values()
    used = [step["uses"] for job in jobs for step in job["steps"] if "uses" in step]
    assert len(used) >= 3
    assert not [one for one in used if not re.fullmatch(r"actions/[\w/-]+@[0-9a-f]{40}", one)]


@pytest.mark.heavy
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


# A git server and a runner of jobs


def git(folder: Path, *arguments: str) -> str:
    """Run git with a test identity, and return its output."""
    who = ("-c", "user.name=somebody", "-c", "user.email=somebody@localhost")
    command = ["git", "-C", folder, *who, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


class Server:
    """A git server with bare repositories, and a minimal runner that clones and runs the jobs in the YAML."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"

    def make(self, name: str) -> Path:
        """Make a repository with an empty first commit; return a clone."""
        subprocess.run(
            ["git", "init", "--quiet", "--bare", "-b", "main", self.folder / f"{name}.git"], check=True
        )
        clone = self.clone(name, self.folder / name)
        git(clone, "commit", "--quiet", "--allow-empty", "-m", "Begin")
        git(clone, "push", "--quiet", "origin", "HEAD:main")
        return clone

    def clone(self, name: str, into: Path) -> Path:
        """Clone a repository into a folder."""
        subprocess.run(
            ["git", "clone", "--quiet", "--no-local", self.folder / f"{name}.git", into], check=True
        )
        return into

    def run_job(
        self, job: Any, variables: dict[str, str], event: dict[str, str], own: str
    ) -> subprocess.CompletedProcess[str]:
        """Run the steps of a job in a new workspace until one fails. Return the last step and all output."""
        number = len(list(self.folder.glob("workspace-*")))
        workspace = self.folder / f"workspace-{number}"
        workspace.mkdir()
        printed = ""
        for step in job["steps"]:
            if step.get("uses", "").startswith("actions/checkout@"):
                settings = step.get("with", {})
                name = settings.get("repository", own).rpartition("/")[2]
                if name != "decabench":
                    self.clone(name, workspace / settings.get("path", "."))
            if "run" not in step or ".decabench/locks/base.txt" in step["run"]:
                continue
            assert "${{" not in step["run"]  # a script that holds what others wrote could be made to run it
            given = {
                name: re.sub(r"\$\{\{ (.*?) }}", lambda found: event[found[1]], value)
                for name, value in step.get("env", {}).items()
            }
            own_variables = {**variables, "DECABENCH_HOME": str(self.data), **given}
            summary = self.folder / f"summary-{number}.md"
            own_variables["GITHUB_STEP_SUMMARY"] = str(summary)
            done = run(workspace / step.get("working-directory", "."), step["run"], own_variables)
            printed += f"$ {step['run']}\n{done.stdout}{done.stderr}"
            if done.returncode:
                break
        with open(self.folder / "runs.log", "a", encoding="utf-8") as log:
            log.write(f"{printed}exit {done.returncode}\n")
            log.write(f"summary:\n{summary.read_text(encoding='utf-8')}\n" if summary.exists() else "\n")
        done.stdout = printed
        return done


class PublicBoard(Server):
    """The public board: a repository and contributors."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.workflow = read("public-board.yml")
        self.number = 0
        clone = self.make("board")
        page = (ROOT / "docs" / "how-to" / "public-board.md").read_text(encoding="utf-8")
        (self.folder / "suite.toml").write_text(page.partition("```toml\n")[2].partition("```")[0])
        shutil.copy(self.folder / "suite.toml", clone)
        (self.folder / "models.py").write_text(page.partition("```python\n")[2].partition("```")[0])
        done = run(self.folder, "decabench prepare sst schema", {"DECABENCH_HOME": str(self.data)})
        assert done.returncode == 0, done.stderr
        (clone / ".github" / "workflows").mkdir(parents=True)
        shutil.copy(FOLDER / "public-board.yml", clone / ".github" / "workflows")
        self.predict(clone, "Positive", "keeper/positive")
        (clone / "submissions" / "broken").mkdir()
        (clone / "submissions" / "broken" / "submission.toml").write_text("format = [")
        git(clone, "add", "--all")
        git(clone, "commit", "--quiet", "-m", "Add the suite")
        git(clone, "push", "--quiet", "origin", "HEAD:main")

    def predict(self, clone: Path, predictor: str, name: str) -> Path:
        """Write a submission into a clone."""
        variables = {"DECABENCH_HOME": str(self.data), "DECABENCH_INCLUDE": str(self.folder / "suite.toml")}
        given = f"--suite pair --output {clone / 'submissions' / name}"
        done = run(self.folder, f"decabench predict --predictor models:{predictor} {given}", variables)
        assert done.returncode == 0, done.stderr
        return clone / "submissions" / name

    def push(self) -> subprocess.CompletedProcess[str]:
        """Run the job of a push."""
        return self.run_job(self.workflow["jobs"]["build"], self.workflow["env"], {}, "board")

    def request(self, author: str, change: Callable[[Path], object]) -> tuple[int, str, str]:
        """Send a request and run its job. Return the exit status, the output and the summary."""
        self.number += 1
        clone = self.clone("board", self.folder / f"request-{self.number}")
        change(clone)
        git(clone, "add", "--all", "--force")
        git(clone, "commit", "--quiet", "-m", "Send answers")
        git(clone, "push", "--quiet", "origin", f"HEAD:refs/pull/{self.number}/head")
        event = {
            "github.event.number": str(self.number),
            "github.event.pull_request.head.sha": git(clone, "rev-parse", "HEAD"),
            "github.event.pull_request.user.login": author,
        }
        job = self.workflow["jobs"]["review"]
        done = self.run_job(job, self.workflow["env"], event, "board")
        summaries = sorted(self.folder.glob("summary-*.md"), key=lambda path: path.stat().st_mtime)
        return done.returncode, done.stdout, summaries[-1].read_text(encoding="utf-8") if summaries else ""

    def merge(self) -> None:
        """Merge the last request."""
        clone = self.clone("board", self.folder / f"merge-{self.number}")
        git(clone, "fetch", "--quiet", "origin", f"refs/pull/{self.number}/head")
        git(clone, "merge", "--quiet", "--no-ff", "-m", "Merge", "FETCH_HEAD")
        git(clone, "push", "--quiet", "origin", "HEAD:main")

    @property
    def scored(self) -> int:
        """The number of entries in the ledger."""
        return sum(path.is_file() for path in (self.data / "ledger").rglob("*"))


@pytest.fixture
def board(tmp_path: Path, repository: Path) -> PublicBoard:
    return PublicBoard(repository)


def test_requests_are_reviewed_and_merges_published(board: PublicBoard) -> None:
    done = board.push()
    assert done.returncode == 0 and "Results: 1 verified" in done.stdout, done.stdout
    assert "Left out: broken: " in done.stdout  # it blocks nobody

    before = board.scored
    status, printed, summary = board.request(
        "alice", lambda clone: board.predict(clone, "FirstWord", "alice/model")
    )
    assert status == 0, printed
    assert board.scored == before + 2  # the two tasks that were sent, and nothing else
    assert summary.startswith("## alice/model: rank 2 of 2\n")
    assert re.search(r"^\| sst \| 0\.0 \| \S+ \|  \| 40\.6 \| -40\.6 \| 0\.\d+ \| 32 answers", summary, re.M)
    board.merge()
    done = board.push()
    assert done.returncode == 0 and "Results: 2 verified" in done.stdout

    def add_fault(clone: Path) -> None:
        path = clone / "submissions" / "alice" / "model" / "predictions" / "sst.validation.jsonl"
        path.write_text(path.read_text() + '{"id": "nobody", "answer": ""}\n')

    status, printed, summary = board.request("alice", add_fault)
    assert status == 1 and summary.startswith("## alice/model: refused\n")
    place = "submissions/alice/model/predictions/sst.validation.jsonl"
    assert f"::error file={place},line=33,title=unknown-id::" in printed

    def reach(clone: Path) -> None:
        add_fault(clone)
        (clone / ".github" / "workflows" / "public-board.yml").write_text("on: push\n")
        (clone / "suite.toml").write_text("name = ")
        board.predict(clone, "Positive", "mallory")

    status, printed, summary = board.request("mallory", reach)
    assert status == 1  # and it was the workflow and the suite of the board that ran
    places = re.findall(
        r"^::error file=(.*),title=request::a pull request may only change files in", printed, re.M
    )
    assert places == [".github/workflows/public-board.yml", place, "suite.toml"]


class HiddenBoard(Server):
    """A board with hidden labels: a private repository, a public repository and a queue."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.workflow = read("hidden-board.yml")
        self.queue = folder / "queue"
        self.public = self.make("board")
        private = self.make("private")
        (private / "own.toml").write_text(
            'format = "decabench.taskfile/1"\nname = "own"\nmetric = "em"\nanswer = "answer"\nhidden = ["test"]\n'
            'question = "What is {number}?"\ncontext = "It is {number}."\n'
            '[files]\ntrain = "train.jsonl"\ntest = "test.jsonl"\n'
        )
        (private / "suite.toml").write_text(
            'format = "decabench.suite/1"\nname = "hidden"\ntitle = "Hidden"\ntasks = ["own"]\ntotal = "mean"\n'
            'total_name = "mean score"\n'
        )
        for name, golds in (("train", 2), ("test", 40)):
            rows = [{"number": number, "answer": f"{name}-gold{number}"} for number in range(golds)]
            (private / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        git(private, "add", "--all")
        git(private, "commit", "--quiet", "-m", "Add the task")
        git(private, "push", "--quiet", "origin", "HEAD:main")

    def send(self, author: str, name: str, right: int) -> Path:
        """Put answers into the queue, with this number of right ones."""
        place = self.queue / author / name
        (place / "predictions").mkdir(parents=True)
        (place / "submission.toml").write_text(f'format = "decabench.submission/1"\nname = "{name}"\n')
        golds = [f"test-gold{number}" if number < right else "no idea" for number in range(40)]
        rows = [{"id": f"own.test.{number}", "answer": gold} for number, gold in enumerate(golds)]
        (place / "predictions" / "own.test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return place

    def run(self) -> subprocess.CompletedProcess[str]:
        """Run the workflow."""
        variables = {"SUITE": "hidden", "QUEUE": str(self.queue), "DECABENCH_INCLUDE": "suite.toml:own.toml"}
        job = self.workflow["jobs"]["score"]
        return self.run_job(job, {**self.workflow["env"], **variables}, {}, "private")

    def published(self) -> dict[str, str]:
        """Return every file of the public repository, in any commit."""
        git(self.public, "fetch", "--quiet")
        names = git(self.public, "log", "--all", "--name-only", "--format=").split("\n")
        git(self.public, "reset", "--quiet", "--hard", "origin/main")
        return {name: (self.public / name).read_text(errors="replace") for name in names if name}


@pytest.mark.heavy
def test_hidden_labels_are_scored_from_a_queue(repository: Path) -> None:
    board = HiddenBoard(repository)
    board.send("alice", "mine", 30)
    broken = board.send("bob", "broken", 40)
    (broken / "predictions" / "own.test.jsonl").write_text('{"id": "own.test.0", "answer": "test-gold0"}\n{')
    done = board.run()
    assert done.returncode == 0, done.stdout
    assert not any(path.is_file() for path in board.queue.rglob("*"))
    found = board.published()
    [mine] = [text for name, text in found.items() if name.startswith("results/alice/")]
    assert mine.startswith("## alice/mine: rank 1 of 1\n") and "| own | 75.0 |" in mine
    [refused] = [text for name, text in found.items() if name.startswith("results/bob/")]
    assert refused.startswith("## bob/broken: refused\n") and "bad-json" in refused
    assert "site/index.html" in found and "mine" in found["site/index.html"]
    assert all(name.startswith(("results/", "site/")) for name in found)
    assert not [name for name, text in found.items() if "test-gold" in text]
    assert not [name for name, text in found.items() if "own.test.3" in text]
    kept = git(board.clone("private", repository / "kept"), "ls-files", "submissions").split("\n")
    assert "submissions/alice/mine/submission.toml" in kept

    board.send("alice", "mine", 40)
    done = board.run()
    assert done.returncode == 0, done.stdout
    texts = [text for name, text in sorted(board.published().items()) if name.startswith("results/alice/")]
    assert len(texts) == 2 and "| own | 100.0 | 91.2–100.0 | 75.0 |" in texts[1]


def test_requests_of_strangers_get_no_rights_and_run_nothing() -> None:
    workflow = read("public-board.yml")
    triggers = workflow[True]  # YAML reads the key `on` as true
    assert "pull_request" not in triggers and workflow["permissions"] == {"contents": "read"}
    jobs = workflow["jobs"]
    review, build, publish = jobs["review"], jobs["build"], jobs["publish"]
    assert "permissions" not in review and "permissions" not in build and publish["needs"] == "build"
    assert review["if"] == "github.event_name == 'pull_request_target'"
    assert build["if"] == "github.event_name == 'push'"
    assert "secrets" not in str(review)
    for step in review["steps"]:
        settings = step.get("with", {})
        if "actions/checkout@" in step.get("uses", ""):
            assert settings["persist-credentials"] is False
            assert settings["ref"] == ("COMMIT" if "repository" in settings else "main")
        assert "actions/cache@" not in step.get("uses", "")
    assert read("regression-gate.yml")["permissions"] == {"contents": "read"}
    assert "pull_request" not in read("hidden-board.yml")[True]


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.yml")), ids=lambda path: path.stem)
def test_no_script_holds_an_expression(path: Path) -> None:
    steps = [step for job in read(path.name)["jobs"].values() for step in job["steps"]]
    assert not [step["run"] for step in steps if "${{" in step.get("run", "")]
