"""`decabench tasks`, `tasks show`, `tasks validate`."""

import shutil

import pytest

from decabench.tasks import DECATHLON, TASKS
from decabench.tasks.store import Store


def test_list(command, home):
    done = command("tasks", "--home", home)
    assert done.exit_code == 0
    first = [line.split()[0] for line in done.stdout.splitlines() if not line.startswith("   ")]
    assert [name for name in first if name in TASKS] == list(DECATHLON.tasks)
    assert "sample: 64 / 32 / –" in done.stdout
    assert "9,616 hidden" in done.stdout
    assert str(home) in done.stdout.replace("\n", "")


def test_list_without_data(command, tmp_path):
    done = command("tasks", "--home", tmp_path)
    assert done.exit_code == 0
    (row,) = [line for line in done.stdout.splitlines() if line.startswith(" squad ")]
    assert row.split()[:6] == ["squad", "SQuAD", "1.1", "nf1", "87,599", "10,570"]
    assert " no " in row
    assert list(tmp_path.iterdir()) == []


def test_list_tells_of_damage_and_of_ones_own(command, home, own_task, tmp_path):
    shutil.copytree(home / "tasks" / "sst", tmp_path / "home" / "tasks" / "sst")
    (tmp_path / "home" / "tasks" / "sst" / "task.json").write_text("{")
    done = command("tasks", "--home", tmp_path / "home", "--include", own_task(["one"]))
    assert done.exit_code == 0
    rows = {
        line.split()[0]: line for line in done.stdout.splitlines() if line.startswith(" ") and line.strip()
    }
    assert " damaged " in rows["sst"]
    assert "own" in rows


def test_show(command, home):
    done = command("tasks", "show", "squad", "--home", home, "--examples", "2")
    assert done.exit_code == 0
    examples = list(Store(home).examples("squad", "validation"))
    for shown in (*examples[:2], examples[0].answers[0], "SQuAD 1.1", "CC BY-SA 4.0", "Rajpurkar"):
        assert (shown if isinstance(shown, str) else shown.id) in done.stdout
    assert done.stdout.count("question   ") == 2
    assert examples[2].id not in done.stdout
    assert Store(home).record("squad", "validation").fingerprint in done.stdout


def test_show_of_another_split(command, home):
    done = command("tasks", "show", "sst", "--home", home, "--split", "test", "--examples", "1")
    assert Store(home).ids("sst", "test")[0] in done.stdout


def test_show_without_data(command, tmp_path):
    done = command("tasks", "show", "sst", "--home", tmp_path)
    assert done.exit_code == 0
    assert "validation is not prepared: decabench prepare sst" in done.stdout


def test_validate(command, home):
    done = command("tasks", "validate", "sst", "--home", home)
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert [line[:4] for line in lines[:5]] == ["pass"] * 5
    assert lines[5] == "sst, validation: proven"


def test_a_task_that_cannot_be_proven_is_1(command, own_task, tmp_path):
    options = ["--include", own_task(["same", "same"]), "--home", tmp_path / "home"]
    assert command("prepare", "own", *options).exit_code == 0
    done = command("tasks", "validate", "own", *options)
    assert done.exit_code == 1
    assert "FAIL  shuffled answers fall below gold: all answers are the same" in done.stdout
    assert "own, validation: 1 of 5 checks failed" in done.stdout


@pytest.mark.parametrize(("arguments", "code"), [(["sst"], 3), (["sst", "--split", "dev"], 2), (["ssst"], 2)])
def test_validate_refuses(command, tmp_path, arguments, code):
    done = command("tasks", "validate", *arguments, "--home", tmp_path)
    assert done.exit_code == code
    assert done.stderr


def test_show_has_the_other_wordings(command, home, tmp_path):
    done = command("tasks", "show", "sst", "--home", home, "--examples", "0")
    text = " ".join(done.stdout.split())
    assert "variant 1 order-swapped: Is this review positive or negative?" in text
    assert "2 happy-angry: Is this review happy or angry? (happy for positive, angry for negative)" in text
    done = command("tasks", "show", "squad", "--home", tmp_path)
    assert "variant 1 words-of-context: prepare the task to see its wording" in " ".join(done.stdout.split())
    done = command("tasks", "show", "squad", "--home", home)
    first = next(Store(home).examples("squad", "train")).question
    assert f"words-of-context: Answer with words of the context: {first}" in " ".join(done.stdout.split())
