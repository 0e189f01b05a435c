"""Shared fixtures: the prepared sample, the command line, a submission and a custom task."""

from __future__ import annotations

import errno
import io
import json
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from decabench.cli import cli
from decabench.runs.write import predict
from decabench.tasks import DECATHLON, TASKS
from decabench.tasks.preparation import Request, prepare_task, sample_sources

for _name in (
    "COLUMNS",
    "LINES",
):  # GNU readline, which pytest imports, sets them for all processes that tests start
    os.environ.pop(_name, None)


def pytest_configure() -> None:
    """Restore Ctrl-C in the tests and their child processes, because shells disable it in the background."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Run tests that share a fixture of their file in one process, which makes it once."""
    fixtures = getattr(item, "_fixtureinfo", None)
    is_shared = fixtures and any(made[-1].scope == "module" for made in fixtures.name2fixturedefs.values())
    if is_shared and item.get_closest_marker("xdist_group") is None:
        item.add_marker(pytest.mark.xdist_group(item.nodeid.split("::")[0]))


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundled sample, prepared once for all test processes. Tests only read it."""
    from filelock import FileLock

    base = tmp_path_factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with FileLock(base / "sample.lock"):
        for task in TASKS.values():
            if task.files_folder in sample_sources():
                prepare_task(task, Request(base / "sample-home", sample=True, progress=False))
    return base / "sample-home"


@pytest.fixture(scope="session", autouse=True)
def no_home_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep tests away from the user's prepared data."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("user")))
        yield


@pytest.fixture(scope="session", autouse=True)
def one_process_a_command() -> Iterator[None]:
    """Use one process, because starting processes takes longer than the sample. Tests that need more set `--jobs`."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("PREPARE", "EVALUATE", "COMPARE", "LEADERBOARD", "VERIFY"):
            patch.setenv(f"DECABENCH_{name}_JOBS", "1")
        yield


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Run `decabench ARGUMENTS` in this process."""
    monkeypatch.setenv("DECABENCH_DEBUG", "")  # what --debug sets goes away with the test
    monkeypatch.delenv("DECABENCH_HOME", raising=False)
    return lambda *arguments: CliRunner().invoke(cli, [str(argument) for argument in arguments])


@pytest.fixture
def unreadable(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Make a file unreadable, even for root, who can read any mode."""

    def forbid(path: Path) -> None:
        real = io.open
        path.chmod(0)  # for root, this changes only the file's ctime

        def opened(file: Any, *given: Any, **named: Any) -> Any:
            if isinstance(file, (str, os.PathLike)) and os.path.realpath(file) == os.path.realpath(path):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(file))
            return real(file, *given, **named)

        monkeypatch.setattr("builtins.open", opened)
        monkeypatch.setattr("io.open", opened)

    return forbid


@pytest.fixture
def submit(home: Path, tmp_path: Path) -> Callable[..., Path]:
    """Write a baseline's submission to the sample, and return its folder."""

    def write(
        predictor: str, tasks: Sequence[str] = DECATHLON.tasks, output: str = "", **fields: Any
    ) -> Path:
        folder = tmp_path / (output or predictor)
        return predict(predictor, folder, tasks, home=home, **{"date": "2026-01-31", **fields})

    return write


@pytest.fixture
def own_task(tmp_path: Path) -> Callable[..., Path]:
    """Write a custom task named `own` with these answers, and return its TOML file."""

    def write(answers: Sequence[Any], metric: str = "em") -> Path:
        rows = [{"number": number, "answer": answer} for number, answer in enumerate(answers)]
        (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (tmp_path / "own.toml").write_text(
            f'format = "decabench.taskfile/1"\nname = "own"\nmetric = "{metric}"\nanswer = "answer"\n'
            'question = "What is {number}?"\ncontext = "It is {number}."\n'
            '[files]\ntrain = "rows.jsonl"\nvalidation = "rows.jsonl"\n'
        )
        return tmp_path / "own.toml"

    return write
