from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import decabench
from decabench.errors import DataError, SubmissionError, UnknownNameError
from decabench.scoring import write_results_file
from tests.sources import ROOT
from tests.tasks.fixtures import lines_task

PUBLIC = {
    *("DecabenchError", "Example", "Metric", "Suite", "Task"),
    *("prepare", "load", "predict", "evaluate", "import_answers", "compare", "verify", "train", "run"),
    *("write_leaderboard", "read_results", "write_submission"),
}


def test_the_package_has_what_it_lists() -> None:
    assert set(decabench.__all__) == PUBLIC
    assert set(dir(decabench)) == PUBLIC
    with pytest.raises(AttributeError, match="evalute"):
        decabench.evalute  # type: ignore[attr-defined]  # noqa: B018


def test_importing_it_loads_no_room() -> None:
    program = (
        "import sys, decabench\n"
        "print([name for name in sys.modules if name.startswith('decabench.') or name in ('numpy', 'torch')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['decabench.lazy']"


def test_from_data_to_a_board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DECABENCH_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    records = decabench.prepare(["sst", "schema"], sample=True)
    assert records["sst"]["validation"].rows == 32 and list(records) == ["sst", "schema"]
    assert len(decabench.load("sst", "validation")) == 32
    assert decabench.predict("majority", "a", ["sst", "schema"]) == Path("a")
    decabench.predict("oracle", "b", ["sst", "schema"])
    answers = [(row["id"], "positive") for row in decabench.load("sst")]
    decabench.write_submission("c", "always positive", {("sst", "validation"): answers})
    for name in "abc":
        results = decabench.evaluate(name)
        assert results.write() == Path(name, "results", "validation", "results.json")
    assert results.tasks["sst"].n == 32
    assert decabench.compare("a", "b").tasks["sst"].gain > 0
    assert decabench.verify("a", "a/results/validation/results.json") == []
    table = decabench.read_results(".")
    assert set(table["submission"]) == {"majority", "oracle", "always positive"}
    page = decabench.write_leaderboard(".", "site")
    assert "always positive" in Path(page).read_text()


def test_preparing_reports_every_failure(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="sst"):
        decabench.prepare(["ssst"], sample=True, home=tmp_path)
    with pytest.raises(DataError, match=r"sst: .* schema: "):
        decabench.prepare(["sst", "schema"], mirror=str(tmp_path), home=tmp_path)


def test_preparing_and_answering_a_task_of_the_script(tmp_path: Path) -> None:
    words = tmp_path / "mirror" / "lines"
    words.mkdir(parents=True)
    for split in ("train", "validation", "test"):
        (words / f"{split}.txt").write_text("one\ntwo\n")
    task: decabench.Task = lines_task()
    records = decabench.prepare(
        [task], split="validation", mirror=str(words.parent), home=tmp_path / "home", jobs=2
    )
    assert {split: record.rows for split, record in records["lines"].items()} == {"validation": 2}
    decabench.predict("oracle", tmp_path / "sub", [task], home=tmp_path / "home")
    assert (tmp_path / "sub" / "predictions" / "lines.validation.jsonl").read_text().count("\n") == 2


def test_training(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    home = tmp_path / "home"
    decabench.prepare(["sst"], sample=True, home=home)
    settings = {"steps": 3, "vectors": ["none:8"], "model.dimension": 8, "validation_examples": 4}
    said: list[str] = []
    run = decabench.train(
        tmp_path / "run", ["sst"], "classifier", settings, home=home, device="cpu", report=said.append
    )
    assert run.step == 3 and run.checkpoint.is_relative_to(tmp_path / "run") and said
    with pytest.raises(decabench.DecabenchError, match="already contains a run"):
        decabench.train(tmp_path / "run", ["sst"], "classifier", settings, home=home, device="cpu")
    decabench.predict(f"trained:{tmp_path / 'run'}", tmp_path / "sub", ["sst"], home=home)
    assert decabench.evaluate(tmp_path / "sub", home=home).tasks["sst"].n == 32


def test_tasks_and_suites_of_files(tmp_path: Path) -> None:
    include = [f"examples/tagging/{name}.toml" for name in ("pos", "suite")]
    include, home = [str(ROOT / path) for path in include], tmp_path / "home"
    assert list(decabench.prepare("pos", home=home, include=include)) == ["pos"]
    for name in ("majority", "oracle"):
        decabench.predict(name, tmp_path / name, "pos", home=home, include=include)
    submission = tmp_path / "oracle"
    results = decabench.evaluate(submission, suite="tagging-demo", home=home, include=include)
    assert results.total.text == "100.0 (mean of 1)"
    write_results_file(submission / "results" / "validation", results)
    assert decabench.verify(submission, home=home, include=include) == []
    found = decabench.compare(
        tmp_path / "majority", submission, tasks="pos", suite="tagging-demo", home=home, include=include
    )
    assert found.total is not None and found.total.gain > 0
    page = decabench.write_leaderboard(
        tmp_path / "oracle", tmp_path / "site", suites="tagging-demo", include=include
    )
    assert "Tagging, a demonstration" in page.read_text()
    with pytest.raises(
        UnknownNameError, match=r"no suite 'tagging-demo'\..*your own .* its file with --include"
    ):
        decabench.evaluate(submission, suite="tagging-demo", home=home)
    with pytest.raises(
        SubmissionError,
        match=r"oracle has no validation answers .* There are answers for pos\. Use --include",
    ):
        decabench.evaluate(submission, home=home)


def test_a_single_file_of_tasks(own_task: Callable[..., Path], tmp_path: Path) -> None:
    file, home = own_task(["one", "two"]), tmp_path / "home"
    for include in (file, str(file)):
        assert list(decabench.prepare("own", home=home, include=include)) == ["own"]
        decabench.predict("oracle", tmp_path / "sub", "own", home=home, include=include)
        assert decabench.evaluate(tmp_path / "sub", home=home, include=include).tasks["own"].score == 100
        board = decabench.write_leaderboard(tmp_path / "sub", tmp_path / "site", home=home, include=include)
        assert Path(board).exists()
