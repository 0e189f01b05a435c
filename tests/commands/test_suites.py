import json
from pathlib import Path

import pytest

from decabench.tasks import DECATHLON, SUITES

ROOT = Path(__file__).resolve().parents[2]
TAGGING = ROOT / "examples" / "tagging"


@pytest.fixture
def tagging(command, monkeypatch, tmp_path):
    """Include the example's task and suite, and prepare its data in an empty home."""
    monkeypatch.setenv("DECABENCH_INCLUDE", f"{TAGGING / 'pos.toml'}:{TAGGING / 'suite.toml'}")
    done = command("prepare", "--suite", "tagging-demo", "--home", tmp_path / "home")
    assert done.exit_code == 0, done.output
    return tmp_path / "home"


def test_list(command, home):
    done = command("suites", "--home", home)
    assert done.exit_code == 0
    assert done.stdout.splitlines()[:5] == [
        "decathlon: The Natural Language Decathlon",
        f"  tasks     {', '.join(DECATHLON.tasks)}",
        "  prepared  10 of 10",
        "  total     decaScore, the sum of the task scores",
        "",
    ]
    named = [line.partition(":")[0] for line in done.stdout.splitlines() if line and line[0] != " "]
    assert named == list(SUITES)


def test_damaged_data_is_not_prepared(command, tagging):
    (tagging / "tasks" / "pos" / "task.json").write_text("{")
    assert "  prepared  0 of 1" in command("suites", "--home", tagging).stdout


def test_show(command, home):
    done = command("suites", "show", "decathlon", "--home", home)
    assert done.exit_code == 0
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith(" ")]
    assert [row[0] for row in rows[1:]] == list(DECATHLON.tasks)
    assert rows[1] == ["squad", "nf1", "SQuAD", "1.1", "yes"]
    assert "MQAN (+QPtr), joint: squad 70.8, iwslt.en.de 16.1" in done.stdout
    assert "schema 48.8; decaScore 562.7\n" in done.stdout
    assert DECATHLON.source in done.stdout


def test_show_as_json(command, tagging):
    content = json.loads(command("suites", "show", "tagging-demo", "--json", "--home", tagging).stdout)
    assert content["tasks"] == {"pos": {"metric": "tag_accuracy", "prepared": True}}
    assert content["published"] == []
    content = json.loads(command("suites", "show", "decathlon", "--json", "--home", tagging).stdout)
    assert [row["total"] for row in content["published"]][:3] == [609.0, 599.9, 590.6]
    assert [row["scores"]["squad"] for row in content["published"]][:3] == [77.0, 75.5, 74.4]


def test_a_suite_with_an_unknown_task(command, tmp_path):
    done = command("suites", "--include", TAGGING / "suite.toml", "--home", tmp_path)
    assert done.exit_code == 2
    assert "Suite 'tagging-demo' lists unknown tasks: pos (did you mean ud.pos?)." in done.stderr


def test_from_prepare_to_compare(command, tagging, tmp_path):
    suite = ["--suite", "tagging-demo", "--home", tagging]
    assert command("tasks", "validate", "pos", "--home", tagging).exit_code == 0
    for predictor in ("majority", "oracle"):
        done = command("predict", "--predictor", predictor, "--output", tmp_path / predictor, *suite)
        assert done.exit_code == 0, done.output
        assert [path.name for path in (tmp_path / predictor / "predictions").iterdir()] == [
            "pos.validation.jsonl"
        ]
        done = command("check", "--submission", tmp_path / predictor, *suite)
        assert done.exit_code == 0, done.output
        done = command("evaluate", "--submission", tmp_path / predictor, *suite)
        assert done.exit_code == 0, done.output
        assert ["pos", "tag_accuracy"] in [line.split()[:2] for line in done.stdout.splitlines()]
    done = command("compare", tmp_path / "majority", tmp_path / "oracle", "--json", *suite)
    compared = json.loads(done.stdout)["tasks"]
    assert list(compared) == ["pos"]
    assert (round(compared["pos"]["a"], 2), compared["pos"]["b"]) == (17.73, 100)


def test_evaluate_a_suite_that_was_answered_in_part(command, home, submit):
    folder = submit("oracle", ["sst"])
    done = command("evaluate", "--submission", folder, "--suite", "decathlon", "--home", home)
    assert done.exit_code == 0
    assert "No answers for: squad" in done.stdout
    named = ["--suite", "decathlon", "--tasks", "sst,schema"]
    assert command("evaluate", "--submission", folder, *named, "--home", home).exit_code == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["predict", "--predictor", "majority", "--output", "s"],
        ["check", "--submission", "."],
        ["evaluate", "--submission", "."],
        ["compare", ".", "."],
        ["vectors", "ngrams", "--output", "v.safetensors"],
    ],
)
def test_a_task_outside_of_the_suite_is_refused(command, tagging, arguments, monkeypatch, tmp_path):
    if "vectors" in arguments:
        pytest.importorskip("torch", reason="torch is not installed: pip install 'decabench[train]'")
    monkeypatch.chdir(tmp_path)
    done = command(*arguments, "--suite", "tagging-demo", "--tasks", "sst", "--home", tagging)
    assert done.exit_code == 2
    assert "--tasks lists sst, but the suite tagging-demo contains only pos" in done.stderr
