"""`decabench review`. tests/test_workflows.py tests the workflows."""

import json
import os
import shutil
import subprocess

import pytest

from tests.sources import ROOT


def git(folder, *arguments, **options):
    who = ("-c", "user.name=somebody", "-c", "user.email=somebody@localhost")
    command = ["git", "-C", folder, *who, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout.strip()


@pytest.fixture
def board(home, submit, tmp_path):
    """A clone of a board with a submission by alice. A `request` is made on a branch."""
    submit("majority", ["sst"], "board/submissions/alice")
    folder = tmp_path / "board"
    (folder / "README.md").write_text("A board.\n")
    git(tmp_path, "init", "--quiet", "-b", "main", folder)
    commit(folder)
    git(folder, "checkout", "--quiet", "-b", "request")
    return folder


def commit(folder):
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "-m", "Change something")


@pytest.fixture
def review(command, board, home, tmp_path, monkeypatch):
    """Commit the changes of the request, review it and return the outcome. GitHub shows the file `summary`."""
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))

    def run(*options):
        commit(board)
        git(board, "checkout", "--quiet", "main")
        given = ("--submissions", board / "submissions", "--home", home, *options)
        done = command("review", "request", "request", *given)
        git(board, "checkout", "--quiet", "request")
        return done

    return run


def test_a_request_may_change_only_its_own_folder(board, review):
    (board / "submissions" / "bob").mkdir()
    (board / "submissions" / "bob" / "a").write_text("a")
    (board / "submissions" / "alice" / "submission.toml").unlink()
    (board / "README.md").write_text("My board.\n")
    done = review("--owner", "Bob", "--github")
    assert done.exit_code == 1
    assert done.stdout.splitlines() == [
        "::error file=README.md,title=request::a pull request may only change files in submissions/bob/",
        "::error file=submissions/alice/submission.toml,title=request::a pull request may only change files in "
        "submissions/bob/",
    ]
    found = json.loads(review("--owner", "carol", "--json").stdout)
    assert {
        "path": "submissions/alice/",
        "message": "your folder is submissions/carol/; move everything there",
    } in found["problems"]
    assert found["reviews"] == []


def test_a_request_without_a_submission(board, review):
    (board / "README.md").write_text("My board.\n")
    done = review()
    assert done.exit_code == 0 and done.stdout == "This request contains no submission.\n"
    (board / "submissions" / "loose.zip").write_text("")
    done = review()
    assert done.exit_code == 1 and "put the file into a folder in submissions/" in done.stdout


def test_only_what_the_request_itself_changes_counts(board, review, submit):
    """Changes merged by others since the branch was created don't count."""
    submit("first-choice", ["sst"], "board/submissions/bob")
    commit(board)
    git(board, "checkout", "--quiet", "main")
    (board / "README.md").write_text("A better board.\n")
    commit(board)
    git(board, "checkout", "--quiet", "request")
    done = review("--owner", "bob")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("## bob: ")


