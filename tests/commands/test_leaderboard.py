"""`decabench leaderboard`. The page itself: tests/leaderboard/."""

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
