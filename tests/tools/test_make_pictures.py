"""Tests that the pictures in the README and the docs show what the repository contains."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from decabench.scoring import evaluate
from tests.tasks.conftest import Prepared

ROOT = Path(__file__).parents[2]


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    pytest.importorskip("playwright")
    spec = importlib.util.spec_from_file_location("make_pictures", ROOT / "tools" / "make_pictures.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)  # for the tool's dataclass
    spec.loader.exec_module(module)
    return module


def test_the_pictures_are_made_from_the_shipped_files(tool: ModuleType) -> None:
    assert json.loads(tool.SOURCES.read_text())["digest"] == tool.digest_sources(), (
        "run tools/make_pictures.py"
    )


@pytest.mark.xdist_group("mirror")
def test_the_picture_of_the_board_shows_the_scores_of_the_shipped_answers(
    tool: ModuleType, prepared: Prepared
) -> None:
    shown = json.loads(tool.SOURCES.read_text())["scores"]
    found = {
        path.name: evaluate(path, home=prepared.store.home).decascore
        for path in (ROOT / "submissions").glob("mqan-*")
    }
    assert found == {name: pytest.approx(float(score)) for name, score in shown.items()}
