"""A release: what describes it agrees with itself, and a wheel works in an empty environment."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import decabench
from tests.sources import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_citation_names_this_version() -> None:
    """The form was validated with cffconvert 2.0.0."""
    yaml = pytest.importorskip("yaml")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == PROJECT["project"]["version"] == decabench.__version__
    assert citation["license"] == PROJECT["project"]["license"]
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()


def test_the_wheel_brings_every_page() -> None:
    patterns = [each for listed in PROJECT["tool"]["setuptools"]["data-files"].values() for each in listed]
    brought = {path for pattern in patterns for path in ROOT.glob(pattern)}
    assert set((ROOT / "docs").rglob("*.md")) <= brought
    assert set((ROOT / "docs").rglob("*.png")) <= brought
    assert ROOT / "CHANGELOG.md" in brought


def test_the_container_installs_what_was_tested() -> None:
    """It was linted with hadolint 2.15.1, and not built here, where no image can be downloaded."""
    text = (ROOT / "Containerfile").read_text(encoding="utf-8")
    assert text.count("FROM python:3.") == 2
    assert "--constraint /dist/constraints.txt" in text
    assert re.search(r"^USER 1000$", text, flags=re.MULTILINE)
    (build,) = re.findall(r"build==([\d.]+)", text)
    assert f"build=={build}\n" in (ROOT / "constraints.txt").read_text(encoding="utf-8")


def test_every_requirement_has_a_tested_version() -> None:
    """make test and make demo install what constraints.txt names, so that nobody's release changes ours."""
    extras = PROJECT["project"]["optional-dependencies"]
    names = (
        re.match(r"[\w.-]+", each)
        for each in (
            *PROJECT["project"]["dependencies"],
            *(one for extra in extras.values() for one in extra),
        )
    )
    constrained = {
        re.sub(r"[-_.]+", "-", line.partition("==")[0]).lower()
        for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    }
    required = {re.sub(r"[-_.]+", "-", each.group()).lower() for each in names if each}
    assert required - constrained <= {"setuptools"}


@pytest.mark.heavy
def test_the_release_works_on_this_python(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            *(sys.executable, ROOT / "tools" / "release_check.py"),
            *("--only", sys.executable, "--output", tmp_path),
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "demo and examples/run.toml done" in done.stdout
