"""`decabench check`: exit codes, what it needs, what it prints. The faults themselves: tests/test_checker.py."""

import json
import shutil

import pytest

from decabench.tasks.store import Store


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


def test_json(command, home, submit):
    done = command("check", "--submission", damaged(submit("oracle", ["sst"])), "--home", home, "--json")
    content = json.loads(done.stdout)
    assert done.exit_code == 1
    assert (content["ok"], content["fault_count"]) == (False, 3)
    assert {fault["code"] for fault in content["faults"]} == {"duplicate-id", "bad-json", "missing-id"}


def test_an_id_list_is_enough(command, home, submit, tmp_path):
    ids = tmp_path / "ids.json"
    assert command("prepare", "sst", "--sample", "--home", home, "--export-ids", ids).exit_code == 0
    options = ["--ids", ids, "--home", tmp_path / "nothing"]
    assert command("check", "--submission", submit("oracle", ["sst"]), *options).exit_code == 0
    done = command("check", "--submission", damaged(submit("oracle", ["sst"], "again")), *options)
    assert done.exit_code == 1
    assert done.stdout.endswith("again: 3 faults\n")


def test_an_archive(command, home, submit, tmp_path):
    for kind in ("zip", "gztar"):
        archive = shutil.make_archive(str(tmp_path / kind), kind, submit("oracle", ["sst"], f"{kind}-folder"))
        done = command("check", "--submission", archive, "--home", home)
        assert (done.exit_code, done.stdout.splitlines()[0]) == (
            0,
            "predictions/sst.validation.jsonl: 32 of 32 answers",
        )


def test_data_that_is_not_prepared_is_3(command, submit, tmp_path):
    done = command("check", "--submission", submit("oracle", ["sst"]), "--home", tmp_path / "nothing")
    assert done.exit_code == 3
    assert "no-data: the ids of sst.validation are unknown; prepare its data" in done.stdout


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--tasks", "sst"], 0, "valid"),
        (["--tasks", "squad"], 1, "missing-file: squad was requested; add squad.<split>.jsonl"),
        (["--split", "test"], 1, "no-predictions"),
        (["--tasks", "sst", "--split", "test"], 1, "missing-file: sst.test was requested"),
    ],
)
def test_what_was_asked_for(command, home, submit, options, code, said):
    done = command("check", "--submission", submit("oracle", ["sst"]), "--home", home, *options)
    assert done.exit_code == code
    assert said in done.stdout


def test_only_the_ids_of_what_was_answered_are_read(command, home, submit, monkeypatch):
    """The training data has a million ids; a submission rarely answers it."""
    read = []
    ids = Store.ids
    monkeypatch.setattr(Store, "ids", lambda self, *split: read.append(split) or ids(self, *split))
    assert command("check", "--submission", submit("oracle", ["sst"]), "--home", home).exit_code == 0
    assert read == [("sst", "validation")]


def test_answers_to_other_data_get_a_warning(command, home, submit):
    folder = submit("oracle", ["sst"])
    text = (folder / "submission.toml").read_text()
    stated = Store(home).record("sst", "validation").fingerprint
    (folder / "submission.toml").write_text(text.replace(stated, "sha256:" + "0" * 64))
    done = command("check", "--submission", folder, "--home", home)
    assert done.exit_code == 0
    assert "warning: predictions/sst.validation.jsonl: other-data:" in done.stdout