def test_a_request_is_data(board, review, tmp_path):
    """No name or text in a request can end a workflow command or a table cell, run code, or become a link."""
    place = board / "submissions" / "alice" / "predictions"
    (place / "$(touch ran)\n::error::forged|`x`.jsonl").write_text("")
    (board / "submissions" / "alice" / ".gitattributes").write_text("* filter=evil export-ignore\n")
    done = review("--github")
    assert done.exit_code == 1
    assert not [
        line
        for line in done.stdout.splitlines()
        if not line.startswith(("::error file=submissions/alice", "::warning file=submissions/alice"))
    ]
    summary = (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert "unknown-file" in summary and "\n::error" not in summary and "\\`x\\`" in summary
    (board / "x\n::error::forged").write_text("")
    done = review("--github")
    assert (
        "::error file=x%0A%3A%3Aerror%3A%3Aforged,title=request::a pull request may only change"
        in done.stdout
    )
    assert all(line.startswith(("::error file=", "::warning file=")) for line in done.stdout.splitlines())
    (board / "x\n::error::forged").unlink()
    os.symlink(ROOT / "pyproject.toml", place / "schema.validation.jsonl")
    done = review("--github")
    assert "title=request::send only regular files, without links or Git repositories" in done.stdout
    (place / "schema.validation.jsonl").unlink()
    git(board, "init", "--quiet", board / "submissions" / "alice" / "module")
    commit(board / "submissions" / "alice" / "module")
    done = review("--github")
    assert "file=submissions/alice/module,title=request::send only regular files" in done.stdout


def test_faults_have_their_lines(board, review, tmp_path):
    answers = board / "submissions" / "alice" / "predictions" / "sst.validation.jsonl"
    answers.write_text(answers.read_text() + '{"id": "nobody", "answer": ""}\n{"id"\n')
    done = review("--github")
    assert done.exit_code == 1
    assert (
        "::error file=submissions/alice/predictions/sst.validation.jsonl,line=33,title=unknown-id::"
        in done.stdout
    )
    assert "sst.validation.jsonl,line=34,title=bad-json::" in done.stdout
    assert "## alice: refused" in (tmp_path / "summary.md").read_text(encoding="utf-8")


def test_scores_stand_next_to_those_before_and_of_the_best_other(board, review, submit):
    git(board, "checkout", "--quiet", "main")
    submit("majority", ["sst"], "board/submissions/carol")
    rewrite(board, "carol", "first", lambda answer: "positive")
    rewrite(board, "alice", "mine", lambda answer: "negative")
    commit(board)
    git(board, "checkout", "--quiet", "-B", "request")
    rewrite(
        board,
        "alice",
        "mine",
        lambda answer: "negative" if answer["id"] != "sst.validation.0" else "positive",
    )
    [found] = json.loads(review("--json").stdout)["reviews"]
    assert found["path"] == "alice" and not found["faults"] and found["place"].startswith("not ranked")
    [sst] = [each for each in found["scores"] if each["task"] == "sst"]
    assert sst["before"] == "59.4" and sst["counts"] == "32 answers, 0 empty"
    assert sst["best"] == "40.6"  # carol's score, not the score of the replaced submission
    assert float(sst["difference"]) == pytest.approx(float(sst["score"]) - 40.6, abs=0.051)
    assert 0 <= float(sst["p"]) <= 1


def rewrite(board, folder, name, answer_of):
    """Give a submission different answers, from a model that isn't a baseline."""
    place = board / "submissions" / folder
    (place / "submission.toml").write_text(f'format = "decabench.submission/1"\nname = "{name}"\n')
    path = place / "predictions" / "sst.validation.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps({"id": one["id"], "answer": answer_of(one)}) + "\n" for one in lines))


def test_limits(board, review, home):
    (board / "submissions" / "alice" / "notes.txt").write_bytes(b"x" * 1_000_001)
    assert "it has more than 1,000 files or is larger than 1 MB" in review("--largest", "1").stdout
    assert review("--largest", "2").exit_code == 0
    assert "took more than 0.01 seconds" in review("--seconds", "0.01").stdout
    done = review("--quota", "1/30")
    assert done.exit_code == 1 and "limit of submissions (1 in 30 days)" in done.stdout
    assert review("--quota", "2/30").exit_code == 0
    assert review("--quota", "many").exit_code == 2


def test_a_broken_submission_of_the_board_blocks_nobody(board, review):
    git(board, "checkout", "--quiet", "main")
    (board / "submissions" / "old").mkdir()
    (board / "submissions" / "old" / "submission.toml").write_text("format = [")
    commit(board)
    git(board, "checkout", "--quiet", "-B", "request")
    rewrite(board, "alice", "mine", lambda answer: "negative")
    assert review().exit_code == 0


# A queue


@pytest.fixture
def queue(command, home, tmp_path):
    (tmp_path / "queue" / "alice").mkdir(parents=True)
    (tmp_path / "submissions").mkdir()

    def run(*options):
        folders = (
            "--submissions",
            tmp_path / "submissions",
            "--results",
            tmp_path / "results",
            "--home",
            home,
        )
        return command("review", "queue", tmp_path / "queue", *folders, *options)

    return run


def outcomes(tmp_path):
    return {
        path.name.partition("-mine")[2]: path.read_text() for path in (tmp_path / "results").rglob("*.md")
    }


def test_a_queue_gives_scores_back(queue, submit, tmp_path):
    submit("majority", ["sst"], "queue/alice/mine")
    (tmp_path / "queue" / "alice" / ".sending").mkdir()
    done = queue()
    assert done.exit_code == 0, done.output
    assert list(outcomes(tmp_path)) == [".md"] and "| sst | 40.6 |" in outcomes(tmp_path)[".md"]
    assert (tmp_path / "submissions" / "alice" / "mine" / "submission.toml").exists()
    assert [path.name for path in (tmp_path / "queue" / "alice").iterdir()] == [".sending"]
    assert queue().stdout == ""
    submit("majority", ["sst"], "queue/alice/mine")
    done = queue("--quota", "1/30")
    assert "limit of submissions (1 in 30 days)" in outcomes(tmp_path)[".refused.md"]
    assert (tmp_path / "submissions" / ".refused" / "alice" / "mine" / "submission.toml").exists()


@pytest.mark.parametrize("harm", ["link", "link to a folder", "repository", "itself a link"])
def test_a_queue_follows_no_link(queue, submit, tmp_path, harm):
    place = submit("majority", ["sst"], "queue/alice/mine")
    secret = tmp_path / "secret.jsonl"
    shutil.copy(place / "predictions" / "sst.validation.jsonl", secret)
    if harm == "link":
        (place / "predictions" / "sst.validation.jsonl").unlink()
        (place / "predictions" / "sst.validation.jsonl").symlink_to(secret)
    elif harm == "link to a folder":
        (place / "more").symlink_to(tmp_path)
    elif harm == "repository":
        (place / ".git").mkdir()
    else:
        shutil.move(place, tmp_path / "elsewhere")
        place.symlink_to(tmp_path / "elsewhere")
    assert queue().exit_code == 0
    assert "Send only regular files" in outcomes(tmp_path)[".refused.md"] and secret.exists()


def test_one_faulty_submission_does_not_stop_a_queue(queue, submit, tmp_path):
    place = submit("majority", ["sst"], "queue/alice/mine")
    shutil.copytree(place, tmp_path / "queue" / "bob" / "mine-2")
    (place / "submission.toml").write_text("format = [")
    done = queue()
    assert done.exit_code == 0
    assert outcomes(tmp_path).keys() == {".refused.md", "-2.md"}


def test_an_interrupted_queue_goes_on(queue, submit, tmp_path):
    submit("majority", ["sst"], "submissions/.taken/alice/mine")
    assert queue().exit_code == 0 and list(outcomes(tmp_path)) == [".md"]


def test_without_data_nothing_is_refused(queue, submit, tmp_path):
    """Missing data is the keeper's problem, so submissions wait in the queue."""
    submit("majority", ["sst"], "queue/alice/mine")
    done = queue("--home", tmp_path / "empty")
    assert done.exit_code == 3 and "decabench prepare --suite decathlon" in done.stderr
    assert not (tmp_path / "results").exists()
    assert queue().exit_code == 0 and list(outcomes(tmp_path)) == [".md"]


def test_the_template_of_a_submission_is_one(command, home, submit, tmp_path):
    answers = submit("random", ["sst"]) / "predictions" / "sst.validation.jsonl"
    shutil.copytree(ROOT / "examples" / "board" / "template", tmp_path / "mine")
    shutil.copy(answers, tmp_path / "mine" / "predictions")
    (tmp_path / "mine" / "predictions" / "README.md").unlink()
    assert command("check", tmp_path / "mine", "--home", home).stdout.endswith("mine: valid\n")
