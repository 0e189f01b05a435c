"""The documentation says what the code does: generated pages, pasted commands, the worked example."""

from __future__ import annotations

import ast
import csv
import gzip
import json
import os
import re
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from click.testing import Result

ROOT = Path(__file__).resolve().parent.parent


def blocks(page: str, language: str) -> list[str]:
    """The blocks of code in a language on a page of docs/."""
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A PATH on which `decabench` is this checkout, whatever is installed."""
    shim = tmp_path / "bin" / "decabench"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m decabench "$@"\n')
    shim.chmod(0o755)
    path = f"{shim.parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)}


def test_generated_pages_are_fresh(environment: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "make_docs.py", "--check"],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{done.stdout}run python tools/make_docs.py{done.stderr}"


def test_the_tour_shows_what_its_commands_print(
    command: Callable[..., Result], home: Path, submit: Callable[..., Path]
) -> None:
    """An interval of the page had become another one."""
    (shown,) = blocks("tour", "text")
    assert "tour/submissions/majority" in blocks("tour", "sh")[0]
    done = command("evaluate", submit("majority"), "--home", home)
    printed = [line.rstrip() for line in done.stdout.splitlines()]
    for line in shown.splitlines():
        whole, cut, _ = line.rstrip().partition("…")
        if line != " ...":
            assert any(each.startswith(whole) if cut else each == whole for each in printed), line


EXAMPLE = """
export DECABENCH_HOME=./tour/data DECABENCH_INCLUDE=examples/capitals/capitals.toml
decabench prepare capitals
decabench tasks validate capitals
decabench predict --predictor majority --tasks capitals --output ./tour/capitals
decabench evaluate --submission ./tour/capitals --tasks capitals
"""
"""What docs/how-to/own-task.md says, for examples/capitals."""


@pytest.mark.slow
def test_the_tour_and_the_worked_example_run_as_pasted(tmp_path: Path, environment: dict[str, str]) -> None:
    (tour,) = blocks("tour", "sh")
    models = blocks("predictors", "sh")[0]
    example = EXAMPLE
    folder = tmp_path / "checkout"
    folder.mkdir()
    (folder / "examples").symlink_to(ROOT / "examples")
    done = subprocess.run(
        ["sh", "-eu", "-c", tour + models + example],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "squad, validation: proven" in done.stdout
    assert "capitals, validation: proven" in done.stdout
    assert (folder / "tour" / "site" / "index.html").exists()
    assert "Is this review negative or positive?" in done.stdout  # what --show-prompt shows
    assert (folder / "tour" / "echo" / "results" / "validation" / "results.json").exists()
    assert (folder / "tour" / "capitals" / "results" / "validation" / "results.json").exists()


@pytest.mark.heavy
@pytest.mark.slow
def test_the_training_of_the_docs_runs_as_pasted(tmp_path: Path, environment: dict[str, str]) -> None:
    pytest.importorskip("torch", reason="torch is not installed: pip install 'decabench[train]'")
    training = next(block for block in blocks("training", "sh") if "decabench train" in block)
    script = "decabench prepare --sample --home ./tour/data\n" + training
    done = subprocess.run(
        ["sh", "-eu", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Trained to step 20" in done.stdout
    assert (tmp_path / "tour" / "mqan" / "results" / "validation" / "results.json").exists()
    assert list((tmp_path / "tour" / "figures").glob("*.png"))


@pytest.mark.slow
def test_the_predictor_of_the_docs_runs(tmp_path: Path, environment: dict[str, str]) -> None:
    code = next(block for block in blocks("predictors", "python") if "class Shouting" in block)
    (tmp_path / "my_model.py").write_text(code)
    environment["PYTHONSAFEPATH"] = (
        "1"  # as for an installed script, Python does not look in the current folder
    )
    script = (
        "decabench prepare schema --sample --home home && "
        "decabench predict --predictor my_model:Shouting --tasks schema --home home --output my-model"
    )
    done = subprocess.run(["sh", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    first = (tmp_path / "my-model" / "predictions" / "schema.validation.jsonl").read_text().splitlines()[0]
    assert first == '{"id": "schema.validation.0", "answer": "HURT."}'


def test_the_python_of_the_docs_gives_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (block,) = blocks("how-to/python", "python")
    names: dict[str, Any] = {}
    exec(compile(block, "python.md", "exec"), names)
    (said,) = re.findall(r"total\.text  # (.*)", block)
    results = names["results"]
    assert ast.literal_eval(said) == (results.tasks["sst"].score, results.total.text)


def test_the_metrics_of_the_docs_give_what_they_say() -> None:
    (block,) = (block for block in blocks("metrics", "python") if "import nf1, rouge" in block)
    start, score, details = filter(None, block.splitlines())
    names: dict[str, Any] = {}
    exec(start, names)
    assert eval(score, names) == float(score.partition("# ")[2].partition(";")[0])
    assert {"rouge1", "rouge2", "rougeL", "rouge"} <= set(eval(details, names))


@pytest.mark.parametrize(
    "page",
    [
        *("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"),
        *(str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md")),
    ],
)
def test_links_lead_somewhere(page: str) -> None:
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if not target.startswith("http"):
            file, _, anchor = target.partition("#")
            path = (ROOT / page).parent / file if file else ROOT / page
            assert path.exists(), target
            assert not anchor or path.suffix != ".md" or anchor in anchors_in(path), target


def anchors_in(path: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and the documentation's builder make them."""
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    counts: Counter[str] = Counter()
    anchors: set[str] = set()
    for heading in re.findall(r"^#+ +(.+)$", text, flags=re.MULTILINE):
        title = re.sub(r"\[(.*?)\]\(.*?\)", r"\1", heading)  # of a link, its text
        slug = re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-")
        anchors.add(f"{slug}-{counts[slug]}" if counts[slug] else slug)
        counts[slug] += 1
    return anchors


