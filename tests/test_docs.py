from __future__ import annotations

import ast
import csv
import json
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from decabench.exchange import FORMATS, HARNESSES, TRACKERS
from decabench.exchange.result_exports import TABLES
from decabench.scoring import TaskResult
from decabench.tasks.taskfile import _KEYS as KEYS
from tests.processes import with_decabench
from tests.sources import ROOT
from tests.tasks.conftest import shared  # noqa: F401

DOCS = ROOT / "docs"
FOLLOWED = [f"predictors/{name}" for name in ("server", "python", "program")]
FOLLOWED += [
    f"how-to/{name}" for name in ("own-answers", "own-task", "own-metric", "ci-gate", "run-file", "wordings")
]
FOLLOWED += ["how-to/days-work", "how-to/python", "index", "exchange"]
"""Pages that can be followed with the sample and without a server. Other tests follow the tutorial and public board."""
QUICK = ("predictors/server", "how-to/python", "index")
"""Pages of these that take less than several seconds."""
PAGES = [*ROOT.glob("*.md"), *DOCS.rglob("*.md")]


@dataclass(frozen=True)
class Block:
    """A block of code on a page."""

    language: str
    """The word after the opening fence."""
    text: str
    """Its content."""
    name: str | None
    """Its file name, from the comment in its first line or the last words before it."""


def blocks(page: Path) -> Iterator[Block]:
    """Yield the blocks of a page."""
    text = page.read_text(encoding="utf-8")
    for before, language, inside in re.findall(
        r"([^\n]*)\n*^```(\w+)\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE
    ):
        found = re.match(r"# ([\w.]+\.(?:py|toml))\b", inside) or re.search(r"`([\w.]+\.jsonl)`:$", before)
        yield Block(language, inside, found[1] if found else None)


def follow(page: Path, folder: Path, variables: dict[str, str]) -> str:
    """Follow a page in an empty folder: save its files, run its commands in one shell, and then its Python code."""
    environment = with_decabench(folder)
    work = folder / "work"
    work.mkdir()
    (work / "examples").symlink_to(ROOT / "examples")
    found = list(blocks(page))
    for block in found:
        if block.name:
            (work / block.name).write_text(block.text)
    script = "\n".join(block.text for block in found if block.language == "sh")
    programs = [block.text for block in found if block.language == "python" and not block.name]
    if programs:
        (work / "page.py").write_text("\n".join(programs))
        script += "\npython3 page.py"
    done = subprocess.run(
        ["sh", "-eu", "-c", script],
        cwd=work,
        env={**environment, **variables},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{page.name}: {done.stdout}{done.stderr}"
    for program in programs:
        for said in re.findall(r"^print\(.*\)  # (.*)$", program, flags=re.MULTILINE):
            assert said in done.stdout.splitlines()
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=[] if page in QUICK else [pytest.mark.heavy]) for page in FOLLOWED]
)
def test_a_page_can_be_followed(page: str, tmp_path: Path) -> None:
    if page == "how-to/python":
        pytest.importorskip("datasets", reason="datasets is not installed: pip install 'decabench[datasets]'")
    follow(DOCS / f"{page}.md", tmp_path, {})


@pytest.mark.heavy
@pytest.mark.slow
def test_the_public_board_ranks_by_its_suite(tmp_path: Path) -> None:
    follow(DOCS / "how-to" / "public-board.md", tmp_path, {})
    site = tmp_path / "work" / "site"
    board = json.loads((site / "board.json").read_text(encoding="utf-8"))
    rows = {row["name"]: (row["kind"], row["rank"], row["evidence"]) for row in board["submissions"]}
    systems = {name: row for name, row in rows.items() if row[0] == "system"}
    assert rows["majority"] == ("floor", None, "verified") and len(systems) == 2
    assert all(rank in (1, 2) and evidence == "verified" for _, rank, evidence in systems.values())
    assert (board["suite"]["name"], board["suite"]["total_name"]) == ("pair", "mean score")
    pages = [path.read_text(encoding="utf-8") for path in site.rglob("*.html")]
    assert any("ranked by mean score" in page for page in pages)
    assert not [page for page in pages if "decascore" in page.lower()]


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


def test_the_readme_shows_the_example_of_the_landing_page() -> None:
    codes = [
        re.sub(r" +#.*", "", block.text)
        for page in (ROOT / "README.md", DOCS / "index.md")
        for block in blocks(page)
        if block.language == "python"
    ]
    assert len(codes) == 2 and codes[0] == codes[1]


def test_the_page_shows_the_task_file_of_the_examples() -> None:
    found = list(blocks(DOCS / "how-to" / "own-task.md"))
    example = ROOT / "examples" / "capitals"
    page = next(tomllib.loads(block.text) for block in found if block.name == "capitals.toml")
    file = tomllib.loads((example / "capitals.toml").read_text(encoding="utf-8"))
    assert {key: file.get(key) for key in page if key != "files"} == {
        key: value for key, value in page.items() if key != "files"
    }
    with (example / file["files"]["train"]).open(encoding="utf-8", newline="") as table:
        rows: list[Any] = [*csv.DictReader(table)]
    rows += map(json.loads, (example / file["files"]["validation"]).read_text(encoding="utf-8").splitlines())
    shown = [
        json.loads(line) for block in found if block.language == "json" for line in block.text.splitlines()
    ]
    assert len(shown) == 3 and all(row in rows for row in shown)


