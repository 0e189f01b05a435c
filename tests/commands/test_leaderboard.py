"""`decabench leaderboard`. The page itself: tests/leaderboard/."""

from decabench.evaluator import evaluate
from decabench.results import write_results_file


def test_board(command, home, submit, tmp_path):
    for name in ("oracle", "majority"):
        folder = submit(name, ["sst", "schema"], f"submissions/{name}")
        write_results_file(folder / "results" / "validation", evaluate(folder, home=home))
    site = tmp_path / "site"
    done = command("leaderboard", "--submissions", tmp_path / "submissions", "--output", site)
    assert done.exit_code == 0
    assert done.stdout == f"Board: {(site / 'index.html').resolve().as_uri()}\n"
    page = (site / "index.html").read_text(encoding="utf-8")
    assert "oracle" in page and "majority" in page


def test_a_site_that_cannot_be_written(command, tmp_path):
    (tmp_path / "submissions").mkdir()
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