@pytest.mark.parametrize("vocabulary", [50_000, 2_000])
def test_the_table_of_speed_is_that_of_its_record(vocabulary: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    from authors_code import show

    path = ROOT / "reproductions" / "authors-network" / f"speed-{vocabulary}.json"
    record = json.loads(path.read_text(encoding="utf-8"))
    page = (ROOT / "docs" / "reference-models.md").read_text(encoding="utf-8")
    assert record["vocabulary"] == vocabulary
    assert len(record["rows"]) == 6
    for row in record["rows"]:
        assert show(vocabulary, row) in page


GPU = ROOT / "reproductions" / "gpu"


def gpu_log(name: str) -> list[dict[str, str]]:
    """The rows of a training log."""
    text = gzip.decompress((GPU / f"{name}.csv.gz").read_bytes()).decode()
    return list(csv.DictReader(text.splitlines()))


def gpu_section() -> str:
    """What the page on training says of a GPU, on one line."""
    page = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
    return " ".join(page.partition("### What an H200 gave\n")[2].partition("\n## ")[0].split())


def test_the_figures_of_a_gpu_are_those_of_its_records() -> None:
    text = gpu_section()
    names = {
        "float32": "float32",
        "graphs": "float32, CUDA graphs",
        "compiled": "float32, compiled",
        "bfloat16": "bfloat16",
    }
    for mode, name in names.items():
        seconds = [float(row["seconds"]) for row in gpu_log(f"wikisql-{mode}")]
        first, later = fmean(seconds[:50]), fmean(seconds[50:])
        assert sum(seconds) < 41.5
        assert f"| {name} | {len(seconds)} | {first:.3f} | {later:.3f} |" in text
    record = json.loads((GPU / "smoke.json").read_text())
    small, large = (modes for name, modes in record.items() if name.startswith("batches"))
    whole = small["float32"]
    assert whole["steps"] == 100
    assert (
        f"{whole['steps a second']:.1f} steps and {int(whole['examples a second']):,} examples a second"
        in text
    )
    cpu = json.loads((GPU / "cpu.json").read_text())["modes"]["float32"]
    assert cpu["steps"] == 100 and round(whole["steps a second"] / cpu["steps a second"]) == 18
    assert f"{cpu['steps a second']:.2f} steps and {cpu['examples a second']:.0f} examples" in text
    worst = {
        mode: {
            key: max(abs(own[key]) for own in small[mode]["difference from the CPU"].values())
            for key in ("loss", "gradient_norm")
        }
        for mode in ("float32", "bfloat16")
    }
    losses, norms = ([100 * worst[mode][key] for mode in worst] for key in ("loss", "gradient_norm"))
    assert (
        f"at most {losses[0]:.3f} % off those of a CPU in float32, and {losses[1]:.2f} % in bfloat16" in text
    )
    assert f"their gradients {norms[0]:.2f} % and {norms[1]:.1f} %" in text
    graphs = large["graphs"]
    assert f"{graphs['gigabytes']:.1f} GB after {graphs['steps']} steps" in text
    assert f"took {large['float32']['gigabytes']:.1f} GB in ten" in text
    assert f"({whole['gigabytes']:.1f} GB in 100" in text
    joint, woz = gpu_log("joint"), gpu_log("woz.en")
    times = [sum(float(row["seconds"]) for row in rows) for rows in (joint, woz)]
    assert f"after {len(joint):,} steps and {times[0]:.0f} s." in text
    assert f"after {len(woz):,} steps and {times[1]:.0f} s beside" in text
    assert f"still took {len(joint) / times[0]:.1f} steps a second" in text
    for name in ("alone", "beside"):
        rows = list(csv.DictReader((GPU / f"busy-{name}.csv").read_text().splitlines()))
        assert f"{fmean(float(row['busy']) for row in rows):.0f} %" in text


def test_the_scores_of_a_gpu_are_those_of_its_records() -> None:
    scores = []
    for split in ("validation", "test"):
        with zipfile.ZipFile(GPU / "woz.en.zip") as archive:
            results = json.loads(archive.read(f"results/{split}/results.json"))
        scores.append(results["tasks"]["woz.en"]["score"])
    text = gpu_section()
    assert f"has {scores[0]:.1f} on validation and {scores[1]:.1f} on test" in text
    with zipfile.ZipFile(GPU / "joint.zip") as archive:
        results = json.loads(archive.read("results/validation/results.json"))
        names = set(archive.namelist())
    assert f"decaScore of {results['decascore']:.1f}" in text
    assert not names & {f"predictions/{task}.validation.jsonl" for task in ("iwslt.en.de", "cnn_dailymail")}
    differ, scores = 0, []
    with zipfile.ZipFile(GPU / "joint.zip") as ours, zipfile.ZipFile(GPU / "joint-cpu.zip") as theirs:
        for name in (name for name in names if name.startswith("predictions/")):
            answers = [
                {
                    row["id"]: row["answer"]
                    for row in map(json.loads, file.read(name).splitlines())
                    if "id" in row
                }
                for file in (ours, theirs)
            ]
            assert answers[0].keys() == answers[1].keys()
            differ += sum(answer != answers[1][id_] for id_, answer in answers[0].items())
        for file in (theirs, ours):
            scores.append(json.loads(file.read("results/validation/results.json"))["decascore"])
    assert (
        f"answers all but {differ} alike (a decaScore of {scores[0]:.2f} instead of {scores[1]:.2f})" in text
    )


def test_the_architecture_names_what_there_is() -> None:
    """Every file that it names exists, and has the functions and classes that it names after it."""
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
    """The names that a module's top level defines."""
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                found.add(name)
    return found


OTHER_RANGES = {
    (-0.8, 2.1),  # the authors' network, which reproductions/authors-network has
    (0.1, 2.3),
    (
        -8.2,
        -6.9,
    ),  # what the page of MQAN had for one seed, over texts, and over seeds too, which was an error
    (-10.1, -5.0),
    (23.3, 42.6),  # two scores
}


def test_the_experiments_quote_the_page_of_mqan() -> None:
    """An interval depends on other rows too: those of wikisql changed when runs of another row were added."""
    text = (ROOT / "docs" / "mqan-experiments.md").read_text(encoding="utf-8")
    contrasts = json.loads((ROOT / "docs" / "reproductions" / "mqan.json").read_text())["contrasts"]
    intervals = [(one["over_seeds"], verdict(one)) for one in contrasts if one["over_seeds"]]
    intervals += [(one["over_texts"], "") for one in contrasts if one["over_texts"]]
    quoted = re.findall(
        r"(-?\d+\.\d) to (-?\d+\.\d)\b(?:\)?, (open|shown|not\s+after\s+the\s+correction))?", text
    )
    assert len(quoted) > 15
    for low, high, said in quoted:
        ends = (float(low), float(high))
        words = {word for own, word in intervals if own == pytest.approx(ends, abs=0.0501)}  # two roundings
        assert ends in OTHER_RANGES or words, f"{low} to {high}"
        assert not said or " ".join(said.split()) in words, (low, high, said)


def verdict(contrast: dict[str, Any]) -> str:
    low, high = contrast["over_seeds"]
    if low <= 0 <= high:
        return "open"
    several = min(contrast["seeds"].values()) > 1
    return "shown" if several and contrast["p_holm"] < 0.05 else "not after the correction"


@pytest.mark.parametrize("page", ["mqan-experiments", "reference-models"])
def test_means_over_seeds_are_those_of_the_page_of_mqan(page: str) -> None:
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    known = (ROOT / "docs" / "reproductions" / "mqan.md").read_text(encoding="utf-8")
    if page == "reference-models":  # it has other models too
        text = text[text.index("### Scores") : text.index("All ten, in one model")]
    quoted = set(re.findall(r"\d\d\.\d ± \d\.\d", text))
    assert len(quoted) > 8 and not {one for one in quoted if one not in known}
