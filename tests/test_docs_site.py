"""The pages of docs/: every command and program in them runs as printed, and the site builds without a warning."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from decabench.tasks.taskfile import _KEYS
from tests.sources import ROOT
from tests.tasks.conftest import shared  # noqa: F401

DOCS = ROOT / "docs"
KEYS = [key for key in _KEYS if key != "group"]  # the earlier name of units

RUN = ["own-model", "server", "own-task", "own-metric", "ci-gate"]
"""The how-to pages that can be followed on the sample, without a server; the public board has a test of its own."""


@dataclass(frozen=True)
class Block:
    """A block of code on a page."""

    language: str
    """As after the fence."""
    text: str
    """What is in it."""
    name: str | None
    """The file that it is, by the comment in its first line, or by the last words before it."""


def blocks(page: Path) -> Iterator[Block]:
    """Yield the blocks of a page."""
    text = page.read_text(encoding="utf-8")
    for before, language, inside in re.findall(
        r"([^\n]*)\n*^```(\w+)\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE
    ):
        found = re.match(r"# ([\w.]+\.(?:py|toml))\n", inside) or re.search(r"`([\w.]+\.jsonl)`:$", before)
        yield Block(language, inside, found[1] if found else None)


def follow(page: Path, folder: Path, variables: dict[str, str]) -> str:
    """Do what a page says, in an empty folder: save its files, then run its commands in one shell."""
    (folder / "bin").mkdir()
    for name, module in (("python3", ""), ("decabench", "-m decabench")):
        shim = folder / "bin" / name
        shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" {module} "$@"\n')
        shim.chmod(0o755)
    work = folder / "work"
    work.mkdir()
    found = list(blocks(page))
    for block in found:
        if block.name:
            (work / block.name).write_text(block.text)
    script = "\n".join(block.text for block in found if block.language == "sh")
    done = subprocess.run(
        ["sh", "-eu", "-c", script],
        cwd=work,
        env={
            **os.environ,
            "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            **variables,
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{page.name}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("page", RUN)
def test_a_page_can_be_followed(page: str, tmp_path: Path) -> None:
    follow(DOCS / "how-to" / f"{page}.md", tmp_path, {})


@pytest.mark.slow
def test_the_public_board_ranks_by_its_suite(tmp_path: Path) -> None:
    """Its tasks were no suite, so nobody was ranked, by a decaScore that two tasks do not have."""
    follow(DOCS / "how-to" / "public-board.md", tmp_path, {})
    site = tmp_path / "work" / "site"
    board = json.loads((site / "board.json").read_text(encoding="utf-8"))
    rows = {row["name"]: (row["kind"], row["rank"], row["evidence"]) for row in board["submissions"]}
    assert rows.pop("majority") == ("floor", None, "verified")
    assert {kind for kind, *_ in rows.values()} == {"system"} and len(rows) == 2
    assert all(rank in (1, 2) and evidence == "verified" for _, rank, evidence in rows.values())
    assert (board["suite"]["name"], board["suite"]["total_name"]) == ("pair", "mean score")
    pages = [path.read_text(encoding="utf-8") for path in site.rglob("*.html")]
    assert any("ranked by mean score" in page for page in pages)
    assert not [page for page in pages if "decascore" in page.lower()]


def test_the_task_of_the_page_is_that_of_the_examples() -> None:
    found = list(blocks(DOCS / "how-to" / "own-task.md"))
    example = ROOT / "examples" / "capitals"
    page = next(tomllib.loads(block.text) for block in found if block.name == "capitals.toml")
    file = tomllib.loads((example / "capitals.toml").read_text(encoding="utf-8"))
    assert {key: file.get(key) for key in page if key != "files"} == {
        key: value for key, value in page.items() if key != "files"
    }
    assert page["files"].keys() == file["files"].keys()
    with (example / file["files"]["train"]).open(encoding="utf-8", newline="") as table:
        rows = [*csv.DictReader(table)]
    rows += map(json.loads, (example / file["files"]["validation"]).read_text(encoding="utf-8").splitlines())
    shown = [
        json.loads(line) for block in found if block.language == "json" for line in block.text.splitlines()
    ]
    assert len(shown) == 3 and all(row in rows for row in shown)
    suites = [
        tomllib.loads(next(block.text for block in found if block.name == "geography.toml")),
        tomllib.loads((ROOT / "examples" / "tagging" / "suite.toml").read_text(encoding="utf-8")),
    ]
    assert suites[0].keys() <= suites[1].keys() and suites[0]["format"] == suites[1]["format"]


def test_the_page_of_ones_own_tasks_has_every_key() -> None:
    page = (DOCS / "how-to" / "own-task.md").read_text(encoding="utf-8")
    assert [key for key in KEYS if not re.search(rf"(`|\[|^)\[?{key}\b", page, re.M)] == []


@pytest.mark.mirror
@pytest.mark.slow
def test_the_tutorial_gives_the_numbers_that_it_prints(shared: Path, tmp_path: Path) -> None:  # noqa: F811
    page = DOCS / "tutorial.md"
    printed = follow(page, tmp_path, {"DECABENCH_PREPARE_MIRROR": str(shared / "mirror")})
    lines = [" ".join(line.split()) for line in printed.splitlines()]
    shown = [block.text for block in blocks(page) if block.language == "text"]
    assert len(shown) >= 6
    for text in shown:  # line after line as printed; columns at the right may be left out
        wanted = [" ".join(line.split()) for line in text.splitlines()]
        runs = (lines[at : at + len(wanted)] for at in range(len(lines)))
        assert any(len(run) == len(wanted) and all(map(str.startswith, run, wanted)) for run in runs), text
    assert (tmp_path / "work" / "site" / "index.html").exists()


@pytest.mark.slow
def test_the_notebook_gives_what_it_shows(tmp_path: Path) -> None:
    pytest.importorskip("pandas", reason="pandas is not installed: pip install 'decabench[pandas]'")
    cells = json.loads((DOCS / "notebook.ipynb").read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    shim = tmp_path / "decabench"
    shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m decabench "$@"\n')
    shim.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", RUN_CELLS],
        input=json.dumps(code),
        env={
            **os.environ,
            "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "TMPDIR": str(tmp_path),
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    values = json.loads(done.stdout.splitlines()[-1])
    shown = [cell for cell in cells if cell["cell_type"] == "code"]
    compared = 0
    for cell, value in zip(shown, values, strict=True):
        for output in cell["outputs"]:
            if output["output_type"] == "execute_result":
                kept = "".join(output["data"]["text/plain"])
                assert kept.split() == value.split(), f"run make notebook: {''.join(cell['source'])}"
                compared += 1
            assert output["output_type"] != "error"
    assert compared >= 5


RUN_CELLS = """
import ast, json, sys
names, values = {}, []
for cell in json.load(sys.stdin):
    body = ast.parse(cell).body
    last = body.pop() if isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), "cell", "exec"), names)
    value = eval(compile(ast.Expression(last.value), "cell", "eval"), names) if last else None
    values.append("" if value is None else repr(value))
print()
print(json.dumps(values))
"""


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("sphinx", reason="Sphinx is not installed: pip install -e '.[docs]'")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"),
            *("-d", tmp_path / "cache", DOCS, tmp_path / "site"),
        ],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    pages = {path.relative_to(DOCS).with_suffix(".html") for path in DOCS.rglob("*.md")}
    assert {page for page in pages if not (tmp_path / "site" / page).exists()} == set()
    assert anchors_that_lead_nowhere(tmp_path / "site") == []


def anchors_that_lead_nowhere(site: Path) -> list[str]:
    """Links between pages of a site whose file or heading does not exist."""
    broken = []
    pages = {path: path.read_text(encoding="utf-8") for path in site.rglob("*.html")}
    for page, text in pages.items():
        for target in re.findall(r'href="([^":]*)"', text):
            address, _, anchor = target.partition("#")
            file = (page.parent / address.partition("?")[0]).resolve() if address else page
            if not file.exists() or (anchor and file in pages and f'id="{anchor}"' not in pages[file]):
                broken.append(f"{page.name}: {target}")
    return broken
