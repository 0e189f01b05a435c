"""make demo shows what it says at 80 columns, with torch and without."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.sources import ROOT

pytestmark = pytest.mark.slow

ANSWERS = ROOT / "examples" / "demo-model" / "answers"


@pytest.fixture
def demo(tmp_path: Path) -> Callable[[str], str]:
    """Run the demo in an empty folder and in a terminal of 80 columns; returns what it printed."""
    (tmp_path / "bin").mkdir()
    for name, module in (("python", ""), ("decabench", "-m decabench")):
        shim = tmp_path / "bin" / name
        shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" {module} "$@"\n')
        shim.chmod(0o755)
    for name in ("examples", "tools"):
        (tmp_path / name).symlink_to(ROOT / name)

    def run(first_on_path: str) -> str:
        environment = {
            **os.environ,
            "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": f"{first_on_path}{os.pathsep}{ROOT}",
            "TERM": "xterm",
        }
        environment.pop("COLUMNS", None)
        terminal, inside = pty.openpty()
        fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        process = subprocess.Popen(
            ["sh", "tools/demo.sh"], cwd=tmp_path, env=environment, stdin=inside, stdout=inside, stderr=inside
        )
        os.close(inside)
        printed = b""
        while True:
            try:
                block = os.read(terminal, 1 << 16)
            except OSError:  # how Linux ends a terminal whose program has ended
                break
            if not block:
                break
            printed += block
        os.close(terminal)
        text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", printed.decode()).replace("\r\n", "\n")
        assert process.wait() == 0, text
        return text

    return run


def require_the_tour(text: str, folder: Path) -> None:
    """The model's scores, a comparison with the baseline, three wrong answers, and the board; nothing cut."""
    assert "mqan:demo-model, validation\n" in text
    assert re.search(r"^ decaScore +84\.09 .*\+271", text, flags=re.MULTILINE)
    assert len(re.findall(r"^\d/\d+  \w+  wrong, nf1", text, flags=re.MULTILINE)) == 3
    assert "Results: 2 verified." in text
    assert "…" not in text
    assert not re.search(r"examples/s|━", text)  # progress, which is for runs of minutes
    tables = [line for line in text.splitlines() if line.startswith(" ")]
    assert len(tables) > 30 and max(map(len, tables)) <= 80
    assert (folder / ".demo" / "site" / "index.html").exists()


def test_with_torch(demo: Callable[[str], str], tmp_path: Path) -> None:
    for name in ("torch", "safetensors"):
        pytest.importorskip(name, reason=f"{name} is not installed: pip install 'decabench[train]'")
    text = demo("")
    require_the_tour(text, tmp_path)
    assert "torch is not installed" not in text
    same = total = 0
    for path in sorted((ANSWERS / "predictions").iterdir()):
        now = (tmp_path / ".demo/submissions/demo-model/predictions" / path.name).read_text().splitlines()
        recorded = path.read_text().splitlines()
        assert [json.loads(line)["id"] for line in now] == [json.loads(line)["id"] for line in recorded]
        same += sum(a == b for a, b in zip(now, recorded, strict=True))
        total += len(recorded)
    assert same >= 0.97 * total  # versions of torch may round two near scores to the other side


def test_without_torch_it_says_what_is_left_out(demo: Callable[[str], str], tmp_path: Path) -> None:
    (tmp_path / "missing" / "torch").mkdir(parents=True)
    (tmp_path / "missing" / "torch" / "__init__.py").write_text("raise ImportError\n")
    text = demo(str(tmp_path / "missing"))
    require_the_tour(text, tmp_path)
    assert "Left out: torch is not installed" in text
    assert "pip install -c constraints.txt -e '.[train]'" in text
