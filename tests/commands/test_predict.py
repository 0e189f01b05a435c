"""`decabench predict`."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from decabench.predictors.schemes import PREDICTORS
from decabench.tasks import DECATHLON, TASKS
from decabench.tasks.store import Store
from tests.sources import ROOT


@pytest.mark.parametrize("name", sorted(set(PREDICTORS) - {"most-frequent-tag"}))
def test_every_predictor(command, home, tmp_path, name):
    options = ["--tasks", "sst,schema", "--home", home, "--output", tmp_path / "s"]
    done = command("predict", "--predictor", name, *options)
    assert done.exit_code == 0
    assert f"Wrote {name}'s answers to 2 tasks (validation)" in done.stdout
    assert command("check", "--submission", tmp_path / "s", "--home", home).exit_code == 0


def test_the_test_split_has_fewer_tasks(command, home, tmp_path):
    done = command(
        "predict", "--predictor", "lead-3", "--split", "test", "--home", home, "--output", tmp_path / "s"
    )
    assert done.exit_code == 0
    names = {path.name.removesuffix(".test.jsonl") for path in (tmp_path / "s" / "predictions").iterdir()}
    assert names == set(DECATHLON.tasks) - {"squad", "multinli.in.out"}


def test_what_it_is_told_of_the_submission(command, home, tmp_path):
    options = ["--tasks", "sst", "--home", home, "--output", tmp_path / "s"]
    about = ["--name", "N", "--author", "A", "--author", "B", "--description", "D.", "--seed", "5"]
    assert command("predict", "--predictor", "random", *options, *about).exit_code == 0
    content = tomllib.loads((tmp_path / "s" / "submission.toml").read_text())
    assert (content["name"], content["authors"], content["description"]) == ("N", ["A", "B"], "D.")
    assert content["predictor"]["seed"] == 5


@pytest.mark.parametrize("compress", ["gz", "zst"])
def test_compressed(command, home, tmp_path, compress):
    options = ["--tasks", "sst", "--home", home, "--output", tmp_path / "s", "--compress", compress]
    assert command("predict", "--predictor", "majority", *options).exit_code == 0
    assert (tmp_path / "s" / "predictions" / f"sst.validation.jsonl.{compress}").exists()


def test_a_folder_that_is_not_empty_is_asked_for(command, home, tmp_path):
    options = ["--tasks", "sst", "--home", home, "--output", tmp_path / "s"]
    assert command("predict", "--predictor", "majority", *options).exit_code == 0
    done = command("predict", "--predictor", "oracle", *options)
    assert done.exit_code == 2
    assert "contains the submission majority. Choose another folder" in done.stderr
    assert command("predict", "--predictor", "oracle", *options, "--force").exit_code == 0
    other = [*options[:-1], tmp_path / "r", "--predictor", "random", "--seed"]
    assert command("predict", *other, "1").exit_code == 0
    done = command("predict", *other, "2")
    assert "random, made by an earlier version of this model or with different settings" in " ".join(
        done.stderr.split()
    )
    assert tomllib.loads((tmp_path / "s" / "submission.toml").read_text())["name"] == "oracle"


SERVER = ["--predictor", "openai:http://localhost:9/v1", "--model", "m"]  # no test sends a request


def test_what_would_be_sent_is_shown(command, home):
    done = command(
        "predict", *SERVER, "--show-prompt", "sst", "--home", home, "--system", "Be brief.", "--shots", "2"
    )
    assert done.exit_code == 0
    roles = [line for line in done.stdout.splitlines() if line.startswith("[")]
    assert roles == ["[system]", "[user]", "[assistant]", "[user]", "[assistant]", "[user]"]
    first = next(iter(Store(home).read("sst", "validation")))
    assert f"sst, {first['id']}" in done.stdout and first["context"] in done.stdout


def test_every_wording_is_shown(command, home):
    done = command("predict", *SERVER, "--show-prompt", "sst", "--home", home, "--question-variant", "all")
    for variant in TASKS["sst"].variants:
        is_asked = variant.rewrite("Is this review negative or positive?") in done.stdout
        assert is_asked is not variant.retired


def test_a_baseline_has_no_prompt(command, home):
    done = command("predict", "--predictor", "majority", "--show-prompt", "sst", "--home", home)
    assert done.exit_code == 2
    assert "majority does not use prompts" in done.stderr


def test_a_dry_run_counts_and_asks_nothing(command, home, tmp_path):
    options = ["--tasks", "sst,schema", "--home", home, "--output", tmp_path / "s", "--max-new-tokens", "10"]
    done = command("predict", *SERVER, *options, "--dry-run", "--price-in", "1", "--price-out", "2")
    assert done.exit_code == 0
    assert not (tmp_path / "s").exists()
    rows = {line.split()[0]: line.split() for line in done.stdout.splitlines() if line.strip()}
    assert rows["sst"][1:3] == ["32", "0"] and rows["schema"][1:3] == ["82", "0"]
    assert rows["sst"][4] == "320" and rows["schema"][4] == "820"
    tokens, cost = int(rows["sst"][3].replace(",", "")), float(rows["sst"][6])
    assert cost == pytest.approx((tokens * 1 + 320 * 2) / 1e6, abs=6e-5)
    assert "at four characters per token" in done.stdout


def test_a_dry_run_knows_the_journal_and_the_speed(command, home, tmp_path):
    options = ["--predictor", "lead-3", "--tasks", "sst", "--home", home, "--output", tmp_path / "s"]
    assert command("predict", *options, "--limit", "10").exit_code == 0
    record = json.loads((tmp_path / "s" / "run.json").read_text())
    (row,) = record["tasks"]
    assert (row["total"], row["answered"], row["failed"]) == (10, 10, 0)
    record["tasks"][0]["seconds"] = 20.0
    (tmp_path / "s" / "run.json").write_text(json.dumps(record))
    done = command("predict", *options, "--dry-run")
    cells = next(line for line in done.stdout.splitlines() if line.strip().startswith("sst")).split()
    assert (
        cells[1:3] == ["32", "10"] and " ".join(cells[5:7]) == "44.0 s"
    )  # 22 remaining questions at 2 s each


def test_examples_that_failed_end_with_4(command, home, tmp_path, monkeypatch):
    (tmp_path / "picky_model.py").write_text(
        "class Model:\n"
        "    def predict(self, questions):\n"
        "        if any(question.id.endswith('.7') for question in questions):\n"
        "            raise ValueError('not this one')\n"
        "        return ['x' for question in questions]\n"
        "model = Model()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    options = ["--tasks", "sst", "--home", home, "--output", tmp_path / "s"]
    done = command("predict", "--predictor", "picky_model:model", *options)
    assert done.exit_code == 4
    assert "Incomplete: sst: 1 of 32 examples failed (ValueError: not this one)" in done.stdout
    again = command("predict", "--predictor", "picky_model:model", *options)
    assert again.exit_code == 4 and "sst: 31 of 32 answers are already in the journal" in again.stderr


def test_a_run_without_answers_claims_none(command, home, tmp_path, monkeypatch):
    (tmp_path / "poor_model.py").write_text(
        "class Model:\n    def predict(self, questions):\n        raise ValueError('no')\nmodel = Model()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    options = ["--tasks", "sst", "--home", home, "--output", tmp_path / "s", "--give-up-after", "0"]
    done = command("predict", "--predictor", "poor_model:model", *options)
    assert done.exit_code == 4
    assert "poor_model:model gave no answers to 1 task (validation)." in done.stdout


def test_a_model_that_breaks_ends_with_4(command, home, tmp_path, monkeypatch):
    (tmp_path / "broken_model.py").write_text(
        "class Model:\n    def __init__(self, setting):\n        raise OSError('no weights')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    options = ["--tasks", "sst", "--home", home, "--output", tmp_path / "s"]
    done = command("predict", "--predictor", "broken_model:Model", *options)
    assert done.exit_code == 4 and "failed on sst after 0 answers (OSError: no weights)" in done.stderr


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ("'good'", "sst: none of the 32 answers is a valid label."),
        ("'Positive'", None),
        (
            "'positive' if question.id.endswith('.7') else 'good'",
            "sst: only 1 of 32 answers is a valid label.",
        ),
    ],
)
def test_answers_that_are_no_labels_are_said_aloud(command, home, tmp_path, monkeypatch, answer, sentence):
    name = f"talking_model_{len(answer)}"
    (tmp_path / f"{name}.py").write_text(
        "class Model:\n    def predict(self, questions):\n"
        f"        return [{answer} for question in questions]\nmodel = Model()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    options = ["--tasks", "sst", "--home", home, "--output", tmp_path / "s"]
    done = command("predict", "--predictor", f"{name}:model", *options)
    scored = command("evaluate", "--submission", tmp_path / "s", "--home", home)
    for output in (done.stdout, scored.stdout):
        assert (sentence in output) if sentence else ("valid label" not in output)
    assert not sentence or "has 'good', but the labels are " in done.stdout


def test_the_options_of_a_question_are_labels_too(command, home, tmp_path):
    options = ["--tasks", "schema", "--home", home, "--output", tmp_path / "s"]
    done = command("predict", "--predictor", "copy-context", *options)
    assert "schema: none of the 82 answers is a valid label." in done.stdout
    scored = command("evaluate", "--submission", tmp_path / "s", "--home", home)
    assert "schema: none of the 82 answers is a valid label." in scored.stdout
    oracle = command("predict", "--predictor", "oracle", *options, "--force")
    assert "valid label" not in oracle.stdout


def test_a_list_of_examples(command, home, tmp_path):
    chosen = Store(home).ids("sst", "validation")[3:6]
    (tmp_path / "ids").write_text("\n".join(chosen))
    options = ["--tasks", "sst", "--home", home, "--output", tmp_path / "s", "--ids", tmp_path / "ids"]
    done = command("predict", "--predictor", "majority", *options)
    assert done.exit_code == 0 and "Partial: sst (3 ids" in done.stdout
    rows = (tmp_path / "s" / "predictions" / "sst.validation.jsonl").read_text().splitlines()
    assert [json.loads(row)["id"] for row in rows] == chosen


def test_the_folder_of_a_run_that_was_killed_is_not_anothers(command, home, tmp_path):
    options = ["--tasks", "sst", "--home", home, "--output", tmp_path / "s"]
    assert command("predict", "--predictor", "lead-3", *options).exit_code == 0
    (tmp_path / "s" / "submission.toml").unlink()
    shutil.rmtree(tmp_path / "s" / "predictions")
    done = command("predict", "--predictor", "majority", *options)
    assert done.exit_code == 2 and "contains the answers of another model" in done.stderr
    assert command("predict", "--predictor", "lead-3", *options).exit_code == 0


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--batch-size", "0"], "'0' is neither 'auto' nor a whole number above 0"),
        (["--question-variant", "some"], "'some' is neither 'all' nor the number of a variant"),
        (["--question-variant", "77"], "sst has no variant 77"),
        (["--ids", "no-such-file"], "There is no file no-such-file"),
        (["--limit", "0"], "0 is not allowed. The value must be at least 1"),
        (["--shots", "2"], "majority does not use prompts"),
    ],
)
def test_wrong_usage(command, home, tmp_path, options, sentence):
    given = ["--tasks", "sst", "--home", home, "--output", tmp_path / "s", *options]
    done = command("predict", "--predictor", "majority", *given)
    assert done.exit_code == 2 and sentence in done.stderr
    assert not (tmp_path / "s").exists()


_RAISE = "Increase --max-new-tokens, or turn reasoning off."


@pytest.mark.parametrize(
    ("counts", "sentences"),
    [
        ({}, []),
        (
            {"unparseable": 32, "other_label": 32, "other_label_example": "Look."},
            ["32 of 32 answers are unparseable. Look."],
        ),
        (
            {"unparseable": 2, "other_label": 3, "other_label_example": "Look."},
            ["only 29 of 32 answers are valid labels. Look.", "2 of 32 answers are unparseable."],
        ),
        (
            {"refused": 2},
            ["2 of 32 answers were refused by the model or its server's filter, and are scored as wrong."],
        ),
        (
            {"empty": 1, "cut_reasoning": 5, "only_reasoning": 3},
            [
                f"5 of 32 answers ran out of tokens during reasoning. {_RAISE}",
                f"3 of 32 answers contain only reasoning. {_RAISE}",
                "1 of 32 answers is empty.",
            ],
        ),
    ],
)
def test_answers_that_are_none_are_counted(counts, sentences):
    from decabench.commands.predict import describe_answers
    from decabench.runs import Report, Tally

    report = Report(Path(), [Tally("sst", 32, answered=32, **counts)])
    assert list(describe_answers(report, "majority")) == [f"sst: {sentence}" for sentence in sentences]


@pytest.mark.parametrize(
    ("served", "said"),
    [
        (["m-2024-08-06 (fp_1)", "m-2024-08-06 (fp_2)", "m-2024-08-06"], ""),
        (
            ["m-2024-08-06 (fp_1)", "m-2025-04-01"],
            "from 2 models: m-2024-08-06, m-2025-04-01",
        ),
    ],
)
def test_answers_of_two_models_under_one_name_are_reported(served, said):
    from decabench.commands.predict import describe_answers
    from decabench.runs import Report, Tally

    tallies = [
        Tally(task, 32, answered=32, served_by=[name]) for task, name in zip("abc", served, strict=False)
    ]
    assert said in " ".join(describe_answers(Report(Path(), tallies), "openai:http://host"))
    assert bool(said) is bool(list(describe_answers(Report(Path(), tallies), "openai:http://host")))


@pytest.mark.parametrize("wording", ["0", "2", "all"])
def test_a_limited_run_is_said_to_be_partial_in_every_wording(command, home, tmp_path, wording):
    """Before, the remark was only found for the original wording."""
    options = ["--tasks", "sst", "--home", home, "--output", tmp_path / "s", "--limit", "5"]
    done = command("predict", "--predictor", "majority", *options, "--question-variant", wording)
    assert "Partial: sst (limit 5): its score is not ranked." in " ".join(done.stdout.split())


def test_fewer_answers_replace_more_only_with_force(command, home, tmp_path):
    """Before, ten answers silently replaced a complete file of 32."""
    given = ["predict", "--predictor", "majority", "--home", home, "--output", tmp_path / "s"]
    assert command(*given, "--tasks", "sst,schema").exit_code == 0
    path = tmp_path / "s" / "predictions" / "sst.validation.jsonl"
    before = path.read_bytes()
    done = command(*given, "--tasks", "sst", "--limit", "10")
    assert done.exit_code == 2 and path.read_bytes() == before
    sentence = "contains 32 answers to sst.validation, but this run would keep only 10 of them"
    assert f"{sentence}. Choose another folder" in done.stderr
    assert command(*given, "--tasks", "sst", "--limit", "10", "--force").exit_code == 0
    assert len(path.read_text().splitlines()) == 10
    assert command(*given, "--tasks", "sst", "--limit", "10").exit_code == 0  # the same number
    assert command(*given, "--tasks", "sst", "--limit", "12").exit_code == 0  # more answers


def test_results_that_are_removed_are_said(command, home, tmp_path):
    folder = tmp_path / "s"
    given = ["predict", "--predictor", "majority", "--home", home, "--output", folder, "--tasks"]
    assert command(*given, "sst,schema").exit_code == 0
    assert command("evaluate", folder, "--home", home).exit_code == 0
    assert "Removed" not in command(*given, "sst").stdout
    done = command(*given, "sst", "--limit", "10", "--force")
    assert "Removed results whose answers have changed: " in done.stdout


# A predictor that kills its process: the run can be resumed


MODEL = """
import ctypes, os, signal, sys, time

