"""`decabench leaderboard`. tests/leaderboard/ tests the page."""

import json
import re
import shutil

import pytest


@pytest.fixture(autouse=True)
def built_again(monkeypatch):
    """Build boards again even if nothing has changed."""
    monkeypatch.setattr("decabench.leaderboard.site._SETTLED", 1e6)


@pytest.fixture
def given(home, submit, tmp_path):
    """A folder with one submission, and the options that score it."""
    submit("majority", ["sst", "schema"], "submissions/majority")
    return "--submissions", tmp_path / "submissions", "--output", tmp_path / "site", "--home", home


@pytest.fixture
def options(given):
    return (*given, "--no-baselines")


def test_board(command, options, submit, tmp_path):
    submit("oracle", ["sst"], "submissions/group/oracle")
    done = command("leaderboard", *options)
    assert done.exit_code == 0, done.output
    index = (tmp_path / "site" / "index.html").resolve()
    assert done.stdout == f"Board: {index.as_uri()}\nResults: 2 verified.\n"
    page = index.read_text(encoding="utf-8")
    assert "oracle" in page and "majority" in page
    found = json.loads(command("leaderboard", *options, "--json").stdout)
    assert found["kinds"] == {"verified": 2} and found["refused"] == []


def test_a_home_that_takes_no_baselines_names_the_option(command, given, home, tmp_path):
    copy = tmp_path / "home"
    shutil.copytree(home / "tasks", copy / "tasks")
    (copy / "baselines").touch()
    done = command("leaderboard", *given[:-1], copy)
    assert done.exit_code == 3 and "--no-baselines" in done.stderr


def test_submissions_that_are_not_there(command, tmp_path):
    done = command("leaderboard", "--submissions", tmp_path / "nowhere", "--output", tmp_path / "site")
    assert done.exit_code == 2 and not (tmp_path / "site").exists()


def test_a_folder_without_submissions_publishes_nothing(command, options, tmp_path):
    """A typo must not replace a board with an empty one."""
    (tmp_path / "empty").mkdir()
    done = command("leaderboard", *options, "--submissions", tmp_path / "empty")
    assert done.exit_code == 1 and not (tmp_path / "site").exists() and done.stdout == ""
    assert f"There is no finished submission in {tmp_path / 'empty'}. " in done.stderr
    assert command("leaderboard", *options).exit_code == 0
    done = command("leaderboard", *options, "--submissions", tmp_path / "site")  # the site itself
    assert done.exit_code == 1 and "majority" in (tmp_path / "site" / "index.html").read_text(
        encoding="utf-8"
    )


def test_what_no_board_has_is_named(command, options, own_task, tmp_path):
    done = command("leaderboard", *options, "--suite", "tagging")
    assert done.exit_code == 1 and not (tmp_path / "site").exists() and done.stdout == ""
    assert "answers to any task in tagging, only to schema, sst. Choose --suite decathlon" in done.stderr
    done = command("leaderboard", *options, "--home", tmp_path / "no-data")
    assert done.exit_code == 1 and "sst, schema: the data is not prepared here" in done.stderr


def test_examples_come_from_the_prepared_data(command, options, tmp_path):
    data = tmp_path / "site" / "data"
    assert command("leaderboard", *options).exit_code == 0
    assert list((data / "answers" / "majority-validation").iterdir()) and list((data / "texts").iterdir())
    assert command("leaderboard", *options, "--examples", "none").exit_code == 0
    assert not (data / "texts").exists()
    for path in (data / "answers" / "majority-validation").iterdir():
        assert "built without examples" in path.read_text(encoding="ascii")


def test_rows_without_scores_are_counted(command, home, options, submit, tmp_path):
    limited = ("--predictor", "majority", "--tasks", "sst", "--home", home, "--limit", "5")
    assert command("predict", *limited, "--output", tmp_path / "submissions" / "limited").exit_code == 0
    failed = submit("majority", ["sst"], "submissions/failed")
    answers = failed / "predictions" / "sst.validation.jsonl"
    answers.write_text(answers.read_text().partition("\n")[0] + "\n")
    for _ in range(2):  # the second build has nothing to do
        done = command("leaderboard", *options)
        assert "Results: 1 verified, 1 partial, 1 failed.\n" in done.stdout
        assert re.search(r"^Failed: \S+: sst: .+\.$", done.stderr, re.MULTILINE)
        (failed,) = json.loads(command("leaderboard", *options, "--json").stdout)["failed"]
        assert failed["path"] == "failed" and "missing-id" in failed["reason"]
    rows = json.loads((tmp_path / "site" / "board.json").read_text())["submissions"]
    assert [row["reason"] for row in rows if row["submission"] == "failed"] == [failed["reason"]]


