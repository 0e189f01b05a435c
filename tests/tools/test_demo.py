from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.processes import in_terminal, with_decabench
from tests.sources import ROOT

pytestmark = pytest.mark.slow

ANSWERS = ROOT / "examples" / "demo-model" / "answers"


@pytest.fixture
def demo(tmp_path: Path) -> Callable[[str], str]:
    """Run the demo in an empty folder and in a terminal with 80 columns. Return its output."""
    path = with_decabench(tmp_path)["PATH"]
    for name in ("examples", "tools"):
        (tmp_path / name).symlink_to(ROOT / name)

    def run(first_on_path: str) -> str:
        code, printed = in_terminal(
            ["sh", "tools/demo.sh"], 80, tmp_path, PATH=path, PYTHONPATH=f"{first_on_path}{os.pathsep}{ROOT}"
        )
        text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", printed.decode()).replace("\r\n", "\n")
        assert code == 0, text
        return text

    return run


def require_the_tour(text: str, folder: Path) -> None:
    """Check that the scores next to the baseline's, three wrong answers and the board fit on one screen."""
    shown = text[text.index("demo-model against majority, validation\n") :]
    assert re.search(r"^ sst +75\.00 +56\.3 to 87\.5 +40\.62 +\+34\.38", shown, flags=re.MULTILINE)
    places = [shown.index(part) for part in ("p (Holm)", "Wrong answers", "Board: file://")]
    assert places == sorted(places)
    assert len(re.findall(r"^ \S+: '.*', not '", shown, flags=re.MULTILINE)) == 3
    assert "examples/s" not in shown
    lines = shown.splitlines()
    assert len(lines) <= 24 and max(len(line) for line in lines if line.startswith(" ")) <= 80
    assert (folder / ".demo" / "site" / "index.html").exists()


@pytest.mark.heavy
def test_with_torch(demo: Callable[[str], str], tmp_path: Path) -> None:
    for name in ("torch", "safetensors"):
        pytest.importorskip(name, reason=f"{name} is not installed: pip install 'decabench[train]'")
    text = demo("")
    require_the_tour(text, tmp_path)
    assert "torch is not installed" not in text
    same = total = 0
    for path in sorted((tmp_path / ".demo/submissions/demo-model/predictions").iterdir()):
        now = {row["id"]: row["answer"] for row in map(json.loads, path.read_text().splitlines())}
        recorded = map(json.loads, (ANSWERS / "predictions" / path.name).read_text().splitlines())
        same += sum(now[row["id"]] == row["answer"] for row in recorded)
        total += len(now)
    assert same >= 0.97 * total  # versions of torch may round two near scores to the other side


def test_without_torch_its_recorded_answers_are_scored(demo: Callable[[str], str], tmp_path: Path) -> None:
    (tmp_path / "missing" / "torch").mkdir(parents=True)
    (tmp_path / "missing" / "torch" / "__init__.py").write_text("raise ImportError\n")
    text = demo(str(tmp_path / "missing"))
    require_the_tour(text, tmp_path)
    assert "the model's recorded answers" in text