class Model:
    def __init__(self, setting):
        self.asked = 0

    def predict(self, questions):
        self.asked += 1
        if self.asked == 2 and not os.path.exists({marker!r}):
            {end}
        return ["positive"] * len(questions)
"""


def start(tmp_path: Path, home: Path, end: str) -> subprocess.Popen[str]:
    model = tmp_path / "model.py"
    model.write_text(MODEL.format(end=end, marker=str(tmp_path / "good")))
    options = ["--predictor", "model:Model", "--tasks", "sst", "--batch-size", "8"]
    line = ["predict", *options, "--home", str(home), "--output", str(tmp_path / "out")]
    return subprocess.Popen(
        [sys.executable, "-m", "decabench", *line],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        start_new_session=True,
    )


@pytest.mark.parametrize("end", ["os._exit(0)", "ctypes.string_at(0)"])
def test_the_run_is_continued(tmp_path: Path, home: Path, end: str) -> None:
    with start(tmp_path, home, end) as process:
        _, said = process.communicate(timeout=60)
    assert process.returncode if "ctypes" in end else process.returncode == 4 and "called os._exit(0)" in said
    (tmp_path / "good").touch()
    with start(tmp_path, home, end) as process:
        _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert len((tmp_path / "out" / "predictions" / "sst.validation.jsonl").read_text().splitlines()) == 32


def test_errors_and_exits_stay_as_they_are(tmp_path: Path, home: Path) -> None:
    with start(tmp_path, home, "sys.exit(3)") as process:
        _, said = process.communicate(timeout=60)
    assert "The predictor failed on sst after 8 answers (SystemExit: 3)" in said
    assert process.returncode in (2, 4)