def test_the_page_on_custom_tasks_names_every_key() -> None:
    page = (DOCS / "how-to" / "own-task.md").read_text(encoding="utf-8")
    assert [key for key in KEYS if not re.search(rf"(`|\[|^)\[?{key}\b", page, re.M)] == []


def test_the_metrics_of_the_docs_give_what_they_say() -> None:
    (block,) = (block.text for block in blocks(DOCS / "metrics.md") if "import nf1, rouge" in block.text)
    start, score, details = filter(None, block.splitlines())
    names: dict[str, Any] = {}
    exec(start, names)
    assert eval(score, names) == float(score.partition("# ")[2].partition(";")[0])
    assert {"rouge1", "rouge2", "rougeL", "rouge"} <= set(eval(details, names))


@pytest.mark.slow
def test_the_notebook_gives_what_it_shows(tmp_path: Path) -> None:
    pytest.importorskip("pandas", reason="pandas is not installed: pip install 'decabench[pandas]'")
    cells = json.loads((DOCS / "notebook.ipynb").read_text(encoding="utf-8"))["cells"]
    shown = [cell for cell in cells if cell["cell_type"] == "code"]
    done = subprocess.run(
        [sys.executable, "-c", RUN_CELLS],
        input=json.dumps(["".join(cell["source"]) for cell in shown]),
        env={**with_decabench(tmp_path), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    compared = 0
    for cell, value in zip(shown, json.loads(done.stdout.splitlines()[-1]), strict=True):
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


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if not target.startswith("http"):
            file, _, anchor = target.partition("#")
            path = page.parent / file if file else page
            assert path.exists(), target
            assert not anchor or path.suffix != ".md" or anchor in anchors_in(path), target


def anchors_in(path: Path) -> set[str]:
    """Return the anchors of a page's headings, as made by GitHub and Sphinx."""
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    counts: Counter[str] = Counter()
    anchors: set[str] = set()
    for heading in re.findall(r"^#+ +(.+)$", text, flags=re.MULTILINE):
        title = re.sub(r"\[(.*?)\]\(.*?\)", r"\1", heading)  # of a link, its text
        slug = re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-")
        anchors.add(f"{slug}-{counts[slug]}" if counts[slug] else slug)
        counts[slug] += 1
    return anchors


@pytest.mark.heavy  # half a minute; `make docs` does the same
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("sphinx_click", reason="Sphinx is not installed: pip install -e '.[docs]'")
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
    site = tmp_path / "site"
    pages = {path.relative_to(DOCS).with_suffix(".html") for path in PAGES if path.is_relative_to(DOCS)}
    assert {page for page in pages if not (site / page).exists()} == set()
    assert 'id="decabench-evaluate"' in (site / "cli.html").read_text(encoding="utf-8")
    assert (site / "reference" / "python" / "decabench.evaluate.html").exists()


def test_the_architecture_names_existing_files_and_functions() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    named = 0
    for stop in re.split(r"\n(?=[-|\d]|\n)", page):
        defined: set[str] = set()
        for word in re.findall(r"`([\w/.\[\]]+)`", stop):
            if word.endswith((".py", "/")):
                assert (ROOT / word).exists(), word
                defined = names_in(ROOT / word) if word.endswith(".py") else set()
            elif (
                defined
                and re.fullmatch(r"[A-Z_a-z]\w+(\.\w+)?", word)
                and not word.endswith((".json", ".parquet"))
            ):
                assert word.split(".")[0] in defined, f"{word} is not in the file that the page names: {stop}"
                named += 1
    assert named > 25


def names_in(path: Path) -> set[str]:
    """Return the names that a module defines at its top level."""
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                found.add(name)
    return found


def test_the_pages_on_exchange_name_every_format_harness_and_tracker() -> None:
    pages = (DOCS / "how-to" / "own-answers.md", DOCS / "exchange.md")
    page = "".join(page.read_text(encoding="utf-8") for page in pages)
    named = [*(f"`{name}`" for name in FORMATS), *(f"--format {name}`" for name in TABLES)]
    named += [*(f"--for {name} " for name in HARNESSES), *(f"`--log {name}`" for name in TRACKERS)]
    assert [each for each in named if each not in page] == []


def test_the_page_on_results_names_every_key_of_a_task() -> None:
    page = (DOCS / "reference" / "results.md").read_text(encoding="utf-8")
    rows = [line.split(" | ", 1) for line in page.splitlines() if line.startswith("| `tasks.<task>.")]
    for name, kind in get_type_hints(TaskResult).items():
        row = next(
            (
                row
                for row in rows
                if {f"`{name}`", f"`tasks.<task>.{name}`"} & set(re.findall("`[^`]+`", row[0]))
            ),
            None,
        )
        assert row, f"no row for tasks.<task>.{name}"
        inner = {
            field.name for each in (kind, *get_args(kind)) if is_dataclass(each) for field in fields(each)
        }
        assert inner <= set(re.findall("`([^`]+)`", row[1])), name
