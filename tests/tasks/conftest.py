"""Fixtures of the tasks: a folder of small files, a mirror of one, the real data prepared once."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from decabench.tasks.example import Example
from decabench.tasks.preparation import Request, prepare_all
from decabench.tasks.registry import SUITES, TASKS
from decabench.tasks.store import Store
from decabench.tasks.task import Task
from tests.tasks.commands import ROOT, Run, prepare_command
from tests.tasks.fixtures import FolderFiles, read_sample, write_lines

Requests = Callable[..., Request]


@dataclass(frozen=True)
class Prepared:
    """The real data, prepared."""

    mirror: Path
    """Where it was read from."""
    store: Store
    """Where it is."""
    first: Run
    """The run that prepared it."""


@pytest.fixture
def sample(tmp_path: Path) -> Callable[[Task, str], list[Example]]:
    """Reads a split of the bundled sample with the real adapter."""
    return lambda task, split: read_sample(task, split, tmp_path / "scratch")


@pytest.fixture
def files(tmp_path: Path) -> FolderFiles:
    """Small files that a test writes below `files.folder`."""
    return FolderFiles(tmp_path / "files")


@pytest.fixture
def words(tmp_path: Path) -> Path:
    """A mirror that holds the task of `lines_task`."""
    for split in ("train", "validation", "test"):
        write_lines(tmp_path / "mirror" / "lines" / f"{split}.txt", [f"{split} one", f"{split} two"])
    return tmp_path / "mirror"


@pytest.fixture
def request_for(tmp_path: Path) -> Callable[..., Request]:
    """A request to prepare into a home of this test."""
    return lambda **fields: Request(**{"home": tmp_path / "home", "progress": False, **fields})


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder beside the project that holds the real data and the official scores."""
    folder = Path(os.environ.get("DECABENCH_SHARED", ROOT.parent / "shared"))
    if not (folder / "mirror").is_dir():
        pytest.skip("the real data is not beside the project (set DECABENCH_SHARED)")
    return folder


@pytest.fixture(scope="session")
def prepared(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """All real data, prepared once however many processes test."""
    from filelock import FileLock

    base = tmp_path_factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    note, home = base / "mirror.json", base / "mirror-home"
    with FileLock(base / "mirror.lock"):
        if not note.exists():
            note.write_text(json.dumps(vars(prepare_command(home, "--mirror", str(shared / "mirror")))))
    fields: dict[str, Any] = json.loads(note.read_text())
    return Prepared(shared / "mirror", Store(home), Run(**fields))


SUITES_OF_THE_MIRROR = ("fdu", "movies", "products", "zero-shot", "jmt", "tagging", "codeswitch")


@dataclass(frozen=True)
class PreparedSuites:
    """The real data of all suites but the decathlon, as far as the mirror has it."""

    store: Store
    """Where it is."""
    names: tuple[str, ...]
    """The tasks of which at least a split is prepared."""


@pytest.fixture(scope="session")
def prepared_suites(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> PreparedSuites:
    """Their tasks, prepared once however many processes test."""
    from filelock import FileLock

    base = tmp_path_factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with FileLock(base / "suites.lock"):
        request = Request(base / "suites-home", mirror=str(shared / "mirror"), progress=False)
        suites = (SUITES[name] for name in SUITES_OF_THE_MIRROR)
        chosen = dict.fromkeys(task for suite in suites for task in suite.tasks)
        prepare_all([TASKS[name] for name in chosen], request, 1)
    store = Store(request.home)
    return PreparedSuites(store, tuple(name for name in TASKS if store.records(name)))
