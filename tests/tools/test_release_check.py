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
    yaml = pytest.importorskip("yaml")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == PROJECT["project"]["version"] == decabench.__version__
    assert citation["license"] == PROJECT["project"]["license"]
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()


def test_the_container_installs_what_was_tested() -> None:
    text = (ROOT / "Containerfile").read_text(encoding="utf-8")
    assert len(re.findall(r"^FROM python:3\.\d+-slim@sha256:[0-9a-f]{64}\b", text, flags=re.MULTILINE)) == 2
    assert text.count("--require-hashes") == 2 and "--constraint /dist/constraints.txt" in text
    assert re.search(r"^USER 1000$", text, flags=re.MULTILINE)


@pytest.mark.parametrize("name", ["base", "full"])
def test_every_locked_package_has_its_tested_version_and_a_hash(name: str) -> None:
    def pins(text: str) -> dict[str, str]:
        found = re.findall(r"^([\w.-]+)==([\w.+-]+)", text, flags=re.MULTILINE)
        return {re.sub(r"[-_.]+", "-", package).lower(): version for package, version in found}

    tested = pins((ROOT / "constraints.txt").read_text(encoding="utf-8"))
    text = (ROOT / "locks" / f"{name}.txt").read_text(encoding="utf-8")
    locked = pins(text)
    entries = text.replace("\\\n", "").splitlines()
    assert len(entries) == len(locked) and all("--hash=sha256:" in entry for entry in entries)
    if name == "full":
        assert locked == {package: version for package, version in tested.items() if package != "torch"}
    else:  # httpx2-jsfetch is for Python in a browser
        assert locked.keys() - tested.keys() <= {"httpx2-jsfetch"}
        assert all(tested.get(package, version) == version for package, version in locked.items())


def test_every_requirement_has_a_tested_version() -> None:
    listed = re.search(
        r"^EXTRAS \?= ([\w,]+)$", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    assert listed is not None
    every = PROJECT["project"]["optional-dependencies"]
    extras = {name: every[name] for name in (*listed[1].split(","), "datasets", "pandas", "rouge")}
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
    assert required <= constrained


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