def test_a_file_that_may_not_be_read_fails_its_task_alone(command, options, submit, unreadable, tmp_path):
    """Before, the whole build ended with a traceback."""
    submit("lead-3", ("sst", "schema"), "submissions/lead-3")
    unreadable(tmp_path / "submissions" / "lead-3" / "predictions" / "sst.validation.jsonl")
    assert command("leaderboard", *options).exit_code == 0
    board = json.loads((tmp_path / "site" / "board.json").read_text(encoding="utf-8"))
    tasks = {row["name"]: row["tasks"] for row in board["submissions"]}
    assert [tasks["lead-3"][task]["status"] for task in ("sst", "schema")] == ["failed", "scored"]
    assert "can't be read" in tasks["lead-3"]["sst"]["reason"]


# --baselines


@pytest.fixture
def own_home(command, own_task, tmp_path):
    """A home with a custom task, a suite that contains it, and a submission to it."""
    own = own_task(["one", "two", "two", "two"])
    suite = tmp_path / "suite.toml"
    suite.write_text(
        'format = "decabench.suite/1"\nname = "mine"\ntitle = "Mine"\ntotal = "mean"\ntasks = ["own"]\n'
    )
    data = ("--include", own, "--include", suite, "--home", tmp_path / "home")
    assert command("prepare", "own", *data).exit_code == 0
    predict = ("--predictor", "lead-3", "--suite", "mine", "--output", tmp_path / "in" / "system")
    assert command("predict", *predict, "--name", "system", *data).exit_code == 0
    return "leaderboard", "--submissions", tmp_path / "in", "--output", tmp_path / "site", *data


def baselines(tmp_path):
    content = json.loads((tmp_path / "site" / "board.json").read_text(encoding="utf-8"))
    return {
        row["name"]: (row["kind"], row["total"]) for row in content["submissions"] if row["submission"] == ""
    }


def test_baselines_are_answered_and_scored(command, own_home, tmp_path):
    assert command(*own_home).exit_code == 0
    expected = baselines(tmp_path)
    assert expected["oracle"] == ("ceiling", 100.0) and expected["majority"] == ("floor", 75.0)
    assert expected.keys() == {"oracle", "majority", "random", "copy-context", "lead-3"}
    assert command(*own_home, "--no-baselines").exit_code == 0
    assert baselines(tmp_path) == {}


def test_baselines_are_answered_once_and_again_if_their_answers_changed(
    command, own_home, monkeypatch, tmp_path
):
    assert command(*own_home).exit_code == 0
    expected = baselines(tmp_path)
    (path,) = (tmp_path / "home" / "baselines").rglob("majority/predictions/*.jsonl")
    answers = path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr("decabench.runs.floors.predict", None)
        assert command(*own_home).exit_code == 0
    path.write_bytes(answers.replace(b"two", b"one"))
    assert command(*own_home).exit_code == 0
    assert baselines(tmp_path) == expected and path.read_bytes() == answers
    (tmp_path / "rows.jsonl").write_text('{"number": 1, "answer": "one"}\n')
    assert command("prepare", "own", *own_home[5:]).exit_code == 0
    assert command(*own_home).exit_code == 1, "the system answers other data now"


def test_one_split(command, options, submit, tmp_path):
    submit("majority", ["sst"], "submissions/majority", split="test")
    done = command("leaderboard", *options)
    assert "Results: 2 verified.\n" in done.stdout, done.output
    done = command("leaderboard", *options, "--split", "test")
    assert "Results: 1 verified.\n" in done.stdout
    board = json.loads((tmp_path / "site" / "board.json").read_text(encoding="utf-8"))
    assert {row["split"] for row in board["submissions"]} == {"test"}
