"""`decabench check`: exit codes, required data and output. tests/submission/test_checker.py tests the faults."""

import json

import pytest

from decabench.submission import write_submission
from decabench.tasks import TASKS, Store


def damaged(folder):
    path = folder / "predictions" / "sst.validation.jsonl"
    first, _, *rest = path.read_text().splitlines(keepends=True)
    path.write_text("".join([first, first, "{\n", *rest]))
    return folder


def test_valid(command, home, submit):
    done = command("check", "--submission", submit("oracle", ["sst", "schema"]), "--home", home)
    assert done.exit_code == 0
    assert done.stdout == (
        "predictions/schema.validation.jsonl: 82 of 82 answers\n"
        "predictions/sst.validation.jsonl: 32 of 32 answers\n"
        "oracle: valid\n"
    )


def test_every_fault_with_file_line_and_code(command, home, submit):
    done = command("check", "--submission", damaged(submit("oracle", ["sst", "schema"])), "--home", home)
    assert done.exit_code == 1
    assert "predictions/sst.validation.jsonl:2: duplicate-id: " in done.stdout
    assert "predictions/sst.validation.jsonl:3: bad-json: " in done.stdout
    assert "predictions/sst.validation.jsonl: missing-id: the example 'sst.validation.1'" in done.stdout
    assert done.stdout.endswith("oracle: 3 faults\n")


def test_wrong_numbers_of_tags_are_a_warning(command, home, submit):
    folder = submit("oracle", ["ud.pos"])
    path = folder / "predictions" / "ud.pos.validation.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[0]["answer"] += " X X"
    lines[1]["answer"] = "X"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = command("check", "--submission", folder, "--home", home)
    assert done.exit_code == 0
    assert "2 answers do not have one item for each word (1 too short, 1 too long)" in done.stdout
    assert done.stdout.endswith("oracle: valid, 1 warning\n")
    (warning,) = json.loads(command("check", "--submission", folder, "--home", home, "--json").stdout)[
        "warnings"
    ]
    assert warning["code"] == "wrong-length"


def test_an_id_list_is_enough(command, home, submit, tmp_path):
    ids = tmp_path / "ids.json"
    assert command("prepare", "sst", "--sample", "--home", home, "--export-ids", ids).exit_code == 0
    options = ["--ids", ids, "--home", tmp_path / "nothing"]
    assert command("check", "--submission", submit("oracle", ["sst"]), *options).exit_code == 0
    done = command("check", "--submission", damaged(submit("oracle", ["sst"], "again")), *options)
    assert done.exit_code == 1
    assert done.stdout.endswith("again: 3 faults\n")


@pytest.mark.parametrize(
    ("options", "said"),
    [(["--tasks", "squad"], "missing-file: squad was requested"), (["--split", "test"], "no-predictions: ")],
)
def test_requested_tasks_and_splits_are_checked(command, home, submit, options, said):
    done = command("check", "--submission", submit("oracle", ["sst"]), "--home", home, *options)
    assert done.exit_code == 1 and said in done.stdout


def test_only_the_ids_of_what_was_answered_are_read(command, home, submit, monkeypatch):
    """Training data can have a million ids, and submissions rarely include answers to it."""
    read = []
    ids = Store.ids
    monkeypatch.setattr(Store, "ids", lambda self, *split: read.append(split) or ids(self, *split))
    assert command("check", "--submission", submit("oracle", ["sst"]), "--home", home).exit_code == 0
    assert read == [("sst", "validation")]


def write_labels(folder, home, change):
    """Write answers to sst, each made from the gold label."""
    lines = [(each.id, change(each.answers[0])) for each in Store(home).examples("sst", "validation")]
    write_submission(folder, "labels", {("sst", "validation"): lines})
    return folder


FORM = "label-form: 32 of 32 answers are labels in a form that scores as wrong: "


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda label: f"{label.capitalize()}.",
            f"{FORM}extra punctuation or an article (32). For example, line 1 has '",
        ),
        (lambda label: "1", "no-label: 32 of 32 answers give none of the labels ("),
        (str, ""),
    ],
)
def test_labels_in_another_form_are_a_warning(command, home, tmp_path, change, said):
    done = command("check", "--submission", write_labels(tmp_path / "s", home, change), "--home", home)
    assert done.exit_code == 0 and said in done.stdout
    assert ("warning" in done.stdout.splitlines()[-1]) == bool(said)


