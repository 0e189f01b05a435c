"""docs/exchange.md: its commands and its Python run as printed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from decabench.exchange import FORMATS, HARNESSES, TRACKERS
from tests.sources import ROOT

PAGE = (ROOT / "docs" / "exchange.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)


@pytest.mark.slow
def test_its_blocks_run(tmp_path: Path) -> None:
    shim = tmp_path / "bin" / "decabench"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m decabench "$@"\n')
    shim.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{shim.parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "HOME": str(tmp_path),
    }
    script = "".join(blocks("sh"))
    done = subprocess.run(
        ["sh", "-eu", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "| schema | em | 4.9 |" in done.stdout
    code = "\n".join(blocks("python"))
    made = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert made.returncode == 0, made.stderr
    (said,) = re.findall(r"report\.words\)  # (.*)", code)
    assert made.stdout == f"{said}\n"


def test_it_names_every_format_harness_and_tracker() -> None:
    for name in (*FORMATS, "markdown", "latex", "model-index"):
        assert f"`{name}`" in PAGE or f"--format {name}`" in PAGE
    for name in HARNESSES:
        assert f"--for {name} " in PAGE
    for name in TRACKERS:
        assert f"`--log {name}`" in PAGE
