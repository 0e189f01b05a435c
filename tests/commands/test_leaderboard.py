"""`decabench leaderboard`. The page itself: tests/leaderboard/."""

import json

import pytest

from decabench.scoring.evaluator import evaluate
from decabench.scoring.results import write_results_file


def test_board(command, home, submit, tmp_path):
    for name in ("oracle", "majority"):
        folder = submit(name, ["sst", "schema"], f"submissions/{name}")
        write_results_file(folder / "results" / "validation", evaluate(folder, home=home))
    site = tmp_path / "site"
    done = command("leaderboard", "--submissions", tmp_path / "submissions", "--output", site)
    assert done.exit_code == 0
    assert done.stdout == (
        f"Board: {(site / 'index.html').resolve().as_uri()}\nResults: 2 self-reported (not ranked).\n"
    )
    page = (site / "index.html").read_text(encoding="utf-8")
    assert "oracle" in page and "majority" in page


@pytest.fixture
def scored(home, submit, tmp_path):
    """A folder of submissions with one that is scored."""
    folder = submit("majority", ["sst"], "submissions/majority")
    write_results_file(folder / "results" / "validation", evaluate(folder, home=home))
    return tmp_path / "submissions"


def test_a_site_that_cannot_be_written(command, scored, tmp_path):
    (tmp_path / "file").touch()
    done = command(
        "leaderboard", "--submissions", tmp_path / "submissions", "--output", tmp_path / "file" / "site"
    )
    assert done.exit_code == 3
    assert "cannot be written (Not a directory)" in done.stderr and done.stderr.count("\n") == 1


def test_submissions_that_are_not_there(command, tmp_path):
    done = command("leaderboard", "--submissions", tmp_path / "nowhere", "--output", tmp_path / "site")
    assert done.exit_code == 2
    assert not (tmp_path / "site").exists()


def test_a_folder_without_results_publishes_nothing(command, home, submit, tmp_path):
    """A typo must not replace a board by an empty one."""
    site, folder = tmp_path / "site", tmp_path / "submissions"
    folder.mkdir()
    done = command("leaderboard", "--submissions", folder, "--output", site)
    assert done.exit_code == 1 and not site.exists() and done.stdout == ""
    assert f"No results were found in {folder}, nor a submission" in done.stderr
    submit("majority", ["sst"], "submissions/majority")
    done = command("leaderboard", "--submissions", folder, "--output", site)
    assert done.exit_code == 1 and not site.exists()
    assert f"decabench evaluate --submission {folder / 'majority'}" in done.stderr
    write_results_file(
        folder / "majority" / "results" / "validation", evaluate(folder / "majority", home=home)
    )
    assert command("leaderboard", "--submissions", folder, "--output", site).exit_code == 0
    done = command("leaderboard", "--submissions", site, "--output", site)  # the site itself
    assert done.exit_code == 1 and "majority" in (site / "index.html").read_text(encoding="utf-8")


def test_examples_come_from_the_prepared_data(command, home, submit, tmp_path):
    folder = submit("majority", ["schema"], "submissions/majority")
    write_results_file(folder / "results" / "validation", evaluate(folder, home=home))
    site = tmp_path / "site"
    options = ("--submissions", tmp_path / "submissions", "--output", site, "--home", home)
    data = site / "data" / "examples" / "majority-validation.js"
    assert command("leaderboard", *options).exit_code == 0
    assert "golds" in data.read_text(encoding="ascii")
    assert command("leaderboard", *options, "--examples", "none").exit_code == 0
    assert "golds" not in data.read_text(encoding="ascii")


def test_serve(command, monkeypatch, scored, tmp_path):
    from http.server import ThreadingHTTPServer
    from threading import Thread
    from urllib.request import urlopen

    seen = []

    def once(server):
        thread = Thread(target=server.handle_request)
        thread.start()
        host, port = server.server_address[:2]
        with urlopen(f"http://{host}:{port}/") as answer:
            seen.append((host, answer.read()))
        thread.join()
        raise KeyboardInterrupt

    monkeypatch.setattr(ThreadingHTTPServer, "serve_forever", once)
    site = tmp_path / "site"
    done = command(
        "leaderboard", "--submissions", tmp_path / "submissions", "--output", site, "--serve", "--port", "0"
    )
    assert done.exit_code == 0
    assert "until Ctrl-C.\nStopped.\n" in done.stdout
    assert seen == [("127.0.0.1", (site / "index.html").read_bytes())]


def test_a_port_that_is_taken(command, scored, tmp_path):
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        options = ("--submissions", tmp_path / "submissions", "--output", tmp_path / "site")
        done = command("leaderboard", *options, "--serve", "--port", port)
    assert done.exit_code != 0
    assert f"Port {port} cannot be used" in done.stderr and done.stderr.count("\n") == 1


def test_a_port_without_a_server_is_refused(command, scored, tmp_path):
    options = ("--submissions", tmp_path / "submissions", "--output", tmp_path / "site")
    done = command("leaderboard", *options, "--port", "8000")
    assert done.exit_code == 2 and "--port is for --serve" in done.stderr


def test_the_folder_of_one_submission_is_read_as_it_would_be_among_others(command, home, scored, tmp_path):
    """Its answers were not found, so that nothing was verified, and the row had the name of its file."""
    site = tmp_path / "site"
    options = ("--output", site, "--home", home)
    done = command("leaderboard", "--submissions", scored / "majority", *options)
    assert done.exit_code == 0 and "Results: 1 verified.\n" in done.stdout
    board = json.loads((site / "board.json").read_text(encoding="utf-8"))
    assert [row["results"] for row in board["submissions"]] == ["majority/results/validation/results.json"]


