from __future__ import annotations

import gzip
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from decabench.tasks.preparation import SAMPLE_FOLDER
from decabench.tasks.registry import TASKS
from tests.tasks.fixtures import SAMPLED

ROOT = Path(__file__).parents[2]

BY_HAND = {"LICENSES.md", "SOURCES.toml"}


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ModuleType]:
    """The tool, writing into the test's own folder."""
    spec = importlib.util.spec_from_file_location("make_sample", ROOT / "tools" / "make_sample.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "SAMPLE", tmp_path / "sample")
    yield module


def contents(folder: Path) -> dict[str, object]:
    """Return bytes by file name. For files whose bytes depend on a library's version, return the content instead."""
    import pyarrow.parquet as pq

    found: dict[str, object] = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = path.relative_to(folder).as_posix()
        if path.suffix == ".parquet":
            found[name] = pq.read_table(path).to_pylist()
        elif path.suffix == ".tgz":
            found[name] = gzip.decompress(path.read_bytes())
        else:
            found[name] = path.read_bytes()
    return found


def packers(folder: Path) -> list[str]:
    """Return the library versions that wrote the parquet files in a folder."""
    import pyarrow.parquet as pq

    return [pq.read_metadata(path).created_by for path in sorted(folder.rglob("*.parquet"))]


@pytest.mark.heavy
@pytest.mark.slow
@pytest.mark.mirror
def test_the_same_mirror_gives_the_committed_bytes(tool: ModuleType, shared: Path) -> None:
    for name, build in tool.BUILDERS.items():
        build(shared / "mirror" / name)
    made = contents(tool.SAMPLE)
    assert made.keys() == contents(SAMPLE_FOLDER).keys() - BY_HAND
    for name, content in made.items():
        assert content == contents(SAMPLE_FOLDER)[name], name
    if packers(tool.SAMPLE) == packers(SAMPLE_FOLDER):
        assert all((tool.SAMPLE / name).read_bytes() == (SAMPLE_FOLDER / name).read_bytes() for name in made)


def test_every_folder_has_a_builder(tool: ModuleType) -> None:
    assert set(tool.BUILDERS) == {TASKS[name].files_folder for name in SAMPLED}


@pytest.mark.parametrize("name", ["iwslt.en.de", "cnn_dailymail"])
def test_stand_ins_need_no_mirror(tool: ModuleType, name: str, tmp_path: Path) -> None:
    tool.BUILDERS[name](tmp_path / "no mirror")
    made = contents(tool.SAMPLE)
    assert made == {
        key: value for key, value in contents(SAMPLE_FOLDER).items() if key.startswith(f"{name}/")
    }