def test_answers_to_a_wording_that_the_task_lacks_are_a_fault(command, home, tmp_path):
    """Before, `check` accepted files that `evaluate` did not score."""
    folder = write_labels(tmp_path / "s", home, str)
    answers = folder / "predictions" / "sst.validation.jsonl"
    for number in (1, 9):
        (made := folder / "variants" / str(number) / "predictions").mkdir(parents=True)
        (made / answers.name).write_bytes(answers.read_bytes())
    done = command("check", "--submission", folder, "--home", home)
    last = len(TASKS["sst"].variants)
    file = "variants/9/predictions/sst.validation.jsonl"
    said = f"{file}: unknown-variant: sst has no variant 9; the variants are 1 to {last}"
    assert done.exit_code == 1 and said in done.stdout
    assert "no variant 1:" not in done.stdout
    scored = command("evaluate", folder, "--home", home)
    assert f"sst has {last} variants, but the answers are for variant 9." in scored.stdout.replace("\n", " ")


def test_a_file_of_an_unknown_task_is_the_only_fault(command, home, submit):
    """Before, a second message said that the file was missing."""
    folder = submit("oracle", ["sst"])
    path = folder / "predictions" / "sst.validation.jsonl"
    path.rename(path.with_name("sstt.validation.jsonl"))
    done = command("check", "--submission", folder, "--home", home)
    assert done.exit_code == 1 and done.stdout.endswith("oracle: 1 fault\n")
    assert "unknown-task" in done.stdout and "no-predictions" not in done.stdout


def test_faults_are_folded_in_a_terminal(command, home, submit, monkeypatch):
    monkeypatch.setattr("decabench.commands._console.terminal_width", lambda stream: 80)
    folder = submit("oracle", ["sst"])
    path = folder / "predictions" / "sst.validation.jsonl"
    path.write_text(path.read_text().replace("sst.validation.", "mine."))
    done = command("check", "--submission", folder, "--home", home)
    assert done.exit_code == 1 and "other-ids" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_what_answers_look_like_is_a_warning_everywhere(command, home, submit, tmp_path):
    """check, import, evaluate and predict warn. Gold answers in SentencePiece's pieces silently scored 0.22 before."""
    folder = submit("oracle", ["iwslt.en.de"])
    path = folder / "predictions" / "iwslt.en.de.validation.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        line["answer"] = "\u2581" + line["answer"].replace(" ", " \u2581")
    path.write_text("".join(json.dumps(line) + "\n" for line in reversed(lines)))
    said = "17 of 17 answers are pieces of words. For example"
    proof = "With that fixed, 17 of these score 100.00 in bleu instead of 0.22"

    done = command("check", "--submission", folder, "--home", home)
    assert done.exit_code == 0 and f"answer-format: {said}" in done.stdout and proof in done.stdout
    assert done.stdout.endswith("oracle: valid, 1 warning\n")
    document = json.loads(command("check", "--submission", folder, "--home", home, "--json").stdout)
    assert document["ok"] and [warning["code"] for warning in document["warnings"]] == ["answer-format"]
    ids = tmp_path / "ids.json"
    assert command("prepare", "iwslt.en.de", "--sample", "--home", home, "--export-ids", ids).exit_code == 0
    done = command("check", "--submission", folder, "--ids", ids, "--home", tmp_path / "none")
    assert done.exit_code == 0 and said in done.stdout and proof not in done.stdout

    scored = command("evaluate", folder, "--home", home, "--json")
    remarks = json.loads(scored.stdout)["remarks"]
    assert any(said in remark and proof in remark for remark in remarks), remarks
    assert f"iwslt.en.de: {said}" in command("evaluate", folder, "--home", home).stdout

    table = tmp_path / "answers.txt"
    table.write_text("".join(f"{line['answer']}\n" for line in lines))
    options = ["--task", "iwslt.en.de", "--in-order", "--name", "x", "--home", home]
    done = command("import", "text", table, *options, "--output", tmp_path / "imported")
    assert done.exit_code == 0 and said in done.stdout


def test_gold_answers_of_a_hidden_split_are_not_compared(home, submit):
    """A check must not reveal hidden answers to others, not even through a score."""
    from dataclasses import replace

    from decabench.submission import check_submission

    folder, store = submit("oracle", ["squad"]), Store(home)
    path = folder / "predictions" / "squad.validation.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    moved = [{**line, "answer": lines[at - 1]["answer"]} for at, line in enumerate(lines)]
    path.write_text("".join(json.dumps(line) + "\n" for line in moved))
    expected = {("squad", "validation"): store.ids("squad", "validation")}
    for hidden, count in ((), 1), (("validation",), 0):
        known = {"squad": replace(TASKS["squad"], hidden=hidden)}
        found = check_submission(folder, expected, known, store=store)
        assert [fault.code for fault in found.warnings] == ["answer-format"] * count