def test_results_that_lie_too_deep_are_named(command, home, submit, scored, tmp_path):
    folder = submit("majority", ["sst"], "deep/x/y/majority")
    write_results_file(folder / "results" / "validation", evaluate(folder, home=home))
    options = ("--output", tmp_path / "site", "--home", home)
    done = command("leaderboard", "--submissions", tmp_path / "deep", *options)
    assert done.exit_code == 1 and "not scored yet" not in done.stderr
    assert f"{folder} lies deeper: give the folder above it, --submissions {folder.parent}" in done.stderr
    (other := tmp_path / "deep" / "models" / "m" / "run" / "eval" / "out").mkdir(parents=True)
    (other / "results.json").write_text('{"acc": 1}')  # another program's
    (tmp_path / "deep" / "one").symlink_to(scored / "majority")
    done = command("leaderboard", "--submissions", tmp_path / "deep", *options)
    assert done.exit_code == 0 and f"Not read: {folder} lies too deep" in done.stderr
    done = command("leaderboard", "--submissions", tmp_path / "deep", *options, "--json")
    assert json.loads(done.stdout)["too_deep"] == ["x/y/majority"]


def test_submissions_that_nobody_scored_are_named(command, home, submit, scored, tmp_path):
    """The board used to leave them out without a word."""
    folders = [submit("majority", ["sst"], f"{scored.name}/new-{number}") for number in range(4)]
    options = ("--submissions", scored, "--output", tmp_path / "site", "--home", home)
    done = command("leaderboard", *options)
    first = ", ".join(map(str, folders[:3]))
    assert done.exit_code == 0 and f"Not scored yet: {first}, and 1 more. " in done.stderr
    found = json.loads(command("leaderboard", *options, "--json").stdout)
    assert found["not_evaluated"] == [folder.name for folder in folders]


def test_a_board_without_rows_is_not_written(command, home, scored, tmp_path):
    site = tmp_path / "site"
    options = ("--submissions", scored, "--output", site, "--home", home)
    done = command("leaderboard", *options, "--suite", "movies")
    assert done.exit_code == 1 and not site.exists() and done.stdout == ""
    assert f"None of the results in {scored} is for movies, as they were scored for decathlon" in done.stderr
    path = scored / "majority" / "results" / "validation" / "results.json"
    path.write_text("{")
    done = command("leaderboard", *options)
    assert done.exit_code == 1 and not site.exists()
    assert "majority/results/validation/results.json was refused: " in done.stderr


def test_results_of_a_task_outside_the_suite_have_no_row(command, own_task, tmp_path):
    own, home, folder = own_task(["one", "two"]), tmp_path / "home", tmp_path / "submissions" / "majority"
    assert command("prepare", "own", "--include", own, "--home", home).exit_code == 0
    options = ("--include", own, "--home", home)
    predict = ("--predictor", "majority", "--tasks", "own", "--output", folder)
    assert command("predict", *predict, *options).exit_code == 0
    assert command("evaluate", folder, "--tasks", "own", *options).exit_code == 0
    site = tmp_path / "site"
    done = command("leaderboard", "--submissions", tmp_path / "submissions", "--output", site, *options)
    assert done.exit_code == 1 and not site.exists()
    assert "they are of own, which decathlon does not have" in done.stderr


def test_rows_without_scores_are_counted(command, home, scored, submit, tmp_path):
    limited = scored / "limited"
    options = ("--predictor", "majority", "--tasks", "sst", "--home", home, "--limit", "5")
    assert command("predict", *options, "--output", limited).exit_code == 0
    failed = submit("majority", ["sst"], "submissions/failed")
    answers = failed / "predictions" / "sst.validation.jsonl"
    answers.write_text(answers.read_text().partition("\n")[0] + "\n")
    for folder in (limited, failed):
        write_results_file(folder / "results" / "validation", evaluate(folder, home=home))
    options = ("--submissions", scored, "--output", tmp_path / "site", "--home", home)
    done = command("leaderboard", *options)
    assert "Results: 1 verified, 1 partial, 1 failed.\n" in done.stdout
    done = command("leaderboard", *options, "--json")
    assert json.loads(done.stdout)["kinds"] == {"verified": 1, "partial": 1, "failed": 1}


@pytest.mark.parametrize("has_manifest", [True, False])
def test_a_file_that_may_not_be_read_refuses_its_submission_alone(
    command, home, submit, unreadable, tmp_path, has_manifest
):
    """It ended the board of all as a bug (found by a reader)."""
    for name in ("majority", "lead-3"):
        folder = submit(name, ("sst", "schema"), f"all/{name}")
        assert command("evaluate", folder, "--home", home).exit_code == 0
    if not has_manifest:
        (tmp_path / "all" / "majority" / "manifest.json").unlink()
    unreadable(tmp_path / "all" / "majority" / "predictions" / "sst.validation.jsonl")
    given = ["--submissions", tmp_path / "all", "--output", tmp_path / "site", "--home", home]
    done = command("leaderboard", *given)
    said = done.stdout + done.stderr
    assert done.exit_code == 0 and "Refused: majority/results/validation/results.json: " in said
    assert "predictions/sst.validation.jsonl cannot be read: Permission denied" in said
    assert "1 verified" in said
