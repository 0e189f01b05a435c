from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from decabench.tasks.example import Example
from decabench.tasks.preparation import Request, prepare_all
from decabench.tasks.registry import TASKS
from decabench.tasks.store import Store
from decabench.tasks.task import Task
from tests.sources import SHARED
from tests.tasks.fixtures import FolderFiles, read_sample, write_lines

Requests = Callable[..., Request]


@dataclass(frozen=True)
class Prepared:
    """The real data, prepared."""

    mirror: Path
    """The folder that it was read from."""
    store: Store
    """The folder with the prepared data."""


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
    """The folder next to the project with the real data and the official scores."""
    if not (SHARED / "mirror").is_dir():
        pytest.skip("the real data is not next to the project (set DECABENCH_SHARED)")
    return SHARED


def _prepare_mirror(
    shared: Path, factory: pytest.TempPathFactory, splits: tuple[str | None, ...]
) -> Prepared:
    """Prepare these splits of all tasks of the mirror, once however many processes test."""
    from filelock import FileLock

    base = factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    home, mirror = base / "mirror-home", shared / "mirror"
    there = [task for task in TASKS.values() if (mirror / task.files_folder).is_dir()]
    with FileLock(base / "mirror.lock"):
        for split in splits:
            prepare_all(there, Request(home, split, str(mirror), progress=False), 1)
    return Prepared(mirror, Store(home))


@pytest.fixture(scope="session")
def prepared(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """The validation and test splits of all real data of the mirror; the large training splits are `prepared_whole`."""
    return _prepare_mirror(shared, tmp_path_factory, ("validation", "test"))


@pytest.fixture(scope="session")
def prepared_whole(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """All splits of all real data of the mirror, for `heavy` tests."""
    return _prepare_mirror(shared, tmp_path_factory, (None,))
